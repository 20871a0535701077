"""jevcompat as a library: its own requests, its own judgement of the answers, and its own stop."""

from asking import KEYED_URL, URL, raised, report
from jevcompat.checks import Abort, Ctx, preflight
from jevcompat.client import Client
from jevcompat.validate import validate_success

client = Client(URL)
response = client.ask({"refund": {"type": "noul", "instructions": "Refund?"}}, "Money back, please.")
assert response.status == 200
asked = {"questions": {"refund": {"type": "noul"}}}
assert validate_success(asked, response) == []

context = Ctx(client, key_given=False)
preflight(context)
assert context.findings == [] and context.info["types_ok"] == {"noul"}

error = raised(Abort, lambda: preflight(Ctx(Client(URL, model="no-such-model"), key_given=False)))
assert "no-such-model" not in URL and "rejects a minimal valid request (400" in str(error)
refused = raised(Abort, lambda: preflight(Ctx(Client(KEYED_URL), key_given=False)))
assert "requires an API key (401)" in str(refused)
report(3, error, refused)

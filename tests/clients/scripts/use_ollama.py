"""ollama: what is served, what it is and what is loaded; `OLLAMA_HOST` says where."""

import asyncio

from asking import raised, report
from ollama import AsyncClient, Client, ResponseError

client = Client()
models = client.list().models
assert any(model.model == "clef-flash:latest" for model in models), models
for model in models:
    assert model.digest and model.modified_at and model.size is not None
    shown = client.show(model.model)
    assert shown.modelinfo and shown.details.family
    assert shown.capabilities

(loaded,) = {model.digest for model in client.ps().models}
assert loaded in {model.digest for model in models}
assert [model.model for model in asyncio.run(AsyncClient().list()).models] == [model.model for model in models]

error = raised(ResponseError, lambda: client.show("no-such-model"))
assert error.status_code == 404
assert error.error == 'model "no-such-model" not found, try pulling it first'
report(4, error)

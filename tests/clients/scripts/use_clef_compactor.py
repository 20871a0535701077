"""clef-compactor: passages scored and fitted into a budget, an image; `CLEF_BASE_URL` says where."""

import asyncio

from asking import KEYED_URL, QUESTIONS, TICKET, answers_without_client, assert_same, data_url, picture, raised, report
from clef_compactor import AsyncClefCompactor, ClefAPIError, ClefAuthError, ClefCompactor
from clef_compactor.core import build_questions, build_state

CHUNKS = ["Refunds take five days.", "Our office has a garden.", "Charges are listed on the invoice."]
QUERY = "When do I get my money back?"
# No encoding of that name: its own fallback, words, needs no download.
settings = {"encoding_model": "words"}

scores = answers_without_client(build_state(QUERY, CHUNKS, 512), build_questions(len(CHUNKS)))
expected = [scores[f"chunk_{number}"]["noul"] for number in (1, 2, 3)]
with ClefCompactor(**settings) as compactor:
    assert [chunk.score for chunk in compactor.score(QUERY, CHUNKS)] == expected
    result = compactor.compact(QUERY, CHUNKS, token_budget=6)
    assert len(result.kept) + len(result.dropped) == len(CHUNKS)
    assert result.usage.input_tokens > 0

    reply = compactor.client.ask(TICKET, QUESTIONS, images=[data_url(picture())])
    assert_same(reply.answers, answers_without_client(TICKET, QUESTIONS, images=[data_url(picture())]))
    assert reply.request_id

    error = raised(ClefAPIError, lambda: compactor.client.ask(TICKET, QUESTIONS, images=["data:image/png;base64,AAAA"]))
    assert error.status_code == 422
    assert error.body["errors"][0]["code"] == 5012


async def awaited():
    async with AsyncClefCompactor(**settings) as compactor:
        return await compactor.score(QUERY, CHUNKS)


assert [chunk.score for chunk in asyncio.run(awaited())] == expected

with ClefCompactor(base_url=f"{KEYED_URL}/client/v4", **settings) as compactor:
    refused = raised(ClefAuthError, lambda: compactor.score(QUERY, CHUNKS))
    assert refused.body["errors"][0]["code"] == 10000
report(4, error, refused)

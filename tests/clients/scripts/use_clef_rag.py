"""clef-rag: the same questions to its self-hosted backend (SystemOne) and to its Workers AI backend."""

import asyncio

from asking import (
    ACCOUNT,
    KEYED_URL,
    QUESTIONS,
    TICKET,
    URL,
    answers_without_client,
    assert_same,
    report,
)
from clef_rag.clef import ClefClient, ClefConfig, ClefError
from clef_rag.clef.questions import answer_to_dict, question_from_dict

questions = {name: question_from_dict(question) for name, question in QUESTIONS.items()}
workers_ai = f"{URL}/client/v4/accounts/{{account_id}}/ai/run/@cf/cloudflare"
expected = answers_without_client(TICKET, QUESTIONS)


async def ask(config, refused_status):
    async with ClefClient(config) as client:
        response = await client.ask(TICKET, questions)
        assert_same({name: answer_to_dict(answer) for name, answer in response.answers.items()}, expected)
        assert response.input_tokens > 0
        # A state that no limit of ours holds: 20,000 words.
        try:
            await client.ask(BIG, questions)
        except ClefError as error:
            assert error.status == refused_status, error
            return error
    raise AssertionError("no ClefError")


BIG = "word " * 17_000
hosted = asyncio.run(ask(ClefConfig(backend="self-hosted", cache_dir=None), 413))
cloud = asyncio.run(ask(ClefConfig(backend="workers-ai", base_url=workers_ai, account_id=ACCOUNT, cache_dir=None), 413))
assert "5021" in str(cloud)


async def refusal(config):
    async with ClefClient(config) as client:
        try:
            await client.ask(TICKET, questions)
        except ClefError as error:
            return error
    raise AssertionError("no ClefError")


strangers = (
    ClefConfig(backend="self-hosted", base_url=KEYED_URL, cache_dir=None),
    ClefConfig(backend="workers-ai", base_url=workers_ai.replace(URL, KEYED_URL), account_id=ACCOUNT, cache_dir=None),
)
for stranger in strangers:
    refused = asyncio.run(refusal(stranger))
    assert (refused.status, refused.kind) == (401, "auth")
report(2, hosted, cloud)

"""clef-evals: the strictest reader of the Workers AI envelope; `CLEF_BASE_URL` says where."""

import asyncio
import dataclasses

from asking import KEYED_URL, QUESTIONS, TICKET, answers_without_client, assert_same, data_url, picture, raised, report
from clef_evals import ClefAPIError, ClefAuthError, ClefClient, ClefConfig
from clef_evals.models import Choice, Noul, Score

refund, team, anger = QUESTIONS.values()
questions = {
    "refund": Noul(refund["instructions"], refund["criteria"]["true"], refund["criteria"]["false"]),
    "team": Choice(team["instructions"], team["criteria"]),
    "anger": Score(anger["instructions"], anger["criteria"]),
}


def read(response):
    return {
        name: {
            {"probability": "noul"}.get(key, key): value
            for key, value in dataclasses.asdict(answer).items()
            if key != "question_id"
        }
        for name, answer in response.answers.items()
    }


expected = answers_without_client(TICKET, QUESTIONS)
with ClefClient(ClefConfig.from_env()) as client:
    response = client.run(TICKET, questions)
    assert_same(read(response), expected)
    assert response.usage.input_tokens > 0 and response.usage.output_tokens == 0

    image = {"content_type": "image/png", "base64": data_url(picture()).partition(",")[2]}
    shown = answers_without_client(TICKET, QUESTIONS, images=[data_url(picture())])
    assert_same(read(client.run(TICKET, questions, images=[image])), shown)

    broken = {"content_type": "image/png", "base64": "AAAA"}
    error = raised(ClefAPIError, lambda: client.run(TICKET, questions, images=[broken]))
    assert (error.status_code, error.error_code) == (422, 5012)


async def awaited():
    async with ClefClient(ClefConfig.from_env()) as client:
        return await client.arun(TICKET, questions)


assert_same(read(asyncio.run(awaited())), expected)

with ClefClient(ClefConfig.from_env().with_overrides(base_url=f"{KEYED_URL}/client/v4")) as client:
    refused = raised(ClefAuthError, lambda: client.run(TICKET, questions))
    assert (refused.status_code, refused.error_code) == (401, 10000)
report(3, error, refused)

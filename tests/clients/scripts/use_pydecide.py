"""pydecide: its TypeSafe backend from the environment, its OpenRouter and OpenAI backends by their `base_url`."""

import asyncio
import dataclasses

from asking import (
    KEY,
    KEYED_URL,
    QUESTIONS,
    TICKET,
    URL,
    answers_without_client,
    assert_same,
    data_url,
    picture,
    raised,
    report,
)
from decide import AsyncClient, AuthError, BackendError, Choice, Client, Gate, Noul, Score
from decide.backends.openai_decisions import OpenAIDecisionsBackend
from decide.backends.openrouter import OpenRouterBackend
from decide.backends.typesafe import TypeSafeBackend


def read(response):
    return {
        name: {
            key: dict(enumerate(value)) if isinstance(value, list) else value
            for key, value in dataclasses.asdict(answer).items()
            if key != "levels" and value is not None
        }
        for name, answer in response.answers.items()
    }


refund, team, anger = QUESTIONS.values()
questions = {
    "refund": Noul(refund["instructions"], refund["criteria"]),
    "team": Choice(team["instructions"], team["criteria"]),
    "anger": Score(anger["instructions"], anger["criteria"]),
}
expected = answers_without_client(TICKET, QUESTIONS)
with Client.from_env(policy=Gate(on_error="raise")) as client:
    assert_same(read(client.decide(TICKET, questions)), expected)
    batch = client.decide_batch([TICKET, "How much is the large plan?"], questions)
    assert_same(read(batch[0]), expected)

    error = raised(BackendError, lambda: client.decide(TICKET, questions, model="no-such-model"))
    assert error.status == 400
    assert error.body["detail"]["error_type"] == "api_usage_error"


async def awaited():
    async with AsyncClient.from_env() as client:
        return await client.decide(TICKET, questions)


assert_same(read(asyncio.run(awaited())), expected)

with Client([OpenRouterBackend(KEY, base_url=f"{URL}/api")]) as client:
    image = {"type": "image_url", "image_url": {"url": data_url(picture())}}
    shown = answers_without_client([TICKET, "image 1"], QUESTIONS, images=[data_url(picture())])
    assert_same(read(client.decide([TICKET, image], questions)), shown)

with Client([OpenAIDecisionsBackend(KEY, base_url=f"{URL}/v1")]) as client:
    plain = {"team": questions["team"], "anger": questions["anger"]}
    wanted = answers_without_client(TICKET, {name: QUESTIONS[name] for name in plain})
    assert_same(read(client.decide(TICKET, plain)), wanted)

for stranger in (
    TypeSafeBackend(KEY, base_url=KEYED_URL),
    OpenRouterBackend(KEY, base_url=f"{KEYED_URL}/api"),
    OpenAIDecisionsBackend(KEY, base_url=f"{KEYED_URL}/v1"),
):
    with Client([stranger], Gate(on_error="raise")) as client:
        refused = raised(AuthError, lambda client=client: client.decide(TICKET, questions))
        assert refused.status == 401
report(6, error, refused)

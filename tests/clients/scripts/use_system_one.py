"""system-one: the HTTP backend from `SYSTEM_ONE_*`, plain and awaited, and its OpenRouter settings with an image."""

import asyncio

from asking import (
    KEY,
    KEYED_URL,
    QUESTIONS,
    TICKET,
    TOO_MANY_LEVELS,
    URL,
    answers_without_client,
    assert_same,
    data_url,
    picture,
    raised,
    report,
)
from system_one import APIError, AsyncSystemOne, AuthenticationError, OpenRouterConfig, SystemOne


def read(output):
    # It works out a noul's confidence by itself.
    return {
        name: {key: value for key, value in answer.model_dump().items() if (answer.type, key) != ("noul", "confidence")}
        for name, answer in output.answers.items()
    }


expected = answers_without_client(TICKET, QUESTIONS)
client = SystemOne()
assert_same(read(client.ask(TICKET, QUESTIONS)), expected)


async def awaited():
    return await AsyncSystemOne().ask(TICKET, QUESTIONS)


assert_same(read(asyncio.run(awaited())), expected)

openrouter = SystemOne(
    OpenRouterConfig(base_url=URL, api_key=KEY, model="typesafe/jev-latest", path="/api/alpha/decisions")
)
image = {"type": "image_url", "image_url": {"url": data_url(picture())}}
shown = answers_without_client([TICKET, "image 1"], QUESTIONS, images=[data_url(picture())])
assert_same(read(openrouter.ask([TICKET, image], QUESTIONS)), shown)

steep = {"anger": {"type": "score", "instructions": "How frustrated?", "criteria": TOO_MANY_LEVELS}}
error = raised(APIError, lambda: client.ask(TICKET, steep))
assert error.status == 422
assert '"loc":["body","questions","anger"' in error.body

stranger = SystemOne(base_url=KEYED_URL, api_key=KEY)
refused = raised(AuthenticationError, lambda: stranger.ask(TICKET, QUESTIONS))
report(3, error, refused)

"""openrouter: decisions with a `server_url` per call, an image in the state, and its System One resource."""

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
from openrouter import OpenRouter
from openrouter.errors import BadRequestResponseError, UnauthorizedResponseError

MODEL = "typesafe/jev-latest"


def read(response):
    return {name: answer.model_dump() for name, answer in response.answers.items()}


expected = answers_without_client(TICKET, QUESTIONS)
image = {"type": "image_url", "image_url": {"url": data_url(picture()), "detail": "auto"}}
shown = answers_without_client([TICKET, "image 1"], QUESTIONS, images=[data_url(picture())])
with OpenRouter(api_key=KEY) as client:
    decisions = client.alpha.decisions
    plain = decisions.create(model=MODEL, questions=QUESTIONS, state=TICKET, server_url=URL, user="a", session_id="b")
    assert_same(read(plain), expected)
    assert plain.usage.input_tokens > 0

    pictured = decisions.create(model=MODEL, questions=QUESTIONS, state=[TICKET, image], server_url=URL)
    assert_same(read(pictured), shown)

    awaited = asyncio.run(decisions.create_async(model=MODEL, questions=QUESTIONS, state=TICKET, server_url=URL))
    assert_same(read(awaited), expected)

    hosted = client.system_one.create(model="jev-latest", questions=QUESTIONS, state=TICKET, server_url=f"{URL}/api/v1")
    assert_same(read(hosted), expected)

    steep = {"anger": {"type": "score", "instructions": "How frustrated?", "criteria": TOO_MANY_LEVELS}}
    error = raised(
        BadRequestResponseError,
        lambda: decisions.create(model=MODEL, questions=steep, state=TICKET, server_url=URL),
    )
    assert error.data.error.code == 400
    assert "anger" in error.message

    refused = raised(
        UnauthorizedResponseError,
        lambda: decisions.create(model=MODEL, questions=QUESTIONS, state=TICKET, server_url=KEYED_URL),
    )
    assert refused.data.error.code == 401
report(4, error, refused)

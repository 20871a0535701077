"""clef-router: routing a prompt, and deciding with an image, on the Workers AI route by its `base_url`."""

import asyncio

from asking import (
    ACCOUNT,
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
from clef_router import AsyncClefRouter, ClefAPIError, ClefAuthError, ClefRouter
from clef_router.models import DEFAULT_QUESTIONS

settings = {"account_id": ACCOUNT, "api_token": KEY, "base_url": f"{URL}/client/v4"}


def read(decision):
    return {
        name: {key: value for key, value in answer.to_dict().items() if key != "qid"}
        for name, answer in decision.answers.items()
    }


expected = answers_without_client(TICKET, QUESTIONS)
with ClefRouter(**settings) as router:
    decision = router.decide(TICKET, QUESTIONS)
    assert_same(read(decision), expected)
    assert decision.usage.input_tokens > 0

    routed = router.route(TICKET)
    assert_same(read(routed.decision), answers_without_client(f"Prompt:\n{TICKET}", DEFAULT_QUESTIONS))

    shown = answers_without_client(TICKET, QUESTIONS, images=[data_url(picture())])
    base64_text = data_url(picture()).partition(",")[2]
    for image in (data_url(picture()), {"content_type": "image/png", "base64": base64_text}):
        assert_same(read(router.decide(TICKET, QUESTIONS, images=[image])), shown)

    error = raised(ClefAPIError, lambda: router.decide(TICKET, QUESTIONS, images=["data:image/png;base64,AAAA"]))
    assert (error.status_code, error.error_code) == (422, 5012)
    assert error.request_id


async def awaited():
    async with AsyncClefRouter(**settings) as router:
        return await router.decide(TICKET, QUESTIONS)


assert_same(read(asyncio.run(awaited())), expected)

with ClefRouter(**settings | {"base_url": f"{KEYED_URL}/client/v4"}) as router:
    refused = raised(ClefAuthError, lambda: router.decide(TICKET, QUESTIONS))
    assert (refused.status_code, refused.error_code) == (401, 10000)
report(5, error, refused)

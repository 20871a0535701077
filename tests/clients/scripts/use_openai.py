"""openai: decisions over text, over messages with an image, and awaited; `OPENAI_BASE_URL` says where."""

import asyncio

from asking import KEYED_URL, QUESTIONS, TICKET, answers_without_client, data_url, picture, raised, report
from openai import AsyncOpenAI, AuthenticationError, OpenAI, UnprocessableEntityError

MODEL = "gpt-6-luna"
team, anger = QUESTIONS["team"], QUESTIONS["anger"]
ASKED = [
    {"type": "predicate", "instructions": "Does the customer ask for money back?"},
    {
        "type": "choice",
        "name": "team",
        "instructions": team["instructions"],
        "choices": [{"value": value, "description": text} for value, text in team["criteria"].items()],
    },
    {
        "type": "choice",
        "name": "known",
        "instructions": "Is this a known customer?",
        "choices": [{"value": True}, {"value": False}, {"value": "true"}],
    },
    {
        "type": "score",
        "name": "anger",
        "instructions": anger["instructions"],
        "levels": [{"label": label} for label in anger["criteria"]],
    },
]


def check(decision):
    refund, choice, known, score = decision.answers
    assert [answer.type for answer in decision.answers] == ["predicate", "choice", "choice", "score"]
    assert [answer.name for answer in decision.answers] == [None, "team", "known", "anger"]
    assert 0 <= refund.probability <= 1
    assert [item.value for item in choice.probabilities] == list(team["criteria"])
    assert [item.value for item in known.probabilities] == [True, False, "true"]
    assert [(item.label, item.value) for item in score.probabilities] == [
        (label, level) for level, label in enumerate(anger["criteria"])
    ]
    for answer in (choice, known):
        best = max(answer.probabilities, key=lambda item: item.probability)
        assert (answer.choice, type(answer.choice)) == (best.value, type(best.value))
    for answer in (choice, known, score):
        assert abs(sum(item.probability for item in answer.probabilities) - 1) < 1e-3
        assert 0 <= answer.confidence <= 1
    assert abs(score.score - sum(item.value * item.probability for item in score.probabilities)) < 1e-3
    usage = decision.usage
    assert usage.total_tokens == usage.input_tokens > 0 and usage.output_tokens == 0
    assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (0, 0)


client = OpenAI()
check(client.decisions.create(input=TICKET, model=MODEL, questions=ASKED))

# A lone named choice is the same question in both dialects.
only = client.decisions.create(input=TICKET, model=MODEL, questions=[ASKED[1]]).answers[0]
expected = answers_without_client(TICKET, {"team": team})["team"]
assert {item.value: item.probability for item in only.probabilities} == expected["probabilities"]
assert (only.choice, only.confidence) == (expected["choice"], expected["confidence"])

parts = [
    {"type": "input_text", "text": TICKET},
    {"type": "input_image", "image_url": data_url(picture()), "detail": "low"},
    {"type": "input_json", "data": {"plan": "large"}},
]
messages = [
    {"role": "system", "content": "Judge the last message."},
    {"role": "user", "content": parts, "type": "message"},
]
check(client.decisions.create(input=messages, model=MODEL, questions=ASKED, safety_identifier="u1"))


async def awaited():
    async with AsyncOpenAI() as client:
        return await client.decisions.create(input=TICKET, model=MODEL, questions=ASKED)


check(asyncio.run(awaited()))

empty = [{"type": "choice", "instructions": "Which?", "choices": []}]
error = raised(UnprocessableEntityError, lambda: client.decisions.create(input=TICKET, model=MODEL, questions=empty))
assert error.type == "invalid_request_error"
assert "choices" in error.message
assert error.request_id

stranger = OpenAI(base_url=f"{KEYED_URL}/v1")
refused = raised(AuthenticationError, lambda: stranger.decisions.create(input=TICKET, model=MODEL, questions=ASKED))
report(4, error, refused)

"""typesafe-sdk, sync and async: every type, structured text, raw dictionaries, models of one's own, boxes refused."""

import asyncio
from collections.abc import Mapping

from asking import QUESTIONS, TICKET, answers_without_client, assert_same, raised, report
from pydantic import BaseModel
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Box,
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Score,
    SystemOneResponse,
    TypeSafeClient,
    TypeSafeUnprocessableEntityError,
    Usage,
)

STATES = ("plain text", {"subject": "Twice charged", "lines": [1, 2.5, None, True]}, ["한국어", "🙂", {"a": []}])
STRUCTURED = {
    "plain": Noul(instructions="Refund?"),
    "one sided": Noul(instructions={"task": "Refund?", "include": ["chargeback"]}, criteria={"true": ["refund me"]}),
    "criteria alone": Noul(criteria={"true": "It threatens", "false": None}),
    "환불": Choice(
        criteria={"환불 요청": "돈을 돌려받음", "🙂": None, " yes": {"says": ["yes"]}, "10": ["ten"], "2": "two"}
    ),
    "routed": Choice(instructions=["Route it.", "Pick one."], criteria={"only": None}),
    "steps": Score(instructions={"scale": "anger"}, criteria=["calm", {"label": "angry"}, ["very", "angry"]]),
    "one level": Score(criteria=["all the same"]),
}
# What the SDK sends of them.
AS_SENT = {name: question.model_dump() for name, question in STRUCTURED.items()}


class Answers(BaseModel):
    refund: NoulAnswer
    team: ChoiceAnswer


class Reply(BaseModel):
    model: str
    answers: Answers


class Fields(SystemOneResponse):
    refund: NoulAnswer


def read(response: SystemOneResponse) -> Mapping[str, object]:
    assert type(response.usage) is Usage and response.usage.output_tokens == 0
    assert response.raw_http_response.headers["x-request-id"] == response.request_id
    return {name: answer.model_dump() for name, answer in response.answers.items()}


def sync() -> BaseException:
    with TypeSafeClient() as client:
        for state in STATES:
            response = client.system_one(state, STRUCTURED)
            assert list(response.answers) == list(STRUCTURED)
            assert list(response.choices["환불"].probabilities) == ["환불 요청", "🙂", " yes", "10", "2"]
            assert response.scores["steps"].legend == {0: "calm", 1: {"label": "angry"}, 2: ["very", "angry"]}
            assert_same(read(response), answers_without_client(state, AS_SENT))
        assert_same(read(client.system_one(TICKET, QUESTIONS)), answers_without_client(TICKET, QUESTIONS))

        expected = answers_without_client(TICKET, QUESTIONS)
        reply = client.system_one(TICKET, QUESTIONS, response_model=Reply)
        assert reply.answers.refund.noul == expected["refund"]["noul"]
        assert client.system_one(TICKET, QUESTIONS, response_model=Fields).refund.noul == expected["refund"]["noul"]

        alone = answers_without_client(TICKET, QUESTIONS, x_independent=True)
        assert_same(read(client.system_one(TICKET, QUESTIONS, extra_body={"x_independent": True})), alone)

        models = client.models.list()
        assert models.request_id
        for model in models.models:
            assert client.system_one("x", QUESTIONS, model=model.name).model == model.name

        box = raised(TypeSafeUnprocessableEntityError, lambda: client.system_one(TICKET, {"where": Box()}))
        issue = box.body["detail"][0]
        assert issue["loc"][:3] == ["body", "questions", "where"], issue
        assert "box" in issue["msg"].lower(), issue
        return box


async def awaited() -> BaseException:
    async with AsyncTypeSafeClient() as client:
        responses = await asyncio.gather(*(client.system_one(state, STRUCTURED) for state in STATES))
        for response in responses:
            assert list(response.answers) == list(STRUCTURED)
            read(response)
        assert_same(read(await client.system_one(TICKET, QUESTIONS)), answers_without_client(TICKET, QUESTIONS))
        assert len((await client.models.list()).models) > 1
        try:
            await client.system_one(TICKET, {"where": Box(instructions="Where is the cat?")})
        except TypeSafeUnprocessableEntityError as error:
            return error
    raise AssertionError("no error")


report(10, sync(), asyncio.run(awaited()))

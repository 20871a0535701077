"""langchain-typesafe: a runnable asked alone, in a batch and awaited, over text and over messages."""

import asyncio
import warnings

from asking import KEYED_URL, QUESTIONS, TICKET, TOO_MANY_LEVELS, answers_without_client, assert_same, raised, report
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessage, HumanMessage
from langchain_typesafe import Choice, Noul, Score, TypeSafeClassifier
from langchain_typesafe.client import TypeSafeAuthenticationError, TypeSafeUnprocessableEntityError

warnings.simplefilter("ignore")  # the package calls itself a beta at every use

classifier = TypeSafeClassifier()
questions = {
    "refund": Noul.model_validate(QUESTIONS["refund"]),
    "team": Choice.model_validate(QUESTIONS["team"]),
    "anger": Score.model_validate(QUESTIONS["anger"]),
}
expected = answers_without_client(TICKET, QUESTIONS)
responses = [
    classifier.invoke({"state": TICKET, "questions": questions}),
    *classifier.batch([{"state": TICKET, "questions": questions}]),
    asyncio.run(classifier.ainvoke({"state": TICKET, "questions": questions})),
]
for response in responses:
    assert_same({name: answer.model_dump() for name, answer in response.answers.items()}, expected)
    assert response.request_id
    assert response.usage.input_tokens > 0

messages = [HumanMessage(TICKET), AIMessage("Which card was it?")]
talk = classifier.invoke({"state": messages, "questions": questions})
as_sent = [{"role": "user", "content": TICKET}, {"role": "assistant", "content": "Which card was it?"}]
assert_same(
    {name: answer.model_dump() for name, answer in talk.answers.items()}, answers_without_client(as_sent, QUESTIONS)
)

steep = {"anger": Score(instructions="How frustrated?", criteria=TOO_MANY_LEVELS)}
error = raised(TypeSafeUnprocessableEntityError, lambda: classifier.invoke({"state": TICKET, "questions": steep}))
assert isinstance(error, ModelInvalidRequestError)
assert error.body["detail"][0]["loc"][:3] == ["body", "questions", "anger"]

stranger = TypeSafeClassifier(base_url=KEYED_URL)
refused = raised(TypeSafeAuthenticationError, lambda: stranger.invoke({"state": TICKET, "questions": questions}))
report(4, error, refused)

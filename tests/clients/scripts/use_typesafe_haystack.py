"""typesafe-haystack: a document classifier and a text router, as a pipeline runs them."""

import asyncio

from asking import KEYED_URL, QUESTIONS, TICKET, answers_without_client, assert_same, raised, report
from haystack import Document
from haystack_integrations.components.classifiers.typesafe import TypeSafeDocumentClassifier
from haystack_integrations.components.routers.typesafe import TypeSafeTextRouter
from typesafe_sdk import TypeSafeAuthenticationError, TypeSafeBadRequestError

documents = [Document(content=TICKET), Document(content="How much is the large plan?")]
classifier = TypeSafeDocumentClassifier(QUESTIONS, raise_on_failure=True)
found = classifier.run(documents=documents)
assert not found["failed_documents"]
for document in found["documents"]:
    assert_same(document.meta["typesafe"], answers_without_client(document.content, QUESTIONS))
classifier.close()

labels = {"billing": "Payments, invoices", "sales": "New contracts"}
router = TypeSafeTextRouter(labels)
expected = answers_without_client(
    TICKET, {"route": {"type": "choice", "instructions": router.instructions, "criteria": labels}}
)
assert router.run(TICKET) == {expected["route"]["choice"]: TICKET}
assert asyncio.run(router.run_async(TICKET)) == {expected["route"]["choice"]: TICKET}

lost = TypeSafeTextRouter(labels, model="no-such-model")
error = raised(TypeSafeBadRequestError, lambda: lost.run(TICKET))
stranger = TypeSafeTextRouter(labels, api_base_url=KEYED_URL)
refused = raised(TypeSafeAuthenticationError, lambda: stranger.run(TICKET))
report(4, error, refused)

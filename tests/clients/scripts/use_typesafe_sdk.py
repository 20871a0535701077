"""typesafe-sdk: the three types and an image; `TYPESAFE_BASE_URL` alone says where."""

from asking import KEYED_URL, QUESTIONS, TICKET, answers_without_client, assert_same, data_url, picture, raised, report
from typesafe_sdk import Image, TypeSafeAuthenticationError, TypeSafeBadRequestError, TypeSafeClient

with TypeSafeClient() as client:
    names = [model.name for model in client.models.list().models]
    assert "jev-latest" in names

    response = client.system_one(TICKET, QUESTIONS)
    assert_same(response.model_dump()["answers"], answers_without_client(TICKET, QUESTIONS))
    assert response.request_id

    shown = client.system_one({"note": TICKET, "photo": Image(picture())}, QUESTIONS)
    expected = answers_without_client({"note": TICKET, "photo": "image 1"}, QUESTIONS, images=[data_url(picture())])
    assert_same(shown.model_dump()["answers"], expected)

    error = raised(TypeSafeBadRequestError, lambda: client.system_one(TICKET, QUESTIONS, model="no-such-model"))
    assert error.body["detail"]["error_type"] == "api_usage_error"
    assert "jev-latest" in str(error)

with TypeSafeClient(base_url=KEYED_URL) as client:
    refused = raised(TypeSafeAuthenticationError, lambda: client.system_one(TICKET, QUESTIONS))
report(3, error, refused)

"""typesafe-sdk: bodies compressed with zstd and not, JSON and multipart, answer the same."""

import httpx2
from asking import QUESTIONS, TICKET, picture, report
from typesafe_sdk import Image, TypeSafeClient

sent = []


def client(**settings):
    hooks = {"request": [lambda request: sent.append(request.headers)]}
    return TypeSafeClient(http_client=httpx2.Client(timeout=60, event_hooks=hooks), **settings)


LONG = TICKET * 20
with client() as compressing, client(compression=False) as plain:
    for state in (LONG, {"note": LONG, "photo": Image(picture())}, [Image(picture(320, 240)), LONG]):
        answers = [each.system_one(state, QUESTIONS).model_dump()["answers"] for each in (compressing, plain)]
        assert answers[0] == answers[1]
        zstd, bare = sent[-2:]
        assert zstd["content-encoding"] == "zstd" and "content-encoding" not in bare
        assert zstd["content-type"].partition(";")[0] == bare["content-type"].partition(";")[0]
        assert int(zstd["content-length"]) < int(bare["content-length"])
    assert compressing.system_one("short", QUESTIONS).answers
    assert "content-encoding" not in sent[-1]
assert {headers["content-type"].partition(";")[0] for headers in sent} == {"application/json", "multipart/form-data"}
report(7)

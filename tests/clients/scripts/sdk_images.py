"""typesafe-sdk: images as assets, wherever its documentation lets them stand."""

import asyncio
import io
from pathlib import Path

import PIL.Image
from asking import QUESTIONS, TICKET, answers_without_client, assert_same, data_url, picture, raised, report
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Choice,
    Image,
    Noul,
    Score,
    TypeSafeAPIError,
    TypeSafeClient,
    TypeSafeUnprocessableEntityError,
)

FIRST, SECOND = picture(), picture(96, 40)
URLS = [data_url(FIRST), data_url(SECOND)]


def read(response):
    return {name: answer.model_dump() for name, answer in response.answers.items()}


def everywhere(first, second):
    """Questions with images in their instructions and in the criteria of each type."""
    return {
        "same": Noul(instructions=["Same as", first], criteria={"true": {"like": second}, "false": "not so"}),
        "kind": Choice(instructions=first, criteria={"this": second, "other": None}),
        "size": Score(instructions="How large?", criteria=[first, {"as": [second]}]),
    }


def sync():
    first, second = Image(FIRST), Image(SECOND)
    with TypeSafeClient() as client:
        # The state: an image alone, inside an object, inside an array, twice the same.
        for state, as_text, urls in (
            (first, "image 1", URLS[:1]),
            ({"note": TICKET, "photo": first}, {"note": TICKET, "photo": "image 1"}, URLS[:1]),
            ([TICKET, first, [second]], [TICKET, "image 1", ["image 2"]], URLS),
            ([first, second, first], ["image 1", "image 2", "image 1"], URLS),
        ):
            assert_same(
                read(client.system_one(state, QUESTIONS)), answers_without_client(as_text, QUESTIONS, images=urls)
            )

        # Instructions and criteria, all at once.
        as_text = {name: asked.model_dump() for name, asked in everywhere("image 1", "image 2").items()}
        expected = answers_without_client(TICKET, as_text, images=URLS)
        answered = client.system_one(TICKET, everywhere(first, second))
        assert_same(
            {name: {**answer, "legend": None} for name, answer in read(answered).items()},
            {name: {**answer, "legend": None} for name, answer in expected.items()},
        )

        # Inside longer strings, attached; and under names of one's own.
        expected = answers_without_client("See image 1, then image 2.", QUESTIONS, images=URLS)
        with client.attach_assets([first, second]):
            assert_same(read(client.system_one(f"See {first}, then {second}.", QUESTIONS)), expected)
        named = {"photo-a": first, "photo-b": second}
        assert_same(read(client.system_one("See photo-a, then photo-b.", QUESTIONS, assets=named)), expected)

        # JSON assets, as the API takes them without multipart.
        body = {"assets": {"<cat>": {"type": "image", "format": "png", "data_base64": URLS[0].partition(",")[2]}}}
        assert_same(
            read(client.system_one("A <cat>", QUESTIONS, extra_body=body)),
            answers_without_client("A image 1", QUESTIONS, images=URLS[:1]),
        )

        # From a path, from base64, from Pillow; a WebP, whose type the SDK does not know.
        Path("first.png").write_bytes(FIRST)
        webp, jpeg = io.BytesIO(), PIL.Image.open(io.BytesIO(FIRST))
        jpeg.save(webp, "webp", lossless=True)
        alone = answers_without_client("image 1", QUESTIONS, images=URLS[:1])
        for image in (Image(Path("first.png")), Image.from_base64(URLS[0].partition(",")[2]), Image(webp.getvalue())):
            assert_same(read(client.system_one(image, QUESTIONS)), alone)
        assert client.system_one(Image.from_pil(jpeg), QUESTIONS).answers

        broken = raised(TypeSafeUnprocessableEntityError, lambda: client.system_one(Image(b"no image"), QUESTIONS))
        assert broken.body["detail"][0]["loc"][0] == "body"
        unused = {"assets": {"<dog>": {"type": "image", "format": "png", "data_base64": "AAAA"}}}
        idle = raised(TypeSafeUnprocessableEntityError, lambda: client.system_one(TICKET, QUESTIONS, extra_body=unused))
        many = [Image(picture(32 + number)) for number in range(5)]
        crowd = raised(TypeSafeAPIError, lambda: client.system_one(many, QUESTIONS))
        assert crowd.status == 413 and "4" in str(crowd) and "5" in str(crowd)
        return broken, idle, crowd


async def awaited():
    async with AsyncTypeSafeClient() as client:
        state = {"photos": [Image(FIRST), Image(SECOND)]}
        response = await client.system_one(state, QUESTIONS)
        expected = answers_without_client({"photos": ["image 1", "image 2"]}, QUESTIONS, images=URLS)
        assert_same(read(response), expected)


errors = sync()
asyncio.run(awaited())
report(12, *errors)

"""jev-grep: the command over a file of lines, and its runtime with an image in the state."""

import asyncio
import base64
import io
import json
import os
from pathlib import Path

from asking import KEYED_URL, TICKET, answers_without_client, assert_same, picture, report
from jevkit_runtime import (
    PROVIDERS,
    Choice,
    Client,
    Image,
    Noul,
    ProviderError,
    ProviderFatal,
    Score,
    Settings,
    resolve,
)
from jgrep.cli import main, question

lines = [TICKET, "The weather is fine."]
Path("lines.txt").write_text("\n".join(lines) + "\n")
out, err = io.StringIO(), io.StringIO()
code = main(["--no-cache", "-p", "0", "--json", "about money", "lines.txt"], out=out, err=err)
assert code == 0, err.getvalue()
matches = [json.loads(line) for line in out.getvalue().splitlines()]
assert [match["text"] for match in matches] == lines
for match in matches:
    asked = {"d0": question("about money").body()}
    assert match["p"] == answers_without_client(match["text"], asked)["d0"]["noul"]

out, err = io.StringIO(), io.StringIO()
assert main(["--no-cache", "--model", "no-such-model", "about money", "lines.txt"], out=out, err=err) == 2
assert "HTTP 400" in err.getvalue() and "jev-latest" in err.getvalue(), err.getvalue()


async def runtime():
    image = Image(picture(320, 288))
    prepared = image.prepare()
    questions = {
        "map": Noul("Is this a map?"),
        "kind": Choice("What is it?", ["photo", "drawing"]),
        "size": Score("How busy is it?", levels=("calm", "busy")),
    }
    async with Client(resolve(PROVIDERS)) as client:
        answers = await client.ask({"photo": image}, questions)
    keyed = Settings.from_env(os.environ | {"JEV_GATEWAY_URL": f"{KEYED_URL}/v1/systemone"})
    backends = (resolve(PROVIDERS, model="no-such-model"), resolve(PROVIDERS, settings=keyed))
    errors = []
    for backend, kind in zip(backends, (ProviderError, ProviderFatal), strict=True):
        async with Client(backend) as client:
            try:
                await client.ask(TICKET, questions)
            except kind as error:
                errors.append(error)
    return prepared.data, questions, answers, errors


data, questions, answers, errors = asyncio.run(runtime())
assert [error.status for error in errors] == [400, 401]
as_sent = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
expected = answers_without_client(
    {"photo": "image 1"}, {name: asked.body() for name, asked in questions.items()}, images=[as_sent]
)
assert_same(dict(answers), expected)
report(4, *errors)

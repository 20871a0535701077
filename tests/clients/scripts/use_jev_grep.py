"""jev-grep: the command over a file of lines, and its runtime with an image in the state."""

import asyncio
import base64
import io
import json
from pathlib import Path

from asking import TICKET, answers_without_client, assert_same, picture, report
from jevkit_runtime import PROVIDERS, Choice, Client, Image, Noul, ProviderError, Score, resolve
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
    async with Client(resolve(PROVIDERS, model="no-such-model")) as client:
        try:
            await client.ask(TICKET, questions)
        except ProviderError as error:
            return prepared.data, questions, answers, error
    raise AssertionError("no ProviderError")


data, questions, answers, error = asyncio.run(runtime())
assert error.status == 400
as_sent = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
expected = answers_without_client(
    {"photo": "image 1"}, {name: asked.body() for name, asked in questions.items()}, images=[as_sent]
)
assert_same(dict(answers), expected)
report(4, error)

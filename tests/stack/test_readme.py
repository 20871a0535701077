"""What the README shows is run as it stands, but for the ports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.invariants import assert_answer

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def block(language: str, holding: str) -> str:
    """The one code block of a language that holds a text."""
    [found] = [text for text in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if holding in text]
    return found


def run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_first_request(stack):
    command = block("sh", "/v1/systemone -d").replace("http://127.0.0.1:8080", stack.frontend)
    request = json.loads(re.search(r"-d '(.*)'", command, re.DOTALL)[1])
    assert_answer(request, json.loads(run(["bash", "-c", command])))
    shown = json.loads(block("json", '"answers"'))
    assert_answer(request, shown)


def test_tritonclient(stack):
    code = block("python", "tritonclient").replace("127.0.0.1:8001", f"127.0.0.1:{stack.ports.grpc}")
    assert "'type': 'noul'" in run([sys.executable, "-c", code])


def test_kserve(stack):
    command = block("sh", "/v2/models/clef/infer").replace("127.0.0.1:8000", f"127.0.0.1:{stack.ports.http}")
    [output] = json.loads(run(["bash", "-c", command]))["outputs"]
    assert json.loads(output["data"][0])["answers"]["outage"]["type"] == "noul"

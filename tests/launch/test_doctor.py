"""The doctor on this machine as it is, and on one that lacks something."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from clef.inspection import Inspected
from clef.settings import ModelSettings
from launch.doctor import configuration, machine, release
from launch.doctor.finding import Finding
from launch.published import PUBLISHED
from launch.releases import RELEASES, KnownRelease
from launch.triton import REPOSITORY_ROOT
from tests.golden_cases import RELEASE
from tests.launch.test_triton import installed
from tests.stack.running import free_ports

PORTS = ("FRONTEND_PORT", "TRITON_HTTP_PORT", "TRITON_GRPC_PORT", "TRITON_METRICS_PORT")
COMMAND = [sys.executable, "-m", "launch", "doctor"]
FLASH = PUBLISHED["clef-flash"]
WHOLE = Inspected(trunk=9_400_000_000, head=120_000_000)
H200 = "NVIDIA H200, 580.95.05, 143771, {used}"


@pytest.fixture
def environment() -> dict[str, str]:
    """Without settings of whoever runs the tests, and with free ports."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("CLEF_", "SYSTEMONE_"))}
    return own | {name: str(port) for name, port in zip(PORTS, free_ports(4), strict=True)}


def doctor(environment: dict[str, str], *before: str, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
    command = [*before, *COMMAND, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    assert finding.level == "ok" or finding.advice, "what to do about it"
    return finding


def test_a_machine_that_lacks_nothing(environment: dict[str, str]) -> None:
    status, said = doctor(environment)
    assert status == 0
    assert said.endswith("everything is well\n")
    about = [line[6:20].strip() for line in said.splitlines() if line.startswith("ok")]
    assert about == [
        *("settings", "Python", "Triton", "GPU", "CUDA kernels", "shared memory", "release", "memory", "ports"),
    ]


def test_the_golden_release_is_right_and_means_nothing(environment: dict[str, str]) -> None:
    status, said = doctor(environment | {"CLEF_RELEASE": str(RELEASE)})
    assert status == 0
    assert "warn  origin         random weights: its answers mean nothing" in said
    assert "0 failed, 1 warned" in said


def test_everything_that_is_wrong_is_said_at_once(environment: dict[str, str], tmp_path: Path) -> None:
    port = int(environment["FRONTEND_PORT"])
    wrong = {
        "CLEF_DIGITS": "many",
        "CLEF_RELEASE": str(tmp_path),
        "CLEF_TRITON": str(tmp_path),
        "CLEF_DEVICE": "cuda:0",
    }
    with socket.create_server(("127.0.0.1", port)):
        status, said = doctor(environment | wrong | {"PATH": "/nowhere", "CLEF_MAX_LENGHT": "7"})
    assert status == 1
    assert [line[6:20].strip() for line in said.splitlines() if line.startswith("fail")] == [
        *("settings", "Triton", "GPU", "release", "ports"),
    ]
    assert "CLEF_DIGITS: " in said
    assert "warn  settings       CLEF_MAX_LENGHT is set, and nothing reads it." in said
    assert f"Port {port} is in use by another program." in said
    assert "→ FRONTEND_PORT moves it, for instance FRONTEND_PORT=" in said
    assert "5 failed, 1 warned" in said


@pytest.mark.parametrize(
    ("size", "status", "shown"),
    [
        ("8m", 1, "fail  shared memory  8 MiB free in /dev/shm; one large request needs 29"),
        ("64m", 0, "warn  shared memory  64 MiB free in /dev/shm: the images of a request are held to 1.4 megapixels"),
        ("2g", 0, "ok    shared memory  2048 MiB free in /dev/shm"),
    ],
)
def test_a_small_shared_memory(environment: dict[str, str], size: str, status: int, shown: str) -> None:
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    apart = ["unshare", "--mount" if os.getuid() == 0 else "-rm", "sh", "-c", mount, "sh"]
    found, said = doctor(environment, *apart)
    assert found == status
    assert shown in said


def test_ports_of_a_service_that_runs_are_no_fault(environment: dict[str, str]) -> None:
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", int(environment["FRONTEND_PORT"])), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status, said = doctor(environment)
        server.shutdown()
    assert status == 0
    assert "in use by a service that runs already and is healthy" in said


def test_inside_the_image_there_is_no_frontend(environment: dict[str, str]) -> None:
    code = "import sys; sys.modules['frontend'] = None; from launch.__main__ import app; app(['doctor'])"
    own = environment | {"SYSTEMONE_KEYS": "keys.json"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY_ROOT, env=own, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ports" not in done.stdout
    assert "SYSTEMONE_KEYS" not in done.stdout


class TestConfiguration:
    def test_every_documented_variable_is_known(self) -> None:
        assert {"CLEF_RELEASE", "CLEF_DEVICE", "CLEF_MAX_LENGTH", "CLEF_TRITON", "SYSTEMONE_KEYS"} <= (
            configuration.known_variables()
        )

    def test_a_program_that_does_not_run(self, tmp_path: Path) -> None:
        program = installed(tmp_path / "triton") / "bin" / "tritonserver"
        program.write_text("#!/bin/sh\necho 'libdcgm.so.4: cannot open shared object file' >&2; exit 127\n")
        found = configuration.triton(str(program))
        assert found.level == "fail"
        assert "does not run: libdcgm.so.4: cannot open" in found.text

    def test_a_numpy_that_the_stubs_crash_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(configuration, "_version", lambda package: "2.4.0")
        found = configuration.triton("")
        assert found.level == "fail"
        assert "numpy 2.4.0" in found.text

    def test_packages_that_are_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(configuration, "SHOWN_PACKAGES", ("numpy", "no-such-package"))
        found = configuration.python()
        assert (found.level, "not installed: no-such-package" in found.text) == ("fail", True)

    def test_a_python_of_no_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "prefix", sys.base_prefix)
        assert configuration.python().level == "fail"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi on the path; the card is PyTorch's too."""
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    write(program, f"echo '{H200.format(used=7)}'")
    return program


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


class TestCard:
    def test_one_that_pytorch_has_no_cuda_for(self, smi: Path) -> None:
        found, card = machine.card("auto")
        assert found.level == "fail"
        assert "NVIDIA H200, 151 GB, driver 580.95.05: PyTorch" in found.text
        assert "is a build for CPUs" in found.text
        assert card is not None

    def test_one_that_is_used(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "_torch_trouble", lambda index: None)
        write(smi, f"echo '{H200.format(used=7)}'; echo '{H200.format(used=8)}'")
        assert machine.card("auto")[0].text == "NVIDIA H200, 151 GB, driver 580.95.05 (the first of 2)"
        assert machine.card("cuda:1")[1] == machine.Card("NVIDIA H200", "580.95.05", 143771 << 20, 8 << 20)
        found, card = machine.card("cuda:2")
        assert (found.level, card) == ("fail", None)

    def test_one_that_is_not_used(self, smi: Path) -> None:
        found, card = machine.card("cpu")
        assert (found.level, card) == ("ok", None)

    def test_a_driver_that_fails(self, smi: Path) -> None:
        write(smi, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
        found, card = machine.card("auto")
        assert (found.level, card) == ("fail", None)
        assert "Driver/library version mismatch" in found.text

    def test_its_kernels(self) -> None:
        assert machine.kernels(False, False).level == "ok"
        found = machine.kernels(True, False)
        assert found.level == "fail"
        assert found.advice == "Install requirements/gpu.txt, or set CLEF_ALLOW_SLOW_KERNELS=1 to serve slowly."
        assert machine.kernels(True, True).level == "warn"

    @pytest.mark.parametrize(
        ("gigabytes", "used", "level"), [(10, 0, "fail"), (24, 0, "warn"), (25, 0, "ok"), (25, 4, "warn")]
    )
    def test_what_fits_on_it(self, gigabytes: int, used: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_bytes", lambda: 30_000_000_000)
        card = machine.Card("card", "580", int(gigabytes * 1e9), int(used * 1e9))
        found = machine.memory(WHOLE, FLASH.text, ModelSettings(release=RELEASE), card)
        assert found.level == level
        assert "weights 19.3 GB, computed at once 3.1, states 1.1; card has" in found.text

    def test_weights_pass_through_the_hosts_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_bytes", lambda: 8_000_000_000)
        card = machine.Card("card", "580", 80_000_000_000, 0)
        found = machine.memory(WHOLE, FLASH.text, ModelSettings(release=RELEASE), card)
        assert (found.level, "through which the weights pass, 8.0 GB" in found.text) == ("warn", True)


@pytest.mark.parametrize(("limit", "level"), [("max", "ok"), ("30000000000", "fail"), ("50000000000", "ok")])
def test_memory_on_a_cpu_is_this_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, level: str
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  90000000 kB\nMemAvailable:  60000000 kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("1000000000\n")
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    found = machine.memory(WHOLE, FLASH.text, ModelSettings(release=RELEASE), None)
    assert found.level == level
    assert "weights 38.1 GB" in found.text


class TestRelease:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        copy = shutil.copytree(RELEASE, tmp_path / "release")
        (copy / "RANDOM_WEIGHTS.txt").unlink()
        return copy

    @pytest.fixture
    def known(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> KnownRelease:
        """The golden release, as if it were one that is published."""
        digests = {}
        for file in folder.iterdir():
            done = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True)
            digests[file.name] = done.stdout.split()[0]
        published = KnownRelease("Someone/golden", "c0ffee" * 6 + "c0ff", digests)
        monkeypatch.setitem(RELEASES, "golden", published)
        return published

    def test_one_that_is_right(self, folder: Path) -> None:
        finding, weights = release.weights(folder)
        assert (finding.level, weights) == ("ok", Inspected(trunk=723_248, head=309_956))

    def test_one_that_is_cut_short(self, folder: Path) -> None:
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[:-1])
        finding, weights = release.weights(folder)
        assert (finding.level, weights) == ("fail", None)
        assert "model.safetensors is cut short or damaged" in finding.text

    def test_one_of_another_shape(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["intermediate_size"] *= 2
        (folder / "config.json").write_text(json.dumps(config))
        finding, _ = release.weights(folder)
        assert finding.level == "fail"
        assert "mlp.down_proj.weight is [64, " in finding.text

    def test_another_ones_tokenizer(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"image_token_id": 3}))
        assert release.tokenizer(folder).level == "fail"

    def test_a_tokenizer_that_reads_otherwise_than_transformers(self, folder: Path) -> None:
        content = json.loads((folder / "tokenizer.json").read_text("utf-8")) | {"normalizer": None}
        (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
        found = release.tokenizer(folder)
        assert (found.level, "otherwise than transformers'" in found.text) == ("fail", True)

    def test_one_that_nobody_knows(self, folder: Path) -> None:
        finding = only(release.origin(folder))
        assert (finding.level, "no revision recorded" in finding.text) == ("warn", True)

    def test_a_published_one_that_was_downloaded(self, folder: Path, known: KnownRelease) -> None:
        (folder / ".revision").write_text(f"{known.revision}\n")
        finding = only(release.origin(folder))
        assert finding.level == "ok"
        assert "Someone/golden at c0ffeec0ffee" in finding.text

    def test_a_published_one_that_came_another_way(self, folder: Path, known: KnownRelease) -> None:
        finding = only(release.origin(folder))
        assert finding.level == "warn"
        assert "python -m launch download golden" in finding.advice

    def test_a_published_one_with_another_file(self, folder: Path, known: KnownRelease) -> None:
        (folder / "tokenizer_config.json").write_text("{}")
        (folder / "chat_template.jinja").unlink()
        (folder / ".revision").write_text(f"{known.revision}\n")
        finding = only(release.origin(folder))
        assert finding.level == "fail"
        assert "chat_template.jinja, tokenizer_config.json" in finding.text


def test_the_published_releases_are_told_apart_by_their_configuration() -> None:
    assert len({published.sha256["config.json"] for published in RELEASES.values()}) == len(RELEASES)

"""Finding a server, and the one in the wheel started for real with a model that says what its stub sees."""

import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

import launch.triton
from launch.errors import LaunchError
from launch.process import Child
from launch.shm import SHM, Regions
from launch.triton import REPOSITORY_ROOT, STUB, TritonPorts, TritonServer, write_path_file
from tests.stack.running import free_ports

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils
import launch

class TritonPythonModel:
    def execute(self, requests):
        where = np.array([np.__file__, launch.__file__], dtype=np.object_)
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor("TEXT", pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()),
                pb_utils.Tensor("FILES", where),
            ])
            for request in requests
        ]
"""
CONFIG = """
backend: "python"
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }, { name: "FILES" data_type: TYPE_STRING dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""


def installed(root: Path, python: str = RUNNING) -> Path:
    """A folder as of an installed Triton, whose stub is for a Python; the files are not run."""
    for path, content in (("bin/tritonserver", ""), (f"backends/python/{STUB}", f"\0libpython{python}.so.1.0\0")):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(content)
        (root / path).chmod(0o755)
    return root


def test_the_setting_may_name_the_program_or_its_folder(tmp_path: Path) -> None:
    root = installed(tmp_path / "triton")
    for setting in (root, root / "bin", root / "bin" / "tritonserver"):
        assert TritonServer.find(str(setting)).program == root / "bin" / "tritonserver"


def test_a_setting_that_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"CLEF_TRITON=.* is no tritonserver"):
        TritonServer.find(str(tmp_path))


def test_a_program_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = installed(tmp_path / "triton")
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = TritonServer.find()
    assert found.program == root / "bin" / "tritonserver"
    assert f"--backend-directory={root / 'backends'}" in command_of(found)


def test_the_images_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.triton, "IMAGE_ROOT", installed(tmp_path / "triton"))
    assert TritonServer.find().program == tmp_path / "triton" / "bin" / "tritonserver"


def test_a_stub_for_another_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=rf"built for Python 3\.8, and this environment is Python {RUNNING}"):
        TritonServer.find(str(installed(tmp_path / "triton", python="3.8")))


def test_a_server_without_its_python_backend_is_refused(tmp_path: Path) -> None:
    root = installed(tmp_path / "triton")
    (root / "backends" / "python" / STUB).unlink()
    with pytest.raises(LaunchError, match="has no Python backend"):
        TritonServer.find(str(root))


def test_a_python_without_a_shared_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: None)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(LaunchError, match=rf"has no shared library \(libpython{RUNNING}\.so\.1\.0\).*apt-get install"):
        TritonServer.find(cache=tmp_path)


def test_no_server_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise launch.triton.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    with pytest.raises(LaunchError, match=r"requirements/embedded-triton\.txt"):
        TritonServer.find(cache=tmp_path)


def test_the_wheels_backend_is_unpacked_once(tmp_path: Path) -> None:
    backends = TritonServer.find(cache=tmp_path).backends
    assert os.access(backends / "python" / STUB, os.X_OK)
    (backends / "python" / "mark").touch()
    assert TritonServer.find(cache=tmp_path).backends == backends
    assert (backends / "python" / "mark").exists()
    assert list(backends.parent.iterdir()) == [backends]


def test_every_listener_is_on_loopback() -> None:
    command = command_of(TritonServer.find())
    assert {part for part in command if "address" in part} == {
        f"--{name}-address=127.0.0.1" for name in ("http", "grpc", "metrics")
    }
    assert {"--http-port=1", "--grpc-port=2", "--metrics-port=3", "--model-control-mode=none"} <= set(command)


def test_the_launcher_and_the_image_close_the_same() -> None:
    serve = runpy.run_path(str(REPOSITORY_ROOT / "docker/triton/serve.py"))
    launched, image = closed_by(command_of(TritonServer.find())), closed_by(serve["command"]([]))
    assert {option: apis for option, (apis, _) in launched.items()} == {
        "--http-restricted-api": "model-repository,shared-memory,trace,logging",
        "--grpc-restricted-protocol": "model-repository,shared-memory,trace,logging",
    }
    assert {option: apis for option, (apis, _) in image.items()} == {
        option: apis for option, (apis, _) in launched.items()
    }
    assert {key for _, key in launched.values()}.isdisjoint(key for _, key in image.values()), "a key of each start's"


def closed_by(command: list[str]) -> dict[str, tuple[str, str]]:
    """What each option about restrictions closes, and the key that would open it."""
    options = (part.split("=", 1) for part in command if "-restricted-" in part)
    return {name: (value.split(":")[0], value.split("=")[1]) for name, value in options}


def test_the_environment_leads_to_this_python() -> None:
    environment = TritonServer.find().environment({"PATH": "/bin", "LD_LIBRARY_PATH": "/mine", "PYTHONHOME": "/else"})
    assert environment["PATH"] == f"{sys.prefix}/bin:/bin"
    first, *_, last = environment["LD_LIBRARY_PATH"].split(":")
    assert (Path(first) / f"libpython{RUNNING}.so.1.0").exists()
    assert last == "/mine"
    assert "PYTHONHOME" not in environment
    assert environment["GOMP_SPINCOUNT"] == "10000"
    assert TritonServer.find().environment({"GOMP_SPINCOUNT": "7"})["GOMP_SPINCOUNT"] == "7"


def test_the_path_file_brings_the_repository_to_every_python_of_the_environment(tmp_path: Path) -> None:
    path_file = write_path_file()
    written = path_file.stat().st_mtime_ns
    assert write_path_file().stat().st_mtime_ns == written
    found = subprocess.run(
        [sys.executable, "-I", "-c", "import launch; print(launch.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).parent.parent == REPOSITORY_ROOT


def command_of(server: TritonServer) -> list[str]:
    return server.command(Path("models"), TritonPorts(1, 2, 3), "prefix_")


def test_the_response_cache_is_off_unless_it_has_a_size() -> None:
    server = TritonServer(Path("/opt/tritonserver/bin/tritonserver"), Path("backends"), ())
    assert not [option for option in command_of(server) if option.startswith("--cache")]
    command = server.command(Path("models"), TritonPorts(1, 2, 3), "prefix_", response_cache_bytes=4096)
    assert {"--cache-config=local,size=4096", "--cache-directory=/opt/tritonserver/caches"} < set(command)


@pytest.mark.xdist_group("servers")
def test_a_real_server_answers_from_this_environment_and_leaves_nothing(tmp_path: Path) -> None:
    model = tmp_path / "models" / "where"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    (model / "1" / "model.py").write_text(MODEL)
    write_path_file()
    ports = TritonPorts(*free_ports(3))
    with Regions.claim(tmp_path / "locks") as regions:
        found = TritonServer.find()
        command = found.command(tmp_path / "models", ports, regions.prefix, exit_timeout_s=10)
        child = Child("triton", command, found.environment(), tmp_path / "log", keep_open=[regions.descriptor])
        child.start()
        try:
            with triton_grpc.InferenceServerClient(f"127.0.0.1:{ports.grpc}") as client:
                wait_until(lambda: child.has_ended() or is_ready(client))
                assert child.ended() is None, (tmp_path / "log").read_text()
                text = triton_grpc.InferInput("TEXT", [1], "BYTES")
                text.set_data_from_numpy(np.array(["añb\0".encode()], dtype=np.object_))
                answer = client.infer("where", [text])
                assert client.get_server_metadata() and client.get_inference_statistics("where")
                for closed in (
                    client.get_model_repository_index,
                    client.get_system_shared_memory_status,
                    client.get_trace_settings,
                    client.get_log_settings,
                ):
                    with pytest.raises(InferenceServerException, match="protocol is restricted"):
                        closed()
            numpy_file, launch_file = (Path(file.decode()) for file in answer.as_numpy("FILES"))
            assert answer.as_numpy("TEXT")[0] == "añb\0".encode()
            assert numpy_file.is_relative_to(sys.prefix)
            assert launch_file == Path(launch.__file__)
            assert list(SHM.glob(f"{regions.prefix}*")), "the prefix of the regions is not honoured"
            [server] = [
                process for process in psutil.Process().children() if str(ports.grpc) in " ".join(process.cmdline())
            ]
            processes = [server, *(process for process in server.children(recursive=True) if is_tritons(process))]
            assert len(processes) == 2
            child.ask_to_end()
            wait_until(child.has_ended)
            assert child.ended() == "ended with exit status 0"
        finally:
            child.kill()
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive
    assert not list(SHM.glob(f"{regions.prefix}*"))


def is_ready(client: triton_grpc.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready())
    except InferenceServerException:
        return False


def is_tritons(process: psutil.Process) -> bool:
    return process.name().startswith("triton")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)

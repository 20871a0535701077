"""Finding a Triton Inference Server on this machine, and what it takes to run it.

Three places, in this order: the setting `CLEF_TRITON` (a `tritonserver` program, or the folder that holds `bin/` and
`backends/`); `tritonserver` on `PATH` or in `/opt/tritonserver/bin`, as in NVIDIA's images; the server inside the
`nvidia-pytriton` wheel of this environment, whose Python backend is unpacked under the cache folder with the stub of
the running Python.

A stub runs isolated: it ignores `PYTHONPATH` and takes its packages from the first `python3` on `PATH`. So `PATH`
begins with this environment's `bin`, and the repository's root reaches the stubs through a `.pth` file in it.
"""

import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from launch.errors import LaunchError
from launch.restrictions import restrictions

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent
CACHE = REPOSITORY_ROOT / ".cache"
IMAGE_ROOT = Path("/opt/tritonserver")
STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class TritonPorts:
    """Where Triton listens on the loopback address."""

    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True)
class TritonServer:
    """A server program, the folder of its backends, and those of the libraries that it needs."""

    program: Path
    backends: Path
    libraries: tuple[Path, ...]
    embedded: bool = False
    """Whether it is the one inside the `nvidia-pytriton` wheel."""

    @classmethod
    def find(cls, setting: str | None = None, cache: Path = CACHE) -> Self:
        """The server to run. `setting` is `CLEF_TRITON`; None or empty looks in the usual places.

        Raises LaunchError where there is none, or where its stub is not made for the running Python.
        """
        if setting:
            return cls._installed(_program_of(Path(setting).expanduser()))
        on_path = shutil.which("tritonserver") or shutil.which("tritonserver", path=str(IMAGE_ROOT / "bin"))
        if on_path:
            return cls._installed(Path(on_path).resolve())
        return cls._embedded(cache)

    @classmethod
    def _installed(cls, program: Path) -> Self:
        backends = program.parent.parent / "backends"
        stub = backends / "python" / STUB
        if not stub.is_file():
            raise LaunchError(
                f"{program} has no Python backend: there is no {stub}. Install a Triton with its Python backend (the "
                f"images nvcr.io/nvidia/tritonserver:*-py3 have it), or point CLEF_TRITON to another."
            )
        _check_python(stub)
        return cls(program, backends, (_python_library_folder(),))

    @classmethod
    def _embedded(cls, cache: Path) -> Self:
        try:
            wheel = importlib.metadata.distribution("nvidia-pytriton")
        except importlib.metadata.PackageNotFoundError:
            raise LaunchError(
                "There is no Triton Inference Server here. On Linux x86-64 install the one inside a wheel: "
                f"{sys.executable} -m pip install --no-deps -r requirements/embedded-triton.txt — elsewhere use "
                "NVIDIA's image, or point CLEF_TRITON to a tritonserver."
            ) from None
        server = Path(str(wheel.locate_file("pytriton/tritonserver")))
        library = _python_library_folder()
        backends = _unpack_backend(server, cache / "triton" / f"pytriton-{wheel.version}")
        libraries = Path(str(wheel.locate_file("nvidia_pytriton.libs")))
        return cls(server / "bin" / "tritonserver", backends, (library, libraries), embedded=True)

    def command(
        self,
        repository: Path,
        ports: TritonPorts,
        shm_prefix: str,
        exit_timeout_s: int = 30,
        response_cache_bytes: int = 0,
    ) -> list[str]:
        """The command line for one model repository; `shm_prefix` begins the names of its shared-memory regions.

        Triton listens on the loopback address alone. With no `response_cache_bytes` it has no response cache.
        """
        has_gpu = Path("/dev/nvidiactl").exists()
        options = {
            "model-repository": repository,
            "model-control-mode": "none",
            "strict-readiness": "true",
            "disable-auto-complete-config": None,
            "backend-directory": self.backends,
            "backend-config": f"python,shm-region-prefix-name={shm_prefix}",
            "http-address": "127.0.0.1",
            "http-port": ports.http,
            "grpc-address": "127.0.0.1",
            "grpc-port": ports.grpc,
            "metrics-address": "127.0.0.1",
            "metrics-port": ports.metrics,
            "allow-gpu-metrics": str(has_gpu).lower(),
            "exit-timeout-secs": exit_timeout_s,
            "log-format": "ISO8601",
        }
        if response_cache_bytes:
            options |= {
                "cache-directory": self.program.parent.parent / "caches",
                "cache-config": f"local,size={response_cache_bytes}",
            }
        named = [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]
        return [str(self.program), *named, *restrictions()]

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (None: this process's environment) with the paths that the server and its stubs need put first."""
        environment = dict(os.environ if base is None else base)
        environment.pop("PYTHONHOME", None)
        environment["PATH"] = _prepend([Path(sys.prefix) / "bin"], environment.get("PATH"))
        environment["LD_LIBRARY_PATH"] = _prepend(self.libraries, environment.get("LD_LIBRARY_PATH"))
        # A fraction of a millisecond: enough between two operations on a CPU, where OpenMP's own five milliseconds take
        # a core from the steps that hand the answer on.
        environment.setdefault("GOMP_SPINCOUNT", "10000")
        return environment


def write_path_file(root: Path = REPOSITORY_ROOT) -> Path:
    """Puts the repository's root on the path of every Python of this environment, Triton's stubs among them."""
    if sys.prefix == sys.base_prefix:
        raise LaunchError("Run the launcher from a virtual environment: `make serve` makes one in .venv.")
    path_file = Path(sysconfig.get_path("purelib")) / "clef-triton.pth"
    if not path_file.exists() or path_file.read_text() != f"{root}\n":
        path_file.write_text(f"{root}\n")
    return path_file


def _program_of(place: Path) -> Path:
    candidates = [place / "bin" / "tritonserver", place / "tritonserver"] if place.is_dir() else [place]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise LaunchError(
        f"CLEF_TRITON={place} is no tritonserver program and no folder with bin/tritonserver in it. Set it to one, or "
        "unset it to have the usual places searched."
    )


def _running_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _check_python(stub: Path) -> None:
    """A stub is bound to the minor version of the Python that it was built for; its packages must be of the same."""
    found = re.search(rb"libpython(3\.\d+)\.so", stub.read_bytes())
    built_for = found[1].decode() if found else None
    if built_for is not None and built_for != _running_python():
        raise LaunchError(
            f"The Python backend of this Triton is built for Python {built_for}, and this environment is Python "
            f"{_running_python()}: make the environment anew with `make clean serve PYTHON=python{built_for}`."
        )


def _python_library_folder() -> Path:
    """The folder of the shared library of the interpreter that this environment was made from.

    Another build of the same minor version will not do: the stub then dies at an extension module's import.
    """
    name = f"libpython{_running_python()}.so.1.0"
    configured = [sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix) / "lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = [Path(folder) for folder in configured if folder]
    folders += [folder / multiarch for folder in folders if multiarch]
    for folder in folders:
        if (folder / name).is_file():
            return folder
    raise LaunchError(
        f"The Python under {sys.base_prefix} has no shared library ({name}), which Triton's Python backend loads. "
        f"Install it (Debian and Ubuntu: apt-get install libpython{_running_python()}; pyenv: "
        f"PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install {_running_python()}), or choose another Python: "
        "`make clean serve PYTHON=/path/to/python3`."
    )


def _unpack_backend(server: Path, folder: Path) -> Path:
    """Lays out `folder/python/` as Triton wants a backend: the wheel's files and the stub of the running Python."""
    stub = server / "python_backend_stubs" / _running_python() / STUB
    if not stub.is_file():
        versions = ", ".join(sorted(path.name for path in stub.parent.parent.iterdir()))
        raise LaunchError(
            f"The embedded Triton has no stub for Python {_running_python()}, only for {versions}. Make the "
            "environment anew with one of them, for instance `make clean serve PYTHON=python3.12`."
        )
    backends = folder / f"python{_running_python()}"
    if not backends.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"unfinished-{os.getpid()}"
        shutil.copytree(server / "backends" / "python", unfinished / "python")
        shutil.copy2(stub, unfinished / "python" / STUB)
        (unfinished / "python" / STUB).chmod(0o755)
        try:
            unfinished.rename(backends)
        except OSError:  # another launcher was faster
            shutil.rmtree(unfinished)
    return backends


def _prepend(folders: list[Path] | tuple[Path, ...], value: str | None) -> str:
    return os.pathsep.join([*map(str, folders), *([value] if value else [])])

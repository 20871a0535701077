"""Settings of the launcher, read from the environment. Names and defaults are those of the whole project."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from frontend.settings import DEFAULT_HOST, DEFAULT_PORT
from launch.errors import LaunchError

Port = Annotated[int, Field(ge=1, le=65_535)]
Seconds = Annotated[int, Field(ge=1)]


class LaunchSettings(BaseSettings):
    """Frozen; each field is the variable of its name in capitals."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    clef_release: Path | None = None
    """The release's directory; none: the development release, written under the cache folder."""
    clef_response_cache_bytes: Annotated[int, Field(ge=0)] = 0
    """Of Triton's response cache; 0: none."""
    clef_triton: str = ""
    """A tritonserver program or the folder that holds it; empty: the usual places."""
    frontend_host: str = DEFAULT_HOST
    frontend_port: Port = DEFAULT_PORT
    triton_http_port: Port = 8000
    triton_grpc_port: Port = 8001
    triton_metrics_port: Port = 8002
    launch_start_timeout_s: Seconds = 1800
    """From the start of the processes to the first warm answer; a real release takes minutes to load."""
    launch_unhealthy_timeout_s: Seconds = 30
    """For a service that was warm and answers nothing, before it is given up. Longer than a request may take with what
    the frontend's health remembers of the last answer, so that under load alone an answer comes in between."""
    launch_stop_timeout_s: Seconds = 70
    """For each process to end after it was asked to, longer than a request may take; past it the process is killed."""

    def ports(self) -> dict[str, tuple[str, int]]:
        """Every address that will be listened on, by the variable that moves it."""
        return {
            "FRONTEND_PORT": (self.frontend_host, self.frontend_port),
            "TRITON_HTTP_PORT": ("127.0.0.1", self.triton_http_port),
            "TRITON_GRPC_PORT": ("127.0.0.1", self.triton_grpc_port),
            "TRITON_METRICS_PORT": ("127.0.0.1", self.triton_metrics_port),
        }

    @property
    def url(self) -> str:
        """Where a client on this machine reaches the frontend."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.frontend_host, self.frontend_host)
        return f"http://[{host}]:{self.frontend_port}" if ":" in host else f"http://{host}:{self.frontend_port}"


def read_settings() -> LaunchSettings:
    """The settings from the environment. Raises LaunchError naming the variable."""
    try:
        return LaunchSettings()
    except ValidationError as error:
        problems = (f"{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())
        raise LaunchError(f"A setting is wrong: {'; '.join(problems)}.") from None

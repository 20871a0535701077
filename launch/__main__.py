"""The command line: `python -m launch --help`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from launch.dev_config import SIZES
from launch.dev_release import DEV_RELEASE, write_dev_release
from launch.errors import LaunchError
from launch.releases import RELEASES

app = typer.Typer(
    help="Serve Clef decision models on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command(name="serve")
def serve_command(
    release: Annotated[
        Path | None,
        typer.Option(help="The release's directory; CLEF_RELEASE otherwise; neither: the development release."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Logs of Triton and the frontend on stderr, not in .cache/log.")
    ] = False,
) -> None:
    """Start Triton and the frontend, wait until both are warm, and serve until Ctrl-C.

    Ports, on 127.0.0.1: FRONTEND_PORT (8080), TRITON_HTTP_PORT (8000), TRITON_GRPC_PORT (8001),
    TRITON_METRICS_PORT (8002). CLEF_TRITON points to another tritonserver.
    """
    # Imported here: Triton's image downloads releases, and has no frontend to serve with.
    from launch.serve import serve
    from launch.settings import read_settings

    settings = read_settings()
    if release is not None:
        settings = settings.model_copy(update={"clef_release": release})
    serve(settings, logs_to_stderr=verbose)


@app.command(name="dev-release")
def dev_release_command(
    folder: Annotated[Path, typer.Option("--dir", help="Where to write it.")] = DEV_RELEASE,
    size: Annotated[str, typer.Option(help=f"One of: {', '.join(SIZES)}.")] = "dev",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
) -> None:
    """Write a development release: a Clef's layout with random weights. Its answers mean nothing."""
    if size not in SIZES:
        raise typer.BadParameter(f"one of {', '.join(SIZES)}, not {size}", param_hint="--size")
    if write_dev_release(folder, size, seed):
        print(f"wrote a development release to {folder}: random weights, its answers mean nothing")


@app.command(name="download")
def download_command(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(RELEASES)}.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where the release goes; kept where it is right already.")],
) -> None:
    """Download a release from the Hugging Face Hub at its pinned revision, and verify every file.

    An interrupted download goes on where it was; a complete one is verified without the network. HF_HUB_OFFLINE,
    HF_TOKEN, HF_ENDPOINT and HTTPS_PROXY are honoured.
    """
    # Imported here: the hub's client is needed by no other command.
    from launch.download import download

    download(name, folder.expanduser(), lambda line: print(line, file=sys.stderr))


def main() -> None:
    """Runs a command. What may go wrong is said in a sentence; the exit status is then 1, or 2 for wrong usage."""
    try:
        app()
    except LaunchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

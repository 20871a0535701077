"""The command line: `python -m launch --help`."""

import os
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


@app.command(name="card")
def card_command(
    gigabytes: Annotated[float, typer.Argument(min=1, help="Of the card, 10^9 bytes each.")],
) -> None:
    """Compute what of each published release fits on a graphics card, and the settings to begin with."""
    # Imported here: the arithmetic is the model's, and loads torch.
    from launch.card import report

    print(report(gigabytes))


@app.command(name="doctor")
def doctor_command(
    release: Annotated[Path | None, typer.Option(help="The release's directory; CLEF_RELEASE otherwise.")] = None,
) -> None:
    """Check GPU, driver, kernels, shared memory, release, ports, and say what to do about each. Starts nothing.

    The exit status is 1 where something would keep the service from starting or answering.
    """
    # Imported here: it looks at torch and transformers, which the launcher's other commands never need.
    from launch.doctor.examination import examine

    folder = release or (Path(value) if (value := os.environ.get("CLEF_RELEASE")) else None)
    levels = []
    for finding in examine(folder and folder.expanduser().resolve(), os.environ.get("CLEF_TRITON", "")):
        print(finding.line(), flush=True)
        levels.append(finding.level)
    failed, warned = levels.count("fail"), levels.count("warn")
    print(f"\n{failed} failed, {warned} warned" if failed or warned else "\neverything is well")
    if failed:
        raise typer.Exit(1)


@app.command(name="verify")
def verify_command(
    release: Annotated[Path, typer.Option(help="The release's directory, with its joint_schema_model.py.")],
    run_release_code: Annotated[
        bool, typer.Option("--run-release-code", help="Yes, execute the release's joint_schema_model.py here.")
    ] = False,
    requests: Annotated[
        Path | None, typer.Option(help="SystemOne requests, one a line, in place of the built-in ones.")
    ] = None,
    device: Annotated[str, typer.Option(help="A torch device: cpu, cuda:0.")] = "cpu",
    dtype: Annotated[
        str, typer.Option(help="float32: agreement to 1e-4 in logits; bfloat16: to 0.05 in probabilities.")
    ] = "float32",
) -> None:
    """Run a release's own code beside ours on a set of requests, and show the largest difference.

    It EXECUTES joint_schema_model.py, a file of the release, with this user's rights: do it with a release that you
    trust, and say so with --run-release-code.
    """
    if not run_release_code:
        raise typer.BadParameter(
            f"this executes {release / 'joint_schema_model.py'}, code that came with the release, with your rights. "
            "Where you trust it, give --run-release-code.",
            param_hint="--run-release-code",
        )
    if dtype not in ("float32", "bfloat16"):
        raise typer.BadParameter(f"float32 or bfloat16, not {dtype}", param_hint="--dtype")
    # Imported here: they load torch and transformers, which the launcher's other commands never need.
    from clef.errors import ClefError
    from launch.verify import read_bodies, verify
    from launch.verify_requests import bodies
    from preprocess.errors import ServiceError

    release = release.expanduser()
    try:
        verify(release, bodies() if requests is None else read_bodies(requests), device, dtype, print)
    except (ClefError, ServiceError) as error:
        raise LaunchError(f"{release} cannot be compared: {error}.") from None


def main() -> None:
    """Runs a command. What may go wrong is said in a sentence; the exit status is then 1, or 2 for wrong usage."""
    try:
        app()
    except LaunchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

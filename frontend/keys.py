"""`python -m frontend.keys add|list|revoke`: the keys in the file that `SYSTEMONE_KEYS` names."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from frontend import keyfile
from frontend.keyfile import PUBLIC, SHIPPED_TIERS, KeyFile, KeyFileError
from frontend.settings import Settings

cli = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Name = Annotated[str, typer.Argument(help="Whose key it is; the usage log names it.")]
File = Annotated[Path, typer.Option("--file", envvar="SYSTEMONE_KEYS", help="The key file.")]
_DEFAULT_FILE: Path = Settings.model_fields["keys"].default


@cli.command()
def add(
    name: Name,
    tier: Annotated[str, typer.Option(help="A tier of the file.")] = "standard",
    public: Annotated[
        bool, typer.Option(help="Where the file is new: whether callers without a key get the tier 'public'.")
    ] = True,
    file: File = _DEFAULT_FILE,
) -> None:
    """Make a key and show it, once. A running server takes it from its next request on."""
    with _problems_told(file), keyfile.locked(file):
        old = keyfile.read(file) if file.exists() else _new_file(public)
        content, key = old.with_new_key(name, tier)
        keyfile.write(file, content)
    typer.echo(key)
    without = "get the tier 'public'" if PUBLIC in content.tiers else "are refused"
    typer.echo(f"The key of {name} is shown this once; {file} holds its hash.", err=True)
    typer.echo(f"Callers without a key {without}.", err=True)


@cli.command("list")
def list_keys(file: File = _DEFAULT_FILE) -> None:
    """Names, tiers and dates of the keys."""
    with _problems_told(file):
        content = keyfile.read(file)
    for key in content.keys:
        typer.echo(f"{key.name}\t{key.tier}\t{key.created.isoformat() if key.created else '-'}")


@cli.command()
def revoke(name: Name, file: File = _DEFAULT_FILE) -> None:
    """Take a key away. A running server refuses it from its next request on."""
    with _problems_told(file), keyfile.locked(file):
        keyfile.write(file, keyfile.read(file).without_key(name))
    typer.echo(f"The key of {name} is revoked.", err=True)


def _new_file(public: bool) -> KeyFile:
    return KeyFile(tiers={name: tier for name, tier in SHIPPED_TIERS.items() if public or name != PUBLIC})


@contextlib.contextmanager
def _problems_told(file: Path) -> Iterator[None]:
    """Ends the command with a sentence and the exit status 1 where its file is not what it needs."""
    try:
        yield
    except KeyFileError as error:
        sys.exit(str(error))
    except OSError as error:
        if not file.parent.is_dir():
            sys.exit(f"There is no folder {file.parent} for the key file.")
        if isinstance(error, FileNotFoundError):
            sys.exit(f"There is no key file {file}. 'add' makes it; --file or SYSTEMONE_KEYS says where it is.")
        sys.exit(f"The key file {file} cannot be used: {(error.strerror or 'unknown error').lower()}.")


if __name__ == "__main__":
    cli()

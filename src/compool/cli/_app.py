"""What the commands share."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Edge-based graph component pooling.",
    pretty_exceptions_enable=False,
)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", envvar="COMPOOL_DATA", help="Folder with data sets.", show_default=False),
]


def _version(asked: bool) -> None:
    if asked:
        from compool import __version__

        print(f"compool {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Edge-based graph component pooling."""


def stop(message: str, code: int = 2) -> typer.Exit:
    """Print an error in one line; to be raised."""
    typer.secho(f"compool: {message}", err=True, fg="red")
    return typer.Exit(code)

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


@app.callback()
def main() -> None:
    """Edge-based graph component pooling."""


def stop(message: str, code: int = 2) -> typer.Exit:
    """Print an error in one line; to be raised."""
    typer.secho(f"compool: {message}", err=True, fg="red")
    return typer.Exit(code)

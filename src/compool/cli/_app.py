"""The Typer application, and what its commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from compool.cli import _errors


class _Commands(TyperGroup):
    """The commands: `--debug` may come before or after a command's name, and errors are shown on one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args[: args.index("--") if "--" in args else None]:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):  # handled by typer
            raise
        except (OSError, ValueError, RuntimeError, MemoryError) as error:
            fixable = _errors.is_user_error(error)
            if ctx.params.get("debug") or not fixable:
                _errors.print_traceback(error)
            elif trace := _errors.own_trace(error):
                typer.echo(trace, err=True, nl=False)
            raise stop(_errors.one_line_message(error), 2 if fixable else 1) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Edge-based graph component pooling.",
    pretty_exceptions_enable=False,
)


def examples(*commands: str) -> str:
    """The epilog of a command's help: one example per line."""
    return "\n\n".join(["Examples:", *(f"- `{command}`" for command in commands)])


DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="COMPOOL_DATA",
        help="Folder of data sets, one set (NAME.zip or NAME.npz), or FILE.py:FUNCTION that returns PyG graphs.",
        show_default=False,
    ),
]


def _version(requested: bool) -> None:
    if requested:
        from compool import __version__

        print(f"compool {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="COMPOOL_DEBUG", help="Show the traceback of an error."),
    ] = False,
) -> None:
    """Edge-based graph component pooling."""


def stop(message: str, code: int = 2) -> typer.Exit:
    """Print a one-line error and return the exception to raise."""
    typer.secho(f"compool: {message}", err=True, fg="red")
    return typer.Exit(code)

"""Show tables, and on standard error what a command is doing: a spinner, or a progress bar during training."""

import os
from types import TracebackType
from typing import Any, Self

from rich.console import Console


def table_console() -> Console:
    """A console for tables: as wide as the terminal; in pipes and files 160 columns, unless ``COLUMNS`` says otherwise.

    Rich would take 80, where long rows wrap in the middle of numbers.
    """
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=160)


class Display:
    """Shows the current step of a command. If standard error is not a terminal, only training is shown, as lines.

    Args:
        text: the first step.
    """

    def __init__(self, text: str) -> None:
        self.console = Console(stderr=True)
        self.spinner = self.console.status(text)
        self.bar: Any = None

    def __enter__(self) -> Self:
        self.spinner.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._close_bar()
        self.spinner.stop()

    def status(self, text: str) -> None:
        """Show the current step."""
        self._close_bar()
        self.spinner.update(text)
        self.spinner.start()

    def on_training(self, text: str) -> None:
        """Print a permanent line that says what is trained, and why."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def on_epoch(self, block: Any, epoch: int, curves: Any) -> None:
        """Show the progress of a training."""
        from compool.study.progress import Progress

        if self.bar is None:
            self.spinner.stop()
            self.bar = Progress([block], self.console).__enter__()
        self.bar.epoch(block, epoch, curves)

    def _close_bar(self) -> None:
        if self.bar is not None:
            self.bar.__exit__(None, None, None)
            self.bar = None

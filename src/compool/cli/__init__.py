"""The command line. Heavy imports wait until a command needs them."""

from compool.cli._app import app

# isort: off
from compool.cli import sets, training, runs, pages, models  # in the order of --help

__all__ = ["app", "models", "pages", "runs", "sets", "training"]

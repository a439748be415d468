"""Small studies: few generated graphs, few replicas and epochs, a checkpoint after each epoch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from compool import study
from compool.data import GraphSet, communities
from compool.study import checkpoint, recipe_data
from compool.study.runs import COLUMNS

GRAPHS = 36


@cache
def graphs() -> GraphSet:
    """The data set."""
    return communities(GRAPHS)


@contextmanager
def small() -> Iterator[None]:
    """In this context, studies use few generated graphs and write a checkpoint after each epoch."""
    with (
        mock.patch.object(recipe_data, "load_data", return_value=graphs()),
        mock.patch.object(checkpoint, "WRITE_INTERVAL", 0.0),
        mock.patch.object(checkpoint, "MAX_WRITE_SHARE", 1e9),
    ):
        yield


def recipe(method: str, **changes: Any) -> study.Recipe:
    """A recipe of few epochs and channels."""
    return study.recipe(method, "communities", **{"epochs": 3, "hidden": 4, "halve": 2, "dropout": 0.3} | changes)


def comparable(runs: Sequence[study.Run]) -> list[dict[str, Any]]:
    """Runs without the columns that differ when the same replica is trained again."""
    return [{name: getattr(run, name) for name in COLUMNS if name not in ("seconds", "finished")} for run in runs]

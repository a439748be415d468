"""Short trainings of few graphs, for tests; the fixture `few_graphs` goes with them."""

from pathlib import Path
from typing import Any

import pytest

from compool import study
from compool.study.runs import COLUMNS


def small(method: str = "component", **changes: object) -> study.Recipe:
    return study.recipe(method, "communities", **{"epochs": 2, "hidden": 4} | changes)


def longer(method: str = "component", **changes: object) -> study.Recipe:
    return small(method, **{"epochs": 5, "halve": 2} | changes)


CPU = study.local_resources("cpu", workers=1)


def planned(path: Path, *recipes: study.Recipe, number: int = 3, **other: Any) -> list[study.Block]:
    return study.plan(recipes or [longer()], number, 0, path, **{"resources": CPU, "size": number} | other)


def interrupt(block: study.Block, after: int) -> None:
    """Train a block, and stop when an epoch is over."""

    def stop(_: study.Block, epoch: int, curves: object) -> None:
        if epoch == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.train_block(block, stop)


def told(runs: list[study.Run]) -> list[dict[str, Any]]:
    """What runs say, but for what differs from one training of the same replica to the next."""
    return [{name: getattr(run, name) for name in COLUMNS if name not in ("seconds", "finished")} for run in runs]

"""Logs of training, epoch by epoch."""

import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from compool.study.block import Block
from compool.study.recipe_settings import Recipe

if TYPE_CHECKING:
    from compool.replicas.trainer import Curves

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EpochRecord:
    """The measurements of one epoch of one run."""

    recipe: Recipe
    """Its data set, method and settings."""
    seed: int
    replica: int
    epoch: int
    """From 1 to ``recipe.epochs``."""
    values: dict[str, float | list[float]]
    """By the field names of :class:`compool.replicas.trainer.Curves`: ``loss``, ``validation``, ``test`` and so on;
    ``kept`` is a list with one share per pooling layer. A metric that is not defined is NaN.
    """

    @property
    def run_name(self) -> str:
        """The run as a path of five parts: data set, method, recipe, seed and replica.

        Example:
            >>> from compool.study import recipe
            >>> EpochRecord(recipe("gin", "NCI1"), 0, 3, 1, {}).run_name
            'NCI1/gin/fast/seed-0/replica-3'
        """
        recipe = self.recipe
        parts = (recipe.dataset, recipe.method, recipe.name, f"seed-{self.seed}", f"replica-{self.replica}")
        return "/".join(re.sub(r"[^\w.+=-]+|^\.+", "_", part) for part in parts)

    @property
    def scalars(self) -> dict[str, float]:
        """The finite values, each a number: ``kept`` becomes ``kept/1``, ``kept/2`` and so on.

        Example:
            >>> from compool.study import recipe
            >>> EpochRecord(recipe("gin", "NCI1"), 0, 3, 1, {"loss": math.nan, "kept": [0.5, 0.25]}).scalars
            {'kept/1': 0.5, 'kept/2': 0.25}
        """
        numbers: dict[str, float] = {}
        for name, value in self.values.items():
            if isinstance(value, list):
                numbers |= {f"{name}/{level}": share for level, share in enumerate(value, 1)}
            else:
                numbers[name] = value
        return {name: number for name, number in numbers.items() if math.isfinite(number)}


class EpochLog(Protocol):
    """Receives the epochs of a study; :class:`LogWriter` calls it, in the main process.

    The epochs of a run arrive in order; those of several runs are interleaved. A run that has failed or stopped early
    has no more epochs. If training resumes from a checkpoint, the epochs since that checkpoint arrive again.
    """

    def on_epoch(self, record: EpochRecord) -> None:
        """Receive one epoch of one run."""

    def close(self) -> None:
        """Finish: no more epochs follow."""


class LogWriter:
    """Passes epochs to logs. Give its `epoch` to :func:`compool.study.execute` as `on_epoch`.

    An error in a log is logged, and ends that log, not the training.

    Args:
        logs: where to write.

    Example:
        >>> from compool import study
        >>> class Printed:
        ...     def on_epoch(self, record):
        ...         print(record.run_name, record.epoch, sorted(record.scalars))
        ...     def close(self):
        ...         print("done")
        >>> path = getfixture("tmp_path") / "study.sqlite"
        >>> recipe = study.recipe("component", "communities", epochs=1)
        >>> with LogWriter([Printed()]) as writer:
        ...     plan = study.plan([recipe], 1, 0, path, resources=study.local_resources("cpu", 1))
        ...     _ = list(study.execute(plan, path, on_epoch=writer.epoch))
        communities/component/fast/seed-0/replica-0 1 ['kept/1', 'loss', 'test', 'validation', 'validation_loss']
        done
    """

    def __init__(self, logs: Sequence[EpochLog]) -> None:
        self.logs = list(logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for log in list(self.logs):
            self._call_guarded(log, log.close)

    def epoch(self, block: Block, epoch: int, curves: "Curves") -> None:
        """Pass an epoch of all runs of a block to the logs."""
        if self.logs:
            for record in epoch_records(block, epoch, curves):
                for log in list(self.logs):
                    self._call_guarded(log, log.on_epoch, record)

    def _call_guarded(self, log: EpochLog, call: Callable[..., None], *arguments: EpochRecord) -> None:
        try:
            call(*arguments)
        except Exception as error:  # an error in a log must not stop training
            self.logs.remove(log)
            with suppress(Exception):
                log.close()
            is_expected = isinstance(error, OSError)
            message = "%s cannot be written (%s); training continues without this log"
            _log.warning(message, type(log).__name__, error, exc_info=None if is_expected else error)


def epoch_records(block: Block, epoch: int, curves: "Curves") -> Iterator[EpochRecord]:
    """The last row of the curves of a block, as one record per run that has not failed or stopped early."""
    rows = {field.name: getattr(curves, field.name)[-1].tolist() for field in fields(curves)}
    for index, (recipe, replica) in enumerate(zip(block.recipes, block.replicas, strict=True)):
        values = {name: row[index] for name, row in rows.items()}
        if not math.isnan(values["loss"]):
            yield EpochRecord(recipe, block.seed, replica, epoch, values)

"""Logs of trainings, epoch by epoch: CSV, TensorBoard, or your own."""

import csv
import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from compool.study.columns import escape_cell
from compool.study.planning import Block
from compool.study.recipe import Recipe

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from compool.replicas.trainer import Curves

_log = logging.getLogger(__name__)
MAX_WRITERS = 200  # of TensorBoard that are open at the same time: each has a thread and a file
MAX_LINE = 2**16  # bytes of a line of a CSV file


@dataclass(frozen=True)
class EpochRecord:
    """What was measured in one epoch of one run."""

    recipe: Recipe
    """Its data set, method and settings."""
    seed: int
    replica: int
    epoch: int
    """From 1 to ``recipe.epochs``."""
    values: dict[str, float | list[float]]
    """By the names of the fields of :class:`compool.replicas.trainer.Curves`: ``loss``, ``validation``, ``test`` and
    others; ``kept`` is a list with one share per pooling layer. A metric that is not defined is NaN.
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
        """The values that are finite, each a number: ``kept`` becomes ``kept/1``, ``kept/2`` and so on.

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
    """Receives the epochs of a study; :class:`LogWriter` calls it, in the process that was started.

    The epochs of a run come in order, those of several runs alternate. A run that has failed or stopped early has no
    more epochs. If a training resumes from a checkpoint, the epochs since that checkpoint come again.
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
            self._guarded(log, log.close)

    def epoch(self, block: Block, epoch: int, curves: "Curves") -> None:
        """Pass an epoch of all runs of a block to the logs."""
        if self.logs:
            for record in epoch_records(block, epoch, curves):
                for log in list(self.logs):
                    self._guarded(log, log.on_epoch, record)

    def _guarded(self, log: EpochLog, call: Callable[..., None], *arguments: EpochRecord) -> None:
        try:
            call(*arguments)
        except Exception as error:  # the training is worth more
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


def require_logs(kinds: Sequence[str]) -> None:
    """Raise a ValueError if a kind of log is unknown, or its package is missing.

    Example:
        >>> require_logs(["csv"])
    """
    for kind in kinds:
        if kind not in LOG_KINDS:
            raise ValueError(f"a log must be one of {', '.join(LOG_KINDS)}; got {kind!r}")
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError("the log tensorboard needs a package: pip install 'compool[tensorboard]'")


def open_logs(kinds: Sequence[str], store: Path) -> LogWriter:
    """Logs of some kinds of :data:`LOG_KINDS`, in the folder ``STORE-logs`` beside a study's file.

    Example:
        >>> with open_logs(["csv"], getfixture("tmp_path") / "study.sqlite") as writer:
        ...     [type(log).__name__ for log in writer.logs]
        ['CSVLog']
    """
    require_logs(kinds)
    folder = log_folder(store)
    if kinds:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"the folder of logs {folder} cannot be made: {error.strerror}") from None
    return LogWriter([LOG_KINDS[kind](folder) for kind in dict.fromkeys(kinds)])


def log_folder(store: Path) -> Path:
    """The folder of a study's logs.

    Example:
        >>> log_folder(Path("results/study.sqlite")).as_posix()
        'results/study-logs'
    """
    return store.with_name(f"{store.stem}-logs")


class CSVLog:
    """Appends to ``epochs.csv``, one line per run and epoch; ``kept`` is JSON.

    After an interruption, the epochs since the last checkpoint appear twice: the later line counts.

    Args:
        folder: where to write.
    """

    KEY = ("dataset", "method", "recipe", "seed", "replica", "epoch")

    def __init__(self, folder: Path) -> None:
        self.path = folder / "epochs.csv"
        _drop_partial_line(self.path)
        self.file = self.path.open("a", encoding="utf-8", newline="")
        self.writer = csv.writer(self.file)
        self.columns: list[str] = []

    def on_epoch(self, record: EpochRecord) -> None:
        """Append a line."""
        recipe = record.recipe
        if not self.columns:
            self.columns = list(record.values)
            self._require_header([*self.KEY, *self.columns])
        texts = [escape_cell(text) for text in (recipe.dataset, recipe.method, recipe.name)]
        self.writer.writerow(
            [*texts, record.seed, record.replica, record.epoch, *(_cell(record.values[name]) for name in self.columns)]
        )
        self.file.flush()

    def _require_header(self, names: list[str]) -> None:
        """Write the header of a new file; that of an older file must be the same."""
        if not self.file.tell():
            self.writer.writerow(names)
            return
        with self.path.open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file))
        if header != names:
            raise OSError(f"{self.path} has other columns, of another version; move it away")

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class TensorBoardLog:
    """One folder per run, for ``tensorboard --logdir``; scalars by the names of :attr:`EpochRecord.scalars`.

    Args:
        folder: where to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writers: dict[str, SummaryWriter] = {}

    def on_epoch(self, record: EpochRecord) -> None:
        """Write the scalars of an epoch. When a training resumes, TensorBoard drops what it had of later epochs."""
        from torch.utils.tensorboard import SummaryWriter

        name = record.run_name
        writer = self.writers.pop(name, None) or SummaryWriter(str(self.folder / name), purge_step=record.epoch)
        for tag, value in record.scalars.items():
            writer.add_scalar(tag, value, record.epoch)
        if record.epoch == record.recipe.epochs:
            writer.close()
            return
        self.writers[name] = writer  # the latest last
        if len(self.writers) > MAX_WRITERS:  # of runs that stopped early, probably
            self.writers.pop(next(iter(self.writers))).close()

    def close(self) -> None:
        """Close all files."""
        for writer in self.writers.values():
            writer.close()
        self.writers.clear()


LOG_KINDS: dict[str, Callable[[Path], EpochLog]] = {"csv": CSVLog, "tensorboard": TensorBoardLog}
"""The logs that ``compool run --log`` knows."""


def _cell(value: float | list[float]) -> str:
    if isinstance(value, list):
        return json.dumps([round(share, 6) for share in value])
    return f"{value:.6g}" if math.isfinite(value) else ""


def _drop_partial_line(path: Path) -> None:
    """Remove the last line of a file if it has no end, as a process was killed in the middle of it."""
    if path.exists():
        with path.open("rb+") as file:
            start = max(0, path.stat().st_size - MAX_LINE)
            file.seek(start)
            file.truncate(start + file.read().rfind(b"\n") + 1)

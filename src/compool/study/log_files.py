"""Training logs in files: CSV and TensorBoard."""

import csv
import json
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from compool.study.columns import escape_cell
from compool.study.logs import EpochLog, EpochRecord, LogWriter

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MAX_WRITERS = 200  # open TensorBoard writers at most: each has a thread and a file
MAX_LINE = 2**16  # the most bytes of a line of a CSV file


def require_logs(kinds: Sequence[str]) -> None:
    """Raise a ValueError if a kind of log is unknown, or its package is missing.

    Example:
        >>> require_logs(["csv"])
    """
    for kind in kinds:
        if kind not in LOG_KINDS:
            raise ValueError(f"a log must be one of {', '.join(LOG_KINDS)}; got {kind!r}")
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError("the tensorboard log needs a package: pip install -c constraints.txt '.[tensorboard]'")


def open_logs(kinds: Sequence[str], store: Path) -> LogWriter:
    """Open logs of the given kinds, see :data:`LOG_KINDS`, in the folder ``STORE-logs`` beside a study's file.

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
            raise ValueError(f"cannot create the log folder {folder}: {error.strerror}") from None
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
        """Write the header of a new file; an existing file must have the same header."""
        if not self.file.tell():
            self.writer.writerow(names)
            return
        with self.path.open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file))
        if header != names:
            raise OSError(f"{self.path} has other columns than this version writes; move it elsewhere")

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
        self.writers[name] = writer  # most recently used last
        if len(self.writers) > MAX_WRITERS:  # probably of runs that stopped early
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
    """Remove the last line of a file if it is incomplete, because a process was killed while writing it."""
    if path.exists():
        with path.open("rb+") as file:
            start = max(0, path.stat().st_size - MAX_LINE)
            file.seek(start)
            file.truncate(start + file.read().rfind(b"\n") + 1)

"""The progress of a study: a bar on a terminal, lines of text elsewhere."""

import time
from collections.abc import Sequence
from statistics import fmean
from types import TracebackType
from typing import Self

import rich.progress
from rich.console import Console

from compool.replicas.trainer import Curves
from compool.study.block import Block, block_title
from compool.study.metrics import METRICS, Metric, metric_of_runs
from compool.study.store import Run

LINE_INTERVAL = 10.0  # seconds between lines of text


class Progress:
    """Counts epochs of all replicas. The code that trains blocks calls `epoch` and `finished`."""

    def __init__(self, plan: Sequence[Block], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.total = sum(len(block.replicas) * block.recipe.epochs for block in plan)
        self.epochs = {block: block.epochs_done for block in plan}
        self.done = sum(len(block.replicas) * block.epochs_done for block in plan)
        self.measured = 0  # epochs since `since`, of all replicas
        self.since: float | None = None  # when the first epoch ended
        self.reported: set[Block] = set()
        self.last = time.monotonic()
        self.bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TaskProgressColumn(),
            rich.progress.TimeRemainingColumn(),
            console=self.console,
            expand=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=self.total, completed=self.done)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.bar.stop()

    def epoch(self, block: Block, epoch: int, curves: Curves) -> None:
        """Record an epoch of a block. Epochs may be skipped, and a block may restart."""
        trained = len(block.replicas) * (epoch - self.epochs.get(block, 0))
        self.done += trained
        self.epochs[block] = epoch
        self.done = min(self.done, self.total)  # some epochs of a block that was halved were counted already
        position = f"epoch {epoch}/{block.recipe.epochs}"
        note = f" ({block.note})" if block.note else ""
        text = (
            f"{block.name}: {_runs(block.replicas, [recipe.name for recipe in block.recipes])}{note}, {position}, "
            f"{_describe(curves, METRICS[block.metric])}"
        )
        narrow = self.console.width < 120
        self.bar.update(self.task, completed=self.done, description=f"{block.name}, {position}" if narrow else text)
        now = time.monotonic()
        self.since = self.since or now
        if block in self.reported or self.measured:
            self.measured += trained  # not the first epochs of blocks that started together: these include compilation
        self.reported.add(block)
        if not self.console.is_terminal and now - self.last > LINE_INTERVAL and self.measured > 0:
            self.last = now
            remaining = (now - self.since) * (self.total - self.done) / self.measured
            self.console.print(f"{text}, {remaining:.0f} s left", soft_wrap=True, highlight=False)

    def finished(self, runs: Sequence[Run]) -> None:
        """Report a block that was stored."""
        first = runs[0]
        if first.settings.get("patience"):  # the epochs that early stopping skipped
            trained = max(len(run.curves.get("loss", [])) for run in runs)
            self.done = min(self.total, self.done + len(runs) * (first.settings["epochs"] - trained))
            self.bar.update(self.task, completed=self.done)
        recipes = [run.recipe for run in runs]
        tests = [run.test for run in runs if run.status == "done" and run.test is not None]
        metric = METRICS[metric_of_runs(runs)]
        if len(set(recipes)) > 1 and len(set(tests)) > 1:  # no mean over different settings
            measured = f"test {metric.title} {_value(metric, min(tests))} to {_value(metric, max(tests))}"
        else:
            measured = f"test {metric.title} {_value(metric, fmean(tests))}" if tests else f"no {metric.title}"
        reasons = [run.reason for run in runs if run.status == "failed"]
        name, stored = block_title(first.dataset, first.method, recipes), _runs([run.replica for run in runs], recipes)
        text = f"{name}: {stored} stored, {measured}, {first.seconds * len(runs):.0f} s"
        failed = f", {len(reasons)} failed: {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
        self.console.print(text + failed, soft_wrap=True, highlight=False)


def _runs(replicas: Sequence[int], recipes: Sequence[str]) -> str:
    """The runs of a block, given the replica and the recipe of each."""
    if len(replicas) == 1:
        return f"replica {replicas[0]}"
    return f"{len(replicas)} {'replicas' if len(set(recipes)) == 1 else 'runs'}"


def _value(metric: Metric, value: float) -> str:
    return f"{value:.1%}" if metric.higher else f"{value:.3g}"


def _describe(curves: Curves, metric: Metric) -> str:
    loss, validation = (float(rows[-1].nanmean()) for rows in (curves.loss, curves.validation))
    kept = curves.kept[-1].nanmean(0).tolist()
    levels = f", kept {' '.join(f'{level:.0%}' for level in kept)}" if kept else ""
    return f"loss {loss:.3f}, validation {_value(metric, validation)}{levels}"

"""The results of a study: one for each data set, recipe and method."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool.data import paper
from compool.report.pick import BEST
from compool.report.statistics import (
    EQUIVALENCE_MARGIN,
    SIGNIFICANCE,
    TEST_TO_TRAIN,
    Comparison,
    Corrected,
    Summary,
    compare,
    corrected_t_test,
    holm,
    summarize,
)
from compool.study.metrics import METRICS, Metric, metric_of_runs
from compool.study.recipe_settings import METHODS, REPLACEMENTS
from compool.study.store import Run

OURS = "component"
METHOD_ORDER = (*METHODS, *REPLACEMENTS)
CURVES = ("validation", "test", "loss", "validation_loss")
PERCENTILES = (10, 50, 90)  # of replicas, in curves


@dataclass(frozen=True)
class Result:
    """The runs of a method on a data set, with the same recipe and seed."""

    dataset: str
    method: str
    recipe: str
    runs: tuple[Run, ...]

    @cached_property
    def done(self) -> list[Run]:
        """The runs with a result: those that did not fail and whose test metric is defined."""
        return [run for run in self.runs if run.status == "done" and run.test is not None]

    @property
    def failed(self) -> int:
        """The number of runs that failed."""
        return sum(run.status == "failed" for run in self.runs)

    @property
    def undefined(self) -> int:
        """The number of runs whose test metric is not defined, such as the ROC AUC of graphs of a single class."""
        return len(self.runs) - len(self.done) - self.failed

    @cached_property
    def metric(self) -> Metric:
        """The metric of its runs."""
        return METRICS[metric_of_runs(self.runs)]

    @cached_property
    def tests(self) -> list[float]:
        """Test accuracies, in percent, or the values of another metric."""
        return [self.metric.scale * run.test for run in self.done if run.test is not None]

    @cached_property
    def accuracy(self) -> Summary | None:
        """Mean and standard deviation of the test accuracies, in percent, or of another metric."""
        return summarize(self.tests) if self.tests else None

    @property
    def parameters(self) -> int:
        """The number of parameters of the network."""
        return self.runs[0].parameters

    @property
    def kept(self) -> list[float]:
        """The mean share of nodes that is left after each pooling layer, in percent."""
        levels = zip(*(run.kept for run in self.done if run.kept), strict=False)
        return [100 * fmean(level) for level in levels]

    @property
    def seconds(self) -> float:
        """Mean training time per replica."""
        return fmean(run.seconds for run in self.runs)

    @cached_property
    def curves(self) -> dict[str, NDArray[np.float64]]:
        """Percentiles of the replicas, epoch by epoch [3, epochs]: accuracies and kept nodes by level, in percent, and
        losses.
        """
        curves = {name: _percentiles([run.curves.get(name, []) for run in self.done]) for name in CURVES}
        curves |= {name: self.metric.scale * curves[name] for name in ("validation", "test")}
        levels = max((len(run.kept) for run in self.done), default=0)
        for level in range(levels):
            rows = [[_value_at(epoch, level) for epoch in run.curves.get("kept", [])] for run in self.done]
            curves[f"kept {level + 1}" if levels > 1 else "kept"] = 100 * _percentiles(rows)
        return {name: curve for name, curve in curves.items() if curve.size}


@dataclass(frozen=True)
class Row:
    """A data set with a recipe: the methods side by side, all with the same metric."""

    dataset: str
    recipe: str
    results: dict[str, Result]
    has_twin: bool = False
    """Whether another row has the same data set and recipe with another metric."""

    @property
    def title(self) -> str:
        """The data set, and the label of the recipe unless it is ``fast``."""
        return self.dataset if self.label == "fast" else f"{self.dataset} ({self.label})"

    @property
    def label(self) -> str:
        """The recipe, and the metric if another row differs only in it."""
        return f"{self.recipe}, {self.metric.title}" if self.has_twin else self.recipe

    @property
    def metric(self) -> Metric:
        """The metric of its runs."""
        return METRICS[metric_of_runs(run for result in self.results.values() for run in result.runs)]

    def reported(self, method: str) -> paper.Reported | None:
        """The accuracies that the paper reports for a method on this data set."""
        return None if self.metric != METRICS["accuracy"] else paper.REPORTED.get(self.dataset, {}).get(method)

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Component pooling against each other method."""
        ours = self.results.get(OURS)
        if ours is None or not ours.tests:
            return {}
        others = {method: result for method, result in self.results.items() if method != OURS and result.tests}
        margin = EQUIVALENCE_MARGIN if self.metric.higher else None  # in percent; errors have a unit of their own
        return {
            method: compare(ours.tests, other.tests, _pairs(ours, other), _test_to_train(ours, other), margin)
            for method, other in others.items()
        }

    @cached_property
    def best(self) -> tuple[str, ...]:
        """The method that is significantly better than every other, or those not significantly different from the best,
        by the corrected resampled t-test of paired splits; empty if there is nothing to compare.
        """
        means = {method: result.accuracy.mean for method, result in self.results.items() if result.accuracy is not None}
        if len(means) < 2:
            return ()
        top = (max if self.metric.higher else min)(means, key=lambda method: means[method])
        tests = {method: _corrected(self.results[top], self.results[method]) for method in means if method != top}
        if any(test is None for test in tests.values()):
            return ()
        ties = {method for method, test in tests.items() if test and test.p_value >= SIGNIFICANCE}
        return tuple(method for method in means if method == top or method in ties)


@dataclass(frozen=True)
class Study:
    """The contents of a report."""

    rows: tuple[Row, ...]
    methods: tuple[str, ...]
    warnings: tuple[str, ...]
    num_runs: int
    """Runs in the store."""
    pick: str = BEST
    """The rule that picks the epoch of each training."""
    general: tuple[str, ...] = ()
    """The warnings that are not about rows."""
    sweeps: tuple[Any, ...] = ()
    """The sweeps, of type :class:`~compool.report.sweeps.Sweep`."""

    @cached_property
    def holm_p_values(self) -> dict[tuple[str, str, str], float | None]:
        """p-values of the corrected t-test after Holm's correction over data sets, by data set, recipe and method."""
        corrected: dict[tuple[str, str, str], float | None] = {}
        families = {(row.recipe, method) for row in self.rows for method in row.comparisons}
        for recipe, method in families:
            rows = [row for row in self.rows if row.recipe == recipe and method in row.comparisons]
            tests = [row.comparisons[method].corrected for row in rows]
            p_values = holm([test.p_value if test else None for test in tests])
            corrected |= {(row.dataset, recipe, method): p for row, p in zip(rows, p_values, strict=True)}
        return corrected

    @cached_property
    def compared(self) -> "Study":
        """The study without the methods that replace pooling layers in our networks."""
        return self._of([method for method in self.methods if method not in REPLACEMENTS])

    @cached_property
    def replacements(self) -> "Study":
        """Our networks, and the same networks with other pooling layers or none, where there are such runs."""
        others = self._of([method for method in self.methods if method in REPLACEMENTS])
        if not others.rows:
            return others
        shared = {(row.dataset, row.recipe) for row in others.rows}
        both = self._of([method for method in (OURS, *others.methods) if method in self.methods])
        return replace(both, rows=tuple(row for row in both.rows if (row.dataset, row.recipe) in shared))

    def _of(self, methods: Sequence[str]) -> "Study":
        results = [{method: row.results[method] for method in methods if method in row.results} for row in self.rows]
        rows = (replace(row, results=chosen) for row, chosen in zip(self.rows, results, strict=True) if chosen)
        return replace(self, rows=tuple(rows), methods=tuple(methods))

    @property
    def recipes(self) -> list[str]:
        """The recipes of the rows."""
        return list(dict.fromkeys(row.recipe for row in self.rows))

    @property
    def datasets(self) -> list[str]:
        """The data sets of the rows."""
        return list(dict.fromkeys(row.dataset for row in self.rows))


def _pairs(ours: Result, theirs: Result) -> list[tuple[float, float]]:
    """Test accuracies on the same splits, in percent, or the values of another metric."""
    their_test = {(run.replica, run.split_checksum): run.test for run in theirs.done}
    tests = ((run.test, their_test.get((run.replica, run.split_checksum))) for run in ours.done)
    scale = ours.metric.scale
    return [(scale * a, scale * b) for a, b in tests if a is not None and b is not None]


def _corrected(first: Result, second: Result) -> Corrected | None:
    """The corrected resampled t-test of two methods on the splits that both have."""
    differences = [ours - theirs for ours, theirs in _pairs(first, second)]
    return corrected_t_test(differences, _test_to_train(first, second))


def _test_to_train(ours: Result, theirs: Result) -> float:
    """The ratio of test to training graphs: the mean over the splits that both have.

    Runs of older versions do not store the size of their split: they follow the paper's protocol.
    """
    their_run = {(run.replica, run.split_checksum): run for run in theirs.done}
    pairs = [(run, their_run[key]) for run in ours.done if (key := (run.replica, run.split_checksum)) in their_run]
    sized = [first if first.train_graphs else second for first, second in pairs]  # same split: one may know its size
    ratios = [run.test_graphs / run.train_graphs if run.train_graphs else TEST_TO_TRAIN for run in sized]
    return fmean(ratios) if ratios else TEST_TO_TRAIN


def _value_at(values: Any, index: int) -> float | None:
    return values[index] if values is not None and index < len(values) else None


def _percentiles(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    """Percentiles of each column [3, columns]; rows may be shorter and have gaps. NaN for empty columns."""
    width = max((len(row) for row in rows), default=0)
    table = np.full((len(rows), width), np.nan)
    for index, row in enumerate(rows):
        table[index, : len(row)] = [np.nan if value is None else value for value in row]
    band = np.full((len(PERCENTILES), width), np.nan)
    has_values = np.isfinite(table).any(0) if len(rows) else np.zeros(width, bool)
    if has_values.any():
        band[:, has_values] = np.nanpercentile(table[:, has_values], PERCENTILES, axis=0)
    return band

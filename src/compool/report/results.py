"""What the runs of a study amount to: one result for each data set, recipe and method, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool.data import paper
from compool.report.pick import BEST, HOW, at_epoch, check, lacks
from compool.report.same_data import separate_data
from compool.report.statistics import LEVEL, TEST_TO_TRAIN, Comparison, Summary, compare, describe, holm, t_test
from compool.study.recipe import METHODS, REPLACEMENTS
from compool.study.store import Run

OURS = "component"
ORDER = (*METHODS, *REPLACEMENTS)
CURVES = {"validation": 100, "test": 100, "loss": 1, "validation_loss": 1}  # and what makes them percent
BAND = (10, 50, 90)  # percentiles of replicas that curves show


@dataclass(frozen=True)
class Result:
    """The runs of one method on one data set, by one recipe and seed."""

    dataset: str
    method: str
    recipe: str
    runs: tuple[Run, ...]

    @cached_property
    def done(self) -> list[Run]:
        """The runs that did not fail."""
        return [run for run in self.runs if run.status == "done" and run.test is not None]

    @property
    def failed(self) -> int:
        """How many failed."""
        return len(self.runs) - len(self.done)

    @cached_property
    def tests(self) -> list[float]:
        """Test accuracies, in percent."""
        return [100 * run.test for run in self.done if run.test is not None]

    @cached_property
    def accuracy(self) -> Summary | None:
        """Mean and standard deviation of the test accuracies, in percent."""
        return describe(self.tests) if self.tests else None

    @property
    def parameters(self) -> int:
        """How many the network has."""
        return self.runs[0].parameters

    @property
    def kept(self) -> list[float]:
        """The mean share of nodes that is left after each pooling layer, in percent."""
        levels = zip(*(run.kept for run in self.done if run.kept), strict=False)
        return [100 * fmean(level) for level in levels]

    @property
    def seconds(self) -> float:
        """Of training, a replica."""
        return fmean(run.seconds for run in self.runs)

    @cached_property
    def curves(self) -> dict[str, NDArray[np.float64]]:
        """Percentiles of the replicas, epoch by epoch [3, epochs]: accuracies and kept nodes by level, in percent, and
        losses.
        """
        curves = {
            name: scale * _band([run.curves.get(name, []) for run in self.done]) for name, scale in CURVES.items()
        }
        levels = max((len(run.kept) for run in self.done), default=0)
        for level in range(levels):
            rows = [[_at(epoch, level) for epoch in run.curves.get("kept", [])] for run in self.done]
            curves[f"kept {level + 1}" if levels > 1 else "kept"] = 100 * _band(rows)
        return {name: curve for name, curve in curves.items() if curve.size}


@dataclass(frozen=True)
class Row:
    """One data set by one recipe: the methods side by side."""

    dataset: str
    recipe: str
    results: dict[str, Result]

    @property
    def title(self) -> str:
        """The data set, and the recipe where it is not the usual one."""
        return self.dataset if self.recipe == "fast" else f"{self.dataset} ({self.recipe})"

    def reported(self, method: str) -> paper.Reported | None:
        """What the paper reports of a method here."""
        return paper.REPORTED.get(self.dataset, {}).get(method)

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Component pooling against each other method."""
        ours = self.results.get(OURS)
        if ours is None or not ours.tests:
            return {}
        others = {method: result for method, result in self.results.items() if method != OURS and result.tests}
        return {
            method: compare(ours.tests, other.tests, _pairs(ours, other), _test_to_train(ours, other))
            for method, other in others.items()
        }

    @cached_property
    def best(self) -> tuple[str, ...]:
        """The method that is significantly better than every other, or those that tie with the best, by the paper's
        t-test; none where there is nothing to compare.
        """
        found = {method: result.accuracy for method, result in self.results.items() if result.accuracy is not None}
        if len(found) < 2:
            return ()
        top = max(found.values(), key=lambda accuracy: accuracy.mean)
        p_values = {method: t_test(accuracy, top) for method, accuracy in found.items()}
        if any(p_value is None for p_value in p_values.values()):
            return ()
        return tuple(method for method, p in p_values.items() if found[method] is top or (p is not None and p >= LEVEL))


@dataclass(frozen=True)
class Study:
    """What a report shows."""

    rows: tuple[Row, ...]
    methods: tuple[str, ...]
    warnings: tuple[str, ...]
    number: int
    """Runs in the store."""
    pick: str = BEST
    """Which epoch of a training counts."""

    @cached_property
    def holm(self) -> dict[tuple[str, str, str], float | None]:
        """p-values of the corrected t-test after Holm's correction over data sets, by data set, recipe and method."""
        found: dict[tuple[str, str, str], float | None] = {}
        families = {(row.recipe, method) for row in self.rows for method in row.comparisons}
        for recipe, method in families:
            rows = [row for row in self.rows if row.recipe == recipe and method in row.comparisons]
            tests = [row.comparisons[method].corrected for row in rows]
            p_values = holm([test.p_value if test else None for test in tests])
            found |= {(row.dataset, recipe, method): p for row, p in zip(rows, p_values, strict=True)}
        return found

    @cached_property
    def compared(self) -> "Study":
        """The methods that are compared as such: all but those that are our networks with other pooling layers."""
        return self._of([method for method in self.methods if method not in REPLACEMENTS])

    @cached_property
    def instead(self) -> "Study":
        """Our networks and the same with other pooling layers or none, where there are such."""
        others = self._of([method for method in self.methods if method in REPLACEMENTS])
        if not others.rows:
            return others
        there = {(row.dataset, row.recipe) for row in others.rows}
        both = self._of([OURS, *others.methods])
        return replace(both, rows=tuple(row for row in both.rows if (row.dataset, row.recipe) in there))

    def _of(self, methods: Sequence[str]) -> "Study":
        results = [{method: row.results[method] for method in methods if method in row.results} for row in self.rows]
        rows = (replace(row, results=found) for row, found in zip(self.rows, results, strict=True) if found)
        return replace(self, rows=tuple(rows), methods=tuple(methods))

    @property
    def recipes(self) -> list[str]:
        """The recipes of the rows."""
        return list(dict.fromkeys(row.recipe for row in self.rows))

    @property
    def datasets(self) -> list[str]:
        """The data sets of the rows."""
        return list(dict.fromkeys(row.dataset for row in self.rows))


def collect(runs: Iterable[Run], pick: str = BEST) -> Study:
    """Sort runs into rows of results, in the order of the paper, and note what is missing, failed or mixed.

    Runs of other data under the name of a data set are another data set: see :mod:`compool.report.same_data`.

    Where runs of one data set, method and recipe have different settings or seeds, those with most runs are taken; of
    equals, those of the lowest seed, then the latest. `pick` says which epoch counts: see :mod:`compool.report.pick`.

    Example:
        >>> collect([]).warnings
        ('There are no runs.',)
    """
    check(pick)
    groups: dict[tuple[str, str, str], dict[tuple[str, int], list[Run]]] = {}
    lacking = Counter[str]()
    apart, mixed_data = separate_data(list(runs))
    number = len(apart)
    for run in apart:
        if missing := lacks(run, pick):
            lacking[missing] += 1
            continue
        variants = groups.setdefault((run.dataset, run.recipe, run.method), {})
        variants.setdefault((run.recipe_checksum, run.seed), []).append(run)
    left_out = [f"{count} of {number} runs have no {what}" for what, count in lacking.items()]
    if left_out and not groups:
        raise ValueError(f"{', '.join(left_out)}, which the rule {pick} needs; {HOW[next(iter(lacking))]}")
    warnings = [f"{one} and are left out." for one in left_out] if groups else ["There are no runs."]
    warnings += mixed_data
    rows: dict[tuple[str, str], dict[str, Result]] = {}
    for dataset, recipe, method in sorted(groups, key=_order):
        variants = groups[dataset, recipe, method]
        chosen = max(variants.values(), key=lambda mine: (len(mine), -mine[0].seed, max(run.finished for run in mine)))
        if len(variants) > 1:
            others = sum(len(mine) for mine in variants.values()) - len(chosen)
            warnings.append(
                f"{dataset}, {method}: {others} runs of recipe {recipe} have other settings or seeds and are left out; "
                f"shown are settings {chosen[0].recipe_checksum}, seed {chosen[0].seed}."
            )
        counted = (at_epoch(run, pick) for run in sorted(chosen, key=lambda run: run.replica))
        result = Result(dataset, method, recipe, tuple(counted))
        rows.setdefault((dataset, recipe), {})[method] = result
    made = tuple(Row(dataset, recipe, results) for (dataset, recipe), results in rows.items())
    found = {method for row in made for method in row.results}
    methods = tuple(sorted(found | set(METHODS), key=_method_order)) if made else METHODS
    return Study(made, methods, (*warnings, *_gaps(made, methods), *_mixed(made)), number, pick)


def _gaps(rows: Sequence[Row], methods: Sequence[str]) -> Iterable[str]:
    """What is missing or failed."""
    without: dict[str, list[str]] = {}
    for row in rows:
        if absent := [method for method in methods if method in METHODS and method not in row.results]:
            without.setdefault(" or ".join(absent), []).append(row.title)
    yield from (f"No runs of {absent}: {', '.join(titles)}." for absent, titles in without.items())
    for row in rows:
        wanted = 1 + max(run.replica for result in row.results.values() for run in result.runs)
        for method, result in row.results.items():
            lacking = wanted - len({run.replica for run in result.runs})
            if lacking:
                yield f"{row.title}, {method}: {lacking} of {wanted} runs are missing."
            if result.failed:
                yield f"{row.title}, {method}: {result.failed} of {len(result.runs)} runs failed; they are not counted."
        for method, found in row.comparisons.items():
            if found.pairs < min(len(row.results[OURS].done), len(row.results[method].done)):
                yield f"{row.title}: paired tests of {OURS} and {method} use the {found.pairs} splits that both have."


def _mixed(rows: Sequence[Row]) -> Iterable[str]:
    """Where numbers of different versions or devices stand side by side."""
    runs = [run for row in rows for result in row.results.values() for run in result.runs]
    for name in sorted({name for run in runs for name in run.versions}):
        seen = sorted({run.versions.get(name, "unknown") for run in runs})
        if len(seen) > 1:
            yield f"The runs mix versions of {name}: {', '.join(seen)}."
    devices = sorted({run.device for run in runs})
    if len(devices) > 1:
        yield f"The runs are of different devices: {', '.join(devices)}; their seconds do not compare."


def _pairs(one: Result, other: Result) -> list[tuple[float, float]]:
    """Test accuracies on the same splits, in percent."""
    theirs = {(run.replica, run.split_checksum): run.test for run in other.done}
    mine = ((run.test, theirs.get((run.replica, run.split_checksum))) for run in one.done)
    return [(100 * a, 100 * b) for a, b in mine if a is not None and b is not None]


def _test_to_train(ours: Result, theirs: Result) -> float:
    """Graphs that test, for each that trains: the mean over the splits that both have.

    Runs that do not say how large their split was, as older versions stored them, are of the paper's protocol.
    """
    other = {(run.replica, run.split_checksum): run for run in theirs.done}
    pairs = [(run, other[key]) for run in ours.done if (key := (run.replica, run.split_checksum)) in other]
    sized = [first if first.train_graphs else second for first, second in pairs]  # of one split: either may say
    ratios = [run.test_graphs / run.train_graphs if run.train_graphs else TEST_TO_TRAIN for run in sized]
    return fmean(ratios) if ratios else TEST_TO_TRAIN


def _order(key: tuple[str, str, str]) -> tuple[Any, ...]:
    dataset, recipe, method = key
    known = list(paper.REPORTED)
    place = known.index(dataset) if dataset in known else len(known)
    return place, dataset, recipe, _method_order(method)


def _method_order(method: str) -> tuple[int, str]:
    return (ORDER.index(method) if method in ORDER else len(ORDER)), method


def _at(values: Any, index: int) -> float | None:
    return values[index] if values is not None and index < len(values) else None


def _band(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    """Percentiles of each column [3, columns] of rows that may be shorter and have gaps; NaN where nothing is."""
    width = max((len(row) for row in rows), default=0)
    table = np.full((len(rows), width), np.nan)
    for at, row in enumerate(rows):
        table[at, : len(row)] = [np.nan if value is None else value for value in row]
    band = np.full((len(BAND), width), np.nan)
    there = np.isfinite(table).any(0) if len(rows) else np.zeros(width, bool)
    if there.any():
        band[:, there] = np.nanpercentile(table[:, there], BAND, axis=0)
    return band

"""From runs to results: which runs count, and warnings about missing, failed and mixed ones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from compool._words import counted, listed
from compool.data import paper
from compool.report.pick import (
    BEST,
    missing_data,
    remedy,
    require_metric,
    require_metric_of_tasks,
    require_rule,
    run_at_epoch,
)
from compool.report.results import METHOD_ORDER, OURS, Result, Row, Study
from compool.report.same_data import separate_data
from compool.study.metrics import Metric
from compool.study.recipe_settings import METHODS
from compool.study.store import Run


def collect(runs: Iterable[Run], pick: str = BEST, metric: str = "") -> Study:
    """Sort runs into rows of results, in the order of the paper, and note what is missing, failed or mixed.

    Runs on other data with the same name are another data set: see :mod:`compool.report.same_data`.

    If runs of the same data set, method and recipe have different settings or seeds, the group with the most runs is
    used; if tied, the one with the lowest seed, then the latest. `pick` chooses the epoch: see
    :mod:`compool.report.pick`, and `metric` another metric than the one that picked it.

    Example:
        >>> collect([]).warnings
        ('There are no runs.',)
    """
    require_rule(pick)
    require_metric(metric, pick)
    groups: dict[tuple[str, str, str], dict[tuple[str, int], list[Run]]] = {}
    lacking = Counter[str]()
    separated, mixed_data = separate_data(list(runs))
    num_runs = len(separated)
    require_metric_of_tasks(separated, metric)
    for run in separated:
        if missing := missing_data(run, pick, metric):
            lacking[missing] += 1
            continue
        variants = groups.setdefault((run.dataset, run.recipe, run.method), {})
        variants.setdefault((run.recipe_checksum, run.seed), []).append(run)
    excluded = [f"{count} of {num_runs} runs have no {missing}" for missing, count in lacking.items()]
    if excluded and not groups:
        needing = f"--metric {metric}" if metric else f"the rule {pick}"
        raise ValueError(f"{', '.join(excluded)}, which {needing} needs; {remedy(next(iter(lacking)))}")
    warnings = [f"{reason} and are left out." for reason in excluded] if groups else ["There are no runs."]
    warnings += mixed_data
    rows: dict[tuple[str, str], dict[str, Result]] = {}
    for dataset, recipe, method in sorted(groups, key=_order):
        variants = groups[dataset, recipe, method]
        chosen = max(variants.values(), key=lambda runs: (len(runs), -runs[0].seed, max(run.finished for run in runs)))
        if len(variants) > 1:
            others = sum(len(members) for members in variants.values()) - len(chosen)
            warnings.append(
                f"{dataset}, {method}: left out {counted(others, 'run')} of recipe {recipe} with other settings or "
                f"seeds; showing settings {chosen[0].recipe_checksum}, seed {chosen[0].seed}."
            )
        at_epoch = (run_at_epoch(run, pick, metric) for run in sorted(chosen, key=lambda run: run.replica))
        result = Result(dataset, method, recipe, tuple(at_epoch))
        rows.setdefault((dataset, recipe), {})[method] = result
    ordered = tuple(row for (dataset, recipe), results in rows.items() for row in _by_metric(dataset, recipe, results))
    present = {method for row in ordered for method in row.results}
    methods = tuple(sorted(present, key=_method_order))
    general = (*warnings, *_mixed(ordered), *_not_compared(ordered))
    return Study(ordered, methods, (*general, *gaps(ordered)), num_runs, pick, general)


def gaps(rows: Sequence[Row]) -> Iterable[str]:
    """Warnings about missing and failed runs. A method is missing if other rows of the same recipe have it."""
    without: dict[str, list[str]] = {}
    for row in rows:
        present = {method for other in rows if other.recipe == row.recipe for method in other.results}
        twins = [other for other in rows if (other.dataset, other.recipe) == (row.dataset, row.recipe)]
        own = {method for twin in twins for method in twin.results}
        if absent := [method for method in METHODS if method in present and method not in own]:
            without.setdefault(listed(absent, "or"), []).append(row.title)
    yield from (f"No runs of {absent}: {', '.join(titles)}." for absent, titles in without.items())
    for row in rows:
        num_replicas = 1 + max(run.replica for result in row.results.values() for run in result.runs)
        for method, result in row.results.items():
            lacking = num_replicas - len({run.replica for run in result.runs})
            if lacking:
                yield f"{row.title}, {method}: {lacking} of {num_replicas} runs are missing."
            if result.failed:
                yield f"{row.title}, {method}: {result.failed} of {len(result.runs)} runs failed; they are not counted."
            if result.undefined:
                yield (
                    f"{row.title}, {method}: the test {result.metric.title} of {result.undefined} of "
                    f"{len(result.runs)} runs is not defined; they are not counted."
                )
        for method, comparison in row.comparisons.items():
            if comparison.pairs < min(len(row.results[OURS].done), len(row.results[method].done)):
                splits = "only split" if comparison.pairs == 1 else f"{comparison.pairs} splits"
                yield f"{row.title}: paired tests of {OURS} and {method} use the {splits} that both have."


def _mixed(rows: Sequence[Row]) -> Iterable[str]:
    """Warnings about runs of different versions or devices."""
    runs = [run for row in rows for result in row.results.values() for run in result.runs]
    for name in sorted({name for run in runs for name in run.versions}):
        versions = sorted({run.versions.get(name, "unknown") for run in runs})
        if len(versions) > 1:
            yield f"The runs mix versions of {name}: {', '.join(versions)}."
    devices = sorted({run.device for run in runs})
    if len(devices) > 1:
        yield f"The runs mix devices: {', '.join(devices)}; do not compare their times."


def _by_metric(dataset: str, recipe: str, results: dict[str, Result]) -> list[Row]:
    """A row for each metric of the results: values of different metrics must not be compared.

    The metric of a method whose runs all failed may be unknown; then it counts as that of the first row.
    """
    finished = [result for result in results.values() if any(run.status == "done" for run in result.runs)]
    metrics = list(dict.fromkeys(result.metric for result in finished))
    if len(metrics) < 2:
        return [Row(dataset, recipe, results)]
    parts: dict[Metric, dict[str, Result]] = {metric: {} for metric in metrics}
    for method, result in results.items():
        parts[result.metric if result.metric in parts else metrics[0]][method] = result
    return [Row(dataset, recipe, part, has_twin=True) for part in parts.values()]


def _not_compared(rows: Sequence[Row]) -> Iterable[str]:
    """Warnings about rows of the same data set and recipe that are apart because their metrics differ."""
    titles: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        titles.setdefault((row.dataset, row.recipe), []).append(row.title)
    for title, *others in titles.values():
        if others:
            yield (
                f"{title}: not compared with {listed(others)}, because their runs have another metric; "
                "`compool report --metric NAME` shows the same metric of all runs."
            )


def _order(key: tuple[str, str, str]) -> tuple[Any, ...]:
    dataset, recipe, method = key
    known = list(paper.REPORTED)
    position = known.index(dataset) if dataset in known else len(known)
    return position, dataset, recipe, _method_order(method)


def _method_order(method: str) -> tuple[int, str]:
    return (METHOD_ORDER.index(method) if method in METHOD_ORDER else len(METHOD_ORDER)), method

"""Sweeps in a study: runs that differ in a few settings, ranked by validation."""

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from compool._words import counted
from compool.report.collection import gaps
from compool.report.formats import Cell, Table
from compool.report.results import Result, Row, Study
from compool.report.statistics import Summary, summarize
from compool.report.tables import format_summary
from compool.study.metrics import Metric

_SETTING = re.compile(r" (?=[A-Za-z_]\w*=)")


@dataclass(frozen=True)
class Sweep:
    """The results of a method on a data set with different settings, by validation metric, the best first; settings
    with fewer runs than others come last.
    """

    dataset: str
    method: str
    recipe: str
    """The recipe that the settings change, with the changed settings that all results share."""
    keys: tuple[str, ...]
    """The settings that differ."""
    results: tuple[Result, ...]

    @property
    def title(self) -> str:
        """Data set, method, recipe and the settings that differ."""
        recipe = "" if self.recipe == "fast" else f" ({self.recipe})"
        return f"{self.dataset}, {self.method}{recipe}, {' and '.join(self.keys)}"

    @property
    def metric(self) -> Metric:
        """The metric of its runs."""
        return self.results[0].metric

    @property
    def num_incomplete(self) -> int:
        """The number of settings with fewer runs than the first, which are ranked last."""
        return sum(len(result.runs) < len(self.results[0].runs) for result in self.results)

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """The settings of each result, its number of runs, and its mean validation and test metric as in tables."""
        return [
            {
                "settings": {key: _number_or_text(setting_of(result, key)) for key in self.keys},
                "validation": validation_summary(result).mean,
                "test": result.accuracy.mean if result.accuracy else None,
                "runs": len(result.done),
            }
            for result in self.results
        ]


def setting_of(result: Result, key: str) -> Any:
    """The value of a setting of a result; arguments of a user-defined network count as settings."""
    settings = result.runs[0].settings
    arguments = json.loads(settings.get("arguments") or "{}")
    return arguments.get(key, settings.get(key))


def _number_or_text(value: Any) -> float | str:
    """A setting as plots and tables show it: finite numbers as they are; anything else, such as a list, as text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else "none" if value is None else str(value)


def validation_summary(result: Result) -> Summary:
    """Mean and standard deviation of the validation metric over runs, as tables show it."""
    return summarize([result.metric.scale * run.validation for run in result.done if run.validation is not None])


def split_recipe(name: str) -> tuple[str, tuple[str, ...]]:
    """The recipe that settings change, and the names of the settings.

    Example:
        >>> split_recipe("fast lr=0.01 dropout=0.5")
        ('fast', ('lr', 'dropout'))
    """
    base, settings = recipe_parts(name)
    return base, tuple(setting.partition("=")[0] for setting in settings)


def recipe_parts(name: str) -> tuple[str, list[str]]:
    """The recipe that settings change, and the settings, each as ``NAME=VALUE``.

    Example:
        >>> recipe_parts("fast lr=0.01 dropout=0.5")
        ('fast', ['lr=0.01', 'dropout=0.5'])
    """
    base, *settings = _SETTING.split(name)
    return base, settings


def find_sweeps(study: Study) -> tuple[Study, tuple[Sweep, ...]]:
    """The study with one row per sweep, showing the settings that are best in validation, and its sweeps.

    Rows of a data set with the same metric whose recipes change the same settings of the same recipe form a sweep.
    The best settings may differ between methods.

    Example:
        >>> from compool.report.collection import collect
        >>> find_sweeps(collect([]))[1]
        ()
    """
    groups: dict[tuple[str, str, tuple[str, ...], str], list[Row]] = {}
    for row in study.rows:
        base, keys = split_recipe(row.recipe)
        groups.setdefault((row.dataset, base, keys, row.metric.title), []).append(row)
    rows, sweeps = list[Row](), list[Sweep]()
    for (dataset, base, keys, _), members in groups.items():
        made = _sweeps(dataset, base, keys, members) if keys and len(members) > 1 else []
        if not made:
            rows += members
            continue
        sweeps += made
        best = {sweep.method: sweep.results[0] for sweep in made}
        count = max(len(sweep.results) for sweep in made)
        varied = {key for sweep in made for key in sweep.keys}
        name = _with_constants(base, keys, varied, made[0].results[0])
        rows.append(Row(dataset, f"{name}, best of {count}", best, members[0].has_twin))
        rows += [replace(row, results=rest) for row in members if (rest := _without(row, made))]
    if not sweeps:
        return study, ()
    warnings = (*study.general, *gaps(rows), *(text for sweep in sweeps for text in _caveats(sweep)))
    return replace(study, rows=tuple(rows), warnings=warnings), tuple(sweeps)


def _caveats(sweep: Sweep) -> Iterator[str]:
    """Warnings about failed runs of settings that are not the best, which rows do not show, and about settings with
    fewer runs than others, as after an interruption.
    """
    if failed := sum(result.failed for result in sweep.results[1:]):
        counts = "it is not counted" if failed == 1 else "they are not counted"
        yield f"{sweep.title}: {counted(failed, 'run')} with settings other than the best failed; {counts}."
    if sweep.num_incomplete:
        fewer = f"{sweep.num_incomplete} of {len(sweep.results)} settings"
        verbs = ("has", "is") if sweep.num_incomplete == 1 else ("have", "are")
        yield (
            f"{sweep.title}: {fewer} {verbs[0]} fewer than {len(sweep.results[0].runs)} runs and {verbs[1]} ranked "
            "last; rerun the command of the sweep to complete the runs."
        )


def _sweeps(dataset: str, base: str, keys: tuple[str, ...], members: Sequence[Row]) -> list[Sweep]:
    """The sweep of each method that has finished runs of at least two settings."""
    made = []
    for method in dict.fromkeys(method for row in members for method in row.results):
        results = [row.results[method] for row in members if method in row.results]
        results = [result for result in results if any(run.validation is not None for run in result.done)]
        varied = tuple(key for key in keys if len({str(setting_of(result, key)) for result in results}) > 1)
        if len(results) < 2 or not varied:
            continue
        ranked = _ranked(results)
        made.append(Sweep(dataset, method, _with_constants(base, keys, varied, ranked[0]), varied, tuple(ranked)))
    return made


def _ranked(results: Sequence[Result]) -> list[Result]:
    """The results by mean validation metric, the best first; those with fewer runs than the most come last.

    A mean of a few runs may be high by chance. Failed runs count here: training them again would not help.
    """
    sign = -1 if results[0].metric.higher else 1
    most = max(len(result.runs) for result in results)
    return sorted(results, key=lambda result: (len(result.runs) < most, sign * validation_summary(result).mean))


def _with_constants(base: str, keys: Sequence[str], varied: Collection[str], result: Result) -> str:
    """The recipe that settings change, with the settings that do not vary."""
    constants = (f"{key}={_number_or_text(setting_of(result, key))}" for key in keys if key not in varied)
    return " ".join([base, *constants])


def _without(row: Row, sweeps: Sequence[Sweep]) -> dict[str, Result]:
    """The results of a row that are not in a sweep, such as those of methods whose runs all failed."""
    swept = {id(result) for sweep in sweeps for result in sweep.results}
    return {method: result for method, result in row.results.items() if id(result) not in swept}


def sweep_table(sweep: Sweep) -> Table:
    """The settings of a sweep, the best in validation first."""
    metric = sweep.metric
    header = (
        "rank",
        *sweep.keys,
        "runs",
        f"validation {metric.title}{metric.unit}",
        f"test {metric.title}{metric.unit}",
    )
    rows, records = [], []
    for rank, (result, point) in enumerate(zip(sweep.results, sweep.points, strict=True), 1):
        mark = "bold" if rank == 1 else ""
        values = point["settings"]
        validation, test = validation_summary(result), result.accuracy
        numbers = (format_summary(validation, metric), format_summary(test, metric) if test else "–")
        cells = (str(rank), *map(str, values.values()), str(len(result.done)), *numbers)
        rows.append(tuple(Cell(text, mark) for text in cells))
        record: dict[str, Any] = {
            "dataset": sweep.dataset,
            "method": sweep.method,
            "recipe": result.recipe,
            "rank": rank,
        }
        summary: dict[str, Any] = {"runs": len(result.done), "validation_mean": validation.mean}
        summary |= {"validation_std": validation.std, "test_mean": test and test.mean}
        columns = _setting_columns(sweep.keys, {*record, *summary})
        records.append(record | dict(zip(columns, values.values(), strict=True)) | summary)
    last = " Settings with fewer runs than others are ranked last." if sweep.num_incomplete else ""
    note = (
        f"{len(sweep.results)} settings, ranked by the mean validation metric of their runs, not by the test metric."
        f"{last} Bold: the best, which the other tables show."
    )
    return Table(
        f"sweep-{sweep.title}",
        f"Sweep: {sweep.title}",
        header,
        tuple(rows),
        note,
        tuple(records),
        texts=1 + len(sweep.keys),
    )


def _setting_columns(keys: Sequence[str], others: Collection[str]) -> list[str]:
    """The columns of settings in CSV: their names, with a prefix if another column has the same name.

    Example:
        >>> _setting_columns(["rank", "width"], ["method", "rank"])  # arguments of a user-defined network
        ['setting_rank', 'width']
    """
    columns = []
    for key in keys:
        column = key
        while column in others or (column != key and column in keys):
            column = f"setting_{column}"
        columns.append(column)
    return columns


def responses(sweep: Sweep) -> dict[str, list[tuple[float | str, float]]]:
    """For each setting, the mean validation metric at each of its values, over all other settings.

    A setting that was drawn at random has as many values as there were trials.
    """
    means: dict[str, list[tuple[float | str, float]]] = {}
    for key in sweep.keys:
        by_value: dict[float | str, list[float]] = {}
        for point in sweep.points:
            by_value.setdefault(point["settings"][key], []).append(point["validation"])
        ordered = sorted(by_value, key=lambda value: (isinstance(value, str), value))
        means[key] = [(value, fmean(by_value[value])) for value in ordered]
    return means

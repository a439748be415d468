"""The table that lists runs on a terminal."""

from collections.abc import Sequence
from typing import Any

_DATASET_WIDTH = 24  # longer names of data sets wrap in lists of runs


def runs_table(runs: Sequence[Any]) -> Any:
    """A table of runs: one line per data set, method, recipe and seed."""
    from statistics import mean, stdev

    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from compool.report.same_data import separate_data
    from compool.study.metrics import METRICS, chosen_metric, format_mean

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    runs = separate_data(runs)[0]
    in_percent = all(METRICS[chosen_metric(run.metrics)].higher for run in runs)
    longest_dataset = max((len(run.dataset) for run in runs), default=0)
    wrapped = {"recipe": 8} | ({"data set": _DATASET_WIDTH} if longest_dataset > _DATASET_WIDTH else {})
    for heading in ("data set", "method", "recipe", "runs", "test %" if in_percent else "test", "kept %", "seconds"):
        justify: Any = "right" if heading in ("test %", "test", "kept %", "seconds") else "left"
        narrowest = wrapped.get(heading)  # None: never wrapped
        table.add_column(heading, justify=justify, no_wrap=narrowest is None, overflow="fold", min_width=narrowest)
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.method, run.recipe, run.recipe_checksum, run.seed), []).append(run)
    for (dataset, method, recipe, _, seed), members in groups.items():
        tests = [run.test for run in members if run.status == "done" and run.test is not None]
        chosen = next((chosen_metric(run.metrics) for run in members if run.metrics), "accuracy")
        metric = METRICS[chosen]
        text = format_mean(metric, mean(tests), stdev(tests) if len(tests) > 1 else None) if tests else "–"
        text += "" if chosen == "accuracy" or not tests else f" {chosen}"
        kept = " ".join(
            f"{100 * mean(level):.0f}" for level in zip(*(run.kept for run in members if run.kept), strict=False)
        )
        failed = sum(run.status == "failed" for run in members)
        count = f"{len(members) - failed}, {failed} failed" if failed else str(len(members))
        name = f"{recipe}, seed {seed}" if seed else recipe
        table.add_row(
            escape(dataset),
            escape(method),
            escape(name),
            count,
            text,
            kept,
            f"{sum(run.seconds for run in members):,.0f}",
        )
    return table

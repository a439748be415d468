"""The table that lists runs on a terminal."""

from collections.abc import Sequence
from typing import Any

_DATASET_WIDTH = 24  # longer names of data sets wrap in lists of runs


def runs_table(runs: Sequence[Any]) -> Any:
    """A table of runs: one line per data set, method, recipe and seed."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from compool.report.results import Result
    from compool.report.same_data import separate_data
    from compool.report.tables import format_summary
    from compool.study.metrics import metric_of_runs

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for run in separate_data(runs)[0]:
        groups.setdefault((run.dataset, run.method, run.recipe, run.recipe_checksum, run.seed), []).append(run)
    results = [
        Result(members[0].dataset, members[0].method, members[0].recipe, (*members,)) for members in groups.values()
    ]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    in_percent = all(result.metric.higher for result in results)
    longest_dataset = max((len(result.dataset) for result in results), default=0)
    wrapped = {"recipe": 8} | ({"data set": _DATASET_WIDTH} if longest_dataset > _DATASET_WIDTH else {})
    for heading in ("data set", "method", "recipe", "runs", "test %" if in_percent else "test", "kept %", "seconds"):
        justify: Any = "right" if heading in ("test %", "test", "kept %", "seconds") else "left"
        narrowest = wrapped.get(heading)  # None: never wrapped
        table.add_column(heading, justify=justify, no_wrap=narrowest is None, overflow="fold", min_width=narrowest)
    for result in results:
        metric, seed, failed = metric_of_runs(result.runs), result.runs[0].seed, result.failed
        measured = format_summary(result.accuracy, result.metric) if result.accuracy else "–"
        table.add_row(
            escape(result.dataset),
            escape(result.method),
            escape(f"{result.recipe}, seed {seed}" if seed else result.recipe),
            f"{len(result.runs) - failed}, {failed} failed" if failed else str(len(result.runs)),
            f"{measured} {metric}" if result.accuracy and metric != "accuracy" else measured,
            " ".join(f"{level:.0f}" for level in result.kept),
            f"{sum(run.seconds for run in result.runs):,.0f}",
        )
    return table

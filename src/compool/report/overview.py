"""The first tab of the page: all data sets, one recipe at a time."""

import html
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from compool._words import listed
from compool.report.formats import Table, as_html
from compool.report.html_parts import card, caveats, commands, fact_tiles, plot
from compool.report.page_data import rankings
from compool.report.results import OURS, Row, Study
from compool.report.suggestions import comparison_commands
from compool.report.sweeps import Sweep

ADD_DATA = "Add --data as for these runs, unless the graphs are generated"
_BOXES = "A box spans the quartiles of the runs, its line is the median, whiskers reach at most 1.5 times the box."
_FOREST = (
    f"Test metric of {OURS} minus that of each other method, on the same splits. A square is the mean difference, a "
    "line the 95 % interval of the corrected resampled t-test. A filled square: the interval excludes 0. An arrow: it "
    "reaches beyond the axis."
)


def overview(study: Study, tables: Sequence[Table], source: str, sweeps: Sequence[Sweep] = ()) -> str:
    """The tab in HTML. Cards without runs of the chosen recipe are hidden by the page's script.

    Example:
        >>> from compool.report.collection import collect
        >>> "compool run --store study.sqlite" in overview(collect([]), [], "study.sqlite")
        True
    """
    if not study.rows:
        text = "Train some, and write the report again:"
        return "<h2>There are no runs.</h2>" + card(
            commands(text, *(shlex.join(["compool", command, "--store", source]) for command in ("run", "report")))
        )
    parts = ["<h2>Overview</h2>", fact_tiles(_facts(study, sweeps)), caveats(study.warnings), "<div data-legend></div>"]
    if len(study.recipes) > 1:
        parts.append("<div data-recipes></div>")
    for metric in dict.fromkeys(row.metric.title for row in study.rows):
        parts.append(card(plot("boxes", f"test {metric}", metric=metric), f"Test {metric}", boxes_note(study)))
    parts += forest_cards(study.rows, source)
    named = {table.name: table for table in tables if table.rows or table.name == "p-values"}
    parts += [card(as_html(named[name])) for name in ("accuracy", "instead", "p-values") if name in named]
    for index, (recipe, (methods, ranking, num_datasets)) in enumerate(rankings(study)):
        note = (
            f"Average rank of {len(methods)} methods over {num_datasets} data sets. A bar joins methods that do not "
            f"differ significantly by Nemenyi's test at 0.05; Friedman's test: p = {ranking.p_value:.2g}."
        )
        title = "Ranks" if recipe == "fast" else f"Ranks, recipe {recipe}"
        parts.append(card(f'<div class="plot" data-ranks="{index}" data-label="ranks"></div>', title, note))
    for name, plots in (("parameters", plot("bars", "parameters")), ("pooling", "")):
        if name in named:
            parts.append(card(as_html(named[name]) + plots))
    return "\n".join(parts)


def boxes_note(study: Study, every_run: bool = False) -> str:
    """How to read boxes, diamonds and dots; there is a dot for `every_run`, or only for outliers."""
    published = any(row.reported(method) for row in study.rows for method in row.results)
    pools = any(result.kept for row in study.rows for result in row.results.values())
    diamonds = " A diamond is the published mean." if published else ""
    dots = " A dot is a run; point at it to see the same run in both plots." if every_run else " A dot is an outlier."
    kept = " Nodes kept: the share of the validation graphs' nodes left after pooling, for every run."
    return _BOXES + dots + diamonds + (kept if pools else "")


def forest_cards(rows: Sequence[Row], source: str, selectors: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A card with the paired differences of each metric, and one that says how to get those of the other metrics.

    Args:
        rows: the rows of a study, or of one data set.
        source: the path of the study's file, for commands.
        selectors: choose the rows on the page, besides the metric: empty, or the data set.
    """
    cards, lacking = list[str](), list[Row]()
    for metric in dict.fromkeys(row.metric.title for row in rows):
        measured = [row for row in rows if row.metric.title == metric]
        if any(comparison.corrected for row in measured for comparison in row.comparisons.values()):
            drawn = plot("forest", f"paired differences in {metric}", metric=metric, **selectors)
            cards.append(card(drawn, _forest_title(measured), _FOREST))
        else:
            lacking += measured
    if lacking:
        cards.append(card(_how_to_compare(lacking, source), _forest_title(lacking)))
    return cards


def _forest_title(rows: Sequence[Row]) -> str:
    """A title with the metrics of rows, and their data set if it is the only one."""
    metrics = list(dict.fromkeys(row.metric.title for row in rows))
    datasets = {row.dataset for row in rows}
    return f"Paired differences in {listed(metrics)}" + (f", {datasets.pop()}" if len(datasets) == 1 else "")


def _how_to_compare(rows: Sequence[Row], source: str) -> str:
    """How to get paired differences of rows without any."""
    lines, undescribed = comparison_commands(rows, source)
    text = f"This needs at least two runs of {OURS} and of another method on the same splits. {ADD_DATA}"
    if not undescribed:
        return commands(f"{text}:", *lines)
    how = (
        f"For {listed(undescribed)}, train {OURS} and another method with the settings and the seed of these runs, and "
        "at least two replicas. No command is shown, because it cannot be derived from the name of their recipe, or "
        "their runs failed."
    )
    return (commands(f"{text}:", *lines) if lines else f"<p>{text}.</p>") + f"<p>{html.escape(how)}</p>"


def _facts(study: Study, sweeps: Sequence[Sweep]) -> list[tuple[str, str]]:
    results = [result for row in study.rows for result in row.results.values()]
    num_shown = sum(len(result.runs) for result in results)
    hours = sum(run.seconds for result in results for run in result.runs) / 3600
    failed = sum(result.failed for result in results)
    return [
        (f"{num_shown:,}", _shown_runs(study, num_shown, sweeps)),
        (str(len(study.datasets)), "data set" if len(study.datasets) == 1 else "data sets"),
        (str(len(study.recipes)), "recipe" if len(study.recipes) == 1 else "recipes"),
        (f"{failed:,}", "run failed" if failed == 1 else "runs failed"),
        (f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min", "of training"),
    ]


def _shown_runs(study: Study, num_shown: int, sweeps: Sequence[Sweep]) -> str:
    """The name of the number of runs in the tables; if the store has more, where the others are."""
    runs = "run shown" if num_shown == 1 else "runs shown"
    if num_shown == study.num_runs:
        return runs
    num_swept = sum(len(result.runs) for sweep in sweeps for result in sweep.results[1:])
    places = ["Sweeps"] if num_swept else []
    places += ["Caveats"] if num_shown + num_swept < study.num_runs else []
    return f"{runs} of {study.num_runs:,}; others: see {listed(places)}"

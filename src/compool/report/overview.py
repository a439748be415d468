"""The first tab of the page: all data sets, one recipe at a time."""

from collections.abc import Sequence

from compool.report.formats import Table, as_html
from compool.report.html_parts import card, caveats, commands, plot, tiles
from compool.report.page_data import rankings
from compool.report.results import OURS, Study

_BOXES = "A box spans the quartiles of the runs, its line is the median, whiskers reach at most 1.5 times the box."
_FOREST = (
    f"Test metric of {OURS} minus that of each other method, on the same splits. A square is the mean difference, a "
    "line the 95 % interval of the corrected resampled t-test. A filled square: the interval excludes 0. An arrow: it "
    "reaches beyond the axis."
)


def overview(study: Study, tables: Sequence[Table], source: str) -> str:
    """The tab in HTML.

    Example:
        >>> from compool.report.results import collect
        >>> "compool run --store study.sqlite" in overview(collect([]), [], "study.sqlite")
        True
    """
    if not study.rows:
        text = "Train some, and write the report again:"
        return "<h2>There are no runs.</h2>" + card(
            commands(text, f"compool run --store {source}", f"compool report --store {source}")
        )
    parts = ["<h2>Overview</h2>", tiles(_facts(study)), caveats(study.warnings), "<div data-legend></div>"]
    if len(study.recipes) > 1:
        parts.append("<div data-recipes></div>")
    metrics = list(dict.fromkeys(row.metric.title for row in study.rows))
    for metric in metrics:
        parts.append(card(plot("boxes", f"test {metric}", metric=metric), f"Test {metric}", boxes_note(study)))
    parts += [forest_card(study, metric, source) for metric in metrics]
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


def forest_card(study: Study, metric: str, source: str, dataset: str = "") -> str:
    """A card with the paired differences of all data sets or of one, or with how to get some."""
    rows = [row for row in study.rows if row.metric.title == metric and dataset in ("", row.dataset)]
    if any(comparison.corrected for row in rows for comparison in row.comparisons.values()):
        empty_text = "no other method was trained on the same splits with this recipe"
        selectors = {"metric": metric, "empty": empty_text} | ({"dataset": dataset} if dataset else {})
        return card(plot("forest", "paired differences", **selectors), "Paired differences", _FOREST)
    text = f"This needs at least two runs of {OURS} and of another method on the same splits:"
    names = " ".join(name for name in dict.fromkeys(row.dataset for row in rows))
    line = f"compool run {names} --method {OURS},none --store {source}"
    return card(commands(text, line), "Paired differences")


def _facts(study: Study) -> list[tuple[str, str]]:
    results = [result for row in study.rows for result in row.results.values()]
    hours = sum(run.seconds for result in results for run in result.runs) / 3600
    failed = sum(result.failed for result in results)
    return [
        (f"{sum(len(result.runs) for result in results):,}", "runs shown"),
        (str(len(study.datasets)), "data set" if len(study.datasets) == 1 else "data sets"),
        (str(len(study.recipes)), "recipe" if len(study.recipes) == 1 else "recipes"),
        (f"{failed:,}", "run failed" if failed == 1 else "runs failed"),
        (f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min", "of training"),
    ]

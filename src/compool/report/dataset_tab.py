"""The tab of a data set: its recipes and methods side by side."""

import html
from collections.abc import Sequence
from dataclasses import replace

from compool._words import counted
from compool.report.class_tables import class_tables
from compool.report.formats import Table, as_html
from compool.report.html_parts import card, caveats, definitions, fact_tiles, plot, unique
from compool.report.levels import InspectedGraph
from compool.report.overview import boxes_note, forest_cards
from compool.report.results import Result, Row, Study
from compool.report.sweeps import Sweep
from compool.report.tables import NOTHING, PUBLISHED, format_summary

_CURVES = (
    "Median over runs. Point at a line, or at a method above, for the band from the 10th to the 90th percentile of its "
    "runs."
)


def dataset_tab(
    study: Study,
    dataset: str,
    tables: Sequence[Table],
    graphs: Sequence[InspectedGraph],
    sweeps: Sequence[Sweep],
    source: str,
) -> str:
    """The tab as HTML."""
    rows = [row for row in study.rows if row.dataset == dataset]
    titles = tuple(f"{row.title}{end}" for row in rows for end in (":", ","))
    escaped = html.escape(dataset)
    parts = [
        f"<h2>{escaped}</h2>",
        fact_tiles(_facts(rows)),
        caveats([warning for warning in study.warnings if warning.startswith(titles)]),
        f'<div data-legend="{escaped}"></div>',
    ]
    note = boxes_note(replace(study, rows=tuple(rows)), every_run=True)
    for metric in dict.fromkeys(row.metric.title for row in rows):
        selectors = {"dataset": dataset, "metric": metric}
        parts.append(card(plot("boxes", f"test {metric}", **selectors), f"Test {metric}", note))
    parts += forest_cards(rows, source, {"dataset": dataset})
    parts.append(card(f'<div data-curves="{escaped}"></div>', "Training", _CURVES))
    parts += _links(rows, graphs, sweeps)
    for table in tables:
        if not table.name.startswith("sweep-") and (own := _own_rows(table, dataset)).rows:
            bars = plot("bars", "parameters", dataset=dataset) if table.name == "parameters" else ""
            parts.append(card(as_html(own) + bars))
    for row in rows:
        recipe = "" if len(rows) == 1 else f", recipe {row.label}"
        parts += [card(as_html(replace(table, title=table.title + recipe))) for table in class_tables(row)]
    details = "\n".join(_provenance(result) for row in rows for result in row.results.values())
    parts.append(card(details, "Where the numbers come from"))
    return "\n".join(parts)


def _own_rows(table: Table, dataset: str) -> Table:
    """The rows of a data set, without its name, the note, and methods that it does not have."""
    rows = [row for row in table.rows if row[0].text == dataset]
    columns: list[int] = []
    for column, heading in enumerate(table.header[1:], 1):
        is_shown = column < table.texts or any(row[column].text != NOTHING.text for row in rows)
        if is_shown and (heading != PUBLISHED or column - 1 in columns):  # a published number stays next to ours
            columns.append(column)
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    header = tuple(table.header[column] for column in columns)
    return replace(table, header=header, rows=cells, note="", texts=table.texts - 1)


def _facts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The numbers of runs, methods and recipes, and the best mean of each metric."""
    results = [result for row in rows for result in row.results.values()]
    num_runs = sum(len(result.runs) for result in results)
    facts = [(f"{num_runs:,}", "run" if num_runs == 1 else "runs")]
    num_methods = len({result.method for result in results})
    facts.append((str(num_methods), "method" if num_methods == 1 else "methods"))
    num_recipes = len({row.recipe for row in rows})
    facts.append((str(num_recipes), "recipe" if num_recipes == 1 else "recipes"))
    for metric in dict.fromkeys(row.metric for row in rows):
        ranked = [(result.accuracy, result) for result in results if result.metric == metric and result.accuracy]
        if ranked:
            choose = max if metric.higher else min
            summary, result = choose(ranked, key=lambda pair: pair[0].mean)
            extreme = "highest" if metric.higher else "lowest"
            facts.append((format_summary(summary, metric), f"{extreme} mean: {result.method}, {result.recipe}"))
    return facts


def _links(rows: Sequence[Row], graphs: Sequence[InspectedGraph], sweeps: Sequence[Sweep]) -> list[str]:
    """Links to the graphs and sweeps of a data set."""
    names = {row.dataset for row in rows}
    names |= {str(result.runs[0].settings.get("files")) for row in rows for result in row.results.values()}
    links = [
        f'<a href="#graphs" data-graph="{position}">graph {graph.index}</a>'
        for position, graph in enumerate(graphs)
        if graph.dataset in names
    ]
    sweep_links = [
        f'<a href="#sweep-{position}">{html.escape(sweep.title)}</a>'
        for position, sweep in enumerate(sweeps)
        if sweep.dataset == rows[0].dataset
    ]
    cards = [card(f"Look into {', '.join(links)}.", "What pooling does")] if links else []
    return cards + ([card(f"Settings tried: {', '.join(sweep_links)}.", "Sweeps")] if sweep_links else [])


def _provenance(result: Result) -> str:
    """The recipe and versions behind a result."""
    first = result.runs[0]
    replicas = sorted(run.replica for run in result.runs)
    facts = {
        "recipe": f"{result.recipe} ({first.recipe_checksum})",
        "data checksum": unique(run.data_checksum for run in result.runs if run.data_checksum),
        "splits checksum": unique(run.splits_checksum for run in result.runs if run.splits_checksum),
        "seed": first.seed,
        "replicas": f"{len(replicas)}, from {replicas[0]} to {replicas[-1]}",
        "parameters": f"{result.parameters:,}",
        "device": unique(run.device for run in result.runs),
        "finished": unique(run.finished[:10] for run in result.runs),
    }
    facts |= {name: unique(run.versions.get(name, "unknown") for run in result.runs) for name in first.versions}
    failed = [run.replica for run in result.runs if run.status == "failed"]
    facts |= {"failed replicas": ", ".join(map(str, failed))} if failed else {}
    settings = {key: value for key, value in first.settings.items() if key not in ("method", "dataset", "name")}
    runs = counted(len(result.runs), "run")
    return (
        f"<details><summary><b>{html.escape(result.method)}</b> <span class=muted>{runs}, recipe "
        f"{html.escape(result.recipe)}</span></summary>{definitions(facts)}{definitions(settings)}</details>"
    )

"""A study as a single HTML file that needs no network and no server. Text from outside is escaped."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from string import Template
from typing import Any

import compool
from compool.report.class_tables import class_tables
from compool.report.formats import Table, as_html
from compool.report.levels import InspectedGraph
from compool.report.page_data import rankings, script_data
from compool.report.results import Result, Row, Study
from compool.report.sweeps import Sweep, sweep_table
from compool.report.tables import format_summary

_ASSETS = files("compool.report") / "assets"
_FILES = (
    "Beside this page: tables/ has the tables in Markdown, LaTeX and CSV, figures/ the figures in PNG and PDF. "
    "This page needs neither, and no network."
)


def report_page(
    study: Study,
    tables: Sequence[Table],
    graphs: Sequence[InspectedGraph],
    source: str,
    notes: Sequence[str],
    sweeps: Sequence[Sweep] = (),
) -> str:
    """The page of a study.

    Args:
        study: what to show.
        tables: its tables.
        graphs: graphs to show.
        source: the name of the study's file.
        notes: the graphs that could not be shown, and why.
        sweeps: settings that were tried.

    Example:
        >>> from compool.report.results import collect
        >>> "There are no runs." in report_page(collect([]), [], [], "study.sqlite", [])
        True
    """
    names = [row.title for row in study.rows]
    pages = [("overview", "Overview", _overview(study, tables))]
    pages += [(f"data-{index}", name, _dataset(study, index, tables, graphs)) for index, name in enumerate(names)]
    if sweeps:
        pages.append(("sweeps", "Sweeps", _sweeps(sweeps)))
    if graphs or notes:
        more = "".join(f'<p class="muted">{html.escape(note)}</p>' for note in notes)
        pages.append(("graphs", "Graphs", (_GRAPHS if graphs else "<h2>What pooling does</h2>") + more))
    sets = "1 data set" if len(study.datasets) == 1 else f"{len(study.datasets)} data sets"
    subtitle = f"{source}: {study.num_runs:,} runs of {sets}"
    return _page("compool study", subtitle, pages, study, graphs, _FILES, sweeps)


def graph_page(graph: InspectedGraph) -> str:
    """A page that shows a graph.

    Example:
        >>> from compool import data, nn
        >>> from compool.report.levels import inspect_graph
        >>> page = graph_page(inspect_graph(nn.Network("PCL", 4, hidden=8, num_classes=3), data.communities(9), 0))
        >>> page.startswith("<!doctype html>")
        True
    """
    empty = Study((), (), (), 0)
    return _page(f"{graph.dataset}, graph {graph.index}", "", [("graphs", "Graphs", _GRAPHS)], empty, [graph])


_GRAPHS = (
    '<h2>What pooling does</h2><div class="card"><p class="muted">Left: the graph, nodes in the colour of their '
    "supernode, edges by score. Right: the supernodes, where their members were. Move the slider: edges that score "
    'above the threshold merge.</p><div id="viewer"></div></div>'
)


def _page(
    title: str,
    subtitle: str,
    pages: Sequence[tuple[str, str, str]],
    study: Study,
    graphs: Sequence[InspectedGraph],
    more: str = "",
    sweeps: Sequence[Sweep] = (),
) -> str:
    links = [f'<a href="#{anchor}">{html.escape(name)}</a>' for anchor, name, _ in pages]
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        subtitle=html.escape(subtitle),
        style=_asset("page.css"),
        navigation="".join(links) if len(pages) > 1 else "",
        sections="\n".join(f'<section id="{anchor}">\n{text}\n</section>' for anchor, _, text in pages),
        footer=f"Made by compool {html.escape(compool.__version__)}. {html.escape(more)}",
        data=script_data(study, graphs, sweeps),
        script="\n".join(_asset(name) for name in ("plots.js", "graph.js", "page.js")).replace('"use strict";\n', ""),
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _overview(study: Study, tables: Sequence[Table]) -> str:
    results = [result for row in study.rows for result in row.results.values()]
    hours = sum(run.seconds for result in results for run in result.runs) / 3600
    facts = [
        (f"{sum(len(result.runs) for result in results):,}", "runs shown"),
        (str(len(study.datasets)), "data set" if len(study.datasets) == 1 else "data sets"),
        (f"{sum(result.failed for result in results):,}", "failed"),
        (f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min", "of training"),
    ]
    parts = [f"<h2>Overview</h2>{_facts(facts)}", _warnings(study.warnings)]
    published = any(row.reported(method) for row in study.rows for method in row.results)
    paper_mark = "; a diamond is the paper's figure, here and below" if published else ""
    for index, metric in enumerate(dict.fromkeys(row.metric.title for row in study.rows)):
        parts.append(
            f'<div class="card"><h3>Test {metric}</h3><p class="muted">All runs. A box spans the quartiles, a line the '
            f"median, whiskers 1.5 times the box{paper_mark}.</p>{'' if index else '<div data-legend></div>'}"
            f'<div class="plot" data-boxes="all" data-metric="{metric}" data-label="test {metric}"></div></div>'
        )
    if study.rows:
        parts += [_card(as_html(table)) for table in tables if table.name in ("accuracy", "instead", "p-values")]
        for index, (recipe, (methods, ranking, num_datasets)) in enumerate(rankings(study)):
            parts.append(
                f'<div class="card"><h3>Ranks{"" if recipe == "fast" else f" ({html.escape(recipe)})"}</h3>'
                f'<p class="muted">Average rank of {len(methods)} methods over {num_datasets} data sets. A bar joins '
                f"methods that do not differ significantly by Nemenyi's test at 0.05; Friedman's test: "
                f"p = {ranking.p_value:.2g}.</p>"
                f'<div class="plot" data-ranks="{index}" data-label="ranks"></div></div>'
            )
        bars = '<div class="plot" data-bars="all" data-label="parameters"></div>'
        for table in tables:
            if table.name in ("parameters", "pooling"):
                parts.append(_card(as_html(table) + (bars if table.name == "parameters" else "")))
    return "\n".join(parts)


def _sweeps(sweeps: Sequence[Sweep]) -> str:
    """What was tried: the response to each setting, and the settings ranked."""
    parts = ["<h2>Sweeps</h2>"]
    for index, sweep in enumerate(sweeps):
        parts.append(
            f'<div class="card"><h3>{html.escape(sweep.title)}</h3><p class="muted">The mean validation metric of each '
            "combination of settings, at each setting's values; a line is the mean over the other settings, a ring the "
            f'best combination.</p><div data-responses="{index}"></div>{as_html(sweep_table(sweep))}</div>'
        )
    return "\n".join(parts)


def _dataset(study: Study, index: int, tables: Sequence[Table], graphs: Sequence[InspectedGraph]) -> str:
    row = study.rows[index]
    facts = [
        (format_summary(result.accuracy, row.metric) if result.accuracy else "–", f"{method}, {len(result.done)} runs")
        for method, result in row.results.items()
    ]
    warnings = [warning for warning in study.warnings if warning.startswith((f"{row.title}:", f"{row.title},"))]
    parts = [
        f"<h2>{html.escape(row.title)}</h2>{_facts(facts)}",
        _warnings(warnings),
        "<div data-legend></div>",
        f'<div class="card"><h3>Test {row.metric.title}</h3><p class="muted">A dot is a run.</p>'
        f'<div class="plot" data-boxes="{index}" data-label="test {row.metric.title}"></div></div>',
        '<div class="card"><h3>Training</h3><p class="muted">Median over runs, and the band from the 10th to the 90th '
        f'percentile.</p><div data-curves="{index}"></div></div>',
    ]
    positions = [position for position, graph in enumerate(graphs) if graph.dataset in _sets(row)]
    if positions:
        links = " ".join(
            f'<a href="#graphs" data-graph="{position}">graph {graphs[position].index}</a>' for position in positions
        )
        parts.append(f'<div class="card"><h3>What pooling does</h3>Look into {links}.</div>')
    for table in tables:
        if table.name.startswith("sweep-"):
            continue
        rows = tuple(cells[1:] for cells in table.rows if cells[0].text == row.title)
        if rows:
            parts.append(
                _card(as_html(replace(table, header=table.header[1:], rows=rows, note="", texts=table.texts - 1)))
            )
    parts += [_card(as_html(table)) for table in class_tables(row)]
    details = "\n".join(_provenance(result) for result in row.results.values())
    parts.append(f'<div class="card"><h3>Where the numbers come from</h3>{details}</div>')
    return "\n".join(parts)


def _sets(row: Row) -> set[str]:
    """The names of the graphs of a data set: its own name, and that of its files."""
    return {row.dataset} | {str(result.runs[0].settings.get("files")) for result in row.results.values()}


def _provenance(result: Result) -> str:
    """The recipe and versions behind a result."""
    first = result.runs[0]
    replicas = sorted(run.replica for run in result.runs)
    facts = {
        "recipe": f"{result.recipe} ({first.recipe_checksum})",
        "data checksum": _several(run.data_checksum for run in result.runs if run.data_checksum),
        "checksum of the splits": _several(run.splits_checksum for run in result.runs if run.splits_checksum),
        "seed": first.seed,
        "replicas": f"{len(replicas)}, from {replicas[0]} to {replicas[-1]}",
        "parameters": f"{result.parameters:,}",
        "device": _several(run.device for run in result.runs),
        "finished": _several(run.finished[:10] for run in result.runs),
    }
    facts |= {name: _several(run.versions.get(name, "unknown") for run in result.runs) for name in first.versions}
    failed = [run.replica for run in result.runs if run.status == "failed"]
    facts |= {"failed replicas": ", ".join(map(str, failed))} if failed else {}
    settings = {key: value for key, value in first.settings.items() if key not in ("method", "dataset", "name")}
    return (
        f"<details><summary><b>{html.escape(result.method)}</b> <span class=muted>{len(result.runs)} runs, recipe "
        f"{html.escape(result.recipe)}</span></summary>{_list(facts)}{_list(settings)}</details>"
    )


def _list(facts: dict[str, Any]) -> str:
    lines = (
        f"<div><dt>{html.escape(str(key).replace('_', ' '))}</dt><dd>{html.escape(str(value))}</dd></div>"
        for key, value in facts.items()
        if value not in (None, "")
    )
    return f"<dl>{''.join(lines)}</dl>"


def _several(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    lines = (f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for value, name in facts)
    return f'<div class="facts">{"".join(lines)}</div>'


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    lines = "".join(f"<li>{html.escape(warning)}</li>" for warning in warnings)
    return f'<div class="warnings" role="note"><b>Caveats</b><ul>{lines}</ul></div>'


def _card(text: str) -> str:
    return f'<div class="card">{text}</div>'

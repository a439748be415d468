"""A study as a single HTML file that needs no network and no server. Text from outside is escaped."""

import html
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import PurePath
from string import Template

import compool
from compool._words import counted
from compool.report.dataset_tab import dataset_tab
from compool.report.formats import Table, as_html
from compool.report.html_parts import card, commands
from compool.report.levels import InspectedGraph
from compool.report.overview import ADD_DATA, overview
from compool.report.page_data import anchors, script_data
from compool.report.results import OURS, Study
from compool.report.sweeps import Sweep, sweep_table

_ASSETS = files("compool.report") / "assets"
_SCRIPTS = ("plots.js", "lines.js", "curves.js", "ranks.js", "sweeps.js", "graph.js", "page.js")
_FILES = (
    "Next to this page, tables/ has the tables in Markdown, LaTeX and CSV, and figures/ the figures in PNG and PDF. "
    "This page works without them, and offline."
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
        source: the path of the study's file, as commands on the page name it.
        notes: the graphs that could not be shown, and why.
        sweeps: its sweeps.

    Example:
        >>> from compool.report.collection import collect
        >>> "There are no runs." in report_page(collect([]), [], [], "study.sqlite", [])
        True
    """
    pages = [("overview", "Overview", overview(study, tables, source, sweeps))]
    for dataset, anchor in anchors(study).items():
        pages.append((anchor, dataset, dataset_tab(study, dataset, tables, graphs, sweeps, source)))
    if study.rows:
        example = study.datasets[0]
        pages.append(("sweeps", "Sweeps", _sweeps(sweeps, example, source)))
        pages.append(("graphs", "Graphs", _graphs(graphs, notes, example, source)))
    size = f"{counted(study.num_runs, 'run')} on {counted(len(study.datasets), 'data set')}"
    subtitle = f"{PurePath(source).name}: {size}"
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


_GRAPHS = "<h2>What pooling does</h2>" + card(
    '<div id="viewer"></div>',
    note="Left: the graph, nodes in the colour of their supernode, edges by score. Right: the supernodes, in the "
    "middle of their members. Move the slider: edges that score above the threshold merge.",
)


def _graphs(graphs: Sequence[InspectedGraph], notes: Sequence[str], example: str, source: str) -> str:
    """The graphs, and why some are not shown; if there are none, how to get them."""
    more = "".join(f'<p class="muted">{html.escape(note)}</p>' for note in notes)
    if graphs:
        return _GRAPHS + more
    text = f"Train a network with {OURS} pooling for each data set, or look into one graph of a stored run. {ADD_DATA}:"
    report = ["compool", "report", "--store", source, "--graphs"]
    show = ["compool", "show", example, "0", "--store", source]
    shown = commands(text, shlex.join(report), shlex.join(show))
    return "<h2>What pooling does</h2>" + card(more + shown, "No graphs yet")


def _sweeps(sweeps: Sequence[Sweep], example: str, source: str) -> str:
    """The response to each setting that was tried, and the ranked settings; if there are no sweeps, how to get one."""
    parts = ["<h2>Sweeps</h2>"]
    if not sweeps:
        settings = ["--set", "lr=1e-3,3e-3", "--set", "dropout=0,0.1", "--replicas", "5"]
        line = shlex.join(["compool", "run", example, "--method", OURS, *settings, "--store", source])
        text = f"Several values of a setting make a sweep. {ADD_DATA}:"
        parts.append(card(commands(text, line), "No sweeps yet"))
    note = (
        "The mean validation metric of each combination of settings, at each setting's values. A line is the mean over "
        "the other settings, a ring the best combination."
    )
    for index, sweep in enumerate(sweeps):
        plots = f'<div class="responses" data-responses="{index}"></div>'
        ranking = as_html(replace(sweep_table(sweep), title="Ranked by validation"))
        parts.append(card(plots + ranking, sweep.title, note, anchor=f"sweep-{index}"))
    return "\n".join(parts)


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
        script="\n".join(map(_asset, _SCRIPTS)).replace('"use strict";\n', ""),
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")

"""Write tables, figures and a page from a study's store."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from compool import data
from compool._files import atomic_write
from compool.data import tu
from compool.report.collection import collect
from compool.report.drawing import draw
from compool.report.figures import figures
from compool.report.file_list import remove_outdated, save_file_list
from compool.report.formats import as_csv, latex, markdown
from compool.report.levels import MAX_DRAWN_NODES, InspectedGraph, inspect_graph
from compool.report.networks import OnTraining, chosen_run, is_kept, network_of
from compool.report.page import graph_page, report_page
from compool.report.pick import BEST
from compool.report.plotting import file_names, save_figure, write_figure
from compool.report.results import Study
from compool.report.sweeps import find_sweeps, sweep_table
from compool.report.tables import tables
from compool.study import recipe_data
from compool.study.kept import recipe_of
from compool.study.store import Store
from compool.study.training import OnEpoch

_log = logging.getLogger(__name__)
GRAPHS_PER_DATASET = 3  # graphs to show: one for each of the first classes


def report_folder(store: Path) -> Path:
    """The default folder of a study's report.

    Example:
        >>> report_folder(Path("results/study.sqlite")).as_posix()
        'results/study-report'
    """
    return store.with_name(f"{store.stem}-report")


def write_report(
    store: Path,
    out: Path | None = None,
    folder: Path | None = None,
    train: bool = False,
    on_status: Callable[[str], None] = lambda text: None,
    on_training: OnTraining = lambda text: None,
    on_epoch: OnEpoch | None = None,
    pick: str = BEST,
    metric: str = "",
) -> tuple[Study, Path]:
    """Write the report of a study: tables, figures, and finally ``index.html``.

    Existing files are replaced. Files of an earlier report in the folder that this one does not have are removed.

    Args:
        store: the study's file.
        out: the folder to write to; by default one beside the store.
        folder: the folder of data sets, to show graphs.
        train: train a network for each data set without a stored one, to show its graphs.
        on_status: called with the current step, in words.
        on_training: called before such a network is trained, with what is trained, and why.
        on_epoch: called after each epoch of its training.
        pick: which epoch of a training counts: see :data:`~compool.report.pick.PICKS`.
        metric: show this metric; by default, the one that picked the epoch.

    Returns:
        The study as shown, and the path of the page.

    Example:
        >>> store = Store(getfixture("tmp_path") / "study.sqlite")
        >>> study, path = write_report(store.path)
        >>> path.name, study.warnings
        ('index.html', ('There are no runs.',))
    """
    on_status("reading the runs")
    runs = list(Store(store).runs())
    study, sweeps = find_sweeps(collect(runs, pick, metric))
    out = out or report_folder(store)
    written = list[Path]()
    all_tables = [*tables(study), *map(sweep_table, sweeps)]
    for name, table in zip(file_names(table.name for table in all_tables), all_tables, strict=True):
        for ending, text in (("md", markdown(table)), ("tex", latex(table)), ("csv", as_csv(table))):
            written.append(out / "tables" / f"{name}.{ending}")
            write_text(written[-1], text)
    for name, figure in figures(study, sweeps):
        on_status(f"drawing {name}")
        written += save_figure(figure, out / "figures", name)
    best = collect(runs)  # stored networks are those of the best epoch
    inspected, notes = _inspect_graphs(store, best, folder, train, on_status, on_training, on_epoch)
    write_text(out / "index.html", report_page(study, all_tables, inspected, str(store), notes, sweeps))
    remove_outdated(out, written)
    save_file_list(out, written)
    warnings = (*study.warnings, *(notes if train else ()))
    return replace(study, warnings=warnings, sweeps=sweeps), out / "index.html"


def write_text(path: Path, text: str) -> None:
    """Write a text file completely or not at all.

    Example:
        >>> write_text(getfixture("tmp_path") / "note.txt", "done")
    """
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def save_graph(graph: InspectedGraph, path: Path) -> None:
    """Write a graph as a page (``.html``) or a picture (``.png``, ``.svg``, ``.pdf``).

    Example:
        >>> from compool import nn
        >>> graph = inspect_graph(nn.Network("PCL", 4, hidden=8, num_classes=3), data.communities(9), 0)
        >>> save_graph(graph, getfixture("tmp_path") / "graph.svg")
    """
    if path.suffix == ".html":
        write_text(path, graph_page(graph))
    else:
        write_figure(draw(graph), path)


def _inspect_graphs(
    store: Path,
    study: Study,
    folder: Path | None,
    train: bool,
    on_status: Callable[[str], None],
    on_training: OnTraining,
    on_epoch: OnEpoch | None,
) -> tuple[list[InspectedGraph], list[str]]:
    """A few graphs of each data set with a stored or newly trained network, and notes about graphs not shown."""
    inspected: list[InspectedGraph] = []
    untrained: list[str] = []
    notes = []
    for dataset in study.datasets:
        run = chosen_run(study, dataset)
        if run is None:
            continue
        if not train and not is_kept(store, run):
            untrained.append(dataset)
            continue
        try:
            recipe = recipe_of(run)
            name = recipe.files or recipe.dataset
            is_known = folder is not None or name in tu.available(tu.cache_folder())
            if not is_known and not recipe_data.must_generate(name, folder):
                raise ValueError(f"{name} was not found; give its folder with --data")
            on_status(f"pooling graphs of {dataset}")
            graphs = recipe_data.load_data(recipe, folder)
            network, about = network_of(run, store, graphs, folder, on_training, on_epoch)
            features = data.features(graphs, recipe.features)
            inspected += [inspect_graph(network, graphs, index, features, about=about) for index in _examples(graphs)]
        except (ValueError, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError):  # not the user's fault: continue the report, but log the traceback
                _log.exception("the graphs of %s cannot be shown", dataset)
            notes.append(f"{dataset}: its graphs are not shown: {error}.")
    if untrained:
        notes.append(f"No network is stored for {', '.join(untrained)}; compool report --graphs trains one for each.")
    return inspected, notes


def _examples(graphs: data.GraphSet) -> Sequence[int]:
    """For each of the first few classes, the first graph that is small enough to be drawn quickly."""
    sizes = graphs.node_ptr[1:] - graphs.node_ptr[:-1]
    if graphs.task != "classification":
        return [index for index in range(len(graphs)) if 1 < sizes[index] <= MAX_DRAWN_NODES // 10][:GRAPHS_PER_DATASET]
    examples = []
    for label in range(min(GRAPHS_PER_DATASET, graphs.num_classes)):
        members = [
            index
            for index in range(len(graphs))
            if graphs.y[index] == label and 1 < sizes[index] <= MAX_DRAWN_NODES // 10
        ]
        examples += members[:1]
    return examples

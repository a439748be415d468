"""Commands that write reports and show graphs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from compool._words import counted
from compool.cli._app import DataFolder, app, examples, stop


@app.command(
    "report",
    epilog=examples(
        "compool report",
        "compool report --store out/communities.sqlite --graphs",
        "compool report --pick last --out out/last",
    ),
)
def report_study(
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to.", show_default="STORE-report beside the store")
    ] = None,
    data: DataFolder = None,
    graphs: Annotated[
        bool,
        typer.Option("--graphs", help="Show graphs; trains a network for each data set without a stored one."),
    ] = False,
    pick: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Which epoch counts: best (best validation score; the latest if tied), first (the same; the earliest "
            "if tied), last, or loss (lowest validation loss).",
        ),
    ] = "best",
    metric: Annotated[
        str,
        typer.Option(
            help="Metric to show: accuracy, balanced_accuracy, f1, roc_auc, average_precision, mae or rmse.",
            show_default="the one that picked the epoch",
        ),
    ] = "",
) -> None:
    """Write tables, figures and a self-contained page from the runs of a study."""
    from rich.console import Console

    from compool.cli._data import find_data
    from compool.report import formats, tables
    from compool.report.sweeps import sweep_table

    if not store.exists():
        raise stop(f"--store {store} does not exist; `compool run` creates it")
    if out is not None and out.exists() and not out.is_dir():
        raise stop(f"--out {out} is a file; give a folder")
    study, path = report_with_status(store, out, find_data(data).folder, graphs, pick, metric)
    console = Console() if Console().is_terminal else Console(width=160)
    for table in (*tables.tables(study), *map(sweep_table, study.sweeps)):
        if table.rows:
            console.print(formats.terminal(table))
    for warning in study.warnings:
        console.print(warning, style="yellow", markup=False, highlight=False)
    print(f"report: {path}")


def report_with_status(
    store: Path, out: Path | None, data: Path | None, graphs: bool, pick: str = "best", metric: str = ""
) -> tuple[Any, Path]:
    """Write a report, and show the current step in the terminal."""
    from compool.cli._display import Display
    from compool.report.write import write_report

    with Display("reporting") as display:
        try:
            callbacks = (display.status, display.on_training, display.on_epoch)
            return write_report(store, out, data, graphs, *callbacks, pick, metric)
        except OSError as error:
            command = f"compool report --store {store}" + ("" if out is None else f" --out {out}")
            raise OSError(f"{error}; the runs are safe in {store}, retry with `{command}`") from None


@app.command(
    "show",
    epilog=examples(
        "compool show communities 0",
        "compool show NCI1 7 --data ~/data --store study.sqlite",
        "compool show NCI1 7 --data ~/data --model network.safetensors --out picture.svg",
    ),
)
def show_graph(
    dataset: Annotated[str, typer.Argument(help="The data set.")],
    index: Annotated[int, typer.Argument(help="Index of the graph, from 0.")],
    store: Annotated[
        Path | None,
        typer.Option(help="Use the network of a run of this study.", show_default="study.sqlite if it exists"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Use the network in this file (safetensors).")] = None,
    recipe: Annotated[str, typer.Option(help="The recipe of the run.", show_default="any")] = "",
    replica: Annotated[
        int | None,
        typer.Option(min=0, help="Replica of the run.", show_default="the one with the best validation score"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run.", show_default="any")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=-1, max=1, help="Merge edges with a score above this.", show_default="the network's"),
    ] = None,
    data: DataFolder = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .html (with a slider), .png, .svg or .pdf.", show_default="DATASET-INDEX.html"
        ),
    ] = None,
) -> None:
    """Show what component pooling does to one graph, level by level.

    Uses the stored network of a run. A run without weights is trained again once, and its network is kept beside the
    store. Without a study or a model, four replicas are trained with the data set's recipe, and the one with the
    best validation score is shown. The command says so before it trains.
    """
    from compool.cli._data import find_data
    from compool.cli._display import Display
    from compool.report import networks, plotting
    from compool.report.write import save_graph

    target = out or Path(f"{plotting.file_name(dataset)}-{index}.html")
    if target.suffix not in (".html", ".png", ".svg", ".pdf"):
        raise stop(f"--out must end in .html, .png, .svg or .pdf; got {target}")
    if store is not None and model is not None:
        raise stop("give --store or --model, not both")
    for option, number in (("--replica", replica), ("--seed", seed)):
        if number is not None and model is not None:
            raise stop(f"give --model or {option}, not both")
    for option, path in (("--store", store), ("--model", model)):
        if path is not None and not path.exists():
            raise stop(f"{option} {path} does not exist")
    source = find_data(data)
    source.datasets([dataset], dataset)
    try:
        with Display("loading") as display:
            callbacks = (display.on_training, display.on_epoch)
            graph = networks.inspect_trained(
                dataset, index, store, model, recipe, replica, seed, threshold, source.folder, *callbacks
            )
            display.status("drawing")
            save_graph(graph, target)
    except KeyboardInterrupt:
        raise stop("stopped; nothing was written", 130) from None
    for depth, level in enumerate(graph.levels, 1):
        sizes = f"{counted(len(level.cluster), 'node')}, {counted(level.num_supernodes, 'supernode')}"
        print(f"level {depth}: {sizes}" + (f" at threshold {level.threshold:g}" if level.has_threshold else ""))
    print(f"Graph {graph.index}: {graph.verdict}. {graph.about}")
    print(target)

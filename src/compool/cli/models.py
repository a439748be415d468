"""Commands that export trained networks and predict with them."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from compool.cli._app import DataFolder, app, examples, stop


@app.command(
    "export",
    epilog=examples(
        "compool export communities --out model",
        "compool export NCI1 --method gin --recipe paper --replica 3 --data ~/data --out model",
        "compool export MUTAG --method Net --data ~/data --out model --trust",
    ),
)
def export_network(
    dataset: Annotated[str, typer.Argument(help="The data set.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write.")],
    method: Annotated[str, typer.Option(help="The method, or the class of your own network.")] = "component",
    recipe: Annotated[str, typer.Option(help="The recipe of the run.", show_default="any")] = "",
    replica: Annotated[
        int | None, typer.Option(help="Replica of the run.", show_default="the one with the best validation score")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.", show_default="any")] = None,
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    data: DataFolder = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the code of your own network to check its score.")
    ] = False,
) -> None:
    """Write the network of a run to a folder, with its weights, settings, features and class names.

    Predicts the run's test graphs again, and prints the score next to the stored one.
    """
    from compool.cli._data import find_data
    from compool.cli._display import Display
    from compool.study import Store, export, find_run, load_model, recipe_data
    from compool.study.kept import recipe_of
    from compool.study.metrics import METRICS, chosen_metric
    from compool.study.own_network import class_name, is_reference

    if not store.exists():
        raise stop(f"--store {store} does not exist; `compool run` creates it")
    _require_export_folder(out)
    source = find_data(data)
    source.datasets([dataset], dataset)
    method = class_name(method) if is_reference(method) else method
    with Display("loading") as display:
        wanted = store, _known_name(dataset), method, recipe, replica, seed
        graphs = recipe_data.load_data(recipe_of(find_run(*wanted)), source.folder)
        run = find_run(*wanted, graphs.checksum)
        used = recipe_of(run)
        display.status("exporting")
        export.export_run(run, Store(store).weights(run), graphs, out)
        measured = None
        if trust or not used.own_network:
            measured = export.measured_score(load_model(out, trust), run, graphs)
    print(
        f"{run.method} on {run.dataset}, recipe {run.recipe}, seed {run.seed}, replica {run.replica}, epoch {run.epoch}"
    )
    if measured is not None:
        metric = METRICS[chosen_metric(run.metrics)]
        scores = [
            "not defined" if value is None or isnan(value) else f"{metric.scale * value:.4f}"
            for value in (measured, run.test)
        ]
        print(f"test {metric.title}{metric.unit}: {scores[0]}; in the study: {scores[1]}")
    print(out)


@app.command(
    "predict",
    epilog=examples(
        "compool predict model --data new_graphs.zip",
        "compool predict model --data FOLDER --json",
        "compool predict model --data graphs.npz --out predictions.csv",
    ),
)
def predict_graphs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that `compool export` wrote.")],
    data: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="The graphs: a zip file or folder in the TU layout, a saved set (.npz), or FILE.py:FUNCTION.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    trust: Annotated[bool, typer.Option("--trust", help="Run the Python code that comes with the network.")] = False,
) -> None:
    """Predict the class, numbers or labels of each graph, and the share of its nodes that pooling keeps."""
    from rich.console import Console
    from rich.progress import Progress

    from compool._files import atomic_write
    from compool.cli._data import find_data, graphs_of, is_function
    from compool.data.opening import open_graphs
    from compool.study import load_model, local_resources

    if out is not None and out.is_dir():
        raise stop(f"--out {out} is a folder; give a file")
    model = load_model(folder, trust, local_resources(device).device)
    if not is_function(data):
        find_data(data)  # stops if there are no graphs
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None)
        graphs = graphs_of(str(data)) if is_function(data) else open_graphs(data)[0]
        progress.update(task, description="predicting", total=len(graphs))
        predictions = model.predict(graphs, on_graphs=lambda done: progress.update(task, completed=done))
    rows = predictions.rows()
    text = json.dumps(list(rows), indent=1, allow_nan=False) + "\n" if as_json else "".join(_csv_lines(rows))
    if out is None:
        sys.stdout.write(text)
        return
    with atomic_write(out) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
    print(out)


def _csv_lines(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Rows of predictions as CSV: nested values become columns such as ``probability_1`` and ``kept_1``."""
    from compool.study.columns import escape_cell

    for index, row in enumerate(rows):
        cells: dict[str, Any] = {"graph": row["graph"]}
        if "class" in row:
            cells["class"] = row["class"] if row["class"].removeprefix("-").isdigit() else escape_cell(row["class"])
        for key, prefix in (("probabilities", "probability_"), ("values", "value_")):
            cells |= {f"{prefix}{name}": f"{number:.9g}" for name, number in row.get(key, {}).items()}
        cells |= {f"kept_{level}": f"{share:.6g}" for level, share in enumerate(row["kept"], 1)}
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if index == 0:
            writer.writerow(cells)
        writer.writerow(cells.values())
        yield buffer.getvalue()


def _known_name(dataset: str) -> str:
    """The name of a data set in studies: the paper's name, if it has one."""
    from compool.study import recipe

    return recipe("component", dataset).dataset


def _require_export_folder(out: Path) -> None:
    """Stop unless the folder is new, empty, or an earlier export."""
    if out.exists() and not out.is_dir():
        raise stop(f"--out {out} is a file; give a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / "model.json").exists():
        raise stop(f"--out {out} contains other files; give a new folder")

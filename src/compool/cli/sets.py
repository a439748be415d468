"""Commands that list data sets and recipes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from compool._words import counted
from compool.cli._app import app, examples, stop


@app.command("datasets", epilog=examples("compool datasets --data ~/data", "compool datasets --json"))
def list_datasets(
    data: Annotated[
        Path | None,
        typer.Option("--data", envvar="COMPOOL_DATA", help="Folder of data sets.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the available data sets and compare them with the paper's Table 1.

    Looks in the folder `--data` (zip files, unpacked folders, `.npz` files or a PyG root) and in the cache. A set is
    parsed the first time it is listed.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress
    from rich.table import Table

    from compool.cli._data import is_in_environment
    from compool.data import paper, tu

    if data is not None and not data.is_dir():
        option = "COMPOOL_DATA" if is_in_environment(data) else "--data"
        raise stop(f"{option} {data} is not a folder of data sets")
    in_folder = set(tu.available(data)) if data is not None else set()
    cached = set(tu.available(tu.cache_folder()))
    rows: list[dict[str, Any]] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name in progress.track(sorted(in_folder | cached | set(paper.TABLE_1)), description="reading"):
            row: dict[str, Any] = {"name": name, "paper": None, "found": None, "error": None}
            if name in paper.TABLE_1:
                row["paper"] = paper.TABLE_1[name]._asdict()
            if name in in_folder | cached:
                try:
                    row["found"] = tu.summary(name, data if name in in_folder else None)
                except (ValueError, OSError) as error:
                    row["error"] = str(error)
            rows.append(row)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(box=SIMPLE_HEAD, padding=0)  # fits in 80 columns
    table.add_column("data set", no_wrap=True)
    for heading in ("graphs", "nodes", "edges", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("features")
    for row in rows:
        table.add_row(escape(row["name"]), *_cells(row))
    Console().print(table)
    Console().print("nodes, edges: mean per graph; [bold red]red[/]: differs from the paper's Table 1 (in brackets)")


def _cells(row: dict[str, Any]) -> list[str]:
    from rich.markup import escape

    summary, described = row["found"], row["paper"]
    if summary is None:
        paper = [f"({described[key]:,})" for key in ("graphs", "nodes", "edges", "classes")] if described else [""] * 4
        return [*paper, f"[bold red]{escape(row['error'])}[/]" if row["error"] else "not found"]
    cells = []
    for key in ("graphs", "nodes", "edges", "classes"):
        text = f"{summary[key]:,}"
        if described and summary[key] != described[key]:
            text = f"[bold red]{text}[/] ({described[key]:,})"
        cells.append(text)
    kinds = [
        f"{summary[key]} {key.replace('_', ' ').removeprefix('node ')}"
        for key in ("node_attributes", "node_labels", "edge_attributes", "edge_labels")
        if summary.get(key)  # files of the first format have no keys for edges
    ]
    kinds += [summary["task"]] if summary.get("task", "classification") != "classification" else []
    kinds += [f"{summary['self_loops']:,} self-loops"] if summary["self_loops"] else []
    return [*cells, ", ".join(kinds) or "none"]


@app.command(
    "recipes",
    epilog=examples("compool recipes", "compool recipes --method gin --recipe paper", "compool recipes --json"),
)
def list_recipes(
    method: Annotated[str, typer.Option(help="Only this method: component, edgepool or gin.")] = "",
    name: Annotated[str, typer.Option("--recipe", help="Only recipes of this name, such as fast or paper.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every setting.")] = False,
) -> None:
    """List the recipes: how each method is trained on each data set, and how many parameters its network has."""
    from dataclasses import asdict

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from compool import study
    from compool._words import did_you_mean

    if method and method not in study.METHODS:
        hint = did_you_mean(method, study.METHODS)
        raise stop(f"--method must be one of {', '.join(study.METHODS)}; got {method!r}{hint}")
    chosen = [recipe for recipe in study.recipes() if method in ("", recipe.method) and name in ("", recipe.name)]
    if not chosen:
        names = sorted({recipe.name for recipe in study.recipes() if method in ("", recipe.method)})
        raise stop(f"--recipe must be one of {', '.join(names)}; got {name!r}{did_you_mean(name, names)}")
    counts = [recipe.parameters for recipe in chosen]
    if as_json:
        rows = [asdict(recipe) | {"parameters": count} for recipe, count in zip(chosen, counts, strict=True)]
        print(json.dumps(rows, indent=1))
        return
    for kind in dict.fromkeys(recipe.method for recipe in chosen):
        table = Table(title=kind, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=0)
        table.add_column("data set", no_wrap=True)
        table.add_column("parameters", justify="right", no_wrap=True)
        table.add_column("settings: shared, then per recipe")
        for dataset in dict.fromkeys(recipe.dataset for recipe in chosen if recipe.method == kind):
            groups: dict[tuple[str, ...], list[str]] = {}  # names of recipes, by parameters and settings
            for recipe, count in zip(chosen, counts, strict=True):
                if (recipe.method, recipe.dataset) == (kind, dataset):
                    groups.setdefault((f"{count:,}", *setting_words(recipe)), []).append(recipe.name)
            (num_parameters, *first), *others = groups
            shared = [text for text in first if all(text in other for other in others)]
            same = all(num_parameters == other[0] for other in others)
            table.add_row(dataset, num_parameters if same else "", ", ".join(shared))
            for (num_parameters, *texts), names in groups.items():
                own = ", ".join(text for text in texts if text not in shared)
                table.add_row(f"  {', '.join(names)}", "" if same else num_parameters, own)
        Console().print(table)
    Console().print("Data sets without a built-in recipe use the defaults of each method.")


def setting_words(recipe: Any) -> list[str]:
    """The settings of a recipe, each in words."""
    shown = dict(recipe.non_default)
    rate = {
        "halving": [f"lr halved every {recipe.halve}"],
        "plateau": [f"schedule plateau: lr halved after {recipe.halve} epochs without improvement"],
    }.get(recipe.schedule, [f"schedule {recipe.schedule}"])
    shown.pop("schedule", None)
    words = [
        recipe.layers,
        f"features {recipe.features}" + ("" if recipe.in_channels is None else f" ({recipe.in_channels})"),
        f"hidden {recipe.hidden}",
        f"batch {recipe.batch}",
        counted(recipe.epochs, "epoch"),
        f"lr {recipe.lr:g}",
        *rate,
        recipe.optimizer,
        f"decay {recipe.weight_decay:g}",
        f"dropout {recipe.dropout:g}",
        f"readout {recipe.readout}",
    ]
    return words + [f"{key} {value}" for key, value in shown.items()]

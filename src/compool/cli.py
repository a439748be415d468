"""The command line. Heavy imports wait until a command needs them."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Edge-based graph component pooling.",
    pretty_exceptions_enable=False,
)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", envvar="COMPOOL_DATA", help="Folder with data sets.", show_default=False),
]


@app.callback()
def main() -> None:
    """Edge-based graph component pooling."""


@app.command(epilog="Examples:  `compool datasets --data ~/data`,  `compool datasets --json`")
def datasets(
    data: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the data sets at hand, with the paper's Table 1 beside them; what differs is marked.

    Looks in the folder `--data` (zip files, unpacked folders, `.npz` files or a PyG root) and in the cache. A set is
    parsed when it is first seen.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress
    from rich.table import Table

    from compool.data import paper, tu

    if data is not None and not data.is_dir():
        raise _stop(f"--data {data} is no folder")
    here = set(tu.available(data)) if data is not None else set()
    cached = set(tu.available(tu.cache_folder()))
    rows: list[dict[str, Any]] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name in progress.track(sorted(here | cached | set(paper.TABLE_1)), description="reading"):
            row: dict[str, Any] = {"name": name, "paper": None, "found": None, "error": None}
            if name in paper.TABLE_1:
                row["paper"] = paper.TABLE_1[name]._asdict()
            if name in here | cached:
                try:
                    row["found"] = _describe(tu.load(name, data if name in here else None))
                except (ValueError, OSError) as error:
                    row["error"] = str(error)
            rows.append(row)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table()
    table.add_column("data set", no_wrap=True)
    for heading in ("graphs", "nodes (avg)", "edges (avg)", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("node features")
    for row in rows:
        table.add_row(escape(row["name"]), *_cells(row))
    Console().print(table)
    Console().print("[bold red]red[/]: differs from the paper's Table 1, which stands in brackets.")


@app.command(
    epilog="Examples:  `compool recipes`,  `compool recipes --method gin --recipe paper`,  `compool recipes --json`"
)
def recipes(
    method: Annotated[str, typer.Option(help="Only this method: component, edgepool or gin.")] = "",
    name: Annotated[str, typer.Option("--recipe", help="Only recipes of this name: fast or paper.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every setting.")] = False,
) -> None:
    """List the recipes: how each method is trained on each data set, and how many parameters its network has."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from compool import study

    if method and method not in study.METHODS:
        raise _stop(f"--method must be one of {', '.join(study.METHODS)}; got {method!r}")
    chosen = [one for one in study.recipes() if method in ("", one.method) and name in ("", one.name)]
    if not chosen:
        raise _stop(
            f"there is no recipe {name!r}; there are {', '.join(sorted({one.name for one in study.recipes()}))}"
        )
    with Console(stderr=True).status("building the networks"):
        counts = [one.parameters for one in chosen]
    if as_json:
        rows = [asdict(one) | {"parameters": count} for one, count in zip(chosen, counts, strict=True)]
        print(json.dumps(rows, indent=1))
        return
    for kind in dict.fromkeys(one.method for one in chosen):
        table = Table(title=kind, title_justify="left")
        for heading in ("data set", "recipe", "layers"):
            table.add_column(heading, no_wrap=True)
        table.add_column("settings")
        table.add_column("parameters", justify="right", no_wrap=True)
        for one, count in zip(chosen, counts, strict=True):
            if one.method == kind:
                settings = (
                    f"{one.in_channels} features ({one.features}), hidden {one.hidden}, batch {one.batch}, "
                    f"{one.epochs} epochs, lr {one.lr:g} halved every {one.halve}, {one.optimizer}, "
                    f"decay {one.weight_decay:g}, dropout {one.dropout:g}, readout {one.readout}"
                )
                table.add_row(one.dataset, one.name, one.layers, settings, f"{count:,}")
        Console().print(table)
    Console().print("Other data sets get each method's defaults, by their own features and classes.")


@app.command(
    epilog="Examples:  `compool run`,  `compool run PROTEINS NCI1 --data ~/data --replicas 10`,  "
    "`compool run COLLAB --method gin --recipe paper --epochs 50`,  `compool run NCI1 --ray HEAD:6379`,  "
    "`compool run NCI1 --method component --set lr=1e-3,3e-3 --set dropout=0,0.1 --replicas 5`"
)
def run(
    datasets: Annotated[
        list[str] | None, typer.Argument(help="Data sets; none: the generated communities.", show_default=False)
    ] = None,
    method: Annotated[
        str, typer.Option(help="Methods, with commas between; also none, topk, sag and edge, for comparison.")
    ] = "component,edgepool,gin",
    recipe: Annotated[str, typer.Option(help="fast, paper, or a TOML file of settings.")] = "fast",
    number: Annotated[
        int | None, typer.Option("--replicas", help="Trainings of each.", show_default="100, or 20 of the communities")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE,…", help="Change a setting; several values: a sweep.", show_default=False
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs.", show_default="the recipe's")] = None,
    seed: Annotated[int, typer.Option(help="The study's seed.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    data: DataFolder = None,
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    block: Annotated[int | None, typer.Option(help="Replicas in one training.", show_default="by free memory")] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Blocks that train at the same time.", show_default="one a core on the CPU, else one a GPU"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Train on a Ray cluster; `local` starts one here.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")] = True,
) -> None:
    """Train many replicas of each method on each data set, store them as they finish, and write the report.

    What the store has is not trained again: after Ctrl-C, the same command goes on.
    """
    from rich.console import Console

    from compool import study
    from compool.study import cluster
    from compool.study.progress import Progress

    names = datasets or ["communities"]
    methods = [one.strip() for one in method.split(",") if one.strip()]
    wanted = (100 if datasets else 20) if number is None else number
    changes = {} if epochs is None else {"epochs": epochs}
    try:
        pairs = [(kind, name) for name in names for kind in methods]
        chosen = [one for kind, name in pairs for one in study.variants(kind, name, recipe, settings or (), **changes)]
        with ExitStack() as stack:
            place, execute = study.here, study.execute
            if ray is not None:
                stack.enter_context(cluster.connected(ray, workers))
                place, execute = cluster.survey, cluster.execute
            plan = study.plan(chosen, wanted, seed, store, data, device, block, workers, place)
            todo = sum(len(one.replicas) for one in plan)
            print(f"{todo} trainings to do in {len(plan)} blocks, {len(chosen) * wanted - todo} in {store} already")
            if dry_run:
                for one in plan:
                    print(f"{one.name}: {len(one.replicas)} replicas on {one.device}, {one.recipe.epochs} epochs")
                return
            if plan:
                progress = stack.enter_context(Progress(plan))
                for block_runs in stack.enter_context(closing(execute(plan, store, workers, progress.epoch))):
                    progress.finished(block_runs)
        Console().print(_summary(list(study.Store(store).runs([one.dataset for one in chosen], methods))))
        if with_report:
            print(f"report: {_report(store, None, data, False)[1]}")
    except KeyboardInterrupt:
        raise _stop(f"stopped; finished blocks are in {store}, and the same command goes on from there") from None
    except (ValueError, OSError, RuntimeError) as error:
        raise _stop(str(error)) from None


@app.command(epilog="Examples:  `compool runs`,  `compool runs --csv > runs.csv`,  `compool runs --json --curves`")
def runs(
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    as_json: Annotated[bool, typer.Option("--json", help="Print every column of every run as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every column of every run as CSV.")] = False,
    curves: Annotated[bool, typer.Option("--curves", help="With --json or --csv: the curves, too.")] = False,
) -> None:
    """List what a study has: a line for each data set, method, recipe and seed; or every run."""
    import sys

    from rich.console import Console

    from compool.study.export import write_csv
    from compool.study.store import Store

    if not store.exists():
        raise _stop(f"--store {store} is not there; compool run makes one")
    try:
        found = list(Store(store).runs())
    except ValueError as error:
        raise _stop(str(error)) from None
    if as_json:
        rows = [{key: value for key, value in vars(one).items() if curves or key != "curves"} for one in found]
        print(json.dumps(rows, indent=1))
    elif as_csv:
        write_csv(found, sys.stdout, curves)
    else:
        Console().print(_summary(found))


@app.command(epilog="Examples:  `compool add results/runs/*.csv.gz --store study.sqlite`")
def add(
    exported: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of `compool runs --csv --curves`.")],
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
) -> None:
    """Add exported runs to a study, all or none; what is there already stays as it is."""
    from compool.study.export import read_csv
    from compool.study.store import Store

    try:
        found = [run for path in exported for run in read_csv(path)]
        Store(store).add(found)
    except (ValueError, OSError) as error:
        raise _stop(str(error)) from None
    print(f"{len(found)} runs of {len(exported)} files in {store}")


@app.command(epilog="Examples:  `compool report`,  `compool report --store out/communities.sqlite --graphs`")
def report(
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to.", show_default="STORE-report beside the store")
    ] = None,
    data: DataFolder = None,
    graphs: Annotated[
        bool,
        typer.Option("--graphs", help="Train a network for each data set that has none kept, to look into graphs."),
    ] = False,
) -> None:
    """Write tables, figures, and a page that needs no network, from the runs of a study."""
    from rich.console import Console

    from compool.study import formats, tables

    if not store.exists():
        raise _stop(f"--store {store} is not there; compool run makes one")
    if out is not None and out.exists() and not out.is_dir():
        raise _stop(f"--out {out} is no folder")
    try:
        study, path = _report(store, out, data, graphs)
    except (ValueError, OSError) as error:
        raise _stop(str(error)) from None
    console = Console() if Console().is_terminal else Console(width=160)
    for table in tables.tables(study):
        if table.rows:
            console.print(formats.terminal(table))
    for warning in study.warnings:
        console.print(warning, style="yellow", markup=False, highlight=False)
    print(f"report: {path}")


def _report(store: Path, out: Path | None, data: Path | None, graphs: bool) -> tuple[Any, Path]:
    """Write a report, and say on the way what is being done."""
    from rich.console import Console

    from compool.study.report import report

    with Console(stderr=True).status("reporting") as status:

        def told(block: Any, epoch: int, curves: Any) -> None:
            status.update(f"training {block.name}, to look into graphs: epoch {epoch} of {block.recipe.epochs}")

        return report(store, out, data, graphs, status.update, told)


@app.command(
    epilog="Examples:  `compool show communities 0`,  `compool show NCI1 7 --data ~/data --store study.sqlite`,  "
    "`compool show NCI1 7 --data ~/data --model network.safetensors --out picture.svg`"
)
def show(
    dataset: Annotated[str, typer.Argument(help="The data set.")],
    index: Annotated[int, typer.Argument(help="Which of its graphs, from 0.")],
    store: Annotated[
        Path | None,
        typer.Option(help="Take the network of a run of this study.", show_default="study.sqlite, where there is one"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Take the network of this file (safetensors).")] = None,
    recipe: Annotated[str, typer.Option(help="The recipe of the run.", show_default="any")] = "",
    replica: Annotated[
        int | None, typer.Option(help="The run.", show_default="that of the best validation accuracy")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Merge edges that score above it.", show_default="the network's")
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

    A study keeps no networks: that of a run is trained again, once, and kept beside the store. Without a study or a
    model, four replicas are trained by the data set's recipe, and the best in validation is shown.
    """
    from rich.console import Console

    from compool.study import figures, networks
    from compool.study.report import save_graph

    target = out or Path(f"{figures.plain(dataset)}-{index}.html")
    if target.suffix not in (".html", ".png", ".svg", ".pdf"):
        raise _stop(f"--out must end in .html, .png, .svg or .pdf; got {target}")
    if store is not None and model is not None:
        raise _stop("give --store or --model, not both")
    for option, path in (("--store", store), ("--model", model)):
        if path is not None and not path.exists():
            raise _stop(f"{option} {path} is not there")
    try:
        with Console(stderr=True).status("loading") as status:

            def told(block: Any, epoch: int, curves: Any) -> None:
                status.update(f"training {block.name}: epoch {epoch} of {block.recipe.epochs}")

            shown = networks.find(dataset, index, store, model, recipe, replica, threshold, data, told)
            status.update("drawing")
            save_graph(shown, target)
    except (ValueError, OSError, RuntimeError) as error:
        raise _stop(str(error)) from None
    except KeyboardInterrupt:
        raise _stop("stopped; nothing was written") from None
    for number, level in enumerate(shown.levels, 1):
        nodes = len(level.cluster)
        print(f"level {number}: {nodes} nodes, supernodes at threshold {level.threshold:g}: {level.supernodes}")
    print(f"class {shown.label}, classified as {shown.guess}. {shown.about}")
    print(target)


def _summary(found: Sequence[Any]) -> Any:
    """A table of runs: a line for each data set, method, recipe and seed."""
    from statistics import mean, stdev

    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("data set", "method", "recipe", "runs", "test %", "kept %", "seconds"):
        table.add_column(heading, justify="right" if "%" in heading or heading == "seconds" else "left", no_wrap=True)
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for one in found:
        groups.setdefault((one.dataset, one.method, one.recipe, one.recipe_checksum, one.seed), []).append(one)
    for (dataset, method, recipe, _, seed), mine in groups.items():
        tests = [one.test for one in mine if one.status == "done" and one.test is not None]
        spread = f" ± {100 * stdev(tests):.1f}" if len(tests) > 1 else ""
        accuracy = f"{100 * mean(tests):.1f}{spread}" if tests else "–"
        kept = " ".join(
            f"{100 * mean(level):.0f}" for level in zip(*(one.kept for one in mine if one.kept), strict=False)
        )
        failed = sum(one.status == "failed" for one in mine)
        count = f"{len(mine)}, {failed} failed" if failed else str(len(mine))
        name = f"{recipe}, seed {seed}" if seed else recipe
        table.add_row(dataset, method, name, count, accuracy, kept, f"{sum(one.seconds for one in mine):,.0f}")
    return table


def _describe(graphs: Any) -> dict[str, Any]:
    loops = 0 if graphs.looped is None else len(graphs.looped)
    labels = 0 if graphs.labels is None else int(graphs.labels.max()) + 1
    return {
        "graphs": len(graphs),
        "nodes": round(graphs.num_nodes / len(graphs), 2),
        "edges": round((graphs.num_edges / 2 + loops) / len(graphs), 2),
        "classes": graphs.num_classes,
        "self_loops": loops,
        "node_labels": labels,
        "node_attributes": 0 if graphs.attributes is None else graphs.attributes.shape[1],
    }


def _cells(row: dict[str, Any]) -> list[str]:
    from rich.markup import escape

    found, described = row["found"], row["paper"]
    if found is None:
        paper = [f"({described[key]:,})" for key in ("graphs", "nodes", "edges", "classes")] if described else [""] * 4
        return [*paper, f"[bold red]{escape(row['error'])}[/]" if row["error"] else "not here"]
    cells = []
    for key in ("graphs", "nodes", "edges", "classes"):
        text = f"{found[key]:,}"
        if described and found[key] != described[key]:
            text = f"[bold red]{text}[/] ({described[key]:,})"
        cells.append(text)
    kinds = [f"{found[key]} {word}" for key, word in (("node_attributes", "attributes"), ("node_labels", "labels"))]
    kinds = [kind for kind in kinds if not kind.startswith("0 ")]
    kinds += [f"{found['self_loops']:,} self-loops"] if found["self_loops"] else []
    return [*cells, ", ".join(kinds) or "none"]


def _stop(message: str) -> typer.Exit:
    """Print an error in one line; to be raised."""
    typer.secho(f"compool: {message}", err=True, fg="red")
    return typer.Exit(2)

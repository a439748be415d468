"""Training, and what came of it."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

import typer

from compool.cli._app import DataFolder, app, stop


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
        list[str] | None,
        typer.Option(
            help="Methods, with commas between; also none, topk, sag and edge, for comparison.",
            show_default="component,edgepool,gin",
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="fast, paper, tuned, or a TOML file of settings.")] = "fast",
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
        typer.Option(help="Blocks that train at the same time.", show_default="one a core on the CPU, else one"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Train on a Ray cluster; `local` starts one here.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")] = True,
) -> None:
    """Train many replicas of each method on each data set, store them as they finish, and write the report.

    What the store has is not trained again: after Ctrl-C or a crash, the same command goes on, within blocks, too.
    """
    import signal

    from rich.console import Console

    from compool import study
    from compool.cli.pages import write_report
    from compool.study import checkpoint
    from compool.study.recipe import METHODS

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill`, or the end of a job, is as good as Ctrl-C
    names = datasets or ["communities"]
    methods = [one.strip() for one in ",".join(method or METHODS).split(",") if one.strip()]
    wanted = (20 if names == ["communities"] else 100) if number is None else number
    changes = [*(settings or ()), *([] if epochs is None else [f"epochs={epochs}"])]
    if not methods:
        raise stop("--method names none; there are component, edgepool and gin, and none, topk, sag and edge")
    plan: list[study.Block] = []
    try:
        pairs = [(kind, name) for name in names for kind in methods]
        chosen = list(dict.fromkeys(one for pair in pairs for one in study.variants(*pair, recipe, changes)))
        with ExitStack() as stack:
            if ray is not None:
                from compool.integrations import ray as cluster

                stack.enter_context(cluster.connected(ray, workers))
                resources = cluster.cluster_resources(device, workers)
            else:
                resources = study.local_resources(device, workers)
            plan = study.plan(chosen, wanted, seed, store, data, resources, block)
            todo, begun = sum(len(one.replicas) for one in plan), sum(one.epochs_done > 0 for one in plan)
            print(
                f"{todo} trainings to do in {len(plan)} blocks{f', {begun} of them begun' if begun else ''}, "
                f"{len(chosen) * wanted - todo} in {store} already"
            )
            if dry_run:
                for one in plan:
                    done = f", {one.epochs_done} of them done" if one.epochs_done else ""
                    print(f"{one.name}: {len(one.replicas)} replicas on {one.device}, {one.recipe.epochs} epochs{done}")
                return
            if plan:
                from compool.study.progress import Progress

                progress = stack.enter_context(Progress(plan))
                execute = study.execute if ray is None else cluster.execute
                for block_runs in stack.enter_context(closing(execute(plan, store, workers, progress.epoch))):
                    progress.finished(block_runs)
            else:
                checkpoint.remove_stored(checkpoint.folder_of(store), study.Store(store))
        Console().print(
            _summary(list(study.Store(store).runs(list({one.dataset for one in chosen}), methods, curves=False)))
        )
        if with_report:
            print(f"report: {write_report(store, None, data, False)[1]}")
    except KeyboardInterrupt:
        noted = any(one.checkpoint and one.checkpoint.exists() for one in plan)
        kept = f", those under way in {checkpoint.folder_of(store)}" if noted else ""
        raise stop(f"stopped; finished blocks are in {store}{kept}; the same command goes on from there", 130) from None


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

    from compool.report.same_data import separate_data
    from compool.study.csv_files import write_csv
    from compool.study.store import Store

    if not store.exists():
        raise stop(f"--store {store} is not there; compool run makes one")
    found = list(Store(store).runs(curves=curves))
    if as_json:
        rows = [{key: value for key, value in vars(one).items() if curves or key != "curves"} for one in found]
        print(json.dumps(rows, indent=1))
    elif as_csv:
        write_csv(found, sys.stdout, curves)
    else:
        Console().print(_summary(found))
        for warning in separate_data(found)[1]:
            Console().print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)


@app.command(epilog="Examples:  `compool add results/runs/*.csv.gz --store study.sqlite`")
def add(
    exported: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of `compool runs --csv --curves`.")],
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
) -> None:
    """Add exported runs to a study, all or none; what is there already stays as it is."""
    from compool.study.csv_files import read_csv
    from compool.study.store import Store

    found = [run for path in exported for run in read_csv(path)]
    new = Store(store).add(found)
    print(f"{new} of {len(found)} runs added to {store}" + ("; the others were there" if new < len(found) else ""))


def _summary(found: Sequence[Any]) -> Any:
    """A table of runs: a line for each data set, method, recipe and seed."""
    from statistics import mean, stdev

    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from compool.report.same_data import separate_data

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("data set", "method", "recipe", "runs", "test %", "kept %", "seconds"):
        justify: Any = "right" if "%" in heading or heading == "seconds" else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "recipe", overflow="fold")
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for one in separate_data(found)[0]:
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
        table.add_row(
            escape(dataset),
            escape(method),
            escape(name),
            count,
            accuracy,
            kept,
            f"{sum(one.seconds for one in mine):,.0f}",
        )
    return table

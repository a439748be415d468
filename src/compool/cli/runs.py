"""Commands that train a study, list its runs and add runs."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from compool.cli._app import DataFolder, app, examples, stop


@app.command(
    "run",
    epilog=examples(
        "compool run",
        "compool run PROTEINS NCI1 --data ~/data --replicas 10",
        "compool run PROTEINS NCI1 --data ~/data --dry-run",
        "compool run COLLAB --method gin --recipe paper --epochs 50",
        "compool run NCI1 --method component --set lr=1e-3,3e-3 --set dropout=0,0.1 --replicas 5",
        "compool run NCI1 --log tensorboard",
        "compool run NCI1 --ray HEAD:6379",
    ),
)
def run_study(
    datasets: Annotated[
        list[str] | None, typer.Argument(help="Data sets.", show_default="communities, a generated set")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods, separated by commas: component, edgepool, gin; for comparison none, topk, sag, edge, "
            "random; FILE.py:CLASS or MODULE:CLASS for your own network.",
            show_default="component,edgepool,gin",
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="fast, paper, tuned, learned, or a TOML file of settings.")] = "fast",
    num_replicas: Annotated[
        int | None,
        typer.Option("--replicas", help="Replicas per data set and method.", show_default="100; 20 for communities"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,…",
            help="Change a setting; several values make a sweep. With --trials also NAME=LOW..HIGH or "
            "NAME=log:LOW..HIGH.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Draw this many random combinations of settings.", show_default="all combinations"),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.", show_default="the recipe's")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric that picks the epoch and is reported: accuracy, balanced_accuracy, f1, roc_auc, "
            "average_precision, mae or rmse.",
            show_default="accuracy; roc_auc for multilabel, mae for regression",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop training after this many epochs without a better validation metric.", show_default="never"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The study's seed.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    data: DataFolder = None,
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    block: Annotated[
        int | None, typer.Option(help="Replicas to train together.", show_default="as many as fit in memory")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Blocks to train at the same time.", show_default="one per CPU core; one on a GPU"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Train on a Ray cluster; `local` starts one on this machine.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        bool,
        typer.Option("--weights/--no-weights", help="Store the weights of each run's best epoch."),
    ] = True,
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Log every epoch to STORE-logs beside the study's file: csv, tensorboard, or csv,tensorboard.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be trained and roughly how long it takes; train nothing."),
    ] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")] = True,
) -> None:
    """Train many replicas of each method on each data set, store them as they finish, and write the report.

    Runs in the store are not trained again. After Ctrl-C or a crash, rerun the same command to resume, even in the
    middle of a block. The exit code is 1 if every run failed.
    """
    import signal

    from rich.console import Console

    from compool import study
    from compool._words import counted
    from compool.cli._data import find_data
    from compool.cli._plan import default_recipes, plan_lines
    from compool.cli.pages import report_with_status
    from compool.study import checkpoint
    from compool.study.log_files import LOG_KINDS, log_folder, open_logs, require_logs
    from compool.study.recipe_settings import METHODS, REPLACEMENTS

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treat `kill` and the end of a cluster job like Ctrl-C
    source = find_data(data)
    names = source.datasets(datasets, "communities")
    methods = _listed(method or METHODS)
    num_wanted = (20 if names == ["communities"] else 100) if num_replicas is None else num_replicas
    options = {"epochs": epochs, "metric": metric, "patience": patience}
    changes = [*(settings or ()), *(f"{name}={value}" for name, value in options.items() if value is not None)]
    if not methods:
        raise stop(f"--method must name at least one of {', '.join((*METHODS, *REPLACEMENTS))}; got none")
    log_kinds = _listed(log)
    if log is not None and not log_kinds:
        raise stop(f"--log must name at least one of {', '.join(LOG_KINDS)}; got none")
    require_logs(log_kinds)
    plan: list[study.Block] = []
    try:
        pairs = [(method_name, name) for name in names for method_name in methods]
        chosen = list(
            dict.fromkeys(variant for pair in pairs for variant in study.variants(*pair, recipe, changes, trials, seed))
        )
        for name in {variant.method for variant in chosen}:
            if len({variant.own_checksum for variant in chosen if variant.method == name}) > 1:
                raise stop(f"--method names two classes {name} from different files: rename one of them")
        with ExitStack() as stack:
            if ray is not None:
                from compool.integrations import ray as cluster

                stack.enter_context(cluster.connected_cluster(ray, workers))
                resources = cluster.cluster_resources(device, workers)
            else:
                resources = study.local_resources(device, workers)
            plan_options = (store, source.folder, resources, block, print)
            plan = study.plan(chosen, num_wanted, seed, *plan_options, not dry_run)
            plan = [replace(planned, keep_weights=weights) for planned in plan]
            for line in default_recipes(chosen):
                print(line)
            num_missing, num_failed = sum(len(planned.replicas) for planned in plan), 0
            num_resumed = sum(planned.epochs_done > 0 for planned in plan)
            print(
                f"{counted(num_missing, 'run')} to train in {counted(len(plan), 'block')}"
                f"{f' ({num_resumed} to resume)' if num_resumed else ''}, "
                f"{len(chosen) * num_wanted - num_missing:,} already in {store}"
            )
            if dry_run:
                for line in plan_lines(plan, resources.workers):
                    print(line)
                return
            if plan:
                from compool.study.progress import Progress

                logs = stack.enter_context(open_logs(log_kinds, store))
                progress = stack.enter_context(Progress(plan))
                execute = study.execute if ray is None else cluster.execute

                def on_epoch(block: study.Block, epoch: int, curves: Any) -> None:
                    progress.epoch(block, epoch, curves)
                    logs.epoch(block, epoch, curves)

                for block_runs in stack.enter_context(closing(execute(plan, store, workers, on_epoch))):
                    progress.finished(block_runs)
                    num_failed += sum(run.status == "failed" for run in block_runs)
            else:
                checkpoint.remove_stored(checkpoint.folder_of(store), study.Store(store))
        trained_on = list({variant.dataset for variant in chosen})
        trained_by = list({variant.method for variant in chosen})
        Console().print(_summary(list(study.Store(store).runs(trained_on, trained_by, curves=False))))
        if plan and log_kinds:
            print(f"logs: {log_folder(store)}")
        if with_report:
            print(f"report: {report_with_status(store, None, source.folder, False)[1]}")
        if plan and num_failed == num_missing:
            failed = "the run" if num_failed == 1 else f"all {num_failed:,} runs"
            raise stop(f"{failed} failed; see the reasons above", 1)
    except KeyboardInterrupt:
        has_checkpoint = any(planned.checkpoint and planned.checkpoint.exists() for planned in plan)
        kept = f", unfinished ones in {checkpoint.folder_of(store)}" if has_checkpoint else ""
        raise stop(f"stopped; finished blocks are in {store}{kept}; rerun the same command to resume", 130) from None


@app.command("runs", epilog=examples("compool runs", "compool runs --csv > runs.csv", "compool runs --json --curves"))
def list_runs(
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    as_json: Annotated[bool, typer.Option("--json", help="Print every column of every run as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every column of every run as CSV.")] = False,
    curves: Annotated[bool, typer.Option("--curves", help="With --json or --csv: include the curves.")] = False,
) -> None:
    """List the runs of a study: one line per data set, method, recipe and seed, or every run."""
    import sys

    from rich.console import Console

    from compool.report.same_data import separate_data
    from compool.study.csv_files import write_csv
    from compool.study.runs import COLUMNS, describe_run
    from compool.study.store import Store

    if not store.exists():
        raise stop(f"--store {store} does not exist; `compool run` creates it")
    runs = list(Store(store).runs(curves=curves))
    if as_json:
        names = [name for name in COLUMNS if curves or name != "curves"]
        rows = [describe_run(run, names) for run in runs]
        print(json.dumps(rows, indent=1))
    elif as_csv:
        write_csv(runs, sys.stdout, curves)
    else:
        Console().print(_summary(runs))
        for warning in separate_data(runs)[1]:
            Console().print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)


@app.command("add", epilog=examples("compool add results/runs/*.csv.gz --store study.sqlite"))
def add_runs(
    exported: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of `compool runs --csv --curves`.")],
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
) -> None:
    """Add exported runs to a study, all or none of them. Existing runs are not changed."""
    from compool._words import counted
    from compool.study.csv_files import read_csv
    from compool.study.store import Store

    runs = [run for path in exported for run in read_csv(path)]
    num_new = Store(store).add(runs)
    print(
        f"{num_new:,} of {counted(len(runs), 'run')} added to {store}"
        + ("; it already had the others" if num_new < len(runs) else "")
    )


_DATASET_WIDTH = 24  # longer names of data sets wrap in lists of runs


def _listed(texts: Sequence[str] | None) -> list[str]:
    """The values of an option that may be given several times or as a comma-separated list."""
    return [text.strip() for text in ",".join(texts or ()).split(",") if text.strip()]


def _summary(runs: Sequence[Any]) -> Any:
    """A table of runs: one line per data set, method, recipe and seed."""
    from statistics import mean, stdev

    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from compool.report.same_data import separate_data
    from compool.study.metrics import METRICS, chosen_metric, format_mean

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    runs = separate_data(runs)[0]
    in_percent = all(METRICS[chosen_metric(run.metrics)].higher for run in runs)
    longest_dataset = max((len(run.dataset) for run in runs), default=0)
    wrapped = {"recipe": 8} | ({"data set": _DATASET_WIDTH} if longest_dataset > _DATASET_WIDTH else {})
    for heading in ("data set", "method", "recipe", "runs", "test %" if in_percent else "test", "kept %", "seconds"):
        justify: Any = "right" if heading in ("test %", "test", "kept %", "seconds") else "left"
        narrowest = wrapped.get(heading)  # None: never wrapped
        table.add_column(heading, justify=justify, no_wrap=narrowest is None, overflow="fold", min_width=narrowest)
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.method, run.recipe, run.recipe_checksum, run.seed), []).append(run)
    for (dataset, method, recipe, _, seed), members in groups.items():
        tests = [run.test for run in members if run.status == "done" and run.test is not None]
        chosen = next((chosen_metric(run.metrics) for run in members if run.metrics), "accuracy")
        metric = METRICS[chosen]
        text = format_mean(metric, mean(tests), stdev(tests) if len(tests) > 1 else None) if tests else "–"
        text += "" if chosen == "accuracy" or not tests else f" {chosen}"
        kept = " ".join(
            f"{100 * mean(level):.0f}" for level in zip(*(run.kept for run in members if run.kept), strict=False)
        )
        failed = sum(run.status == "failed" for run in members)
        count = f"{len(members) - failed}, {failed} failed" if failed else str(len(members))
        name = f"{recipe}, seed {seed}" if seed else recipe
        table.add_row(
            escape(dataset),
            escape(method),
            escape(name),
            count,
            text,
            kept,
            f"{sum(run.seconds for run in members):,.0f}",
        )
    return table

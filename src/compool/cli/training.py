"""The command that trains a study."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compool.cli._app import DataFolder, app, examples, stop

if TYPE_CHECKING:
    from compool.study.block import Block
    from compool.study.recipe_settings import Recipe


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
    from compool import study
    from compool.cli._data import find_data
    from compool.cli._display import table_console
    from compool.cli._runs_table import runs_table
    from compool.cli.pages import report_with_status
    from compool.study import checkpoint
    from compool.study.log_files import LOG_KINDS, log_folder, require_logs
    from compool.study.recipe_settings import METHODS, REPLACEMENTS

    _stop_if_killed()
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
        _require_one_class_per_name(chosen)
        with ExitStack() as stack:
            if ray is not None:
                from compool.integrations import ray as cluster

                stack.enter_context(cluster.connected_cluster(ray, workers))
                _stop_if_killed()  # Ray has a handler of its own
                resources = cluster.cluster_resources(device, workers)
            else:
                resources = study.local_resources(device, workers)
            plan_options = (store, source.folder, resources, block, print)
            plan = study.plan(chosen, num_wanted, seed, *plan_options, not dry_run)
            plan = [replace(planned, keep_weights=weights) for planned in plan]
            _print_plan(plan, chosen, len(chosen) * num_wanted, store, resources.workers if dry_run else None)
            if dry_run:
                return
            if plan:
                execute = study.execute if ray is None else cluster.execute
                num_failed = _train(plan, store, execute, workers, log_kinds)
            else:
                checkpoint.remove_stored(checkpoint.folder_of(store), study.Store(store))
        trained_on = list({variant.dataset for variant in chosen})
        trained_by = list({variant.method for variant in chosen})
        table_console().print(runs_table(list(study.Store(store).runs(trained_on, trained_by, curves=False))))
        if plan and log_kinds:
            print(f"logs: {log_folder(store)}")
        if with_report:
            print(f"report: {report_with_status(store, None, source.folder, False)[1]}")
        if plan and num_failed == sum(len(planned.replicas) for planned in plan):
            failed = "the run" if num_failed == 1 else f"all {num_failed:,} runs"
            raise stop(f"{failed} failed; see the reasons above", 1)
    except KeyboardInterrupt:
        has_checkpoint = any(planned.checkpoint and planned.checkpoint.exists() for planned in plan)
        kept = f", unfinished ones in {checkpoint.folder_of(store)}" if has_checkpoint else ""
        raise stop(f"stopped; finished blocks are in {store}{kept}; rerun the same command to resume", 130) from None


def _stop_if_killed() -> None:
    """Treat `kill` and the end of a cluster job like Ctrl-C."""
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _require_one_class_per_name(recipes: "Sequence[Recipe]") -> None:
    """Require that no two user-defined networks have the same name."""
    for name in {recipe.method for recipe in recipes}:
        if len({recipe.own_checksum for recipe in recipes if recipe.method == name}) > 1:
            raise stop(f"--method names two classes {name} from different files: rename one of them")


def _print_plan(
    plan: "Sequence[Block]", recipes: "Sequence[Recipe]", num_wanted: int, store: Path, workers: int | None
) -> None:
    """Print how many runs a plan trains; for a dry run, on this number of workers, also what and how long."""
    from compool._words import counted
    from compool.cli._plan import default_recipes, plan_lines

    for line in default_recipes(recipes):
        print(line)
    num_missing = sum(len(block.replicas) for block in plan)
    num_resumed = sum(block.epochs_done > 0 for block in plan)
    print(
        f"{counted(num_missing, 'run')} to train in {counted(len(plan), 'block')}"
        f"{f' ({num_resumed} to resume)' if num_resumed else ''}, {num_wanted - num_missing:,} already in {store}"
    )
    for line in plan_lines(plan, workers) if workers else ():
        print(line)


def _train(
    plan: "Sequence[Block]", store: Path, execute: Callable[..., Any], workers: int | None, log_kinds: Sequence[str]
) -> int:
    """Train and store all blocks, and show and log their progress. Returns how many runs failed."""
    from compool.study.log_files import open_logs
    from compool.study.progress import Progress

    num_failed = 0
    with open_logs(log_kinds, store) as logs, Progress(plan) as progress:

        def on_epoch(block: "Block", epoch: int, curves: Any) -> None:
            progress.epoch(block, epoch, curves)
            logs.epoch(block, epoch, curves)

        with closing(execute(plan, store, workers, on_epoch)) as trained:
            for runs in trained:
                progress.finished(runs)
                num_failed += sum(run.status == "failed" for run in runs)
    return num_failed


def _listed(texts: Sequence[str] | None) -> list[str]:
    """The values of an option that may be given several times or as a comma-separated list."""
    return [text.strip() for text in ",".join(texts or ()).split(",") if text.strip()]

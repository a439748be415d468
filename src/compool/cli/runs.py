"""Commands that list the runs of a study and add runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from compool.cli._app import app, examples, stop


@app.command("runs", epilog=examples("compool runs", "compool runs --csv > runs.csv", "compool runs --json --curves"))
def list_runs(
    store: Annotated[Path, typer.Option(help="The study's file.")] = Path("study.sqlite"),
    as_json: Annotated[bool, typer.Option("--json", help="Print every column of every run as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every column of every run as CSV.")] = False,
    curves: Annotated[bool, typer.Option("--curves", help="With --json or --csv: include the curves.")] = False,
) -> None:
    """List the runs of a study: one line per data set, method, recipe and seed, or every run."""
    import sys

    from compool.cli._display import table_console
    from compool.cli._runs_table import runs_table
    from compool.report.same_data import separate_data
    from compool.study.csv_files import write_csv
    from compool.study.runs import COLUMNS, describe_run
    from compool.study.store import Store

    if as_json and as_csv:
        raise stop("give --json or --csv, not both")
    if curves and not (as_json or as_csv):
        raise stop("give --curves with --json or --csv")
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
        console = table_console()
        console.print(runs_table(runs))
        for warning in separate_data(runs)[1]:
            console.print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)


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

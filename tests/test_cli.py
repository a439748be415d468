import csv
import errno
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from compool.cli import app
from compool.cli.sets import setting_words
from compool.data import communities
from compool.nn import Network, save_network
from compool.study import Block, Store, recipe
from tests.data.test_tu import write
from tests.report.test_results import runs, three
from tests.study.test_store import example

run = CliRunner()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COMPOOL_DATA", raising=False)


def test_datasets(tmp_path: Path) -> None:
    write(tmp_path / "data")
    write(tmp_path / "data", "NCI1")
    write(tmp_path / "data", "BROKEN", A="1, 2\n")
    result = run.invoke(app, ["datasets", "--data", str(tmp_path / "data"), "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["TINY"]["found"]["graphs"] == 3
    assert rows["TINY"]["paper"] is None
    assert rows["NCI1"]["found"]["graphs"] != rows["NCI1"]["paper"]["graphs"] == 4110
    assert "one direction only" in rows["BROKEN"]["error"]
    assert rows["COLLAB"]["found"] is None
    table = run.invoke(app, ["datasets", "--data", str(tmp_path / "data")])
    assert "3 (4,110)" in table.stdout
    assert "not found" in table.stdout


def test_a_folder_that_is_not_there() -> None:
    result = run.invoke(app, ["datasets", "--data", "/no/such/folder"])
    assert result.exit_code == 2
    assert result.stderr.strip() == "compool: --data /no/such/folder is not a folder of data sets"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_run_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    at_once = "from compool.study import progress; progress.LINE_INTERVAL = 0"  # report the second epoch
    command = [sys.executable, "-c", f"{at_once}; from compool.cli import app; app()", "run", "--method", "component"]
    command += ["--epochs", "100000", "--workers", "2", "--replicas", "4", "--block", "1"]
    command += ["--store", str(tmp_path / "study.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            process.send_signal(how)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "epoch" in first
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("compool: stopped; finished blocks are in ")
    assert "Traceback" not in errors
    assert "leaked" not in errors


def test_recipes() -> None:
    result = run.invoke(app, ["recipes", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    # three methods, eight sets and the communities, two recipes; learned; four more sets; and two that are tuned
    assert len(rows) == 54 + 9 + 4 * 3 + 2
    assert {row["parameters"] for row in rows if row["dataset"] == "PROTEINS"} == {802, 10_626, 156_291, 2_742}
    table = run.invoke(app, ["recipes", "--method", "gin", "--recipe", "paper"], env={"COLUMNS": "200"})
    assert "65,638" in table.stdout
    assert "component" not in table.stdout
    tuned = run.invoke(app, ["recipes", "--recipe", "tuned", "--method", "component"], env={"COLUMNS": "200"})
    assert "readout sum, jump True" in tuned.stdout
    narrow = run.invoke(app, ["recipes", "--method", "edgepool"], env={"COLUMNS": "80"}).stdout.splitlines()
    collab = next(at for at, line in enumerate(narrow) if line.startswith(" COLLAB "))
    assert [line.split() for line in narrow[collab + 3 : collab + 5]] == [  # only what differs
        ["fast", "batch", "32,", "lr", "0.002"],
        ["paper", "batch", "1,", "lr", "0.001"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "compool: --method must be one of component, edgepool, gin; got 'magic'"),
        (["--recipe", "slow"], "compool: --recipe must be one of fast, learned, paper, tuned; got 'slow'"),
    ],
)
def test_recipes_that_are_not_there(arguments: list[str], message: str) -> None:
    result = run.invoke(app, ["recipes", *arguments])
    assert result.exit_code == 2
    assert result.stderr.strip() == message


def test_what_is_named_twice_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: communities(90))
    twice = ["communities", "communities", "--method", "gin,gin", "--set", "lr=0.1,0.10"]
    result = run.invoke(app, ["run", *twice, "--replicas", "2", "--dry-run", "--store", "none.sqlite"])
    assert "\n2 runs to train" in result.stdout
    both = ["--method", "gin", "--method", "component", "--replicas", "2", "--dry-run", "--store", "none.sqlite"]
    assert "\n4 runs to train" in run.invoke(app, ["run", *both]).stdout


def test_a_set_without_a_recipe_says_what_it_gets(tmp_path: Path) -> None:
    communities(30).save(tmp_path / "MINE.npz")
    command = ["run", "--data", str(tmp_path / "MINE.npz"), "--method", "component,none", "--dry-run"]
    lines = run.invoke(app, [*command, "--store", str(tmp_path / "s.sqlite"), "--replicas", "1"]).stdout.splitlines()
    defaults = (
        "features auto, hidden 64, batch 32, 200 epochs, lr 0.003, lr halved every 50, adamw, decay 0.01, dropout"
    )
    assert lines[1:3] == [
        f"MINE has no built-in recipe; component uses the defaults: CPCL, {defaults} 0.1, readout mean",
        f"MINE has no built-in recipe; none uses the defaults: CCL, {defaults} 0.1, readout mean",
    ]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("halving", "lr 0.003, lr halved every 50, adamw"),
        ("cosine", "lr 0.003, schedule cosine, adamw"),
        ("plateau", "lr 0.003, schedule plateau: lr halved after 50 epochs without improvement, adamw"),
    ],
)
def test_the_schedule_is_described_once(schedule: str, words: str) -> None:
    text = ", ".join(setting_words(recipe("component", "own", schedule=schedule)))
    assert words in text
    assert text.count("schedule") == (schedule != "halving")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["run", "--method", "componet"], "component"),
        (["run", "--recipe", "fats"], "fast"),
        (["run", "--set", "Dropuot=0"], "dropout"),
        (["run", "--set", "optimizer=adanw"], "adamw"),
        (["run", "COMMUNITYS", "--data", "."], "communities"),
        (["recipes", "--method", "gim"], "gin"),
        (["recipes", "--recipe", "papr"], "paper"),
    ],
)
def test_a_name_that_is_nearly_right(arguments: list[str], meant: str) -> None:
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"; did you mean {meant}?\n")


def test_examples_come_one_per_line() -> None:
    lines = [line.strip() for line in run.invoke(app, ["runs", "--help"], env={"COLUMNS": "80"}).stdout.splitlines()]
    first = lines.index("• compool runs")
    assert lines[first + 1 : first + 3] == ["• compool runs --csv > runs.csv", "• compool runs --json --curves"]


def test_run_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = communities(90)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    store = str(tmp_path / "study.sqlite")
    command = ["run", "--store", store, "--replicas", "3", "--epochs", "1", "--method", "component,gin", "--block", "2"]
    command += ["--workers", "1"]
    dry = run.invoke(app, [*command, "--dry-run"])
    assert dry.stdout.splitlines()[1:] == [
        f"6 runs to train in 4 blocks, 0 already in {store}",
        "communities component, fast epochs=1: 2 replicas on cpu, 1 epoch",
        "communities component, fast epochs=1: 1 replica on cpu, 1 epoch",
        "communities gin, fast epochs=1: 2 replicas on cpu, 1 epoch",
        "communities gin, fast epochs=1: 1 replica on cpu, 1 epoch",
        "estimated time: less than a minute",
    ]
    grouped = run.invoke(app, [*command, "--block", "1", "--dry-run"]).stdout
    assert "\ncommunities gin, fast epochs=1: 3 blocks of 1 replica on cpu, 1 epoch\n" in grouped
    assert not (tmp_path / "study.sqlite").exists()
    first = run.invoke(app, command)
    assert first.exit_code == 0, first.stderr
    assert "communities component, fast epochs=1: 2 replicas stored, test accuracy" in first.stderr
    page = tmp_path / "study-report" / "index.html"
    assert first.stdout.splitlines()[-1] == f"report: {page}"
    assert "edgepool" not in page.read_text()  # nobody asked for it
    page.unlink()
    assert "0 runs to train in 0 blocks, 6 already in" in run.invoke(app, [*command, "--no-report"]).stdout
    assert not page.exists()
    rows = json.loads(run.invoke(app, ["runs", "--store", store, "--json"]).stdout)
    assert [(row["method"], row["replica"]) for row in rows] == [(m, r) for m in ("component", "gin") for r in range(3)]
    assert "curves" not in rows[0]
    stored = list(Store(Path(store)).runs())
    assert [float(np.float32(row["test"])) for row in rows] == [stored_run.test for stored_run in stored]
    assert max(len(str(row[name])) for row in rows for name in ("test", "validation")) <= 10  # no digits beyond float32
    table = list(csv.DictReader(io.StringIO(run.invoke(app, ["runs", "--store", store, "--csv", "--curves"]).stdout)))
    assert len(table) == 6
    assert json.loads(table[0]["curves"])["loss"]
    assert "component" in run.invoke(app, ["runs", "--store", store]).stdout


NAN_NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self, in_channels, num_classes, factor=1.0):
        super().__init__()
        self.out, self.factor = torch.nn.Linear(in_channels, num_classes), factor

    def forward(self, x, edge_index, batch):
        return self.out(x)[: int(batch[-1]) + 1] * self.factor
"""


def test_the_exit_code_is_1_if_every_run_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: communities(90))
    (tmp_path / "net.py").write_text(NAN_NET)
    store = tmp_path / "study.sqlite"
    command = ["run", "--method", f"{tmp_path / 'net.py'}:Net", "--replicas", "1", "--epochs", "1", "--workers", "1"]
    failed = run.invoke(app, [*command, "--store", str(store), "--set", "factor=nan"])
    assert failed.exit_code == 1
    assert failed.stderr.endswith("compool: the run failed; see the reasons above\n")
    assert [stored.status for stored in Store(store).runs()] == ["failed"]
    assert f"report: {tmp_path / 'study-report' / 'index.html'}" in failed.stdout
    assert "0, 1 failed" in failed.stdout
    assert "No run finished." in (tmp_path / "study-report" / "index.html").read_text()
    some = run.invoke(app, [*command, "--store", str(store), "--no-report", "--set", "factor=inf,1.0"])
    assert some.exit_code == 0, some.stderr
    assert "failed" in some.stderr
    again = run.invoke(app, [*command, "--store", str(store), "--no-report", "--set", "factor=nan"])
    assert again.exit_code == 0  # nothing to train


@pytest.mark.parametrize(
    "dataset", ["community-labels", "REDDIT-MULTI-12K", "MINE-WITH-A-NAME-OF-40-CHARACTERS-WITHOUT"]
)
def test_names_of_data_sets_do_not_wrap_in_80_columns(tmp_path: Path, dataset: str) -> None:
    recipe_name = "fast epochs=2 metric=balanced_accuracy patience=3"
    Store(tmp_path / "study.sqlite").add(
        [example(0, dataset=dataset, recipe=recipe_name, metrics={"chosen": "roc_auc"})]
    )
    listed = run.invoke(app, ["runs", "--store", str(tmp_path / "study.sqlite")], env={"COLUMNS": "80"})
    lines = listed.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert dataset[:24] in [line.split()[0] for line in lines if line.strip()]
    width = lines[1].index("method")
    assert "".join(line[:width] for line in lines[3:]).replace(" ", "") == dataset


def test_lists_of_runs_tell_recipes_apart_in_80_columns(tmp_path: Path) -> None:
    names = [f"fast {setting}" for setting in ("weight_decay=0.0001", "weight_decay=0.0005", "layers=GGPGL lr=0.1")]
    about = {"dataset": "REDDIT-MULTI-12K", "kept": [0.9, 0.6]}
    found = [example(at % 2, recipe=names[at // 2], recipe_checksum=str(at // 2), **about) for at in range(6)]
    Store(tmp_path / "study.sqlite").add(found)
    result = run.invoke(app, ["runs", "--store", str(tmp_path / "study.sqlite")], env={"COLUMNS": "80"})
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    assert max(map(len, lines)) <= 80
    start, end = lines[0].index("recipe"), lines[0].index("runs")
    assert "".join(line[start:end] for line in lines[2:]).replace(" ", "") == "".join(sorted(names)).replace(" ", "")


def test_lists_of_runs_do_not_wrap_in_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "fast epochs=10 weight_decay=0.0001 optimizer=sgd momentum=0.75"
    Store(tmp_path / "study.sqlite").add([example(at, recipe=name, kept=[0.9, 0.6]) for at in range(3)])
    result = run.invoke(app, ["runs", "--store", str(tmp_path / "study.sqlite")])
    assert result.exit_code == 0, result.stderr
    assert any(name in line for line in result.stdout.splitlines())


def test_lists_of_runs_do_not_count_failed_ones(tmp_path: Path) -> None:
    failed = example(2, status="failed", test=0.25, kept=[0.0])
    Store(tmp_path / "study.sqlite").add([example(0, test=0.5), example(1, test=0.7), failed])
    result = run.invoke(app, ["runs", "--store", str(tmp_path / "study.sqlite")], env={"COLUMNS": "80"})
    line = result.stdout.strip().splitlines()[-1]
    assert " ".join(line.split()) == "NCI1 component fast 2, 1 failed 60.0 ± 14.1 50 4"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "--csv", "--json"], "compool: give --json or --csv, not both"),
        (["runs", "--curves"], "compool: give --curves with --json or --csv"),
        (
            ["run", "--method", "magic"],
            "compool: method must be one of component, edgepool, gin, none, topk, sag, edge, random, or FILE.py:CLASS",
        ),
        (["run", "--replicas", "-1"], "compool: replicas must be at least 1, got -1"),
        (["run", "--replicas", "0"], "compool: replicas must be at least 1, got 0"),
        (
            ["run", "--recipe", "slow"],
            "compool: component on communities has no recipe 'slow'; its recipes are fast, learned, pap",
        ),
        (
            ["run", "--recipe", "hidden"],
            "compool: component on communities has no recipe 'hidden'; its recipes are fast, learned, pap",
        ),
        (["run", "NOWHERE", "--data", "."], "compool: no data set NOWHERE in ."),
        (["run", "--set", "dropuot=0"], "compool: 'dropuot' is not a setting; did you mean dropout?"),
        (["run", "--set", "dropout"], "compool: a setting must be NAME=VALUE, got 'dropout'"),
        (["run", "--recipe", "fats"], "compool: component on communities has no recipe 'fats'; its recipes are fast, "),
        (["run", "--method", ","], "compool: --method must name at least one of component, edgepool, gin, none,"),
        (["run", "--seed", "-1", "--dry-run"], "compool: seed must be a whole number from 0 to 2⁶³ − 1, got -1"),
        (["run", "--set", "layers=5"], "compool: layers must be text, got 5"),
        (["run", "--set", "hidden=true"], "compool: hidden must be a whole number, got True"),
        (["run", "--set", "threshold=abc"], "compool: threshold must be a number, got 'abc'"),
        (["run", "--set", "symmetric=1"], "compool: symmetric must be true or false, got 1"),
        (
            ["run", "--set", "splits=x"],
            "compool: splits must be independent, stratified, folds, powers, or a file",
        ),
        (["run", "--set", "lr=0.1", "--set", "lr=0.2"], "compool: lr is set twice; write several values as lr=1,2"),
        (
            ["run", "--set", "layers=LL", "--dry-run"],
            "compool: layers must be letters of C, S, G, N, P, E, T and A, then",
        ),
        (
            ["runs", "--store", "nothing.sqlite"],
            "compool: --store nothing.sqlite does not exist; `compool run` creates it",
        ),
        (
            ["report", "--store", "nothing.sqlite"],
            "compool: --store nothing.sqlite does not exist; `compool run` creates it",
        ),
        (["report", "--store", "README.md"], "compool: README.md is damaged, or not a compool study"),
        (["show", "communities", "0", "--store", "nothing.sqlite"], "compool: --store nothing.sqlite does not exist"),
        (["show", "communities", "0", "--model", "nothing"], "compool: --model nothing does not exist"),
        (
            ["show", "communities", "0", "--model", "README.md", "--replica", "7"],
            "compool: give --model or --replica, not both",
        ),
        (
            ["show", "communities", "0", "--model", "README.md"],
            "compool: README.md is damaged, or not a safetensors file",
        ),
        (["show", "NOWHERE", "0", "--data", "."], "compool: no data set NOWHERE in ."),
        (
            ["show", "communities", "0", "--out", "picture.gif"],
            "compool: --out must end in .html, .png, .svg or .pdf; got picture.gif",
        ),
    ],
)
def test_mistakes_are_told_in_a_line(arguments: list[str], message: str) -> None:
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def fail(error: BaseException) -> Callable[..., None]:
    """A function that raises, as a library does: not compool's own code."""

    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"),
        ValueError("too many values to unpack (expected 2)"),
    ],
)
def test_errors_of_ours_show_where_they_come_from(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr("compool.study.plan", fail(error))
    result = run.invoke(app, ["run", "--store", "none.sqlite"])
    lines = result.stderr.splitlines()
    assert result.exit_code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert "in raising" in result.stderr
    assert lines[-1].startswith(f"compool: {type(error).__name__}: {str(error).splitlines()[0]}")
    assert lines[-1].endswith("(this is a bug in compool or in a library: please report the traceback)")


def test_a_bug_in_the_midst_of_our_code_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself raises, in a line of compool."""
    one = recipe("gin", "communities")
    monkeypatch.setattr("compool.study.plan", lambda *_: Block(one, 0, (0, 1), variants=(one,)).members)
    result = run.invoke(app, ["run", "--store", "none.sqlite"])
    assert result.exit_code == 1
    assert "zip(self.recipes, self.replicas, strict=True)" in result.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "/data"), "compool: [Errno 13] Permission denied: '/data'"),
        (MemoryError(), "compool: out of memory; try a smaller batch (--set batch=N) or fewer --workers"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: y"),
            "compool: out of memory; try a smaller batch (--set batch=N) or fewer --workers",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has"),
            "compool: CUDA out of memory; try a smaller batch (--set batch=N) or fewer --workers",
        ),
    ],
)
def test_errors_of_the_machine_are_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, line: str) -> None:
    monkeypatch.setattr("compool.study.plan", fail(error))
    result = run.invoke(app, ["run", "--store", "none.sqlite"])
    assert (result.exit_code, result.stderr.strip()) == (2, line)


@pytest.mark.parametrize("before", [True, False])
def test_debug(before: bool) -> None:
    wrong, env = ["run", "--replicas", "0"], {"COMPOOL_DEBUG": "1"}
    asked = run.invoke(app, ["--debug", *wrong] if before else [*wrong, "--debug"])
    for result in (asked, run.invoke(app, wrong, env=env)):
        assert result.exit_code == 2
        assert result.stderr.startswith("Traceback")
        assert "planning.py" in result.stderr
        assert result.stderr.splitlines()[-1] == "compool: replicas must be at least 1, got 0"
    assert "Traceback" not in run.invoke(app, wrong, env={"COMPOOL_DEBUG": "0"}).stderr


def test_report(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    Store(path).add([*three(dataset="[red]own[/]"), *runs("gin", [0.5, None], dataset="NCI1")])
    result = run.invoke(app, ["report", "--store", str(path), "--out", str(tmp_path / "here")])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == f"report: {tmp_path / 'here' / 'index.html'}"
    assert "NCI1, gin: 1 of 2 runs failed; they are not counted." in lines
    assert any("[red]own[/]" in line and "81.5 ± 1.3" in line for line in lines)
    assert (tmp_path / "here" / "figures" / "accuracy.pdf").exists()
    result = run.invoke(app, ["report", "--store", str(path), "--out", str(tmp_path / "here"), "--pick", "worst"])
    assert result.exit_code == 2
    assert result.stderr == "compool: pick must be one of best, first, last, loss; got 'worst'\n"
    (tmp_path / "file").touch()
    result = run.invoke(app, ["report", "--store", str(path), "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.stderr == f"compool: --out {tmp_path / 'file'} is a file; give a folder\n"


def test_a_full_disk_while_figures_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names the file, and nothing half-written; the runs are as they were."""
    path, out, before = tmp_path / "study.sqlite", tmp_path / "here", three()
    Store(path).add(before)

    def full(figure: object, target: Path, **_: object) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    result = run.invoke(app, ["report", "--store", str(path), "--out", str(out)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"compool: {out}/figures/accuracy.png cannot be written: No space left on device; the runs are safe in {path}, "
        f"retry with `compool report --store {path} --out {out}`\n"
    )
    assert not list((out / "figures").iterdir())
    assert sorted(Store(path).runs(), key=str) == sorted(before, key=str)


def test_a_damaged_store_with_a_column_too_many(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    Store(path).add(three())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT")
        connection.execute("UPDATE runs SET test = 0.1 WHERE replica = 0")
    command = [sys.executable, "-c", "from compool.cli import app; app()", "report", "--store", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.splitlines() == [
        f"{path} has columns that compool does not know and ignores: note",
        f"{path}: 3 damaged runs are left out: NCI1 component replica 0; NCI1 edgepool replica 0; NCI1 gin replica 0 "
        "(compool run trains missing runs)",
    ]
    assert "82" in result.stdout


def test_show_without_any_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains a replica on generated graphs, and draws one of them."""
    graphs = communities(45)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, ["show", "communities", "1", "--replica", "0"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("level 1: 60 nodes, ")
    assert result.stdout.splitlines()[-1] == "communities-1.html"
    why = "training communities component, replica 0: study.sqlite does not exist"
    assert result.stderr.splitlines()[0] == why
    assert (tmp_path / "communities-1.html").read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".npz"] == ["communities-1.html"]


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("new/a.pdf", b"%PDF")])
def test_show_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: bytes) -> None:
    graphs = communities(9)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    save_network(Network("PCPL", 4, hidden=8, num_classes=3), tmp_path / "network.safetensors")
    command = ["show", "communities", "0", "--model", str(tmp_path / "network.safetensors"), "--threshold", "-1"]
    result = run.invoke(app, [*command, "--out", str(tmp_path / name)])
    assert result.exit_code == 0, result.stderr
    levels = ["level 1: 60 nodes, 1 supernode at threshold -1", "level 2: 1 node, 1 supernode at threshold -1"]
    assert result.stdout.splitlines()[:2] == levels  # all merge
    assert (tmp_path / name).read_bytes().startswith(start)


def test_version() -> None:
    assert run.invoke(app, ["--version"]).stdout == f"compool {version('compool')}\n"


def test_help_imports_nothing_heavy() -> None:
    command = "import sys; from compool.cli import app; assert not {'torch', 'matplotlib', 'scipy'} & set(sys.modules)"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", command], check=True, env=os.environ)
    assert time.perf_counter() - start < 3  # under half a second on an idle machine

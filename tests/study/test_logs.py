"""Logs of epochs: equal to the curves that the store has."""

import csv
import json
import math
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.study.log_files import CSVLog, TensorBoardLog, open_logs
from compool.study.logs import EpochRecord, LogWriter
from tests.study.blocks import longer, planned

NAMES = ("loss", "validation", "validation_loss", "test")


def read_log(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """The lines of ``epochs.csv``, by run and epoch; of equals, the last."""
    with path.open(newline="") as file:
        return {tuple(list(row.values())[:6]): row for row in csv.DictReader(file)}


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("workers", [1, 2])
def test_every_epoch_of_every_run(tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process and in others; in a sweep, each run with its own recipe."""
    path = tmp_path / "study.sqlite"
    if workers == 2:
        monkeypatch.undo()  # other processes load the whole set
    command = f"run --method component --replicas 2 --epochs 2 --set hidden=4 --set lr=0.01,0.02 --workers {workers}"
    command += f" --block {5 - 2 * workers} --device cpu --store {path} --no-report --log csv,tensorboard"
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert f"logs: {tmp_path / 'study-logs'}" in result.stdout.splitlines()
    lines = read_log(tmp_path / "study-logs" / "epochs.csv")
    runs = list(study.Store(path).runs())
    assert len(runs) == 4
    assert len(lines) == 8
    for run in runs:
        scalars = read_events(tmp_path / "study-logs", run)
        for epoch in (1, 2):
            line = lines[run.dataset, run.method, run.recipe, "0", str(run.replica), str(epoch)]
            for name in NAMES:
                assert float(line[name]) == pytest.approx(run.curves[name][epoch - 1], abs=2e-6, rel=1e-5)
                assert scalars[name][epoch] == pytest.approx(run.curves[name][epoch - 1], abs=2e-6)
            assert json.loads(line["kept"]) == pytest.approx(run.curves["kept"][epoch - 1], abs=2e-6)
            assert scalars["kept/1"][epoch] == pytest.approx(run.curves["kept"][epoch - 1][0], abs=2e-6)


def read_events(folder: Path, run: study.Run) -> dict[str, dict[int, float]]:
    """The scalars of a run, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    name = EpochRecord(study.Recipe(**run.settings), run.seed, run.replica, 1, {}).run_name
    events = EventAccumulator(str(folder / name))
    events.Reload()
    return {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


@pytest.mark.usefixtures("few_graphs", "every_epoch")
def test_a_training_that_resumes_continues_its_logs(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    (block,) = planned(path, longer(), number=1)
    logs = open_logs(["csv", "tensorboard"], path)

    def stop(block: study.Block, epoch: int, curves: Any) -> None:
        logs.epoch(block, epoch, curves)
        if epoch == 3:
            raise KeyboardInterrupt

    with logs, pytest.raises(KeyboardInterrupt):
        study.train_block(block, stop)
    log = tmp_path / "study-logs" / "epochs.csv"
    with log.open("a") as file:
        file.write("communities,component,fast,0,0,4,0.1")  # killed in the middle of a line
    with open_logs(["csv", "tensorboard"], path) as logs:
        list(study.execute(planned(path, longer(), number=1), path, on_epoch=logs.epoch))
    (run,) = study.Store(path).runs()
    lines = read_log(log)
    assert [line["epoch"] for line in lines.values()] == ["1", "2", "3", "4", "5"]
    assert [float(line["loss"]) for line in lines.values()] == pytest.approx(run.curves["loss"], rel=1e-5)
    scalars = read_events(tmp_path / "study-logs", run)
    assert list(scalars["loss"]) == [1, 2, 3, 4, 5]
    assert list(scalars["loss"].values()) == pytest.approx(run.curves["loss"], abs=2e-6)


class Broken:
    """A log with an error in its third epoch."""

    def __init__(self, error: Exception) -> None:
        self.error, self.epochs = error, list[int]()

    def on_epoch(self, record: EpochRecord) -> None:
        self.epochs.append(record.epoch)
        if record.epoch == 3:
            raise self.error

    def close(self) -> None:
        self.epochs.append(-1)


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize(("error", "has_traceback"), [(OSError("no space left"), False), (KeyError("x"), True)])
def test_an_error_in_a_log_ends_the_log_not_the_training(
    tmp_path: Path, error: Exception, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path, broken, fine = tmp_path / "study.sqlite", Broken(error), Broken(error)
    fine.on_epoch = lambda record: fine.epochs.append(record.epoch)  # type: ignore[method-assign]
    with LogWriter([broken, fine]) as logs:
        list(study.execute(planned(path, longer(), number=1), path, on_epoch=logs.epoch))
    assert [run.status for run in study.Store(path).runs()] == ["done"]
    assert (broken.epochs, fine.epochs) == ([1, 2, 3, -1], [1, 2, 3, 4, 5, -1])  # -1: closed
    assert "Broken cannot be written" in caplog.text
    assert ("Traceback" in caplog.text) == has_traceback


@pytest.mark.usefixtures("few_graphs")
def test_a_run_that_failed_or_stopped_has_no_more_epochs(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    failed = longer(lr=1e30, optimizer="adam", weight_decay=0, epochs=2)
    stopped = longer(epochs=30, patience=3, lr=0.02)
    with open_logs(["csv", "tensorboard"], path) as logs:
        for recipe in (failed, stopped):
            list(study.execute(planned(path, recipe, number=4), path, on_epoch=logs.epoch))
    runs = [run for run in study.Store(path).runs() if run.status == "done"]
    lengths = {run.replica: len(run.curves["loss"]) for run in runs}
    assert len(set(lengths.values())) > 1
    lines = read_log(tmp_path / "study-logs" / "epochs.csv")
    for replica, length in lengths.items():
        epochs = [line["epoch"] for line in lines.values() if line["replica"] == str(replica)]
        assert epochs == [str(epoch) for epoch in range(1, length + 1)]


def test_few_writers_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was closed continues its run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr("compool.study.log_files.MAX_WRITERS", 2)
    log, recipe = TensorBoardLog(tmp_path), study.recipe("gin", "NCI1")
    for epoch in (1, 2):
        for replica in range(3):
            log.on_epoch(EpochRecord(recipe, 0, replica, epoch, {"loss": float(epoch + replica)}))
            assert len(log.writers) <= 2
    log.close()
    events = EventAccumulator(str(tmp_path / "NCI1" / "gin" / "fast" / "seed-0" / "replica-0"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1.0), (2, 2.0)]


def test_names_are_safe_and_no_text_is_a_formula(tmp_path: Path) -> None:
    recipe = replace(study.recipe("gin", "NCI1"), dataset="../x", name="=a b/c")
    record = EpochRecord(recipe, 1, 2, 3, {"loss": math.inf, "kept": []})
    assert record.run_name == "__x/gin/=a_b_c/seed-1/replica-2"
    log = CSVLog(tmp_path)
    log.on_epoch(record)
    log.close()
    assert (tmp_path / "epochs.csv").read_text().splitlines()[1] == "../x,gin,'=a b/c,1,2,3,,[]"


def test_a_file_of_other_columns_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "epochs.csv").write_text("mine\n1\n")
    record = EpochRecord(study.recipe("gin", "NCI1"), 0, 0, 1, {"loss": 1.0})
    with closing(CSVLog(tmp_path)) as log, pytest.raises(OSError, match="has other columns"):
        log.on_epoch(record)
    assert (tmp_path / "epochs.csv").read_text() == "mine\n1\n"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("wandb", "compool: a log must be one of csv, tensorboard; got 'wandb'"),
        ("csv,CSV", "compool: a log must be one of csv, tensorboard; got 'CSV'"),
        (",", "compool: --log must name at least one of csv, tensorboard; got none"),
    ],
)
def test_mistakes(option: str, message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "--log", option, "--store", str(tmp_path / "study.sqlite")])
    assert (result.exit_code, result.stderr) == (2, f"{message}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "study-logs").touch()
    command = ["run", "--log", "csv", "--store", str(tmp_path / "study.sqlite"), "--replicas", "1", "--device", "cpu"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stderr == f"compool: cannot create the log folder {tmp_path / 'study-logs'}: File exists\n"


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path) -> None:
    script = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "tensorboard" else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from compool.cli import app
app()
"""
    command = [sys.executable, "-c", script, "run", "--log", "tensorboard", "--store", str(tmp_path / "s.sqlite")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    remedy = "pip install -c constraints.txt '.[tensorboard]'"
    assert done.stderr == f"compool: the tensorboard log needs a package: {remedy}\n"

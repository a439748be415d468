import shutil
import subprocess
import sys
import time
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.replicas.adam import Adam
from compool.study import checkpoint, training
from tests.study.blocks import CPU, interrupt, longer, planned, told

pytestmark = pytest.mark.usefixtures("few_graphs", "every_epoch")


@pytest.mark.parametrize("method", study.METHODS)
def test_it_goes_on_as_if_nothing_had_been(method: str, tmp_path: Path) -> None:
    """To the bit: order, dropout, learning rates, running statistics, and which epoch was the best."""
    path, recipe = tmp_path / "study.sqlite", longer(method, dropout=0.3)
    (block,) = planned(path, recipe)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    for after in (2, 4):  # twice
        interrupt(block, after)
        (block,) = planned(path, recipe)
        assert block.epochs_done == after
    seen: list[int] = []
    list(study.train_here([block], study.Store(path), lambda _, epoch, curves: seen.append(epoch)))
    assert seen == [5]
    assert told(list(study.Store(path).runs())) == told(whole)
    assert [one.name for one in tmp_path.iterdir()] == ["study.sqlite"]  # nothing is left of it


def test_a_replica_that_failed_stays_so(tmp_path: Path) -> None:
    recipes = study.variants(
        "component", "communities", settings=["lr=0.01,1e30"], epochs=4, hidden=4, optimizer="adam", weight_decay=0
    )
    (block,) = planned(tmp_path / "study.sqlite", *recipes, number=1, size=2)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    assert {run.status for run in whole} == {"done", "failed"}
    interrupt(block, 3)
    assert told(study.train_block(block)) == told(whole)


def test_blocks_are_those_that_were_interrupted(tmp_path: Path) -> None:
    """Unless --block asks for smaller ones; and of a sweep, in which a block has several recipes."""
    path = tmp_path / "study.sqlite"
    first, second = planned(path, number=5, size=3)
    interrupt(second, 1)
    again = planned(path, number=5, size=2)
    assert [(block.replicas, block.epochs_done) for block in again] == [((3, 4), 1), ((0, 1), 0), ((2,), 0)]
    assert planned(path, longer(lr=0.5))[0].epochs_done == 0  # other settings
    assert study.plan([longer()], 5, 1, path, resources=CPU)[0].epochs_done == 0  # another seed
    assert [block.epochs_done for block in planned(path, number=4)] == [0]  # replica 4 is not asked for
    list(study.train_here([first], study.Store(path)))
    assert [(block.replicas, block.epochs_done) for block in planned(path, number=5, size=None)] == [((3, 4), 1)]
    smaller = planned(path, number=5, size=1)
    assert [(block.replicas, block.epochs_done) for block in smaller] == [((3,), 0), ((4,), 0)]
    list(study.train_here(smaller, study.Store(path)))
    assert not checkpoint.folder_of(path).exists()  # that of both is of no use any more

    swept = study.variants("component", "communities", settings=["lr=1e-3,0.01"], epochs=5, hidden=4)
    (block,) = planned(path, *swept, number=2, size=4)
    interrupt(block, 2)
    (again,) = planned(path, *swept, number=2, size=None, resources=study.local_resources("cpu", 4))
    assert again == block
    assert again.epochs_done == 2


def test_a_dry_run_says_how_far_it_is(tmp_path: Path) -> None:
    path, changes = tmp_path / "study.sqlite", ("hidden=4", "epochs=5")
    (block,) = planned(path, *study.variants("component", "communities", settings=changes))
    interrupt(block, 3)
    settings = [text for change in changes for text in ("--set", change)]
    command = ["run", "--method", "component", "--replicas", "3", "--device", "cpu", "--store", str(path), "--dry-run"]
    assert CliRunner().invoke(app, [*command, *settings]).stdout.splitlines() == [
        "communities: 99 graphs, 3 classes; 4 node features from labels",
        f"3 runs to train in 1 block (1 to resume), 0 already in {path}",
        "communities component, fast hidden=4 epochs=5: 3 replicas on cpu, 5 epochs (3 done)",
        "estimated time: less than a minute",
    ]


def test_ctrl_c_says_where_blocks_under_way_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.sqlite"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("compool.study.progress.Progress.epoch", stop)
    command = f"run --method component --replicas 1 --set hidden=4 --device cpu --workers 1 --store {path}".split()
    for every, kept in ((60.0, ""), (0.0, f", unfinished ones in {path}-checkpoints")):
        monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", every)
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 130
        expected = f"compool: stopped; finished blocks are in {path}{kept}; rerun the same command to resume"
        assert result.stderr.splitlines()[-1] == expected


def test_halves_of_a_block_are_trainings_of_their_own(tmp_path: Path) -> None:
    (block,) = planned(tmp_path / "study.sqlite", number=4)
    halves = block.halves()
    assert len({block.checkpoint, *(half.checkpoint for half in halves)}) == 3
    interrupt(block, 1)
    interrupt(halves[1], 2)  # which is the better one to go on with, as the whole was too large
    assert [(one.replicas, one.epochs_done) for one in planned(tmp_path / "study.sqlite", number=4)] == [
        ((2, 3), 2),
        ((0, 1), 0),
    ]


def test_short_trainings_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 60.0)
    (block,) = planned(tmp_path / "study.sqlite")
    study.train_block(block)
    assert list(tmp_path.iterdir()) == []


def test_it_survives_a_kill(tmp_path: Path) -> None:
    """`kill -9` in the middle of an epoch, in a process of its own; half a file that is left is removed in the end."""
    code = """if True:
        import sys
        from pathlib import Path
        from compool import study
        from compool.data import communities
        from compool.study import checkpoint, recipe_data
        checkpoint.WRITE_INTERVAL, checkpoint.MAX_WRITE_SHARE = 0.0, 1e9
        recipe = study.recipe("component", "communities", epochs=1000, hidden=4, halve=2)
        recipe_data.load_data = lambda recipe, folder, check_edges=True: communities(99)
        path = Path(sys.argv[1])
        list(study.execute(study.plan([recipe], 2, 0, path, None, study.local_resources("cpu"), 2), path))
    """
    path = tmp_path / "study.sqlite"
    folder = checkpoint.folder_of(path)
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not list(folder.glob("[!.]*.safetensors")) and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    (block,) = planned(path, longer(epochs=1000), number=2)
    assert block.epochs_done > 0
    assert block.checkpoint is not None
    block.checkpoint.with_name(f".{block.checkpoint.stem}.{process.pid}.safetensors").write_bytes(b"half of")
    seen: list[int] = []

    def first(_: study.Block, epoch: int, curves: object) -> None:
        seen.append(epoch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.train_block(block, first)
    assert seen == [block.epochs_done + 1]
    training.finish(block, [], study.Store(path))
    assert not folder.exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("method", "lr"), [("component", 0.02), ("edgepool", 0.02), ("gin", 0.002)])
def test_captured_steps_go_on(method: str, lr: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put back must be where the CUDA graphs read it. Sums on a GPU are not the same each time, so that two
    epochs, from one tenth epoch, are compared; and Adam makes no steps of rounding (see tests/replicas/test_cuda.py).
    """
    monkeypatch.setattr(Adam, "step", partialmethod(Adam.step, eps=1e-4))
    path, recipe = tmp_path / "study.sqlite", longer(method, lr=lr, hidden=16, epochs=12, halve=12, dropout=0.3)
    (block,) = planned(path, recipe, resources=study.local_resources("cuda"))
    assert block.checkpoint is not None

    def keep(_: study.Block, epoch: int, curves: object) -> None:
        if epoch == 10 and block.checkpoint is not None:
            shutil.copy(block.checkpoint, tmp_path / "tenth")

    whole = study.train_block(block, keep)
    shutil.copy(tmp_path / "tenth", block.checkpoint)
    (again,) = planned(path, recipe, resources=study.local_resources("cuda"))
    assert again.epochs_done == 10
    for one, other in zip(study.train_block(again), whole, strict=True):
        for name in ("loss", "validation_loss"):
            assert one.curves[name][10:] == pytest.approx(other.curves[name][10:], rel=0.02)

import json
import logging
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.data import communities
from compool.study import checkpoint

DIFFER = {"seconds", "finished"}  # from one training of the same replica to the next


@pytest.fixture(autouse=True)
def _few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred generated graphs rather than 1,200; and every epoch is written down."""
    graphs = communities(99)
    monkeypatch.setattr("compool.study.planning.load", lambda recipe, folder: graphs)
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)


def small(method: str = "component", **changes: object) -> study.Recipe:
    return study.recipe(method, "communities", **{"epochs": 5, "hidden": 4, "halve": 2} | changes)


def planned(path: Path, *recipes: study.Recipe, number: int = 3, **other: Any) -> list[study.Block]:
    return study.plan(recipes or [small()], number, 0, path, **{"device": "cpu", "size": number} | other)


def interrupt(block: study.Block, after: int, error: type[BaseException] = KeyboardInterrupt) -> None:
    """Train a block, and stop when an epoch is over."""

    def stop(_: study.Block, epoch: int, curves: object) -> None:
        if epoch == after:
            raise error

    with pytest.raises(error):
        study.train_block(block, stop)


def told(runs: list[study.Run]) -> list[dict[str, Any]]:
    return [{key: value for key, value in vars(run).items() if key not in DIFFER} for run in runs]


@pytest.mark.parametrize("method", study.METHODS)
def test_it_goes_on_as_if_nothing_had_been(method: str, tmp_path: Path) -> None:
    """To the bit: order, dropout, learning rates, running statistics, and which epoch was the best."""
    path, recipe = tmp_path / "study.sqlite", small(method, dropout=0.3)
    (block,) = planned(path, recipe)
    whole = study.train_block(replace(block, checkpoints=None))
    for after in (2, 4):  # twice
        interrupt(block, after)
        (block,) = planned(path, recipe)
        assert block.begun == after
    seen: list[int] = []
    list(study.run_here([block], study.Store(path), lambda _, epoch, curves: seen.append(epoch)))
    assert seen == [5]
    assert told(list(study.Store(path).runs())) == told(whole)
    assert [one.name for one in tmp_path.iterdir()] == ["study.sqlite"]  # nothing is left of it


def test_a_replica_that_failed_stays_so(tmp_path: Path) -> None:
    recipes = study.variants(
        "component", "communities", settings=["lr=0.01,1e30"], epochs=4, hidden=4, optimizer="adam", weight_decay=0
    )
    (block,) = planned(tmp_path / "study.sqlite", *recipes, number=1, size=2)
    whole = study.train_block(replace(block, checkpoints=None))
    assert {run.status for run in whole} == {"done", "failed"}
    interrupt(block, 3)
    assert told(study.train_block(block)) == told(whole)


def test_blocks_are_those_that_were_interrupted(tmp_path: Path) -> None:
    """Whatever --block says now; and of a sweep, in which a block has several recipes."""
    path = tmp_path / "study.sqlite"
    first, second = planned(path, number=5, size=3)
    interrupt(second, 1)
    again = planned(path, number=5, size=2)
    assert [(block.replicas, block.begun) for block in again] == [((3, 4), 1), ((0, 1), 0), ((2,), 0)]
    assert planned(path, small(lr=0.5))[0].begun == 0  # other settings
    assert study.plan([small()], 5, 1, path, device="cpu")[0].begun == 0  # another seed
    assert [block.begun for block in planned(path, number=4)] == [0]  # replica 4 is not asked for
    list(study.run_here([first], study.Store(path)))
    assert [(block.replicas, block.begun) for block in planned(path, number=5, size=1)] == [((3, 4), 1)]

    swept = study.variants("component", "communities", settings=["lr=1e-3,0.01"], epochs=5, hidden=4)
    (block,) = planned(path, *swept, number=2, size=4)
    interrupt(block, 2)
    (again_swept,) = planned(path, *swept, number=2, size=1)
    assert again_swept == replace(block, begun=2)


def test_a_dry_run_says_how_far_it_is(tmp_path: Path) -> None:
    path, changes = tmp_path / "study.sqlite", ("hidden=4", "epochs=5")
    (block,) = planned(path, *study.variants("component", "communities", settings=changes))
    interrupt(block, 3)
    settings = [text for change in changes for text in ("--set", change)]
    command = ["run", "--method", "component", "--replicas", "3", "--device", "cpu", "--store", str(path), "--dry-run"]
    assert CliRunner().invoke(app, [*command, *settings]).stdout.splitlines() == [
        f"3 trainings to do in 1 blocks, 0 in {path} already",
        "communities component, fast hidden=4 epochs=5: 3 replicas on cpu, 5 epochs, 3 of them done",
    ]


def test_halves_of_a_block_are_trainings_of_their_own(tmp_path: Path) -> None:
    (block,) = planned(tmp_path / "study.sqlite", number=4)
    halves = block.halves()
    assert len({block.checkpoint, *(half.checkpoint for half in halves)}) == 3
    interrupt(halves[1], 2)
    assert [(one.replicas, one.begun) for one in planned(tmp_path / "study.sqlite", number=4)] == [
        ((2, 3), 2),
        ((0, 1), 0),
    ]


@pytest.mark.parametrize("what", ["cut", "empty", "another version", "no notes"])
def test_a_file_that_is_of_no_use_is_told(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "study.sqlite"
    (block,) = planned(path)
    interrupt(block, 3)
    assert block.checkpoint is not None
    content = block.checkpoint.read_bytes()
    if what == "another version":
        content = content.replace(b"python", b"pythno")
    elif what == "no notes":
        content = save(load_file(block.checkpoint))
    else:
        content = content[: len(content) // 2 if what == "cut" else 0]
    block.checkpoint.write_bytes(content)
    seen: list[int] = []
    with caplog.at_level(logging.WARNING):
        list(study.run_here(planned(path), study.Store(path), lambda _, epoch, curves: seen.append(epoch)))
    assert seen == [1, 2, 3, 4, 5]
    assert "its training begins anew" in caplog.text
    assert not block.checkpoint.parent.exists()


def test_a_full_disk_does_not_end_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (block,) = planned(tmp_path / "study.sqlite")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert len(study.train_block(block)) == 3
    assert "No space left on device): the training goes on without" in caplog.text
    assert not list(tmp_path.rglob("*.safetensors"))


def test_short_trainings_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 60.0)
    (block,) = planned(tmp_path / "study.sqlite")
    study.train_block(block)
    assert list(tmp_path.iterdir()) == []


def test_seconds_count_what_was_before(tmp_path: Path) -> None:
    (block,) = planned(tmp_path / "study.sqlite")
    interrupt(block, 2)
    assert block.checkpoint is not None
    content = block.checkpoint.read_bytes()
    notes = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    longer = b"9" * len(notes["seconds"].split(".")[0]) + b"." + b"0" * len(notes["seconds"].split(".")[1])
    block.checkpoint.write_bytes(content.replace(notes["seconds"].encode(), longer))
    assert study.train_block(block)[0].seconds * 3 > float(longer)


def test_it_survives_a_kill(tmp_path: Path) -> None:
    """`kill -9` in the middle of an epoch, in a process of its own."""
    code = """if True:
        import sys
        from pathlib import Path
        from compool import study
        from compool.study import checkpoint
        checkpoint.EVERY, checkpoint.SHARE = 0.0, 1e9
        recipe = study.recipe("component", "communities", epochs=int(sys.argv[2]), hidden=4)
        path = Path(sys.argv[1])
        list(study.execute(study.plan([recipe], 2, 0, path, device="cpu", size=2), path))
    """
    path = tmp_path / "study.sqlite"
    folder = checkpoint.folder(path)
    process = subprocess.Popen([sys.executable, "-c", code, str(path), "10000"])
    deadline = time.monotonic() + 120
    while not list(folder.glob("[!.]*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    (begun,) = checkpoint.begun(folder, 0, "cpu")
    assert begun.epochs > 0
    (kept,) = folder.glob("[!.]*.safetensors")
    assert load_file(kept)["curves.loss"].shape == torch.Size([begun.epochs, 2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", study.METHODS)
def test_captured_steps_go_on(method: str, tmp_path: Path) -> None:
    """What is put back must be where the CUDA graphs read it. Sums on a GPU are not the same each time."""
    path, recipe = tmp_path / "study.sqlite", small(method)
    (block,) = planned(path, recipe, device="cuda")
    whole = study.train_block(replace(block, checkpoints=None))
    interrupt(block, 3)
    (block,) = planned(path, recipe, device="cuda")
    assert block.begun == 3
    for run, other in zip(study.train_block(block), whole, strict=True):
        assert run.curves["loss"] == pytest.approx(other.curves["loss"], rel=0.02)

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.data import communities
from compool.study import checkpoint
from tests.study.blocks import interrupt, longer, planned, told

pytestmark = pytest.mark.usefixtures("few_graphs", "every_epoch")


def damaged(path: Path, what: str) -> bytes:
    """The file of a checkpoint as it should not be."""
    content = path.read_bytes()
    if what in ("cut", "empty"):
        return content[: len(content) // 2 if what == "cut" else 0]
    with safe_open(path, framework="pt") as opened:
        notes = opened.metadata()
    notes.pop("checksum")  # as in files of older versions; else it would be all that is checked
    tensors = load_file(path)
    for name in ("origin", "members", "seconds", "epochs"):
        if what == f"no {name}":
            del notes[name]
        elif what == f"other {name}":
            notes[name] = "x"
    if what == "a tensor less":
        del tensors["state.1"]
    elif what == "a tensor more":
        tensors["state.99"] = torch.zeros(1)
    elif what == "another shape":
        tensors["state.0"] = torch.zeros(1)  # as every other, by broadcasting
    elif what == "another type":
        tensors["state.0"] = tensors["state.0"].double()
    elif what == "one step counter":  # as in older versions: for all replicas together
        last = max((name for name in tensors if name.startswith("state.")), key=lambda name: int(name[6:]))
        tensors[last] = tensors[last][0]
    elif what == "a short curve":
        tensors["curves.test"] = tensors["curves.test"][:-1]
    return save(tensors, notes if what != "no notes" else None)


@pytest.mark.parametrize(
    "what",
    ["cut", "empty", "no notes", "a tensor less", "a tensor more", "another shape", "another type", "a short curve"]
    + ["one step counter"]
    + [f"{how} {name}" for how in ("no", "other") for name in ("origin", "members", "seconds", "epochs")],
)
def test_a_file_that_is_of_no_use(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, and training restarts; what is not needed to resume may be missing."""
    path = tmp_path / "study.sqlite"
    (block,) = planned(path)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    interrupt(block, 3)
    assert block.checkpoint is not None
    block.checkpoint.write_bytes(damaged(block.checkpoint, what))
    seen: list[int] = []
    (again,) = planned(path)
    with caplog.at_level(logging.WARNING):
        list(study.train_here([again], study.Store(path), lambda _, epoch, curves: seen.append(epoch)))
    if what.endswith("epochs"):
        assert (again.epochs_done, seen) == (0, [4, 5])
    else:
        assert seen == [1, 2, 3, 4, 5]
        assert "restarting" in caplog.text
    assert told(list(study.Store(path).runs())) == told(whole)
    assert not checkpoint.folder_of(path).exists()


@pytest.mark.parametrize("what", ["a weight", "seconds"])
def test_a_flipped_bit_is_detected(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "study.sqlite"
    (block,) = planned(path)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    interrupt(block, 3)
    assert block.checkpoint is not None
    content = bytearray(block.checkpoint.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    content[start if what == "a weight" else content.index(b'"seconds":"') + 11] ^= 1
    block.checkpoint.write_bytes(content)
    assert told(study.train_block(block)) == told(whole)
    assert f"cannot resume from {block.checkpoint} (its contents do not match its checksum)" in caplog.text


def test_other_graphs_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (block,) = planned(tmp_path / "study.sqlite")
    interrupt(block, 3)
    graphs = communities(99)
    others = replace(graphs, y=np.roll(graphs.y, 1))
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: others)
    assert told(study.train_block(block)) == told(study.train_block(replace(block, checkpoint_folder=None)))
    assert "it belongs to other data" in caplog.text


def test_a_full_disk_does_not_end_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (block,) = planned(tmp_path / "study.sqlite")

    def full(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert len(study.train_block(block)) == 3
    assert caplog.text.count("No space left on device); training continues without") == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_writing_takes_a_share_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch a second, writing takes one: with a tenth of the time, after epochs 5, 15 and 25."""
    clock = iter(range(1000))
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 5.0)
    monkeypatch.setattr(checkpoint, "MAX_WRITE_SHARE", 0.1)
    monkeypatch.setattr("compool.study.checkpoint.time.monotonic", lambda: next(clock))
    saved = checkpoint.Checkpoint(tmp_path / "one.safetensors", (("a", 0),), 0, "here")
    written: list[int] = []

    def state(epoch: int) -> dict[str, torch.Tensor]:
        written.append(epoch)
        return {}

    for epoch in range(1, 30):
        saved.write(epoch, lambda epoch=epoch: state(epoch))
    assert written == [5, 15, 25]


def test_what_cannot_be_removed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "study.sqlite"
    (block,) = planned(path)
    interrupt(block, 3)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", denied)
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 60.0)
    list(study.train_here([block], study.Store(path)))
    assert "cannot be removed" in caplog.text
    assert planned(path) == []


def test_a_checkpoint_whose_runs_are_stored_is_removed(tmp_path: Path) -> None:
    """As after a `kill -9` between storing runs and removing their checkpoint; by a run of something else, too."""
    path = tmp_path / "study.sqlite"
    (block,) = planned(path)
    interrupt(block, 2)
    assert block.checkpoint is not None
    store = study.Store(path)
    runs = study.train_block(replace(block, checkpoint_folder=None))
    store.add(runs[:2])
    study.execute([], path)
    assert block.checkpoint.exists()  # one run is missing
    store.add([replace(runs[2], data_checksum="of other graphs")])
    study.execute([], path)
    assert block.checkpoint.exists()
    (other,) = planned(path, longer("gin"))
    interrupt(other, 2)
    store.add(runs)
    study.execute([], path)
    assert not block.checkpoint.exists()
    assert planned(path, longer("gin"))[0].epochs_done == 2  # others are left alone


def test_a_command_with_nothing_to_train_removes_it(tmp_path: Path) -> None:
    path, changes = tmp_path / "study.sqlite", ("hidden=4", "epochs=3")
    (block,) = planned(path, *study.variants("component", "communities", settings=changes))
    interrupt(block, 2)
    study.Store(path).add(study.train_block(replace(block, checkpoint_folder=None)))
    settings = [text for change in changes for text in ("--set", change)]
    command = [
        "run",
        "--method",
        "component",
        "--replicas",
        "3",
        "--device",
        "cpu",
        "--store",
        str(path),
        "--no-report",
    ]
    assert CliRunner().invoke(app, [*command, *settings, "--dry-run"]).exit_code == 0
    assert checkpoint.folder_of(path).exists()  # a dry run changes nothing
    assert CliRunner().invoke(app, [*command, *settings]).exit_code == 0
    assert not checkpoint.folder_of(path).exists()


def test_seconds_count_what_was_before(tmp_path: Path) -> None:
    (block,) = planned(tmp_path / "study.sqlite")
    interrupt(block, 2)
    assert block.checkpoint is not None
    with safe_open(block.checkpoint, framework="pt") as opened:
        notes = opened.metadata() | {"seconds": "3000"}
    notes.pop("checksum")
    block.checkpoint.write_bytes(save(load_file(block.checkpoint), notes))
    assert 1000 < study.train_block(block)[0].seconds < 1100

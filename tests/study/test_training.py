import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from compool import study
from compool.data import communities, split, write_splits
from compool.report import networks
from compool.report.collection import collect
from tests.study.blocks import CPU, small

pytestmark = pytest.mark.usefixtures("few_graphs")


def test_runs_are_stored_and_gaps_filled(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    blocks = study.plan([small()], 5, 0, path, resources=CPU, size=2)
    assert [block.replicas for block in blocks] == [(0, 1), (2, 3), (4,)]
    assert not path.exists()  # a plan writes nothing
    store = study.Store(path)
    list(study.train_here(blocks[1:2], store))
    again = study.plan([small()], 5, 0, path, resources=CPU, size=2)
    assert [block.replicas for block in again] == [(0, 1), (4,)]
    list(study.train_here(again, store))
    assert study.plan([small()], 5, 0, path, resources=CPU) == []
    assert [run.replica for run in store.runs()] == [0, 1, 2, 3, 4]
    assert len(study.plan([small(lr=0.5)], 5, 0, path, resources=CPU, size=5)) == 1  # other settings: another run
    assert len(study.plan([small()], 5, 1, path, resources=CPU, size=5)) == 1  # another seed


def test_a_damaged_run_is_trained_again(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    list(study.train_here(study.plan([small()], 3, 0, path, resources=CPU), study.Store(path)))
    runs = list(study.Store(path).runs())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET test = test / 2 + 0.1 WHERE replica = 1")
    (block,) = study.plan([small()], 3, 0, path, resources=CPU)
    assert block.replicas == (1,)
    list(study.train_here([block], study.Store(path)))
    again = list(study.Store(path).runs())
    assert [run.replica for run in again] == [0, 1, 2]
    assert again[1].test == runs[1].test
    assert study.plan([small()], 3, 0, path, resources=CPU) == []


def test_a_sweep_is_one_training(tmp_path: Path) -> None:
    path, wanted = tmp_path / "study.sqlite", {"epochs": 2, "hidden": 4}
    swept = study.variants("component", "communities", settings=["lr=1e-3,0.01", "dropout=0,0.5"], **wanted)
    (block,) = study.plan(swept, 2, 0, path, resources=CPU)
    assert block.replicas == (0, 1) * 4
    store = study.Store(path)
    list(study.train_here(block.halves(), store))
    runs = list(store.runs())
    assert {(run.recipe, run.replica) for run in runs} == {
        (f"fast lr={lr} dropout={dropout}", replica)
        for lr in (0.001, 0.01)
        for dropout in (0, 0.5)
        for replica in (0, 1)
    }
    assert study.plan(swept, 2, 0, path, resources=CPU) == []
    (alone,) = study.train_block(study.Block(swept[3], 0, (1,)))  # as if trained by itself
    (same,) = (run for run in runs if run.recipe_checksum == swept[3].checksum and run.replica == 1)
    assert alone.curves["loss"] == pytest.approx(same.curves["loss"], abs=1e-4)
    assert same.settings["lr"] == 0.01
    others = study.variants("component", "communities", settings=["hidden=4,8"], epochs=2)
    assert len(study.plan(others, 2, 0, path, resources=CPU)) == 2  # not of one shape: two trainings


@pytest.mark.parametrize("method", study.METHODS)
def test_what_a_run_says(method: str) -> None:
    block = study.Block(small(method), seed=3, replicas=(4, 7))
    seen: list[int] = []
    one, two = study.train_block(block, lambda _, epoch, curves: seen.append(epoch))
    assert seen == [1, 2]
    assert (one.replica, two.replica, one.seed, one.status, one.block) == (4, 7, 3, "done", 2)
    assert one.split_checksum != two.split_checksum
    assert one.parameters == sum(p.numel() for p in block.recipe.network().parameters())
    assert len(one.curves["loss"]) == len(one.curves["kept"]) == 2
    assert one.test == pytest.approx(one.curves["test"][one.epoch - 1], abs=1e-6)
    assert len(one.kept) == {"component": 1, "edgepool": 1, "gin": 0}[method]
    (alone,) = study.train_block(study.Block(small(method), seed=3, replicas=(7,)))
    assert alone.curves["loss"] == pytest.approx(two.curves["loss"], abs=1e-4)  # float32
    assert alone.split_checksum == two.split_checksum


def test_splits_and_order_as_the_released_code_has_them() -> None:
    changes: list[dict[str, object]] = [{}, {"shuffle": False}, {"splits": "powers"}]
    plain, fixed, powers = (study.train_block(study.Block(small(**one), seed=3, replicas=(0, 5))) for one in changes)
    assert [run.split_checksum for run in fixed] == [run.split_checksum for run in plain]
    assert [run.weights_checksum for run in fixed] == [run.weights_checksum for run in plain]
    assert fixed[0].curves["loss"] != plain[0].curves["loss"]
    assert powers[0].curves["loss"] == pytest.approx(plain[0].curves["loss"], abs=1e-4)  # the first power
    assert powers[1].split_checksum == split(communities(99), 5, 3, "powers").checksum != plain[1].split_checksum


def test_splits_may_come_from_files(tmp_path: Path) -> None:
    graphs, path = communities(99), tmp_path / "splits.json"
    drawn = [split(graphs, replica, seed=8) for replica in range(2)]
    write_splits(path, graphs, drawn)
    recipe = small(splits=str(path))
    (block,) = study.plan([recipe], 2, 0, tmp_path / "study.sqlite", resources=CPU)
    assert [run.split_checksum for run in study.train_block(block)] == [one.checksum for one in drawn]
    with pytest.raises(ValueError, match=r"splits\.json has 2 splits: --replicas must be at most 2; got 3"):
        study.plan([recipe], 3, 0, tmp_path / "study.sqlite", resources=CPU)
    with pytest.raises(ValueError, match="or a file or folder of splits; nowhere does not exist"):
        study.plan([small(splits="nowhere")], 3, 0, tmp_path / "study.sqlite", resources=CPU)


def test_runs_know_their_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Other graphs of the same name are trained again, and stored beside the first."""
    path, first, other = tmp_path / "study.sqlite", communities(99), communities(99, seed=1)
    store = study.Store(path)
    for graphs in (first, other):
        monkeypatch.setattr(
            "compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True, graphs=graphs: graphs
        )
        blocks = study.plan([small()], 2, 0, path, resources=CPU)
        assert [block.replicas for block in blocks] == [(0, 1)]
        list(study.train_here(blocks, store))
        assert study.plan([small()], 2, 0, path, resources=CPU) == []
    assert sorted(run.data_checksum for run in store.runs()) == sorted([first.checksum, other.checksum] * 2)
    assert caplog.messages[0] == (
        f"{path} has 2 runs of other data named communities: they do not count, and reports show them separately"
    )
    rows = collect(store.runs()).rows
    assert sorted(len(row.results["component"].runs) for row in rows) == [2, 2]
    assert {(run.train_graphs, run.test_graphs) for run in store.runs()} == {(79, 11)}
    run = next(run for run in store.runs() if run.data_checksum == first.checksum)
    with pytest.raises(ValueError, match="the run was trained on other data named communities"):
        networks.require_same_data(run, other)


def test_runs_know_the_contents_of_their_splits(tmp_path: Path) -> None:
    graphs, store = communities(99), study.Store(tmp_path / "study.sqlite")
    for name in ("splits.json", "folder"):
        path, seen = tmp_path / name, set()
        for seed in (8, 9):
            parts = split(graphs, 0, seed)
            if name == "folder":
                path.mkdir(exist_ok=True)
                for part in ("train", "test"):
                    np.savetxt(path / f"{part}_idx-1.txt", getattr(parts, part), "%d")
            else:
                write_splits(path, graphs, [parts])
            recipe = small(splits=str(path), epochs=1)
            (block,) = study.plan([recipe], 1, 0, store.path, resources=CPU)
            ((run,),) = study.train_here([block], store)
            assert study.plan([recipe], 1, 0, store.path, resources=CPU) == []
            seen.add(run.splits_checksum)
        assert len(seen) == 2
        assert "" not in seen
    assert study.train_block(study.Block(small(epochs=1), 0, (0,)))[0].splits_checksum == ""


def test_the_checksum_of_data_stays_the_same_from_version_to_version() -> None:
    assert communities(9).checksum == "a2d16bf366aea573"  # stored runs are found by it


def test_a_block_that_does_not_fit_is_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = study.train_block

    def narrow(block: study.Block, *_: object) -> list[study.Run]:
        if len(block.replicas) > 1:
            raise torch.OutOfMemoryError
        return real(block)

    monkeypatch.setattr("compool.study.training.train_block", narrow)
    store = study.Store(tmp_path / "study.sqlite")
    stored = list(study.train_here([study.Block(small(), 0, (0, 1, 2))], store))
    assert [len(runs) for runs in stored] == [1, 1, 1]
    assert len(list(store.runs())) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_replicas": 0}, "replicas must be at least 1, got 0"),
        ({"num_replicas": 10**11}, "replicas must be at most 10,000,000, got 100,000,000,000"),
        ({"size": 0}, "block must be at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_wrong_plans(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        study.plan(**{"recipes": [small()], "num_replicas": 2, "seed": 0, "store": tmp_path / "s"} | changes)


def test_workers_store_what_one_process_does(tmp_path: Path) -> None:
    """Processes of their own, which load the data themselves: all 1,200 graphs, an epoch of two replicas each."""
    recipe = small(epochs=1)
    path = tmp_path / "study.sqlite"
    blocks = [study.Block(recipe, 0, (replica,)) for replica in range(2)]
    seen: list[tuple[int, ...]] = []
    list(study.execute(blocks, path, workers=2, on_epoch=lambda block, epoch, curves: seen.append(block.replicas)))
    assert sorted(seen) == [(0,), (1,)]
    assert [run.replica for run in study.Store(path).runs()] == [0, 1]


def test_a_worker_that_is_killed_is_told_in_a_line(tmp_path: Path) -> None:
    """And a report that fails does not stop the others, nor the end of the process."""
    blocks = [study.Block(small(epochs=200), 0, (replica,)) for replica in range(2)]

    def kill(*_: object) -> None:
        for child in psutil.Process().children():
            if "spawn_main" in " ".join(child.cmdline()):
                child.kill()
        raise OSError("no terminal")

    with pytest.raises(RuntimeError, match=r"a worker was killed, perhaps because memory ran out; .*--block"):
        list(study.execute(blocks, tmp_path / "study.sqlite", workers=2, on_epoch=kill))

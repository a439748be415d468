import json
from pathlib import Path

import numpy as np
import pytest

from compool.data import communities, read_splits, split, write_splits
from compool.data.graph_set import GraphSet

GRAPHS = communities(90)


def named(name: str) -> GraphSet:
    return GraphSet(name, GRAPHS.node_ptr, GRAPHS.edge_ptr, GRAPHS.edge_index, GRAPHS.y)


def test_a_split_is_a_partition() -> None:
    for replica in range(5):
        one = split(GRAPHS, replica)
        assert [len(part) for part in one] == [72, 9, 9]
        assert sorted(np.concatenate(one).tolist()) == list(range(90))


def test_it_depends_on_set_seed_and_replica_alone() -> None:
    one = split(GRAPHS, 3, seed=7)
    assert one.checksum == split(communities(90, noise=0.5), 3, seed=7).checksum
    others = [split(GRAPHS, 4, seed=7), split(GRAPHS, 3, seed=8), split(named("other"), 3, seed=7)]
    assert len({one.checksum, *(other.checksum for other in others)}) == 4


def test_it_stays_the_same_from_version_to_version() -> None:
    assert split(GRAPHS, 0).checksum == "3d01da8f68662990"


def test_every_graph_is_tested_somewhere() -> None:
    tested = np.concatenate([split(GRAPHS, replica).test for replica in range(100)])
    counts = np.bincount(tested, minlength=90)
    assert counts.min() > 0
    assert counts.max() < 30  # ten on average


def test_stratified() -> None:
    one = split(GRAPHS, 0, kind="stratified")
    assert sorted(np.concatenate(one).tolist()) == list(range(90))
    for part in one:
        assert len(set(np.bincount(GRAPHS.y[part]).tolist())) == 1  # 30 graphs a class


def test_powers_of_one_permutation() -> None:
    once = np.concatenate(split(GRAPHS, 0))
    assert split(GRAPHS, 0, kind="powers").checksum == split(GRAPHS, 0).checksum
    place, orders = np.eye(90)[once], [np.concatenate(split(GRAPHS, replica, kind="powers")) for replica in range(100)]
    for replica in (1, 2, 99):
        assert orders[replica].tolist() == (np.linalg.matrix_power(place, replica + 1) @ np.arange(90)).tolist()
    tested = {graph for order in orders for graph in order[81:].tolist()}
    assert len(tested) < 90  # a graph stays in its cycle


def test_a_high_power_takes_no_longer() -> None:
    """A permutation of 90 graphs comes back after as many steps as the least common multiple of its cycles."""
    once = np.concatenate(split(GRAPHS, 0))
    order, steps = once, 1
    while not np.array_equal(order, np.arange(90)):
        order, steps = order[once], steps + 1
    for replica in (steps, 2**62):
        expected = split(GRAPHS, replica % steps, kind="powers").checksum
        assert split(GRAPHS, replica, kind="powers").checksum == expected


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="kind must be one of independent, stratified, folds, powers; got 'other'"):
        split(GRAPHS, 0, kind="other")


def test_export_and_back(tmp_path: Path) -> None:
    splits = [split(GRAPHS, replica) for replica in range(3)]
    path = tmp_path / "splits.json"
    write_splits(path, GRAPHS, splits, seed=0)
    back = read_splits(path, GRAPHS)
    assert [one.checksum for one in back] == [one.checksum for one in splits]
    content = json.loads(path.read_text())
    assert (content["dataset"], content["seed"]) == ("communities", 0)
    content["splits"][1]["train"][:2] = content["splits"][1]["train"][1::-1]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="split 1: the indices do not match the checksum"):
        read_splits(path, GRAPHS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a file of splits"),
        ('{"splits": [{"train": [0], "test": [1]}]}', "is not a file of splits"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [90]}]}', r"has graphs 0\.\.89, found 90"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [0]}]}', "graph 0 appears twice"),
        ('{"splits": [{"train": [0], "validation": [1], "test": []}]}', "split 0: test has no graphs"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [2.5]}]}', "test must be a list of whole numbers"),
        ('{"splits": [{"train": [0], "validation": [1], "test": ["2"]}]}', "test must be a list of whole numbers"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [[2]]}]}', "test must be a list of whole numbers"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [true]}]}', "test must be a list of whole numbers"),
        ('{"splits": [{"train": [0], "validation": [1], "test": 2}]}', "test must be a list of whole numbers"),
        ('{"splits": [{"train": [0], "validation": [1], "test": [1' + "0" * 30 + "]}]}", "is not a file of splits"),
        ('{"splits": ' + "[" * 100_000 + "]" * 100_000 + "}", "is not a file of splits"),
        ('{"splits": []}', "has no splits"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "splits.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_splits(tmp_path / "splits.json", GRAPHS)


def test_published_folds(tmp_path: Path) -> None:
    for fold in (1, 2):
        test = np.arange(90)[fold::10]
        np.savetxt(tmp_path / f"test_idx-{fold}.txt", test, fmt="%d")
        np.savetxt(tmp_path / f"train_idx-{fold}.txt", np.setdiff1d(np.arange(90), test), fmt="%d")
    first, second = read_splits(tmp_path, GRAPHS)
    assert first.test.tolist() == list(range(1, 90, 10))
    assert [len(part) for part in second] == [72, 9, 9]
    assert read_splits(tmp_path, GRAPHS)[0].checksum == first.checksum
    np.savetxt(tmp_path / "validation_idx-1.txt", [first.train[0]], fmt="%d")
    with pytest.raises(ValueError, match=f"fold 1: graph {first.train[0]} appears twice"):
        read_splits(tmp_path, GRAPHS)


def test_a_folder_without_folds(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no test_idx-1\.txt"):
        read_splits(tmp_path, GRAPHS)


@pytest.mark.parametrize("text", ["1.5", "x", "9" * 30, "1, 2"])
def test_folds_of_other_than_whole_numbers(text: str, tmp_path: Path) -> None:
    (tmp_path / "train_idx-1.txt").write_text("0\n1\n")
    (tmp_path / "test_idx-1.txt").write_text(text)
    with pytest.raises(ValueError, match=r"test_idx-1\.txt must hold whole numbers, one per line"):
        read_splits(tmp_path, GRAPHS)


def test_an_empty_fold(tmp_path: Path) -> None:
    (tmp_path / "train_idx-1.txt").write_text("0\n1\n")
    (tmp_path / "test_idx-1.txt").write_text("\n")
    with pytest.raises(ValueError, match="fold 1: test has no graphs, at least one is needed"):
        read_splits(tmp_path, GRAPHS)
    (tmp_path / "test_idx-1.txt").write_text("2\n")
    (fold,) = read_splits(tmp_path, GRAPHS)
    assert [len(part) for part in fold] == [1, 1, 1]  # a ninth of two is less than one graph


@pytest.mark.parametrize("kind", ["independent", "powers"])
def test_few_graphs_split_into_parts_that_are_not_empty(kind: str) -> None:
    for number in range(3, 12):
        parts = split(communities(number), 2, kind=kind)
        assert sorted(np.concatenate(parts).tolist()) == list(range(number))
        assert [len(part) for part in parts] == [number - 2, 1, 1] if number < 10 else [8, 1, number - 9]
    for number in (1, 2):
        with pytest.raises(ValueError, match=f"a split needs at least 3 graphs, communities has {number}"):
            split(communities(number), 0, kind=kind)


def test_few_graphs_of_each_class() -> None:
    with pytest.raises(ValueError, match="no class of communities has the ten graphs that a stratified split needs"):
        split(communities(27), 0, kind="stratified")
    assert [len(part) for part in split(communities(30), 0, kind="stratified")] == [24, 3, 3]


def test_negative_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="replica must be at least 0, got -1"):
        split(GRAPHS, -1)
    with pytest.raises(ValueError, match="seed must be at least 0, got -2"):
        split(GRAPHS, 0, seed=-2)


def test_folds() -> None:
    """Each graph is tested once and validates once; classes and sizes are equal."""
    graphs = communities(95)
    folds = [split(graphs, replica, seed=3, kind="folds") for replica in range(10)]
    for part in ("test", "validation"):
        assert sorted(np.concatenate([getattr(fold, part) for fold in folds])) == list(range(95))
    for replica, fold in enumerate(folds):
        assert sorted(np.concatenate(fold)) == list(range(95))
        assert len(fold.test) in (9, 10)
        counts = np.bincount(graphs.y[fold.test], minlength=3)
        assert counts.max() - counts.min() <= 1
        assert set(fold.validation) == set(folds[(replica + 1) % 10].test)
    assert not np.array_equal(folds[0].test, split(graphs, 0, seed=4, kind="folds").test)
    with pytest.raises(ValueError, match="there are 10 folds: --replicas must be at most 10; got 11"):
        split(graphs, 10, kind="folds")
    with pytest.raises(ValueError, match="folds need at least 10 graphs"):
        split(communities(9), 0, kind="folds")


def test_splits_of_a_set_of_another_size(tmp_path: Path) -> None:
    write_splits(tmp_path / "splits.json", communities(60), [split(communities(60), 0)])
    with pytest.raises(ValueError, match=r"splits\.json has splits of 60 graphs, but communities has 90"):
        read_splits(tmp_path / "splits.json", communities(90))


def test_folds_are_numbered_from_1(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}_idx-0.txt").write_text("1\n")
    with pytest.raises(FileNotFoundError, match=r"has no test_idx-1\.txt"):
        read_splits(tmp_path, communities(9))

"""Targets of sets: classes, numbers, and labels of which some are missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compool.data import GraphSet, community_count, community_labels, generate, is_generated, load, split
from compool.data.targets import check_targets
from tests.data.test_tu import write

NAN = float("nan")


@pytest.mark.parametrize(
    ("y", "given", "task", "values", "dtype"),
    [
        ([0, 2, 1], "", "classification", [0, 2, 1], np.int64),
        ([[0], [2], [1]], "", "classification", [0, 2, 1], np.int64),
        ([[0], [1]], "classification", "classification", [0, 1], np.int64),
        ([[0], [1]], "multilabel", "multilabel", [[0.0], [1.0]], np.float32),
        ([True, False], "", "classification", [1, 0], np.int64),
        ([0.0, 2.0], "classification", "classification", [0, 2], np.int64),
        ([0.5, 2.0], "", "regression", [0.5, 2.0], np.float32),
        ([0.0, 1.0], "", "regression", [0.0, 1.0], np.float32),  # one column of floats is never guessed to be labels
        ([3, 1], "regression", "regression", [3.0, 1.0], np.float32),
        ([[0.5, 1.0], [1.0, 0.0]], "", "regression", [[0.5, 1.0], [1.0, 0.0]], np.float32),
        ([[0, 1], [1, 0]], "", "multilabel", [[0.0, 1.0], [1.0, 0.0]], np.float32),
        ([[1.0], [NAN]], "", "multilabel", [[1.0], [NAN]], np.float32),
        ([[1.0], [0.0]], "regression", "regression", [[1.0], [0.0]], np.float32),
    ],
)
def test_the_task_follows_from_type_and_shape(
    y: Any, given: str, task: str, values: Any, dtype: type[np.generic]
) -> None:
    array, found = check_targets(np.array(y), given)
    assert (found, array.dtype) == (task, dtype)
    assert np.array_equal(array, np.array(values), equal_nan=dtype is np.float32)


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        ([0.5, NAN], "", r"y must be finite for regression; leave graphs without a target out; graph 1 has nan"),
        ([[0.5, 1.0], [np.inf, 0.0]], "", r"y must be finite for regression.*graph 1 has \[inf, 0\.0\]"),
        ([[0.5, 1.0]], "multilabel", r"y must be 0, 1 or NaN for multilabel; graph 0 has \[0\.5, 1\.0\]"),
        ([0.0, 1.0], "multilabel", r"y must have the shape \[G, T\] for multilabel, got \[2\]"),
        ([0.5, 1.0], "classification", "y must hold whole numbers for classification; graph 0 has 0.5"),
        (
            [0, -1],
            "classification",
            "y must hold classes from 0 to 999,999 for classification; graph [01] has -1; number",
        ),
        ([[0, 1]], "classification", r"y must have the shape \[G\], got \[1, 2\]"),
        ([0, 1], "ranking", "task must be one of classification, regression, multilabel; got 'ranking'"),
        (["a", "b"], "", r"y must hold numbers \[G\] or \[G, T\], got <U1 \[2\]"),
        ([[], []], "regression", "y must have at least one target per graph, got none"),
    ],
)
def test_wrong_targets_are_named(y: Any, task: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_targets(np.array(y), task)


def test_the_number_of_communities_is_right() -> None:
    graphs = community_count(24)
    assert (graphs.task, graphs.num_targets, graphs.num_classes, graphs.y.dtype) == ("regression", 1, 1, np.float32)
    assert graphs.labels is not None
    for index in range(24):  # without connectors, whose label is 3, each community is a connected component
        label = graphs.labels[graphs.node_ptr[index] : graphs.node_ptr[index + 1]]
        source, target = graphs.edge_index[:, graphs.edge_ptr[index] : graphs.edge_ptr[index + 1]]
        reach = np.eye(len(label), dtype=bool)
        inside = (label[source] < 3) & (label[target] < 3)
        reach[source[inside], target[inside]] = True
        for _ in range(7):
            reach = reach @ reach
        assert len(np.unique(reach[label < 3], axis=0)) == graphs.y[index]


def test_labels_of_communities_and_their_gaps() -> None:
    whole, gaps = community_labels(240, noise=0, missing=0), community_labels(240, noise=0)
    count = community_count(240, noise=0)
    assert (gaps.task, gaps.num_targets, gaps.y.shape) == ("multilabel", 5, (240, 5))
    assert np.array_equal(whole.edge_index, count.edge_index)
    assert np.array_equal(whole.y[:, :2], np.stack([count.y > 2, count.y > 3], axis=1))
    assert whole.labels is not None
    for index in range(240):  # without noise, the colours that nodes show are those of communities
        shown = set(whole.labels[whole.node_ptr[index] : whole.node_ptr[index + 1]].tolist())
        assert whole.y[index, 2:].tolist() == [float(colour in shown) for colour in range(3)]
    missing = np.isnan(gaps.y)
    assert np.array_equal(gaps.y[~missing], whole.y[~missing])
    assert 0.15 < missing.mean() < 0.25
    with pytest.raises(ValueError, match=r"missing must lie in 0\.\.1, got 1\.5"):
        community_labels(9, missing=1.5)


def test_generated_by_name() -> None:
    assert is_generated("community-count")
    assert generate("community-labels").name == "community-labels"
    assert generate("community-labels").checksum == community_labels().checksum


def test_splits_of_numbers() -> None:
    graphs = community_count(90)
    assert [len(part) for part in split(graphs, 0)] == [72, 9, 9]
    tested = np.concatenate([split(graphs, replica, kind="folds").test for replica in range(10)])
    assert sorted(tested.tolist()) == list(range(90))
    with pytest.raises(ValueError, match="needs classes, but community-count is for regression; choose kind 'indep"):
        split(graphs, 0, kind="stratified")


def test_files_keep_the_task(tmp_path: Path) -> None:
    graphs = community_labels(9)
    both = [graphs, replace(graphs, y=np.nan_to_num(graphs.y), task="regression")]
    for given in both:
        given.save(tmp_path / "set.npz")
        back = GraphSet.open(tmp_path / "set.npz")[0]
        assert (back.task, back.checksum) == (given.task, given.checksum)
    same = replace(both[1], task="multilabel")
    assert same.checksum != both[1].checksum  # the same numbers, another task


def test_attributes_of_graphs_in_tu_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    one = load("TINY", write(tmp_path, graph_labels=None, graph_attributes="0.5\n-1\n2e1\n"))
    assert (one.task, one.y.tolist(), one[1].y.tolist()) == ("regression", [0.5, -1, 20], [-1])
    several = load("TINY", write(tmp_path, graph_labels=None, graph_attributes="1, nan\n0, 1\n0, 0\n"))
    assert (several.task, several[0].y.isnan().tolist()) == ("multilabel", [[False, True]])
    classes = load("TINY", write(tmp_path, graph_attributes="0.5\n-1\n2e1\n"))
    assert classes.task == "classification"  # classes come first
    with pytest.raises(ValueError, match=r"graph_attributes\.txt has 1 lines, but .* has 3 graphs"):
        load("TINY", write(tmp_path, graph_labels=None, graph_attributes="0.5\n"))

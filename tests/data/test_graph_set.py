"""Sets and features that are built directly from arrays."""

from typing import Any

import numpy as np
import pytest
import torch

from compool.data import Features, GraphSet, features
from compool.replicas import Graphs

# Two graphs: a path of three nodes, and an edge.
GOOD: dict[str, Any] = {
    "node_ptr": np.array([0, 3, 5]),
    "edge_ptr": np.array([0, 4, 6]),
    "edge_index": np.array([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]], np.int32),
    "y": np.array([0, 1]),
}


def test_arrays_are_converted() -> None:
    lists = {key: array.tolist() for key, array in GOOD.items()}
    graphs = GraphSet("T", **lists, labels=np.arange(5, dtype=np.uint8), attributes=np.ones((5, 2)))
    types = (graphs.node_ptr.dtype, graphs.edge_index.dtype, graphs.labels.dtype, graphs.attributes.dtype)
    assert types == (np.int64, np.int32, np.int32, np.float32)
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]
    assert GraphSet("T", **GOOD).node_ptr is GOOD["node_ptr"]  # nothing is copied in vain


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"edge_index": np.array([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 10**8, 0]])},
            r"column 4: nodes of graph 1 are 0\.\.1",
        ),
        ({"edge_index": np.array([[0, 1, 1, 2, 0, 1], [2**32 + 1, 0, 2, 1, 1, 0]])}, "edge_index must lie in"),
        (
            {"edge_index": np.array([[0, 1, 1, 2, 1, 0], [1, 0, 2, 1, 0, 1]])},
            "column 5: edges of a graph must be sorted",
        ),
        ({"edge_index": np.array([[0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 1, 0]])}, "column 1: .* sorted .* each once"),
        ({"edge_index": np.array([[0, 0, 1, 2, 0, 1], [1, 2, 0, 1, 1, 0]])}, r"one direction only; got \(0, 2\)"),
        ({"edge_index": np.array([[0, 1, 1, 2, 0, 1], [1, 0, 2, 0, 1, 0]])}, r"one direction only; got \(2, 0\)"),
        ({"edge_index": GOOD["edge_index"].T}, r"edge_index must have the shape \[2, E\], got \[6, 2\]"),
        ({"edge_index": GOOD["edge_index"] * 1.0}, "edge_index must hold integers, got float64"),
        ({"node_ptr": np.array([0, 0, 5])}, "column 0: graph 0 has no nodes"),
        ({"node_ptr": np.array([0, 2**40, 2**41])}, "node_ptr must give a graph at most 2147483647 nodes"),
        ({"node_ptr": np.array([0, 3, 5, 5])}, "node_ptr must have one entry more than y, 3; got 4"),
        ({"edge_ptr": np.array([0, 7, 6])}, "edge_ptr must not decrease, but does after entry 1"),
        ({"y": np.array([0, -1])}, "y must hold classes from 0 to 999,999 for classification; graph [01] has -1"),
        ({"labels": np.full(5, 10**9)}, r"labels must lie in 0\.\.999999, node labels; got 1000000000"),
        ({"labels": np.zeros(4, int)}, "labels must have 5 rows, one per node; got 4"),
        ({"attributes": np.zeros((4, 2))}, "attributes must have 5 rows, one per node; got 4"),
        ({"looped": np.array([5])}, r"looped must lie in 0\.\.4, nodes; got 5"),
    ],
)
def test_wrong_arrays_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphSet("T", **GOOD | changes)


def test_no_graphs() -> None:
    with pytest.raises(ValueError, match="T must have at least one graph, but y is empty"):
        GraphSet("T", np.zeros(1, int), np.zeros(1, int), np.zeros((2, 0), int), np.zeros(0, int))


def test_graphs_without_nodes() -> None:
    graphs = GraphSet(
        "T", np.zeros(3, int), np.zeros(3, int), np.zeros((2, 0), int), np.array([0, 1]), np.zeros(0, int)
    )
    assert [features(graphs, kind).dense(slice(None)).shape for kind in ("labels", "released", "one")] == [(0, 1)] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"column": np.array([0, 3])}, r"column must lie in 0\.\.2, the 3 columns of width; got 3"),
        ({"column": np.array([0, -1])}, r"column must lie in 0\.\.2, the 3 columns of width; got -1"),
        ({"column": np.array([0.0, 1.0])}, "column must hold integers, got float64"),
        ({"values": np.zeros((5, 2))}, "values must have 3 columns, as width says; got 2"),
        ({}, "features must have either column or values"),
    ],
)
def test_wrong_features_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Features("own", 3, **arguments)


def test_what_is_built_directly_is_what_is_trained_on() -> None:
    graphs = GraphSet("T", **GOOD)
    x, union = Graphs(graphs, Features("own", 3, np.array([0, 1, 2, 1, 0]))).union(torch.tensor([[1, 0]]))
    assert x.tolist() == [1, 0, 0, 1, 2]
    assert union.edge_index.tolist() == [[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]]

import numpy as np
import pytest
import torch

from compool.data import GraphSet, features
from compool.replicas import Graphs
from tests.replicas.batches import batches, graph_set


def test_by_hand() -> None:
    # graph 0: an edge; graph 1: a node; graph 2: a path
    edges = np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]], np.int32)
    labels = np.array([0, 1, 2, 0, 1, 2], np.int32)
    graphs = GraphSet("T", np.array([0, 2, 3, 6]), np.array([0, 2, 2, 6]), edges, np.array([0, 1, 0]), labels)
    x, union = Graphs(graphs, features(graphs)).union(torch.tensor([[2, 1], [0, -1]]))
    assert x.tolist() == [0, 1, 2, 2, 0, 1]  # columns of one-hot labels
    assert union.graph_ptr.tolist() == [0, 3, 4, 6, 6]
    assert union.ptr.tolist() == [0, 4, 6]
    assert union.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
    assert union.row_ptr.tolist() == [0, 1, 3, 4, 4, 5, 6]
    assert union.edge_ptr.tolist() == [0, 4, 6]
    assert union.degree.tolist() == [1, 2, 1, 0, 1, 1]


def test_equals_pyg_batches() -> None:
    graphs = graph_set()
    which = [[3, 0, 7, -1], [7, 7, 11, 2], [1, 2, 3, 4]]
    x, union, singles = batches(graphs, features(graphs), which)
    assert torch.equal(x, torch.cat([single.x for single in singles]))
    shifted = [single.edge_index + at for single, at in zip(singles, union.ptr.tolist(), strict=False)]
    assert torch.equal(union.edge_index.long(), torch.cat(shifted, 1))


@pytest.mark.parametrize("which", [[[-1, -1]], [[-1], [-1]]])
def test_nothing(which: list[list[int]]) -> None:
    graphs = graph_set()
    x, union = Graphs(graphs, features(graphs)).union(torch.tensor(which))
    assert x.shape == (0, 5)
    assert union.num_nodes == 0
    assert union.ptr.tolist() == [0] * (len(which) + 1)


def test_a_single_one_is_dense() -> None:
    graphs = graph_set()
    assert Graphs(graphs, features(graphs, "one")).x.tolist() == [[1.0]] * graphs.num_nodes + [[0.0]]

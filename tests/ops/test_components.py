import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

import compool
from tests.graphs import SHAPES, Graph, graphs, random_graph


def scipy_labels(edge_index: torch.Tensor, num_nodes: int) -> list[int]:
    source, target = edge_index.numpy()
    matrix = coo_matrix((np.ones(len(source)), (source, target)), shape=(num_nodes, num_nodes))
    labels: list[int] = scipy_components(matrix, directed=False)[1].tolist()
    return labels


def test_numbered_by_first_member(backend: str) -> None:
    edge_index = torch.tensor([[5, 3, 1], [2, 5, 4]])
    assert compool.connected_components(edge_index, 7).tolist() == [0, 1, 2, 2, 1, 2, 3]


def test_direction_is_ignored(backend: str) -> None:
    edge_index = random_graph(50, 30)
    a = compool.connected_components(edge_index, 50)
    assert torch.equal(a, compool.connected_components(edge_index.flip(0), 50))


@given(graphs())
def test_against_scipy(graph: Graph) -> None:
    labels = compool.connected_components(graph.edge_index, graph.x.size(0))
    if graph.x.size(0):  # SciPy takes no empty graph
        assert labels.tolist() == scipy_labels(graph.edge_index, graph.x.size(0))
    else:
        assert labels.tolist() == []


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "no nodes"])
def test_shapes_against_scipy(shape: str, backend: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    assert compool.connected_components(edge_index, num_nodes).tolist() == scipy_labels(edge_index, num_nodes)


def test_a_million_isolated_nodes(backend: str) -> None:
    labels = compool.connected_components(torch.empty(2, 0, dtype=torch.long), 1_000_000)
    assert torch.equal(labels, torch.arange(1_000_000))


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.long), r"edge_index must have shape \[2, edges\], got \[3, 2\]"),
        (torch.zeros(2, 2), "edge_index must be torch.int64 or torch.int32, got torch.float32"),
        (torch.tensor([[0], [5]]), r"edge_index must lie in 0\.\.4 for 5 nodes, got 5"),
        (torch.tensor([[-1], [0]]), r"edge_index must lie in 0\.\.4 for 5 nodes, got -1"),
    ],
)
def test_bad_input(edge_index: torch.Tensor, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        compool.connected_components(edge_index, 5)

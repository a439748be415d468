from collections import Counter, defaultdict

import pytest
import torch
from torch_geometric.data import Data

import compool
from compool.data import wl_classes, wl_pairs


def histogram(graph: Data, rounds: int) -> Counter[object]:
    """Colours after `rounds` of 1-WL, spelled out as nested tuples: slow, and no number stands for a colour."""
    neighbours = defaultdict(list)
    for i, j in graph.edge_index.t().tolist():
        neighbours[i].append(j)
    colours: list[object] = graph.x.argmax(1).tolist()
    for _ in range(rounds):
        colours = [
            (colours[i], tuple(sorted((colours[j] for j in neighbours[i]), key=repr))) for i in range(graph.num_nodes)
        ]
    return Counter(colours)


def test_pairs_are_alike_for_one_round_and_not_for_two() -> None:
    graphs = wl_pairs(20)
    for index in range(20):
        one, two = graphs[2 * index], graphs[2 * index + 1]
        assert histogram(one, 1) == histogram(two, 1)
        assert histogram(one, 2) != histogram(two, 2)


def test_numbers_are_the_same_where_colours_are() -> None:
    graphs = wl_pairs(15)
    for rounds in (0, 1, 2, 3):
        numbers = wl_classes(graphs, rounds).tolist()
        colours = [histogram(graph, rounds) for graph in graphs]
        for i in range(len(graphs)):
            assert [n == numbers[i] for n in numbers] == [c == colours[i] for c in colours]


def test_the_end_of_refinement() -> None:
    graphs = wl_pairs(15)
    assert len(set(wl_classes(graphs).tolist())) == 30


def test_two_triangles_and_a_hexagon_are_the_same_to_it() -> None:
    import numpy as np

    triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    hexagon = [(i, (i + 1) % 6) for i in range(6)]
    path = [(i, i + 1) for i in range(5)]
    edges = []
    for pairs in (triangles, hexagon, path):
        both = sorted(pairs + [(j, i) for i, j in pairs])
        edges.append(np.array(both).T)
    pointer = np.cumsum([0, *(e.shape[1] for e in edges)])
    graphs = compool.data.GraphSet(
        "three", np.array([0, 6, 12, 18]), pointer, np.concatenate(edges, axis=1).astype(np.int32), np.arange(3)
    )
    assert wl_classes(graphs).tolist() == [0, 0, 1]


def test_graphs_are_simple_undirected_connected_and_the_seed_s() -> None:
    graphs = wl_pairs(10, seed=3)
    for graph in graphs:
        assert graph.is_undirected()
        assert graph.is_coalesced()
        assert not graph.has_self_loops()
        assert compool.connected_components(graph.edge_index, graph.num_nodes).max() == 0
        assert graph.x[:, 1].sum() == 5
    assert torch.equal(wl_pairs(4, seed=3)[7].edge_index, graphs[7].edge_index)
    assert not torch.equal(wl_pairs(4, seed=4)[7].x, graphs[7].x)
    with pytest.raises(ValueError, match="num_pairs must be at least 1, got 0"):
        wl_pairs(0)

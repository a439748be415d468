from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

import compool
from compool.data import communities


def test_the_class_does_not_show_in_nodes_edges_or_degrees() -> None:
    seen: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for graph in communities(90):
        degrees = torch.bincount(torch.bincount(graph.edge_index[0], minlength=graph.num_nodes), minlength=8)
        seen[int(graph.y)][(graph.num_nodes, graph.num_edges, *degrees.tolist())] += 1
    assert seen[0] == seen[1] == seen[2]


def test_without_connectors_the_communities_fall_apart() -> None:
    for graph in communities(45):
        inner = graph.x[:, -1] == 0
        keep = inner[graph.edge_index].all(0)
        labels = compool.connected_components(graph.edge_index[:, keep], graph.num_nodes)
        sizes = torch.bincount(labels[inner])
        assert len(sizes[sizes > 0]) == int(graph.y) + 2
        assert set(sizes[sizes > 0].tolist()) == {int(inner.sum()) // (int(graph.y) + 2)}


def test_graphs_are_simple_undirected_and_connected() -> None:
    for graph in communities(18):
        assert graph.is_undirected()
        assert graph.is_coalesced()
        assert not graph.has_self_loops()
        assert compool.connected_components(graph.edge_index, graph.num_nodes).max() == 0


def test_colours_repeat_so_that_they_do_not_tell_the_class() -> None:
    colours: dict[int, set[int]] = {0: set(), 2: set()}
    for graph in communities(90, noise=0.0):
        if int(graph.y) in colours:
            colours[int(graph.y)].add(int((graph.x[:, :-1].sum(0) > 0).sum()))
    assert {1, 2} <= colours[0]
    assert {2, 3} <= colours[2]


def test_noise_is_the_share_of_wrong_colours() -> None:
    clean, noisy = communities(90, noise=0.0), communities(90, noise=0.3)
    inner = clean.labels < 3
    differ = (clean.labels != noisy.labels)[inner].mean()
    assert differ == pytest.approx(0.3 * 2 / 3, abs=0.02)  # a random colour is the right one in a third of cases


def test_deterministic_and_by_index() -> None:
    a, b, c = communities(20, seed=3), communities(40, seed=3), communities(20, seed=4)
    assert np.array_equal(a.edge_index, b.edge_index[:, : a.edge_ptr[-1]])
    assert np.array_equal(a.labels, b.labels[: a.node_ptr[-1]])
    assert not np.array_equal(a.edge_index, c.edge_index)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="num_graphs must be at least 1, got 0"):
        communities(0)
    with pytest.raises(ValueError, match=r"noise must lie in 0\.\.1, got 2"):
        communities(9, noise=2)
    with pytest.raises(IndexError, match=r"communities has graphs 0\.\.8, got 9"):
        communities(9)[9]


def test_the_checksum_changes_with_any_array() -> None:
    graphs = communities(30)
    others = [replace(graphs, y=np.roll(graphs.y, 1)), replace(graphs, labels=np.roll(graphs.labels, 1))]
    others += [replace(graphs, labels=None), communities(30, noise=0.5)]
    assert graphs.checksum == communities(30).checksum == replace(graphs, name="other").checksum
    assert len({graphs.checksum, *(other.checksum for other in others)}) == 5

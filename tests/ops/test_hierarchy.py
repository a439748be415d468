import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy as scipy_hierarchy
from torch import Tensor

import compool
from compool.ops import components, ratio_parts
from tests.graphs import SHAPES, Graph, clique, graphs, inside, random_graph

LEVELS = (-math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, math.inf)
scores = st.lists(st.sampled_from(LEVELS), min_size=144, max_size=144)


def scored(graph: Graph, levels: list[float]) -> tuple[Tensor, Tensor, int]:
    return graph.edge_index, torch.tensor(levels)[: graph.edge_index.size(1)], graph.x.size(0)


# A path 0 – 1 – 2 – 3 and a node by itself; the scores are those of its edges, either way
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
SCORE = torch.tensor([0.9, 0.9, 0.1, 0.1, 0.5, 0.5])


def test_by_hand(backend: str) -> None:
    levels = compool.hierarchy(PATH, SCORE, 5)
    assert levels.edges.tolist() == [0, 4, 2]
    assert levels.score.tolist() == SCORE[[0, 4, 2]].tolist()
    assert levels.edge_index.tolist() == [[0, 2, 1], [1, 3, 2]]
    assert levels.at(0.4).tolist() == [0, 0, 1, 1, 2]
    assert levels.at(0.5).tolist() == [0, 0, 1, 2, 3]
    assert levels.at_ratio(0.6).tolist() == [0, 0, 1, 1, 2]
    assert levels.counts([0.9, 0.0, 0.4]).tolist() == [5, 2, 3]
    assert levels.merges().tolist() == [[0, 2, 0], [1, 3, 2]]
    assert (
        levels.persistence().tolist()
        == torch.tensor([[0.9, -math.inf], [0.9, 0.9], [0.5, 0.1], [0.5, 0.5], [-math.inf, -math.inf]]).tolist()
    )
    matrix = [[0, 1, 0.1, 2], [2, 3, 0.5, 2], [5, 6, 0.9, 4], [4, 7, 0.99, 5]]
    np.testing.assert_allclose(levels.linkage(top=1.0), matrix, atol=1e-7)


@given(graphs(max_nodes=12), scores)
def test_thresholds_equal_connected_components(graph: Graph, given_levels: list[float]) -> None:
    edge_index, score, num_nodes = scored(graph, given_levels)
    levels = compool.hierarchy(edge_index, score, num_nodes, graph.batch)
    whole = compool.hierarchy(edge_index, score, num_nodes)
    counts, together = levels.counts(LEVELS), whole.counts(LEVELS).tolist()
    for column, threshold in enumerate(LEVELS):
        parts = components(edge_index, score > threshold, num_nodes)
        assert levels.at(threshold).tolist() == parts.cluster.tolist()
        assert together[column] == parts.num_supernodes
        expected = torch.bincount(graph.batch[parts.first], minlength=counts.size(0)).tolist()
        assert counts[:, column].tolist() == expected


@given(graphs(max_nodes=12), scores)
def test_merges_name_supernodes_by_their_first_members(graph: Graph, given_levels: list[float]) -> None:
    edge_index, score, num_nodes = scored(graph, given_levels)
    levels = compool.hierarchy(edge_index, score, num_nodes)
    first = torch.arange(num_nodes)  # of each node's supernode
    for (into, absorbed), limit in zip(levels.merges().t().tolist(), levels.score.tolist(), strict=True):
        assert into < absorbed
        assert {into, absorbed} <= set(first.tolist())
        first[first == absorbed] = into
        merged = components(levels.edge_index, levels.score > limit, num_nodes).num_supernodes
        assert len(set(first.tolist())) <= merged  # this edge, and those of equal scores before it
    parts = components(edge_index, torch.ones_like(score, dtype=torch.bool), num_nodes)
    assert first.tolist() == parts.first[parts.cluster].tolist()


@given(graphs(max_nodes=12), scores, st.sampled_from([0.01, 0.3, 0.5, 0.8, 1.0]))
def test_ratios_equal_those_of_the_layer(graph: Graph, given_levels: list[float], ratio: float) -> None:
    edge_index = torch.unique(graph.edge_index, dim=1)  # of repeats, the layer takes the first
    score, num_nodes = torch.tensor(given_levels)[: edge_index.size(1)], graph.x.size(0)
    _, parts = ratio_parts(score, edge_index, num_nodes, ratio, graph.batch)
    levels = compool.hierarchy(edge_index, score, num_nodes, graph.batch)
    assert levels.at_ratio(ratio).tolist() == parts.cluster.tolist()


@given(graphs(max_nodes=12), scores)
def test_persistence_counts_the_supernodes_of_several_nodes(graph: Graph, given_levels: list[float]) -> None:
    edge_index, score, num_nodes = scored(graph, given_levels)
    levels = compool.hierarchy(edge_index, score, num_nodes)
    begin, end = levels.persistence().t()
    assert bool((begin >= end).all())
    for threshold in LEVELS:
        alive = int(((begin > threshold) & (end <= threshold)).sum())
        assert alive == int((torch.bincount(levels.at(threshold)) > 1).sum())
    for node in range(num_nodes):  # a node begins with its highest edge
        touches = (edge_index == node).any(0) & (edge_index[0] != edge_index[1])
        assert begin[node] == (score[touches].max() if touches.any() else -math.inf)


@pytest.mark.parametrize("num_nodes", [2, 5, 40])
def test_linkage_equals_scipy_s_single_linkage(num_nodes: int, backend: str) -> None:
    edge_index = clique(num_nodes)
    distance = torch.rand(edge_index.size(1), dtype=torch.float64)
    ours = compool.hierarchy(edge_index, -distance).linkage(top=0.0)
    theirs = scipy_hierarchy.linkage(distance.numpy(), "single")  # the pairs are in the same order
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "no nodes"])
def test_scipy_cuts_the_linkage_as_thresholds_do(shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    levels = compool.hierarchy(edge_index, torch.rand(edge_index.size(1)).round(decimals=1), num_nodes)
    rows = levels.linkage(top=1.0)
    assert rows.shape == (num_nodes - 1, 4)
    assert scipy_hierarchy.is_valid_linkage(rows)
    cut = torch.from_numpy(scipy_hierarchy.fcluster(rows, 0.55, "distance")).long()
    ours = levels.at(0.45)
    assert len(set(zip(cut.tolist(), ours.tolist(), strict=True))) == len(set(cut.tolist())) == len(set(ours.tolist()))


def test_gradients_reach_the_scores() -> None:
    score = SCORE.clone().requires_grad_()
    levels = compool.hierarchy(PATH, score, 5)
    (grad,) = torch.autograd.grad(levels.score.square().sum(), score, retain_graph=True)
    torch.testing.assert_close(grad, torch.tensor([1.8, 0.0, 0.2, 0.0, 1.0, 0.0]))
    begin, end = levels.persistence().t()
    lasting = (begin > end) & end.isfinite()
    (grad,) = torch.autograd.grad((begin - end)[lasting].sum(), score)
    assert grad.tolist() == [0.0, 0.0, -1.0, 0.0, 1.0, 0.0]


def test_integer_scores() -> None:
    levels = compool.hierarchy(PATH, torch.tensor([9, 9, 1, 1, 5, 5]), 4)
    assert levels.counts([0.5, 1.5, 5]).tolist() == [1, 2, 3]
    assert levels.counts(torch.tensor([5, 0])).tolist() == [3, 1]
    assert levels.persistence().tolist() == [[9.0, -math.inf], [9.0, 9.0], [5.0, 1.0], [5.0, 5.0]]
    small = compool.hierarchy(PATH, torch.tensor([9, 9, 1, 1, 5, 5], dtype=torch.uint8), 4)
    for threshold in (-1, 1.5, 9, 256, 2.0**40):  # some that the dtype of the scores cannot hold
        assert int(small.at(threshold).max()) + 1 == int(small.counts([threshold]))


def test_nothing() -> None:
    empty, score = torch.empty(2, 0, dtype=torch.long), torch.empty(0)
    assert compool.hierarchy(empty, score).counts([0.0]).tolist() == [0]
    assert compool.hierarchy(empty, score, 1).linkage().shape == (0, 4)
    levels = compool.hierarchy(empty, score, 3, torch.tensor([0, 2, 2]))
    assert levels.counts([0.0]).tolist() == [[1], [0], [2]]
    assert levels.linkage().tolist() == [[0, 1, 1, 2], [2, 3, 1, 3]]
    assert levels.at(0.0).tolist() == levels.at_ratio(0.1).tolist() == [0, 1, 2]


def test_nan_is_no_threshold() -> None:
    levels = compool.hierarchy(torch.tensor([[0], [1]]), torch.ones(1))
    with pytest.raises(ValueError, match="threshold must not be NaN"):
        levels.at(math.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": torch.tensor([0.5, math.nan])}, r"the score of edge 1 \(of 2\) is NaN"),
        ({"score": torch.ones(3)}, r"score must have shape \[2\], one entry per edge; got \[3\]"),
        ({"batch": torch.tensor([0, 1, 0])}, "batch must be sorted, but node 1 is in graph 1 and node 2 in 0"),
        ({"batch": torch.tensor([0, 1, 1])}, "edge 0 joins node 0 of graph 0 and node 1 of graph 1"),
        ({"batch": torch.tensor([0, 0])}, r"batch must have shape \[3\], one entry per node, got \[2\]"),
        ({"batch": [0, 0, 0], "num_nodes": None}, "batch must be a tensor, got list"),
        ({"batch": torch.tensor(0), "num_nodes": None}, r"batch must have shape \[2\], one entry per node, got \[\]"),
        ({"batch": torch.zeros(3)}, "batch must be torch.int64 or torch.int32, got torch.float32"),
        ({"num_nodes": 1}, r"edge_index must lie in 0\.\.0 for 1 nodes, got 1"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "score": torch.ones(2), "num_nodes": 3}
    with pytest.raises((ValueError, TypeError), match=message):
        compool.hierarchy(**{**given, **change})  # type: ignore[arg-type]


def test_bad_questions() -> None:
    levels = compool.hierarchy(PATH, SCORE, 5)
    with pytest.raises(ValueError, match="ratio must be above 0 and at most 1, got 0"):
        levels.at_ratio(0)
    with pytest.raises(ValueError, match=r"thresholds must be numbers \[T\], none of them NaN"):
        levels.counts([math.nan])
    with pytest.raises(ValueError, match=r"top must be finite and at least the highest score, 0\.89.*; got 0\.5"):
        levels.linkage(top=0.5)
    with pytest.raises(ValueError, match="a linkage matrix needs finite scores"):
        compool.hierarchy(PATH, SCORE * math.inf).linkage()
    with pytest.raises(ValueError, match="a linkage matrix needs at least one node"):
        compool.hierarchy(PATH[:, :0], SCORE[:0]).linkage()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_equals_the_cpu() -> None:
    batch = torch.arange(2000) // 100
    edge_index = inside(random_graph(2000, 60_000), batch)
    score = torch.randn(edge_index.size(1)).round(decimals=2)
    here = compool.hierarchy(edge_index, score, 2000, batch)
    there = compool.hierarchy(edge_index.cuda(), score.cuda(), 2000, batch.cuda())
    for ours, theirs in zip(there[:3], here[:3], strict=True):
        assert torch.equal(ours.cpu(), theirs)
    assert torch.equal(there.at(0.3).cpu(), here.at(0.3))
    assert torch.equal(there.at_ratio(0.3).cpu(), here.at_ratio(0.3))
    assert torch.equal(there.counts(LEVELS).cpu(), here.counts(LEVELS))
    assert torch.equal(there.persistence().cpu(), here.persistence())
    assert np.array_equal(there.linkage(), here.linkage())

"""Distances between the ends of edges, and graded weights, against dense forms."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compool import ops
from compool.ops import graded
from tests.reference import adjacency, weak_components


def graph(seed: int, num_nodes: int, num_edges: int) -> Tensor:
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def undirected(edge_index: Tensor) -> Tensor:
    """Both directions of each edge, sorted, each once, which the CPU's kernels are faster for; self-loops stay."""
    return torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)


FORMS = {"any": lambda edges: edges, "undirected": undirected, "one direction lost": lambda e: undirected(e)[:, 1:]}
"""Edges as drawn; sorted, in both directions; and the same without the first edge."""


def dense_graded_weight(score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, top: float) -> Tensor:
    """The integral of 1 / |component| over levels, level by level."""
    grade = ((score - threshold) / (top - threshold)).clamp(0, 1)
    levels = sorted({0.0, 1.0, *grade.tolist()})
    weight = score.new_zeros(num_nodes)
    for low, high in pairwise(levels):
        cluster = weak_components(adjacency(edge_index[:, grade > (low + high) / 2], num_nodes))
        size = torch.bincount(cluster, minlength=num_nodes)[cluster].double()
        weight += (high - low) / size
    return weight


@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(0, 30), st.booleans())
def test_graded_weights_are_the_mean_share_over_levels(seed: int, num_nodes: int, num_edges: int, ties: bool) -> None:
    torch.manual_seed(seed)
    edge_index = graph(seed, num_nodes, num_edges)
    score = torch.rand(num_edges, dtype=torch.float64) * 2.4 - 1.2
    if ties:
        score = (4 * score).round() / 4
    for threshold, top in ((0.0, 1.0), (-0.5, 0.75)):
        weight = ops.graded_weight(score, edge_index, score > threshold, num_nodes, threshold, top)
        dense = dense_graded_weight(score, edge_index, num_nodes, threshold, top)
        torch.testing.assert_close(weight, dense, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(0, 30))
def test_graded_weights_supernode_by_supernode(seed: int, num_nodes: int, num_edges: int) -> None:
    """As a GPU goes through them; where a supernode is too large for that, edges stay as they are."""
    torch.manual_seed(seed)
    edge_index, grade = graph(seed, num_nodes, num_edges), torch.rand(num_edges, dtype=torch.float64)
    merged = grade > 0.2
    parts = ops.components(edge_index, merged, num_nodes)
    positions = graded.forest(grade, edge_index, merged, num_nodes)
    ordered, tree_ptr = graded._by_supernode(positions, edge_index, parts)
    assert tree_ptr.diff().tolist() == (ops.count_members(parts.cluster, parts.num_supernodes) - 1).tolist()
    assert parts.cluster[edge_index[0, ordered]].tolist() == sorted(parts.cluster[edge_index[0, ordered]].tolist())
    weight = graded.tree_shares(grade[ordered], edge_index[:, ordered], num_nodes, tree_ptr)
    torch.testing.assert_close(weight, ops.graded_weight(grade, edge_index, merged, num_nodes))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graded, "LARGE_TREE", int(tree_ptr.diff().max()) - 1)
        if positions.numel():
            assert graded._by_supernode(positions, edge_index, parts) == (positions, None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_equal_the_reference(dtype: torch.dtype, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = FORMS[form](graph(3, 50, 500) + 50 * (torch.arange(500) // 125))  # no edge joins two groups
    num_edges = edge_index.size(1)
    score = torch.rand(num_edges, dtype=dtype).requires_grad_()
    x = torch.randn(200, 6, dtype=dtype, requires_grad=True)
    channel = torch.rand(6, dtype=dtype, requires_grad=True)
    group, rows = torch.arange(200) // 50, torch.rand(4, 6, dtype=dtype, requires_grad=True)
    results = []
    for only_torch in (False, True):
        monkeypatch.setattr("compool.ops._dispatch.only_torch", only_torch)
        weight = ops.graded_weight(score, edge_index, score > 0.3, 200, 0.3, 0.9)
        distance = ops.edge_distance(x, edge_index, channel)
        grouped = ops.edge_distance(x, edge_index, rows, group)
        moments = ops.edge_moments(x, edge_index, edge_index[0] != edge_index[1], group, 4)
        total = (weight * torch.arange(200).to(dtype)).sum() + (
            (distance + grouped) * torch.arange(num_edges).to(dtype)
        ).sum()
        gradients = torch.autograd.grad(total, (score, x, channel, rows))
        results.append([weight, distance, grouped, moments, *gradients])
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-4 * float(reference.detach().abs().max()))


def test_derivatives_of_both_orders() -> None:
    edge_index = graph(5, 9, 14)
    score = (torch.rand(14, dtype=torch.float64) * 0.8 + 0.1).requires_grad_()
    x = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    channel = torch.rand(3, dtype=torch.float64, requires_grad=True)

    def weigh(score: Tensor) -> Tensor:
        return ops.graded_weight(score, edge_index, score > 0.2, 9, 0.2, 1.0)

    def distance(x: Tensor, channel: Tensor) -> Tensor:
        return ops.edge_distance(x, edge_index, channel)

    assert torch.autograd.gradcheck(weigh, (score,))
    assert torch.autograd.gradgradcheck(lambda score: weigh(score).square(), (score,))
    assert torch.autograd.gradcheck(distance, (x, channel))
    assert torch.autograd.gradgradcheck(distance, (x, channel))


def test_nothing_jumps_where_an_edge_begins_to_merge() -> None:
    """The sum of weighted features over supernodes, as one score moves through the threshold and through others."""
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x = torch.tensor([[1.0], [10.0], [100.0], [1000.0], [1e4]], dtype=torch.float64)
    others = torch.tensor([0.8, 0.0, 0.3, 0.6], dtype=torch.float64)
    sums = []
    for step in range(-500, 1200):
        score = others.clone()
        score[1] = step / 1000
        weight = ops.graded_weight(score, edge_index, score > 0, 5)
        sums.append((weight.unsqueeze(1) * x).sum())
    steps = torch.stack(sums).diff().abs()
    assert steps.max() < 15  # of 11,111: the slope times 1/1000
    assert steps[:499].max() == 0
    assert steps[500:1499].min() > 0


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(0, 20), st.integers(1, 5), st.sampled_from(sorted(FORMS)))
def test_distances_and_moments(seed: int, num_nodes: int, num_edges: int, channels: int, form: str) -> None:
    torch.manual_seed(seed)
    edge_index, x = FORMS[form](graph(seed, num_nodes, num_edges)), torch.randn(num_nodes, channels)
    weight = torch.rand(channels)
    squared = (x[edge_index[0]] - x[edge_index[1]]).square()
    torch.testing.assert_close(ops.edge_distance(x, edge_index, weight), squared @ weight)
    counted = torch.rand(edge_index.size(1)) < 0.7
    expected = squared[counted].mean(0) if counted.any() else torch.zeros(channels)
    torch.testing.assert_close(ops.edge_moments(x, edge_index, counted), expected)


def test_indices_are_checked() -> None:
    for function in (ops.edge_distance, lambda x, edges, weight: ops.edge_moments(x, edges, torch.tensor([True]))):
        with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.1 for 2 nodes, got 7"):
            function(torch.ones(2, 3), torch.tensor([[0], [7]]), torch.ones(3))

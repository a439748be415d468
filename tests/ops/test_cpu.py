"""The kernels of the CPU against the plain torch operations."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from numba import njit

from compool._jit import jit
from compool.ops import _cpu, _torch
from compool.ops._cpu.sort import descending
from tests.graphs import SHAPES, Graph, batch_around, graphs, random_graph
from tests.ops.kernels import both, check_pool

cpu = partial(both, _cpu.KERNELS, _torch.KERNELS)


def check_all(edge_index: torch.Tensor, num_nodes: int, dtype: torch.dtype = torch.float64) -> None:
    wide = torch.promote_types(dtype, torch.float32)
    x, batch = torch.randn(num_nodes, 5, dtype=dtype), batch_around(edge_index, num_nodes)
    score = cpu("score", torch.randn(2, num_nodes, dtype=wide), edge_index, torch.ones(1, dtype=wide)).tanh()
    merged, counted = cpu("select", score, edge_index, num_nodes, 0.3, batch)
    cpu("coarsen", score, edge_index, num_nodes, 0.3, batch, False)
    cluster, first, alone = cpu("components", edge_index, merged, num_nodes)
    num_clusters = first.numel()
    cpu("sum_ends", score, edge_index, num_nodes)
    weight, grad = torch.randn(num_nodes, dtype=wide), torch.randn(num_clusters, 5, dtype=dtype)
    for source, target, factor in ((None, cluster, weight), (edge_index[0], cluster[edge_index[1]], score)):
        cpu("row_sum", x, factor, source, target, num_clusters, alone if source is None else None)
        cpu("row_sum_backward", grad, x, factor, source, target)
    for loops in ((False, False), (True, False), (True, True)):
        cpu("connect", edge_index, cluster, num_clusters, *loops)
    for scores in (score, score.round(decimals=1)):  # many equal ones
        pair, _, first = cpu("contract", scores, edge_index, num_nodes)
        for capacity in (first.numel(), num_nodes, (num_nodes + 2) // 3):  # of all supernodes, of more, or of fewer
            pair_score = torch.rand(capacity, dtype=wide)
            cpu("merge_pairs", x, pair_score, pair)
            cpu("merge_pairs_backward", torch.randn(capacity, 5, dtype=dtype), x, pair_score, pair)
        for mask in (None, counted):
            cpu("forest", scores, edge_index, mask, num_nodes)
        cpu("capped_forest", scores, edge_index, counted, num_nodes, 3)
        for quantile in (0.0, 0.4, 1.0):
            cpu("top", scores, edge_index, counted, batch, quantile)
            cpu("top", scores, edge_index, counted, None, quantile)
        cpu("ratio", scores, edge_index, counted, num_nodes, None, 0.5)
        cpu("ratio", scores, edge_index, counted, num_nodes, batch, 0.5)
    check_pool(_cpu.KERNELS, x, edge_index, batch)


@given(graphs())
def test_small_graphs(graph: Graph) -> None:
    check_all(graph.edge_index, graph.x.size(0))


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    check_all(edge_index, num_nodes)


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_node_ends(dtype: torch.dtype, halves: int) -> None:
    """The product with the scorer's halves, and its gradients, of which that of `x` is added in place."""
    wide = torch.promote_types(dtype, torch.float32)
    x, half = torch.randn(1300, 7, dtype=dtype), torch.randn(halves, 7, dtype=wide)
    cpu("node_ends", x, half)
    grad, before = torch.randn(halves, 1300, dtype=wide), torch.randn(1300, 7, dtype=dtype)
    grad_x = before.clone()
    grad_half = _cpu.node_ends_backward(grad, x, half, grad_x)
    torch.testing.assert_close(grad_half, grad @ x.to(wide), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grad_x, (before.double() + grad.double().t() @ half.double()).to(dtype))


def test_the_gradient_of_the_scorer_is_precise() -> None:
    """A sum over half a million rows of one sign, in float32, row by row in one sum would be off by 1e-4 or more."""
    x, half = torch.rand(500_000, 3), torch.zeros(1, 3)
    grad = _cpu.node_ends_backward(torch.ones(1, 500_000), x, half, torch.zeros_like(x))
    torch.testing.assert_close(grad, x.double().sum(0, keepdim=True).float(), rtol=5e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.uint8, torch.int32, torch.int64])
def test_the_order_of_scores(dtype: torch.dtype) -> None:
    few = torch.tensor([0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, torch.inf, -torch.inf])
    values = torch.cat([torch.randn(5999), few, torch.randn(99).round()])
    values = values.to(dtype) if dtype.is_floating_point else (values.clamp(-2, 2) * 40).to(dtype)
    if dtype == torch.int64:
        values = values * 2**55 + torch.randint(-(2**40), 2**40, values.shape)
    expected = torch.argsort(values, descending=True, stable=True)
    assert descending(values).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    check_all(random_graph(200, 400), 200, dtype)


def test_int32_edges() -> None:
    check_all(random_graph(200, 400).int(), 200)


def test_strided_input() -> None:
    check_all(random_graph(200, 400).t().contiguous().t(), 200)


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr("compool._jit.njit", refuse)
    assert jit()(lambda x: x + 1)(1) == 2


def test_half_precision_sums_in_float32() -> None:
    # 4096 + 1 is 4096 in float16: a running sum in half precision would stand still
    x = torch.cat([torch.tensor([[4096.0]]), torch.ones(512, 1)]).half()
    for kernels in (_cpu.KERNELS, _torch.KERNELS):
        out = kernels.row_sum(x, torch.ones(513), None, torch.zeros(513, dtype=torch.long), 1, None)
        assert out.tolist() == [[4608.0]]


def test_unsorted_long_rows_come_out_sorted() -> None:
    targets = torch.randperm(5000, generator=torch.Generator().manual_seed(3))
    edge_index = torch.stack([torch.zeros_like(targets), targets])
    out = _cpu.connect(edge_index, torch.arange(5000), 5000, False, False)
    assert np.array_equal(out.numpy(), [np.zeros(4999), np.arange(1, 5000)])

"""Every kernel of `_numba` against its namesake in `_torch`."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from numba import njit

from compool._jit import jit
from compool.ops import _numba, _numba_layers, _torch, _torch_layers
from tests.graphs import SHAPES, Graph, flat_set, graphs, random_graph


def public(*modules: ModuleType) -> set[str]:
    names = {
        name
        for module in modules
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    }
    return {name for name in names if not name.startswith("_")}


def test_every_kernel_has_a_plain_form() -> None:
    assert public(_numba, _numba_layers) < public(_torch, _torch_layers)


def same(ours: object, theirs: object) -> None:
    ours, theirs = (value if isinstance(value, tuple) else (value,) for value in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def check_all(edge_index: torch.Tensor, num_nodes: int, dtype: torch.dtype = torch.float64) -> None:
    def both(name: str, *args: Any) -> Any:
        plain, own = (_torch_layers, _numba_layers) if hasattr(_torch_layers, name) else (_torch, _numba)
        theirs = getattr(plain, name)(*args)
        same(getattr(own, name)(*args), theirs)
        return theirs

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.randn(num_nodes, 5, dtype=dtype)
    score = both("score", torch.randn(2, num_nodes, dtype=wide), edge_index, torch.ones(1, dtype=wide)).tanh()
    merged, _counted = both("select", score, edge_index, num_nodes, 0.3)
    cluster, first, alone = both("components", edge_index, merged, num_nodes)
    number = first.numel()
    _out, weight = both("merge", x, score, edge_index, merged, cluster, first, alone)
    grad = torch.randn(number, 5, dtype=dtype)
    _grad_x, grad_score = both("merge_backward", grad, x, weight, edge_index, merged, cluster)
    both("score_backward", grad_score, edge_index, num_nodes)
    source, target = edge_index[0], cluster[edge_index[1]]
    both("spread", x, score, source, target, number)
    both("spread_backward", grad, x, score, source, target)
    for self_loops in (False, True):
        both("connect", edge_index, cluster, number, self_loops, False)
    both("connect", edge_index, cluster, number, True, True)
    cluster, _, first = both("contract", score, edge_index, num_nodes)
    for room in (first.numel(), num_nodes, (num_nodes + 2) // 3):  # as many supernodes as there are, more, or fewer
        pair_score = torch.rand(room, dtype=wide)
        both("merge_pairs", x, pair_score, cluster)
        both("merge_pairs_backward", torch.randn(room, 5, dtype=dtype), x, pair_score, cluster)
    both("contract", score.round(decimals=1), edge_index, num_nodes)  # many equal scores
    check_layers(both, x, edge_index)


def check_layers(both: Callable[..., Any], x: torch.Tensor, edge_index: torch.Tensor) -> None:
    num_nodes = x.size(0)
    row_ptr = torch.zeros(num_nodes + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(edge_index[0], minlength=num_nodes), 0, out=row_ptr[1:])
    neighbour = edge_index[1][edge_index[0].argsort(stable=True)]
    left, right, own = torch.randn(3, num_nodes, dtype=torch.promote_types(x.dtype, torch.float32))
    both("propagate", x, row_ptr, neighbour, left, right, own)
    both("propagate", x, row_ptr, neighbour, None, None, None)
    edges = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)  # both directions, sorted, each once
    rows = torch.searchsorted(edges[0].contiguous(), torch.arange(num_nodes + 1).to(edges.dtype))
    room = F.pad(edges, (0, 3 if num_nodes else 0))
    share = both("softmax_ends", torch.stack([left, right]), room, rows)
    both("softmax_ends_backward", torch.randn_like(share), share, room, rows)
    ptr = torch.tensor([0, num_nodes // 3, num_nodes // 3, num_nodes])
    key, probability = torch.tensor([1, -2, 2**40]), torch.tensor([0.1, 0.5, 0.75])
    both("segment_sum", x, ptr)
    both("segment_repeat", x[:3] if num_nodes > 2 else x.new_zeros(3, 5), ptr, num_nodes)
    both("drop", x, ptr, key, probability)
    scale, shift = torch.randn(2, 3, 5, dtype=x.dtype)
    for relu in (False, True) if x.dtype == left.dtype else ():
        out, mean, variance = both("segment_norm", x, scale, shift, ptr, 0.01, relu)
        both("segment_norm_backward", torch.randn_like(x), x, out, scale, mean, variance, ptr, 0.01, relu)
    for bias, keys in ((None, None), (torch.randn(3, 5, dtype=x.dtype), key)):
        out = both("activate", x, bias, ptr, keys, probability)
        both("activate_backward", x, out, ptr, None if keys is None else probability)


@given(graphs())
def test_small_graphs(graph: Graph) -> None:
    check_all(graph.edge_index, graph.x.size(0))


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    check_all(edge_index, num_nodes)


@pytest.mark.parametrize("which", [[3, 0, -1, 2, 1, 3], [-1, -1], [1], []])
@pytest.mark.parametrize("room", [(-1, -1), (20, 50)])
def test_gather_graphs(which: list[int], room: tuple[int, int]) -> None:
    args = (torch.tensor(which, dtype=torch.long), *flat_set(), *room)
    same(_numba_layers.gather_graphs(*args), _torch_layers.gather_graphs(*args))


@pytest.mark.parametrize("room", [(20, 40), (12, 50)])
def test_graphs_without_room(room: tuple[int, int]) -> None:
    for module in (_numba_layers, _torch_layers):
        with pytest.raises(ValueError, match=f"have 13 nodes and 44 edges, and room for {room[0]} and {room[1]}"):
            module.gather_graphs(torch.tensor([3, 0, 3]), *flat_set(), *room)


def test_the_order_of_float32_scores() -> None:
    values = torch.cat(
        [torch.randn(999), torch.tensor([0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38]), torch.randn(99).round()]
    )
    expected = torch.argsort(values, descending=True, stable=True)
    assert _numba._descending(values).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    check_all(random_graph(200, 400), 200, dtype)


def test_int32_edges() -> None:
    check_all(random_graph(200, 400).int(), 200)


def test_strided_input() -> None:
    check_all(random_graph(200, 400).t().contiguous().t(), 200)


def test_registered_operators_keep_the_rules_of_torch() -> None:
    """Schemas, and shapes and strides as the tracing functions say; with transposed features."""
    edge_index = random_graph(20, 30)
    x, score, grad = torch.randn(5, 20).t(), torch.randn(30), torch.randn(5, 20).t()
    merged = score > 0.5
    parts = torch.ops.compool.components(edge_index, merged, 20)
    weight, number = torch.randn(20), parts[1].numel()
    pairs, rows = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1] + 19 * [2])
    ptr, thirds = torch.linspace(0, 30, 21).long(), torch.tensor([0, 5, 5, 20])
    calls = {
        "score": (torch.randn(2, 20), edge_index, torch.ones(1)),
        "score_backward": (score, edge_index, 20),
        "softmax_ends": (torch.randn(2, 20), pairs, rows),
        "softmax_ends_backward": (score[:2], score[2:4], pairs, rows),
        "select": (score, edge_index, 20, 0.1),
        "components": (edge_index, merged, 20),
        "coarsen_padded": (score[:2], pairs, rows, 0.1, False, 2),
        "coarsen": (score, edge_index, 20, 0.1, torch.zeros(20).int(), False),
        "merge": (x, score, edge_index, merged, *parts),
        "merge_backward": (grad[:number], x, weight, edge_index, merged, parts[0]),
        "spread": (x, score, edge_index[0], parts[0][edge_index[1]], number),
        "spread_backward": (grad[:number], x, score, edge_index[0], parts[0][edge_index[1]]),
        "connect": (edge_index, parts[0], number, False, False),
        "contract": (score, edge_index, 20),
        "contract_padded": (score[:2], pairs, rows, torch.tensor([0, 2, 20]), 2),
        "merge_pairs": (x, weight, torch.arange(20) // 2),
        "merge_pairs_backward": (grad, x, weight, torch.arange(20) // 2),
        "pool": (x, torch.randn(2, 5), torch.ones(1), edge_index, None, "tanh", 0.1, False),
        "pool_backward": (grad[:number], None, x, x[:2], edge_index, score, parts[0], merged, weight, "tanh"),
        "propagate": (x, ptr, edge_index[1], weight, None, weight),
        "grouped_linear": (x, torch.randn(3, 5, 4).transpose(1, 2), torch.randn(3, 4), thirds),
        "linear_activate": (x, torch.randn(3, 4, 5), None, x[:3, :4], thirds, torch.arange(3), torch.full((3,), 0.5)),
        "grouped_outer": (x, grad, thirds, True),
        "segment_sum": (x, thirds),
        "segment_norm": (x, x[:3], x[3:6], thirds, 0.01, True),
        "segment_norm_backward": (grad, x, x, x[:3], x[3:6], x[6:9] ** 2, thirds, 0.01, True),
        "segment_repeat": (x[:3], thirds, 20),
        "gather_graphs": (torch.tensor([2, -1, 0]), thirds, ptr[thirds], ptr, edge_index, -1, -1),
        "fold_key": (torch.arange(3), torch.tensor(7), 0),
        "drop": (x, thirds, torch.arange(3), torch.full((3,), 0.5)),
        "activate": (x, x[:3], thirds, torch.arange(3), torch.full((3,), 0.5)),
        "activate_backward": (grad, x, thirds, None),
    }
    assert set(calls) == public(_torch, _torch_layers)
    tests = ("test_schema", "test_faketensor")
    for name, args in calls.items():
        torch.library.opcheck(getattr(torch.ops.compool, name).default, args, test_utils=tests)


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
    circle = torch.stack([torch.arange(513), torch.arange(513).roll(1)])
    parts = (torch.zeros(513, dtype=torch.long), torch.tensor([0]), torch.zeros(513, dtype=torch.bool))
    for module in (_numba, _torch):
        out, _ = module.merge(x, torch.ones(513), circle, torch.ones(513, dtype=torch.bool), *parts)
        assert out.tolist() == [[4608.0]]


def test_unsorted_long_rows_come_out_sorted() -> None:
    targets = torch.randperm(5000, generator=torch.Generator().manual_seed(3))
    edge_index = torch.stack([torch.zeros_like(targets), targets])
    out = _numba.connect(edge_index, torch.arange(5000), 5000, False, False)
    assert np.array_equal(out.numpy(), [np.zeros(4999), np.arange(1, 5000)])

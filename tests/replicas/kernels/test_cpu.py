"""The kernels of replicas on the CPU against the plain torch operations."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given

from compool.replicas.kernels import _cpu, _torch
from tests.graphs import SHAPES, Graph, flat_set, graphs, random_graph
from tests.ops.kernels import both

cpu = partial(both, _cpu.KERNELS, _torch.KERNELS)


def check_all(x: torch.Tensor, edge_index: torch.Tensor) -> None:
    num_nodes = x.size(0)
    row_ptr = torch.zeros(num_nodes + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(edge_index[0], minlength=num_nodes), 0, out=row_ptr[1:])
    neighbour = edge_index[1][edge_index[0].argsort(stable=True)]
    left, right, own = torch.randn(3, num_nodes, dtype=torch.promote_types(x.dtype, torch.float32))
    cpu("propagate", x, row_ptr, neighbour, left, right, own)
    cpu("propagate", x, row_ptr, neighbour, None, None, None)
    edges = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)  # both directions, sorted, each once
    rows = torch.searchsorted(edges[0].contiguous(), torch.arange(num_nodes + 1).to(edges.dtype))
    capacity = F.pad(edges, (0, 3 if num_nodes else 0))
    share = cpu("softmax_ends", torch.stack([left, right]), capacity, rows)
    cpu("softmax_ends_backward", torch.randn_like(share), share, capacity, rows)
    ptr = torch.tensor([0, num_nodes // 3, num_nodes // 3, num_nodes])
    key, probability = torch.tensor([1, -2, 2**40]), torch.tensor([0.1, 0.5, 0.75])
    cpu("segment_sum", x, ptr)
    cpu("segment_repeat", x[:3] if num_nodes > 2 else x.new_zeros(3, 5), ptr, num_nodes)
    cpu("drop", x, ptr, key, probability)
    scale, shift = torch.randn(2, 3, 5, dtype=x.dtype)
    for relu in (False, True) if x.dtype == left.dtype else ():
        out, mean, variance = cpu("segment_norm", x, scale, shift, ptr, 0.01, relu)
        cpu("segment_norm_backward", torch.randn_like(x), x, out, scale, mean, variance, ptr, 0.01, relu)
    for bias, keys in ((None, None), (torch.randn(3, 5, dtype=x.dtype), key)):
        out = cpu("activate", x, bias, ptr, keys, probability)
        cpu("activate_backward", x, out, ptr, None if keys is None else probability)


@given(graphs(channels=5))
def test_small_graphs(graph: Graph) -> None:
    check_all(graph.x, graph.edge_index)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    check_all(torch.randn(num_nodes, 5, dtype=torch.float64), edge_index)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    check_all(torch.randn(200, 5).to(dtype), random_graph(200, 400))


@pytest.mark.parametrize("which", [[3, 0, -1, 2, 1, 3], [-1, -1], [1], []])
@pytest.mark.parametrize("capacity", [(-1, -1), (20, 50)])
def test_gather_graphs(which: list[int], capacity: tuple[int, int]) -> None:
    args = (torch.tensor(which, dtype=torch.long), *flat_set(), *capacity)
    cpu("gather_graphs", *args)


@pytest.mark.parametrize("capacity", [(20, 40), (12, 50)])
def test_graphs_beyond_capacity(capacity: tuple[int, int]) -> None:
    for module in (_cpu, _torch):
        with pytest.raises(
            ValueError, match=f"have 13 nodes and 44 edges, more than the capacity of {capacity[0]} and {capacity[1]}"
        ):
            module.gather_graphs(torch.tensor([3, 0, 3]), *flat_set(), *capacity)

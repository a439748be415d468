"""Pooling in place against the default: compacting its result must give the default's, level by level."""

import pytest
import torch

import compool
from compool import ops
from tests.graphs import SHAPES, random_graph


def sorted_graph(num_nodes: int, edge_index: torch.Tensor, device: str) -> torch.Tensor:
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    return torch.unique(edge_index, dim=1).to(device)


@pytest.mark.parametrize(
    "settings", [{}, {"score": "sigmoid", "symmetric": True, "threshold": 0.6}, {"self_loops": True}]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_compacted_equals_the_default(shape: str, settings: dict[str, object], device: str, backend: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    edge_index = sorted_graph(num_nodes, edge_index, device)
    pools = [compool.ComponentPooling(4, **settings).double().to(device) for _ in range(2)]
    x = torch.randn(num_nodes, 4, dtype=torch.float64, device=device, requires_grad=True)
    batch = None

    now, edges = x, edge_index
    small, small_edges = x, edge_index
    row_ptr = live = None
    for pool in pools:  # two levels: the second has dead rows, and room for more edges than there are
        if not settings.get("self_loops"):
            assert not (small_edges[0] == small_edges[1]).any()
        here = pool.in_place(now, edges, row_ptr, live)
        there = pool(small, small_edges, batch)
        here.check(edges)
        features, compact, cluster = here.compact()
        torch.testing.assert_close(features, there.x)
        assert torch.equal(compact, there.edge_index)
        assert torch.equal(cluster if live is None else cluster[live], there.cluster)
        assert not here.x[~here.live].any()
        count = int(here.row_ptr[-1])
        assert torch.equal(here.row_ptr, ops.row_pointer(here.edge_index[:, :count], num_nodes))
        if live is None:
            torch.testing.assert_close(here.edge_score, there.edge_score)
            torch.testing.assert_close(here.unpool(here.x), there.unpool(there.x))
        now, edges, row_ptr, live = here.x, here.edge_index, here.row_ptr, here.live
        small, small_edges, batch = there.x, there.edge_index, there.batch

    factor = torch.randn_like(small)
    wanted = [x, *(parameter for pool in pools for parameter in pool.parameters())]
    ours = torch.autograd.grad((now[live] * factor).sum(), wanted)
    theirs = torch.autograd.grad((small * factor).sum(), wanted)
    torch.testing.assert_close(ours, theirs)


def test_gradients_of_scores(device: str) -> None:
    edge_index = sorted_graph(50, random_graph(50, 60), device)
    pool = compool.ComponentPooling(4).double().to(device)
    x = torch.randn(50, 4, dtype=torch.float64, device=device, requires_grad=True)
    here, there = pool.in_place(x, edge_index), pool(x, edge_index)
    factor = torch.randn_like(there.edge_score)
    wanted = [x, *pool.parameters()]
    for both in (False, True):
        ours = (here.edge_score * factor).sum() + (here.x.sum() if both else 0)
        theirs = (there.edge_score * factor).sum() + (there.x.sum() if both else 0)
        torch.testing.assert_close(
            torch.autograd.grad(ours, wanted, retain_graph=True), torch.autograd.grad(theirs, wanted, retain_graph=True)
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype, device: str) -> None:
    edge_index = sorted_graph(50, random_graph(50, 60), device).int()
    pool = compool.ComponentPooling(4).to(device, dtype)
    x = torch.randn(50, 4, dtype=dtype, device=device)
    here, there = pool.in_place(x, edge_index), pool(x, edge_index)
    features, compact, _ = here.compact()
    assert features.dtype == dtype
    assert compact.dtype == torch.int32
    tolerance = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(features, there.x, rtol=tolerance, atol=tolerance)
    assert torch.equal(compact, there.edge_index)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_what_is_wrong_is_told_when_asked() -> None:
    pool, x = compool.ComponentPooling(4).cuda(), torch.randn(5, 4, device="cuda")
    row_ptr = torch.tensor([0, 1, 2, 2, 2, 2], device="cuda")
    unsorted = torch.tensor([[1, 0], [0, 1]], device="cuda")
    with pytest.raises(ValueError, match="edge_index must be sorted by source, then target, with no edge twice"):
        pool.in_place(x, unsorted, row_ptr).check(unsorted)
    outside = torch.tensor([[0, 1], [1, 7]], device="cuda")
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.4 for 5 nodes, got 7"):
        pool.in_place(x, outside, row_ptr).check(outside)
    edges = torch.tensor([[0, 1], [1, 0]], device="cuda")
    with pytest.raises(ValueError, match="is NaN"):
        pool.in_place(x * torch.nan, edges, row_ptr).check(edges)


def test_settings_without_kernels() -> None:
    x, edge_index = torch.randn(2, 4), torch.tensor([[0, 1], [1, 0]])
    for settings in ({"weights": "all"}, {"dropout": 0.5}, {"score": torch.tanh, "threshold": 0.0}):
        with pytest.raises(ValueError, match=r"in_place\(\) takes score='tanh' or 'sigmoid'"):
            compool.ComponentPooling(4, **settings).in_place(x, edge_index)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_captures_two_levels_and_their_backward() -> None:
    """Replayed on other features and other edges of the same size, it gives what running it gives."""
    torch.manual_seed(0)
    pools = torch.nn.ModuleList(compool.ComponentPooling(8) for _ in range(2)).double().cuda()
    graphs = [sorted_graph(300, random_graph(300, 200, seed), "cuda") for seed in range(4)]
    capacity = max(graph.size(1) for graph in graphs)
    x = torch.zeros(300, 8, dtype=torch.float64, device="cuda", requires_grad=True)
    edge_index = torch.zeros(2, capacity, dtype=torch.long, device="cuda")
    row_ptr = torch.zeros(301, dtype=torch.long, device="cuda")
    wanted = [x, *pools.parameters()]

    def put(seed: int) -> None:
        with torch.no_grad():
            x.copy_(torch.randn(300, 8, generator=torch.Generator().manual_seed(seed)))
        edge_index.zero_()
        edge_index[:, : graphs[seed].size(1)] = graphs[seed]
        row_ptr.copy_(ops.row_pointer(graphs[seed], 300))

    def step() -> tuple[torch.Tensor, ...]:
        first = pools[0].in_place(x, edge_index, row_ptr)
        second = pools[1].in_place(first.x.relu(), first.edge_index, first.row_ptr, first.live)
        grads = torch.autograd.grad((second.x * second.x).sum(), wanted)
        return second.x.detach(), second.edge_index, second.live, *grads

    put(0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in range(4):
        put(seed)
        graph.replay()
        replayed = [tensor.clone() for tensor in captured]
        for ours, theirs in zip(replayed, step(), strict=True):
            torch.testing.assert_close(ours, theirs)

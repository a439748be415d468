"""The layers on a GPU against the same layers on the CPU. `make test-gpu` runs these where there is one."""

import copy

import pytest
import torch

import compool
from tests.graphs import SHAPES, random_graph

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
LAYERS = {
    "component": lambda: compool.ComponentPooling(8),
    "component, all": lambda: compool.ComponentPooling(8, weights="all", symmetric=True),
    "cluster": lambda: compool.ClusterPooling(8),
    "edge": lambda: compool.EdgePooling(8, tanh_score),
}


def tanh_score(raw: torch.Tensor, edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    return raw.tanh()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_cpu(name: str, shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    here = LAYERS[name]().double()
    there = copy.deepcopy(here).cuda()
    x = torch.randn(num_nodes, 8, dtype=torch.float64)
    here_x, there_x = x.clone().requires_grad_(), x.cuda().requires_grad_()
    a, b = here(here_x, edge_index), there(there_x, edge_index.cuda())
    torch.testing.assert_close(b[0].cpu(), a[0])
    assert torch.equal(b[1].cpu(), a[1])
    assert torch.equal(b[2].cpu(), a[2])
    factor = torch.randn_like(a[0])
    (a[0] * factor).sum().backward()
    (b[0] * factor.cuda()).sum().backward()
    torch.testing.assert_close(there_x.grad.cpu(), here_x.grad)
    for theirs, ours in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad.cpu(), ours.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    pool = compool.ComponentPooling(8).to(dtype)
    x, edge_index = torch.randn(300, 8).to(dtype), random_graph(300, 500)
    a, b = pool(x, edge_index), copy.deepcopy(pool).cuda()(x.cuda(), edge_index.cuda())
    assert b.x.dtype == dtype
    assert torch.equal(b.cluster.cpu(), a.cluster)
    tolerance = max(4 * torch.finfo(dtype).eps, 1e-5)  # sums run in another order
    torch.testing.assert_close(b.x.cpu(), a.x, rtol=tolerance, atol=tolerance)


def test_errors_are_the_cpu_s() -> None:
    pool = compool.ComponentPooling(8).cuda()
    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 7"):
        pool(x, torch.tensor([[0], [7]], device="cuda"))
    with pytest.raises(ValueError, match="edge_index is on cpu, but x is on cuda:0"):
        pool(x, torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match=r"the score of edge 0 \(of 1\) is NaN"):
        pool(x * torch.nan, torch.tensor([[0], [1]], device="cuda"))


def large() -> tuple[torch.Tensor, torch.Tensor]:
    edge_index = random_graph(20_000, 60_000)
    edge_index = torch.unique(torch.cat([edge_index, edge_index.flip(0)], 1), dim=1)
    return torch.randn(20_000, 8), edge_index[:, edge_index[0] != edge_index[1]]


@pytest.mark.parametrize("name", LAYERS)
def test_a_larger_graph(name: str) -> None:
    """Where programs compete for the same roots, table entries and sums."""
    x, edge_index = large()
    here = LAYERS[name]().double()
    if isinstance(here, compool.ComponentPooling):
        torch.nn.init.constant_(here.lin.bias, -0.8)  # many components of several sizes
    there = copy.deepcopy(here).cuda()
    a, b = here(x.double(), edge_index), there(x.double().cuda(), edge_index.cuda())
    assert torch.equal(b[1].cpu(), a[1])
    torch.testing.assert_close(b[0].cpu(), a[0])


def test_float32_to_five_digits() -> None:
    x, edge_index = large()
    here = compool.ComponentPooling(8)
    torch.nn.init.constant_(here.lin.bias, -0.8)
    a, b = here(x, edge_index), copy.deepcopy(here).cuda()(x.cuda(), edge_index.cuda())
    assert torch.equal(b.cluster.cpu(), a.cluster)
    torch.testing.assert_close(b.x.cpu(), a.x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype) -> None:
    x, edge_index = (tensor.cuda() for tensor in large())
    pool = compool.ComponentPooling(8).cuda()
    with torch.autocast("cuda", dtype):
        full, half = pool(x, edge_index), pool(x.to(dtype), edge_index)
        half.x.float().sum().backward()
    assert (full.x.dtype, half.x.dtype, half.edge_score.dtype) == (torch.float32, dtype, torch.float32)
    exact = pool(x, edge_index)
    assert torch.equal(full.cluster, exact.cluster)  # scores are not rounded
    assert pool.lin.weight.grad.dtype == torch.float32


def test_deterministic_when_asked() -> None:
    x, edge_index = (tensor.cuda() for tensor in large())
    pool, x = compool.ComponentPooling(8).double().cuda(), x.double()

    def run() -> list[torch.Tensor]:
        leaf = x.clone().requires_grad_()
        pool.zero_grad()
        out = pool(leaf, edge_index).x
        (out * out).sum().backward()
        return [out, leaf.grad, pool.lin.weight.grad.clone(), pool.lin.bias.grad.clone()]

    usual = run()
    torch.use_deterministic_algorithms(True)
    try:
        first, *others = (run() for _ in range(5))
    finally:
        torch.use_deterministic_algorithms(False)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    for a, b in zip(usual, first, strict=True):
        torch.testing.assert_close(a, b)


def test_one_message_from_the_device_forward_none_backward(recwarn: pytest.WarningsRecorder) -> None:
    x, edge_index = (tensor.cuda() for tensor in large())
    x.requires_grad_()
    pool, batch = compool.ComponentPooling(8).cuda(), torch.zeros(20_000, dtype=torch.long, device="cuda")
    factor = torch.ones_like(pool(x, edge_index, batch).x)
    torch.cuda.synchronize()
    recwarn.clear()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        out = pool(x, edge_index, batch).x
        assert sum("called a synchronizing" in str(warning.message) for warning in recwarn) == 1
        torch.cuda.set_sync_debug_mode("error")
        out.backward(factor)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("shape", ["path", "path, shuffled", "star", "isolated"])
def test_components_of_a_million_nodes(shape: str) -> None:
    nodes = torch.arange(1_000_000, device="cuda")
    order = torch.randperm(1_000_000, device="cuda")
    edge_index = {
        "path": torch.stack([nodes[:-1], nodes[1:]]),
        "path, shuffled": torch.stack([order[:-1], order[1:]]),
        "star": torch.stack([torch.full_like(nodes[1:], 999_999), nodes[:-1]]),
        "isolated": torch.empty(2, 0, dtype=torch.long, device="cuda"),
    }[shape]
    labels = compool.connected_components(edge_index, 1_000_000)
    assert torch.equal(labels, nodes if shape == "isolated" else torch.zeros_like(nodes))


def test_more_supernodes_than_short_keys_can_name() -> None:
    edge_index = random_graph(100_000, 200_000)
    edge_index = torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1).cuda()
    pool = compool.ComponentPooling(8, threshold=1.0).cuda()  # merges nothing
    assert torch.equal(pool(torch.randn(100_000, 8, device="cuda"), edge_index).edge_index, edge_index)

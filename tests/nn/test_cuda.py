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


def test_connected_components_of_a_million_isolated_nodes() -> None:
    labels = compool.connected_components(torch.empty(2, 0, dtype=torch.long, device="cuda"), 1_000_000)
    assert torch.equal(labels.cpu(), torch.arange(1_000_000))


def test_errors_are_the_cpu_s() -> None:
    pool = compool.ComponentPooling(8).cuda()
    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 7"):
        pool(x, torch.tensor([[0], [7]], device="cuda"))
    with pytest.raises(ValueError, match="edge_index is on cpu, but x is on cuda:0"):
        pool(x, torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match=r"the score of edge 0 \(of 1\) is NaN"):
        pool(x * torch.nan, torch.tensor([[0], [1]], device="cuda"))

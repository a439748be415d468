"""Supernodes with more members than half precision can count, against float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import compool
from tests.graphs import star

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]
MEMBERS = [300, 3_000, 70_000]  # bfloat16 counts to 256, float16 to 2,048, and ends at 65,504


def unet(**settings: object) -> torch.nn.Module:
    torch.manual_seed(4)
    return compool.ComponentUNet(2, 4, 3, depth=1, conv=_Linear, **settings)


class _Linear(torch.nn.Linear):
    """A convolution that does not look at edges: sums over the centre of a star would be too large."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x)


LAYERS: dict[str, Callable[[], torch.nn.Module]] = {
    "ComponentPooling": lambda: compool.ComponentPooling(2, threshold=-1),
    "ComponentPooling, all": lambda: compool.ComponentPooling(2, threshold=-1, weights="all"),
    "ComponentPooling, ratio": lambda: compool.ComponentPooling(2, ratio=1e-5),
    "GlobalComponentPooling, sum": lambda: compool.GlobalComponentPooling(2),
    "GlobalComponentPooling, mean": lambda: compool.GlobalComponentPooling(2, reduce="mean"),
    "ClusterPooling": lambda: compool.ClusterPooling(2, threshold=-1),
    "ComponentUNet": lambda: unet(threshold=-1),
    "ComponentUNet, all": lambda: unet(threshold=-1, weights="all"),
    "ComponentUNet, ratio": lambda: unet(ratio=1e-5),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("name", LAYERS)
def test_large_supernodes(name: str, members: int, dtype: torch.dtype, device: str) -> None:
    """Features small enough for sums to be numbers of the dtype; results good to its last places."""
    torch.manual_seed(0)
    layer = LAYERS[name]().to(device, dtype)
    edges = star(members).to(device)
    edges = torch.cat([edges, edges.flip(0)], 1)
    x = (torch.rand(members, 2, device=device) / 64).to(dtype).requires_grad_()
    reference = x.detach().double().requires_grad_()
    grads = []
    for given, module in ((x, layer), (reference, LAYERS[name]().to(device, torch.float64))):
        module.load_state_dict(layer.state_dict())
        out = module(given, edges)
        out = out if isinstance(out, Tensor) else out[0]
        out.backward(torch.full_like(out, 1 / 64))
        grads.append((out.detach().double(), given.grad.double()))
    (ours, grad), (theirs, grad_theirs) = grads
    limit = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(ours, theirs, rtol=limit, atol=limit)
    torch.testing.assert_close(grad, grad_theirs, rtol=limit, atol=limit * float(grad_theirs.abs().max()))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "multiplicity"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_many_edges_become_one(dtype: torch.dtype, reduce: str, device: str) -> None:
    """Two stars with 1,025 edges between them: each edge counts 1."""
    pool = compool.ComponentPooling(1, score=lambda raw: raw, threshold=0.5, edge_reduce=reduce).to(device, dtype)
    with torch.no_grad():
        pool.lin.weight.fill_(1.0)
        pool.lin.bias.fill_(0.0)
    leaves = torch.arange(1, 1026)
    between = torch.stack([leaves, leaves + 1026])
    joined = torch.cat(
        [torch.stack([torch.zeros_like(leaves), leaves]), torch.stack([leaves * 0 + 1026, leaves + 1026])], 1
    )
    edges = torch.cat([between, joined], 1).to(device)
    x = torch.zeros(2052, 1, device=device, dtype=dtype)
    x[[0, 1026]] = 1.0
    values = None if reduce == "multiplicity" else torch.ones(edges.size(1), 1, device=device, dtype=dtype)
    out = pool(x, edges, edge_attr=values)
    assert out.edge_index.tolist() == [[0], [1]]
    expected = 1025.0 if reduce in ("sum", "multiplicity") else 1.0
    if reduce != "multiplicity":
        expected = float(torch.tensor(expected, dtype=dtype))
    assert out.edge_attr is not None
    assert out.edge_attr.flatten().tolist() == [expected]

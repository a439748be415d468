"""Derivatives of derivatives, and the transforms of torch.func."""

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

import compool
from compool import replicas
from compool.data import features
from compool.nn import Network
from compool.replicas import Graphs
from tests.replicas.batches import graph_set

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5], [1, 0, 2, 1, 3, 2, 5, 4]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1])
POOL = compool.ComponentPooling
LAYERS: dict[str, Callable[[], torch.nn.Module]] = {
    "default": lambda: POOL(3),
    "sigmoid, symmetric": lambda: POOL(3, score="sigmoid", symmetric=True),
    "all": lambda: POOL(3, weights="all"),
    "callable": lambda: POOL(3, score=torch.sin, threshold=0.1),
    "ratio": lambda: POOL(3, ratio=0.5),
    "max_size": lambda: POOL(3, max_size=2),
    "graded": lambda: POOL(3, reduce="graded"),
    "random order": lambda: POOL(3, ratio=0.5, order="random"),
    "similarity, graded": lambda: POOL(3, scorer="similarity", score="tanh", reduce="graded").eval(),
    "GlobalComponentPooling": lambda: compool.GlobalComponentPooling(3),
    "GlobalComponentPooling, mean": lambda: compool.GlobalComponentPooling(3, reduce="mean"),
    "ClusterPooling": lambda: compool.ClusterPooling(3),
    "EdgePooling": lambda: compool.EdgePooling(3),
    "ComponentUNet": lambda: compool.ComponentUNet(3, 4, 2, depth=1),
}


def features_of(layer: torch.nn.Module, x: Tensor) -> Tensor:
    out = layer(x, EDGES, BATCH)
    return out if isinstance(out, Tensor) else out[0]


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_gradients(name: str) -> None:
    """Against finite differences, with respect to features and weights."""
    torch.manual_seed(1)
    layer = LAYERS[name]().double()
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def call(x: Tensor, *weights: Tensor) -> Tensor:
        out = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x, EDGES, BATCH))
        return out if isinstance(out, Tensor) else out[0]

    assert torch.autograd.gradgradcheck(call, (x, *layer.parameters()), atol=1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_transforms(name: str) -> None:
    """torch.func.grad, .jvp and .hessian against autograd."""
    torch.manual_seed(1)
    layer = LAYERS[name]().double()
    x, tangent = torch.randn(2, 6, 3, dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        return features_of(layer, x).square().sum()

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    torch.testing.assert_close(torch.autograd.grad(loss(leaf), leaf, create_graph=True)[0], expected)
    torch.testing.assert_close(torch.func.grad(loss)(x), expected)
    torch.testing.assert_close(torch.func.jvp(loss, (x,), (tangent,))[1], (expected * tangent).sum())
    hessian = torch.autograd.functional.hessian(loss, x)
    assert hessian.abs().max() > 0.1
    torch.testing.assert_close(torch.func.hessian(loss)(x), hessian)


@pytest.mark.parametrize("settings", [{"scorer": "similarity"}, {"scorer": "random", "reduce": "sum"}])
def test_transforms_of_layers_in_training(settings: dict[str, str]) -> None:
    """They read `batch` before the first operator."""
    layer, x = POOL(3, **settings), torch.randn(6, 3)  # type: ignore[arg-type]
    assert torch.isfinite(torch.func.grad(lambda x: features_of(layer, x).square().sum())(x)).all()


def test_the_hessian_is_pyg_s() -> None:
    torch.manual_seed(0)
    ours, theirs = compool.ClusterPooling(3), pyg.ClusterPooling(3)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(6, 3)
    hessians = [
        torch.autograd.functional.hessian(lambda x, layer=layer: features_of(layer, x).square().sum(), x)
        for layer in (ours, theirs)
    ]
    torch.testing.assert_close(*hessians)


@pytest.mark.parametrize("layers", ["CPL", "SEL", "GTL"])
def test_replicas_say_that_they_have_first_derivatives_only(layers: str) -> None:
    graphs = graph_set()
    stack = replicas.stack([Network(layers, 5, hidden=8, num_classes=3) for _ in range(2)])
    x, union = Graphs(graphs, features(graphs, "attributes")).union(torch.tensor([[0, 1], [2, 3]]))
    weights = list(stack.parameters())
    loss = stack(x, union).logits.square().sum()
    with pytest.raises(RuntimeError, match="first derivatives only, but create_graph=True needs second"):
        torch.autograd.grad(loss, weights, create_graph=True, allow_unused=True)

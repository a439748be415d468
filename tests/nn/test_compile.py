"""The layer under torch.compile and torch.export: one graph, any size, the same numbers as eager."""

import pytest
import torch
from torch import Tensor

from compool import ClusterPooling, ComponentPooling
from tests.graphs import random_graph

pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler's own

LAYERS = {
    "default": lambda: ComponentPooling(4),
    "all, symmetric": lambda: ComponentPooling(4, weights="all", symmetric=True),
    "sigmoid, dropout": lambda: ComponentPooling(4, score="sigmoid", dropout=0.3).eval(),
    "ClusterPooling": lambda: ClusterPooling(4),
}


def example(num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    edge_index = random_graph(num_nodes, 2 * num_nodes, seed=num_nodes)
    batch = (torch.arange(num_nodes) >= num_nodes // 2).long()
    return torch.randn(num_nodes, 4), edge_index, batch


def compare(compiled: torch.nn.Module, layer: torch.nn.Module, num_nodes: int) -> None:
    x, edge_index, batch = example(num_nodes)
    ours_x, theirs_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, theirs = compiled(ours_x, edge_index, batch), layer(theirs_x, edge_index, batch)
    for a, b in zip(ours[:3], theirs[:3], strict=True):
        torch.testing.assert_close(a, b)
    factor = torch.randn_like(theirs[0])
    ours_grads = torch.autograd.grad((ours[0] * factor).sum(), [ours_x, *layer.parameters()])
    theirs_grads = torch.autograd.grad((theirs[0] * factor).sum(), [theirs_x, *layer.parameters()])
    torch.testing.assert_close(ours_grads, theirs_grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_traces_without_a_break(name: str) -> None:
    torch._dynamo.reset()
    layer = LAYERS[name]()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33, 50):
        compare(compiled, layer, num_nodes)


def test_inductor() -> None:
    torch._dynamo.reset()
    layer = ComponentPooling(4)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for num_nodes in (20, 33):
        compare(compiled, layer, num_nodes)


@pytest.mark.parametrize("name", LAYERS)
def test_export(name: str) -> None:
    layer = LAYERS[name]()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    program = torch.export.export(layer, example(20), dynamic_shapes=({0: nodes}, {1: edges}, {0: nodes}))
    x, edge_index, batch = example(33)
    for a, b in zip(program.module()(x, edge_index, batch)[:3], layer(x, edge_index, batch)[:3], strict=True):
        torch.testing.assert_close(a, b)

"""The layer under torch.compile and torch.export: one graph, any size, the same numbers as eager."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, global_mean_pool

from compool import ClusterPooling, ComponentPooling, GlobalComponentPooling
from tests.graphs import inside, random_graph

pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler's own

LAYERS = {
    "default": lambda: ComponentPooling(4),
    "all, symmetric": lambda: ComponentPooling(4, weights="all", symmetric=True),
    "sigmoid, dropout": lambda: ComponentPooling(4, score="sigmoid", dropout=0.3).eval(),
    "ClusterPooling": lambda: ClusterPooling(4),
}


def example(num_nodes: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    edge_index = random_graph(num_nodes, 2 * num_nodes, seed=num_nodes).to(device)
    batch = (torch.arange(num_nodes, device=device) >= num_nodes // 2).long()
    return torch.randn(num_nodes, 4, device=device), inside(edge_index, batch), batch


def compare(compiled: torch.nn.Module, layer: torch.nn.Module, num_nodes: int, device: str) -> None:
    x, edge_index, batch = example(num_nodes, device)
    ours_x, theirs_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, theirs = compiled(ours_x, edge_index, batch), layer(theirs_x, edge_index, batch)
    for a, b in zip(ours[:3], theirs[:3], strict=True):
        torch.testing.assert_close(a, b)
    factor = torch.randn_like(theirs[0])
    ours_grads = torch.autograd.grad((ours[0] * factor).sum(), [ours_x, *layer.parameters()])
    theirs_grads = torch.autograd.grad((theirs[0] * factor).sum(), [theirs_x, *layer.parameters()])
    torch.testing.assert_close(ours_grads, theirs_grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_traces_without_a_break(name: str, device: str) -> None:
    torch._dynamo.reset()
    layer = LAYERS[name]().to(device)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33, 50):
        compare(compiled, layer, num_nodes, device)


def test_inductor(device: str) -> None:
    torch._dynamo.reset()
    layer = ComponentPooling(4).to(device)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for num_nodes in (20, 33):
        compare(compiled, layer, num_nodes, device)
    x, _, batch = example(20, device)
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.19 for 20 nodes, got 1000000000"):
        compiled(x, torch.tensor([[0, 10**9], [1, 0]], device=device), batch)


class FirstFeature(torch.nn.Module):
    """A scorer that does not read the ends of edges."""

    def forward(self, x_source: Tensor, x_target: Tensor, edge_attr: Tensor) -> Tensor:
        return edge_attr[:, 0]


@pytest.mark.parametrize(
    "layer",
    [
        lambda: ComponentPooling(4, scorer="random", reduce="sum"),
        lambda: ComponentPooling(4, scorer=FirstFeature()),
        lambda: ComponentPooling(4, scorer=FirstFeature(), ratio=0.5),
        lambda: ComponentPooling(4, scorer=FirstFeature(), quantile=0.5),
        lambda: ComponentPooling(4, scorer=FirstFeature(), max_size=2),
        lambda: GlobalComponentPooling(4, scorer=FirstFeature()),
    ],
)
def test_ranges_are_checked_whatever_the_compiler_drops(layer: Callable[[], torch.nn.Module]) -> None:
    x, edge_index = torch.randn(5, 4), torch.tensor([[0, 1, 2], [1, 0, 2000]])
    torch._dynamo.reset()
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.4 for 5 nodes, got 2000"):
        torch.compile(layer(), backend="aot_eager")(x, edge_index, None, torch.randn(3, 1))


def test_features_of_any_stride() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(ComponentPooling(4), backend="aot_eager")
    x = torch.randn(4, 20).t().requires_grad_()
    compiled(x, random_graph(20, 40)).x.square().sum().backward()
    assert torch.isfinite(x.grad).all()


class Twice(torch.nn.Module):
    """Pool, pool, unpool, unpool."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = ComponentPooling(4, threshold=0.4), ComponentPooling(4)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = self.one(x, edge_index, batch)
        second = self.two(first.x, first.edge_index, first.batch)
        return first.unpool(second.unpool(second.x)), second.edge_index, second.batch


def test_two_levels_and_back(device: str) -> None:
    torch._dynamo.reset()
    layer = Twice().to(device)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33):
        compare(compiled, layer, num_nodes, device)


@pytest.mark.parametrize("name", LAYERS)
def test_export(name: str, device: str) -> None:
    layer = LAYERS[name]().to(device)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    program = torch.export.export(layer, example(20, device), dynamic_shapes=({0: nodes}, {1: edges}, {0: nodes}))
    x, edge_index, batch = example(33, device)
    for a, b in zip(program.module()(x, edge_index, batch)[:3], layer(x, edge_index, batch)[:3], strict=True):
        torch.testing.assert_close(a, b)


class Classifier(torch.nn.Module):
    """The network of the documentation's first page."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = GCNConv(4, 8), GCNConv(8, 8)
        self.pool, self.head = ComponentPooling(8, symmetric=True), torch.nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out = self.pool(self.before(x, edge_index).relu(), edge_index, batch)
        x = self.after(out.x, out.edge_index).relu()
        return self.head(global_mean_pool(x, out.batch))


@pytest.mark.parametrize("options", [{"fullgraph": True, "dynamic": True}, {"dynamic": True}, {}])
def test_a_classifier_with_a_readout_of_pyg(options: dict[str, bool], device: str) -> None:
    """Whole where that is asked for; elsewhere no warning is about compool: PyG's readout alone asks for a size."""
    torch._dynamo.reset()
    network = Classifier().to(device)
    compiled = torch.compile(network, backend="aot_eager", **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for num_nodes in (20, 33):
            example_ = example(num_nodes, device)
            torch.testing.assert_close(compiled(*example_), network(*example_))
            compiled(*example_).sum().backward()
    assert not [warning for warning in caught if "compool" in str(warning.message)]


def test_a_compiled_readout_checks_its_batch() -> None:
    torch._dynamo.reset()
    readout = torch.compile(GlobalComponentPooling(3), fullgraph=True, backend="aot_eager")
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1], [1, 0]])
    assert readout(x, edge_index, torch.tensor([0, 0, 1, 1]), batch_size=2).shape == (2, 3)
    with pytest.raises(RuntimeError, match="batch must lie in"):
        readout(x, edge_index, torch.tensor([0, 0, 1, 9]), batch_size=2)

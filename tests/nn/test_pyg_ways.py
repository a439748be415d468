"""What people do with layers of PyG: Sequential, torch.compile, cross-entropy; and what is refused in a sentence."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCNConv, SAGEConv, Sequential, global_mean_pool, to_hetero

from compool import ClusterPooling, ComponentPooling, ComponentUNet, EdgePooling, GlobalComponentPooling
from compool.nn import GIN, CoarseGraph, Network, load_network, save_network
from compool.replicas import initial, stack
from tests.graphs import inside, random_graph

X, BATCH = torch.randn(6, 16), torch.tensor([0, 0, 0, 1, 1, 1])
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5], [1, 0, 2, 1, 4, 3, 5, 4]])


def example(num_nodes: int, num_graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    batch = torch.arange(num_nodes) * num_graphs // num_nodes
    return torch.randn(num_nodes, 16), inside(random_graph(num_nodes, 2 * num_nodes, seed=num_nodes), batch), batch


@pytest.mark.parametrize("pool", [ComponentPooling, EdgePooling, ClusterPooling])
def test_sequential(pool: Callable[[int], torch.nn.Module]) -> None:
    first, layer, second, head = GCNConv(16, 8), pool(8), GCNConv(8, 8), torch.nn.Linear(8, 3)
    network = Sequential(
        "x, edge_index, batch",
        [
            (first, "x, edge_index -> x"),
            torch.nn.ReLU(),
            (CoarseGraph(layer), "x, edge_index, batch -> x, edge_index, batch"),
            (second, "x, edge_index -> x"),
            (global_mean_pool, "x, batch -> x"),
            head,
        ],
    )
    out = layer(first(X, EDGES).relu(), EDGES, BATCH)
    expected = head(global_mean_pool(second(out[0], out[1]), out[2]))
    assert torch.equal(network(X, EDGES, BATCH), expected)
    expected.sum().backward()
    grads = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    network.zero_grad()
    network(X, EDGES, BATCH).sum().backward()
    assert all(map(torch.equal, grads, [one.grad for one in network.parameters() if one.grad is not None]))


def test_sequential_with_edge_features() -> None:
    layer, edge_attr = ComponentPooling(16, edge_dim=2), torch.randn(8, 2)
    header = "x, edge_index, batch, edge_attr -> x, edge_index, batch, edge_attr"
    network = Sequential(
        "x, edge_index, batch, edge_attr",
        [(CoarseGraph(layer), header), (lambda x, edge_attr: (x, edge_attr), "x, edge_attr -> x, edge_attr")],
    )
    out = layer(X, EDGES, BATCH, edge_attr)
    assert out.edge_attr is not None
    assert all(map(torch.equal, network(X, EDGES, BATCH, edge_attr), (out.x, out.edge_attr)))


def first_page() -> torch.nn.Module:
    """The classifier of the documentation's first page, from its text."""
    page = Path(__file__).parents[2] / "docs" / "index.md"
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    network: torch.nn.Module = names["Classifier"](16, 3)
    return network


class Direct(torch.nn.Module):
    """A readout of PyG right after pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = ComponentPooling(16)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out = self.pool(x, edge_index, batch)
        return global_mean_pool(out.x, out.batch)  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("build", [first_page, Direct, lambda: Network("CPCLL", 16, 8, 3)])
def test_compiled_whole(build: Callable[[], torch.nn.Module]) -> None:
    torch._dynamo.reset()
    network = build()
    eager = copy.deepcopy(network)
    compiled = torch.compile(network, fullgraph=True, dynamic=True)
    for sizes in ((6, 2), (20, 3), (33, 1)):
        graphs = example(*sizes)
        ours, theirs = compiled(*graphs), eager(*graphs)
        torch.testing.assert_close(ours, theirs)
        factor = torch.randn_like(theirs)
        grads = torch.autograd.grad((ours * factor).sum(), network.parameters())
        expected = torch.autograd.grad((theirs * factor).sum(), eager.parameters())
        torch.testing.assert_close(grads, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [lambda **out: Network("CPCL", 16, 8, 2, **out), lambda **out: GIN(16, 8, 2, **out)])
def test_two_classes_with_cross_entropy(build: Callable[..., Network | GIN], tmp_path: Path) -> None:
    network = build(outputs=2)
    y = torch.tensor([0, 1])
    assert network(X, EDGES, BATCH).shape == (2, 2)
    F.cross_entropy(network(X, EDGES, BATCH), y).backward()
    assert network.settings.num_parameters == sum(parameter.numel() for parameter in network.parameters())
    save_network(network, tmp_path / "network.safetensors")
    back = load_network(tmp_path / "network.safetensors").eval()
    assert torch.equal(back(X, EDGES, BATCH), network.eval()(X, EDGES, BATCH))
    torch.manual_seed(0)
    drawn = initial.draw_parameters(network.settings)
    torch.manual_seed(0)
    fresh = network.settings.network()
    assert all(map(torch.equal, drawn.parameters(), fresh.parameters()))
    assert torch.equal(stack([network]).single(0).eval()(X, EDGES, BATCH), network(X, EDGES, BATCH))
    plain = build()
    assert plain(X, EDGES, BATCH).shape == (2, 1)  # the paper's: one logit
    assert build(outputs=1)(X, EDGES, BATCH).shape == (2, 1)


def test_the_paper_s_counts_stay() -> None:
    assert Network("CPCL", 29, 16, 2).settings.num_parameters == 802
    assert Network("CPCL", 29, 16, 2, outputs=2).settings.num_parameters == 802 + 17
    assert Network("CPCL", 29, 16, 1, outputs=5).settings.num_outputs == 5
    with pytest.raises(ValueError, match="outputs must be a whole number, at least 1; got 0"):
        Network("CPCL", 29, 16, 2, outputs=0)
    with pytest.raises(ValueError, match="num_classes must be a whole number, at least 2; got 1"):
        Network("CPCL", 29, 16, 1)


LAYERS: dict[str, Callable[[], torch.nn.Module]] = {
    "ComponentPooling": lambda: ComponentPooling(16),
    "ClusterPooling": lambda: ClusterPooling(16),
    "GlobalComponentPooling": lambda: GlobalComponentPooling(16),
    "ComponentUNet": lambda: ComponentUNet(16, 8, 3, depth=1),
    "Network": lambda: Network("CPCL", 16, 8, 3),
    "GIN": lambda: GIN(16, 8, 3),
}
INSTEAD = "use torch.compile or torch.export instead"


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("name", LAYERS)
def test_what_is_refused_in_a_sentence(name: str) -> None:
    layer = LAYERS[name]()
    scripted = "MeanComponentPooling" if name == "ComponentUNet" else name
    with pytest.raises(NotImplementedError, match=f"torch.jit.script does not support {scripted}; {INSTEAD}"):
        torch.jit.script(layer)
    with pytest.raises(NotImplementedError, match=f"torch.jit.script does not support {scripted}; {INSTEAD}"):
        torch.jit.script(torch.nn.Sequential(layer))
    with pytest.raises(NotImplementedError, match=f"torch.jit.trace is not supported; {INSTEAD}"):
        torch.jit.trace(layer, (X, EDGES, BATCH))
    with pytest.raises(TypeError, match=f"x must be a tensor, got Proxy: torch.fx cannot trace the layer; {INSTEAD}"):
        torch.fx.symbolic_trace(layer)
    with pytest.raises(TypeError, match="x must be a tensor, got dict: graphs of several node types, and to_hetero"):
        layer({"atom": X}, EDGES, BATCH)
    with pytest.raises(ValueError, match="x is on the meta device, which has no values to score edges by"):
        layer.to("meta")(X.to("meta"), EDGES.to("meta"), BATCH.to("meta"))


class Pooling(torch.nn.Module):
    """A network as people pass it to `to_hetero`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = SAGEConv((-1, -1), 16), ComponentPooling(16)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.pool(self.conv(x, edge_index), edge_index)[0]  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore")
def test_to_hetero_is_refused_in_a_sentence() -> None:
    kinds = [("a", "to", "b"), ("b", "to", "a")]
    network = to_hetero(Pooling(), (["a", "b"], kinds))
    with pytest.raises(TypeError, match="graphs of several node types, and to_hetero, are not supported"):
        network({"a": X, "b": X}, dict.fromkeys(kinds, EDGES))


def test_layers_that_do_not_pool_and_several_types_of_nodes_are_refused() -> None:
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="pool must return features, edges and batch vector first, but GCNConv"):
        CoarseGraph(GCNConv(3, 3))(x, edge_index)
    with pytest.raises(ValueError, match=r"got HeteroData; its to_homogeneous\(\) makes one"):
        ComponentPooling(3).pool_data(HeteroData())

"""PyG's graphs and batches, copies, and compilers."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_geometric
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from compool import ComponentPooling, ComponentUNet, GlobalComponentPooling
from tests.graphs import random_graph


def graph(num_nodes: int, seed: int) -> Data:
    edge_index = random_graph(max(num_nodes, 1), 2 * num_nodes, seed)
    return Data(
        torch.randn(num_nodes, 3),
        edge_index,
        torch.randn(2 * num_nodes, 2),
        y=torch.tensor([seed]),
        pos=torch.randn(num_nodes, 2),
    )


def test_a_batch_remains_a_batch_of_which_graphs_can_be_taken() -> None:
    empty = graph(0, 1)
    graphs = [graph(7, 0), empty, graph(12, 2), graph(1, 3)]
    pool = ComponentPooling(3, edge_dim=2, ratio=0.5)
    out = pool.pool_data(Batch.from_data_list(graphs))
    assert isinstance(out, Batch)
    assert out.num_graphs == 4
    assert out.y.tolist() == [0, 1, 2, 3]
    assert "pos" not in out
    assert out.ptr.tolist() == [0, *torch.tensor([part.num_nodes for part in out.to_data_list()]).cumsum(0).tolist()]
    for part, whole in zip(out.to_data_list(), graphs, strict=True):
        alone = pool.pool_data(whole)
        torch.testing.assert_close(part.x, alone.x)
        assert part.edge_index.tolist() == alone.edge_index.tolist()
        torch.testing.assert_close(part.edge_attr, alone.edge_attr)
        assert part.y.tolist() == alone.y.tolist() == whole.y.tolist()
    again = Batch.from_data_list(out.to_data_list())  # batched anew, it is the same
    assert torch.equal(again.batch, out.batch)
    assert torch.equal(again.edge_index, out.edge_index)
    twice = ComponentPooling(3, edge_dim=2).pool_data(out)
    assert twice.num_graphs == 4


def test_a_batch_made_by_hand() -> None:
    batch = Batch(x=torch.randn(6, 3), edge_index=random_graph(3, 6), batch=torch.tensor([0, 0, 0, 1, 1, 1]))
    batch.note = "by hand"
    out = ComponentPooling(3).pool_data(batch)
    assert out.num_graphs == 2
    assert out.note == "by hand"


def test_a_graph_with_a_batch_vector_is_a_batch() -> None:
    x, edge_index, batch = torch.randn(4, 2), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1])
    out = ComponentPooling(2, ratio=0.5).pool_data(Data(x=x, edge_index=edge_index, batch=batch))
    assert out.batch.tolist() == [0, 1]


def test_a_graph_without_edge_features() -> None:
    whole = Data(torch.randn(5, 3), random_graph(5, 9), name="five")
    out = ComponentPooling(3).pool_data(whole)
    assert type(out) is Data
    assert out.name == "five"
    assert "edge_attr" not in out
    with pytest.raises(ValueError, match="data must have x"):
        ComponentPooling(3).pool_data(Data(edge_index=random_graph(5, 9)))


LAYERS = {
    "pooling": lambda: ComponentPooling(3, dropout=0.1).eval(),
    "edge features, ratio": lambda: ComponentPooling(3, ratio=0.5, edge_dim=2),
    "readout": lambda: GlobalComponentPooling(3),
    "U-Net": lambda: ComponentUNet(3, 8, 2, max_size=4),
}


def run(layer: torch.nn.Module) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    attr = {"edge_attr": torch.randn(40, 2, generator=generator)} if getattr(layer, "edge_dim", None) else {}
    out = layer(torch.randn(20, 3, generator=generator), random_graph(20, 40), **attr)
    return out if isinstance(out, torch.Tensor) else out.x


@pytest.mark.parametrize("name", LAYERS)
def test_copies_compute_the_same_and_are_their_own(name: str) -> None:
    layer = LAYERS[name]()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(other) == repr(layer)
        torch.testing.assert_close(run(other), run(layer))
        run(other).sum().backward()
        assert all(parameter.grad is None for parameter in layer.parameters())


@pytest.mark.parametrize("name", LAYERS)
def test_replicas_of_data_parallel_send_their_gradients_home(name: str) -> None:
    """As torch's DataParallel makes them: modules without parameters of their own, called from threads."""
    layer = LAYERS[name]()

    def replicate(module: torch.nn.Module) -> torch.nn.Module:
        replica = module._replicate_for_data_parallel()
        for key, child in module._modules.items():
            replica._modules[key] = None if child is None else replicate(child)
        for key, parameter in module._parameters.items():
            # a tensor that leads back to the parameter
            setattr(replica, key, None if parameter is None else parameter * 1)
        return replica

    with ThreadPoolExecutor(2) as threads:
        outputs = list(threads.map(run, [replicate(layer) for _ in range(2)]))
    torch.stack(outputs).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.filterwarnings("ignore")  # the compiler's own, and that PyG's is deprecated
def test_pyg_compile() -> None:
    torch._dynamo.reset()
    layer = ComponentPooling(3)
    compiled = torch_geometric.compile(layer, dynamic=True, backend="aot_eager")
    torch.testing.assert_close(run(compiled), run(layer))


def test_indices_of_nodes_are_dropped() -> None:
    """What PyG's loader adds for `follow_batch`, and indices such as faces, are those of the fine graph."""
    mesh = graph(6, 0)
    mesh.face, mesh.root_index, mesh.name = torch.tensor([[0], [1], [2]]), torch.tensor([4]), "mesh"
    batch = next(iter(DataLoader([mesh, mesh], batch_size=2, follow_batch=["x"])))
    out = ComponentPooling(3, ratio=0.5).pool_data(batch)
    assert {"x_ptr", "x_batch", "face", "root_index"} <= set(batch.keys())
    assert not {"x_ptr", "x_batch", "face", "root_index"} & set(out.keys())
    assert out.name == ["mesh", "mesh"]
    assert out.y.tolist() == [0, 0]

"""The networks by hand: the same layers applied one after another."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from safetensors.torch import save_file

from compool.nn import GIN, Network, load_network, save_network
from tests.graphs import inside, random_graph

X = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
BATCH = torch.arange(40) // 20
EDGES = inside(torch.unique(torch.cat([random_graph(40, 90), random_graph(40, 90).flip(0)], 1), dim=1), BATCH)


def test_component_network_by_hand() -> None:
    network = Network("CPCLL", 5, hidden=8, num_classes=3)
    first, pool, second, third, last = network.layers
    x = first(X, EDGES).relu()
    out = pool(x, EDGES, BATCH)
    x = second(out.x, out.edge_index).relu()
    x = last(third(pyg.global_mean_pool(x, out.batch)).relu())
    torch.testing.assert_close(network(X, EDGES, BATCH), x)
    assert x.shape == (2, 3)


def test_edge_pooling_network_by_hand() -> None:
    network = Network("SESL", 5, hidden=8, num_classes=2, readout="sum")
    first, pool, second, last = network.layers
    x = first(X, EDGES).relu()
    x, edge_index, batch, _ = pool(x, EDGES, BATCH)
    x = last(pyg.global_add_pool(second(x, edge_index).relu(), batch))
    torch.testing.assert_close(network(X, EDGES, BATCH), x)
    assert x.shape == (2, 1)  # one logit for two classes


def test_gin_by_hand() -> None:
    network = GIN(5, hidden=8, num_classes=3, readout="sum", dropout=0.0)
    adjacency = torch.zeros(40, 40).index_put_(tuple(EDGES), torch.ones(EDGES.size(1)))
    expected, x = network.predictions[0](pyg.global_add_pool(X, BATCH)), X
    for conv, norm, predict in zip(network.convs, network.norms, network.predictions[1:], strict=True):
        x = norm(conv.nn(x + adjacency @ x)).relu()
        expected = expected + predict(pyg.global_add_pool(x, BATCH))
    torch.testing.assert_close(network(X, EDGES, BATCH), expected)  # in training: by the batch's own statistics


def test_one_graph_needs_no_batch_and_empty_graphs_have_logits() -> None:
    network = Network("CPCL", 5, hidden=8, num_classes=2).eval()
    one = network(X, EDGES)
    torch.testing.assert_close(one, network(X, EDGES, torch.zeros(40, dtype=torch.long)))
    assert network(X, EDGES, BATCH, batch_size=3).shape == (3, 1)
    assert network(X[:0], EDGES[:, :0]).shape == (0, 1)


def test_squash_is_a_sigmoid_of_several_classes() -> None:
    x, edge_index = torch.randn(6, 4), random_graph(6, 8)
    for classes in (2, 3):
        plain, squashed = (Network("SESL", 4, 8, classes, squash=squash) for squash in (False, True))
        squashed.load_state_dict(plain.state_dict())
        logits = plain(x, edge_index)
        torch.testing.assert_close(squashed(x, edge_index), logits.sigmoid() if classes == 3 else logits)


def test_dropout_only_in_training() -> None:
    network = Network("CL", 5, hidden=8, num_classes=2, dropout=0.5)
    assert not torch.equal(network(X, EDGES), network(X, EDGES))
    assert torch.equal(network.eval()(X, EDGES), network(X, EDGES))


@pytest.mark.parametrize("layers", ["", "LL", "CPC", "LC", "CXL", "CPLCL"])
def test_letters(layers: str) -> None:
    with pytest.raises(
        ValueError, match=f"layers must be letters of C, S, G, N, P, E, T and A, then at least one L.*got '{layers}'"
    ):
        Network(layers, 5, hidden=8, num_classes=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"readout": "median"}, "readout must be one of 'mean', 'sum', 'max', 'saturating'; got 'median'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"num_classes": 1}, "num_classes must be a whole number, at least 2; got 1"),
        ({"num_classes": 2.5}, r"num_classes must be a whole number, at least 2; got 2\.5"),
        ({"hidden": 0}, "hidden must be a whole number, at least 1; got 0"),
        ({"in_channels": "5"}, "in_channels must be a whole number, at least 1; got '5'"),
        ({"weights": "some"}, "weights must be 'merged' or 'all'"),
    ],
)
def test_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network(**{"layers": "CPCL", "in_channels": 5, "hidden": 8, "num_classes": 2} | settings)


@pytest.mark.parametrize("layers", [3, None, ["C", "L"]])
def test_letters_are_a_string(layers: object) -> None:
    with pytest.raises(TypeError, match="layers must be a string of letters such as CPCL; got"):
        Network(layers, 5, hidden=8, num_classes=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value", "least"), [("hidden", 0, 1), ("depth", -1, 0), ("num_classes", 1, 2)])
def test_settings_of_gin(name: str, value: int, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number, at least {least}; got {value}"):
        GIN(**{"in_channels": 5, "hidden": 8, "num_classes": 3} | {name: value})


BAD_INPUT = [
    ({"x": X[:, :4]}, ValueError, r"x must have shape \[nodes, 5\]"),
    ({"x": X.long()}, TypeError, "x must be of a float dtype"),
    ({"x": X.double()}, TypeError, "x is torch.float64, but the layer is torch.float32"),
    ({"x": X.tolist()}, TypeError, "x must be a tensor, got list"),
    ({"edge_index": EDGES.t()}, ValueError, r"edge_index must have shape \[2, edges\]"),
    ({"edge_index": EDGES.float()}, TypeError, "edge_index must be torch.int64 or torch.int32"),
    ({"batch": BATCH[:-1]}, ValueError, r"batch must have shape \[40\]"),
    ({"batch": BATCH.float()}, TypeError, "batch must be torch.int64 or torch.int32"),
    ({"batch": BATCH - 1}, ValueError, "batch must hold graph indices from 0 up; got -1"),
    ({"batch_size": 1}, ValueError, r"batch must lie in 0\.\.0 for batch_size=1, got 1"),
    ({"batch_size": -1}, ValueError, "batch_size must be a whole number, at least 0; got -1"),
    ({"batch_size": 2.5}, ValueError, "batch_size must be a whole number"),
]


@pytest.mark.parametrize(
    "network", [Network("CL", 5, 8, 3), Network("PL", 5, 8, 3), GIN(5, 8, 3)], ids=["C", "P", "GIN"]
)
@pytest.mark.parametrize(("bad", "error", "message"), BAD_INPUT)
def test_bad_input(network: torch.nn.Module, bad: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        network(**{"x": X, "edge_index": EDGES, "batch": BATCH} | bad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "network",
    [Network("CPCL", 5, 8, 2, threshold=0.3, symmetric=True), Network("SESLL", 5, 8, 3), GIN(5, 8, 4)],
    ids=["component", "edgepool", "gin"],
)
def test_files(network: torch.nn.Module, dtype: torch.dtype, tmp_path: Path) -> None:
    network = network.to(dtype).train()
    network(X.to(dtype), EDGES, BATCH)  # batch norm has statistics now
    save_network(network, tmp_path / "n.safetensors", trained_on="nothing")
    back = load_network(tmp_path / "n.safetensors")
    assert back.settings == network.settings
    x = X.to(dtype)
    assert torch.equal(back(x, EDGES, BATCH), network.eval()(x, EDGES, BATCH))
    (tmp_path / "plain").touch()
    assert (tmp_path / "n.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.safetensors", "plain"]


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    save_network(GIN(5, 8, 4), path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"n\.safetensors is damaged, or not a safetensors file"):
        load_network(path)
    save_file({"x": X}, path)
    with pytest.raises(ValueError, match="does not contain a compool network"):
        load_network(path)
    with pytest.raises(FileNotFoundError):
        load_network(tmp_path / "nothing")
    with pytest.raises(TypeError, match="network must be one of Network, GIN; got Linear"):
        save_network(torch.nn.Linear(2, 2), path)


@pytest.mark.parametrize("network", [Network("CPCL", 3, 8, 2), GIN(3, 8, 2)])
def test_data_parallel_replicas(network: torch.nn.Module) -> None:
    """A replica has tensors in place of parameters."""
    replica = copy.deepcopy(network).eval()
    for module in replica.modules():
        for name, parameter in list(module._parameters.items()):
            del module._parameters[name]
            setattr(module, name, None if parameter is None else parameter.detach())
    assert not list(replica.parameters())
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    assert torch.equal(replica(x, edge_index), network.eval()(x, edge_index))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": "0.1"}, "dropout must be at least 0 and below 1, got '0.1'"),
        ({"ratio": "0.1"}, "ratio must be a finite number above 0, got '0.1'"),
        ({"ratio": float("inf")}, "ratio must be a finite number above 0, got inf"),
        ({"hidden": True}, "hidden must be a whole number, at least 1; got True"),
        ({"jump": "no"}, "jump must be True or False, got 'no'"),
    ],
)
def test_settings_of_other_types(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        Network(**{"layers": "CPCL", "in_channels": 3, "hidden": 8, "num_classes": 2} | settings)

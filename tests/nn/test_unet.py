from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from compool import ComponentUNet
from compool.nn.unet import MeanComponentPooling
from tests.graphs import random_graph


class Pass(torch.nn.Module):
    """A convolution that does nothing."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x


def test_by_hand() -> None:
    # ψ(x_i, x_j) = x_i + x_j: 0–1 scores 3, 1–2 scores 8, 2–3 scores 13. At half of the nodes, {1, 2, 3} is one:
    # weights 8, 8 + 13, 13, so 8·2 + 21·6 + 13·7 = 233, by 3 members; then each node adds its own.
    network = ComponentUNet(1, 1, 1, depth=1, conv=Pass, score=lambda raw: raw, ratio=0.5)
    torch.nn.init.ones_(network.pools[0].lin.weight)
    torch.nn.init.zeros_(network.pools[0].lin.bias)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    x = torch.tensor([[1.0], [2.0], [6.0], [7.0]])
    expected = torch.tensor([[1.0 + 1], [233 / 3 + 2], [233 / 3 + 6], [233 / 3 + 7]])
    torch.testing.assert_close(network(x, edge_index), expected)
    network.skip = "cat"
    torch.testing.assert_close(network(x, edge_index), torch.cat([x, expected - x], dim=1))


@pytest.mark.parametrize("skip", ["sum", "cat"])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_batch_equals_its_graphs(skip: str, depth: int, backend: str) -> None:
    network = ComponentUNet(4, 8, 5, depth=depth, skip=skip, symmetric=True).double()
    x = torch.randn(50, 4, dtype=torch.float64)
    one, two = random_graph(30, 60), random_graph(20, 30)
    whole = network(x, torch.cat([one, two + 30], dim=1), torch.arange(50) // 30)
    assert whole.shape == (50, 5)
    torch.testing.assert_close(whole[:30], network(x[:30], one))
    torch.testing.assert_close(whole[30:], network(x[30:], two))


def test_one_convolution_on_all_levels_equals_copies() -> None:
    torch.manual_seed(0)
    shared, x, edge_index = GCNConv(4, 4), torch.randn(9, 4), random_graph(9, 20)
    one = ComponentUNet(4, 4, 4, depth=2, conv=lambda *_: shared)
    other = ComponentUNet(4, 4, 4, depth=2, conv=lambda *_: deepcopy(shared))
    other.pools.load_state_dict(one.pools.state_dict())
    torch.testing.assert_close(one(x, edge_index), other(x, edge_index))


def test_every_parameter_learns() -> None:
    network = ComponentUNet(4, 8, 2, depth=2, dropout=0.2, ratio=0.6)
    network(torch.randn(50, 4), random_graph(50, 120)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_dropout_only_in_training() -> None:
    network, x, edge_index = ComponentUNet(4, 8, 2, dropout=0.5), torch.randn(20, 4), random_graph(20, 40)
    assert not torch.equal(network(x, edge_index), network(x, edge_index))
    network.eval()
    assert torch.equal(network(x, edge_index), network(x, edge_index))


def test_bad_settings() -> None:
    for settings, message in (
        ({"depth": 0}, "depth must be a whole number, at least 1; got 0"),
        ({"depth": 1.5}, "depth must be a whole number, at least 1; got 1.5"),
        ({"skip": "max"}, "skip must be 'sum' or 'cat', got 'max'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"edge_dim": 3}, "edge_dim must be None"),
        ({"ratio": 2.0}, "ratio must be above 0 and at most 1, got 2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            ComponentUNet(3, 4, 2, **settings)
    with pytest.raises(TypeError, match="threshhold"):
        ComponentUNet(3, 4, 2, threshhold=0.5)


@pytest.mark.parametrize("settings", [{}, {"reduce": "sum"}, {"scorer": "similarity", "reduce": "graded"}])
def test_weights_of_the_pooling_layers(settings: dict[str, Any]) -> None:
    torch.manual_seed(1)
    pool = MeanComponentPooling(3, **settings).eval()
    x, edge_index = torch.randn(12, 3), random_graph(12, 30, seed=0)
    out, assigned = pool(x, edge_index), pool.assign(x, edge_index)
    assert out.x.size(0) < 11
    summed = torch.zeros(out.x.shape).index_add(0, assigned.cluster, assigned.weight[:, None] * x)
    torch.testing.assert_close(summed, out.x)

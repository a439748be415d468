"""Component pooling of random edges, the control: always the same for a graph, and at the share that was asked for."""

import math
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data

from compool import ComponentPooling, nn, ops
from tests.graphs import random_graph
from tests.ops.test_triton import undirected


def graphs(count: int = 8) -> list[Data]:
    made = []
    for index in range(count):
        edge_index = undirected(random_graph(20 + index, 40))
        made.append(Data(torch.randn(20 + index, 3), edge_index[:, edge_index[0] != edge_index[1]]))
    return made


def test_a_graph_is_pooled_alike_alone_and_in_any_batch() -> None:
    given, layer = graphs(), ComponentPooling(3, scorer="random", reduce="sum", ratio=0.4)
    alone = [layer(graph.x, graph.edge_index).x for graph in given]
    for order in (range(8), [5, 0, 7, 2]):
        batch = Batch.from_data_list([given[index] for index in order])
        for mode in (True, False):
            out = layer.train(mode)(batch.x, batch.edge_index, batch.batch)
            torch.testing.assert_close(out.x, torch.cat([alone[index] for index in order]))
    flipped = layer(given[0].x, given[0].edge_index.flip(0)[:, torch.randperm(given[0].num_edges)])
    torch.testing.assert_close(flipped.x, alone[0])  # the order of edges does not matter


def test_the_share_is_exact_and_the_sums_are_those_of_the_members() -> None:
    for graph in graphs():
        for ratio in (0.3, 0.55, 1.0):
            out = ComponentPooling(3, scorer="random", reduce="sum", ratio=ratio)(graph.x, graph.edge_index)
            connected = nn.ComponentPooling(3, scorer="random", reduce="sum", threshold=-1.0)
            num_components = connected(graph.x, graph.edge_index).x.size(0)
            assert out.x.size(0) == max(math.ceil(ratio * graph.num_nodes - 1e-6), num_components)
            torch.testing.assert_close(out.x.sum(0), graph.x.sum(0))


def test_scores_are_uniform_symmetric_and_of_their_own() -> None:
    edge_index = undirected(random_graph(300, 20_000))
    x, score = torch.randn(300, 3), nn.RandomScore()
    first = score(x, edge_index)
    pairs = dict(zip(map(tuple, edge_index.t().tolist()), first.tolist(), strict=True))
    assert all(pairs[j, i] == value for (i, j), value in pairs.items())
    one_way = first[edge_index[0] < edge_index[1]]
    quantiles = torch.quantile(one_way, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))
    torch.testing.assert_close(quantiles, torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]), atol=0.03, rtol=0)
    others = (score(x, edge_index[:, 2:])[: first.numel() - 2], nn.RandomScore()(x, edge_index)[2:])
    for other in others:  # of another graph, and by another seed
        together = torch.corrcoef(torch.stack([first[2:], other]))[0, 1]
        assert abs(float(together)) < 0.03  # four standard deviations


def test_there_is_nothing_to_learn() -> None:
    network = nn.Network("CPCPL", 3, 8, 2, scorer="random", reduce="mean", merge_ratio=0.5, dropout=0.3)
    assert sum(parameter.numel() for parameter in network.parameters()) == network.settings.num_parameters
    names = [name for name, _ in network.named_parameters()]
    assert not any(name.startswith(("layers.1", "layers.3")) for name in names)
    assert network.layers[1].random.seed != network.layers[3].random.seed
    network(graphs(1)[0].x, graphs(1)[0].edge_index).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_the_seed_is_saved(tmp_path: Path) -> None:
    network = nn.Network("CPCL", 3, 8, 2, scorer="random", reduce="sum", merge_ratio=0.5).eval()
    nn.save_network(network, tmp_path / "network.safetensors")
    graph = graphs(1)[0]
    again = nn.load_network(tmp_path / "network.safetensors")
    assert torch.equal(again(graph.x, graph.edge_index), network(graph.x, graph.edge_index))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "scorer='random' needs reduce='sum' or 'mean', because its scores are not weights; got 'score'"),
        ({"reduce": "graded"}, "needs reduce='sum' or 'mean'"),
        ({"reduce": "sum", "dropout": 0.5}, r"takes no dropout and no edge_dim, got 0\.5 and None"),
        ({"reduce": "sum", "edge_dim": 2}, r"takes no dropout and no edge_dim, got 0\.0 and 2"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComponentPooling(3, scorer="random", **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as all edges merge; choose 'linear' or 'similarity'"):
        nn.GlobalComponentPooling(3, scorer="random")
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.1 for 2 nodes, got 7"):
        nn.RandomScore()(torch.ones(2, 3), torch.tensor([[0], [7]]))
    with pytest.raises(ValueError, match=r"batch must have shape \[3\], one entry per node, got \[2\]"):
        nn.RandomScore()(torch.ones(3, 3), torch.tensor([[0], [1]]), torch.tensor([0, 0]))
    with pytest.raises(TypeError, match="edge_index must be a tensor, got list"):
        nn.RandomScore()(torch.ones(3, 3), [[0], [1]])  # type: ignore[arg-type]


def test_budgets_of_networks() -> None:
    """As those of the layer, and an error names the network's setting."""
    graph = graphs(1)[0]
    for name, setting in (("ratio", "merge_ratio"), ("quantile", "quantile")):
        network = nn.Network("PL", 3, 8, 2, **{setting: 0.4})
        assert getattr(network.layers[0], name) == 0.4
        layer = ComponentPooling(3, **{name: 0.4})
        layer.load_state_dict(network.layers[0].state_dict())
        torch.testing.assert_close(network.layers[0](graph.x, graph.edge_index).x, layer(graph.x, graph.edge_index).x)
    for settings, message in (
        ({"merge_ratio": 1.5}, r"merge_ratio must be above 0 and at most 1, got 1\.5"),
        ({"merge_ratio": 0.5, "threshold": 0.1}, r"merge_ratio=0\.5 replaces the threshold"),
        ({"merge_ratio": 0.5, "quantile": 0.1}, "choose one of quantile, merge_ratio, max_size"),
        ({"quantile": 0.5, "reduce": "graded"}, "cannot be combined with quantile or ratio"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.Network("CPL", 3, 8, 2, **settings)
        nn.Network("CL", 3, 8, 2, **settings)  # without such a layer, they mean nothing


def test_a_random_order_merges_as_random_scores_do_and_weighs_as_learned_ones_do() -> None:
    graph = graphs(1)[0]
    layer = ComponentPooling(3, scorer="similarity", ratio=0.4, order="random").eval()
    drawn = ComponentPooling(3, scorer="random", reduce="sum", ratio=0.4)
    drawn.random.load_state_dict(layer.random_order.state_dict())
    learned = ComponentPooling(3, scorer="similarity", ratio=0.4).eval()
    out, expected = layer(graph.x, graph.edge_index), drawn(graph.x, graph.edge_index)
    assert torch.equal(out.cluster, expected.cluster)
    assert torch.equal(out.edge_index, expected.edge_index)
    torch.testing.assert_close(out.edge_score, learned(graph.x, graph.edge_index).edge_score)
    # Eq. 3: a node's weight is the sum of its merged edges' scores
    merged = ops.select_ratio(expected.edge_score, graph.edge_index, graph.num_nodes, 0.4).merged
    weight = torch.zeros(graph.num_nodes).index_add(0, graph.edge_index[0, merged], out.edge_score[merged])
    alone = torch.bincount(out.cluster)[out.cluster] == 1
    weight = torch.where(alone, 1.0, weight)
    summed = torch.zeros_like(out.x).index_add(0, out.cluster, weight.unsqueeze(1) * graph.x)
    torch.testing.assert_close(out.x, summed)
    assert repr(layer).endswith("scorer=similarity, order=random)")
    seed = layer.random_order.seed.clone()
    layer.reset_parameters()
    assert layer.random_order.seed != seed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "best", "ratio": 0.5}, "order must be one of 'score', 'random'; got 'best'"),
        ({"order": "random"}, "order='random' works with ratio only"),
        (
            {"order": "random", "scorer": "random", "reduce": "sum", "ratio": 0.5},
            "scorer='random' merges in random order by itself: leave out order='random'",
        ),
    ],
)
def test_orders_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComponentPooling(3, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"scorer": "random", "reduce": "sum"}, {"order": "random"}])
def test_a_batch_that_is_not_sorted(settings: dict[str, str]) -> None:
    layer = ComponentPooling(3, ratio=0.5, **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch must be sorted, but node 0 is in graph 1"):
        layer(torch.ones(2, 3), torch.tensor([[0], [1]]), torch.tensor([1, 0]))


def test_nan_is_noticed_in_random_order() -> None:
    with pytest.raises(ValueError, match="NaN"):
        ComponentPooling(3, ratio=0.5, order="random")(torch.full((2, 3), torch.nan), torch.tensor([[0, 1], [1, 0]]))

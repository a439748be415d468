"""Each layer of R replicas against R of PyG's layers, each on its own batch: values and gradients."""

from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.data import Batch

from compool import nn, replicas
from compool.data import features
from compool.replicas import kernels
from compool.replicas.top_k import StackedTopKPooling
from tests.replicas.batches import Batches, batches, graph_set

WHICH = {
    1: [[0, 3, 7, 5, 8]],
    4: [[0, 3, 7, 5, 8], [6, 6, 1, -1, 2], [9, 10, 11, 0, 1], [4, 5, 2, 3, 9]],
}


def double(layers: list[torch.nn.Module]) -> list[torch.nn.Module]:
    for layer in layers:
        layer.double()
        for parameter in layer.parameters():  # biases that are not zero
            torch.nn.init.normal_(parameter)
    return layers


@pytest.fixture(params=[1, 4], ids=["R=1", "R=4"])
def given(request: pytest.FixtureRequest, backend: str) -> Batches:
    graphs = graph_set()
    return batches(graphs, features(graphs), WHICH[request.param])


def check(
    given: Batches,
    layers: list[torch.nn.Module],
    kind: type[torch.nn.Module],
    theirs: Callable[[torch.nn.Module, Tensor, Batch], Tensor],
    ours: Callable[[torch.nn.Module, Tensor], Tensor] | None = None,
) -> None:
    double(layers)
    stacked = kind(layers).double()
    assert {name: tensor.shape[1:] for name, tensor in stacked.state_dict().items()} == {
        name: tensor.shape for name, tensor in layers[0].state_dict().items()
    }
    x = given.x.clone().requires_grad_()
    out = ours(stacked, x) if ours else stacked(x, given.union)
    single_x = [single.x.clone().requires_grad_() for single in given.singles]
    expected = [theirs(*args) for args in zip(layers, single_x, given.singles, strict=True)]
    torch.testing.assert_close(out, torch.cat(expected))

    factor = torch.randn_like(out)
    (out * factor).sum().backward()
    (torch.cat(expected) * factor).sum().backward()
    torch.testing.assert_close(x.grad, torch.cat([one.grad for one in single_x]))
    for name, parameter in stacked.named_parameters():
        singles = [dict(layer.named_parameters())[name].grad for layer in layers]
        torch.testing.assert_close(parameter.grad, torch.stack(singles), msg=lambda text, name=name: f"{name}: {text}")


def test_linear(given: Batches) -> None:
    layers = [torch.nn.Linear(5, 3) for _ in given.singles]
    check(given, layers, replicas.StackedLinear, lambda layer, x, _: layer(x))


@pytest.mark.parametrize("out", [3, 8])  # narrower than the input: multiplied first; wider: passed on first
def test_gcn(given: Batches, out: int) -> None:
    layers = [pyg.GCNConv(5, out) for _ in given.singles]
    check(given, layers, replicas.StackedGCNConv, lambda layer, x, data: layer(x, data.edge_index))


@pytest.mark.parametrize("out", [3, 8])
def test_sage(given: Batches, out: int) -> None:
    layers = [pyg.SAGEConv(5, out) for _ in given.singles]
    check(given, layers, replicas.StackedSAGEConv, lambda layer, x, data: layer(x, data.edge_index))


@pytest.mark.parametrize("out", [3, 8])
def test_gin(given: Batches, out: int) -> None:
    layers = [nn.GIN(5, out, 2).convs[0] for _ in given.singles]
    check(given, layers, replicas.StackedGINConv, lambda layer, x, data: layer(x, data.edge_index))


def test_batch_norm(given: Batches) -> None:
    layers = [torch.nn.BatchNorm1d(5) for _ in given.singles]
    check(given, layers, replicas.StackedBatchNorm, lambda layer, x, _: layer(x))
    # the same again after training, with the statistics that it gathered
    stacked = replicas.StackedBatchNorm(layers)
    for module in (stacked, *layers):
        module.train()
    stacked(given.x, given.union)
    for layer, single in zip(layers, given.singles, strict=True):
        layer(single.x)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(stacked, name), torch.stack([getattr(layer, name) for layer in layers]))
    stacked.eval()
    expected = [layer.eval()(single.x) for layer, single in zip(layers, given.singles, strict=True)]
    torch.testing.assert_close(stacked(given.x, given.union), torch.cat(expected))


@pytest.mark.parametrize("weights", ["merged", "all"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("threshold", [(0.0,) * 4, (0.0, -0.5, 0.9, 0.3)])
def test_component_pooling(given: Batches, weights: str, symmetric: bool, threshold: tuple[float, ...]) -> None:
    layers = [
        nn.ComponentPooling(5, threshold=limit, weights=weights, symmetric=symmetric)
        for limit, _ in zip(threshold, given.singles, strict=False)
    ]
    coarse = []

    def ours(stacked: torch.nn.Module, x: Tensor) -> Tensor:
        x, union = stacked(x, given.union)
        coarse.append(union)
        return x

    check(
        given,
        layers,
        replicas.StackedComponentPooling,
        lambda layer, x, data: layer(x, data.edge_index, data.batch).x,
        ours,
    )
    check_coarse(coarse[0], [layer(d.x, d.edge_index, d.batch) for layer, d in zip(layers, given.singles, strict=True)])


def check_coarse(union: replicas.Union, outs: list[tuple[Tensor, ...]]) -> None:
    """The coarse union is that of the coarse graphs."""
    edges = [out[1] + at for out, at in zip(outs, union.ptr.tolist(), strict=False)]
    assert torch.equal(union.edge_index.long(), torch.cat(edges, 1))
    assert union.ptr.diff().tolist() == [len(out[0]) for out in outs]
    assert union.row_ptr.tolist() == kernels.row_pointer(union.edge_index, union.num_nodes).tolist()


def test_edge_pooling(given: Batches) -> None:
    layers = [nn.EdgePooling(5, by_first=True) for _ in given.singles]
    coarse = []

    def ours(stacked: torch.nn.Module, x: Tensor) -> Tensor:
        x, union = stacked(x, given.union)
        coarse.append(union)
        return x

    check(
        given,
        layers,
        replicas.StackedEdgePooling,
        lambda layer, x, data: layer(x, data.edge_index, data.batch)[0],
        ours,
    )
    check_coarse(coarse[0], [layer(d.x, d.edge_index, d.batch) for layer, d in zip(layers, given.singles, strict=True)])
    assert coarse[0].looped


def test_gcn_on_graphs_with_self_loops(given: Batches) -> None:
    """Edge pooling leaves some: PyG adds none to a node that has one."""
    pools = double([nn.EdgePooling(5, by_first=True) for _ in given.singles])
    convs = double([pyg.GCNConv(5, 3) for _ in given.singles])
    x, union = replicas.StackedEdgePooling(pools).double()(given.x, given.union)
    out = replicas.StackedGCNConv(convs).double()(x, union).split(union.ptr.diff().tolist())
    for ours, pool, conv, data in zip(out, pools, convs, given.singles, strict=True):
        x, edge_index, _, _ = pool(data.x, data.edge_index, data.batch)
        assert (edge_index[0] == edge_index[1]).any()
        torch.testing.assert_close(ours, conv(x, edge_index))


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_readout(given: Batches, how: str) -> None:
    read = {"mean": pyg.global_mean_pool, "sum": pyg.global_add_pool}[how]
    out = replicas.readout(given.x, given.union, how)
    for r, data in enumerate(given.singles):
        expected = read(data.x, data.batch, data.num_graphs)
        there = [g for g, index in enumerate(WHICH[len(given.singles)][r]) if index >= 0]
        torch.testing.assert_close(out[r, there], expected)


def test_readout_of_no_nodes_is_zero() -> None:
    graphs = graph_set()
    empty = int((graphs.node_ptr[1:] == graphs.node_ptr[:-1]).argmax())
    given = batches(graphs, features(graphs), [[-1, empty, 1]])
    assert replicas.readout(given.x, given.union)[0, :2].tolist() == [[0.0] * 5] * 2


def test_one_hot_columns_are_looked_up(backend: str) -> None:
    graphs = graph_set()
    given = batches(graphs, features(graphs, "labels"), WHICH[4])
    assert given.x.dim() == 1
    layers = double([pyg.GCNConv(4, 3) for _ in range(4)])
    expected = [conv(data.x, data.edge_index) for conv, data in zip(layers, given.singles, strict=True)]
    stacked = replicas.StackedGCNConv(layers).double()
    out = stacked(given.x, given.union)
    torch.testing.assert_close(out, torch.cat(expected))
    factor = torch.randn_like(out)
    (out * factor).sum().backward()
    (torch.cat(expected) * factor).sum().backward()
    torch.testing.assert_close(stacked.lin.weight.grad, torch.stack([layer.lin.weight.grad for layer in layers]))


def test_dropout_of_a_replica_does_not_depend_on_the_others(backend: str) -> None:
    x, key, p = torch.randn(30, 4), torch.tensor([5, 6, 7]), torch.tensor([0.1, 0.9, 0.5])
    ptr = torch.tensor([0, 10, 10, 30])
    out = kernels.dropout(x, ptr, key, p)
    alone = kernels.dropout(x[10:], torch.tensor([0, 20]), key[2:], p[2:])
    assert torch.equal(out[10:], alone)
    assert torch.equal(out[:10], kernels.dropout(x[:10], torch.tensor([0, 10]), key[:1], p[:1]))


def test_dropout_rates_and_gradients(backend: str) -> None:
    ptr, p = torch.tensor([0, 20_000, 40_000]), torch.tensor([0.2, 0.5])
    x = torch.ones(40_000, 5, dtype=torch.float64, requires_grad=True)
    out = kernels.dropout(x, ptr, torch.tensor([1, 2]), p)
    dropped = (out == 0).double().view(2, -1)
    torch.testing.assert_close(dropped.mean(1), p.double(), atol=0.005, rtol=0)  # four standard deviations
    assert dropped.view(2, 20_000, 5).mean(1).sub(p.double().unsqueeze(1)).abs().max() < 0.015  # no column differs
    agree = (dropped[0] * dropped[1]).mean()
    assert abs(float(agree) - 0.1) < 0.005  # independent of each other
    assert out.unique().tolist() == pytest.approx([0.0, 1.25, 2.0])
    out.sum().backward()
    assert torch.equal(x.grad, out)  # of ones


def test_activate_is_bias_relu_dropout(backend: str) -> None:
    x = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    ptr, key, p = torch.tensor([0, 10, 10, 30]), torch.tensor([5, 6, 7]), torch.tensor([0.1, 0.9, 0.5])
    for keys in (None, key):
        out = kernels.activate(x, bias, ptr, keys, p)
        expected = (x + kernels.segment_repeat(bias, ptr, 30)).relu()
        expected = expected if keys is None else kernels.dropout(expected, ptr, keys, p)
        torch.testing.assert_close(out, expected)
        factor = torch.randn_like(out)
        ours = torch.autograd.grad((out * factor).sum(), (x, bias))
        theirs = torch.autograd.grad((expected * factor).sum(), (x, bias))
        torch.testing.assert_close(ours, theirs)


def test_linear_activate_is_a_product_and_activate(backend: str) -> None:
    wide = {"dtype": torch.float64, "requires_grad": True}
    x, onto, bias = torch.randn(30, 4, **wide), torch.randn(30, 5, **wide), torch.randn(3, 5, **wide)
    weight = torch.randn(3, 5, 4, **wide)
    ptr, key, p = torch.tensor([0, 10, 10, 30]), torch.tensor([5, 6, 7]), torch.tensor([0.1, 0.9, 0.5])
    for keys in (None, key):
        for base in (None, onto):
            out = kernels.linear_activate(x, weight, bias, ptr, keys, p, base)
            product = kernels.grouped_linear(x, weight, ptr)
            expected = kernels.activate(product if base is None else product + base, bias, ptr, keys, p)
            torch.testing.assert_close(out, expected)
            factor, given = torch.randn_like(out), (x, weight, bias) if base is None else (x, weight, bias, onto)
            ours, theirs = (torch.autograd.grad((one * factor).sum(), given) for one in (out, expected))
            torch.testing.assert_close(ours, theirs)


def test_dropout_of_symmetric_scores_takes_both_directions() -> None:
    graphs = graph_set(40)
    given = batches(graphs, features(graphs), [list(range(40)), list(range(40))])
    pool = replicas.StackedComponentPooling(
        double([nn.ComponentPooling(5, symmetric=True, dropout=0.5) for _ in range(2)])
    )
    raw = pool.double().raw_score(given.x, given.union, torch.tensor([1, 2]))
    source, target = given.union.edge_index.tolist()
    score = dict(zip(zip(source, target, strict=True), raw.tolist(), strict=True))
    assert all(score[j, i] == value for (i, j), value in score.items())
    dropped = (raw == 0).float()
    half = len(dropped) // 2
    assert dropped[:half].tolist() != dropped[half:].tolist()  # streams of their own
    assert 0.35 < dropped.mean() < 0.65


@pytest.mark.parametrize(
    ("layer", "kind", "message"),
    [
        (
            lambda: pyg.GCNConv(2, 2, improved=True),
            replicas.StackedGCNConv,
            "GCNConv must have improved=False, got True",
        ),
        (lambda: pyg.SAGEConv(2, 2, aggr="max"), replicas.StackedSAGEConv, "must have aggr=mean, got max"),
        (lambda: pyg.GCNConv(2, 2, bias=False), replicas.StackedGCNConv, "GCNConv must have bias=Tensor, got None"),
        (lambda: pyg.SAGEConv(2, 2, bias=False), replicas.StackedSAGEConv, "Linear must have bias=Tensor, got None"),
        (lambda: pyg.TopKPooling(2, nonlinearity="sigmoid"), StackedTopKPooling, "must have act=Tanh, got Sigmoid"),
        (lambda: nn.EdgePooling(2), replicas.StackedEdgePooling, "EdgePooling must have by_first=True, got False"),
        (lambda: pyg.GINConv(torch.nn.Sequential()), replicas.StackedGINConv, "GINConv must have a fixed eps"),
        (lambda: nn.EdgePooling(2, nn.EdgePooling.compute_edge_score_tanh), replicas.StackedEdgePooling, "softmax"),
    ],
)
def test_what_cannot_be_stacked(layer: Callable[[], torch.nn.Module], kind: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind([layer()])


def test_layers_that_differ() -> None:
    layers = [nn.ComponentPooling(3), nn.ComponentPooling(3, weights="all")]
    with pytest.raises(ValueError, match=r"layers must agree in weights, got \['all', 'merged'\]"):
        replicas.StackedComponentPooling(layers)
    with pytest.raises(ValueError, match=r"layers must agree in ratio, got \['0\.5', 'None'\]"):
        replicas.StackedComponentPooling([nn.ComponentPooling(3), nn.ComponentPooling(3, ratio=0.5)])
    with pytest.raises(ValueError, match=r"ComponentPooling must have max_size=None, got 5"):
        replicas.StackedComponentPooling([nn.ComponentPooling(3, max_size=5)])
    with pytest.raises(ValueError, match=r"layers must agree in score, got .*relu"):
        replicas.StackedComponentPooling([nn.ComponentPooling(3), nn.ComponentPooling(3, torch.relu, 0.1)])

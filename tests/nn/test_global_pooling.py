import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compool import GlobalComponentPooling
from tests import reference
from tests.graphs import Graph, graphs, random_graph


@given(graphs(max_graphs=4), st.booleans(), st.sampled_from(["sum", "mean"]))
def test_equals_the_dense_equations_with_all_edges_merged(graph: Graph, symmetric: bool, reduce: str) -> None:
    """Below every threshold, supernodes are a graph's components: their sum is the readout."""
    readout = GlobalComponentPooling(3, symmetric=symmetric, reduce=reduce).double()
    x = graph.x.clone().requires_grad_()
    ours = readout(x, graph.edge_index, graph.batch)
    again = graph.x.clone().requires_grad_()
    scorer = (readout.lin.weight, readout.lin.bias)
    dense = reference.pool(again, graph.edge_index, *scorer, threshold=-2.0, symmetric=symmetric)
    number = int(graph.batch.max()) + 1 if graph.batch.numel() else 0
    home = torch.zeros(len(dense.x), dtype=torch.long)
    home[dense.cluster] = graph.batch
    theirs = torch.stack([dense.x[home == index].sum(0) for index in range(number)]) if number else dense.x
    if reduce == "mean" and number:
        theirs = theirs / torch.bincount(graph.batch).clamp(min=1).unsqueeze(1)
    torch.testing.assert_close(ours, theirs)
    factor = torch.randn_like(theirs)
    found = torch.autograd.grad((ours * factor).sum(), [x, *scorer], allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad((theirs * factor).sum(), [again, *scorer], allow_unused=True, materialize_grads=True)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_by_hand(backend: str) -> None:
    # ψ(x_i, x_j) = x_i + x_j: S = 3 for 0–1, w = (3, 3), 3·1 + 3·2 = 9; node 2 is alone; node 3 has only an edge to it
    readout = GlobalComponentPooling(1, score=lambda raw: raw)
    torch.nn.init.ones_(readout.lin.weight)
    torch.nn.init.zeros_(readout.lin.bias)
    x, batch = torch.tensor([[1.0], [2.0], [7.0], [5.0], [4.0]]), torch.tensor([0, 0, 1, 2, 2])
    edge_index = torch.tensor([[0, 1, 0, 1, 4], [1, 0, 1, 1, 3]])
    assert readout(x, edge_index, batch).tolist() == [[9.0], [7.0], [9.0 * 4]]
    assert readout(x, edge_index, batch, batch_size=4).tolist() == [[9.0], [7.0], [36.0], [0.0]]
    assert readout(x, edge_index).tolist() == [[9.0 + 7 + 36]]


def test_edge_features_reach_the_readout(backend: str) -> None:
    readout = GlobalComponentPooling(3, edge_dim=2).double()
    x, edge_index = torch.randn(9, 3, dtype=torch.float64), random_graph(9, 20)
    attr = torch.randn(20, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda attr: readout(x, edge_index, edge_attr=attr), attr)
    assert torch.autograd.grad(readout(x, edge_index, edge_attr=attr).sum(), attr)[0].abs().sum() > 0


def test_settings() -> None:
    readout = GlobalComponentPooling(3, score="sigmoid", symmetric=True, reduce="mean", edge_dim=2)
    expected = "GlobalComponentPooling(3, score=sigmoid, symmetric=True, reduce=mean, edge_dim=2)"
    assert repr(readout) == expected
    with pytest.raises(ValueError, match="reduce must be 'sum' or 'mean', got 'max'"):
        GlobalComponentPooling(3, reduce="max")
    with pytest.raises(ValueError, match="score must be 'tanh', 'sigmoid', 'hardtanh' or a callable, got 'relu'"):
        GlobalComponentPooling(3, score="relu")
    with pytest.raises(ValueError, match=r"x must have shape \[nodes, 3\]"):
        GlobalComponentPooling(3)(torch.randn(4, 2), torch.tensor([[0], [1]]))


def test_no_nodes() -> None:
    assert GlobalComponentPooling(3)(torch.empty(0, 3), torch.empty(2, 0, dtype=torch.long)).tolist() == [[0.0] * 3]


@pytest.mark.parametrize(
    ("batch", "batch_size", "message"),
    [
        ([0, 0, 1, 1], 1, r"batch must lie in 0\.\.0 for batch_size=1, got 1"),
        ([0, 0, 0, 10**8], 2, r"batch must lie in 0\.\.1 for batch_size=2, got 100000000"),
        ([-1, 0, 0, 0], None, "batch must hold graph indices from 0 up; got -1"),
        ([-(10**8), 0, 0, 0], 1, "batch must hold graph indices from 0 up; got -100000000"),
        ([0, 0, 0, 0], -1, "batch_size must be a whole number, at least 0; got -1"),
        ([0, 0, 0, 0], 2.0, "batch_size must be a whole number, at least 0; got 2.0"),
    ],
)
def test_graphs_out_of_range(batch: list[int], batch_size: int | None, message: str, backend: str) -> None:
    readout, edge_index = GlobalComponentPooling(16), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=message):
        readout(torch.randn(4, 16), edge_index, torch.tensor(batch), batch_size=batch_size)


def test_edges_between_graphs_are_an_error() -> None:
    readout, edge_index = GlobalComponentPooling(2), torch.tensor([[0, 2], [2, 0]])
    with pytest.raises(ValueError, match="edge 0 joins node 0 of graph 0 and node 2 of graph 1"):
        readout(torch.ones(4, 2), edge_index, torch.tensor([0, 0, 1, 1]))
    assert readout(torch.ones(4, 2), edge_index, torch.tensor([0, 1, 0, 1])).shape == (2, 2)  # need not be sorted
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3"):
        readout(torch.ones(4, 2), torch.tensor([[0, 4], [4, 0]]), torch.tensor([0, 1, 0, 1]))

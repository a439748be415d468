"""Against PyG's own ClusterPooling: the same inputs and weights must give the same results."""

import pytest
import torch
import torch_geometric.nn
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import compool
from tests.graphs import Graph, graphs, random_graph

METHODS = {
    "tanh": None,
    "sigmoid": None,
    "log_softmax": -2.0,
}  # log_softmax never exceeds its default threshold


def pair(method: str, channels: int = 3, **settings: object) -> tuple[torch.nn.Module, torch.nn.Module]:
    theirs = torch_geometric.nn.ClusterPooling(channels, method, threshold=METHODS[method], **settings)
    ours = compool.ClusterPooling(channels, method, threshold=METHODS[method], **settings)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@given(graphs(), st.sampled_from(list(METHODS)))
def test_equals_pyg(graph: Graph, method: str) -> None:
    assume(graph.x.size(0))
    assume((graph.edge_index[0] != graph.edge_index[1]).any())  # PyG takes no graph without edges
    ours, theirs = pair(method)
    ours_x, theirs_x = graph.x.float().requires_grad_(), graph.x.float().requires_grad_()
    a, b = ours(ours_x, graph.edge_index, graph.batch), theirs(theirs_x, graph.edge_index, graph.batch)
    torch.testing.assert_close(a[0], b[0])
    for mine, other in zip((*a[1:3], *a[3]), (*b[1:3], *b[3]), strict=True):
        assert torch.equal(mine, other)
    factor = torch.randn_like(b[0])
    (a[0] * factor).sum().backward()
    (b[0] * factor).sum().backward()
    torch.testing.assert_close(ours_x.grad, theirs_x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.lin.weight.grad, theirs.lin.weight.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.lin.bias.grad, theirs.lin.bias.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_equals_pyg_with_dropout(method: str) -> None:
    ours, theirs = pair(method, dropout=0.4)
    x, edge_index, batch = torch.randn(60, 3), random_graph(60, 120), torch.zeros(60, dtype=torch.long)
    torch.manual_seed(7)
    a = ours(x, edge_index, batch)
    torch.manual_seed(7)
    b = theirs(x, edge_index, batch)
    torch.testing.assert_close(a[0], b[0])
    assert torch.equal(a[1], b[1])


def test_it_is_pyg_s_by_type_and_repr() -> None:
    ours, theirs = pair("tanh")
    assert isinstance(ours, torch_geometric.nn.ClusterPooling)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours(*example())[3], torch_geometric.nn.pool.cluster_pool.UnpoolInfo)


def example() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(30, 3), random_graph(30, 40), torch.zeros(30, dtype=torch.long)


def test_features_leak_even_where_nothing_is_merged() -> None:
    # two nodes, x = (1, 10), S = tanh(−1) both ways, nothing merged: features leak all the same
    pool = compool.ClusterPooling(1)
    torch.nn.init.zeros_(pool.lin.weight)
    torch.nn.init.constant_(pool.lin.bias, -1.0)
    x = pool(torch.tensor([[1.0], [10.0]]), torch.tensor([[0, 1], [1, 0]]))[0]
    torch.testing.assert_close(x, torch.tensor([[-6.6159], [9.2384]]), rtol=1e-4, atol=1e-4)


def test_unpool(backend: str) -> None:
    pool = compool.ClusterPooling(3)
    x, edge_index, batch = example()
    x_out, _, _, info = pool(x, edge_index, batch)
    x_back, edges_back, batch_back = pool.unpool(x_out, info)
    assert torch.equal(x_back, x_out[info.cluster])
    assert torch.equal(edges_back, edge_index[:, edge_index[0] != edge_index[1]])
    assert torch.equal(batch_back, batch)


def test_what_pyg_s_lacks(backend: str) -> None:
    x, edge_index, _ = example()
    assert compool.ClusterPooling(3)(x, edge_index)[2].unique().tolist() == [0]  # no batch vector
    double = compool.ClusterPooling(3).double()(x.double(), edge_index)
    assert double[0].dtype == torch.float64
    empty = compool.ClusterPooling(3)(torch.empty(0, 3), torch.empty(2, 0, dtype=torch.long))
    assert empty[0].shape == (0, 3)
    no_edges = compool.ClusterPooling(3)(x, torch.empty(2, 0, dtype=torch.long))
    assert torch.equal(no_edges[0], x)


def test_bad_settings() -> None:
    with pytest.raises(
        ValueError, match="edge_score_method must be one of 'tanh', 'sigmoid', 'log_softmax'; got 'relu'"
    ):
        compool.ClusterPooling(3, "relu")


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.29 for 30 nodes, got 30"):
        compool.ClusterPooling(3)(torch.randn(30, 3), torch.tensor([[0], [30]]))
    with pytest.raises(ValueError, match=r"the score of edge 0 \(of 1\) is NaN"):
        compool.ClusterPooling(3)(torch.full((30, 3), torch.nan), torch.tensor([[0], [1]]))

"""Against PyG's own EdgePooling: the same inputs and weights must give the same results."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import coalesce

import compool
from tests.graphs import Graph, graphs, random_graph

THEIRS = torch_geometric.nn.EdgePooling
METHODS = {
    "softmax": THEIRS.compute_edge_score_softmax,
    "tanh": THEIRS.compute_edge_score_tanh,
    "sigmoid": THEIRS.compute_edge_score_sigmoid,
}


def pair(method: str, **settings: object) -> tuple[torch.nn.Module, torch.nn.Module]:
    theirs = THEIRS(3, METHODS[method], **settings).double()
    ours = compool.EdgePooling(3, METHODS[method], **settings).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def compare(method: str, x: Tensor, edge_index: Tensor, batch: Tensor) -> None:
    ours, theirs = pair(method)
    ours_x, theirs_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    a, b = ours(ours_x, edge_index, batch), theirs(theirs_x, edge_index, batch)
    torch.testing.assert_close(a[0], b[0])
    for mine, other in zip((a[1], a[2], *a[3][:3]), (b[1], b[2], *b[3][:3]), strict=True):
        assert torch.equal(mine, other)
    torch.testing.assert_close(a[3].new_edge_score, b[3].new_edge_score)
    factor = torch.randn_like(b[0])
    ours_grads = torch.autograd.grad((a[0] * factor).sum(), [ours_x, *ours.parameters()])
    wanted = [theirs_x, *theirs.parameters()]
    theirs_grads = torch.autograd.grad((b[0] * factor).sum(), wanted, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(ours_grads, theirs_grads)
    torch.testing.assert_close(ours.unpool(a[0], a[3])[0], theirs.unpool(b[0], b[3])[0])


@given(graphs(), st.sampled_from(["tanh", "sigmoid"]))
def test_equals_pyg(graph: Graph, method: str) -> None:
    assume(graph.edge_index.size(1))
    edge_index = coalesce(graph.edge_index)  # repeats have equal scores, which PyG orders as it happens
    compare(method, graph.x, edge_index, graph.batch)


@pytest.mark.parametrize("method", METHODS)
def test_equals_pyg_on_two_complete_graphs(method: str, backend: str) -> None:
    pairs = torch.ones(12, 12).fill_diagonal_(0).nonzero().t()
    edge_index = torch.cat([pairs, pairs + 12], dim=1)
    compare(method, torch.randn(24, 3, dtype=torch.float64), edge_index, torch.arange(24) // 12)


def test_equals_pyg_on_a_larger_batch(backend: str) -> None:
    ours, theirs = pair("tanh")  # no equal scores, which PyG orders as it happens
    x, edge_index = torch.randn(2000, 3, dtype=torch.float64), random_graph(2000, 6000)
    batch = torch.arange(2000) // 100
    a, b = ours(x, edge_index, batch), theirs(x, edge_index, batch)
    torch.testing.assert_close(a[0], b[0])
    assert torch.equal(a[1], b[1])
    assert torch.equal(a[3].cluster, b[3].cluster)


def test_by_hand(backend: str) -> None:
    # a path 0 - 1 - 2 - 3 - 4; ψ = x_i + x_j and σ = identity: scores 3, 9, 13, 12, in both directions
    pool = compool.EdgePooling(1, lambda raw, edge_index, num_nodes: raw, add_to_edge_score=0.0)
    torch.nn.init.ones_(pool.lin.weight)
    torch.nn.init.zeros_(pool.lin.bias)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    x, edges, _batch, info = pool(torch.tensor([[1.0], [2.0], [7.0], [6.0], [6.0]]), edge_index)
    assert x.tolist() == [[13.0 * 13], [3.0 * 3], [6.0]]  # {2, 3} first, then {0, 1}; 4 is left
    assert info.cluster.tolist() == [1, 1, 0, 0, 2]
    assert edges.tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0]]
    assert pool.unpool(x, info)[0].tolist() == [[3.0], [3.0], [13.0], [13.0], [6.0]]


def test_the_first_of_equal_scores_wins(backend: str) -> None:
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    parts = compool.ops.contract(torch.ones(3), edge_index, 4)
    assert parts.cluster.tolist() == [0, 0, 1, 1]
    assert parts.chosen.tolist() == [0, 2]


def test_a_long_path_of_rising_scores(backend: str) -> None:
    edge_index = torch.stack([torch.arange(200), torch.arange(1, 201)])
    parts = compool.ops.contract(torch.arange(200.0), edge_index, 201)  # one locally dominant edge a round
    assert parts.chosen.tolist() == list(range(199, 0, -2))


def test_drop_in() -> None:
    ours, theirs = pair("softmax")
    assert isinstance(ours, THEIRS)
    assert repr(ours) == repr(theirs)
    no_edges = ours(torch.randn(4, 3, dtype=torch.float64), torch.empty(2, 0, dtype=torch.long))
    assert no_edges[0].shape == (4, 3)
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 9"):
        ours(torch.randn(4, 3, dtype=torch.float64), torch.tensor([[0], [9]]))


def test_what_pyg_s_own_test_expects(backend: str) -> None:
    """Four nodes all joined, a pair, and a node that points at the first; the score is the sum of the two features."""
    pool = compool.EdgePooling(1)
    torch.nn.init.ones_(pool.lin.weight)
    torch.nn.init.zeros_(pool.lin.bias)
    joined = [(i, j) for i in range(4) for j in range(4) if i != j]
    edge_index = torch.tensor([*joined, (4, 5), (5, 4), (6, 0)]).t().contiguous()
    x, batch = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [-1.0]]), torch.tensor([0, 0, 0, 0, 1, 1, 0])
    x_out, edge_index_out, batch_out, info = pool(x, edge_index, batch)
    assert edge_index_out.tolist() == [[0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 2]]
    assert batch_out.tolist() == [1, 0, 0, 0]
    back, edges, graph = pool.unpool(x_out, info)
    assert back.squeeze(1).tolist() == [1, 1, 5, 5, 9, 9, -1]
    assert torch.equal(edges, edge_index)
    assert torch.equal(graph, batch)
    _, edge_index_out, batch_out, _ = pool(x[:6], edge_index[:, :-1], batch[:6])
    assert edge_index_out.tolist() == [[0, 1, 1, 2, 2], [0, 1, 2, 1, 2]]
    assert batch_out.tolist() == [1, 0, 0]


def test_numbered_by_first_member() -> None:
    """The same as by score, in another order: a sorted batch stays sorted."""
    ours, _ = pair("softmax")
    sorted_ = compool.EdgePooling(3, by_first=True).double()
    sorted_.load_state_dict(ours.state_dict())
    x, edge_index = torch.randn(30, 3, dtype=torch.float64), random_graph(15, 40)
    edge_index = torch.cat([edge_index, edge_index + 15], 1)
    batch = torch.arange(30) // 15
    a, b = ours(x, edge_index, batch), sorted_(x, edge_index, batch)
    assert torch.equal(b[2], b[2].sort().values)
    assert not torch.equal(a[2], b[2])
    first = [int((b[3].cluster == k).nonzero()[0]) for k in range(len(b[0]))]
    assert first == sorted(first)
    torch.testing.assert_close(b[0][b[3].cluster], a[0][a[3].cluster])
    torch.testing.assert_close(sorted_.unpool(b[0], b[3])[0], ours.unpool(a[0], a[3])[0])


@pytest.mark.parametrize(
    "wrong",
    [lambda raw, *_: raw[:-1], lambda raw, *_: torch.cat([raw] * 1000), lambda raw, *_: raw > 0, lambda *_: None],
)
def test_a_score_method_that_returns_something_else(wrong: Callable[..., Any]) -> None:
    with pytest.raises(
        ValueError, match=r"edge_score_method must return a float for each edge, here torch.float32 \[3\]"
    ):
        compool.EdgePooling(3, wrong)(torch.randn(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_compiles_pyg_s_layer() -> None:
    ours = compool.EdgePooling(3, dropout=0.1).eval()
    x, edge_index, batch = torch.randn(9, 3), random_graph(9, 20), torch.zeros(9, dtype=torch.long)
    for scripted, expected in zip(
        torch.jit.script(ours)(x, edge_index, batch)[:3], ours(x, edge_index, batch), strict=False
    ):
        torch.testing.assert_close(scripted, expected)
    with pytest.raises(ValueError, match="needs EdgePooling with by_first=False"):
        torch.jit.script(compool.EdgePooling(3, by_first=True))

"""Features of edges: scored, coarsened, restored."""

import copy
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compool import ComponentPooling
from tests import reference
from tests.graphs import Graph, graphs, random_graph

OPTIONS = [
    {"edge_reduce": reduce, "symmetric": symmetric, "self_loops": self_loops}
    for reduce, symmetric, self_loops in itertools.product(("sum", "mean", "max"), (False, True), (False, True))
] + [{"edge_reduce": "mean", "weights": "all"}, {"edge_reduce": "sum", "ratio": 0.5}]


def compare_with_dense(graph: Graph, options: dict[str, object]) -> None:
    """Values, and gradients of both kinds of features and of both weights, through both outputs."""
    pool = ComponentPooling(3, edge_dim=2, **options).double()
    attr = torch.randn(graph.edge_index.size(1), 2, dtype=torch.float64)
    ours_in, theirs_in = ([t.clone().requires_grad_() for t in (graph.x, attr)] for _ in range(2))
    ours = pool(ours_in[0], graph.edge_index, graph.batch, ours_in[1])
    settings = {name: value for name, value in options.items() if name != "edge_reduce"}
    scorer, edge_weight = (pool.lin.weight, pool.lin.bias), pool.lin_edge.weight
    theirs = reference.pool(
        theirs_in[0], graph.edge_index, *scorer, **settings,
        batch=graph.batch, edge_attr=theirs_in[1], edge_weight=edge_weight,
    )  # fmt: skip
    coarse = (graph.edge_index, theirs.cluster, theirs.edge_index, options["edge_reduce"])
    theirs_attr = reference.coarse_features(theirs_in[1], *coarse)

    assert ours.cluster.tolist() == theirs.cluster.tolist()
    assert ours.edge_index.tolist() == theirs.edge_index.tolist()
    torch.testing.assert_close(ours.x, theirs.x)
    torch.testing.assert_close(ours.edge_attr, theirs_attr)
    factors = [torch.randn_like(t) for t in (theirs.x, theirs_attr)]
    wanted = [*theirs_in, pool.lin.weight, pool.lin.bias, edge_weight]
    loss = (theirs.x * factors[0]).sum() + (theirs_attr * factors[1]).sum()
    expected = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    loss = (ours.x * factors[0]).sum() + (ours.edge_attr * factors[1]).sum()
    found = torch.autograd.grad(loss, [*ours_in, *wanted[2:]], allow_unused=True, materialize_grads=True)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@given(graphs(), st.sampled_from(OPTIONS))
def test_equals_the_dense_reference(graph: Graph, options: dict[str, object]) -> None:
    compare_with_dense(graph, options)


@given(graphs(), st.sampled_from(OPTIONS))
def test_plain_torch_equals_the_dense_reference(graph: Graph, options: dict[str, object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compool.ops._dispatch.only_torch", True)
        compare_with_dense(graph, options)


# By hand: nodes 0 and 1 merge, 2 stays; ψ = 0 · x + e, so that an edge's score is its feature.
EDGES = torch.tensor([[0, 1, 0, 2, 1, 2, 1], [1, 0, 2, 0, 2, 1, 2]])  # (1, 2) stands there twice
ATTR = torch.tensor([[5.0], [4.0], [-1.0], [-2.0], [-3.0], [-6.0], [-100.0]])


def by_hand(**options: object) -> ComponentPooling:
    pool = ComponentPooling(1, score=lambda raw: raw, threshold=0.0, edge_dim=1, **options)
    for parameter in pool.parameters():
        torch.nn.init.zeros_(parameter)
    torch.nn.init.ones_(pool.lin_edge.weight)
    return pool


@pytest.mark.parametrize(("reduce", "expected"), [("sum", [-4.0, -8.0]), ("mean", [-2.0, -4.0]), ("max", [-1.0, -2.0])])
def test_by_hand(reduce: str, expected: list[float], backend: str) -> None:
    x = torch.tensor([[1.0], [10.0], [7.0]])
    out = by_hand(edge_reduce=reduce)(x, EDGES, edge_attr=ATTR)
    assert out.edge_score.tolist() == ATTR.squeeze(1).tolist()
    assert out.x.tolist() == [[5.0 * 1 + 4.0 * 10], [7.0]]
    assert out.edge_index.tolist() == [[0, 1], [1, 0]]
    assert out.edge_attr.squeeze(1).tolist() == expected


def test_self_loops_gather_inner_edges(backend: str) -> None:
    out = by_hand(self_loops=True)(torch.ones(3, 1), EDGES, edge_attr=ATTR)
    assert out.edge_index.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert out.edge_attr.squeeze(1).tolist() == [9.0, -4.0, -8.0]


def test_symmetric_scores_are_equal_to_the_bit(backend: str) -> None:
    pairs = torch.combinations(torch.arange(60)).t()
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    pool = ComponentPooling(5, symmetric=True, edge_dim=3)
    forth, back = pool(torch.randn(60, 5), edge_index, edge_attr=torch.randn(3540, 3)).edge_score.view(2, -1)
    assert torch.equal(forth, back)


def test_unscored_features_are_coarsened_too(backend: str) -> None:
    pool, x, edge_index = ComponentPooling(4), torch.randn(30, 4), random_graph(30, 60)
    weight = torch.rand(60)
    plain, out = pool(x, edge_index), pool(x, edge_index, edge_attr=weight)
    torch.testing.assert_close(out.x, plain.x)
    assert plain.edge_attr is None
    coarse = (out.cluster, out.edge_index, "sum")
    torch.testing.assert_close(out.edge_attr, reference.coarse_features(weight, edge_index, *coarse))


def test_multiplicity_counts_edges_over_two_levels(backend: str) -> None:
    # a square 0 1 2 3 with a diagonal: first 0 and 1 merge, then that and 2; the last edge stands for three
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    pool = ComponentPooling(1, score=lambda raw: raw, ratio=0.75, edge_reduce="multiplicity")
    torch.nn.init.ones_(pool.lin.weight)
    torch.nn.init.zeros_(pool.lin.bias)
    first = pool(torch.tensor([[9.0], [8.0], [7.0], [1.0]]), edge_index)
    assert first.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert first.edge_attr.tolist() == [2.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    pool.ratio = 0.5
    second = pool(first.x, first.edge_index, edge_attr=first.edge_attr)
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_attr.tolist() == [2.0, 2.0]


def test_restore_gives_the_fine_graph_back() -> None:
    pool, x = ComponentPooling(4, edge_dim=2), torch.randn(30, 4)
    edge_index = torch.cat([random_graph(20, 40), random_graph(10, 20) + 20], dim=1)
    attr, batch = torch.randn(60, 2, requires_grad=True), torch.arange(30) // 20
    out = pool(x, edge_index, batch, attr)
    fine = out.restore(out.x * 2)
    assert torch.equal(fine.edge_index, edge_index)
    assert torch.equal(fine.batch, batch)
    assert torch.equal(fine.x, out.x[out.cluster] * 2)
    assert fine.edge_attr is attr
    (fine.x.sum() + (fine.edge_attr * 3).sum()).backward()
    assert ((attr.grad - 3).abs() > 0).any()  # its own gradient, and what came through the scores


def test_half_precision(backend: str) -> None:
    pool = ComponentPooling(4, edge_dim=2).bfloat16()
    x, edge_index = torch.randn(300, 4).bfloat16(), random_graph(300, 900)
    attr = torch.randn(900, 2).bfloat16()
    out = pool(x, edge_index, edge_attr=attr)
    assert out.edge_attr.dtype == torch.bfloat16
    exact = pool.double()(x.double(), edge_index, edge_attr=attr.double())
    torch.testing.assert_close(out.edge_score.double(), exact.edge_score, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(out.edge_attr.double(), exact.edge_attr, rtol=0.01, atol=0.01)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_traces_without_a_break(reduce: str) -> None:
    torch._dynamo.reset()
    pool = ComponentPooling(4, edge_dim=2, edge_reduce=reduce, symmetric=True)
    compiled = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33):
        x, edge_index = torch.randn(num_nodes, 4), random_graph(num_nodes, 2 * num_nodes)
        attr = torch.randn(2 * num_nodes, 2, requires_grad=True)
        ours, theirs = compiled(x, edge_index, None, attr), pool(x, edge_index, None, attr)
        torch.testing.assert_close(ours.x, theirs.x)
        torch.testing.assert_close(ours.edge_attr, theirs.edge_attr)
        grads = (torch.autograd.grad(out.x.square().sum() + out.edge_attr.sum(), attr) for out in (ours, theirs))
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    ("attr", "error", "message"),
    [
        (None, ValueError, "edge_attr must be given, as the layer has edge_dim=2"),
        (torch.randn(2, 3), ValueError, r"edge_attr must have shape \[2, 2\].*got \[2, 3\]"),
        (torch.randn(3, 2), ValueError, r"edge_attr must have shape \[2, 2\].*got \[3, 2\]"),
        (torch.ones(2, 2).long(), TypeError, "edge_attr must be of a float dtype, got torch.int64"),
        (torch.randn(2, 2, device="meta"), ValueError, "edge_attr is on meta, but x is on cpu"),
    ],
)
def test_bad_input(attr: Tensor | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ComponentPooling(3, edge_dim=2)(torch.randn(4, 3), torch.tensor([[0, 1], [1, 0]]), edge_attr=attr)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="edge_dim must be a whole number, at least 1; got 0"):
        ComponentPooling(3, edge_dim=0)
    with pytest.raises(ValueError, match="edge_reduce must be one of 'sum', 'mean', 'max', 'multiplicity'; got 'min'"):
        ComponentPooling(3, edge_reduce="min")
    with pytest.raises(ValueError, match="'multiplicity' is for edges without features, but edge_dim is 2"):
        ComponentPooling(3, edge_dim=2, edge_reduce="multiplicity")
    assert repr(ComponentPooling(3, edge_dim=2, edge_reduce="max")).endswith("edge_dim=2, edge_reduce=max)")


def test_initial_weights_are_those_of_one_linear_layer() -> None:
    pool = ComponentPooling(8, edge_dim=9)
    assert all(parameter.abs().max() <= 1 / 5 for parameter in pool.parameters())
    assert pool.lin_edge.weight.abs().max() > 0.1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_gpu_equals_the_cpu(options: dict[str, object]) -> None:
    pool = ComponentPooling(4, edge_dim=2, **options).double()
    x, edge_index = torch.randn(300, 4, dtype=torch.float64), random_graph(300, 900)
    attr = torch.randn(900, 2, dtype=torch.float64)
    here = pool(x, edge_index, edge_attr=attr)
    there = copy.deepcopy(pool).cuda()(x.cuda(), edge_index.cuda(), edge_attr=attr.cuda())
    assert torch.equal(there.cluster.cpu(), here.cluster)
    torch.testing.assert_close(there.x.cpu(), here.x)
    torch.testing.assert_close(there.edge_attr.cpu(), here.edge_attr)

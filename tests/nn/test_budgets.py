"""Budgets in place of a threshold: quantile, ratio, max_size."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compool import ComponentPooling, connected_components
from tests import reference
from tests.graphs import SHAPES, Graph, graphs, inside, random_graph

BUDGETS = [
    *({"quantile": quantile} for quantile in (0.0, 0.3, 0.5, 0.9, 1.0)),
    *({"ratio": ratio} for ratio in (0.01, 0.3, 0.5, 0.8, 1.0)),
    *({"max_size": size} for size in (1, 2, 3, 5)),
    {"max_size": 3, "threshold": -0.5},
]
OPTIONS = [
    {"weights": weights, "symmetric": symmetric, "self_loops": self_loops}
    for weights, symmetric, self_loops in itertools.product(("merged", "all"), (False, True), (False, True))
]
budgets = st.sampled_from(BUDGETS)


def compare_with_dense(graph: Graph, budget: dict[str, float], options: dict[str, object]) -> None:
    pool = ComponentPooling(3, **budget, **options).double()
    settings = {**budget, **options, "threshold": pool.threshold, "batch": graph.batch}
    ours_x, theirs_x = graph.x.clone().requires_grad_(), graph.x.clone().requires_grad_()
    ours = pool(ours_x, graph.edge_index, graph.batch)
    theirs = reference.pool(theirs_x, graph.edge_index, pool.lin.weight, pool.lin.bias, **settings)
    assert ours.cluster.tolist() == theirs.cluster.tolist()
    assert ours.edge_index.tolist() == theirs.edge_index.tolist()
    assert ours.batch.tolist() == [graph.batch[(ours.cluster == k).nonzero()[0, 0]] for k in range(len(ours.x))]
    torch.testing.assert_close(ours.x, theirs.x)

    factor = torch.randn_like(theirs.x)
    grads = torch.autograd.grad((theirs.x * factor).sum(), theirs_x, allow_unused=True, materialize_grads=True)
    (ours.x * factor).sum().backward()
    torch.testing.assert_close(torch.zeros_like(graph.x) if ours_x.grad is None else ours_x.grad, grads[0])


@given(graphs(), budgets, st.sampled_from(OPTIONS))
def test_equals_the_dense_reference(graph: Graph, budget: dict[str, float], options: dict[str, object]) -> None:
    compare_with_dense(graph, budget, options)


@given(graphs(), budgets, st.sampled_from(OPTIONS))
def test_plain_torch_equals_the_dense_reference(
    graph: Graph, budget: dict[str, float], options: dict[str, object]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compool.ops._dispatch.only_torch", True)
        compare_with_dense(graph, budget, options)


@given(graphs(max_graphs=4), budgets)
def test_a_batch_equals_its_graphs_one_by_one(graph: Graph, budget: dict[str, float]) -> None:
    pool = ComponentPooling(3, **budget).double()
    whole = pool(graph.x, graph.edge_index, graph.batch)
    nodes = supernodes = 0
    for index in sorted(set(graph.batch.tolist())):
        mine = graph.batch == index
        alone = pool(graph.x[mine], graph.edge_index[:, mine[graph.edge_index[0]]] - nodes)
        assert (whole.cluster[mine] - supernodes).tolist() == alone.cluster.tolist()
        torch.testing.assert_close(whole.x[whole.batch == index], alone.x, rtol=1e-12, atol=1e-12)
        nodes, supernodes = nodes + int(mine.sum()), supernodes + alone.x.size(0)
    assert supernodes == whole.x.size(0)


@given(graphs(max_graphs=1), budgets, st.randoms(use_true_random=False))
def test_permuting_nodes_and_edges_permutes_the_result(graph: Graph, budget: dict[str, float], random: object) -> None:
    def shuffled(number: int) -> Tensor:
        order = list(range(number))
        random.shuffle(order)  # type: ignore[attr-defined]
        return torch.tensor(order, dtype=torch.long)

    new_of_old = shuffled(graph.x.size(0))
    pool = ComponentPooling(3, **budget).double()
    a = pool(graph.x, graph.edge_index)
    edges = new_of_old[graph.edge_index][:, shuffled(graph.edge_index.size(1))]
    b = pool(graph.x[torch.argsort(new_of_old)], edges)
    rename = torch.empty(a.x.size(0), dtype=torch.long)
    rename[a.cluster] = b.cluster[new_of_old]
    assert sorted(rename.tolist()) == list(range(b.x.size(0)))
    torch.testing.assert_close(a.x, b.x[rename])


@given(graphs(max_nodes=12), st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]), st.booleans())
def test_a_ratio_is_met_exactly_where_the_graph_allows(graph: Graph, ratio: float, symmetric: bool) -> None:
    pool = ComponentPooling(3, ratio=ratio, symmetric=symmetric).double()
    out = pool(graph.x, graph.edge_index, graph.batch)
    connected = connected_components(graph.edge_index, graph.x.size(0))
    for index in set(graph.batch.tolist()):
        mine = graph.batch == index
        wanted = max(math.ceil(ratio * int(mine.sum())), len(set(connected[mine].tolist())))
        assert int((out.batch == index).sum()) == wanted


@given(graphs(max_nodes=12), st.integers(1, 6))
def test_no_supernode_exceeds_max_size(graph: Graph, bound: int) -> None:
    pool = ComponentPooling(3, max_size=bound).double()
    out = pool(graph.x, graph.edge_index, graph.batch)
    free = ComponentPooling(3).double()
    free.load_state_dict(pool.state_dict())
    assert not out.cluster.numel() or int(torch.bincount(out.cluster).max()) <= bound
    if out.cluster.numel() and int(torch.bincount(free(graph.x, graph.edge_index).cluster).max()) <= bound:
        assert out.cluster.tolist() == free(graph.x, graph.edge_index).cluster.tolist()


# By hand: ψ(x_i, x_j) = x_i + x_j on a path 0 – 1 – 2 – 3 with x = (1, 2, 4, −3): scores 3, 6, 1, either way.
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


@pytest.mark.parametrize(
    ("budget", "cluster", "x"),
    [
        ({"ratio": 0.75}, [0, 1, 1, 2], [1.0, 6.0 * 2 + 6.0 * 4, -3.0]),
        ({"ratio": 0.5}, [0, 0, 0, 1], [3.0 * 1 + (3.0 + 6.0) * 2 + 6.0 * 4, -3.0]),
        ({"ratio": 0.7}, [0, 1, 1, 2], [1.0, 36.0, -3.0]),  # ⌈2.8⌉ = 3
        ({"quantile": 2 / 3}, [0, 1, 1, 2], [1.0, 36.0, -3.0]),
        ({"quantile": 0.6}, [0, 1, 1, 2], [1.0, 36.0, -3.0]),  # the next two tie: half of them would fit
        ({"quantile": 1 / 3}, [0, 0, 0, 1], [45.0, -3.0]),
        ({"max_size": 2, "threshold": 0.0}, [0, 1, 1, 2], [1.0, 36.0, -3.0]),
        ({"max_size": 3, "threshold": 0.0}, [0, 0, 0, 1], [45.0, -3.0]),
        ({"max_size": 4, "threshold": 4.0}, [0, 1, 1, 2], [1.0, 36.0, -3.0]),
    ],
)
def test_by_hand(budget: dict[str, float], cluster: list[int], x: list[float], backend: str) -> None:
    pool = ComponentPooling(1, score=lambda raw: raw, **budget)
    torch.nn.init.ones_(pool.lin.weight)
    torch.nn.init.zeros_(pool.lin.bias)
    out = pool(torch.tensor([[1.0], [2.0], [4.0], [-3.0]]), PATH)
    assert out.cluster.tolist() == cluster
    assert out.x.squeeze(1).tolist() == x


def test_a_share_that_is_not_exact_in_binary(backend: str) -> None:
    # 0.07 · 100 is 7.000000000000001 in floating point: 93 of 100 edges are the top 1 − 0.07, and 7 nodes are 0.07
    pool = ComponentPooling(1, score=lambda raw: raw, quantile=0.07)
    torch.nn.init.ones_(pool.lin.weight)
    x = torch.arange(101.0).view(-1, 1)
    path = torch.stack([torch.arange(100), torch.arange(1, 101)])
    assert pool(x, path).x.size(0) == 8
    ring = torch.stack([torch.arange(100), torch.arange(1, 101) % 100])
    assert ComponentPooling(1, ratio=0.07)(x[:100], ring).x.size(0) == 7


@pytest.mark.parametrize("budget", [{"quantile": 0.5}, {"ratio": 0.3}, {"max_size": 4}])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_equal_plain_torch(
    budget: dict[str, float], shape: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_nodes, edge_index = SHAPES[shape]
    # scores of one decimal: many ties, which position decides
    pool = ComponentPooling(
        2, score=lambda raw: raw.round(decimals=1), **budget, **({"threshold": 0.1} if "max_size" in budget else {})
    )
    pool, x = pool.to(dtype), torch.randn(num_nodes, 2, dtype=dtype)
    batch = torch.arange(num_nodes) // 50 if shape == "no edges" else None
    ours = pool(x, edge_index, batch)
    monkeypatch.setattr("compool.ops._dispatch.only_torch", True)
    theirs = pool(x, edge_index, batch)
    assert torch.equal(ours.cluster, theirs.cluster)
    torch.testing.assert_close(ours.x, theirs.x)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("budget", [{"quantile": 0.5}, {"ratio": 0.3}, {"max_size": 4}])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_gpu_equals_the_cpu(budget: dict[str, float], shape: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    pool, x = ComponentPooling(4, **budget).double(), torch.randn(num_nodes, 4, dtype=torch.float64)
    batch = torch.zeros(num_nodes, dtype=torch.long)
    here, there = pool(x, edge_index, batch), copy.deepcopy(pool).cuda()(x.cuda(), edge_index.cuda(), batch.cuda())
    assert torch.equal(there.cluster.cpu(), here.cluster)
    torch.testing.assert_close(there.x.cpu(), here.x)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("budget", [{"quantile": 0.5}, {"ratio": 0.3}, {"max_size": 4}])
def test_errors_on_a_gpu_are_the_cpu_s(budget: dict[str, float]) -> None:
    pool, x = ComponentPooling(3, **budget).cuda(), torch.randn(4, 3, device="cuda")
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 9"):
        pool(x, torch.tensor([[0], [9]], device="cuda"))
    with pytest.raises(ValueError, match="batch must be sorted"):
        pool(x, torch.tensor([[0], [1]], device="cuda"), torch.tensor([0, 1, 0, 1], device="cuda"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"quantile": 0.5, "ratio": 0.5},
            "choose one of quantile, ratio, max_size; got quantile=0.5 and ratio=0.5",
        ),
        (
            {"ratio": 0.5, "max_size": 3},
            "choose one of quantile, ratio, max_size; got ratio=0.5 and max_size=3",
        ),
        ({"ratio": 0.5, "threshold": 0.1}, "ratio=0.5 replaces the threshold; .* threshold=0.1 too"),
        ({"quantile": 1.1}, r"quantile must lie in 0\.\.1, got 1.1"),
        ({"ratio": 0.0}, "ratio must be above 0 and at most 1, got 0.0"),
        ({"max_size": 0}, "max_size must be a whole number from 1 to 2⁶³ − 1, got 0"),
        ({"max_size": 2.5}, "max_size must be a whole number from 1 to 2⁶³ − 1, got 2.5"),
        ({"max_size": 2**63}, "max_size must be a whole number from 1 to 2⁶³ − 1, got 9223372036854775808"),
        ({"max_size": 2, "score": torch.relu}, "threshold must be a finite number when score is a callable, got None"),
        ({"ratio": 0.5, "score": "relu"}, "score must be 'tanh', 'sigmoid', 'hardtanh' or a callable, got 'relu'"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComponentPooling(3, **settings)


@pytest.mark.parametrize("name", ["threshold", "quantile", "ratio", "max_size"])
def test_budgets_are_numbers(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a number, got '0.5'"):
        ComponentPooling(3, **{name: "0.5"})
    ComponentPooling(3, ratio=np.float32(0.5))


@pytest.mark.parametrize("budget", [{"quantile": 0.5}, {"ratio": 0.5}, {"max_size": 2}])
def test_bad_input(budget: dict[str, float], backend: str) -> None:
    pool, edge_index = ComponentPooling(3, **budget), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="batch must be sorted, but node 1 is in graph 1 and node 2 in 0"):
        pool(torch.randn(4, 3), edge_index, torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ValueError, match=r"the score of edge 0 \(of 2\) is NaN"):
        pool(torch.full((4, 3), math.nan), edge_index)
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 9"):
        pool(torch.randn(4, 3), torch.tensor([[0], [9]]))
    with pytest.raises(ValueError, match="batch must hold graph indices from 0 up; node 0 is in graph -1"):
        pool(torch.randn(4, 3), edge_index, torch.tensor([-1, -1, 0, 0]))
    with pytest.raises(ValueError, match="according to batch, edge 1 joins node 1 of graph 0 and node 2 of graph 1"):
        pool(torch.randn(4, 3), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 1, 1]))


def test_repr() -> None:
    assert repr(ComponentPooling(8, ratio=0.5)) == "ComponentPooling(8, score=tanh, ratio=0.5)"
    assert repr(ComponentPooling(8, max_size=4)) == "ComponentPooling(8, score=tanh, threshold=0, max_size=4)"


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("budget", [{"quantile": 0.5}, {"ratio": 0.5}, {"max_size": 3}])
def test_traces_without_a_break(budget: dict[str, float]) -> None:
    torch._dynamo.reset()
    pool = ComponentPooling(4, **budget)
    compiled = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33):
        x, edge_index = torch.randn(num_nodes, 4), random_graph(num_nodes, 2 * num_nodes)
        batch = (torch.arange(num_nodes) >= 9).long()
        edge_index = inside(edge_index, batch)
        for ours, theirs in zip(compiled(x, edge_index, batch)[:3], pool(x, edge_index, batch)[:3], strict=True):
            torch.testing.assert_close(ours, theirs)

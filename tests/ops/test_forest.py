import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

import compool
from compool.ops import components
from tests.graphs import SHAPES, Graph, graphs, random_graph

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [*FLOATS, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
LEVELS = (-math.inf, -1.5, -0.0, 0.0, 1e-40, 0.5, 2.0, math.inf)


def kruskal(edge_index: Tensor, weight: Tensor, num_nodes: int) -> list[int]:
    """The oracle: edges by descending weight, then by position; each that joins two sets of nodes unites them."""
    part = [{node} for node in range(num_nodes)]
    chosen = []
    ends, weights = edge_index.t().tolist(), weight.tolist()
    for position in sorted(range(len(ends)), key=lambda e: -weights[e]):  # a stable sort
        u, v = ends[position]
        if part[u] is not part[v]:
            chosen.append(position)
            union = part[u] | part[v]
            for node in union:
                part[node] = union
    return chosen


def scipy_forest(edge_index: Tensor, weight: Tensor, num_nodes: int) -> tuple[float, set[tuple[int, int]]]:
    """The total weight and the edges, each by its smaller end first. SciPy minimises, takes 0 for no edge and adds
    repeats up: it gets what is missing to 2, of each edge once.
    """
    low, high = edge_index.sort(0).values.numpy()
    order = np.lexsort((-weight.numpy(), high, low))
    order = order[low[order] != high[order]]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
    order = order[fresh]
    matrix = csr_matrix((2.0 - weight.double().numpy()[order], (low[order], high[order])), (num_nodes, num_nodes))
    tree = minimum_spanning_tree(matrix).tocoo()
    return float((2.0 - tree.data).sum()), set(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def check_with_scipy(chosen: Tensor, edge_index: Tensor, weight: Tensor, num_nodes: int) -> None:
    total, edges = scipy_forest(edge_index, weight, num_nodes)
    assert len(chosen) == len(edges)
    assert math.isclose(float(weight[chosen].double().sum()), total, rel_tol=1e-9)
    assert {(min(u, v), max(u, v)) for u, v in edge_index[:, chosen].t().tolist()} == edges  # weights are distinct


def test_by_hand(backend: str) -> None:
    # 0 – 1 is listed twice and both ways, 2 – 2 is a self-loop; 3 – 4 is infinitely heavy, 5 is isolated
    edge_index = torch.tensor([[0, 1, 0, 2, 1, 0, 3], [1, 0, 1, 2, 2, 2, 4]])
    weight = torch.tensor([0.1, 0.7, 0.7, 9.0, 0.5, 0.5, math.inf])
    assert compool.spanning_forest(edge_index, weight, 6).tolist() == [6, 1, 4]
    assert compool.spanning_forest(edge_index, -weight, 6).tolist() == [0, 4, 6]
    assert compool.spanning_forest(edge_index, (10 * weight[:6]).long().repeat(2)[:7]).tolist() == [1, 4, 6]


@given(graphs(max_nodes=12), st.lists(st.sampled_from(LEVELS), min_size=144, max_size=144), st.sampled_from(DTYPES))
def test_equals_kruskal(graph: Graph, levels: list[float], dtype: torch.dtype) -> None:
    """With many ties, infinities, two zeros, repeats, self-loops."""
    weight = torch.tensor(levels, dtype=torch.float64)[: graph.edge_index.size(1)]
    weight = weight.to(dtype) if dtype.is_floating_point else weight.clamp(0, 100).to(dtype)
    expected = kruskal(graph.edge_index, weight, graph.x.size(0))
    assert compool.spanning_forest(graph.edge_index, weight, graph.x.size(0)).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compool.ops._dispatch.only_torch", True)
        assert compool.spanning_forest(graph.edge_index, weight, graph.x.size(0)).tolist() == expected


def test_ten_thousand_graphs_against_scipy() -> None:
    """One by one; SciPy gets them all as one."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, 16, 10_000)
    graphs = [torch.from_numpy(random.integers(0, n, (2, int(random.integers(0, 3 * n))))) for n in sizes]
    weights = [torch.from_numpy(random.random(graph.size(1))) for graph in graphs]
    chosen, nodes, edges = [], 0, 0
    for num_nodes, graph, weight in zip(sizes.tolist(), graphs, weights, strict=True):
        chosen.append(compool.spanning_forest(graph, weight, num_nodes) + edges)
        graph += nodes
        nodes, edges = nodes + num_nodes, edges + graph.size(1)
    check_with_scipy(torch.cat(chosen), torch.cat(graphs, 1), torch.cat(weights), nodes)


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(100_000, 60_000), (50_000, 300_000), (300, 200_000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_graphs_against_scipy(num_nodes: int, num_edges: int, dtype: torch.dtype) -> None:
    edge_index, weight = random_graph(num_nodes, num_edges), (torch.randperm(num_edges) / num_edges).to(dtype)
    check_with_scipy(compool.spanning_forest(edge_index, weight, num_nodes), edge_index, weight, num_nodes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_shapes(shape: str, dtype: torch.dtype, backend: str) -> None:
    num_nodes, edge_index = SHAPES[shape]
    rising = torch.arange(edge_index.size(1)).to(dtype)
    for weight in (rising, -rising, torch.zeros_like(rising), torch.randint(9, rising.shape).to(dtype)):
        chosen = compool.spanning_forest(edge_index, weight, num_nodes)
        assert chosen.tolist() == kruskal(edge_index, weight, num_nodes)


@pytest.mark.parametrize("low", [-(2**62), 2**31])
def test_integers_that_no_float_tells_apart(low: int, backend: str) -> None:
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert compool.spanning_forest(edge_index, torch.tensor([low, low + 2, low + 1])).tolist() == [1, 2]


@given(graphs(max_nodes=12), st.lists(st.sampled_from(LEVELS), min_size=144, max_size=144), st.sampled_from(LEVELS))
def test_the_forest_has_the_components_of_any_threshold(graph: Graph, levels: list[float], threshold: float) -> None:
    edge_index, num_nodes = graph.edge_index, graph.x.size(0)
    weight = torch.tensor(levels)[: edge_index.size(1)]
    chosen = compool.spanning_forest(edge_index, weight, num_nodes)
    ours = components(edge_index[:, chosen], weight[chosen] > threshold, num_nodes).cluster
    assert ours.tolist() == components(edge_index, weight > threshold, num_nodes).cluster.tolist()


def test_other_forms_of_input(backend: str) -> None:
    edge_index, weight = random_graph(50, 200), torch.rand(200)
    expected = kruskal(edge_index, weight, 50)
    assert compool.spanning_forest(edge_index.int(), weight, 50).tolist() == expected
    assert compool.spanning_forest(edge_index.t().contiguous().t(), weight.expand(2, -1).t()[:, 0]).tolist() == expected
    assert compool.spanning_forest(edge_index, weight.requires_grad_(), 50).tolist() == expected
    empty = torch.empty(2, 0, dtype=torch.long)
    for num_nodes in (None, 0, 7):
        assert compool.spanning_forest(empty, torch.empty(0), num_nodes).tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.zeros(3, 2).long()}, r"edge_index must have shape \[2, edges\], got \[3, 2\]"),
        ({"edge_index": torch.tensor([[0, 1], [1, 5]])}, r"edge_index must lie in 0\.\.3 for 4 nodes, got 5"),
        ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, r"edge_index must lie in 0\.\.3 for 4 nodes, got -1"),
        ({"weight": torch.tensor([1.0, math.nan])}, r"the weight of edge 1 \(of 2\) is NaN"),
        ({"weight": torch.ones(3)}, r"weight must have shape \[2\], one entry per edge; got \[3\]"),
        ({"weight": torch.ones(2).bool()}, r"weight must be of a float or integer dtype \(.*\), got torch.bool"),
        ({"weight": [1.0, 2.0]}, "weight must be a tensor, got list"),
        ({"weight": torch.ones(2, device="meta")}, "weight is on meta, but edge_index is on cpu"),
        ({"num_nodes": -1}, "num_nodes must be a whole number, at least 0; got -1"),
        ({"num_nodes": 4.0}, "num_nodes must be a whole number, at least 0; got 4.0"),
    ],
)
def test_bad_input(change: dict[str, object], message: str, backend: str) -> None:
    given: dict[str, object] = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "weight": torch.ones(2), "num_nodes": 4}
    with pytest.raises((ValueError, TypeError), match=message):
        compool.spanning_forest(**{**given, **change})  # type: ignore[arg-type]


def test_too_many_edges_or_nodes() -> None:
    edge_index, weight = torch.zeros(2, 1).int(), torch.zeros(1)
    with pytest.raises(ValueError, match="the graph has 2147483648 edges; a spanning forest takes fewer than 2³¹"):
        compool.spanning_forest(edge_index.expand(2, 2**31), weight.expand(2**31), 4)  # no memory behind it
    with pytest.raises(ValueError, match="the graph has 2147483648 nodes; a spanning forest takes fewer than 2³¹"):
        compool.spanning_forest(edge_index, weight, 2**31)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_traces_without_a_break() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(compool.spanning_forest, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (20, 33):
        edge_index, weight = random_graph(num_nodes, 3 * num_nodes), torch.rand(3 * num_nodes)
        assert compiled(edge_index, weight, num_nodes).tolist() == kruskal(edge_index, weight, num_nodes)
    with pytest.raises(ValueError, match="is NaN"):
        compiled(edge_index, weight * math.nan, 33)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gpu_equals_the_cpu(shape: str, dtype: torch.dtype) -> None:
    num_nodes, edge_index = SHAPES[shape]
    weight = torch.randint(50, edge_index.shape[1:]).to(dtype)
    there = compool.spanning_forest(edge_index.cuda(), weight.cuda(), num_nodes)
    assert torch.equal(there.cpu(), compool.spanning_forest(edge_index, weight, num_nodes))

import copy
import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import compool
from compool import ComponentPooling
from tests import reference
from tests.graphs import Graph, graphs, random_graph

OPTIONS = [
    {"weights": weights, "symmetric": symmetric, "self_loops": self_loops}
    for weights, symmetric, self_loops in itertools.product(("merged", "all"), (False, True), (False, True))
]
ACTIVATIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


def make(score: str = "tanh", **options: object) -> ComponentPooling:
    return ComponentPooling(3, score=score, **options).double()


def dense(pool: ComponentPooling, graph: Graph, x: Tensor | None = None) -> reference.Dense:
    return reference.pool(
        graph.x if x is None else x,
        graph.edge_index,
        pool.lin.weight,
        pool.lin.bias,
        pool.activation,
        pool.threshold,
        pool.weights,
        pool.symmetric,
        pool.self_loops,
    )


@given(graphs(), st.sampled_from(OPTIONS), st.sampled_from(["tanh", "sigmoid"]))
def test_equals_the_dense_equations(graph: Graph, options: dict[str, object], score: str) -> None:
    compare_with_dense(graph, options, score)


@given(graphs(), st.sampled_from(OPTIONS), st.sampled_from(["tanh", "sigmoid"]))
def test_plain_torch_equals_the_dense_equations(graph: Graph, options: dict[str, object], score: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compool.ops._dispatch.only_torch", True)
        compare_with_dense(graph, options, score)


def compare_with_dense(graph: Graph, options: dict[str, object], score: str) -> None:
    """Values, and the gradients of features, scorer and bias."""
    pool = make(score, **options)
    ours_x, theirs_x = graph.x.clone().requires_grad_(), graph.x.clone().requires_grad_()
    ours = pool(ours_x, graph.edge_index, graph.batch)
    theirs = dense(pool, graph, theirs_x)

    assert ours.cluster.tolist() == theirs.cluster.tolist()
    assert ours.edge_index.tolist() == theirs.edge_index.tolist()
    torch.testing.assert_close(ours.x, theirs.x)
    source, target = graph.edge_index
    proper = source != target
    torch.testing.assert_close(ours.edge_score[proper], theirs.score[source, target][proper])

    factor = torch.randn_like(theirs.x)
    wanted = [theirs_x, pool.lin.weight, pool.lin.bias]
    grads = torch.autograd.grad((theirs.x * factor).sum(), wanted, allow_unused=True, materialize_grads=True)
    (ours.x * factor).sum().backward()
    for ours_grad, grad in zip([ours_x.grad, pool.lin.weight.grad, pool.lin.bias.grad], grads, strict=True):
        torch.testing.assert_close(torch.zeros_like(grad) if ours_grad is None else ours_grad, grad)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradcheck(options: dict[str, object], backend: str) -> None:
    edge_index = random_graph(8, 14, seed=4)
    pool = make(**options)
    x = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    out = pool(x, edge_index)
    assert out.edge_score.abs().min() > 1e-4  # no score is so near the threshold that a step crosses it

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.func.functional_call(pool, {"lin.weight": weight, "lin.bias": bias}, (x, edge_index))
        return out.x, out.edge_score

    assert torch.autograd.gradcheck(run, (x, pool.lin.weight, pool.lin.bias))


def test_gradients_through_scores_alone(backend: str) -> None:
    edge_index = random_graph(8, 14)
    pool = make()
    ours_x = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    theirs_x = ours_x.detach().clone().requires_grad_()
    pool(ours_x, edge_index).edge_score.sum().backward()
    pairs = torch.cat([theirs_x[edge_index[0]], theirs_x[edge_index[1]]], dim=1)
    pool.lin(pairs).tanh().sum().backward()
    torch.testing.assert_close(ours_x.grad, theirs_x.grad)


def test_features_that_need_no_gradient(backend: str) -> None:
    pool = make()
    pool(torch.randn(8, 3, dtype=torch.float64), random_graph(8, 14)).x.sum().backward()
    assert pool.lin.weight.grad.abs().sum() > 0


@given(graphs(max_graphs=1), st.sampled_from(OPTIONS), st.randoms(use_true_random=False))
def test_permuting_nodes_permutes_the_result(graph: Graph, options: dict[str, object], random: object) -> None:
    num_nodes = graph.x.size(0)
    permutation = list(range(num_nodes))
    random.shuffle(permutation)  # type: ignore[attr-defined]
    new_of_old = torch.tensor(permutation, dtype=torch.long)
    old_of_new = torch.argsort(new_of_old)
    pool = make(**options)
    a = pool(graph.x, graph.edge_index)
    b = pool(graph.x[old_of_new], new_of_old[graph.edge_index])
    # supernode k of a is supernode rename[k] of b
    rename = torch.empty(a.x.size(0), dtype=torch.long)
    rename[a.cluster] = b.cluster[new_of_old]
    assert sorted(rename.tolist()) == list(range(b.x.size(0)))
    torch.testing.assert_close(a.x, b.x[rename])
    ours = sorted(zip(*rename[a.edge_index].tolist(), strict=True))
    assert ours == sorted(zip(*b.edge_index.tolist(), strict=True))


@given(graphs(max_graphs=4), st.sampled_from(OPTIONS))
def test_a_batch_equals_its_graphs_one_by_one(graph: Graph, options: dict[str, object]) -> None:
    pool = make(**options)
    whole = pool(graph.x, graph.edge_index, graph.batch)
    nodes = supernodes = 0
    for index in range(int(graph.batch.max()) + 1 if graph.batch.numel() else 0):
        mine = graph.batch == index
        edges = mine[graph.edge_index[0]] if mine.numel() else graph.edge_index[0] < 0
        alone = pool(graph.x[mine], graph.edge_index[:, edges] - nodes)
        kept = (whole.batch == index).nonzero().squeeze(1)
        assert kept.tolist() == list(range(supernodes, supernodes + alone.x.size(0)))
        assert (whole.cluster[mine] - supernodes).tolist() == alone.cluster.tolist()
        torch.testing.assert_close(whole.x[kept], alone.x, rtol=1e-12, atol=1e-12)
        inside = (whole.edge_index[0] >= supernodes) & (whole.edge_index[0] < supernodes + alone.x.size(0))
        assert (whole.edge_index[:, inside] - supernodes).tolist() == alone.edge_index.tolist()
        nodes += int(mine.sum())
        supernodes += alone.x.size(0)
    assert supernodes == whole.x.size(0)


@given(graphs())
def test_unpool_copies_exactly(graph: Graph) -> None:
    out = make()(graph.x, graph.edge_index, graph.batch)
    back = out.unpool(out.x)
    assert back.shape == graph.x.shape
    assert torch.equal(back, out.x[out.cluster])
    assert torch.equal(out.unpool(out.batch), graph.batch)


# Examples that can be checked by hand. ψ(x_i, x_j) = x_i + x_j, b = 0, σ = identity, t = 0 unless said otherwise.


def by_hand(x: list[float], edges: list[tuple[int, int]], **options: object) -> compool.Pooled:
    pool = ComponentPooling(1, **{"score": lambda raw: raw, "threshold": 0.0, **options})
    torch.nn.init.ones_(pool.lin.weight)
    torch.nn.init.zeros_(pool.lin.bias)
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    return pool(torch.tensor(x).view(-1, 1), edge_index)


def test_by_hand_path(backend: str) -> None:
    # 0-1 scores 3, 1-2 scores 2 − 5 = −3: {0, 1} merge, w_0 = w_1 = 3, x' = 3·1 + 3·2 = 9
    out = by_hand([1.0, 2.0, -5.0], [(0, 1), (1, 0), (1, 2), (2, 1)])
    assert out.x.tolist() == [[9.0], [-5.0]]
    assert out.edge_index.tolist() == [[0, 1], [1, 0]]
    assert out.cluster.tolist() == [0, 0, 1]
    assert out.edge_score.tolist() == [3.0, 3.0, -3.0, -3.0]
    assert out.unpool(out.x).tolist() == [[9.0], [9.0], [-5.0]]


def test_by_hand_all_weights_leak(backend: str) -> None:
    # the same graph: x'_0 = S_01·1 + S_10·2 + S_21·(−5) = 3 + 6 + 15, x'_1 = S_12·2 + (−5) as node 2 is untouched
    out = by_hand([1.0, 2.0, -5.0], [(0, 1), (1, 0), (1, 2), (2, 1)], weights="all")
    assert out.x.tolist() == [[24.0], [-11.0]]


def test_by_hand_nothing_merged_changes_nothing(backend: str) -> None:
    out = by_hand([1.0, 10.0], [(0, 1), (1, 0)], threshold=100.0)
    assert out.x.tolist() == [[1.0], [10.0]]
    assert out.edge_index.tolist() == [[0, 1], [1, 0]]


def test_by_hand_only_incoming_merged_loses_the_node(backend: str) -> None:
    # one direction only: w_0 = S_01 = 3, w_1 = 0 (Eq. 3), so node 1's features are gone
    out = by_hand([1.0, 2.0], [(0, 1)])
    assert out.x.tolist() == [[3.0]]


def test_symmetric_keeps_every_node() -> None:
    # ψ = 3·x_i − 2·x_j: S_01 = 3 − 4 < 0 but S_10 = 6 − 2 > 0, so by default w_0 = 0. The mean of both is 1.5.
    edge_index, x = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1.0], [2.0]])
    for symmetric, expected in ((False, [[4.0 * 2]]), (True, [[1.5 * 1 + 1.5 * 2]])):
        pool = ComponentPooling(1, score=lambda raw: raw, threshold=0.0, symmetric=symmetric)
        pool.lin.weight.data = torch.tensor([[3.0, -2.0]])
        torch.nn.init.zeros_(pool.lin.bias)
        assert pool(x, edge_index).x.tolist() == expected


def test_a_score_on_the_threshold_does_not_merge(backend: str) -> None:
    assert by_hand([1.0, -1.0], [(0, 1), (1, 0)]).x.size(0) == 2


def test_self_loops_and_repeats_of_the_input_do_not_count(backend: str) -> None:
    once = by_hand([1.0, 2.0, -5.0], [(0, 1), (1, 0), (1, 2), (2, 1)])
    more = by_hand([1.0, 2.0, -5.0], [(0, 1), (0, 0), (1, 0), (0, 1), (1, 2), (2, 1), (2, 2), (2, 1)])
    assert more.x.tolist() == once.x.tolist()
    assert more.edge_index.tolist() == once.edge_index.tolist()
    assert more.edge_score.shape == (8,)


def test_self_loops_option_marks_supernodes_with_inner_edges(backend: str) -> None:
    out = by_hand([1.0, 2.0, -5.0], [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)], self_loops=True)
    assert out.edge_index.tolist() == [[0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("weights", ["merged", "all"])
def test_every_float_dtype(dtype: torch.dtype, weights: str, backend: str) -> None:
    pool = ComponentPooling(3, weights=weights)
    exact = copy.deepcopy(pool).to(dtype).double()
    pool = pool.to(dtype)
    edge_index = random_graph(30, 60)
    x = torch.randn(30, 3).to(dtype)
    ours_x, exact_x = x.clone().requires_grad_(), x.double().requires_grad_()
    ours, theirs = pool(ours_x, edge_index), exact(exact_x, edge_index)
    assert ours.x.dtype == dtype
    assert ours.edge_score.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.equal(ours.cluster, theirs.cluster)
    ours.x.sum().backward()
    theirs.x.sum().backward()
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(ours.x.double(), theirs.x, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(ours_x.grad.double(), exact_x.grad, rtol=2 * tolerance, atol=2 * tolerance)


def test_autocast(backend: str) -> None:
    pool, edge_index, x = ComponentPooling(3), random_graph(30, 60), torch.randn(30, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = pool(x, edge_index)
    out.x.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(pool.lin.weight.grad).all()


@pytest.mark.parametrize("layer", [ComponentPooling, compool.ClusterPooling])
def test_half_precision_features_from_an_autocast_layer(layer: type[torch.nn.Module], backend: str) -> None:
    before, pool, x = torch.nn.Linear(3, 3), layer(3), torch.randn(30, 3)
    with torch.autocast("cpu", torch.bfloat16):
        features = before(x)
        out = pool(features, random_graph(30, 60))[0]
    assert features.dtype == out.dtype == torch.bfloat16
    out.float().sum().backward()
    exact = copy.deepcopy(pool)
    again = features.detach().float().requires_grad_()
    exact.zero_grad()
    exact(again, random_graph(30, 60))[0].sum().backward()
    torch.testing.assert_close(pool.lin.weight.grad, exact.lin.weight.grad, rtol=0.02, atol=0.02)
    assert torch.isfinite(before.weight.grad).all()


def test_scores_of_half_precision_features_are_exact() -> None:
    pool = ComponentPooling(64).bfloat16()
    x, edge_index = torch.randn(500, 64).bfloat16(), random_graph(500, 4000)
    exact = copy.deepcopy(pool).double()(x.double(), edge_index).edge_score
    torch.testing.assert_close(pool(x, edge_index).edge_score.double(), exact, rtol=1e-5, atol=1e-6)


def test_int32_edges(backend: str) -> None:
    pool, edge_index, x = make(), random_graph(30, 60), torch.randn(30, 3, dtype=torch.float64)
    a, b = pool(x, edge_index), pool(x, edge_index.int())
    assert b.edge_index.dtype == torch.int32
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.edge_index, b.edge_index.long())


def test_dropout_only_in_training() -> None:
    pool, edge_index, x = make(dropout=0.5), random_graph(40, 80), torch.randn(40, 3, dtype=torch.float64)
    pool.eval()
    assert torch.equal(pool(x, edge_index).edge_score, pool(x, edge_index).edge_score)
    kept = pool(x, edge_index).edge_score
    pool.train()
    dropped = torch.cat([pool(x, edge_index).edge_score for _ in range(50)])
    assert 0.45 < (dropped == 0).double().mean() < 0.55
    # what is kept has its raw score doubled
    raw = torch.atanh(dropped) / torch.atanh(kept).repeat(50)
    assert set(raw.round(decimals=6).abs().tolist()) == {0.0, 2.0}


def test_symmetric_dropout_takes_both_directions_or_neither() -> None:
    pairs = torch.combinations(torch.arange(40)).t()
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    pool, x = make(dropout=0.25, symmetric=True), torch.randn(40, 3, dtype=torch.float64)
    masks = []
    for _ in range(20):
        forth, back = (pool(x, edge_index).edge_score == 0).view(2, -1)
        assert torch.equal(forth, back)
        masks.append(forth)
    dropped = torch.stack(masks).double()
    assert abs(dropped.mean() - 0.25) < 0.02
    assert dropped.std(0).mean() > 0.3  # another draw each time


@pytest.mark.parametrize("score", ["tanh", "sigmoid", "hardtanh"])
@pytest.mark.parametrize("weights", ["merged", "all"])
def test_symmetric_scores_are_equal_to_the_bit(score: str, weights: str, backend: str) -> None:
    pool = ComponentPooling(5, score, symmetric=True, weights=weights)
    for num_nodes in range(3, 30):  # torch computes the last entries of a tensor in another way
        pairs = torch.combinations(torch.arange(num_nodes)).t()
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
        forth, back = pool(torch.randn(num_nodes, 5), edge_index).edge_score.view(2, -1)
        assert torch.equal(forth, back)


def test_extreme_raw_scores_have_finite_gradients(backend: str) -> None:
    pool, x = ComponentPooling(1, "sigmoid", threshold=0.0, weights="all"), torch.tensor([[-1e4], [1e4]])
    x.requires_grad_()
    pool(x, torch.tensor([[0, 0], [1, 0]])).edge_score.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_threshold_is_compared_in_the_dtype_of_the_scores(backend: str) -> None:
    edge_index, tenth = torch.tensor([[0], [1]]), torch.tensor([0.1])  # a little above 0.1 in float64
    assert compool.ops.select(tenth, edge_index, 2, 0.1).merged.tolist() == [False]


def test_a_score_with_parameters_is_registered_once() -> None:
    pool = ComponentPooling(3, score=torch.nn.PReLU(), threshold=0.0)
    assert list(pool.state_dict()) == ["score.weight", "lin.weight", "lin.bias"]
    pool(torch.randn(9, 3), random_graph(9, 20)).x.sum().backward()
    assert pool.score.weight.grad is not None


def test_batch_none_is_one_graph(backend: str) -> None:
    pool, edge_index, x = make(), random_graph(30, 20), torch.randn(30, 3, dtype=torch.float64)
    out = pool(x, edge_index)
    assert out.batch.tolist() == [0] * out.x.size(0)


def test_no_nodes(backend: str) -> None:
    out = make()(torch.empty(0, 3, dtype=torch.float64), torch.empty(2, 0, dtype=torch.long))
    assert out.x.shape == (0, 3)
    assert out.edge_index.shape == (2, 0)


def test_input_is_not_changed(backend: str) -> None:
    x, edge_index = torch.randn(30, 3, dtype=torch.float64), random_graph(30, 60)
    kept_x, kept_edges = x.clone(), edge_index.clone()
    x.requires_grad_()
    make()(x, edge_index).x.sum().backward()
    assert torch.equal(x, kept_x)
    assert torch.equal(edge_index, kept_edges)


def test_gradients_add_up_when_x_is_used_elsewhere_too() -> None:
    pool, edge_index = make(), random_graph(30, 60)
    x = torch.randn(30, 3, dtype=torch.float64, requires_grad=True)
    (alone,) = torch.autograd.grad(pool(x, edge_index).x.sum(), x)
    (both,) = torch.autograd.grad(pool(x, edge_index).x.sum() + (x * 2).sum(), x)
    torch.testing.assert_close(both, alone + 2)


def test_state_and_repr() -> None:
    pool = ComponentPooling(16, threshold=0.25, weights="all", symmetric=True, dropout=0.1, self_loops=True)
    expected = "16, score=tanh, threshold=0.25, weights=all, symmetric=True, dropout=0.1, self_loops=True"
    assert repr(pool) == f"ComponentPooling({expected})"
    assert repr(ComponentPooling(16)) == "ComponentPooling(16, score=tanh, threshold=0)"
    assert sum(p.numel() for p in pool.parameters()) == 33
    before = pool.lin.weight.clone()
    pool.reset_parameters()
    assert not torch.equal(before, pool.lin.weight)


def test_assumptions_hold() -> None:
    """The strategy reaches what the tests above are about."""
    seen = set()

    @given(graphs())
    def collect(graph: Graph) -> None:
        edges = list(zip(*graph.edge_index.tolist(), strict=True))
        assume(edges)
        seen.update(["self-loop"] if any(i == j for i, j in edges) else [])
        seen.update(["repeat"] if len(set(edges)) < len(edges) else [])
        seen.update(["directed"] if any((j, i) not in edges for i, j in edges) else ["undirected"])
        seen.update(["isolated"] if len({end for edge in edges for end in edge}) < graph.x.size(0) else [])
        seen.update(["unsorted"] if edges != sorted(edges) else [])

    collect()
    assert seen == {"self-loop", "repeat", "directed", "undirected", "isolated", "unsorted"}

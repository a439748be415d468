"""The GPU kernels against the plain torch operations: on a GPU, or else under Triton's interpreter."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # numpy's, in the interpreter: infinity is meant
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

from compool.ops import _cuda, _torch  # noqa: E402
from compool.ops._cuda import launch, steps  # noqa: E402
from tests.graphs import SHAPES, batch_around, path, random_graph, star  # noqa: E402
from tests.ops.kernels import both, check_pool, same  # noqa: E402
from tests.ops.test_path import visited  # noqa: E402

gpu = partial(both, _cuda.KERNELS, _torch.KERNELS)
# The interpreter is slow: it gets paths of 100 nodes, and no large graph
INTERPRETED = {name: shape for name, shape in SHAPES.items() if shape[0] < 100} | {
    "path": (100, path(100)),
    "path, backwards": (100, path(100).flip(0, 1)),
    "star": (100, star(100)),
    "dense": (80, random_graph(80, 600)),
    "no edges": (40, torch.empty(2, 0, dtype=torch.long)),
}
SMALL = SHAPES if DEVICE == "cuda" else INTERPRETED


TOLERANCE: dict[torch.dtype, dict[str, float]] = {  # of sums in another order
    torch.float16: {"rtol": 0.01, "atol": 0.01},
    torch.bfloat16: {"rtol": 0.05, "atol": 0.05},
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
}


def check_all(edge_index: torch.Tensor, num_nodes: int, dtype: torch.dtype = torch.float64, channels: int = 5) -> None:
    edge_index = edge_index.to(DEVICE)
    wide = torch.promote_types(dtype, torch.float32)
    x = torch.randn(num_nodes, channels, dtype=dtype, device=DEVICE)
    ends, bias = torch.randn(2, num_nodes, dtype=wide, device=DEVICE), torch.ones(1, dtype=wide, device=DEVICE)
    batch = batch_around(edge_index, num_nodes)
    score = gpu("score", ends, edge_index, bias).tanh()
    gpu("sum_ends", score, edge_index, num_nodes)
    for self_loops in (False, True):
        found = gpu("coarsen", score, edge_index, num_nodes, 0.3, batch, self_loops)
    gpu("coarsen", score, edge_index, num_nodes, -2.0, None, False)
    merged, _, cluster, first, alone, _, _ = found
    num_clusters = first.numel()
    gpu("components", edge_index, merged, num_nodes)
    for scores in (score, score.round(decimals=1)):  # many equal ones
        for mask in (None, merged):
            gpu("forest", scores, edge_index, mask, num_nodes)
    _, counted = gpu("select", score, edge_index, num_nodes, 0.3, batch)
    gpu("ratio", score, edge_index, counted, num_nodes, batch, 0.5)
    for loops in ((False, False), (True, False), (True, True)):
        gpu("connect", edge_index, cluster, num_clusters, *loops)
    weight = torch.randn(num_nodes, dtype=wide, device=DEVICE)
    grad = torch.randn(num_clusters, channels, dtype=dtype, device=DEVICE)
    for source, target, factor in ((None, cluster, weight), (edge_index[0], cluster[edge_index[1]], score)):
        for mask in (None, alone) if source is None else (None,):
            gpu("row_sum", x, factor, source, target, num_clusters, mask)
        gpu("row_sum_backward", grad, x, factor, source, target)
    if num_nodes:
        check_pool(_cuda.KERNELS, x, edge_index, batch)
    channel = torch.rand(1, channels, dtype=wide, device=DEVICE)
    gpu("edge_distance", x, edge_index, channel, None)
    check_distance_backward(score, x, edge_index, channel, None)
    gpu("edge_moments", x, edge_index, counted, None, 1)
    check_observe(x, edge_index)
    group, rows = batch.long() % 3, torch.rand(3, channels, dtype=wide, device=DEVICE)  # no edge joins two
    gpu("edge_distance", x, edge_index, rows, group)
    check_distance_backward(score, x, edge_index, rows, group)
    gpu("edge_moments", x, edge_index, counted, group, 3)


def check_observe(x: Tensor, edge_index: Tensor) -> None:
    """Running statistics, with a channel whose ends never differ, and with NaN."""
    x, wide = x.clone(), torch.promote_types(x.dtype, torch.float32)
    x[:, 0] = 1.0
    broken = x.clone()
    broken[1:2] = float("nan")
    for features in (x, broken):
        given = (features, edge_index, torch.randn(x.size(1), dtype=wide, device=DEVICE))
        results = []
        for kernels in (_cuda.KERNELS, _torch.KERNELS):
            mean, variance = torch.full_like(given[2], 2.0), torch.full_like(given[2][:1], 3.0)
            num_batches = torch.full((), 4, device=DEVICE)
            found = kernels.observe(*given, mean, variance, num_batches)
            results.append((*found, mean, variance, num_batches))
        same(*results, **TOLERANCE[wide], equal_nan=True)


def test_statistics_that_overflow_in_half_precision_stay_as_they_are() -> None:
    x = 400 * torch.randn(6, 3, dtype=torch.float16, device=DEVICE)
    logit = torch.zeros(3, dtype=torch.float16, device=DEVICE)
    mean, variance = torch.ones_like(logit), torch.ones_like(logit[:1])
    num_batches = torch.zeros((), dtype=torch.long, device=DEVICE)
    edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], device=DEVICE)
    for kernels in (_cuda.KERNELS, _torch.KERNELS):
        kernels.observe(x, edge_index, logit, mean, variance, num_batches)
        assert (mean.tolist(), variance.tolist(), int(num_batches)) == ([1.0, 1.0, 1.0], [1.0], 0)


def check_distance_backward(grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> None:
    """The gradient of `x` is added to what is there."""
    ours, theirs = x.clone(), x.clone()
    of_weight = _cuda.KERNELS.edge_distance_backward(grad, x, edge_index, weight, group, ours)
    expected = _torch.KERNELS.edge_distance_backward(grad, x, edge_index, weight, group, theirs)
    torch.testing.assert_close((of_weight, ours), (expected, theirs), **TOLERANCE[x.dtype])


@pytest.mark.parametrize("scores", ["random", "tied"])
@pytest.mark.parametrize("shape", INTERPRETED)
def test_graded_weights(shape: str, scores: str) -> None:
    """Shares and gradients, by supernode and all in one, against a single list of merges; some edges are padding."""
    number, edge_index = INTERPRETED[shape]
    edge_index = edge_index.to(DEVICE)
    grade = torch.rand(edge_index.size(1), device=DEVICE)
    grade = grade if scores == "random" else grade.mul(4).round().div(4)
    merged, factor = grade > 0.2, torch.randn(number, device=DEVICE)
    positions = _torch.forest(grade, edge_index, merged, number)
    tree = _torch.merge_tree(edge_index[:, positions], number, None)
    share = _torch.graded_share(grade[positions], *tree, None, 1.0)
    gradient = _torch.graded_share_backward(factor, *tree, None)

    cluster, first, _ = _torch.components(edge_index, merged, number)
    supernode, by_supernode = cluster[edge_index[0, positions]].sort(stable=True)
    starts = torch.searchsorted(supernode, torch.arange(first.numel() + 1, device=DEVICE))
    count, pad = positions.numel(), partial(torch.nn.functional.pad, pad=(0, 3))
    all_in_one = (torch.arange(count, device=DEVICE), torch.tensor([0, count, count], device=DEVICE))
    for order, tree_ptr in ((by_supernode, starts), all_in_one):
        listed = positions[order]
        tree = (*_cuda.merge_tree(pad(edge_index[:, listed]), number, tree_ptr), tree_ptr)
        torch.testing.assert_close(_cuda.graded_share(pad(grade[listed]), *tree, 1.0), share)
        padded = _cuda.graded_share_backward(factor, *tree)
        torch.testing.assert_close(padded[:count], gradient[order], rtol=1e-5, atol=1e-5)
        assert not padded[count:].any()


def test_keys() -> None:
    key = torch.tensor([1, -2, 7, 2**40], device=DEVICE)
    gpu("fold_key", key, None, 7)
    gpu("fold_key", key, torch.tensor(2**33, device=DEVICE), 0)
    gpu("fold_key", key, torch.arange(key.size(0), device=DEVICE), 0)
    gpu("fold_key", key.unsqueeze(1), torch.arange(5, device=DEVICE), 0)


def undirected(edge_index: torch.Tensor) -> torch.Tensor:
    return torch.unique(torch.cat([edge_index, edge_index.flip(0)], 1), dim=1)


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("order", ["as it is", "sorted"])
def test_shapes(shape: str, order: str) -> None:
    num_nodes, edge_index = SMALL[shape]
    check_all(undirected(edge_index) if order == "sorted" else edge_index, num_nodes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("channels", [1, 130])
def test_precisions_and_widths(dtype: torch.dtype, channels: int) -> None:
    check_all(undirected(random_graph(60, 50)), 60, dtype, channels)


def test_int32_edges_and_strides() -> None:
    edge_index = undirected(random_graph(60, 50))
    check_all(edge_index.int(), 60)
    check_all(edge_index.t().contiguous().t(), 60)


def test_a_table_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain operations take over."""
    monkeypatch.setattr(launch, "TABLE", 16)
    check_all(undirected(random_graph(100, 300)), 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": [[0, 1], [1, 9]]}, r"edge_index must lie in 0\.\.3 for 4 nodes, got 9"),
        ({"edge_index": [[-1, 0], [1, 1]]}, r"edge_index must lie in 0\.\.3 for 4 nodes, got -1"),
        ({"score": [0.5, float("nan")]}, r"the score of edge 1 \(of 2\) is NaN"),
        ({"batch": [0, 1, 0, 1]}, "batch must be sorted, but node 1 is in graph 1 and node 2 in 0"),
    ],
)
def test_errors_are_those_of_the_cpu(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"score": [0.5, 0.5], "edge_index": [[0, 1], [1, 0]], "batch": [0, 0, 1, 1]} | change
    score, edge_index, batch = (torch.tensor(given[name], device=DEVICE) for name in ("score", "edge_index", "batch"))
    for step, rest in ((steps.coarsen, (batch, False)), (steps.select, (batch,))):
        with pytest.raises(ValueError, match=message):
            step(score, edge_index, 4, 0.0, *rest)
    if "edge_index" in change:
        with pytest.raises(ValueError, match=message):
            steps.components(edge_index, torch.ones(2, dtype=torch.bool, device=DEVICE), 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.uint8, torch.int32, torch.int64])
def test_forests_of_other_weights(dtype: torch.dtype) -> None:
    """Ties, infinities, the lowest and the highest integers, repeats and self-loops."""
    edge_index = random_graph(40, 150).to(DEVICE)
    levels = torch.tensor([-torch.inf, -2.0, -0.0, 0.0, 1e-7, 3.0, torch.inf], dtype=torch.float64)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        levels = torch.tensor([info.min, info.min + 1, 3, 4, info.max - 1, info.max])
    weight = levels[torch.randint(len(levels), (150,))].to(dtype).to(DEVICE)
    gpu("forest", weight, edge_index, None, 40)
    gpu("forest", weight, edge_index, weight != weight[0], 40)
    gpu("forest", torch.full_like(weight, levels[0].item()), edge_index, None, 40)


def test_errors_of_forests_are_those_of_the_cpu() -> None:
    weight, edge_index = torch.tensor([0.5, torch.nan], device=DEVICE), torch.tensor([[0, 1], [1, 9]], device=DEVICE)
    with pytest.raises(ValueError, match=r"the weight of edge 1 \(of 2\) is NaN"):
        _cuda.forest(weight, edge_index % 4, None, 4)
    for num_nodes in (0, 4):
        with pytest.raises(
            ValueError, match=rf"edge_index must lie in 0\.\.{num_nodes - 1} for {num_nodes} nodes, got 9"
        ):
            _cuda.forest(torch.ones_like(weight), edge_index, None, num_nodes)


def test_half_precision_sums_in_float32() -> None:
    x = torch.cat([torch.tensor([[4096.0]]), torch.ones(512, 1)]).half().to(DEVICE)  # 4096 + 1 is 4096 in float16
    target = torch.zeros(513, dtype=torch.long, device=DEVICE)
    out = _cuda.row_sum(x, torch.ones(513, device=DEVICE), None, target, 1, None)
    assert out.tolist() == [[4608.0]]


def test_too_many_edges_or_nodes() -> None:
    edges = torch.empty(2, 1, dtype=torch.int32, device=DEVICE).expand(2, 2**31)  # no memory behind it
    mask = torch.empty(0, dtype=torch.bool, device=DEVICE)
    with pytest.raises(ValueError, match="edge_index has 2147483648 edges; the GPU kernels take fewer than 2³¹"):
        steps.components(edges, mask, 4)
    with pytest.raises(ValueError, match="x has 2147483648 nodes; the GPU kernels take fewer than 2³¹"):
        steps.components(edges[:, :1], mask, 2**31)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 130])
def test_merge_pairs(dtype: torch.dtype, channels: int) -> None:
    x = torch.randn(61, channels, dtype=dtype, device=DEVICE)
    pair = (torch.randperm(61) // 2).to(DEVICE)
    for capacity in (61, 21):  # more supernodes than there are, or fewer: those are left out
        score = torch.randn(capacity, dtype=torch.promote_types(dtype, torch.float32), device=DEVICE)
        gpu("merge_pairs", x, score, pair)
        gpu("merge_pairs_backward", torch.randn(capacity, channels, dtype=dtype, device=DEVICE), x, score, pair)


def test_what_is_left_out_stays_out() -> None:
    x, pair, score = torch.randn(5, 3, device=DEVICE), torch.tensor([2, 0, 1, 0, 1], device=DEVICE), torch.ones(2)
    x[0] = torch.nan
    for module in (_torch, _cuda):
        assert not module.merge_pairs(x, score.to(DEVICE), pair).isnan().any()
        grad_x, grad_score = module.merge_pairs_backward(x[1:3], x, score.to(DEVICE), pair)
        assert not grad_x.isnan().any()
        assert not grad_score.isnan().any()


def test_the_way_to_the_kernels_is_short() -> None:
    """Beyond what `test_path` counts for both devices, and without the interpreter's own calls."""
    x, edge_index = torch.randn(3, 4, device=DEVICE), torch.tensor([[0, 1], [1, 0]], device=DEVICE)
    halves, bias = torch.randn(2, 4, device=DEVICE), torch.zeros(1, device=DEVICE)
    path = visited(lambda: _cuda.KERNELS.pool(x, halves, bias, None, edge_index, None, "tanh", 0.0, False, None))
    names = {name for file, name in path if "_cuda" in file and "kernels.py" not in file}
    assert names == {"pool", "strided", "check_nodes", "tiles", "launch"}

"""The GPU kernels of replicas against the plain torch operations, with rows that belong to no replica: on a GPU, or
else under Triton's interpreter.
"""

from functools import partial

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")  # numpy's, in the interpreter: hashes wrap

from compool.replicas.kernels import _cuda, _torch  # noqa: E402
from tests.graphs import clique, flat_set, star  # noqa: E402
from tests.ops.kernels import both  # noqa: E402
from tests.ops.test_triton import DEVICE, INTERPRETED, undirected  # noqa: E402

PTR = torch.tensor([0, 70, 70, 71, 150], device=DEVICE)  # four replicas, one without rows; rows after 150 are of none
KEY, PROBABILITY = torch.tensor([1, -2, 7, 2**40], device=DEVICE), torch.tensor([0.1, 0.5, 0.0, 0.75], device=DEVICE)
NUMBER = 165
gpu = partial(both, _cuda.KERNELS, _torch.KERNELS)


def rows(width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(NUMBER, width, dtype=dtype, device=DEVICE)
    x[150:] = 0
    return x


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 5), (5, 2), (33, 20), (16, 130), (130, 3)])
def test_products(inputs: int, outputs: int) -> None:
    x, grad = rows(inputs), rows(outputs)
    weight = torch.randn(4, outputs, inputs, device=DEVICE)
    close = {"rtol": 1e-5, "atol": 1e-5}
    gpu("grouped_linear", x, weight, None, PTR, **close)
    gpu("grouped_linear", x, weight, torch.randn(4, outputs, device=DEVICE), PTR, **close)
    gpu("grouped_linear", grad, weight.transpose(1, 2), None, PTR, **close)
    bias = torch.randn(4, outputs, device=DEVICE)
    for onto, key in ((None, None), (rows(outputs), None), (rows(outputs), KEY)):
        gpu("linear_activate", x, weight, onto, bias, PTR, key, PROBABILITY, **close)
    gpu("grouped_outer", grad, x, PTR, True, **close)
    gpu("grouped_outer", grad, x, PTR, False, **close)


def test_products_of_long_segments() -> None:
    """More rows than a program takes."""
    ptr = torch.tensor([0, 1100, 1100, 1105], device=DEVICE)
    x, grad = torch.randn(1110, 5, device=DEVICE), torch.randn(1110, 3, device=DEVICE)
    weight, bias = torch.randn(3, 3, 5, device=DEVICE), torch.randn(3, 3, device=DEVICE)
    close = {"rtol": 1e-5, "atol": 1e-4}
    gpu("grouped_linear", x, weight, bias, ptr, **close)
    gpu("linear_activate", x, weight, grad, bias, ptr, KEY[:3], PROBABILITY[:3], **close)
    gpu("grouped_outer", grad, x, ptr, True, **close)


def test_products_in_half_precision() -> None:
    x, weight, bias = rows(20).half(), torch.randn(4, 6, 20, device=DEVICE).half(), rows(6)[:4].half()
    gpu("grouped_linear", x, weight, bias, PTR, rtol=1e-2, atol=1e-2)
    gpu("linear_activate", x, weight, rows(6).half(), bias, PTR, KEY, PROBABILITY, rtol=1e-2, atol=1e-2)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_products_of_infinity() -> None:
    x = torch.tensor([[torch.inf, 1.0], [-torch.inf, 1.1], [torch.nan, 1.0], [1.2, 0.7]], device=DEVICE)
    for bits in (0x7FFFFFFF, 0x7F800001):  # CUDA's own NaN, and one that rounding makes infinity of
        x[2, 0] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
        weight = torch.tensor([[[1.0, 2.0], [1.3, -0.4]]], device=DEVICE)
        gpu("grouped_linear", x, weight, None, torch.tensor([0, 4], device=DEVICE), equal_nan=True)


@pytest.mark.parametrize("which", [[3, 0, -1, 2, 1, 3], [-1, -1], [1], []])
@pytest.mark.parametrize("capacity", [(-1, -1), (20, 50)])
def test_gather_graphs(which: list[int], capacity: tuple[int, int]) -> None:
    given = (torch.tensor(which, dtype=torch.long), *flat_set())
    gpu("gather_graphs", *(t.to(DEVICE) for t in given), *capacity)


def test_sums_of_long_segments() -> None:
    gpu("segment_sum", torch.randn(300, 130, device=DEVICE), torch.tensor([0, 290, 300], device=DEVICE))


@pytest.mark.parametrize("width", [1, 5, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows(width: int, dtype: torch.dtype) -> None:
    x = rows(width, dtype)
    gpu("segment_sum", x, PTR)
    gpu("segment_repeat", x[:4].contiguous(), PTR, NUMBER)
    gpu("drop", x, PTR, KEY, PROBABILITY)
    scale, shift = torch.randn(2, 4, width, dtype=dtype, device=DEVICE)
    for bias, key in ((None, None), (shift, KEY)):
        out = gpu("activate", x, bias, PTR, key, PROBABILITY)
        gpu("activate_backward", rows(width, dtype), out, PTR, None if key is None else PROBABILITY)
    for relu in (False, True):
        out, mean, variance = gpu("segment_norm", x, scale, shift, PTR, 0.01, relu)
        gpu(
            "segment_norm_backward",
            rows(width, dtype),
            x,
            out,
            scale,
            mean,
            variance,
            PTR,
            0.01,
            relu,
            atol=1e-5,
            rtol=1e-4,
        )


@pytest.mark.parametrize("width", [1, 5, 130])
@pytest.mark.parametrize("shape", ["star", "dense", "long"])
def test_propagate(shape: str, width: int) -> None:
    number, edges = (INTERPRETED | {"long": (616, torch.cat([clique(105), star(616)], 1))})[shape]
    edges = undirected(edges).to(DEVICE)
    x = torch.randn(number + 3, width, device=DEVICE)
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(number + 4, device=DEVICE))
    neighbour = torch.nn.functional.pad(edges[1].int(), (0, 5))  # capacity
    left, right, own = torch.randn(3, number + 3, device=DEVICE)
    gpu("propagate", x, row_ptr, neighbour, left, right, own, rtol=1e-5, atol=1e-4)
    gpu("propagate", x, row_ptr, neighbour, None, None, None, rtol=1e-5, atol=1e-4)


def test_nan_stays_in_its_replica() -> None:
    x, weight = rows(5), torch.randn(4, 7, 5, device=DEVICE)
    x[71:150] = torch.nan
    out = _cuda.grouped_linear(x, weight, None, PTR)
    assert out[:71].isfinite().all()
    assert (out[150:] == 0).all()
    total, sums = _cuda.grouped_outer(x, x, PTR, True)
    assert total[:3].isfinite().all()
    assert sums[:3].isfinite().all()
    row_ptr = torch.arange(NUMBER + 1, device=DEVICE)  # every node is its own neighbour
    assert _cuda.propagate(x, row_ptr, row_ptr[:-1], None, None, None)[:71].isfinite().all()


@pytest.mark.parametrize("keys", ["short", "long"])
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("shape", INTERPRETED)
def test_coarsen_padded(shape: str, self_loops: bool, keys: str) -> None:
    number, edges = INTERPRETED[shape]
    edges = undirected(edges[:, edges[0] != edges[1]]).to(DEVICE)
    capacity = torch.nn.functional.pad(edges.int(), (0, 6))
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(number + 4, device=DEVICE))
    score = torch.randn(capacity.size(1), device=DEVICE)
    score[3:4] = torch.nan
    args = (score, capacity, row_ptr, 0.2, self_loops, number if keys == "short" else 2**30)
    for ours, theirs in zip(_cuda.coarsen_padded(*args), _torch.coarsen_padded(*args), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_coarsen_padded_again_on_its_result() -> None:
    edges = undirected(star(30)).to(DEVICE)
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(33, device=DEVICE))
    given = (torch.nn.functional.pad(edges.int(), (0, 6)), row_ptr)
    for _ in range(2):
        score = torch.randn(given[0].size(1), device=DEVICE)
        ours, theirs = (module.coarsen_padded(score, *given, 0.5, False, 30) for module in (_cuda, _torch))
        for one, two in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, two)
        given = (ours[4], ours[5])


@pytest.mark.parametrize("scores", ["random", "tied"])
@pytest.mark.parametrize("shape", INTERPRETED)
def test_forest_padded(shape: str, scores: str) -> None:
    number, edges = INTERPRETED[shape]
    edges = undirected(edges[:, edges[0] != edges[1]]).to(DEVICE)
    capacity = torch.nn.functional.pad(edges.int(), (0, 6))
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(number + 4, device=DEVICE))
    score = torch.randn(capacity.size(1), device=DEVICE)
    score = score if scores == "random" else score.round(decimals=0)
    gpu("forest_padded", score, capacity, row_ptr, max(number, 1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", INTERPRETED)
def test_softmax_ends(shape: str, dtype: torch.dtype) -> None:
    number, edges = INTERPRETED[shape]
    edges = undirected(edges).to(DEVICE)  # self-loops, too
    capacity = torch.nn.functional.pad(edges.int(), (0, 6))
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(number + 4, device=DEVICE))
    ends = 30 * torch.randn(2, number + 3, dtype=dtype, device=DEVICE)
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.float16 else {}
    ours, theirs = (module.softmax_ends(ends, capacity, row_ptr) for module in (_cuda, _torch))
    torch.testing.assert_close(ours, theirs, **close)
    assert not ours[edges.size(1) :].any()
    grad = torch.randn_like(ours) * (torch.rand_like(ours) < 0.3)
    ours, theirs = (m.softmax_ends_backward(grad, theirs, capacity, row_ptr) for m in (_cuda, _torch))
    torch.testing.assert_close(ours, theirs, **close)


def test_softmax_ends_keeps_nan_where_it_is() -> None:
    """A node whose score is NaN spoils the edges into its neighbours, and no others."""
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]], device=DEVICE)
    row_ptr = torch.searchsorted(edges[0].contiguous(), torch.arange(6, device=DEVICE))
    ends = torch.tensor([[torch.nan, 1, 2, 3, 4], [0.0, 0, 0, 0, 0]], device=DEVICE)
    for module in (_cuda, _torch):
        assert module.softmax_ends(ends, edges, row_ptr).isnan().tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize("scores", ["random", "tied"])
@pytest.mark.parametrize("shape", [*INTERPRETED, "several blocks"])
def test_contract_padded(shape: str, scores: str) -> None:
    number, edges = (INTERPRETED | {"several blocks": (70, clique(70))})[shape]
    edges = undirected(edges).to(DEVICE)  # self-loops, too
    two = torch.cat([edges, edges + number], 1)  # two graphs, and one without nodes between them
    capacity = torch.nn.functional.pad(two.int(), (0, 6))
    row_ptr = torch.searchsorted(two[0].contiguous(), torch.arange(2 * number + 4, device=DEVICE))
    score = torch.randn(capacity.size(1), device=DEVICE)
    score = score if scores == "random" else score.round(decimals=0)
    args = (score, capacity, row_ptr, torch.tensor([0, number, number, 2 * number], device=DEVICE), number)
    for ours, theirs in zip(_cuda.contract_padded(*args), _torch.contract_padded(*args), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_products_honour_what_torch_was_told() -> None:
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    try:
        for precision, expected in (("tf32", "tf32"), ("ieee", "tf32x3")):
            settings.fp32_precision = precision  # from now on, reading allow_tf32 raises
            assert _cuda._precision() == expected
    finally:
        settings.fp32_precision = before

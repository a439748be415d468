"""Errors name the argument, what was given and what is allowed."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from compool import ComponentPooling, connected_components, hierarchy, ops

GOOD = {
    "x": torch.randn(4, 3),
    "edge_index": torch.tensor([[0, 1], [1, 0]]),
    "batch": torch.tensor([0, 0, 1, 1]),
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": torch.randn(4, 2)}, ValueError, r"x must have shape \[nodes, 3\].*got \[4, 2\]"),
        ({"x": torch.tensor(1.0)}, ValueError, r"x must have shape \[nodes, 3\].*got \[\]"),
        ({"x": torch.randn(4)}, ValueError, r"x must have shape \[nodes, 3\].*got \[4\]"),
        ({"x": torch.ones(4, 3).long()}, TypeError, "x must be of a float dtype, got torch.int64"),
        ({"x": torch.randn(4, 3).double()}, TypeError, "x is torch.float64, but the layer is torch.float32"),
        ({"x": torch.randn(4, 3, device="meta")}, ValueError, "x is on meta, but the layer is on cpu"),
        (
            {"edge_index": torch.zeros(4, 2).long()},
            ValueError,
            r"edge_index must have shape \[2, edges\], got \[4, 2\]",
        ),
        (
            {"edge_index": torch.zeros(2, 2)},
            TypeError,
            "edge_index must be torch.int64 or torch.int32, got torch.float32",
        ),
        (
            {"edge_index": torch.tensor([[0], [4]])},
            ValueError,
            r"edge_index must lie in 0\.\.3 for 4 nodes, got 4",
        ),
        (
            {"edge_index": torch.tensor([[0], [-2]])},
            ValueError,
            r"edge_index must lie in 0\.\.3 for 4 nodes, got -2",
        ),
        (
            {"edge_index": torch.zeros(2, 1, device="meta").long()},
            ValueError,
            "edge_index is on meta, but x is on cpu",
        ),
        ({"batch": torch.tensor([0, 0, 1])}, ValueError, r"batch must have shape \[4\].*got \[3\]"),
        (
            {"batch": torch.tensor([0, 1, 0, 1])},
            ValueError,
            "batch must be sorted, but node 1 is in graph 1 and node 2 in 0",
        ),
        ({"batch": torch.zeros(4)}, TypeError, "batch must be torch.int64 or torch.int32, got torch.float32"),
        ({"batch": torch.zeros(4, device="meta").long()}, ValueError, "batch is on meta, but x is on cpu"),
        (
            {"batch": torch.tensor([-1, 0, 0, 0])},
            ValueError,
            "batch must hold graph indices from 0 up; node 0 is in graph -1",
        ),
        (
            {"batch": torch.tensor([0, 1, 1, 1])},
            ValueError,
            "but according to batch, edge 0 joins node 0 of graph 0 and node 1 of graph 1",
        ),
        ({"x": [[1.0, 2.0, 3.0]]}, TypeError, "x must be a tensor, got list"),
        ({"batch": torch.zeros(4).long().to_sparse()}, TypeError, "batch must be a dense tensor, got layout"),
        ({"x": torch.full((4, 3), math.nan)}, ValueError, r"the score of edge 0 \(of 2\) is NaN"),
    ],
)
def test_bad_input(change: dict[str, Tensor], error: type[Exception], message: str, backend: str) -> None:
    with pytest.raises(error, match=message):
        ComponentPooling(3)(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"in_channels": "16"}, "in_channels must be a whole number, at least 1; got '16'"),
        ({"in_channels": 0}, "in_channels must be a whole number, at least 1; got 0"),
        ({"score": "relu"}, "score must be 'tanh', 'sigmoid', 'hardtanh' or a callable, got 'relu'"),
        ({"weights": "some"}, "weights must be 'merged' or 'all', got 'some'"),
        ({"threshold": 1.5}, r"threshold must lie in -1\.\.1, the range of tanh; got 1.5"),
        (
            {"score": "sigmoid", "threshold": -0.1},
            r"threshold must lie in 0\.\.1, the range of sigmoid; got -0.1",
        ),
        ({"score": torch.relu}, "threshold must be a finite number when score is a callable, got None"),
        ({"score": ["tanh"]}, r"score must be 'tanh', 'sigmoid', 'hardtanh' or a callable, got \['tanh'\]"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": "a"}, "dropout must be at least 0 and below 1, got 'a'"),
        ({"edge_dim": 2.5}, "edge_dim must be a whole number, at least 1; got 2.5"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComponentPooling(**{"in_channels": 3, **settings})


@pytest.mark.parametrize(
    "wrong", [lambda raw: raw[:1], lambda raw: raw > 0, lambda raw: raw.sum(), lambda raw: raw[:, None]]
)
def test_a_score_that_returns_something_else(wrong: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(
        ValueError, match=r"score must return a float for each edge, here torch.float32 \[2\]; it returned"
    ):
        ComponentPooling(3, score=wrong, threshold=0.0)(GOOD["x"], GOOD["edge_index"])


def test_the_meta_device() -> None:
    with pytest.raises(ValueError, match="x is on the meta device, which has no values to score edges by"):
        ComponentPooling(3).to("meta")(torch.empty(4, 3, device="meta"), GOOD["edge_index"].to("meta"))


def test_unpool_of_the_wrong_size() -> None:
    out = ComponentPooling(3)(torch.randn(4, 3), GOOD["edge_index"])
    with pytest.raises(ValueError, match="one per supernode"):
        out.unpool(torch.randn(9, 3))


def test_counts_per_graph_of_too_few_graphs() -> None:
    out = ComponentPooling(3)(torch.randn(2, 3), torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"batch must lie in 0\.\.0 for batch_size=1, got 1"):
        out.kept_per_graph(1)
    assert out.kept_per_graph(3).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_clusters_out_of_range(dtype: torch.dtype) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        ops.lift(torch.ones(2, 3, dtype=dtype), torch.tensor([0, 2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_defaults_of_torch_do_not_matter(dtype: torch.dtype) -> None:
    edge_index, x = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.randn(4, 3).to(dtype).requires_grad_()
    score, batch = torch.tensor([0.5, 0.5, 0.2, 0.2]), torch.tensor([0, 0, 0, 1])
    changes: list[dict[str, Any]] = [{}, {"scorer": "similarity", "reduce": "graded"}, {"ratio": 0.5}]
    changes += [{"quantile": 0.5}, {"max_size": 2}, {"scorer": "random", "reduce": "mean"}]
    layers = [ComponentPooling(3, **change).to(dtype) for change in changes]
    torch.set_default_device("meta")
    torch.set_default_dtype(dtype)
    try:
        for layer in layers:
            out = layer(x, edge_index, batch)
            out.unpool(out.x).sum().backward()
        levels = hierarchy(edge_index, score, 4)
        results = [levels.at(0.3), levels.at_ratio(0.5), levels.merges(), levels.persistence()]
        results.append(connected_components(edge_index, 4))
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert x.grad is not None
    assert {result.device.type for result in results} == {"cpu"}
    assert results[0].tolist() == [0, 0, 1, 2]


def test_clusters_on_another_device() -> None:
    """torch's index_select returns uninitialised memory for indices on the meta device."""
    with pytest.raises(ValueError, match="cluster is on meta, but x is on cpu"):
        ops.lift(torch.ones(2, 3), torch.zeros(4, dtype=torch.long, device="meta"))

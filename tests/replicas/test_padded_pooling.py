"""Component pooling in padded unions: the numbers of unpadded ones, and nothing that a CUDA graph could not capture."""

from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from compool import nn, replicas
from compool.data import features
from compool.replicas.adam import Adam
from compool.replicas.learner import Learner, Padding
from compool.replicas.union import Capacity
from tests.replicas.batches import graph_set

WHICH = torch.tensor([[0, 3, 7, 5, 8], [6, 6, 1, -1, 2], [9, 10, 11, 0, 1]])
KEY = torch.tensor([1, 2, 3])
REDUCTIONS = ("score", "sum", "mean", "graded")
BUDGETS: dict[str, dict[str, float]] = {"threshold": {}, "ratio": {"ratio": 0.45}, "quantile": {"quantile": 0.6}}


def pooling(thresholds: tuple[float | None, ...], **settings: Any) -> replicas.StackedComponentPooling:
    dropout = 0.0 if settings["scorer"] == "random" else 0.2
    layers = [nn.ComponentPooling(5, threshold=threshold, dropout=dropout, **settings) for threshold in thresholds]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter)
    return replicas.StackedComponentPooling(layers)


def pooled(pool: torch.nn.Module, capacity: Capacity | None, x: Tensor | None = None) -> dict[str, Tensor]:
    """What a training pass of a copy returns and changes: features, gradients and running statistics."""
    pool, graphs = deepcopy(pool), graph_set()
    source = replicas.Graphs(graphs, features(graphs), dtype=torch.float64)
    own, union = source.union(WHICH, KEY, capacity)
    x = own if x is None else torch.nn.functional.pad(x, (0, 0, 0, own.size(0) - x.size(0)))
    for _ in range(2):  # moving averages of two steps
        leaf = x.clone().requires_grad_()
        out, coarse = pool(leaf, union, KEY)
    kept = coarse.ptr[-1]
    (out[:kept] * torch.arange(1.0, 6.0).double()).square().sum().backward()
    grads = {name: one.grad for name, one in pool.named_parameters() if one.grad is not None}
    rows, num_edges = WHICH.numel(), coarse.row_ptr[-1]
    return {
        **grads,
        **dict(pool.named_buffers()),
        "x": out[:kept],
        "x.grad": leaf.grad[: union.graph_ptr[-1]],
        "graphs": coarse.graph_ptr.view(rows + 1),
        "edges": coarse.edge_index[:, :num_edges],
    }


def settings(scorer: str, reduce: str, budget: str) -> dict[str, Any]:
    """Those of a layer, with or without a budget in place of thresholds."""
    if scorer == "random" and reduce in ("score", "graded"):
        pytest.skip("random scores weigh nothing")
    if reduce == "graded" and budget != "threshold":
        pytest.skip("grades need a threshold")
    thresholds = (0.1, -0.2, 0.3) if budget == "threshold" else (None,) * 3
    return {"scorer": scorer, "reduce": reduce, "thresholds": thresholds} | BUDGETS[budget]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("scorer", ["linear", "similarity", "random"])
def test_padding_changes_nothing(scorer: str, reduce: str, budget: str, backend: str) -> None:
    pool = pooling(**settings(scorer, reduce, budget)).double()
    expected = pooled(pool, None)
    for nodes, edges in ((200, 500), (80, 200)):
        found = pooled(pool, Capacity(nodes, edges))
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_nan_stays_in_its_replica(broken: int, reduce: str, backend: str) -> None:
    """Padding reads the first replica's first node, and counts as the last replica's."""
    pool, graphs = pooling((0.1,) * 3, scorer="similarity", reduce=reduce).double(), graph_set()
    x, union = replicas.Graphs(graphs, features(graphs), dtype=torch.float64).union(WHICH)
    whole = pooled(pool, Capacity(200, 500), x)
    x[union.ptr[broken] : union.ptr[broken + 1]] = torch.nan
    found = pooled(pool, Capacity(200, 500), x)
    others = [replica for replica in range(3) if replica != broken]
    for name in ("lin.bias", "similarity.logit", "similarity.mean", "similarity.variance"):
        if name in whole:
            torch.testing.assert_close(found[name][others], whole[name][others])
    for replica in others:
        rows = slice(int(union.ptr[replica]), int(union.ptr[replica + 1]))
        torch.testing.assert_close(found["x.grad"][rows], whole["x.grad"][rows])


class _NoCopies(TorchDispatchMode):
    """Refuses what a GPU could only do with a size or a number on the host."""

    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.split(".")[0].lstrip("_")
        masks = [one for one in args[1] if one is not None and one.dtype == torch.bool] if name == "index" else []
        lengths = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if any(name.startswith(one.lstrip("_")) for one in self.NAMES) or masks or lengths:
            raise AssertionError(f"{function} copies a size to the host")
        return function(*args, **kwargs or {})


@pytest.mark.filterwarnings("ignore:overflow encountered")  # numpy's, in the interpreter: hashes wrap
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("scorer", ["linear", "similarity", "random"])
def test_the_gpu_s_kernels_copy_nothing_to_the_host(
    scorer: str, reduce: str, budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Triton's interpreter: the same numbers, through operations of fixed sizes alone."""
    pytest.importorskip("triton", reason="needs triton")
    from compool.ops._cuda import KERNELS
    from compool.replicas.kernels._cuda import KERNELS as REPLICA_KERNELS

    pool, graphs = pooling(**settings(scorer, reduce, budget)), graph_set()
    x, union = replicas.Graphs(graphs, features(graphs)).union(WHICH, KEY, Capacity(80, 200))

    def step(pool: torch.nn.Module) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        out, coarse = pool(leaf, union, KEY)
        out.square().sum().backward()
        grads = [one.grad for one in pool.parameters() if one.grad is not None]
        return [out.detach(), leaf.grad, *grads, *pool.buffers(), coarse.graph_ptr, coarse.edge_index, coarse.row_ptr]

    expected = step(deepcopy(pool))
    with _NoCopies(), pytest.raises(AssertionError, match="copies a size to the host"):
        step(deepcopy(pool))  # the CPU's kernels do
    monkeypatch.setattr("compool.ops._cpu.KERNELS", KERNELS)
    monkeypatch.setattr("compool.replicas.kernels._cpu.KERNELS", REPLICA_KERNELS)
    with _NoCopies():
        found = step(pool)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(
    "settings",
    [
        {"scorer": "similarity", "reduce": "graded"},
        {"scorer": "similarity", "reduce": "mean", "merge_ratio": 0.4},
        {"scorer": "random", "reduce": "sum", "merge_ratio": 0.4},
        {"scorer": "similarity", "merge_ratio": 0.4, "merge_order": "random"},
        {"quantile": 0.5},
    ],
    ids=lambda settings: ", ".join(map(str, settings.values())),
)
def test_a_whole_step_copies_nothing_to_the_host(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward, backward and Adam, as it would be captured on a GPU."""
    pytest.importorskip("triton", reason="needs triton")
    from compool.ops._cuda import KERNELS
    from compool.replicas.kernels._cuda import KERNELS as REPLICA_KERNELS

    graphs = graph_set()
    networks = [nn.Network("PCL", 5, 8, 2, dropout=0.2, **settings) for _ in WHICH]
    source = replicas.Graphs(graphs, features(graphs))

    def stepped(guard: Any) -> list[Tensor]:
        stack = replicas.stack(deepcopy(networks))
        adam = Adam(stack, torch.full((3,), 0.01), torch.zeros(3))
        learner = Learner(stack, source, KEY, adam)
        padding = Padding(Capacity(80, 200), (), torch.zeros(0, 2, dtype=torch.long))
        with guard:
            learner.step(WHICH, padding)
        return [learner.loss, adam.mean, *stack.buffers()]  # the mean holds the gradients, before Adam divides them

    expected = stepped(nullcontext())
    monkeypatch.setattr("compool.ops._cpu.KERNELS", KERNELS)
    monkeypatch.setattr("compool.replicas.kernels._cpu.KERNELS", REPLICA_KERNELS)
    monkeypatch.setattr(replicas.Graphs, "_check", lambda *_: None)  # of the CPU alone
    for ours, theirs in zip(stepped(_NoCopies()), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)

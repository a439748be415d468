"""Kernels against the plain torch operations."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops import _torch
from compool.ops._dispatch import Kernels


def same(ours: object, theirs: object, **tolerance: float) -> None:
    ours, theirs = (value if isinstance(value, tuple) else (value,) for value in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def both(own: Any, plain: Any, name: str, *args: Any, **tolerance: float) -> Any:
    """A kernel of a table, and its plain form, which is returned."""
    theirs = getattr(plain, name)(*args)
    same(getattr(own, name)(*args), theirs, **tolerance)
    return theirs


def plain_pool(
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    term: Tensor | None,
    edge_index: Tensor,
    batch: Tensor | None,
    activation: str,
    threshold: float,
    self_loops: bool,
    ratio: float | None,
) -> tuple[Tensor, ...]:
    """All steps, one by one; differentiable."""
    ends = (halves @ x.to(halves.dtype).t()).expand(2, -1)
    raw = _torch.score(ends, edge_index, bias) + (0 if term is None else term)
    score = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "hardtanh": F.hardtanh}[activation](raw)
    found = _torch.KERNELS.coarsen(score.detach(), edge_index, x.size(0), threshold, batch, self_loops)
    merged, counted, cluster, first, alone, edges, graph = found
    if ratio is not None:
        given = (edge_index, counted, x.size(0), batch, ratio)
        merged, cluster, first, alone = _torch.ratio(score.detach(), *given)
        edges = _torch.connect(edge_index, cluster, first.size(0), self_loops, False)
        graph = torch.zeros_like(first) if batch is None else batch[first]
    weight = _torch.sum_ends(score * merged, edge_index, x.size(0))[0].masked_fill(alone, 1.0)
    out = _torch.row_sum(x, weight, None, cluster, first.size(0), None)
    return out, score, cluster, edges, graph, merged, weight


def check_pool(own: Kernels, x: Tensor, edge_index: Tensor, batch: Tensor) -> None:
    """The fused kernels against the steps, forward and backward."""
    wide = torch.promote_types(x.dtype, torch.float32)
    assert own.pool is not None
    assert own.pool_backward is not None
    term = torch.randn(x.size(0), dtype=wide, device=x.device)[edge_index].sum(0)  # the same for repeats of an edge
    for rows, activation, ratio, own_term in (
        (2, "tanh", None, None),
        (1, "sigmoid", None, None),
        (1, "tanh", 0.5, None),
        (1, "hardtanh", None, term),
        (2, "sigmoid", 0.5, term),
    ):
        halves = torch.randn(rows, x.size(1), dtype=wide, device=x.device, requires_grad=True)
        bias = torch.ones(1, dtype=wide, device=x.device, requires_grad=True)
        leaf = x.detach().requires_grad_()
        added = None if own_term is None else own_term.clone().requires_grad_()
        given = (edge_index, batch, activation, 0.3, False, ratio)
        theirs = plain_pool(leaf, halves, bias, added, *given)
        with torch.no_grad():
            ours = own.pool(x, halves.detach(), bias.detach(), own_term, *given)
        order = {} if wide == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}  # of sums
        same(ours, tuple(t.detach() for t in theirs), **order)
        out, score, cluster, _, _, merged, weight = ours
        grads = (torch.randn_like(out), torch.randn_like(score) if rows == 2 else None)
        inputs = (leaf, halves, bias) if added is None else (leaf, halves, bias, added)
        expected = torch.autograd.grad(theirs[:2] if rows == 2 else theirs[0], inputs, grads[:rows])
        if added is None:
            expected = (*expected, score.new_empty(0))
        known = (halves.detach(), edge_index, score, cluster, merged, weight, activation, added is not None)
        for a, b in zip(own.pool_backward(*grads, x, *known), expected, strict=True):
            limit = 64 * torch.finfo(x.dtype).eps * (1.0 + float(b.abs().max()) if b.numel() else 0.0)  # another order
            torch.testing.assert_close(a, b, rtol=0, atol=limit)

"""Pooling without compaction: a supernode lives in the row of its first member, and no size changes.

Nothing has to come to the host, so that a CUDA graph can capture it, forward and backward.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from compool.ops._checks import check_range, nan_score
from compool.ops._library import operator
from compool.ops.score import full_precision, scorer


def _shape(
    x: Tensor, halves: Tensor, bias: Tensor, edge_index: Tensor, row_ptr: Tensor, live: Tensor, *settings: Any
) -> tuple[Tensor, ...]:
    edge_score = halves.new_empty(edge_index.size(1))
    root = edge_index.new_empty(x.size(0), dtype=torch.long)
    flags = edge_index.new_empty(8, dtype=torch.int32)
    merged, weight = torch.empty_like(edge_score, dtype=torch.bool), halves.new_empty(x.size(0))
    edges, rows, alive = (
        edge_index.new_empty(edge_index.shape),
        row_ptr.new_empty(row_ptr.shape),
        torch.empty_like(live),
    )
    return x.new_empty(x.shape), edge_score, root, edges, rows, alive, flags, merged, weight


_pool_in_place = operator(
    "pool_in_place(Tensor x, Tensor halves, Tensor bias, Tensor edge_index, Tensor row_ptr, Tensor live,"
    " str activation, float threshold, bool self_loops)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _shape,
)
_pool_in_place_backward = operator(
    "pool_in_place_backward(Tensor grad, Tensor? grad_score, Tensor x, Tensor halves, Tensor edge_index,"
    " Tensor edge_score, Tensor root, Tensor merged, Tensor weight, Tensor row_ptr, str activation)"
    " -> (Tensor, Tensor, Tensor)",
    lambda grad, grad_score, x, halves, *rest: (
        x.new_empty(x.shape),
        halves.new_empty(halves.shape),
        halves.new_empty(1),
    ),
)


class _PoolInPlace(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        halves: Tensor,
        bias: Tensor,
        edge_index: Tensor,
        row_ptr: Tensor,
        live: Tensor,
        activation: str,
        threshold: float,
        self_loops: bool,
    ) -> tuple[Tensor, ...]:
        with full_precision(x):
            found = _pool_in_place(x, halves, bias, edge_index, row_ptr, live, activation, threshold, self_loops)
        out, edge_score, root, edges, rows, alive, flags, merged, weight = found
        ctx.activation = activation
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(root, edges, rows, alive, flags)
        ctx.save_for_backward(x, halves, edge_index, edge_score, root, merged, weight, row_ptr)
        return out, edge_score, root, edges, rows, alive, flags

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_score: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        grad = torch.zeros_like(x) if grad is None else grad
        with full_precision(x):
            grads = _pool_in_place_backward(grad, grad_score, x, *saved, ctx.activation)
        return *grads, None, None, None, None, None, None


class InPlace(NamedTuple):
    """What pooling in place made of a graph. Arrays are as long as the input's; see :meth:`compact`."""

    x: Tensor
    """Features [N, d]: those of a supernode in the row of its first member, zeros in the other rows."""
    edge_index: Tensor
    """Edges between live rows [2, E], sorted, each once: the first ``row_ptr[-1]`` of them, zeros after."""
    row_ptr: Tensor
    """Row i has the edges ``row_ptr[i]:row_ptr[i + 1]``; dead rows have none. [N + 1]."""
    live: Tensor
    """Mask [N] of the rows that hold a supernode."""
    root: Tensor
    """The row of each node's supernode [N]."""
    edge_score: Tensor
    """The score of each edge of the input [E]; what stands where there is no edge means nothing."""
    flags: Tensor
    """What was wrong with the input, for :meth:`check`; int32 [8]."""

    def unpool(self, x: Tensor) -> Tensor:
        """Give every node the features `x` [N, *] of its supernode; [N, *]."""
        return x.index_select(0, self.root)

    def compact(self) -> tuple[Tensor, Tensor, Tensor]:
        """Features [K, d], edges [2, E'] and clusters [N] as the default has them. Sizes come to the host."""
        rank = torch.cumsum(self.live, 0) - 1
        edge_index = rank[self.edge_index[:, : int(self.row_ptr[-1])]].to(self.edge_index.dtype)
        return self.x[self.live], edge_index, rank[self.root]

    def check(self, edge_index: Tensor) -> None:
        """Raise what was wrong with the input, whose edges must be given again. The flags come to the host."""
        _, _, out_of_range, nan, unsorted, *_ = self.flags.tolist()
        if out_of_range:
            check_range(edge_index, self.x.size(0))
        if nan:
            raise nan_score(self.edge_score)
        if unsorted:
            raise ValueError(
                "edge_index must be sorted by source, then target, with no edge twice; coalesce() does that"
            )


def row_pointer(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin, of edges sorted by source; [N + 1]. Nothing comes to the host.

    Example:
        >>> row_pointer(torch.tensor([[0, 0, 2], [1, 2, 0]]), num_nodes=3)
        tensor([0, 2, 2, 3])
    """
    nodes = torch.arange(num_nodes + 1, device=edge_index.device, dtype=edge_index.dtype)
    return torch.searchsorted(edge_index[0].contiguous(), nodes)


def pool_in_place(
    x: Tensor,
    edge_index: Tensor,
    row_ptr: Tensor,
    live: Tensor,
    weight: Tensor,
    bias: Tensor,
    activation: str = "tanh",
    threshold: float = 0.0,
    symmetric: bool = False,
    self_loops: bool = False,
) -> InPlace:
    """:func:`pool` without compaction, on a graph that may itself have dead rows and room for more edges.

    Args:
        x: features [N, d].
        edge_index: edges [2, E], sorted, each once; only the first ``row_ptr[-1]`` are edges.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        live: mask [N] of the rows that are nodes; the others must have no edges.
        weight: the scorer's linear map [1, 2d].
        bias: the scorer's bias [1].
        activation: ``"tanh"`` or ``"sigmoid"``.
        threshold: merge the edges that score above it.
        symmetric: score both directions of an edge by the mean of their raw scores.
        self_loops: keep the edges inside supernodes as self-loops.

    Example:
        >>> x, edge_index = torch.tensor([[1.0], [10.0], [5.0]]), torch.tensor([[0, 1], [1, 0]])
        >>> live = torch.ones(3, dtype=torch.bool)
        >>> scorer = torch.tensor([[1.0, 0.0]]), torch.tensor([0.0])
        >>> found = pool_in_place(x, edge_index, row_pointer(edge_index, 3), live, *scorer)
        >>> found.x.squeeze(1), found.live, found.root
        (tensor([10.7616,  0.0000,  5.0000]), tensor([ True, False,  True]), tensor([0, 0, 2]))
    """
    halves, bias = scorer(x, weight, bias, symmetric)
    settings = (activation, threshold, self_loops)
    found = _PoolInPlace.apply(x, halves, bias, edge_index, row_ptr, live, *settings)
    out, edge_score, root, edges, rows, alive, flags = found
    return InPlace(out, edges, rows, alive, root, edge_score, flags)

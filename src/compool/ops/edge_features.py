"""Edge features: their part of the scores, and their reduction when supernodes are connected."""

import math

import torch
from torch import Tensor

from compool.ops.components import Components
from compool.ops.score import full_precision


def score_edges(edge_attr: Tensor, edge_index: Tensor, weight: Tensor, num_nodes: int, symmetric: bool) -> Tensor:
    r"""The term that each edge's features add to its raw score: their product with the last columns of :math:`\psi`.

    Args:
        edge_attr: features of the edges [E, edge_dim].
        edge_index: edges [2, E].
        weight: the columns of :math:`\psi` for edge features, [1, edge_dim].
        num_nodes: number of nodes N.
        symmetric: use the mean of both directions of an edge, where both exist.

    Returns:
        One term per edge [E], float32 or wider.

    Example:
        >>> edge_attr, edge_index = torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([[0, 1, 1], [1, 0, 2]])
        >>> score_edges(edge_attr, edge_index, torch.tensor([[2.0]]), num_nodes=3, symmetric=True)
        tensor([ 4.,  4., 10.])
    """
    dtype = torch.promote_types(edge_attr.dtype, torch.float32)
    with full_precision(edge_attr):
        term = edge_attr.to(dtype) @ weight.view(-1).to(dtype)
    return (term + term[_reverse(edge_index, num_nodes)]) / 2 if symmetric else term


def _reverse(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The first position of each edge's reverse [E]; an edge without a reverse has its own position."""
    source, target = edge_index.long()
    key, wanted = source * num_nodes + target, target * num_nodes + source
    own_position = torch.arange(key.size(0), device=key.device)
    ordered, order = torch.sort(key, stable=True)
    position = torch.searchsorted(ordered, wanted).clamp(max=max(key.size(0) - 1, 0))
    return torch.where(ordered[position] == wanted, order[position], own_position) if key.size(0) else own_position


def connect_features(
    edge_attr: Tensor, edge_index: Tensor, counted: Tensor, parts: Components, coarse: Tensor, reduce: str = "sum"
) -> Tensor:
    """The features of the edges between supernodes, reduced from the features of the edges between their members.

    Self-loops of the input and repeated edges do not count.

    Args:
        edge_attr: features of the edges [E, …].
        edge_index: edges [2, E].
        counted: mask [E] of the edges that count; see :func:`~compool.ops.select`.
        parts: the supernodes.
        coarse: the edges between supernodes [2, E'], as :func:`~compool.ops.connect` returns them.
        reduce: ``"sum"``, ``"mean"`` or ``"max"``.

    Returns:
        Features [E', …].

    Example:
        >>> from compool.ops import components, connect
        >>> edge_index = torch.tensor([[0, 0, 1], [1, 2, 2]])  # 0 and 1 become one
        >>> parts = components(edge_index, torch.tensor([True, False, False]), num_nodes=3)
        >>> every, coarse = torch.ones(3, dtype=torch.bool), connect(edge_index, parts)
        >>> connect_features(torch.tensor([[7.0], [1.0], [2.0]]), edge_index, every, parts, coarse)
        tensor([[3.]])
    """
    num_supernodes, rows = parts.num_supernodes, coarse.size(1)
    key = coarse[0].long() * num_supernodes + coarse[1]  # ascending, as coarse edges are sorted
    source, target = parts.cluster[edge_index[0]], parts.cluster[edge_index[1]]
    edge_key = source * num_supernodes + target
    row = torch.searchsorted(key, edge_key)
    # Edges without a coarse edge go to an extra last row, which is cut off
    key_of_row = torch.cat([key, key.new_full((1,), -1)])[row]
    row = torch.where(counted & (key_of_row == edge_key), row, rows)
    wide = edge_attr.to(torch.promote_types(edge_attr.dtype, torch.float32))
    flat = wide.reshape(wide.size(0), math.prod(wide.shape[1:]))
    out = flat.new_zeros(rows + 1, flat.size(1))
    if reduce == "max":
        out = out.scatter_reduce(0, row.unsqueeze(1).expand_as(flat), flat, "amax", include_self=False)
    else:
        out = out.index_add(0, row, flat)
        if reduce == "mean":
            out = out / torch.zeros_like(out[:, :1]).index_add(0, row, torch.ones_like(flat[:, :1])).clamp(min=1)
    return out[:rows].to(edge_attr.dtype).view(rows, *edge_attr.shape[1:])

"""Steps 2, 3 and 5 in one: from scores to the coarse graph. On a GPU, all three need only one synchronisation."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._dispatch import operator, unknown_size
from compool.ops.components import Components, components
from compool.ops.connect import connect
from compool.ops.select import Selection


def _shape(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    num_supernodes = unknown_size(1 if num_nodes else 0)
    merged, counted = (edge_score.new_empty(edge_score.shape, dtype=torch.bool) for _ in range(2))
    cluster, first = (edge_index.new_empty(size, dtype=torch.long) for size in (num_nodes, num_supernodes))
    graph = edge_index.new_empty(num_supernodes, dtype=torch.long if batch is None else batch.dtype)
    alone = torch.empty_like(cluster, dtype=torch.bool)
    return merged, counted, cluster, first, alone, edge_index.new_empty(2, unknown_size()), graph


_coarsen = operator(
    "coarsen(Tensor edge_score, Tensor edge_index, SymInt num_nodes, float threshold, Tensor? batch, bool self_loops)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.coarsen,
)


class Coarse(NamedTuple):
    """The coarse graph without features, and the edges that merged."""

    merged: Tensor
    """Mask [E] of the edges whose ends become one supernode."""
    counted: Tensor
    """Mask [E] of the edges that count: no self-loop, no repeat of an earlier edge."""
    parts: Components
    """The supernodes."""
    edge_index: Tensor
    """Edges between supernodes [2, E'], sorted, without repeats."""
    batch: Tensor
    """The graph of each supernode [K], sorted."""


def coarsen(
    edge_score: Tensor,
    edge_index: Tensor,
    num_nodes: int,
    threshold: float = 0.0,
    batch: Tensor | None = None,
    self_loops: bool = False,
) -> Coarse:
    """:func:`select`, :func:`components` and :func:`connect`, one after another.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        threshold: merge the edges that score above it.
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
        self_loops: keep the edges inside supernodes as self-loops.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> coarse = coarsen(torch.tensor([0.5, -0.5, -0.5, -0.5]), edge_index, num_nodes=3)
        >>> coarse.parts.cluster, coarse.edge_index
        (tensor([0, 0, 1]), tensor([[0, 1],
                [1, 0]]))
    """
    outputs = _coarsen(edge_score.detach(), edge_index, num_nodes, threshold, batch, self_loops)
    merged, counted, cluster, first, alone, edges, graph = outputs
    return Coarse(merged, counted, Components(cluster, first, alone), edges, graph)


def coarsen_selected(
    selection: Selection,
    edge_index: Tensor,
    num_nodes: int,
    batch: Tensor | None = None,
    self_loops: bool = False,
    parts: Components | None = None,
) -> Coarse:
    """:func:`components` and :func:`connect` for edges that a budget selected.

    Args:
        selection: the edges that merge, and the edges that count.
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
        self_loops: keep the edges inside supernodes as self-loops.
        parts: the components of the edges that merge, if they are known.

    Example:
        >>> edge_index, every = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4, dtype=torch.bool)
        >>> coarsen_selected(Selection(torch.tensor([True, False, False, False]), every), edge_index, 3).parts.cluster
        tensor([0, 0, 1])
    """
    parts = components(edge_index, selection.merged, num_nodes) if parts is None else parts
    graph = torch.zeros_like(parts.first) if batch is None else batch.index_select(0, parts.first)
    return Coarse(*selection, parts, connect(edge_index, parts, self_loops), graph)

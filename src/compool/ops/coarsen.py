"""Steps 2, 3 and 5 in one: from scores to the coarse graph. On a GPU, sizes come to the host once for all three."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._library import operator, unknown_size
from compool.ops.components import Components, components
from compool.ops.connect import connect
from compool.ops.select import Selection


def _shape(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    number = unknown_size(1 if num_nodes else 0)
    merged, counted = (edge_score.new_empty(edge_score.shape, dtype=torch.bool) for _ in range(2))
    cluster, first = (edge_index.new_empty(size, dtype=torch.long) for size in (num_nodes, number))
    graph = edge_index.new_empty(number, dtype=torch.long if batch is None else batch.dtype)
    alone = torch.empty_like(cluster, dtype=torch.bool)
    return merged, counted, cluster, first, alone, edge_index.new_empty(2, unknown_size()), graph


_coarsen = operator(
    "coarsen(Tensor edge_score, Tensor edge_index, SymInt num_nodes, float threshold, Tensor? batch, bool self_loops)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _shape,
)


def _padded_shape(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool, span: int
) -> tuple[Tensor, ...]:
    merged = edge_score.new_empty(edge_score.shape, dtype=torch.bool)
    cluster = row_ptr.new_empty(row_ptr.size(0) - 1)
    edges, rows = edge_index.new_empty(edge_index.shape), row_ptr.new_empty(row_ptr.shape)
    return merged, cluster, torch.empty_like(cluster), torch.empty_like(cluster, dtype=torch.bool), edges, rows


_coarsen_padded = operator(
    "coarsen_padded(Tensor edge_score, Tensor edge_index, Tensor row_ptr, float threshold, bool self_loops,"
    " SymInt span) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _padded_shape,
)


class Coarse(NamedTuple):
    """The coarse graph without features, and which edges made it."""

    merged: Tensor
    """Mask [E] of the edges whose ends become one supernode."""
    counted: Tensor
    """Mask [E] of the edges that count: no self-loop, no repeat of an earlier edge."""
    parts: Components
    """The supernodes."""
    edge_index: Tensor
    """Edges between supernodes [2, E'], sorted, each once."""
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
        batch: the graph of each node [N], sorted; by default all nodes are of one graph.
        self_loops: keep the edges inside supernodes as self-loops.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> coarse = coarsen(torch.tensor([0.5, -0.5, -0.5, -0.5]), edge_index, num_nodes=3)
        >>> coarse.parts.cluster, coarse.edge_index
        (tensor([0, 0, 1]), tensor([[0, 1],
                [1, 0]]))
    """
    found = _coarsen(edge_score.detach(), edge_index, num_nodes, threshold, batch, self_loops)
    merged, counted, cluster, first, alone, edges, graph = found
    return Coarse(merged, counted, Components(cluster, first, alone), edges, graph)


def coarsen_selected(
    selection: Selection, edge_index: Tensor, num_nodes: int, batch: Tensor | None = None, self_loops: bool = False
) -> Coarse:
    """:func:`components` and :func:`connect` for edges that a budget selected.

    Args:
        selection: which edges merge, and which count.
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        batch: the graph of each node [N], sorted; by default all nodes are of one graph.
        self_loops: keep the edges inside supernodes as self-loops.

    Example:
        >>> edge_index, every = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4, dtype=torch.bool)
        >>> coarsen_selected(Selection(torch.tensor([True, False, False, False]), every), edge_index, 3).parts.cluster
        tensor([0, 0, 1])
    """
    parts = components(edge_index, selection.merged, num_nodes)
    graph = torch.zeros_like(parts.first) if batch is None else batch.index_select(0, parts.first)
    return Coarse(*selection, parts, connect(edge_index, parts, self_loops), graph)


def row_pointer(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin, of edges sorted by source; [N + 1]. Nothing comes to the host.

    Example:
        >>> row_pointer(torch.tensor([[0, 0, 2], [1, 2, 0]]), num_nodes=3)
        tensor([0, 2, 2, 3])
    """
    nodes = torch.arange(num_nodes + 1, device=edge_index.device, dtype=edge_index.dtype)
    return torch.searchsorted(edge_index[0].contiguous(), nodes)


class PaddedCoarse(NamedTuple):
    """The coarse graph in as much room as the fine one has."""

    merged: Tensor
    """Mask [E] of the edges whose ends become one supernode."""
    parts: Components
    """The supernodes: :attr:`~Components.first` is N where there is none."""
    edge_index: Tensor
    """Edges between supernodes [2, E], sorted, each once: the first ``row_ptr[-1]`` of them, zeros after."""
    row_ptr: Tensor
    """Supernode k has the edges ``row_ptr[k]:row_ptr[k + 1]``; [N + 1]."""


def coarsen_padded(
    edge_score: Tensor,
    edge_index: Tensor,
    row_ptr: Tensor,
    threshold: float = 0.0,
    self_loops: bool = False,
    span: int | None = None,
) -> PaddedCoarse:
    """:func:`coarsen` of a graph with room for more, into one with as much room: no size changes.

    Nothing comes to the host, so that a CUDA graph can capture it. Room for nodes is nodes without edges after the
    others; they come out as supernodes after the others. An edge whose score is NaN merges its ends, so that NaN shows
    in their weights; here nobody can raise.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E], sorted, each once, no self-loops; only the first ``row_ptr[-1]`` are edges.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        threshold: merge the edges that score above it.
        self_loops: keep the edges inside supernodes as self-loops.
        span: no edge joins nodes further apart: the size of the largest graph, where nodes are sorted by graph. A small
            one saves time on a GPU; one that is too small gives wrong edges.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0, 0], [1, 0, 2, 1, 0, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> edge_score = torch.tensor([0.5, -0.5, -0.5, -0.5, 0.9, 0.9])
        >>> found = coarsen_padded(edge_score, edge_index, row_ptr)
        >>> found.parts.cluster, found.parts.first, found.row_ptr
        (tensor([0, 0, 1, 2]), tensor([0, 2, 3, 4]), tensor([0, 1, 2, 2, 2]))
    """
    merged, cluster, first, alone, edges, rows = _coarsen_padded(
        edge_score.detach(), edge_index, row_ptr, threshold, self_loops, row_ptr.size(0) - 1 if span is None else span
    )
    return PaddedCoarse(merged, Components(cluster, first, alone), edges, rows)

"""Step 2 by a budget, which fixes how much of each graph merges. With a threshold, that depends on the scores."""

from typing import Any

import torch
from torch import Tensor

from compool.ops._dispatch import operator, unknown_size
from compool.ops.components import Components, components
from compool.ops.select import Selection, select

_top = operator(
    "top(Tensor edge_score, Tensor edge_index, Tensor candidate, Tensor? batch, float quantile) -> Tensor",
    lambda edge_score, edge_index, candidate, *rest: torch.empty_like(candidate),
    lambda kernels: kernels.top,
)


def _ratio_shape(
    edge_score: Tensor, edge_index: Tensor, counted: Tensor, num_nodes: int, *_: Any
) -> tuple[Tensor, ...]:
    cluster, first = (
        edge_index.new_empty(size, dtype=torch.long) for size in (num_nodes, unknown_size(1 if num_nodes else 0))
    )
    return torch.empty_like(counted), cluster, first, torch.empty_like(cluster, dtype=torch.bool)


_ratio = operator(
    "ratio(Tensor edge_score, Tensor edge_index, Tensor counted, SymInt num_nodes, Tensor? batch, float share)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    _ratio_shape,
    lambda kernels: kernels.ratio,
)
_capped_forest = operator(
    "capped_forest(Tensor edge_score, Tensor edge_index, Tensor candidate, SymInt num_nodes, SymInt max_size)"
    " -> Tensor",
    lambda edge_score, edge_index, candidate, *rest: torch.empty_like(candidate),
    lambda kernels: kernels.capped_forest,
)


def select_quantile(
    edge_score: Tensor,
    edge_index: Tensor,
    num_nodes: int,
    quantile: float,
    batch: Tensor | None = None,
    counted: Tensor | None = None,
) -> Selection:
    r"""Select, in each graph, the top 1 − quantile of its edges by score.

    An edge merges if at least the share `quantile` of its graph's edges scores lower. So at most :math:`(1 - q) m` of
    m edges merge, and edges with equal scores are treated alike.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        quantile: :math:`q`, from 0 (merge all edges) to 1 (merge none).
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
        counted: mask [E] of the edges that count, if it is known; the input is then not checked.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> select_quantile(torch.tensor([0.1, 0.4, 0.2, 0.3]), edge_index, 5, quantile=0.5).merged
        tensor([False,  True, False,  True])
    """
    if counted is None:
        counted = select(edge_score, edge_index, num_nodes, -torch.inf, batch).counted
    return Selection(_top(edge_score.detach(), edge_index, counted, batch, quantile), counted)


def select_ratio(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, ratio: float, batch: Tensor | None = None
) -> Selection:
    r"""Select, in each graph, the highest-scoring edges until :math:`\lceil r n \rceil` of its n nodes are left.

    Edges are processed in descending order of score, ties in the order in which they are listed. Each edge that
    connects two supernodes unites them; these edges form a maximum spanning forest. A graph with more connected
    components than that is left with one supernode per component. This amounts to a threshold per graph: the selected
    edges are those inside supernodes that score at least as high as the last edge that united two.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        ratio: :math:`r`, above 0 and at most 1 (merge none).
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])  # a triangle and a tail
        >>> select_ratio(torch.tensor([0.9, 0.8, 0.7, 0.1]), edge_index, 4, ratio=0.5).merged
        tensor([ True,  True, False, False])
    """
    return ratio_parts(edge_score, edge_index, num_nodes, ratio, batch)[0]


def ratio_parts(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, ratio: float, batch: Tensor | None = None
) -> tuple[Selection, Components]:
    """The result of :func:`select_ratio`, and the supernodes, which it computes anyway."""
    counted = select(edge_score, edge_index, num_nodes, -torch.inf, batch).counted
    merged, *parts = _ratio(edge_score.detach(), edge_index, counted, num_nodes, batch, ratio)
    return Selection(merged, counted), Components(*parts)


def select_max_size(
    edge_score: Tensor,
    edge_index: Tensor,
    num_nodes: int,
    max_size: int,
    threshold: float = 0.0,
    batch: Tensor | None = None,
) -> Selection:
    """Select edges above the threshold, highest scores first, unless a supernode would exceed `max_size` nodes.

    An edge whose two supernodes have more than `max_size` nodes together is skipped; ties go to the edge that is listed
    first. The algorithm is sequential, so tensors on a GPU are copied to the CPU. The spanning forest does not help: an
    edge outside it may merge if an edge on the path between its ends was skipped. Rounds that decide many edges at once
    do not help, either: they can only accept an edge that is the best of both its supernodes, because earlier merges
    may keep any other edge from fitting, and a path with ascending scores has only one such edge per round.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        max_size: maximum number of nodes per supernode, at least 1.
        threshold: edges that score above it may merge.
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> select_max_size(torch.tensor([0.7, 0.9, 0.8]), edge_index, 4, max_size=2).merged
        tensor([False,  True, False])
    """
    candidate, counted = select(edge_score, edge_index, num_nodes, threshold, batch)
    tensors = (t.cpu() for t in (edge_score.detach(), edge_index, candidate))
    accepted = _capped_forest(*tensors, num_nodes, max_size).to(candidate.device)
    cluster = components(edge_index, accepted, num_nodes).cluster
    return Selection(candidate & (cluster[edge_index[0]] == cluster[edge_index[1]]), counted)

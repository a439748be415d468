"""Step 2 by a budget: merge as many edges as a graph may, where a threshold leaves open how many."""

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
    r"""Select, in each graph, the edges whose scores are in its top 1 − quantile.

    An edge merges if at least the share `quantile` of its graph's edges scores lower: of m edges never more than
    :math:`(1 - q) m`, and edges of equal score are treated alike.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        quantile: :math:`q`, from 0 (merge all edges) to 1 (merge none).
        batch: the graph of each node [N], sorted; by default all nodes are of one graph.
        counted: mask [E] of the edges that count, if it is known: then the input is not checked.

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
    r"""Select, in each graph, the highest scores until :math:`\lceil r n \rceil` of its n nodes are left.

    Edges are gone through by descending score, of equal scores in the order in which they are listed, and each that
    connects two supernodes makes one of them: a maximum spanning forest. A graph with more components than that
    keeps a supernode each. It is a threshold that fits the graph: the edges that merge are those inside supernodes that
    score at least as much as the last that connected two.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        ratio: :math:`r`, above 0 and at most 1 (merge none).
        batch: the graph of each node [N], sorted; by default all nodes are of one graph.

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])  # a triangle and a tail
        >>> select_ratio(torch.tensor([0.9, 0.8, 0.7, 0.1]), edge_index, 4, ratio=0.5).merged
        tensor([ True,  True, False, False])
    """
    return ratio_parts(edge_score, edge_index, num_nodes, ratio, batch)[0]


def ratio_parts(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, ratio: float, batch: Tensor | None = None
) -> tuple[Selection, Components]:
    """:func:`select_ratio`, and the supernodes, which are known by then."""
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
    """Select the edges above the threshold, highest scores first, as far as no supernode exceeds `max_size` nodes.

    An edge whose two supernodes have more than `max_size` nodes together is skipped; of equal scores, the edge that is
    listed first goes first. This is sequential, so tensors on a GPU are sent to the CPU for it. The spanning forest
    does not help: an edge outside it may merge, where an edge on the way between its ends was skipped. And rounds that
    decide many edges at once need an edge that is the best of both its supernodes, as any other may still be kept from
    fitting by what comes before it: on a path with ascending scores there is one such edge per round.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        max_size: how many nodes a supernode may have, at least 1.
        threshold: edges that score above it may merge.
        batch: the graph of each node [N], sorted; by default all nodes are of one graph.

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

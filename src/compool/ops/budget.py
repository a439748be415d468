"""Step 2 by a budget: merge as many edges as a graph may, where a threshold leaves open how many."""

import torch
from torch import Tensor

from compool.ops._dispatch import operator
from compool.ops.components import components
from compool.ops.select import Selection, select

_top = operator(
    "top(Tensor edge_score, Tensor edge_index, Tensor candidate, Tensor? batch, float quantile) -> Tensor",
    lambda edge_score, edge_index, candidate, *rest: torch.empty_like(candidate),
    lambda kernels: kernels.top,
)
_forest = operator(
    "forest(Tensor edge_score, Tensor edge_index, Tensor candidate, SymInt num_nodes, Tensor? batch, float ratio,"
    " SymInt max_size) -> (Tensor, Tensor)",
    lambda edge_score, edge_index, candidate, *rest: (torch.empty_like(candidate), torch.empty_like(edge_score)),
    lambda kernels: kernels.forest,
)


def select_quantile(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, quantile: float, batch: Tensor | None = None
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

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> select_quantile(torch.tensor([0.1, 0.4, 0.2, 0.3]), edge_index, 5, quantile=0.5).merged
        tensor([False,  True, False,  True])
    """
    counted = select(edge_score, edge_index, num_nodes, -torch.inf).counted
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
    edge_score = edge_score.detach()
    counted = select(edge_score, edge_index, num_nodes, -torch.inf).counted
    accepted, last = _forest(edge_score, edge_index, counted, num_nodes, batch, ratio, num_nodes)
    return Selection(counted & _inside(edge_index, accepted, num_nodes) & (edge_score >= last), counted)


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
    listed first goes first. What is skipped depends on all that went before, so that this is sequential: tensors on a
    GPU are sent to the CPU for it.

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
    candidate, counted = select(edge_score, edge_index, num_nodes, threshold)
    tensors = (t.cpu() for t in (edge_score.detach(), edge_index, candidate))
    accepted, _ = _forest(*tensors, num_nodes, None if batch is None else batch.cpu(), 0.0, max_size)
    inside = _inside(edge_index, accepted.to(candidate.device), num_nodes)
    return Selection(candidate & inside, counted)


def _inside(edge_index: Tensor, accepted: Tensor, num_nodes: int) -> Tensor:
    """Which edges have both ends in one component of the accepted edges."""
    cluster = components(edge_index, accepted, num_nodes).cluster
    return cluster[edge_index[0]] == cluster[edge_index[1]]

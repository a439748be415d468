"""The merges of a graph at every threshold: single linkage by the maximum spanning forest."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._checks import check_batch, check_edge_index, check_edge_weight, check_num_nodes, nan_weight
from compool.ops._torch_budget import first_of_each_graph
from compool.ops.components import components
from compool.ops.forest import spanning_forest


class Hierarchy(NamedTuple):
    """The supernodes of a graph at every threshold; returned by :func:`hierarchy`.

    It holds the maximum spanning forest, whose edges are the merges: as the threshold falls, each edge of the forest
    unites two supernodes.
    """

    edges: Tensor
    """The positions of the forest's edges among the graph's edges [F], highest score first."""
    score: Tensor
    """The scores of the forest's edges [F], descending; they carry gradients."""
    edge_index: Tensor
    """The ends of the forest's edges [2, F]."""
    num_nodes: int
    """The number of nodes of the graph, N."""
    batch: Tensor | None
    """The graph of each node [N], sorted; None if all nodes belong to one graph."""

    def at(self, threshold: float) -> Tensor:
        """The supernode of each node [N] if the edges that score above `threshold` merge: 0..K−1, numbered by first
        member.
        """
        if math.isnan(threshold):
            raise ValueError("threshold must not be NaN")
        score = self.score.detach() if self.score.is_floating_point() else self.score.double()
        return components(self.edge_index, score > float(threshold), self.num_nodes).cluster

    def at_ratio(self, ratio: float) -> Tensor:
        r"""The supernode of each node [N] if edges merge as in :func:`~compool.ops.select_ratio`: each graph of n nodes
        is left with :math:`\lceil r n \rceil` supernodes, or one per connected component if that is more.
        """
        if not 0 < ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {ratio}")
        _, kept = first_of_each_graph(self.edge_index[0], self.num_nodes, self.batch, ratio)
        return components(self.edge_index, kept, self.num_nodes).cluster

    def counts(self, thresholds: Tensor | Sequence[float]) -> Tensor:
        """The number of supernodes at each of T thresholds, int64: [T], or [B, T] for a batch of B graphs.

        Example:
            >>> edge_index, score = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0.9, 0.1, 0.5])
            >>> hierarchy(edge_index, score).counts([0.0, 0.3, 0.5, 1.0])
            tensor([1, 2, 3, 4])
        """
        score = self.score.detach()
        levels = torch.as_tensor(thresholds, device=score.device)
        levels = levels.to(score.dtype if score.is_floating_point() else torch.float64)
        score = score.to(levels.dtype)
        if levels.dim() != 1 or bool(levels.isnan().any()):
            raise ValueError(f"thresholds must be numbers [T], none of them NaN; got {thresholds}")
        if self.batch is None:
            kept_apart = torch.searchsorted(score.flip(0), levels, right=True)  # edges that do not merge
            return self.num_nodes - score.size(0) + kept_apart
        levels, order = levels.sort()
        num_graphs, num_levels = int(self.batch.max()) + 1 if self.num_nodes else 0, levels.size(0)
        exceeded = torch.searchsorted(levels, score)  # number of thresholds below an edge's score
        cell = self.batch[self.edge_index[0]].long() * (num_levels + 1) + exceeded
        merges = torch.bincount(cell, minlength=num_graphs * (num_levels + 1)).view(num_graphs, num_levels + 1)
        merges = merges.flip(1).cumsum(1).flip(1)[:, 1:]
        return (torch.bincount(self.batch, minlength=num_graphs).unsqueeze(1) - merges)[:, order.argsort()]

    def merges(self) -> Tensor:
        """The two supernodes that each edge of the forest unites [2, F], given by their first members, the smaller one
        first: the second supernode becomes part of the first. At a threshold, a prefix of these merges is applied.
        Computed on the CPU.

        Example:
            >>> edge_index, score = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0.9, 0.1, 0.5])
            >>> hierarchy(edge_index, score).merges()
            tensor([[0, 2, 0],
                    [1, 3, 2]])
        """
        from compool.ops._cpu.forest_loops import merges as loop  # imports numba, which takes a while

        pairs = torch.empty(2, self.edges.size(0), dtype=torch.long, device="cpu")
        loop(*self.edge_index.cpu().numpy(), np.arange(self.num_nodes), *pairs.numpy())
        return pairs

    def linkage(self, top: float | None = None) -> NDArray[np.float64]:
        """SciPy's linkage matrix [N−1, 4], for :func:`scipy.cluster.hierarchy.dendrogram` and similar functions.

        The distance of two supernodes is `top` minus the score at which they merge; by default, `top` is the highest
        score. The matrix always ends in one cluster: supernodes that no edge connects are united last, at 1.1 times the
        largest distance. Computed on the CPU.

        Example:
            >>> hierarchy(torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 3.0])).linkage(top=3.0)
            array([[1., 2., 0., 2.],
                   [0., 3., 2., 3.]])
        """
        score = self.score.detach().cpu().double()
        if not self.num_nodes:
            raise ValueError("a linkage matrix needs at least one node")
        if not bool(score.isfinite().all()):
            raise ValueError("a linkage matrix needs finite scores, but some are infinite")
        highest = float(score[0]) if score.numel() else 0.0
        top = highest if top is None else top
        if not highest <= top < math.inf:
            raise ValueError(f"top must be finite and at least the highest score, {highest}; got {top}")

        every = torch.ones_like(self.edges, dtype=torch.bool)
        first = components(self.edge_index, every, self.num_nodes).first.cpu()
        links = torch.stack([first[:1].expand_as(first), first])[:, 1:]  # from the first component to each other one
        distance = top - score
        farthest = float(distance[-1]) if score.numel() else 0.0
        distance = torch.cat([distance, torch.full_like(links[0], 1.1 * farthest or 1.0, dtype=torch.float64)])
        ends = torch.cat([self.edge_index.cpu().long(), links], 1)

        from compool.ops._cpu.forest_loops import linkage as loop  # imports numba, which takes a while

        rows = np.empty((self.num_nodes - 1, 4))
        parent, label, size = np.arange(self.num_nodes), np.arange(self.num_nodes), np.ones(self.num_nodes, np.int64)
        loop(*ends.numpy(), distance.numpy(), parent, label, size, rows)
        return rows

    def persistence(self) -> Tensor:
        """The scores at which each component begins and ends [N, 2]: the zero-dimensional persistence of the superlevel
        filtration. The scores carry gradients.

        As the threshold falls, a node appears with its highest edge, and a component begins with its first node. When
        two components merge, the one that began at the lower score ends; of equal ones, the one with the later first
        edge, then the later first node. Row i describes the component that began with node i. A node that joins an
        older component as it appears has two equal scores. A component that never merges ends at −∞; a node without
        edges also begins there. At any threshold t, the number of rows with begin > t ≥ end is the number of supernodes
        with two or more nodes. Computed on the CPU.

        Example:
            >>> edge_index, score = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0.9, 0.1, 0.5])
            >>> hierarchy(edge_index, score).persistence()
            tensor([[0.9000,   -inf],
                    [0.9000, 0.9000],
                    [0.5000, 0.1000],
                    [0.5000, 0.5000]])
        """
        from compool.ops._cpu.forest_loops import persistence as loop  # imports numba, which takes a while

        parent, founder = np.arange(self.num_nodes), np.arange(self.num_nodes)
        pairs = torch.full((2, self.num_nodes), -1, device="cpu")
        loop(*self.edge_index.cpu().numpy(), parent, founder, *pairs.numpy())
        score = self.score if self.score.is_floating_point() else self.score.double()
        return torch.cat([score, score.new_full((1,), -math.inf)])[pairs.t().to(score.device)]


def hierarchy(
    edge_index: Tensor, score: Tensor, num_nodes: int | None = None, batch: Tensor | None = None
) -> Hierarchy:
    """Compute the merges at every threshold, by one maximum spanning forest; the direction of edges is ignored.

    Args:
        edge_index: edges [2, E], int32 or int64; fewer than 2³¹.
        score: the score of each edge [E]; NaN is an error.
        num_nodes: number of nodes N; by default the length of `batch`, or without it one more than the highest index in
            `edge_index`.
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.

    Raises:
        ValueError: if a score is NaN, `edge_index` is out of range, `batch` is not sorted or an edge joins two graphs.

    Example:
        >>> edge_index, score = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0.9, 0.1, 0.5])
        >>> levels = hierarchy(edge_index, score)
        >>> levels.at(0.3), levels.at_ratio(0.75)
        (tensor([0, 0, 1, 1]), tensor([0, 0, 1, 2]))
    """
    check_edge_index(edge_index)
    check_edge_weight(score, edge_index, "score")
    if bool(score.isnan().any()):
        raise nan_weight(score, "score")
    if isinstance(batch, Tensor) and batch.dim() == 1 and num_nodes is None:
        num_nodes = batch.size(0)
    num_nodes = check_num_nodes(num_nodes, edge_index)
    edges = spanning_forest(edge_index, score, num_nodes)
    if batch is not None:
        check_batch(batch, edge_index, num_nodes)
    return Hierarchy(edges, score.index_select(0, edges), edge_index.index_select(1, edges), num_nodes, batch)

"""Graded weights in padded graphs: see :func:`compool.ops.graded_weight`. No size depends on the merged edges."""

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops.graded import tree_shares
from compool.replicas.kernels.padded import forest_padded


def graded_weight_padded(
    grade: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, merged: Tensor, span: int | None = None
) -> Tensor:
    """The weight of each node in its supernode [N]; see :func:`compool.ops.graded_weight`.

    Nothing is copied to the host. On a GPU, graphs are processed in parallel, and the merges of each one after another.

    Args:
        grade: the grade of each edge [E]; at 1 and above, an edge merges fully.
        edge_index: edges [2, E], sorted; only the first ``row_ptr[-1]`` are edges, the rest is padding with self-loops.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        graph_ptr: graph g has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; no edge joins two graphs.
        merged: mask [E] of the edges that merge, those with a grade above 0.
        span: an upper bound on the number of nodes per graph.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> grade, graph_ptr = torch.tensor([0.5, 0.5, 1.0, 1.0, 0.9]), torch.tensor([0, 3])
        >>> graded_weight_padded(grade, edge_index, row_ptr, graph_ptr, grade > 0)
        tensor([0.6667, 0.4167, 0.4167, 1.0000])
    """
    num_edges, num_graphs = grade.size(0), graph_ptr.size(0) - 1
    forest = forest_padded(grade, edge_index, row_ptr, span)
    forest = torch.where(F.pad(merged, (0, 1))[forest], forest, num_edges)  # the index num_edges means no edge
    source, target = F.pad(edge_index.long(), (0, 1), value=row_ptr.size(0) - 1)
    graph = torch.searchsorted(graph_ptr, source[forest], right=True) - 1
    graph, order = graph.masked_fill(forest == num_edges, num_graphs).sort(stable=True)  # by graph, then by grade
    forest = forest[order]
    forest_ptr = torch.searchsorted(graph, torch.arange(num_graphs + 1, device=graph.device))
    ends, grade = torch.stack([source[forest], target[forest]]), F.pad(grade, (0, 1))[forest].clamp(0.0, 1.0)
    return tree_shares(grade, ends, row_ptr.size(0) - 1, forest_ptr)

"""Graded weights, one merge after another, in Python: the reference."""

import torch
import torch.nn.functional as F
from torch import Tensor


def num_merges(num_edges: int, tree_ptr: Tensor | None) -> int:
    """The number of edges of a forest; the rest is padding."""
    return num_edges if tree_ptr is None else int(tree_ptr[-1])


def merge_tree(edge_index: Tensor, num_nodes: int, tree_ptr: Tensor | None) -> tuple[Tensor, Tensor]:
    """The two parts that each edge of a forest unites [2, F], in order, and the number of nodes in each part [N + F].

    Parts 0 to N − 1 are single nodes; edge f makes part N + f. Edges from ``tree_ptr[-1]`` on are padding.
    """
    count = num_merges(edge_index.size(1), tree_ptr)
    parent, part, size = list(range(num_nodes)), list(range(num_nodes)), [1] * num_nodes
    children: list[list[int]] = [[], []]

    def root_of(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for merged_part, (u, v) in enumerate(edge_index[:, :count].t().tolist(), num_nodes):
        low, high = sorted((root_of(u), root_of(v)))
        children[0].append(part[low])
        children[1].append(part[high])
        size.append(size[part[low]] + size[part[high]])
        parent[high], part[low] = low, merged_part
    device, padding = edge_index.device, (0, edge_index.size(1) - count)
    sizes = torch.tensor(size, dtype=torch.long, device=device)
    pairs = torch.tensor(children, dtype=torch.long, device=device).view(2, -1)
    return F.pad(pairs, padding), F.pad(sizes, padding, value=1)


def graded_share(grade: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None, leaf: float) -> Tensor:
    """The share of each node in its part, integrated from level 0 to `leaf` [N]."""
    num_nodes = size.size(0) - grade.size(0)
    begin = torch.cat([grade.new_full((num_nodes,), leaf), grade])  # a part exists below its own grade
    share = begin / size
    for merged_part in range(num_nodes + num_merges(grade.size(0), tree_ptr) - 1, num_nodes - 1, -1):
        for part in children[:, merged_part - num_nodes]:
            share[part] = share[merged_part] + (begin[part] - begin[merged_part]) / size[part]
    return share[:num_nodes]


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None) -> Tensor:
    """The gradient of the grades [F]."""
    count, num_edges = num_merges(children.size(1), tree_ptr), children.size(1)
    children, size = children[:, :count], size[: grad.size(0) + count]
    total = torch.cat([grad, grad.new_zeros(count)])
    for merged_part, (low, high) in enumerate(children.t().tolist(), grad.size(0)):
        total[merged_part] = total[low] + total[high]
    mean = total / size
    return F.pad(mean[grad.size(0) :] - mean[children[0]] - mean[children[1]], (0, num_edges - count))

"""Graded weights, one merge after another: the reference, in Python."""

import torch
from torch import Tensor


def merge_tree(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The two parts that each edge of a forest unites [2, F], in order, and how many nodes each part has [N + F].

    Parts 0 to N − 1 are single nodes; edge f makes part N + f.
    """
    parent, part, size = list(range(num_nodes)), list(range(num_nodes)), [1] * num_nodes
    children: list[list[int]] = [[], []]

    def root_of(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for made, (u, v) in enumerate(edge_index.t().tolist(), num_nodes):
        low, high = sorted((root_of(u), root_of(v)))
        children[0].append(part[low])
        children[1].append(part[high])
        size.append(size[part[low]] + size[part[high]])
        parent[high], part[low] = low, made
    device = edge_index.device
    sizes = torch.tensor(size, dtype=torch.long, device=device)
    return torch.tensor(children, dtype=torch.long, device=device).view(2, -1), sizes


def graded_share(grade: Tensor, children: Tensor, size: Tensor, leaf: float) -> Tensor:
    """The share of each node in its part, integrated from level 0 to `leaf` [N]."""
    num_nodes = size.size(0) - grade.size(0)
    begin = torch.cat([grade.new_full((num_nodes,), leaf), grade])  # a part is there below its own grade
    share = begin / size
    for made in range(size.size(0) - 1, num_nodes - 1, -1):
        for part in children[:, made - num_nodes]:
            share[part] = share[made] + (begin[part] - begin[made]) / size[part]
    return share[:num_nodes]


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor) -> Tensor:
    """The gradient of the grades [F]."""
    total = torch.cat([grad, grad.new_zeros(children.size(1))])
    for made, (low, high) in enumerate(children.t().tolist(), grad.size(0)):
        total[made] = total[low] + total[high]
    mean = total / size
    return mean[grad.size(0) :] - mean[children[0]] - mean[children[1]]

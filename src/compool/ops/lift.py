"""The inverse direction: from supernodes to their members."""

import math

import torch
from torch import Tensor

from compool.ops.merge import row_sum


def lift(x: Tensor, cluster: Tensor) -> Tensor:
    """Give every node the features of its supernode: unpooling, as the paper defines it.

    Args:
        x: features of the supernodes [K, …].
        cluster: the supernode of each node [N].

    Returns:
        Features of the nodes [N, …].

    Example:
        >>> lift(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1, 0]))
        tensor([[1.],
                [2.],
                [1.]])
    """
    if cluster.device != x.device:  # index_select does not check it on the meta device
        raise ValueError(f"cluster is on {cluster.device}, but x is on {x.device}; they must be on one device")
    if x.dtype not in (torch.float16, torch.bfloat16):
        return x.index_select(0, cluster)
    # The backward pass sums gradients over members, which index_select would not do in float32
    nodes, ones = torch.arange(cluster.size(0), device=x.device), torch.ones(cluster.size(0), device=x.device)
    rows = row_sum(x.reshape(x.size(0), math.prod(x.shape[1:])), ones, cluster, nodes, cluster.size(0))
    return rows.view(cluster.size(0), *x.shape[1:])

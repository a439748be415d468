"""The inverse direction: from supernodes to their members."""

import math
from typing import Any

import torch
from torch import Tensor

from compool.ops._dispatch import is_transformed
from compool.ops.merge import row_sum


class _WideLift(torch.autograd.Function):
    """Half precision: the backward pass sums over members in float32, which that of `index_select` would not do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cluster: Tensor) -> Tensor:
        ctx.save_for_backward(cluster)
        ctx.shape = x.shape
        return x.index_select(0, cluster)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (cluster,) = ctx.saved_tensors
        ones = torch.ones(cluster.size(0), dtype=torch.float32, device=grad.device)
        rows = grad.reshape(grad.size(0), math.prod(ctx.shape[1:]))
        return row_sum(rows, ones, None, cluster, ctx.shape[0]).view(ctx.shape), None


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
    if x.dtype not in (torch.float16, torch.bfloat16) or is_transformed():
        return x.index_select(0, cluster)
    lifted: Tensor = _WideLift.apply(x, cluster)
    return lifted

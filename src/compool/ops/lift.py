"""The way back: from supernodes to their members."""

from torch import Tensor


def lift(x: Tensor, cluster: Tensor) -> Tensor:
    """Give every node the features of its supernode: unpooling, as the paper defines it.

    Args:
        x: features of the supernodes [K, …].
        cluster: the supernode of each node [N].

    Returns:
        Features of the nodes [N, …].

    Example:
        >>> import torch
        >>> lift(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1, 0]))
        tensor([[1.],
                [2.],
                [1.]])
    """
    return x.index_select(0, cluster)

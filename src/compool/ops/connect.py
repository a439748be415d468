"""Step 5: the edges between supernodes."""

from typing import cast

from torch import Tensor

from compool.ops._dispatch import operator, unknown_size
from compool.ops.components import Components
from compool.ops.contract import Contraction

_connect = operator(
    "connect(Tensor edge_index, Tensor cluster, SymInt num_clusters, bool self_loops, bool input_loops) -> Tensor",
    lambda edge_index, cluster, num_clusters, *loops: edge_index.new_empty(2, unknown_size()),
    lambda kernels: kernels.connect,
)


def connect(
    edge_index: Tensor, parts: Components | Contraction, self_loops: bool = False, input_loops: bool = False
) -> Tensor:
    r"""Connect two supernodes if an edge connects their members: :math:`A' = \min(C^\top A C, 1)` (Eq. 4, 5).

    Args:
        edge_index: edges [2, E].
        parts: the supernodes.
        self_loops: keep the edges inside supernodes as self-loops, as Eq. 4 does. By default they are removed, as in
            the paper's text and figure.
        input_loops: with `self_loops`, self-loops of the input count, too.

    Returns:
        Edges [2, E'], sorted, without repeats.

    Example:
        >>> import torch
        >>> from compool.ops import components
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 2]])
        >>> parts = components(edge_index, torch.tensor([True, True, False, False, False]), num_nodes=3)
        >>> connect(edge_index, parts)
        tensor([[0, 1],
                [1, 0]])
    """
    return cast(Tensor, _connect(edge_index, parts.cluster, parts.num_supernodes, self_loops, input_loops))

"""Step 3: the connected components of the selected edges."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._checks import check_edge_index, check_range
from compool.ops._library import operator, unknown_size


def _shape(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (num_nodes, num_nodes, unknown_size(least=1))
    cluster, order, ptr = (edge_index.new_empty(size, dtype=torch.long) for size in sizes)
    return cluster, order, ptr


_components = operator(
    "components(Tensor edge_index, Tensor merged, SymInt num_nodes) -> (Tensor, Tensor, Tensor)", _shape
)


class Components(NamedTuple):
    """The nodes of each connected component, which becomes a supernode."""

    cluster: Tensor
    """The component of each node [N]: 0..K−1, numbered by first member."""
    order: Tensor
    """The nodes sorted by component [N]."""
    ptr: Tensor
    """Component k has the nodes ``order[ptr[k]:ptr[k + 1]]``, ascending; [K + 1]."""

    @property
    def number(self) -> int:
        """How many components there are, K."""
        return self.ptr.size(0) - 1

    @property
    def first(self) -> Tensor:
        """The first member of each component [K]."""
        return self.order[self.ptr[:-1]]


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> Components:
    """Find the connected components of the edges in the mask `merged`; their direction is ignored.

    Example:
        >>> edge_index = torch.tensor([[3, 1, 0], [1, 2, 4]])
        >>> found = components(edge_index, torch.tensor([True, False, True]), num_nodes=5)
        >>> found.cluster
        tensor([0, 1, 2, 1, 0])
        >>> found.order, found.ptr
        (tensor([0, 4, 1, 3, 2]), tensor([0, 2, 4, 5]))
    """
    return Components(*_components(edge_index, merged, num_nodes))


def connected_components(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Label the connected components of a graph; the direction of edges is ignored.

    Args:
        edge_index: edges [2, E], int32 or int64.
        num_nodes: number of nodes N.

    Returns:
        The label of each node [N], int64: 0..K−1, numbered by first member.

    Example:
        >>> connected_components(torch.tensor([[3, 0], [1, 4]]), num_nodes=5)
        tensor([0, 1, 2, 1, 0])
    """
    check_edge_index(edge_index)
    check_range(edge_index, num_nodes)
    return components(edge_index, torch.ones_like(edge_index[0], dtype=torch.bool), num_nodes).cluster

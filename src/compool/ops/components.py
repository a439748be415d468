"""Step 3: the connected components of the selected edges."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._checks import check_edge_index, check_num_nodes, check_range
from compool.ops._dispatch import operator, unknown_size


def _shape(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    cluster, first = (
        edge_index.new_empty(size, dtype=torch.long) for size in (num_nodes, unknown_size(1 if num_nodes else 0))
    )
    return cluster, first, torch.empty_like(cluster, dtype=torch.bool)


_components = operator(
    "components(Tensor edge_index, Tensor merged, SymInt num_nodes) -> (Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.components,
)


class Components(NamedTuple):
    """The connected components, each of which becomes a supernode."""

    cluster: Tensor
    """The component of each node [N]: 0..K−1, numbered by first member."""
    first: Tensor
    """The first member of each component [K], ascending."""
    alone: Tensor
    """Mask [N] of the nodes that are a component by themselves: no merged edge touches them."""

    @property
    def num_supernodes(self) -> int:
        """The number of supernodes, K."""
        return self.first.size(0)


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> Components:
    """Find the connected components of the edges in the mask `merged`; their direction is ignored.

    Example:
        >>> edge_index = torch.tensor([[3, 1, 0], [1, 2, 4]])
        >>> parts = components(edge_index, torch.tensor([True, False, True]), num_nodes=5)
        >>> parts.cluster
        tensor([0, 1, 2, 1, 0])
        >>> parts.first, parts.alone
        (tensor([0, 1, 2]), tensor([False, False,  True, False, False]))
    """
    return Components(*_components(edge_index, merged, num_nodes))


def count_members(cluster: Tensor, num_supernodes: int) -> Tensor:
    """The number of nodes in each supernode [K], int64.

    Example:
        >>> count_members(torch.tensor([0, 1, 0]), num_supernodes=2)
        tensor([2, 1])
    """
    size = torch.zeros(num_supernodes, dtype=torch.long, device=cluster.device)
    return size.index_add(0, cluster, torch.ones_like(cluster))


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
    num_nodes = check_num_nodes(num_nodes, edge_index)
    check_range(edge_index, num_nodes)
    return components(edge_index, torch.ones_like(edge_index[0], dtype=torch.bool), num_nodes).cluster

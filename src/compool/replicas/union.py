"""The batches of many replicas as one graph."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from compool.data import Features, GraphSet


@dataclass(frozen=True, eq=False)
class Union:
    """The batches of R replicas, B graphs each, as one undirected graph: nodes sorted by replica, then by graph."""

    edge_index: Tensor
    """Edges [2, E], both directions, sorted, each once."""
    row_ptr: Tensor
    """Node i has the edges row_ptr[i] to row_ptr[i + 1]; [N + 1]."""
    graph_ptr: Tensor
    """Graph g has the nodes graph_ptr[g] to graph_ptr[g + 1]; [R · B + 1]. A graph may have none."""
    replicas: int
    """R."""
    key: Tensor | None = None
    """The random key of each replica for this step, int64 [R]; None: nothing is random."""
    looped: bool = False
    """Whether edges may be self-loops."""

    @property
    def num_nodes(self) -> int:
        """Nodes of all replicas together, N."""
        return self.row_ptr.size(0) - 1

    @cached_property
    def ptr(self) -> Tensor:
        """Replica r has the nodes ptr[r] to ptr[r + 1]; [R + 1]."""
        return self.graph_ptr[:: (self.graph_ptr.size(0) - 1) // self.replicas]

    @cached_property
    def edge_ptr(self) -> Tensor:
        """Replica r has the edges edge_ptr[r] to edge_ptr[r + 1]; [R + 1]."""
        return self.row_ptr[self.ptr]

    @cached_property
    def degree(self) -> Tensor:
        """The number of neighbours of each node [N]."""
        return self.row_ptr.diff()

    def coarse(self, edge_index: Tensor, first: Tensor, looped: bool = False) -> "Union":
        """The union after pooling: its edges, and the first member of each supernode [K], ascending."""
        return replace(
            self,
            edge_index=edge_index,
            row_ptr=row_pointer(edge_index[0], first.size(0)),
            graph_ptr=torch.searchsorted(first, self.graph_ptr),
            looped=looped,
        )


def row_pointer(source: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin, of edges sorted by source; [N + 1]."""
    pointer = torch.zeros(num_nodes + 1, dtype=torch.long, device=source.device)
    torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=pointer[1:])
    return pointer


class Graphs:
    """A set of graphs and its features on a device, from which unions are made.

    Example:
        >>> from compool.data import communities, features
        >>> graphs = communities(9)
        >>> x, union = Graphs(graphs, features(graphs)).union(torch.tensor([[0, 1], [0, 5]]))
        >>> union.replicas, union.graph_ptr.size(0) - 1, x.size(0) == union.num_nodes
        (2, 4, True)
    """

    def __init__(
        self,
        graphs: GraphSet,
        features: Features,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.node_ptr, self.edge_ptr = put(graphs.node_ptr), put(graphs.edge_ptr)
        self.edge_index, self.y = put(graphs.edge_index), put(graphs.y)
        if features.values is not None:
            self.x = put(features.values).to(dtype)
        elif features.width == 1:
            self.x = torch.ones(graphs.num_nodes, 1, dtype=dtype, device=device)
        else:
            assert features.column is not None
            self.x = put(features.column)
        """Features [N, F], or the columns of one-hot features [N]."""

    def union(self, graphs: Tensor, key: Tensor | None = None) -> tuple[Tensor, Union]:
        """The features and the union of the graphs [R, B] of R replicas; −1 stands for no graph.

        `key` is each replica's random key for this step.
        """
        replicas, flat = graphs.size(0), graphs.reshape(-1)
        there = flat >= 0
        graph_ptr, node = _gather(self.node_ptr, flat, there)
        edge_offset, edge = _gather(self.edge_ptr, flat, there)
        shift = torch.repeat_interleave(graph_ptr[:-1], edge_offset.diff(), output_size=edge.size(0))
        edge_index = self.edge_index[:, edge] + shift
        row_ptr = row_pointer(edge_index[0], node.size(0))
        return self.x[node], Union(edge_index, row_ptr, graph_ptr, replicas, key)


def _gather(ptr: Tensor, which: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Where each chosen segment begins in the result, and the element of the source at each of its places."""
    start = ptr[which]
    size = torch.where(there, ptr[which + 1] - start, 0)
    offset = torch.zeros(size.size(0) + 1, dtype=torch.long, device=ptr.device)
    torch.cumsum(size, 0, out=offset[1:])
    shift = torch.repeat_interleave(start - offset[:-1], size)
    return offset, torch.arange(shift.size(0), device=ptr.device) + shift

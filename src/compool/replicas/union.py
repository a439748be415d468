"""The batches of many replicas as one graph."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
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
    largest: int | None = None
    """No graph has more nodes; None: not known."""
    padded: bool = False
    """Whether there is room for more: nodes of no replica, without edges, at the end, and (0, 0) after the edges.

    Then no size depends on the graphs, and nothing has to come to the host.
    """

    @property
    def num_nodes(self) -> int:
        """Nodes of all replicas together, and room for more; N."""
        return self.row_ptr.size(0) - 1

    @cached_property
    def ptr(self) -> Tensor:
        """Replica r has the nodes ptr[r] to ptr[r + 1]; [R + 1]."""
        return self.graph_ptr[:: (self.graph_ptr.size(0) - 1) // self.replicas].contiguous()

    @cached_property
    def edge_ptr(self) -> Tensor:
        """Replica r has the edges edge_ptr[r] to edge_ptr[r + 1]; [R + 1]."""
        return self.row_ptr[self.ptr]

    @cached_property
    def replica(self) -> Tensor:
        """The replica of each node [N]; the last one's where there is none."""
        return _segment(self.ptr, self.num_nodes)

    @cached_property
    def edge_replica(self) -> Tensor:
        """The replica of each edge [E]; the last one's where there is none."""
        return _segment(self.edge_ptr, self.edge_index.size(1))

    @property
    def is_edge(self) -> Tensor:
        """Mask [E] of what is not padding."""
        return torch.arange(self.edge_index.size(1), device=self.row_ptr.device) < self.row_ptr[-1]

    @cached_property
    def degree(self) -> Tensor:
        """The number of neighbours of each node [N]."""
        return self.row_ptr.diff()

    def coarse(self, edge_index: Tensor, first: Tensor, looped: bool = False, row_ptr: Tensor | None = None) -> "Union":
        """The union after pooling: its edges, and the first member of each supernode [K], ascending."""
        return replace(
            self,
            edge_index=edge_index,
            row_ptr=row_pointer(edge_index[0], first.size(0)) if row_ptr is None else row_ptr,
            graph_ptr=torch.searchsorted(first, self.graph_ptr),
            looped=looped,
        )


def row_pointer(source: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin, of edges sorted by source; [N + 1]."""
    pointer = torch.zeros(num_nodes + 1, dtype=torch.long, device=source.device)
    torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=pointer[1:])
    return pointer


class Room(NamedTuple):
    """How large a union may be."""

    nodes: int
    edges: int


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

        self.node_ptr, self.edge_ptr, self.y = put(graphs.node_ptr), put(graphs.edge_ptr), put(graphs.y)
        if features.values is not None:
            x = put(features.values).to(dtype)
        elif features.width == 1:
            x = torch.ones(graphs.num_nodes, 1, dtype=dtype, device=device)
        else:
            assert features.column is not None
            x = put(features.column)
        # Padding is read from one more node and one more edge
        self.x = torch.cat([x, torch.zeros_like(x[:1])])
        """Features [N + 1, F], or the columns of one-hot features [N + 1]; zeros in the last row."""
        self.edge_index = F.pad(put(graphs.edge_index), (0, 1))
        """Edges [2, E + 1], numbered within their graph, sorted; (0, 0) in the last column."""
        self.largest = int(np.diff(graphs.node_ptr).max(initial=1))
        """No graph has more nodes."""
        shift = torch.repeat_interleave(self.node_ptr[:-1], self.edge_ptr.diff())
        self.degree = torch.bincount(self.edge_index[0, :-1] + shift, minlength=x.size(0) + 1)
        """The number of neighbours of each node [N + 1]; 0 for the last."""

    def room(self, graphs: Tensor) -> Room:
        """What the largest of some steps [steps, R, B] needs; −1 stands for no graph."""
        totals = [_sizes(ptr, graphs).sum((1, 2)).amax() for ptr in (self.node_ptr, self.edge_ptr)]
        return Room(*torch.stack(totals).tolist())

    def union(self, graphs: Tensor, key: Tensor | None = None, room: Room | None = None) -> tuple[Tensor, Union]:
        """The features and the union of the graphs [R, B] of R replicas; −1 stands for no graph.

        Args:
            graphs: which graphs [R, B].
            key: each replica's random key for this step, int64 [R].
            room: pad the union to this size. What has no room there is lost: see :meth:`room`.
        """
        replicas, flat = graphs.size(0), graphs.reshape(-1)
        graph_ptr, _, node = _gather(self.node_ptr, flat, room and room.nodes)
        _, graph, edge = _gather(self.edge_ptr, flat, room and room.edges)
        shift = F.pad(graph_ptr[:-1], (0, 1)).to(self.edge_index.dtype)  # the padding is one graph more
        edge_index = self.edge_index[:, edge] + shift[graph]
        row_ptr = F.pad(torch.cumsum(self.degree[node], 0), (1, 0))
        padded = room is not None
        return self.x[node], Union(edge_index, row_ptr, graph_ptr, replicas, key, False, self.largest, padded)


def _sizes(ptr: Tensor, which: Tensor) -> Tensor:
    return torch.where(which >= 0, ptr[which + 1] - ptr[which], 0)


def _gather(ptr: Tensor, which: Tensor, room: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Where each chosen segment begins in the result; the segment at each of its places, and the element of the source.

    With `room`, the result has that size, and its end is a segment more, each place of which is the source's end.
    """
    size = _sizes(ptr, which)
    offset = F.pad(torch.cumsum(size, 0), (1, 0))
    if room is None:
        segment = torch.repeat_interleave(size)
    else:
        segment = torch.repeat_interleave(torch.diff(offset, append=offset.new_full((1,), room)), output_size=room)
    place = torch.arange(segment.size(0), device=ptr.device)
    found = place + F.pad(ptr[which] - offset[:-1], (0, 1))[segment]
    return offset, segment, found if room is None else torch.where(place < offset[-1], found, ptr[-1])


def _segment(ptr: Tensor, number: int) -> Tensor:
    """The segment of each of `number` places, the last one's for those after it."""
    sizes = torch.diff(ptr, append=ptr.new_full((1,), number))
    return torch.repeat_interleave(sizes, output_size=number).clamp_(max=ptr.size(0) - 2)

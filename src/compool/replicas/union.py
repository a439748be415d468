"""The batches of many replicas as one graph."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compool.data import Features, GraphSet
from compool.data import features as choose_features
from compool.data.features import edge_features
from compool.replicas import kernels
from compool.replicas.kernels.unions import row_segment, segment_sizes

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Union:
    """The batches of R replicas, B graphs each, as one undirected graph: nodes sorted by replica, then by graph."""

    edge_index: Tensor
    """Edges [2, E], both directions, sorted, without repeats."""
    row_ptr: Tensor
    """Node i has the edges row_ptr[i] to row_ptr[i + 1]; [N + 1]."""
    graph_ptr: Tensor
    """Graph g has the nodes graph_ptr[g] to graph_ptr[g + 1]; [R · B + 1]. A graph may have none."""
    replicas: int
    """The number of replicas, R."""
    key: Tensor | None = None
    """The random key of each replica for this step, int64 [R]; None for no randomness."""
    looped: bool = False
    """Whether edges may be self-loops."""
    largest: int | None = None
    """The maximum number of nodes per graph; None if it is not known."""
    padded: bool = False
    """Whether the union is padded: nodes without replica and edges at the end, and (0, 0) after the edges.

    Sizes then do not depend on the graphs, and nothing has to be copied to the host.
    """
    after: "tuple[Capacity, ...]" = ()
    """The capacity after each remaining edge pooling layer; if empty, that of the union itself."""
    needed: Tensor | None = None
    """The numbers of nodes and edges [2] after the last layer if it was edge pooling. Results are wrong if they exceed
    its capacity."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes of all replicas, including padding; N."""
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
        """The replica of each node [N]; the last replica for padding."""
        return row_segment(self.ptr, self.num_nodes).clamp_(max=self.replicas - 1)

    @cached_property
    def graph(self) -> Tensor:
        """The graph of each node [N]; for padding, the number of graphs."""
        return row_segment(self.graph_ptr, self.num_nodes)

    @cached_property
    def edge_graph(self) -> Tensor:
        """The graph of each edge [E]; for padding, the number of graphs."""
        return row_segment(self.row_ptr[self.graph_ptr], self.edge_index.size(1))

    @cached_property
    def edge_replica(self) -> Tensor:
        """The replica of each edge [E]; the last replica for padding."""
        return row_segment(self.edge_ptr, self.edge_index.size(1)).clamp_(max=self.replicas - 1)

    @property
    def is_edge(self) -> Tensor:
        """Mask [E] of the edges that are not padding."""
        return torch.arange(self.edge_index.size(1), device=self.row_ptr.device) < self.row_ptr[-1]

    @property
    def counted(self) -> Tensor:
        """Mask [E] of the edges that are neither padding nor self-loops."""
        differs = self.edge_index[0] != self.edge_index[1]
        return self.is_edge & differs if self.padded else differs

    @cached_property
    def degree(self) -> Tensor:
        """The number of neighbours of each node [N]."""
        return self.row_ptr.diff()

    def coarse(self, edge_index: Tensor, first: Tensor, looped: bool = False, row_ptr: Tensor | None = None) -> "Union":
        """The union after pooling, given its edges and the first member of each supernode [K], ascending."""
        return replace(
            self,
            edge_index=edge_index,
            row_ptr=_row_ptr(edge_index[0], first.size(0)) if row_ptr is None else row_ptr,
            graph_ptr=torch.searchsorted(first, self.graph_ptr),
            looped=looped,
            needed=None,
        )

    def trimmed(self) -> "Union":
        """Trim the union to the first capacity in `after`. Nodes and edges beyond it are lost; pointers are clamped."""
        needed = torch.stack([self.graph_ptr[-1], self.row_ptr[-1]])
        if not self.after:
            return replace(self, needed=needed)
        nodes, edges = self.after[0]
        return replace(
            self,
            edge_index=self.edge_index[:, :edges].clamp(max=nodes - 1),
            row_ptr=self.row_ptr[: nodes + 1].clamp(max=edges),
            graph_ptr=self.graph_ptr.clamp(max=nodes),
            after=self.after[1:],
            needed=needed,
        )


class Capacity(NamedTuple):
    """The numbers of nodes and edges of a padded union."""

    nodes: int
    edges: int


class Graphs:
    """A set of graphs and its features on a device, which makes unions of batches.

    Args:
        graphs: the set, a list of :class:`torch_geometric.data.Data`, or any dataset of PyG.
        features: node features; by default those that :func:`compool.data.features` chooses.
        device: the device that holds the arrays.
        dtype: dtype of features that are not one-hot.

    Example:
        >>> from compool.data import communities, features
        >>> graphs = communities(9)
        >>> x, union = Graphs(graphs, features(graphs)).union(torch.tensor([[0, 1], [0, 5]]))
        >>> union.replicas, union.graph_ptr.size(0) - 1, x.size(0) == union.num_nodes
        (2, 4, True)
    """

    def __init__(
        self,
        graphs: "GraphSet | Iterable[Data]",
        features: Features | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        graphs = GraphSet.from_data(graphs)
        features = choose_features(graphs) if features is None else features

        def to_device(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.node_ptr, self.edge_ptr, self.y = map(to_device, (graphs.node_ptr, graphs.edge_ptr, graphs.y))
        self.width = features.width
        """The number of features."""
        self._edge_features = edge_features(graphs)
        if features.values is not None:
            x = to_device(features.values).to(dtype)
        elif features.width == 1:
            x = torch.ones(graphs.num_nodes, 1, dtype=dtype, device=device)
        else:
            assert features.column is not None
            x = to_device(features.column)
        # Padding nodes read an extra row of zeros
        self.x = torch.cat([x, torch.zeros_like(x[:1])])
        """Features [N + 1, F], or the columns of one-hot features [N + 1]; zeros in the last row."""
        self.edge_index = to_device(graphs.edge_index)
        """Edges [2, E], sorted, with nodes numbered within their graph."""
        self.largest = int(np.diff(graphs.node_ptr).max(initial=1))
        """The maximum number of nodes per graph."""
        shift = torch.repeat_interleave(self.node_ptr[:-1], self.edge_ptr.diff())
        self.row_ptr = _row_ptr(self.edge_index[0] + shift, graphs.num_nodes)
        """Node i has the edges row_ptr[i] to row_ptr[i + 1]; [N + 1]."""

    def __len__(self) -> int:
        return self.y.size(0)

    @cached_property
    def edge_attr(self) -> Tensor | None:
        """Features of all edges [E, D], or None if edges have none; computed on first use."""
        if not self._edge_features:
            return None
        everything = slice(0, self.edge_index.size(1))
        dense = np.concatenate([part.dense(everything) for part in self._edge_features], axis=1)
        return torch.from_numpy(dense).to(self.y.device)

    def edge_ids(self, graphs: Tensor) -> Tensor:
        """The edges of some graphs [B], one graph after another, as in their union.

        Example:
            >>> from compool.data import GraphSet
            >>> edges = [[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]
            >>> Graphs(GraphSet("two", [0, 2, 5], [0, 2, 6], edges, [0, 1])).edge_ids(torch.tensor([1, 0]))
            tensor([2, 3, 4, 5, 0, 1])
        """
        sizes = self.edge_ptr[graphs + 1] - self.edge_ptr[graphs]
        ends = sizes.cumsum(0)
        shift = torch.repeat_interleave(self.edge_ptr[graphs] - (ends - sizes), sizes)
        return shift + torch.arange(len(shift), device=shift.device)

    def capacity(self, graphs: Tensor) -> Capacity:
        """The capacity that suffices for all steps [steps, R, B]; −1 means no graph.

        It is at least one node and one edge, because some kernels read the first.
        """
        totals = [segment_sizes(ptr, graphs).sum((1, 2)).amax() for ptr in (self.node_ptr, self.edge_ptr)]
        return Capacity(*torch.stack(totals).clamp(min=1).tolist())

    def union(
        self,
        graphs: Tensor,
        key: Tensor | None = None,
        capacity: Capacity | None = None,
        after: tuple[Capacity, ...] = (),
    ) -> tuple[Tensor, Union]:
        """The features and the union of the graphs of R replicas.

        Args:
            graphs: the graphs of each replica [R, B]; −1 means no graph.
            key: the random key of each replica for this step, int64 [R].
            capacity: the size to which the union is padded; must suffice: see :meth:`capacity`.
            after: the capacity after each edge pooling layer; may not suffice: see `Union.needed`.
        """
        if capacity is None or graphs.device.type == "cpu":  # else nothing may be copied to the host
            self._check(graphs, key)
        source = (self.node_ptr, self.edge_ptr, self.row_ptr, self.edge_index)
        graph_ptr, node, row_ptr, edge_index = kernels.gather_graphs(graphs.reshape(-1), *source, capacity)
        known = (edge_index, row_ptr, graph_ptr, graphs.size(0), key)
        return self.x[node], Union(*known, largest=self.largest, padded=capacity is not None, after=after)

    def _check(self, graphs: Tensor, key: Tensor | None) -> None:
        """Check graphs and keys, so that no kernel gets an index out of range."""
        if graphs.dim() != 2 or graphs.dtype != torch.long or graphs.size(0) < 1:
            given = f"{graphs.dtype} {list(graphs.shape)}"
            raise ValueError(f"graphs must be int64 [replicas, graphs], of at least one replica; got {given}")
        low, high = (int(end) for end in graphs.aminmax()) if graphs.numel() else (0, -1)
        if low < -1 or high >= len(self):
            wrong = low if low < -1 else high
            raise ValueError(f"graphs must lie in 0..{len(self) - 1}, or be -1 for none; got {wrong}")
        if key is not None and (key.shape != graphs.shape[:1] or key.dtype != torch.long):
            wanted = f"int64 [{graphs.size(0)}], one key per replica"
            raise ValueError(f"key must be {wanted}; got {key.dtype} {list(key.shape)}")


def _row_ptr(index: Tensor, size: int) -> Tensor:
    """The start of each of `size` values in the sorted vector `index` [size + 1]."""
    return torch._convert_indices_from_coo_to_csr(index, size, out_int32=index.dtype != torch.int64)

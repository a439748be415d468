"""A set of graphs as flat arrays."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Many graphs, laid end to end; ``graphs[i]`` is graph i as PyG's :class:`~torch_geometric.data.Data`."""

    name: str
    x: NDArray[np.float32]
    """Features of all nodes [N, F]."""
    edge_index: NDArray[np.int32]
    """All edges [2, E], both directions, sorted; nodes are numbered within their graph."""
    y: NDArray[np.int64]
    """The class of each graph [G]."""
    node_ptr: NDArray[np.int64]
    """Graph i has the nodes node_ptr[i] to node_ptr[i + 1]; [G + 1]."""
    edge_ptr: NDArray[np.int64]
    """Graph i has the edges edge_ptr[i] to edge_ptr[i + 1]; [G + 1]."""

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.y.max()) + 1

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Data:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has graphs 0..{len(self) - 1}, got {index}")
        nodes = slice(self.node_ptr[index], self.node_ptr[index + 1])
        edges = slice(self.edge_ptr[index], self.edge_ptr[index + 1])
        return Data(
            x=torch.from_numpy(self.x[nodes]),
            edge_index=torch.from_numpy(self.edge_index[:, edges].astype(np.int64)),
            y=torch.from_numpy(self.y[index : index + 1]),
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[index] for index in range(len(self)))

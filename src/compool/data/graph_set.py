"""A set of graphs as flat arrays, and its one-file form."""

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from compool._files import whole
from compool.data.features import Features, features

FORMAT = 1  # of the file that save() writes


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Many undirected graphs, laid end to end; ``graphs[i]`` is graph i, as a :class:`torch_geometric.data.Data`."""

    name: str
    node_ptr: NDArray[np.int64]
    """Graph i has the nodes node_ptr[i] to node_ptr[i + 1]; [G + 1]."""
    edge_ptr: NDArray[np.int64]
    """Graph i has the edges edge_ptr[i] to edge_ptr[i + 1]; [G + 1]."""
    edge_index: NDArray[np.int32]
    """All edges [2, E], both directions, sorted, each once, no self-loops; nodes are numbered within their graph."""
    y: NDArray[np.int64]
    """The class of each graph [G], 0..C−1."""
    labels: NDArray[np.int32] | None = None
    """The label of each node [N], 0..L−1, if nodes have labels."""
    attributes: NDArray[np.float32] | None = None
    """The attributes of each node [N, A], if nodes have any."""
    looped: NDArray[np.int64] | None = None
    """The nodes that had a self-loop, which is not among the edges, if there are any."""

    @property
    def num_nodes(self) -> int:
        """Nodes of all graphs together."""
        return int(self.node_ptr[-1])

    @property
    def num_edges(self) -> int:
        """Edges of all graphs together, both directions counted."""
        return int(self.edge_ptr[-1])

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.y.max()) + 1

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """The number of neighbours of each node [N], itself included if it had a self-loop."""
        offset = np.repeat(self.node_ptr[:-1], np.diff(self.edge_ptr))
        degree = np.bincount(self.edge_index[0] + offset, minlength=self.num_nodes)
        if self.looped is not None:
            degree[self.looped] += 1
        return degree

    @cached_property
    def checksum(self) -> str:
        """Sixteen hexadecimal digits that change with any node, edge or class."""
        digest = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                digest.update(f"{field.name} {value.dtype} {value.shape}".encode())
                digest.update(np.ascontiguousarray(value).data)
        return digest.hexdigest()[:16]

    @cached_property
    def _features(self) -> Features:
        return features(self)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Data:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has graphs 0..{len(self) - 1}, got {index}")
        nodes = slice(self.node_ptr[index], self.node_ptr[index + 1])
        edges = slice(self.edge_ptr[index], self.edge_ptr[index + 1])
        return Data(
            x=torch.from_numpy(self._features.dense(nodes)),
            edge_index=torch.from_numpy(self.edge_index[:, edges].astype(np.int64)),
            y=torch.from_numpy(self.y[index : index + 1]),
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[index] for index in range(len(self)))

    def save(self, path: Path, **about: str) -> None:
        """Write the set, and notes on it, to one compressed file; there is no half-written one at any time."""
        arrays: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        source, target = arrays.pop("edge_index")
        offset = np.repeat(self.node_ptr[:-1], np.diff(self.edge_ptr))
        arrays["out_degree"] = _narrow(np.bincount(source + offset, minlength=self.num_nodes))
        arrays["target"] = _narrow(target)
        arrays = {key: value for key, value in arrays.items() if value is not None}
        arrays |= {"format": FORMAT} | {f"about_{key}": value for key, value in about.items()}
        with whole(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def open(cls, path: Path) -> tuple["GraphSet", dict[str, str]]:
        """Read a set that :meth:`save` wrote, and the notes on it. A file that is damaged is a ValueError."""
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
                found = int(arrays.pop("format", -1))
                if found == FORMAT:
                    return cls._decoded(arrays)
        except (OSError, ValueError, TypeError, EOFError, LookupError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is damaged or no graph set ({error}); delete it") from None
        raise ValueError(f"{path} has format {found}, this version reads {FORMAT}; delete it")

    @classmethod
    def _decoded(cls, arrays: dict[str, Any]) -> tuple["GraphSet", dict[str, str]]:
        about = {key.removeprefix("about_"): str(arrays.pop(key)) for key in list(arrays) if key.startswith("about_")}
        node_ptr, out_degree = arrays["node_ptr"], arrays.pop("out_degree")
        graph = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
        local = np.arange(len(out_degree)) - node_ptr[graph]
        source = np.repeat(local.astype(np.int32), out_degree)
        edge_index = np.stack([source, arrays.pop("target").astype(np.int32)])
        return cls(**{**arrays, "name": str(arrays["name"])}, edge_index=edge_index), about


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))

"""A set of graphs as flat arrays, and its one-file form."""

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compool._files import atomic_write
from compool.data import _checks
from compool.data._archive import Archive, SizeError
from compool.data.features import Features, features

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = 1  # of the file that save() writes
_CHECKSUM = "about_checksum"


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Many undirected graphs, laid end to end; ``graphs[i]`` is graph i, as a :class:`torch_geometric.data.Data`.

    Arrays of other integers or floats than those listed are converted.

    Raises:
        ValueError: if the arrays do not fit together, or an index is outside of its graph.
    """

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

    def __post_init__(self) -> None:
        """Check all arrays: loops over them, compiled ones, rely on it."""
        y = _checks.integers("y", self.y, np.int64, "[G]")
        node_ptr = _checks.integers("node_ptr", self.node_ptr, np.int64, "[G + 1]")
        edge_ptr = _checks.integers("edge_ptr", self.edge_ptr, np.int64, "[G + 1]")
        edge_index = _checks.integers("edge_index", self.edge_index, np.int32, "[2, E]")
        if not len(y):
            raise ValueError(f"{self.name} must have at least one graph, but y is empty")
        _checks.check_indices("y", y, _checks.MAX_VALUES, "classes")
        _checks.check_ptr("node_ptr", node_ptr, len(y))
        _checks.check_ptr("edge_ptr", edge_ptr, len(y))
        labels, attributes, looped, num_nodes = self.labels, self.attributes, self.looped, int(node_ptr[-1])
        # Arrays of one row per node come before edges, whose check needs memory for the largest graph's nodes.
        if labels is not None:
            labels = _checks.integers("labels", labels, np.int32, "[N]")
            _checks.check_rows("labels", labels, num_nodes, "node")
            _checks.check_indices("labels", labels, _checks.MAX_VALUES, "node labels")
        if attributes is not None:
            attributes = _checks.floats("attributes", attributes, "[N, A]")
            _checks.check_rows("attributes", attributes, num_nodes, "node")
        if looped is not None:
            looped = _checks.integers("looped", looped, np.int64, "[nodes with a self-loop]")
            _checks.check_indices("looped", looped, num_nodes, "nodes")
        _checks.check_edges(node_ptr, edge_ptr, edge_index)
        arrays = (node_ptr, edge_ptr, edge_index, y, labels, attributes, looped)
        for field, array in zip(fields(self)[1:], arrays, strict=True):
            object.__setattr__(self, field.name, array)

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

    @property
    def summary(self) -> dict[str, Any]:
        """Numbers of graphs, classes, node labels, node attributes and self-loops, and mean numbers of nodes and edges;
        an undirected edge counts once.
        """
        loops = 0 if self.looped is None else len(self.looped)
        return {
            "graphs": len(self),
            "nodes": round(self.num_nodes / len(self), 2),
            "edges": round((self.num_edges / 2 + loops) / len(self), 2),
            "classes": self.num_classes,
            "self_loops": loops,
            "node_labels": 0 if self.labels is None else int(self.labels.max()) + 1,
            "node_attributes": 0 if self.attributes is None else self.attributes.shape[1],
        }

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> "Data":
        import torch
        from torch_geometric.data import Data

        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has graphs 0..{len(self) - 1}, got {index}")
        nodes = slice(self.node_ptr[index], self.node_ptr[index + 1])
        edges = slice(self.edge_ptr[index], self.edge_ptr[index + 1])
        return Data(
            x=torch.from_numpy(self._features.dense(nodes)),
            edge_index=torch.from_numpy(self.edge_index[:, edges].astype(np.int64)),
            y=torch.from_numpy(self.y[index : index + 1]),
        )

    def __iter__(self) -> "Iterator[Data]":
        return (self[index] for index in range(len(self)))

    def save(self, path: Path, **about: str) -> None:
        """Write the set, notes on it and a checksum to one compressed file, completely or not at all."""
        arrays: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        source, target = arrays.pop("edge_index")
        offset = np.repeat(self.node_ptr[:-1], np.diff(self.edge_ptr))
        arrays["out_degree"] = _narrow(np.bincount(source + offset, minlength=self.num_nodes))
        arrays["target"] = _narrow(target)
        about["summary"] = json.dumps(self.summary)
        arrays |= {"format": FORMAT} | {f"about_{key}": value for key, value in about.items()}
        arrays = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
        arrays[_CHECKSUM] = np.asarray(_checksum(arrays))  # versions before it was written take it for a note
        with atomic_write(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def open(cls, path: Path) -> tuple["GraphSet", dict[str, str]]:
        """Read a set that :meth:`save` wrote, and the notes on it. A file that is damaged is a ValueError."""
        try:
            with Archive(path) as archive:
                archive.require_size(archive.members)
                arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.members}
            version = int(arrays.pop("format", np.array(-1)))
            if version == FORMAT:
                return cls._decoded(arrays)
        except SizeError:
            raise
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{path} is damaged or no graph set ({error}); delete it") from None
        raise ValueError(f"{path} has format {version}, this version reads {FORMAT}; delete it")

    @staticmethod
    def notes(path: Path) -> dict[str, str]:
        """The notes that :meth:`save` wrote, `summary` among them, without reading the graphs."""
        try:
            with Archive(path) as archive:
                members = [name for name in archive.members if name.startswith("about_")]
                archive.require_size(members)
                arrays = {name.removeprefix("about_").removesuffix(".npy"): archive.read(name) for name in members}
                return {name: str(_array(content)) for name, content in arrays.items()}
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{path} is damaged or no graph set ({error}); delete it") from None

    @classmethod
    def _decoded(cls, arrays: dict[str, NDArray[Any]]) -> tuple["GraphSet", dict[str, str]]:
        checksum = arrays.pop(_CHECKSUM, None)  # versions before it was written have none
        if checksum is not None and str(checksum) != _checksum(arrays | {"format": np.asarray(FORMAT)}):
            raise ValueError("its contents do not match their checksum")
        about = {key.removeprefix("about_"): str(arrays.pop(key)) for key in list(arrays) if key.startswith("about_")}
        name, y, target = str(arrays.pop("name")), arrays["y"], arrays.pop("target")
        node_ptr = _checks.integers("node_ptr", arrays["node_ptr"], np.int64, "[G + 1]")
        out_degree = _checks.integers("out_degree", arrays.pop("out_degree"), np.int64, "[N]")
        target = _checks.integers("target", target, np.int32, "[E]")
        _checks.check_ptr("node_ptr", node_ptr, len(y))
        _checks.check_rows("out_degree", out_degree, int(node_ptr[-1]), "node")
        _checks.check_indices("out_degree", out_degree, len(target) + 1, "edges")
        _checks.check_rows("target", target, int(out_degree.sum()), "edge")
        local = np.arange(len(out_degree)) - np.repeat(node_ptr[:-1], np.diff(node_ptr))
        edge_index = np.stack([np.repeat(local.astype(np.int32), out_degree), target])
        return cls(name=name, edge_index=edge_index, **arrays), about


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Hexadecimal digits that change with any name, type, shape or value."""
    digest = hashlib.sha256()
    for key, array in sorted(arrays.items()):
        digest.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _array(content: bytearray) -> NDArray[Any]:
    """The array of an ``npy`` file. Nothing is allocated that the file does not hold, and nothing is unpickled."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"an array has format {version}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream)
    except Exception as error:  # numpy has Python's own parser read the header, which raises what it likes
        raise ValueError(f"the header of an array is damaged: {error}") from None
    if dtype.kind not in "iufU" or fortran_order or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} is not expected")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of shape {shape} is cut off")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))

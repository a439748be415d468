"""A set of graphs as flat arrays, which behaves like a PyG dataset."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from compool._words import counted
from compool.data import _graph_file
from compool.data._arrays import checked_arrays
from compool.data._packing import pack, unpack
from compool.data._selection import graph_ids, single_id, take
from compool.data.conversion import arrays_of, name_of, to_data
from compool.data.features import Features, Vocabulary, edge_features, features, num_labels, vocabulary_of
from compool.data.names import Names, names_from_json

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from compool.data._selection import Index

_EDGE_FIELDS = ("edge_labels", "edge_attributes")


@dataclass(frozen=True, eq=False, repr=False)
class GraphSet:
    """Many undirected graphs in flat arrays.

    ``graphs[i]`` is graph i as a :class:`torch_geometric.data.Data`, with ``x``, ``edge_index``, ``y``, and
    ``edge_attr`` if edges have labels or attributes. Slices, lists, masks and tensors give subsets, which are sets with
    the same columns and classes. A :class:`torch_geometric.loader.DataLoader` takes a set like any dataset.

    Arrays of other integer or float types are converted.

    Raises:
        ValueError: if the arrays do not fit together, or a node index is not in its graph.

    Example:
        >>> from compool.data import communities
        >>> graphs = communities(90)
        >>> graphs
        GraphSet('communities', 90 graphs, 4 features (labels), 3 classes)
        >>> graphs[:60], graphs[-1].num_nodes
        (GraphSet('communities', 60 graphs, 4 features (labels), 3 classes), 84)
    """

    name: str
    node_ptr: NDArray[np.int64]
    """Graph i has the nodes node_ptr[i] to node_ptr[i + 1]; [G + 1]."""
    edge_ptr: NDArray[np.int64]
    """Graph i has the edges edge_ptr[i] to edge_ptr[i + 1]; [G + 1]."""
    edge_index: NDArray[np.int32]
    """All edges [2, E], both directions, sorted, each once, no self-loops; nodes are numbered within their graph."""
    y: NDArray[Any]
    """The targets: classes, int64 [G]; numbers, float32 [G] or [G, T]; or labels, float32 [G, T], NaN if missing."""
    labels: NDArray[np.int32] | None = None
    """The label of each node [N], 0..L−1, if nodes have labels."""
    attributes: NDArray[np.float32] | None = None
    """The attributes of each node [N, A], if nodes have any."""
    looped: NDArray[np.int64] | None = None
    """The nodes that had a self-loop, if any; self-loops are not among the edges."""
    edge_labels: NDArray[np.int32] | None = None
    """The label of each edge [E], if edges have labels."""
    edge_attributes: NDArray[np.float32] | None = None
    """The attributes of each edge [E, B], if edges have any."""
    task: str = ""
    """``"classification"``, ``"regression"`` or ``"multilabel"``; by default, inferred from `y`."""
    inherited: Vocabulary | None = None
    """The vocabulary of the whole set, if this is a subset."""
    edges_in_checksum: bool = False
    """Whether `checksum` includes labels and attributes of edges: not for TU files, as earlier versions did not read
    them, and runs on these sets stay comparable.
    """
    names: Names = field(default_factory=Names)
    """The names of classes and labels in the files of the set, if they have any; not part of the checksum."""
    check_edges: InitVar[bool] = True
    """Whether to check every edge. If not, the set is only safe for planning."""

    def __post_init__(self, check_edges: bool) -> None:
        for name, value in checked_arrays(self, check_edges).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_data(
        cls, graphs: "Iterable[Data]", name: str | None = None, to_undirected: bool = False, task: str = ""
    ) -> "GraphSet":
        """Make a set from a list of :class:`torch_geometric.data.Data`, or from any PyG dataset.

        Only ``edge_index``, ``x``, ``edge_attr`` and ``y`` are kept. Whole numbers in one column of ``x`` or
        ``edge_attr`` are labels, which become one-hot features; anything else is a matrix of attributes. Repeated edges
        and self-loops are dropped; a self-loop still counts in its node's degree.

        Args:
            graphs: the graphs.
            name: the name of the set: letters, digits and . _ + - only; by default that of the dataset, or
                ``"graphs"``. Splits and seeds depend on it.
            to_undirected: add the missing direction of edges, with the same ``edge_attr``, instead of rejecting
                graphs that have an edge in one direction only.
            task: ``"classification"``, ``"regression"`` or ``"multilabel"``; by default, ``y`` of whole numbers are
                classes, other ``y`` [1, T] of nothing but 0, 1 and NaN are labels, and the rest are numbers to predict.

        Raises:
            ValueError: if a graph lacks something or does not match the others; the message says which graph.

        Example:
            >>> import torch
            >>> from torch_geometric.data import Data
            >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            >>> GraphSet.from_data([Data(torch.randn(3, 8), path, y=y) for y in (0, 1, 1)], name="paths")
            GraphSet('paths', 3 graphs, 8 features (attributes), 2 classes)
        """
        if isinstance(graphs, GraphSet):
            if name is None and task in ("", graphs.task):
                return graphs
            changed = replace(graphs, name=name_of(graphs, name), task=task or graphs.task, inherited=None)
            known = graphs.inherited
            if known is not None and changed.task != graphs.task:
                known = replace(known, num_classes=vocabulary_of(changed).num_classes)
            return replace(changed, inherited=known)
        return cls(name=name_of(graphs, name), task=task, edges_in_checksum=True, **arrays_of(graphs, to_undirected))

    @property
    def num_nodes(self) -> int:
        """The number of nodes of all graphs together."""
        return int(self.node_ptr[-1])

    @property
    def num_edges(self) -> int:
        """The number of edges of all graphs together; each direction counts."""
        return int(self.edge_ptr[-1])

    @property
    def num_targets(self) -> int:
        """The number of columns of `y`: 1 unless it is [G, T]."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    @property
    def num_classes(self) -> int:
        """The number of classes; for regression and multi-label sets, `num_targets`, as in PyG."""
        if self.task != "classification":
            return self.num_targets
        return self.inherited.num_classes if self.inherited else int(self.y.max()) + 1

    @property
    def num_features(self) -> int:
        """The number of columns of ``x``, which :func:`compool.data.features` chooses by default."""
        return self.node_features.width

    @property
    def num_node_features(self) -> int:
        """The same as `num_features`."""
        return self.num_features

    @property
    def num_edge_features(self) -> int:
        """The number of columns of ``edge_attr``, 0 without it: attributes, then one-hot labels."""
        return sum(part.width for part in self.edge_features)

    @cached_property
    def node_features(self) -> Features:
        """The features in ``x``; their `kind` is their origin: ``"attributes"``, ``"labels"`` or ``"degree"``."""
        return features(self)

    @cached_property
    def edge_features(self) -> list[Features]:
        """The features in ``edge_attr``, side by side."""
        return edge_features(self)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The classes, labels and degrees of the set, or of the whole set if this is a subset."""
        return self.inherited or vocabulary_of(self)

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
        """Sixteen hexadecimal digits that change with any node, edge or target, and with labels and attributes of edges
        if `edges_in_checksum`; for a subset, also with the classes, labels and degrees of the whole set that it lacks.
        Runs are only compared on data with the same checksum.
        """
        names = [field.name for field in fields(self) if self.edges_in_checksum or field.name not in _EDGE_FIELDS]
        about = "" if self.task == "classification" else self.task
        if self.inherited is not None and (known := _as_text(self.inherited)) != _as_text(vocabulary_of(self)):
            about = f"{about} {known}"
        return self._digest(names, about)

    @cached_property
    def edge_checksum(self) -> str:
        """Sixteen hexadecimal digits that change with any label or attribute of an edge; empty if there are none."""
        return self._digest(_EDGE_FIELDS) if self.num_edge_features else ""

    def _digest(self, names: Iterable[str], about: str = "") -> str:
        digest = hashlib.sha256(about.encode())
        for name in names:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                digest.update(f"{name} {value.dtype} {value.shape}".encode())
                digest.update(np.ascontiguousarray(value).data)
        return digest.hexdigest()[:16]

    @property
    def summary(self) -> dict[str, Any]:
        """Numbers of graphs, classes, labels, attributes and self-loops, and mean numbers of nodes and edges; an
        undirected edge counts once.
        """
        loops = 0 if self.looped is None else len(self.looped)
        return {
            "graphs": len(self),
            "nodes": round(self.num_nodes / len(self), 2),
            "edges": round((self.num_edges / 2 + loops) / len(self), 2),
            "classes": self.num_classes,
            "self_loops": loops,
            "node_labels": num_labels(self.labels),
            "node_attributes": 0 if self.attributes is None else self.attributes.shape[1],
            "edge_labels": num_labels(self.edge_labels),
            "edge_attributes": 0 if self.edge_attributes is None else self.edge_attributes.shape[1],
            "task": self.task,
        }

    @property
    def target_text(self) -> str:
        """The number of classes or targets, in words."""
        if self.task == "classification":
            return "1 class" if self.num_classes == 1 else f"{self.num_classes} classes"
        return f"{self.num_targets} target{'s' * (self.num_targets > 1)} ({self.task})"

    def __repr__(self) -> str:
        features = f"{counted(self.num_features, 'feature')} ({self.node_features.kind})"
        parts = [repr(self.name), counted(len(self), "graph"), features]
        if self.num_edge_features:
            parts.append(counted(self.num_edge_features, "edge feature"))
        parts.append(self.target_text)
        return f"GraphSet({', '.join(parts)})"

    def __len__(self) -> int:
        return len(self.y)

    @overload
    def __getitem__(self, index: int) -> "Data": ...
    @overload
    def __getitem__(self, index: "Index") -> "GraphSet": ...

    def __getitem__(self, index: "int | Index") -> "Data | GraphSet":
        single = single_id(index, self)
        return to_data(self, single) if single is not None else GraphSet(**take(self, graph_ids(index, self)))

    def __iter__(self) -> "Iterator[Data]":
        return (to_data(self, index) for index in range(len(self)))

    def shuffle(self, return_perm: bool = False) -> "GraphSet | tuple[GraphSet, Tensor]":
        """The set in random order, by torch's generator; with `return_perm`, also the order, as in PyG.

        Example:
            >>> import torch
            >>> from compool.data import communities
            >>> _ = torch.manual_seed(0)
            >>> graphs, order = communities(9).shuffle(return_perm=True)
            >>> order.tolist(), graphs.y.tolist()
            ([8, 0, 2, 3, 7, 1, 4, 5, 6], [2, 0, 2, 0, 1, 1, 1, 2, 0])
        """
        import torch

        order = torch.randperm(len(self))
        return (self[order], order) if return_perm else self[order]

    def save(self, path: Path | str, **about: str) -> None:
        """Write the set, notes about it and a checksum to one compressed file, completely or not at all.

        The file is an ``npz`` of plain arrays. ``load(name, folder)`` finds it as ``NAME.npz`` in a folder.

        Raises:
            ValueError: if the path does not end in ``.npz``, or a note is called names, summary or checksum.
        """
        if Path(path).suffix != ".npz":
            raise ValueError(f"the path of a saved set must end in .npz, got {path}")
        if reserved := {"names", "summary", "checksum"} & about.keys():
            raise ValueError(f"a note cannot be called {min(reserved)}: the file has its own")
        notes = {"summary": json.dumps(self.summary)} | ({"names": self.names.as_json()} if any(self.names) else {})
        _graph_file.write_arrays(Path(path), pack(self), notes | about)

    @classmethod
    def open(cls, path: Path | str, check_edges: bool = True) -> tuple["GraphSet", dict[str, str]]:
        """Read a set that :meth:`save` wrote, and the notes about it. Raises a ValueError if the file is damaged.

        Args:
            path: the file.
            check_edges: check every edge. If not, the edges of a file with a checksum are trusted, as they were checked
                when it was written: enough to plan a study, not to train.
        """
        arrays, about, has_checksum = _graph_file.read_arrays(Path(path))
        try:
            names = names_from_json(about.get("names", ""))
            return cls(**unpack(arrays), names=names, check_edges=check_edges or not has_checksum), about
        except (ValueError, TypeError, LookupError) as error:
            raise _graph_file.damaged(Path(path), error) from None

    @staticmethod
    def notes(path: Path | str) -> dict[str, str]:
        """The notes that :meth:`save` wrote, `summary` among them, without reading the graphs."""
        return _graph_file.read_notes(Path(path))


def _as_text(known: Vocabulary) -> str:
    return f"{known.num_classes} {known.num_labels} {known.num_edge_labels} {known.degrees.tolist()}"

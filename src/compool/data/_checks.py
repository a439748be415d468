"""Checks of the arrays of a set, so that no loop reads out of bounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_VALUES = 1_000_000  # of classes, and of labels, which become one-hot features
MAX_NODES = np.iinfo(np.int32).max  # of a graph


def integers(name: str, values: Any, dtype: type[np.signedinteger[Any]], shape: str) -> NDArray[Any]:
    """An array of integers as `dtype`; `shape` is ``"[N]"`` or ``"[2, E]"``, for example."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    if array.ndim != shape.count(",") + 1 or (shape.startswith("[2,") and len(array) != 2):
        raise ValueError(f"{name} must have the shape {shape}, got {list(array.shape)}")
    if array.dtype != dtype:
        _check_bounds(name, array, np.iinfo(dtype).min, np.iinfo(dtype).max)
        array = array.astype(dtype)
    return array


def floats(name: str, values: Any, shape: str) -> NDArray[np.float32]:
    """An array of numbers as float32."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    if array.ndim != shape.count(",") + 1:
        raise ValueError(f"{name} must have the shape {shape}, got {list(array.shape)}")
    return array.astype(np.float32, copy=False)


def optional_labels(name: str, values: Any, num_rows: int, of: str) -> NDArray[np.int32] | None:
    """Labels as int32, one per node or edge, if there are any."""
    if values is None:
        return None
    labels = integers(name, values, np.int32, "[N]" if of == "node" else "[E]")
    check_rows(name, labels, num_rows, of)
    check_indices(name, labels, MAX_VALUES, f"{of} labels")
    return labels


def optional_attributes(name: str, values: Any, num_rows: int, of: str) -> NDArray[np.float32] | None:
    """Attributes as float32, one row per node or edge, if there are any."""
    if values is None:
        return None
    attributes = floats(name, values, "[N, A]" if of == "node" else "[E, B]")
    check_rows(name, attributes, num_rows, of)
    is_finite = np.isfinite(attributes)
    if not is_finite.all():
        row, column = np.argwhere(~is_finite)[0]
        raise ValueError(f"{name} must be finite, but {of} {row} has {attributes[row, column]} in column {column}")
    return attributes


def check_indices(name: str, values: NDArray[Any], end: int, of: str) -> None:
    """Raise a ValueError unless all values lie in 0..end − 1."""
    if values.size and end <= 0:
        raise ValueError(f"{name} must be empty, as there are no {of}; got {values.size} values")
    _check_bounds(name, values, 0, end - 1, f", {of}")


def _check_bounds(name: str, values: NDArray[Any], low: int, high: int, of: str = "") -> None:
    if values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        wrong = int(values.min()) if int(values.min()) < low else int(values.max())
        raise ValueError(f"{name} must lie in {low}..{high}{of}; got {wrong}")


def check_ptr(name: str, values: NDArray[np.int64], graphs: int) -> None:
    """Raise a ValueError unless offsets of graphs start at 0 and never decrease."""
    if len(values) != graphs + 1:
        raise ValueError(f"{name} must have one entry more than y, {graphs + 1}; got {len(values)}")
    if values[0] != 0:
        raise ValueError(f"{name} must begin with 0, got {values[0]}")
    if (wrong := np.flatnonzero(values[1:] < values[:-1])).size:
        raise ValueError(f"{name} must not decrease, but does after entry {wrong[0]}")


def check_rows(name: str, values: NDArray[Any], num_rows: int, of: str) -> None:
    """Raise a ValueError unless there are `num_rows` rows, for example one per node."""
    if len(values) != num_rows:
        raise ValueError(f"{name} must have {num_rows} rows, one per {of}; got {len(values)}")


def check_num_edges(node_ptr: NDArray[np.int64], edge_ptr: NDArray[np.int64], edge_index: NDArray[np.int32]) -> None:
    """Raise a ValueError if the number of edges differs from the offsets, or a graph has too many nodes for int32."""
    if edge_index.shape[1] != edge_ptr[-1]:
        raise ValueError(
            f"edge_index must have edge_ptr[-1] = {edge_ptr[-1]} columns, one per edge; got {edge_index.shape[1]}"
        )
    largest = int(np.diff(node_ptr).max(initial=0))
    if largest > MAX_NODES:
        raise ValueError(f"node_ptr must give a graph at most {MAX_NODES} nodes, got {largest}")


def check_edges(node_ptr: NDArray[np.int64], edge_ptr: NDArray[np.int64], edge_index: NDArray[np.int32]) -> None:
    """Raise a ValueError unless edges lie in their graphs, sorted, unique, in both directions, without self-loops.

    The offsets and the number of edges must have been checked.
    """
    from compool.data import _loops  # imports numba, which is slow

    largest = int(np.diff(node_ptr).max(initial=0))
    wrong, graph, edge = _loops.first_wrong(
        node_ptr, edge_ptr, edge_index[0], edge_index[1], np.empty(largest, np.int64)
    )
    if not wrong:
        return
    size, pair = int(node_ptr[graph + 1] - node_ptr[graph]), tuple(edge_index[:, edge].tolist())
    problem = {
        _loops.RANGE: f"nodes of graph {graph} are 0..{size - 1}" if size else f"graph {graph} has no nodes",
        _loops.LOOP: "self-loops are not allowed; list their nodes in `looped`",
        _loops.ORDER: "edges of a graph must be sorted by source and target, each once",
        _loops.REVERSE: f"graph {graph} has this edge in one direction only",
    }[wrong]
    raise ValueError(f"edge_index, column {edge}: {problem}; got {pair}")

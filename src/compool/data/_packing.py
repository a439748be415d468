"""Convert the fields of a set to the arrays of its file, and back."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compool.data import _checks
from compool.data.features import Vocabulary

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet

_SIZES, _DEGREES = "inherited_sizes", "inherited_degrees"


def pack(graphs: "GraphSet") -> dict[str, Any]:
    """The arrays of a set's file: edges as out-degrees and targets, in the smallest types that hold them."""
    known = graphs.inherited
    arrays = {field.name: getattr(graphs, field.name) for field in fields(graphs) if field.name != "names"}
    source, target = arrays.pop("edge_index")
    offset = np.repeat(graphs.node_ptr[:-1], np.diff(graphs.edge_ptr))
    arrays["out_degree"] = _narrow(np.bincount(source + offset, minlength=graphs.num_nodes))
    arrays["target"] = _narrow(target)
    arrays["edges_in_checksum"] = int(graphs.edges_in_checksum)
    if arrays.pop("inherited") is not None and known is not None:
        arrays[_SIZES] = [known.num_classes, known.num_labels, known.num_edge_labels]
        arrays[_DEGREES] = known.degrees
    return {key: value for key, value in arrays.items() if value is not None}


def unpack(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of a set from the arrays of its file."""
    fields_of_set = dict[str, Any](arrays)
    name, task = str(fields_of_set.pop("name")), str(fields_of_set.pop("task", ""))
    node_ptr = _checks.integers("node_ptr", arrays["node_ptr"], np.int64, "[G + 1]")
    target = _checks.integers("target", fields_of_set.pop("target"), np.int32, "[E]")
    out_degree = _checks.integers("out_degree", fields_of_set.pop("out_degree"), np.int64, "[N]")
    _checks.check_ptr("node_ptr", node_ptr, len(arrays["y"]))
    _checks.check_rows("out_degree", out_degree, int(node_ptr[-1]), "node")
    _checks.check_indices("out_degree", out_degree, len(target) + 1, "edges")
    _checks.check_rows("target", target, int(out_degree.sum()), "edge")
    local = np.arange(len(out_degree)) - np.repeat(node_ptr[:-1], np.diff(node_ptr))
    edge_index = np.stack([np.repeat(local.astype(np.int32), out_degree), target])
    if _SIZES in fields_of_set:
        sizes = _checks.integers(_SIZES, fields_of_set.pop(_SIZES), np.int64, "[3]")
        degrees = _checks.integers(_DEGREES, fields_of_set.pop(_DEGREES), np.int64, "[degrees]")
        fields_of_set["inherited"] = Vocabulary(int(sizes[0]), int(sizes[1]), int(sizes[2]), degrees)
    in_checksum = bool(fields_of_set.pop("edges_in_checksum", False))
    return fields_of_set | {"name": name, "task": task, "edge_index": edge_index, "edges_in_checksum": in_checksum}


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))

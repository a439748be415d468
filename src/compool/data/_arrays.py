"""Check the arrays of a set: compiled loops rely on it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from compool.data import _checks
from compool.data.features import check_known
from compool.data.targets import check_targets

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet


def checked_arrays(graphs: "GraphSet", check_edges: bool) -> dict[str, Any]:
    """The arrays of a set in the right types, and its task; a ValueError names an array that is invalid."""
    if not np.size(graphs.y):
        raise ValueError(f"{graphs.name} must have at least one graph, but y is empty")
    y, task = check_targets(graphs.y, graphs.task)
    node_ptr = _checks.integers("node_ptr", graphs.node_ptr, np.int64, "[G + 1]")
    edge_ptr = _checks.integers("edge_ptr", graphs.edge_ptr, np.int64, "[G + 1]")
    edge_index = _checks.integers("edge_index", graphs.edge_index, np.int32, "[2, E]")
    _checks.check_ptr("node_ptr", node_ptr, len(y))
    _checks.check_ptr("edge_ptr", edge_ptr, len(y))
    # Arrays of one row per node come before edges, whose check needs memory for the largest graph's nodes.
    num_nodes, num_edges = int(node_ptr[-1]), int(edge_ptr[-1])
    labels = _checks.optional_labels("labels", graphs.labels, num_nodes, "node")
    attributes = _checks.optional_attributes("attributes", graphs.attributes, num_nodes, "node")
    looped = graphs.looped
    if looped is not None:
        looped = _checks.integers("looped", looped, np.int64, "[nodes with a self-loop]")
        _checks.check_indices("looped", looped, num_nodes, "nodes")
    _checks.check_num_edges(node_ptr, edge_ptr, edge_index)
    if check_edges:
        _checks.check_edges(node_ptr, edge_ptr, edge_index)
    edge_labels = _checks.optional_labels("edge_labels", graphs.edge_labels, num_edges, "edge")
    edge_attributes = _checks.optional_attributes("edge_attributes", graphs.edge_attributes, num_edges, "edge")
    if graphs.inherited is not None:
        known_classes = y if task == "classification" else None
        check_known(graphs.name, graphs.inherited, known_classes, labels, edge_labels)
    return {
        **{"node_ptr": node_ptr, "edge_ptr": edge_ptr, "edge_index": edge_index, "y": y, "task": task},
        **{"labels": labels, "attributes": attributes, "looped": looped},
        **{"edge_labels": edge_labels, "edge_attributes": edge_attributes},
    }

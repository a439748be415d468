"""Generated calls of the steps in `compool.ops`, which do not check their input, to know which can crash."""

from collections.abc import Callable
from typing import Any

import torch
from arguments import Draw
from layers import graph

from compool import ops
from compool.replicas import kernels

Thunk = Callable[[], Any]


def _inputs(draw: Draw) -> dict[str, Any]:
    """Arguments of all steps for one graph, by name."""
    made = graph(draw)
    count, channels = made.x.size(0), made.channels
    edges = sorted({(i, j) for i, j in made.edge_index.t().tolist() if i != j})
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous()
    row_ptr = torch.searchsorted(edge_index[0].contiguous(), torch.arange(count + 1))
    edge_score = torch.rand(edge_index.size(1)) - 0.3
    merged = edge_score > 0
    parts = ops.components(edge_index, merged, count)
    contracted = ops.contract(edge_score, edge_index, count)
    return {
        "x": made.x.detach(),
        "edge_index": edge_index,
        "batch": made.batch,
        "num_nodes": count,
        "edge_score": edge_score,
        "merged": merged,
        "counted": torch.ones_like(merged),
        "row_ptr": row_ptr,
        "ptr": torch.tensor([0, count // 2, count]),
        "cluster": parts.cluster,
        "first": parts.first,
        "alone": parts.alone,
        "pairs": contracted,
        "weight": torch.randn(1, 2 * channels),
        "weights": torch.randn(2, 3, channels),
        "bias": torch.randn(1),
        "biases": torch.randn(2, 3),
        "scale": torch.randn(2, channels),
        "node_weight": torch.rand(count),
        "key": torch.tensor([1, 2]),
        "probability": torch.tensor([0.1, 0.5]),
        "which": torch.tensor([0, -1]),
        "ends": torch.randn(2, count),
    }


CHANGED = {
    "x": "features",
    "edge_index": "index",
    "batch": "batch",
    "num_nodes": "size",
    "edge_score": "floats",
    "merged": "mask",
    "row_ptr": "index",
    "ptr": "index",
    "cluster": "index",
    "first": "index",
    "alone": "mask",
    "which": "indices",
    "ends": "floats",
    "weights": "floats",
    "key": "indices",
}


def _parts(given: dict[str, Any]) -> ops.Components:
    return ops.Components(given["cluster"], given["first"], given["alone"])


STEPS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "score": lambda g: ops.score(g["x"], g["edge_index"], g["weight"], g["bias"], torch.tanh),
    "gather_ends": lambda g: ops.gather_ends(g["ends"], g["edge_index"]),
    "softmax_ends": lambda g: kernels.softmax_ends(g["ends"], g["edge_index"], g["row_ptr"]),
    "select": lambda g: ops.select(g["edge_score"], g["edge_index"], g["num_nodes"]),
    "select_quantile": lambda g: ops.select_quantile(g["edge_score"], g["edge_index"], g["num_nodes"], 0.5, g["batch"]),
    "select_ratio": lambda g: ops.select_ratio(g["edge_score"], g["edge_index"], g["num_nodes"], 0.5, g["batch"]),
    "select_max_size": lambda g: ops.select_max_size(
        g["edge_score"], g["edge_index"], g["num_nodes"], 3, 0.0, g["batch"]
    ),
    "components": lambda g: ops.components(g["edge_index"], g["merged"], g["num_nodes"]),
    "connect": lambda g: ops.connect(g["edge_index"], _parts(g)),
    "coarsen": lambda g: ops.coarsen(g["edge_score"], g["edge_index"], g["num_nodes"], 0.0, g["batch"]),
    "coarsen_padded": lambda g: kernels.coarsen_padded(g["edge_score"], g["edge_index"], g["row_ptr"]),
    "contract": lambda g: ops.contract(g["edge_score"], g["edge_index"], g["num_nodes"]),
    "contract_padded": lambda g: kernels.contract_padded(g["edge_score"], g["edge_index"], g["row_ptr"], g["ptr"]),
    "merge": lambda g: ops.merge(g["x"], g["edge_score"], g["edge_index"], g["merged"], _parts(g)),
    "merge_all": lambda g: ops.merge_all(g["x"], g["edge_score"], g["edge_index"], g["merged"], _parts(g)),
    "merge_pairs": lambda g: ops.merge_pairs(
        g["x"], g["edge_score"], g["edge_index"], g["pairs"]._replace(cluster=g["cluster"])
    ),
    "row_sum": lambda g: ops.row_sum(g["x"], g["node_weight"], g["cluster"], g["batch"], g["num_nodes"]),
    "lift": lambda g: ops.lift(g["x"], g["cluster"]),
    "pool": lambda g: ops.pool(g["x"], g["edge_index"], g["weight"], g["bias"], g["batch"]),
    "row_pointer": lambda g: kernels.row_pointer(g["edge_index"], g["num_nodes"]),
    "propagate": lambda g: kernels.propagate(g["x"], g["row_ptr"], g["edge_index"][1]),
    "grouped_linear": lambda g: kernels.grouped_linear(g["x"], g["weights"], g["ptr"], g["biases"]),
    "linear_activate": lambda g: kernels.linear_activate(
        g["x"], g["weights"], g["biases"], g["ptr"], g["key"], g["probability"]
    ),
    "segment_sum": lambda g: kernels.segment_sum(g["x"], g["ptr"]),
    "segment_repeat": lambda g: kernels.segment_repeat(g["scale"], g["ptr"], g["num_nodes"]),
    "segment_norm": lambda g: kernels.segment_norm(g["x"], g["scale"], g["scale"], g["ptr"]),
    "dropout": lambda g: kernels.dropout(g["x"], g["ptr"], g["key"], g["probability"]),
    "activate": lambda g: kernels.activate(g["x"], None, g["ptr"], g["key"], g["probability"]),
    "gather_graphs": lambda g: kernels.gather_graphs(
        g["which"], g["ptr"], g["row_ptr"][g["ptr"]], g["row_ptr"], g["edge_index"]
    ),
}


def _target(name: str) -> Callable[[Draw], Thunk]:
    used = _used(STEPS[name])

    def make(draw: Draw) -> Thunk:
        given = _inputs(draw)
        draw.spoil(given, {key: kind for key, kind in CHANGED.items() if key in used})
        return lambda: STEPS[name](given)

    return make


def _used(step: Callable[[dict[str, Any]], Any]) -> set[str]:
    """The arguments that a step takes: the names in its code."""
    names = {constant for constant in step.__code__.co_consts if isinstance(constant, str)}
    return names | ({"cluster", "first", "alone"} if "_parts" in step.__code__.co_names else set())


TARGETS: dict[str, tuple[Callable[[Draw], Thunk], int]] = {f"ops.{name}": (_target(name), 1) for name in STEPS}

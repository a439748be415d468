"""Checks of an operator's input before anything is computed. Errors name the argument, what was given and what is
allowed.
"""

import torch
from torch import Tensor

from compool.ops._dispatch import is_transformed


def check_edge_index(edge_index: Tensor) -> None:
    """Require `edge_index` to be integers [2, E]."""
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"edge_index must be a tensor, got {type(edge_index).__name__}")
    if edge_index.layout is not torch.strided:
        raise TypeError(f"edge_index must be a dense tensor, got layout {edge_index.layout}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, edges], got {_shape(edge_index)}")
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"edge_index must be torch.int64 or torch.int32, got {edge_index.dtype}")


def check_range(edge_index: Tensor, num_nodes: int) -> None:
    """Require `edge_index` to lie in 0..num_nodes−1. The first kernel that reads it calls this, compiled or not."""
    if edge_index.numel():
        low, high = (int(end) for end in edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            wrong = low if low < 0 else high
            raise ValueError(f"edge_index must lie in 0..{num_nodes - 1} for {num_nodes} nodes, got {wrong}")


def check_num_nodes(num_nodes: int | None, edge_index: Tensor) -> int:
    """Require `num_nodes` to be a whole number, and return it; by default it is one more than the highest index."""
    if num_nodes is None:
        return int(edge_index.max()) + 1 if edge_index.numel() else 0
    if not isinstance(num_nodes, (int, torch.SymInt)) or isinstance(num_nodes, bool) or num_nodes < 0:
        raise ValueError(f"num_nodes must be a whole number, at least 0; got {num_nodes!r}")
    return num_nodes


_WEIGHTS = ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")


def check_edge_weight(weight: Tensor, edge_index: Tensor, name: str = "weight") -> None:
    """Require weights to be floats or integers [E] on the device of `edge_index`."""
    if not isinstance(weight, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(weight).__name__}")
    if weight.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {weight.layout}")
    if weight.dtype not in [getattr(torch, dtype) for dtype in _WEIGHTS]:
        raise TypeError(f"{name} must be of a float or integer dtype ({', '.join(_WEIGHTS)}), got {weight.dtype}")
    if weight.shape != edge_index.shape[1:]:
        raise ValueError(f"{name} must have shape [{edge_index.size(1)}], one entry per edge; got {_shape(weight)}")
    if weight.device != edge_index.device:
        raise ValueError(f"{name} is on {weight.device}, but edge_index is on {edge_index.device}")


def check_forest_size(num_edges: int, num_nodes: int) -> None:
    """Require fewer than 2³¹ edges and nodes: kernels of spanning forests index them with 32 bits."""
    for name, number in (("edges", num_edges), ("nodes", num_nodes)):
        if number >= 2**31:
            raise ValueError(f"the graph has {number} {name}; a spanning forest takes fewer than 2³¹")


def nan_weight(weight: Tensor, name: str = "weight") -> ValueError:
    """The error for a weight that is NaN."""
    edge = int(weight.isnan().nonzero()[0])
    return ValueError(f"the {name} of edge {edge} (of {weight.numel()}) is NaN, which cannot be compared")


_HETERO = ": graphs of several node types, and to_hetero, are not supported; data.to_homogeneous() makes one type"
_HINTS = {
    "tuple": _HETERO,
    "dict": _HETERO,
    "Proxy": ": torch.fx cannot trace the layer; use torch.compile or torch.export instead",
}


def check_inputs(
    x: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    edge_attr: Tensor | None,
    in_channels: int,
    edge_dim: int | None,
    weight: Tensor,
) -> None:
    """Check a layer's input: `x` must be floats [N, in_channels] on the device of the layer's `weight`; `edge_index`
    integers [2, E], `batch` integers [N], and `edge_attr` floats [E, …], or [E, edge_dim] if the layer has `edge_dim`.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # a trace hard-codes this graph's sizes
        raise NotImplementedError("torch.jit.trace is not supported; use torch.compile or torch.export instead")
    for name, value in (("x", x), ("edge_index", edge_index), ("batch", batch), ("edge_attr", edge_attr)):
        if value is None and name in ("batch", "edge_attr"):
            continue
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise TypeError(f"{name} must be a tensor, got {kind}{_HINTS.get(kind, '')}")
        if value.layout is not torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got layout {value.layout}")
    if x.dim() != 2 or x.size(1) != in_channels:
        raise ValueError(f"x must have shape [nodes, {in_channels}], the layer's in_channels; got {_shape(x)}")
    if not x.is_floating_point():
        raise TypeError(f"x must be of a float dtype, got {x.dtype}; x.float() converts it")
    if x.device != weight.device:
        raise ValueError(f"x is on {x.device}, but the layer is on {weight.device}; they must be on one device")
    if x.is_meta:
        raise ValueError("x is on the meta device, which has no values to score edges by; give tensors on a CPU or GPU")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"x is {x.dtype}, but the layer is {weight.dtype}; convert one of them, for example by layer.to({x.dtype})"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, edges], got {_shape(edge_index)}")
    if batch is not None and (batch.dim() != 1 or batch.size(0) != x.size(0)):
        raise ValueError(f"batch must have shape [{x.size(0)}], one entry per node, got {_shape(batch)}")
    for name, indices in (("edge_index", edge_index), ("batch", batch)):
        if indices is not None and indices.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name} must be torch.int64 or torch.int32, got {indices.dtype}")
    for name, value in (("edge_index", edge_index), ("batch", batch), ("edge_attr", edge_attr)):
        if value is not None and value.device != x.device:
            raise ValueError(f"{name} is on {value.device}, but x is on {x.device}; they must be on one device")
    if edge_attr is None:
        if edge_dim is not None:
            raise ValueError(f"edge_attr must be given, as the layer has edge_dim={edge_dim}")
        return
    edges = edge_index.size(1)
    if edge_dim is not None and edge_attr.shape != (edges, edge_dim):
        wanted = f"[{edges}, {edge_dim}]: one row per edge, edge_dim columns"
        raise ValueError(f"edge_attr must have shape {wanted}; got {_shape(edge_attr)}")
    if edge_attr.dim() == 0 or edge_attr.size(0) != edges:
        raise ValueError(f"edge_attr must have {edges} rows, one per edge; got {_shape(edge_attr)}")
    if not edge_attr.is_floating_point():
        raise TypeError(f"edge_attr must be of a float dtype, got {edge_attr.dtype}; edge_attr.float() converts it")


def check_batch(batch: Tensor, edge_index: Tensor, num_nodes: int) -> None:
    """Require `batch` to be integers [N] on the device of `edge_index`; also runs :func:`check_graphs`."""
    if not isinstance(batch, Tensor):
        raise TypeError(f"batch must be a tensor, got {type(batch).__name__}")
    if batch.dim() != 1 or batch.size(0) != num_nodes:
        raise ValueError(f"batch must have shape [{num_nodes}], one entry per node, got {_shape(batch)}")
    if batch.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"batch must be torch.int64 or torch.int32, got {batch.dtype}")
    if batch.device != edge_index.device:
        raise ValueError(f"batch is on {batch.device}, but edge_index is on {edge_index.device}")
    check_graphs(batch, edge_index)


def check_graphs(batch: Tensor | None, edge_index: Tensor) -> None:
    """Require `batch` to be sorted and not negative, and edges not to join two graphs. The kernel that coarsens calls
    this, compiled or not, after it has checked the range of the edges.
    """
    if batch is None or not batch.numel():
        return
    if int(batch[0]) < 0:
        raise ValueError(f"batch must hold graph indices from 0 up; node 0 is in graph {int(batch[0])}")
    if bool((batch[1:] < batch[:-1]).any()):
        node = int((batch[1:] < batch[:-1]).nonzero()[0])
        first, second = batch[node : node + 2].tolist()
        raise ValueError(f"batch must be sorted, but node {node} is in graph {first} and node {node + 1} in {second}")
    check_crossing(batch, edge_index)


def check_crossing(batch: Tensor, edge_index: Tensor) -> None:
    """Require edges not to join two graphs."""
    edge = first_crossing(batch, edge_index)
    if edge >= 0:
        ends = edge_index[:, edge].long()
        (source, target), (first, second) = ends.tolist(), batch[ends].tolist()
        raise ValueError(
            f"edge_index must not join two graphs, but according to batch, edge {edge} joins node {source} of graph "
            f"{first} and node {target} of graph {second}"
        )


def first_crossing(batch: Tensor, edge_index: Tensor) -> int:
    """The position of the first edge that joins two graphs, or −1 if none does."""
    if batch.device.type == "cpu" and not is_transformed():
        from compool.ops._cpu.loops import first_crossing as loop  # numba is for CPUs

        return int(loop(batch.contiguous().numpy(), *edge_index.contiguous().numpy()))
    crosses = batch[edge_index[0]] != batch[edge_index[1]]
    return int(crosses.nonzero()[0]) if crosses.any() else -1


def check_activated(edge_score: Tensor, raw: Tensor, name: str = "score") -> None:
    """Require a score function to return one float per edge."""
    if not isinstance(edge_score, Tensor) or edge_score.shape != raw.shape or not edge_score.is_floating_point():
        wanted = f"{raw.dtype} {_shape(raw)}"
        given = f"{edge_score.dtype} {_shape(edge_score)}" if isinstance(edge_score, Tensor) else repr(edge_score)
        raise ValueError(f"{name} must return a float for each edge, here {wanted}; it returned {given}")
    if edge_score.device != raw.device:
        raise ValueError(f"{name} must return scores on {raw.device}, the device of x; got {edge_score.device}")


def check_scores(edge_score: Tensor) -> None:
    """Require that no score is NaN."""
    if not torch.compiler.is_compiling() and bool(edge_score.isnan().any()):
        raise nan_score(edge_score)


class NanScore(ValueError):
    """A score is NaN."""


def nan_score(edge_score: Tensor) -> NanScore:
    """The error for a score that is NaN."""
    edge = int(edge_score.isnan().nonzero()[0])
    return NanScore(
        f"the score of edge {edge} (of {edge_score.numel()}) is NaN, which is neither above nor below the threshold: "
        "x, the layer's weights, or what a scorer or score function of your own returns, hold NaN, infinity, or "
        "numbers too large for their type"
    )


def check_graph_ids(batch: Tensor, batch_size: int | None) -> int:
    """Require `batch` to lie in 0..batch_size−1; returns the batch size, by default one more than the highest index."""
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 0):
        raise ValueError(f"batch_size must be a whole number, at least 0; got {batch_size}")
    if batch_size is not None and torch.compiler.is_compiling():
        torch._assert_async(((batch >= 0) & (batch < batch_size)).all(), "batch must lie in 0..batch_size − 1")
        return batch_size
    if not batch.numel():
        return batch_size or 0
    low, high = (int(end) for end in batch.aminmax())
    if low < 0:
        raise ValueError(f"batch must hold graph indices from 0 up; got {low}")
    if batch_size is not None and high >= batch_size:
        raise ValueError(f"batch must lie in 0..{batch_size - 1} for batch_size={batch_size}, got {high}")
    return high + 1 if batch_size is None else batch_size


def _shape(t: Tensor) -> list[int]:
    return list(t.shape)

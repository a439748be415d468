"""Pooling of PyG's graphs and batches."""

from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from compool.nn.pooled import Pooled


class _PoolingLayer(Protocol):
    def __call__(self, x: Tensor, edge_index: Tensor, batch: Tensor | None, edge_attr: Tensor | None) -> Pooled: ...


def pool_data(pool: _PoolingLayer, data: Data) -> Data:
    """See :meth:`~compool.ComponentPooling.pool_data`."""
    if hasattr(data, "node_types"):
        raise ValueError(f"data must have one type of nodes, got {type(data).__name__}; its to_homogeneous() makes one")
    for name in ("x", "edge_index"):
        if data.get(name) is None:
            raise ValueError(f"data must have {name}, got {data}")
    out = pool(data.x, data.edge_index, data.get("batch"), data.get("edge_attr"))
    graph_attrs = {key: data[key] for key in data.keys() if _of_graphs(data, key)}  # noqa: SIM118
    new = {"x": out.x, "edge_index": out.edge_index}
    if out.edge_attr is not None:
        new["edge_attr"] = out.edge_attr
    if not isinstance(data, Batch):
        return Data(**graph_attrs, **new, **({"batch": out.batch} if "batch" in data else {}))

    num_graphs = data.num_graphs
    ptr = _ptr(out.batch, num_graphs)
    edge_ptr = _ptr(out.batch[out.edge_index[0].long()], num_graphs)
    pooled = Batch(**graph_attrs, **new, batch=out.batch, ptr=ptr)
    pooled._num_graphs = num_graphs
    # Each graph's slice of an attribute, and the increment added to its indices: for get_example() and to_data_list()
    slices, added = (getattr(data, name, None) or {} for name in ("_slice_dict", "_inc_dict"))
    zeros = torch.zeros(num_graphs, dtype=torch.long)
    pooled._slice_dict = {key: (ptr if key == "x" else edge_ptr).cpu() for key in new} | {
        key: slices[key] for key in graph_attrs if key in slices
    }
    pooled._inc_dict = dict.fromkeys(new, zeros) | {key: added[key] for key in graph_attrs if key in added}
    pooled._inc_dict["edge_index"] = ptr[:-1].cpu()
    return pooled


def _of_graphs(data: Data, key: str) -> bool:
    """Whether an attribute belongs to whole graphs. PyG decides by size, and so mistakes the label of a graph with a
    single node for an attribute of that node.
    """
    if key in ("x", "edge_index", "edge_attr", "edge_weight", "pos", "batch", "ptr", "num_nodes"):
        return False
    if key.endswith(("_ptr", "_batch")):  # of a loader's follow_batch
        return False
    if bool(torch.as_tensor(data.__inc__(key, data[key])).any()):  # indices of nodes, such as `face`
        return False
    value, num_graphs = data[key], data.num_graphs if isinstance(data, Batch) else 1
    if isinstance(value, Tensor) and value.dim() > 0 and value.size(0) == num_graphs:
        return True
    return not data.is_node_attr(key) and not data.is_edge_attr(key)


def _ptr(graph: Tensor, num_graphs: int) -> Tensor:
    """Offsets into the sorted vector `graph`: graph g has the entries ``ptr[g]:ptr[g + 1]``."""
    return torch.searchsorted(graph.contiguous(), torch.arange(num_graphs + 1, device=graph.device, dtype=graph.dtype))

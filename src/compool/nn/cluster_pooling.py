"""PyG's ClusterPooling in linear time."""

import torch
import torch.nn.functional as F
import torch_geometric.nn
from torch import Tensor
from torch_geometric.nn.pool.cluster_pool import UnpoolInfo

from compool import ops
from compool.nn._unsupported import refuse_script
from compool.ops._checks import check_inputs, check_scores
from compool.ops.score import score_and_pass

_METHODS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log_softmax": lambda raw: F.log_softmax(raw, dim=0),
}


class ClusterPooling(torch_geometric.nn.ClusterPooling):
    r"""PyG's :class:`torch_geometric.nn.ClusterPooling`, with the same outputs in linear time and memory.

    A drop-in replacement: a subclass with the same arguments, results and ``state_dict``. PyG's layer builds dense
    N × N matrices over the whole batch. This one also takes ``batch=None``, every float dtype and empty graphs, and has
    :meth:`unpool`.

    It follows the paper's released code rather than its equations: all edges' scores weight the features, merged or
    not, and an edge that is listed twice counts twice. :class:`~compool.ComponentPooling` follows the equations.

    Args:
        in_channels: size of each node's features.
        edge_score_method: ``"tanh"``, ``"sigmoid"`` or ``"log_softmax"`` (over all edges of the batch; its scores never
            exceed the default threshold).
        dropout: probability with which a raw score is set to zero in training.
        threshold: merge the edges that score above it; by default 0.5 for sigmoid, else 0.

    Example:
        >>> pool = ClusterPooling(16)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> x_out, edge_index_out, batch_out, unpool_info = pool(x, edge_index)
        >>> x_back, edge_index_back, batch_back = pool.unpool(x_out, unpool_info)
        >>> x_back.shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        in_channels: int,
        edge_score_method: str = "tanh",
        dropout: float = 0.0,
        threshold: float | None = None,
    ) -> None:
        if edge_score_method not in _METHODS:
            allowed = ", ".join(repr(name) for name in _METHODS)
            raise ValueError(f"edge_score_method must be one of {allowed}; got {edge_score_method!r}")
        super().__init__(in_channels, edge_score_method, dropout, threshold)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, UnpoolInfo]:
        """Pool a graph, or a batch of graphs.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E]; self-loops are removed.
            batch: the graph of each node [N]; by default all nodes belong to one graph.

        Returns:
            The features, edges and batch vector of the coarse graph, and the information that :meth:`unpool` needs.
        """
        check_inputs(x, edge_index, batch, None, self.in_channels, None, self.lin.weight)
        num_nodes = x.size(0)
        if batch is None:
            batch = edge_index.new_zeros(num_nodes, dtype=torch.long)

        proper = edge_index[0] != edge_index[1]
        if torch.compiler.is_compiling() or not proper.all():
            edge_index = edge_index[:, proper]
        dropout = self.dropout if self.training else 0.0
        activation = _METHODS[self.edge_score_method]
        edge_score, x = score_and_pass(x, edge_index, self.lin.weight, self.lin.bias, activation, dropout)
        check_scores(edge_score)
        parts = ops.components(edge_index, edge_score > self.threshold, num_nodes)
        x_out = ops.merge_all(x, edge_score, edge_index, None, parts)
        unpool_info = UnpoolInfo(edge_index, parts.cluster, batch)
        return x_out, ops.connect(edge_index, parts), batch[parts.first], unpool_info

    __prepare_scriptable__ = refuse_script

    def unpool(self, x: Tensor, unpool_info: UnpoolInfo) -> tuple[Tensor, Tensor, Tensor]:
        """Give every node the features of its supernode, and restore the edges and the batch vector.

        Args:
            x: features of the supernodes [K, …].
            unpool_info: as :meth:`forward` returned it.

        Returns:
            The features [N, …], edges (without self-loops) and batch vector of the fine graph.
        """
        return ops.lift(x, unpool_info.cluster), unpool_info.edge_index, unpool_info.batch

"""PyG's EdgePooling without its loop over edges."""

from collections.abc import Callable

import torch
import torch_geometric.nn
from torch import Tensor
from torch_geometric.nn.pool.edge_pool import UnpoolInfo

from compool import ops
from compool.ops._checks import (
    check_activated,
    check_inputs,
    check_range,
    check_scores,
)
from compool.ops.score import score_and_pass


class EdgePooling(torch_geometric.nn.EdgePooling):
    r"""PyG's :class:`torch_geometric.nn.EdgePooling` (Diehl 2019), with the same outputs and no Python loop over edges.

    Scores every edge, by default with a softmax over the incoming edges of each node, and contracts edges in descending
    order of score, skipping edges with an end that is already contracted. A drop-in replacement: a subclass with the
    same arguments, results, ``state_dict`` and :meth:`unpool`. Ties go to the edge that is listed first; PyG leaves
    their order open.

    Args:
        in_channels: size of each node's features.
        edge_score_method: a function of raw scores, edge_index and number of nodes; by default
            :meth:`compute_edge_score_softmax`.
        dropout: probability with which a raw score is set to zero in training.
        add_to_edge_score: number added to every score.
        by_first: number supernodes by their first members, so that a sorted `batch` stays sorted; by default they are
            numbered by score, as in PyG.

    Example:
        >>> pool = EdgePooling(16)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> x_out, edge_index_out, batch_out, unpool_info = pool(x, edge_index)
        >>> x_out.shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        in_channels: int,
        edge_score_method: Callable[[Tensor, Tensor, int], Tensor] | None = None,
        dropout: float = 0.0,
        add_to_edge_score: float = 0.5,
        by_first: bool = False,
    ) -> None:
        super().__init__(in_channels, edge_score_method, dropout, add_to_edge_score)
        self.by_first = by_first

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, UnpoolInfo]:
        """Pool a graph, or a batch of graphs.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E].
            batch: the graph of each node [N]; by default all nodes belong to one graph.

        Returns:
            The features, edges and batch vector of the coarse graph, and the information that :meth:`unpool` needs.
        """
        check_inputs(x, edge_index, batch, None, self.in_channels, None, self.lin.weight)
        num_nodes = x.size(0)
        if batch is None:
            batch = edge_index.new_zeros(num_nodes, dtype=torch.long)

        dropout = self.dropout if self.training else 0.0
        raw, x = score_and_pass(x, edge_index, self.lin.weight, self.lin.bias, lambda raw: raw, dropout)
        if edge_index.is_cuda and not torch.compiler.is_compiling():
            check_range(edge_index, num_nodes)  # PyG's softmax would trigger a device-side assertion
        edge_score = self.compute_edge_score(raw, edge_index, num_nodes)
        check_activated(edge_score, raw, "edge_score_method")
        edge_score = edge_score + self.add_to_edge_score
        check_scores(edge_score)
        parts = ops.contract(edge_score, edge_index, num_nodes, self.by_first)
        x_out, supernode_score = ops.merge_pairs(x, edge_score, edge_index, parts)
        edge_index_out = ops.connect(edge_index, parts, self_loops=True, input_loops=True)
        info = UnpoolInfo(edge_index, parts.cluster, batch, supernode_score)
        return x_out, edge_index_out, batch[parts.first], info

    def unpool(self, x: Tensor, unpool_info: UnpoolInfo) -> tuple[Tensor, Tensor, Tensor]:
        """Give every node its supernode's features, divided by the supernode's score; restore edges and batch vector.

        Args:
            x: features of the supernodes [K, d].
            unpool_info: as :meth:`forward` returned it.

        Returns:
            The features [N, d], edges and batch vector of the fine graph.
        """
        x = x / unpool_info.new_edge_score.view(-1, 1)
        return ops.lift(x, unpool_info.cluster), unpool_info.edge_index, unpool_info.batch

    def __prepare_scriptable__(self) -> torch_geometric.nn.EdgePooling:
        """PyG's layer with the same weights, for `torch.jit.script`: TorchScript cannot run our kernels."""
        if self.by_first:
            raise ValueError("torch.jit.script needs EdgePooling with by_first=False, because it compiles PyG's layer")
        settings = (self.compute_edge_score, self.dropout, self.add_to_edge_score)
        layer = torch_geometric.nn.EdgePooling(self.in_channels, *settings)
        layer.lin = self.lin
        return layer.train(self.training)

"""Component pooling as a pooler of torch-geometric-pool (tgp), which must be installed."""

from typing import Any

import torch
from tgp.connect import SparseConnect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import Select, SelectOutput
from tgp.src import PoolingOutput, SRCPooling
from tgp.utils.ops import connectivity_to_edge_index
from torch import Tensor

from compool import nn


class ComponentSelect(Select):
    r"""Assign each node to its supernode, with the weight that Eq. 3 gives it: :math:`S = W C`.

    Lifting copies features: :math:`S_{inv}` is :math:`C^\top`, without weights.

    Args:
        in_channels: size of each node's features.
        settings: those of :class:`compool.ComponentPooling`, except `edge_dim` and ``weights="all"``, with which a
            node would be in several supernodes.
    """

    def __init__(self, in_channels: int, **settings: Any) -> None:
        super().__init__()
        if settings.get("weights", "merged") != "merged":
            raise ValueError(f"weights must be 'merged' in a tgp pooler, got {settings['weights']!r}")
        if settings.get("edge_dim") is not None:
            raise ValueError(f"edge_dim must be None: tgp passes no edge features; got {settings['edge_dim']!r}")
        self.pool = nn.ComponentPooling(in_channels, **settings)

    def reset_parameters(self) -> None:
        """Initialise the weights again."""
        self.pool.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """The assignment, with the score of each edge as `edge_score`."""
        assigned = self.pool.assign(x, edge_index, batch)
        nodes, values = torch.arange(x.size(0), device=x.device), torch.ones_like(assigned.weight)
        indices, size = torch.stack([assigned.cluster, nodes]), (assigned.num_supernodes, x.size(0))
        return SelectOutput(
            cluster_index=assigned.cluster,
            num_nodes=x.size(0),
            num_supernodes=assigned.num_supernodes,
            weight=assigned.weight.to(x.dtype),
            s_inv=torch.sparse_coo_tensor(indices, values.to(x.dtype), size, check_invariants=False),
            batch=batch,
            edge_score=assigned.edge_score,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pool.extra_repr()})"


class ComponentPooler(SRCPooling):
    """:class:`compool.ComponentPooling` for networks that use tgp.

    Args:
        in_channels: size of each node's features.
        connect_red_op: how to combine the weights of edges between the same supernodes.
        remove_self_loops: whether supernodes have no self-loops.
        score: as in :class:`compool.ComponentPooling`, like all following arguments.
        threshold: merge the edges that score above it.
        symmetric: one score for both directions of an edge.
        dropout: probability with which a raw score is set to zero in training.
        quantile: instead of a threshold, merge the top 1 − quantile of a graph's edges.
        ratio: instead of a threshold, merge until this share of a graph's nodes is left.
        max_size: how many nodes a supernode may have.

    Example:
        >>> pooler = ComponentPooler(16, symmetric=True)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> out = pooler(x=x, adj=edge_index)
        >>> pooler(x=out.x, so=out.so, lifting=True).shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        in_channels: int,
        connect_red_op: str = "sum",
        remove_self_loops: bool = True,
        score: Any = "tanh",
        threshold: float | None = None,
        symmetric: bool = False,
        dropout: float = 0.0,
        quantile: float | None = None,
        ratio: float | None = None,
        max_size: int | None = None,
    ) -> None:
        budgets = {"quantile": quantile, "ratio": ratio, "max_size": max_size}
        settings = {"score": score, "threshold": threshold, "symmetric": symmetric, "dropout": dropout}
        super().__init__(
            selector=ComponentSelect(in_channels, **settings, **budgets),
            reducer=BaseReduce(),
            lifter=BaseLift(matrix_op="precomputed"),
            connector=SparseConnect(reduce_op=connect_red_op, remove_self_loops=remove_self_loops),
        )

    def forward(
        self,
        x: Tensor,
        adj: Any = None,
        edge_weight: Tensor | None = None,
        so: SelectOutput | None = None,
        batch: Tensor | None = None,
        lifting: bool = False,
        **kwargs: Any,
    ) -> PoolingOutput | Tensor:
        """Pool; or, with `lifting`, give every node the features `x` of its supernode.

        Args:
            x: node features [N, in_channels]; with `lifting`, the features of supernodes [K, *].
            adj: edges [2, E], or a sparse matrix [N, N]; not with `lifting`.
            edge_weight: weights of the edges [E].
            so: with `lifting`, the `so` of the pooled graph.
            batch: the graph of each node [N], sorted; by default all nodes are of one graph.
            lifting: whether to lift.
            kwargs: ignored; for arguments of other poolers.
        """
        if lifting:
            return self.lift(x_pool=x, so=so)
        edge_index, edge_weight = connectivity_to_edge_index(adj, edge_weight)
        so = self.select(x=x, edge_index=edge_index, batch=batch)
        x, batch_pooled = self.reduce(x=x, so=so, batch=batch)
        edge_index, edge_weight = self.connect(
            edge_index=adj, so=so, edge_weight=edge_weight, batch_pooled=batch_pooled
        )
        return PoolingOutput(x=x, edge_index=edge_index, edge_weight=edge_weight, batch=batch_pooled, so=so)

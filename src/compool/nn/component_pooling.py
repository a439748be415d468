"""Edge-based graph component pooling as a layer."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compool import ops
from compool.nn._scorer import EdgeScorer
from compool.nn._settings import Score, check_budget, check_threshold, score_name
from compool.nn.pooled import Assigned, Pooled
from compool.ops._checks import check_inputs

if TYPE_CHECKING:
    from torch_geometric.data import Data

_REDUCES = ("sum", "mean", "max", "multiplicity")


class ComponentPooling(EdgeScorer):
    r"""Edge-based graph component pooling (`Snelleman et al. 2024 <https://arxiv.org/abs/2409.11856>`_).

    Scores every edge from its two end nodes, :math:`S_{ij} = \sigma(\psi(x_i, x_j) + b)`, merges the edges whose score
    exceeds a threshold, and turns each connected component of merged edges into one supernode. Its features are the
    sum of its members', each weighted by the scores of its merged edges; a node that is not merged stays as it is.
    Supernodes are connected where their members were. Time and memory are linear in nodes and edges.

    If a graph holds both directions of each edge, each direction has its own score. A node of which only the incoming
    direction is merged gets weight 0, so that its features are lost; ``symmetric=True`` prevents that.

    Args:
        in_channels: size of each node's features.
        score: the function :math:`\sigma` of a raw score: ``"tanh"``, ``"sigmoid"``, or a callable from raw scores [E]
            to scores [E].
        threshold: merge the edges that score above it; by default 0 for tanh and 0.5 for sigmoid. Must be given for a
            callable.
        weights: whose scores weigh features: ``"merged"`` (merged edges only, the paper's Eq. 3) or ``"all"`` (every
            edge, as in the paper's released code and in PyG: features leak between supernodes).
        symmetric: one score for both directions of an edge, from the mean of the two raw scores.
        dropout: probability with which a raw score is set to zero in training.
        self_loops: keep a self-loop on each supernode that holds an edge (Eq. 4); by default there are none.
        quantile: instead of a threshold, merge in each graph the edges whose scores are in its top 1 − quantile; see
            :func:`~compool.ops.select_quantile`.
        ratio: instead of a threshold, merge in each graph the highest scores until this share of its nodes is left; see
            :func:`~compool.ops.select_ratio`.
        max_size: how many nodes a supernode may have: the edges above the threshold are merged highest scores first,
            as far as no supernode gets larger; see :func:`~compool.ops.select_max_size`.
        edge_dim: size of each edge's features, which the score then sees too, :math:`\psi(x_i, x_j, e_{ij})`.
        edge_reduce: what the features of an edge between supernodes are made of: the ``"sum"``, ``"mean"`` or ``"max"``
            of those of the edges that it stands for; or their ``"multiplicity"``: how many there are, where each edge
            counts as many times as `edge_attr` [E] says, by default once.

    Example:
        >>> pool = ComponentPooling(16)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> out = pool(x, edge_index)
        >>> out.unpool(out.x).shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        in_channels: int,
        score: Score = "tanh",
        threshold: float | None = None,
        weights: str = "merged",
        symmetric: bool = False,
        dropout: float = 0.0,
        self_loops: bool = False,
        quantile: float | None = None,
        ratio: float | None = None,
        max_size: int | None = None,
        edge_dim: int | None = None,
        edge_reduce: str = "sum",
    ) -> None:
        super().__init__(in_channels, score, symmetric, edge_dim)
        if weights not in ("merged", "all"):
            raise ValueError(f"weights must be 'merged' or 'all', got {weights!r}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        if edge_reduce not in _REDUCES:
            raise ValueError(f"edge_reduce must be one of {', '.join(map(repr, _REDUCES))}; got {edge_reduce!r}")
        if edge_dim is not None and edge_reduce == "multiplicity":
            raise ValueError(f"edge_reduce='multiplicity' is for edges without features, but edge_dim is {edge_dim}")
        check_budget(threshold, quantile, ratio, max_size)
        self.threshold = check_threshold(score, threshold) if quantile is None and ratio is None else -math.inf
        self.quantile, self.ratio, self.max_size = quantile, ratio, max_size
        self.weights = weights
        self.dropout = dropout
        self.self_loops = self_loops
        self.edge_reduce = edge_reduce

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Pooled:
        """Pool a graph, or a batch of graphs.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E]. Self-loops and repeated edges are ignored; an undirected edge is both directions.
            batch: the graph of each node [N], sorted; by default all nodes are of one graph.
            edge_attr: features of the edges, [E, edge_dim] if the layer has an `edge_dim`, else [E] or [E, any].
        """
        return self._pool(x, edge_index, batch, edge_attr)

    def _pool(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None, edge_attr: Tensor | None, per_member: bool = False
    ) -> Pooled:
        """:meth:`forward`; with `per_member`, features are divided by the number of members before they are rounded."""
        check_inputs(x, edge_index, batch, edge_attr, self.in_channels, self.edge_dim, self.lin.weight)
        num_nodes = x.size(0)
        dropout = self.dropout if self.training else 0.0
        fine = (edge_index, edge_attr)
        options = (self.quantile, self.max_size, self.edge_dim, edge_attr, dropout or None)
        is_basic = isinstance(self.score, str) and self.weights == "merged" and self.edge_reduce != "multiplicity"
        if is_basic and all(option is None for option in options):  # one operator does it all
            x, edge_score, cluster, edge_index, batch = ops.pool(
                x,
                edge_index,
                self.lin.weight,
                self.lin.bias,
                batch,
                str(self.score),
                self.threshold,
                self.symmetric,
                self.self_loops,
                per_member,
                self.ratio,
            )
            return Pooled(x, edge_index, batch, cluster, edge_score, None, *fine)
        edge_score, x = self._score(x, edge_index, edge_attr, dropout)
        coarse = self._coarsen(edge_score, edge_index, num_nodes, batch)
        if self.weights == "merged":
            x = ops.merge(x, edge_score, edge_index, coarse.merged, coarse.parts, per_member)
        else:
            x = ops.merge_all(x, edge_score, edge_index, coarse.counted, coarse.parts, per_member)
        return Pooled(
            x, coarse.edge_index, coarse.batch, coarse.parts.cluster, edge_score, self._edge_attr(*fine, coarse), *fine
        )

    def assign(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Assigned:
        """The supernode of each node, and its weight there as in Eq. 3; arguments as in :meth:`forward`.

        Example:
            >>> pool = ComponentPooling(16)
            >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
            >>> assigned = pool.assign(x, edge_index)
            >>> weighted = assigned.weight[:, None] * x
            >>> summed = torch.zeros(assigned.num_supernodes, 16).index_add(0, assigned.cluster, weighted)
            >>> torch.allclose(summed, pool(x, edge_index).x)
            True
        """
        if self.weights != "merged":
            raise ValueError(f"weights must be 'merged': with {self.weights!r}, a node is in several supernodes")
        check_inputs(x, edge_index, batch, edge_attr, self.in_channels, self.edge_dim, self.lin.weight)
        edge_score, _ = self._score(x, edge_index, edge_attr, self.dropout if self.training else 0.0)
        coarse = self._coarsen(edge_score, edge_index, x.size(0), batch)
        weight = ops.node_weight(edge_score, edge_index, coarse.merged, coarse.parts)
        return Assigned(coarse.parts.cluster, weight, coarse.parts.number, edge_score)

    def pool_data(self, data: "Data") -> "Data":
        """Pool a PyG graph or batch: its `x` and `edge_index`, and `edge_attr` if it has one.

        Labels and all else that belongs to whole graphs stay; what else belongs to nodes or edges does not. A batch
        remains a batch, of which single graphs can be taken.

        Example:
            >>> from torch_geometric.data import Data
            >>> graph = Data(torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([1]))
            >>> ComponentPooling(16).pool_data(graph).y
            tensor([1])
        """
        from compool.nn.data import pool_data

        return pool_data(self, data)

    def _coarsen(self, edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> ops.Coarse:
        args, parts = (edge_score, edge_index, num_nodes), None
        if self.quantile is not None:
            selection = ops.select_quantile(*args, self.quantile, batch)
        elif self.ratio is not None:
            selection, parts = ops.ratio_parts(*args, self.ratio, batch)
        elif self.max_size is not None:
            selection = ops.select_max_size(*args, self.max_size, self.threshold, batch)
        else:
            return ops.coarsen(*args, self.threshold, batch, self.self_loops)
        return ops.coarsen_selected(selection, edge_index, num_nodes, batch, self.self_loops, parts)

    def _edge_attr(self, edge_index: Tensor, edge_attr: Tensor | None, coarse: ops.Coarse) -> Tensor | None:
        reduce = self.edge_reduce
        if reduce == "multiplicity":
            reduce = "sum"
            if edge_attr is None:
                dtype = torch.promote_types(self.lin.weight.dtype, torch.float32)  # half precision counts to 256
                edge_attr = torch.ones_like(edge_index[0], dtype=dtype)
        if edge_attr is None:
            return None
        return ops.connect_features(edge_attr, edge_index, coarse.counted, coarse.parts, coarse.edge_index, reduce)

    def extra_repr(self) -> str:
        """The settings that differ from the defaults, and the threshold."""
        settings = [str(self.in_channels), f"score={score_name(self.score)}"]
        settings += [f"threshold={self.threshold:g}"] if math.isfinite(self.threshold) else []
        settings += [f"weights={self.weights}"] if self.weights != "merged" else []
        settings += ["symmetric=True"] if self.symmetric else []
        settings += [f"dropout={self.dropout:g}"] if self.dropout else []
        settings += ["self_loops=True"] if self.self_loops else []
        budgets = {"quantile": self.quantile, "ratio": self.ratio, "max_size": self.max_size}
        settings += [f"{name}={value:g}" for name, value in budgets.items() if value is not None]
        settings += [f"edge_dim={self.edge_dim}"] if self.edge_dim is not None else []
        settings += [f"edge_reduce={self.edge_reduce}"] if self.edge_reduce != "sum" else []
        return ", ".join(settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

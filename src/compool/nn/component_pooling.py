"""Edge-based graph component pooling as a layer."""

import logging
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compool import ops
from compool.nn._scorer import EdgeScorer, Scorer
from compool.nn._settings import (
    Score,
    check_budget,
    check_dropout,
    check_order,
    check_reduce,
    check_scorer,
    check_threshold,
    default_score,
    highest_score,
    non_default,
    score_name,
)
from compool.nn.pooled import Assigned, Pooled
from compool.nn.random_score import RandomScore
from compool.ops._checks import check_inputs, nan_score

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from compool.nn.settings import NetworkSettings

_log = logging.getLogger(__name__)
MAX_IDLE_STEPS = 100  # a layer that merges nothing, or everything, for this many training steps warns
_REDUCES = ("sum", "mean", "max", "multiplicity")


class ComponentPooling(EdgeScorer):
    r"""Edge-based graph component pooling (`Snelleman et al. 2024 <https://arxiv.org/abs/2409.11856>`_).

    Scores every edge from its two end nodes, :math:`S_{ij} = \sigma(\psi(x_i, x_j) + b)`, merges the edges whose score
    exceeds a threshold, and turns each connected component of merged edges into one supernode. A supernode's features
    are the weighted sum of its members' features; a member's weight is the sum of the scores of its outgoing merged
    edges. A node without merged edges stays as it is. Supernodes are connected where their members were. Time and
    memory are linear in nodes and edges.

    If a graph holds both directions of each edge, each direction has its own score. If only incoming edges of a node
    merge, the node gets weight 0 and its features are lost; ``symmetric=True`` prevents that.

    Args:
        in_channels: size of each node's features.
        score: the function :math:`\sigma` of a raw score: ``"tanh"``, ``"sigmoid"``, ``"hardtanh"`` or a callable from
            raw scores [E] to scores [E]; by default tanh, or hardtanh with the similarity scorer and no budget. (A
            `quantile`, `ratio` or `max_size` ranks edges by their scores, and hardtanh makes many of them equal.)
        threshold: merge the edges that score above it; by default 0, or 0.5 for sigmoid. Required for a callable.
        weights: which edges' scores weight the features: ``"merged"`` (merged edges only, the paper's Eq. 3) or
            ``"all"`` (every edge, as in the paper's released code and in PyG: features leak between supernodes).
        symmetric: use one score for both directions of an edge, from the mean of the two raw scores. The similarity
            and random scorers are always symmetric.
        dropout: probability with which a raw score is set to zero in training.
        self_loops: keep a self-loop on each supernode that contains an edge (Eq. 4); by default self-loops are removed.
        quantile: instead of using a threshold, merge the top 1 − quantile of the edges in each graph; see
            :func:`~compool.ops.select_quantile`.
        ratio: instead of using a threshold, merge the highest-scoring edges of each graph until this share of its nodes
            is left; see :func:`~compool.ops.select_ratio`.
        max_size: maximum number of nodes per supernode: edges above the threshold merge in descending order of score,
            unless the supernode would become larger; see :func:`~compool.ops.select_max_size`.
        edge_dim: size of each edge's features, which then enter the score: :math:`\psi(x_i, x_j, e_{ij})`.
        edge_reduce: how to reduce the features of all edges between the members of two supernodes: their ``"sum"``,
            ``"mean"`` or ``"max"``; or their ``"multiplicity"``: the number of edges, where each edge counts as many
            times as `edge_attr` [E] says, by default once.
        scorer: how to score edges: ``"linear"``, a linear map of the features of both ends (as in the paper);
            ``"similarity"``, which merges similar nodes: see :class:`~compool.nn.Similarity`; ``"random"``, a control
            that learns nothing: see :class:`~compool.nn.RandomScore`; or a module that is called with the features
            of the sources [E, d], of the targets [E, d] and of the edges (or None), and returns raw scores [E].
        reduce: how to combine members: a sum weighted by ``"score"`` (Eq. 3 and 4); their ``"sum"``; their ``"mean"``,
            through which the scorer gets no gradient; or ``"graded"``, a mean that changes continuously with the
            scores: see :func:`~compool.ops.graded_weight`.
        order: which edges a `ratio` merges first: those with the highest ``"score"``, or edges in ``"random"`` order.
            The random order is a control: scores are learned and weight features, but do not decide what merges.

    Example:
        >>> pool = ComponentPooling(16)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> out = pool(x, edge_index)
        >>> out.unpool(out.x).shape
        torch.Size([4, 16])
    """

    _per_member = False  # divide features by the number of members before they are rounded

    def __init__(
        self,
        in_channels: int,
        score: Score | None = None,
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
        scorer: Scorer = "linear",
        reduce: str = "score",
        order: str = "score",
    ) -> None:
        has_budget = quantile is not None or ratio is not None or max_size is not None
        super().__init__(
            in_channels, default_score(scorer, has_budget) if score is None else score, symmetric, edge_dim, scorer
        )
        if isinstance(scorer, str):
            check_scorer(scorer, reduce, score)
        if weights not in ("merged", "all"):
            raise ValueError(f"weights must be 'merged' or 'all', got {weights!r}")
        check_dropout(dropout)
        if edge_reduce not in _REDUCES:
            raise ValueError(f"edge_reduce must be one of {', '.join(map(repr, _REDUCES))}; got {edge_reduce!r}")
        if edge_dim is not None and edge_reduce == "multiplicity":
            raise ValueError(f"edge_reduce='multiplicity' is for edges without features, but edge_dim is {edge_dim}")
        check_budget(threshold, quantile, ratio, max_size)
        check_reduce(reduce, weights, self.score, threshold, quantile is not None or ratio is not None)
        check_order(order, ratio, scorer if isinstance(scorer, str) else None)
        if scorer == "random" and (dropout or edge_dim is not None):
            raise ValueError(f"scorer='random' takes no dropout and no edge_dim, got {dropout} and {edge_dim}")
        self.threshold = check_threshold(self.score, threshold) if quantile is None and ratio is None else -math.inf
        self.quantile, self.ratio, self.max_size = quantile, ratio, max_size
        self.weights, self.reduce, self.order = weights, reduce, order
        self.random_order = RandomScore() if order == "random" else None
        self.dropout = dropout
        self.self_loops = self_loops
        self.edge_reduce = edge_reduce
        self._num_idle_steps, self._idle_state, self._has_warned = 0, "", False

    def reset_parameters(self) -> None:
        """Reinitialise the weights of the scorer, and draw a new random order if there is one."""
        super().reset_parameters()
        self._num_idle_steps, self._has_warned = 0, False
        order = getattr(self, "random_order", None)  # not yet set when EdgeScorer.__init__ calls this
        if order is not None:
            order.reset_parameters()

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Pooled:
        """Pool a graph, or a batch of graphs.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E]; both directions for undirected edges. Self-loops and repeated edges are ignored.
            batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
            edge_attr: features of the edges, [E, edge_dim] if the layer has an `edge_dim`, else [E] or [E, any].
        """
        weight = self.lin.weight if self.scorer is None and self.random is None else x
        check_inputs(x, edge_index, batch, edge_attr, self.in_channels, self.edge_dim, weight)
        dropout = self.dropout if self.training else 0.0
        has_named_score = isinstance(self.score, str) and self.scorer is None and self.random is None and not dropout
        weighs_by_score = self.weights == "merged" and self.reduce == "score" and self.random_order is None
        selects_on_device = self.quantile is None and self.max_size is None  # by a threshold or a ratio
        has_edge_features = self.edge_dim is not None or edge_attr is not None or self.edge_reduce == "multiplicity"
        if has_named_score and weighs_by_score and selects_on_device and not has_edge_features:  # one operator does all
            term, features = None, x
            if self.similarity is not None:
                self._check_before_observing(x, edge_index, batch)
                term, features = self.similarity.term_and_pass(x, edge_index)
            coarse_x, edge_score, cluster, coarse_edges, coarse_batch = ops.pool(
                features,
                edge_index,
                self.lin.weight,
                self.lin.bias,
                batch,
                activation=str(self.score),
                threshold=self.threshold,
                symmetric=self.symmetric,
                self_loops=self.self_loops,
                per_member=self._per_member,
                ratio=self.ratio,
                term=term,
            )
            pooled = Pooled(coarse_x, coarse_edges, coarse_batch, cluster, edge_score, None, edge_index, None)
        else:
            pooled = self._pool_by_steps(x, edge_index, batch, edge_attr, dropout)
        return self._observed(pooled) if self.training else pooled

    def _pool_by_steps(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None, edge_attr: Tensor | None, dropout: float
    ) -> Pooled:
        fine = (edge_index, edge_attr)
        edge_index = edge_index.contiguous()  # once here, as most steps need it contiguous
        edge_score, x = self._score(x, edge_index, edge_attr, dropout, batch)
        coarse = self._coarsen(edge_score, x, edge_index, batch)
        if self.reduce != "score":
            weight = self._node_weight(edge_score, edge_index, coarse, self._reduce)
            x = ops.row_sum(x, weight, None, coarse.parts.cluster, coarse.parts.num_supernodes, coarse.parts.alone)
        elif self.weights == "merged":
            x = ops.merge(x, edge_score, edge_index, coarse.merged, coarse.parts, self._per_member)
        else:
            x = ops.merge_all(x, edge_score, edge_index, coarse.counted, coarse.parts, self._per_member)
        coarse_attr = self._edge_attr(*fine, coarse, edge_score.dtype)
        return Pooled(x, coarse.edge_index, coarse.batch, coarse.parts.cluster, edge_score, coarse_attr, *fine)

    def _observed(self, pooled: Pooled) -> Pooled:
        """Warn once if the layer merges nothing, or everything, for many training steps: its scorer hardly learns."""
        num_supernodes, num_coarse_edges = pooled.x.size(0), pooled.edge_index.size(1)
        if self.random is None and not torch.compiler.is_compiling() and pooled.fine_edge_index.size(1):
            merges_all = not num_coarse_edges
            if self.self_loops and num_coarse_edges <= num_supernodes:  # perhaps nothing but self-loops
                merges_all = torch.equal(*pooled.edge_index)
            merges_nothing = num_supernodes == pooled.cluster.size(0)
            state = "nothing" if merges_nothing else "everything" if merges_all else ""
            self._num_idle_steps = self._num_idle_steps + 1 if state and state == self._idle_state else 1
            self._idle_state = state
            if state and self._num_idle_steps == MAX_IDLE_STEPS and not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "%r has merged %s for %d steps in a row, so its scorer hardly learns. scorer='similarity' with "
                    "reduce='graded' learns what to merge; ratio=0.5 merges a fixed share",
                    self,
                    state,
                    MAX_IDLE_STEPS,
                )
        return pooled

    def assign(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Assigned:
        """The supernode of each node, and the node's weight in it (Eq. 3); arguments as in :meth:`forward`.

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
        check_inputs(x, edge_index, batch, edge_attr, self.in_channels, self.edge_dim, self._weight(x))
        edge_score, _ = self._score(x, edge_index, edge_attr, self.dropout if self.training else 0.0, batch)
        coarse = self._coarsen(edge_score, x, edge_index, batch)
        weight = self._node_weight(edge_score, edge_index, coarse, self._reduce)
        return Assigned(coarse.parts.cluster, weight, coarse.parts.num_supernodes, edge_score)

    @property
    def _reduce(self) -> str:
        """How to combine members; a sum divided by their number is a mean."""
        return "mean" if self._per_member and self.reduce == "sum" else self.reduce

    def _node_weight(self, edge_score: Tensor, edge_index: Tensor, coarse: ops.Coarse, reduce: str) -> Tensor:
        """The weight of each node in its supernode [N]."""
        cluster = coarse.parts.cluster
        if reduce == "score":
            weight = ops.node_weight(edge_score, edge_index, coarse.merged, coarse.parts)
            if not self._per_member:
                return weight
            return weight / ops.count_members(cluster, coarse.parts.num_supernodes).index_select(0, cluster)
        if reduce == "graded":
            limits = (self.threshold, highest_score(str(self.score)))
            return ops.graded_weight(edge_score, edge_index, coarse.merged, cluster.size(0), *limits, coarse.parts)
        if reduce == "sum":
            return edge_score.new_ones(cluster.size(0))
        size = ops.count_members(cluster, coarse.parts.num_supernodes)
        return size.to(edge_score.dtype).reciprocal().index_select(0, cluster)

    def pool_data(self, data: "Data") -> "Data":
        """Pool a PyG graph or batch: its `x` and `edge_index`, and `edge_attr` if it has one.

        Labels and other attributes of whole graphs are kept; other attributes of nodes or edges are dropped. A batch
        remains a batch, and single graphs can be taken from it.

        Example:
            >>> from torch_geometric.data import Data
            >>> graph = Data(torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([1]))
            >>> ComponentPooling(16).pool_data(graph).y
            tensor([1])
        """
        from compool.nn.data import pool_data

        return pool_data(self, data)

    def _coarsen(self, edge_score: Tensor, x: Tensor, edge_index: Tensor, batch: Tensor | None) -> ops.Coarse:
        num_nodes = x.size(0)
        if self.random_order is not None:
            if not torch.compiler.is_compiling() and edge_score.isnan().any():
                raise nan_score(edge_score)
            edge_score = self.random_order(x, edge_index, batch)
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

    def _edge_attr(
        self, edge_index: Tensor, edge_attr: Tensor | None, coarse: ops.Coarse, dtype: torch.dtype
    ) -> Tensor | None:
        """Features of the coarse edges. Counts need a `dtype` of float32 or better: bfloat16 is exact only to 256."""
        reduce = self.edge_reduce
        if reduce == "multiplicity":
            reduce = "sum"
            if edge_attr is None:
                edge_attr = torch.ones_like(edge_index[0], dtype=dtype)
        if edge_attr is None:
            return None
        return ops.connect_features(edge_attr, edge_index, coarse.counted, coarse.parts, coarse.edge_index, reduce)

    def extra_repr(self) -> str:
        """The settings that differ from the defaults, and the threshold."""
        threshold = self.threshold if math.isfinite(self.threshold) else None
        settings = {
            "threshold": (threshold, None),
            "weights": (self.weights, "merged"),
            "symmetric": (self.symmetric, False),
            "dropout": (self.dropout, 0.0),
            "self_loops": (self.self_loops, False),
            "quantile": (self.quantile, None),
            "ratio": (self.ratio, None),
            "max_size": (self.max_size, None),
            "edge_dim": (self.edge_dim, None),
            "edge_reduce": (self.edge_reduce, "sum"),
            "scorer": (self.scorer_name, "linear"),
            "reduce": (self.reduce, "score"),
            "order": (self.order, "score"),
        }
        return ", ".join([str(self.in_channels), f"score={score_name(self.score)}", *non_default(settings)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def component_pooling(settings: "NetworkSettings", in_channels: int) -> ComponentPooling:
    """The layer ``P`` of a network."""
    dropout = 0.0 if settings.scorer == "random" else settings.dropout
    score = None if settings.scorer == "random" else settings.score or default_score(settings.scorer)
    edge_settings = (score, settings.threshold, settings.weights, settings.symmetric, dropout)
    return ComponentPooling(
        in_channels,
        *edge_settings,
        quantile=settings.quantile,
        ratio=settings.merge_ratio,
        scorer=settings.scorer,
        reduce=settings.reduce,
        order=settings.merge_order,
    )

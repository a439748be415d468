"""Edge-based graph component pooling as a layer."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from compool import ops
from compool.nn._settings import activation, check_budget, check_threshold, name_of
from compool.ops._checks import check_batch, check_edge_index, check_features
from compool.ops.score import score_and_pass


class Pooled(NamedTuple):
    """What pooling made of a graph: the coarse graph, and how the input maps to it."""

    x: Tensor
    """Features of the supernodes [K, d]."""
    edge_index: Tensor
    """Edges between supernodes [2, E'], sorted, each once."""
    batch: Tensor
    """The graph of each supernode [K], sorted."""
    cluster: Tensor
    """The supernode of each node [N]: 0..K−1, numbered by first member."""
    edge_score: Tensor
    """The score of each edge of the input [E]."""

    def unpool(self, x: Tensor) -> Tensor:
        """Give every node the features `x` [K, *] of its supernode; [N, *]. The fine edges are the input's."""
        if x.dim() == 0 or x.size(0) != self.x.size(0):
            raise ValueError(f"x must have {self.x.size(0)} rows, one a supernode; got {list(x.shape)}")
        return ops.lift(x, self.cluster)


class ComponentPooling(torch.nn.Module):
    r"""Edge-based graph component pooling (`Snelleman et al. 2024 <https://arxiv.org/abs/2409.11856>`_).

    Scores every edge from its two end nodes, :math:`S_{ij} = \sigma(\psi(x_i, x_j) + b)`, merges the edges whose score
    exceeds a threshold, and turns each connected component of merged edges into one supernode. Its features are the
    sum of its members', each weighted by the scores of its merged edges; a node that is not merged stays as it is.
    Supernodes are connected where their members were. Time and memory are linear in nodes and edges.

    On a graph that holds both directions of each edge, the two directions have scores of their own. A node of which
    only the incoming direction is merged gets weight 0, so that its features are lost; ``symmetric=True`` rules that
    out.

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
        score: str | Callable[[Tensor], Tensor] = "tanh",
        threshold: float | None = None,
        weights: str = "merged",
        symmetric: bool = False,
        dropout: float = 0.0,
        self_loops: bool = False,
        quantile: float | None = None,
        ratio: float | None = None,
        max_size: int | None = None,
    ) -> None:
        super().__init__()
        if in_channels < 1:
            raise ValueError(f"in_channels must be at least 1, got {in_channels}")
        if weights not in ("merged", "all"):
            raise ValueError(f"weights must be 'merged' or 'all', got {weights!r}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        self.in_channels = in_channels
        self.score = score
        check_budget(threshold, quantile, ratio, max_size)
        activation(score)  # or an error
        self.threshold = check_threshold(score, threshold) if quantile is None and ratio is None else -math.inf
        self.quantile, self.ratio, self.max_size = quantile, ratio, max_size
        self._has_budget = (quantile, ratio, max_size) != (None, None, None)
        self.weights = weights
        self.symmetric = symmetric
        self.dropout = dropout
        self.self_loops = self_loops
        self.lin = torch.nn.Linear(2 * in_channels, 1)

    @property
    def activation(self) -> Callable[[Tensor], Tensor]:
        r"""The function :math:`\sigma`."""
        return activation(self.score)

    def reset_parameters(self) -> None:
        """Draw the scorer's weights anew."""
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Pooled:
        """Pool a graph, or a batch of graphs.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E]. Self-loops and repeated edges are ignored; an undirected edge is both directions.
            batch: the graph of each node [N], sorted; by default all nodes are of one graph.
        """
        check_features(x, self.in_channels, self.lin.weight)
        num_nodes = x.size(0)
        check_edge_index(edge_index, x.device)
        check_batch(batch, num_nodes, x.device)

        dropout = self.dropout if self.training else 0.0
        weight, bias = self.lin.weight, self.lin.bias
        if isinstance(self.score, str) and self.weights == "merged" and not dropout and not self._has_budget:
            x, edge_score, cluster, edge_index, batch = ops.pool(
                x, edge_index, weight, bias, batch, self.score, self.threshold, self.symmetric, self.self_loops
            )
            return Pooled(x, edge_index, batch, cluster, edge_score)
        edge_score, x = score_and_pass(x, edge_index, weight, bias, self.activation, dropout, self.symmetric)
        coarse = self._coarsen(edge_score, edge_index, num_nodes, batch)
        if self.weights == "merged":
            x = ops.merge(x, edge_score, edge_index, coarse.merged, coarse.parts)
        else:
            x = ops.merge_all(x, edge_score, edge_index, coarse.counted, coarse.parts)
        return Pooled(x, coarse.edge_index, coarse.batch, coarse.parts.cluster, edge_score)

    def _coarsen(self, edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> ops.Coarse:
        args = (edge_score, edge_index, num_nodes)
        if self.quantile is not None:
            selection = ops.select_quantile(*args, self.quantile, batch)
        elif self.ratio is not None:
            selection = ops.select_ratio(*args, self.ratio, batch)
        elif self.max_size is not None:
            selection = ops.select_max_size(*args, self.max_size, self.threshold, batch)
        else:
            return ops.coarsen(*args, self.threshold, batch, self.self_loops)
        return ops.coarsen_selected(selection, edge_index, num_nodes, batch, self.self_loops)

    def in_place(
        self, x: Tensor, edge_index: Tensor, row_ptr: Tensor | None = None, live: Tensor | None = None
    ) -> ops.InPlace:
        """Pool without compaction: a supernode lives in the row of its first member, and no array changes its size.

        Nothing comes to the host, so that a CUDA graph can capture this, forward and backward. The result can be
        pooled again: pass on its `edge_index`, `row_ptr` and `live`. Errors wait until its `check` is called.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E], sorted by source, then target, each once.
            row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``, and only the first ``row_ptr[-1]`` entries of
                `edge_index` are edges; by default all are. [N + 1].
            live: mask [N] of the rows that are nodes; by default all are. The others must have no edges.
        """
        dropout = self.training and self.dropout
        if not isinstance(self.score, str) or self.weights != "merged" or self._has_budget or dropout:
            raise ValueError(
                "in_place() takes score='tanh' or 'sigmoid', weights='merged', no budget, and no dropout in training"
            )
        check_features(x, self.in_channels, self.lin.weight)
        check_edge_index(edge_index, x.device)
        if row_ptr is None:
            row_ptr = ops.row_pointer(edge_index, x.size(0))
        if live is None:
            live = torch.ones(x.size(0), dtype=torch.bool, device=x.device)
        scorer = (self.lin.weight, self.lin.bias)
        return ops.pool_in_place(
            x, edge_index, row_ptr, live, *scorer, self.score, self.threshold, self.symmetric, self.self_loops
        )

    def extra_repr(self) -> str:
        """The settings that differ from the defaults, and the threshold."""
        settings = [str(self.in_channels), f"score={name_of(self.score)}"]
        settings += [f"threshold={self.threshold:g}"] if math.isfinite(self.threshold) else []
        settings += [f"weights={self.weights}"] if self.weights != "merged" else []
        settings += ["symmetric=True"] if self.symmetric else []
        settings += [f"dropout={self.dropout:g}"] if self.dropout else []
        settings += ["self_loops=True"] if self.self_loops else []
        budgets = {"quantile": self.quantile, "ratio": self.ratio, "max_size": self.max_size}
        settings += [f"{name}={value:g}" for name, value in budgets.items() if value is not None]
        return ", ".join(settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

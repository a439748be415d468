"""Stacked layers that pool by edges: see `layers`. They return the coarse union and its features."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from compool import ops
from compool.nn._settings import highest_score
from compool.replicas import kernels
from compool.replicas.budgets import coarsen_by_quantile, coarsen_by_ratio
from compool.replicas.layers import StackedLinear, multiply, require_equal_settings, require_settings
from compool.replicas.scorers import StackedRandomScore, StackedSimilarity
from compool.replicas.union import Union


class _Scorer(Module):
    """Base class of the layers that pool by edges: computes raw scores; replicas may differ in dropout."""

    dropout: Tensor
    symmetric = False

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        if hasattr(layers[0], "lin"):  # layers with random scores have none
            self.lin = StackedLinear([layer.lin for layer in layers])
        self.drops = any(layer.dropout for layer in layers)
        self.register_buffer("dropout", torch.tensor([float(layer.dropout) for layer in layers]), persistent=False)

    def ends(self, x: Tensor, union: Union) -> Tensor:
        """What a node adds to the raw scores of its outgoing and of its incoming edges [2, N].

        Half of the bias goes to each end, so that the two directions of a symmetric score are bitwise equal.
        """
        halves, bias = self.lin.weight.view(union.replicas, 2, -1), cast(Tensor, self.lin.bias)
        if self.symmetric:
            halves = halves.mean(1, keepdim=True).expand(-1, 2, -1)
        return multiply(x, halves, union, bias.expand(-1, 2) / 2).t()

    def drops_scores(self, key: Tensor | None) -> bool:
        """Whether dropout applies to raw scores in this pass."""
        return self.training and self.drops and key is not None

    def raw_score(self, x: Tensor, union: Union, key: Tensor | None, term: Tensor | None = None) -> Tensor:
        """The linear scores plus the `term` [E] if given, after dropout [E]."""
        raw = ops.gather_ends(self.ends(x, union), union.edge_index)
        raw = raw if term is None else raw + term
        if not self.drops_scores(key):
            return raw
        key = cast(Tensor, key)
        if self.symmetric:
            replica = union.edge_replica
            ends = union.edge_index - union.ptr[replica]
            return ops.drop_pairs(raw, ends, key[replica], self.dropout[replica])
        return kernels.dropout(raw.unsqueeze(1), union.edge_ptr, key, self.dropout).squeeze(1)


class StackedComponentPooling(_Scorer):
    """R layers :class:`compool.ComponentPooling`; threshold and dropout may differ."""

    threshold: Tensor

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__(layers)
        equal = ("score", "weights", "symmetric", "self_loops", "reduce", "quantile", "ratio", "order")
        require_equal_settings(layers, *equal)
        require_settings(layers, max_size=None, edge_dim=None, scorer=None)
        layer = layers[0]
        self.activation, self.weights, self.reduce = layer.activation, layer.weights, layer.reduce
        self.quantile, self.ratio = layer.quantile, layer.ratio
        self.top = highest_score(layer.score) if self.reduce == "graded" else 1.0
        self.similarity = self.random = None
        if layer.similarity is not None:
            self.similarity = StackedSimilarity([layer.similarity for layer in layers])
        if layer.random is not None:
            self.random = StackedRandomScore([layer.random for layer in layers])
        self.random_order = None
        if layer.random_order is not None:
            self.random_order = StackedRandomScore([layer.random_order for layer in layers])
        self.symmetric, self.self_loops = layer.symmetric, layer.self_loops
        self.common_threshold = layer.threshold if len({layer.threshold for layer in layers}) == 1 else None
        self.register_buffer("threshold", torch.tensor([layer.threshold for layer in layers]), persistent=False)

    def forward(self, x: Tensor, union: Union, key: Tensor | None = None) -> tuple[Tensor, Union]:
        """The features of the supernodes [K, d] and their union; `key` is each replica's random key for dropout."""
        term = None
        if self.similarity is not None:
            term, x = self.similarity(x, union)
        raw = self.random(union).to(x.dtype) if self.random is not None else self.raw_score(x, union, key, term)
        edge_score = self.activation(raw)
        coarse = self._coarsen(edge_score if self.random_order is None else self.random_order(union), union)
        parts = coarse.parts
        if self.reduce != "score":
            weight = self._node_weight(edge_score, union, coarse.merged, parts)
            x = ops.row_sum(x, weight, None, parts.cluster, parts.num_supernodes, parts.alone)
        elif self.weights == "merged":
            x = ops.merge(x, edge_score, union.edge_index, coarse.merged, parts)
        else:
            x = ops.merge_all(x, edge_score, union.edge_index, union.counted, parts)
        row_ptr = coarse.row_ptr if isinstance(coarse, kernels.PaddedCoarse) else None
        return x, union.coarse(coarse.edge_index, parts.first, self.self_loops, row_ptr)

    def _coarsen(self, edge_score: Tensor, union: Union) -> kernels.PaddedCoarse | ops.Coarse:
        if self.quantile is None and self.ratio is None:
            return self._coarsen_above(edge_score, union)
        args, parts = (edge_score, union.edge_index, union.num_nodes), None
        if self.ratio is None:
            if union.padded:
                return coarsen_by_quantile(edge_score, union, self.quantile, self.self_loops)
            selection = ops.select_quantile(*args, self.quantile, union.graph)
        else:
            if union.padded:
                return coarsen_by_ratio(edge_score, union, self.ratio, self.self_loops)
            selection, parts = ops.ratio_parts(*args, self.ratio, union.graph)
        return ops.coarsen_selected(selection, *args[1:], None, self.self_loops, parts)

    def _coarsen_above(self, edge_score: Tensor, union: Union) -> kernels.PaddedCoarse | ops.Coarse:
        """Merge the edges above the threshold."""
        edge_index, excess, threshold = union.edge_index, edge_score, self.common_threshold
        if threshold is None:
            excess, threshold = edge_score.detach() - self.threshold.to(edge_score.dtype)[union.edge_replica], 0.0
        if union.padded:
            args = (union.row_ptr, threshold, self.self_loops, union.largest)
            return kernels.coarsen_padded(excess, edge_index, *args)
        return ops.coarsen(excess, edge_index, union.num_nodes, threshold, None, self.self_loops)

    def _node_weight(self, edge_score: Tensor, union: Union, merged: Tensor, parts: ops.Components) -> Tensor:
        """The weight of each node in its supernode [N]; of a padded union, NaN for a node with a NaN score."""
        if self.reduce in ("sum", "mean"):
            weight = torch.ones_like(parts.cluster, dtype=edge_score.dtype)
            if union.padded and self.random is None:
                weight += kernels.segment_sum(0 * edge_score.detach().unsqueeze(1), union.row_ptr).squeeze(1)
            if self.reduce == "sum":
                return weight
            size = ops.count_members(parts.cluster, parts.num_supernodes)
            return weight / size.to(weight.dtype).index_select(0, parts.cluster)
        threshold = self.threshold.to(edge_score.dtype)[union.edge_replica]
        grade = (edge_score - threshold) / (self.top - threshold)
        if union.padded:
            given = (union.edge_index, union.row_ptr, union.graph_ptr, merged, union.largest)
            return kernels.graded_weight_padded(grade, *given)
        return ops.graded_weight(grade, union.edge_index, merged, union.num_nodes, parts=parts)


class StackedEdgePooling(_Scorer):
    """R layers :class:`compool.EdgePooling` with softmax scores and ``by_first=True``; dropout may differ."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__(layers)
        require_equal_settings(layers, "add_to_edge_score")
        if any(layer.compute_edge_score.__name__ != "compute_edge_score_softmax" for layer in layers):
            raise ValueError("EdgePooling must have edge_score_method=compute_edge_score_softmax, the default")
        require_settings(layers, by_first=True)
        self.add_to_edge_score = layers[0].add_to_edge_score

    def forward(self, x: Tensor, union: Union, key: Tensor | None = None) -> tuple[Tensor, Union]:
        """The features of the supernodes [K, d] and their union; `key` is each replica's random key for dropout."""
        edge_index, num_nodes = union.edge_index, x.size(0)
        if self.drops_scores(key):
            from torch_geometric.utils import softmax  # imported here, as it takes seconds and is rarely needed

            raw = self.raw_score(x, union, key).masked_fill(~union.is_edge, -torch.inf)
            share = softmax(raw, edge_index[1].long(), num_nodes=num_nodes)
        else:
            share = kernels.softmax_ends(self.ends(x, union), edge_index, union.row_ptr)
        edge_score = share + self.add_to_edge_score
        if union.padded:
            pairs = kernels.contract_padded(edge_score, edge_index, union.row_ptr, union.graph_ptr, union.largest)
            x = kernels.merge_padded_pairs(x, edge_score, pairs, union.after[0].nodes if union.after else None)
            return x, union.coarse(pairs.edge_index, pairs.first, looped=True, row_ptr=pairs.row_ptr).trimmed()
        parts = ops.contract(edge_score, edge_index, num_nodes, by_first=True)
        x, _ = ops.merge_pairs(x, edge_score, edge_index, parts)
        edges = ops.connect(edge_index, parts, self_loops=True, input_loops=True)
        return x, union.coarse(edges, parts.first, looped=True)

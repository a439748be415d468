"""Stacked scorers of edges other than the linear map: see `pooling`."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Module

from compool import ops
from compool.nn.random_score import RandomScore
from compool.nn.similarity import Similarity
from compool.ops._torch_similarity import channel_shares, momentum, negative_scale
from compool.ops.similarity import distance_and_pass
from compool.replicas import kernels
from compool.replicas.layers import stacked
from compool.replicas.union import Union


class StackedRandomScore(Module):
    """R modules :class:`compool.nn.RandomScore`."""

    seed: Tensor

    def __init__(self, layers: Sequence[RandomScore]) -> None:
        super().__init__()
        self.register_buffer("seed", torch.stack([layer.seed for layer in layers]))

    def forward(self, union: Union) -> Tensor:
        """The score of each edge [E], float32."""
        graphs_per_replica = (union.graph_ptr.size(0) - 1) // union.replicas
        key = torch.nn.functional.pad(self.seed.repeat_interleave(graphs_per_replica), (0, 1))  # padding: extra graph
        return ops.random_scores(union.edge_index - union.graph_ptr[union.edge_graph], union.edge_graph, key)


class StackedSimilarity(Module):
    """R modules :class:`compool.nn.Similarity`, with statistics over each replica's own edges."""

    mean: Tensor
    variance: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layers: Sequence[Similarity]) -> None:
        super().__init__()
        self.logit = stacked(layer.logit for layer in layers)
        for name in ("mean", "variance", "num_batches_tracked"):
            self.register_buffer(name, torch.stack([getattr(layer, name) for layer in layers]))

    def forward(self, x: Tensor, union: Union) -> tuple[Tensor, Tensor]:
        """The term of each edge [E], and the `x` for all later steps: see `ops.similarity.distance_and_pass`."""
        edge_index = union.edge_index
        if self.training:
            counted = edge_index[0] != edge_index[1]
            num_edges = _sum_by_replica(counted.to(self.variance.dtype), union)
            mean = ops.edge_moments(x, edge_index, counted, union.replica, union.replicas)
            counts = (num_edges > 0) & mean.isfinite().all(1, keepdim=True)  # see `_torch_similarity.observe`
            self.num_batches_tracked += counts.squeeze(1)
            share = counts * momentum(self.num_batches_tracked).unsqueeze(1).to(self.mean.dtype)
            self.mean.lerp_(torch.where(counts, mean, self.mean), share)
        distance, x = distance_and_pass(x, edge_index, channel_shares(self.logit, self.mean)[1], union.replica)
        if self.training:
            variance = _variance(distance.detach(), counted, num_edges, union)
            self.variance.lerp_(torch.where(variance.isfinite(), variance, self.variance), share)
        scale = negative_scale(self.variance)
        return (distance - 1) * kernels.segment_repeat(scale, union.edge_ptr, distance.size(0)).squeeze(1), x


def _variance(distance: Tensor, counted: Tensor, num_edges: Tensor, union: Union) -> Tensor:
    """The variance of the distances of each replica's counted edges [R, 1]."""
    total = num_edges.clamp(min=1)
    mean = _sum_by_replica(distance * counted, union) / total
    centred = distance - kernels.segment_repeat(mean, union.edge_ptr, distance.size(0)).squeeze(1)
    return _sum_by_replica(centred.square() * counted, union) / total


def _sum_by_replica(values: Tensor, union: Union) -> Tensor:
    """Sum values [E] over each replica's edges [R, 1]; first per graph, because long segments are slow on a GPU."""
    sums = kernels.segment_sum(values.unsqueeze(1), union.row_ptr[union.graph_ptr])
    return sums.view(union.replicas, sums.size(0) // union.replicas).sum(1, keepdim=True)

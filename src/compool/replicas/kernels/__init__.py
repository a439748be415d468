"""The operations behind stacked layers: products, message passing, norms, dropout and padded unions.

They do not check their input: an index out of range can crash the process. The stacks of :mod:`compool.replicas` check
it.
"""

from compool.replicas.kernels.dropout import activate, dropout
from compool.replicas.kernels.graded import graded_weight_padded
from compool.replicas.kernels.messages import propagate
from compool.replicas.kernels.norms import segment_norm
from compool.replicas.kernels.padded import (
    PaddedCoarse,
    PaddedContraction,
    coarsen_padded,
    contract_padded,
    forest_padded,
    merge_padded_pairs,
    row_pointer,
    softmax_ends,
)
from compool.replicas.kernels.products import grouped_linear, linear_activate, segment_repeat, segment_sum
from compool.replicas.kernels.unions import Gathered, gather_graphs

__all__ = [
    "Gathered",
    "PaddedCoarse",
    "PaddedContraction",
    "activate",
    "coarsen_padded",
    "contract_padded",
    "dropout",
    "forest_padded",
    "gather_graphs",
    "graded_weight_padded",
    "grouped_linear",
    "linear_activate",
    "merge_padded_pairs",
    "propagate",
    "row_pointer",
    "segment_norm",
    "segment_repeat",
    "segment_sum",
    "softmax_ends",
]

"""Many trainings at once: the batches of R replicas as one graph, and layers with the weights of R networks.

:class:`Graphs` makes unions of batches, and :func:`stack` combines R networks into one, whose stacked layers are each
equivalent to R layers of PyG.
"""

from compool.replicas.layers import (
    StackedBatchNorm,
    StackedGCNConv,
    StackedGINConv,
    StackedLinear,
    StackedSAGEConv,
    readout,
)
from compool.replicas.pooling import StackedComponentPooling, StackedEdgePooling
from compool.replicas.stack import GINStack, NetworkStack, Output, stack
from compool.replicas.top_k import StackedSAGPooling, StackedTopKPooling
from compool.replicas.union import Graphs, Union

__all__ = [
    "GINStack",
    "Graphs",
    "NetworkStack",
    "Output",
    "StackedBatchNorm",
    "StackedComponentPooling",
    "StackedEdgePooling",
    "StackedGCNConv",
    "StackedGINConv",
    "StackedLinear",
    "StackedSAGEConv",
    "StackedSAGPooling",
    "StackedTopKPooling",
    "Union",
    "readout",
    "stack",
]

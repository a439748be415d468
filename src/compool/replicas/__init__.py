"""Many trainings at once: the batches of R replicas as one graph, and layers with the weights of R networks.

:class:`Graphs` makes unions of batches, :func:`stack` makes one network of R, and the layers are R of PyG's each.
"""

from compool.replicas.layers import BatchNorm, GCNConv, GINConv, Linear, SAGEConv, readout
from compool.replicas.pooling import ComponentPooling, EdgePooling, SAGPooling, TopKPooling
from compool.replicas.stack import GIN, Network, Output, stack
from compool.replicas.union import Graphs, Union

__all__ = [
    "GIN",
    "BatchNorm",
    "ComponentPooling",
    "EdgePooling",
    "GCNConv",
    "GINConv",
    "Graphs",
    "Linear",
    "Network",
    "Output",
    "SAGEConv",
    "SAGPooling",
    "TopKPooling",
    "Union",
    "readout",
    "stack",
]

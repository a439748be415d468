"""Layers for PyTorch Geometric networks."""

from compool.nn.cluster_pooling import ClusterPooling
from compool.nn.component_pooling import ComponentPooling, Pooled
from compool.nn.edge_pooling import EdgePooling
from compool.nn.files import load_network, save_network
from compool.nn.network import GIN, Network

__all__ = [
    "GIN",
    "ClusterPooling",
    "ComponentPooling",
    "EdgePooling",
    "Network",
    "Pooled",
    "load_network",
    "save_network",
]

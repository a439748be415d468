"""Layers for PyTorch Geometric networks."""

from compool.nn.cluster_pooling import ClusterPooling
from compool.nn.component_pooling import ComponentPooling, Pooled
from compool.nn.edge_pooling import EdgePooling

__all__ = ["ClusterPooling", "ComponentPooling", "EdgePooling", "Pooled"]

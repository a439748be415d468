"""Layers for PyTorch Geometric networks."""

from compool.nn.cluster_pooling import ClusterPooling
from compool.nn.component_pooling import ComponentPooling, Pooled

__all__ = ["ClusterPooling", "ComponentPooling", "Pooled"]

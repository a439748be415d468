"""Edge-based graph component pooling for PyTorch Geometric: exact, linear in nodes and edges."""

from compool.nn import ClusterPooling, ComponentPooling, Pooled
from compool.ops import connected_components

__version__ = "0.1.0"

__all__ = ["ClusterPooling", "ComponentPooling", "Pooled", "connected_components"]

"""Edge-based graph component pooling for PyTorch Geometric: exact, linear in nodes and edges."""

from typing import TYPE_CHECKING

from compool._lazy import lazy_names

if TYPE_CHECKING:
    from compool.nn import (
        ClusterPooling,
        ComponentPooling,
        ComponentUNet,
        EdgePooling,
        GlobalComponentPooling,
        Pooled,
    )
    from compool.ops import Hierarchy, connected_components, hierarchy, spanning_forest

__version__ = "0.1.0"

__all__ = [
    "ClusterPooling",
    "ComponentPooling",
    "ComponentUNet",
    "EdgePooling",
    "GlobalComponentPooling",
    "Hierarchy",
    "Pooled",
    "connected_components",
    "hierarchy",
    "spanning_forest",
]

_LAYERS = ["ClusterPooling", "ComponentPooling", "ComponentUNet", "EdgePooling", "GlobalComponentPooling", "Pooled"]
_OPERATORS = ["Hierarchy", "connected_components", "hierarchy", "spanning_forest"]
__getattr__, __dir__ = lazy_names(
    "compool", dict.fromkeys(_LAYERS, "compool.nn") | dict.fromkeys(_OPERATORS, "compool.ops")
)

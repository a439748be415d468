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
    from compool.ops import connected_components

__version__ = "0.1.0"

__all__ = [
    "ClusterPooling",
    "ComponentPooling",
    "ComponentUNet",
    "EdgePooling",
    "GlobalComponentPooling",
    "Pooled",
    "connected_components",
]

_LAYERS = [name for name in __all__ if name[0].isupper()]
__getattr__, __dir__ = lazy_names(
    "compool", dict.fromkeys(_LAYERS, "compool.nn") | {"connected_components": "compool.ops"}
)

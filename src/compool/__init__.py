"""Edge-based graph component pooling for PyTorch Geometric: exact, linear in nodes and edges."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# Imported when first used: torch and PyG take seconds, and the command line should not wait for them.
_HOME = {
    "ClusterPooling": "compool.nn",
    "ComponentPooling": "compool.nn",
    "ComponentUNet": "compool.nn",
    "EdgePooling": "compool.nn",
    "GlobalComponentPooling": "compool.nn",
    "Pooled": "compool.nn",
    "Hierarchy": "compool.ops",
    "connected_components": "compool.ops",
    "hierarchy": "compool.ops",
    "spanning_forest": "compool.ops",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'compool' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

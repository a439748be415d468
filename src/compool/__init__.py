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
        diagnose,
    )
    from compool.ops import Hierarchy, connected_components, hierarchy, spanning_forest
    from compool.study.model import load_model

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
    "diagnose",
    "hierarchy",
    "load_model",
    "spanning_forest",
]

_OPERATORS = ["Hierarchy", "connected_components", "hierarchy", "spanning_forest"]
_MODELS = ["load_model"]
_LAYERS = [name for name in __all__ if name not in (*_OPERATORS, *_MODELS)]
__getattr__, __dir__ = lazy_names(
    "compool",
    dict.fromkeys(_LAYERS, "compool.nn")
    | dict.fromkeys(_OPERATORS, "compool.ops")
    | dict.fromkeys(_MODELS, "compool.study.model"),
)

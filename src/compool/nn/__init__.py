"""Layers for PyTorch Geometric networks."""

from typing import TYPE_CHECKING

from compool._lazy import lazy_names

if TYPE_CHECKING:
    from compool.nn.cluster_pooling import ClusterPooling
    from compool.nn.coarse_graph import CoarseGraph
    from compool.nn.component_pooling import ComponentPooling
    from compool.nn.diagnosis import LayerDiagnosis, diagnose
    from compool.nn.edge_pooling import EdgePooling
    from compool.nn.files import load_network, save_network
    from compool.nn.global_pooling import GlobalComponentPooling
    from compool.nn.network import GIN, Network
    from compool.nn.pooled import Fine, Pooled
    from compool.nn.random_score import RandomScore
    from compool.nn.similarity import Similarity
    from compool.nn.unet import ComponentUNet

__all__ = [
    "GIN",
    "ClusterPooling",
    "CoarseGraph",
    "ComponentPooling",
    "ComponentUNet",
    "EdgePooling",
    "Fine",
    "GlobalComponentPooling",
    "LayerDiagnosis",
    "Network",
    "Pooled",
    "RandomScore",
    "Similarity",
    "diagnose",
    "load_network",
    "save_network",
]

__getattr__, __dir__ = lazy_names(
    "compool.nn",
    {
        "GIN": "compool.nn.network",
        "ClusterPooling": "compool.nn.cluster_pooling",
        "CoarseGraph": "compool.nn.coarse_graph",
        "ComponentPooling": "compool.nn.component_pooling",
        "ComponentUNet": "compool.nn.unet",
        "EdgePooling": "compool.nn.edge_pooling",
        "Fine": "compool.nn.pooled",
        "GlobalComponentPooling": "compool.nn.global_pooling",
        "LayerDiagnosis": "compool.nn.diagnosis",
        "Network": "compool.nn.network",
        "Pooled": "compool.nn.pooled",
        "RandomScore": "compool.nn.random_score",
        "Similarity": "compool.nn.similarity",
        "diagnose": "compool.nn.diagnosis",
        "load_network": "compool.nn.files",
        "save_network": "compool.nn.files",
    },
)

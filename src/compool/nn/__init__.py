"""Layers for PyTorch Geometric networks."""

from compool.nn.cluster_pooling import ClusterPooling
from compool.nn.component_pooling import ComponentPooling
from compool.nn.edge_pooling import EdgePooling
from compool.nn.files import load_network, save_network
from compool.nn.global_pooling import GlobalComponentPooling
from compool.nn.network import GIN, Network
from compool.nn.pooled import Fine, Pooled
from compool.nn.unet import ComponentUNet

__all__ = [
    "GIN",
    "ClusterPooling",
    "ComponentPooling",
    "ComponentUNet",
    "EdgePooling",
    "Fine",
    "GlobalComponentPooling",
    "Network",
    "Pooled",
    "load_network",
    "save_network",
]

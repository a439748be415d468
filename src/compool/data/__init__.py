"""Sets of graphs."""

from compool.data.color_connectivity import color_connectivity, island_pair
from compool.data.communities import communities, community_count, community_labels
from compool.data.features import Features, features
from compool.data.generated import generate, is_generated
from compool.data.graph_set import GraphSet
from compool.data.splits import SPLIT_KINDS, Split, read_splits, split, write_splits
from compool.data.tu import load
from compool.data.weisfeiler_leman import wl_classes, wl_pairs

__all__ = [
    "SPLIT_KINDS",
    "Features",
    "GraphSet",
    "Split",
    "color_connectivity",
    "communities",
    "community_count",
    "community_labels",
    "features",
    "generate",
    "is_generated",
    "island_pair",
    "load",
    "read_splits",
    "split",
    "wl_classes",
    "wl_pairs",
    "write_splits",
]

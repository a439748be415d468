"""Sets of graphs."""

from compool.data.communities import communities
from compool.data.features import Features, features
from compool.data.graph_set import GraphSet
from compool.data.splits import Split, read_splits, split, write_splits
from compool.data.tu import load

__all__ = ["Features", "GraphSet", "Split", "communities", "features", "load", "read_splits", "split", "write_splits"]

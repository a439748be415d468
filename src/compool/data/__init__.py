"""Sets of graphs."""

from compool.data.communities import communities
from compool.data.graph_set import GraphSet

__all__ = ["GraphSet", "communities"]

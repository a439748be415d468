"""Generated sets by name, so that studies use them like any other."""

from functools import lru_cache

from compool._words import did_you_mean
from compool.data.color_connectivity import ROADS, color_connectivity, is_topology
from compool.data.communities import communities, community_count, community_labels
from compool.data.graph_set import GraphSet

_COMMUNITIES = {
    "communities": communities,
    "community-count": community_count,
    "community-labels": community_labels,
}
_PREFIX = "color-connectivity-"
GENERATED_NAMES = (*_COMMUNITIES, f"{_PREFIX}16", f"{_PREFIX}32", *(f"{_PREFIX}{road}" for road in ROADS))
"""The names of generated sets; grids may have another side."""
_NUM_GRAPHS = {"minnesota": 6_000}  # as in the benchmark; 15,000 for others


def is_generated(name: str) -> bool:
    """Whether :func:`generate` makes a set of this name.

    Example:
        >>> is_generated("communities"), is_generated("color-connectivity-16"), is_generated("NCI1")
        (True, True, False)
    """
    return name in _COMMUNITIES or (name.startswith(_PREFIX) and is_topology(_topology(name)))


def _topology(name: str) -> str:
    """The topology of a colouring's name, which has the side of a grid without ``grid-``."""
    topology = name.removeprefix(_PREFIX)
    return f"grid-{topology}" if topology.isdigit() else topology


@lru_cache(maxsize=1)
def generate(name: str) -> GraphSet:
    """Generate a set by name: ``communities`` (classes), ``community-count`` (regression), ``community-labels``
    (several labels, some missing), or ``color-connectivity-`` and a side, ``euroroad`` or ``minnesota``.

    Example:
        >>> len(generate("communities"))
        1200
    """
    if name in _COMMUNITIES:
        return _COMMUNITIES[name]()
    if not is_generated(name):
        raise ValueError(
            f"name must be one of {', '.join(GENERATED_NAMES)}; got {name!r}{did_you_mean(name, GENERATED_NAMES)}"
        )
    return color_connectivity(_topology(name), _NUM_GRAPHS.get(_topology(name), 15_000))

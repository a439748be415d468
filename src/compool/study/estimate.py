"""Rough estimates of training time, from the sizes of data and network."""

import math

from compool.data import GraphSet
from compool.study.recipe_settings import Recipe

# Seconds per step, multiply-adds per second, and edge features per second: fitted to the times per epoch on six data
# sets in docs/results-details.md, on two CPU cores and on one H200. Estimates are 0.6 to 2.1 times the measured times.
_CPU = (1.0e-3, 40e9, 0.8e9)
_GPU = (0.8e-3, 15e12, 250e9)
_GIN_LAYERS = 8  # products: two in each of its four layers


def epoch_seconds(recipe: Recipe, graphs: GraphSet, replicas: int, device: str) -> float:
    """A rough estimate of the seconds per epoch of a block of replicas.

    Example:
        >>> from compool.data import communities
        >>> from compool.study import recipe
        >>> graphs = communities(9)
        >>> one, two = (epoch_seconds(recipe("gin", "communities"), graphs, replicas, "cpu") for replicas in (1, 2))
        >>> two / one  # replicas add up on a CPU
        2.0
    """
    step, products, features = _GPU if device == "cuda" else _CPU
    num_layers = _GIN_LAYERS if recipe.layers == "GIN" else sum(letter in "CSGN" for letter in recipe.layers)
    num_steps = math.ceil(0.8 * len(graphs) / recipe.batch)
    multiply_adds = 3 * num_layers * graphs.num_nodes * recipe.hidden**2  # forward, and two backward
    edge_features = num_layers * graphs.num_edges * recipe.hidden
    work = replicas * (multiply_adds / products + edge_features / features)
    return num_steps * step * (1 if device == "cuda" else replicas) + work


def format_duration(seconds: float) -> str:
    """A rough duration in words.

    Example:
        >>> [format_duration(seconds) for seconds in (0.2, 42, 400, 20_000)]
        ['less than a minute', 'less than a minute', 'about 7 minutes', 'about 5.6 hours']
    """
    if seconds < 60:
        return "less than a minute"
    if seconds < 5400:
        minutes = max(2, round(seconds / 60))
        return f"about {minutes} minutes"
    return f"about {seconds / 3600:.1f} hours"

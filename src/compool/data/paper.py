"""The paper's tables."""

from typing import NamedTuple


class Described(NamedTuple):
    """A set as the paper describes it: graphs, average nodes and undirected edges, classes."""

    graphs: int
    nodes: float
    edges: float
    classes: int


class Reported(NamedTuple):
    """The results that the paper reports for a method on a data set."""

    mean: float
    """The mean test accuracy of 100 runs, in percent."""
    std: float
    parameters: int
    p_value: float | None = None
    """The p-value of the two-tailed t-test of component pooling against the method, rounded to three decimals."""


RUNS = 100

TU_NAMES = {"PROTEINS": "PROTEINS_full"}
"""The TU collection's names of sets that have another name in the paper."""

TABLE_1 = {
    "PROTEINS_full": Described(1113, 39.06, 72.82, 2),
    "REDDIT-BINARY": Described(2000, 429.63, 497.75, 2),
    "REDDIT-MULTI-12K": Described(11929, 391.41, 456.89, 11),
    "COLLAB": Described(5000, 74.49, 2457.78, 3),
    "IMDB-BINARY": Described(1000, 19.77, 96.53, 2),
    "IMDB-MULTI": Described(1500, 13.00, 65.94, 3),
    "NCI1": Described(4110, 29.87, 32.30, 2),
    "REDDIT-MULTI-5K": Described(4999, 508.52, 594.87, 5),
}

# Accuracies, p-values and parameters, in the order of the paper; component pooling is the paper's own method,
# edgepool that of Diehl et al., gin that of Xu et al.
REPORTED = {
    "PROTEINS": {
        "component": Reported(74.7, 3.9, 802),
        "edgepool": Reported(70.9, 4.6, 156_291, 0.000),
        "gin": Reported(73.5, 4.6, 2_742, 0.048),
    },
    "REDDIT-BINARY": {
        "component": Reported(89.7, 3.0, 83_459),
        "edgepool": Reported(81.1, 5.6, 149_123, 0.000),
        "gin": Reported(87.8, 2.7, 30_538, 0.000),
    },
    "REDDIT-MULTI-12K": {
        "component": Reported(48.4, 1.7, 333_325),
        "edgepool": Reported(36.9, 2.1, 595_725, 0.000),
    },
    "COLLAB": {
        "component": Reported(77.9, 2.0, 12_996),
        "edgepool": Reported(69.5, 2.7, 243_077, 0.000),
        "gin": Reported(78.7, 2.0, 55_584, 0.009),
    },
    "IMDB-BINARY": {"component": Reported(72.7, 3.9, 18_498), "gin": Reported(72.7, 4.3, 65_638, 0.892)},
    "IMDB-MULTI": {"component": Reported(49.6, 4.3, 62_468), "gin": Reported(49.6, 4.3, 54_646, 0.887)},
    "NCI1": {"component": Reported(72.2, 3.5, 38_274), "gin": Reported(79.5, 2.0, 9_294, 0.000)},
    "REDDIT-MULTI-5K": {"component": Reported(52.6, 3.0, 83_975), "gin": Reported(55.1, 2.4, 31_586, 0.000)},
}

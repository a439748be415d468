"""The paper's Table 1."""

from typing import NamedTuple


class Described(NamedTuple):
    """A set as the paper describes it: graphs, average nodes and undirected edges, classes."""

    graphs: int
    nodes: float
    edges: float
    classes: int


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

"""The operator as pure functions, in the order that data goes through them.

score → select → components → connect → merge, and lift for the way back. `coarsen` is the three in the middle, which
know nothing of features, in one; `pool` is all of them;
`coarsen_padded` is `coarsen` on a graph with room, of which no size changes. `select_quantile`, `select_ratio` and
`select_max_size` select by a budget, and `coarsen_selected` goes on from there. `score_edges`, `connect_features` are
for features of edges. `contract` stands for select and components in edge pooling. `grouped_linear`, `propagate`,
`activate` and the like are what the layers of many replicas are made of. They do not check their input, and an index
out of range can crash the process: the modules of :mod:`compool.nn` check.
"""

from compool.ops.budget import select_max_size, select_quantile, select_ratio
from compool.ops.coarsen import Coarse, PaddedCoarse, coarsen, coarsen_padded, coarsen_selected, row_pointer
from compool.ops.components import Components, components, connected_components, count_members
from compool.ops.connect import connect
from compool.ops.contract import (
    Contraction,
    PaddedContraction,
    contract,
    contract_padded,
    merge_padded_pairs,
    merge_pairs,
)
from compool.ops.dropout import activate, drop_pairs, dropout, fold
from compool.ops.edge_features import connect_features, score_edges
from compool.ops.gather import Gathered, gather_graphs
from compool.ops.grouped import grouped_linear, linear_activate, segment_repeat, segment_sum
from compool.ops.lift import lift
from compool.ops.merge import merge, merge_all, spread
from compool.ops.norm import segment_norm
from compool.ops.pool import pool
from compool.ops.propagate import propagate
from compool.ops.score import score, score_ends, softmax_ends
from compool.ops.select import Selection, select

__all__ = [
    "Coarse",
    "Components",
    "Contraction",
    "Gathered",
    "PaddedCoarse",
    "PaddedContraction",
    "Selection",
    "activate",
    "coarsen",
    "coarsen_padded",
    "coarsen_selected",
    "components",
    "connect",
    "connect_features",
    "connected_components",
    "contract",
    "contract_padded",
    "count_members",
    "drop_pairs",
    "dropout",
    "fold",
    "gather_graphs",
    "grouped_linear",
    "lift",
    "linear_activate",
    "merge",
    "merge_all",
    "merge_padded_pairs",
    "merge_pairs",
    "pool",
    "propagate",
    "row_pointer",
    "score",
    "score_edges",
    "score_ends",
    "segment_norm",
    "segment_repeat",
    "segment_sum",
    "select",
    "select_max_size",
    "select_quantile",
    "select_ratio",
    "softmax_ends",
    "spread",
]

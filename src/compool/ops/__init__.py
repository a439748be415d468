"""The operator as pure functions, in the order in which they run.

score → select → components → merge → connect, and lift for the way back. `coarsen` combines select, components and
connect, the steps that do not need features; `pool` combines all steps. `select_quantile`, `select_ratio` and
`select_max_size` select by a budget, and `coarsen_selected` does the rest. `score_edges` and `connect_features` handle
edge features. `contract` and `merge_pairs` are for edge pooling.

These functions do not check their input, and an index out of range can crash the process: the modules of
:mod:`compool.nn` check it. `connected_components`, `spanning_forest` and `hierarchy` are useful on their own and check
their input.
"""

from compool.ops.budget import ratio_parts, select_max_size, select_quantile, select_ratio
from compool.ops.coarsen import Coarse, coarsen, coarsen_selected
from compool.ops.components import Components, components, connected_components, count_members
from compool.ops.connect import connect
from compool.ops.contract import Contraction, contract, merge_pairs
from compool.ops.edge_features import connect_features, score_edges
from compool.ops.forest import spanning_forest
from compool.ops.graded import graded_weight
from compool.ops.hierarchy import Hierarchy, hierarchy
from compool.ops.lift import lift
from compool.ops.merge import merge, merge_all, node_weight, row_sum
from compool.ops.pool import pool
from compool.ops.random import drop_pairs, fold, random_scores
from compool.ops.score import gather_ends, score, sum_ends
from compool.ops.select import Selection, select
from compool.ops.similarity import edge_distance, edge_moments

__all__ = [
    "Coarse",
    "Components",
    "Contraction",
    "Hierarchy",
    "Selection",
    "coarsen",
    "coarsen_selected",
    "components",
    "connect",
    "connect_features",
    "connected_components",
    "contract",
    "count_members",
    "drop_pairs",
    "edge_distance",
    "edge_moments",
    "fold",
    "gather_ends",
    "graded_weight",
    "hierarchy",
    "lift",
    "merge",
    "merge_all",
    "merge_pairs",
    "node_weight",
    "pool",
    "random_scores",
    "ratio_parts",
    "row_sum",
    "score",
    "score_edges",
    "select",
    "select_max_size",
    "select_quantile",
    "select_ratio",
    "spanning_forest",
    "sum_ends",
]

"""GPU kernels with Triton: the same results as `_torch`, with few launches and at most one synchronisation.

Floats are summed in an order that changes from run to run, unless `torch.use_deterministic_algorithms` is set: then
plain torch operations compute the sums. Half precision is summed in float32 and rounded once, at the end.
"""

from compool.ops import _torch
from compool.ops._cuda.forest import forest
from compool.ops._cuda.graded import graded_share, graded_share_backward, merge_tree
from compool.ops._cuda.pool import pool, pool_backward
from compool.ops._cuda.rows import merge_pairs, merge_pairs_backward, row_sum, row_sum_backward
from compool.ops._cuda.similarity import edge_distance, edge_distance_backward, edge_moments, observe
from compool.ops._cuda.steps import coarsen, components, connect, fold_key, score, select, sum_ends

KERNELS = _torch.KERNELS._replace(
    score=score,
    sum_ends=sum_ends,
    select=select,
    components=components,
    connect=connect,
    coarsen=coarsen,
    row_sum=row_sum,
    row_sum_backward=row_sum_backward,
    forest=forest,
    edge_distance=edge_distance,
    edge_distance_backward=edge_distance_backward,
    edge_moments=edge_moments,
    observe=observe,
    merge_tree=merge_tree,
    graded_share=graded_share,
    graded_share_backward=graded_share_backward,
    merge_pairs=merge_pairs,
    merge_pairs_backward=merge_pairs_backward,
    fold_key=fold_key,
    pool=pool,
    pool_backward=pool_backward,
)

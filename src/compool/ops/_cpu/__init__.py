"""CPU kernels with numba: the same results as `_torch`, in one or two passes over the data.

Loops are compiled on first use and cached on disk. Half precision is computed in float32 and rounded once, at the end.
"""

from functools import partial

from compool.ops import _torch, _torch_similarity
from compool.ops._cpu.budget import capped_forest, ratio, top
from compool.ops._cpu.forest import forest
from compool.ops._cpu.graded import graded_share, graded_share_backward, merge_tree
from compool.ops._cpu.pool import pool, pool_backward
from compool.ops._cpu.similarity import edge_distance, edge_distance_backward, edge_moments
from compool.ops._cpu.steps import (
    components,
    connect,
    contract,
    merge_pairs,
    merge_pairs_backward,
    node_ends,
    node_ends_backward,
    row_sum,
    row_sum_backward,
    score,
    select,
    sum_ends,
)

KERNELS = _torch.KERNELS._replace(
    node_ends=node_ends,
    node_ends_backward=node_ends_backward,
    score=score,
    sum_ends=sum_ends,
    select=select,
    components=components,
    connect=connect,
    coarsen=partial(_torch.coarsen, select, components, connect),
    row_sum=row_sum,
    row_sum_backward=row_sum_backward,
    top=top,
    ratio=ratio,
    forest=forest,
    capped_forest=capped_forest,
    contract=contract,
    edge_distance=edge_distance,
    edge_distance_backward=edge_distance_backward,
    edge_moments=edge_moments,
    observe=partial(_torch_similarity.observe, select, edge_moments, edge_distance),
    merge_tree=merge_tree,
    graded_share=graded_share,
    graded_share_backward=graded_share_backward,
    merge_pairs=merge_pairs,
    merge_pairs_backward=merge_pairs_backward,
    pool=pool,
    pool_backward=pool_backward,
)

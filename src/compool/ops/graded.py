"""Step 4, graded: features that change continuously with the scores."""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops import _torch_graded
from compool.ops._dispatch import is_transformed, operator
from compool.ops.components import Components
from compool.ops.forest import forest

LARGE_TREE = 4096  # with more sequential merges than this, the CPU is faster than a GPU

_merge_tree = operator(
    "merge_tree(Tensor edge_index, SymInt num_nodes, Tensor? tree_ptr) -> (Tensor, Tensor)",
    lambda edge_index, num_nodes, tree_ptr: (
        edge_index.new_empty(2, edge_index.size(1), dtype=torch.long),
        edge_index.new_empty(num_nodes + edge_index.size(1), dtype=torch.long),
    ),
    lambda kernels: kernels.merge_tree,
)
_share = operator(
    "graded_share(Tensor grade, Tensor children, Tensor size, Tensor? tree_ptr, float leaf) -> Tensor",
    lambda grade, children, size, tree_ptr, leaf: grade.new_empty(size.size(0) - grade.size(0)),
    lambda kernels: kernels.graded_share,
)
_share_backward = operator(
    "graded_share_backward(Tensor grad, Tensor children, Tensor size, Tensor? tree_ptr) -> Tensor",
    lambda grad, children, size, tree_ptr: grad.new_empty(children.size(1)),
    lambda kernels: kernels.graded_share_backward,
)


class _Share(torch.autograd.Function):
    """A linear function of the grades: its derivative does not depend on them, and the derivative's derivative is the
    function itself.
    """

    @staticmethod
    def forward(
        ctx: Any, grade: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None, leaf: float
    ) -> Tensor:
        ctx.save_for_backward(children, size, tree_ptr)
        return cast(Tensor, _share(grade, children, size, tree_ptr, leaf))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _ShareBackward.apply(grad, *ctx.saved_tensors), None, None, None, None


class _ShareBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None) -> Tensor:
        ctx.save_for_backward(children, size, tree_ptr)
        return cast(Tensor, _share_backward(grad, children, size, tree_ptr))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Share.apply(grad, *ctx.saved_tensors, 0.0), None, None, None


def tree_shares(grade: Tensor, edge_index: Tensor, num_nodes: int, tree_ptr: Tensor | None = None) -> Tensor:
    """The graded weights of nodes [N], given a spanning forest; see :func:`graded_weight`.

    Args:
        grade: the grades of the forest's edges [F], from 0 to 1, descending within each tree.
        edge_index: the ends of the forest's edges [2, F].
        num_nodes: number of nodes N.
        tree_ptr: tree t, or group t of trees, has the edges ``tree_ptr[t]:tree_ptr[t + 1]``; the rest is padding. A GPU
            processes trees in parallel; without `tree_ptr`, the CPU processes all.
    """
    children, size = _merge_tree(edge_index, num_nodes, tree_ptr)
    if is_transformed():
        return _torch_graded.graded_share(grade, children, size, tree_ptr, 1.0)
    return cast(Tensor, _Share.apply(grade, children, size, tree_ptr, 1.0))


def graded_weight(
    edge_score: Tensor,
    edge_index: Tensor,
    merged: Tensor,
    num_nodes: int,
    threshold: float = 0.0,
    top: float = 1.0,
    parts: Components | None = None,
) -> Tensor:
    r"""The weight of each node in its supernode [N], such that sums of features are continuous in the scores.

    A merged edge has the grade :math:`g = (S - t) / (s - t)`: 0 at the threshold :math:`t`, and 1 at the score
    :math:`s`, the `top`, and above. At the level :math:`\theta`, the edges with a grade above :math:`\theta` merge, and
    :math:`C_\theta(i)` is the component of node :math:`i`. The weight of a node is the mean of its share in this
    component over all levels:

    .. math:: w_i = \int_0^1 \frac{d\theta}{|C_\theta(i)|}.

    If all merged edges have grade 1, supernodes are means of their members. When an edge crosses the threshold, no
    weight changes abruptly. Only the edges of the maximum spanning forest count, and only these get gradients.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        merged: mask [E] of the edges that score above the threshold.
        num_nodes: number of nodes N.
        threshold: :math:`t`.
        top: :math:`s`, the score at and above which an edge merges fully.
        parts: the components of the merged edges, if they are known; a GPU then processes them in parallel.

    Example:
        >>> edge_index, edge_score = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 1.0])
        >>> graded_weight(edge_score, edge_index, edge_score > 0, num_nodes=3)  # 1 and 2 merge fully, 0 joins by half
        tensor([0.6667, 0.4167, 0.4167])
    """
    positions, tree_ptr = forest(edge_score.detach(), edge_index, merged, num_nodes), None
    if parts is not None and edge_score.is_cuda:
        positions, tree_ptr = _by_supernode(positions, edge_index, parts)
    grade = ((edge_score.index_select(0, positions) - threshold) / (top - threshold)).clamp(0.0, 1.0)
    return tree_shares(grade, edge_index.index_select(1, positions), num_nodes, tree_ptr)


def _by_supernode(positions: Tensor, edge_index: Tensor, parts: Components) -> tuple[Tensor, Tensor | None]:
    """A forest's edges stably sorted by supernode, and the start of each supernode's edges [K + 1]. If one supernode is
    so large that the CPU is faster, the edges are unchanged, and the second is None.
    """
    source = edge_index[0].index_select(0, positions)
    supernode, order = parts.cluster.index_select(0, source).sort(stable=True)
    tree_ptr = torch.searchsorted(supernode, torch.arange(parts.num_supernodes + 1, device=supernode.device))
    if not torch.compiler.is_compiling() and positions.numel() and int(tree_ptr.diff().max()) > LARGE_TREE:
        return positions, None
    return positions.index_select(0, order), tree_ptr

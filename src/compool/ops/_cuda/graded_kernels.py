"""The GPU kernels of graded weights.

A forest is a list of F edges sorted by tree, or by group of trees, and descending grade: tree t has the edges
``tree_ptr[t]:tree_ptr[t + 1]``. Parts 0 to N − 1 are single nodes, and edge f unites two `children` [2, F] to part
N + f. A program loads values that it stored only after a barrier.
"""

import triton
import triton.language as tl

from compool.ops._cuda.kernels import size_free


@triton.jit
def _find(root, node):
    above = tl.load(root + node)
    while above != node:
        node = above
        above = tl.load(root + node)
    return node


@size_free
def merge_tree(ends, tree_ptr, root, part, children, size, N, F):
    """Initially, `root` and `part` are each node itself, and `size` is 1. The root of the smaller part is hooked below
    the other one, so that paths to the root stay short.
    """
    tree = tl.program_id(0)
    for f in range(tl.load(tree_ptr + tree), tl.load(tree_ptr + tree + 1)):
        u, v = _find(root, tl.load(ends + f)), _find(root, tl.load(ends + F + f))
        a, b = tl.load(part + u), tl.load(part + v)
        size_a, size_b = tl.load(size + a), tl.load(size + b)
        tl.debug_barrier()
        tl.store(children + f, a)
        tl.store(children + F + f, b)
        tl.store(size + N + f, size_a + size_b)
        upper, lower = tl.where(size_a < size_b, v, u), tl.where(size_a < size_b, u, v)
        tl.store(root + lower, upper)
        tl.store(part + upper, N + f)
        tl.debug_barrier()


@size_free
def graded_share(begin, children, size, tree_ptr, share, N, F):
    """From the last merge to the first: a part adds its share above the merge's grade to that of the merged part."""
    tree = tl.program_id(0)
    dtype = share.dtype.element_ty
    start, end = tl.load(tree_ptr + tree), tl.load(tree_ptr + tree + 1)
    for step in range(end - start):
        f = end - 1 - step
        a, b = tl.load(children + f), tl.load(children + F + f)
        above, grade = tl.load(share + N + f), tl.load(begin + N + f)
        tl.store(share + a, above + (tl.load(begin + a) - grade) / tl.load(size + a).to(dtype))
        tl.store(share + b, above + (tl.load(begin + b) - grade) / tl.load(size + b).to(dtype))
        tl.debug_barrier()


@size_free
def graded_share_backward(total, children, size, tree_ptr, grad_grade, N, F):
    """`total` initially holds the gradients of the nodes; their sum over each part is added to it."""
    tree = tl.program_id(0)
    dtype = total.dtype.element_ty
    for f in range(tl.load(tree_ptr + tree), tl.load(tree_ptr + tree + 1)):
        a, b = tl.load(children + f), tl.load(children + F + f)
        sum_a, sum_b = tl.load(total + a), tl.load(total + b)
        mean = (sum_a + sum_b) / tl.load(size + N + f).to(dtype)
        mean -= sum_a / tl.load(size + a).to(dtype) + sum_b / tl.load(size + b).to(dtype)
        tl.store(grad_grade + f, mean.to(grad_grade.dtype.element_ty))
        tl.store(total + N + f, sum_a + sum_b)
        tl.debug_barrier()

"""The GPU kernels of spanning forests, by Borůvka's algorithm.

Every component is a star: the `parent` of each node is its component's root. At roots, `best` holds the best offer so
far. An offer is a number with 32 bits for the weight and 32 bits for the edge's position: heavier edges have lower
offers, and of equal weights, earlier edges. WIDE weights take all 64 bits; then a second pass over the edges writes the
first of the best edges to `position`. Other constants as in `kernels`.
"""

import triton
import triton.language as tl

from compool.ops._cuda.kernels import NAN, NUMBER, RANGE, raise_flag, size_free

NO_OFFER = tl.constexpr(2**63 - 1)
NO_POSITION = tl.constexpr(2**31 - 1)


@triton.jit
def _order_key(weight):
    """Integers that ascend where weights descend. The bits of floats sort as integers, in reverse where negative; −0
    counts as 0.
    """
    if weight.dtype == tl.float32:
        bits = tl.where(weight == 0, 0.0, weight).to(tl.int32, bitcast=True)
        key = tl.where(bits < 0, bits & 0x7FFFFFFF, -1 - bits)
    elif weight.dtype == tl.float64:
        bits = tl.where(weight == 0, 0.0, weight).to(tl.int64, bitcast=True)
        key = tl.where(bits < 0, bits & 0x7FFFFFFFFFFFFFFF, -1 - bits)
    else:
        key = -1 - weight
    return key


@size_free
def offer_edges(
    weight, edge_index, stride, candidate, parent, best, position, ids, kept, left, flags, E, N,
    LISTED: tl.constexpr, KEEP: tl.constexpr, MASKED: tl.constexpr, WIDE: tl.constexpr, TIES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Offer each edge that joins two components to both.

    The edges are the E edges in the list `ids` if LISTED, those in the mask `candidate` if MASKED, else all. With KEEP,
    the edges that join two components are listed in `kept` and counted in `left`. TIES: the second pass for WIDE
    weights.

    Most edges are no better than the best so far. Reading it first saves atomics, which queue at large components.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < E
    e = i
    if LISTED:
        e = tl.load(ids + i, mask=inside, other=0).to(tl.int64)
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    good = inside
    if not LISTED:
        good = inside & (u >= 0) & (u < N) & (v >= 0) & (v < N)
        raise_flag(flags, RANGE, inside & (good == 0))
        if MASKED:
            good = good & (tl.load(candidate + e, mask=inside, other=0) != 0)
    a = tl.load(parent + u, mask=good, other=0)
    b = tl.load(parent + v, mask=good, other=0)
    active = good & (a != b)
    w = tl.load(weight + e, mask=inside, other=0)
    if not LISTED:
        raise_flag(flags, NAN, inside & (w != w))
    key = _order_key(w).to(tl.int64)
    if TIES:
        first_a = active & (key == tl.load(best + a, mask=active, other=0))
        first_b = active & (key == tl.load(best + b, mask=active, other=0))
        tl.atomic_min(position + a, e.to(tl.int32), mask=first_a, sem="relaxed")
        tl.atomic_min(position + b, e.to(tl.int32), mask=first_b, sem="relaxed")
    else:
        offer = key if WIDE else (key << 32) | e
        there_a = tl.load(best + a, mask=active, other=0, cache_modifier=".cg")
        there_b = tl.load(best + b, mask=active, other=0, cache_modifier=".cg")
        tl.atomic_min(best + a, offer, mask=active & (offer < there_a), sem="relaxed")
        tl.atomic_min(best + b, offer, mask=active & (offer < there_b), sem="relaxed")
        if KEEP:
            ones = active.to(tl.int32)
            total = tl.sum(ones, 0)
            slot = tl.atomic_add(left, total, sem="relaxed") + tl.cumsum(ones, 0) - 1
            tl.store(kept + slot, e.to(tl.int32), mask=active)


@size_free
def hook_best(
    edge_index, stride, parent, best, position, above, chosen, flags, N, WIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Hook each component with an offer to the component at the edge's other end, in `above`, and store the offer, or
    the edge if WIDE, in `chosen`. If an edge is the best of both its ends, the smaller root stays.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    p = tl.load(parent + i, mask=inside, other=-1)
    root = inside & (p == i)
    if WIDE:
        mine = tl.load(position + i, mask=root, other=NO_POSITION).to(tl.int64)
        some = root & (mine != NO_POSITION)
        e = mine
    else:
        mine = tl.load(best + i, mask=root, other=NO_OFFER)
        some = root & (mine != NO_OFFER)
        e = mine & 0x7FFFFFFF
    u = tl.load(edge_index + e, mask=some, other=0)
    v = tl.load(edge_index + stride + e, mask=some, other=0)
    a = tl.load(parent + u, mask=some, other=0)
    b = tl.load(parent + v, mask=some, other=0)
    other = tl.where(a == i, b, a)
    if WIDE:
        theirs = tl.load(position + other, mask=some, other=0).to(tl.int64)
    else:
        theirs = tl.load(best + other, mask=some, other=0)
    hooks = some & ((theirs != mine) | (other < i))
    tl.store(above + i, tl.where(hooks, other, p), mask=inside)
    ones = hooks.to(tl.int32)
    total = tl.sum(ones, 0)
    slot = tl.atomic_add(flags + NUMBER, total, sem="relaxed") + tl.cumsum(ones, 0) - 1
    tl.store(chosen + slot, mine, mask=hooks)


@size_free
def settle(above, best, position, N, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Point every node at its root, as in `flatten`, and reset the offers."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    p = tl.load(above + i, mask=inside, other=0, cache_modifier=".cg")
    next_p = tl.load(above + p, mask=inside, other=0, cache_modifier=".cg")
    moves = tl.sum((inside & (next_p != p)).to(tl.int32), 0)
    while moves > 0:
        tl.store(above + i, next_p, mask=inside & (next_p != p))
        p = next_p
        next_p = tl.load(above + p, mask=inside, other=0, cache_modifier=".cg")
        moves = tl.sum((inside & (next_p != p)).to(tl.int32), 0)
    tl.store(best + i, tl.full([BLOCK], NO_OFFER, tl.int64), mask=inside)
    if WIDE:
        tl.store(position + i, tl.full([BLOCK], NO_POSITION, tl.int32), mask=inside)

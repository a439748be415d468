"""The GPU kernels. A program handles a block of edges, or a tile of nodes and channels.

Nodes are int32 inside. `parent` is read past the first-level cache (``.cg``), because other programs write to it at the
same time. `flags` reports to the host, by the constants below. LIMITED: only the first `limit` of the E edges are
edges, the rest is padding.
"""

import triton
import triton.language as tl

# Sizes change from batch to batch: one kernel for all sizes, rather than others for 1 and for multiples of 16.
# `launch` relies on this when it reuses a compiled kernel
size_free = triton.jit(
    do_not_specialize=["E", "N", "K", "F", "stride", "last", "high", "low", "plus", "TILES", "PROGRAMS"]
)

# Entries of `flags`
NUMBER = tl.constexpr(0)  # number of supernodes
EDGES = tl.constexpr(1)  # number of edges between supernodes
RANGE = tl.constexpr(2)  # an index is out of range
NAN = tl.constexpr(3)  # a score is NaN
UNSORTED = tl.constexpr(4)  # the edges are not strictly sorted
FULL = tl.constexpr(5)  # the hash table is full
BATCH = tl.constexpr(6)  # the batch vector is not sorted, or has negative entries
CROSSING = tl.constexpr(7)  # an edge joins two graphs of the batch
SIZE = 8


@triton.jit
def raise_flag(flags, which: tl.constexpr, condition):
    wrong = tl.sum(condition.to(tl.int32), 0)
    tl.atomic_max(flags + which, 1, mask=wrong > 0)


@size_free
def score(left, right, edge_index, stride, bias, out, E, N, BLOCK: tl.constexpr):
    """out[e] = left[source] + right[target] + bias; a node out of range counts as 0; `select_and_hook` reports it."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    u = tl.load(edge_index + e, mask=inside, other=-1)
    v = tl.load(edge_index + stride + e, mask=inside, other=-1)
    a = tl.load(left + u, mask=(u >= 0) & (u < N), other=0.0)
    b = tl.load(right + v, mask=(v >= 0) & (v < N), other=0.0)
    tl.store(out + e, (a + b) + tl.load(bias), mask=inside)


@size_free
def sum_ends(values, edge_index, stride, left, right, E, BLOCK: tl.constexpr):
    """`left` and `right` are initially zero."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    g = tl.load(values + e, mask=inside, other=0.0)
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    some = inside & (g != 0)
    tl.atomic_add(left + u, g, mask=some, sem="relaxed")
    tl.atomic_add(right + v, g, mask=some, sem="relaxed")


@triton.jit
def _start(i, parent, alone, batch, flags, N, HAS_BATCH: tl.constexpr):
    inside = i < N
    tl.store(parent + i, i, mask=inside)
    tl.store(alone + i, 1, mask=inside)
    if HAS_BATCH:
        graph = tl.load(batch + i, mask=inside, other=0)
        before = tl.load(batch + i - 1, mask=inside & (i > 0), other=0)  # 0 before the first, to detect negative ids
        raise_flag(flags, BATCH, inside & (graph < before))


@size_free
def start(parent, alone, batch, flags, N, HAS_BATCH: tl.constexpr, BLOCK: tl.constexpr):
    """Make every node a component by itself, and check the batch vector."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _start(i, parent, alone, batch, flags, N, HAS_BATCH)


@size_free
def start_and_project(
    x, halves, ends, weight, parent, alone, batch, flags, N, D: tl.constexpr,
    TWO: tl.constexpr, HAS_BATCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`start`, and compute what each node adds to the scores of its edges: one number, or TWO. Sets weights to zero."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    _start(i, parent, alone, batch, flags, N, HAS_BATCH)
    tl.store(weight + i, 0.0, mask=inside)
    left = tl.zeros([ROWS], dtype=ends.dtype.element_ty)
    right = tl.zeros([ROWS], dtype=ends.dtype.element_ty)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        tile = inside[:, None] & (c < D)[None, :]
        rows = tl.load(x + i.to(tl.int64)[:, None] * D + c[None, :], mask=tile, other=0.0).to(ends.dtype.element_ty)
        left += tl.sum(rows * tl.load(halves + c, mask=c < D, other=0.0)[None, :], 1)
        if TWO:
            right += tl.sum(rows * tl.load(halves + D + c, mask=c < D, other=0.0)[None, :], 1)
    tl.store(ends + i, left, mask=inside)
    if TWO:
        tl.store(ends + N + i, right, mask=inside)


@triton.jit
def _union(u, v, active, parent):
    """Hook the roots of u and v, the larger under the smaller, until each active pair has one root.

    Nodes on the way are pointed at their grandparents, because chains would grow otherwise (3.9 ms, not 13.4, on 100 M
    edges). The link that `atomic_min` replaces is united in turn, so no link is lost when two programs hook one root.
    """
    left = tl.sum(active.to(tl.int32), 0)
    while left > 0:
        a = tl.load(parent + u, mask=active, other=0, cache_modifier=".cg")
        b = tl.load(parent + v, mask=active, other=0, cache_modifier=".cg")
        active = active & (a != b)
        above_a = tl.load(parent + a, mask=active, other=0, cache_modifier=".cg")
        above_b = tl.load(parent + b, mask=active, other=0, cache_modifier=".cg")
        tl.store(parent + u, above_a, mask=active & (above_a != a))
        tl.store(parent + v, above_b, mask=active & (above_b != b))
        hook = active & (above_a == a) & (above_b == b)
        high, low = tl.maximum(a, b), tl.minimum(a, b)
        old = tl.atomic_min(parent + high, low, mask=hook, sem="relaxed")
        u = tl.where(hook, old, above_a)
        v = tl.where(hook, low, above_b)
        active = active & (u != v) & ((hook & (old == high)) == 0)
        left = tl.sum(active.to(tl.int32), 0)


@triton.jit
def _tanh(x):
    """Compute tanh in float32, to two units in the last place: by a polynomial near zero, as in Cephes, else by exp."""
    z = x * x
    p = (
        ((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1
    ) * z - 3.33332819422e-1
    far = 1 - 2 / (tl.exp(2 * tl.abs(x)) + 1)
    return tl.where(tl.abs(x) < 0.625, x + x * z * p, tl.where(x < 0, -far, far))


@size_free
def select_and_hook(
    score, left, right, bias, term, high, low, edge_index, stride, batch, merged, counted, parent, weight, flags, limit,
    E, N, SCORE: tl.constexpr, HAS_TERM: tl.constexpr, WEIGH: tl.constexpr, HAS_BATCH: tl.constexpr,
    LIMITED: tl.constexpr, HOOK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Which edges count and which merge, if edges are strictly sorted; with HOOK also the components of merged edges.

    `high` and `low` are the bits of the threshold, a float64.

    SCORE: scores are "given", or computed by "tanh", "sigmoid" or "hardtanh" from the sum of what the two ends and each
    edge's own `term` add, and then written. With WEIGH, `counted` is not written, and w_i = Σ S_ij over merged edges is
    added to `weight`, which is initially zero.
    """
    if LIMITED:
        E = tl.load(limit)
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    good = inside & (u >= 0) & (u < N) & (v >= 0) & (v < N)
    raise_flag(flags, RANGE, inside & (good == 0))
    if HAS_BATCH:
        of_source, of_target = tl.load(batch + u, mask=good, other=0), tl.load(batch + v, mask=good, other=0)
        raise_flag(flags, CROSSING, of_source != of_target)
    if SCORE == "given":
        s = tl.load(score + e, mask=inside, other=0.0)
    else:
        s = tl.load(left + u, mask=good, other=0.0) + tl.load(right + v, mask=good, other=0.0) + tl.load(bias)
        if HAS_TERM:
            s += tl.load(term + e, mask=inside, other=0.0)
        if SCORE == "tanh":
            s = _tanh(s)
        elif SCORE == "sigmoid":
            s = 1 / (1 + tl.exp(-s))
        else:  # NaN stays NaN
            s = tl.where(s > 1, 1.0, tl.where(s < -1, -1.0, s))
        tl.store(score + e, s, mask=inside)
    raise_flag(flags, NAN, inside & (s != s))
    later = inside & (e > 0)
    before_u = tl.load(edge_index + e - 1, mask=later, other=-1)
    before_v = tl.load(edge_index + stride + e - 1, mask=later, other=-1)
    raise_flag(flags, UNSORTED, later & ((u < before_u) | ((u == before_u) & (v <= before_v))))
    counts = inside & (u != v)
    threshold = (high.to(tl.int64) << 32) | (low.to(tl.int64) & 0xFFFFFFFF)
    merges = counts & (s > threshold.to(tl.float64, bitcast=True).to(s.dtype))
    if LIMITED:  # the host does not read the flags, so NaN must show in the weights
        merges = merges | (counts & (s != s))
    tl.store(merged + e, merges, mask=inside)
    if WEIGH:
        tl.atomic_add(weight + u, s, mask=merges & good, sem="relaxed")
    else:
        tl.store(counted + e, counts, mask=inside)
    if HOOK:
        _union(u.to(tl.int32), v.to(tl.int32), merges & good, parent)


@size_free
def hook(edge_index, stride, merged, parent, flags, E, N, BLOCK: tl.constexpr):
    """Unite the ends of the edges in the mask `merged`."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    good = (u >= 0) & (u < N) & (v >= 0) & (v < N)
    raise_flag(flags, RANGE, inside & (good == 0))
    active = inside & good & (u != v) & (tl.load(merged + e, mask=inside, other=0) != 0)
    _union(u.to(tl.int32), v.to(tl.int32), active, parent)


@size_free
def flatten(parent, is_root, alone, N, BLOCK: tl.constexpr):
    """Point every node at its root. Each step is stored, so long chains halve for all programs that follow them.

    `alone` is initially true; it stays true for nodes that are a component by themselves.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    p = tl.load(parent + i, mask=inside, other=0, cache_modifier=".cg")
    above = tl.load(parent + p, mask=inside, other=0, cache_modifier=".cg")
    left = tl.sum((inside & (above != p)).to(tl.int32), 0)
    while left > 0:
        tl.store(parent + i, above, mask=inside & (above != p))
        p = above
        above = tl.load(parent + p, mask=inside, other=0, cache_modifier=".cg")
        left = tl.sum((inside & (above != p)).to(tl.int32), 0)
    tl.store(is_root + i, (p == i).to(tl.int32), mask=inside)
    child = inside & (p != i)
    tl.store(alone + i, 0, mask=child)
    tl.store(alone + p, 0, mask=child & (tl.load(alone + p, mask=child, other=0) != 0))


@triton.jit
def number_node(i, parent, rank, batch, cluster, first, graph, N, HAS_BATCH: tl.constexpr):
    inside = i < N
    p = tl.load(parent + i, mask=inside, other=0)
    k = tl.load(rank + p, mask=inside, other=1).to(tl.int64) - 1
    tl.store(cluster + i, k, mask=inside)
    root = inside & (p == i)
    tl.store(first + k, i.to(tl.int64), mask=root)
    if HAS_BATCH:
        tl.store(graph + k, tl.load(batch + i, mask=root, other=0), mask=root)
    else:
        tl.store(graph + k, 0, mask=root)


@size_free
def number_nodes(parent, rank, batch, cluster, first, graph, N, HAS_BATCH: tl.constexpr, BLOCK: tl.constexpr):
    """The component of each node, and the first member and the graph of each component. `rank` counts roots, from 1."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number_node(i, parent, rank, batch, cluster, first, graph, N, HAS_BATCH)


@size_free
def insert_edges(
    edge_index, stride, parent, rank, table, last, keys, short_keys, flags, E, N, K,
    PARENT: tl.constexpr, SELF_LOOPS: tl.constexpr, INPUT_LOOPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The distinct pairs of supernodes that edges join, in any order. `keys` holds source · 2³² + target of each pair.
    `short_keys`, which sort in half the passes, holds source · K + target, valid if it fits in 31 bits.

    Uses a hash table of `last` + 1 entries, a power of two, which is initially zero and holds keys + 1. The supernode
    of node i is rank[i]; with PARENT, it is rank[parent[i]] − 1, and K, the number of supernodes, is stored in `flags`.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    inside = inside & (u >= 0) & (u < N) & (v >= 0) & (v < N)
    if PARENT:
        a = tl.load(parent + u, mask=inside, other=0)
        b = tl.load(parent + v, mask=inside, other=0)
        k = tl.load(rank + a, mask=inside, other=1).to(tl.int64) - 1
        m = tl.load(rank + b, mask=inside, other=1).to(tl.int64) - 1
        K = tl.load(rank + N - 1)
        if tl.program_id(0) == 0:
            tl.store(flags + NUMBER, K)
    else:
        k = tl.load(rank + u, mask=inside, other=0).to(tl.int64)
        m = tl.load(rank + v, mask=inside, other=0).to(tl.int64)
    active = inside & (k != m)
    if SELF_LOOPS:
        active = inside & (INPUT_LOOPS | (k != m) | (u != v))
    key = ((k << 32) | m) + 1
    slot = key * -7046029254386353131
    slot = ((slot ^ (slot >> 29)) * -4658895280553007687) >> 20
    slot = tl.where(active, slot, e) & last  # idle lanes swap nothing, each at a different slot
    fresh = active & (active == 0)
    tries = 0
    left = tl.sum(active.to(tl.int32), 0)
    while left > 0:
        entry = tl.load(table + slot, mask=active, other=0, cache_modifier=".cg")
        free = active & (entry == 0)
        old = tl.atomic_cas(table + slot, tl.where(free, 0, -1).to(tl.int64), key, sem="relaxed")
        entry = tl.where(free, old, entry)
        took = free & (old == 0)
        fresh = fresh | took
        active = active & (entry != key) & (took == 0)
        slot = tl.where(active, (slot + 1) & last, slot)
        tries += 1
        left = tl.sum(active.to(tl.int32), 0)
        if tries > 256:
            raise_flag(flags, FULL, active)
            active = active & (active == 0)
            left = 0
    ones = fresh.to(tl.int32)
    total = tl.sum(ones, 0)
    position = tl.atomic_add(flags + EDGES, total, sem="relaxed") + tl.cumsum(ones, 0) - 1
    tl.store(keys + position, key - 1, mask=fresh)
    tl.store(short_keys + position, (k * K + m).to(tl.int32), mask=fresh)


@size_free
def split_keys(keys, out, stride, E, K, SHORT: tl.constexpr, BLOCK: tl.constexpr):
    """Decode keys, SHORT or not, to edges [2, E]."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    key = tl.load(keys + e, mask=inside, other=0)
    tl.store(out + e, key // K if SHORT else key >> 32, mask=inside)
    tl.store(out + stride + e, key % K if SHORT else key & 0xFFFFFFFF, mask=inside)


@size_free
def fold_key(key, index, out, plus, N, HAS_INDEX: tl.constexpr, PER_KEY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(key + i, mask=i < N, other=0) * -4417276706812531889 + 1 + plus
    if PER_KEY:
        bits += tl.load(index + i, mask=i < N, other=0)
    elif HAS_INDEX:
        bits += tl.load(index)
    bits = bits * -7046029254386353131
    bits = (bits ^ ((bits >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    bits = (bits ^ ((bits >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    tl.store(out + i, bits ^ ((bits >> 31) & 0x1FFFFFFFF), mask=i < N)

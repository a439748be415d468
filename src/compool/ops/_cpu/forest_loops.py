"""The loops for spanning forests, their hierarchy, and the sort by weight: see `loops`."""

import numpy as np

from compool.ops._cpu.loops import exact, fast, find

NONE = np.int64(2**63 - 1)  # no best edge yet


@fast
def offer(source, target, mask, key, best):
    """The `best` edge of each node: the least key; ties go to the first edge. There is no branch on keys, because it
    would be unpredictable.
    """
    for e in range(source.size):
        u, v = source[e], target[e]
        mine = ((np.int64(key[e]) << 32) | e) if mask[e] & (u != v) else NONE
        best[u] = min(best[u], mine)
        best[v] = min(best[v], mine)


@fast
def hook(source, target, position, best, parent, chosen):
    """Choose the best edge of each part, and unite its ends. `position` holds the original positions of edges; it is
    empty in the first round.
    """
    for mine in best:
        if mine != NONE:
            i = mine & 0xFFFFFFFF
            u, v = find(parent, source[i]), find(parent, target[i])
            if u != v:  # else it is the best edge of both its ends
                parent[max(u, v)] = min(u, v)
                chosen[position[i] if position.size else i] = True


@fast
def relabel(parent, label, best):
    """Number the parts, whose roots are their smallest members, and reset `parent` and `best` for the next round."""
    num_parts = 0
    for u in range(parent.size):
        if parent[u] == u:
            label[u] = num_parts
            num_parts += 1
        else:
            label[u] = label[parent[u]]
    for part in range(num_parts):
        parent[part], best[part] = part, NONE
    return num_parts


@fast
def contract_first(source, target, mask, key, label, best, to_source, to_target, position):
    """Collect the masked edges that join two parts, their positions, and the `best` edge of each part; returns how many
    edges there are.
    """
    m = 0
    for e in range(source.size):
        u, v = label[source[e]], label[target[e]]
        keep = mask[e] & (u != v)
        to_source[m], to_target[m], position[m] = u, v, e
        mine = ((np.int64(key[e]) << 32) | m) if keep else NONE
        best[u] = min(best[u], mine)
        best[v] = min(best[v], mine)
        m += keep
    return m


@fast
def contract(source, target, position, num_edges, key, label, best):
    """`contract_first` for later rounds, in place."""
    m = 0
    for i in range(num_edges):
        u, v, e = label[source[i]], label[target[i]], position[i]
        keep = u != v
        source[m], target[m], position[m] = u, v, e
        mine = ((np.int64(key[e]) << 32) | m) if keep else NONE
        best[u] = min(best[u], mine)
        best[v] = min(best[v], mine)
        m += keep
    return m


@exact
def linkage(source, target, distance, parent, label, size, rows):
    """The rows of SciPy's linkage matrix: the two clusters that unite, their distance, and their total number of nodes.

    `label`, the cluster of a root, is initially the node itself, and `size` is 1.
    """
    for k in range(source.size):
        u, v = find(parent, source[k]), find(parent, target[k])
        a, b = label[u], label[v]
        u, v = min(u, v), max(u, v)
        parent[v] = u
        size[u] += size[v]
        label[u] = parent.size + k
        rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = min(a, b), max(a, b), distance[k], size[u]


@fast
def persistence(source, target, parent, founder, begins, ends):
    """The edge of a forest with which each node appears, and the edge that unites its component with an older one.

    `founder`, the oldest node of a root's component, is initially the node itself; the results are initially −1.
    """
    for k in range(source.size):
        u, v = source[k], target[k]
        if begins[u] < 0:
            begins[u] = k
        if begins[v] < 0:
            begins[v] = k
        u, v = find(parent, u), find(parent, v)
        old, young = founder[u], founder[v]
        if begins[young] < begins[old] or (begins[young] == begins[old] and young < old):
            old, young = young, old
        ends[young] = k
        parent[max(u, v)] = min(u, v)
        founder[min(u, v)] = old


@exact
def merges(source, target, parent, into, absorbed):
    """The first members of the two supernodes that each edge of a forest unites."""
    for k in range(source.size):
        u, v = find(parent, source[k]), find(parent, target[k])
        into[k], absorbed[k] = min(u, v), max(u, v)
        parent[max(u, v)] = min(u, v)


@exact
def order_key(bits, is_float, lowest, key):
    """Keys that sort in descending order of the values. The bits of floats sort as integers, in reverse where negative;
    −0, whose bits are `lowest`, counts as 0.
    """
    for e in range(bits.size):
        b = np.int64(bits[e])
        if is_float and b == lowest:
            b = np.int64(0)
        key[e] = b & ~lowest if is_float and b < 0 else ~b


@exact
def pack_keys(key, half, positions, packed):
    """Pack one half of each key, as a signed number, into the upper 32 bits, and its position into the lower; packs all
    keys if `positions` is empty.
    """
    wide = key.itemsize == 8
    for i in range(packed.size):
        e = positions[i] if positions.size else i
        k = np.int64(key[e])
        if wide:
            k = k >> 32 if half else (k & 0xFFFFFFFF) - 0x80000000
        packed[i] = (k << 32) | e


@exact
def sort_packed(packed, scratch, counts):
    """Radix sort by the upper 32 bits, in digits of 11, 11 and 10 bits. Returns the array that holds the result."""
    counts[:] = 0
    for value in packed:
        counts[0, (value >> 32) & 2047] += 1
        counts[1, (value >> 43) & 2047] += 1
        counts[2, ((value >> 54) & 1023) ^ 512] += 1  # the sign: negative numbers first
    for digit in range(3):
        shift, mask, sign = (32, 2047, 0) if digit == 0 else (43, 2047, 0) if digit == 1 else (54, 1023, 512)
        start, count = 0, counts[digit]
        for bucket in range(2048):
            start, count[bucket] = start + count[bucket], start
        for value in packed:
            bucket = ((value >> shift) & mask) ^ sign
            scratch[count[bucket]] = value
            count[bucket] += 1
        packed, scratch = scratch, packed
    return packed

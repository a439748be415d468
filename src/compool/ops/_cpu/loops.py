"""The loops. They take numpy arrays and write their results into arrays that the caller allocates.

Each runs in one thread and releases the GIL. The loops are bound by memory, and a second thread gained nothing on two
cores, where it competes with torch's own threads. Inner loops run over row views, because only these vectorise.
"""

import numpy as np

from compool._jit import jit

# `fast` may reorder sums, so that they vectorise; NaN and infinity keep their meaning.
exact = jit(error_model="numpy")
fast = jit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@fast
def distinct_sorted(source, target, keep):
    """Fill `keep` and return True if the edges are strictly sorted, else return False."""
    before_u, before_v = -1, -1
    for e in range(source.size):
        u, v = source[e], target[e]
        if u < before_u or (u == before_u and v <= before_v):
            return False
        keep[e] = u != v
        before_u, before_v = u, v
    return True


@fast
def distinct(source, target, start, order, seen, keep):
    """Fill `keep` for edges in any order: no self-loops, and of repeated edges only the first.

    `start` [N + 1] and `seen` [N] are initially zero.
    """
    for u in source:
        start[u + 1] += 1
    for u in range(start.size - 1):
        start[u + 1] += start[u]
    for e in range(source.size):  # a stable counting sort by source
        order[start[source[e]]] = e
        start[source[e]] += 1
    for e in order:
        u, v = source[e], target[e]
        keep[e] = u != v and seen[v] != u + 1
        seen[v] = u + 1


@fast
def edges_fit(source, target, num_nodes, batch):
    """Whether all edges are in range, none joins two graphs, and the batch is sorted; the batch may be empty."""
    for e in range(source.size):
        u, v = source[e], target[e]
        if u < 0 or u >= num_nodes or v < 0 or v >= num_nodes:
            return False
        if batch.size and batch[u] != batch[v]:
            return False
    before = 0
    for graph in batch:
        if graph < before:
            return False
        before = graph
    return True


@fast
def first_crossing(batch, source, target):
    """The first edge that joins two graphs, or −1 if none does."""
    for e in range(source.size):
        if batch[source[e]] != batch[target[e]]:
            return e
    return -1


@fast
def select(score, threshold, counted, merged):
    """Fill `merged`; returns True if a score is NaN."""
    nan = False
    for e in range(score.size):
        nan |= score[e] != score[e]
        merged[e] = counted[e] & (score[e] > threshold)
    return nan


@fast
def node_ends(x, halves, ends):
    for i in range(x.shape[0]):
        row = x[i]
        for r in range(halves.shape[0]):
            half, total = halves[r], x.dtype.type(0)
            for c in range(row.size):
                total += half[c] * row[c]
            ends[r, i] = total


@fast
def node_ends_backward(grad, x, halves, grad_x, grad_halves):
    """Adds to `grad_x`; `grad_halves` is initially zero. Blocks of rows are summed separately, for precision."""
    block, sums = 512, np.zeros(halves.shape, x.dtype)
    for begin in range(0, x.shape[0], block):
        for i in range(begin, min(begin + block, x.shape[0])):
            row, out = x[i], grad_x[i]
            for r in range(halves.shape[0]):
                half, of_half, share = halves[r], sums[r], grad[r, i]
                for c in range(row.size):
                    of_half[c] += share * row[c]
                for c in range(row.size):
                    out[c] += share * half[c]
        grad_halves += sums
        sums[:] = 0


@exact
def score(ends, source, target, bias, out):
    left, right, b = ends[0], ends[1], bias[0]
    for e in range(source.size):
        out[e] = (left[source[e]] + right[target[e]]) + b


@fast
def sum_ends(values, source, target, ends):
    """`ends` is initially zero."""
    left, right = ends[0], ends[1]
    for e in range(source.size):
        left[source[e]] += values[e]
        right[target[e]] += values[e]


@fast
def find(parent, u):
    while parent[u] != u:
        parent[u] = parent[parent[u]]
        u = parent[u]
    return u


@fast
def components(source, target, merged, parent, cluster, first, alone):
    """Union-find. A root is the smallest member of its tree, so one ascending pass numbers the components."""
    for u in range(parent.size):
        parent[u] = u
    for e in range(source.size):
        if merged[e]:
            u, v = find(parent, source[e]), find(parent, target[e])
            if u < v:
                parent[v] = u
            else:
                parent[u] = v
    num_components = 0
    for u in range(parent.size):
        root = parent[u] == u
        alone[u] = root
        if root:
            cluster[u] = num_components
            first[num_components] = u
            num_components += 1
        else:
            k = cluster[parent[u]]
            cluster[u] = k
            alone[first[k]] = False
    return num_components


@fast
def merge(x, score, source, merged, cluster, first, alone, weight, out):
    """The weights of nodes, initially zero, and the sums of weighted rows.

    There is no branch on `merged`, because it would be hard to predict.
    """
    for e in range(source.size):
        weight[source[e]] += score[e] if merged[e] else 0.0
    for i in range(x.shape[0]):
        if alone[i]:
            weight[i] = 1
        k = cluster[i]
        w, member, row = weight[i], x[i], out[k]
        if first[k] == i:  # the first member is visited first, so rows need not be zeroed before
            for c in range(row.size):
                row[c] = w * member[c]
        else:
            for c in range(row.size):
                row[c] += w * member[c]


@fast
def gather_merged(grad_weight, source, merged, grad_score):
    for e in range(source.size):
        g = grad_weight[source[e]]
        grad_score[e] = g if merged[e] else 0.0


@fast
def row_sum(x, weight, target, out):
    """out[target[i]] += weight[i] · x[i]; `out` is initially zero."""
    for i in range(target.size):
        w, row, to = weight[i], x[i], out[target[i]]
        for c in range(row.size):
            to[c] += w * row[c]


@fast
def gathered_row_sum(x, weight, source, target, out):
    """out[target[e]] += weight[e] · x[source[e]]; `out` is initially zero."""
    for e in range(source.size):
        w, row, to = weight[e], x[source[e]], out[target[e]]
        for c in range(row.size):
            to[c] += w * row[c]


@fast
def row_sum_backward(grad, x, weight, target, grad_x, grad_weight):
    for i in range(target.size):
        w, to, row, out = weight[i], grad[target[i]], x[i], grad_x[i]
        total = grad_weight.dtype.type(0)
        for c in range(row.size):
            total += to[c] * row[c]
            out[c] = w * to[c]
        grad_weight[i] = total


@fast
def gathered_row_sum_backward(grad, x, weight, source, target, grad_x, grad_weight):
    """`grad_x` is initially zero."""
    for e in range(source.size):
        w, to, row, out = weight[e], grad[target[e]], x[source[e]], grad_x[source[e]]
        total = grad_weight.dtype.type(0)
        for c in range(row.size):
            total += to[c] * row[c]
            out[c] += w * to[c]
        grad_weight[e] = total


@fast
def contract(order, source, target, cluster, chosen, first):
    """`cluster` is initially −1. Returns the numbers of contracted edges and of supernodes."""
    contracted = 0
    for e in order:
        u, v = source[e], target[e]
        if cluster[u] < 0 and cluster[v] < 0:
            cluster[u] = cluster[v] = contracted
            chosen[contracted] = e
            first[contracted] = u
            contracted += 1
    num_supernodes = contracted
    for i in range(cluster.size):
        if cluster[i] < 0:
            cluster[i] = num_supernodes
            first[num_supernodes] = i
            num_supernodes += 1
    return contracted, num_supernodes


@fast
def merge_pairs(x, score, cluster, seen, out):
    """`seen` counts the members of each supernode; it is initially zero."""
    for i in range(x.shape[0]):
        k = cluster[i]
        if k >= score.size:
            continue
        member, row, s = x[i], out[k], score[k]
        if seen[k]:  # the second of a pair
            for c in range(row.size):
                row[c] = (row[c] + member[c]) * s
        else:
            row[:] = member
        seen[k] += 1
    for k in range(seen.size):
        if seen[k] == 0:  # padding
            out[k] = 0
        elif seen[k] == 1 and score[k] != 1:  # a contracted self-loop
            out[k] *= score[k]


@fast
def merge_pairs_backward(grad, x, score, cluster, grad_x, grad_score):
    """`grad_score` is initially zero."""
    for i in range(x.shape[0]):
        k = cluster[i]
        if k >= score.size:
            grad_x[i] = 0
            continue
        supernode, member, out, s = grad[k], x[i], grad_x[i], score[k]
        total = grad_score.dtype.type(0)
        for c in range(out.size):
            total += supernode[c] * member[c]
            out[c] = s * supernode[c]
        grad_score[k] += total


@fast
def connect_rows(source, target, cluster, self_loops, input_loops, start, row, seen, length):
    """Gather the distinct neighbours of each supernode, sorted: those of k are row[start[k]:][:length[k]].

    `start` [K + 1] and `seen` [K] are initially zero. Returns the total number of neighbours.
    """
    for e in range(source.size):
        k, m = cluster[source[e]], cluster[target[e]]
        if k != m or (self_loops and (input_loops or source[e] != target[e])):
            start[k + 1] += 1
    for k in range(length.size):
        start[k + 1] += start[k]
        length[k] = 0
    for e in range(source.size):
        k, m = cluster[source[e]], cluster[target[e]]
        if k != m or (self_loops and (input_loops or source[e] != target[e])):
            row[start[k] + length[k]] = m
            length[k] += 1
    total = 0
    for k in range(length.size):
        fill = low = start[k]
        ordered = True
        for i in range(low, low + length[k]):
            m = row[i]
            if seen[m] != k + 1:
                seen[m] = k + 1
                ordered = ordered and (fill == low or row[fill - 1] < m)
                row[fill] = m
                fill += 1
        if not ordered and fill - low > 64:
            row[low:fill].sort()
        elif not ordered:  # insertion sort, which beats a call of sort() for few entries
            for i in range(low + 1, fill):
                m, to = row[i], i
                while to > low and row[to - 1] > m:
                    row[to] = row[to - 1]
                    to -= 1
                row[to] = m
        length[k] = fill - low
        total += fill - low
    return total


@fast
def connect_fill(start, row, length, out):
    fill = 0
    for k in range(length.size):
        for i in range(start[k], start[k] + length[k]):
            out[0, fill] = k
            out[1, fill] = row[i]
            fill += 1

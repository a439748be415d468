"""The loops behind `_cpu`. They take numpy arrays and write their results into arrays that the caller allocates."""

import numpy as np

from compool.ops._cpu.loops import exact, fast


@fast
def gather_graphs(graph_ids, node_ptr, edge_ptr, row_ptr, edge_index, graph_ptr, node, rows, out):
    """`out` is initially zero."""
    n, e = 0, 0
    for s in range(graph_ids.size):
        graph_ptr[s] = n
        g = graph_ids[s]
        if g < 0:
            continue
        low, high = edge_ptr[g], edge_ptr[g + 1]
        for row in range(2):
            source, target = edge_index[row, low:high], out[row, e : e + high - low]
            for edge in range(source.size):
                target[edge] = source[edge] + n
        for i in range(node_ptr[g], node_ptr[g + 1]):
            node[n] = i
            rows[n] = row_ptr[i] - low + e
            n += 1
        e += high - low
    graph_ptr[graph_ids.size] = n
    node[n:] = node_ptr[-1]
    rows[n:] = e


@fast
def segment_sum(x, ptr, out):
    for s in range(out.shape[0]):
        row = out[s]
        row[:] = 0
        for i in range(ptr[s], ptr[s + 1]):
            member = x[i]
            for c in range(row.size):
                row[c] += member[c]


@fast
def segment_repeat(x, ptr, out):
    for s in range(x.shape[0]):
        row = x[s]
        for i in range(ptr[s], ptr[s + 1]):
            out[i, :] = row


@fast
def propagate(x, row_ptr, neighbour, left, right, own, out):
    """A factor of length 1 applies to all nodes."""
    each_left, each_right, each_own = min(left.size - 1, 1), min(right.size - 1, 1), min(own.size - 1, 1)
    for i in range(x.shape[0]):
        row, member, o, scale = out[i], x[i], own[i * each_own], left[i * each_left]
        row[:] = 0
        for edge in range(row_ptr[i], row_ptr[i + 1]):
            j = neighbour[edge]
            r, other = right[j * each_right], x[j]
            for c in range(row.size):
                row[c] += r * other[c]
        for c in range(row.size):
            row[c] = scale * row[c] + o * member[c]


@fast
def _mix32(bits):
    """The finaliser of MurmurHash3. Every step is cast, because numba promotes two 32-bit operands to 64 bits."""
    bits = np.uint32((bits ^ (bits >> 16)) * np.uint32(0x85EBCA6B))
    bits = np.uint32((bits ^ (bits >> 13)) * np.uint32(0xC2B2AE35))
    return np.uint32(bits ^ (bits >> 16))


@fast
def _kept(index, low, high, least):
    return (_mix32(np.uint32(_mix32(np.uint32(np.uint32(index) ^ low)) ^ high)) >> 8) >= least


@fast
def drop(x, ptr, key, probability, out):
    for s in range(ptr.size - 1):
        low, high, p = key[s, 0], key[s, 1], x.dtype.type(probability[s])
        least, scale = _least(probability[s]), 1 / (1 - p)
        for i in range(ptr[s], ptr[s + 1]):
            row, to, base = x[i], out[i], (i - ptr[s]) * x.shape[1]
            for c in range(row.size):
                to[c] = row[c] * scale if _kept(base + c, low, high, least) else 0.0


@fast
def _least(probability):
    """The smallest hash of 24 bits that is kept: hash · 2⁻²⁴ ≥ probability."""
    return np.uint32(np.ceil(np.float64(probability) * 2.0**24))


@fast
def activate(x, bias, ptr, out):
    """A bias with a single row applies to all segments."""
    each = min(bias.shape[0] - 1, 1)
    for s in range(ptr.size - 1):
        shift = bias[s * each]
        for i in range(ptr[s], ptr[s + 1]):
            row, to = x[i], out[i]
            for c in range(row.size):
                value = row[c] + shift[c]
                to[c] = 0.0 if value <= 0 else value  # NaN stays NaN


@fast
def activate_and_drop(x, bias, ptr, probability, out, key):
    each = min(bias.shape[0] - 1, 1)
    for s in range(ptr.size - 1):
        shift, low, high, p = bias[s * each], key[s, 0], key[s, 1], x.dtype.type(probability[s])
        least, scale = _least(probability[s]), 1 / (1 - p)
        for i in range(ptr[s], ptr[s + 1]):
            row, to, base = x[i], out[i], (i - ptr[s]) * x.shape[1]
            for c in range(row.size):
                value = row[c] + shift[c]
                dropped = not _kept(base + c, low, high, least)
                to[c] = 0.0 if (value <= 0) | dropped else value * scale


@fast
def activate_backward(grad, out, ptr, probability, grad_x, grad_bias):
    """A probability of length 1 applies to all segments."""
    each = min(probability.size - 1, 1)
    for s in range(ptr.size - 1):
        scale = 1 / (1 - grad.dtype.type(probability[s * each]))
        total = grad_bias[s]
        total[:] = 0
        for i in range(ptr[s], ptr[s + 1]):
            row, to, active = grad[i], grad_x[i], out[i]
            for c in range(row.size):
                value = row[c] * scale if active[c] > 0 else 0.0
                to[c] = value
                total[c] += value


@fast
def segment_norm(x, weight, bias, ptr, out, mean, variance, eps, relu):
    least = -np.inf
    if relu:
        least = 0.0
    for s in range(ptr.size - 1):
        num_rows = max(ptr[s + 1] - ptr[s], 1)
        centre, var, w, b = mean[s], variance[s], weight[s], bias[s]
        centre[:] = 0
        var[:] = 0
        for i in range(ptr[s], ptr[s + 1]):
            row = x[i]
            for c in range(row.size):
                centre[c] += row[c]
        for c in range(centre.size):
            centre[c] /= num_rows
        for i in range(ptr[s], ptr[s + 1]):
            row = x[i]
            for c in range(row.size):
                var[c] += (row[c] - centre[c]) ** 2
        scale = np.empty_like(centre)
        for c in range(centre.size):
            var[c] /= num_rows
            scale[c] = w[c] / np.sqrt(var[c] + eps)
        for i in range(ptr[s], ptr[s + 1]):
            row, to = x[i], out[i]
            for c in range(row.size):
                to[c] = max((row[c] - centre[c]) * scale[c] + b[c], least)


@fast
def segment_norm_backward(grad, x, out, weight, mean, variance, ptr, grad_x, grad_weight, grad_bias, eps, relu):
    least = -np.inf
    if relu:
        least = 0.0
    for s in range(ptr.size - 1):
        num_rows = max(ptr[s + 1] - ptr[s], 1)
        centre, total, product, w = mean[s], grad_bias[s], grad_weight[s], weight[s]
        scale = np.empty_like(centre)
        for c in range(centre.size):
            scale[c] = 1 / np.sqrt(variance[s, c] + eps)
        total[:] = 0
        product[:] = 0
        for i in range(ptr[s], ptr[s + 1]):
            row, g, active = x[i], grad[i], out[i]
            for c in range(row.size):
                active_grad = g[c] if active[c] > least else 0.0
                total[c] += active_grad
                product[c] += active_grad * (row[c] - centre[c]) * scale[c]
        for i in range(ptr[s], ptr[s + 1]):
            row, g, active, to = x[i], grad[i], out[i], grad_x[i]
            for c in range(row.size):
                active_grad = g[c] if active[c] > least else 0.0
                normal = (row[c] - centre[c]) * scale[c]
                to[c] = (active_grad - total[c] / num_rows - normal * product[c] / num_rows) * w[c] * scale[c]


@exact
def softmax_ends(ends, source, target, row_ptr, largest, total, share):
    """`share` is initially zero; `largest` and `total` are taken over the edges into each node."""
    for i in range(largest.size):
        high = ends.dtype.type(-np.inf)
        for e in range(row_ptr[i], row_ptr[i + 1]):
            high = max(high, ends[0, target[e]] + ends[1, i])
        sum_ = ends.dtype.type(1e-16)  # as in PyG
        for e in range(row_ptr[i], row_ptr[i + 1]):
            sum_ += np.exp(ends[0, target[e]] + ends[1, i] - high)
        largest[i], total[i] = high, sum_
    for e in range(row_ptr[largest.size]):
        u, v = source[e], target[e]
        share[e] = np.exp(ends[0, u] + ends[1, v] - largest[v]) / total[v]


@fast
def softmax_ends_backward(grad, share, source, target, row_ptr, into, out):
    """`into` and `out` are initially zero."""
    for e in range(row_ptr[out.size]):
        into[target[e]] += grad[e] * share[e]
    for e in range(row_ptr[out.size]):
        out[source[e]] += share[e] * (grad[e] - into[target[e]])

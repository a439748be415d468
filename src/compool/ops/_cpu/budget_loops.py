"""The loops of budgets: see `loops`. The first node of a graph stands for the graph."""

from compool.ops._cpu.loops import exact, fast, find


@fast
def graphs(batch, graph, size):
    """The graph of each node, and at each graph how many nodes it has; without a batch, there is one graph.

    `size` comes in as zeros.
    """
    for u in range(graph.size):
        starts = u == 0 or (batch.size > 0 and batch[u] != batch[u - 1])
        graph[u] = u if starts else graph[u - 1]
        size[graph[u]] += 1


@fast
def keep_highest(edges, source, score, graph, allowed, kept, last):
    """Keep as many of a forest's edges, highest first, as each graph is `allowed` to, which counts down; `last` is the
    score of the last of them.
    """
    for e in edges:
        home = graph[source[e]]
        if allowed[home] > 0:
            allowed[home] -= 1
            last[home] = score[e]
            kept[e] = True


@exact
def merge_inside(source, target, score, counted, cluster, graph, last, merged):
    """Which edges that count are inside a cluster, and score as much as the last of their graph."""
    for e in range(source.size):
        u, v = source[e], target[e]
        merged[e] = counted[e] & (cluster[u] == cluster[v]) & (score[e] >= last[graph[u]])


@fast
def count_edges(source, candidate, graph, size):
    """How many candidates each graph has; `size` comes in as zeros."""
    for e in range(source.size):
        size[graph[source[e]]] += candidate[e]


@exact
def lowest(order, source, score, candidate, graph, num_lowest, limit):
    """The highest of the `num_lowest` lowest scores of each graph, which counts down, from the order of scores."""
    for i in range(order.size - 1, -1, -1):
        e = order[i]
        if candidate[e]:
            home = graph[source[e]]
            num_lowest[home] -= 1
            if num_lowest[home] == 0:
                limit[home] = score[e]


@exact
def merge_above(source, score, candidate, graph, num_lowest, limit, merged):
    """Which candidates score above the limit of their graph; there is none where `num_lowest` was 0."""
    for e in range(source.size):
        home = graph[source[e]]
        merged[e] = candidate[e] & ((num_lowest[home] == 0) | (score[e] > limit[home]))


@fast
def kruskal(order, source, target, candidate, max_size, parent, size, accepted):
    """`size` holds at roots."""
    for e in order:
        if not candidate[e]:
            continue
        u, v = find(parent, source[e]), find(parent, target[e])
        if u != v and size[u] + size[v] <= max_size:
            u, v = min(u, v), max(u, v)
            parent[v] = u
            size[u] += size[v]
            accepted[e] = True

"""The loops for budgets: see `loops`. The first node of a graph represents the graph."""

from compool.ops._cpu.loops import exact, fast, find


@fast
def graphs(batch, graph, size):
    """The graph of each node, and the number of nodes of each graph; with an empty batch, there is one graph.

    `size` is initially zero.
    """
    for u in range(graph.size):
        starts = u == 0 or (batch.size > 0 and batch[u] != batch[u - 1])
        graph[u] = u if starts else graph[u - 1]
        size[graph[u]] += 1


@fast
def keep_highest(edges, source, score, graph, allowed, kept, last):
    """Keep the highest edges of a forest, as many as are `allowed` per graph, which counts down. `last` is set to the
    score of the last edge kept in each graph.
    """
    for e in edges:
        edge_graph = graph[source[e]]
        if allowed[edge_graph] > 0:
            allowed[edge_graph] -= 1
            last[edge_graph] = score[e]
            kept[e] = True


@exact
def merge_inside(source, target, score, counted, cluster, graph, last, merged):
    """The counted edges that lie inside a cluster and score at least as much as the last kept edge of their graph."""
    for e in range(source.size):
        u, v = source[e], target[e]
        merged[e] = counted[e] & (cluster[u] == cluster[v]) & (score[e] >= last[graph[u]])


@fast
def count_edges(source, candidate, graph, size):
    """The number of candidates in each graph; `size` is initially zero."""
    for e in range(source.size):
        size[graph[source[e]]] += candidate[e]


@exact
def lowest(order, source, score, candidate, graph, num_lowest, limit):
    """The highest of the `num_lowest` lowest scores of each graph. `order` sorts scores, highest first; `num_lowest`
    counts down.
    """
    for i in range(order.size - 1, -1, -1):
        e = order[i]
        if candidate[e]:
            edge_graph = graph[source[e]]
            num_lowest[edge_graph] -= 1
            if num_lowest[edge_graph] == 0:
                limit[edge_graph] = score[e]


@exact
def merge_above(source, score, candidate, graph, num_lowest, limit, merged):
    """The candidates that score above the limit of their graph; a graph whose `num_lowest` is 0 has no limit."""
    for e in range(source.size):
        edge_graph = graph[source[e]]
        merged[e] = candidate[e] & ((num_lowest[edge_graph] == 0) | (score[e] > limit[edge_graph]))


@fast
def kruskal(order, source, target, candidate, max_size, parent, size, accepted):
    """Accept edges in order unless a component would exceed `max_size` nodes; `size` is valid at roots only."""
    for e in order:
        if not candidate[e]:
            continue
        u, v = find(parent, source[e]), find(parent, target[e])
        if u != v and size[u] + size[v] <= max_size:
            u, v = min(u, v), max(u, v)
            parent[v] = u
            size[u] += size[v]
            accepted[e] = True

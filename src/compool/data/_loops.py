"""Compiled loops over data. Importing numba takes 0.2 s, and the first call 0.2 s more."""

import numpy as np

from compool._jit import jit

RANGE, LOOP, ORDER, REVERSE = range(1, 5)  # what is wrong with an edge


@jit()
def first_wrong(node_ptr, edge_ptr, source, target, cursor):
    """The problem of the first invalid edge (0 if there is none), its graph and its index; O(N + E)."""
    for graph in range(node_ptr.size - 1):
        size = node_ptr[graph + 1] - node_ptr[graph]
        begin, end = edge_ptr[graph], edge_ptr[graph + 1]
        if begin == end:
            continue
        for node in range(size):
            cursor[node] = end
        for edge in range(begin, end):
            i, j = source[edge], target[edge]
            if i < 0 or i >= size or j < 0 or j >= size:
                return RANGE, graph, edge
            if i == j:
                return LOOP, graph, edge
            if edge > begin and (i < source[edge - 1] or (i == source[edge - 1] and j <= target[edge - 1])):
                return ORDER, graph, edge
            if edge == begin or i != source[edge - 1]:
                cursor[i] = edge
        # Edges (i, j) are visited by ascending i, and so are the entries of row j: the next entry must be i.
        for edge in range(begin, end):
            i, j = source[edge], target[edge]
            reverse = cursor[j]
            if reverse >= end or source[reverse] != j or target[reverse] > i:
                return REVERSE, graph, edge
            if target[reverse] < i:
                return REVERSE, graph, reverse
            cursor[j] += 1
    return 0, 0, 0


@jit()
def parse_integers(text, out, last):
    """Parse text into `out` [rows, columns]. Returns the number of rows, or −1 − the index of the first wrong line."""
    position = row = line = 0
    size = text.size
    while position < size:
        column = 0
        while position < size and text[position] != 10:  # a line
            byte = text[position]
            if byte == 32 or byte == 9 or byte == 13:  # space, tab, carriage return
                position += 1
                continue
            if column > 0:
                if column == out.shape[1] or (byte != 44 and text[position - 1] != 32 and text[position - 1] != 9):
                    return -1 - line
                if byte == 44:  # the comma between two numbers
                    position += 1
                    while position < size and (text[position] == 32 or text[position] == 9):
                        position += 1
            sign = 1
            if position < size and text[position] == 45:
                sign = -1
                position += 1
            if position == size or text[position] < 48 or text[position] > 57:
                return -1 - line
            value = 0
            while position < size and 48 <= text[position] <= 57:
                value = 10 * value + text[position] - 48
                if value > 2147483647:
                    return -1 - line
                position += 1
            out[row, column] = sign * value
            column += 1
        position += 1
        if column == out.shape[1]:
            row += 1
        elif column > 0 or position < size or not last:  # an empty line is allowed only at the end of the file
            return -1 - line
        line += 1
    return row


@jit()
def _random(state):
    """The next state of a stream of random numbers, and a number below 2⁶³ (splitmix64)."""
    state += np.uint64(0x9E3779B97F4A7C15)
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.int64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1))


@jit()
def walk(row_ptr, neighbour, seed, first_try, nearest, farthest, red, islands):
    """Colour one graph per row of `red` [tries, N], and count the red islands: 1 or 2; 0 if the try is dropped."""
    num_nodes = row_ptr.size - 1
    most_steps = int(np.sqrt(num_nodes) * num_nodes)
    stack = np.empty(num_nodes, np.int64)
    seen = np.empty(num_nodes, np.int64)
    seen[:] = -1
    for row in range(red.shape[0]):
        state, _ = _random(np.uint64(seed) ^ (np.uint64(first_try + row) * np.uint64(0xD6E8FEB86659FD93)))
        state, draw = _random(state)
        walker = draw % num_nodes
        state, draw = _random(state)
        other = (walker + nearest + draw % (farthest - nearest + 1)) % num_nodes
        first = walker
        red[row, walker] = red[row, other] = 1
        visited = 1 if walker == other else 2
        steps = 0
        while visited < num_nodes // 2 and steps < most_steps:
            degree = row_ptr[walker + 1] - row_ptr[walker]
            if degree > 0:  # a node without neighbours stays where it is
                state, draw = _random(state)
                walker = np.int64(neighbour[row_ptr[walker] + draw % degree])
                if red[row, walker] == 0:
                    red[row, walker] = 1
                    visited += 1
            walker, other = other, walker
            steps += 1
        if visited != num_nodes // 2:
            continue
        # The island of the first walker: if it holds all red nodes, it is the only one
        stack[0] = first
        seen[first] = row
        size, depth = 1, 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            for edge in range(row_ptr[node], row_ptr[node + 1]):
                end = neighbour[edge]
                if red[row, end] == 1 and seen[end] != row:
                    seen[end] = row
                    stack[depth] = end
                    depth += 1
                    size += 1
        islands[row] = 1 if size == visited else 2

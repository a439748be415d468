"""Draw a graph, level by level."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compool._words import counted
from compool.report.levels import InspectedGraph, Level, centres
from compool.report.plotting import STYLE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORE_COLOURS = "coolwarm"


def draw(graph: InspectedGraph) -> "Figure":
    """Draw each level before and after pooling: nodes are coloured by supernode, edges by score.

    Example:
        >>> from compool import data, nn
        >>> from compool.report.levels import inspect_graph
        >>> graph = inspect_graph(nn.Network("PCL", 4, hidden=8, num_classes=3), data.communities(9), 0)
        >>> len(draw(graph).axes)  # before, after, and the colour scale
        3
    """
    import matplotlib

    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure, panels = canvas(11, 0.6 + 4.8 * len(graph.levels), 2, len(graph.levels))
        for depth, (level, (before, after)) in enumerate(
            zip(graph.levels, np.reshape(panels, (-1, 2)), strict=True), 1
        ):
            lines = _level(before, after, level)
            nodes, edges = counted(len(level.cluster), "node"), counted(level.edge_index.size(1) // 2, "edge")
            before.set_title(f"level {depth}: {nodes}, {edges}")
            threshold = f", threshold {level.threshold:g}" if level.has_threshold else ""
            after.set_title(f"{counted(level.num_supernodes, 'supernode')} (area: members){threshold}")
            figure.colorbar(lines, ax=[before, after], shrink=0.5, pad=0.01, label="score")
        title = f"{graph.dataset}, graph {graph.index}: {graph.verdict}"
        figure.suptitle("\n".join([title, *textwrap.wrap(graph.about, 100)]).replace("$", r"\$"))
    return figure


def _level(before: Any, after: Any, level: Level) -> Any:
    """Draw a level into two panels. Returns the coloured lines."""
    from matplotlib.collections import LineCollection

    cluster = level.cluster.numpy()
    first = np.unique(cluster, return_index=True)[1]
    size = np.bincount(cluster, minlength=len(first))
    colour = _colours(first, size)
    edges, score = level.edge_index.numpy(), level.edge_score.numpy()
    order = np.argsort(score)  # the highest on top
    lines = LineCollection(
        list(level.position[edges.T[order]]), array=score[order], cmap=SCORE_COLOURS, linewidths=1.2, zorder=1
    )
    lines.set_clim(-1, 1)
    before.add_collection(lines)
    area = float(np.clip(9000 / max(len(cluster), 1), 6, 70))
    common = {"edgecolors": "black", "linewidths": 0.5, "zorder": 2}
    before.scatter(*level.position.T, s=area, c=colour[cluster], **common)

    middle = centres(level.position, level.cluster)
    coarse = np.unique(np.sort(cluster[edges], 0), axis=1)
    coarse = coarse[:, coarse[0] != coarse[1]]
    after.add_collection(LineCollection(list(middle[coarse.T]), colors="silver", linewidths=1, zorder=1))
    after.scatter(*middle.T, s=area * size, c=colour, alpha=0.9, **common)
    for axes in (before, after):
        axes.set(
            xlim=(-0.05, 1.05), ylim=(level.position[:, 1].max() + 0.05, -0.05), xticks=[], yticks=[], aspect="equal"
        )
        axes.spines[:].set_visible(False)
    return lines


def _colours(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.float64]:
    """A colour for each supernode, by its first member; grey for those with a single member."""
    from matplotlib.colors import hsv_to_rgb

    hue = first * 0.381966 % 1
    colours = hsv_to_rgb(np.stack([hue, np.full(len(hue), 0.6), np.full(len(hue), 0.85)], 1))
    colours[size == 1] = 0.85
    return np.asarray(colours)

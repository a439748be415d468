"""Average ranks of methods over data sets, and the diagram of them."""

from typing import TYPE_CHECKING

from compool.report.plotting import canvas, colour_of, shown_as
from compool.report.results import OURS, Study
from compool.report.statistics import Ranking, ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENOUGH = 5  # data sets for a diagram


def ranked(study: Study, recipe: str = "fast") -> tuple[list[str], Ranking, int] | None:
    """The methods that every one of enough data sets has, their ranking, and the number of data sets; or None."""
    rows = [row for row in study.rows if row.recipe == recipe and OURS in row.results]
    methods = [
        m for m in study.methods if sum(m in row.results and bool(row.results[m].tests) for row in rows) >= ENOUGH
    ]
    table = [
        [row.results[method].accuracy for method in methods] for row in rows if all(m in row.results for m in methods)
    ]
    means = [[found.mean for found in row if found is not None] for row in table]
    means = [row for row in means if len(row) == len(methods)]
    if len(methods) < 3 or len(means) < ENOUGH:
        return None
    return methods, ranking(means), len(means)


def critical_difference(methods: list[str], found: Ranking, number: int) -> "Figure":
    """Average ranks of the methods over data sets; a bar joins those that Nemenyi's test does not tell apart."""
    figure, axes = canvas(6.5, 1.5 + 0.3 * len(methods))
    order = sorted(range(len(methods)), key=lambda at: found.ranks[at])
    depth = len(methods) + 1
    axes.set(xlim=(0.8, len(methods) + 0.2), ylim=(-depth - 0.5, 0.6))
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, len(methods) + 1))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.set_yticks([])
    axes.grid(False)
    axes.plot([1, 1 + found.critical_difference], [-depth, -depth], "k|-")
    axes.text(
        1 + found.critical_difference, -depth, f"  critical difference {found.critical_difference:.2f}", va="center"
    )
    for line, at in enumerate(order):
        y = -line - 1
        axes.plot([found.ranks[at]] * 2, [0.6, y], color=colour_of(methods[at]), linewidth=1.2, clip_on=False)
        axes.text(found.ranks[at] + 0.03, y, f"{shown_as(methods[at])} {found.ranks[at]:.2f}", va="center")
    for line, (first, last) in enumerate(cliques(sorted(found.ranks), found.critical_difference)):
        axes.plot([first - 0.02, last + 0.02], [0.1 - 0.3 * line] * 2, color="black", linewidth=3)
    axes.set_xlabel(f"average rank over {number} data sets; Friedman p = {found.p_value:.2g}")
    return figure


def cliques(ranks: list[float], difference: float) -> list[tuple[float, float]]:
    """From sorted ranks, the longest stretches no wider than a difference.

    Example:
        >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
        [(1.0, 1.5), (1.5, 2.2)]
    """
    reach = [max(other for other in ranks if other <= rank + difference) for rank in ranks]
    return [(a, b) for at, (a, b) in enumerate(zip(ranks, reach, strict=True)) if b > a and b not in reach[:at]]

"""Average ranks of methods over data sets, and their diagram."""

from typing import TYPE_CHECKING

from compool.report.plotting import canvas, colour_of, label
from compool.report.results import OURS, Study
from compool.report.statistics import Ranking, rank_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_DATASETS = 5  # for a diagram


def rank_study(study: Study, recipe: str = "fast") -> tuple[list[str], Ranking, int] | None:
    """The methods on at least MIN_DATASETS data sets, their ranking, and the number of data sets; None if too few."""
    rows = [row for row in study.rows if row.recipe == recipe and OURS in row.results]
    methods = [
        m for m in study.methods if sum(m in row.results and bool(row.results[m].tests) for row in rows) >= MIN_DATASETS
    ]
    table = [
        (1 if row.metric.higher else -1, [row.results[method].accuracy for method in methods])
        for row in rows
        if all(m in row.results for m in methods)
    ]
    means = [[sign * accuracy.mean for accuracy in row if accuracy is not None] for sign, row in table]
    means = [row for row in means if len(row) == len(methods)]
    if len(methods) < 3 or len(means) < MIN_DATASETS:
        return None
    return methods, rank_methods(means), len(means)


def critical_difference(methods: list[str], ranking: Ranking, num_datasets: int) -> "Figure":
    """Average ranks of the methods over data sets; a bar joins those that do not differ by Nemenyi's test."""
    figure, axes = canvas(6.5, 1.5 + 0.3 * len(methods))
    order = sorted(range(len(methods)), key=lambda index: ranking.ranks[index])
    depth = len(methods) + 1
    axes.set(xlim=(0.8, len(methods) + 0.2), ylim=(-depth - 0.5, 0.6))
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, len(methods) + 1))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.set_yticks([])
    axes.grid(False)
    axes.plot([1, 1 + ranking.critical_difference], [-depth, -depth], "k|-")
    axes.text(
        1 + ranking.critical_difference, -depth, f"  critical difference {ranking.critical_difference:.2f}", va="center"
    )
    for line, index in enumerate(order):
        y = -line - 1
        axes.plot([ranking.ranks[index]] * 2, [0.6, y], color=colour_of(methods[index]), linewidth=1.2, clip_on=False)
        axes.text(ranking.ranks[index] + 0.03, y, f"{label(methods[index])} {ranking.ranks[index]:.2f}", va="center")
    for line, (first, last) in enumerate(cliques(sorted(ranking.ranks), ranking.critical_difference)):
        axes.plot([first - 0.02, last + 0.02], [0.1 - 0.3 * line] * 2, color="black", linewidth=3)
    axes.set_xlabel(f"average rank over {num_datasets} data sets; Friedman p = {ranking.p_value:.2g}")
    return figure


def cliques(ranks: list[float], difference: float) -> list[tuple[float, float]]:
    """The longest intervals of sorted ranks that are not wider than `difference`.

    Example:
        >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
        [(1.0, 1.5), (1.5, 2.2)]
    """
    reach = [max(other for other in ranks if other <= rank + difference) for rank in ranks]
    return [(a, b) for index, (a, b) in enumerate(zip(ranks, reach, strict=True)) if b > a and b not in reach[:index]]

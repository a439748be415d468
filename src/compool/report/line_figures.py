"""Figures of named lines in groups, at the width of a column. Lines are named, so colour is not needed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from compool.report.plotting import COLUMN, canvas, colour_of, label
from compool.report.results import OURS, Result, Row, Study
from compool.report.statistics import Corrected

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_HEIGHT = 0.135  # inches
_PUBLISHED: dict[str, Any] = {
    "marker": "D", "color": "white", "markeredgecolor": "black", "markeredgewidth": 0.7, "markersize": 3, "zorder": 5,
    "linestyle": "",
}  # fmt: skip


class Group(NamedTuple):
    """A heading, and the lines below it: the name of each, and what it shows."""

    title: str
    lines: list[tuple[str, Any]]


def box_plot(study: Study) -> "Figure":
    """Test accuracies of all runs, grouped by data set; a diamond is the published mean."""
    metric = study.rows[0].metric
    figure, axes, entries = _lines(_by_dataset(study))
    style: dict[str, Any] = {"patch_artist": True, "manage_ticks": False, "orientation": "horizontal", "widths": 0.62}
    style |= {"medianprops": {"color": "black"}, "flierprops": {"marker": ".", "markersize": 2, "alpha": 0.6}}
    style |= {key: {"linewidth": 0.7} for key in ("boxprops", "whiskerprops", "capprops")}
    for y, (row, result) in entries:
        if result.tests:
            drawn = axes.boxplot([result.tests], positions=[y], **style)
            drawn["boxes"][0].set(facecolor=colour_of(result.method), alpha=0.75)
        if (reported := row.reported(result.method)) is not None:
            axes.plot(reported.mean, y, **_PUBLISHED)
    axes.set_xlabel(f"test {metric.title}{metric.unit}{_diamonds(study, 'mean')}", loc="right")
    return figure


def parameter_bars(study: Study) -> "Figure":
    """Parameters of each network, on a logarithmic axis; a diamond is the published count."""
    figure, axes, entries = _lines(_by_dataset(study))
    for y, (row, result) in entries:
        axes.barh(y, result.parameters, 0.62, color=colour_of(result.method), alpha=0.85)
        if (reported := row.reported(result.method)) is not None:
            axes.plot(reported.parameters, y, **_PUBLISHED)
    axes.set_xscale("log")
    fewest = min(result.parameters for _, (_, result) in entries)
    axes.set_xlim(left=10 ** np.floor(np.log10(max(fewest, 1)) - 0.2))  # so that every bar is visible
    axes.set_xlabel(f"parameters, logarithmic{_diamonds(study, 'count')}", loc="right")
    return figure


def difference_plot(study: Study) -> "Figure":
    """Component pooling minus each other method on the same splits, with the corrected 95 % interval.

    A filled square: the interval excludes 0. An arrow: the interval reaches beyond the axis.
    """
    groups = []
    for method in study.methods:
        found = [(row, row.comparisons[method].corrected) for row in study.rows if method in row.comparisons]
        lines = [(_line_name(row, row.dataset), (test, method)) for row, test in found if test is not None]
        if lines:
            groups.append(Group(f"{OURS} minus {method}", lines))
    figure, axes, entries = _lines(groups)
    limit = _limit([test for _, (test, _) in entries])
    for y, (test, method) in entries:
        _draw_difference(axes, y, test, colour_of(method), limit)
    axes.axvline(0, color="black", linewidth=0.8)
    metrics = {row.metric for row in study.rows if row.comparisons}
    unit = "points" if all(metric.unit for metric in metrics) else "units of the metric"
    sides = "right" if all(metric.higher for metric in metrics) else "higher-is-better metrics: right"
    axes.set_xlabel(f"difference in {unit}; {sides} of 0: {OURS} is better", loc="right")
    return figure


def _limit(tests: Sequence[Corrected]) -> float:
    """The limit of the axis: a few large differences must not compress the others."""
    ends = [abs(end) for test in tests for end in (test.low, test.high)]
    return max(2.5 * float(np.quantile(ends, 0.9)), 1e-9)


def _draw_difference(axes: Any, y: float, test: Corrected, colour: str, limit: float) -> None:
    low, high = max(test.low, -limit), min(test.high, limit)
    axes.plot([low, high], [y, y], color=colour, linewidth=1.2)
    is_apart = test.low > 0 or test.high < 0
    if abs(test.difference) <= limit:
        axes.plot(
            test.difference, y, "s", color=colour if is_apart else "white", markeredgecolor=colour, markersize=3.5
        )
    for end, marker in ((test.low, "<"), (test.high, ">")):
        if abs(end) > limit:
            axes.plot(np.sign(end) * limit, y, marker, color=colour, markersize=3.5)


def kept_strips(study: Study) -> "Figure":
    """The share of nodes that each run keeps, one dot per run: a mean would hide that runs fall into two groups.

    If a network pools more than once, deeper layers are drawn lower, as open dots.
    """
    groups = [
        Group(group.title, [(name, (row, result)) for name, (row, result) in group.lines if result.kept])
        for group in _by_dataset(study)
    ]
    figure, axes, entries = _lines([group for group in groups if group.lines])
    for y, (_, result) in entries:
        _draw_strip(axes, y, result)
    is_deep = any(len(result.kept) > 1 for _, (_, result) in entries)
    axes.set_xlabel(f"nodes kept, %; one dot per run{'; open: deeper layers' if is_deep else ''}", loc="right")
    axes.set_xlim(-2, 102)
    return figure


def _draw_strip(axes: Any, y: float, result: Result) -> None:
    levels = max(len(run.kept) for run in result.done)
    height = 0.76 / levels
    for level in range(levels):
        runs = [run for run in result.done if level < len(run.kept)]
        spread = np.array([run.replica * 0.618034 % 1 for run in runs])  # so that dots do not hide each other
        colour = colour_of(result.method)
        axes.scatter(
            [100 * run.kept[level] for run in runs], y + 0.38 - height * (level + 0.1 + 0.8 * spread), s=3, alpha=0.6,
            facecolors="none" if level else colour, edgecolors=colour, linewidths=0.5 if level else 0, clip_on=False,
        )  # fmt: skip


def _by_dataset(study: Study) -> list[Group]:
    """The results of each data set, as lines that name the method and its recipe."""
    groups = []
    for dataset in study.datasets:
        rows = [row for row in study.rows if row.dataset == dataset]
        pairs = [(row, row.results[method]) for row in rows for method in study.methods if method in row.results]
        groups.append(Group(dataset, [(_line_name(row, result.method), (row, result)) for row, result in pairs]))
    return groups


def _line_name(row: Row, name: str) -> str:
    return name if row.label == "fast" else f"{name}, {row.label}"


def _diamonds(study: Study, quantity: str) -> str:
    published = any(row.reported(method) for row in study.rows for method in row.results)
    return f"; diamond: published {quantity}" if published else ""


def _lines(groups: Sequence[Group]) -> tuple["Figure", Any, list[tuple[float, Any]]]:
    """A figure with a named line for each entry, from top to bottom, and the height of each line."""
    names: list[str] = []
    headings: list[int] = []
    entries: list[tuple[float, Any]] = []
    for group in groups:
        headings.append(len(names))
        names.append(label(group.title))
        for name, shown in group.lines:
            entries.append((-len(names), shown))
            names.append(label(name))
    figure, axes = canvas(COLUMN, 0.45 + LINE_HEIGHT * len(names))
    axes.set_yticks([-index for index in range(len(names))], names)
    for index in headings:
        axes.get_yticklabels()[index].set_fontweight("bold")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0.6 - len(names), 0.6)
    axes.grid(False, axis="y")
    return figure, axes, entries

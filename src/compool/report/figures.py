"""The figures of a study: those of the paper, and more."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compool.report.line_figures import box_plot, difference_plot, kept_strips, parameter_bars
from compool.report.plotting import COLUMN, STYLE, canvas, colour_of, file_name, file_names, label, line_style
from compool.report.ranks import critical_difference, rank_study
from compool.report.results import OURS, Row, Study
from compool.report.sweeps import Sweep, responses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = ("validation", "test", "loss")  # of training curves


def figures(study: Study, sweeps: Sequence[Sweep] = ()) -> "Iterator[tuple[str, Figure]]":
    """Every figure of a study and its sweeps, with its name; those without data are left out.

    Example:
        >>> from compool.report.collection import collect
        >>> list(figures(collect([])))
        []
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        for kind, shown in (("accuracy", study.compared), ("accuracy-instead", study.replacements)):
            for metric in dict.fromkeys(row.metric for row in shown.rows):  # one figure per metric
                part = replace(shown, rows=tuple(row for row in shown.rows if row.metric == metric))
                if any(result.tests for row in part.rows for result in row.results.values()):
                    yield kind.replace("accuracy", file_name(metric.title)), box_plot(part)
        if any(comparison.corrected for row in study.rows for comparison in row.comparisons.values()):
            yield "differences", difference_plot(study)
        if any(result.kept for row in study.rows for result in row.results.values()):
            yield "kept", kept_strips(study)
        study = study.compared
        if study.rows:
            yield "parameters", parameter_bars(study)
        drawn = [row for row in study.rows if any(result.curves for result in row.results.values())]
        for name, row in zip(file_names(row.title for row in drawn), drawn, strict=True):
            yield f"curves-{name}", training_curves(study, row)
        if any("kept" in name for row in study.rows for result in row.results.values() for name in result.curves):
            yield "kept-nodes", kept_nodes(study)
        for name, sweep in zip(file_names(f"sweep-{sweep.title}" for sweep in sweeps), sweeps, strict=True):
            yield name, response_plot(sweep)
        for recipe in study.recipes:
            ranked_methods = rank_study(study, recipe)
            if ranked_methods is not None:
                name = "critical-difference" + ("" if recipe == "fast" else f"-{file_name(recipe)}")
                yield name, critical_difference(*ranked_methods)


def response_plot(sweep: Sweep) -> "Figure":
    """The mean validation metric at each value of each setting; a dot is a combination of settings, a star the best."""
    columns = len(sweep.keys)
    figure, panels = canvas(max(COLUMN, 2.2 * columns), 2.4, columns)
    colour = colour_of(sweep.method)
    for axes, (key, means) in zip(np.ravel(panels), responses(sweep).items(), strict=True):
        values = [value for value, _ in means]
        numbers = [value for value in values if not isinstance(value, str)]
        is_number = len(numbers) == len(values)
        position = {value: value if is_number else index for index, value in enumerate(values)}
        x = [position[point["settings"][key]] for point in sweep.points]
        y = [point["validation"] for point in sweep.points]
        axes.plot(x, y, ".", color=colour, alpha=0.5)
        if len(values) < len(sweep.points):  # a grid: the mean over the other settings
            axes.plot([position[value] for value in values], [mean for _, mean in means], "-", color=colour)
        axes.plot(x[:1], y[:1], "*", color="black", markersize=8)
        if is_number and min(numbers) > 0 and max(numbers) >= 20 * min(numbers):
            axes.set_xscale("log")
        elif not is_number:
            axes.set_xticks(range(len(values)), [label(str(value)) for value in values])
        axes.set_xlabel(label(key))
    np.ravel(panels)[0].set_ylabel(f"validation {sweep.metric.title}{sweep.metric.unit}")
    figure.suptitle(label(sweep.title))
    return figure


def training_curves(study: Study, row: Row) -> "Figure":
    """Median over runs, epoch by epoch; for component pooling also the band from the 10th to the 90th percentile."""
    figure, panels = canvas(COLUMN, 5.2, lines=3)
    for axes, name in zip(panels, PANELS, strict=True):
        title = "training loss" if name == "loss" else f"{name} {row.metric.title}{row.metric.unit}"
        for method in study.methods:
            if method in row.results and name in row.results[method].curves:
                curves = row.results[method].curves
                _draw_band(axes, curves[name], method)
                if name == "loss" and "validation_loss" in curves:
                    _draw_band(axes, curves["validation_loss"], method, ":")
                    title = "training loss; dotted: validation loss"
        low, high = axes.dataLim.intervaly
        if name == "loss" and 0 < 20 * low < high:
            axes.set_yscale("log")
        axes.set_title(title)
    panels[-1].set_xlabel("epoch")
    figure.suptitle(label(row.title))
    _legend(figure, replace(study, rows=(row,)))
    return figure


def kept_nodes(study: Study) -> "Figure":
    """Nodes kept after each pooling layer, epoch by epoch, one panel per data set; deeper layers are dotted."""
    rows = [row for row in study.rows if any("kept" in name for r in row.results.values() for name in r.curves)]
    columns = min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure, panels = canvas(COLUMN, 0.7 + 1.2 * lines, columns, lines)
    for axes, row in zip(np.ravel(panels), rows, strict=False):
        for method in study.methods:
            curves = row.results[method].curves if method in row.results else {}
            for level, name in enumerate(name for name in curves if "kept" in name):
                _draw_band(axes, curves[name], method, "" if level == 0 else ":")
        axes.set(title=label(row.title).replace(" (", "\n("), ylim=(-2, 102))
    for axes in np.ravel(panels)[len(rows) :]:
        axes.set_visible(False)
    for axes in np.ravel(panels)[max(0, len(rows) - columns) : len(rows)]:
        axes.set_xlabel("epoch")
    figure.supylabel("nodes kept, %", fontsize="medium")
    _legend(figure, study, curve="kept")
    return figure


def _draw_band(axes: Any, band: Any, method: str, style: str = "") -> None:
    """Draw the median. Bands of several methods would hide each other, so only component pooling has one."""
    epochs, colour = np.arange(1, band.shape[1] + 1), colour_of(method)
    if method == OURS:
        axes.fill_between(epochs, band[0], band[2], color=colour, alpha=0.15, linewidth=0)
    marker = "." if len(epochs) == 1 else None
    axes.plot(epochs, band[1], linestyle=style or line_style(method), color=colour, linewidth=1.1, marker=marker)


def _legend(figure: "Figure", study: Study, curve: str = "") -> None:
    """Add a legend of all methods, or of those that have a curve of this name."""
    from matplotlib.lines import Line2D

    results = [result for row in study.rows for result in row.results.values()]
    methods = {result.method for result in results if not curve or any(curve in name for name in result.curves)}
    handles = [
        Line2D([], [], color=colour_of(method), linestyle=line_style(method), label=label(method))
        for method in study.methods
        if method in methods
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3), frameon=False)

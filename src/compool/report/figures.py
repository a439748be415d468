"""The paper's figures from the runs, and more."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compool.report.plotting import STYLE, canvas, colour_of, file_name, label
from compool.report.ranks import critical_difference, rank_study
from compool.report.results import Row, Study
from compool.report.sweeps import Sweep, responses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = ("validation", "test", "loss")  # of training curves
_PAPER: dict[str, Any] = {"marker": "D", "color": "white", "markeredgecolor": "black", "markersize": 4, "zorder": 5}


def figures(study: Study, sweeps: Sequence[Sweep] = ()) -> "Iterator[tuple[str, Figure]]":
    """Every figure of a study and its sweeps, with its name; those without data are left out.

    Example:
        >>> from compool.report.results import collect
        >>> list(figures(collect([])))
        []
    """
    import matplotlib

    with matplotlib.rc_context(STYLE):
        for kind, whole in (("accuracy", study.compared), ("accuracy-instead", study.replacements)):
            for metric in dict.fromkeys(row.metric for row in whole.rows):  # a figure of each
                part = replace(whole, rows=tuple(row for row in whole.rows if row.metric == metric))
                if any(result.tests for row in part.rows for result in row.results.values()):
                    yield kind.replace("accuracy", file_name(metric.title)), box_plot(part)
        study = study.compared
        if study.rows:
            yield "parameters", parameter_bars(study)
        names: set[str] = set()
        for position, row in enumerate(study.rows, 1):
            if any(result.curves for result in row.results.values()):
                name = (
                    file_name(row.title) if file_name(row.title) not in names else f"{file_name(row.title)}-{position}"
                )
                names.add(name)
                yield f"curves-{name}", training_curves(study, row)
        if any("kept" in name for row in study.rows for result in row.results.values() for name in result.curves):
            yield "kept-nodes", kept_nodes(study)
        for sweep in sweeps:
            yield file_name(f"sweep-{sweep.title}"), response_plot(sweep)
        for recipe in study.recipes:
            ranked_methods = rank_study(study, recipe)
            if ranked_methods is not None:
                name = "critical-difference" + ("" if recipe == "fast" else f"-{file_name(recipe)}")
                yield name, critical_difference(*ranked_methods)


def box_plot(study: Study) -> "Figure":
    """Test accuracies of all runs, grouped by data set; a diamond is the paper's mean."""
    figure, axes = canvas(max(4.5, 1.2 + 1.1 * len(study.rows)), 4.2)
    width = 0.68 / len(study.methods)
    style: dict[str, Any] = {"patch_artist": True, "manage_ticks": False, "medianprops": {"color": "black"}}
    points = {"marker": ".", "markersize": 4, "alpha": 0.6}
    for x, colour, row, method in _slots(study):
        if row.results[method].tests:
            drawn = axes.boxplot([row.results[method].tests], positions=[x], widths=width, flierprops=points, **style)
            drawn["boxes"][0].set(facecolor=colour, alpha=0.75)
        if (reported := row.reported(method)) is not None:
            axes.plot(x, reported.mean, **_PAPER)
    _name_rows(axes, study)
    axes.set_ylabel(f"test {study.rows[0].metric.title}{study.rows[0].metric.unit}")
    _legend(figure, study, "the paper's mean")
    return figure


def response_plot(sweep: Sweep) -> "Figure":
    """The mean validation metric at each value of each setting; a dot is a combination of settings, a star the best."""
    columns = len(sweep.keys)
    figure, panels = canvas(max(4.0, 0.8 + 3.0 * columns), 3.2, columns)
    colour = colour_of(sweep.method)
    for axes, (key, means) in zip(np.ravel(panels), responses(sweep).items(), strict=True):
        values = [value for value, _ in means]
        is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        position = {value: value if is_number else index for index, value in enumerate(values)}
        x = [position[point["settings"][key]] for point in sweep.points]
        y = [point["validation"] for point in sweep.points]
        axes.plot(x, y, ".", color=colour, alpha=0.5)
        if len(values) < len(sweep.points):  # a grid: the mean over the other settings
            axes.plot([position[value] for value in values], [mean for _, mean in means], "-", color=colour)
        axes.plot(x[:1], y[:1], "*", color="black", markersize=10)
        if is_number and min(values) > 0 and max(values) >= 20 * min(values):
            axes.set_xscale("log")
        elif not is_number:
            axes.set_xticks(range(len(values)), [label(str(value)) for value in values])
        axes.set_xlabel(label(key))
    np.ravel(panels)[0].set_ylabel(f"validation {sweep.metric.title}{sweep.metric.unit}")
    figure.suptitle(label(sweep.title))
    return figure


def parameter_bars(study: Study) -> "Figure":
    """Parameters of each network, on a logarithmic axis; a diamond is the paper's count."""
    figure, axes = canvas(max(4.5, 1.2 + 1.1 * len(study.rows)), 3.6)
    for x, colour, row, method in _slots(study):
        axes.bar(x, row.results[method].parameters, 0.72 / len(study.methods), color=colour, alpha=0.85)
        if (reported := row.reported(method)) is not None:
            axes.plot(x, reported.parameters, **_PAPER)
    axes.set_yscale("log")
    axes.set_ylabel("parameters")
    _name_rows(axes, study)
    _legend(figure, study, "the paper's count")
    return figure


def _slots(study: Study) -> Iterator[tuple[float, str, Row, str]]:
    """The position and colour of each method of a row, side by side around the row's position."""
    for position, row in enumerate(study.rows):
        methods = [method for method in study.methods if method in row.results]
        for index, method in enumerate(methods):
            yield position + (index - (len(methods) - 1) / 2) * 0.8 / len(study.methods), colour_of(method), row, method


def training_curves(study: Study, row: Row) -> "Figure":
    """Median over runs and the band from the 10th to the 90th percentile, epoch by epoch."""
    figure, panels = canvas(10.5, 3.2, columns=3)
    for axes, name in zip(panels, PANELS, strict=True):
        title = "training loss" if name == "loss" else f"{name} {row.metric.title}{row.metric.unit}"
        for method in study.methods:
            if method in row.results and name in row.results[method].curves:
                curves = row.results[method].curves
                _draw_band(axes, curves[name], colour_of(method))
                if name == "loss" and "validation_loss" in curves:
                    _draw_band(axes, curves["validation_loss"], colour_of(method), "--")
                    title = "training loss, and validation's, dashed"
        low, high = axes.dataLim.intervaly
        if name == "loss" and 0 < 20 * low < high:
            axes.set_yscale("log")
        axes.set(title=title, xlabel="epoch")
    figure.suptitle(label(row.title))
    _legend(figure, replace(study, rows=(row,)))
    return figure


def kept_nodes(study: Study) -> "Figure":
    """Nodes kept after each pooling layer, epoch by epoch, one panel per data set; deeper layers are dashed."""
    rows = [row for row in study.rows if any("kept" in name for r in row.results.values() for name in r.curves)]
    columns = min(4, len(rows))
    lines = -(-len(rows) // columns)
    figure, panels = canvas(0.6 + 2.8 * columns, 0.9 + 2.3 * lines, columns, lines)
    for axes, row in zip(np.ravel(panels), rows, strict=False):
        for method in study.methods:
            curves = row.results[method].curves if method in row.results else {}
            for level, name in enumerate(name for name in curves if "kept" in name):
                _draw_band(axes, curves[name], colour_of(method), ("-", "--", ":")[min(level, 2)])
        axes.set(title=label(row.title), xlabel="epoch", ylim=(-2, 102))
    for axes in np.ravel(panels)[len(rows) :]:
        axes.set_visible(False)
    np.ravel(panels)[0].set_ylabel("nodes kept, %")
    _legend(figure, study, curve="kept")
    return figure


def _draw_band(axes: Any, band: Any, colour: str, style: str = "-") -> None:
    epochs = np.arange(1, band.shape[1] + 1)
    axes.fill_between(epochs, band[0], band[2], color=colour, alpha=0.15, linewidth=0)
    axes.plot(epochs, band[1], style, color=colour, linewidth=1.4, marker="." if len(epochs) == 1 else None)


def _name_rows(axes: Any, study: Study) -> None:
    axes.set_xticks(range(len(study.rows)), [label(row.title) for row in study.rows], rotation=20, ha="right")
    axes.set_xlim(-0.6, len(study.rows) - 0.4)
    axes.grid(False, axis="x")


def _legend(figure: "Figure", study: Study, paper_mark: str = "", curve: str = "") -> None:
    """The methods, or those that have a curve of this name, and the paper's mark."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    results = [result for row in study.rows for result in row.results.values()]
    methods = {result.method for result in results if not curve or any(curve in name for name in result.curves)}
    handles: list[Any] = [Patch(color=colour_of(m), label=label(m)) for m in study.methods if m in methods]
    if paper_mark and any(row.reported(method) for row in study.rows for method in methods):
        handles.append(Line2D([], [], linestyle="", label=paper_mark, **_PAPER))
    columns = min(len(handles), int(figure.get_figwidth() / 1.25))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)

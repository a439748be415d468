from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compool.report import figures, line_figures, plotting, ranks
from compool.report.collection import collect
from compool.report.results import METHOD_ORDER
from tests.report.test_results import runs, three


def many(number: int) -> list:
    names = ["PROTEINS", "COLLAB", "NCI1", "own", "$x$ & <y>", "another"]
    return [run for name in names[:number] for run in three(dataset=name)]


def test_every_figure_is_written(tmp_path: Path) -> None:
    made = dict(figures.figures(collect(many(5))))
    assert list(made) == [
        "accuracy",
        "differences",
        "kept",
        "parameters",
        "curves-PROTEINS",
        "curves-COLLAB",
        "curves-NCI1",
        "curves-x-y",
        "curves-own",
        "kept-nodes",
        "critical-difference",
    ]
    for name in ("differences", "curves-x-y", "critical-difference"):  # the others differ in nothing that is saved
        png, pdf = plotting.save_figure(made[name], tmp_path, name)
        assert png.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")
    assert len(list(tmp_path.iterdir())) == 6  # nothing half-written is left


def test_bars_and_lines_show_the_numbers() -> None:
    study = collect([*runs("component", [0.7, 0.8], parameters=300), *runs("gin", [0.6, 0.5], parameters=200)])
    bars = line_figures.parameter_bars(study).axes[0]
    assert [bar.get_width() for bar in bars.patches] == [300, 200]
    assert bars.get_xlim()[0] == 100
    validation, test, loss = figures.training_curves(study, study.rows[0]).axes
    assert [line.get_ydata().tolist() for line in validation.lines] == [[50.0, 80.0]] * 2
    assert test.lines[0].get_ydata().tolist() == [50.0, 75.0]
    assert np.isnan(loss.lines[0].get_ydata()[1])
    (kept,) = figures.kept_nodes(study).axes
    assert kept.lines[0].get_ydata().tolist() == [100.0, 50.0]
    box = line_figures.box_plot(study).axes[0]
    boxes = [patch.get_path().vertices[:, 0] for patch in box.patches]
    assert [(xs.min(), xs.max()) for xs in boxes] == [pytest.approx((72.5, 77.5)), pytest.approx((52.5, 57.5))]
    assert names(box) == ["NCI1", "component", "gin"]


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def drawn_at(axes: Any, line: str) -> list[Any]:
    """What is plotted on a named line."""
    height = dict(zip(names(axes), axes.get_yticks(), strict=True))[line]
    return [drawn for drawn in axes.lines if list(drawn.get_ydata()) and set(drawn.get_ydata()) == {height}]


def test_differences_show_the_corrected_interval() -> None:
    """Those of three splits are worked out by hand in test_tables.py: 2 ± 2.913."""
    made = [*runs("component", [0.80, 0.82, 0.84]), *runs("gin", [0.79, 0.80, 0.81])]
    better = [*runs("component", [0.8, 0.81], dataset="own"), *runs("gin", [0.7, 0.71], dataset="own")]
    axes = line_figures.difference_plot(collect([*made, *better])).axes[0]
    assert names(axes) == ["component minus gin", "NCI1", "own"]
    interval, square = drawn_at(axes, "NCI1")
    assert interval.get_xdata() == pytest.approx([-0.913, 4.913], abs=0.001)
    assert square.get_xdata() == pytest.approx([2.0])
    assert square.get_markerfacecolor() == "white"  # 0 lies within
    _, square = drawn_at(axes, "own")
    assert square.get_xdata() == pytest.approx([10.0])
    assert square.get_markerfacecolor() == plotting.colour_of("gin")


def test_a_large_difference_leaves_the_others_readable() -> None:
    made = []
    for index in range(8):
        made += [*runs("component", [0.80, 0.82], dataset=f"d{index}"), *runs("gin", [0.80, 0.81], dataset=f"d{index}")]
    made += [*runs("component", [0.9, 0.9], dataset="far"), *runs("gin", [0.1, 0.2], dataset="far")]
    axes = line_figures.difference_plot(collect(made)).axes[0]
    limit = max(abs(end) for end in axes.get_xlim())
    _, arrow = drawn_at(axes, "far")
    assert arrow.get_marker() == ">"
    assert arrow.get_xdata()[0] < limit < 75  # the mean difference


def test_kept_shares_of_every_run() -> None:
    shares = [0.1, 0.9, 1.0]
    made = [
        run
        for replica, share in enumerate(shares)
        for run in runs("component", [0.8] * 3, kept=[share, share / 2])[replica : replica + 1]
    ]
    axes = line_figures.kept_strips(collect([*made, *runs("none", [0.8] * 3, kept=[])])).axes[0]
    assert names(axes) == ["NCI1", "component"]  # without pooling there is nothing to keep
    first, second = axes.collections
    assert first.get_offsets()[:, 0].tolist() == pytest.approx([10, 90, 100])
    assert second.get_offsets()[:, 0].tolist() == pytest.approx([5, 45, 50])
    assert first.get_offsets()[:, 1].min() > second.get_offsets()[:, 1].max()  # deeper layers lie lower


def test_recipes_are_lines_of_their_data_set() -> None:
    made = [*runs("component", [0.7, 0.8]), *runs("component", [0.7, 0.8], recipe="paper", recipe_checksum="p")]
    assert names(line_figures.box_plot(collect(made)).axes[0]) == ["NCI1", "component", "component, paper"]


def test_every_method_has_a_colour_of_its_own() -> None:
    assert len({plotting.colour_of(method) for method in METHOD_ORDER}) == len(METHOD_ORDER)


def test_what_a_row_has_not_is_not_drawn() -> None:
    study = collect([*three(dataset="NCI1"), *runs("component", [0.7, 0.8], dataset="COLLAB")])
    (collab,) = (row for row in study.rows if row.dataset == "COLLAB")
    assert [text.get_text() for text in figures.training_curves(study, collab).legends[0].texts] == ["component"]
    axes = line_figures.box_plot(study).axes[0]
    assert names(axes) == ["COLLAB", "component", "NCI1", "component", "edgepool", "gin"]
    diamonds = {line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"}
    assert diamonds == {72.2, 77.9, 79.5}  # COLLAB's GIN is not among them


def test_ranks_need_enough_data_sets() -> None:
    assert ranks.rank_study(collect(many(4))) is None
    found = ranks.rank_study(collect(many(5)))
    assert found is not None
    methods, ranking, number = found
    assert (methods, ranking.ranks, number) == (["component", "edgepool", "gin"], [1.0, 2.0, 3.0], 5)
    lacking = [run for run in many(6) if run.method != "gin"]
    assert ranks.rank_study(collect(lacking)) is None  # two methods


@pytest.mark.parametrize("made", [[], runs("component", [None]), runs("gin", [0.5])])
def test_few_runs(made: list, tmp_path: Path) -> None:
    for name, figure in figures.figures(collect(made)):
        plotting.write_figure(figure, tmp_path / f"{name}.png")

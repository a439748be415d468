from pathlib import Path

import numpy as np
import pytest

from compool.report import figures, plotting, ranks
from compool.report.results import collect
from tests.report.test_results import runs, three


def many(number: int) -> list:
    names = ["PROTEINS", "COLLAB", "NCI1", "own", "$x$ & <y>", "another"]
    return [run for name in names[:number] for run in three(dataset=name)]


def test_every_figure_is_written(tmp_path: Path) -> None:
    made = dict(figures.figures(collect(many(5))))
    assert list(made) == [
        "accuracy",
        "parameters",
        "curves-PROTEINS",
        "curves-COLLAB",
        "curves-NCI1",
        "curves-x-y",
        "curves-own",
        "kept-nodes",
        "critical-difference",
    ]
    for name in ("accuracy", "curves-x-y", "critical-difference"):  # the others differ in nothing that is saved
        png, pdf = plotting.save_figure(made[name], tmp_path, name)
        assert png.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")
    assert len(list(tmp_path.iterdir())) == 6  # nothing half-written is left


def test_bars_and_lines_show_the_numbers() -> None:
    study = collect([*runs("component", [0.7, 0.8], parameters=300), *runs("gin", [0.6, 0.5], parameters=200)])
    bars = figures.parameter_bars(study).axes[0]
    assert [bar.get_height() for bar in bars.patches] == [300, 200]
    validation, test, loss = figures.training_curves(study, study.rows[0]).axes
    assert [line.get_ydata().tolist() for line in validation.lines] == [[50.0, 80.0]] * 2
    assert test.lines[0].get_ydata().tolist() == [50.0, 75.0]
    assert np.isnan(loss.lines[0].get_ydata()[1])
    (kept,) = figures.kept_nodes(study).axes
    assert kept.lines[0].get_ydata().tolist() == [100.0, 50.0]
    box = figures.box_plot(study).axes[0]
    boxes = [patch.get_path().vertices[:, 1] for patch in box.patches]
    assert [(ys.min(), ys.max()) for ys in boxes] == [pytest.approx((72.5, 77.5)), pytest.approx((52.5, 57.5))]


def test_what_a_row_has_not_is_not_drawn() -> None:
    study = collect([*three(dataset="NCI1"), *runs("component", [0.7, 0.8], dataset="COLLAB")])
    (collab,) = (row for row in study.rows if row.dataset == "COLLAB")
    assert [text.get_text() for text in figures.training_curves(study, collab).legends[0].texts] == ["component"]
    diamonds = [line for line in figures.box_plot(study).axes[0].lines if line.get_marker() == "D"]
    places = {line.get_ydata()[0]: line.get_xdata()[0] for line in diamonds}
    assert sorted(places) == [72.2, 77.9, 79.5]  # COLLAB's GIN is not among them
    assert places[77.9] == 0  # alone, in the middle of its row


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

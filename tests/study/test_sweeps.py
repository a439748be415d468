"""Random search, training options in recipes and commands, and the report of a sweep."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.report.collection import collect
from compool.report.figures import figures
from compool.report.page import report_page
from compool.report.page_data import script_data
from compool.report.sweeps import find_sweeps, responses, sweep_table
from compool.report.write import write_report
from compool.study import own_network
from compool.study.kept import best_run
from tests.browser import PROGRAM, Browser
from tests.study.blocks import CPU, planned, small
from tests.study.test_own_network import NET
from tests.study.test_store import example

run = CliRunner()


def test_draws_are_in_their_ranges_and_more_trials_keep_the_first() -> None:
    ranges = ["lr=log:1e-4..1e-1", "dropout=0.1..0.5", "hidden=8..16", "batch=log:8..64", "readout=mean,sum"]
    drawn = study.variants("component", "communities", settings=ranges, trials=60)
    assert len(drawn) == 60
    assert study.variants("component", "communities", settings=ranges, trials=20) == drawn[:20]
    alone = study.variants("component", "communities", settings=ranges[:1], trials=20)
    assert [one.lr for one in alone] == [one.lr for one in drawn[:20]]  # whatever else is drawn
    assert study.variants("component", "communities", settings=ranges, trials=60, seed=1) != drawn
    exponents = [math.log10(one.lr) for one in drawn]
    assert -4 <= min(exponents) < -3 < -2 < max(exponents) <= -1
    assert abs(sum(exponents) / 60 + 2.5) < 0.4  # evenly in the logarithm
    assert {type(one.hidden) for one in drawn} == {type(one.batch) for one in drawn} == {int}
    assert set(range(8, 17)) >= {one.hidden for one in drawn} >= {8, 16, 12}
    assert all(8 <= one.batch <= 64 and 0.1 <= one.dropout <= 0.5 for one in drawn)
    assert {one.readout for one in drawn} == {"mean", "sum"}
    assert drawn[0].name == " ".join(
        ["fast", *(f"{key}={getattr(drawn[0], key)}" for key in ("lr", "dropout", "hidden", "batch", "readout"))]
    )


@pytest.mark.usefixtures("few_graphs")
def test_a_random_search_is_one_training_where_shapes_agree(tmp_path: Path) -> None:
    ranges = ["lr=log:1e-3..1e-1", "dropout=0..0.5"]
    drawn = study.variants("component", "communities", settings=ranges, trials=6, epochs=2, hidden=4)
    (block,) = study.plan(drawn, 2, 0, tmp_path / "study.sqlite", resources=CPU)
    assert len(block.replicas) == 12
    assert len({one.settings["lr"] for one in study.train_block(block)}) == 6


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "sgd", "momentum": 0.5},
        {"optimizer": "sgd", "clip": 0.01},
        {"schedule": "cosine"},
        {"schedule": "one_cycle"},
        {"schedule": "plateau", "halve": 1},
        {"schedule": "constant", "halve": 1},
    ],
    ids=lambda changes: " ".join(f"{key}={value}" for key, value in changes.items()),
)
def test_options_change_the_training(changes: dict[str, object], own: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NET)
    method = f"{tmp_path / 'mine.py'}:Net" if own else "component"
    plain, other = (small(method, epochs=4, lr=0.01, **more) for more in ({"halve": 2}, {"halve": 2} | changes))
    assert plain.checksum != other.checksum
    first, second = (study.train_block(planned(tmp_path / "s.sqlite", one, number=1)[0])[0] for one in (plain, other))
    assert first.weights_checksum == second.weights_checksum
    assert first.curves["loss"] != second.curves["loss"]
    assert second.status == "done"


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("own", [False, True])
def test_patience_saves_epochs(own: bool, tmp_path: Path) -> None:
    """A run has the epochs that it took part in; the progress counts those that were saved as done."""
    (tmp_path / "mine.py").write_text(NET)
    method = f"{tmp_path / 'mine.py'}:Net" if own else "component"
    store = tmp_path / "study.sqlite"
    command = ["run", "--method", method, "--replicas", "2", "--epochs", "40", "--patience", "2", "--workers", "1"]
    result = run.invoke(app, [*command, "--device", "cpu", "--no-report", "--store", str(store)])
    assert result.exit_code == 0, result.stderr
    for one in study.Store(store).runs():
        curve = one.curves["validation"]
        assert len(curve) == len(one.curves["loss"]) == len(one.curves["kept"]) == curve.index(max(curve)) + 1 + 2 < 40
        assert one.epoch == max(epoch for epoch, value in enumerate(curve, 1) if value == max(curve))
    variants = study.variants(method, "communities", settings=["epochs=40", "patience=2"])
    assert study.plan(variants, 2, 0, store, resources=CPU) == []  # they are complete


def swept() -> list[study.Run]:
    """A grid of two settings and two methods, with known means; test is the other way round."""
    runs = []
    for method, best in (("component", 0.01), ("gin", 0.1)):
        for lr in (0.001, 0.01, 0.1):
            for hidden in (8, 16):
                validation = 0.9 - 0.1 * abs(math.log10(lr / best)) - 0.01 * (hidden == 16)
                name = f"fast lr={lr} hidden={hidden} epochs=3"
                about = {"recipe": name, "recipe_checksum": f"{method} {name}", "method": method}
                settings = {"lr": lr, "hidden": hidden, "epochs": 3}
                runs += [
                    example(
                        replica,
                        validation=validation + 0.001 * replica,
                        test=1 - validation,
                        settings=settings,
                        **about,
                    )
                    for replica in range(2)
                ]
    return runs


def test_a_sweep_is_ranked_by_validation() -> None:
    reported, (component, gin) = find_sweeps(collect(swept()))
    assert (component.keys, component.recipe, len(component.results)) == (("lr", "hidden"), "fast epochs=3", 6)
    assert [point["settings"] for point in component.points[:2]] == [
        {"lr": 0.01, "hidden": 8},
        {"lr": 0.01, "hidden": 16},
    ]
    assert gin.points[0]["settings"] == {"lr": 0.1, "hidden": 8}
    (row,) = reported.rows
    assert row.title == "NCI1 (fast epochs=3, best of 6)"
    assert [row.results[method].runs[0].settings["lr"] for method in ("component", "gin")] == [0.01, 0.1]
    assert not any("lr=" in warning for warning in reported.warnings)
    table = sweep_table(component)
    assert table.header == ("rank", "lr", "hidden", "runs", "validation accuracy, %", "test accuracy, %")
    assert [cell.text for cell in table.rows[0]] == ["1", "0.01", "8", "2", "90.0 ± 0.1", "10.0 ± 0.0"]
    assert {cell.mark for cell in table.rows[0]} == {"bold"}
    assert {cell.mark for cell in table.rows[1]} == {""}
    means = responses(component)
    assert [value for value, _ in means["lr"]] == [0.001, 0.01, 0.1]
    assert [mean for _, mean in means["lr"]] == pytest.approx([79.55, 89.55, 79.55])
    assert [mean for _, mean in means["hidden"]] == pytest.approx([250.15 / 3, 247.15 / 3])
    assert component.title == "NCI1, component (fast epochs=3), lr and hidden"
    assert table.name == f"sweep-{component.title}"
    names = [name for name, _ in figures(reported, (component, gin))]
    assert "sweep-NCI1-component-fast-epochs-3-lr-and-hidden" in names


def test_what_is_no_sweep_stays_as_it_is() -> None:
    alone = [example(0, recipe="fast epochs=3", settings={"epochs": 3})]
    reported, sweeps = find_sweeps(collect(alone))
    assert (reported.rows[0].title, sweeps) == ("NCI1 (fast epochs=3)", ())


def test_lower_errors_rank_first() -> None:
    metrics = {"chosen": "mae", "task": "regression", "validation": {}, "test": {}}
    runs = [
        example(0, recipe=f"fast lr={lr}", recipe_checksum=str(lr), settings={"lr": lr}, validation=lr, metrics=metrics)
        for lr in (2.0, 1.0, 3.0)
    ]
    (sweep,) = find_sweeps(collect(runs))[1]
    assert [point["validation"] for point in sweep.points] == [1.0, 2.0, 3.0]


def varied(*names: str, **columns: Any) -> list[study.Run]:
    """A run of each recipe name, with the settings of the name."""
    recipes = [(name, dict(part.split("=") for part in name.split()[1:])) for name in names]
    return [example(0, recipe=name, recipe_checksum=name, settings=settings, **columns) for name, settings in recipes]


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("limit", [None, 0.2, 0.1], [0.1, 0.2, "none"]),
        ("sizes", [[2], [1], [2, 3]], ["[1]", "[2, 3]", "[2]"]),
        ("jump", [True, False, 1], [1, "False", "True"]),
        ("scale", [math.inf, 1.0, "a"], [1.0, "a", "inf"]),
    ],
)
def test_values_that_are_not_numbers_are_shown_as_text(key: str, values: list[Any], shown: list[Any]) -> None:
    runs = [
        example(0, recipe=f"fast {key}={value}", recipe_checksum=str(value), settings=settings)
        for value in values
        for settings in [{"own_network": "a.py:Net", "arguments": json.dumps({key: value})}]
    ]
    reported, (sweep,) = find_sweeps(collect(runs))
    assert [value for value, _ in responses(sweep)[key]] == shown
    assert {cell.text for row in sweep_table(sweep).rows for cell in row[1:2]} == set(map(str, shown))
    assert f"sweep-NCI1-component-{key}" in dict(figures(reported, [sweep]))
    assert "Infinity" not in script_data(reported, [], [sweep])


def test_runs_of_different_metrics_are_not_ranked_together(tmp_path: Path) -> None:
    about = {"task": "regression", "test": {}}
    mae = [{"chosen": "mae", "validation": {"mae": value, "rmse": 9.0}} for value in (2.0, 1.0)]
    rmse = [{"chosen": "rmse", "validation": {"mae": value, "rmse": 0.5}} for value in (4.0, 3.0)]
    runs = [
        replace(run, validation=metrics["validation"][metrics["chosen"]], metrics=about | metrics)
        for metrics in (*mae, *rmse)
        for run in varied(f"fast lr={metrics['validation']['mae']} metric={metrics['chosen']}")
    ]
    reported, sweeps = find_sweeps(collect(runs[1:3]))
    assert sweeps == ()
    assert [row.title for row in reported.rows] == ["NCI1 (fast lr=1.0 metric=mae)", "NCI1 (fast lr=4.0 metric=rmse)"]
    sweeps = find_sweeps(collect(runs))[1]
    assert [sweep.title for sweep in sweeps] == [
        f"NCI1, component (fast metric={metric}), lr" for metric in ("mae", "rmse")
    ]
    assert [sweep.points[0]["settings"]["lr"] for sweep in sweeps] == ["1.0", "3.0"]
    assert best_run(runs) == runs[1]  # by the metric of the first, of which all runs have a value
    assert best_run(runs[::-1]).metrics["chosen"] == "rmse"
    unknown = replace(runs[2], metrics={"chosen": "rmse", "task": "regression"})
    assert best_run([runs[0], unknown]) == runs[0]


def test_sweeps_with_the_same_varied_settings_have_their_own_files(tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    store.add(varied("fast lr=1 epochs=1", "fast lr=2 epochs=1"))
    store.add(varied("fast lr=3 hidden=8 epochs=1", "fast lr=4 hidden=8 epochs=1"))
    long = "x" * 80
    store.add(varied(*(f"{long} lr={lr} {key}=1" for lr in (1, 2) for key in ("halve", "batch"))))
    folder = write_report(store.path)[1].parent
    expected = [f"sweep-NCI1-component-fast-{name}epochs-1-lr" for name in ("", "hidden-8-")]
    expected += [f"sweep-NCI1-component-{long}"[:80] + number for number in ("", "-2")]
    for part, ending in (("tables", "csv"), ("figures", "pdf")):
        assert sorted(path.stem for path in (folder / part).glob(f"sweep-*.{ending}")) == sorted(expected)


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_the_page_of_a_sweep(tmp_path: Path) -> None:
    reported, sweeps = find_sweeps(collect(swept()))
    path = tmp_path / "index.html"
    path.write_text(report_page(reported, [], [], "study.sqlite", [], sweeps), encoding="utf-8")
    with Browser(tmp_path / "browser") as browser:
        browser.look()
        browser.open(path)
        browser.run("document.querySelector('nav a[href=\"#sweeps\"]').click()")
        browser.wait("document.querySelector('.here').id === 'sweeps'")
        assert browser.run("document.querySelectorAll('.here [data-setting]').length") == 4
        browser.wait("document.querySelectorAll('.here [data-setting=\"lr\"] circle.trial').length === 12")
        assert browser.run("document.querySelectorAll('.here circle.best').length") == 4
        assert browser.errors == []


def test_own_arguments_are_settings_of_a_sweep(tmp_path: Path) -> None:
    runs = [
        example(
            0,
            method="Net",
            recipe=f"fast width={width}",
            recipe_checksum=str(width),
            settings={"own_network": "a.py:Net", "arguments": f'{{"width": {width}}}'},
            validation=width / 100,
        )
        for width in (8, 16)
    ]
    (sweep,) = find_sweeps(collect(runs))[1]
    assert [point["settings"] for point in sweep.points] == [{"width": 16}, {"width": 8}]
    assert own_network.class_name("a.py:Net") == sweep.method


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ("0,0.0", ["0"]),
        ("0.0,0,0.5", ["0.0", "0.5"]),
        ("0", ["0"]),
        ("0.0", ["0.0"]),
    ],
)
def test_equal_settings_are_trained_once_under_the_first_name(values: str, names: list[str]) -> None:
    """The names are those of stored runs, which would be trained again under others."""
    variants = study.variants("gin", "communities", settings=[f"weight_decay={values}"])
    assert [variant.name for variant in variants] == [f"fast weight_decay={name}" for name in names]


@pytest.mark.parametrize("schedule", ["halving", "plateau"])
def test_halve_is_a_setting_of_two_schedules(schedule: str) -> None:
    (variant,) = study.variants("gin", "communities", settings=[f"schedule={schedule}", "halve=5"])
    assert (variant.schedule, variant.halve) == (schedule, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--set lr=log:1e-4..1e-1", "lr is a range; --trials says how many values to draw from it"),
        ("--set lr=1e-4..1e-1 --trials 0", "trials must be from 1 to 100,000, got 0"),
        ("--set lr=1e-1..1e-4 --trials 3", "lr must be a range from low to high, got '1e-1..1e-4'"),
        ("--set lr=log:0..1 --trials 3", "lr must be above 0 for a logarithmic range, got 'log:0..1'"),
        ("--set lr=log:1 --trials 3", "lr must be a range such as log:1e-4..1e-1, got 'log:1'"),
        ("--set lr=1..1e400 --trials 3", "lr must be a range of smaller numbers, got '1..1e400'"),
        ("--set lr=-1e308..1e308 --trials 3", "lr must be a range of smaller numbers, got '-1e308..1e308'"),
        ("--set hidden=1..99999999999999999999 --trials 2", "hidden must be a range of smaller numbers, got '1..9999"),
        (
            "--set lr=log:1e-4..1e-1 --trials 2 --seed -1",
            "seed must be a whole number from 0 to 2⁶³ − 1, got -1",
        ),
        ("--set lr=0.1 --trials 3", "--trials needs a setting to draw, such as --set lr=log:1e-4..1e-1"),
        ("--trials 3", "--trials needs a setting to draw, such as --set lr=log:1e-4..1e-1"),
        ("--set dropout=0..2 --trials 3", "dropout must be at least 0 and below 1, got"),
        ("--set hidden=4.5..8.5 --trials 3", "hidden must be a whole number, got"),
        ("--set layers=a..b --trials 3", "--trials needs a setting to draw"),
        ("--patience -1", "patience must be a whole number from 0 to 1,000,000,000, got -1"),
        ("--set patience=1.5", "patience must be a whole number, got 1.5"),
        ("--set clip=-1", "clip must be at least 0, got -1.0"),
        (
            "--set schedule=linear",
            "schedule must be one of halving, constant, cosine, one_cycle, plateau; got 'linear'",
        ),
        ("--set optimizer=lion", "optimizer must be one of adam, adamw, sgd; got 'lion'"),
        ("--set momentum=0.5", "momentum has no effect on component with communities: its optimizer is adamw"),
        ("--set schedule=cosine --set halve=5", "halve has no effect on component with communities: its schedule is c"),
        ("--set schedule=constant,halving --set halve=5", "halve has no effect on component with communities: its sch"),
        ("--set in_channels=99", "'in_channels' is not a setting; the data set gives it"),
        ("--set num_classes=77", "'num_classes' is not a setting; the data set gives it"),
        ("--set momentum=1 --set optimizer=sgd", "momentum must be at least 0 and below 1, got 1.0"),
        ("--set readout=min", "readout must be one of 'mean', 'sum', 'max', 'saturating'; got 'min'"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments: str, message: str) -> None:
    result = run.invoke(app, ["run", "--method", "component", "--dry-run", *arguments.split()])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"compool: {message}")
    assert result.stderr.count("\n") == 1

"""What the report says about settings that were tried."""

from typing import Any

from compool.report.collection import collect
from compool.report.sweeps import find_sweeps, sweep_table
from compool.study import Run
from tests.study.test_store import example


def tried(lr: float, validations: list[float | None]) -> list[Run]:
    """The runs of a setting; None is a failed run."""
    about: dict[str, Any] = {"recipe": f"fast lr={lr}", "recipe_checksum": str(lr), "settings": {"lr": lr}}
    failed = {"status": "failed", "test": None, "epoch": None, "kept": []}
    return [
        example(replica, validation=validation, **about, **(failed if validation is None else {}))
        for replica, validation in enumerate(validations)
    ]


def test_settings_with_fewer_runs_come_last() -> None:
    """As after an interruption: one lucky run must not win against the mean of three."""
    runs = [*tried(0.1, [0.7, 0.7, 0.7]), *tried(0.2, [0.9]), *tried(0.3, [0.8, None, 0.8])]
    reported, (sweep,) = find_sweeps(collect(runs))
    assert [point["settings"]["lr"] for point in sweep.points] == [0.3, 0.1, 0.2]
    assert reported.rows[0].results["component"].recipe == "fast lr=0.3"
    warning = (
        "NCI1, component, lr: 1 of 3 settings has fewer than 3 runs and is ranked last; rerun the command of the "
        "sweep to complete the runs."
    )
    assert warning in reported.warnings
    assert "Settings with fewer runs than others are ranked last." in sweep_table(sweep).note
    reported, (sweep,) = find_sweeps(collect([run for run in runs if run.replica == 0]))
    assert sweep.points[0]["settings"]["lr"] == 0.2
    assert reported.warnings == ()
    assert "fewer" not in sweep_table(sweep).note

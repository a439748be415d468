"""What the report says about settings that were tried."""

import csv
import io
import json
from typing import Any

from compool.report.collection import collect
from compool.report.formats import as_csv
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


def test_settings_with_the_names_of_columns() -> None:
    """Arguments of a user-defined network have any name."""
    runs = []
    for rank in (8, 16):
        arguments = {"rank": rank, "setting_rank": 2 * rank, "runs": 3 * rank, "method": f"m{rank}"}
        name = " ".join(["fast", *(f"{key}={value}" for key, value in arguments.items())])
        about = {"method": "Net", "recipe": name, "recipe_checksum": name, "validation": rank / 20}
        settings = {"own_network": "a.py:Net", "arguments": json.dumps(arguments)}
        runs.append(example(0, settings=settings, **about))
    (sweep,) = find_sweeps(collect(runs))[1]
    records = list(csv.DictReader(io.StringIO(as_csv(sweep_table(sweep)))))
    assert [(record["rank"], record["runs"], record["method"]) for record in records] == [
        ("1", "1", "Net"),
        ("2", "1", "Net"),
    ]
    names = ("setting_setting_rank", "setting_rank", "setting_runs", "setting_method")
    assert [records[0][name] for name in names] == ["16", "32", "48", "m16"]

"""The results in the repository: the tables can be made again from the runs alone."""

from pathlib import Path

import pytest

from compool.report.results import collect
from compool.study.csv_files import read_csv
from compool.study.recipe import IMPLIED, Recipe, recipe

RESULTS = Path(__file__).parents[1] / "results"
FILES = sorted((RESULTS / "runs").glob("*.csv.gz"))
AGAIN = sorted((RESULTS / "again").glob("*.csv.gz"))
HALF = {f"{name}-paper.csv.gz" for name in ("REDDIT-BINARY-component", "PROTEINS-edgepool")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_hundred_runs_that_are_what_the_file_says(path: Path) -> None:
    runs, number = read_csv(path), 50 if path.name in HALF else 100
    assert sorted(run.replica for run in runs) == list(range(number))
    assert {f"{run.dataset}-{run.method}-{run.recipe}.csv.gz" for run in runs} == {path.name}
    assert len({run.recipe_checksum for run in runs}) == len({run.seed for run in runs}) == 1
    assert len({run.split_checksum for run in runs}) == number


@pytest.mark.parametrize("path", AGAIN, ids=lambda path: path.name)
def test_a_repeat_is_of_the_same_splits_and_settings(path: Path) -> None:
    first = {run.replica: run for run in read_csv(RESULTS / "runs" / path.name)}
    for run in read_csv(path):
        before = first[run.replica]
        assert (run.recipe_checksum, run.split_checksum) == (before.recipe_checksum, before.split_checksum)
        assert len(run.curves["validation_loss"]) == len(run.curves["validation"])


def test_picks_of_a_repeat() -> None:
    runs = read_csv(RESULTS / "again/NCI1-component-fast.csv.gz")
    means = {pick: collect(runs, pick).rows[0].results["component"].accuracy for pick in ("best", "loss")}
    assert {pick: round(found.mean, 1) for pick, found in means.items() if found} == {"best": 74.7, "loss": 72.4}


def test_the_accuracy_table() -> None:
    from compool.report.formats import as_csv
    from compool.report.tables import accuracy

    study = collect(run for path in FILES for run in read_csv(path))
    assert as_csv(accuracy(study.compared)) == (RESULTS / "report/tables/accuracy.csv").read_text(encoding="utf-8")


def test_the_runs_are_those_of_their_settings() -> None:
    """So that a study that holds them trains none of them again."""
    for path in FILES:
        run = read_csv(path)[0]
        assert Recipe(**IMPLIED | run.settings).checksum == run.recipe_checksum, path.name
        if run.recipe != "tuned":
            assert recipe(run.method, run.dataset, run.recipe).checksum == run.recipe_checksum, path.name

"""The results in the repository: the tables can be made again from the runs alone."""

from pathlib import Path

import pytest

from compool.study.export import read_csv
from compool.study.results import collect

RESULTS = Path(__file__).parents[1] / "results"
FILES = sorted((RESULTS / "runs").glob("*.csv.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_hundred_runs_that_are_what_the_file_says(path: Path) -> None:
    runs = read_csv(path)
    assert sorted(run.replica for run in runs) == list(range(100))
    assert {f"{run.dataset}-{run.method}-{run.recipe}.csv.gz" for run in runs} == {path.name}
    assert len({run.recipe_checksum for run in runs}) == len({run.seed for run in runs}) == 1
    assert len({run.split_checksum for run in runs}) == 100


def test_runs_that_have_validation_losses() -> None:
    runs = read_csv(RESULTS / "sweeps/with-validation-losses.csv.gz")
    means = {pick: collect(runs, pick).rows[-1].results["component"].accuracy for pick in ("best", "loss")}
    assert {pick: round(found.mean, 1) for pick, found in means.items() if found} == {"best": 74.2, "loss": 72.1}


def test_the_accuracy_table() -> None:
    from compool.study.formats import as_csv
    from compool.study.tables import accuracy

    study = collect(run for path in FILES for run in read_csv(path))
    assert as_csv(accuracy(study.compared)) == (RESULTS / "report/tables/accuracy.csv").read_text(encoding="utf-8")

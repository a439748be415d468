"""The results in the repository: the tables can be made again from the runs alone."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from compool.report.collection import collect
from compool.report.statistics import corrected_t_test, detectable_difference, equivalence_test
from compool.study import Run
from compool.study.csv_files import read_csv
from compool.study.recipe_files import recipe
from compool.study.recipe_settings import IMPLIED, Recipe

RESULTS = Path(__file__).parents[1] / "results"
FILES = sorted((RESULTS / "runs").glob("*.csv.gz"))
AGAIN = sorted((RESULTS / "again").glob("*.csv.gz"))
HALF = {f"{name}-paper.csv.gz" for name in ("REDDIT-BINARY-component", "PROTEINS-edgepool")}

Reader = Callable[[Path], list[Run]]


@pytest.fixture(scope="module")
def read() -> Reader:
    """Reads the runs of a file once: several tests need all of them."""
    return cache(read_csv)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_hundred_runs_that_are_what_the_file_says(path: Path, read: Reader) -> None:
    runs, number = read(path), 50 if path.name in HALF else 100
    assert sorted(run.replica for run in runs) == list(range(number))
    assert {f"{run.dataset}-{run.method}-{run.recipe}.csv.gz" for run in runs} == {path.name}
    assert len({run.recipe_checksum for run in runs}) == len({run.seed for run in runs}) == 1
    assert len({run.split_checksum for run in runs}) == number


@pytest.mark.parametrize("path", AGAIN, ids=lambda path: path.name)
def test_a_repeat_is_of_the_same_splits_and_settings(path: Path, read: Reader) -> None:
    first = {run.replica: run for run in read(RESULTS / "runs" / path.name)}
    for run in read(path):
        before = first[run.replica]
        assert (run.recipe_checksum, run.split_checksum) == (before.recipe_checksum, before.split_checksum)
        assert len(run.curves["validation_loss"]) == len(run.curves["validation"])


def test_picks_of_a_repeat(read: Reader) -> None:
    runs = read(RESULTS / "again/NCI1-component-fast.csv.gz")
    means = {pick: collect(runs, pick).rows[0].results["component"].accuracy for pick in ("best", "loss")}
    assert {pick: round(found.mean, 1) for pick, found in means.items() if found} == {"best": 74.7, "loss": 72.4}


def test_the_accuracy_table(read: Reader) -> None:
    from compool.report.formats import as_csv
    from compool.report.tables import accuracy

    study = collect(run for path in FILES for run in read(path))
    assert as_csv(accuracy(study.compared)) == (RESULTS / "report/tables/accuracy.csv").read_text(encoding="utf-8")


LEARNED = {  # docs/results.md: accuracies of component, none and random; p, detectable and equivalence against none
    "Synthie": (81.6, 67.8, 68.3, 0.000, 8.2, 1.000),
    "NCI1": (73.2, 70.9, 72.2, 0.002, 2.1, 0.660),
    "PROTEINS": (75.0, 75.7, 75.0, 0.557, 3.4, 0.141),
    "MSRC_21": (89.2, 89.2, 89.9, 1.000, 4.3, 0.096),
    "IMDB-BINARY": (73.3, 73.5, 73.0, 0.914, 4.2, 0.107),
    "IMDB-MULTI": (50.6, 50.3, 50.5, 0.814, 3.0, 0.049),
    "REDDIT-BINARY": (81.1, 78.1, 82.1, 0.015, 3.4, 0.795),
    "COLLAB": (80.1, 78.2, 79.8, 0.001, 1.6, 0.383),
}


@pytest.mark.parametrize("dataset", LEARNED)
def test_the_table_of_learned_pooling(dataset: str, read: Reader) -> None:
    files = [RESULTS / f"runs/{dataset}-{method}-learned.csv.gz" for method in ("component", "none", "random")]
    (row,) = collect(run for path in files for run in read(path)).rows
    means = [round(result.accuracy.mean, 1) for result in row.results.values() if result.accuracy]
    comparison = row.comparisons["none"]
    assert comparison.corrected
    ours, none = (row.results[method].tests for method in ("component", "none"))
    differences = [first - second for first, second in zip(ours, none, strict=True)]
    detectable = detectable_difference(differences, ratio=comparison.ratio)
    equivalence = equivalence_test(differences, 2.0, comparison.ratio)
    found = (*means, round(comparison.corrected.p_value, 3), round(detectable or 0, 1), round(equivalence or 0, 3))
    assert found == LEARNED[dataset]


def test_what_the_gain_on_synthie_is_made_of(read: Reader) -> None:
    """docs/results.md: of random edges and learned weights, and of similar nodes and sums."""
    ours = [run.test or 0 for run in sorted(read(RESULTS / "runs/Synthie-component-learned.csv.gz"), key=_replica)]
    none = [run.test or 0 for run in sorted(read(RESULTS / "runs/Synthie-none-learned.csv.gz"), key=_replica)]
    found = {}
    for name in ("random-order", "sum"):
        runs = sorted(read(RESULTS / f"controls/Synthie-component-{name}.csv.gz"), key=_replica)
        assert [run.replica for run in runs] == list(range(100))
        assert [run.split_checksum for run in runs] == [
            run.split_checksum for run in sorted(read(RESULTS / "runs/Synthie-none-learned.csv.gz"), key=_replica)
        ]
        tests = [run.test or 0 for run in runs]
        differences = [[100 * (a - b) for a, b in zip(tests, other, strict=True)] for other in (none, ours)]
        better, worse = (corrected_t_test(each) for each in differences)
        assert better
        assert worse
        found[name] = [
            round(number, digits)
            for number, digits in (
                (100 * fmean(tests), 1),
                (better.difference, 1),
                (better.p_value, 3),
                (worse.difference, 1),
                (worse.p_value, 2),
            )
        ]
    assert found == {"random-order": [78.4, 10.6, 0.002, -3.2, 0.24], "sum": [68.0, 0.2, 0.936, -13.6, 0.0]}


def test_equal_scores_do_not_matter_on_msrc(read: Reader) -> None:
    """docs/results-details.md: with tanh, edges have different scores; with hardtanh, most have the same."""
    tanh, hardtanh = (
        sorted(read(RESULTS / path), key=_replica)
        for path in ("controls/MSRC_21-component-tanh.csv.gz", "runs/MSRC_21-component-learned.csv.gz")
    )
    assert [run.split_checksum for run in tanh] == [run.split_checksum for run in hardtanh]
    assert {run.settings["score"] for run in tanh} == {"tanh"}
    assert [round(100 * fmean(run.test or 0 for run in runs), 1) for runs in (tanh, hardtanh)] == [89.2, 89.2]
    assert sum(one.test != other.test for one, other in zip(tanh, hardtanh, strict=True)) == 74


def _replica(run: Run) -> int:
    return run.replica


@pytest.mark.parametrize(("dataset", "count"), [("PROTEINS", 44), ("NCI1", 47), ("REDDIT-BINARY", 64), ("COLLAB", 0)])
def test_networks_that_never_merge(dataset: str, count: int, read: Reader) -> None:
    runs = read(RESULTS / f"runs/{dataset}-component-fast.csv.gz")
    assert sum(all(epoch[0] == 1 for epoch in run.curves["kept"]) for run in runs) == count


def test_the_runs_are_those_of_their_settings(read: Reader) -> None:
    """So that a study that holds them trains none of them again."""
    for path in FILES:
        run = read(path)[0]
        assert Recipe(**IMPLIED | run.settings).checksum == run.recipe_checksum, path.name
        if run.recipe != "tuned":
            assert recipe(run.method, run.dataset, run.recipe).checksum == run.recipe_checksum, path.name


def test_color_connectivity(read: Reader) -> None:
    """Component pooling solves every fold of every topology; what the others reach stands in docs/connectivity.md."""
    runs = [run for path in sorted((RESULTS / "connectivity").glob("*.csv.gz")) for run in read(path)]
    assert all(run.status == "done" for run in runs)
    for topology in ("16", "32", "euroroad", "minnesota"):
        here = [run for run in runs if run.dataset == f"color-connectivity-{topology}"]
        solved = [run.test for run in here if run.method == "component" and run.recipe.startswith("learned")]
        assert len(solved) >= 10
        assert min(solved) >= 0.99
    text = (RESULTS.parent / "docs" / "connectivity.md").read_text(encoding="utf-8")
    others: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        if run.method != "component":
            others.setdefault((run.dataset, run.method, run.recipe_checksum), []).append(run.test)
    for row in json.loads((RESULTS / "connectivity/message-passing.json").read_text()):
        others[f"color-connectivity-{row['topology'].removeprefix('grid-')}", row["method"], "200 epochs"] = row["test"]
    assert len({method for _, method, _ in others}) == 10
    for key, tests in others.items():
        assert max(tests) < 0.99, key
        assert f"{100 * fmean(tests):.1f}" in text, key

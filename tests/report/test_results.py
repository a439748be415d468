import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from compool.report.collection import collect
from compool.report.pick import PICKS
from compool.report.results import Study
from compool.report.tables import accuracy, p_values
from compool.study import Run
from tests.study.test_store import example


def runs(method: str, tests: list[float | None], **changes: object) -> list[Run]:
    made = []
    for replica, test in enumerate(tests):
        failed = {"status": "failed", "test": None, "validation": None, "epoch": None, "kept": []}
        found = failed if test is None else {"test": test}
        made.append(example(replica, **{"method": method, "split_checksum": f"s{replica}"} | found | changes))
    return made


def three(**changes: object) -> list[Run]:
    """A data set with three methods: the first is the best, the second ties with it, the third does not."""
    return [
        *runs("component", [0.80, 0.82, 0.81, 0.83], **changes),
        *runs("edgepool", [0.81, 0.81, 0.80, 0.83], **changes),
        *runs("gin", [0.60, 0.62, 0.61, 0.63], **changes),
    ]


def test_rows_come_in_the_papers_order() -> None:
    made = [
        *three(dataset="own"),
        *three(dataset="NCI1"),
        *three(dataset="PROTEINS"),
        *three(dataset="a", recipe="paper"),
    ]
    study = collect(reversed(made))
    assert [row.title for row in study.rows] == ["PROTEINS", "NCI1", "a (paper)", "own"]
    assert list(study.rows[0].results) == ["component", "edgepool", "gin"]
    assert [run.replica for run in study.rows[0].results["gin"].runs] == [0, 1, 2, 3]
    assert study.warnings == ()
    assert study.num_runs == 48


def test_numbers_by_hand() -> None:
    study = collect(three())
    (row,) = study.rows
    ours = row.results["component"]
    assert ours.accuracy is not None
    assert ours.accuracy.mean == pytest.approx(81.5)
    assert ours.accuracy.std == pytest.approx(np.sqrt(5 / 3))
    assert ours.kept == [50.0]
    assert ours.seconds == 1.5
    found = row.comparisons["gin"]
    assert found.pairs == 4
    assert found.corrected is not None
    assert found.corrected.difference == pytest.approx(20)
    assert found.corrected.p_value == 0  # every difference is the same
    assert row.comparisons["edgepool"].corrected.difference == pytest.approx(0.25)  # (−1 + 1 + 1 + 0) / 4


def best(*made: list[Run]) -> tuple[str, ...]:
    return collect([run for one in made for run in one]).rows[0].best


def test_best_and_tied() -> None:
    assert best(three()) == ("component", "edgepool")
    good, bad = runs("component", [0.80, 0.82, 0.81]), runs("gin", [0.60, 0.62, 0.61])
    assert best(good, bad) == ("component",)
    assert best(good) == ()  # nothing to compare with
    assert best(good, runs("gin", [0.6])) == ()  # no test of a single run


def test_the_best_follows_the_corrected_test() -> None:
    ours, theirs = runs("component", [0.80, 0.82] * 4), runs("gin", [0.80, 0.78] * 4)
    (row,) = collect([*ours, *theirs]).rows
    comparison = row.comparisons["gin"]
    assert comparison.t is not None
    assert comparison.corrected is not None
    assert comparison.t < 0.01  # runs taken as independent
    assert comparison.corrected.p_value > 0.05  # splits that overlap
    assert row.best == ("component", "gin")


def test_pairs_are_those_of_the_same_split() -> None:
    ours = runs("component", [0.8, 0.7, 0.6])
    theirs = [*runs("gin", [0.5, 0.5]), *runs("gin", [0.4, 0.4, 0.4], split_checksum="another")[2:]]
    study = collect([*ours, *theirs])
    assert study.rows[0].comparisons["gin"].pairs == 2
    assert "NCI1: paired tests of component and gin use the 2 splits that both have." in study.warnings


def test_holm_runs_over_data_sets() -> None:
    made = []
    for dataset, shift in (("NCI1", 0.0), ("COLLAB", 0.01), ("PROTEINS", 0.03)):
        made += runs("component", [0.70 + shift, 0.71 + shift, 0.69, 0.72], dataset=dataset)
        made += runs("gin", [0.68, 0.70, 0.69, 0.70], dataset=dataset)
    study = collect(made)
    plain = {row.dataset: row.comparisons["gin"].corrected.p_value for row in study.rows}
    least = min(plain, key=lambda name: plain[name])
    assert study.holm_p_values[least, "fast", "gin"] == pytest.approx(3 * plain[least])


def warned(made: list[Run]) -> tuple[str, ...]:
    return collect(made).warnings


def test_what_is_missing_or_failed_is_said() -> None:
    assert warned([]) == ("There are no runs.",)
    made = [*runs("component", [0.8, None, 0.7]), *runs("gin", [0.5, 0.6, 0.5])[1:]]
    assert warned(made) == (
        "NCI1, component: 1 of 3 runs failed; they are not counted.",
        "NCI1, gin: 1 of 3 runs are missing.",
        "NCI1: paired tests of component and gin use the only split that both have.",
    )
    assert collect(made).rows[0].results["component"].tests == [80.0, 70.0]


def test_an_undefined_metric_is_no_failure() -> None:
    undefined = example(2, test=None, metrics={"chosen": "roc_auc", "task": "classification"})
    (row,) = collect([*runs("component", [0.8, None]), undefined]).rows
    result = row.results["component"]
    assert (len(result.done), result.failed, result.undefined) == (1, 1, 1)
    warning = "NCI1, component: the test ROC AUC of 1 of 1 runs is not defined; they are not counted."
    assert warning in warned([*runs("gin", [0.5, 0.6], metrics=undefined.metrics), undefined])


def test_a_large_replica_takes_no_memory() -> None:
    tracemalloc.start()
    found = warned([*runs("component", [0.8]), *runs("gin", [0.5]), example(5 * 10**7, method="gin")])
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "NCI1, component: 50000000 of 50000001 runs are missing." in found
    assert used < 10**7


def test_other_pooling_in_our_networks_is_apart() -> None:
    plain = [*runs("component", [0.8, 0.7], dataset="COLLAB"), *runs("gin", [0.5, 0.6], dataset="COLLAB")]
    study = collect([*plain, *runs("component", [0.8, 0.7]), *runs("none", [0.7, 0.8]), *runs("topk", [0.2, 0.1])])
    assert [row.dataset for row in study.compared.rows] == ["COLLAB", "NCI1"]
    assert [list(row.results) for row in study.compared.rows] == [["component", "gin"], ["component"]]
    assert [(row.dataset, list(row.results)) for row in study.replacements.rows] == [
        ("NCI1", ["component", "none", "topk"])
    ]
    assert study.replacements.rows[0].best == ("component", "none")
    assert list(study.rows[1].comparisons) == ["none", "topk"]
    assert study.warnings == ("No runs of gin: NCI1.",)
    assert not collect(plain).replacements.rows


def test_only_methods_with_runs_are_columns_and_missed() -> None:
    """A method is missing on a data set if it has runs of the same recipe on another one."""
    alone = collect(runs("gin", [0.5, 0.6]))
    assert alone.methods == ("gin",)
    assert alone.warnings == ()
    paper = runs("edgepool", [0.7], recipe="paper", recipe_checksum="p")
    assert collect([*runs("component", [0.8]), *paper]).warnings == ()  # of another recipe
    study = collect([*three(), *runs("gin", [0.6], dataset="own"), *runs("component", [0.6], dataset="else")])
    assert study.warnings == ("No runs of edgepool or gin: else.", "No runs of component or edgepool: own.")
    all_missing = collect([*three(), *runs("none", [0.6], dataset="own")]).warnings
    assert all_missing == ("No runs of component, edgepool or gin: own.",)


def test_only_failed_runs() -> None:
    study = collect([*runs("component", [None, None]), *runs("gin", [0.5, 0.6])])
    assert study.rows[0].results["component"].accuracy is None
    assert study.rows[0].comparisons == {}
    assert study.rows[0].best == ()


def test_mixed_versions_and_devices_are_said() -> None:
    made = three()
    made[3] = replace(made[3], versions={"torch": "2.14.0"}, device="gpu")
    found = warned(made)
    assert "The runs mix versions of torch: 2.13.0, 2.14.0." in found
    assert "The runs mix devices: cpu, gpu; do not compare their times." in found


def test_of_several_settings_the_one_with_most_runs_is_taken() -> None:
    made = [*runs("component", [0.8, 0.7, 0.9]), *runs("component", [0.1, 0.2], recipe_checksum="other")]
    study: Study = collect([*made, *runs("component", [0.3], seed=7)])
    assert study.rows[0].results["component"].tests == [80.0, 70.0, 90.0]
    assert study.warnings[0] == (
        "NCI1, component: left out 3 runs of recipe fast with other settings or seeds; showing settings 0123, seed 0."
    )


def test_other_data_of_the_same_name_are_another_data_set() -> None:
    good, bad = three(data_checksum="aaaaaaaaaaaa"), runs("component", [0.1, 0.2], data_checksum="bbbbbbbbbbbb")
    study = collect([*bad, *good])
    assert [row.title for row in study.rows] == ["NCI1", "NCI1 [data bbbbbbbb]"]
    assert study.rows[0].results["component"].tests == [80.0, 82.0, 81.0, 83.0]
    assert study.rows[1].results["component"].tests == [10.0, 20.0]
    assert study.warnings[0] == (
        "NCI1: shown as NCI1 [data bbbbbbbb]: 2 runs trained on other data with this name (checksum bbbbbbbb "
        "instead of aaaaaaaa)."
    )
    assert study.num_runs == 14
    cells = [row[0].text for row in accuracy(study).rows]
    assert cells == ["NCI1", "NCI1 [data bbbbbbbb]"]


def test_other_contents_of_a_file_of_splits_are_another_data_set() -> None:
    about = {"data_checksum": "a", "recipe": "fast splits=folds"}
    first, second = (
        runs("gin", [0.1, 0.2], splits_checksum="x", **about),
        runs("gin", [0.5], splits_checksum="y", **about),
    )
    study = collect([*second, *first, *runs("gin", [0.6], data_checksum="a")])  # the last draws its splits
    assert [row.title for row in study.rows] == [
        "NCI1",
        "NCI1 (fast splits=folds)",
        "NCI1 [splits y] (fast splits=folds)",
    ]
    assert "1 run trained on other splits with this name (checksum y instead of x)" in study.warnings[0]


def test_drawn_splits_have_no_checksum() -> None:
    """Runs of a recipe file, before and after its line with the file of splits was removed."""
    read = runs("component", [0.8, 0.7], settings={"splits": "sp.json"}, splits_checksum="x")
    drawn = runs("gin", [0.5, 0.6], settings={"splits": "independent"})
    old = [replace(run, replica=2, splits_checksum="") for run in read[:1]]
    assert not any("older versions" in warning for warning in collect([*read, *drawn]).warnings)
    warning = "NCI1: 1 run of older versions without a checksum of the splits, assumed to be splits x."
    assert collect([*read, *drawn, *old]).warnings[0] == warning


def test_runs_without_a_checksum_of_their_data() -> None:
    old = three()
    assert collect(old).warnings == ()
    new = [replace(run, data_checksum="aaaaaaaaaaaa") if run.replica else run for run in old]
    study = collect(new)
    assert study.warnings == (
        "NCI1: 3 runs of older versions without a checksum of the data, assumed to be data aaaaaaaa.",
    )
    assert [len(result.runs) for result in study.rows[0].results.values()] == [4, 4, 4]


def test_the_corrected_test_takes_the_sizes_of_the_splits() -> None:
    """Differences 1, 2, 3 points: t = 2 / √(1/3 + ratio) with two degrees of freedom, p = 1 − t / √(2 + t²)."""

    def p_value(ratio: float) -> float:
        t = 2 / math.sqrt(1 / 3 + ratio)
        return 1 - t / math.sqrt(2 + t * t)

    ours, theirs = [0.71, 0.72, 0.73], [0.70, 0.70, 0.70]
    for sizes, ratio in (({"train_graphs": 10, "test_graphs": 20}, 2.0), ({}, 1 / 8)):
        study = collect([*runs("component", ours, **sizes), *runs("gin", theirs, **sizes)])
        found = study.rows[0].comparisons["gin"]
        assert found.ratio == ratio
        assert found.corrected is not None
        assert found.corrected.p_value == pytest.approx(p_value(ratio))
        assert f"test to training graphs: {ratio:g})" in p_values(study).note
    half = collect([*runs("component", ours, train_graphs=10, test_graphs=20), *runs("gin", theirs)])
    assert half.rows[0].comparisons["gin"].ratio == 2.0  # of the same splits: one of both knows


def test_curves_are_percentiles_of_the_runs() -> None:
    made = []
    for replica in range(11):
        curves = {
            "loss": [replica, None],
            "validation": [0.1, 0.2],
            "validation_loss": [0.5, 0.25],
            "test": [0.5, 0.6 + replica],
            "kept": [[1.0], [0.5]],
        }
        made.append(example(replica, curves=curves))
    curves = collect(made).rows[0].results["component"].curves
    assert list(curves) == ["validation", "test", "loss", "validation_loss", "kept"]
    assert curves["loss"][:, 0].tolist() == [1.0, 5.0, 9.0]  # of 0 to 10
    assert np.isnan(curves["loss"][:, 1]).all()
    assert curves["kept"].tolist() == [[100.0, 50.0]] * 3
    assert curves["validation"].tolist() == [[10.0, 20.0]] * 3
    assert curves["validation_loss"].tolist() == [[0.5, 0.25]] * 3
    two = [example(0, kept=[0.5, 0.25], curves={"kept": [[0.5, 0.25], [0.4, 0.2]]})]
    assert list(collect(two).rows[0].results["component"].curves) == ["kept 1", "kept 2"]


def test_a_metric_that_the_task_does_not_have() -> None:
    about = {"task": "classification", "chosen": "accuracy", "test": {"accuracy": 0.75}, "validation": {}}
    measured, failed = runs("gin", [0.75], metrics=about), runs("component", [None])
    with pytest.raises(ValueError, match=r"one of accuracy, .* for NCI1 \(classification\); got 'mae'$"):
        collect([*measured, *failed], metric="mae")
    with pytest.raises(ValueError, match="1 of 1 runs have no f1, which --metric f1 needs; runs recorded before"):
        collect(measured, metric="f1")
    regression = {"task": "regression", "chosen": "rmse", "test": {"mae": 2.0}, "validation": {"mae": 3.0}}
    study = collect([*measured, *runs("gin", [0.5], dataset="numbers", metrics=regression)], metric="mae")
    assert [(row.dataset, row.results["gin"].tests) for row in study.rows] == [("numbers", [2.0])]
    assert study.warnings == ("1 of 2 runs have no mae and are left out.",)


def test_a_metric_that_is_not_defined_is_not_missing() -> None:
    about = {"task": "classification", "chosen": "accuracy", "validation": {"roc_auc": None}, "test": {"roc_auc": None}}
    study = collect(runs("gin", [0.5, 0.6], metrics=about), metric="roc_auc")
    result = study.rows[0].results["gin"]
    assert (result.undefined, result.tests) == (2, [])
    assert study.warnings == ("NCI1, gin: the test ROC AUC of 2 of 2 runs is not defined; they are not counted.",)


def test_another_epoch_may_count() -> None:
    curves = {
        "loss": [2.0, 1.0, 0.5, 0.4],
        "validation": [0.1, 0.9, 0.9, 0.2],
        "validation_loss": [None, 0.3, 0.3, 0.5],
        "test": [0.4, 0.5, 0.6, 0.7],
        "kept": [[1.0], [0.8], [0.6], [0.4]],
    }
    trained = example(0, curves=curves, test=0.6, validation=0.9, epoch=3, kept=[0.6])
    lost = runs("component", [None])
    expected = {"best": (60.0, 60.0, 3), "first": (50.0, 80.0, 2), "last": (70.0, 40.0, 4), "loss": (50.0, 80.0, 2)}
    for rule, (test, kept, epoch) in expected.items():
        study = collect([trained, replace(lost[0], replica=1)], rule)
        result = study.rows[0].results["component"]
        assert (result.tests, result.kept, result.done[0].epoch) == ([test], [kept], epoch)
        assert result.failed == 1
        assert PICKS[rule] in accuracy(study).note
    with pytest.raises(ValueError, match="must be one of best, first, last, loss; got 'worst'"):
        collect([], "worst")
    with pytest.raises(ValueError, match="1 of 1 runs have no curves, which the rule last needs; compool runs"):
        collect([replace(trained, curves={})], "last")
    for losses in ([], [None] * 4):
        old = replace(trained, curves=curves | {"validation_loss": losses})
        with pytest.raises(ValueError, match="2 of 2 runs have no validation losses, which the rule loss needs"):
            collect([old, replace(old, replica=1)], "loss")
    left_out = replace(old, recipe_checksum="other", replica=5)
    study = collect([trained, replace(trained, replica=1), left_out], "loss")
    assert study.rows[0].results["component"].tests == [50.0, 50.0]
    assert "1 of 3 runs have no validation losses and are left out." in study.warnings


def measured(metric: str) -> dict[str, object]:
    return {"metrics": {"chosen": metric, "task": "classification"}, "recipe_checksum": metric}


def test_different_metrics_are_not_compared() -> None:
    ours = runs("component", [0.90, 0.92, 0.91], **measured("roc_auc"))
    study = collect([*ours, *runs("gin", [0.70, 0.72, 0.71], **measured("accuracy"))])
    assert [(row.title, row.metric.title, list(row.results)) for row in study.rows] == [
        ("NCI1 (fast, ROC AUC)", "ROC AUC", ["component"]),
        ("NCI1 (fast, accuracy)", "accuracy", ["gin"]),
    ]
    assert [(row.best, row.comparisons) for row in study.rows] == [((), {}), ((), {})]
    assert study.warnings == (
        "NCI1 (fast, ROC AUC): not compared with NCI1 (fast, accuracy), because their runs have another metric; "
        "`compool report --metric NAME` shows the same metric of all runs.",
    )
    table = accuracy(study)
    assert [[cell.text for cell in row[1:]] for row in table.rows] == [
        ["ROC AUC, %", "91.0 ± 1.0", "–", "–", "–"],
        ["accuracy, %", "–", "72.2 ± 3.5", "71.0 ± 1.0", "79.5 ± 2.0"],
    ]
    assert [(record["method"], record["metric"]) for record in table.records] == [
        ("component", "ROC AUC"),
        ("gin", "accuracy"),
    ]


def test_failed_runs_do_not_divide_a_row() -> None:
    """The metric of runs that all failed may be unknown."""
    ours, lost = runs("component", [0.9, 0.92], **measured("roc_auc")), runs("none", [None, None])
    (row,) = collect([*ours, *lost]).rows
    assert list(row.results) == ["component", "none"]
    first, second = collect([*ours, *lost, *runs("gin", [0.7, 0.6], **measured("accuracy"))]).rows
    assert (list(first.results), list(second.results)) == (["component"], ["gin", "none"])

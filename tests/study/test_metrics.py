"""Metrics and losses of a study: beside scikit-learn's, and through training, store and report."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as reference
from sklearn.utils.class_weight import compute_class_weight
from torch_geometric.loader import DataLoader
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.data import community_count, community_labels, split
from compool.replicas.losses import Loss, balanced_weights
from compool.report.class_tables import class_tables
from compool.report.collection import collect
from compool.report.tables import accuracy
from compool.study.evaluation import details, metric_value, metric_values
from compool.study.kept import best_run, kept_network
from compool.study.metrics import METRICS, metric_of_runs
from tests.study.blocks import interrupt, planned, small, told
from tests.study.test_own_network import NET
from tests.study.test_store import example

run = CliRunner()
NAN = float("nan")


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_classes_are_scikit_learns(classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    y, logits = random.integers(0, classes, 40), random.normal(size=(40, classes))
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    guess, positive = logits.argmax(1), probability[:, 1] if classes == 2 else probability
    one_hot = np.eye(classes)[y]
    expected = {
        "accuracy": reference.accuracy_score(y, guess),
        "balanced_accuracy": reference.balanced_accuracy_score(y, guess),
        "f1": reference.f1_score(y, guess, average="macro"),
        "roc_auc": reference.roc_auc_score(y, positive, multi_class="ovr"),
        "average_precision": reference.average_precision_score(y if classes == 2 else one_hot, positive),
    }
    target = torch.from_numpy(y)
    assert metric_values("classification", torch.from_numpy(logits), target) == pytest.approx(expected, abs=2e-6)
    if classes == 2:  # one logit says the same as two
        one = torch.from_numpy(logits[:, 1:] - logits[:, :1])
        assert metric_values("classification", one, target) == pytest.approx(expected, abs=2e-6)
    shown = details("classification", torch.from_numpy(logits), target)
    assert shown["confusion"] == reference.confusion_matrix(y, guess).tolist()
    assert shown["recall"] == pytest.approx(reference.recall_score(y, guess, average=None), abs=2e-6)
    assert shown["precision"] == pytest.approx(
        reference.precision_score(y, guess, average=None, zero_division=0), abs=2e-6
    )


def test_metrics_of_labels_leave_out_what_is_missing() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, (30, 3)).astype(np.float32)
    y[random.random(y.shape) < 0.3] = NAN
    y[:, 2] = np.where(np.isnan(y[:, 2]), NAN, 1)  # of one value: not defined
    logits = random.normal(size=y.shape)
    known = [~np.isnan(y[:, label]) for label in range(2)]
    expected = {
        "roc_auc": np.mean([reference.roc_auc_score(y[m, i], logits[m, i]) for i, m in enumerate(known)]),
        "average_precision": np.mean(
            [reference.average_precision_score(y[m, i], logits[m, i]) for i, m in enumerate(known)]
        ),
        "f1": np.mean([reference.f1_score(y[m, i], logits[m, i] > 0) for i, m in enumerate(known)]),
        "accuracy": reference.accuracy_score(y[~np.isnan(y)], logits[~np.isnan(y)] > 0),
    }
    assert metric_values("multilabel", torch.from_numpy(logits), torch.from_numpy(y)) == pytest.approx(
        expected, abs=2e-6
    )
    assert details("multilabel", torch.from_numpy(logits), torch.from_numpy(y))["roc_auc"][2] is None


def test_metrics_of_numbers() -> None:
    y, logits = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([[1.5], [2.0], [2.0]])
    expected = {"mae": 2.5 / 3, "rmse": ((0.25 + 4.0) / 3) ** 0.5}
    assert metric_values("regression", logits, y) == pytest.approx(expected, abs=1e-6)
    assert details("regression", logits, y) == {}


def test_confident_predictions_are_ranked_by_their_logits() -> None:
    y, logit = torch.tensor([0, 1, 0, 1]), torch.tensor([40.0, 50.0, 60.0, 70.0])
    assert metric_value("roc_auc", "classification", logit.unsqueeze(1), y) == 0.75
    assert metric_value("roc_auc", "classification", torch.stack([-logit, logit], 1), y) == 0.75
    assert metric_value("roc_auc", "multilabel", logit.unsqueeze(1), y.unsqueeze(1).float()) == 0.75
    assert metric_value("accuracy", "classification", torch.ones(10, 1), torch.arange(10) // 3 % 3 % 2) == 0.3


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_confident_predictions_of_several_classes_do_not_tie(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    y, logits = torch.arange(30) % 3, 40 * torch.randn(30, 3, generator=generator)
    others = [[1, 2], [0, 2], [0, 1]]
    odds = torch.stack([logits[:, c] - logits[:, others[c]].double().logsumexp(1) for c in range(3)], 1)
    metric = {"roc_auc": reference.roc_auc_score, "average_precision": reference.average_precision_score}[name]
    expected = np.mean([metric(y == c, odds[:, c]) for c in range(3)])
    assert metric_value(name, "classification", logits, y) == pytest.approx(expected)


def test_tied_predictions_are_scikit_learns() -> None:
    y, logit = torch.tensor([0, 1, 0, 1, 1]), torch.tensor([[0.0], [0.0], [1.0], [1.0], [2.0]])
    assert metric_value("roc_auc", "classification", logit, y) == pytest.approx(reference.roc_auc_score(y, logit))
    expected = reference.average_precision_score(y, logit)
    assert metric_value("average_precision", "classification", logit, y) == pytest.approx(expected)


def test_f1_counts_a_class_that_is_only_predicted() -> None:
    y, logits = torch.tensor([0, 0, 1]), torch.eye(3)[[0, 2, 1]]
    expected = reference.f1_score(y, logits.argmax(1), average="macro")
    assert metric_value("f1", "classification", logits, y) == pytest.approx(expected)


def test_metrics_that_are_not_defined() -> None:
    ones = torch.ones(4, dtype=torch.long)
    assert np.isnan(metric_value("roc_auc", "classification", torch.randn(4, 2), ones))
    assert np.isnan(metric_value("mae", "regression", torch.tensor([[NAN]]), torch.tensor([1.0])))
    assert metric_values("classification", torch.randn(4, 2), ones)["average_precision"] is None


def test_losses_are_torchs() -> None:
    """With two replicas, of which one has a graph less."""
    y, ids = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([[0, 1, 2], [3, 4, -1]])
    logits = torch.randn(2, 3, 3)
    weights = torch.rand(2, 3) + 0.1
    for kind, given in (("plain", None), ("weighted", weights)):
        wanted = [
            float(F.cross_entropy(*part, weight=None if given is None else given[replica]))
            for replica, part in enumerate(((logits[0], y[:3]), (logits[1, :2], y[3:])))
        ]
        assert Loss("cross_entropy", given).of(logits, y, ids).tolist() == pytest.approx(wanted), kind
    targets = torch.randn(5, 3)
    for kind, function in (("l1", F.l1_loss), ("l2", F.mse_loss)):
        wanted = [float(function(logits[0], targets[:3])), float(function(logits[1, :2], targets[3:]))]
        assert Loss(kind).of(logits, targets, ids).tolist() == pytest.approx(wanted)
    labels = (targets > 0).float()
    labels[0, 1] = labels[4, 2] = NAN
    parts = ((logits[0], labels[:3]), (logits[1, :2], labels[3:]))
    wanted = [float(F.binary_cross_entropy_with_logits(a[~b.isnan()], b[~b.isnan()])) for a, b in parts]
    assert Loss("bce").of(logits, labels, ids).tolist() == pytest.approx(wanted)
    logits.requires_grad_()
    Loss("bce").of(logits, labels, ids).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_balanced_weights_are_scikit_learns() -> None:
    y, ids = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([[0, 1, 2, 3, 4, 5], [0, 2, 3, 4, -1, -1]])
    for row, graphs in zip(balanced_weights(y, ids, 3), ids, strict=True):
        members = y[graphs[graphs >= 0]].numpy()
        assert row.tolist() == pytest.approx(compute_class_weight("balanced", classes=np.arange(3), y=members))


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("method", ["component", "own"])
@pytest.mark.parametrize("metric", ["f1", "roc_auc"])
def test_the_metric_picks_the_epoch(method: str, metric: str, tmp_path: Path, every_epoch: None) -> None:
    """Its curves are those of a training stopped at each epoch, and the best epoch is the latest of the best."""
    (tmp_path / "mine.py").write_text(NET)
    name = f"{tmp_path / 'mine.py'}:Net" if method == "own" else method
    path, recipe = tmp_path / "study.sqlite", small(name, epochs=4, metric=metric)
    block = planned(path, recipe, number=2)[0]
    whole = study.train_block(replace(block, checkpoint_folder=None))
    one = whole[0]
    assert block.metric == one.metrics["chosen"] == metric
    best = max(range(4), key=lambda epoch: (one.curves["validation"][epoch], epoch))
    assert one.epoch == best + 1
    assert one.validation == pytest.approx(one.metrics["validation"][metric], abs=1e-5)
    assert one.test == pytest.approx(one.metrics["test"][metric], abs=1e-5)
    assert one.test == pytest.approx(one.curves["test"][best], abs=1e-5)
    plain = study.train_block(replace(block, recipe=small(name, epochs=4), checkpoint_folder=None))[0]
    assert plain.curves["loss"] == one.curves["loss"]  # the metric changes nothing in training
    assert plain.metrics["chosen"] == "accuracy"
    assert plain.test == pytest.approx(plain.metrics["test"]["accuracy"], abs=1e-6)
    interrupt(block, 2)
    assert told(study.train_block(planned(path, recipe, number=2)[0])) == told(whole)


@pytest.mark.usefixtures("few_graphs")
def test_a_confusion_matrix_counts_the_test_graphs(tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    list(study.train_here(planned(store.path, small()), store))
    row = collect(store.runs()).rows[0]
    (table,) = class_tables(row)
    assert table.header == ("class", "precision", "recall", "f1", "graphs", "as 0", "as 1", "as 2")
    confusion = sum(np.array(one.metrics["details"]["confusion"]) for one in store.runs())
    assert confusion.sum() == sum(one.test_graphs for one in store.runs())
    assert confusion.dtype == np.int64
    assert [cells[4].text for cells in table.rows] == [str(count) for count in confusion.sum(1)]
    assert table.note.startswith("Test graphs of 3 runs at the picked epoch: mean ± standard deviation, in percent.")
    (single,) = class_tables(collect([next(store.runs())]).rows[0])
    assert single.note.startswith("Test graphs of one run at the picked epoch, in percent.")
    right = [float(cells[5 + index].text) for index, cells in enumerate(table.rows)]
    assert right == pytest.approx(100 * np.diag(confusion) / confusion.sum(1), abs=0.06)
    accuracy = sum(one.test * one.test_graphs for one in store.runs())
    assert np.diag(confusion).sum() == pytest.approx(accuracy)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dataset", ["community-count", "community-labels"])
def test_regression_and_several_labels(
    dataset: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the command to the report."""
    graphs = community_count(120) if dataset == "community-count" else community_labels(120)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    (tmp_path / "mine.py").write_text(NET)
    method = f"{tmp_path / 'mine.py'}:Net" if own else "component,gin"
    store = tmp_path / "study.sqlite"
    command = ["run", dataset, "--method", method, "--replicas", "2", "--epochs", "6", "--workers", "1", "--no-report"]
    result = run.invoke(app, [*command, "--device", "cpu", "--store", str(store)])
    assert result.exit_code == 0, result.stderr
    name = "mae" if dataset == "community-count" else "roc_auc"
    assert name in result.stdout
    runs = list(study.Store(store).runs())
    assert {(one.metrics["chosen"], one.metrics["task"]) for one in runs} == {(name, graphs.task)}
    for one in runs:
        assert one.curves["loss"][-1] < one.curves["loss"][0]
        parts = split(graphs, one.replica, 0)
        values = [value for value in one.curves["validation"] if value is not None]
        choose = min if name == "mae" else max
        assert one.validation == pytest.approx(choose(values), abs=1e-5)
        if one.method == "component":  # the stored weights make the stored number
            network = kept_network(one, study.Store(store).weights(one), graphs.num_features, graphs.num_classes)
            (batch,) = DataLoader([graphs[int(graph)] for graph in parts.test], batch_size=99)
            logits = network(batch.x, batch.edge_index, batch.batch).detach()
            assert metric_value(name, graphs.task, logits, torch.from_numpy(graphs.y[parts.test])) == pytest.approx(
                one.test, abs=1e-4
            )
    report = run.invoke(app, ["report", "--store", str(store), "--out", str(tmp_path / "report")])
    assert report.exit_code == 0, report.stderr
    assert METRICS[name].title in report.stdout
    page = (tmp_path / "report" / "index.html").read_text()
    assert METRICS[name].title in page
    assert ("labels" in page) == (name == "roc_auc" or "labels" in dataset)
    other = "rmse" if name == "mae" else "average_precision"
    again = run.invoke(app, ["report", "--store", str(store), "--metric", other, "--out", str(tmp_path / "again")])
    assert METRICS[other].title in again.stdout


def test_lower_is_better_where_it_is(tmp_path: Path) -> None:
    """The method of the lower error is the best, its run is the best, and it has rank 1."""
    metrics = {"chosen": "mae", "task": "regression", "validation": {"mae": 0.5}, "test": {"mae": 0.5}}
    errors = {"component": (2.0, 2.1, 2.2, 2.05), "gin": (1.0, 1.1, 0.9, 1.05)}
    runs = [
        example(replica, method=method, test=error, validation=error, metrics=metrics, recipe_checksum=method)
        for method, values in errors.items()
        for replica, error in enumerate(values)
    ]
    (row,) = collect(runs).rows
    assert row.best == ("gin",)
    assert row.comparisons["gin"].corrected.difference == pytest.approx(1.075)
    assert best_run(runs).test == 0.9
    failed = example(9, status="failed", test=None, validation=None, reason="its loss is NaN")
    assert best_run([failed, *runs]).test == 0.9
    assert best_run([replace(runs[0], validation=None), runs[1]]) == runs[1]
    tied = [replace(runs[0], replica=replica) for replica in (3, 1, 2)]
    assert best_run(tied).replica == 1
    with pytest.raises(ValueError, match="no training of component on NCI1 finished: its loss is NaN"):
        best_run([failed])
    first = collect([example(0, metrics=metrics, epoch=2)], "first").rows[0].results["component"].runs[0]
    assert first.epoch == 1  # of validation 0.5 and 0.8, the lower


def test_the_metric_of_runs_is_that_of_finished_ones() -> None:
    """A report with another metric changes finished runs only."""
    about = {"task": "regression", "chosen": "mae"}
    finished = example(1, metrics=about | {part: {"mae": 2.0, "rmse": 3.0} for part in ("validation", "test")})
    failed = example(0, status="failed", test=None, metrics=about)
    (row,) = collect([failed, finished], metric="rmse").rows
    assert row.metric == row.results["component"].metric == METRICS["rmse"]
    assert row.results["component"].tests == [3.0]
    assert metric_of_runs([failed]) == "mae"
    lost = replace(failed, metrics={}, settings={"metric": "roc_auc"})  # its worker was lost
    assert metric_of_runs([lost]) == "roc_auc"
    assert accuracy(collect([lost])).title == "Test metric"
    assert metric_of_runs([replace(lost, settings={"metric": "auto"}), finished]) == "mae"
    (row,) = collect([replace(lost, settings={}), replace(finished, method="gin")]).rows
    assert row.metric == METRICS["mae"]


@pytest.mark.usefixtures("few_graphs")
def test_a_metric_that_is_never_defined_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compool.study.training.metric_value", lambda *_: NAN)
    (one,) = study.train_block(study.Block(small(metric="roc_auc"), 0, (0,)))
    assert (one.status, one.test) == ("failed", None)
    assert one.reason == "its metric, roc_auc, is not defined on its validation graphs"


def test_a_run_that_failed_at_once_has_the_metric_of_its_task() -> None:
    recipe = study.recipe("component", "community-labels", epochs=1, hidden=4, lr=1e30, optimizer="adam")
    (failed,) = study.train_block(study.Block(recipe, 0, (0,)), graphs=community_labels(60))
    assert (failed.status, failed.epoch, failed.settings["metric"]) == ("failed", None, "auto")
    assert failed.metrics == {"task": "multilabel", "chosen": "roc_auc"}
    (row,) = collect([failed]).rows
    assert row.metric == METRICS["roc_auc"]


@pytest.mark.usefixtures("few_graphs")
def test_class_weights_change_the_training(tmp_path: Path) -> None:
    plain, balanced = (
        study.train_block(study.Block(small(class_weights=kind), 0, (0,)))[0] for kind in ("none", "balanced")
    )
    assert plain.curves["loss"] != balanced.curves["loss"]
    assert plain.recipe_checksum != balanced.recipe_checksum
    assert json.loads(json.dumps(balanced.settings))["class_weights"] == "balanced"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "--metric", "speed"],
            "metric must be one of auto, accuracy, balanced_accuracy, f1, roc_auc, average_pre",
        ),
        (
            ["run", "--metric", "mae"],
            "metric must be one of accuracy, balanced_accuracy, f1, roc_auc, average_precision f",
        ),
        (["run", "--set", "loss=l1"], "loss must be one of cross_entropy for communities (classification); got 'l1'"),
        (["run", "--set", "loss=huber"], "loss must be one of auto, cross_entropy, bce, l2, l1; got 'huber'"),
        (["run", "--set", "class_weights=3"], "class_weights must be text, got 3"),
        (["run", "--set", "class_weights=all"], "class_weights must be one of none, balanced; got 'all'"),
        (
            ["run", "community-count", "--metric", "f1"],
            "metric must be one of mae, rmse for community-count (regression)",
        ),
        (
            ["run", "community-count", "--set", "class_weights=balanced"],
            "class_weights must be none for community-count",
        ),
        (
            ["run", "community-count", "--set", "splits=stratified"],
            "a stratified split needs classes, but community-coun",
        ),
        (
            ["report", "--metric", "speed", "--store", "{store}"],
            "metric must be one of accuracy, balanced_accuracy, f1",
        ),
        (
            ["report", "--metric", "f1", "--store", "{store}"],
            "1 of 1 runs have no f1, which --metric f1 needs; runs rec",
        ),
        (["report", "--metric", "f1", "--pick", "last", "--store", "{store}"], "metrics are stored for the best epoch"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_mistakes_are_told_in_a_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    study.Store(tmp_path / "study.sqlite").add([example(0)])
    arguments = [text.format(store=tmp_path / "study.sqlite") for text in arguments]
    result = run.invoke(app, [*arguments, *(["--dry-run"] if arguments[0] == "run" else [])])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"compool: {message}")
    assert result.stderr.count("\n") == 1

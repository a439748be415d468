"""The weights of the best epoch of each run: from the training through checkpoints, workers and the store."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from compool import data, replicas, study
from compool.cli import app
from compool.replicas.trainer import Curves, Trained, TrainingSettings, train
from compool.study import recipe_data
from compool.study.runs import decode_weights, encode_weights
from tests.study.blocks import interrupt, longer, planned
from tests.study.test_store import example


def stacked_networks(letters: str, device: str = "cpu") -> replicas.NetworkStack | replicas.GINStack:
    """Three replicas of a network."""
    torch.manual_seed(3)
    settings = study.recipe("component", "communities", layers=letters, hidden=4).network_settings(4, 3)
    return replicas.stack([settings.network() for _ in range(3)]).to(device)


def train_stack(stack: replicas.NetworkStack | replicas.GINStack, epochs: int, **others: Any) -> Trained:
    """Train three replicas, each at another learning rate."""
    graphs, device = data.communities(60), next(stack.parameters()).device
    keys, splits = torch.tensor([5, 6, 7], device=device), [data.split(graphs, replica) for replica in range(3)]
    settings = TrainingSettings(epochs, 8, torch.tensor([0.05, 0.01, 0.002]), 50, torch.zeros(3))
    return train(stack, replicas.Graphs(graphs, data.features(graphs), device), splits, keys, settings, **others)


@pytest.mark.parametrize("letters", ["CPCL", "SESL", "GPGL"])
def test_the_weights_are_those_of_the_best_epoch(letters: str, device: str) -> None:
    """By a copy of all weights after each epoch, bitwise; G has running statistics. On a GPU, steps are captured."""
    stack, copies = stacked_networks(letters, device), list[dict[str, Tensor]]()

    def copy(epoch: int, curves: Curves) -> None:
        copies.append({name: tensor.clone() for name, tensor in stack.state_dict().items()})

    trained = train_stack(stack, 10, on_epoch=copy)
    best = trained.epoch.tolist()
    assert len(set(best)) > 1, "the replicas must differ, or nothing is masked"
    for replica, epoch in enumerate(best):
        for name, tensor in trained.weights.items():
            assert torch.equal(tensor[replica], copies[epoch - 1][name][replica]), (name, replica)
    assert trained.weights.keys() == stack.state_dict().keys()
    assert any("running_var" in name for name in trained.weights) == (letters == "GPGL")


def test_a_resumed_training_has_the_best_weights_of_before() -> None:
    saved: dict[int, dict[str, Tensor]] = {}

    def save(epoch: int, state: Callable[[], dict[str, Tensor]]) -> None:
        saved[epoch] = {name: tensor.clone() for name, tensor in state().items()}

    whole = train_stack(stacked_networks("GPGL"), 8, save=save)
    resumed_at = int(whole.epoch.min())  # what was best then is best in the end for one replica at least
    again = train_stack(stacked_networks("GPGL"), 8, start=saved[resumed_at])
    for name, tensor in whole.weights.items():
        assert torch.equal(again.weights[name], tensor), name


def test_a_checkpoint_of_an_older_version_restarts(caplog: pytest.LogCaptureFixture) -> None:
    saved: dict[str, Tensor] = {}
    train_stack(stacked_networks("CPCL"), 3, save=lambda epoch, state: saved.update(state()))
    old = {name: tensor for name, tensor in saved.items() if not name.startswith("weights.")}
    epochs: list[int] = []
    train_stack(stacked_networks("CPCL"), 3, start=old, on_epoch=lambda epoch, curves: epochs.append(epoch))
    assert epochs == [1, 2, 3]
    assert "the saved state does not fit these networks; restarting" in caplog.text


@pytest.mark.usefixtures("few_graphs", "every_epoch")
@pytest.mark.parametrize("method", study.METHODS)
def test_a_study_keeps_them_and_they_give_the_stored_accuracies(method: str, tmp_path: Path) -> None:
    """Also after an interruption, and bitwise."""
    path, recipe = tmp_path / "study.sqlite", longer(method, dropout=0.3, lr=0.02)
    (block,) = planned(path, recipe)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    interrupt(block, 3)
    list(study.train_here(planned(path, recipe), study.Store(path)))
    store, graphs = study.Store(path), recipe_data.load_data(recipe, None)
    features = data.features(graphs, recipe.features)
    runs = list(store.runs())
    assert len(runs) == 3
    for run, uninterrupted in zip(runs, whole, strict=True):
        weights = decode_weights(store.weights(run))
        for name, tensor in decode_weights(uninterrupted.weights).items():
            assert torch.equal(weights[name], tensor)
        network = recipe.network(features.width, graphs.num_classes)
        network.load_state_dict(weights)
        split = data.split(graphs, run.replica)
        for part, accuracy in (("test", run.test), ("validation", run.validation)):
            right = [_guess(network, graphs, features, index) == graphs.y[index] for index in getattr(split, part)]
            assert sum(right) / len(right) == pytest.approx(accuracy, abs=1e-6)


def _guess(network: torch.nn.Module, graphs: data.GraphSet, features: data.Features, index: int) -> int:
    """The class of a graph, by PyG's layers."""
    nodes = slice(int(graphs.node_ptr[index]), int(graphs.node_ptr[index + 1]))
    x = torch.from_numpy(features.dense(nodes))
    return int(network.eval()(x, graphs[index].edge_index).argmax())


@pytest.mark.usefixtures("few_graphs")
def test_a_run_that_failed_at_once_has_none(tmp_path: Path) -> None:
    recipe = longer(lr=1e30, optimizer="adam", weight_decay=0)
    store = study.Store(tmp_path / "study.sqlite")
    (runs,) = study.train_here(planned(store.path, recipe, number=1), store)
    assert (runs[0].status, runs[0].epoch, runs[0].weights) == ("failed", None, b"")


def test_workers_send_them_or_leave_them_out(tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    with_weights, without = planned(store.path, longer(epochs=1), number=2, size=1)
    blocks = [with_weights, replace(without, keep_weights=False)]
    list(study.train_on_workers(blocks, store, 2))
    assert [bool(store.weights(run)) for run in store.runs()] == [True, False]


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize(("option", "kept"), [("--weights", True), ("--no-weights", False)])
def test_no_weights_leaves_them_out(option: str, kept: bool, tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    command = f"run --method component --replicas 2 --epochs 1 --workers 1 --device cpu --store {path} {option}"
    result = CliRunner().invoke(app, [*command.split(), "--no-report"])
    assert result.exit_code == 0, result.output
    store = study.Store(path)
    assert [bool(store.weights(run)) for run in store.runs()] == [kept, kept]


WEIGHTS = encode_weights({"a": torch.arange(3.0), "b": torch.tensor(2)})


def test_they_belong_to_the_run_that_is_stored(tmp_path: Path) -> None:
    """Of two trainings of the same run the first counts, with its weights or without."""
    store = study.Store(tmp_path / "study.sqlite")
    store.add([example(0, weights=WEIGHTS), example(1)])
    later = "2026-11-16T12:00:00+00:00"
    store.add([example(0, weights=b"other", finished=later), example(1, weights=WEIGHTS, finished=later)])
    assert [store.weights(run) for run in store.runs()] == [WEIGHTS, b""]
    store.add([example(0)])  # the same run, from an export
    assert store.weights(example(0)) == WEIGHTS
    assert store.weights(replace(example(0), dataset="NCI1 [data 01234567]")) == WEIGHTS  # as a report calls it
    assert store.weights(example(2)) == b""


def test_all_or_none(tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    with pytest.raises(ValueError, match="cannot store this run"):
        store.add([example(0, weights=WEIGHTS), example(1, status="lost", weights=WEIGHTS)])
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM weights").fetchone() == (0,)


def test_listing_runs_does_not_read_them(tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    store.add([example(0, weights=WEIGHTS)])
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DROP TABLE weights")
    (run,) = store.runs()
    assert run == example(0)
    assert run.weights == b""
    for option in ("--json", "--csv"):
        output = CliRunner().invoke(app, ["runs", option, "--store", str(store.path)]).stdout
        assert "weights_checksum" in output
        assert '"weights"' not in output.replace("weights_checksum", "")
        assert ",weights," not in f",{output.splitlines()[0]},"


def test_damage_is_found(tmp_path: Path) -> None:
    """A flipped bit in the weights, and in their run: the run that replaces it has its own."""
    store = study.Store(tmp_path / "study.sqlite")
    store.add([example(0, weights=WEIGHTS)])
    flipped = bytearray(WEIGHTS)
    flipped[-1] ^= 1
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("UPDATE weights SET tensors = ?", (bytes(flipped),))
        with pytest.raises(ValueError, match="do not match its checksum"):
            decode_weights(store.weights(example(0)))
        connection.execute("UPDATE runs SET test = 0.5")
    store.add([example(0, weights=WEIGHTS)])
    assert store.weights(example(0)) == WEIGHTS
    for content in (b"", b"\0" * 20, WEIGHTS[:-3], b"\xff" * 40):
        with pytest.raises(ValueError, match="not in the safetensors format"):
            decode_weights(content)


def test_own_networks_hand_over_the_same_form() -> None:
    """Tensors that are views, shared, on integers, or without dimensions."""
    shared = torch.randn(4, 3)
    given = {"a": shared, "b": shared, "c": shared.t(), "d": torch.tensor(3), "e": shared[1:, 1], "f": torch.zeros(0)}
    back = decode_weights(encode_weights(given))
    assert back.keys() == given.keys()
    assert all(torch.equal(back[name], tensor) and back[name].dtype == tensor.dtype for name, tensor in given.items())

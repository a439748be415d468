import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from compool import ComponentPooling, data, nn, ops
from compool.report import drawing, networks
from compool.report.collection import collect
from compool.report.levels import centres, inspect_graph, layout
from compool.study import Run, Store, recipe, train_block
from compool.study.block import Block
from compool.study.kept import find_run, recipe_of
from compool.study.runs import decode_weights
from tests.study.test_store import example


@pytest.fixture(scope="module")
def graphs() -> data.GraphSet:
    return data.communities(9)


def test_levels_are_what_the_layers_did(graphs: data.GraphSet) -> None:
    network = nn.Network("CPCPL", in_channels=4, hidden=8, num_classes=3, dropout=0.5)
    shown = inspect_graph(network, graphs, 4)
    assert network.training
    network.eval()
    x = network.layers[0](graphs[4].x, graphs[4].edge_index).relu()
    out = network.layers[1](x, graphs[4].edge_index)
    first, second = shown.levels
    assert first.cluster.tolist() == out.cluster.tolist()
    assert first.edge_score.tolist() == out.edge_score.tolist()
    assert second.edge_index.tolist() == out.edge_index.tolist()
    assert len(second.cluster) == first.num_supernodes == out.x.size(0)
    guess = int(network(graphs[4].x, graphs[4].edge_index).argmax())
    assert shown.verdict == f"true class 1, predicted {guess} ({'correct' if guess == 1 else 'wrong'})"
    assert (shown.label, shown.index, shown.dataset) == (1, 4, "communities")


def test_numbers_and_labels_are_shown_beside_what_is_predicted() -> None:
    numbers, labels = data.community_count(6), data.community_labels(6)
    network = nn.Network("PCL", numbers[0].num_features, 8, 2, outputs=1)
    predicted = network.eval()(numbers[2].x, numbers[2].edge_index).item()
    shown = inspect_graph(network, numbers, 2)
    assert shown.verdict == f"target {float(numbers.y[2]):.4g}; predicted {predicted:.4g}"
    assert (shown.label, shown.probabilities) == (None, ())
    num_labels = labels[0].y.numel()
    network = nn.Network("PCL", labels[0].num_features, 8, num_labels, outputs=num_labels)
    true = ", ".join(str(label) for label in range(num_labels) if labels[3].y.flatten()[label] == 1)
    assert inspect_graph(network, labels, 3).verdict.startswith(f"true labels {true or 'none'}; predicted ")


def test_the_result_of_a_regression_is_not_a_percentage() -> None:
    run = replace(example(0), test=0.5, metrics={"chosen": "mae", "task": "regression"})
    about = networks.describe_network(run, "0.51")
    assert "(best validation mean absolute error), test mean absolute error 0.5; trained again, 0.51." in about
    assert "test mean absolute error not defined." in networks.describe_network(replace(run, test=None))


@pytest.mark.parametrize("threshold", [-1.0, -0.1, 0.0, 0.3, 1.0])
def test_another_threshold(graphs: data.GraphSet, threshold: float) -> None:
    network = nn.Network("PCL", in_channels=4, hidden=8, num_classes=3)
    level = inspect_graph(network, graphs, 0, threshold=threshold).levels[0]
    expected = ops.coarsen(level.edge_score, level.edge_index, 60, threshold).parts.cluster
    assert level.cluster.tolist() == expected.tolist()
    assert [pool.threshold for pool in network.modules() if isinstance(pool, ComponentPooling)] == [0.0]  # as it was


@pytest.mark.parametrize("settings", [{"merge_ratio": 0.3}, {"quantile": 0.7}, {"merge_ratio": 0.01}])
def test_a_budget_comes_to_a_threshold(graphs: data.GraphSet, settings: dict[str, float]) -> None:
    network = nn.Network("PCL", 4, 8, 3, scorer="random", reduce="sum", **settings)  # no two scores are equal
    level = inspect_graph(network, graphs, 0).levels[0]
    assert level.cluster.tolist() == network.layers[0](graphs[0].x, graphs[0].edge_index).cluster.tolist()
    assert level.cluster.tolist() == level.hierarchy.at(level.threshold).tolist()
    chosen = inspect_graph(network, graphs, 0, threshold=0.2).levels[0]  # in place of the budget
    assert chosen.cluster.tolist() == level.hierarchy.at(0.2).tolist()
    assert (network.layers[0].ratio, network.layers[0].quantile) == (
        settings.get("merge_ratio"),
        settings.get("quantile"),
    )


@pytest.mark.parametrize("score", ["tanh", "hardtanh"])
def test_the_layer_s_own_weights_with_a_budget(graphs: data.GraphSet, score: str) -> None:
    torch.manual_seed(1)
    settings = {"score": score, "merge_ratio": 0.3}
    letters = "CPL" if score == "tanh" else "PL"  # one-hot features give equal scores
    network = nn.Network(letters, 4, 8, 3, scorer="similarity", reduce="score", **settings).eval()
    shown = inspect_graph(network, graphs, 0)
    level = shown.levels[0]
    assert (level.is_budgeted, level.has_threshold) == (True, score == "tanh")
    assert level.node_weight is not None
    pool = network.layers[letters.index("P")]
    summed = torch.zeros(18, level.x.size(1)).index_add(0, level.cluster, level.node_weight[:, None] * level.x)
    torch.testing.assert_close(summed, pool(level.x, level.edge_index).x.detach())
    title = drawing.draw(shown).axes[1].get_title()
    assert title.startswith("18 supernodes (area: members)")
    assert ("threshold" in title) == (score == "tanh")


def test_a_graph_without_nodes() -> None:
    edges = torch.empty(2, 0, dtype=torch.long)
    empty = data.GraphSet.from_data([Data(torch.ones(size, 4), edges, y=size) for size in (0, 1)], "empty")
    with pytest.raises(ValueError, match="graph 0 of empty has no nodes to draw"):
        inspect_graph(nn.Network("PCL", 4, 8, 2), empty, 0)
    assert drawing.draw(inspect_graph(nn.Network("PCL", 4, 8, 2), empty, 1)).axes[0].get_title() == (
        "level 1: 1 node, 0 edges"
    )


@pytest.mark.parametrize(
    ("network", "index", "threshold", "message"),
    [
        (nn.GIN(4, 8, 3), 0, None, "network must have a component pooling layer, got none"),
        (nn.Network("PCL", 4, 8, 3), 9, None, r"index must lie in 0\.\.8, the graphs of communities; got 9"),
        (nn.Network("PCL", 4, 8, 3), -1, None, r"index must lie in 0\.\.8"),
        (nn.Network("PCL", 4, 8, 3), 0, 1.5, r"threshold must lie in -1\.\.1, the range of tanh; got 1.5"),
        (nn.Network("PCL", 5, 8, 3), 0, None, "the network takes 5 features per node, but communities has 4"),
    ],
)
def test_wrong_input(
    graphs: data.GraphSet, network: torch.nn.Module, index: int, threshold: float | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        inspect_graph(network, graphs, index, threshold=threshold)


def test_layout_keeps_parts_apart() -> None:
    ring = torch.arange(12)
    edge_index = torch.stack([ring, (ring + 1) % 12])
    two = torch.cat([edge_index, edge_index + 12], 1)  # two rings, and three nodes alone
    place = layout(two, 27)
    assert place.shape == (27, 2)
    assert np.isfinite(place).all()
    assert place.min() >= 0
    assert place.max() == pytest.approx(1)
    spans = [(place[part].min(0), place[part].max(0)) for part in (slice(12), slice(12, 24))]
    (low, high), (other_low, other_high) = spans
    assert (high < other_low).any() or (other_high < low).any()  # their boxes do not meet
    assert len({tuple(spot) for spot in place.round(6)}) == 27
    assert layout(torch.empty(2, 0, dtype=torch.long), 1).tolist() == [[0, 0]]


def test_centres_by_hand() -> None:
    place = np.array([[0.0, 0.0], [2.0, 0.0], [9.0, 9.0], [4.0, 3.0]])
    assert centres(place, torch.tensor([0, 0, 1, 0])).tolist() == [[2.0, 1.0], [9.0, 9.0]]


def test_a_picture_shows_each_level(graphs: data.GraphSet) -> None:
    shown = inspect_graph(nn.Network("PCPL", 4, 8, 3), graphs, 0, about="a $network$")
    figure = drawing.draw(shown)
    nodes = [axes.collections[-1].get_offsets() for axes in figure.axes[:4]]
    first, second = shown.levels
    assert [len(one) for one in nodes] == [60, first.num_supernodes, first.num_supernodes, second.num_supernodes]
    assert np.allclose(nodes[0], first.position)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> data.GraphSet:
    """A hundred generated graphs in studies."""
    graphs = data.communities(99)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    return graphs


def stored_study(path: Path, keep_weights: bool = True, **changes: object) -> tuple[Store, Run]:
    """Three replicas of component pooling, and the best of them."""
    settings = recipe("component", "communities", **{"epochs": 4, "hidden": 8} | changes)
    store = Store(path / "study.sqlite")
    store.add(train_block(Block(settings, 0, (0, 1, 2), keep_weights=keep_weights)))
    run = find_run(store.path, "communities", "component")
    assert run.validation == max(one.validation or 0 for one in store.runs())
    return store, run


def accuracy(network: torch.nn.Module, graphs: data.GraphSet, run: Run) -> float:
    chosen = data.split(graphs, run.replica, run.seed).test
    return sum(int(network(graphs[i].x, graphs[i].edge_index).argmax()) == graphs.y[i] for i in chosen) / len(chosen)


def not_again(*_: object) -> None:
    raise AssertionError("nothing should be trained")


def test_where_weights_are_kept_nothing_is_trained(
    tmp_path: Path, few: data.GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = stored_study(tmp_path)
    monkeypatch.setattr("compool.study.training.train_block", not_again)
    network, about = networks.network_of(run, store.path, few, None, not_again)
    assert accuracy(network, few, run) == pytest.approx(run.test, abs=1e-6)
    assert about.endswith(f"test accuracy {run.test:.1%}.")
    shown = networks.inspect_trained("communities", 5, store.path, on_training=not_again)
    assert shown.about == about
    assert shown.levels[0].cluster.tolist() == inspect_graph(network, few, 5).levels[0].cluster.tolist()
    other = networks.inspect_trained("communities", 5, store.path, replica=(run.replica + 1) % 3)
    assert f"replica {(run.replica + 1) % 3}, at epoch" in other.about
    assert [path.name for path in tmp_path.iterdir()] == ["study.sqlite"]


def test_a_run_trained_again_is_the_run(
    tmp_path: Path, few: data.GraphSet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Trained with others and stored, then again by itself: the accuracies agree."""
    store, run = stored_study(tmp_path, keep_weights=False)
    reasons: list[str] = []
    network, about = networks.network_of(run, store.path, few, None, reasons.append)
    what = f"training communities component, replica {run.replica}: "
    assert reasons == [
        f"{what}{store.path} has no weights of this run: it was trained with --no-weights, or by an older version"
    ]
    assert f"test accuracy {run.test:.1%}; trained again, {run.test:.1%}" in about
    assert accuracy(network, few, run) == pytest.approx(run.test, abs=1e-6)

    kept = networks.model_path(store.path, run)
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)
    _, again = networks.network_of(run, store.path, few, None, reasons.append)  # damaged: trained once more
    assert again == about
    assert reasons[1] == f"{what}{kept} cannot be read"
    assert f"{kept} is damaged: its contents do not match its checksum" in caplog.text

    monkeypatch.setattr("compool.study.training.train_block", not_again)
    shown = networks.inspect_trained("communities", 5, store.path)
    assert shown.about == about
    assert (
        networks.inspect_trained("communities", 5, model=kept).levels[0].num_supernodes
        == shown.levels[0].num_supernodes
    )


@pytest.mark.parametrize("schedule", ["halving", "cosine", "one_cycle"])
def test_a_retrained_network_has_the_weights_of_the_run(schedule: str, tmp_path: Path, few: data.GraphSet) -> None:
    """The learning rates of some schedules depend on the number of epochs."""
    store = stored_study(tmp_path, schedule=schedule, epochs=6, lr=0.03, dropout=0.0)[0]
    run = next(one for one in store.runs() if one.epoch is not None and one.epoch < 6)
    network, test = networks.retrain(run, few, None)
    assert test == f"{run.test:.1%}"
    kept = decode_weights(store.weights(run))
    torch.testing.assert_close(dict(network.state_dict()), kept, rtol=1e-3, atol=1e-3)
    assert networks.retrain(replace(run, epoch=6), few, None)[1] == f"{run.test:.1%} at epoch {run.epoch}"


def test_damaged_weights_are_trained_again(
    tmp_path: Path, few: data.GraphSet, caplog: pytest.LogCaptureFixture
) -> None:
    store, run = stored_study(tmp_path)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(
            "UPDATE weights SET tensors = CAST(substr(tensors, 1, length(tensors) - 1) || x'55' AS BLOB)"
        )
    reasons: list[str] = []
    network, _ = networks.network_of(run, store.path, few, None, reasons.append)
    assert reasons[0].endswith(": its weights cannot be read")
    assert f"the weights of communities component, recipe fast, replica {run.replica} are damaged" in caplog.text
    assert accuracy(network, few, run) == pytest.approx(run.test, abs=1e-6)


def test_what_is_missing_is_said(tmp_path: Path, few: data.GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    store, run = stored_study(tmp_path)
    monkeypatch.setattr("compool.study.training.train_block", not_again)
    with pytest.raises(ValueError, match=r"index must lie in 0\.\.98, the graphs of communities; got 99"):
        networks.inspect_trained("communities", 99, store.path)
    monkeypatch.chdir(tmp_path)
    for given in (store.path, None):  # also of ./study.sqlite, which was not named
        with pytest.raises(ValueError, match=r"with replica 9; it has replicas of recipe fast: 0-2$"):
            networks.inspect_trained("communities", 5, given, replica=9)
        with pytest.raises(ValueError, match=r"with recipe paper; its recipes are fast$"):
            networks.inspect_trained("communities", 5, given, name="paper")
    with pytest.raises(ValueError, match=r"has no finished run of component on NCI1; it has component on communities$"):
        networks.inspect_trained("NCI1", 0, store.path)
    empty = Store(tmp_path / "empty.sqlite").path
    with pytest.raises(ValueError, match=r"component on communities; it has no finished runs$"):
        networks.inspect_trained("communities", 0, empty)
    other = replace(run, data_checksum="0123456789abcdef")
    with pytest.raises(ValueError, match="the run was trained on other data named communities"):
        networks.network_of(other, store.path, few, None)


def test_runs_that_cannot_be_shown(few: data.GraphSet) -> None:
    with pytest.raises(ValueError, match="come from another version of compool"):
        recipe_of(example(0))
    failed = example(0, status="failed", test=None, validation=None, epoch=None)
    with pytest.raises(ValueError, match="replica 0 of NCI1 component failed"):
        networks.retrain(failed, few, None)
    assert networks.chosen_run(collect([failed]), "NCI1") is None

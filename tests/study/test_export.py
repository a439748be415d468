"""Exported networks: what they predict, and what is refused."""

import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import compool
from compool import data, nn, study
from compool.cli import app
from compool.data import GraphSet, communities, community_count, community_labels
from compool.data.names import Names
from compool.replicas import learner as learners
from compool.replicas import single
from compool.study.export import measured_score
from compool.study.model import DESCRIPTION, SOURCE, WEIGHTS
from compool.study.prediction import Predictions
from tests.study.blocks import longer, planned

run = CliRunner()
NET = """\
from pathlib import Path
import torch
from torch_geometric.nn import GCNConv, global_mean_pool
from compool import ComponentPooling

Path(__file__).with_name("executed").touch()


class Net(torch.nn.Module):
    def __init__(self, in_channels, num_classes, hidden=8):
        super().__init__()
        self.conv, self.norm = GCNConv(in_channels, hidden), torch.nn.BatchNorm1d(hidden)
        self.pool, self.out = ComponentPooling(hidden), torch.nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index, batch):
        pooled = self.pool(self.norm(self.conv(x, edge_index)).relu(), edge_index, batch)
        return self.out(global_mean_pool(pooled.x, pooled.batch))
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    """A network of one's own."""
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "mine.py"
    path.write_text(NET)
    return f"{path}:Net"


def trained_study(path: Path, *recipes: study.Recipe, number: int = 1) -> study.Store:
    store = study.Store(path / "study.sqlite")
    list(study.train_here(planned(store.path, *recipes, number=number, size=number), store))
    return store


def exported(store: study.Store, folder: Path, graphs: GraphSet, **which: Any) -> tuple[study.Run, Path]:
    method = next(iter(store.runs())).method
    found = study.find_run(store.path, "communities", method, **which)
    return found, study.export_run(found, store.weights(found), graphs, folder / "model")


class Recorder:
    """The logits of every evaluation in a study, by the graphs that they are of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[Tensor, Tensor]] = []
        original = learners.evaluation_of

        def record(logits: Tensor, y: Tensor, ids: Tensor, *rest: Any) -> Any:
            self.seen.append((ids.clone(), logits.clone()))
            return original(logits, y, ids, *rest)

        monkeypatch.setattr(learners, "evaluation_of", record)
        monkeypatch.setattr(single, "evaluation_of", record)


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("method", ["component", "edgepool", "gin", "topk", "sag", "random", "own"])
def test_logits_are_those_of_the_study_to_the_bit(
    method: str, net: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that is trained alone: what the study computed for its test graphs at the best epoch."""
    recorder = Recorder(monkeypatch)
    changes: dict[str, float] = {"merge_ratio": 0.5} if method == "random" else {}
    store = trained_study(tmp_path, longer(net if method == "own" else method, lr=0.02, **changes))
    graphs = communities(99)
    found, folder = exported(store, tmp_path, graphs)
    test = data.split(graphs, 0).test
    evaluations = [logits for ids, logits in recorder.seen if ids[ids >= 0].tolist() == list(test)]
    assert len(evaluations) == 5
    assert found.epoch is not None
    in_study = evaluations[found.epoch - 1][0, : len(test)]
    model = compool.load_model(folder, trust=method == "own")
    predictions = model.predict(graphs[test])
    assert torch.equal(predictions.logits, in_study)
    assert not any(torch.equal(other[0, : len(test)], in_study) for other in evaluations[: found.epoch - 1])
    assert float((predictions.classes.numpy() == graphs.y[test]).mean()) == pytest.approx(found.test, abs=1e-7)


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("method", study.METHODS)
def test_replicas_of_a_block_reproduce_their_test_accuracy(method: str, tmp_path: Path) -> None:
    """Together with others, logits are rounded differently; classes are the same."""
    graphs, store = communities(99), trained_study(tmp_path, longer(method, lr=0.02), number=4)
    for replica in range(4):
        found, folder = exported(store, tmp_path, graphs, replica=replica)
        assert found.replica == replica
        assert measured_score(compool.load_model(folder), found, graphs) == pytest.approx(found.test, abs=1e-7)


@pytest.mark.usefixtures("few_graphs")
def test_the_network_is_a_module_of_pyg(tmp_path: Path) -> None:
    """And predicts the same up to rounding; kept shares and probabilities by hand."""
    graphs = communities(99)
    _, folder = exported(trained_study(tmp_path, longer(layers="CPCPL", hidden=8)), tmp_path, graphs)
    model = compool.load_model(folder)
    assert isinstance(model.network, nn.Network)
    assert nn.load_network(folder / WEIGHTS).settings == model.network.settings
    predictions = model.predict(graphs[:7])
    for index, row in enumerate(predictions.rows()):
        graph = graphs[index]
        with torch.no_grad():
            logits = model.network(graph.x, graph.edge_index)[0]
            x = model.network.layers[0](graph.x, graph.edge_index).relu()
            first = model.network.layers[1](x, graph.edge_index)
            second = model.network.layers[3](
                model.network.layers[2](first.x, first.edge_index).relu(), first.edge_index
            )
        torch.testing.assert_close(predictions.logits[index], logits)
        assert row["graph"] == index
        assert row["class"] == str(int(logits.argmax()))
        assert list(row["probabilities"].values()) == pytest.approx(logits.softmax(0).tolist(), abs=1e-6)
        assert row["kept"] == pytest.approx([level.x.size(0) / graph.num_nodes for level in (first, second)])


@pytest.mark.usefixtures("few_graphs")
def test_an_own_network_with_a_relative_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("HIDDEN = 5\n")
    source = NET.replace('Path(__file__).with_name("executed").touch()', "from .sizes import HIDDEN")
    (package / "nets.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    graphs = communities(99)
    found, folder = exported(trained_study(tmp_path, longer("own_package.nets:Net")), tmp_path, graphs)
    for name in [name for name in sys.modules if name.startswith("compool_own_")]:
        monkeypatch.delitem(sys.modules, name)  # as in another process
    model = compool.load_model(folder, trust=True)
    assert vars(sys.modules[type(model.network).__module__])["HIDDEN"] == 5
    assert measured_score(model, found, graphs) == pytest.approx(found.test, abs=1e-7)


@pytest.mark.usefixtures("few_graphs")
def test_kept_shares_of_an_own_network(net: str, tmp_path: Path) -> None:
    graphs = communities(99)
    _, folder = exported(trained_study(tmp_path, longer(net)), tmp_path, graphs)
    model = compool.load_model(folder, trust=True)
    kept = model.predict(graphs[:5]).kept
    for index in range(5):
        alone = model.predict([graphs[index]]).kept[0]
        assert kept[index].tolist() == pytest.approx(alone.tolist())
        assert 0 < float(kept[index]) <= 1


EDGE_NET = """\
import torch
from torch_geometric.nn import GINEConv, Linear, global_mean_pool


class Net(torch.nn.Module):
    def __init__(self, in_channels, num_classes, edge_dim=None, hidden=8):
        super().__init__()
        self.first = Linear(-1, hidden)  # lazy
        self.conv = GINEConv(torch.nn.Linear(hidden, hidden), edge_dim=edge_dim)
        self.out = torch.nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index, batch, edge_attr):
        return self.out(global_mean_pool(self.conv(self.first(x), edge_index, edge_attr).relu(), batch))
"""


def test_an_own_network_with_edge_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set, and graphs of PyG with the same columns."""
    whole = communities(60)
    source, target = whole.edge_index
    graphs = replace(whole, edge_labels=(source + target) % 3)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    (tmp_path / "mine.py").write_text(EDGE_NET)
    recorder = Recorder(monkeypatch)
    store = trained_study(tmp_path, longer(f"{tmp_path / 'mine.py'}:Net"))
    found, folder = exported(store, tmp_path, graphs)
    model, test = compool.load_model(folder, trust=True), data.split(graphs, 0).test
    evaluations = [logits for ids, logits in recorder.seen if ids[ids >= 0].tolist() == list(test)]
    assert found.epoch is not None
    logits = model.predict(graphs[test]).logits
    assert torch.equal(logits, evaluations[found.epoch - 1][0, : len(test)])
    listed = [graphs[int(index)] for index in test]
    for graph in listed:
        del graph.y  # which is what is to be predicted
    assert listed[0].edge_attr.size(1) == 3
    assert torch.equal(model.predict(listed).logits, logits)
    with pytest.raises(ValueError, match="communities has no edge labels, which the model's features are made of"):
        model.predict(whole)


@pytest.mark.usefixtures("few_graphs")
@pytest.mark.parametrize("kind", ["labels", "degree"])
def test_graphs_of_pyg_with_the_columns_of_the_network(kind: str, tmp_path: Path) -> None:
    """Their x is taken as it is: one-hot features have no names there."""
    graphs = communities(99)
    _, folder = exported(trained_study(tmp_path, longer(features=kind)), tmp_path, graphs)
    model, chosen = compool.load_model(folder), data.features(graphs, kind)
    listed = [graphs[index] for index in range(4)]
    for index, graph in enumerate(listed):
        graph.x = torch.from_numpy(chosen.dense(slice(graphs.node_ptr[index], graphs.node_ptr[index + 1])))
    torch.testing.assert_close(model.predict(listed).logits, model.predict(graphs[:4]).logits)
    for graph in listed:
        graph.x = graph.x[:, :1]
    if kind == "degree":  # follows from the edges
        assert torch.equal(model.predict(listed).logits, model.predict(graphs[:4]).logits)
    else:
        with pytest.raises(ValueError, match="graphs has no node labels, which the model's features are made of"):
            model.predict(listed)


@pytest.mark.parametrize(("make", "what"), [(community_count, "values"), (community_labels, "probabilities")])
def test_other_tasks(
    make: Callable[[int], GraphSet], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers, and several labels: the exported network has the metric of its run."""
    graphs = make(96)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    recipe = study.recipe("component", graphs.name, epochs=3, hidden=4)
    store = trained_study(tmp_path, recipe, number=2)
    found = study.find_run(store.path, graphs.name, "component")
    folder = study.export_run(found, store.weights(found), graphs, tmp_path / "model")
    model = compool.load_model(folder)
    assert measured_score(model, found, graphs) == pytest.approx(found.test, abs=1e-5)
    rows = list(model.predict(graphs[:3]).rows())
    assert [list(row) for row in rows] == [["graph", what, "kept"]] * 3
    assert all(len(row[what]) == graphs.num_targets for row in rows)
    graphs.save(tmp_path / "graphs.npz")
    lines = run.invoke(app, ["predict", str(folder), "--data", str(tmp_path / "graphs.npz")]).stdout.splitlines()
    assert len(lines) == 97
    assert lines[0].startswith("graph,value_0," if what == "values" else "graph,probability_0,probability_1,")


def test_outputs_by_hand() -> None:
    """One logit is the second class against the first; several labels are independent; numbers are numbers."""
    kept = torch.tensor([[0.5], [1.0]])
    two = Predictions("classification", ("no", "yes"), torch.tensor([[0.0], [2.0]]), kept)
    assert two.classes.tolist() == [0, 1]
    assert two.probabilities.flatten().tolist() == pytest.approx([0.5, 0.5, 0.1192029, 0.8807971])
    assert [row["class"] for row in two.rows()] == ["no", "yes"]
    logits = torch.tensor([[0.0, 1.0], [2.0, -1.0]])
    labels = Predictions("multilabel", ("a", "b"), logits, kept)
    assert labels.probabilities.flatten().tolist() == pytest.approx([0.5, 0.7310586, 0.8807971, 0.2689414])
    assert next(labels.rows()) == {
        "graph": 0,
        "probabilities": pytest.approx({"a": 0.5, "b": 0.7310586}),
        "kept": [0.5],
    }
    numbers = Predictions("regression", ("a", "b"), logits, kept)
    assert list(numbers.rows())[1] == {"graph": 1, "values": {"a": 2.0, "b": -1.0}, "kept": [1.0]}
    assert numbers.values is logits
    for predictions, name in (
        (numbers, "classes"),
        (numbers, "probabilities"),
        (labels, "classes"),
        (labels, "values"),
    ):
        with pytest.raises(ValueError, match="values" if predictions is numbers else "probabilities"):
            getattr(predictions, name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported network of component pooling on generated graphs."""
    path, graphs = tmp_path_factory.mktemp("export"), communities(45)
    (trained,) = study.train_block(study.Block(longer(epochs=1), 0, (0,)), graphs=graphs)
    return study.export_run(trained, trained.weights, graphs, path / "model")


def test_a_single_graph_is_not_a_list_of_graphs(folder: Path) -> None:
    model = compool.load_model(folder)
    with pytest.raises(ValueError, match="got one Data; put it in a list"):
        model.predict(communities(9)[0])
    with pytest.raises(ValueError, match="or a dataset, got NoneType"):
        model.predict(None)


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Change the description of an exported network."""

    def changed(folder: Path) -> None:
        about = json.loads((folder / DESCRIPTION).read_text())
        change(about)
        (folder / DESCRIPTION).write_text(json.dumps(about))

    return changed


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / DESCRIPTION).unlink(), "holds no exported network: model.json is missing"),
        (lambda path: (path / WEIGHTS).unlink(), "network.safetensors does not exist; export the network again"),
        (lambda path: (path / DESCRIPTION).write_text("{"), "is damaged: it is not valid JSON"),
        (lambda path: (path / DESCRIPTION).write_text("[" * 10**5), "is damaged: it is not valid JSON"),
        (lambda path: (path / DESCRIPTION).write_text("[]"), "does not describe an exported network"),
        (lambda path: (path / DESCRIPTION).write_bytes(b"\xff"), "is damaged: it is not valid JSON"),
        (edit(lambda about: about.update(format=2)), "was written by a newer version of compool"),
        (edit(lambda about: about.pop("features")), "is damaged: the features must be an object"),
        (edit(lambda about: about["features"].update(width=5)), "width is 5, but the network takes 4 features"),
        (edit(lambda about: about.update(classes=["a"])), "there are 1 classes, but the network has 3"),
        (edit(lambda about: about.update(classes=[1, 2, 3])), "classes must be a list of text"),
        (edit(lambda about: about.update(task="sorting")), "task must be one of classification, regression"),
        (edit(lambda about: about.pop("run")), "run must have a data set, method and replica"),
        (edit(lambda about: about.update(weights_checksum="0")), "come from different exports; export the network"),
        (edit(lambda about: about.update(own="Net")), "own must have a class and its arguments"),
        (
            edit(lambda about: about.update(own={"class": "Net", "arguments": {}, "module": 3})),
            "the module of own must",
        ),
        (lambda path: (path / WEIGHTS).write_bytes(b"x" * 99), "is damaged, or not a safetensors file"),
        (lambda path: flip_last_bit(path / WEIGHTS), "network.safetensors is damaged: its contents do not match"),
    ],
)
def test_damaged_exports(damage: Callable[[Path], object], message: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    damage(copy)
    with pytest.raises(ValueError, match="model") as caught:
        compool.load_model(copy)
    assert message in str(caught.value)
    result = run.invoke(app, ["predict", str(copy), "--data", "nothing.zip"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def flip_last_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.usefixtures("few_graphs")
def test_code_is_executed_only_if_it_is_trusted(net: str, tmp_path: Path) -> None:
    graphs, marker = communities(99), tmp_path / "model" / "executed"
    store = trained_study(tmp_path, longer(net))
    found, folder = exported(store, tmp_path, graphs)
    assert (folder / SOURCE).read_text() == NET
    with pytest.raises(
        ValueError, match=r"holds Python code; read .*network.py, and if you trust it, allow it with --trust"
    ):
        compool.load_model(folder)
    graphs.save(tmp_path / "graphs.npz")
    command = ["predict", str(folder), "--data", str(tmp_path / "graphs.npz")]
    result = run.invoke(app, command)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    export = ["export", "communities", "--method", "Net", "--store", str(store.path), "--out", str(tmp_path / "again")]
    assert "accuracy" not in run.invoke(app, export).stdout
    assert not marker.exists()
    assert not (tmp_path / "again" / "executed").exists()
    percent = f"{100 * found.test:.4f}"
    assert f"test accuracy, %: {percent}; in the study: {percent}" in run.invoke(app, [*export, "--trust"]).stdout
    assert run.invoke(app, [*command, "--trust"]).exit_code == 0
    assert marker.exists()
    (folder / SOURCE).write_text(NET + "\n# changed")
    with pytest.raises(ValueError, match=r"network.py was changed after the export"):
        compool.load_model(folder, trust=True)
    (trained,) = study.train_block(study.Block(longer(epochs=1), 0, (0,)), graphs=graphs)
    study.export_run(trained, trained.weights, graphs, folder)  # a built-in network in its place
    assert not (folder / SOURCE).exists()


@pytest.mark.usefixtures("few_graphs")
def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export, then predict a saved set, as CSV and as JSON; without --replica, the best in validation."""
    monkeypatch.chdir(tmp_path)
    store, graphs = trained_study(tmp_path, longer(lr=0.02), number=3), communities(99)
    best = max(store.runs(), key=lambda one: (one.validation, -one.replica))
    result = run.invoke(app, ["export", "communities", "--out", "model"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"component on communities, recipe fast, seed 0, replica {best.replica}, epoch {best.epoch}",
        f"test accuracy, %: {100 * best.test:.4f}; in the study: {100 * best.test:.4f}",
        "model",
    ]
    graphs.save(tmp_path / "graphs.npz")
    lines = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", "model", "--data", "graphs.npz"]).stdout)))
    predictions = compool.load_model("model").predict(graphs)
    assert list(lines[0]) == ["graph", "class", "probability_0", "probability_1", "probability_2", "kept_1"]
    assert [int(line["class"]) for line in lines] == predictions.classes.tolist()
    ours = torch.tensor([[float(line[f"probability_{name}"]) for name in "012"] for line in lines])
    assert torch.equal(ours, predictions.probabilities)  # nine digits are enough
    result = run.invoke(app, ["predict", "model", "--data", "graphs.npz", "--json", "--out", "new/all.json"])
    assert result.stdout == "new/all.json\n"
    assert json.loads((tmp_path / "new" / "all.json").read_text()) == list(predictions.rows())
    about = json.loads((tmp_path / "model" / DESCRIPTION).read_text())
    assert about["run"]["versions"]["torch"] == torch.__version__
    assert about["settings"]["lr"] == 0.02
    assert about["features"]["kind"] == "labels"
    assert run.invoke(app, ["export", "communities", "--out", "model", "--replica", "2"]).exit_code == 0  # replaces it
    assert json.loads((tmp_path / "model" / DESCRIPTION).read_text())["run"]["replica"] == 2


def write_tu(graphs: GraphSet, folder: Path, name: str, labels: str, classes: list[str] | None) -> None:
    """The text files of a set, with a letter's number as the name of each label."""
    folder.mkdir(parents=True)
    assert graphs.labels is not None
    offset = graphs.node_ptr[:-1].repeat(graphs.edge_ptr[1:] - graphs.edge_ptr[:-1])
    texts = {
        "A": [f"{source + 1}, {target + 1}" for source, target in (graphs.edge_index + offset).T],
        "graph_indicator": graphs.node_ptr[1:].searchsorted(range(graphs.num_nodes), side="right") + 1,
        "node_labels": [ord(labels[label]) for label in graphs.labels],
    }
    if classes is not None:
        texts["graph_labels"] = [classes[label] for label in graphs.y]
    for suffix, lines in texts.items():
        (folder / f"{name}_{suffix}.txt").write_text("".join(f"{line}\n" for line in lines))


def test_other_graphs_in_tu_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels get their columns by name, and classes have the names of the files; those to predict have none."""
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COMPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    write_tu(communities(60), tmp_path / "data" / "TINY", "TINY", "abcd", ["-1", "5", "7"])
    command = "run TINY --data data --method gin --replicas 1 --epochs 2 --workers 1 --device cpu --no-report"
    assert run.invoke(app, command.split()).exit_code == 0
    for data_folder in (["--data", "data"], []):  # names from the folder, and from the cache
        result = run.invoke(app, ["export", "TINY", "--method", "gin", "--out", "model", *data_folder])
        assert result.exit_code == 0, result.stderr
        about = json.loads((tmp_path / "model" / DESCRIPTION).read_text())
        assert about["classes"] == ["-1", "5", "7"]
        assert about["features"]["labels"] == [str(ord(letter)) for letter in "abcd"]
    connectors = communities(60)[:6]
    assert connectors.labels is not None
    only_two = replace(connectors, labels=(connectors.labels == 3).astype(int) + 2)  # c and d alone
    write_tu(replace(only_two, labels=only_two.labels - 2), tmp_path / "new", "NEW", "cd", None)
    result = run.invoke(app, ["predict", "model", "--data", "new"])
    assert result.exit_code == 0, result.stderr
    expected = compool.load_model("model").predict(only_two, Names(labels=tuple(str(ord(letter)) for letter in "abcd")))
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [line["class"] for line in lines] == [("-1", "5", "7")[label] for label in expected.classes]
    ours = torch.tensor([[float(line[f"probability_{name}"]) for name in ("-1", "5", "7")] for line in lines])
    assert torch.equal(ours, expected.probabilities)
    write_tu(connectors, tmp_path / "unknown", "NEW", "abcx", None)
    result = run.invoke(app, ["predict", "model", "--data", "unknown"])
    message = "compool: NEW: node label 120 is unknown; the model's features have columns for 97, 98, 99, 100\n"
    assert (result.exit_code, result.stderr) == (2, message)


@pytest.mark.usefixtures("few_graphs")
def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained_study(tmp_path, longer(epochs=1))
    store = study.Store(tmp_path / "bare.sqlite")
    list(study.train_here([study.Block(longer(epochs=1), 0, (0,), keep_weights=False)], store))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").touch()
    assert run.invoke(app, ["export", "communities", "--out", "model"]).exit_code == 0
    cases = {
        "export communities --out study.sqlite": "--out study.sqlite is a file; give a folder",
        "export communities --out full": "--out full contains other files; give a new folder",
        "export communities --out x --store no.sqlite": "--store no.sqlite does not exist; `compool run` creates it",
        "export NCI1 --out x": "study.sqlite has no finished run of component on NCI1; it has component on communities",
        "export communities --out x --method gin": "study.sqlite has no finished run of gin on communities; it has",
        "export communities --out x --recipe slow": "study.sqlite has no finished run of component on communities with "
        "recipe slow; its recipes are fast",
        "export communities --out x --replica 5": "study.sqlite has no finished run of component on communities with "
        "replica 5; it has replicas of recipe fast: 0",
        "export communities --out x --store bare.sqlite": "the weights of component on communities, recipe fast, "
        "replica 0 were not stored",
        "predict nowhere --data x": "nowhere holds no exported network: model.json is missing",
        "predict study.sqlite --data x": "study.sqlite is a file; give the folder of an exported network",
        "predict model --data nowhere": "nowhere does not exist",
        "predict model --data full": "full must have the files of one data set",
        "predict model --data nowhere.npz": "--data nowhere.npz does not exist",
        "predict model --data study.sqlite": "--data study.sqlite must be a folder, a .zip or .npz file, or FILE",
        "predict model --data full --out full": "--out full is a folder; give a file",
        "predict model --data full --device tpu": "device must be cpu, cuda or auto; got tpu",
        "predict model --data nowhere.py:graphs": "--data nowhere.py:graphs: nowhere.py does not exist",
    }
    for command, message in cases.items():
        result = run.invoke(app, command.split())
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), (command, result.stderr)
        assert result.stderr.startswith(f"compool: {message}"), (command, result.stderr)
    assert not (tmp_path / "x").exists()
    assert run.invoke(app, ["export", "communities"]).exit_code == 2  # --out is missing


@pytest.mark.usefixtures("few_graphs")
def test_other_data_are_refused(tmp_path: Path) -> None:
    store = trained_study(tmp_path, longer(epochs=1))
    found = study.find_run(store.path, "communities", "component")
    with pytest.raises(ValueError, match="was trained on other data named communities"):
        study.export_run(found, store.weights(found), communities(90), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("few_graphs")
def test_runs_on_the_current_data_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a run on earlier data of the same name is better."""
    monkeypatch.chdir(tmp_path)
    store = trained_study(tmp_path, longer(epochs=1))
    store.add([replace(next(iter(store.runs())), data_checksum="earlier", validation=1.0)])
    assert study.find_run(store.path, "communities", "component").data_checksum == "earlier"
    for command in ("export communities --out model", "show communities 0 --out graph.html"):
        result = run.invoke(app, command.split())
        assert result.exit_code == 0, result.stderr
    about = json.loads((tmp_path / "model" / DESCRIPTION).read_text())
    assert about["run"]["data_checksum"] == communities(99).checksum
    with pytest.raises(ValueError, match=r"trained on other data named communities \(checksum earlier, not later\)"):
        study.find_run(store.path, "communities", "component", data_checksum="later")


@pytest.mark.usefixtures("few_graphs")
def test_the_seed_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = trained_study(tmp_path, longer(epochs=1))
    list(study.train_here([study.Block(longer(epochs=1), seed, (0,)) for seed in (1, 2)], store))
    for seed in (0, 1, 2):
        assert study.find_run(store.path, "communities", "component", seed=seed).seed == seed
        result = run.invoke(app, ["export", "communities", "--out", "model", "--seed", str(seed)])
        assert f"recipe fast, seed {seed}, replica 0" in result.stdout, result.stderr
        result = run.invoke(app, ["show", "communities", "0", "--out", "graph.html", "--seed", str(seed)])
        assert f"recipe fast, seed {seed}, replica 0" in result.stdout, result.stderr
    result = run.invoke(app, ["export", "communities", "--out", "model", "--seed", "7"])
    assert result.stderr == (
        "compool: study.sqlite has no finished run of component on communities with seed 7; its seeds are 0-2\n"
    )
    result = run.invoke(app, ["show", "communities", "0", "--model", "model/network.safetensors", "--seed", "1"])
    assert result.stderr == "compool: give --model or --seed, not both\n"

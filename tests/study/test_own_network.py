"""Networks of one's own through a study."""

import io
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch_geometric.loader import DataLoader
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.data import communities, split
from compool.ops import fold
from compool.replicas import Graphs
from compool.replicas.learner import ORDER_KEY
from compool.replicas.single import NetworkCall
from compool.study import checkpoint
from compool.study.csv_files import read_csv, write_csv
from compool.study.own_network import OwnNetworkError, build
from compool.study.progress import Progress
from compool.study.training import _stream
from tests.study.blocks import CPU, interrupt, planned, told

pytestmark = pytest.mark.usefixtures("few_graphs")
run = CliRunner()
NET = """\
import torch
from torch_geometric.nn import GCNConv, global_mean_pool


class Net(torch.nn.Module):
    def __init__(self, in_channels, num_classes, hidden=8, dropout=0.0):
        super().__init__()
        self.conv, self.dropout = GCNConv(in_channels, hidden), dropout
        self.out = torch.nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        return self.out(torch.dropout(global_mean_pool(x, batch), self.dropout, self.training))
"""
POOLED = """\
from compool import nn, ComponentPooling
import torch
from torch_geometric.nn import global_add_pool

class Pooled(torch.nn.Module):
    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.pools = torch.nn.ModuleList(ComponentPooling(in_channels, symmetric=True) for _ in range(2))
        self.out = torch.nn.Linear(in_channels, num_classes)

    def forward(self, x, edge_index, batch):
        for pool in self.pools:
            x, edge_index, batch = pool(x, edge_index, batch)[:3]
        return self.out(global_add_pool(x, batch))

class Stacked(nn.Network):
    def __init__(self, in_channels, num_classes, hidden=4):
        super().__init__("PCLL", in_channels, hidden, num_classes, readout="sum", symmetric=True)

class Changed(Stacked):
    def forward(self, x, edge_index, batch):
        return 2 * super().forward(x, edge_index, batch)
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    """A class in a file of about ten lines."""
    path = tmp_path / "my_networks.py"
    path.write_text(NET)
    return f"{path}:Net"


def small(reference: str, **changes: object) -> study.Recipe:
    return study.recipe(reference, "communities", **{"epochs": 2} | changes)


def test_it_is_the_training_loop_that_one_would_write(net: str, tmp_path: Path) -> None:
    """Loss, accuracies and picked epoch of a plain loop with PyG's loader and torch's optimizer."""
    recipe = small(net, epochs=4, halve=2, hidden=16)
    (block,) = planned(tmp_path / "study.sqlite", recipe, number=1)
    (trained,) = study.train_block(block)
    graphs = communities(99)
    weights, key = (int(number) for number in _stream(graphs.name, 0, 0))
    network = build(net, NET, 4, 3, recipe.arguments, weights)
    optimizer = torch.optim.AdamW(network.parameters(), recipe.lr, weight_decay=recipe.weight_decay)
    parts = split(graphs, 0, 0)
    columns = torch.arange(len(parts.train))
    curves: dict[str, list[float]] = {"loss": [], "validation": [], "validation_loss": [], "test": []}
    for epoch in range(1, 5):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * (0.5 if epoch > 2 else 1)
        random = fold(fold(fold(torch.tensor([key]), ORDER_KEY), epoch).unsqueeze(1), columns) >> 1
        order = torch.as_tensor(parts.train)[random[0].argsort()]
        total = 0.0
        for batch in DataLoader([graphs[int(graph)] for graph in order], batch_size=recipe.batch):
            loss = F.cross_entropy(network.train()(batch.x, batch.edge_index, batch.batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.num_graphs
        curves["loss"].append(total / len(order))
        for name, ids in (("validation", parts.validation), ("test", parts.test)):
            (batch,) = DataLoader([graphs[int(graph)] for graph in ids], batch_size=99)
            with torch.no_grad():
                logits = network.eval()(batch.x, batch.edge_index, batch.batch)
            curves[name].append(float((logits.argmax(1) == batch.y).float().mean()))
            if name == "validation":
                curves["validation_loss"].append(float(F.cross_entropy(logits, batch.y)))
    for name, values in curves.items():
        assert trained.curves[name] == pytest.approx(values, abs=2e-5), name
    best = max(range(4), key=lambda epoch: (curves["validation"][epoch], epoch))
    assert (trained.epoch, trained.test) == (best + 1, pytest.approx(curves["test"][best], abs=1e-6))
    assert trained.parameters == sum(parameter.numel() for parameter in network.parameters())


def test_what_a_run_says(net: str, tmp_path: Path) -> None:
    store = study.Store(tmp_path / "study.sqlite")
    blocks = planned(store.path, small(net, hidden=4))
    assert [(block.replicas, block.note) for block in blocks] == [((n,), "one at a time") for n in range(3)]
    before = torch.random.get_rng_state()
    list(study.train_here(blocks, store))
    assert torch.equal(torch.random.get_rng_state(), before)
    runs = list(store.runs())
    assert [(one.method, one.replica, one.block, one.status) for one in runs] == [
        ("Net", n, 1, "done") for n in range(3)
    ]
    assert {one.own_source for one in runs} == {NET}
    assert json.loads(runs[0].settings["arguments"]) == {"hidden": 4}
    assert len({one.weights_checksum for one in runs}) == len({one.split_checksum for one in runs}) == 3
    assert planned(store.path, small(net, hidden=4)) == []
    (last,) = study.train_block(study.Block(small(net, hidden=4), 0, (2,), own_source=NET))  # by itself
    assert told([last]) == told(runs[2:])
    with (tmp_path / "runs.csv").open("w", newline="") as file:
        write_csv(runs, file)
    assert read_csv(tmp_path / "runs.csv") == runs


def test_a_changed_class_is_another_recipe_a_moved_one_is_not(net: str, tmp_path: Path) -> None:
    checksum = small(net).checksum
    (tmp_path / "other.py").write_text(NET)
    assert small(f"{tmp_path / 'other.py'}:Net").checksum == checksum
    (tmp_path / "other.py").write_text(NET.replace("hidden=8", "hidden=9"))
    assert small(f"{tmp_path / 'other.py'}:Net").checksum != checksum
    assert small(net, hidden=9).checksum != checksum
    assert small(net, lr=0.5).checksum != checksum


def test_settings_go_to_the_recipe_or_to_the_class(net: str) -> None:
    plain, *swept = study.variants(net, "communities", settings=["hidden=4,8", "lr=0.1,0.2"])
    assert (plain.lr, plain.arguments, plain.hidden) == (0.1, '{"hidden": 4}', 0)
    assert [variant.name for variant in swept][-1] == "fast hidden=8 lr=0.2"
    component = study.recipe("component", "communities")
    assert (plain.epochs, plain.halve, plain.batch) == (component.epochs, component.halve, component.batch)


@pytest.mark.parametrize("parameter", ["name", "method", "dataset", "settings", "trials", "seed"])
def test_parameters_may_be_called_like_those_of_ours(parameter: str, net: str, tmp_path: Path) -> None:
    Path(net.removesuffix(":Net")).write_text(NET.replace("hidden=8", f"hidden=8, {parameter}='abc'"))
    (variant,) = study.variants(net, "communities", settings=[f"{parameter}=xyz"])
    assert (variant.method, variant.dataset, variant.name) == ("Net", "communities", f"fast {parameter}=xyz")
    assert json.loads(variant.arguments) == {parameter: "xyz"}
    (tmp_path / "mine.toml").write_text(f"{parameter} = 'from a file'\n")
    assert json.loads(study.recipe(net, "communities", str(tmp_path / "mine.toml")).arguments) == {
        parameter: "from a file"
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01", "2024-01-01"),
        ("07:30:00", "07:30:00"),
        ("{a = 1}", "{a = 1}"),
        ("[2024-01-01]", "[2024-01-01]"),
        ("[1]", [1]),
        ("'1'", "1"),
        ("true", True),
        ("1e3", 1000.0),
    ],
)
def test_arguments_that_json_does_not_have_are_text(text: str, value: object, net: str) -> None:
    (variant,) = study.variants(net, "communities", settings=[f"hidden={text}"])
    assert json.loads(variant.arguments) == {"hidden": value}
    assert variant.name == f"fast hidden={value}"


@pytest.mark.parametrize("name", ["fast", "paper", "learned"])
def test_a_recipe_file_may_not_be_named_like_a_recipe(name: str, net: str, tmp_path: Path) -> None:
    for stem in (name, "mine"):
        (tmp_path / f"{stem}.toml").write_text("hidden = 5\n")
    with pytest.raises(ValueError, match=rf"^rename {name}\.toml: {name} is already the name of a built-in recipe$"):
        study.recipe(net, "communities", str(tmp_path / f"{name}.toml"))
    mine = study.recipe(net, "communities", str(tmp_path / "mine.toml"))
    assert replace(mine, name="fast") == study.recipe(net, "communities", hidden=5)


@pytest.mark.parametrize("text", ["2020-01-01", "[07:30:00]", "{since = 2020-01-01}"])
def test_a_recipe_file_with_a_date_as_argument(text: str, net: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f"hidden = {text}\n")
    result = run.invoke(app, ["run", "--method", net, "--recipe", str(tmp_path / "mine.toml"), "--dry-run"])
    assert result.exit_code == 2
    assert result.stderr.startswith("compool: hidden must be a number, text, true or false, or a list of these, got ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[8,16]", [[8, 16]]),
        ("[8, 16],[32], 7", [[8, 16], [32], 7]),
        ("[[1,2],[3,4]],[[5]]", [[[1, 2], [3, 4]], [[5]]]),
        ("'a,b',\"c,d\",e", ["a,b", "c,d", "e"]),
        ("['a,]b',1]", [["a,]b", 1]]),
        ("it's,they're", ["it's", "they're"]),
        ("'a,b", ["'a", "b"]),
        ("[8,16", ["[8", 16]),
        ("8],16", ["8]", 16]),
        ("a[0],b[1]", ["a[0]", "b[1]"]),
        ("{a = 1, b = 2}", ["{a = 1, b = 2}"]),
    ],
)
def test_values_are_split_outside_brackets_and_quotes(text: str, values: list[object], net: str) -> None:
    swept = study.variants(net, "communities", settings=[f"hidden={text}"])
    assert [json.loads(variant.arguments)["hidden"] for variant in swept] == values
    assert [variant.name for variant in swept] == [f"fast hidden={value}" for value in values]


def test_it_resumes_as_if_nothing_had_happened(net: str, tmp_path: Path, every_epoch: None) -> None:
    path, recipe = tmp_path / "study.sqlite", small(net, epochs=5, dropout=0.5)
    (block,) = planned(path, recipe, number=1)
    whole = study.train_block(replace(block, checkpoint_folder=None))
    for after in (2, 4):
        interrupt(block, after)
        (block,) = planned(path, recipe, number=1)
        assert block.epochs_done == after
    assert told(study.train_block(block)) == told(whole)


KILLED = """
import sys
from compool.data import communities
from compool.study import checkpoint, recipe_data
checkpoint.WRITE_INTERVAL, checkpoint.MAX_WRITE_SHARE = 0.0, 1e9
graphs = communities(99)
recipe_data.load_data = lambda recipe, folder, check_edges=True: graphs
from compool.cli import app
app(sys.argv[1:])
"""


def test_three_commands_and_a_kill(net: str, tmp_path: Path) -> None:
    """`kill -9` in the middle of a training: the same command resumes, and the runs are those of an undisturbed one."""
    path, epochs = tmp_path / "study.sqlite", ["--epochs", "40", "--set", "dropout=0.2"]
    command = ["run", "--method", net, "--replicas", "2", "--workers", "1", "--device", "cpu", "--no-report", *epochs]
    process = subprocess.Popen([sys.executable, "-c", KILLED, *command, "--store", str(path)])
    folder = checkpoint.folder_of(path)
    while not list(folder.glob("[!.]*.safetensors")) and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    dry = run.invoke(app, [*command, "--store", str(path), "--dry-run"]).stdout
    assert "(1 to resume)" in dry
    assert "1 replica on cpu, one at a time, 40 epochs" in dry
    for store in (path, tmp_path / "whole.sqlite"):
        assert run.invoke(app, [*command, "--store", str(store)]).exit_code == 0
    resumed, whole = (list(study.Store(store).runs()) for store in (path, tmp_path / "whole.sqlite"))
    assert told(resumed) == told(whole)
    result = run.invoke(app, ["report", "--store", str(path)])
    assert result.exit_code == 0
    assert "Net" in result.stdout
    assert ">Net<" in (tmp_path / "study-report" / "index.html").read_text()


def test_workers_get_the_text(net: str, tmp_path: Path) -> None:
    """A process does not read the file, which may have changed meanwhile."""
    path = tmp_path / "study.sqlite"
    blocks = planned(path, small(net), number=2)
    Path(net.removesuffix(":Net")).write_text("raise RuntimeError('not this text')")
    list(study.train_on_workers(blocks, study.Store(path), 1))
    assert [one.status for one in study.Store(path).runs()] == ["done"] * 2


def test_a_class_of_ours_is_trained_many_at_once(tmp_path: Path) -> None:
    """Exactly as the built-in method, whose network it is."""
    (tmp_path / "pooled.py").write_text(POOLED)
    recipe = small(f"{tmp_path / 'pooled.py'}:Stacked")
    (block,) = planned(tmp_path / "study.sqlite", recipe)
    assert (block.replicas, block.note) == ((0, 1, 2), "many at once")
    builtin = study.recipe("component", "communities", epochs=2, hidden=4)
    for own, other in zip(study.train_block(block), study.train_block(study.Block(builtin, 0, (0, 1, 2))), strict=True):
        assert (own.curves, own.test, own.parameters) == (other.curves, other.test, other.parameters)
    changed = planned(tmp_path / "study.sqlite", small(f"{tmp_path / 'pooled.py'}:Changed"))
    assert {block.note for block in changed} == {"one at a time"}


def test_kept_shares_of_our_layers(tmp_path: Path) -> None:
    """On the validation graphs, after the last epoch, layer by layer."""
    (tmp_path / "pooled.py").write_text(POOLED)
    recipe = small(f"{tmp_path / 'pooled.py'}:Pooled")
    (block,) = planned(tmp_path / "study.sqlite", recipe, number=1)
    networks: list[torch.nn.Module] = []
    (trained,) = study.train_block(block, keep=networks.append)
    graphs = communities(99)
    (batch,) = DataLoader([graphs[int(graph)] for graph in split(graphs, 0, 0).validation], batch_size=99)
    nodes, level = [batch.num_nodes], (batch.x, batch.edge_index, batch.batch)
    for pool in networks[0].pools:
        level = pool(*level)[:3]
        nodes.append(level[0].size(0))
    assert trained.curves["kept"][-1] == pytest.approx([count / nodes[0] for count in nodes[1:]], abs=1e-6)


def test_networks_that_are_not_plain(tmp_path: Path) -> None:
    """Lazy layers, another order of arguments, a module beside it, one logit for two classes, a package's module."""
    (tmp_path / "beside.py").write_text("WIDTH = 5\n")
    (tmp_path / "lazy.py").write_text(
        NET.replace("GCNConv(in_channels", "GCNConv(-1")
        .replace("x, edge_index, batch)", "x, batch, edge_index, edge_attr=None, batch_size=None)")
        .replace("import torch\n", "import torch\nfrom beside import WIDTH\n", 1)
        .replace("hidden=8", "hidden=WIDTH")
    )
    (first,), (again,) = (
        study.train_block(planned(tmp_path / "study.sqlite", small(f"{tmp_path / 'lazy.py'}:Net"), number=1)[0])
        for _ in range(2)
    )
    assert first.parameters == 4 * 5 + 5 + 5 * 3 + 3
    assert first.weights_checksum == again.weights_checksum
    assert first.curves == again.curves


def test_a_module_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "width.py").write_text("WIDTH = 7\n")
    (tmp_path / "package" / "module.py").write_text(
        f"from .width import WIDTH\n{NET}".replace("hidden=8", "hidden=WIDTH")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (block, *_) = planned(tmp_path / "study.sqlite", small("package.module:Net"))
    assert study.train_block(block)[0].parameters == 4 * 7 + 7 + 7 * 3 + 3


def test_a_loss_that_is_not_finite_fails_the_run(net: str, tmp_path: Path) -> None:
    recipes = [small(net, lr=1e30, optimizer="adam", weight_decay=0.0, epochs=3), small(net, epochs=3)]
    failed, done = (study.train_block(planned(tmp_path / "study.sqlite", one, number=1)[0])[0] for one in recipes)
    assert (failed.status, failed.reason) == ("failed", "its loss, logits or weights were NaN or infinite")
    assert len(failed.curves["loss"]) == 3
    assert done.status == "done"


@pytest.mark.parametrize(
    ("text", "reference", "message"),
    [
        (None, "Net", "{path} does not exist"),
        (NET, "Nett", "{path} has no class Nett; it has Net"),
        (NET, "", "--method must be FILE.py:NAME or MODULE:NAME for your own code, got '{path}:'"),
        (NET, "global_mean_pool", "{path}:global_mean_pool must be a class derived from torch.nn.Module, got a functi"),
        (NET, "Net --set width=3", "{path}:Net has no parameter 'width'; its parameters are hidden, dropout"),
        (NET, "Net --set batch=0", "batch must be a whole number from 1 to 1,000,000,000, got 0"),
        (NET, "Net --recipe slow", "component on communities has no recipe 'slow'"),
        (NET.replace("hidden=8", "hidden"), "Net", "{path}:Net needs a value for hidden: --set hidden=VALUE"),
        (
            NET.replace("class Net", "class gin"),
            "gin",
            "rename the class of {path}:gin: gin is a built-in method",
        ),
        (
            NET.replace("(x, batch)", "(x, None)"),
            "Net",
            "{path}:Net must return logits or values [graphs, outputs], which is",
        ),
        (
            NET.replace("return self.out", "return 3, self.out"),
            "Net",
            "{path}:Net must return logits or values [graphs, ou",
        ),
        (NET.replace("x, edge_index, batch)", "data)"), "Net", "{path}:Net must have forward(x, edge_index, batch), g"),
        (
            "import torch\nclass Net(torch.nn.Module):\n  def __init__(self, a, b): super().__init__()\n",
            "Net",
            "{path}:Net has no parameters to train",
        ),
        (
            "import torch\nclass Net(torch.nn.Module):\n  def __init__(self, a): super().__init__()\n",
            "Net",
            "{path}:Net must be called as Net(in_channels, num",
        ),
        (NET, "Net --set hidden=abc", "{path}:Net: TypeError:"),
    ],
    ids=lambda value: None if value is None or "\n" in value else value[:25],
)
def test_mistakes_are_told_in_a_line(text: str | None, reference: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    name, *options = reference.split(" ")
    result = run.invoke(
        app, ["run", "--method", f"{path}:{name}", "--store", str(tmp_path / "s.sqlite"), "--workers", "1", *options]
    )
    assert result.exit_code == 2, result.stderr
    last = result.stderr.splitlines()[-1]
    assert message.format(path=path) in last
    if "TypeError" not in message:
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NET.replace("x = self.conv(x", "x = self.conf(x"), "x = self.conf(x, edge_index).relu()"),
        (NET.replace("super().__init__()", "super().__init__(); 1 / 0"), "super().__init__(); 1 / 0"),
        (f"{NET}\nimport no_such_module", "import no_such_module"),
        (f"{NET}\ndef broken(:", "def broken(:"),
        (f"{NET}\nraise SystemExit(3)", "raise SystemExit(3)"),
    ],
    ids=["forward", "init", "import", "syntax", "exit"],
)
def test_errors_in_their_code_come_with_their_traceback(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    result = run.invoke(app, ["run", "--method", f"{path}:Net", "--store", str(tmp_path / "s.sqlite")])
    assert result.exit_code == 2
    assert line in result.stderr
    assert f'File "{path}"' in result.stderr
    assert "src/compool" not in result.stderr  # only theirs
    assert result.stderr.splitlines()[-1].startswith(f"compool: {path}:Net: ")


def test_errors_in_training_reach_the_command_from_workers(net: str, tmp_path: Path) -> None:
    """The class is fine in evaluation, where it is tried, and raises an error in training."""
    text = NET.replace("x = self.conv", "assert not self.training, 'in training'\n        x = self.conv")
    Path(net.removesuffix(":Net")).write_text(text)
    blocks = planned(tmp_path / "study.sqlite", small(net), number=2)
    with pytest.raises(OwnNetworkError, match="AssertionError: in training") as caught:
        list(study.train_on_workers(blocks, study.Store(tmp_path / "study.sqlite"), 1))
    assert "assert not self.training" in caught.value.trace
    command = ["run", "--method", net, "--replicas", "2", "--workers", "2", "--store", str(tmp_path / "study.sqlite")]
    result = run.invoke(app, command)
    assert result.stderr.splitlines()[-1] == f"compool: {net}: AssertionError: in training"
    assert "src/compool" not in result.stderr


def test_the_progress_bar_says_how_it_is_trained(net: str, tmp_path: Path) -> None:
    (block, *_) = planned(tmp_path / "study.sqlite", small(net))
    with Progress([block], Console(file=io.StringIO(), width=160)) as progress:
        study.train_block(block, progress.epoch)
        assert "replica 0 (one at a time), epoch 2/2" in progress.bar.tasks[0].description


def test_two_classes_of_one_name(net: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(f"{NET}\nOTHER = 1\n")
    result = run.invoke(app, ["run", "--method", f"{net},{tmp_path / 'other.py'}:Net", "--dry-run"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--method names two classes Net from different files: rename one of them" in result.stderr


def test_resources(net: str, tmp_path: Path) -> None:
    """A larger --block changes nothing: they are trained one at a time."""
    blocks = study.plan([small(net)], 4, 0, tmp_path / "study.sqlite", resources=CPU, size=4)
    assert [block.replicas for block in blocks] == [(0,), (1,), (2,), (3,)]


EDGES = """\
import torch
from torch_geometric.nn import GINEConv, global_add_pool


class Bonds(torch.nn.Module):
    def __init__(self, in_channels, num_classes, edge_dim, hidden=8):
        super().__init__()
        self.first = torch.nn.Linear(in_channels, hidden)
        self.conv = GINEConv(torch.nn.Linear(hidden, hidden), edge_dim=edge_dim)
        self.out = torch.nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index, edge_attr, batch):
        return self.out(global_add_pool(self.conv(self.first(x), edge_index, edge_attr), batch))
"""


def test_edge_features_reach_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logits of a batch are those of PyG's loader; the order of arguments does not matter, as they have names."""
    plain, random = communities(99), np.random.default_rng(0)
    graphs = replace(plain, edge_labels=random.integers(0, 3, plain.num_edges))
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    (tmp_path / "bonds.py").write_text(EDGES)
    recipe = small(f"{tmp_path / 'bonds.py'}:Bonds")
    (block,) = planned(tmp_path / "study.sqlite", recipe, number=1)
    networks: list[torch.nn.Module] = []
    study.train_block(block, graphs=graphs, keep=networks.append)
    call = NetworkCall(networks[0], Graphs(graphs), (3,))
    ids = [5, 0, 77]
    (batch,) = DataLoader([graphs[graph] for graph in ids], batch_size=3)
    assert batch.edge_attr.size(1) == networks[0].conv.lin.in_channels == 3
    expected = networks[0](batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    assert torch.allclose(call(torch.tensor([ids])), expected, atol=1e-6)

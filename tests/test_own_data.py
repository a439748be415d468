"""Studies on data of one's own: a function that returns graphs, or a saved set."""

import json
from pathlib import Path
from shutil import make_archive
from typing import Any

import pytest
from typer.testing import CliRunner

from compool.cli import app
from compool.cli._data import find_data
from compool.data import GraphSet, communities, community_count, load
from compool.data.paper import TU_NAMES
from compool.study import METHODS, Store, load_model, recipe
from tests.data.test_tu import write

run = CliRunner()
OWN = """
from dataclasses import dataclass

import torch
from torch_geometric.data import Data, InMemoryDataset

import sizes

@dataclass
class Size:
    nodes: int

def rings():
    graphs = []
    for index in range(30):
        one = torch.arange(sizes.smallest + index % 4)
        edge_index = torch.stack([torch.cat([one, one.roll(1)]), torch.cat([one.roll(1), one])])
        graphs.append(Data(x=torch.ones(len(one), 2) * (index % 2), edge_index=edge_index, y=index % 2))
    return graphs

class Rings(InMemoryDataset):
    def __init__(self):
        super().__init__()
        self.data, self.slices = self.collate(rings())

def proteins():
    from compool.data import GraphSet
    return GraphSet.from_data(rings(), name="PROTEINS")

def broken():
    return [1, 2][5]

def asks_to_exit():
    raise SystemExit("no data\\ntoday")

def empty():
    return []

def nothing():
    return None

def directed():
    return [Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]), y=0)] * 5

def one_class():
    for _ in range(9):
        yield Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=0)

def coloured():
    from compool.data import color_connectivity
    return color_connectivity("grid-16", count=30, seed=5)

number = 3
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COMPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))  # the command extends the path: undone by this
    (tmp_path / "own_graphs.py").write_text(OWN)
    (tmp_path / "sizes.py").write_text("smallest = 4\n")
    (tmp_path / "own_broken.py").write_text("import torch\nfrom nowhere_to_be_found import graphs\n")


def run_study(*arguments: str) -> Any:
    options = [
        "--method",
        "gin",
        "--replicas",
        "2",
        "--epochs",
        "2",
        "--no-report",
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    return run.invoke(app, ["run", *arguments, *options])


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("own_graphs.py:rings", "rings"),
        ("own_graphs:rings", "rings"),
        ("own_graphs:Rings", "Rings"),
        ("own_graphs.py:proteins", "PROTEINS"),
    ],
)
def test_a_function(reference: str, name: str, tmp_path: Path) -> None:
    extra = ["--set", "features=attributes"] if name == "rings" else []
    result = run_study("--data", reference, *extra)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{name}: 30 graphs, 2 classes; 2 node features from attributes")
    stored = list(Store(tmp_path / "study.sqlite").runs())
    assert [(one.dataset, one.replica, one.status) for one in stored] == [(name, 0, "done"), (name, 1, "done")]
    again = run_study(name, "--data", reference, *extra)
    assert "0 runs to train in 0 blocks, 2 already in study.sqlite" in again.stdout
    saved = next((tmp_path / "cache" / "own").glob("*/*.npz"))
    assert GraphSet.open(saved)[0].checksum == stored[0].data_checksum


def test_several_processes_train_on_the_same_graphs(tmp_path: Path) -> None:
    arguments = ["run", "--data", "own_graphs.py:rings", "--method", "gin", "--replicas", "4", "--block", "1"]
    result = run.invoke(app, [*arguments, "--epochs", "2", "--workers", "2", "--device", "cpu", "--no-report"])
    assert result.exit_code == 0, result.stderr
    stored = list(Store(tmp_path / "study.sqlite").runs())
    assert len(stored) == 4
    assert len({one.data_checksum for one in stored}) == 1


def test_a_saved_set(tmp_path: Path) -> None:
    graphs = communities(30)[:20]
    graphs.save(tmp_path / "sets" / "mine.npz")
    for arguments in (["--data", "sets/mine.npz"], ["mine", "--data", "sets"]):
        result = run_study(*arguments)
        assert result.exit_code == 0, result.stderr
        assert "mine (the set communities): 20 graphs, 3 classes; 4 node features from labels" in result.stdout
    (one, _) = Store(tmp_path / "study.sqlite").runs()
    assert (one.dataset, one.data_checksum) == ("mine", load("mine", tmp_path / "sets").checksum)
    folder = run_study("--data", "sets")  # no data set named
    assert (folder.exit_code, folder.stdout) == (2, "")
    assert folder.stderr == "compool: --data sets is a folder of data sets: name one before --data; it has mine\n"


@pytest.mark.parametrize("reference", ["communities.npz", "communities.zip", "own_graphs.py:coloured"])
def test_own_graphs_with_the_name_of_a_generated_set(reference: str, tmp_path: Path) -> None:
    communities(30, seed=7).save(tmp_path / "communities.npz")
    if reference == "communities.zip":
        (tmp_path / "communities.npz").unlink()
        write(tmp_path / "unpacked", name="communities")
        make_archive(str(tmp_path / "communities"), "zip", tmp_path / "unpacked")
    name, num_graphs = {
        "communities.npz": ("communities", 30),
        "communities.zip": ("communities", 3),
        "own_graphs.py:coloured": ("color-connectivity-16", 30),
    }[reference]
    result = run_study("--data", reference, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{name}: {num_graphs} graphs, ")


def test_one_class_is_refused_and_a_generator_names_the_set() -> None:
    result = run_study("--data", "own_graphs.py:one_class")
    assert result.exit_code == 2
    assert result.stderr.startswith("compool: all graphs of one_class have the same class, but a classifier needs two;")


def test_a_zip_file(tmp_path: Path) -> None:
    write(tmp_path / "unpacked")
    make_archive(str(tmp_path / "TINY"), "zip", tmp_path / "unpacked")
    assert find_data(tmp_path / "TINY.zip") == (tmp_path, "TINY", True, True)
    assert load("TINY", tmp_path / "TINY.zip").checksum == load("TINY", tmp_path / "unpacked").checksum
    with pytest.raises(FileNotFoundError, match=r"TINY\.zip is neither OTHER\.zip nor OTHER\.npz"):
        load("OTHER", tmp_path / "TINY.zip")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("own_broken.py", "own_broken.py must be a folder, a .zip or .npz file, or FILE.py:FUNCTION that returns PyG"),
        ("own_graphs.py:empty", "graphs must have at least one graph, got none"),
        ("own_graphs.py:nothing", "graphs must be a list of torch_geometric.data.Data or a dataset, got NoneType"),
        ("own_graphs.py:directed", "graph 0 has the edge (0, 1) in one direction only; GraphSet.from_data(graphs, to"),
        ("own_graphs.py:number", "own_graphs.py has no function number"),
        ("own_graphs.py:squares", "own_graphs.py has no function squares"),
        ("missing.py:rings", "missing.py does not exist"),
        ("missing_module:rings", "no Python module missing_module; write a file as FILE.py:NAME"),
        ("missing.module:rings", "no Python module missing.module; write a file as FILE.py:NAME"),
        (":rings", "must be FILE.py:NAME or MODULE:NAME for your own code, got ':rings'"),
        ("own_graphs.py:", "must be FILE.py:NAME or MODULE:NAME for your own code, got 'own_gra"),
        ("sets/mine.npz", "sets/mine.npz does not exist"),
        ("nowhere", "nowhere does not exist"),
    ],
)
def test_wrong_references_are_one_line(reference: str, message: str) -> None:
    result = run_study("--data", reference)
    assert result.exit_code == 2
    assert result.stderr.startswith("compool: --data ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("reference", "line", "last"),
    [
        ("own_graphs.py:broken", "return [1, 2][5]", "IndexError: list index out of range"),
        ("own_graphs.py:asks_to_exit", 'raise SystemExit("no data\\ntoday")', "SystemExit: no data"),
        (
            "own_broken.py:graphs",
            "from nowhere_to_be_found import",
            "ModuleNotFoundError: No module named 'nowhere_to_b",
        ),
    ],
)
def test_errors_in_own_code_come_with_their_traceback(reference: str, line: str, last: str) -> None:
    result = run_study("--data", reference)
    assert result.exit_code == 2
    assert line in result.stderr
    assert "src/compool" not in result.stderr  # none of our lines
    assert result.stderr.splitlines()[-1].startswith(f"compool: {reference}: {last}")


def test_a_file_with_a_name_that_stands_for_another_set(tmp_path: Path) -> None:
    communities(30).save(tmp_path / "PROTEINS.npz")
    communities(60).save(tmp_path / "PROTEINS_full.npz")  # must not be used instead
    for arguments in (["--data", "PROTEINS.npz"], ["PROTEINS", "--data", "PROTEINS.npz"]):
        result = run_study(*arguments, "--dry-run")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "compool: --data gives a file named PROTEINS, but PROTEINS stands for PROTEINS_full in studies; rename the "
            "file to use your own set\n"
        )


def test_predicting_what_a_function_returns(tmp_path: Path) -> None:
    """Graphs of PyG as model.predict takes them; a set may have any name; targets may be missing."""
    (tmp_path / "more.py").write_text(
        "from compool.data import GraphSet, communities\n"
        "def listed():\n    return [graph.update({'y': None}) for graph in communities(30, seed=7)]\n"
        "def proteins():\n    return GraphSet.from_data(communities(30, seed=7), name='PROTEINS')\n"
        "def nothing():\n    return 3\n"
    )
    assert run_study("communities").exit_code == 0
    exported = run.invoke(app, ["export", "communities", "--method", "gin", "--out", "model"])
    assert exported.exit_code == 0, exported.stderr
    expected = load_model("model").predict(communities(30, seed=7)).classes.tolist()
    for function in ("listed", "proteins"):
        result = run.invoke(app, ["predict", "model", "--data", f"more.py:{function}", "--json"])
        assert result.exit_code == 0, result.stderr
        assert [int(row["class"]) for row in json.loads(result.stdout)] == expected
    wrong = run.invoke(app, ["predict", "model", "--data", "more.py:nothing"])
    assert wrong.stderr == (
        "compool: --data more.py:nothing: graphs must be a list of torch_geometric.data.Data or a dataset, got int\n"
    )


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_outputs_that_are_not_finite_are_an_error(form: list[str], tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(
        "from own_graphs import rings\ndef huge():\n    graphs = rings()\n    graphs[3].x *= 3e38\n    return graphs\n"
    )
    assert run_study("--data", "own_graphs.py:rings").exit_code == 0
    exported = run.invoke(
        app, ["export", "rings", "--method", "gin", "--data", "own_graphs.py:rings", "--out", "model"]
    )
    assert exported.exit_code == 0, exported.stderr
    result = run.invoke(app, ["predict", "model", "--data", "more.py:huge", *form])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "compool: the outputs for graph 3 are NaN or infinite; check that its features are of the same scale as in "
        "training\n"
    )


def test_other_names_than_that_of_the_function() -> None:
    result = run_study("NCI1", "--data", "own_graphs.py:rings")
    assert result.exit_code == 2
    assert result.stderr == "compool: --data gives the data set rings; do not name others, got NCI1\n"


def test_a_set_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the default; messages name the variable rather than an option that was not given."""
    communities(30)[:20].save(tmp_path / "mine.npz")
    for value, name in (("mine.npz", "mine"), ("own_graphs.py:rings", "rings")):
        monkeypatch.setenv("COMPOOL_DATA", value)
        result = run_study("--dry-run")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith(f"{name}")
        result = run_study("communities")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            f"compool: COMPOOL_DATA gives the data set {name}; unset it to use others, got communities\n"
        )
        result = run.invoke(app, ["datasets"])
        assert (result.exit_code, result.stderr) == (2, f"compool: COMPOOL_DATA {value} is not a folder of data sets\n")
    assert "FILE.py" not in run.invoke(app, ["datasets", "--help"]).stdout


def test_what_a_recipe_changes_is_printed(tmp_path: Path) -> None:
    from compool.study.recipe_data import describe_data

    graphs = load_tiny(tmp_path)
    auto = recipe("component", "TINY")
    expected = "TINY: 3 graphs, 2 classes; 2 node features from attributes (features=auto); not used: 2 node labels"
    assert describe_data(auto, graphs) == f"{expected}, 3 edge labels"
    expected = "PROTEINS (the set TINY): 3 graphs, 2 classes; 2 node features from labels; not used: 2 node attributes"
    assert describe_data(recipe("gin", "PROTEINS", features="labels"), graphs) == f"{expected}, 3 edge labels"
    counted = describe_data(recipe("gin", "community-count"), community_count(12))
    assert counted == "community-count: 12 graphs, 1 target (regression); 4 node features from labels (features=auto)"


def load_tiny(folder: Path) -> GraphSet:
    return load("TINY", write(folder, edge_labels="1\n2\n3\n1\n2\n3\n"))


def test_names_of_the_paper_are_those_of_recipes() -> None:
    for method in METHODS:
        for dataset, tu_name in TU_NAMES.items():
            assert recipe(method, dataset).files == tu_name


def test_datasets_lists_edge_labels_and_tasks(tmp_path: Path) -> None:
    load_tiny(tmp_path)
    community_count(12).save(tmp_path / "count.npz")
    table = run.invoke(app, ["datasets", "--data", str(tmp_path)])
    assert "3 edge labels" in " ".join(table.stdout.split())
    assert "regression" in table.stdout

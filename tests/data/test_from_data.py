"""Sets from graphs of PyG: what is kept, what comes back by index, and what is refused."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.datasets import TUDataset
from torch_geometric.io import read_tu_data
from torch_geometric.loader import DataLoader

from compool.data import GraphSet, communities, features, load, split
from compool.replicas import Graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def path_graph(y: Any = 0, **changes: Any) -> Data:
    """A path of three nodes, with two features per node and one per edge."""
    given = {"x": torch.arange(6.0).view(3, 2), "edge_index": PATH, "edge_attr": torch.arange(4.0).view(4, 1), "y": y}
    return Data(**given | changes)


def test_what_is_kept() -> None:
    shuffled = torch.tensor([2, 0, 3, 1])
    messy = path_graph(
        1,
        edge_index=torch.cat([PATH[:, shuffled], torch.tensor([[1, 0], [1, 1]])], 1),  # a self-loop, and a repeat
        edge_attr=torch.tensor([[2.0], [0.0], [3.0], [1.0], [8.0], [9.0]]),
    )
    graphs = GraphSet.from_data([path_graph(0), messy], name="two")
    assert repr(graphs) == "GraphSet('two', 2 graphs, 2 features (attributes), 1 edge feature, 2 classes)"
    assert graphs.looped is not None
    assert graphs.looped.tolist() == [4]
    for index in range(2):
        assert torch.equal(graphs[index].edge_index, PATH)
        assert torch.equal(graphs[index].edge_attr, torch.arange(4.0).view(4, 1))
        assert torch.equal(graphs[index].x, torch.arange(6.0).view(3, 2))
    assert graphs.y.tolist() == [0, 1]


def test_whole_numbers_in_one_column_are_labels() -> None:
    x, edge_attr = torch.tensor([[0], [2], [1]]), torch.tensor([1, 1, 0, 0])
    graphs = GraphSet.from_data([path_graph(y, x=x, edge_attr=edge_attr) for y in (0, 1)])
    assert graphs.name == "graphs"
    assert graphs[1].x.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert graphs[1].edge_attr.tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    pairs = GraphSet.from_data([path_graph(0, x=torch.tensor([[0, 1], [2, 0], [1, 5]]))])
    assert pairs.attributes is not None
    assert pairs.attributes.tolist() == [[0, 1], [2, 0], [1, 5]]  # two columns of whole numbers: attributes


def test_without_features() -> None:
    graphs = GraphSet.from_data([Data(edge_index=PATH, num_nodes=4, y=y) for y in (0, 1)])
    assert graphs[0].x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]  # degrees 1, 2, 1, 0
    assert features(graphs).kind == "degree"


def test_one_direction_is_refused_or_added() -> None:
    half = path_graph(0, edge_index=torch.tensor([[0, 2], [1, 1]]), edge_attr=torch.tensor([[5.0], [7.0]]))
    with pytest.raises(ValueError, match=r"graph 1 has the edge \(0, 1\) in one direction only; .*to_undirected=True"):
        GraphSet.from_data([path_graph(), half])
    graph = GraphSet.from_data([path_graph(), half], to_undirected=True)[1]
    assert torch.equal(graph.edge_index, PATH)
    assert graph.edge_attr.tolist() == [[5.0], [5.0], [7.0], [7.0]]
    both = path_graph(0, edge_attr=torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    graph = GraphSet.from_data([both], to_undirected=True)[0]
    assert graph.edge_attr.flatten().tolist() == [1, 2, 3, 4]  # directions that are there keep their own


@pytest.mark.parametrize(
    ("y", "task", "stored"),
    [
        (1, "classification", [1, 1]),
        (torch.tensor(1), "classification", [1, 1]),
        (torch.tensor([1]), "classification", [1, 1]),
        (torch.tensor([[1]]), "classification", [1, 1]),  # as in OGB
        (0.5, "regression", [0.5, 0.5]),
        (torch.tensor([0.5], dtype=torch.float64), "regression", [0.5, 0.5]),
        (torch.tensor([[0.5, 2.0]]), "regression", [[0.5, 2.0]] * 2),
        (torch.tensor([[0, 1]]), "multilabel", [[0.0, 1.0]] * 2),
        (torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True), "regression", [0.5, 0.5]),
    ],
)
def test_targets(y: Any, task: str, stored: Any) -> None:
    graphs = GraphSet.from_data([path_graph(y), path_graph(y)])
    assert (graphs.task, graphs.y.tolist()) == (task, stored)
    assert graphs[1].y.tolist() == stored[1:]


def hetero() -> HeteroData:
    graph = HeteroData()
    graph["a"].x = torch.ones(2, 1)
    return graph


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "graphs must have at least one graph, got none"),
        (path_graph(), r"got one Data; put it in a list"),
        (hetero, "got one HeteroData; put it in a list"),
        (Batch.from_data_list([path_graph(), path_graph()]), r"got one DataBatch; use its to_data_list\(\)"),
        (DataLoader([path_graph(), path_graph()], 2), r"graph 0 is a DataBatch of several graphs; use its to_data"),
        ("graphs", "graphs must be a list of torch_geometric.data.Data or a dataset, got str"),
        (3, "graphs must be a list of torch_geometric.data.Data or a dataset, got int"),
        ([torch.ones(3)], "graph 0 is a Tensor, but must be a torch_geometric.data.Data"),
        ([hetero()], r"graph 0 is a HeteroData: .* its to_homogeneous\(\) makes one"),
        ([path_graph(), path_graph(None)], "graph 1 has no y: set a class, numbers or labels"),
        ([path_graph(torch.zeros(3))], r"graph 0 must have one y, of shape \[1\], or \[1, T\].*; got \[3\]"),
        (
            [path_graph(), path_graph(torch.zeros(1, 2))],
            "graph 1 has y of shape \\[1, 2\\], graph 0 \\[1\\]; NaN stands for a missing target",
        ),
        ([path_graph("active")], "graph 0 must have numbers as y, got <U6"),
        (
            [path_graph(-1)],
            "y must hold classes from 0 to 999,999 for classification; graph [01] has -1; number",
        ),
        ([path_graph(float("nan"))], "y must be finite for regression"),
        ([path_graph(), path_graph(x=torch.ones(3, 5))], "graph 1 has 5 columns in x, but graph 0 has 2 columns"),
        ([path_graph(), path_graph(x=None, num_nodes=3)], "graph 1 has nothing in x, but graph 0 has 2 columns"),
        ([path_graph(), path_graph(edge_attr=None)], "graph 1 has nothing in edge_attr, but graph 0 has 1 columns"),
        ([path_graph(edge_attr=torch.ones(3, 1))], r"graph 0 must have edge_attr \[4, features\], got \[3, 1\]"),
        ([path_graph(x=torch.ones(3, 2, 2))], r"graph 0 must have x \[nodes, features\], got \[3, 2, 2\]"),
        ([path_graph(x=torch.full((3, 2), torch.nan))], "graph 0 has NaN or infinite values in x; fill them in"),
        ([path_graph(edge_attr=torch.full((4, 1), torch.inf))], "graph 0 has NaN or infinite values in edge_attr"),
        ([path_graph(x=torch.ones(3, 2, dtype=torch.cfloat))], "graph 0 must have numbers as x, got complex64"),
        ([path_graph(edge_index=PATH + 1)], r"graph 0 has nodes 0\.\.2, but an edge of node 3"),
        ([path_graph(edge_index=PATH - 1)], r"graph 0 has nodes 0\.\.2, but an edge of node -1"),
        ([path_graph(edge_index=PATH.float())], r"graph 0 must have whole numbers \[2, E\] as edge_index, got float32"),
        (
            [path_graph(edge_index=PATH.t())],
            r"graph 0 must have whole numbers \[2, E\] as edge_index, got int64 \[4, 2",
        ),
        ([path_graph(edge_index=None)], "graph 0 has no edge_index; without edges it is torch.empty"),
        (
            [path_graph(x=torch.tensor([-1, 0, 1]))],
            r"graph 0: x is one column of whole numbers, so it is read as node labels, which must be 0\.\.999,999; got",
        ),
        (
            [path_graph(), path_graph(edge_attr=torch.tensor([[1], [5_000_000], [1], [1]]))],
            r"graph 1: edge_attr is one column .* edge labels, .*; got 5000000\. Use edge_attr\.float\(\) for a number",
        ),
        ([path_graph(x=torch.ones(3, 0))], "graph 0 has x without columns; leave x out for one-hot degrees"),
    ],
)
def test_what_is_refused(graphs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        GraphSet.from_data(graphs() if graphs is hetero else graphs)
    assert "\n" not in str(error.value)


def test_names() -> None:
    with pytest.raises(ValueError, match=r"a data set's name has letters, digits and . _ \+ - only; got '\.\./a'"):
        GraphSet.from_data([path_graph()], name="../a")
    renamed = GraphSet.from_data(communities(9), name="other")
    assert (renamed.name, renamed.checksum) == ("other", communities(9).checksum)
    assert GraphSet.from_data(renamed) is renamed


@pytest.mark.parametrize(
    "index",
    [
        slice(2, 5),
        slice(None, None, -2),
        slice(0.5, None),
        [4, 0, 4],
        (1, -1),
        np.array([3, 2]),
        torch.tensor([[3], [2]]),
        np.arange(9) % 2 == 0,
        torch.arange(9) % 2 == 0,
        [True] + 8 * [False],
        range(3),
    ],
    ids=str,
)
def test_subsets(index: Any) -> None:
    graphs = load_mutag()[:9]
    array = np.arange(9)
    if isinstance(index, slice) and isinstance(index.start, float):
        expected = array[4:]  # round(4.5)
    else:
        plain = index if isinstance(index, slice) else np.asarray(index).reshape(-1)
        expected = array[plain]
    subset = graphs[index]
    assert isinstance(subset, GraphSet)
    assert len(subset) == len(expected)
    for graph, other in zip(subset, expected.tolist(), strict=True):
        whole = graphs[other]
        assert all(torch.equal(graph[key], whole[key]) for key in ("x", "edge_index", "edge_attr", "y"))


def load_mutag() -> GraphSet:
    folder = os.environ.get("COMPOOL_DATA")
    if not folder or not (Path(folder) / "MUTAG.zip").exists():
        pytest.skip("needs MUTAG.zip in the folder that COMPOOL_DATA names")
    return load("MUTAG", folder)


def test_single_graphs() -> None:
    graphs = communities(9)
    for index in (8, -1, np.int64(8), torch.tensor(8), np.array(8)):
        graph = graphs[index]  # type: ignore[call-overload]
        assert isinstance(graph, Data)
        assert torch.equal(graph.edge_index, graphs[8].edge_index)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (9, r"communities has graphs 0\.\.8, got 9"),
        (-10, r"communities has graphs 0\.\.8, got -10"),
        ([0, 9], r"communities has graphs 0\.\.8, got 9"),
        (torch.tensor([-10]), r"communities has graphs 0\.\.8, got -10"),
        ([True, False], "a mask must have one entry per graph, 9; got 2"),
        (1.5, "an index must be a whole number, slice, or list, mask or tensor of them; got float 1.5"),
        ("first", "an index must be a whole number, slice, .* got str 'first'"),
        (None, "an index must be a whole number, slice, .* got NoneType None"),
        ([], "a subset of communities must have at least one graph, got none"),
        (slice(5, 5), "a subset of communities must have at least one graph, got none"),
    ],
)
def test_wrong_indices(index: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        communities(9)[index]


def test_subsets_keep_columns_and_classes(tmp_path: Path) -> None:
    graphs = GraphSet.from_data(
        [Data(edge_index=PATH, num_nodes=3 + extra, y=extra) for extra in (0, 1, 2)]
        + [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, y=0)]
    )
    pair = graphs[3:]  # nodes of degree 1 only, and of class 0
    assert (graphs.num_features, pair.num_features, pair.num_classes) == (3, 3, 3)
    assert pair[0].x.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert features(pair, "released").width == features(graphs, "released").width
    pair.save(tmp_path / "pair.npz")
    back = load("pair", tmp_path)
    assert (back.num_features, back.num_classes, back[0].x.tolist()) == (3, 3, pair[0].x.tolist())
    looped = GraphSet.from_data(
        [path_graph(), path_graph(edge_index=torch.tensor([[1], [1]]), edge_attr=torch.ones(1, 1))]
    )
    assert looped[1:].degree.tolist() == [0, 1, 0]


def test_a_loader_takes_it() -> None:
    graphs = load_mutag()
    torch.manual_seed(0)
    batches = list(DataLoader(graphs, batch_size=50, shuffle=True))  # type: ignore[arg-type]
    assert [batch.num_graphs for batch in batches] == [50, 50, 50, 38]
    assert batches[0].x.size(1) == graphs.num_features == graphs.num_node_features == 7
    assert batches[0].edge_attr.size(1) == graphs.num_edge_features == 4
    assert sum(int(batch.y.sum()) for batch in batches) == graphs.y.sum()
    torch.manual_seed(0)
    shuffled, order = graphs.shuffle(return_perm=True)
    torch.manual_seed(0)
    assert torch.equal(order, torch.randperm(188))
    assert np.array_equal(shuffled.y, graphs.y[order.numpy()])


@pytest.fixture(params=["MUTAG", "PTC_MR"])
def tu_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The name of a set, and a root folder of PyG that has it."""
    folder = os.environ.get("COMPOOL_DATA")
    if not folder or not (Path(folder) / f"{request.param}.zip").exists():
        pytest.skip(f"needs {request.param}.zip in the folder that COMPOOL_DATA names")
    with zipfile.ZipFile(Path(folder) / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    (tmp_path / "root" / request.param).mkdir(parents=True)
    (tmp_path / request.param).rename(tmp_path / "root" / request.param / "raw")
    return request.param, tmp_path / "root"


def test_labels_equal_those_of_pyg_s_reader(tu_root: tuple[str, Path]) -> None:
    name, root = tu_root
    theirs, slices, sizes = read_tu_data(str(root / name / "raw"), name)
    ours = load(name, os.environ["COMPOOL_DATA"])
    assert (sizes["num_edge_labels"], sizes["num_node_labels"]) == (ours.num_edge_features, ours.num_features)
    for key in ("x", "edge_attr", "y"):
        assert torch.equal(torch.cat([graph[key] for graph in ours]), theirs[key])
    assert torch.equal(torch.cat([graph.edge_index for graph in ours], 1), theirs.edge_index)
    assert slices["edge_attr"].tolist() == ours.edge_ptr.tolist()


def test_a_dataset_of_pyg_is_a_set(tu_root: tuple[str, Path]) -> None:
    name, root = tu_root
    dataset, loaded = TUDataset(str(root), name), load(name, os.environ["COMPOOL_DATA"])
    graphs = GraphSet.from_data(dataset)
    assert (graphs.name, graphs.num_classes, graphs.num_features) == (name, 2, dataset.num_features)
    assert split(dataset, 3).checksum == split(graphs, 3).checksum == split(loaded, 3).checksum
    ids = torch.tensor([[0, 5], [7, 1]])
    (x, union), (one_hot, same) = (Graphs(given).union(ids) for given in (dataset, loaded))
    assert torch.equal(union.edge_index, same.edge_index)
    assert torch.equal(x, torch.nn.functional.one_hot(one_hot, dataset.num_features).float())


def test_edge_features_of_own_graphs_count_in_the_checksum(tmp_path: Path) -> None:
    one, other = (GraphSet.from_data([path_graph(edge_attr=torch.full((4, 1), value))]) for value in (1.0, 2.0))
    assert one.checksum != other.checksum
    assert one[[0, 0]].checksum != other[[0, 0]].checksum
    one.save(tmp_path / "one.npz")
    assert load("one", tmp_path).checksum == one.checksum


def test_unknown_labels_of_a_vocabulary() -> None:
    graphs = GraphSet.from_data([path_graph(y, x=torch.tensor([0, 2, 1]), edge_attr=None) for y in (0, 2)])
    few = GraphSet.from_data([path_graph(0, x=torch.tensor([0, 0, 1]), edge_attr=None)]).vocabulary
    with pytest.raises(ValueError, match=r"graphs has class 2, but known are 0\.\.0"):
        replace(graphs, inherited=few)
    with pytest.raises(ValueError, match=r"graphs has node label 2, but known are 0\.\.1"):
        replace(graphs[:1], inherited=few)
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    four = GraphSet.from_data([Data(edge_index=star, num_nodes=4, y=0)])
    with pytest.raises(
        ValueError, match="graphs has a node of degree 3, which is not among the known 2 degrees from 1 to 2"
    ):
        features(replace(four, inherited=few))


def test_what_a_subset_inherits_counts_in_its_checksum(tmp_path: Path) -> None:
    """The same arrays of a set with three labels and one with eight: networks have three or eight inputs."""
    three, eight = (
        GraphSet.from_data([path_graph(x=torch.tensor([0, 1, 2])), path_graph(x=torch.tensor([0, 1, most]))])
        for most in (2, 7)
    )
    assert three[:1].checksum != eight[:1].checksum
    assert three[:1].checksum == GraphSet.from_data([path_graph(x=torch.tensor([0, 1, 2]))]).checksum
    assert eight[[0, 1]].checksum == eight.checksum
    eight[:1].save(tmp_path / "one.npz")
    assert load("one", tmp_path).checksum == eight[:1].checksum


def test_a_subset_with_another_task() -> None:
    numbers = GraphSet.from_data([path_graph(y=float(y)) for y in (0, 2, 1)])
    classes = GraphSet.from_data(numbers[:2], task="classification")
    assert (classes.task, classes.y.tolist(), classes.num_classes) == ("classification", [0, 2], 3)
    assert GraphSet.from_data(classes[:1], "renamed").num_classes == 3


def test_sparse_tensors_are_made_dense() -> None:
    graphs = GraphSet.from_data([path_graph(x=x) for x in (torch.eye(3), torch.eye(3).to_sparse())])
    assert graphs[1].x.tolist() == torch.eye(3).tolist()


def test_checksums_stay() -> None:
    """Runs are keyed by them: that edge labels are read must not change any."""
    mutag = load_mutag()
    assert mutag.checksum == "5fc27e095662a2f1"
    assert [split(mutag, 3, kind=kind).checksum for kind in ("independent", "stratified", "folds")] == [
        "958e5dd795925927",
        "822e2fa37c1ad783",
        "92dc2e38b35dafcf",
    ]
    assert mutag.edge_labels is not None
    assert len(mutag.edge_checksum) == 16
    assert communities(9).edge_checksum == ""


def test_transposed_features_can_be_saved(tmp_path: Path) -> None:
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = GraphSet.from_data([Data(torch.randn(5, 3).t(), path, y=label) for label in (0, 1)])
    graphs.save(tmp_path / "graphs.npz")
    assert GraphSet.open(tmp_path / "graphs.npz")[0].checksum == graphs.checksum


@pytest.mark.parametrize("name", ["names", "summary", "checksum"])
def test_notes_of_the_file_itself_are_reserved(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"a note cannot be called {name}"):
        communities(9).save(tmp_path / "graphs.npz", **{name: "mine"})
    assert not list(tmp_path.iterdir())


def test_changing_a_graph_does_not_change_the_set() -> None:
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = GraphSet.from_data([Data(torch.rand(3, 5), path, y=label) for label in (0, 1)])
    before = graphs[0].x.clone()
    graphs[0].x.fill_(9)
    graphs[0].y.add_(7)
    assert torch.equal(graphs[0].x, before)
    assert graphs.y.tolist() == [0, 1]


def test_the_shapes_of_targets_are_named() -> None:
    path = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(torch.rand(2, 5), path, y=torch.zeros(shape)) for shape in ((1,), (1, 2))]
    with pytest.raises(ValueError, match=r"graph 1 has y of shape \[1, 2\], graph 0 \[1\]"):
        GraphSet.from_data(graphs)

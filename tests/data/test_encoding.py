"""Features of other graphs in the columns of a set: by the names of labels, and by degrees."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compool.data import GraphSet, communities, features, load
from compool.data.encoding import Encoding, encoding_from_dict, encoding_of
from compool.data.names import Names
from compool.data.opening import names_of, open_graphs
from compool.data.tu import available
from tests.data.test_tu import write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))


def tiny_encoding(folder: Path, kind: str) -> Encoding:
    """Of a set with the node labels 7 and 9, and the degrees 0, 1 and 2."""
    write(folder)
    return encoding_of(load("TINY", folder), kind, names_of("TINY", folder))


def test_names_are_those_of_the_files(tmp_path: Path) -> None:
    """From the folder, from a zip file, and from the cache; rows of several numbers are one name."""
    write(tmp_path, node_labels="7, 1\n9, 1\n7, 1\n7, 0\n7, 1\n9, 1\n", edge_labels="3\n3\n5\n5\n4\n4\n")
    names = Names(("-1", "1"), ("7 0", "7 1", "9 1"), ("3", "4", "5"))
    assert names_of("TINY", tmp_path) == names
    load("TINY", tmp_path)
    assert names_of("TINY") == names
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        for path in (tmp_path / "TINY").iterdir():
            archive.write(path, f"TINY/{path.name}")
    assert open_graphs(tmp_path / "other.zip")[1] == open_graphs(tmp_path / "TINY")[1] == names
    assert open_graphs(tmp_path / "cache" / "TINY.npz")[1] == names
    assert open_graphs(tmp_path / "other.zip")[0].checksum == load("TINY", tmp_path).checksum


def test_classes_may_be_missing(tmp_path: Path) -> None:
    write(tmp_path, graph_labels=None)
    graphs, names = open_graphs(tmp_path / "TINY")
    assert (graphs.y.tolist(), names.classes) == ([0, 0, 0], ())
    with pytest.raises(FileNotFoundError, match=r"TINY has no TINY_graph_labels\.txt"):
        load("TINY", tmp_path)


@pytest.mark.parametrize(
    ("numbers", "line"), [("1001\n" * 6, 1), ("2\n" * 6, 1), ("1\n1\n1\n3\n3\n4\n", 4), ("0\n1\n1\n2\n2\n3\n", 1)]
)
def test_without_classes_graphs_are_numbered_without_gaps(numbers: str, line: int, tmp_path: Path) -> None:
    write(tmp_path, graph_labels=None, graph_indicator=numbers)
    message = rf"TINY_graph_indicator\.txt, line {line}: graphs must be numbered from 1, in order"
    with pytest.raises(ValueError, match=message):
        open_graphs(tmp_path / "TINY")


def test_labels_get_the_columns_of_their_names(tmp_path: Path) -> None:
    """A set that has only label 9 would number it 0."""
    encoding = tiny_encoding(tmp_path / "first", "labels")
    assert (encoding.width, encoding.labels) == (2, ("7", "9"))
    write(tmp_path, node_labels="9\n" * 6)
    graphs, names = open_graphs(tmp_path / "TINY")
    assert features(graphs, "labels").column.tolist() == [0] * 6
    encoded, chosen = encoding.encode(graphs, names)
    assert (chosen.width, chosen.column.tolist()) == (2, [1] * 6)
    assert encoded.y.tolist() == [0, 0, 0]


def test_degrees_get_the_columns_of_the_set(tmp_path: Path) -> None:
    encoding = tiny_encoding(tmp_path / "first", "degree")
    assert (encoding.degrees, encoding.width) == ((0, 1, 2), 3)
    write(tmp_path, A="1, 2\n2, 1\n4, 5\n5, 4\n")
    graphs, names = open_graphs(tmp_path / "TINY")
    assert encoding.encode(graphs, names)[1].column.tolist() == [1, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "labels",
            {"node_labels": "7\n9\n7\n7\n8\n9\n"},
            "TINY: node label 8 is unknown; the model's features have columns for 7, 9",
        ),
        ("labels", {"node_labels": None}, "TINY has no node labels, which the model's features are made of"),
        (
            "degree",
            {"A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n3, 3\n"},
            "TINY has a node of degree 3, which is not among the known 3 degrees from 0 to 2",
        ),
        (
            "released",
            {"A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n3, 3\n"},
            "TINY has a node of degree 3, which is unknown; the model's features have columns for degrees to 2",
        ),
        (
            "attributes",
            {"node_attributes": "1, 2, 3\n" * 6},
            "TINY has 3 node attributes, but the model takes 2; column 2 is unknown",
        ),
        (
            "attributes",
            {"node_attributes": "1\n" * 6},
            "TINY has 1 node attributes, but the model takes 2; column 1 is missing",
        ),
        (
            "attributes",
            {"node_attributes": None},
            "TINY has 0 node attributes, but the model takes 2; column 0 is missing",
        ),
    ],
)
def test_what_does_not_fit_is_named(kind: str, changes: dict[str, str | None], message: str, tmp_path: Path) -> None:
    encoding = tiny_encoding(tmp_path / "first", kind)
    write(tmp_path, **changes)
    with pytest.raises(ValueError, match="TINY") as caught:
        encoding.encode(*open_graphs(tmp_path / "TINY"))
    assert str(caught.value) == message


EDGES = {"edge_labels": "3\n3\n5\n5\n3\n3\n", "edge_attributes": "1, 2\n1, 2\n3, 4\n3, 4\n5, 6\n5, 6\n"}


def test_edge_features(tmp_path: Path) -> None:
    """Only where they are needed; labels by name."""
    write(tmp_path / "first", **EDGES)
    encoding = encoding_of(load("TINY", tmp_path / "first"), "labels", names_of("TINY", tmp_path / "first"))
    assert (encoding.edge_width, encoding.edge_labels) == (4, ("3", "5"))
    assert encoding_from_dict(encoding.as_dict()) == encoding
    write(tmp_path, edge_labels="5\n" * 6, edge_attributes=EDGES["edge_attributes"])
    encoded, _ = encoding.encode(*open_graphs(tmp_path / "TINY"), with_edges=True)
    assert encoded[0].edge_attr.tolist() == [[1, 2, 0, 1], [1, 2, 0, 1], [3, 4, 0, 1], [3, 4, 0, 1]]
    assert encoding.encode(*open_graphs(tmp_path / "TINY"))[0].num_edge_features == 0
    for changes, message in (
        ({"edge_labels": "4\n" * 6}, "TINY: edge label 4 is unknown; the model's features have columns for 3, 5"),
        ({"edge_labels": None}, "TINY has no edge labels, which the model's features are made of"),
        ({"edge_attributes": "1\n" * 6}, "TINY has 1 edge attributes, but the model takes 2; column 1 is missing"),
    ):
        write(tmp_path, **EDGES | changes)
        with pytest.raises(ValueError, match="TINY") as caught:
            encoding.encode(*open_graphs(tmp_path / "TINY"), with_edges=True)
        assert str(caught.value) == message


def test_without_names_labels_are_numbers(tmp_path: Path) -> None:
    """Saved sets have no names; a model without names cannot take labels with names."""
    encoding, graphs = encoding_of(communities(9)), communities(12)
    assert encoding.encode(graphs)[1].column.tolist() == graphs.labels.tolist()
    fewer = Encoding("labels", 3, 3)
    with pytest.raises(ValueError, match="communities: node label 3 is unknown; the model's features have columns for"):
        fewer.encode(graphs)
    write(tmp_path)
    with pytest.raises(ValueError, match="the model has no names for its node labels; export it again with"):
        fewer.encode(*open_graphs(tmp_path / "TINY"))
    named = tiny_encoding(tmp_path / "first", "labels")
    given = GraphSet("x", [0, 2], [0, 0], np.zeros((2, 0), int), [0], labels=[1, 0])
    with pytest.raises(ValueError, match="x: the node labels have no names, but the model's are 7, 9; give the folder"):
        named.encode(given)
    assert replace(named, labels=("0", "1")).encode(given)[1].column.tolist() == [1, 0]


def test_a_set_keeps_the_names_of_its_files(tmp_path: Path) -> None:
    """Parsed, from the cache, saved again, and as a subset."""
    encoding = tiny_encoding(tmp_path / "first", "labels")
    write(tmp_path / "other", "OTHER", node_labels="9\n" * 6)
    parsed, cached = (load("OTHER", tmp_path / "other") for _ in range(2))
    cached.save(tmp_path / "saved.npz")
    for graphs in (parsed, cached, GraphSet.open(tmp_path / "saved.npz")[0]):
        assert graphs.names == Names(("-1", "1"), ("9",))
        assert encoding.encode(graphs)[1].column.tolist() == [1] * 6
        assert encoding.encode(graphs[1:])[1].column.tolist() == [1] * 3


@pytest.mark.parametrize("kind", ["attributes", "labels", "degree", "one", "released"])
def test_the_set_itself_gets_its_own_features(kind: str, tmp_path: Path) -> None:
    encoding = encoding_from_dict(tiny_encoding(tmp_path, kind).as_dict())
    graphs, names = open_graphs(tmp_path / "TINY")
    ours, theirs = encoding.encode(graphs, names)[1], features(graphs, kind)
    assert np.array_equal(ours.dense(slice(None)), theirs.dense(slice(None)))


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"kind": "auto", "width": 1},
        {"kind": "labels"} | {"width": -1},
        {"kind": "labels", "width": 1.5},
        {"kind": "labels", "width": 2, "labels": [1]},
        {"kind": "degree", "width": 2, "degrees": [2, 1]},
        {"kind": "degree", "width": 2, "degrees": "12"},
        {"kind": "one", "width": 1, "colour": "red"},
    ],
)
def test_descriptions_are_checked(given: object) -> None:
    with pytest.raises(ValueError, match=r"of the features|the features must be"):
        encoding_from_dict(given)


def test_names_that_do_not_fit(tmp_path: Path) -> None:
    encoding = tiny_encoding(tmp_path, "labels")
    graphs = load("TINY", tmp_path)
    changed = replace(graphs, labels=graphs.labels + 1)
    with pytest.raises(ValueError, match="TINY: there are 2 names for node labels, but a node label is 2; give names"):
        encoding.encode(changed)
    assert encoding.encode(changed, Names(labels=("5", "7", "9")))[1].column.tolist() == graphs.labels.tolist()


def test_files_that_macos_adds_are_no_sets(tmp_path: Path) -> None:
    write(tmp_path)
    with zipfile.ZipFile(tmp_path / "TINY.zip", "w") as archive:
        for path in sorted((tmp_path / "TINY").iterdir()):
            archive.write(path, f"TINY/{path.name}")
            archive.writestr(f"__MACOSX/TINY/._{path.name}", b"\0\5\x16\7")
    (tmp_path / "TINY" / "._TINY_A.txt").touch()
    (tmp_path / "._TINY.zip").touch()
    assert len(open_graphs(tmp_path / "TINY.zip")[0]) == len(open_graphs(tmp_path / "TINY")[0]) == 3
    assert available(tmp_path) == ["TINY"]


def test_paths_that_hold_no_set(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "two").mkdir()
    for name in ("A", "B"):
        (tmp_path / "two" / f"{name}_A.txt").touch()
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    for path, message in (
        ("nowhere", "does not exist"),
        ("text.txt", "is neither a zip file nor a saved set of graphs"),
        ("two", "must have the files of one data set, such as NAME_A.txt; it has A, B"),
        ("empty.zip", "it has none"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            open_graphs(tmp_path / path)


@pytest.mark.parametrize(("kind", "width"), [("one", 1), ("degree", 2)])
def test_attributes_replace_other_features_only_if_they_are_one_hot(kind: str, width: int) -> None:
    """Attributes that happen to have as many columns are not taken for degrees or ones."""
    encoding = encoding_of(communities(9), kind)
    assert encoding.width == width
    for value, expected in ((7.0, kind), (1.0, "attributes")):
        attributes = np.zeros((84, width), np.float32)
        attributes[:, 0] = value
        graphs = replace(communities(9)[8:], attributes=attributes)
        assert encoding.as_given(graphs).kind == expected

"""TU files that are right, odd, and broken. `write` makes a set of two or three tiny graphs in a folder."""

import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from compool.data import GraphSet, features, load, tu

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "-1\n1\n1\n",
    "node_labels": "7\n9\n7\n7\n7\n9\n",
    "node_attributes": "0.5, 1\n 1.5, 2\n2, 3\n3, 4\n4, 5\n5, -6e-1\n",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))


def write(folder: Path, name: str = "TINY", **changes: str | None) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    for suffix, text in {**FILES, **changes}.items():
        path = folder / name / f"{name}_{suffix}.txt"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
    return folder


def test_what_is_read(tmp_path: Path) -> None:
    graphs = load("TINY", write(tmp_path))
    assert graphs.node_ptr.tolist() == [0, 3, 5, 6]
    assert graphs.edge_ptr.tolist() == [0, 4, 6, 6]  # the third graph has no edges
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]]
    assert graphs.y.tolist() == [0, 1, 1]  # −1 and 1
    assert graphs.labels.tolist() == [0, 1, 0, 0, 0, 1]
    assert graphs.attributes[5].tolist() == [5.0, pytest.approx(-0.6)]
    assert graphs.looped is None
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]
    assert graphs[2].num_edges == 0


def test_repeats_and_self_loops(tmp_path: Path) -> None:
    odd = load("TINY", write(tmp_path, A="2, 1\n1, 2\n2, 1\n2 , 3\n3,2\n3, 3\n1, 2\n4\t5\r\n5 4\n\n"))
    assert odd.edge_index.tolist() == [[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]]
    assert odd.looped.tolist() == [2]
    assert odd.degree.tolist() == [1, 2, 2, 1, 1, 0]


def test_labels_and_attributes_of_edges(tmp_path: Path) -> None:
    # lines of the file: (2, 1), (1, 2), (2, 1) again, (2, 3), (3, 2), (3, 3), (4, 5), (5, 4)
    lines = "2, 1\n1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n4, 5\n5, 4\n"
    attributes = "".join(f"{number}.5\n" for number in range(8))
    graphs = load("TINY", write(tmp_path, A=lines, edge_labels="4\n4\n9\n7\n7\n9\n4\n7\n", edge_attributes=attributes))
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]]
    assert graphs.edge_labels.tolist() == [0, 0, 1, 1, 0, 1]
    assert graphs.edge_attributes.flatten().tolist() == [1.5, 0.5, 3.5, 4.5, 6.5, 7.5]  # of repeats, the first counts
    assert graphs[1].edge_attr.tolist() == [[6.5, 1, 0], [7.5, 0, 1]]  # attributes, then labels; label 9 is gone
    plain = load("TINY", write(tmp_path, A=lines, edge_labels=None, edge_attributes=None))
    assert plain.checksum == graphs.checksum
    assert (plain.edge_checksum, len(graphs.edge_checksum)) == ("", 16)


def test_the_paper_s_name_of_a_set(tmp_path: Path) -> None:
    write(tmp_path, "PROTEINS", node_attributes=None)
    with pytest.raises(
        FileNotFoundError, match=r"no data set PROTEINS_full in .*; PROTEINS stands for PROTEINS_full; v"
    ):
        load("PROTEINS", tmp_path)
    assert features(load("PROTEINS", tmp_path, variant="tu")).kind == "labels"
    write(tmp_path, "PROTEINS_full")
    assert load("PROTEINS", tmp_path).name == load("PROTEINS_full", tmp_path).name == "PROTEINS_full"
    with pytest.raises(ValueError, match="variant must be 'paper' or 'tu', got 'small'"):
        load("PROTEINS", tmp_path, variant="small")


def test_every_place(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain")
    raw = tmp_path / "pyg"
    (raw / "TINY").mkdir(parents=True)
    shutil.copytree(plain / "TINY", raw / "TINY" / "raw")
    zipped = tmp_path / "zips"
    zipped.mkdir()
    with zipfile.ZipFile(zipped / "TINY.zip", "w", zipfile.ZIP_LZMA) as archive:
        for path in (plain / "TINY").iterdir():
            archive.write(path, f"TINY/{path.name}")
    sets = [load("TINY", place) for place in (plain, raw, zipped)]
    copied = tmp_path / "copied"
    copied.mkdir()
    shutil.copy(tmp_path / "cache" / "TINY.npz", copied)
    sets += [load("TINY", copied), load("TINY")]  # the flat file elsewhere; the cache alone
    for graphs in sets:
        assert np.array_equal(graphs.edge_index, sets[0].edge_index)
        assert np.array_equal(graphs.attributes, sets[0].attributes)
        assert np.array_equal(graphs.labels, sets[0].labels)
        assert graphs.name == "TINY"
    assert tu.available(plain) == tu.available(raw) == tu.available(zipped) == tu.available(copied) == ["TINY"]


def test_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    load("TINY", tmp_path)
    monkeypatch.setattr(tu, "parse", lambda *_: pytest.fail("parsed again"))
    load("TINY", tmp_path)


def test_a_changed_source_is_parsed_again(tmp_path: Path) -> None:
    load("TINY", write(tmp_path))
    assert load("TINY", write(tmp_path, graph_labels="0\n0\n5\n")).y.tolist() == [0, 0, 1]


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    load("TINY", write(tmp_path))
    cached = tmp_path / "cache" / "TINY.npz"
    cached.write_bytes(cached.read_bytes()[:200])
    assert load("TINY", tmp_path).num_nodes == 6
    cached.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"TINY\.npz is damaged, or not a graph set .* delete it if it is a cache"):
        load("TINY")
    for wrong in ({"format": 1}, {"format": [1, 1]}, {"format": 1, "node_ptr": 3, "out_degree": 4}):
        np.savez(cached, **{key: np.array(value) for key, value in wrong.items()})
        with pytest.raises(ValueError, match=r"is damaged, or not a graph set|has format"):
            load("TINY")
    with cached.open("wb") as file:
        np.save(file, np.zeros(3))  # one array, not several
    with pytest.raises(ValueError, match="is damaged, or not a graph set"):
        load("TINY")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, 2\n2, 1\n2, "}, r"TINY_A\.txt, line 3: expected 2 integers, found '2, '"),
        ({"A": "1, 2\n2, x\n"}, r"TINY_A\.txt, line 2: expected 2 integers, found '2, x'"),
        ({"A": "1, 2\n\n2, 1\n"}, r"TINY_A\.txt, line 2: expected 2 integers, found ''"),
        ({"A": "1, 2\n2, 1, 3\n"}, r"TINY_A\.txt, line 2: expected 2 integers"),
        ({"A": "1, 2\n2, 1\n1, 99999999999\n"}, r"TINY_A\.txt, line 3: expected 2 integers"),
        ({"A": "1, 2\n2, 1\n2, 7\n"}, r"TINY_A\.txt, line 3: nodes are 1\.\.6, found \(2, 7\)"),
        ({"A": "0, 2\n2, 0\n"}, r"TINY_A\.txt, line 1: nodes are 1\.\.6, found \(0, 2\)"),
        ({"A": "1, 2\n2, 1\n3, 4\n"}, r"TINY_A\.txt, line 3: its nodes are in different graphs, 1 and 2"),
        (
            {"A": "1, 2\n2, 1\n2, 3\n"},
            r"TINY_A\.txt, line 3: edge \(2, 3\) is present in one direction only; is the file",
        ),
        (
            {"graph_indicator": "1\n2\n1\n2\n2\n3\n"},
            r"TINY_graph_indicator\.txt, line 3: graphs must be numbered from 1",
        ),
        ({"graph_labels": "1\n2\n"}, r"TINY_graph_labels\.txt has 2 lines, but TINY_graph_indicator\.txt has 3 graphs"),
        ({"node_labels": "1\n2\n"}, r"TINY_node_labels\.txt has 2 lines, but TINY_graph_indicator\.txt has 6"),
        ({"node_attributes": "1, 2\n3\n"}, r"TINY_node_attributes\.txt, line 2: expected 2 numbers, found '3'"),
        ({"edge_labels": "1\n2\n"}, r"TINY_edge_labels\.txt has 2 lines, but TINY_A\.txt has 6"),
        ({"edge_attributes": "1\nx\n"}, r"TINY_edge_attributes\.txt, line 2: expected 1 numbers, found 'x'"),
        ({"node_attributes": "1\n2\nnan\n4\n5\n6\n"}, "attributes must be finite, but node 2 has nan in column 0"),
        ({"node_attributes": "1, 2\n"}, r"TINY_node_attributes\.txt has 1 lines, but TINY_graph_indicator\.txt has 6"),
    ],
)
def test_broken_files(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    write(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        load("TINY", tmp_path)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())  # nothing half-written


def test_a_zip_that_is_cut_off(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "TINY.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for suffix, text in FILES.items():
            archive.writestr(f"TINY/TINY_{suffix}.txt", text)
    whole = (tmp_path / "TINY.zip").read_bytes()
    (tmp_path / "TINY.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"TINY\.zip is truncated or damaged"):
        load("TINY", tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no data set TINY in .*: expected TINY\.zip"):
        load("TINY", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist; it should have TINY\.zip"):
        load("TINY", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no data set tinny in .*; did you mean TINY\?"):
        load("tinny", write(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"TINY has no TINY_graph_labels\.txt"):
        load("TINY", write(tmp_path, graph_labels=None))
    with pytest.raises(ValueError, match="letters, digits"):
        load("../TINY", tmp_path)


def test_features(tmp_path: Path) -> None:
    graphs = load("TINY", write(tmp_path))
    everything = slice(None)
    assert features(graphs).kind == "attributes"
    assert features(graphs, "labels").dense(everything).tolist() == np.eye(2)[[0, 1, 0, 0, 0, 1]].tolist()
    degree = features(graphs, "degree")  # degrees 1, 2, 1, 1, 1, 0: three distinct
    assert (degree.width, degree.column.tolist()) == (3, [1, 2, 1, 1, 1, 0])
    assert features(graphs, "one").dense(everything).tolist() == [[1.0]] * 6
    released = features(graphs, "released")
    assert (released.width, released.column.tolist()) == (9, [4, 8, 4, 4, 4, 0])
    bare = load("BARE", write(tmp_path, "BARE", node_labels=None, node_attributes=None))
    assert features(bare).kind == "degree"
    for kind in ("labels", "attributes"):
        with pytest.raises(ValueError, match=f"BARE has no node {kind}"):
            features(bare, kind)
    with pytest.raises(ValueError, match="features must be one of auto"):
        features(bare, "colour")


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    graphs = load("TINY", write(tmp_path, A=FILES["A"] + "6, 6\n"))
    graphs.save(tmp_path / "x.npz", note="kept")
    back, about = GraphSet.open(tmp_path / "x.npz")
    assert about["note"] == "kept"
    for field in ("node_ptr", "edge_ptr", "edge_index", "y", "labels", "attributes", "looped"):
        assert np.array_equal(getattr(graphs, field), getattr(back, field))
    np.savez(tmp_path / "old.npz", format=0)
    with pytest.raises(ValueError, match="has format 0, this version reads 2"):
        GraphSet.open(tmp_path / "old.npz")


def real(name: str) -> GraphSet:
    folder = os.environ.get("COMPOOL_DATA")
    if not folder or not (Path(folder) / f"{name}.zip").exists():
        pytest.skip(f"needs {name}.zip in the folder that COMPOOL_DATA names")
    return load(name, folder)


@pytest.mark.usefixtures("parsed_sets")
@pytest.mark.parametrize(
    ("name", "kind", "width"),
    [
        ("PROTEINS_full", "attributes", 29),
        ("NCI1", "labels", 37),
        ("IMDB-BINARY", "degree", 65),
        ("IMDB-BINARY", "released", 541),
        ("IMDB-MULTI", "degree", 59),
        ("IMDB-MULTI", "released", 353),
        ("COLLAB", "degree", 367),
    ],
)
def test_real_feature_widths(name: str, kind: str, width: int) -> None:
    assert features(real(name), kind).width == width


@pytest.mark.usefixtures("parsed_sets")
@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS_full", "IMDB-BINARY"])
def test_real_sets_equal_pyg_s(name: str, tmp_path: Path) -> None:
    from torch_geometric.datasets import TUDataset

    graphs = real(name)
    with zipfile.ZipFile(Path(os.environ["COMPOOL_DATA"]) / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / name).rename(tmp_path / "root" / name / "raw")
    theirs = TUDataset(str(tmp_path / "root"), name, use_node_attr=True)
    assert len(theirs) == len(graphs)
    for index in range(0, len(graphs), 7):
        a, b = graphs[index], theirs[index]
        assert torch.equal(a.y, b.y)
        assert torch.equal(a.edge_index, b.edge_index)
        if name == "MUTAG":  # PyG puts attributes before one-hot labels
            assert torch.equal(a.x, b.x)
        if name == "PROTEINS_full":
            assert torch.equal(a.x, b.x[:, :29])

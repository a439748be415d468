"""Caches of parsed sets that are damaged, wrong or cannot be written."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compool.data import GraphSet, _graph_file, load, tu
from tests.data.test_tu import FILES, write

Arrays = dict[str, Any]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache file of a tiny set, whose source is in `tmp_path`."""
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    load("TINY", write(tmp_path, A=FILES["A"] + "6, 6\n"))
    return tmp_path / "cache" / "TINY.npz"


def test_every_flipped_bit_is_found_or_harmless(cached: Path, tmp_path: Path) -> None:
    good, expected = cached.read_bytes(), load("TINY", tmp_path)
    random, messages = np.random.default_rng(0), list[str]()
    for position, bit in zip(random.integers(len(good), size=200), random.integers(8, size=200), strict=True):
        bad = bytearray(good)
        bad[position] ^= 1 << bit
        cached.write_bytes(bad)
        try:
            graphs = GraphSet.open(cached)[0]
        except ValueError as error:
            messages.append(str(error))
        else:  # a date, say
            assert (graphs.name, graphs.checksum) == (expected.name, expected.checksum)
        assert load("TINY", tmp_path).checksum == expected.checksum
    assert len(messages) > 100
    assert all(message.startswith(str(cached)) and "\n" not in message for message in messages)


def rewrite(path: Path, change: Callable[[Arrays], object]) -> None:
    """Change the arrays of a cache file; what zip files themselves check is right afterwards."""
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path, **arrays)


def put(key: str, index: int, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[key] = arrays[key].astype(np.int64) if arrays[key].dtype.kind in "iu" else arrays[key]
        arrays[key].reshape(-1)[index] = value

    return change


CHANGES: dict[str, tuple[Callable[[Arrays], object], str]] = {
    "target beyond": (put("target", 0, 10**8), r"column 0: nodes of graph 0 are 0\.\.2; got \(0, 100000000\)"),
    "target below": (put("target", 3, -(10**8)), r"nodes of graph 0 are 0\.\.2; got \(2, -100000000\)"),
    "target of 64 bits": (put("target", 0, 2**32 + 1), "target must lie in -2147483648..2147483647; got 4294967297"),
    "target in the next graph": (put("target", 0, 3), r"nodes of graph 0 are 0\.\.2; got \(0, 3\)"),
    "self-loop": (put("target", 0, 0), r"column 0: self-loops are not allowed.*got \(0, 0\)"),
    "one direction": (put("target", 0, 2), r"this edge in one direction only; got \(0, 2\)"),
    "nodes shifted": (put("node_ptr", 1, 2), r"column 2: nodes of graph 0 are 0\.\.1; got \(1, 2\)"),
    "nodes decrease": (put("node_ptr", 1, 6), "node_ptr must not decrease, but does after entry 1"),
    "nodes begin late": (put("node_ptr", 0, 1), "node_ptr must begin with 0, got 1"),
    "more nodes": (put("node_ptr", 3, 10**12), "out_degree must have 1000000000000 rows, one per node; got 6"),
    "edges shifted": (put("edge_ptr", 1, 2), r"nodes of graph 1 are 0\.\.1; got \(1, 2\)"),
    "more edges": (put("edge_ptr", 3, 7), r"edge_ptr\[-1\] = 7 columns, one per edge; got 6"),
    "degrees": (put("out_degree", 0, 10**12), r"out_degree must lie in 0\.\.6, edges; got 1000000000000"),
    "negative degree": (put("out_degree", 0, -1), r"out_degree must lie in 0\.\.6, edges; got -1"),
    "class": (put("y", 0, -1), "y must hold classes from 0 to 999,999 for classification; graph [01] has -1"),
    "many classes": (
        put("y", 0, 10**9),
        "y must hold classes from 0 to 999,999 .*; graph 0 has 1000000000",
    ),
    "label": (put("labels", 0, -1), r"labels must lie in 0\.\.999999"),
    "looped": (put("looped", 0, 6), r"looped must lie in 0\.\.5, nodes; got 6"),
    "fewer labels": (
        lambda arrays: arrays.update(labels=arrays["labels"][1:]),
        "labels must have 6 rows, one per node",
    ),
    "fewer graphs": (lambda arrays: arrays.update(y=arrays["y"][1:]), "node_ptr must have one entry more than y, 3"),
    "no graphs": (
        lambda arrays: arrays.update(y=arrays["y"][:0]),
        "node_ptr must have one entry more than y, 1; got 4",
    ),
    "floats": (lambda arrays: arrays.update(y=arrays["y"] + 0.5), "y must hold whole numbers for classification"),
    "shape": (lambda arrays: arrays.update(target=arrays["target"][None]), r"target must have the shape \[E\]"),
    "attributes": (lambda arrays: arrays.update(attributes=arrays["attributes"][0]), "attributes must have the shape"),
    "objects": (lambda arrays: arrays.update(y=np.array([{}, 1, 2])), "object"),
    "missing": (lambda arrays: arrays.pop("target"), "target"),
    "unknown": (lambda arrays: arrays.update(weights=np.zeros(3)), "weights"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_contents_are_checked(what: str, cached: Path, tmp_path: Path) -> None:
    change, message = CHANGES[what]
    expected = load("TINY", tmp_path).checksum
    rewrite(cached, lambda arrays: arrays.pop("about_checksum"))
    rewrite(cached, change)
    for check_edges in (True, False):  # without a checksum, edges are checked all the same
        with pytest.raises(ValueError, match=rf"TINY\.npz is damaged, or not a graph set .*{message}"):
            load("TINY", check_edges=check_edges)
    assert load("TINY", tmp_path).checksum == expected


def test_a_changed_value_does_not_match_the_checksum(cached: Path) -> None:
    rewrite(cached, put("attributes", 3, 7.25))
    with pytest.raises(ValueError, match=r"TINY\.npz is damaged, .*its contents do not match their checksum"):
        load("TINY")


def test_a_right_checksum_is_enough_to_plan_but_not_to_train(cached: Path) -> None:
    with np.load(cached) as file:
        arrays = {key: value for key, value in file.items() if key != "about_checksum"}
    arrays["target"][0] = 2
    arrays["about_checksum"] = np.asarray(_graph_file._checksum(arrays))
    np.savez(cached, **arrays)
    assert load("TINY", check_edges=False).edge_index[1, 0] == 2
    with pytest.raises(ValueError, match="this edge in one direction only"):
        load("TINY")


def test_files_without_a_checksum_are_read(cached: Path, tmp_path: Path) -> None:
    expected = load("TINY", tmp_path).checksum
    rewrite(cached, lambda arrays: arrays.pop("about_checksum"))
    assert load("TINY").checksum == expected


def test_an_array_that_claims_to_be_large_takes_no_memory(cached: Path) -> None:
    rewrite(cached, lambda arrays: arrays.pop("about_checksum"))
    header = b"'shape': (3,), "
    content = cached.read_bytes()
    assert header in content
    # The zip file's own checksum is wrong now; the header would be read before it is compared.
    cached.write_bytes(content.replace(header, b"'shape':(1<<40)"[: len(header)]))
    with pytest.raises(ValueError, match="is damaged, or not a graph set"):
        load("TINY")


@pytest.mark.parametrize("where", ["a file stands there", "read-only"])
def test_a_folder_that_cannot_be_written_stops_nothing(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path)
    if where == "read-only":
        monkeypatch.setattr(Path, "mkdir", _read_only)  # root may write to read-only folders

    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    if where == "a file stands there":
        (tmp_path / "cache").write_text("")
    with caplog.at_level(logging.WARNING):
        assert load("TINY", tmp_path).num_nodes == 6
    assert "TINY.npz cannot be written" in caplog.text


def test_a_damaged_cache_in_a_read_only_folder(cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached.write_bytes(b"nonsense")
    monkeypatch.setattr(Path, "unlink", _read_only)
    monkeypatch.setattr(Path, "replace", _read_only)
    monkeypatch.setattr(tu.GraphSet, "save", _read_only)
    assert load("TINY", tmp_path).num_nodes == 6


def _read_only(path: object, *_: object, **__: object) -> None:
    raise PermissionError(30, "Read-only file system", str(path))


def test_caches_of_the_first_format_are_read_and_parsed_again(
    cached: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, A=FILES["A"] + "6, 6\n", edge_labels="1\n1\n2\n2\n1\n1\n5\n")
    load("TINY", tmp_path)

    def older(arrays: Arrays) -> None:
        for key in ("task", "edge_labels", "about_checksum"):
            del arrays[key]
        arrays.update(format=np.array(1), about_source=str(arrays["about_source"]).removeprefix("reader 2;"))

    rewrite(cached, older)
    alone = load("TINY")
    assert alone.edge_labels is None
    assert alone.task == "classification"
    assert "TINY.npz was cached by an earlier version, without edge labels" in caplog.text
    parsed = load("TINY", tmp_path)
    assert parsed.edge_labels is not None
    assert parsed.edge_labels.tolist() == [0, 0, 1, 1, 0, 0]
    assert parsed.checksum == alone.checksum
    caplog.clear()
    assert load("TINY").edge_labels is not None  # the cache was written anew
    assert not caplog.text

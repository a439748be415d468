"""Zip files that are damaged, encrypted, or unpack to far more than they should."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from compool.data import GraphSet, _archive, _text, load, tu
from tests.data.test_tu import FILES, write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))


def zipped(folder: Path, kind: int = zipfile.ZIP_DEFLATED, **changes: bytes) -> Path:
    with zipfile.ZipFile(folder / "TINY.zip", "w", kind) as archive:
        for suffix, text in ({key: text.encode() for key, text in FILES.items()} | changes).items():
            archive.writestr(f"TINY/TINY_{suffix}.txt", text)
    return folder / "TINY.zip"


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_flipped_bit_is_a_sentence_or_harmless(kind: int, tmp_path: Path) -> None:
    path = zipped(tmp_path, kind)
    good, expected = path.read_bytes(), tu.parse("TINY", path)
    random, messages = np.random.default_rng(kind), list[str]()
    for position, bit in zip(random.integers(len(good), size=150), random.integers(8, size=150), strict=True):
        bad = bytearray(good)
        bad[position] ^= 1 << bit
        path.write_bytes(bad)
        try:
            graphs = tu.parse("TINY", path)
        except (ValueError, FileNotFoundError) as error:  # a member's name may have changed
            messages.append(str(error))
        else:
            assert graphs.y.tolist() == expected.y.tolist()
            assert graphs.edge_index.tolist() == expected.edge_index.tolist()
    assert messages
    assert all("TINY" in message and "\n" not in message for message in messages)


def test_an_encrypted_file_is_a_sentence(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(signature, at + 4)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"TINY\.zip: TINY/TINY_\w+\.txt is encrypted; unpack it") as caught:
        load("TINY", tmp_path)
    assert "\n" not in str(caught.value)


def test_a_small_file_that_unpacks_to_much_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipped(tmp_path, A=b"1, 2\n2, 1\n" * 200_000)  # 2 MB
    monkeypatch.setattr(_archive.Member, "read", lambda *_: pytest.fail("was read"))
    monkeypatch.setattr(_archive, "UNSUSPICIOUS", 1_000_000)
    with pytest.raises(
        ValueError, match=r"TINY\.zip unpacks to 3 MB, \d+ times its size, at most 200 .* set COMPOOL_MAX_UNPACKED_MB=3"
    ):
        load("TINY", tmp_path)
    monkeypatch.setattr(_archive, "MAX_UNPACKED", 1_500_000)
    with pytest.raises(ValueError, match=r"unpacks to 3 MB, at most 2 MB is allowed; if you trust it, set COMPOOL_MAX"):
        load("TINY", tmp_path)
    monkeypatch.setenv(_archive.SETTING, "1")
    with pytest.raises(ValueError, match=r"unpacks to 3 MB, and COMPOOL_MAX_UNPACKED_MB allows 1 MB"):
        load("TINY", tmp_path)
    monkeypatch.setenv(_archive.SETTING, "many")
    with pytest.raises(ValueError, match="COMPOOL_MAX_UNPACKED_MB must be a whole number of megabytes, got 'many'"):
        load("TINY", tmp_path)


def test_the_setting_raises_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipped(tmp_path, A=b"1, 2\n2, 1\n" * 200_000)
    monkeypatch.setattr(_archive, "MAX_UNPACKED", 1_000_000)
    monkeypatch.setenv(_archive.SETTING, "3")
    assert load("TINY", tmp_path).num_edges == 2


def test_graph_sets_have_the_same_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = tu.parse("TINY", zipped(tmp_path))
    graphs.save(tmp_path / "TINY.npz")
    monkeypatch.setattr(_archive, "MAX_UNPACKED", 100)
    with pytest.raises(ValueError, match=r"TINY\.npz unpacks to 1 MB, at most 1 MB is allowed; if you trust it"):
        GraphSet.open(tmp_path / "TINY.npz")


def test_a_member_is_not_larger_than_it_says(tmp_path: Path) -> None:
    path = zipped(tmp_path, zipfile.ZIP_DEFLATED, A=b"1, 2\n2, 1\n" * 100_000)
    size = (1_000_000).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (20).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"TINY\.zip is truncated or damaged: Bad CRC-32"):
        load("TINY", tmp_path)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_the_size_of_blocks_does_not_matter(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tu.parse("TINY", write(tmp_path) / "TINY")
    longest = max(len(line) for text in FILES.values() for line in text.split("\n"))
    monkeypatch.setattr(_text, "BLOCK", longest + size)
    assert tu.parse("TINY", tmp_path / "TINY").checksum == expected.checksum
    assert tu.parse("TINY", zipped(tmp_path)).checksum == expected.checksum
    for text, message in {
        "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, x\n": r"A\.txt, line 6: expected 2 integers, found '5, x'",
        "1, 2\n2, 1\n2, 3\n3, 2\n\n4, 5\n5, 4\n": r"A\.txt, line 5: expected 2 integers, found ''",
        "1, 2\n2, 1\n\n\n": r"A\.txt, line 3: expected 2 integers, found ''",
        "1, 2\n" + "2, 1" * 20: r"A\.txt has a line of more than \d+ bytes|A\.txt, line 2: expected",
    }.items():
        with pytest.raises(ValueError, match=message):
            tu.parse("TINY", write(tmp_path, A=text) / "TINY")
    assert tu.parse("TINY", write(tmp_path, A=FILES["A"] + "\n") / "TINY").checksum == expected.checksum
    for text, message in {
        "1, 2\n" * 5 + "1\n": r"node_attributes\.txt, line 6: expected 2 numbers, found '1'",
        "1, 2\n" * 4 + "1, x\n1, 2\n": r"node_attributes\.txt, line 5: expected 2 numbers, found '1, x'",
        "": r"node_attributes\.txt has 0 lines, but TINY_graph_indicator\.txt has 6",
    }.items():
        with pytest.raises(ValueError, match=message):
            tu.parse("TINY", write(tmp_path, node_attributes=text) / "TINY")


def test_a_row_of_many_labels_takes_no_memory_for_rows_that_are_not_there(tmp_path: Path) -> None:
    text = ",".join(["1"] * 100_000) + "\n" * 1_000_000  # as 10⁶ rows of 10⁵ numbers, 400 GB
    with pytest.raises(ValueError, match=r"node_labels\.txt, line 2: expected 100000 integers"):
        tu.parse("TINY", write(tmp_path, node_labels=text) / "TINY")


@pytest.mark.skipif(not os.environ.get("COMPOOL_DATA"), reason="needs the folder that COMPOOL_DATA names")
def test_real_files_are_within_the_limits() -> None:
    for path in Path(os.environ["COMPOOL_DATA"]).glob("*.zip"):
        with _archive.Archive(path) as archive:
            archive.require_size(archive.members)

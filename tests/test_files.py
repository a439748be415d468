"""Writing files completely or not at all."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compool import _files
from compool._files import atomic_write


def test_the_temporary_name_is_not_the_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in two containers that share a folder
    path = tmp_path / "note.txt"
    with atomic_write(path) as first, atomic_write(path) as second:
        assert first != second
        assert first.suffix == ".txt"
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the outer block ends last
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def fail_half_way() -> None:
        with atomic_write(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_the_disk_before_it_replaces_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, steps = tmp_path / "note.txt", []

    def fsync(descriptor: int) -> None:
        steps.append((os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), path.exists()))

    monkeypatch.setattr(_files.os, "fsync", fsync)
    with atomic_write(path) as partial:
        partial.write_text("new")
    assert steps == [(partial.name, False), (tmp_path.name, True)]


def kill_while_writing(path: Path) -> None:
    """Start a process that writes `path`, and kill it when half is written."""
    script = """
import sys, time
from pathlib import Path
from compool._files import atomic_write
with atomic_write(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    print("half", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)


def test_a_later_write_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")
    kill_while_writing(path)
    assert path.read_text() == "old"
    (left,) = set(tmp_path.iterdir()) - {path}
    names = (".other.partial-0123456789abcdef.txt", ".note.12.txt", ".note.partial-x.txt")
    others = [tmp_path / name for name in names]
    for other in others:
        other.write_text("of somebody else")
    with atomic_write(path) as partial:
        partial.write_text("new")
    assert left.exists()  # may still be written to
    long_ago = time.time() - 2 * _files.ABANDONED
    for stale in (left, *others):
        os.utime(stale, (long_ago, long_ago))
    with atomic_write(path) as partial:
        partial.write_text("newer")
    assert path.read_text() == "newer"
    assert set(tmp_path.iterdir()) == {path, *others}

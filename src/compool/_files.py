"""Files that are written completely or not at all."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ABANDONED = 600.0  # seconds without a write after which a temporary file belongs to a killed process


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary file name in the folder of `path`; what is written to it replaces `path` at the end.

    The new content is on the disk before it replaces the old, so that `path` is complete at any time, even after a
    power failure. If the block fails, nothing remains of it; an OSError names `path`. A process that is killed may
    leave its temporary file, a hidden one; a later write to the same `path` removes it.

    Example:
        >>> path = getfixture("tmp_path") / "folder" / "note.txt"
        >>> with atomic_write(path) as partial:
        ...     _ = partial.write_text("done")
        >>> path.read_text()
        'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Random, since processes in two containers may share a folder, their id and their host's name.
    partial = path.with_name(f".{path.stem}.partial-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield partial
        _flush(partial)
        written = partial.stat().st_mtime
        partial.replace(path)
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    with suppress(OSError):  # not every file system can flush a folder
        _flush(path.parent)
    _remove_abandoned(path, written)


def _flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned(path: Path, now: float) -> None:
    """Remove temporary files of killed writers of `path`; `now` is by the clock of the file system."""
    name = re.compile(rf"\.{re.escape(path.stem)}\.partial-[0-9a-f]{{16}}{re.escape(path.suffix)}")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.stat().st_mtime < now - ABANDONED:
                os.unlink(entry.path)

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
    """Yield a temporary path in the folder of `path`; the file written there replaces `path` when the block ends.

    The new content is flushed to disk before it replaces the old one, so `path` is always complete, even after a power
    failure. If the block fails, the temporary file is removed; an OSError names `path`. A killed process may leave its
    hidden temporary file behind; a later write to the same `path` removes it.

    Example:
        >>> path = getfixture("tmp_path") / "folder" / "note.txt"
        >>> with atomic_write(path) as partial:
        ...     _ = partial.write_text("done")
        >>> path.read_text()
        'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A random name, since processes in two containers can share a folder, a process ID and a host name.
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
    """Remove the temporary files that killed writers of `path` left; `now` is read from the file system's clock."""
    name = re.compile(rf"\.{re.escape(path.stem)}\.partial-[0-9a-f]{{16}}{re.escape(path.suffix)}")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.stat().st_mtime < now - ABANDONED:
                os.unlink(entry.path)

"""Files that are there whole, or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what takes the place of `path` when all is written; if that fails, nothing is left of it.

    Example:
        >>> path = getfixture("tmp_path") / "folder" / "note.txt"
        >>> with whole(path) as partial:
        ...     _ = partial.write_text("done")
        >>> path.read_text()
        'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

"""The files of a report: whole or not there, even if the disk is full or the process is killed."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from compool._files import whole

_PARTIAL = re.compile(r"\..+\.(\d+)\.(?:html|md|tex|csv|png|pdf)")  # the names that `whole` gives


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Where to write what takes the place of `path` when all is written; an error names the file.

    Example:
        >>> path = getfixture("tmp_path") / "note.txt"
        >>> with writing(path) as partial:
        ...     _ = partial.write_text("done")
        >>> path.read_text()
        'done'
    """
    try:
        with whole(path) as partial:
            yield partial
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror or error}") from None


def remove_partial(folder: Path) -> None:
    """Remove what processes that were killed left half-written in the folder of a report.

    Example:
        >>> remove_partial(getfixture("tmp_path"))
    """
    for path in folder.rglob(".*"):
        named = _PARTIAL.fullmatch(path.name)
        if named and not _runs(int(named[1])):
            with suppress(OSError):
                path.unlink()


def _runs(process: int) -> bool:
    """Whether there is such a process; on Windows, where asking would end it, perhaps."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's; too large for a process
        return True
    return True

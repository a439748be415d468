"""The list of the files that a report wrote, and the removal of those that the next report does not write again.

Only files that are still as the report wrote them are removed: the list has their checksums.
"""

import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from compool._files import atomic_write

FILE_LIST = "report-files.sha256"  # in the format of sha256sum
_LINE = re.compile(r"([0-9a-f]{64})  ((?:tables|figures)/[A-Za-z0-9_-]+\.(?:md|tex|csv|png|pdf))")


def remove_outdated(folder: Path, written: Collection[Path]) -> None:
    """Remove the files of the previous report in a folder that are not among those `written` by this one.

    Files that changed since, links, and files in linked subfolders stay.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> (folder / "tables").mkdir()
        >>> for name in ("old.csv", "own.csv"):
        ...     _ = (folder / "tables" / name).write_text("a,b")
        >>> save_file_list(folder, [folder / "tables" / "old.csv"])
        >>> remove_outdated(folder, [])
        >>> [path.name for path in (folder / "tables").iterdir()]
        ['own.csv']
    """
    file_list = folder / FILE_LIST
    if not file_list.is_file():
        return
    kept = {str(path).lower() for path in written}  # on some file systems, names that differ in case are the same file
    lines = file_list.read_text(encoding="utf-8", errors="replace").splitlines()
    for checksum, name in (match.groups() for line in lines if (match := _LINE.fullmatch(line))):
        path = folder / name
        is_own = path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
        if str(path).lower() not in kept and is_own and _checksum(path) == checksum:
            path.unlink()


def save_file_list(folder: Path, written: Iterable[Path]) -> None:
    """Write the list of a report's files, with their checksums."""
    lines = [f"{_checksum(path)}  {path.relative_to(folder).as_posix()}\n" for path in written]
    with atomic_write(folder / FILE_LIST) as partial:
        partial.write_text("".join(lines), encoding="utf-8")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

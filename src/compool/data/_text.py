"""Fast reading of columns of numbers from a text stream, with errors that name the line."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK = 4 << 20  # bytes parsed at a time; no line may be longer


class Stream(Protocol):
    """Bytes that are read one block after another."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes, or fewer at the end."""
        ...


def read_integers(stream: Stream, name: str, columns: int | None = 1) -> NDArray[np.int32]:
    """Rows of integers, separated by commas or blanks; an error names the file and the line.

    Args:
        stream: the text.
        name: the name of the file, for messages.
        columns: integers in each row; None: as many as the first row has.
    """
    from compool.data._loops import parse_integers  # imports numba, which is slow

    parts, lines = list[NDArray[np.int32]](), 0
    for text, last in _blocks(stream, name):
        if columns is None:
            columns = text.split(b"\n", 1)[0].count(b",") + 1
        data = np.frombuffer(text, np.uint8)
        max_rows = min(
            int(np.count_nonzero(data == 10)), len(text) // (2 * columns)
        )  # a number takes two bytes with its comma
        out = np.empty((max_rows + 1, columns), np.int32)
        num_rows = parse_integers(data, out, last)
        if num_rows < 0:
            line = -num_rows - 1
            expected = "an integer" if columns == 1 else f"{columns} integers"
            excerpt = text.split(b"\n", line + 1)[line].decode("utf-8", "replace")[:60]
            raise ValueError(f"{name}, line {lines + line + 1}: expected {expected}, found {excerpt!r}")
        parts.append(out[:num_rows])
        lines += num_rows
    return np.concatenate(parts) if parts else np.empty((0, columns or 1), np.int32)


def read_floats(stream: Stream, name: str) -> NDArray[np.float32]:
    """Rows of floats, separated by commas; an error names the file and the line."""
    parts, lines, width = list[NDArray[np.float32]](), 0, 0
    for text, _ in _blocks(stream, name):
        block = text.decode("utf-8", "replace").splitlines()
        if first := next(filter(str.strip, block), None):
            width = width or first.count(",") + 1
            try:
                part = np.loadtxt(block, np.float32, comments=None, delimiter=",", ndmin=2)
            except ValueError as error:
                raise _bad_line(block, name, lines, width) or ValueError(f"{name}: {error}") from None
            if part.shape[1] != width:
                raise _bad_line(block, name, lines, width) or ValueError(f"{name} has rows of different lengths")
            parts.append(part)
        lines += len(block)
    return np.concatenate(parts) if parts else np.empty((0, width), np.float32)


def _bad_line(block: list[str], name: str, lines: int, width: int) -> ValueError | None:
    """The error for the first line of a block that does not have `width` numbers."""
    for index, line in enumerate(block):
        try:
            wrong = len([float(value) for value in line.split(",")]) != width
        except ValueError:
            wrong = bool(line.strip())
        if wrong:
            return ValueError(f"{name}, line {lines + index + 1}: expected {width} numbers, found {line[:60]!r}")
    return None


def _blocks(stream: Stream, name: str) -> Iterator[tuple[bytes, bool]]:
    """Blocks of whole lines, each with whether it is the last."""
    rest, block = b"", stream.read(BLOCK)
    while block:
        following = stream.read(BLOCK)
        block = rest + block
        end = block.rfind(b"\n") + 1 if following else len(block)
        if end == 0:
            raise ValueError(
                f"{name} has a line of more than {BLOCK:,} bytes: {block[:60].decode('utf-8', 'replace')!r}"
            )
        yield block[:end], not following
        rest, block = block[end:], following

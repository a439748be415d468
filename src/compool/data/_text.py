"""Reading columns of numbers from text, fast, with errors that name the line."""

import io

import numpy as np
from numpy.typing import NDArray

from compool._jit import jit


@jit()
def _parse(text, out):
    """Fill out [rows, columns]. Returns the number of rows, or −1 − the index of the first line that is wrong."""
    at = row = line = 0
    size = text.size
    while at < size:
        column = 0
        while at < size and text[at] != 10:  # a line
            byte = text[at]
            if byte == 32 or byte == 9 or byte == 13:  # space, tab, carriage return
                at += 1
                continue
            if column > 0:
                if column == out.shape[1] or (byte != 44 and text[at - 1] != 32 and text[at - 1] != 9):
                    return -1 - line
                if byte == 44:  # the comma between two numbers
                    at += 1
                    while at < size and (text[at] == 32 or text[at] == 9):
                        at += 1
            sign = 1
            if at < size and text[at] == 45:
                sign = -1
                at += 1
            if at == size or text[at] < 48 or text[at] > 57:
                return -1 - line
            value = 0
            while at < size and 48 <= text[at] <= 57:
                value = 10 * value + text[at] - 48
                if value > 2147483647:
                    return -1 - line
                at += 1
            out[row, column] = sign * value
            column += 1
        at += 1
        if column == out.shape[1]:
            row += 1
        elif column > 0 or at < size:  # an empty line is right at the end alone
            return -1 - line
        line += 1
    return row


def integers(text: bytes, name: str, columns: int = 1) -> NDArray[np.int32]:
    """Rows of integers, separated by commas or blanks; an error names the file and the line."""
    data = np.frombuffer(text, np.uint8)
    out = np.empty((np.count_nonzero(data == 10) + 1, columns), np.int32)
    rows = _parse(data, out)
    if rows < 0:
        line = -rows - 1
        what = "an integer" if columns == 1 else f"{columns} integers"
        shown = _line(text, line)
        raise ValueError(f"{name}, line {line + 1}: expected {what}, found {shown!r}")
    return out[:rows]


def numbers(text: bytes, name: str) -> NDArray[np.float32]:
    """Rows of floats, separated by commas; an error names the file and the line."""
    lines = text.decode("utf-8", "replace").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    try:
        return np.loadtxt(io.StringIO("\n".join(lines)), np.float32, comments=None, delimiter=",", ndmin=2)
    except ValueError:
        width = len(lines[0].split(","))
        for index, line in enumerate(lines):
            try:
                wrong = len([float(value) for value in line.split(",")]) != width
            except ValueError:
                wrong = True
            if wrong:
                message = f"{name}, line {index + 1}: expected {width} numbers, found {line[:60]!r}"
                raise ValueError(message) from None
        raise


def _line(text: bytes, index: int) -> str:
    return text.split(b"\n", index + 1)[index].decode("utf-8", "replace")[:60]

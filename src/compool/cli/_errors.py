"""Errors that the user can fix are shown on one line, bugs with a traceback."""

import dis
import sys
import traceback

_RAISE = dis.opmap["RAISE_VARARGS"]


def is_user_error(error: BaseException) -> bool:
    """Whether an error is about the user's input, or about the files or memory of the machine.

    compool raises such errors itself, with a ``raise`` statement. An unforeseen error of a library such as torch, or of
    Python in the middle of our code, is a bug.
    """
    if isinstance(error, OSError) or is_out_of_memory(error) or own_trace(error) is not None:
        return True
    if error.__cause__ is not None:
        return is_user_error(error.__cause__)
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    package = str(innermost.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return package == "compool" and innermost.tb_frame.f_code.co_code[innermost.tb_lasti] == _RAISE


def own_trace(error: BaseException) -> str | None:
    """The traceback within the user's own code, if the error is an :class:`OwnNetworkError`. Compares names, as few
    commands need its module.
    """
    return getattr(error, "trace", "") if type(error).__name__ == "OwnNetworkError" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. Compares names and texts, as torch is slow to import and has no such type on the CPU."""
    by_name = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return by_name or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def one_line_message(error: BaseException) -> str:
    """A one-line message for an error.

    Example:
        >>> one_line_message(MemoryError())
        'out of memory; try a smaller batch (--set batch=N) or fewer --workers'
    """
    text = " ".join(str(error).split("\n")).strip()
    if is_out_of_memory(error):
        reason = text.partition(". ")[0] if text.startswith("CUDA") else "out of memory"
        return f"{reason}; try a smaller batch (--set batch=N) or fewer --workers"
    if not is_user_error(error):
        return f"{type(error).__name__}: {text} (this is a bug in compool or in a library: please report the traceback)"
    return text or type(error).__name__


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error to standard error."""
    traceback.print_exception(error, file=sys.stderr)

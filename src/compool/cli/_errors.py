"""Errors that the user can fix are shown in one line, bugs with a traceback."""

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
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    if where is None:
        return False
    package = str(where.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return package == "compool" and where.tb_frame.f_code.co_code[where.tb_lasti] == _RAISE


def own_trace(error: BaseException) -> str | None:
    """The traceback within the user's own network, if the error is one of :mod:`compool.study.own_network`; by name, as
    few commands need that module.
    """
    return getattr(error, "trace", "") if type(error).__name__ == "OwnNetworkError" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; by name, as torch is slow to import, and by text, as it has no error type on the CPU."""
    by_name = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return by_name or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def one_line_message(error: BaseException) -> str:
    """An error as a message of one line.

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

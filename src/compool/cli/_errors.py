"""Which errors are the user's to mend, and get one line, and which are bugs, and get a traceback."""

import dis
import sys
import traceback

_RAISE = dis.opmap["RAISE_VARARGS"]


def is_the_user_s(error: BaseException) -> bool:
    """Whether an error is about what the user gave, or the machine: its files, its memory.

    compool raises such errors itself, with a ``raise`` statement. An error that a library raises, torch for example,
    or Python in the middle of our code, was not foreseen: that is a bug.
    """
    if isinstance(error, OSError) or is_out_of_memory(error):
        return True
    if error.__cause__ is not None:
        return is_the_user_s(error.__cause__)
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    if where is None:
        return False
    package = str(where.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return package == "compool" and where.tb_frame.f_code.co_code[where.tb_lasti] == _RAISE


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was lacking; by name, as torch takes long to import, and by text, as it has no type on the CPU."""
    by_name = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return by_name or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def in_a_line(error: BaseException) -> str:
    """What to tell of an error, in one line.

    Example:
        >>> in_a_line(MemoryError())
        'out of memory; a smaller batch (--set batch=N) or fewer --workers take less'
    """
    text = " ".join(str(error).split("\n")).strip()
    if is_out_of_memory(error):
        what = text.partition(". ")[0] if text.startswith("CUDA") else "out of memory"
        return f"{what}; a smaller batch (--set batch=N) or fewer --workers take less"
    if not is_the_user_s(error):
        return f"{type(error).__name__}: {text} (this is a bug in compool or in a library: please report the traceback)"
    return text or type(error).__name__


def print_traceback(error: BaseException) -> None:
    """Print where an error comes from, to standard error."""
    traceback.print_exception(error, file=sys.stderr)

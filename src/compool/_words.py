"""Words for messages: counts with nouns, lists, and suggestions for misspelt names."""

import difflib
from collections.abc import Iterable, Sequence


def counted(number: int, noun: str) -> str:
    """A number with a noun, in the plural unless the number is 1.

    Example:
        >>> counted(1, "replica"), counted(2_000, "replica")
        ('1 replica', '2,000 replicas')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """Words separated by commas, with a conjunction before the last.

    Example:
        >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "or")
        ('a', 'a and b', 'a, b or c')
    """
    return f" {conjunction} ".join([part for part in (", ".join(words[:-1]), *words[-1:]) if part])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: suggests the closest known name, or is empty if none is close.

    Case does not matter.

    Example:
        >>> did_you_mean("protein", ["NCI1", "PROTEINS"]), did_you_mean("unlike", ["NCI1"])
        ('; did you mean PROTEINS?', '')
    """
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    closest = difflib.get_close_matches(name.lower(), by_lower_case, 1)
    return f"; did you mean {by_lower_case[closest[0]]}?" if closest else ""

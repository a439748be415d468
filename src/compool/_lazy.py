"""Import the names of a package on first use, because torch and PyG take seconds to import."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package whose names are imported on first use.

    Args:
        package: name of the package.
        homes: maps each public name to the module that defines it.

    Example:
        >>> get, names = lazy_names("numbers", {"isqrt": "math"})
        >>> get("isqrt")(9), "isqrt" in names(), "Number" in names()
        (3, True, True)
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted({*vars(import_module(package)), *homes})

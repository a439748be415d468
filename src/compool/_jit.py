"""numba's compiler; compiled loops are cached on disk where a writable folder exists."""

from collections.abc import Callable
from typing import Any

from numba import njit


def jit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that compiles a loop on its first call; the compiled loop releases the GIL."""

    def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, nogil=True, **options)(loop)  # type: ignore[no-any-return]
        except RuntimeError:  # no writable folder: each process compiles
            return njit(nogil=True, **options)(loop)  # type: ignore[no-any-return]

    return compiled

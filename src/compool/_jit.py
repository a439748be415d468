"""numba's compiler, with compiled loops kept on disk where there is a place to write them."""

from collections.abc import Callable
from typing import Any

from numba import njit


def jit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a loop when it is first called, to run without the GIL."""

    def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, nogil=True, **options)(loop)  # type: ignore[no-any-return]
        except RuntimeError:  # no writable folder: each process compiles
            return njit(nogil=True, **options)(loop)  # type: ignore[no-any-return]

    return compiled

"""The file of a set of graphs: arrays in one compressed ``npz``, with notes and a checksum; nothing is pickled."""

import hashlib
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool._files import atomic_write
from compool.data._archive import Archive, SizeError

FORMAT = 2  # 1: without edge labels and attributes
READABLE = (1, 2)
_CHECKSUM = "about_checksum"
_REMEDY = "save it again, or delete it if it is a cached copy"


def write_arrays(path: Path, arrays: Mapping[str, Any], about: Mapping[str, str]) -> None:
    """Write arrays, notes about them and a checksum to one compressed file, completely or not at all."""
    content = dict(arrays) | {"format": FORMAT} | {f"about_{key}": value for key, value in about.items()}
    content = {key: np.asarray(value, order="C") for key, value in content.items()}  # readers reject Fortran order
    content[_CHECKSUM] = np.asarray(_checksum(content))
    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **content)


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str], bool]:
    """Read what :func:`write_arrays` wrote: the arrays, the notes, and whether there was a (correct) checksum. Raises a
    ValueError if the file is damaged.
    """
    try:
        with Archive(path) as archive:
            archive.require_size(archive.members)
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.members}
        version = int(arrays.get("format", np.array(-1)))
        if version in READABLE:
            checksum = arrays.pop(_CHECKSUM, None)  # files of older versions have none
            if checksum is not None and str(checksum) != _checksum(arrays):
                raise ValueError("its contents do not match their checksum")
            del arrays["format"]
            names = [key for key in arrays if key.startswith("about_")]
            about = {key.removeprefix("about_"): str(arrays.pop(key)) for key in names}
            return arrays, about, checksum is not None
    except SizeError:
        raise
    except (ValueError, TypeError, LookupError) as error:
        raise damaged(path, error) from None
    raise ValueError(f"{path} has format {version}, this version reads {FORMAT}; {_REMEDY}")


def read_notes(path: Path) -> dict[str, str]:
    """The notes of a file, without reading the other arrays."""
    try:
        with Archive(path) as archive:
            members = [name for name in archive.members if name.startswith("about_")]
            archive.require_size(members)
            arrays = {name.removeprefix("about_").removesuffix(".npy"): archive.read(name) for name in members}
            return {name: str(_array(content)) for name, content in arrays.items()}
    except (ValueError, TypeError, LookupError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> ValueError:
    """The error for a file with invalid arrays."""
    return ValueError(f"{path} is damaged, or not a graph set ({error}); {_REMEDY}")


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Hexadecimal digits that change with any name, type, shape or value."""
    digest = hashlib.sha256()
    for key, array in sorted(arrays.items()):
        digest.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _array(content: bytearray) -> NDArray[Any]:
    """The array of an ``npy`` file. Allocates no more memory than the file has bytes, and unpickles nothing."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"an array has format {version}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream)
    except Exception as error:  # numpy reads the header with Python's parser, which may raise anything
        raise ValueError(f"the header of an array is damaged: {error}") from None
    if dtype.kind not in "iufU" or fortran_order or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} is not expected")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of shape {shape} is truncated")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)

"""Read untrusted zip files: as streams, within size limits, with one type of error for all damage."""

import errno
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

SETTING = "COMPOOL_MAX_UNPACKED_MB"
MAX_UNPACKED = 4 << 30
MAX_RATIO = 200  # unpacked to packed size, for files that unpack to more than UNSUSPICIOUS bytes; 35 for COLLAB
UNSUSPICIOUS = 256 << 20

# Errors of zipfile and the decompressors. bz2 raises an OSError without errno; EINVAL means an impossible offset.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, LookupError, MemoryError, OSError, OverflowError, RuntimeError, ValueError),
)


class DamagedError(ValueError):
    """A zip file cannot be read; the message says why, without the file's name."""


class SizeError(ValueError):
    """A zip file unpacks to more than the limits allow."""


class Archive:
    """A zip file that is open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _damage():
            self._zip = zipfile.ZipFile(path)
            self.members = {info.filename: info for info in self._zip.infolist()}
        """The members by name."""

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def require_size(self, names: Iterable[str]) -> None:
        """Raise a :class:`SizeError` if these members would unpack to more than the limits allow.

        Uses the sizes stated in the file; zipfile never unpacks more of a member than that.
        """
        unpacked, packed = sum(self.members[name].file_size for name in names), self.path.stat().st_size
        if (limit := _limit()) is not None:
            if unpacked <= limit:
                return
            reason = f"and {SETTING} allows {_megabytes(limit)}"
        elif unpacked > MAX_UNPACKED:
            reason = f"at most {_megabytes(MAX_UNPACKED)} is allowed"
        elif unpacked > UNSUSPICIOUS and unpacked > MAX_RATIO * packed:
            reason = f"{unpacked // packed} times its size, at most {MAX_RATIO} is allowed"
        else:
            return
        more = -(-unpacked // 1_000_000)
        raise SizeError(
            f"{self.path} unpacks to {_megabytes(unpacked)}, {reason}; if you trust it, set {SETTING}={more}"
        )

    def open(self, name: str) -> "Member":
        """Open a member for reading as a stream."""
        info = self.members[name]
        if info.flag_bits & 1:
            raise ValueError(f"{self.path}: {name} is encrypted; unpack it and give the folder instead")
        with _damage():
            return Member(self._zip.open(info))

    def read(self, name: str) -> bytearray:
        """The whole content of a member, writable."""
        content, stream = bytearray(), self.open(name)
        while block := stream.read(1 << 20):
            content += block
        return content


class Member:
    """A member of an archive that is open for reading."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """The next `size` bytes, or fewer at the end."""
        with _damage():
            return self._stream.read(size)


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the file may be fine, but the disk or the permissions are not
        raise DamagedError(str(error) or type(error).__name__) from None


def _limit() -> int | None:
    """The limit set by the user, in bytes; None if there is none."""
    text = os.environ.get(SETTING, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{SETTING} must be a whole number of megabytes, got {text!r}")
    return int(text) * 1_000_000


def _megabytes(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"

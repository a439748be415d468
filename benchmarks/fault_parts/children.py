"""Work in child processes, so that a crash only ends a child and is attributed to its item.

Children are forked from a process that has imported everything: starting one takes milliseconds, not the seconds of
importing torch. The caller must not have started threads.
"""

import faulthandler
import json
import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

BATCH = 300  # items per child
TIMEOUT = 60.0  # seconds per item: includes the time numba takes to compile
MEMORY = 6 << 30  # bytes of address space that a child may use in addition to its parent's
GROWTH = 1 << 30  # bytes of resident memory beyond which an item is reported as a memory blow-up

Outcome = dict[str, Any]


def run_items(
    work: Callable[[int], Outcome], items: Sequence[int], batch: int = BATCH, timeout: float = TIMEOUT
) -> Iterator[tuple[int, Outcome]]:
    """Run `work` on each item in children, and yield the item and its outcome.

    `work` returns a dict with the key "kind". This adds the kinds "crash" (the child died by a signal), "hang" (killed
    after `timeout` seconds) and "memory" (the child's memory grew by more than a gigabyte).
    """
    items = list(items)
    while items:
        finished = yield from _run_batch(work, items[:batch], timeout)
        items = items[finished:]


def _run_batch(work: Callable[[int], Outcome], items: Sequence[int], timeout: float) -> "Iterator[tuple[int, Outcome]]":
    """Run items in one child until it ends; returns how many are finished."""
    with tempfile.TemporaryFile() as errors:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work_and_exit(work, items, writer, errors.fileno())
        os.close(writer)
        finished, hung, deadline, received = 0, False, time.monotonic() + timeout, b""
        while True:
            ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                hung = True
                os.kill(child, signal.SIGKILL)
                break
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            received += chunk
            *lines, received = received.split(b"\n")
            for line in lines:
                yield items[finished], json.loads(line)
                finished += 1
            deadline = time.monotonic() + timeout
        os.close(reader)
        _, status = os.waitpid(child, 0)
        if hung:
            yield items[finished], {"kind": "hang", "error": f"no result after {timeout:g} s"}
            return finished + 1
        if status != 0 and finished < len(items):
            errors.seek(0)
            yield items[finished], {"kind": "crash", **_cause(status, errors.read().decode(errors="replace"))}
            return finished + 1
        return finished


def _work_and_exit(work: Callable[[int], Outcome], items: Sequence[int], writer: int, errors: int) -> None:
    """Run items in a child."""
    try:
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        faulthandler.enable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = _address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before = _most_resident()
        for item in items:
            outcome = work(item)
            grown = _most_resident() - before
            if grown > GROWTH and outcome["kind"] in ("result", "error"):
                outcome |= {"kind": "memory", "error": f"memory grew by {grown / 2**30:.1f} GB; {outcome.get('error')}"}
            os.write(writer, json.dumps(outcome).encode() + b"\n")
            if grown > GROWTH:  # this peak would hide later ones
                break
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _cause(status: int, text: str) -> dict[str, str]:
    """The signal that ended a child, and the line of compool, or below it, where that happened."""
    name = (
        signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
    )
    lines = text.splitlines()
    frames = [line.strip() for line in lines if line.strip().startswith("File ")]
    ours = [frame for frame in frames if "/compool/" in frame]
    said = next((line for line in lines if line and not line.startswith(("Fatal Python", "Current thread"))), "")
    where = (ours or frames or [""])[0].replace('File "', "").rpartition("/src/")[2].replace('"', "")
    return {"error": f"{name} {'' if said.strip().startswith('File') else said}".strip(), "where": where}


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""Generated bad calls: each must end in a sensible exception or in a correct result."""

import math
import os
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import children
import layers
import numpy as np
import raw
import sets
import torch
from arguments import Draw
from torch import Tensor

from compool.ops import _dispatch

PUBLIC = layers.TARGETS | sets.TARGETS
WITH_KERNELS = {*layers.TARGETS, "Graphs.union", "stack of networks on a union"} - {"save_network, load_network"}
SENSIBLE = (ValueError, TypeError, IndexError, RuntimeError, OSError, OverflowError)  # torch's are RuntimeErrors
FAULTS = ("crash", "hang", "memory", "bounds", "wrong", "unclear")
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "Unable to allocate")


@dataclass
class Fault:
    """Calls that went wrong in the same way."""

    target: str
    kind: str
    error: str
    where: str
    seeds: list[int]
    example: str


def prepare(seed: int, of_ops: bool = False, changes: int | None = None, target: str | None = None) -> Any:
    """The target, its random choices, and the call of a seed. Preparing may raise, as it makes layers."""
    draw = Draw(seed, changes)
    targets = raw.TARGETS if of_ops else PUBLIC
    if target is None:
        target = draw.random.choices(list(targets), [weight for _, weight in targets.values()])[0]
    return target, draw, targets[target][0]


def call(seed: int, of_ops: bool = False, changes: int | None = None, target: str | None = None) -> children.Outcome:
    """Make the call of a seed, and return its outcome."""
    target, draw, make = prepare(seed, of_ops, changes, target)
    outcome: dict[str, Any] = {"target": target}
    warnings.simplefilter("ignore")
    try:
        run = make(draw)
        torch.manual_seed(seed)
        result = _with_gradients(run(), draw)
        outcome |= {"kind": "result"}
        if target in WITH_KERNELS or of_ops:
            outcome |= _compared(run, result, draw, seed)
    except Exception as error:
        outcome |= _judged(error, draw)
    outcome["notes"] = "; ".join(draw.notes) or "nothing bad"
    return outcome


def _judged(error: Exception, draw: Draw) -> dict[str, str]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/compool/" in frame.filename and "/fault_parts/" not in frame.filename]
    where = f"{ours[-1].filename.rpartition('/src/')[2]}:{ours[-1].lineno} {ours[-1].name}" if ours else ""
    text = str(error)
    name = type(error).__name__
    judged = {"error": f"{name}: {text.splitlines()[0] if text else ''}"[:160], "where": where}
    if isinstance(error, MemoryError) or any(part in text for part in OUT_OF_MEMORY):
        return judged | {"kind": "error" if draw.asked_size else "memory"}
    if isinstance(error, IndexError) and text == "index is out of bounds":  # raised by numba's bounds checks
        return judged | {"kind": "bounds"}
    if type(error).__module__.startswith("numba") or isinstance(error, AssertionError | SystemError):
        return judged | {"kind": "unclear"}
    if isinstance(error, SENSIBLE) or (isinstance(error, AttributeError | KeyError) and draw.no_tensor):
        if "INTERNAL ASSERT" in text:
            return judged | {"kind": "unclear"}
        return judged | {"kind": "error"}
    return judged | {"kind": "unclear"}


def _with_gradients(result: Any, draw: Draw) -> list[Any]:
    """The parts of a result, and the gradient after a backward pass through it."""
    parts = list(_parts(result))
    total = [
        part.sum() for part in parts if isinstance(part, Tensor) and part.requires_grad and part.is_floating_point()
    ]
    if total:
        torch.stack([one.double() for one in total]).sum().backward()
        if draw.leaf is not None and draw.leaf.grad is not None:
            parts.append(draw.leaf.grad)
            draw.leaf.grad = None
    return parts


def _compared(run: Any, result: list[Any], draw: Draw, seed: int) -> dict[str, str]:
    """Compare the result with the plain torch operations."""
    torch.manual_seed(seed)
    _dispatch.only_torch = True
    try:
        other = _with_gradients(run(), draw)
    except Exception as error:
        if isinstance(error, MemoryError) or any(part in str(error) for part in OUT_OF_MEMORY):
            return {}
        text = f"the plain operations raise {type(error).__name__}: {error}"
        return {"kind": "wrong", "error": text[:160], "where": ""}
    finally:
        _dispatch.only_torch = os.environ.get("COMPOOL_KERNELS") == "torch"
    if len(result) != len(other):
        return {"kind": "wrong", "error": "another number of parts than the plain operations", "where": ""}
    for index, (part, wanted) in enumerate(zip(result, other, strict=True)):
        if not _equal(part, wanted, draw.wild):
            text = f"part {index} differs from the plain operations': {_short(part)} and {_short(wanted)}"
            return {"kind": "wrong", "error": text, "where": ""}
    return {}


def _short(part: Any) -> str:
    return f"{list(part.shape)} {part.flatten()[:3].tolist()}" if isinstance(part, Tensor) else f"{part!r:.40}"


def _equal(part: Any, wanted: Any, wild: bool) -> bool:
    if not isinstance(part, Tensor) or not isinstance(wanted, Tensor):
        return type(part) is type(wanted)
    if part.device != wanted.device or part.dtype != wanted.dtype:
        return False
    if part.device.type == "meta" or wild:
        return wild or part.shape == wanted.shape
    if part.shape != wanted.shape:
        return False
    if not part.dtype.is_floating_point:
        return torch.equal(part, wanted)
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(part.dtype, 1e-3)
    return torch.allclose(part, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def _parts(value: Any) -> Iterator[Any]:
    """Tensors and numbers inside a value."""
    if isinstance(value, Tensor):
        yield value.to_dense() if value.is_sparse else value
    elif isinstance(value, np.ndarray):
        yield torch.from_numpy(value) if value.dtype.kind in "biuf" else value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _parts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, torch.nn.Module):
        yield from _parts(dict(value.state_dict()))
    elif hasattr(value, "to_dict"):
        yield from _parts(value.to_dict())
    elif isinstance(value, float) and math.isnan(value):
        yield None
    else:
        yield value


def warm_up(of_ops: bool) -> None:
    """Make good calls of each target in this process, so that kernels are compiled in its children."""
    for target in raw.TARGETS if of_ops else PUBLIC:
        for seed in range(4):
            outcome = call(seed, of_ops, 0, target)
            if outcome["kind"] != "result":
                print(f"a good call of {target} (seed {seed}) did not give a result: {outcome}")


def run(seeds: Iterable[int], of_ops: bool, timeout: float) -> Iterator[tuple[int, children.Outcome]]:
    """Yield the outcome of the call of each seed."""
    for seed, outcome in children.run_items(lambda seed: call(seed, of_ops), list(seeds), timeout=timeout):
        if "target" not in outcome:  # the child died before
            target, draw, make = prepare(seed, of_ops)
            try:
                make(draw)
            except Exception as error:
                draw.notes.append(f"making it raises {type(error).__name__}")
            outcome |= {"target": target, "notes": "; ".join(draw.notes)}
            if outcome["kind"] == "crash" and not _crashes_alone(seed, of_ops):
                outcome["error"] += " (not alone: an earlier call of this batch may be the cause)"
        yield seed, outcome


def _crashes_alone(seed: int, of_ops: bool) -> bool:
    """Whether a call crashes in a separate child. One that only damages the heap may not."""
    return any(again["kind"] == "crash" for _, again in children.run_items(lambda seed: call(seed, of_ops), [seed]))


def distinct(outcomes: Iterable[tuple[int, children.Outcome]]) -> list[Fault]:
    """Group faults by error and location."""
    found: dict[tuple[str, ...], Fault] = {}
    for seed, outcome in outcomes:
        if outcome["kind"] not in FAULTS:
            continue
        error, where = outcome.get("error", ""), outcome.get("where", "")
        what = "" if outcome["kind"] == "crash" else error.split(":")[0]  # a damaged heap causes many errors
        key = (outcome["target"], outcome["kind"], what, where)
        fault = found.setdefault(key, Fault(outcome["target"], outcome["kind"], error, where, [], outcome["notes"]))
        fault.seeds.append(seed)
        if len(outcome["notes"]) < len(fault.example):
            fault.example = outcome["notes"]
            fault.seeds.insert(0, fault.seeds.pop())  # the shortest one first
    return sorted(found.values(), key=lambda fault: (FAULTS.index(fault.kind), -len(fault.seeds)))


def counts(outcomes: Iterable[tuple[int, children.Outcome]]) -> dict[str, Counter[str]]:
    """How many outcomes of each kind each target has."""
    found: dict[str, Counter[str]] = {}
    for _, outcome in outcomes:
        found.setdefault(outcome["target"], Counter())[outcome["kind"]] += 1
    return found

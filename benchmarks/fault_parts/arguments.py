"""Replace good arguments with bad ones, drawn from a seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Change = Callable[["Draw", Any], Any]

DTYPES = (
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.complex64,
)
LARGE = 10**8
LARGEST = 2**63 - 1

SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "0-d": lambda t: t.new_zeros(()),
    "flattened": lambda t: t.flatten(),
    "transposed": lambda t: t.t().contiguous() if t.dim() == 2 else t[:, None],
    "one more dimension": lambda t: t.unsqueeze(-1),
    "one more leading dimension": lambda t: t.unsqueeze(0),
    "one row less": lambda t: t[:-1],
    "one row more": lambda t: torch.cat([t, t[-1:]]),
    "one column less": lambda t: t[..., :-1],
    "one column more": lambda t: torch.cat([t, t[..., -1:]], -1),
    "empty": lambda t: t.new_empty(0),
    "no rows": lambda t: t[:0],
    "no columns": lambda t: t[..., :0],
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "not contiguous": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "transposed twice": lambda t: t.t().contiguous().t() if t.dim() == 2 else t,
    "expanded": lambda t: t[:1].expand_as(t),
    "expanded columns": lambda t: t[..., :1].expand_as(t),
    "flipped": lambda t: t.flip(0),
    "meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "requires grad": lambda t: t.clone().requires_grad_(),
}
OBJECTS: dict[str, Callable[[Any], Any]] = {
    "numpy array": lambda t: t.detach().cpu().numpy(),
    "list": lambda t: t.tolist(),
    "None": lambda t: None,
    "text": lambda t: "text",
    "whole number": lambda t: 3,
    "float": lambda t: 2.5,
    "dict": lambda t: {},
    "tuple of rows": lambda t: tuple(t),
}
SIZES = (-1, 0, 1, -LARGEST, 2**40, LARGEST, 2**63, 2**70, 2.5, float("nan"), "3", None, True, [3], torch.tensor(3))
REALS = (-1.0, 0.0, 1.0, 1.5, float("nan"), float("inf"), -float("inf"), 1e300, "0.5", None, True, [0.5], 10**400)


@dataclass
class Draw:
    """Random choices from a seed, and notes about what they made bad."""

    seed: int
    changes: int | None = None
    """How many arguments to make bad; by default 0 to 3, mostly 1."""
    notes: list[str] = field(default_factory=list)
    wild: bool = False
    """Whether numbers are so extreme that rounding decides: only the structure of results is compared."""
    no_tensor: bool = False
    """Whether an argument has another Python type."""
    leaf: Tensor | None = None
    """The features before any change: their gradient is compared."""
    asked_size: bool = False
    """Whether a size was requested explicitly: running out of memory is then not a fault."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        torch.manual_seed(self.seed)
        if self.changes is None:
            self.changes = self.random.choices((0, 1, 2, 3), (1, 14, 4, 1))[0]

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.random.random() < probability

    def pick(self, values: Any) -> Any:
        """Pick one of some values."""
        return self.random.choice(list(values))

    def spoil(self, arguments: dict[str, Any], kinds: dict[str, str]) -> dict[str, Any]:
        """Change some of the arguments; `kinds` has the kind of each, a key of `CHANGES`."""
        for _ in range(self.changes or 0):
            name = self.pick(kinds)
            self.note(name, kinds[name], arguments)
        return arguments

    def note(self, name: str, kind: str, arguments: dict[str, Any]) -> None:
        """Change one argument."""
        label, change = self.pick(CHANGES[kind])
        before = arguments.get(name)
        if before is None and kind not in ("size", "real"):
            before = torch.zeros(3) if kind in ("features", "floats", "mask") else torch.zeros(3, dtype=torch.long)
        if not isinstance(before, Tensor) and kind not in ("size", "real"):
            return  # changed already
        try:
            arguments[name] = change(self, before)
        except (RuntimeError, TypeError, IndexError, NotImplementedError):  # does not apply after another change
            return
        if label in OBJECTS:
            self.no_tensor = True
        after = arguments[name]
        if isinstance(after, Tensor) and not after.is_leaf:  # a separate autograd graph, as calls are made twice
            arguments[name] = after.detach().requires_grad_(after.is_floating_point())
        self.notes.append(f"{name}: {label}" + (f" {after!r:.30}" if kind in ("size", "real") else ""))


def set_entry(draw: Draw, t: Tensor, value: float) -> Tensor:
    """A copy of a tensor with one entry changed."""
    t = t.clone()
    if t.numel():
        t.view(-1)[draw.random.randrange(t.numel())] = value
    return t


def _entry(value: int) -> tuple[str, Change]:
    return f"an entry {value}", lambda draw, t: set_entry(draw, t, value)


def _relative(label: str, beyond: int) -> tuple[str, Change]:
    return label, lambda draw, t: set_entry(draw, t, int(t.max()) + beyond if t.numel() else beyond)


def _real(value: float) -> tuple[str, Change]:
    def change(draw: Draw, t: Tensor) -> Tensor:
        draw.wild = True
        return set_entry(draw, t, value)

    return f"an entry {value}", change


def _shuffled(draw: Draw, t: Tensor) -> Tensor:
    order = list(range(t.size(-1)))
    draw.random.shuffle(order)
    return t[..., order]


def _whole(value: int) -> tuple[str, Change]:
    return f"all {value}", lambda draw, t: torch.full_like(t, value)


def _size(draw: Draw, before: Any) -> Any:
    draw.asked_size = True
    return draw.pick(SIZES)


def _cast(dtype: torch.dtype) -> tuple[str, Change]:
    return str(dtype).removeprefix("torch."), lambda draw, t: t.to(dtype)


def _plain(changes: dict[str, Callable[[Any], Any]]) -> list[tuple[str, Change]]:
    return [(label, lambda draw, t, change=change: change(t)) for label, change in changes.items()]


_ANY = [*_plain(SHAPES), *_plain(LAYOUTS), *_plain(OBJECTS), *(_cast(dtype) for dtype in DTYPES)]
# Like PyG's, readouts without a batch_size return a row for each number up to the highest: it is not a fault that 10⁸
# graphs take much memory
_GRAPH_IDS = [_entry(value) for value in (-1, -2, -7, -LARGE, -LARGEST, 10_000)]
_FAR = [_entry(value) for value in (-1, -2, -7, LARGE, -LARGE, LARGEST, -LARGEST, 2**31, 2**32)]
_INDEX = [*_FAR, *(_relative(f"an entry {beyond} beyond the largest", beyond) for beyond in (1, 2, 20, 2000))]
_EXTREME = [_real(value) for value in (float("nan"), float("inf"), -float("inf"), 3e38, 1e-40)]
CHANGES: dict[str, list[tuple[str, Change]]] = {
    "index": [*_ANY, *_INDEX, *_INDEX, ("shuffled", _shuffled), _whole(0), _whole(-1)],
    "batch": [*_ANY, *_INDEX, *_INDEX, ("shuffled", _shuffled), _whole(-1), _whole(5), _whole(LARGE)],
    "batch of a readout": [*_ANY, *_GRAPH_IDS, *_GRAPH_IDS, ("shuffled", _shuffled), _whole(-1), _whole(5)],
    "features": [*_ANY, *_EXTREME, *_EXTREME],
    "floats": [*_ANY, *_EXTREME],
    "indices": [*_ANY, *_INDEX, *_INDEX, _whole(-1), _whole(-2)],
    "mask": [*_ANY, ("inverted", lambda draw, t: ~t)],
    "size": [("", _size)],
    "real": [("", lambda draw, before: draw.pick(REALS))],
}

"""The settings of one method on one data set, from TOML files in the package."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

METHODS = ("component", "edgepool", "gin")
_FOLDER = files("compool.study") / "recipes"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one method is trained on one data set."""

    method: str
    dataset: str
    name: str
    """``"fast"``, ``"paper"`` or another that the file has."""
    layers: str
    """The network's letters (see :class:`compool.nn.Network`), or ``"GIN"``."""
    hidden: int
    features: str
    """See :func:`compool.data.features`."""
    readout: str
    dropout: float
    optimizer: str
    """``"adamw"`` or ``"adam"``."""
    epochs: int
    batch: int
    """Graphs a step."""
    lr: float
    halve: int
    """The learning rate is halved after every so many epochs."""
    weight_decay: float
    files: str = ""
    """The name of the TU data set, where it is another than `dataset`."""
    in_channels: int | None = None
    """What the data set is known to have; where it is not known, the data tell."""
    num_classes: int | None = None
    weights: str = "merged"
    symmetric: bool = False
    threshold: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("method", METHODS), ("optimizer", ("adam", "adamw"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        for name in ("hidden", "epochs", "batch", "halve"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)!r}")
        if not self.lr > 0 or not self.weight_decay >= 0:
            raise ValueError(f"lr must be above and weight_decay not below 0, got {self.lr} and {self.weight_decay}")

    def network(self, in_channels: int | None = None, num_classes: int | None = None) -> "Module":
        """The network, freshly initialised, for so many features and classes; by default, those of the data set."""
        from compool.nn import GIN, Network

        width, classes = in_channels or self.in_channels, num_classes or self.num_classes
        if width is None or classes is None:
            raise ValueError(f"there is no recipe for {self.dataset}: give in_channels and num_classes")
        if self.layers == "GIN":
            return GIN(width, self.hidden, classes, self.dropout, self.readout)
        pooling = (self.threshold, self.weights, self.symmetric)
        return Network(self.layers, width, self.hidden, classes, self.dropout, self.readout, *pooling)

    @cached_property
    def parameters(self) -> int | None:
        """How many parameters the network has, if features and classes are known."""
        if self.in_channels is None or self.num_classes is None:
            return None
        return sum(parameter.numel() for parameter in self.network().parameters())

    @cached_property
    def checksum(self) -> str:
        """Sixteen hexadecimal digits that change with any setting."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


_KEYS = {field.name for field in fields(Recipe)} - {"method", "dataset", "name"}


def recipe(method: str, dataset: str, name: str = "fast", **changes: Any) -> Recipe:
    """The recipe of a method on a data set; of a set without a file, the method's default.

    Args:
        method: ``"component"``, ``"edgepool"`` or ``"gin"``.
        dataset: the data set, by its name in the paper or in the TU collection.
        name: which of the file's recipes, or the path of a TOML file of settings to change in ``fast``.
        changes: settings to change.

    Example:
        >>> recipe("component", "PROTEINS").lr, recipe("component", "PROTEINS", "paper").lr
        (0.003, 0.001)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    own: dict[str, Any] = {}
    if name.endswith(".toml"):
        own, name = _read(Path(name)), Path(name).stem
        wrong = sorted(set(own) - _KEYS)
        if wrong:
            raise ValueError(f"{name}.toml has the unknown setting {wrong[0]!r}; known are {', '.join(sorted(_KEYS))}")
    dataset = next(
        (known for known in datasets(method) if dataset == _read(_path(method, known)).get("files")), dataset
    )
    layers = [_read(_path(method, "default"))]
    if dataset in datasets(method):
        layers.append(_read(_path(method, dataset)))
    which = "fast" if own else name
    if not any(which in layer for layer in layers):
        known = sorted({key for layer in layers for key, value in layer.items() if isinstance(value, dict)})
        raise ValueError(f"{method} on {dataset} has no recipe {which!r}; there are {', '.join(known)}")
    settings: dict[str, Any] = {}
    for layer in layers:
        settings |= {key: value for key, value in layer.items() if not isinstance(value, dict)}
    for layer in layers:
        settings |= layer.get(which, {})
    return Recipe(method=method, dataset=dataset, name=name, **(settings | own | changes))


def datasets(method: str) -> list[str]:
    """The data sets that a method has a recipe for."""
    names = (entry.name.removesuffix(".toml") for entry in (_FOLDER / method).iterdir())
    return sorted(name for name in names if name != "default")


def recipes() -> Iterator[Recipe]:
    """Every recipe of the package."""
    for method in METHODS:
        for dataset in datasets(method):
            tables = _read(_path(method, "default")) | _read(_path(method, dataset))
            for name in sorted(key for key, value in tables.items() if isinstance(value, dict)):
                yield recipe(method, dataset, name)


def _path(method: str, dataset: str) -> Any:
    return _FOLDER / method / f"{dataset}.toml"


def _read(path: Any) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no recipe file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None

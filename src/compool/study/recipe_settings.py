"""The settings for training a method on a data set."""

import hashlib
import json
import math
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

from compool._words import did_you_mean
from compool.nn.settings import GINSettings, NetworkSettings
from compool.study import own_network
from compool.study.metrics import LOSSES, METRICS

if TYPE_CHECKING:
    from torch.nn import Module

METHODS = ("component", "edgepool", "gin")
SCHEDULES = ("halving", "constant", "cosine", "one_cycle", "plateau")
IMPLIED: dict[str, Any] = {
    "files": "",
    "in_channels": None,
    "num_classes": None,
    "weights": "merged",
    "symmetric": False,
    "threshold": None,
    "ratio": 0.5,
    "jump": False,
    "squash": False,
    "splits": "independent",
    "shuffle": True,
    "scorer": "linear",
    "reduce": "score",
    "merge_ratio": None,
    "quantile": None,
    "merge_order": "score",
    "score": None,
    "own_network": "",
    "own_checksum": "",
    "arguments": "",
    "metric": "auto",
    "loss": "auto",
    "class_weights": "none",
    "schedule": "halving",
    "momentum": 0.9,
    "clip": 0.0,
    "patience": 0,
}
"""The values of settings that a stored run does not have. Checksums depend on them: they must never change.

A new setting gets an entry: the value that trains as compool did before. This need not be its default.
"""
MAX_COUNT = 10**9  # of epochs, graphs per batch and so on
REPLACEMENTS = {"none": "", "topk": "T", "sag": "A", "edge": "E", "random": "P"}
"""Methods that replace ``P`` in component pooling's networks with another layer, to measure the effect of pooling.

``"random"`` has ``P`` merge random edges, as in Mesquita et al. (2020).
"""
SCORING = ("weights", "symmetric", "threshold", "quantile", "merge_order", "score", "scorer")
_LETTERS = dict.fromkeys((*SCORING, "reduce", "merge_ratio"), "P") | {"ratio": "TA"}
NETWORK_KEYS = {"layers", "hidden", "readout", "dropout"} | {field.name for field in fields(NetworkSettings)}
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings for training a method on a data set."""

    method: str
    dataset: str
    name: str
    """``"fast"``, ``"paper"`` or another recipe of the file."""
    layers: str
    """The network's letters (see :class:`compool.nn.Network`), or ``"GIN"``."""
    hidden: int
    features: str
    """See :func:`compool.data.features`."""
    readout: str
    dropout: float
    optimizer: str
    """``"adamw"``, ``"adam"`` or ``"sgd"``."""
    epochs: int
    batch: int
    """Graphs per step."""
    lr: float
    halve: int
    """The learning rate is halved after every `halve` epochs."""
    weight_decay: float
    files: str = ""
    """The name of the TU data set, if it differs from `dataset`."""
    in_channels: int | None = None
    """The features of the data set, if known; otherwise taken from the data."""
    num_classes: int | None = None
    weights: str = "merged"
    symmetric: bool = False
    threshold: float | None = None
    ratio: float = 0.5
    jump: bool = False
    squash: bool = False
    splits: str = "independent"
    """A kind of :func:`compool.data.split`, or the path of what :func:`compool.data.read_splits` reads."""
    shuffle: bool = True
    """Shuffle the graphs in each epoch."""
    scorer: str = "linear"
    reduce: str = "score"
    merge_ratio: float | None = None
    """The share of each graph's nodes that component pooling leaves, in place of a threshold."""
    quantile: float | None = None
    merge_order: str = "score"
    """Which edges merge first with a `merge_ratio`: the highest ``"score"``, or in ``"random"`` order."""
    score: str | None = None
    """The function of raw scores: ``"tanh"``, ``"sigmoid"`` or ``"hardtanh"``; see :class:`compool.nn.Network`."""
    own_network: str = ""
    """The reference to the class of a user-defined network: see :mod:`compool.study.own_network`. Settings of the
    built-in networks are then ignored.
    """
    own_checksum: str = ""
    """The checksum of its file."""
    arguments: str = ""
    """Its arguments besides `in_channels` and `num_classes`, as JSON."""
    metric: str = "auto"
    """The metric that picks the epoch, one of :data:`compool.study.metrics.METRICS`; ``"auto"``: by the task."""
    loss: str = "auto"
    """``"cross_entropy"``, ``"bce"``, ``"l1"`` or ``"l2"``; ``"auto"``: by the task."""
    class_weights: str = "none"
    """``"balanced"``: every class has the same weight in the loss."""
    schedule: str = "halving"
    """``"halving"``, ``"constant"``, ``"cosine"``, ``"one_cycle"``, or ``"plateau"``: halved when the validation loss
    has not fallen for `halve` epochs.
    """
    momentum: float = 0.9
    """The momentum of SGD."""
    clip: float = 0.0
    """The maximum norm of the gradient; 0: no clipping."""
    patience: int = 0
    """Stop after this many epochs without a better validation metric; 0: never."""

    def __post_init__(self) -> None:
        for field in fields(self):
            kinds, value = get_args(field.type) or (field.type,), getattr(self, field.name)
            if value == "none" and type(None) in kinds:  # TOML has no null
                object.__setattr__(self, field.name, None)
            elif float in kinds and type(value) is int:  # so that 0 and 0.0 are the same setting
                object.__setattr__(self, field.name, float(value))
            elif type(value) not in kinds:
                raise ValueError(f"{field.name} must be {_WORDS[kinds[0]]}, got {value!r}")
            elif type(value) is float and not math.isfinite(value):  # JSON and CSV have no such numbers
                raise ValueError(f"{field.name} must be a finite number, got {value}")
        choices = {"method": (*METHODS, *REPLACEMENTS), "optimizer": ("adam", "adamw", "sgd")}
        choices |= {
            "metric": ("auto", *METRICS),
            "loss": ("auto", *(loss for task in LOSSES.values() for loss in task)),
        }
        choices |= {"class_weights": ("none", "balanced"), "schedule": SCHEDULES}
        if self.own_network:
            choices["method"] = (own_network.class_name(self.own_network),)
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                hint = did_you_mean(str(getattr(self, name)), allowed)
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}{hint}")
        counts = {"epochs": 1, "batch": 1, "halve": 1, "hidden": 0 if self.own_network else 1, "patience": 0}
        for name, least in counts.items():
            if not least <= getattr(self, name) <= MAX_COUNT:
                raise ValueError(
                    f"{name} must be a whole number from {least} to {MAX_COUNT:,}, got {getattr(self, name)}"
                )
        if not self.lr > 0:
            raise ValueError(f"lr must be above 0, got {self.lr}")
        for name in ("weight_decay", "clip"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum}")

    def network(
        self, in_channels: int | None = None, num_classes: int | None = None, task: str = "classification"
    ) -> "Module":
        """The network, freshly initialised; by default, for the features and classes of the data set."""
        return self.network_settings(in_channels, num_classes, task).network()

    def network_settings(
        self, in_channels: int | None = None, num_classes: int | None = None, task: str = "classification"
    ) -> NetworkSettings | GINSettings:
        """The settings of the network; by default, for the features and classes of the data set."""
        width, classes = in_channels or self.in_channels, num_classes or self.num_classes
        if width is None or classes is None:
            raise ValueError(f"{self.dataset} has no built-in recipe: give in_channels and num_classes")
        outputs = None if task == "classification" else classes
        if self.layers == "GIN":
            return GINSettings(width, self.hidden, classes, self.dropout, self.readout, outputs=outputs)
        known: dict[str, Any] = {"in_channels": width, "num_classes": classes, "outputs": outputs}
        names = (field.name for field in fields(NetworkSettings) if field.name not in known)
        return NetworkSettings(**known, **{name: getattr(self, name) for name in names})

    @property
    def parameters(self) -> int | None:
        """The number of parameters of the network, if features and classes are known."""
        if self.own_network or self.in_channels is None or self.num_classes is None:
            return None
        return self.network_settings().num_parameters

    @cached_property
    def checksum(self) -> str:
        """Sixteen hexadecimal digits that change with any setting, whatever the current defaults are.

        Settings at the values in :data:`IMPLIED` are left out, so that a new setting does not change the checksums of
        old runs. These values never change, defaults may: a recipe with another default is another recipe. For a
        user-defined network, its source code counts, not its path.
        """
        given = {key: value for key, value in asdict(self).items() if key not in IMPLIED or value != IMPLIED[key]}
        given.pop("own_network", None)
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def non_default(self) -> dict[str, Any]:
        """The settings of training and network that differ from their defaults."""
        about = ("files", "in_channels", "num_classes", "own_network", "own_checksum")
        return {
            key: getattr(self, key)
            for key, default in DEFAULTS.items()
            if key not in about and getattr(self, key) != default
        }

    def uses(self, setting: str) -> bool:
        """Whether a setting has an effect on the recipe's network or training."""
        if setting == "momentum":
            return self.optimizer == "sgd"
        if setting == "halve":
            return self.schedule in ("halving", "plateau")
        if self.own_network:
            return True
        if setting in ("jump", "squash"):
            return self.layers != "GIN"
        if self.method == "random" and setting in SCORING:
            return False
        return any(letter in self.layers for letter in _LETTERS[setting]) if setting in _LETTERS else True

    @property
    def common(self) -> "Recipe":
        """The recipe without settings that may differ within a training: equal if recipes can be trained together."""
        return replace(self, name="", lr=1.0, weight_decay=0.0, dropout=0.0, threshold=None)


def require_seed(seed: int) -> None:
    """Raise a ValueError unless a study may have this seed."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")


DEFAULTS = {field.name: field.default for field in fields(Recipe) if field.default is not MISSING}
_OWN_KEYS = {"own_network", "own_checksum", "arguments"}
KEYS = {field.name for field in fields(Recipe)} - {"method", "dataset", "name"} - _OWN_KEYS
"""The settings in recipe files."""
CHANGEABLE = KEYS - {"in_channels", "num_classes"}
"""The settings that ``--set`` changes: the data set gives the others."""

"""The settings of the paper's networks, which check themselves and count parameters. Does not import torch."""

import math
import re
from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from compool.nn._settings import (
    check_budget,
    check_dropout,
    check_order,
    check_reduce,
    check_score_name,
    check_scorer,
    check_threshold,
    default_score,
)

if TYPE_CHECKING:
    from compool.nn.network import GIN, Network

CONVOLUTIONS, POOLINGS = "CSGN", "PETA"
READOUTS = ("mean", "sum", "max", "saturating")


def num_outputs(num_classes: int) -> int:
    """The number of outputs per graph: one logit for two classes, else one per class."""
    return 1 if num_classes == 2 else num_classes


@dataclass(frozen=True)
class NetworkSettings:
    """The arguments of :class:`compool.nn.Network`, where they are described.

    Example:
        >>> NetworkSettings("CPCL", in_channels=29, hidden=16, num_classes=2).num_parameters
        802
    """

    layers: str
    in_channels: int
    hidden: int
    num_classes: int
    dropout: float = 0.0
    readout: str = "mean"
    threshold: float | None = None
    weights: str = "merged"
    symmetric: bool = False
    ratio: float = 0.5
    jump: bool = False
    squash: bool = False
    scorer: str = "linear"
    reduce: str = "score"
    merge_ratio: float | None = None
    quantile: float | None = None
    outputs: int | None = None
    merge_order: str = "score"
    score: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.layers, str):
            raise TypeError(f"layers must be a string of letters such as CPCL; got {self.layers!r}")
        body = self.layers.rstrip("L")
        if not body or not set(body) <= set(CONVOLUTIONS + POOLINGS) or body == self.layers:
            raise ValueError(
                f"layers must be letters of C, S, G, N, P, E, T and A, then at least one L, as in CPCL; "
                f"got {self.layers!r}"
            )
        if self.jump and body[-1] not in CONVOLUTIONS:
            raise ValueError(f"with jump=True, a convolution must precede the first L; got {self.layers!r}")
        for name in ("symmetric", "jump", "squash"):
            if getattr(self, name) not in (False, True):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        # A ratio of 1 or more is a number of nodes, as in PyG
        if isinstance(self.ratio, bool) or not isinstance(self.ratio, Real) or not 0 < self.ratio < math.inf:
            raise ValueError(f"ratio must be a finite number above 0, got {self.ratio!r}")
        _check_common(self)
        if "P" in body:
            score = check_score_name(self.score) or default_score(self.scorer)
            check_threshold(score, self.threshold)
            if self.weights not in ("merged", "all"):
                raise ValueError(f"weights must be 'merged' or 'all', got {self.weights!r}")
            check_budget(self.threshold, self.quantile, self.merge_ratio, None, "merge_ratio")
            check_scorer(self.scorer, self.reduce, self.score)
            check_order(self.merge_order, self.merge_ratio, self.scorer, ("merge_order", "merge_ratio"))
            has_budget = self.quantile is not None or self.merge_ratio is not None
            check_reduce(self.reduce, self.weights, score, self.threshold, has_budget)
            if (self.scorer == "random" or self.merge_order == "random") and re.search("[TA].*P", body):
                raise ValueError(
                    "random scores and merge_order='random' depend on the order of nodes, which T and A change: P must "
                    f"come before these; got {self.layers!r}"
                )

    @property
    def widths(self) -> list[tuple[str, int, int]]:
        """The letter, input channels and output channels of each layer."""
        widths, width, body = list[tuple[str, int, int]](), self.in_channels, self.layers.rstrip("L")
        for position, letter in enumerate(self.layers):
            if letter == "L" and position == len(body) and self.jump:  # takes the readouts of all convolutions
                width *= sum(layer in CONVOLUTIONS for layer in body)
            out = width if letter in POOLINGS else self.hidden
            out = self.num_outputs if position == len(self.layers) - 1 else out
            widths.append((letter, width, out))
            width = out
        return widths

    @property
    def num_outputs(self) -> int:
        """The number of outputs per graph."""
        return self.outputs or num_outputs(self.num_classes)

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the network."""
        scorers = sum(_num_scorer_parameters(self.scorer, width) for letter, width, _ in self.widths if letter == "P")
        return sum(_num_parameters(*layer) for layer in self.widths) + scorers

    def network(self) -> "Network":
        """The network, freshly initialised."""
        from compool.nn.network import Network

        return Network(**asdict(self))


@dataclass(frozen=True)
class GINSettings:
    """The arguments of :class:`compool.nn.GIN`, where they are described.

    Example:
        >>> GINSettings(in_channels=29, hidden=16, num_classes=2).num_parameters
        2742
    """

    in_channels: int
    hidden: int
    num_classes: int
    dropout: float = 0.5
    readout: str = "sum"
    depth: int = 4
    outputs: int | None = None

    def __post_init__(self) -> None:
        _check_common(self)
        _check_size("depth", self.depth, 0)

    @property
    def widths(self) -> list[int]:
        """The number of channels at each level, the input's first."""
        return [self.in_channels] + [self.hidden] * self.depth

    @property
    def num_outputs(self) -> int:
        """The number of outputs per graph."""
        return self.outputs or num_outputs(self.num_classes)

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the network, including an unused ε per layer, as in the original."""
        convolutions = sum(_num_parameters("G", width, self.hidden) for width in self.widths[:-1])
        predictions = sum(_num_parameters("L", width, self.num_outputs) for width in self.widths)
        return self.depth + convolutions + predictions

    def network(self) -> "GIN":
        """The network, freshly initialised."""
        from compool.nn.network import GIN

        return GIN(**asdict(self))


def _num_scorer_parameters(scorer: str, width: int) -> int:
    return {"linear": 2 * width + 1, "similarity": 3 * width + 1, "random": 0}[scorer]


def _num_parameters(letter: str, width: int, out: int) -> int:
    product, perceptron = width * out, width * out + out * out
    return {
        "C": product + out,
        "S": 2 * product + out,  # for a node and for its neighbours
        "G": perceptron + 6 * out,  # two biases and two batch norms
        "L": product + out,
        "N": product + out,
        "P": 0,  # see _num_scorer_parameters
        "E": 2 * width + 1,
        "T": width,
        "A": 2 * width + 2,
    }[letter]


def _check_common(settings: NetworkSettings | GINSettings) -> None:
    if settings.readout not in READOUTS:
        raise ValueError(f"readout must be one of {', '.join(map(repr, READOUTS))}; got {settings.readout!r}")
    check_dropout(settings.dropout)
    _check_size("in_channels", settings.in_channels, 1)
    _check_size("hidden", settings.hidden, 1)
    _check_size("num_classes", settings.num_classes, 2 if settings.outputs is None else 1)
    if settings.outputs is not None:
        _check_size("outputs", settings.outputs, 1)


def _check_size(name: str, size: Any, least: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {size!r}")

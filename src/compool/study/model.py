"""Exported networks: reading a folder that ``compool export`` wrote, and predicting with it."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import Module

from compool import nn, replicas
from compool._tensors import CHECKSUM, read_tensors
from compool.data import Features, GraphSet
from compool.data.encoding import Encoding, encoding_from_dict
from compool.data.names import Names
from compool.nn.settings import POOLINGS
from compool.replicas.held_out import EVALUATION_BATCH
from compool.replicas.single import NetworkCall, pooling_layers
from compool.study.own_network import build, own_code, source_checksum
from compool.study.own_training import stackable_settings

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = 1
DESCRIPTION, WEIGHTS, SOURCE = "model.json", "network.safetensors", "network.py"  # the files of a folder
TASKS = ("classification", "regression", "multilabel")


@dataclass(frozen=True)
class Predictions:
    """What a network predicts for G graphs."""

    task: str
    names: tuple[str, ...]
    """Of the classes or targets."""
    logits: Tensor
    """What the network returned [G, outputs]."""
    kept: Tensor
    """The share of each graph's nodes that is left after each pooling layer [G, levels]."""

    @property
    def probabilities(self) -> Tensor:
        """Of each class, or of each label [G, classes]; of a regression, the predicted numbers."""
        if self.task == "regression":
            return self.logits
        if self.task == "multilabel":
            return self.logits.sigmoid()
        if self.logits.size(1) == 1:
            return torch.cat([(-self.logits).sigmoid(), self.logits.sigmoid()], 1)
        return self.logits.softmax(1)

    @property
    def classes(self) -> Tensor:
        """The class of each graph, as a number [G]."""
        return (self.logits[:, 0] > 0).long() if self.logits.size(1) == 1 else self.logits.argmax(1)

    def __len__(self) -> int:
        return self.logits.size(0)

    def rows(self) -> Iterator[dict[str, Any]]:
        """For each graph its number, class, probabilities and kept shares; for a regression, its predicted values."""
        what = "values" if self.task == "regression" else "probabilities"
        classes = self.classes.tolist() if self.task == "classification" else []
        for index, (numbers, kept) in enumerate(zip(self.probabilities.tolist(), self.kept.tolist(), strict=True)):
            row: dict[str, Any] = {"graph": index}
            if classes:
                row["class"] = self.names[classes[index]]
            yield row | {what: dict(zip(self.names, numbers, strict=True)), "kept": kept}


class Model:
    """A trained network with all that it needs to predict; :func:`load_model` reads it."""

    def __init__(
        self, network: Module, encoding: Encoding, names: tuple[str, ...], task: str, about: dict[str, Any]
    ) -> None:
        self.network = network
        """The network, in evaluation mode: a module for PyG's inputs."""
        self.encoding = encoding
        """How graphs become features."""
        self.names = names
        """Of the classes or targets."""
        self.task = task
        self.about = about
        """What ``model.json`` says: the run, its settings and versions."""

    def __repr__(self) -> str:
        run = self.about["run"]
        return f"Model({run['method']} on {run['dataset']}, replica {run['replica']}, {len(self.names)} outputs)"

    @torch.no_grad()
    def predict(
        self,
        graphs: "GraphSet | Iterable[Data]",
        names: Names = Names(),  # noqa: B008
        on_graphs: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Predict the classes of graphs.

        Weights, order of operations and batches of 128 graphs are those of a study's evaluation of this run alone: on
        the same kind of machine, logits are equal to the bit. In other batches they differ by rounding.

        Args:
            graphs: a set, whose features are made as in training; or a list of :class:`torch_geometric.data.Data` or a
                dataset of PyG, whose ``x`` is taken as it is if it has as many columns as the network takes.
            names: of the labels of a set: see :func:`compool.data.opening.open_graphs`.
            on_graphs: called with the number of graphs done, after each batch.

        Raises:
            ValueError: if the features do not fit; the message says which column is unknown.
        """
        of_set, features = self._encoded(graphs, names)
        device = next(self.network.parameters()).device
        given = replicas.Graphs(of_set, features, device)
        logits, kept = list[Tensor](), list[Tensor]()
        is_binary = self.task == "classification" and len(self.names) == 2
        outputs = (2, 1) if is_binary else (len(self.names),)
        with _evaluator(self.network, given, outputs, str(self.about["run"]["method"])) as evaluate:
            for ids in torch.arange(len(of_set), device=device).split(EVALUATION_BATCH):
                part, nodes = evaluate(ids.unsqueeze(0))
                sizes = (given.node_ptr[ids + 1] - given.node_ptr[ids]).clamp(min=1)
                logits.append(part.cpu())
                shares = [(count / sizes).cpu() for count in nodes]
                kept.append(torch.stack(shares, 1) if shares else torch.zeros(len(ids), 0))
                if on_graphs is not None:
                    on_graphs(sum(map(len, logits)))
        return Predictions(self.task, self.names, torch.cat(logits), torch.cat(kept))

    def _encoded(self, graphs: "GraphSet | Iterable[Data]", names: Names) -> tuple[GraphSet, Features]:
        if not isinstance(graphs, GraphSet):
            of_set = GraphSet.from_data(graphs)
            values = of_set.attributes
            if self.encoding.kind != "attributes" and values is not None and values.shape[1] == self.encoding.width:
                return of_set, Features("attributes", self.encoding.width, values=values)
            graphs = of_set
        return self.encoding.encode(graphs, names)


@contextmanager
def _evaluator(
    network: Module, graphs: replicas.Graphs, outputs: tuple[int, ...], name: str
) -> Iterator[Callable[[Tensor], tuple[Tensor, list[Tensor]]]]:
    """A function from graphs [1, B] to their logits [B, outputs], and the nodes of each after each pooling layer [B].

    Networks of compool are evaluated by the engine that trained them.
    """
    nodes: list[Tensor] = []
    if stackable_settings(network) is not None:
        stack = replicas.stack([network]).to(graphs.y.device).eval()
        letters = getattr(stack, "letters", "")
        layers = [
            layer for letter, layer in zip(letters, getattr(stack, "layers", ()), strict=True) if letter in POOLINGS
        ]
        hooks = [
            layer.register_forward_hook(lambda _, __, out: nodes.append(out[1].graph_ptr.diff())) for layer in layers
        ]

        def logits_of(ids: Tensor) -> Tensor:
            logits: Tensor = stack(*graphs.union(ids)).logits[0]
            return logits
    else:
        call = NetworkCall(network.eval(), graphs, outputs, partial(own_code, name), name)
        size = [0]

        def count(_: Module, __: Any, out: Any) -> None:
            nodes.append(torch.bincount(out[2], minlength=size[0]))

        hooks = [layer.register_forward_hook(count) for layer in pooling_layers(network)]

        def logits_of(ids: Tensor) -> Tensor:
            size[0] = ids.size(1)
            return call(ids)

    def evaluate(ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        nodes.clear()
        return logits_of(ids), list(nodes)

    try:
        yield evaluate
    finally:
        for hook in hooks:
            hook.remove()


def load_model(folder: str | os.PathLike[str], trust: bool = False, device: str = "cpu") -> Model:
    """Read a network that ``compool export`` or :func:`compool.study.export_run` wrote.

    Args:
        folder: the folder.
        trust: execute the code of a network of somebody's own. The networks of compool need none.
        device: where to predict: ``"cpu"`` or ``"cuda"``.

    Raises:
        ValueError: if the folder holds no exported network, a damaged one, or code that is not trusted.

    Example:
        >>> from compool import study
        >>> from compool.data import communities
        >>> folder = getfixture("tmp_path")
        >>> block = study.Block(study.recipe("component", "communities", epochs=1), 0, (0,))
        >>> graphs = communities(90)
        >>> (run,) = study.train_block(block, graphs=graphs)
        >>> _ = study.export_run(run, run.weights, graphs, folder / "model")
        >>> model = load_model(folder / "model")
        >>> model
        Model(component on communities, replica 0, 3 outputs)
        >>> model.predict(graphs[:2]).probabilities.shape
        torch.Size([2, 3])
    """
    folder = Path(folder)
    about = _read_description(folder / DESCRIPTION)
    try:
        encoding, names, task = _described(about)
        _require_weights(folder / WEIGHTS, about)
        network = _own_network(folder, about, trust) if "own" in about else nn.load_network(folder / WEIGHTS)
        _require_fit(network, encoding, names, task)
    except _DescriptionError as error:
        raise ValueError(f"{folder / DESCRIPTION} is damaged: {error}; export the network again") from None
    return Model(network.to(device).eval(), encoding, names, task, about)


class _DescriptionError(Exception):
    """A description that no export writes."""


def _read_description(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} holds no exported network: there is no {path.name}") from None
    except NotADirectoryError:
        raise ValueError(f"{path.parent} is a file; name the folder of an exported network") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is no JSON ({error}); export the network again") from None
    if not isinstance(about, dict) or type(about.get("format")) is not int:
        raise ValueError(f"{path} does not describe an exported network")
    if about["format"] > FORMAT:
        raise ValueError(f"{path} was written by a newer version of compool (format {about['format']})")
    return about


def _described(about: dict[str, Any]) -> tuple[Encoding, tuple[str, ...], str]:
    """The encoding, the names of classes or targets, and the task."""
    try:
        encoding = encoding_from_dict(about.get("features"))
    except ValueError as error:
        raise _DescriptionError(str(error)) from None
    names, task, run = about.get("classes"), about.get("task"), about.get("run")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _DescriptionError("classes must be a list of text")
    if task not in TASKS:
        raise _DescriptionError(f"task must be one of {', '.join(TASKS)}")
    if not isinstance(run, dict) or not {"dataset", "method", "replica"} <= run.keys():
        raise _DescriptionError("run must say data set, method and replica")
    return encoding, tuple(names), task


def _require_weights(path: Path, about: dict[str, Any]) -> None:
    """The weights must be those that the description is about."""
    try:
        with safe_open(path, framework="pt") as file:
            checksum = (file.metadata() or {}).get(CHECKSUM)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; export the network again") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged or no safetensors file ({error})") from None
    if checksum != about.get("weights_checksum"):
        raise ValueError(f"{path} and {DESCRIPTION} are not of the same export; export the network again")


def _require_fit(network: Module, encoding: Encoding, names: tuple[str, ...], task: str) -> None:
    settings = getattr(network, "settings", None)
    if isinstance(network, nn.Network | nn.GIN) and settings is not None:
        if settings.in_channels != encoding.width:
            raise _DescriptionError(f"width is {encoding.width}, but the network takes {settings.in_channels} features")
        if settings.num_classes != len(names) and task == "classification":
            raise _DescriptionError(f"there are {len(names)} classes, but the network has {settings.num_classes}")


def _own_network(folder: Path, about: dict[str, Any], trust: bool) -> Module:
    """The network of a class whose text is in the folder."""
    path, own = folder / SOURCE, about["own"]
    if not isinstance(own, dict) or not isinstance(own.get("class"), str) or not isinstance(own.get("arguments"), dict):
        raise _DescriptionError("own must say the class and its arguments")
    if not trust:
        raise ValueError(
            f"{folder} holds a network of its author's own: read {path}, and allow it to run by --trust (trust=True)"
        )
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if source_checksum(source) != own.get("checksum"):
        raise ValueError(f"{path} is not the text that was exported; export the network again")
    reference, width = f"{path}:{own['class']}", about["features"]["width"]
    network = build(reference, source, width, len(about["classes"]), json.dumps(own["arguments"]))
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        tensors = read_tensors(file)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS} does not fit the class {own['class']} ({error})".split("\n")[0]) from None
    return network

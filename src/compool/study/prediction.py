"""A trained network with everything it needs to predict."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module

from compool import replicas
from compool.data import Features, GraphSet
from compool.data.conversion import as_list
from compool.data.encoding import Encoding
from compool.data.names import Names
from compool.nn.settings import POOLINGS
from compool.replicas.held_out import EVALUATION_BATCH
from compool.replicas.single import NetworkCall, pooling_layers
from compool.study.own_network import own_code
from compool.study.own_training import stackable_settings

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Predictions:
    """The predictions of a network for G graphs."""

    task: str
    names: tuple[str, ...]
    """The names of the classes or targets."""
    logits: Tensor
    """The outputs of the network [G, outputs]."""
    kept: Tensor
    """The share of each graph's nodes that is left after each pooling layer [G, levels]."""

    @property
    def probabilities(self) -> Tensor:
        """The probability of each class or label [G, classes]."""
        if self.task == "regression":
            raise ValueError("a regression has no probabilities; the predicted numbers are in values")
        if self.task == "multilabel":
            return self.logits.sigmoid()
        if self.logits.size(1) == 1:
            return torch.cat([(-self.logits).sigmoid(), self.logits.sigmoid()], 1)
        return self.logits.softmax(1)

    @property
    def classes(self) -> Tensor:
        """The class of each graph, as a number [G]."""
        if self.task != "classification":
            location = "numbers are in values" if self.task == "regression" else "labels are in probabilities"
            raise ValueError(f"these graphs have no class each; the predicted {location}")
        return (self.logits[:, 0] > 0).long() if self.logits.size(1) == 1 else self.logits.argmax(1)

    @property
    def values(self) -> Tensor:
        """The predicted numbers of a regression [G, targets]."""
        if self.task != "regression":
            raise ValueError(f"values are of a regression; this is a {self.task}: see probabilities")
        return self.logits

    def __len__(self) -> int:
        return self.logits.size(0)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per graph: number, class, probabilities and kept shares; for a regression, the predicted values."""
        key = "values" if self.task == "regression" else "probabilities"
        predicted: Tensor = getattr(self, key)
        classes = self.classes.tolist() if self.task == "classification" else []
        for index, (numbers, kept) in enumerate(zip(predicted.tolist(), self.kept.tolist(), strict=True)):
            row: dict[str, Any] = {"graph": index}
            if classes:
                row["class"] = self.names[classes[index]]
            yield row | {key: dict(zip(self.names, numbers, strict=True)), "kept": kept}


class Model:
    """A trained network with everything it needs to predict; :func:`compool.load_model` reads it."""

    def __init__(
        self, network: Module, encoding: Encoding, names: tuple[str, ...], task: str, about: dict[str, Any]
    ) -> None:
        self.network = network
        """The network, in evaluation mode: a module for PyG's inputs."""
        self.encoding = encoding
        """The encoding of graphs as features."""
        self.names = names
        """The names of the classes or targets."""
        self.task = task
        self.about = about
        """The contents of ``model.json``: the run, its settings and versions."""

    def __repr__(self) -> str:
        run = self.about["run"]
        return f"Model({run['method']} on {run['dataset']}, replica {run['replica']}, {len(self.names)} outputs)"

    @torch.no_grad()
    def predict(
        self,
        graphs: "GraphSet | Iterable[Data]",
        names: Names | None = None,
        on_graphs: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Predict the classes of graphs, or their numbers or labels.

        Weights, order of operations and batches of 128 graphs are those of a study's evaluation of this run alone: on
        the same kind of machine, logits are equal to the bit. In other batches they differ by rounding.

        Args:
            graphs: a set, whose features are made as in training; or a list of :class:`torch_geometric.data.Data` or a
                PyG dataset, whose ``x`` is used unchanged if it is one-hot, with as many columns as the network takes.
            names: the names of a set's labels; by default, those that the set has from its files.
            on_graphs: called with the number of graphs done, after each batch.

        Raises:
            ValueError: if the features do not fit, or outputs are NaN or infinite; the message says which column is
                unknown, or which graph it is.
        """
        encoded, features = self._encoded(graphs, names)
        device = next(self.network.parameters()).device
        on_device = replicas.Graphs(encoded, features, device)
        logits, kept = list[Tensor](), list[Tensor]()
        is_binary = self.task == "classification" and len(self.names) == 2
        outputs = (2, 1) if is_binary else (len(self.names),)
        with _evaluator(self.network, on_device, outputs, str(self.about["run"]["method"])) as evaluate:
            for ids in torch.arange(len(encoded), device=device).split(EVALUATION_BATCH):
                batch_logits, nodes = evaluate(ids.unsqueeze(0))
                sizes = (on_device.node_ptr[ids + 1] - on_device.node_ptr[ids]).clamp(min=1)
                logits.append(batch_logits.cpu())
                shares = [(count / sizes).cpu() for count in nodes]
                kept.append(torch.stack(shares, 1) if shares else torch.zeros(len(ids), 0))
                if on_graphs is not None:
                    on_graphs(sum(map(len, logits)))
        predictions = Predictions(self.task, self.names, torch.cat(logits), torch.cat(kept))
        if failed := (~predictions.logits.isfinite()).any(1).nonzero().flatten().tolist():
            raise ValueError(
                f"the outputs for graph {failed[0]} are NaN or infinite; check that its features are of the same scale "
                "as in training"
            )
        return predictions

    def _encoded(self, graphs: "GraphSet | Iterable[Data]", names: Names | None) -> tuple[GraphSet, Features]:
        takes_edges = "edge_attr" in inspect.signature(self.network.forward).parameters
        if isinstance(graphs, GraphSet):
            return self.encoding.encode(graphs, names, takes_edges)
        unlabeled = GraphSet.from_data([_without_target(graph) for graph in as_list(graphs)])
        return self.encoding.as_given(unlabeled).encode(unlabeled, names, takes_edges)


def _without_target(graph: "Data") -> "Data":
    """A copy of a graph, which need not have a target, with the target 0."""
    if not hasattr(graph, "edge_index"):
        return graph  # `GraphSet.from_data` raises an error
    graph = copy(graph)
    graph.y = torch.zeros(1, dtype=torch.long)
    return graph


@contextmanager
def _evaluator(
    network: Module, graphs: replicas.Graphs, outputs: tuple[int, ...], name: str
) -> Iterator[Callable[[Tensor], tuple[Tensor, list[Tensor]]]]:
    """Yield a function from graph ids [1, B] to logits [B, outputs] and to node counts after each pooling layer [B].

    compool's own networks are evaluated by the engine that trained them.
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

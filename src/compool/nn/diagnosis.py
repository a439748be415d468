"""Diagnosis of a network's pooling layers: whether they merge, and whether they learn."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from compool.nn.component_pooling import ComponentPooling
from compool.nn.pooled import Pooled

NUM_BINS = 10


@dataclass
class LayerDiagnosis:
    """What one layer did; ``str()`` gives a report of a few lines."""

    name: str
    layer: ComponentPooling
    kept: list[float] = field(default_factory=list)
    """The share of nodes kept, per graph."""
    scores: list[Tensor] = field(default_factory=list)
    """Scores of the edges of each batch."""
    gradient: float = 0.0
    """The norm of the gradient of the scorer's parameters, over all batches."""

    def __str__(self) -> str:
        kept = torch.tensor(self.kept)
        score = torch.cat(self.scores) if self.scores else torch.zeros(0)
        lines = [f"{self.name}: {self.layer}"]
        if kept.numel():
            low, median, high = (float(torch.quantile(kept, share)) for share in (0.0, 0.5, 1.0))
            lines.append(f"  nodes kept: median {median:.0%}, from {low:.0%} to {high:.0%} of {kept.numel()} graphs")
        if score.numel():
            low, high = float(score.min()), float(score.max())
            bins = torch.histc(score, NUM_BINS, low, high if high > low else low + 1) / score.numel()
            bars = "".join("▁▂▃▄▅▆▇█"[min(int(8 * height / float(bins.max())), 7)] for height in bins.tolist())
            share, at_highest = (float(mask.float().mean()) for mask in (score > self.layer.threshold, score == high))
            lines.append(f"  scores: {low:.2f} {bars} {high:.2f}, {at_highest:.0%} equal to the highest")
            if math.isfinite(self.layer.threshold):
                lines[-1] += f", {share:.0%} above the threshold"
        lines.append(f"  norm of the scorer's gradient: {self.gradient:.2g}")
        return "\n".join(lines)


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Put a network in evaluation mode, and afterwards each of its modules back in its own mode.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout().eval())
        >>> with evaluation_mode(model):
        ...     model.training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


def diagnose(
    model: torch.nn.Module,
    loader: Iterable[Any],
    forward: Callable[[Any], Tensor] | None = None,
    loss: Callable[[Tensor, Any], Tensor] | None = None,
) -> list[LayerDiagnosis]:
    """Run a network on data, and print for each component pooling layer the share of nodes kept, a histogram of the
    scores, and the norm of the scorer's gradient.

    Parameters, their gradients and running statistics do not change.

    Args:
        model: a network with :class:`~compool.ComponentPooling` layers.
        loader: batches, such as those of a PyG ``DataLoader``.
        forward: maps a batch to the network's output; by default ``model(x, edge_index, batch)``.
        loss: maps the output and the batch to the loss; by default the mean of the squared outputs.

    Returns:
        One diagnosis per layer: what was printed, as numbers.

    Example:
        >>> from compool.data import communities
        >>> from torch_geometric.loader import DataLoader
        >>> model = ComponentPooling(4, scorer="similarity", reduce="graded")
        >>> loader = DataLoader(list(communities(9)), batch_size=9)
        >>> (layer,) = diagnose(model, loader, lambda data: model(data.x, data.edge_index, data.batch).x)
        the network: ComponentPooling(4, score=hardtanh, threshold=0, symmetric=True, scorer=similarity, reduce=graded)
          nodes kept: ...
    """
    layers = {
        name or "the network": module for name, module in model.named_modules() if isinstance(module, ComponentPooling)
    }
    if not layers:
        raise ValueError("model has no ComponentPooling layer to diagnose")
    diagnoses = [LayerDiagnosis(name, layer) for name, layer in layers.items()]

    def watch(diagnosis: LayerDiagnosis) -> Callable[[Any, Any, Pooled], None]:
        def hook(_: Any, __: Any, out: Pooled) -> None:
            diagnosis.kept += out.kept_per_graph().tolist()
            diagnosis.scores.append(out.edge_score.detach().float().cpu())

        return hook

    hooks = [diagnosis.layer.register_forward_hook(watch(diagnosis)) for diagnosis in diagnoses]
    squares = [0.0] * len(diagnoses)
    try:
        with evaluation_mode(model), torch.enable_grad():
            for data in loader:
                output = forward(data) if forward is not None else model(data.x, data.edge_index, data.batch)
                value = output.float().square().mean() if loss is None else loss(output, data)
                for index, diagnosis in enumerate(diagnoses):
                    parameters = [parameter for parameter in diagnosis.layer.parameters() if parameter.requires_grad]
                    if parameters and value.requires_grad:
                        gradients = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
                        squares[index] += sum(float(grad.square().sum()) for grad in gradients if grad is not None)
    finally:
        for hook in hooks:
            hook.remove()
    if not any(diagnosis.scores for diagnosis in diagnoses):
        raise ValueError("loader must yield at least one batch that reaches the layers, got none")
    for diagnosis, square in zip(diagnoses, squares, strict=True):
        diagnosis.gradient = square**0.5
        print(diagnosis)
    return diagnoses

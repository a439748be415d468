"""Evaluation of replicas on validation or test graphs."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from compool.replicas.learner import Evaluation

EVALUATION_BATCH = 128  # maximum number of graphs per replica in one union


class HeldOut(NamedTuple):
    """The results on the validation or test graphs of each replica."""

    metric: Tensor
    """The accuracy, or the metric that picks the epoch [R]."""
    loss: Tensor
    """The mean loss [R]."""
    kept: Tensor
    """The share of nodes kept after each pooling layer [R, levels]."""
    logits: Tensor
    """The logits [R, n, outputs]."""

    def scored(self, score: Callable[[Tensor, Tensor], float], ids: Tensor, y: Tensor) -> "HeldOut":
        """A copy with another metric, which is computed on the host.

        Args:
            score: the metric, a function of logits [n, outputs] and targets.
            ids: the graphs [R, n]; −1 means no graph.
            y: the targets of the whole set.
        """
        on_host = zip(self.logits.cpu(), ids.cpu(), y[ids.clamp(min=0)].cpu(), strict=True)
        values = [score(logits[graphs >= 0], targets[graphs >= 0]) for logits, graphs, targets in on_host]
        return self._replace(metric=torch.tensor(values, device=ids.device))


def evaluation_size(num_graphs: int) -> int:
    """The number of graphs per replica to evaluate together: equal parts of `num_graphs`, at most EVALUATION_BATCH.

    Example:
        >>> evaluation_size(100), evaluation_size(130)
        (100, 65)
    """
    return -(-num_graphs // max(1, -(-num_graphs // EVALUATION_BATCH)))


def evaluate_all(evaluate: Callable[[Tensor], Evaluation], ids: Tensor, size: int) -> HeldOut:
    """Evaluate the graphs of each replica [R, n] in parts of `size`."""
    correct = loss = nodes = torch.zeros((), device=ids.device)
    logits = []
    for part in ids.split(size, dim=1):
        sums = evaluate(part)
        correct, loss, nodes = correct + sums.correct, loss + sums.loss, nodes + sums.nodes
        logits.append(sums.logits.clone())  # a captured step overwrites them
    num_graphs = (ids >= 0).sum(1).clamp(min=1)
    kept = nodes[:, 1:] / nodes[:, :1].clamp(min=1)
    return HeldOut(correct / num_graphs, loss / num_graphs, kept, torch.cat(logits, 1))

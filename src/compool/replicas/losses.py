"""The loss over each replica's graphs, for every task."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Loss(NamedTuple):
    """The loss that training minimises."""

    kind: str = "cross_entropy"
    """``"cross_entropy"`` (binary for one logit); ``"bce"``, for several labels, NaN for a missing label; ``"l1"`` and
    ``"l2"``, absolute and squared differences.
    """
    class_weights: Tensor | None = None
    """The weight of each class for each replica [R, C]; by default 1."""

    def of(self, logits: Tensor, y: Tensor, ids: Tensor) -> Tensor:
        """The mean loss of each replica's graphs [R].

        Args:
            logits: the outputs of the networks [R, B, outputs].
            y: the targets of the whole set [G] or [G, T].
            ids: the graphs of each replica [R, B]; −1 means no graph.

        Example:
            >>> y = torch.tensor([[1.0, float("nan")], [0.0, 0.0]])
            >>> Loss("bce").of(torch.zeros(1, 2, 2), y, torch.tensor([[0, 1]]))  # three labels, log 2 each
            tensor([0.6931])
        """
        is_graph, target = ids >= 0, y[ids.clamp(min=0)]
        if self.kind == "cross_entropy":
            each = _cross_entropy(logits, target)
            if self.class_weights is None:
                return (each * is_graph).sum(1) / is_graph.sum(1).clamp(min=1)
            weight = self.class_weights.gather(1, target) * is_graph
            return (each * weight).sum(1) / weight.sum(1).clamp(min=1e-12)  # as in torch's cross_entropy
        target = target.view(logits.shape)
        known = is_graph.unsqueeze(2) & ~target.isnan()
        target = torch.where(known, target, 0.0)
        if self.kind == "bce":
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        else:
            each = F.l1_loss(logits, target, reduction="none") if self.kind == "l1" else (logits - target).square()
        return torch.where(known, each, 0.0).sum((1, 2)) / known.sum((1, 2)).clamp(min=1)


def balanced_weights(y: Tensor, train_ids: Tensor, num_classes: int) -> Tensor:
    """Weights [R, C] that give all classes equal influence, as scikit-learn's ``"balanced"``.

    Args:
        y: the classes of the whole set [G].
        train_ids: the training graphs of each replica [R, n]; −1 means no graph.
        num_classes: number of classes.

    Example:
        >>> balanced_weights(torch.tensor([0, 0, 0, 1]), torch.tensor([[0, 1, 2, 3]]), 2)
        tensor([[0.6667, 2.0000]])
    """
    is_graph = train_ids >= 0
    counts = torch.zeros(train_ids.size(0), num_classes, device=y.device)
    counts.scatter_add_(1, y[train_ids.clamp(min=0)], is_graph.float())
    return is_graph.sum(1, keepdim=True) / (num_classes * counts.clamp(min=1))


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The cross-entropy of each graph [R, B]."""
    if logits.size(2) == 1:
        return F.binary_cross_entropy_with_logits(logits.squeeze(2), target.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

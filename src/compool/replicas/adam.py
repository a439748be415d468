"""Optimizers for stacks: each replica has its own learning rate and weight decay."""

import torch
from torch import Tensor
from torch.nn import Module


class StackOptimizer:
    """Base class of optimizers: holds all parameters of a stack as one matrix with one row per replica.

    Each parameter begins at a multiple of four in its row, where GPUs read fast. Updates are element-wise, so each
    replica is trained as if alone. Nothing is copied to the host, so a CUDA graph can capture a step.

    Args:
        stack: a module whose parameters are stacked [R, *]. They become views of the matrix.
        lr: the learning rate of each replica [R]; may be changed between steps by :meth:`set_lr`.
        weight_decay: the weight decay of each replica [R].
        clip: the maximum norm of each replica's gradient, as in :func:`torch.nn.utils.clip_grad_norm_`; 0 for no limit.
    """

    def __init__(self, stack: Module, lr: Tensor, weight_decay: Tensor, clip: float = 0.0) -> None:
        self.parameters = [parameter for parameter in stack.parameters() if parameter.requires_grad]
        self.values = _matrix([parameter.detach() for parameter in self.parameters])
        start = 0
        for parameter in self.parameters:
            size = parameter[0].numel()
            parameter.data = self.values[:, start : start + size].view(parameter.shape)
            start += size + -size % 4
        self.lr, self.weight_decay = (rate.to(self.values).view(-1, 1).clone() for rate in (lr, weight_decay))
        self.clip = clip
        self._decayed: dict[tuple[bool, ...], Tensor] = {}

    def moments(self) -> list[Tensor]:
        """The state that the optimizer keeps besides the parameters; each tensor is [R, columns]."""
        raise NotImplementedError

    @property
    def state(self) -> list[Tensor]:
        """All tensors that a step changes."""
        return [self.values, *self.moments()]

    def set_lr(self, lr: Tensor) -> None:
        """Change the learning rate of each replica [R]."""
        self.lr.copy_(lr.view(-1, 1))

    def step(self, active: Tensor) -> None:
        """Update the parameters of the replicas in the mask `active` [R]; frees their gradients."""
        raise NotImplementedError

    def _gradients(self) -> tuple[Tensor, Tensor]:
        """The gradients as a matrix, clipped, and the weight decay of each element; frees the gradients.

        As in torch's optimizers, parameters without a gradient do not decay.
        """
        decay = self.weight_decay * self._mask_of_decay()
        rows = [
            parameter.detach().new_zeros(parameter.shape) if parameter.grad is None else parameter.grad
            for parameter in self.parameters
        ]
        grad = _matrix(rows)
        for parameter in self.parameters:
            parameter.grad = None
        if self.clip:
            grad *= (self.clip / (grad.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
        return grad, decay

    def _mask_of_decay(self) -> Tensor:
        """The columns of the parameters that have a gradient [1, columns], or [1, 1] if all have."""
        given = tuple(parameter.grad is not None for parameter in self.parameters)
        if given not in self._decayed:
            rows = [
                torch.full_like(parameter[:1], grad) for parameter, grad in zip(self.parameters, given, strict=True)
            ]
            self._decayed[given] = self.values.new_ones(1, 1) if all(given) else _matrix(rows)
        return self._decayed[given]

    def silence(self, replicas: Tensor) -> None:
        """Set the parameters and the optimizer's moments of the replicas in a mask [R] to zero."""
        for values in self.state:
            if values.size(1) == self.values.size(1):
                values.masked_fill_(replicas.view(-1, 1), 0.0)

    def broken(self) -> Tensor:
        """Mask [R] of the replicas with a parameter that is not finite."""
        return ~(self.values * 0.0).sum(1).isfinite()


class Adam(StackOptimizer):
    """Equivalent to :class:`torch.optim.AdamW` for each replica, or :class:`torch.optim.Adam` if not `decoupled`.

    Args:
        stack: see :class:`StackOptimizer`.
        lr: see :class:`StackOptimizer`.
        weight_decay: see :class:`StackOptimizer`.
        decoupled: use AdamW's weight decay, which acts on parameters instead of gradients.
        clip: see :class:`StackOptimizer`.

    Example:
        >>> from compool import nn, replicas
        >>> stack = replicas.stack([nn.Network("CL", 3, hidden=4, num_classes=2) for _ in range(2)])
        >>> adam = Adam(stack, lr=torch.tensor([0.1, 0.2]), weight_decay=torch.zeros(2))
        >>> adam.values.shape
        torch.Size([2, 24])
    """

    def __init__(
        self, stack: Module, lr: Tensor, weight_decay: Tensor, decoupled: bool = True, clip: float = 0.0
    ) -> None:
        super().__init__(stack, lr, weight_decay, clip)
        self.decoupled = decoupled
        self.mean, self.square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.steps = torch.zeros_like(self.lr)
        """The number of steps of each replica [R, 1]."""

    def moments(self) -> list[Tensor]:
        """Running means of gradients and of their squares, and the number of steps."""
        return [self.mean, self.square, self.steps]

    def step(self, active: Tensor, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        """Update the parameters of the replicas in the mask `active` [R]; frees their gradients."""
        grad, decay = self._gradients()
        share = active.view(-1, 1).to(self.values.dtype)
        self.steps += share
        if self.decoupled:
            self.values.mul_(1 - share * self.lr * decay)
        else:
            grad.addcmul_(decay, self.values)
        self.mean.lerp_(grad, (1 - betas[0]) * share)
        self.square.lerp_(grad.square_(), (1 - betas[1]) * share)
        first, second = (1 - beta ** self.steps.clamp(min=1) for beta in betas)
        scale = self.square.sqrt().div_(second.sqrt()).add_(eps)
        self.values.addcdiv_(self.mean * (share * self.lr / first), scale, value=-1)


class SGD(StackOptimizer):
    """Gradient descent with momentum, equivalent to :class:`torch.optim.SGD` for each replica.

    Args:
        stack: see :class:`StackOptimizer`.
        lr: see :class:`StackOptimizer`.
        weight_decay: see :class:`StackOptimizer`.
        momentum: the share of the previous update that is added.
        clip: see :class:`StackOptimizer`.
    """

    def __init__(
        self, stack: Module, lr: Tensor, weight_decay: Tensor, momentum: float = 0.9, clip: float = 0.0
    ) -> None:
        super().__init__(stack, lr, weight_decay, clip)
        self.momentum, self.velocity = momentum, torch.zeros_like(self.values)

    def moments(self) -> list[Tensor]:
        """The previous updates."""
        return [self.velocity]

    def step(self, active: Tensor) -> None:
        """Update the parameters of the replicas in the mask `active` [R]; frees their gradients."""
        grad, decay = self._gradients()
        grad.addcmul_(decay, self.values)
        share = active.view(-1, 1).to(self.values.dtype)
        self.velocity.lerp_(self.momentum * self.velocity + grad, share)
        self.values -= share * self.lr * self.velocity


def _matrix(tensors: list[Tensor]) -> Tensor:
    """Concatenate tensors [R, *] to a matrix, with zeros between them, so that each begins at a multiple of four."""
    parts = []
    for tensor in tensors:
        part = tensor.flatten(1)
        parts += [part, part.new_zeros(part.size(0), -part.size(1) % 4)]
    return torch.cat(parts, 1)

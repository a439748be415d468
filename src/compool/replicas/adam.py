"""Adam for stacks: each replica with its own learning rate and weight decay."""

import torch
from torch import Tensor
from torch.nn import Module


class Adam:
    """Adam, or AdamW if `decoupled`, on all parameters of a stack as one flat vector.

    Element-wise, so that each replica is trained as if alone; equal to :class:`torch.optim.AdamW` and
    :class:`torch.optim.Adam` for each of them.

    Args:
        stack: a module whose parameters are stacked [R, *]. They become views of one vector.
        lr: the learning rate of each replica [R]; may be changed between steps by :meth:`set_lr`.
        weight_decay: of each replica [R].
        decoupled: AdamW's weight decay, which acts on parameters, not on gradients.

    Example:
        >>> from compool import nn, replicas
        >>> stack = replicas.stack([nn.Network("CL", 3, hidden=4, num_classes=2) for _ in range(2)])
        >>> adam = Adam(stack, lr=torch.tensor([0.1, 0.2]), weight_decay=torch.zeros(2))
        >>> adam.values.shape
        torch.Size([42])
    """

    def __init__(self, stack: Module, lr: Tensor, weight_decay: Tensor, decoupled: bool = True) -> None:
        self.parameters = [parameter for parameter in stack.parameters() if parameter.requires_grad]
        self.values = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, part in zip(self.parameters, self.values.split(sizes), strict=True):
            parameter.data = part.view(parameter.shape)
        replicas = torch.arange(lr.size(0), device=self.values.device)
        self.owner = torch.cat([replicas.repeat_interleave(size // lr.size(0)) for size in sizes])
        """The replica of each value."""
        self.decoupled = decoupled
        self.mean, self.square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.weight_decay = weight_decay.to(self.values)[self.owner]
        self.steps = 0
        self.set_lr(lr)

    def set_lr(self, lr: Tensor) -> None:
        """Change the learning rate of each replica [R]."""
        self.lr = lr.to(self.values)[self.owner]

    def step(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        """Update all parameters by their gradients, which are freed."""
        empty = [parameter for parameter in self.parameters if parameter.grad is None]
        for parameter in empty:
            parameter.grad = torch.zeros_like(parameter)
        grad = torch.cat([parameter.grad.flatten() for parameter in self.parameters if parameter.grad is not None])
        for parameter in self.parameters:
            parameter.grad = None
        self.steps += 1
        if self.decoupled:
            self.values.mul_(1 - self.lr * self.weight_decay)
        else:
            grad.addcmul_(self.weight_decay, self.values)
        self.mean.lerp_(grad, 1 - betas[0])
        self.square.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
        scale = self.square.sqrt().div_((1 - betas[1] ** self.steps) ** 0.5).add_(eps)
        self.values.addcdiv_(self.mean * self.lr, scale, value=-1 / (1 - betas[0] ** self.steps))

    def silence(self, replicas: Tensor) -> None:
        """Set all values of some replicas, a mask [R], to zero for good."""
        mine = replicas[self.owner]
        for values in (self.values, self.mean, self.square, self.lr):
            values.masked_fill_(mine, 0.0)

    def broken(self, replicas: int) -> Tensor:
        """Which replicas have a value that is not finite; mask [R]."""
        sums = self.values.new_zeros(replicas).index_add_(0, self.owner, self.values * 0.0)
        return ~sums.isfinite()

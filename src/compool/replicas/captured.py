"""A function whose GPU work is captured once and then replayed: one launch instead of hundreds."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@torch.no_grad()
def copy_into(state: Iterable[Tensor], values: Iterable[Tensor]) -> None:
    """Copy each value into the tensor at the same position of `state`."""
    for tensor, value in zip(state, values, strict=True):
        tensor.copy_(value)


class Captured(Generic[T]):
    """A function as a CUDA graph. It must not copy anything to the host, and no size may depend on values in `given`.

    A call copies its argument into the graph's input, and returns the tensors that the graph writes. The next call
    overwrites them.

    Args:
        function: the function to capture.
        given: an example of its argument.
        state: tensors that `function` changes. They are restored after the capture, which runs the function.
    """

    def __init__(self, function: Callable[[Tensor], T], given: Tensor, state: Iterable[Tensor] = ()) -> None:
        self.given = given.clone()
        state = list(state)
        before = [tensor.detach().clone() for tensor in state]
        side = torch.cuda.Stream(given.device)
        side.wait_stream(torch.cuda.current_stream(given.device))
        with torch.cuda.stream(side):
            function(self.given)  # compiles kernels and initialises libraries
        torch.cuda.current_stream(given.device).wait_stream(side)
        torch.cuda.empty_cache()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = function(self.given)
        copy_into(state, before)

    def __call__(self, given: Tensor) -> T:
        """Replay the graph with this argument."""
        self.given.copy_(given)
        self.graph.replay()
        return self.result

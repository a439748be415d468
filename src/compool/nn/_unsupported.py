"""Clear errors for what the layers do not support."""

from typing import Any, NoReturn


def refuse_script(module: Any) -> NoReturn:
    """Raise an error; `torch.jit.script` calls this before it compiles a layer. TorchScript cannot run our kernels.

    Example:
        >>> refuse_script([])
        Traceback (most recent call last):
        NotImplementedError: torch.jit.script does not support list; use torch.compile or torch.export instead
    """
    name = type(module).__name__
    raise NotImplementedError(f"torch.jit.script does not support {name}; use torch.compile or torch.export instead")

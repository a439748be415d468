"""What layers cannot do, said in a sentence."""

from typing import Any, NoReturn


def refuse_script(module: Any) -> NoReturn:
    """What `torch.jit.script` calls before it compiles a layer: TorchScript has no kernels of ours.

    Example:
        >>> refuse_script([])
        Traceback (most recent call last):
        NotImplementedError: torch.jit.script does not support list; use torch.compile or torch.export instead
    """
    name = type(module).__name__
    raise NotImplementedError(f"torch.jit.script does not support {name}; use torch.compile or torch.export instead")

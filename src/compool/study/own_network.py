"""User-defined networks: a class in a file or module, given by a reference such as ``my_networks.py:Net``.

The source of the file is sent with blocks and stored with runs. A class is always created from this source, so that
all workers and nodes of a cluster train the same network.
"""

import ast
import hashlib
import inspect
import json
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

_FORM = "FILE.py:NAME or MODULE:NAME"
_GIVEN = 2  # positional arguments of every class: in_channels and num_classes


class OwnNetworkError(RuntimeError):
    """An error in the user's own network or data: one line, and the part of the traceback that is in their code."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message, trace)  # both, so that workers can pickle it
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])


def is_reference(method: str) -> bool:
    """Whether a method is a user-defined class.

    Example:
        >>> is_reference("my_networks.py:Net"), is_reference("gin")
        (True, False)
    """
    return ":" in method


def class_name(reference: str) -> str:
    """The name of a reference's class, which is the method's name in stores and reports.

    Example:
        >>> class_name("package.module:Net")
        'Net'
    """
    return reference.rpartition(":")[2].strip()


def module_name(reference: str) -> str:
    """The module of a reference; empty if it names a file.

    Example:
        >>> module_name("package.module:Net"), module_name("my_networks.py:Net")
        ('package.module', '')
    """
    location = _location(reference)
    return "" if location.endswith(".py") else location


def read_source(reference: str, option: str = "--method") -> str:
    """The source of the file that a reference names. It is not executed, but the packages around a module are imported.

    Args:
        reference: ``FILE.py:NAME`` or ``MODULE:NAME``.
        option: the option that it was given to, for messages.

    Raises:
        ValueError: if the file does not exist or is not text.
    """
    location, name = _location(reference), class_name(reference)
    if not location or not name.isidentifier():
        raise ValueError(f"{option} must be {_FORM} for your own code, got {reference!r}")
    path = Path(location) if location.endswith(".py") else _file_of_module(location, reference, option)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise ValueError(f"{option} {reference}: {path} {reason}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{option} {reference}: {path} is not UTF-8 text ({error})") from None


def source_checksum(source: str) -> str:
    """Sixteen hexadecimal digits that change with the source.

    Example:
        >>> source_checksum("import torch")
        'cf1070d3a16f24b2'
    """
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def load_class(reference: str, source: str) -> "type[Module]":
    """The class of a reference, from the source of its file.

    Raises:
        OwnNetworkError: if the source raises an error.
        ValueError: if it has no such class, or the class is not a module.
    """
    from torch.nn import Module

    module, name = load_module(reference, source), class_name(reference)
    value = getattr(module, name, None)
    if value is None:
        classes = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        raise ValueError(f"{_location(reference)} has no class {name}; it has {', '.join(classes) or 'none'}")
    if not isinstance(value, type) or not issubclass(value, Module):
        raise ValueError(f"{reference} must be a class derived from torch.nn.Module, got {_describe(value)}")
    return value


def require_arguments(reference: str, own_class: "type[Module]", arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError if a class does not take ``(in_channels, num_classes, **arguments)``."""
    parameters = list(inspect.signature(own_class).parameters.values())
    by_name = {parameter.name: parameter for parameter in parameters[_GIVEN:]}
    kinds = {parameter.kind for parameter in parameters}
    num_positional = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    )
    if num_positional < _GIVEN and inspect.Parameter.VAR_POSITIONAL not in kinds:
        raise ValueError(f"{reference} must be called as {class_name(reference)}(in_channels, num_classes, …)")
    settable = {
        name: parameter
        for name, parameter in by_name.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    unknown = sorted(set(arguments) - set(settable))
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        known = ", ".join(settable) or "none"
        raise ValueError(f"{reference} has no parameter {unknown[0]!r}; its parameters are {known}")
    missing = [
        name
        for name, parameter in settable.items()
        if parameter.default is parameter.empty and name not in (*arguments, "edge_dim")
    ]
    if missing:
        raise ValueError(f"{reference} needs a value for {missing[0]}: --set {missing[0]}=VALUE")


def build(
    reference: str,
    source: str,
    in_channels: int,
    num_classes: int,
    arguments: str = "",
    seed: int = 0,
    edge_dim: int | None = None,
) -> "Module":
    """Build a network of a class, with the initial weights of a seed.

    Args:
        reference: the class, as ``FILE.py:NAME`` or ``MODULE:NAME``.
        source: the source of its file.
        in_channels: number of features of each node.
        num_classes: number of classes or targets.
        arguments: further arguments, as JSON.
        seed: the seed of torch's generator.
        edge_dim: number of features of each edge, for a class that has a parameter of this name.
    """
    import torch

    own_class = load_class(reference, source)
    named = json.loads(arguments or "{}")
    if "edge_dim" in inspect.signature(own_class).parameters:
        named = {"edge_dim": edge_dim} | named
    with torch.random.fork_rng(devices=[]), own_code(reference):
        torch.manual_seed(seed)
        return own_class(in_channels, num_classes, **named)


@contextmanager
def own_code(reference: str) -> Iterator[None]:
    """Raise errors in this context as :class:`OwnNetworkError`, except when memory runs out."""
    try:
        yield
    except (MemoryError, OwnNetworkError):
        raise
    except (Exception, SystemExit) as error:
        if type(error).__name__ in ("OutOfMemoryError", "NanScore") or "can't allocate memory" in str(error):
            raise
        raise OwnNetworkError(f"{reference}: {type(error).__name__}: {_first_line(error)}", _own_part(error)) from None


def _location(reference: str) -> str:
    """The file or module of a reference."""
    return reference.rpartition(":")[0].strip()


def _file_of_module(name: str, reference: str, option: str) -> Path:
    with own_code(reference), importable(reference):
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:
            spec = None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise ValueError(f"{option} {reference}: no Python module {name}; write a file as FILE.py:NAME")
    return Path(spec.origin)


def load_module(reference: str, source: str) -> ModuleType:
    """Execute a source as a module. It stays in ``sys.modules``, so that its classes can be inspected."""
    location = _location(reference)
    name = f"compool_own_{source_checksum(source)}_{source_checksum(location)}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    is_file = location.endswith(".py")
    path = str(Path(location).absolute()) if is_file else f"<{location}>"
    module.__file__ = path
    if not is_file:
        module.__package__ = location.rpartition(".")[0]
    # Tracebacks show the lines that were executed, even on machines without the file
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    sys.modules[name] = module
    try:
        with own_code(reference), importable(reference):
            exec(compile(source, path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def importable(reference: str) -> Iterator[None]:
    """Make modules next to the file of a reference importable, or those in this folder if it names a module."""
    location = _location(reference)
    folder = str(Path(location).absolute().parent if location.endswith(".py") else Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have removed it
            sys.path.remove(folder)


def _own_part(error: BaseException) -> str:
    """The part of an error's traceback in the user's code; empty if there is none."""
    frame = error.__traceback__
    while frame is not None and not str(frame.tb_frame.f_globals.get("__name__")).startswith("compool_own_"):
        frame = frame.tb_next
    if frame is None and not isinstance(error, SyntaxError):
        return ""
    return "".join(traceback.format_exception(type(error), error, frame))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _describe(value: object) -> str:
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"the class {value.__name__}" if isinstance(value, type) else f"{article} {name}"

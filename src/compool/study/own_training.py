"""User-defined networks in a study: built and tried before training, then trained one at a time or as a stack."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from compool.data import GraphSet, Split
from compool.nn.settings import GINSettings, NetworkSettings
from compool.replicas.single import NetworkCall, SingleLearner
from compool.replicas.trainer import TrainingSettings, loss_of
from compool.replicas.union import Graphs
from compool.study.own_network import build, own_code
from compool.study.recipe_settings import Recipe

TRIED_GRAPHS = 2  # graphs to try a network on before training


def initial_network(recipe: Recipe, source: str, graphs: GraphSet, on_device: Graphs, seed: int) -> Module:
    """The network of a recipe with the initial weights of a seed, tried on some graphs.

    Args:
        recipe: the recipe of a user-defined network.
        source: the source of its file.
        graphs: the data set.
        on_device: the same, on the device of the network.
        seed: the seed of torch's generator.

    Raises:
        OwnNetworkError: if its code raises an error.
        ValueError: if its ``forward`` has the wrong parameters or returns the wrong outputs.
    """
    guard = partial(own_code, recipe.own_network)
    sizes = (on_device.width, graphs.num_classes)
    edge_dim = graphs.num_edge_features or None
    network = build(recipe.own_network, source, *sizes, recipe.arguments, seed, edge_dim)
    with guard():
        network = network.to(on_device.y.device)
    if not list(network.parameters()):
        raise ValueError(f"{recipe.own_network} has no parameters to train")
    call = NetworkCall(network.eval(), on_device, _outputs(graphs), guard, recipe.own_network)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)  # PyG draws the parameters of lazy layers when they are first called
        call(torch.arange(min(TRIED_GRAPHS, len(graphs)), device=on_device.y.device).unsqueeze(0))
    return network


def stackable_settings(network: Module) -> NetworkSettings | GINSettings | None:
    """The settings of a network if replicas of it can be trained as a stack: if it computes what
    :class:`compool.nn.Network` or :class:`compool.nn.GIN` does, with the same layers; otherwise None.

    Example:
        >>> from compool import nn
        >>> class Net(nn.GIN):
        ...     def __init__(self, in_channels, num_classes, hidden=8):
        ...         super().__init__(in_channels, hidden, num_classes)
        >>> stackable_settings(Net(4, 2)).hidden, stackable_settings(torch.nn.Linear(4, 2))
        (8, None)
    """
    settings = getattr(network, "settings", None)
    if not isinstance(settings, NetworkSettings | GINSettings):
        return None
    plain = settings.network()
    same_layers = [(name, type(layer)) for name, layer in network.named_modules()][1:] == [
        (name, type(layer)) for name, layer in plain.named_modules()
    ][1:]
    same_tensors = {name: tensor.shape for name, tensor in network.state_dict().items()} == {
        name: tensor.shape for name, tensor in plain.state_dict().items()
    }
    same_code = all(
        getattr(type(network), method) is getattr(type(plain), method) for method in ("forward", "__call__")
    )
    trains_all = all(parameter.requires_grad for parameter in network.parameters())
    is_hooked = any(layer._forward_hooks or layer._forward_pre_hooks for layer in network.modules())
    return settings if same_layers and same_tensors and same_code and trains_all and not is_hooked else None


def own_learner(
    network: Module,
    recipe: Recipe,
    graphs: GraphSet,
    on_device: Graphs,
    splits: Sequence[Split],
    key: Tensor,
    settings: TrainingSettings,
) -> SingleLearner:
    """The learner of a user-defined network; `key` is its replica's random key [1]."""
    rates: dict[str, Any] = {"fused": True, "lr": float(settings.lr), "weight_decay": float(settings.weight_decay)}
    if settings.optimizer == "sgd":
        rates["momentum"] = settings.momentum
    optimizers: dict[str, Any] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    objective = loss_of(on_device, splits, settings, graphs.num_classes)
    return SingleLearner(
        network,
        on_device,
        _outputs(graphs),
        key,
        partial(optimizers[settings.optimizer], **rates),
        objective,
        settings.clip,
        partial(own_code, recipe.own_network),
        recipe.own_network,
    )


def _outputs(graphs: GraphSet) -> tuple[int, ...]:
    """The allowed numbers of outputs per graph: one per class or target; one is enough for two classes."""
    is_binary = graphs.task == "classification" and graphs.num_classes == 2
    return (2, 1) if is_binary else (graphs.num_classes,)

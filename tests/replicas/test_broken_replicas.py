"""Replicas that break, and data at the limits of a capacity: the stack does what a single network does."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compool import nn, replicas
from compool.data import Features, GraphSet, Split, communities, features
from compool.replicas.kernels import _cpu, _torch
from compool.replicas.learner import Learner, Padding
from compool.replicas.single import SingleLearner
from compool.replicas.trainer import Trained, TrainingSettings, _optimizer, train, train_learner
from tests.replicas.batches import graph_set
from tests.replicas.test_trainer import _Called

NAN = float("nan")
GRAPHS = communities(60)
ON_CPU = replicas.Graphs(GRAPHS, features(GRAPHS))
SPLIT = Split(np.arange(40), np.arange(40, 50), np.arange(50, 60))
KEY = torch.tensor([3])


def settings(epochs: int, lr: float, **others: Any) -> TrainingSettings:
    return TrainingSettings(epochs, others.pop("batch", 40), torch.tensor([lr]), 100, torch.zeros(1), **others)


@pytest.mark.parametrize("drops", [False, True])
def test_relu_keeps_nan(drops: bool) -> None:
    x, ptr, share = torch.tensor([[NAN, 1.0, -1.0]]), torch.tensor([0, 1]), torch.zeros(1)
    for module in (_cpu, _torch):
        out = module.activate(x, None, ptr, KEY if drops else None, share)
        torch.testing.assert_close(out, torch.tensor([[NAN, 1.0, 0.0]]), equal_nan=True)


def trained_both_ways(network: nn.Network, given: TrainingSettings, optimizer: type) -> tuple[Trained, Trained]:
    """The training of a network in a stack, and alone."""
    stack, lr = replicas.stack([network]), float(given.lr)
    learner = SingleLearner(copy.deepcopy(network), ON_CPU, (3,), KEY, lambda parameters: optimizer(parameters, lr=lr))
    return train(stack, ON_CPU, [SPLIT], KEY, given), train_learner(learner, [SPLIT], given)


def test_overflow_fails_a_replica() -> None:
    torch.manual_seed(0)
    network = nn.Network("NNL", ON_CPU.width, 8, 3)
    with torch.no_grad():
        network.layers[0].weight.fill_(1e38)
        network.layers[1].weight.mul_(1e30)
    for each in trained_both_ways(network, settings(2, 0.01, shuffle=False), torch.optim.AdamW):
        assert (each.failed.tolist(), each.epoch.tolist()) == ([True], [-1])


def test_logits_that_are_not_finite_fail_a_replica() -> None:
    torch.manual_seed(0)
    given = settings(1, 1e16, optimizer="sgd", momentum=0.0, shuffle=False)
    for each in trained_both_ways(nn.Network("CCL", ON_CPU.width, 8, 3), given, torch.optim.SGD):
        assert (each.failed.tolist(), each.epoch.tolist()) == ([True], [-1])


def test_the_captured_example_fits_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The capacity is that of shuffled batches; the first batch of this split is larger than any of them."""
    graphs = graph_set(60)
    ids = np.argsort(-np.diff(graphs.node_ptr), kind="stable")
    on_cpu = replicas.Graphs(graphs, features(graphs))
    monkeypatch.setattr("compool.replicas.trainer._can_capture", lambda *_: True)
    monkeypatch.setattr("compool.replicas.learner.Captured", _Called)
    stack = replicas.stack([nn.Network("CPCL", 5, 8, 2)])
    given = settings(1, 0.01, batch=16)
    assert not train(stack, on_cpu, [Split(ids[:48], ids[48:54], ids[54:])], KEY, given).failed.any()


def step(network: nn.Network, graphs: replicas.Graphs, ids: Tensor, padded: bool) -> Learner:
    """One step of a stack of one, and its evaluation."""
    stack = replicas.stack([copy.deepcopy(network)])
    learner = Learner(stack, graphs, KEY, _optimizer(stack, settings(1, 0.01)))
    needed = torch.zeros(learner.num_edge_poolings, 2, dtype=torch.long)
    padding = Padding(graphs.capacity(ids.unsqueeze(0)), (), needed) if padded else None
    learner.step(ids, padding)
    learner.evaluate(ids, padding)
    return learner


@pytest.mark.parametrize("change", [{}, {"merge_ratio": 0.5}, {"scorer": "similarity", "reduce": "graded"}])
@pytest.mark.parametrize("layers", ["CPCL", "SESL", "CTCL"])
def test_batches_without_edges(layers: str, change: dict[str, Any]) -> None:
    graphs = GraphSet("apart", [0, 2, 3], [0, 0, 0], np.empty((2, 0), np.int32), [0, 1])
    on_cpu = replicas.Graphs(graphs, Features("attributes", 3, values=np.ones((3, 3), np.float32)))
    ids = torch.tensor([[0, 1]])
    torch.manual_seed(0)
    network = nn.Network(layers, 3, 4, 2, **change)
    plain, padded = (step(network, on_cpu, ids, way) for way in (False, True))
    torch.testing.assert_close(plain.loss, padded.loss)
    assert not padded.failed.any()


@pytest.mark.parametrize("change", [{}, {"reduce": "mean"}, {"reduce": "sum"}, {"merge_ratio": 0.5, "reduce": "mean"}])
def test_nan_scores_fail_a_replica_in_both_forms(change: dict[str, Any]) -> None:
    graphs = graph_set(14, 3)
    on_cpu = replicas.Graphs(graphs, features(graphs, "attributes"))
    torch.manual_seed(0)
    network = nn.Network("CPCL", 5, 6, 2, **change)
    with torch.no_grad():  # raw scores of ∞ − ∞
        network.layers[1].lin.weight.fill_(3e38)[:, 6:].neg_()
        network.layers[0].lin.weight.mul_(50)
    for padded in (False, True):
        assert step(network, on_cpu, torch.arange(14).unsqueeze(0), padded).failed.all(), padded


def test_similarity_ignores_a_batch_that_overflows() -> None:
    graphs = graph_set(14, 3)
    chosen = features(graphs, "attributes")
    assert chosen.values is not None
    values, large = chosen.values.copy(), int(np.argmax(np.diff(graphs.edge_ptr)))
    values[graphs.node_ptr[large] : graphs.node_ptr[large + 1]] *= 1e22  # squares overflow in float32
    on_cpu = replicas.Graphs(graphs, replace(chosen, values=values))
    network = nn.Network("PL", 5, 6, 2, scorer="similarity", reduce="sum")
    stack = replicas.stack([copy.deepcopy(network)])
    x, union = on_cpu.union(torch.arange(14).unsqueeze(0))
    logits = network(x, union.edge_index.long(), torch.repeat_interleave(union.graph_ptr.diff()), 14)
    torch.testing.assert_close(stack(x, union).logits[0], logits)
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(stack.state_dict()[name][0], tensor, msg=name)


class Breaking(torch.nn.Module):
    """A network that returns NaN from some step on."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.network = nn.Network("CPCL", ON_CPU.width, 8, 3)
        self.register_buffer("steps", torch.zeros(()))
        self.last = last

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        self.steps += self.training
        return self.network(x, edge_index, batch) * torch.where(self.steps > self.last, NAN, 1.0)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_single_network_resumes_after_it_failed(after: int) -> None:
    given, states = settings(4, 0.01, batch=20), dict[int, dict[str, Tensor]]()

    def run(start: dict[str, Tensor] | None = None) -> Trained:
        torch.manual_seed(0)
        learner = SingleLearner(
            Breaking(2), ON_CPU, (3,), KEY, lambda parameters: torch.optim.AdamW(parameters, lr=0.01)
        )
        keep = lambda epoch, state: states.setdefault(epoch, state())  # noqa: E731
        return train_learner(learner, [SPLIT], given, start=start, save=keep)

    whole = run()
    resumed = run(states[after])
    for curve in ("kept", "validation", "loss"):
        ours, theirs = (torch.stack(getattr(each.curves, curve)) for each in (resumed, whole))
        torch.testing.assert_close(ours, theirs, equal_nan=True)

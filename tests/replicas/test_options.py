"""Optimizers, schedules, clipping, early stopping and the max readout of stacks, beside torch's own."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from compool import nn, replicas
from compool.data import communities, features, split
from compool.replicas.adam import SGD, Adam, StackOptimizer
from compool.replicas.schedules import factors, plateau_factor
from compool.replicas.trainer import TrainingSettings, num_epochs, train

GRAPHS = communities(60)
ON_CPU = replicas.Graphs(GRAPHS, features(GRAPHS))


def networks(count: int = 2, **settings: object) -> list[nn.Network]:
    return [nn.Network("CPCL", 4, hidden=8, num_classes=3, **settings) for _ in range(count)]


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize(("clip", "unused"), [(0.0, ""), (0.05, ""), (0.0, "layers.1.lin")])
def test_optimizers_are_torchs(name: str, clip: float, unused: str) -> None:
    """Three steps of two replicas, with their own learning rates, weight decays and gradients."""
    single = networks()
    stack = replicas.stack(single)
    lr, decay = torch.tensor([0.1, 0.02]), torch.tensor([0.01, 0.3])
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    more = {"momentum": 0.9} if name == "sgd" else {}
    reference = [
        kinds[name](network.parameters(), float(lr[index]), weight_decay=float(decay[index]), **more)
        for index, network in enumerate(single)
    ]
    ours: StackOptimizer = (
        SGD(stack, lr, decay, 0.9, clip) if name == "sgd" else Adam(stack, lr, decay, name == "adamw", clip)
    )
    for _ in range(3):
        for name_of, parameter in stack.named_parameters():
            if unused and name_of.startswith(unused):
                continue
            parameter.grad = torch.randn(parameter.shape)
            for index, network in enumerate(single):
                dict(network.named_parameters())[name_of].grad = parameter.grad[index].clone()
        for network, optimizer in zip(single, reference, strict=True):
            if clip:
                torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
        ours.step(torch.tensor([True, True]))
    for index, network in enumerate(single):
        for name_of, parameter in network.named_parameters():
            difference = (stack.state_dict()[name_of][index] - parameter).abs().max()
            assert difference < 1e-5, name_of


def test_a_replica_that_is_not_active_stays() -> None:
    stack = replicas.stack(networks())
    optimizer = SGD(stack, torch.tensor([0.1, 0.1]), torch.zeros(2))
    before = optimizer.values.clone()
    for parameter in stack.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(torch.tensor([True, False]))
    assert not torch.equal(optimizer.values[0], before[0])
    assert torch.equal(optimizer.values[1], before[1])
    assert not optimizer.velocity[1].any()


def test_schedules_are_torchs() -> None:
    assert factors("halving", 5, 2) == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert factors("constant", 3, 1) == [1.0] * 3
    for name in ("cosine", "one_cycle"):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.4)
        scheduler: torch.optim.lr_scheduler.LRScheduler
        if name == "cosine":
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        else:
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.4, total_steps=11, cycle_momentum=False)
        for factor in factors(name, 10, 3):
            assert 0.4 * factor == pytest.approx(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    one_cycle = factors("one_cycle", 30, 3)
    assert max(one_cycle) == pytest.approx(1.0, abs=0.02)
    assert one_cycle[0] < 0.1 > one_cycle[-1]


def test_plateau_is_torchs() -> None:
    losses = torch.rand(40, 3) + torch.linspace(1, 0.5, 40).unsqueeze(1)
    for replica in range(3):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=4)
        for epoch in range(40):
            scheduler.step(float(losses[epoch, replica]))
            factor = plateau_factor(list(losses[: epoch + 1]), 4)[replica]
            assert float(factor) == pytest.approx(optimizer.param_groups[0]["lr"])
    assert (plateau_factor(list(losses), 4) < 1).any()


@pytest.mark.parametrize("kind", ["network", "gin"])
def test_the_max_readout_is_pygs(kind: str) -> None:
    """On one-hot features, of graphs of which one has no nodes."""
    single = (
        [nn.GIN(4, hidden=8, num_classes=3, readout="max", depth=2) for _ in range(2)]
        if kind == "gin"
        else networks(readout="max")
    )
    stack = replicas.stack(single).eval()
    ids = torch.tensor([[0, 5, 9], [7, 1, 0]])
    x, union = ON_CPU.union(ids)
    logits = stack(x, union).logits
    for replica, network in enumerate(single):
        one, part = ON_CPU.union(ids[replica : replica + 1])
        batch = torch.repeat_interleave(part.graph_ptr.diff())
        expected = network.eval()(F.one_hot(one, 4).float(), part.edge_index.long(), batch, 3)
        assert torch.allclose(logits[replica], expected, atol=1e-5)
    x, union = ON_CPU.union(torch.tensor([[0, -1], [3, 2]]))
    assert stack(x, union).logits.isfinite().all()


def settings(**changes: object) -> TrainingSettings:
    fields = {"epochs": 30, "batch": 16, "lr": torch.tensor([0.01, 1e-6]), "halve": 50, "weight_decay": torch.zeros(2)}
    return TrainingSettings(**fields | changes)  # type: ignore[arg-type]


def test_a_replica_stops_by_itself() -> None:
    """The result of each replica is that of the whole curve up to where it stopped, whoever it is trained with."""
    single = networks(symmetric=True, readout="sum")
    splits, keys = [split(GRAPHS, replica) for replica in range(2)], torch.tensor([3, 4])
    whole = train(replicas.stack(single), ON_CPU, splits, keys, settings())
    stopped = train(replicas.stack(single), ON_CPU, splits, keys, settings(patience=3))
    lengths = [num_epochs(stopped, replica, 3) for replica in range(2)]
    assert max(lengths) == len(stopped.curves.loss) < 30
    for replica, length in enumerate(lengths):
        curve = torch.stack(whole.curves.validation)[:, replica]
        assert torch.equal(torch.stack(stopped.curves.validation)[:length, replica], curve[:length])
        first = int(curve[:length].argmax()) + 1  # the first of the best
        assert length == first + 3  # three epochs without a better one
        latest = max(epoch for epoch in range(length) if curve[epoch] == curve[:length].max()) + 1
        assert int(stopped.epoch[replica]) == latest
        alone = train(
            replicas.stack(single[replica : replica + 1]),
            ON_CPU,
            splits[replica : replica + 1],
            keys[replica : replica + 1],
            settings(patience=3, lr=settings().lr[replica : replica + 1], weight_decay=torch.zeros(1)),
        )
        assert int(alone.epoch[0]) == latest


def test_stopped_trainings_resume() -> None:
    single = networks(symmetric=True, readout="sum")
    splits, keys = [split(GRAPHS, replica) for replica in range(2)], torch.tensor([3, 4])
    options = settings(patience=3, schedule="plateau", halve=1, clip=0.1, optimizer="sgd")
    saved: list[dict[str, torch.Tensor]] = []

    def save(_: int, state: Callable[[], dict[str, torch.Tensor]]) -> None:
        saved.append({name: tensor.clone() for name, tensor in state().items()})

    whole = train(replicas.stack(single), ON_CPU, splits, keys, options, save=save)
    again = train(replicas.stack(single), ON_CPU, splits, keys, options, start=saved[1])
    for name in ("epoch", "validation", "test", "improved"):
        assert torch.equal(getattr(again, name), getattr(whole, name))
    assert torch.equal(torch.stack(again.curves.loss).nan_to_num(), torch.stack(whole.curves.loss).nan_to_num())


def test_a_replica_that_has_stopped_cannot_fail() -> None:
    """Its weights would overflow later, while other replicas still improve."""
    single = networks(symmetric=True, readout="sum")
    splits, keys = [split(GRAPHS, replica) for replica in range(2)], torch.tensor([3, 4])
    splits[0] = splits[0]._replace(train=splits[0].train[:20])  # later steps then have no graph of any replica
    diverging = {"lr": torch.tensor([1e-5, 0.1]), "weight_decay": torch.tensor([0.0, 50.0]), "schedule": "constant"}

    def score(logits: torch.Tensor, y: torch.Tensor) -> float:
        return -float(F.cross_entropy(logits, y))

    endless = train(replicas.stack(single), ON_CPU, splits, keys, settings(score=score, **diverging))
    assert endless.failed.tolist() == [False, True]
    options = settings(score=score, patience=2, **diverging)
    stopped = train(replicas.stack(single), ON_CPU, splits, keys, options)
    assert [num_epochs(stopped, replica, 2) for replica in range(2)] == [30, 3]
    assert stopped.failed.tolist() == [False, False]


def test_dropout_does_not_depend_on_the_split_sizes_of_others() -> None:
    single = networks(dropout=0.5)
    splits, keys = [split(GRAPHS, replica) for replica in range(2)], torch.tensor([3, 4])
    splits[0] = splits[0]._replace(train=splits[0].train[:20])  # two steps per epoch, the other replica has three
    together = train(replicas.stack(single), ON_CPU, splits, keys, settings(epochs=3))
    options = settings(epochs=3, lr=settings().lr[:1], weight_decay=torch.zeros(1))
    alone = train(replicas.stack(single[:1]), ON_CPU, splits[:1], keys[:1], options)
    torch.testing.assert_close(torch.stack(together.curves.loss)[:, :1], torch.stack(alone.curves.loss))

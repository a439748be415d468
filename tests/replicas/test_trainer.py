"""Training many replicas at once against training them one by one, and against torch's own optimizers."""

from itertools import product
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from compool import nn, replicas
from compool.data import features, split
from compool.replicas.adam import Adam
from compool.replicas.captured import copy_into
from compool.replicas.held_out import evaluate_all
from compool.replicas.learner import Learner
from compool.replicas.trainer import Trained, TrainingSettings, _shuffled, train
from tests.replicas.batches import graph_set

KEYS = torch.tensor([11, 22, 33, 44])
MAKE = {
    "CPCL": lambda dropout: nn.Network("CPCL", 5, 8, 2, dropout),
    "SESL": lambda dropout: nn.Network("SESL", 5, 8, 2, dropout),
    "GIN": lambda dropout: nn.GIN(5, 8, 2, dropout),
    "GPGL": lambda dropout: nn.Network("GPGL", 5, 8, 2, dropout),
    "CPCL, similarity": lambda dropout: nn.Network("CPCL", 5, 8, 2, dropout, scorer="similarity", reduce="mean"),
    "CPCL, random": lambda dropout: nn.Network(
        "CPCL", 5, 8, 2, dropout, scorer="random", reduce="mean", merge_ratio=0.5
    ),
    "PCL, quantile": lambda dropout: nn.Network("PCL", 5, 8, 2, dropout, quantile=0.6, reduce="sum"),
    "GPCL, learned": lambda dropout: nn.Network("GPCL", 5, 8, 2, dropout, scorer="similarity", reduce="graded"),
    "GPPL, sum": lambda dropout: nn.Network("GPPL", 5, 8, 2, dropout, scorer="similarity", reduce="sum"),
}


def trained(name: str, which: list[int], epochs: int = 3, break_one: int | None = None, how: float = 1e308) -> Trained:
    """Some of four replicas that differ in dropout and learning rate, in float64."""
    graphs = graph_set(40)
    chosen = features(graphs)
    torch.manual_seed(0)
    make = MAKE.get(name, lambda dropout: nn.Network(name, 5, 8, 2, dropout))
    networks = [make(dropout).double() for dropout in (0.0, 0.1, 0.3, 0.5)]
    if break_one is not None:
        list(networks[break_one].parameters())[0 if name[0] in "CG" and name != "GIN" else -2].data.fill_(how)
    stack = replicas.stack([networks[replica] for replica in which]).double()
    lr, decay = torch.tensor([0.01, 0.02, 0.03, 0.04]), torch.tensor([0.0, 0.1, 0.01, 0.0])
    settings = TrainingSettings(epochs, 8, lr[which], 2, decay[which])
    splits = [split(graphs, replica) for replica in which]
    return train(stack, replicas.Graphs(graphs, chosen, dtype=torch.float64), splits, KEYS[which], settings)


@pytest.mark.parametrize("name", MAKE)
def test_alone_or_with_others_is_the_same_training(name: str) -> None:
    together = trained(name, [0, 1, 2, 3])
    for replica in (0, 3):
        alone = trained(name, [replica])
        for curve in ("loss", "validation", "validation_loss", "test", "kept"):
            ours = torch.stack(getattr(together.curves, curve))[:, replica]
            theirs = torch.stack(getattr(alone.curves, curve))[:, 0]
            # A bias before a batch norm has a gradient of rounding alone, which Adam makes steps of
            close = 1e-7 if (name, curve) == ("GIN", "validation_loss") else 1e-9
            torch.testing.assert_close(ours, theirs, rtol=close, atol=close)
        assert together.epoch[replica] == alone.epoch[0]


@pytest.mark.parametrize(
    ("name", "spare"), [*((name, None) for name in MAKE), *product(("SESESL", "GEGEGL"), (None, 1, 0, -0.2))]
)
def test_padded_to_the_largest_step_it_is_the_same_training(
    name: str, spare: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where steps are captured with padded unions; here they are called. `spare`: as if unions were large,
    with so much more capacity after pooling than an epoch took; where it does not suffice, epochs are done again.
    """
    exact = trained(name, [0, 1, 2, 3], break_one=1, how=torch.nan)
    monkeypatch.setattr("compool.replicas.trainer._can_capture", lambda *_: True)
    monkeypatch.setattr("compool.replicas.learner.Captured", _Called)
    _Called.capacities.clear()
    if spare is not None:
        monkeypatch.setattr("compool.replicas.learner.LARGE_UNION", 0)
        monkeypatch.setattr("compool.replicas.learner.SPARE", spare)
    padded = trained(name, [0, 1, 2, 3], break_one=1, how=torch.nan)
    for curve in ("loss", "validation", "validation_loss", "test", "kept"):
        ours, theirs = (torch.stack(getattr(one.curves, curve)) for one in (padded, exact))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert torch.equal(padded.epoch, exact.epoch)
    assert padded.failed.tolist() == [False, True, False, False]
    assert any(_Called.capacities) == (spare is not None)
    assert (padded.num_repeated > 0) == (spare is not None and spare <= 0)


class _Called:
    """What :class:`Captured` does, by calling the function."""

    capacities: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, function: Any, given: Tensor, state: Any = ()) -> None:
        before = [tensor.detach().clone() for tensor in state]
        function(given)
        copy_into(state, before)
        self.function = function
        self.capacities.append(function.keywords["padding"].after)

    def __call__(self, given: Tensor) -> Any:
        return self.function(given)


def test_the_best_validation_picks_the_epoch_and_of_equals_the_later() -> None:
    found = trained("CPCL", [0, 1, 2, 3], epochs=12)
    validation, test = torch.stack(found.curves.validation), torch.stack(found.curves.test)
    ties = 0
    for replica in range(4):
        curve = validation[:, replica]
        best = max(epoch for epoch in range(12) if curve[epoch] == curve.max())
        ties += int((curve == curve.max()).sum()) > 1
        assert int(found.epoch[replica]) == best + 1
        assert float(found.test[replica]) == float(test[best, replica])
        assert float(found.validation[replica]) == float(curve.max())
    assert ties


@pytest.mark.parametrize("how", [1e308, torch.nan])  # features overflow, so that scores are NaN; all is NaN
@pytest.mark.parametrize("name", ["CPCL", "GIN", "GPGL"])
def test_a_replica_that_breaks_is_stopped_and_the_others_go_on(name: str, how: float) -> None:
    found, whole = trained(name, [0, 1, 2, 3], break_one=1, how=how), trained(name, [0, 1, 2, 3])
    assert found.failed.tolist() == [False, True, False, False]
    others = torch.tensor([0, 2, 3])
    for curve in ("loss", "validation", "test"):  # the latter two by the statistics that training gathered
        ours, theirs = (torch.stack(getattr(one.curves, curve))[:, others] for one in (found, whole))
        torch.testing.assert_close(ours, theirs)
    assert torch.stack(found.curves.loss)[:, 1].isnan().all()
    if name != "GIN":
        kept = torch.stack(found.curves.kept)
        assert kept[:, 1].isnan().all()
        assert kept[:, others].isfinite().all()
    assert int(found.epoch[1]) == -1


@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_is_torch_s(decoupled: bool) -> None:
    torch.manual_seed(0)
    networks = [nn.Network("CL", 3, 4, 2).double() for _ in range(3)]
    stack = replicas.stack(networks).double()
    lr, decay = torch.tensor([0.1, 0.01, 0.05]).double(), torch.tensor([0.0, 0.1, 0.5]).double()
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    theirs = [
        kind(network.parameters(), lr=float(one), weight_decay=float(two))
        for network, one, two in zip(networks, lr, decay, strict=True)
    ]
    ours = Adam(stack, lr, decay, decoupled)
    for _ in range(4):
        for parameter, *singles in zip(stack.parameters(), *(one.parameters() for one in networks), strict=True):
            parameter.grad = torch.randn_like(parameter)
            for replica, single in enumerate(singles):
                single.grad = parameter.grad[replica].clone()
        ours.step(torch.ones(3, dtype=torch.bool))
        for optimizer in theirs:
            optimizer.step()
    for parameter, *singles in zip(stack.parameters(), *(one.parameters() for one in networks), strict=True):
        torch.testing.assert_close(parameter, torch.stack([single.detach() for single in singles]))


def test_orders_are_permutations_of_their_own() -> None:
    ids = torch.arange(50).repeat(3, 1)
    ids[2, 40:] = -1
    first, second = _shuffled(ids, KEYS[:3]), _shuffled(ids, KEYS[1:4])
    for row, before in zip(first, ids, strict=True):
        assert sorted(row.tolist()) == sorted(before.tolist())
    assert (first[2, 40:] == -1).all()
    assert first[0].tolist() != first[1].tolist() != ids[0].tolist()
    assert torch.equal(first[1], second[0])  # by its key, whatever else is there
    places = torch.stack([_shuffled(ids[:1], KEYS[:1] + shift)[0].argsort() for shift in range(2000)]).float()
    torch.testing.assert_close(places.mean(0), torch.full((50,), 24.5), atol=1.5, rtol=0)  # four standard deviations


def test_a_batch_larger_than_the_training_set_is_all_of_it() -> None:
    graphs = graph_set(40)
    splits, fit = [split(graphs, 0)], []
    for batch in (len(splits[0].train), 10**9):
        torch.manual_seed(0)
        stack = replicas.stack([nn.Network("CPCL", 5, 8, 2).double()])
        settings = TrainingSettings(2, batch, torch.tensor([0.01]), 2, torch.zeros(1))
        given = replicas.Graphs(graphs, features(graphs), dtype=torch.float64)
        fit.append(train(stack, given, splits, KEYS[:1], settings))
    assert torch.equal(torch.stack(fit[0].curves.loss), torch.stack(fit[1].curves.loss))


def test_without_shuffling_every_epoch_has_the_order_of_the_split() -> None:
    """A plain loop, in float64."""
    graphs, epochs, batch = graph_set(40), 3, 8
    network = nn.Network("CPCL", 5, 8, 2).double()
    stack, one = replicas.stack([network]).double(), split(graphs, 0)
    settings = TrainingSettings(epochs, batch, torch.tensor([0.01]), 2, torch.tensor([0.1]), shuffle=False)
    source = replicas.Graphs(graphs, features(graphs), dtype=torch.float64)
    found = train(stack, source, [one], KEYS[:1], settings)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.1)
    halved = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for epoch in range(epochs):
        total = 0.0
        for ids in torch.as_tensor(one.train).split(batch):
            together = Batch.from_data_list([graphs[int(index)] for index in ids])
            logits = network(together.x.double(), together.edge_index, together.batch, len(ids)).squeeze(1)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, together.y.double())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(ids)
        halved.step()
        assert float(found.curves.loss[epoch][0]) == pytest.approx(total / len(one.train), rel=1e-6)


def test_graphs_held_out_by_hand() -> None:
    graphs = graph_set(40)
    chosen = features(graphs)
    networks = [nn.Network("CPCL", 5, 8, 2) for _ in range(2)]
    stack = replicas.stack(networks)
    ids = torch.tensor([[0, 3, 7, 9, -1], [1, 2, 3, 4, 5]])
    learner = Learner(stack, replicas.Graphs(graphs, chosen), KEYS[:2], Adam(stack, torch.ones(2), torch.zeros(2)))
    accuracy, loss, kept, _ = evaluate_all(learner.evaluate, ids, 2)
    for replica, network in enumerate(networks):
        right, losses, nodes, supernodes = [], [], 0, 0
        for index in ids[replica][ids[replica] >= 0].tolist():
            data = graphs[index]
            logit, label = network(data.x, data.edge_index, None, 1).detach().view(()), int(data.y)
            right.append(int(logit > 0) == label)
            losses.append(-float((logit if label else -logit).sigmoid().log()))
            nodes += data.num_nodes
            supernodes += network.layers[1](network.layers[0](data.x, data.edge_index).relu(), data.edge_index).x.size(
                0
            )
        assert float(accuracy[replica]) == pytest.approx(sum(right) / len(right))
        assert float(loss[replica]) == pytest.approx(sum(losses) / len(losses))
        assert float(kept[replica, 0]) == pytest.approx(supernodes / nodes)

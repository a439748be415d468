"""Component pooling by similarity and with other reductions: against dense forms, and as a layer that learns."""

import copy
import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compool import ComponentPooling, ComponentUNet, GlobalComponentPooling, Pooled, diagnose, ops
from compool.nn import Similarity
from tests.reference import adjacency, weak_components


def undirected(seed: int, num_nodes: int, num_edges: int) -> Tensor:
    pairs = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    return torch.cat([pairs, pairs.flip(0)], 1)


def dense(layer: ComponentPooling, x: Tensor, edge_index: Tensor) -> Tensor:
    """The features of the supernodes in evaluation mode, from N × N matrices; a node's row is its supernode's."""
    similarity = layer.similarity
    assert similarity is not None
    weight = similarity.logit.softmax(0) / similarity.mean if (similarity.mean > 0).any() else torch.zeros(3)
    distance = ((x.unsqueeze(1) - x.unsqueeze(0)).square() * weight).sum(2)
    own = x @ layer.lin.weight.view(2, -1).mean(0)
    raw = own.unsqueeze(1) + own.unsqueeze(0) + layer.lin.bias - (distance - 1) / (similarity.variance + 1e-6).sqrt()
    score = raw.clamp(-1, 1)
    present = adjacency(edge_index, x.size(0))
    cluster = weak_components(present & (score > layer.threshold))
    if layer.reduce == "graded":
        source, target = present.nonzero().t()
        levels = ops.graded_weight(
            score[source, target], torch.stack([source, target]), score[source, target] > 0, len(x)
        )
        node_weight = levels
    elif layer.reduce == "score":
        merged = present & (score > layer.threshold)
        node_weight = torch.where((merged | merged.t()).any(1), (score * merged).sum(1), 1.0)
    else:
        size = torch.bincount(cluster)[cluster]
        node_weight = torch.ones(len(x)) if layer.reduce == "sum" else 1 / size
    return torch.stack([(node_weight.unsqueeze(1) * x)[cluster == k].sum(0) for k in range(int(cluster.max()) + 1)])


@pytest.mark.parametrize("reduce", ["score", "sum", "mean", "graded"])
@given(seed=st.integers(0, 10**6), num_nodes=st.integers(1, 9), num_edges=st.integers(0, 14))
def test_equals_the_dense_form(reduce: str, seed: int, num_nodes: int, num_edges: int) -> None:
    torch.manual_seed(seed)
    layer = ComponentPooling(3, scorer="similarity", reduce=reduce)
    torch.nn.init.normal_(layer.lin.weight, std=0.3)
    x, edge_index = torch.randn(num_nodes, 3), undirected(seed, num_nodes, num_edges)
    for _ in range(2):
        layer(torch.randn(num_nodes, 3), edge_index)  # running statistics
    out = layer.eval()(x, edge_index)
    torch.testing.assert_close(out.x, dense(layer, x, edge_index), rtol=1e-4, atol=1e-4)
    assert out.kept == out.x.size(0) / num_nodes


@pytest.mark.parametrize("reduce", ["score", "graded"])
def test_gradients(reduce: str) -> None:
    torch.manual_seed(1)
    layer = ComponentPooling(3, scorer="similarity", reduce=reduce).double().eval()
    torch.nn.init.normal_(layer.lin.weight, std=0.3)
    edge_index = undirected(1, 7, 9)
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def pooled(x: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(parameters, values, strict=True))
        out: Pooled = torch.func.functional_call(layer, given, (x, edge_index))
        return out.unpool(out.x)

    inputs = [torch.randn(7, 3, dtype=torch.float64), *parameters.values()]
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(pooled, inputs)
    assert torch.autograd.gradgradcheck(pooled, inputs)


def test_similarity_is_standardised_whatever_the_scale_of_the_channels() -> None:
    torch.manual_seed(0)
    edge_index = undirected(0, 60, 200)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]].unique(dim=1)
    x = torch.randn(60, 4) * torch.tensor([1.0, 1e-3, 1e4, 7.0])
    terms = []
    for scale in (1.0, 1e3):
        similarity = Similarity(4)
        terms.append(similarity(scale * x, edge_index).detach())
        assert abs(float(terms[-1].mean())) < 1e-3
        assert abs(float(terms[-1].std(unbiased=False)) - 1) < 1e-3
    torch.testing.assert_close(*terms, rtol=1e-2, atol=1e-2)


def test_running_statistics_behave_as_those_of_batch_norm() -> None:
    torch.manual_seed(0)
    edge_index, similarity = undirected(0, 20, 40), Similarity(2)
    first, second = torch.randn(20, 2), 3 * torch.randn(20, 2)
    similarity(first, edge_index)
    counted = ops.select(torch.zeros(80), edge_index, 20, 0.0).counted
    torch.testing.assert_close(similarity.mean, ops.edge_moments(first, edge_index, counted))
    similarity(second, edge_index)
    both = (ops.edge_moments(first, edge_index, counted) + ops.edge_moments(second, edge_index, counted)) / 2
    torch.testing.assert_close(similarity.mean, both)
    assert similarity.num_batches_tracked == 2
    state = {name: tensor.clone() for name, tensor in similarity.state_dict().items()}
    assert set(state) == {"logit", "mean", "variance", "num_batches_tracked"}
    similarity.eval()(first, edge_index)
    similarity.train()(torch.randn(20, 2), edge_index[:, :0])  # no edges: nothing to learn, and not counted
    for name, tensor in similarity.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    again = Similarity(2)
    again.load_state_dict(similarity.state_dict())
    assert torch.equal(again.eval()(first, edge_index), similarity.eval()(first, edge_index))


def test_similarity_by_itself_checks_its_input() -> None:
    similarity, edge_index = Similarity(4), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"x must have shape \[nodes, 4\], the layer's in_channels; got \[3, 8\]"):
        similarity(torch.randn(3, 8), edge_index)
    with pytest.raises(TypeError, match="edge_index must be"):
        similarity(torch.randn(3, 4), edge_index.float())
    assert similarity.num_batches_tracked == 0


def test_running_means_follow_the_batches() -> None:
    edge_index, similarity = torch.tensor([[0, 1], [1, 0]]), Similarity(2)
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    for _ in range(30):  # the first batches are averaged, later ones get a weight of 0.05
        similarity(x, edge_index)
    similarity(3 * x, edge_index)
    torch.testing.assert_close(similarity.mean, torch.tensor([1.0, 4.0]) * (0.95 + 0.05 * 9))


def test_self_loops_and_repeats_do_not_count() -> None:
    torch.manual_seed(0)
    x, edge_index = torch.randn(6, 2), torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    more = torch.cat([edge_index, torch.tensor([[0, 5, 1], [1, 5, 2]])], 1)
    one, two = (ComponentPooling(2, scorer="similarity", reduce="graded") for _ in range(2))
    torch.testing.assert_close(one(x, edge_index).x, two(x, more).x)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_batch_that_raises_leaves_the_running_statistics(broken: float, device: str) -> None:
    layer = ComponentPooling(3, scorer="similarity").to(device)
    x, edge_index = torch.randn(4, 3, device=device), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]], device=device)
    layer(x, edge_index)
    before = copy.deepcopy(layer.state_dict())
    spoiled = x.clone()
    spoiled[1, 2] = broken
    with pytest.raises(ValueError, match="NaN"):
        layer(spoiled, edge_index)
    for index in (-1, 4, 400_000_000):
        wrong = torch.tensor([[0, index], [1, 0]], device=device)
        for module in (layer, layer.similarity):
            with pytest.raises(ValueError, match=rf"edge_index must lie in 0\.\.3 for 4 nodes, got {index}"):
                module(x, wrong)
    if device == "cpu":  # a GPU checks the batch after the statistics
        path = torch.tensor([[0, 1, 2, 3, 1, 2], [1, 0, 3, 2, 2, 1]])
        for batch, message in (([0, 0, 1, 1], "must not join two graphs"), ([1, 1, 0, 0], "batch must be sorted")):
            with pytest.raises(ValueError, match=message):
                layer(x, path, torch.tensor(batch))
            with pytest.raises(ValueError, match=message):
                layer.assign(x, path, torch.tensor(batch))
    for name, tensor in layer.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.isfinite(layer(x, edge_index).x).all()
    with pytest.raises(ValueError, match=r"edge_index must lie in 0\.\.3 for 4 nodes, got 4"):
        layer.similarity.eval()(x, torch.tensor([[0, 4], [1, 0]], device=device))


def test_a_budget_merges_the_most_similar_nodes(device: str) -> None:
    """Clipped scores would tie, and the edges that are listed first would merge."""
    gaps = torch.tensor([0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0, 3.0, 3.0, 3.0], device=device)
    x = torch.stack([torch.zeros_like(gaps), gaps], 1).view(-1, 1)  # a pair of nodes per gap
    pairs = torch.arange(28, device=device).view(-1, 2).t()
    edge_index = torch.cat([pairs, pairs.flip(0)], 1)
    layer = ComponentPooling(1, scorer="similarity", ratio=25 / 28).to(device)
    out = layer(x, edge_index)
    assert out.x.size(0) == 25
    merged = out.cluster[::2] == out.cluster[1::2]
    assert gaps[merged].tolist() == pytest.approx([0.1, 0.05, 0.0])
    out.x.square().sum().backward()
    assert layer.lin.bias.grad.abs() > 0
    scores = [ComponentPooling(1, scorer="similarity", **kind).score for kind in ({}, {"ratio": 0.5}, {"max_size": 3})]
    assert scores == ["hardtanh", "tanh", "tanh"]


def test_both_directions_of_an_edge_have_one_sigmoid() -> None:
    """Or a ratio would merge one of them, and lose the node that the other weighs."""
    for num_pairs in range(101, 141):  # torch rounds the last few numbers otherwise
        ends = torch.randint(30, (2, num_pairs))
        edge_index = torch.cat([ends, ends.flip(0)], 1)[:, torch.randperm(2 * num_pairs)]
        score = ComponentPooling(3, "sigmoid", symmetric=True)(torch.randn(30, 3), edge_index).edge_score
        dense = torch.zeros(30, 30)
        dense[edge_index[0], edge_index[1]] = score.detach()
        assert torch.equal(dense, dense.T)


def test_a_graph_does_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    layer = ComponentPooling(3, scorer="similarity", reduce="graded")
    x, edge_index = torch.randn(8, 3), undirected(2, 8, 12)
    layer(x, edge_index)
    layer.eval()
    other = torch.randn(5, 3)
    alone = layer(x, edge_index)
    batch = torch.cat([torch.zeros(8), torch.ones(5)]).long()
    both = layer(torch.cat([x, other]), torch.cat([edge_index, undirected(3, 5, 6) + 8], 1), batch)
    torch.testing.assert_close(both.x[both.batch == 0], alone.x)
    assert both.kept_per_graph(3)[0] == alone.kept
    assert both.kept_per_graph(3)[2] == 1


class Difference(torch.nn.Module):
    """The negative squared difference of the ends, and the edge's own feature."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x_source: Tensor, x_target: Tensor, edge_attr: Tensor | None) -> Tensor:
        raw = 1 - self.scale * (x_source - x_target).square().sum(1, keepdim=True)
        return raw if edge_attr is None else raw + edge_attr


def test_any_module_is_a_scorer() -> None:
    layer = ComponentPooling(1, scorer=Difference(), reduce="mean")
    x, edge_index = torch.tensor([[0.0], [0.5], [5.0]]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert layer(x, edge_index).x.tolist() == [[0.25], [5.0]]
    assert dict(layer.named_parameters()).keys() == {"scorer.scale"}
    with_edges = ComponentPooling(1, scorer=Difference(), reduce="mean", edge_dim=1)
    assert with_edges(x, edge_index, edge_attr=torch.full((4, 1), 50.0)).x.size(0) == 1
    summed = ComponentPooling(1, scorer=Difference())
    summed(x, edge_index).x.sum().backward()
    assert summed.scorer is not None
    assert summed.scorer.scale.grad != 0
    assert "scorer=Difference" in repr(layer)
    ComponentUNet(1, 4, 2, depth=1, scorer=Difference(), reduce="graded")(x, edge_index)
    GlobalComponentPooling(1, scorer=Difference())(x, edge_index)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda source: source.sum(), r"scorer must return a float for each edge, here torch\.float32 \[2\]"),
        (lambda source: torch.zeros(3), r"it returned torch\.float32 \[3\]"),
        (lambda source: torch.zeros(2, dtype=torch.long), r"it returned torch\.int64 \[2\]"),
        (lambda source: "high", "it returned 'high'"),
        (
            lambda source: torch.zeros(2, device="meta"),
            "scorer must return scores on cpu, the device of x; got meta",
        ),
        (lambda source: torch.full((2,), torch.nan), "the score of edge 0 .* is NaN.* what a scorer .* of your own"),
    ],
)
def test_scorers_that_return_something_else(result: object, message: str) -> None:
    class Wrong(torch.nn.Module):
        def forward(self, x_source: Tensor, x_target: Tensor, edge_attr: Tensor | None) -> object:
            return result(x_source)  # type: ignore[operator]

    with pytest.raises(ValueError, match=message):
        ComponentPooling(2, scorer=Wrong())(torch.ones(2, 2), torch.tensor([[0, 1], [1, 0]]))


def test_scorers_are_called_with_three_arguments() -> None:
    message = r"scorer is called as scorer\(x_source, x_target, edge_attr\), but .* of Linear takes \(input"
    with pytest.raises(TypeError, match=message):
        ComponentPooling(2, scorer=torch.nn.Linear(2, 1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scorer": "cosine"}, "scorer must be 'linear', 'similarity', 'random' or a torch.nn.Module; got 'cosine'"),
        ({"reduce": "max"}, "reduce must be one of 'score', 'sum', 'mean', 'graded'; got 'max'"),
        ({"reduce": "mean", "weights": "all"}, "weights='all' needs reduce='score'"),
        ({"reduce": "graded", "weights": "all"}, "weights='all' needs reduce='score'"),
        (
            {"reduce": "graded", "score": torch.relu, "threshold": 0.5},
            "reduce='graded' needs to know the highest score",
        ),
        ({"reduce": "graded", "threshold": 1.0}, "reduce='graded' needs a threshold below 1, the highest score"),
        ({"scorer": Difference(), "symmetric": True}, "symmetric=True is for the linear scorer"),
        ({"reduce": "graded", "ratio": 0.5}, "it cannot be combined with quantile or ratio"),
        ({"scorer": "random", "reduce": "sum", "score": "tanh"}, "scorer='random' takes no score function"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ComponentPooling(2, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bias", "state"), [(-5.0, "nothing"), (5.0, "everything")])
def test_a_layer_that_is_idle_warns_once(bias: float, state: str, caplog: pytest.LogCaptureFixture) -> None:
    layer = ComponentPooling(2)
    torch.nn.init.zeros_(layer.lin.weight)
    torch.nn.init.constant_(layer.lin.bias, bias)
    x, edge_index = torch.randn(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]])
    with caplog.at_level(logging.WARNING):
        for _ in range(99):
            layer(x, edge_index)
        layer.eval()(x, edge_index)
        assert not caplog.messages
        layer.train()
        for _ in range(300):
            layer(x, edge_index)
        torch.nn.init.zeros_(layer.lin.bias)
        torch.nn.init.constant_(layer.lin.weight, 1.0)
        layer(torch.tensor([[1.0, 1.0], [1.0, 1.0], [-2.0, -2.0], [-2.0, -2.0]]), edge_index)  # merges something
        torch.nn.init.zeros_(layer.lin.weight)
        torch.nn.init.constant_(layer.lin.bias, bias)
        for _ in range(150):
            layer(x, edge_index)
    (message,) = caplog.messages
    assert f"has merged {state} for 100 steps in a row" in message
    assert "scorer='similarity'" in message


def test_what_counts_as_idle(caplog: pytest.LogCaptureFixture) -> None:
    x, path = torch.randn(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]])
    looped, random = ComponentPooling(2, self_loops=True), ComponentPooling(2, scorer="random", reduce="sum")
    torch.nn.init.zeros_(looped.lin.weight)
    torch.nn.init.constant_(looped.lin.bias, 5.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            looped(x, path)
            random(x, path[:, :1])
            ComponentPooling(2)(x, path[:, :0])
        (message,) = caplog.messages
        assert "has merged everything for 100 steps" in message
        looped.reset_parameters()
        torch.nn.init.constant_(looped.lin.bias, 50.0)
        for _ in range(100):
            looped(x, path)
    assert len(caplog.messages) == 2


def test_diagnose(capsys: pytest.CaptureFixture[str]) -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dead, self.alive = ComponentPooling(2), ComponentPooling(2, scorer="similarity", reduce="graded")
            torch.nn.init.constant_(self.dead.lin.bias, -9.0)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            out = self.dead(x, edge_index, batch)
            return self.alive(out.x, out.edge_index, out.batch).x  # type: ignore[no-any-return]

    from torch_geometric.data import Data

    torch.manual_seed(0)
    network = Network()
    data = Data(torch.randn(9, 2), undirected(4, 9, 12), batch=torch.tensor([0] * 9))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.alive.eval()
    with torch.no_grad():
        dead, alive = diagnose(network, [data, data])
    assert [network.training, network.dead.training, network.alive.training] == [True, True, False]
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert dead.kept == [1.0, 1.0]
    assert dead.gradient == 0
    assert alive.gradient > 0
    assert alive.kept[0] < 1
    printed = capsys.readouterr().out
    assert "dead: ComponentPooling(2" in printed
    assert "nodes kept: median 100%, from 100% to 100% of 2 graphs" in printed
    assert "0% above the threshold" in printed
    layer = ComponentPooling(2, ratio=0.5)
    diagnose(layer, [data], lambda data: layer(data.x, data.edge_index, data.batch).x)
    printed = capsys.readouterr().out
    assert "equal to the highest" in printed
    assert "threshold" not in printed  # it has none
    with pytest.raises(ValueError, match="loader must yield at least one batch"):
        diagnose(network, [])
    with pytest.raises(ValueError, match="model has no ComponentPooling layer"):
        diagnose(torch.nn.Linear(2, 2), [data])


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, when tracing
@pytest.mark.parametrize("reduce", ["score", "mean", "graded"])
def test_traces_without_a_break(reduce: str) -> None:
    torch.manual_seed(0)
    layer = ComponentPooling(3, scorer="similarity", reduce=reduce)
    x, edge_index = torch.randn(8, 3), undirected(2, 8, 12)
    layer(x, edge_index)
    layer.eval()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for nodes in (8, 6):
        inside = edge_index[:, (edge_index < nodes).all(0)]
        ours, expected = (one(x[:nodes], inside) for one in (compiled, layer))
        torch.testing.assert_close(ours.x, expected.x)
        assert torch.equal(ours.cluster, expected.cluster)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduce", ["mean", "graded"])
def test_half_precision_of_a_large_supernode(dtype: torch.dtype, reduce: str) -> None:
    """70,000 members: counted in integers and summed in float32."""
    number = 70_000
    x = torch.full((number, 2), 1.5, dtype=dtype)
    path = torch.stack([torch.arange(number - 1), torch.arange(1, number)])
    layer = ComponentPooling(2, scorer="similarity", reduce=reduce).to(dtype).eval()
    out = layer(x, path)
    assert out.x.shape == (1, 2)
    torch.testing.assert_close(out.x, torch.full((1, 2), 1.5, dtype=dtype), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training_in_half_precision(dtype: torch.dtype) -> None:
    x, edge_index = torch.randn(8, 3), undirected(2, 8, 12)
    wide = ComponentPooling(3, scorer="similarity")
    half = copy.deepcopy(wide).to(dtype)
    for layer, features in ((wide, x), (half, x.to(dtype).requires_grad_())):
        layer(features, edge_index).x.float().square().mean().backward()
        assert layer.similarity.logit.grad is not None
    torch.testing.assert_close(half.similarity.mean.float(), wide.similarity.mean, rtol=0.02, atol=0.02)


def test_it_learns_what_the_paper_s_layer_cannot() -> None:
    """One red island or two, on a small grid, with noise beside the colours."""
    from compool.data import color_connectivity
    from examples.color_connectivity import Islands, accuracy, train, with_noise

    torch.manual_seed(0)
    graphs = with_noise(list(color_connectivity("grid-8", 900)), 2, 0.5, seed=0)
    network = Islands(4)
    train(network, graphs[300:], epochs=8)
    assert accuracy(network, graphs[:300]) > 0.95
    colour = network.pool.similarity.logit.softmax(0)[:2].sum()  # type: ignore[union-attr]
    assert colour > 0.55  # of four channels, two of them noise, half at first

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch_geometric.data import Batch

from compool import ComponentPooling
from compool.data import GraphSet, color_connectivity, communities, is_generated, island_pair, wl_classes
from compool.data._loops import walk


def num_islands(graphs: GraphSet) -> np.ndarray:
    """The red islands of each graph, by SciPy, on all graphs at once."""
    assert graphs.labels is not None
    offset = np.repeat(graphs.node_ptr[:-1], np.diff(graphs.edge_ptr))
    source, target = graphs.edge_index + offset
    red = graphs.labels == 1
    both = red[source] & red[target]
    shape = (graphs.num_nodes, graphs.num_nodes)
    _, component = connected_components(coo_array((both[both], (source[both], target[both])), shape), directed=False)
    graph = np.repeat(np.arange(len(graphs)), np.diff(graphs.node_ptr))
    pairs = np.unique(np.stack([graph[red], component[red]]), axis=1)
    return np.bincount(pairs[0], minlength=len(graphs))


@pytest.mark.parametrize(
    ("topology", "count", "num_nodes", "num_edges"),
    [
        ("grid-8", 6000, 64, 112),
        ("grid-16", 3001, 256, 480),
        ("grid-32", 700, 1024, 1984),
        ("euroroad", 200, 1174, 1417),
        ("minnesota", 100, 2642, 3304),
    ],
)
def test_the_class_is_the_number_of_islands(topology: str, count: int, num_nodes: int, num_edges: int) -> None:
    graphs = color_connectivity(topology, count, seed=3)
    assert len(graphs) == count
    assert set(np.diff(graphs.node_ptr)) == {num_nodes}
    assert set(np.diff(graphs.edge_ptr)) == {2 * num_edges}
    assert graphs.labels is not None
    colourings = graphs.labels.reshape(count, num_nodes)
    assert set(colourings.sum(1)) == {num_nodes // 2}
    assert len(np.unique(colourings, axis=0)) == count
    assert np.array_equal(num_islands(graphs), graphs.y + 1)
    assert abs(graphs.y.sum() - count / 2) < 1


def test_any_graph_in_one_direction_or_both() -> None:
    path = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    graphs = color_connectivity(path, count=8)
    again = color_connectivity(np.concatenate([path, path[::-1]], axis=1), count=8)
    assert graphs.checksum == again.checksum
    assert np.array_equal(num_islands(graphs), graphs.y + 1)
    assert graphs.name == "color-connectivity-graph"


def test_it_depends_on_the_seed_alone_and_few_are_the_first_of_many() -> None:
    few, many, other = (color_connectivity("grid-8", count, seed) for count, seed in ((50, 1), (300, 1), (50, 2)))
    assert few.labels is not None
    assert many.labels is not None
    assert np.array_equal(few.labels, many.labels[: few.num_nodes])
    assert not np.array_equal(few.labels, other.labels)
    assert few.checksum == "39b1810a439c0f8d"  # the same from version to version


def test_where_the_second_walker_starts() -> None:
    """On a graph without edges, only the first nodes of both are red."""
    red, islands = np.zeros((5000, 200), np.int8), np.zeros(5000, np.int64)
    walk(np.zeros(201, np.int64), np.zeros(0, np.int32), 7, 0, 30, 99, red, islands)
    assert not islands.any()
    first, second = np.nonzero(red)[1].reshape(-1, 2).T
    distances = np.minimum(second - first, 200 - (second - first))
    assert (distances.min(), distances.max()) == (30, 99)
    assert set(first) | set(second) == set(range(200))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grid-1", 5), "topology must be grid-SIDE with a side from 2 to 1024"),
        (("torus", 5), "got 'torus'"),
        (("grid-8", 0), "count must be at least 1, got 0"),
        (("grid-8", 5, -1), "seed must be a whole number"),
        (("grid-2", 100), "count must be lower than 100: of this graph"),
        ((np.array([[0.5], [1]]), 5), "topology must be a name or edges"),
        ((np.array([[-1], [1]]), 5), "topology must be a name or edges"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        color_connectivity(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("conv", [pyg.GCNConv, pyg.SAGEConv, pyg.GATConv, pyg.GraphConv, "GIN"])
@pytest.mark.parametrize(("length", "tail", "depth"), [(5, 0, 12), (9, 3, 4), (17, 40, 8)])
def test_message_passing_cannot_tell_one_island_from_two(conv: object, length: int, tail: int, depth: int) -> None:
    """Random networks give both graphs of a pair the same output; with a tail, as long as 2 · depth < length."""

    def layer(width: int) -> torch.nn.Module:
        if conv == "GIN":
            return pyg.GINConv(torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8)))
        return conv(width, 8)  # type: ignore[operator, no-any-return]

    one, two = island_pair(length, tail)
    torch.manual_seed(length)
    layers = [layer(2 if step == 0 else 8).double() for step in range(depth)]
    outputs = []
    for graph in (one, two):
        x = graph.x.double()
        for convolution in layers:
            x = convolution(x, graph.edge_index).tanh()
        outputs.append(x.sum(0))
    assert outputs[0].abs().max() > 0.01
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-9, atol=1e-9)


def test_component_pooling_can_tell_one_island_from_two() -> None:
    """The similarity scorer merges the islands of both colours from the first batch on. A linear scorer can merge the
    red ones.
    """
    graphs = color_connectivity("grid-16", 40)
    batch = Batch.from_data_list(list(graphs))
    similarity, linear = ComponentPooling(2, scorer="similarity", reduce="graded"), ComponentPooling(2)
    linear.lin.weight.data, linear.lin.bias.data = torch.tensor([[0.0, 1.0, 0.0, 1.0]]), torch.tensor([-1.5])
    same = (batch.x[batch.edge_index[0]] == batch.x[batch.edge_index[1]]).all(1)
    for pool, merged in ((similarity, same), (linear, same & (batch.x[batch.edge_index[0], 1] == 1))):
        out = pool(batch.x, batch.edge_index, batch.batch)
        assert torch.equal(out.edge_score > 0, merged)
        red = torch.stack([batch.batch, out.cluster])[:, batch.x[:, 1] == 1].unique(dim=1)
        assert torch.equal(torch.bincount(red[0]), batch.y + 1)


def test_pairs_are_connected_and_have_one_island_and_two() -> None:
    pair = island_pair(9, 3)
    assert np.array_equal(num_islands(pair), [1, 2])
    for graph in pair:
        adjacency = coo_array((np.ones(graph.num_edges), graph.edge_index.numpy()))
        assert connected_components(adjacency, directed=False)[0] == 1


def test_with_a_tail_more_rounds_tell_them_apart() -> None:
    """The condition on the depth is needed."""
    pair = island_pair(9, 3)
    assert len(set(wl_classes(pair, rounds=4))) == 1
    assert len(set(wl_classes(pair, rounds=20))) == 2
    assert len(set(wl_classes(island_pair(9)))) == 1


@pytest.mark.parametrize("topology", ["grid-²", "grid-1", "grid-2000", "grid", "euroroads"])
def test_unknown_topologies(topology: str) -> None:
    assert not is_generated(f"color-connectivity-{topology.removeprefix('grid-')}")
    with pytest.raises(ValueError, match="topology must be grid-SIDE with a side from 2 to 1024"):
        color_connectivity(topology, 4)


@pytest.mark.parametrize("seed", [1.5, -1])
def test_seeds_are_whole_numbers(seed: float) -> None:
    for generate in (color_connectivity, communities):
        arguments = ("grid-4", 4) if generate is color_connectivity else (4,)
        with pytest.raises(ValueError, match="seed must be a whole number"):
            generate(*arguments, seed=seed)  # type: ignore[operator]

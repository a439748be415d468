"""Generated calls of the layers and functions on graphs: `compool`, `compool.nn`."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from arguments import LARGE, Draw
from torch import Tensor
from torch_geometric.data import Batch, Data

import compool
from compool import nn

Thunk = Callable[[], Any]
KINDS = {"x": "features", "edge_index": "index", "batch": "batch"}


class Graph(NamedTuple):
    """A small batch of random graphs."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    edge_attr: Tensor
    sizes: list[int]

    @property
    def channels(self) -> int:
        """Size of each node's features."""
        return self.x.size(1)


def graph(draw: Draw) -> Graph:
    """One to four graphs of up to eight nodes; occasionally one has no nodes, or edges join two graphs."""
    sizes = [draw.random.randint(0 if draw.chance(0.1) else 1, 8) for _ in range(draw.random.randint(1, 4))]
    edges, offset = [(0, 0)][:0], 0
    for size in sizes:
        pairs = [(draw.random.randrange(size), draw.random.randrange(size)) for _ in range(2 * size)]
        edges += [(offset + i, offset + j) for i, j in pairs] + [(offset + j, offset + i) for i, j in pairs]
        offset += size
    if draw.chance(0.5):
        edges = sorted({(i, j) for i, j in edges if i != j})
    if draw.chance(0.1) and offset:
        edges += [(draw.random.randrange(offset), draw.random.randrange(offset)) for _ in range(3)]
        draw.notes.append("edges between graphs")
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous()
    if draw.chance(0.2):
        edge_index = edge_index.int()
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    channels = draw.random.randint(1, 4)
    x = torch.randn(offset, channels, requires_grad=draw.chance(0.5))
    draw.leaf = x
    return Graph(x, edge_index, batch, torch.randn(edge_index.size(1), draw.random.randint(1, 3)), sizes)


def _bad_score(raw: Tensor) -> Any:
    return raw[:-1]


SCORES: dict[str, Any] = {
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "relu": torch.relu,
    "identity": lambda raw: raw,
    "too short": _bad_score,
    "too long": lambda raw: torch.cat([raw, raw]),
    "NaN": lambda raw: raw * float("nan"),
    "infinity": lambda raw: raw / 0,
    "bool": lambda raw: raw > 0,
    "double": lambda raw: raw.double(),
    "half": lambda raw: raw.half(),
    "complex": lambda raw: raw.to(torch.complex64),
    "None": lambda raw: None,
    "list": lambda raw: raw.tolist(),
    "meta": lambda raw: raw.to("meta"),
    "expanded": lambda raw: raw.mean().expand_as(raw),
    "not contiguous": lambda raw: raw.repeat_interleave(2)[::2],
}


def settings_of_pooling(draw: Draw, graph: Graph) -> dict[str, Any]:
    """Settings of ComponentPooling, rarely bad ones."""
    settings: dict[str, Any] = {
        "symmetric": draw.chance(0.3),
        "self_loops": draw.chance(0.3),
        "weights": draw.pick(("merged", "merged", "all")),
        "dropout": draw.pick((0.0, 0.0, 0.0, 0.5)),
    }
    name = draw.pick(SCORES) if draw.changes and draw.chance(0.15) else draw.pick(("tanh", "tanh", "sigmoid", "relu"))
    settings["score"] = SCORES[name]
    budget = draw.pick(("", "", "", "quantile", "ratio", "max_size"))
    if budget:
        settings[budget] = draw.random.randint(1, 4) if budget == "max_size" else draw.pick((0.3, 0.5, 1.0))
    if budget in ("", "max_size") and not isinstance(settings["score"], str):
        settings["threshold"] = 0.1
    if draw.chance(0.3):
        settings["edge_dim"] = graph.edge_attr.size(1)
    else:
        settings["edge_reduce"] = draw.pick(("sum", "mean", "max", "multiplicity"))
    if name not in ("tanh", "sigmoid"):
        draw.notes.append(f"score: {name}")
    if draw.changes and draw.chance(0.1):
        kinds = {"threshold": "real", "dropout": "real", "quantile": "real", "ratio": "real", "max_size": "size"}
        draw.spoil(settings, kinds | {"edge_dim": "size"})
    return settings


def _arguments(draw: Draw, graph: Graph, edge_attr: bool = False, **more: str) -> dict[str, Any]:
    """Arguments of a layer on graphs, some of them bad."""
    arguments: dict[str, Any] = {"x": graph.x, "edge_index": graph.edge_index}
    arguments["batch"] = graph.batch if draw.chance(0.8) else None
    kinds = KINDS | more
    if edge_attr:
        arguments["edge_attr"], kinds["edge_attr"] = graph.edge_attr, "features"
    return draw.spoil(arguments, kinds)


def _of_readout(draw: Draw) -> dict[str, str]:
    """The kinds of the arguments of a layer that returns a row for each graph."""
    return {"batch": "batch of a readout"} | ({"batch_size": "size"} if draw.chance(0.4) else {})


def _mode(draw: Draw, layer: torch.nn.Module) -> Any:
    layer.train(draw.chance(0.5))
    if draw.changes and draw.chance(0.05):
        layer.to(draw.pick((torch.float64, torch.float16, torch.bfloat16)))
        draw.notes.append("layer of another dtype")
    return layer


def component_pooling(draw: Draw) -> Thunk:
    made = graph(draw)
    settings = settings_of_pooling(draw, made)
    layer = _mode(draw, nn.ComponentPooling(made.channels, **settings))
    arguments = _arguments(draw, made, settings.get("edge_dim") is not None or draw.chance(0.2))
    if draw.chance(0.15):
        return lambda: layer.assign(**arguments)
    return lambda: layer(**arguments)


def unpool(draw: Draw) -> Thunk:
    made = graph(draw)
    out = nn.ComponentPooling(made.channels)(made.x, made.edge_index, made.batch)
    arguments = draw.spoil({"x": out.x.detach()}, {"x": "features"})
    return (lambda: out.unpool(**arguments)) if draw.chance(0.5) else (lambda: out.restore(**arguments))


def unpool_of_cluster_and_edge_pooling(draw: Draw) -> Thunk:
    made = graph(draw)
    layer = draw.pick((nn.ClusterPooling, nn.EdgePooling))(made.channels)
    x, *_, info = layer(made.x.detach(), made.edge_index, made.batch)
    info = type(info)(*(part.detach() for part in info))
    x = x.detach()
    kinds = {"cluster": "index", "batch": "batch", "edge_index": "index"}
    x = draw.spoil({"x": x}, {"x": "features"})["x"] if draw.chance(0.5) else x
    fields = draw.spoil(info._asdict(), kinds) if draw.chance(0.5) else info._asdict()
    return lambda: layer.unpool(x, type(info)(**fields))


def pool_data(draw: Draw) -> Thunk:
    made = graph(draw)
    layer = _mode(draw, nn.ComponentPooling(made.channels))
    fields: dict[str, Any] = {"x": made.x.detach(), "edge_index": made.edge_index.long(), "edge_attr": made.edge_attr}
    kinds = {"x": "features", "edge_index": "index", "edge_attr": "features"}
    if draw.chance(0.5):
        data: Any = Data(**draw.spoil(fields, kinds), y=torch.tensor([1]))
    else:
        data = Batch.from_data_list([Data(**fields, y=torch.tensor([1])) for _ in range(2)])
        changed = draw.spoil(
            {key: data[key] for key in (*fields, "batch", "ptr")}, kinds | {"batch": "batch", "ptr": "index"}
        )
        for key, value in changed.items():
            data[key] = value
    if draw.changes and draw.chance(0.1):
        data = draw.pick((None, fields, made.x, [data]))
        draw.no_tensor = True
        draw.notes.append(f"data: {type(data).__name__}")

    def call() -> Any:
        out = layer.pool_data(data)
        return out.to_data_list() if isinstance(out, Batch) else out

    return call


def global_component_pooling(draw: Draw) -> Thunk:
    made = graph(draw)
    settings: dict[str, Any] = {
        "score": draw.pick(("tanh", "sigmoid", torch.relu)),
        "symmetric": draw.chance(0.3),
        "reduce": draw.pick(("sum", "mean")),
        "edge_dim": made.edge_attr.size(1) if draw.chance(0.3) else None,
    }
    layer = _mode(draw, nn.GlobalComponentPooling(made.channels, **settings))
    edge_attr = settings["edge_dim"] is not None or draw.chance(0.2)
    arguments = _arguments(draw, made, edge_attr, **_of_readout(draw))
    return lambda: layer(**arguments)


def cluster_pooling(draw: Draw) -> Thunk:
    made = graph(draw)
    method = draw.pick(("tanh", "sigmoid", "log_softmax"))
    layer = _mode(draw, nn.ClusterPooling(made.channels, method, dropout=draw.pick((0.0, 0.0, 0.5))))
    arguments = _arguments(draw, made)
    return lambda: layer(**arguments)


def edge_pooling(draw: Draw) -> Thunk:
    made = graph(draw)
    methods = {
        "softmax": None,
        "tanh": nn.EdgePooling.compute_edge_score_tanh,
        "sigmoid": nn.EdgePooling.compute_edge_score_sigmoid,
        "too short": lambda raw, edge_index, num_nodes: raw[:-1],
        "too long": lambda raw, edge_index, num_nodes: torch.cat([raw, raw]),
        "half": lambda raw, edge_index, num_nodes: raw.half(),
        "whole numbers": lambda raw, edge_index, num_nodes: raw.long(),
        "list": lambda raw, edge_index, num_nodes: raw.tolist(),
    }
    bad = draw.changes and draw.chance(0.2)
    method = draw.pick(methods) if bad else draw.pick(list(methods)[:3])
    if bad:
        draw.notes.append(f"score: {method}")
    settings = {"dropout": draw.pick((0.0, 0.0, 0.5)), "by_first": draw.chance(0.5)}
    layer = _mode(draw, nn.EdgePooling(made.channels, methods[method], **settings))
    arguments = _arguments(draw, made)
    return lambda: layer(**arguments)


def unet(draw: Draw) -> Thunk:
    made = graph(draw)
    pooling = {} if draw.chance(0.5) else {"ratio": 0.5}
    settings = {"depth": draw.pick((1, 2)), "skip": draw.pick(("sum", "cat")), "dropout": draw.pick((0.0, 0.0, 0.5))}
    layer = _mode(draw, nn.ComponentUNet(made.channels, 4, 2, **settings, **pooling))
    arguments = _arguments(draw, made)
    return lambda: layer(**arguments)


def network(draw: Draw) -> Thunk:
    made = graph(draw)
    layers = draw.pick(("CPCL", "CL", "PL", "SESL", "CTL", "CAL", "GPGL", "EL", "CPPL"))
    settings = {"readout": draw.pick(("mean", "sum")), "dropout": draw.pick((0.0, 0.0, 0.5))}
    settings |= {"jump": draw.chance(0.2) and layers[-2] in "CSG", "symmetric": draw.chance(0.3)}
    layer = _mode(draw, nn.Network(layers, made.channels, 4, draw.pick((2, 3)), **settings))
    draw.notes.append(layers)
    arguments = _arguments(draw, made, **_of_readout(draw))
    return lambda: layer(**arguments)


def gin(draw: Draw) -> Thunk:
    made = graph(draw)
    layer = _mode(draw, nn.GIN(made.channels, 4, 3, depth=2))
    arguments = _arguments(draw, made, **_of_readout(draw))
    return lambda: layer(**arguments)


def settings(draw: Draw) -> Thunk:
    """Layers with bad settings, used on a good graph if they can be made."""
    made = graph(draw)
    sizes = {"in_channels": "size", "dropout": "real", "threshold": "real"}
    makers: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
        "ComponentPooling": (
            nn.ComponentPooling,
            {},
            sizes | {"quantile": "real", "ratio": "real", "max_size": "size", "edge_dim": "size", "score": "real"},
        ),
        "GlobalComponentPooling": (nn.GlobalComponentPooling, {}, {"in_channels": "size", "edge_dim": "size"}),
        "ClusterPooling": (nn.ClusterPooling, {}, sizes),
        "EdgePooling": (nn.EdgePooling, {}, {"in_channels": "size", "dropout": "real", "add_to_edge_score": "real"}),
        "ComponentUNet": (
            nn.ComponentUNet,
            {"hidden_channels": 4, "out_channels": 2},
            {"hidden_channels": "size", "out_channels": "size", "depth": "size", "dropout": "real", "ratio": "real"},
        ),
        "Network": (
            nn.Network,
            {"layers": draw.pick(("CPCL", "CTL")), "hidden": 4, "num_classes": 3},
            sizes | {"hidden": "size", "num_classes": "size", "ratio": "real", "layers": "size", "readout": "size"},
        ),
        "GIN": (nn.GIN, {"hidden": 4, "num_classes": 3}, {"hidden": "size", "num_classes": "size", "depth": "size"}),
    }
    name = draw.pick(makers)
    make, given, kinds = makers[name]
    arguments = draw.spoil({"in_channels": made.channels} | given, kinds)
    draw.notes.append(name)
    draw.asked_size = True
    return lambda: make(**arguments)(made.x, made.edge_index, made.batch)


def connected_components(draw: Draw) -> Thunk:
    made = graph(draw)
    arguments: dict[str, Any] = {"edge_index": made.edge_index, "num_nodes": made.x.size(0)}
    if draw.changes and draw.chance(0.3):
        arguments["num_nodes"] = draw.pick((made.x.size(0) - 1, made.x.size(0) + 1))
        draw.notes.append("num_nodes: other")
    draw.spoil(arguments, {"edge_index": "index", "num_nodes": "size"})
    return lambda: compool.connected_components(**arguments)


def network_files(draw: Draw) -> Thunk:
    """Saving and loading, with bad paths, networks and file contents."""
    layer = nn.Network("CPCL", 3, 4, 2)
    contents = {
        "empty": b"",
        "text": b"text",
        "zeros": bytes(100),
        "huge header": (LARGE).to_bytes(8, "little") + b"{",
        "cut off": None,
        "good": None,
    }
    name = draw.pick(contents) if draw.changes else "good"
    path: Any = draw.pick((None, 3, b"x", "/nowhere/x", "/", "")) if name != "good" and draw.chance(0.2) else ""
    other: Any = (
        draw.pick((None, torch.nn.Linear(1, 1), "text", layer.layers)) if draw.changes and draw.chance(0.2) else layer
    )
    draw.notes += [f"file: {name}", f"path: {path!r}", f"network: {type(other).__name__}"]
    draw.no_tensor = True

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "network.safetensors"
            if path != "":
                return nn.load_network(path)
            nn.save_network(other, target)
            if contents[name] is not None:
                target.write_bytes(contents[name])
            elif name == "cut off":
                target.write_bytes(target.read_bytes()[:-7])
            return nn.load_network(target).settings

    return call


TARGETS: dict[str, tuple[Callable[[Draw], Thunk], int]] = {
    "ComponentPooling": (component_pooling, 10),
    "ComponentPooling.pool_data": (pool_data, 3),
    "Pooled.unpool, restore": (unpool, 2),
    "ClusterPooling, EdgePooling: unpool": (unpool_of_cluster_and_edge_pooling, 2),
    "GlobalComponentPooling": (global_component_pooling, 5),
    "ClusterPooling": (cluster_pooling, 5),
    "EdgePooling": (edge_pooling, 5),
    "ComponentUNet": (unet, 3),
    "Network": (network, 6),
    "GIN": (gin, 2),
    "settings of layers": (settings, 4),
    "connected_components": (connected_components, 3),
    "save_network, load_network": (network_files, 1),
}

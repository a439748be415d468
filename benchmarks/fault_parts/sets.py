"""Generated calls of the functions on sets of graphs and of replicas: `compool.data`, `compool.replicas`.

Unions are made by `Graphs.union` only: those made by hand are documented as unchecked (`_Stack.check`).
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arguments import LARGE, LARGEST, REALS, SIZES, Draw
from torch import Tensor

from compool import data, nn, replicas

Thunk = Callable[[], Any]
ARRAYS = {
    "node_ptr": "index",
    "edge_ptr": "index",
    "edge_index": "index",
    "y": "indices",
    "labels": "indices",
    "attributes": "features",
    "looped": "indices",
}


@cache
def good_set() -> data.GraphSet:
    """Nine generated graphs."""
    made = data.communities(9)
    return replace(made, attributes=np.ones((made.num_nodes, 2), np.float32))


def bad_set(draw: Draw) -> data.GraphSet:
    """A set of graphs, some of its arrays bad."""
    made = good_set()
    if draw.chance(0.5):
        made = replace(made, attributes=None)
    arrays = {name: value for name in ARRAYS if (value := getattr(made, name)) is not None}
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    draw.spoil(tensors, {name: ARRAYS[name] for name in tensors})
    return replace(made, **{name: _array(arrays.get(name), value) for name, value in tensors.items()})


def _array(before: Any, value: Any) -> Any:
    """A changed tensor as an array."""
    try:
        return value.detach().numpy() if isinstance(value, Tensor) else value
    except (TypeError, RuntimeError):  # meta, sparse, bfloat16
        return before


def graph_set(draw: Draw) -> Thunk:
    made = bad_set(draw)
    index = draw.pick((0, 1, 8, 8, -1, 9, LARGEST, 2.5, "0", None)) if draw.changes else 0
    uses: dict[str, Thunk] = {
        "[index]": lambda: made[index],
        "iterated": lambda: list(made),
        "degree": lambda: made.degree,
        "checksum": lambda: made.checksum,
        "sizes": lambda: (len(made), made.num_nodes, made.num_edges, made.num_classes),
        "saved and opened": lambda: _saved(made),
    }
    name = draw.pick(uses)
    draw.no_tensor |= name == "[index]"
    draw.notes.append(f"{name} {index!r}" if name == "[index]" else name)
    return uses[name]


def _saved(made: data.GraphSet) -> data.GraphSet:
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "set.npz")
        return data.GraphSet.open(Path(folder) / "set.npz")[0]


def split(draw: Draw) -> Thunk:
    made = bad_set(draw) if draw.chance(0.3) else good_set()
    arguments: dict[str, Any] = {"graphs": made, "replica": 0, "kind": draw.pick(data.SPLIT_KINDS), "seed": 0}
    if draw.changes:
        arguments[draw.pick(("replica", "seed", "kind"))] = draw.pick((*SIZES, LARGE))
        arguments["graphs"] = draw.pick((made, made, made, made, None, [], "NCI1"))
    draw.no_tensor = True
    draw.notes += [f"{name}: {value!r:.30}" for name, value in arguments.items() if name != "graphs"]
    return lambda: data.split(**arguments)


def features(draw: Draw) -> Thunk:
    made = bad_set(draw)
    kinds = ("auto", "attributes", "labels", "degree", "one", "released")
    kind = draw.pick((*kinds, *kinds, "colour", None, 3)) if draw.changes else "auto"
    draw.notes.append(f"kind: {kind!r}")

    def call() -> Any:
        found = data.features(made, kind)
        return found.width, found.dense(slice(0, 5))

    return call


def generators(draw: Draw) -> Thunk:
    """Generated sets, but not of very many graphs, which take long."""
    make = draw.pick((data.communities, data.wl_pairs))
    arguments: dict[str, Any] = {"num_graphs" if make is data.communities else "num_pairs": 4, "seed": 0}
    if make is data.communities:
        arguments["noise"] = 0.1
    if draw.changes:
        name = draw.pick(arguments)
        large = (2**40, LARGEST, 2**63, 2**70)
        values = REALS if name == "noise" else [size for size in SIZES if name == "seed" or size not in large]
        arguments[name] = draw.pick(values)
    draw.no_tensor = True
    draw.notes += [f"{name}: {value!r:.30}" for name, value in arguments.items()]
    return lambda: make(**arguments)


def wl_classes(draw: Draw) -> Thunk:
    made = bad_set(draw)
    rounds = draw.pick((None, 0, 1, 2, -1, 2.5, "2")) if draw.changes else None
    draw.notes.append(f"rounds: {rounds!r}")
    return lambda: data.wl_classes(made, rounds)


TEXTS = {
    "A": "1, 2\n2, 1\n3, 4\n4, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n1\n0\n2\n2\n",
    "node_attributes": "0.5, 1\n0.5, 2\n1e3, 3\n-1, 4\n0, 5\n",
}
NUMBERS = ("0", "-1", "6", "99", str(LARGE), "2147483647", "2147483648", str(LARGEST), "9" * 30, "1.5", "nan", "inf")
PIECES = (*NUMBERS, "", " ", ",", "\n", "\n\n", "\x00", "x", "é", "1,1,1", "--1", "\r\n", "1e400", "\ufeff")


def load(draw: Draw) -> Thunk:
    """Data sets in text files, some with bad numbers, lines or names."""
    texts: dict[str, bytes] = {}
    for suffix, text in TEXTS.items():
        texts[suffix] = text.encode()
    for _ in range(draw.changes or 0):
        suffix = draw.pick(texts)
        how = draw.pick(("number", "number", "insert", "cut", "drop line", "missing", "empty", "bytes", "twice"))
        texts[suffix] = _edited(draw, texts[suffix], how)
        draw.notes.append(f"{suffix}: {how} {texts[suffix]!r:.60}")
    dropped = [suffix for suffix, text in texts.items() if text == b"missing"]
    name: Any = "SET"
    if draw.changes and draw.chance(0.1):
        name = draw.pick(("", "..", "../SET", "SET ", "OTHER", None, 3, b"SET", "S" * 300, "SET\x00", ".SET"))
        draw.no_tensor = True
        draw.notes.append(f"name: {name!r:.20}")

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["COMPOOL_CACHE"] = f"{folder}/cache"
            (Path(folder) / "SET").mkdir()
            for suffix, text in texts.items():
                if suffix not in dropped:
                    (Path(folder) / "SET" / f"SET_{suffix}.txt").write_bytes(text)
            made = data.load(name, folder)
            list(made)
            return data.load(name, folder)

    return call


def _edited(draw: Draw, text: bytes, how: str) -> bytes:
    position = draw.random.randrange(len(text) + 1)
    if how == "number":
        words = text.decode(errors="replace").replace(",", " , ").replace("\n", " \n ").split(" ")
        places = [index for index, word in enumerate(words) if word.strip(" ,\n")]
        if places:
            words[draw.pick(places)] = draw.pick(NUMBERS)
        return "".join(words).encode()
    if how == "insert":
        return text[:position] + draw.pick(PIECES).encode() + text[position:]
    if how == "drop line":
        return b"\n".join(text.split(b"\n")[1:])
    made = {"cut": text[:position], "missing": b"missing", "empty": b"", "twice": text + text}
    return made[how] if how in made else draw.random.randbytes(20)


def read_splits(draw: Draw) -> Thunk:
    good = '{"splits": [{"train": [0, 1, 2], "validation": [3], "test": [4, 5]}]}'
    text = good
    for _ in range(draw.changes or 0):
        old = draw.pick(("0", "3", "[3]", "[", "]", '"test"', '"splits"', "{", "[4, 5]"))
        text = text.replace(old, draw.pick((*NUMBERS, "null", "[]", "{}", '"a"', "", "[[1]]", "[0.5]", "true")), 1)
    draw.notes.append(text)

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "splits.json"
            path.write_text(text)
            return data.read_splits(path, good_set())

    return call


def stack(draw: Draw) -> Thunk:
    def some(**changes: Any) -> nn.Network:
        return nn.Network(**({"layers": "CPCL", "in_channels": 4, "hidden": 4, "num_classes": 3} | changes))

    bad: dict[str, Any] = {
        "good": [some(), some(dropout=0.1)],
        "empty": [],
        "None": None,
        "a network": some(),
        "of numbers": [1, 2],
        "of layers": [torch.nn.Linear(1, 1)],
        "mixed": [some(), nn.GIN(4, 4, 3)],
        "other layers": [some(), some(layers="CL")],
        "other width": [some(), some(hidden=5)],
        "other classes": [some(), some(num_classes=2)],
        "other dtype": [some(), some().double()],
        "other device": [some(), some().to("meta")],
        "classes": [nn.Network],
        "a generator": (some() for _ in range(2)),
        "a dict": {"a": some()},
        "text": "CPCL",
        "a set": {some()},
        "changed layers": [some(), _without_layer(some())],
    }
    name = draw.pick(bad) if draw.changes else "good"
    replica = draw.pick((0, 1, -1, 2, LARGEST, 2.5, None, "0")) if draw.changes else 0
    draw.no_tensor = True
    draw.notes += [name, f"single({replica!r})"]
    return lambda: replicas.stack(bad[name]).single(replica)


def _without_layer(network: nn.Network) -> nn.Network:
    del network.layers[-1]
    return network


def union(draw: Draw) -> Thunk:
    """Unions of batches, with bad graphs, keys and sizes, and networks on them."""
    made = good_set() if draw.chance(0.7) else bad_set(draw)
    arguments: dict[str, Any] = {"graphs": torch.tensor([[0, 1, 2], [3, -1, 8]])}
    kinds = {"graphs": "indices"}
    key = draw.chance(0.3)
    if key:
        arguments["key"], kinds["key"] = torch.tensor([1, 2]), "indices"
    sizes = (-1, 0, 1, 5, 10_000, 2**40, LARGEST, 2.5, None)
    if draw.changes and draw.chance(0.3):
        capacity: Any = replicas.union.Capacity(draw.pick(sizes), draw.pick(sizes))
        arguments["capacity"] = draw.pick((capacity, capacity, capacity, 3, (1,), "text"))
        draw.asked_size = True
        draw.notes.append(f"capacity: {arguments['capacity']}")
        draw.no_tensor = True
    if draw.changes and draw.chance(0.1):
        arguments["after"] = draw.pick(((replicas.union.Capacity(draw.pick(sizes), draw.pick(sizes)),), None, 3))
        draw.no_tensor = True
        draw.notes.append(f"after: {arguments['after']}")
    draw.spoil(arguments, kinds)
    networks = _networks(draw, 2)

    def call() -> Any:
        x, union = replicas.Graphs(made, data.features(made, "labels")).union(**arguments)
        return x, union.edge_index, union.graph_ptr, union.row_ptr, networks(x, union)

    return call


@cache
def _stack(layers: str, count: int) -> Any:
    torch.manual_seed(0)
    if layers == "GIN":
        return replicas.stack([nn.GIN(4, 4, 3, depth=2) for _ in range(count)])
    return replicas.stack([nn.Network(layers, 4, 4, 3) for _ in range(count)])


def _networks(draw: Draw, count: int) -> Any:
    layers = draw.pick(("CPCL", "SESL", "CTL", "CAL", "GPL", "PL", "GIN"))
    draw.notes.append(layers)
    return _stack(layers, count).train(draw.chance(0.5))


def steps(draw: Draw) -> Thunk:
    """`Graphs` itself, and the capacity for unions of steps."""
    made = bad_set(draw) if draw.chance(0.6) else good_set()
    kind = draw.pick(("auto", "labels", "degree", "one"))
    arguments = draw.spoil({"graphs": torch.tensor([[[0, 1], [2, -1]]])}, {"graphs": "indices"})
    how = {
        "device": draw.pick(("cpu", "meta", "nowhere")),
        "dtype": draw.pick((torch.float64, torch.long, 3)),
    }
    if not (draw.changes and draw.chance(0.2)):
        how = {}
    draw.no_tensor |= bool(how)
    draw.notes += [kind, *(f"{name}: {value}" for name, value in how.items())]
    return lambda: replicas.Graphs(made, data.features(made, kind), **how).capacity(**arguments)


def stacked_network(draw: Draw) -> Thunk:
    """A stack on features that do not fit, or on a union of other replicas."""
    made = good_set()
    kind = draw.pick(("labels", "degree", "attributes", "one")) if draw.changes else "labels"
    count = draw.pick((1, 2, 2, 2, 3)) if draw.changes else 2
    graphs = torch.randint(9, (count, 3))
    x, joined = replicas.Graphs(made, data.features(made, kind)).union(graphs, torch.arange(count))
    x = draw.spoil({"x": x}, {"x": draw.pick(("features", "indices")) if x.dim() == 1 else "features"})["x"]
    networks = _networks(draw, 2)
    draw.notes += [f"features {kind}", f"a union of {count} for 2 networks"]
    return lambda: networks(x, joined)


TARGETS: dict[str, tuple[Callable[[Draw], Thunk], int]] = {
    "GraphSet": (graph_set, 5),
    "split": (split, 3),
    "features": (features, 3),
    "communities, wl_pairs": (generators, 1),
    "wl_classes": (wl_classes, 2),
    "load": (load, 5),
    "read_splits": (read_splits, 1),
    "stack, single": (stack, 1),
    "Graphs.capacity": (steps, 2),
    "Graphs.union": (union, 6),
    "stack of networks on a union": (stacked_network, 4),
}

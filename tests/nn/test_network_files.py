"""Files of networks that are hostile, damaged or of something else: each is a ValueError of one line."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file

from compool.nn import GIN, Network, load_network, save_network

SETTINGS = asdict(Network("CPCL", 5, 8, 2).settings)


def write(path: Path, settings: Any = SETTINGS, kind: str = "Network", network: torch.nn.Module | None = None) -> Path:
    """A file with any settings, and the tensors of a network."""
    network = network or Network("CPCL", 5, 8, 2)
    text = settings if isinstance(settings, str) else json.dumps(settings)
    save_file(network.state_dict(), path, {"compool": kind, "settings": text})
    return path


def changed(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (SETTINGS | changes).items() if value is not ...}


HOSTILE: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "its settings are not valid JSON"),
    "empty": ("", "its settings are not valid JSON"),
    "deep": ("[" * 100_000, "its settings are not valid JSON"),
    "long number": ('{"hidden": ' + "9" * 5000 + "}", "its settings are not valid JSON"),
    "list": ([1, 2], "its settings must be a JSON object, got"),
    "null": (None, "its settings must be a JSON object, got 'None'"),
    "no settings": ({}, "its settings lack 'layers'"),
    "missing": (changed(hidden=...), "its settings lack 'hidden'"),
    "unknown": (changed(colour=3), "its settings have 'colour', which Network does not have"),
    "self": (changed(self=3), "its settings have 'self', which Network does not have"),
    "huge": (changed(hidden=10**9), r"tensor 'layers.0.bias' must have the shape \[1000000000\], got \[8\]"),
    "huge input": (changed(in_channels=10**12), "must have the shape"),
    "huge output": (changed(num_classes=10**12), "must have the shape"),
    "beyond 64 bits": (changed(hidden=10**30), "cannot be loaded"),
    "overflow": (changed(hidden=2**62), "cannot be loaded"),
    "zero": (changed(hidden=0), "its setting hidden must be int, in range; got '0'"),
    "negative": (changed(in_channels=-1), "its setting in_channels must be int, in range; got '-1'"),
    "fraction": (changed(hidden=8.5), "its setting hidden must be int"),
    "text": (changed(hidden="8"), "its setting hidden must be int"),
    "true": (changed(hidden=True), "its setting hidden must be int"),
    "number for letters": (changed(layers=3), "its setting layers must be str"),
    "list for letters": (changed(layers=["C", "L"]), "its setting layers must be str"),
    "null for letters": (changed(layers=None), "its setting layers must be str"),
    "letters": (changed(layers="CXL"), "layers must be letters of C"),
    "no letters": (changed(layers=""), "layers must be letters of C"),
    "many letters": (changed(layers="C" * 1_000_000 + "L"), "say 1000001 layers, but it has 8 tensors"),
    "other letters": (changed(layers="SPSL"), "tensor '.*' is (missing|not in this network)"),
    "more letters": (changed(layers="CPCLL"), "tensor '.*' is missing"),
    "dropout": (changed(dropout=2), "dropout must be at least 0 and below 1"),
    "dropout NaN": (changed(dropout=float("nan")), "its setting dropout must be float, in range; got 'nan'"),
    "dropout list": (changed(dropout=[]), "its setting dropout must be float"),
    "readout": (changed(readout="median"), "readout must be one of 'mean', 'sum', 'max', 'saturating'"),
    "readout list": (changed(readout=[]), "its setting readout must be str"),
    "threshold": (changed(threshold=7), "threshold must lie in"),
    "threshold text": (changed(threshold="0"), "its setting threshold must be float"),
    "threshold infinite": (changed(threshold=float("inf")), "its setting threshold must be float"),
    "weights": (changed(weights={}), "its setting weights must be str"),
    "symmetric": (changed(symmetric="no"), "its setting symmetric must be bool"),
    "ratio": (changed(ratio=-1), "ratio must be a finite number above 0, got -1"),
    "random after top-k": (
        changed(layers="CTPL", scorer="random", reduce="sum"),
        "depend on the order of nodes, which T and A change: P must come before these; got 'CTPL'",
    ),
    "classes": (changed(num_classes=1), "num_classes must be a whole number, at least 2"),
    "jump": (changed(jump=True), "must have the shape"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_settings(what: str, tmp_path: Path) -> None:
    settings, message = HOSTILE[what]
    path = write(tmp_path / "n.safetensors", settings)
    with pytest.raises(ValueError, match=message) as caught:
        load_network(path)
    assert str(caught.value).startswith(f"{path} ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_huge_network_is_not_even_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = asdict(GIN(5, 8, 3).settings) | {"depth": 10**9}
    path = write(tmp_path / "n.safetensors", settings, "GIN", GIN(5, 8, 3))
    monkeypatch.setattr("compool.nn.network.GINConv", lambda *_: pytest.fail("a layer was built"))
    with pytest.raises(ValueError, match="its settings say 1000000000 layers, but it has"):
        load_network(path)


TENSORS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "say 4 layers, but it has 0 tensors"),
    "one less": ({"layers.0.bias": None}, r"tensor 'layers\.0\.bias' is missing"),
    "one more": ({"layers.9.bias": torch.zeros(3)}, r"tensor 'layers\.9\.bias' is not in this network"),
    "shape": ({"layers.0.bias": torch.zeros(9)}, r"must have the shape \[8\], got \[9\]"),
    "dimensions": ({"layers.0.bias": torch.zeros(8, 1)}, r"must have the shape \[8\], got \[8, 1\]"),
    "integers": (
        {"layers.0.bias": torch.zeros(8, dtype=torch.long)},
        "of one type of F16, BF16, F32, F64; got F32, I64",
    ),
    "mixed": ({"layers.0.bias": torch.zeros(8).half()}, "of one type of F16, BF16, F32, F64; got F16, F32"),
}


@pytest.mark.parametrize("what", TENSORS)
def test_other_tensors(what: str, tmp_path: Path) -> None:
    changes, message = TENSORS[what]
    tensors = Network("CPCL", 5, 8, 2).state_dict() | changes if changes else {}
    path = tmp_path / "n.safetensors"
    notes = {"compool": "Network", "settings": json.dumps(SETTINGS)}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path, notes)
    with pytest.raises(ValueError, match=rf"n\.safetensors holds a network that cannot be loaded: .*{message}"):
        load_network(path)


def test_statistics_must_be_whole_numbers(tmp_path: Path) -> None:
    network = GIN(5, 8, 3)
    path = tmp_path / "n.safetensors"
    tensors = network.state_dict() | {"norms.0.num_batches_tracked": torch.tensor(1.5)}
    save_file(tensors, path, {"compool": "GIN", "settings": json.dumps(asdict(network.settings))})
    with pytest.raises(ValueError, match=r"tensor 'norms.0.num_batches_tracked' must hold I64, got F32"):
        load_network(path)


def test_a_network_without_layers_comes_back(tmp_path: Path) -> None:
    save_network(GIN(5, 8, 3, depth=0), tmp_path / "n.safetensors")
    assert load_network(tmp_path / "n.safetensors").settings.depth == 0


def test_numbers_that_stand_for_others_come_back(tmp_path: Path) -> None:
    network = Network("CPCL", 5, 8, 2, dropout=0, threshold=0, symmetric=1)
    save_network(network, tmp_path / "n.safetensors")
    assert load_network(tmp_path / "n.safetensors").settings == network.settings


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    save_network(Network("CPCL", 5, 8, 2).to(dtype), tmp_path / "n.safetensors")
    assert next(load_network(tmp_path / "n.safetensors").parameters()).dtype == dtype


@pytest.mark.parametrize("notes", [None, {}, {"compool": "Linear"}, {"settings": "{}"}])
def test_no_network(notes: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"x": torch.zeros(3)}, tmp_path / "n.safetensors", notes)
    with pytest.raises(ValueError, match="does not contain a compool network"):
        load_network(tmp_path / "n.safetensors")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder; give a file written by save_network"):
        load_network(tmp_path)


def test_flipped_bits_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    save_network(Network("CPCL", 5, 8, 2), path)
    good = path.read_bytes()
    random, messages = np.random.default_rng(0), list[str]()
    size = 8 + int.from_bytes(good[:8], "little")
    for position, bit in zip(random.integers(size, size=300), random.integers(8, size=300), strict=True):
        bad = bytearray(good)
        bad[position] ^= 1 << bit
        path.write_bytes(bad)
        try:
            load_network(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert all(message.startswith(str(path)) and "\n" not in message for message in messages)


@pytest.mark.parametrize("what", ["weight", "setting", "note"])
def test_a_flipped_bit_is_detected(what: str, tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    save_network(Network("CPCL", 5, 8, 2, dropout=0.5), path, trained_on="NCI1")
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    position = {"weight": header, "setting": content.index(b"0.5") + 2, "note": content.index(b"NCI1")}[what]
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=f"^{re.escape(str(path))} is damaged: its contents do not match its checksum$"
    ):
        load_network(path)


def test_files_of_before_there_was_a_checksum_still_load(tmp_path: Path) -> None:
    path, network = tmp_path / "n.safetensors", Network("CPCL", 5, 8, 2)
    save_network(network, path)
    tensors = load(path.read_bytes())
    write(path, network=network)  # without one
    assert all(torch.equal(tensors[name], value) for name, value in load_network(path).state_dict().items())


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    class Own(Network):
        """A subclass, whose code would not be in the file."""

    mixed = Network("CPCL", 3, 8, 2)
    mixed.layers[1].double()
    with pytest.raises(TypeError, match="network must be one of Network, GIN; got Own"):
        save_network(Own("CPCL", 3, 8, 2), tmp_path / "network.safetensors")
    with pytest.raises(ValueError, match=r"of one dtype, got torch\.float32, torch\.float64"):
        save_network(mixed, tmp_path / "network.safetensors")
    assert not list(tmp_path.iterdir())

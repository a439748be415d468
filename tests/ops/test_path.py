"""How many functions and files a reader meets on the way from the layer to the loops."""

import sys
from types import FrameType

import torch

import compool


def visited(run: object) -> set[tuple[str, str]]:
    """The functions of compool that a call enters, as pairs of file and name; no comprehensions."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and "compool" in code.co_filename and not code.co_name.startswith("<"):
            seen.add((code.co_filename.rpartition("compool/")[2], code.co_qualname))

    sys.setprofile(note)
    try:
        run()  # type: ignore[operator]
    finally:
        sys.setprofile(None)
    return seen


def test_the_way_through_the_layer_is_short(device: str) -> None:
    pool = compool.ComponentPooling(4).to(device)
    x, edge_index = torch.randn(6, 4, device=device), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=device)
    batch = torch.tensor([0, 0, 0, 1, 1, 1], device=device)
    pool(x, edge_index, batch)  # modules are imported, kernels compiled
    path = visited(lambda: pool(x, edge_index, batch))
    assert len({place for place in path if "loops.py" not in place[0]}) <= 18, sorted(path)
    assert len({file for file, _ in path}) <= 8, sorted(path)

import os
import signal

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # GPU kernels run in Triton's interpreter; read when triton is first imported

# A shell's background jobs do not hear Ctrl-C, and nor would the programs that tests start and stop
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("compool", deadline=None, max_examples=150)  # the first call of a kernel compiles it
settings.load_profile("compool")

SLOW = (
    "tests/nn/test_pyg_ways.py::test_compiled_whole",
    "tests/study/test_logs.py",
    "tests/study/test_own_network.py",
    "tests/study/test_weights.py",
    "tests/test_cli.py::test_run_is_stopped",
    "tests/test_docs.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest tests come first: one that comes last keeps a process busy while the other waits."""
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def parsed_sets(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of data sets for all tests and processes of a session, so that each set is parsed once."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    monkeypatch.setenv("COMPOOL_CACHE", str(folder / "parsed-sets"))


@pytest.fixture(params=["kernels", "torch"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: with the kernels of the device, and with the plain torch operations."""
    monkeypatch.setattr("compool.ops._dispatch.only_torch", request.param == "torch")
    return str(request.param)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Runs a test on the CPU, and on a GPU where there is one."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return str(request.param)

"""What is imported when: layers need no package of the extras, and commands that train nothing start quickly."""

import subprocess
import sys
from pathlib import Path

import pytest

from compool.__main__ import NEEDED

BLOCK = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        blocked = name.partition(".")[0] in {(*NEEDED, "ray")!r}
        return None if blocked else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
LAYERS = """
import torch, compool
from compool import nn, ops, replicas
from compool.data import communities, features

x, edge_index = torch.randn(6, 8), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
for layer in (compool.ComponentPooling(8), compool.ComponentPooling(8, ratio=0.5), compool.EdgePooling(8),
              compool.ClusterPooling(8)):
    layer(x, edge_index, torch.zeros(6, dtype=torch.long))[0].sum().backward()
compool.GlobalComponentPooling(8)(x, edge_index)
compool.ComponentUNet(8, 4, 3, depth=1)(x, edge_index)
compool.connected_components(edge_index, 6)
graphs = communities(9)
x, union = replicas.Graphs(graphs, features(graphs)).union(torch.tensor([[0, 1], [2, 3]]))
replicas.stack([nn.Network("CPCL", 4, hidden=8, num_classes=3) for _ in range(2)])(x, union)
print("done")
"""
COMMAND = """
import sys
from compool.cli import app

try:
    app()
except SystemExit as end:
    assert not end.code
print([name for name in ("torch", "torch_geometric") if name in sys.modules])
"""


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)


def test_layers_do_without_the_packages_of_the_extras() -> None:
    # torch and PyG import some of these if they are there: they must do without, too
    done = python(BLOCK + LAYERS)
    assert done.stdout == "done\n", done.stderr


def test_the_command_says_what_to_install() -> None:
    done = python(BLOCK + "from compool.__main__ import main\nmain()")
    assert done.returncode == 1
    remedy = "pip install -c constraints.txt '.[study]'"
    assert done.stderr.strip() == f"compool: the command needs {', '.join(NEEDED)}: {remedy}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["recipes"],
        ["datasets", "--data", "."],
        ["run", "--dry-run", "--store", "none.sqlite", "--device", "cpu"],
        ["add", "runs.csv", "--store", "study.sqlite"],
        ["runs", "--store", "study.sqlite"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_that_train_nothing_do_not_import_torch(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compool.data import communities
    from compool.study import Store
    from compool.study.csv_files import write_csv
    from tests.study.test_store import example

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    communities(9).save(tmp_path / "nine.npz")
    Store(tmp_path / "study.sqlite").add([example(0)])
    with (tmp_path / "runs.csv").open("w") as file:
        write_csv([example(0)], file)
    done = python(COMMAND, *arguments)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def test_planning_with_a_cached_set_does_not_import_numba(tmp_path: Path) -> None:
    """It takes 0.4 s, to check edges that were checked when their file was written."""
    from compool.data import communities

    communities(99).save(tmp_path / "NCI1.npz")
    command = COMMAND.replace('("torch", "torch_geometric")', '("torch", "numba")')
    arguments = ["run", "NCI1", "--data", str(tmp_path), "--dry-run", "--store", str(tmp_path / "none.sqlite")]
    done = python(command, *arguments, "--device", "cpu")
    assert "NCI1 gin: " in done.stdout
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def test_training_does_not_import_pyg(tmp_path: Path) -> None:
    """It takes seconds, in every process that trains."""
    script = """
import sys
from pathlib import Path
from compool import study
recipes = [study.recipe(method, "communities", epochs=1) for method in ("component", "gin")]
store = Path(sys.argv[1])
blocks = study.plan(recipes, 2, 0, store, resources=study.local_resources("cpu", 1))
print(sum(len(runs) for runs in study.execute(blocks, store, 1)))
print("torch_geometric" in sys.modules)
"""
    done = python(script, str(tmp_path / "study.sqlite"))
    assert done.stdout.split() == ["4", "False"], done.stderr

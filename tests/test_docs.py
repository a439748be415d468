"""Every block of code in the README and on the pages of docs/ runs: Python, and the commands of compool."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compool.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HAVE_TGP = find_spec("tgp") is not None and find_spec("torch_scatter") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, block in re.findall(r"^```(\S*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        if language == "sh":
            for line in block.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "compool", line
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, result.output
        elif language == "python" and ("compool.integrations.tgp" not in block or HAVE_TGP):
            if file := re.match(r"# (\w+\.py)\n", block):  # commands below read it
                Path(file[1]).write_text(block)
            exec(compile(block, page.name, "exec"), names)
        else:
            assert language in ("python", "{toctree}", "{eval-rst}"), (
                f"a block of {language!r} on {page.name} is not run"
            )


def test_there_is_something_to_run() -> None:
    blocks = {page.name: len(re.findall(r"^```(?:python|sh)$", page.read_text(), re.MULTILINE)) for page in PAGES}
    assert blocks["README.md"] >= 2
    assert all(
        blocks[name] for name in ("index.md", "operator.md", "settings.md", "networks.md", "recipes.md", "study.md")
    )

"""Each kind of fault injection, briefly: bad calls, damaged files, killed studies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("kind", "count"), [("calls", 420), ("flips", 4), ("kills", 1)])
def test_faults_do_no_harm(kind: str, count: int) -> None:
    command = [sys.executable, str(ROOT / "benchmarks/faults.py"), kind, "--count", str(count), "--timeout", "30"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stdout + result.stderr

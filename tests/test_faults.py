"""A few hundred generated bad calls: none may crash the interpreter, hang, or return something wrong."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_bad_calls_end_in_an_error_or_a_correct_result() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "faults.py"), "calls", "--count", "420", "--timeout", "30"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stdout + result.stderr

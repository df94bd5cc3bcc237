"""Triton kernels without a GPU: run in Triton's interpreter, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = sorted((Path(__file__).parent / "interpreted").glob("check_*.py"))
PLAINLY = ("-q", "-x", "-W", "ignore", "-p", "no:nbval")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install triton, or see .ci/run",
)


def test_in_the_interpreter():
    """All checks pass, and none is left out, in one process: each start costs seconds."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", *PLAINLY, *map(str, CHECKS)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout


def test_there_is_something_to_check():
    assert len(CHECKS) >= 3

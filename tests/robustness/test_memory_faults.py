"""Memory that runs out in the middle: a short form of tools/check_memory_faults.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reference.models import same_python

SCRIPT = Path(__file__).parents[2] / "tools" / "check_memory_faults.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not SCRIPT.exists(), reason="Linux, and a checkout with its tools")
def test_an_error_and_the_model_before():
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    names = ("GradientBoostingClassifier", "GaussianNB")
    child = subprocess.run(
        [*same_python(), str(SCRIPT), *names, "--every", "19"], capture_output=True, text=True, check=False, timeout=300
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert "wrong: none" in child.stdout
    assert all(f"{name} {job}: " in child.stdout for name in names for job in ("fit", "predict", "save", "load"))

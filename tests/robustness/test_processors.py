"""Models and predictions have the same bits whatever vectors of NumPy's and the C library's the processor runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from reference.models import same_python

BITS = Path(__file__).parents[1] / "reference" / "bits.py"


def digests(**environment):
    child = subprocess.run(
        [*same_python(), "-W", "ignore", str(BITS)],
        env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


@pytest.mark.slow
def test_bits_match_every_processor():
    assert digests() == BITS.with_suffix(".txt").read_text().splitlines()


@pytest.mark.slow
def test_the_same_bits_without_wide_vectors():
    here = [feature for feature in __cpu_dispatch__ if __cpu_features__.get(feature)]
    if not here:
        pytest.skip("NumPy knows no wider vectors of this processor")
    plain = digests(
        NPY_DISABLE_CPU_FEATURES=" ".join(here),
        OPENBLAS_CORETYPE="Nehalem",
        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4",
    )
    assert plain == BITS.with_suffix(".txt").read_text().splitlines()

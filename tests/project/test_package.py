"""The package as it is installed."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions, version
from importlib.resources import files
from pathlib import Path

import pytest

import fastens

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
KERNELS = [
    module.name
    for module in pkgutil.walk_packages(fastens.__path__, "fastens.")
    if not module.ispkg and Path(module.module_finder.path, module.name.rpartition(".")[2] + SUFFIX).is_file()
]


def test_kernels_are_found():
    assert len(KERNELS) > 40


def test_version_is_the_installed_one():
    if not any(distributions(name="fastens")):
        pytest.skip("fastens is built in place, not installed")
    assert fastens.__version__ == version("fastens")


def test_is_typed():
    assert files("fastens").joinpath("py.typed").is_file()


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has the GIL")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_do_not_bring_the_gil_back(name):
    importlib.import_module(name)
    assert not sys._is_gil_enabled()


@pytest.mark.slow
def test_big_endian_processors_are_refused(tmp_path):
    pytest.importorskip("setuptools", minversion="77")  # an older one does not read pyproject.toml
    run = "import runpy, sys; sys.byteorder = 'big'; runpy.run_path('setup.py', run_name='__main__')"
    folders = ["--build-temp", tmp_path, "--build-lib", tmp_path]
    child = subprocess.run(
        [sys.executable, "-c", run, "build_ext", *folders],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert child.returncode == 1
    assert "error: fastens needs a little-endian processor, such as x86-64 or ARM; this one is not" in child.stderr

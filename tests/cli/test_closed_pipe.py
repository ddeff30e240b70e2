"""Standard output that closes early: commands that write files finish them, others end as after SIGPIPE."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fastens
from reference.children import COMMAND, run_child

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")


@pytest.fixture
def piped(tmp_path):
    """Run a command whose standard output nobody reads; its exit code and standard error."""

    def run_command(*arguments, stdout=None, stderr=subprocess.PIPE):
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-m", "fastens", *map(str, arguments)]
        path = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(fastens.__file__))}
        where = writing if stdout is None else stdout
        stderr = writing if stderr is None else stderr
        try:
            done = subprocess.run(command, stdout=where, stderr=stderr, cwd=tmp_path, env=path, check=False)
        finally:
            os.close(writing)
        return done.returncode, (done.stderr or b"").decode()

    return run_command


# In a process that has imported the package, because nine new interpreters would take most of the time. Standard output
# is opened again, so that it knows that it cannot seek.
CLOSED = """
import os, sys
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8")
"""


@pytest.mark.slow
def test_files_are_written(houses, write_csv, tmp_path):
    path = write_csv(houses)
    commands = {
        "m": ("train", path, "--target", "price", "--n-estimators", 3, "-o", "m"),
        "out.csv": ("predict", "m", path, "-o", "out.csv"),
        "model.json": ("export", "m", "--format", "xgboost", "-o", "model.json"),
        "again.fastens": ("convert", "model.json", "-o", "again.fastens"),
        "page.html": ("explain", "m", path, "-o", "page.html", "--rows", 5),
        "page-contributions.parquet": ("explain", "m", path, "-o", "page.html", "--rows", 5, "--overwrite"),
        "table.html": ("inspect", path, "-o", "table.html"),
        "board.csv": ("compare", path, "--target", "sold", "--models", "tree", "--folds", 2, "-o", "board.csv"),
        "tuned-leaderboard.csv": (
            *("tune", path, "--target", "sold", "--models", "forest", "--folds", 2),
            *("--trials", 1, "--time-limit", 20, "-o", "tuned.fastens"),
        ),
    }
    for name, command in commands.items():
        if name == "page-contributions.parquet":
            (tmp_path / name).unlink()
        assert run_child(CLOSED + COMMAND, *command, folder=tmp_path).returncode == 0, name
        assert (tmp_path / name).stat().st_size > 0
    assert fastens.load(tmp_path / "m").n_estimators_ == 3


@pytest.mark.slow
def test_without_standard_error(piped, houses, write_csv, tmp_path):
    path = write_csv(houses)
    assert piped("train", path, "--target", "price", "--n-estimators", 3, "-o", "m", stderr=None)[0] == 0
    assert (tmp_path / "m").exists()


@pytest.mark.slow
def test_commands_that_only_print(piped, houses, write_csv, run):
    path = write_csv(houses)
    assert run("train", path, "--target", "price", "--n-estimators", 3, "-o", "m").code == 0
    for command in (("evaluate", "m", path), ("train", "--help")):
        assert piped(*command) == (141, ""), command


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_a_full_disk(piped, houses, write_csv, tmp_path):
    path = write_csv(houses)
    with open("/dev/full", "wb") as full:
        code, message = piped("train", path, "--target", "price", "--n-estimators", 3, "-o", "m", stdout=full)
    assert (code, message) == (2, "fastens: cannot write to standard output: No space left on device\n")
    assert (tmp_path / "m").exists()

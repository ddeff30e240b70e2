"""Commands that are killed or terminated at a random moment: each output is the old file or the new one, whole.

How often each is: FASTENS_KILLS (default 2).
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time

import pytest

import fastens
from fastens.tuning.tune import SearchFile
from reference.children import COMMAND, KILL, LONG, run_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
N_KILLS = int(os.environ.get("FASTENS_KILLS", "2"))
WHOLE_AND_RESUMED = ("whole.fastens", "model.fastens")


@pytest.fixture
def forked(tmp_path):
    """Run a command in a child, which gets a signal after so many seconds; its exit code."""

    def run_command(arguments, after=LONG, number=KILL):
        return run_child(COMMAND, *arguments, folder=tmp_path, after=after, number=number).returncode

    return run_command


def moments(forked, arguments):
    """Random moments in the time that a command takes."""
    start = time.monotonic()
    assert forked(arguments) == 0
    seconds = time.monotonic() - start
    generator = random.Random(0 if N_KILLS <= 2 else None)
    return [generator.uniform(0, seconds) for _ in range(N_KILLS)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [KILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_outputs_are_whole(forked, houses, write_csv, tmp_path, number):
    path = write_csv(houses)
    outputs = ["model.fastens", "out.csv", "page.html", "board.csv"]
    commands = {
        "model.fastens": ("train", path, "--target", "price", "--n-estimators", 100, "--n-jobs", 1),
        "out.csv": ("predict", "model.fastens", path, "-o", "out.csv", "--keep-all"),
        "page.html": ("explain", "model.fastens", path, "-o", "page.html"),
        "board.csv": ("compare", path, "--target", "sold", "--models", "forest,tree", "--folds", 2, "-o", "board.csv"),
    }
    for name, command in commands.items():
        times = moments(forked, command)
        others = set(os.listdir(tmp_path))
        for after in times:
            whole = (tmp_path / name).read_bytes()
            code = forked(command, after, number)
            assert code in (0, -number, 128 + number)
            found = (tmp_path / name).read_bytes()
            assert len(found) == len(whole) or name == "board.csv", name  # times in it may have other digits
            if name == "out.csv":
                assert found == whole
            if number == signal.SIGTERM:
                assert set(os.listdir(tmp_path)) == others
    assert fastens.load(tmp_path / "model.fastens").n_estimators_ == 100
    assert {name for name in outputs if (tmp_path / name).exists()} == set(outputs)


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on(forked, houses, write_csv, tmp_path):
    path = write_csv(houses)
    command = ("tune", path, "--target", "price", "--folds", 2, "--n-jobs", 1, "--trials")
    n_done = 0
    for attempt in range(N_KILLS):
        forked((*command, 500), 0.4 + 0.1 * attempt)
        checkpoint = tmp_path / "model-search.jsonl"
        if checkpoint.exists():
            header = json.loads(checkpoint.read_text().splitlines()[0])
            trials = SearchFile(checkpoint, header["of"]).trials
            assert [trial.index for trial in trials] == list(range(len(trials)))
            assert len(trials) >= n_done
            n_done = len(trials)
    assert forked((*command, n_done + 1)) == 0
    assert fastens.load(tmp_path / "model.fastens").n_features_in_ > 3


@pytest.mark.slow
def test_training_that_is_interrupted_goes_on(run, forked, houses, write_csv, tmp_path):
    """Ctrl-C at any moment of a fit with codes in files leaves at most a checkpoint, and the same model comes of it."""
    given = ("train", write_csv(houses), "--target", "price", "--n-estimators", "300", "--n-jobs", "1")
    least = re.search(r"at least ([\d.]+MB)", run(*given, "--max-memory", "1MB").err)[1]
    given += ("--max-memory", least, "--spill-dir", tmp_path)
    command = (*given, "--checkpoint", "half.fastens", "-o", "model.fastens")
    times = moments(forked, (*given, "-o", "whole.fastens"))
    others = set(os.listdir(tmp_path))
    for after in times:
        assert forked(command, after, signal.SIGINT) in (0, 130, -signal.SIGINT)
        assert set(os.listdir(tmp_path)) - others <= {"half.fastens", "model.fastens"}
        assert forked(command) == 0
        whole, model = (fastens.load(tmp_path / name)._ensemble.to_arrays() for name in WHOLE_AND_RESUMED)
        assert all((model[name] == array).all() for name, array in whole.items())
        assert set(os.listdir(tmp_path)) == others | {"model.fastens"}
        os.remove(tmp_path / "model.fastens")

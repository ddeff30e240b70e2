"""`fastens train --quality`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fastens
from fastens.cli.entry import main


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=["a", "b", "c"])
    path = tmp_path / "table.csv"
    frame.assign(y=frame["a"] + frame["b"] ** 2).to_csv(path, index=False)
    return str(path)


@pytest.mark.slow
def test_best_within_a_time(table, tmp_path, capsys):
    model = str(tmp_path / "model.fastens")
    assert main(["train", table, "--target", "y", "--quality", "best", "--time-limit", "1", "-o", model]) == 0
    found = fastens.load(model)
    assert found.time_limit == 1
    said = capsys.readouterr().out
    assert all(member in said for member in found.named_estimators_)


def test_parameters_override_the_quality_preset(table, tmp_path):
    model = str(tmp_path / "model.fastens")
    assert main(["train", table, "--target", "y", "--quality", "fast", "--learning-rate", "0.5", "-o", model]) == 0
    assert fastens.load(model).n_estimators_ == 40
    assert fastens.load(model).learning_rate == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time-limit", "3"], "--time-limit requires --quality best"),
        (["--quality", "fast", "--time-limit", "3"], "time_limit must be None with quality='fast'"),
        (["--quality", "best", "--model", "forest"], "--quality requires --model boosting; got forest"),
    ],
)
def test_invalid_input_raises(table, capsys, arguments, message):
    assert main(["train", table, "--target", "y", *arguments]) == 2
    assert message in capsys.readouterr().err

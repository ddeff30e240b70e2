"""`fastens compare`: the leaderboard on the screen, in a file and as a picture."""

import re
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from sklearn.dummy import DummyClassifier

from fastens.cli.compare import STACK
from fastens.cli.models import models
from fastens.cli.report.report import CONSTANT, Entry, rank_entries


@pytest.fixture
def two_families():
    """Quick to fit: one family of ours, and one that cannot do any table."""
    known = dict(models.FAMILIES)
    models.FAMILIES.clear()
    hopeless = models.Family("hopeless", lambda: DummyClassifier(strategy="no such strategy"), None)
    models.FAMILIES.update(boosting=known["boosting"], hopeless=hopeless)
    yield
    models.FAMILIES.clear()
    models.FAMILIES.update(known)


@pytest.mark.slow
def test_leaderboard(run, houses, write_csv, two_families, tmp_path):
    path = write_csv(houses.drop_columns("price"))
    result = run("compare", path, "--target", "sold", "--folds", 3, "-o", "board.csv", "--picture", "board.png")
    assert result.code == 0
    boosting, constant = re.search(r"boosting .*", result.out)[0], re.search(rf"{CONSTANT} .*", result.out)[0]
    assert result.out.index(boosting) < result.out.index(constant)
    assert re.search(r"boosting +0\.\d+ ± 0\.\d+ .* s +[\d.]+ µs +\d+ KiB", result.out)
    assert "hopeless: The 'strategy' parameter" in result.out
    board = pyarrow.csv.read_csv("board.csv")
    assert board["model"].to_pylist() == ["boosting", CONSTANT]
    assert board["log loss"][0].as_py() < board["log loss"][1].as_py()
    assert (tmp_path / "board.png").stat().st_size > 10_000


def test_regression_with_weights(run, houses, write_csv):
    path = write_csv(houses.drop_columns("sold").append_column("w", pyarrow.array(np.arange(300.0) % 3)))
    options = ("--target", "price", "--weight", "w", "--folds", 2, "--models", "boosting")
    result = run("compare", path, *options)
    assert result.code == 0
    assert "RMSE" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--models", "boosting,oracle"), "complement-nb for classification; got 'oracle'"),
        (("--folds", 1), "--folds must be at least 2"),
        (("--n-jobs", 0), "--n-jobs must be an integer other than 0"),
        (("--picture", "board.gif"), "--picture must end in .png"),
        (("--output", "no/such/board.csv"), "no/such"),
    ],
)
def test_errors(run, houses, write_csv, options, message):
    result = run("compare", write_csv(houses), "--target", "sold", *options)
    assert result.code == 2
    assert message in result.err


def test_folds_that_no_class_can_fill_are_refused(run, houses, write_csv):
    rows = np.concatenate([np.flatnonzero(houses["sold"].to_numpy() == label)[:4] for label in ("no", "yes")])
    result = run("compare", write_csv(houses.take(rows)), "--target", "sold", "--models", "tree")
    assert result.code == 2
    assert "at least 2 and at most 4, the number of rows of the most frequent class; got 5" in result.err


def test_mean_standard_error_and_rank():
    values = [0.1, 0.2, 0.4]
    better = Entry("better", scores=[{"RMSE": value} for value in values])
    worse = Entry("worse", scores=[{"RMSE": 1.0}, {"RMSE": 2.0}])
    assert better.mean("RMSE") == pytest.approx(np.mean(values))
    assert better.error("RMSE") == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert [entry.name for entry in rank_entries([Entry("failed", failure="why"), worse, better])] == [
        "better", "worse", "failed",
    ]  # fmt: skip


def test_a_class_that_a_fold_lacks(run, write_csv):
    table = pyarrow.table({"x": np.arange(40.0), "y": ["rare"] + ["a", "b"] * 19 + ["a"]})
    result = run("compare", write_csv(table), "--target", "y", "--folds", 3, "--models", "boosting")
    assert result.code == 0


@pytest.mark.slow
def test_all_families_and_their_stack(run, houses, write_csv):
    path = write_csv(houses.drop_columns("price"))
    result = run("compare", path, "--target", "sold", "--folds", 2, "--stack", "-o", "board.csv")
    assert (result.code, result.err) == (0, "")
    board = pyarrow.csv.read_csv("board.csv")
    quick = set(models.quick_families("classification"))
    assert set(board["model"].to_pylist()) == quick | {STACK, CONSTANT}
    assert quick.isdisjoint({"voting", "stacking", "cascade"})
    losses = dict(zip(board["model"].to_pylist(), board["log loss"].to_pylist(), strict=True))
    assert losses[STACK] < losses[CONSTANT]


@pytest.mark.slow
def test_regression_leaves_out_what_knows_classes_only(run, houses, write_csv):
    result = run("compare", write_csv(houses.drop_columns("sold")), "--target", "price", "--folds", 2)
    assert (result.code, result.err) == (0, "")
    assert "forest" in result.out
    assert "naive-bayes" not in result.out


def test_a_stack_needs_members(run, houses, write_csv, two_families):
    result = run("compare", write_csv(houses), "--target", "sold", "--models", "boosting", "--stack")
    assert result.err == "fastens: --stack needs at least two models; got boosting\n"
    options = ("--target", "sold", "--models", "boosting,hopeless", "--stack", "--folds", 2)
    result = run("compare", write_csv(houses), *options)
    assert result.code == 0
    assert "stack of these models: it needs two models that support the table, and there are 1" in " ".join(
        result.out.split()
    )


def test_ctrl_c_shows_the_models_that_are_done(run, houses, write_csv, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(models.FAMILIES["boosting"].classifier, "fit", interrupted)
    options = ("--target", "sold", "--folds", 2, "-o", "board.csv")
    result = run("compare", write_csv(houses), "--models", "tree,boosting", *options)
    assert (result.code, result.err) == (130, "fastens: interrupted\n")
    assert re.search(r"Leaderboard of the finished models .*\n( .*\n)* tree ", result.out)
    assert not Path("board.csv").exists()
    result = run("compare", "table.csv", "--models", "boosting,tree", *options)
    assert (result.code, "Leaderboard" in result.out) == (130, False)


def test_no_model_at_all_is_an_error(run, houses, write_csv, two_families):
    result = run("compare", write_csv(houses), "--target", "sold", "--models", "hopeless", "--folds", 2)
    assert result.code == 2
    assert "no model supports the table: hopeless: The 'strategy' parameter" in result.err


def test_whatever_goes_wrong_is_a_row(run, houses, write_csv, monkeypatch):
    def broken(**parameters):
        raise RuntimeError("out of order")

    model = models.FAMILIES["boosting"].classifier
    monkeypatch.setattr(model, "fit", lambda *args, **kwargs: broken())
    result = run("compare", write_csv(houses), "--target", "sold", "--models", "boosting,tree", "--folds", 2)
    assert result.code == 0
    assert "boosting: out of order" in result.out

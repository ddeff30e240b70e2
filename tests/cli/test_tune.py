"""`fastens tune`: a leaderboard, a model that the other commands read, and a search that goes on."""

import pyarrow.csv
import pytest

import fastens

QUICK = ("--folds", 3, "--n-jobs", 1)


@pytest.mark.slow
def test_a_search_and_its_files(run, houses, write_csv, tmp_path):
    path = write_csv(houses)
    result = run("tune", path, "--target", "sold", "--trials", 4, *QUICK)
    assert (result.code, result.err) == (0, "")
    for text in [
        "Leaderboard (3 folds, loss, mean ± standard error)",
        "Scores on 60 held-out rows",
        "4 models in",
        "the maximum number of trials was reached",
        "saved     model.fastens, model-leaderboard.csv",
    ]:
        assert text in result.out
    board = pyarrow.csv.read_csv(tmp_path / "model-leaderboard.csv")
    losses = board["loss"].to_pylist()
    assert losses == sorted(losses)
    assert set(board["model"].to_pylist()) == {"boosting", "forest", "extra-trees"}
    assert run("predict", "model.fastens", path, "-o", "out.csv").code == 0
    assert run("evaluate", "model.fastens", path).code == 0
    result = run("tune", path, "--target", "sold", "--trials", 6, *QUICK)
    assert "6 models in" in result.out
    assert len((tmp_path / "model-search.jsonl").read_text().splitlines()) == 7


@pytest.mark.slow
def test_a_scorer_and_kinds_of_models(run, houses, write_csv):
    options = (
        "--models",
        "forest",
        "--eval-metric",
        "r2",
        "--trials",
        2,
        "-o",
        "f.fastens",
        "--leaderboard",
        "b.parquet",
    )
    result = run("tune", write_csv(houses), "--target", "price", *options, *QUICK)
    assert result.code == 0
    assert 0 < fastens.read_table("b.parquet")["r2"][0].as_py() < 1
    assert isinstance(fastens.load("f.fastens"), fastens.RandomForestRegressor)


def test_a_time_too_short(run, houses, write_csv, tmp_path):
    result = run("tune", write_csv(houses), "--target", "price", "--time-limit", 0.001, *QUICK)
    assert result.code == 0
    assert "No model finished in time. The model is boosting with its defaults" in result.out
    assert not (tmp_path / "model-leaderboard.csv").exists()


@pytest.mark.slow
def test_interrupted_it_keeps_what_is_there(run, houses, write_csv, monkeypatch):
    run_trial = fastens.tuning.tune.run_trial

    def three_trials(trial, *arguments):
        if trial.index == 3:
            raise KeyboardInterrupt
        return run_trial(trial, *arguments)

    monkeypatch.setattr("fastens.tuning.tune.run_trial", three_trials)
    result = run("tune", write_csv(houses), "--target", "price", *QUICK)
    assert result.code == 0
    assert "3 models in" in result.out
    assert "interrupted" in result.out
    assert fastens.load("model.fastens").n_features_in_ > 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time-limit", 0), "--time-limit must be positive and finite"),
        (("--time-limit", "inf"), "--time-limit must be positive and finite; got inf"),
        (("--models", "boosting,trees"), "--models must be"),
        (("--trials", 0), "--trials must be"),
        (("--folds", 1), "--folds must be"),
        (("--folds", 1000), "--folds must be"),
        (("--eval-metric", "best"), "get_scorer_names() lists them); got 'best'."),
        (("--checkpoint", "table.csv"), "will not overwrite table.csv, which is an input"),
        (("--checkpoint", "other.csv"), "--checkpoint must be a new file or the file of an earlier search; other.csv"),
        (("--n-jobs", 0), "--n-jobs must be"),
        (
            ("--checkpoint", "model.fastens"),
            "--output and --checkpoint must be different files; got model.fastens for both",
        ),
        (
            ("--leaderboard", "b.csv", "--checkpoint", "./b.csv"),
            "--leaderboard and --checkpoint must be different files",
        ),
        (("--leaderboard", "b.xlsx"), "cannot write b.xlsx"),
    ],
)
def test_mistakes(run, houses, write_csv, options, message):
    write_csv("a,b\n1,2\n", "other.csv")
    result = run("tune", write_csv(houses), "--target", "price", *options)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1

"""`fastens train`, from the file to the model."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastens

QUICK = ("--n-estimators", 10, "--learning-rate", 0.3)


def score_of(out: str, name: str) -> tuple[float, float]:
    """The model's score and the constant prediction's."""
    found = re.search(rf"^ *{re.escape(name)} +([-\d.]+)%? +([-\d.]+)%?", out, re.MULTILINE)
    return float(found[1]), float(found[2])


def test_classification(run, houses, write_csv):
    path = write_csv(houses.drop_columns("price"))
    result = run("train", path, "--target", "sold", *QUICK)
    assert result.code == 0
    assert "300 (240 for training, 60 held out)" in result.out
    assert "5 (numbers 2, categories 1, true or false 1, dates 1)" in result.out
    assert "classification, 2 classes: no 50.0%, yes 50.0%" in result.out
    assert "saved" in result.out
    assert "fastens predict model.fastens" in result.out
    model, constant = score_of(result.out, "log loss")
    assert model < 0.4 < constant
    model, constant = score_of(result.out, "accuracy")
    assert constant < 70 < model
    assert re.search(r"area +\d\d\.\d%", result.out)


def test_regression(run, houses, write_csv):
    path = write_csv(houses.drop_columns("sold"))
    result = run("train", path, "--target", "price", "--output", "prices.fastens", *QUICK)
    assert result.code == 0
    assert "regression" in result.out
    assert score_of(result.out, "R²")[0] > 0.8
    assert abs(score_of(result.out, "R²")[1]) < 0.1
    for name in ("RMSE", "MAE"):
        model, constant = score_of(result.out, name)
        assert model < constant / 2
    model = fastens.load("prices.fastens")
    assert model.n_estimators_ == 10
    assert model.metadata_["table"]["target"] == "price"


@pytest.mark.parametrize(("task", "title"), [("auto", "breast cancer"), ("regression", "diabetes")])
def test_without_a_table(run, tmp_path, task, title):
    result = run("train", "--task", task, *QUICK)
    assert result.code == 0
    assert title in result.out
    assert "fastens train TABLE --target COL" in result.out
    assert list(tmp_path.iterdir()) == []


def test_every_parameter_reaches_the_model(run, houses, write_csv):
    path = write_csv(houses.select(["area", "rooms", "sold"]))
    given = {
        "n_estimators": 4, "learning_rate": 0.2, "max_leaf_nodes": 8, "max_depth": 3, "min_samples_leaf": 5,
        "growth.min_child_weight": 0.01, "growth.min_gain_to_split": 0.1, "l2_regularization": 0.5, "max_bins": 32,
        "max_features": 0.5, "subsample": 0.9, "class_weight": "balanced", "validation_fraction": 0.2,
        "n_iter_no_change": 3, "tol": 0.001, "random_state": 5, "n_jobs": 1,
    }  # fmt: skip
    options = [part for name, value in given.items() for part in ("--" + name.replace("_", "-"), value)]
    assert run("train", path, "--target", "sold", "--early-stopping", *options).code == 0
    params = fastens.load("model.fastens").get_params()
    assert {name: params[name.replace(".", "__")] for name in given} == given
    assert params["early_stopping"] is True


def test_none_and_losses(run, houses, write_csv):
    path = write_csv(houses.select(["area", "price"]))
    options = ("--max-leaf-nodes", "none", "--max-depth", 3, "--loss", "poisson")
    result = run("train", path, "--target", "price", *options, *QUICK)
    assert result.code == 0
    assert fastens.load("model.fastens").max_leaf_nodes is None
    model, constant = score_of(result.out, "poisson deviance")
    assert model < constant


@pytest.mark.slow
def test_columns_left_out_and_made_categories(run, houses, write_csv):
    names = pa.array([f"house {i}" for i in range(300)])
    path = write_csv(houses.append_column("name, or number", names))
    result = run("train", path, "--target", "sold", *QUICK)
    text = " ".join(result.out.split())
    assert "Ignored as identifiers, a distinct value in nearly every row: 'name, or number'." in text
    assert "--column 'name, or number:category'" in text
    assert "name, or number" not in fastens.load("model.fastens").feature_names_in_
    result = run("train", path, "--target", "sold", *QUICK, "--column", "name, or number:category")
    assert "identifiers" not in result.out
    assert "name, or number" in fastens.load("model.fastens").feature_names_in_
    drop = ("--drop", "name, or number", "--ignore", "price,built", "--categorical", "rooms")
    result = run("train", path, "--target", "sold", *drop, *QUICK)
    assert "identifiers" not in result.out
    assert "4 (numbers 1, categories 2, true or false 1)" in result.out
    assert list(fastens.load("model.fastens").feature_names_in_) == ["area", "rooms", "town", "garden"]


def test_weights(run, houses, write_csv):
    weight = np.where(np.array(houses["garden"]), 2.0, 0.0)
    path = write_csv(houses.append_column("w", pa.array(weight)))
    result = run("train", path, "--target", "price", "--weight", "w", *QUICK)
    assert f"{np.count_nonzero(weight)} (" in result.out
    assert "w" not in fastens.load("model.fastens").feature_names_in_


def test_all_rows(run, houses, write_csv):
    result = run("train", write_csv(houses), "--target", "price", "--test-fraction", 0, *QUICK)
    assert result.code == 0
    assert "held" not in result.out
    assert "RMSE" not in result.out


@pytest.mark.slow
def test_whole_numbers_say_how_they_were_taken(run, houses, write_csv):
    result = run("train", write_csv(houses), "--target", "rooms", *QUICK)
    assert (
        "'rooms' has 8 distinct integers and is treated as classification. For regression, use --task regression"
        in result.out
    )
    result = run("train", write_csv(houses), "--target", "rooms", "--task", "regression", *QUICK)
    assert "RMSE" in result.out
    assert "distinct integers" not in result.out


def test_the_same_seed_gives_the_same_report(run, houses, write_csv):
    path = write_csv(houses)
    reports = [run("train", path, "--target", "sold", "--subsample", 0.5, *QUICK).out for _ in range(2)]
    first, second = (re.sub(r"in [\d.]+ s", "", report) for report in reports)
    assert first == second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("table.csv", "--sheet", "A"), "--sheet applies only to workbooks and databases; got CSV"),
        (
            ("table.csv", "--sheet", "A", "--max-memory", "1GB"),
            "--sheet applies only to workbooks and databases; got CSV",
        ),
        (("table.parquet", "--separator", ";"), "--separator applies only to CSV files; got Parquet"),
        (
            ("table.parquet", "--skip-lines", 2, "--max-memory", "1GB"),
            "--skip-lines applies only to CSV files and workbooks; got Parquet",
        ),
        (
            ("table.csv", "--spill-dir", "."),
            "--spill-dir requires --max-memory, because it is used only if memory is limited",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(run, houses, write_csv, options, message):
    write_csv(houses)
    pq.write_table(houses, "table.parquet")
    result = run("train", *options, "--target", "price")
    assert (result.code, message in result.err, result.err.count("\n")) == (2, True, 1)


def test_missing_dates_and_nan_are_counted_once(run):
    numbers = np.arange(60.0)
    days = [None if row % 10 == 0 else datetime.date(2024, 1, 1 + row % 28) for row in range(60)]
    table = pa.table({"day": days, "size": np.where(numbers % 6 == 0, np.nan, numbers), "price": numbers % 7})
    pq.write_table(table, "homes.parquet")
    result = run("train", "homes.parquet", "--target", "price", "--n-estimators", 2, "-o", "m.fastens")
    assert re.search(r"missing +16 cells, in 2 columns", result.out)

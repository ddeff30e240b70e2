"""`fastens convert`: models of other libraries as files that `fastens predict` reads."""

import json

import numpy as np
import pandas as pd
import pytest

import fastens


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=300), "b": rng.integers(0, 4, 300)})


def test_a_model_of_lightgbm_predicts_a_table(run, table, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    theirs = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(table, table["a"] * table["b"])
    theirs.booster_.save_model("model.txt")
    result = run("convert", "model.txt", "-o", "model.fastens")
    assert result.code == 0
    assert "GradientBoostingRegressor with 5 trees and 2 columns written to model.fastens" in result.err
    table.to_csv("table.csv", index=False)
    assert run("predict", "model.fastens", "table.csv", "-o", "out.csv").code == 0
    np.testing.assert_array_equal(
        pd.read_csv("out.csv", float_precision="round_trip")["prediction"], theirs.predict(table)
    )


def test_categories_are_given_as_json(run, table):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(table, table["b"] % 2, feature_types=["q", "c"], enable_categorical=True)
    xgboost.train({"max_cat_to_onehot": 2}, data, 3).save_model("model.json")
    with open("names.json", "w", encoding="utf-8") as file:
        json.dump({"b": ["w", "x", "y", "z"]}, file)
    assert run("convert", "model.json", "-o", "model.fastens", "--categories", "names.json").code == 0
    names = table.assign(b=np.array(["w", "x", "y", "z"])[table["b"]])
    coded = fastens.from_model("model.json").predict(table)
    np.testing.assert_array_equal(fastens.load("model.fastens").predict(names), coded)


@pytest.mark.parametrize(("name", "key"), [("2019", "2019"), ("b", "1")])
def test_categories_of_a_column_are_given_by_a_name_of_digits_or_a_place(run, table, name, key):
    xgboost = pytest.importorskip("xgboost")
    table = table.rename(columns={"b": name})
    data = xgboost.DMatrix(table, table[name] % 2, feature_types=["q", "c"], enable_categorical=True)
    xgboost.train({"max_cat_to_onehot": 2}, data, 3).save_model("model.json")
    with open("names.json", "w", encoding="utf-8") as file:
        json.dump({key: ["w", "x", "y", "z"]}, file)
    result = run("convert", "model.json", "-o", "model.fastens", "--categories", "names.json")
    assert result.code == 0, result.err


def test_errors_are_one_line(run, tmp_path):
    result = run("convert", "none.txt", "-o", "out.fastens")
    assert (result.code, result.err) == (2, "fastens: no such file: none.txt\n")
    (tmp_path / "bad.txt").write_text("tree\nversion=v4\n")
    result = run("convert", tmp_path / "bad.txt", "-o", "out.fastens")
    assert result.code == 2
    assert "truncated" in result.err
    assert result.err.count("\n") == 1
    (tmp_path / "names.json").write_text('{"a":')
    result = run("convert", tmp_path / "bad.txt", "-o", "out.fastens", "--categories", "names.json")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "--categories: names.json must hold JSON" in result.err


def test_the_number_that_stands_for_missing_values(run, table):
    xgboost = pytest.importorskip("xgboost")
    table.loc[::3, "a"] = -999
    data = xgboost.DMatrix(table, table["b"] + (table["a"] > -999), missing=-999)
    theirs = xgboost.train({}, data, 3)
    theirs.save_model("model.json")
    assert run("convert", "model.json", "-o", "model.fastens", "--missing", "-999").code == 0
    np.testing.assert_allclose(fastens.load("model.fastens").predict(table), theirs.predict(data), rtol=1e-5)

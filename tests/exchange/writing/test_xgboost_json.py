import numpy as np
import pandas as pd
import pytest

import fastens
from fastens.exchange.export import view_of
from reference.exported import AVERAGED, BOOSTED, SEVERAL, fitted, mixed, numbers, raw_of, rows_for, with_positions

xgboost = pytest.importorskip("xgboost")


def matrix_of(model, X):
    columns = view_of(model).columns
    return xgboost.DMatrix(
        with_positions(model, X),
        feature_names=[column.name for column in columns],
        feature_types=["float" if column.categories is None else "c" for column in columns],
        enable_categorical=True,
    )


def booster_of(model):
    booster = xgboost.Booster()
    booster.load_model(bytearray(model.export(format="xgboost").encode()))
    return booster


def single_rows(model):
    """Rows in single precision without infinities, which XGBoost refuses."""
    X = rows_for(model, as_float32=True)
    return X.replace([np.inf, -np.inf], np.nan) if isinstance(X, pd.DataFrame) else np.where(np.isinf(X), np.nan, X)


def check(model):
    X = single_rows(model)
    expected = raw_of(model, X)
    found = booster_of(model).predict(matrix_of(model, X), output_margin=True)
    # Leaves differ by far more than sums in single precision do.
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_raw_predictions(name):
    check(fitted(name))


@pytest.mark.parametrize("name", ["two classes", "exponential", "three classes", "adaboost", "forest of two classes"])
def test_probabilities(name):
    model = fitted(name)
    X = single_rows(model)
    found = booster_of(model).predict(matrix_of(model, X))
    expected = model.predict_proba(X)
    np.testing.assert_allclose(found, expected if found.ndim > 1 else expected[:, 1], atol=1e-6)


def test_means_of_a_log_link():
    model = fitted("poisson")
    X = single_rows(model)
    np.testing.assert_allclose(booster_of(model).predict(matrix_of(model, X)), model.predict(X), rtol=1e-5)


def test_missing_values_that_are_a_category_of_their_own():
    X, y = mixed()
    options = fastens.Categories(missing="category")
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options, random_state=0)
    check(model.fit(X, y + 9 * X["few"].isna()))


def test_written_again_by_xgboost_it_is_the_same():
    model = fitted("mixed")
    matrix = matrix_of(model, single_rows(model))
    again = xgboost.Booster()
    again.load_model(booster_of(model).save_raw("ubj"))
    assert np.array_equal(again.predict(matrix), booster_of(model).predict(matrix))


def test_columns_keep_their_names():
    assert booster_of(fitted("mixed")).feature_names == ["size", "a b", "count", "few", "many", "whole"]


def test_models_of_tables_without_names_predict_for_arrays():
    model, (X, _) = fitted("regression"), numbers()
    booster = booster_of(model)
    assert booster.feature_names is None
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), booster.inplace_predict(X), rtol=1e-6)


def test_names_beyond_ascii():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["größe", "长度"])
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(X, X.sum(axis=1))
    booster = booster_of(model)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), model.predict(X), rtol=1e-5)
    again = fastens.from_model(bytes(booster.save_raw("json")))
    assert again.feature_names_in_.tolist() == booster.feature_names == list(X)


def test_control_characters_that_xgboost_writes_again():
    X = pd.DataFrame({"a": np.arange(60.0)})
    model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, np.where(X["a"] < 30, "\x1b[1m", "b\0"))
    again = fastens.from_model(bytes(booster_of(model).save_raw("json")))
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_backslashes_that_xgboost_writes_again():
    X = pd.DataFrame({"a": np.arange(60.0)})
    labels = np.array(["C:\\users", "\\é\\\\u00e9", 'n\\"\\n'])
    model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, labels[np.arange(60) // 20])
    for content in (model.export(format="xgboost").encode(), bytes(booster_of(model).save_raw("json"))):
        assert fastens.from_model(content).classes_.tolist() == sorted(labels)


def test_columns_of_categories_split_by_whether_they_are_missing_alone():
    town = pd.Series(["Bonn", "Rom", None] * 40, dtype="category")
    X = pd.DataFrame({"town": town, "size": np.arange(120.0)})
    y = 9.0 * town.isna()
    model = fastens.GradientBoostingRegressor(n_estimators=2, categories=fastens.Categories(missing="category"))
    again = fastens.from_model(model.fit(X, y).export(format="xgboost").encode())
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-5)
    assert again._encoder.categories == model._encoder.categories


def test_sorted_levels_are_refused():
    model = fastens.GradientBoostingRegressor(loss="quantile", quantile=[0.1, 0.9], n_estimators=3).fit(*numbers())
    with pytest.raises(ValueError, match="format='xgboost' cannot represent predictions with the link 'sorted'"):
        model.export(format="xgboost")

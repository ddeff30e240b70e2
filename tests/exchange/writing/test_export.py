"""What all formats share: which models can be written, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import fastens
from fastens.exchange.export import FORMATS
from reference.exported import classes_of, fitted, mixed, numbers

TEXTS = ("lightgbm", "xgboost", "c", "sql")


@pytest.mark.parametrize("format", TEXTS)
def test_bags_of_trees_are_forests(format):  # noqa: A002
    X, y = mixed()
    bags = fastens.BaggingRegressor(n_estimators=3, max_features=3, random_state=0).fit(X, y)
    assert bags.export(format=format) == bags._forest.export(format=format)
    assert len(bags.export(format=format)) > 1000


def test_other_members_are_refused():
    X, y = numbers()
    boosting = fastens.GradientBoostingRegressor(n_estimators=2)
    for model in (
        fastens.BaggingRegressor(boosting, n_estimators=2).fit(X, y),
        fastens.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2).fit(X, y > 0),
    ):
        with pytest.raises(ValueError, match=f"{type(model).__name__} must be made of its own trees for export"):
            model.export(format="lightgbm")


@pytest.mark.parametrize("format", FORMATS)
def test_models_that_no_format_supports_raise(format):  # noqa: A002
    X, y = numbers()
    cases = {
        "linear leaves": fastens.GradientBoostingRegressor(n_estimators=2, linear_leaves=fastens.LinearLeaves()).fit(
            X, y
        ),
        "the weighted median of trees": fastens.AdaBoostRegressor(n_estimators=2).fit(X, y),
        "the leaves of trees": fastens.RandomTreesEmbedding(n_estimators=2).fit(X),
        "a custom loss with a method predict": fastens.GradientBoostingRegressor(loss=_OwnLoss(), n_estimators=2).fit(
            X, y
        ),
    }
    for reason, model in cases.items():
        with pytest.raises(ValueError, match=f"format='{format}' cannot represent {reason}"):
            model.export(format=format)


class _OwnLoss:
    def derivatives(self, y, raw):
        return raw - y, np.ones_like(raw)

    def predict(self, raw):
        return raw**3


@pytest.mark.parametrize(
    ("format", "character"),
    [
        ("sql", "\0"),
        ("c", "\0"),
        *((name, "\ud800") for name in ("sql", "c", "onnx", "xgboost")),
    ],
)
def test_characters_that_a_format_cannot_hold_are_refused_by_name(format, character):  # noqa: A002
    text = f"a{character}b"
    plain = pd.DataFrame({"town": pd.Series(["a", text] * 40, dtype=object), "size": np.arange(80.0)})
    named = plain[["size"]].set_axis(pd.Index([text], dtype=object), axis=1)
    rule = f"format='{format}' cannot represent the character {character!r} in the "
    for X, y, what in [
        (plain, plain["town"] == "a", f"category {text!r} of the column 'town'"),
        (plain[["size"]], plain["town"], f"label {text!r}"),
        (named, plain["town"] == "a", f"column {text!r}"),
    ]:
        model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, y)
        if (format == "c" and X is named) or (format == "xgboost" and X is not named):
            model.export(format=format)
            continue
        with pytest.raises(ValueError, match=re.escape(rule + what)):
            model.export(format=format)


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(ValueError, match=r"format must be one of 'lightgbm', 'onnx', .*; got 'pickle'"):
        fitted("regression").export(format="pickle")


def test_before_fit():
    with pytest.raises(Exception, match="not fitted"):
        fastens.GradientBoostingRegressor().export(format="sql")


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "sklearn"])
def test_the_same_model_gives_the_same_file(format, tmp_path):  # noqa: A002
    if format == "onnx":
        pytest.importorskip("onnx")
    model = fitted("mixed")
    model.save(tmp_path / "model.fastens")
    again = fastens.load(tmp_path / "model.fastens").export(format=format)
    assert again == model.export(format=format)
    model.export(tmp_path / "out", format=format)
    written = (tmp_path / "out").read_bytes()
    assert written == (again if isinstance(again, bytes) else again.encode())


def test_dates_are_the_columns_of_their_parts():
    X = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=200), "b": np.arange(200.0)})
    model = fastens.GradientBoostingClassifier(n_estimators=3).fit(X, classes_of(X["day"].dt.month.to_numpy()))
    names = next(line for line in model.export(format="lightgbm").splitlines() if line.startswith("feature_names"))
    assert names.removeprefix("feature_names=").count("day:_") == len(model.feature_parts_) - 1 > 1


def test_averages_over_prunings_are_in_the_leaves():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = numbers()
    for model in (
        fastens.RandomForestRegressor(n_estimators=5, averaging="posterior", random_state=0).fit(X, y),
        fastens.BayesTreeRegressor().fit(X, y),
    ):
        found = lightgbm.Booster(model_str=model.export(format="lightgbm")).predict(X)
        assert np.array_equal(found, model.predict(X))

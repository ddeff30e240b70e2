"""Columns of frames are matched by any hashable name, not by position."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import fastens
from fastens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    MixedNB,
    RandomForestRegressor,
    StackingRegressor,
    TableSource,
    TANClassifier,
    VotingRegressor,
)
from fastens.engine.names import OtherName, from_state, plain_name, plain_names, texts_of, to_state
from reference.public_estimators import CLASSES, REQUIRED, make, shrink_default_members, table_for

OF_TABLES = sorted(CLASSES.keys() - {"TextClassifier"} - REQUIRED.keys())
DAY = pd.Timestamp("2024-02-29 12:30")
NAMES = {
    "positions": [0, 1, 2, 3],
    "NumPy": [np.int64(7), np.int32(2021), np.float64(0.5), np.str_("text")],
    "mixture": [("a", 1), DAY, None, 2021],
    "times": [DAY.tz_localize("UTC"), datetime.date(2024, 2, 29), pd.Timedelta("1h"), pd.NaT],
    "others": [pd.Period("2024-01"), pd.Interval(0, 1), frozenset({1}), float("nan")],
}
METHODS = ("predict", "predict_proba", "transform", "apply", "score_samples", "decision_function")


@pytest.fixture
def table(rng):
    X = rng.normal(size=(200, 4))
    return X, X @ [1.0, -2.0, 3.0, 0.5]


def named(X, names):
    frame = pd.DataFrame(np.asarray(X))
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    return frame


def permuted(frame):
    return frame.iloc[:, [2, 0, 3, 1]].assign(**{"one more": 1.0}) if len(frame.columns) == 4 else frame


def answers(model, X):
    found = {}
    for method in METHODS:
        if hasattr(model, method):
            answer = getattr(model, method)(X)
            found[method] = answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer)
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for method, answer in found.items():
        np.testing.assert_array_equal(answer, expected[method], err_msg=method)


@pytest.mark.parametrize("kind", ["positions", "mixture"])
@pytest.mark.parametrize("name", OF_TABLES)
def test_every_estimator_matches_columns_by_name(name, kind, monkeypatch, tmp_path):
    shrink_default_members(monkeypatch, 2)
    X, *y = table_for(name)
    parameters = {"n_estimators": 3} if "n_estimators" in make(name).get_params() else {}
    model, frame, queries = make(name, **parameters), named(X, NAMES[kind]), {}
    if name == "GradientBoostingRanker":  # a file holds no class of the tests
        model, queries = fastens.GradientBoostingRanker(**parameters), {"group": [len(X)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, *y, **queries)
        expected = answers(model, frame)
        assert expected
        other = permuted(frame)
        assert_same(answers(model, other), expected)
        with pytest.raises(ValueError, match="feature names should match"):
            next(getattr(model, each) for each in METHODS if hasattr(model, each))(frame.iloc[:, :3])
        if hasattr(model, "save"):
            model.save(tmp_path / "model")
            assert_same(answers(fastens.load(tmp_path / "model"), other), expected)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_names_of_any_kind(names, table, tmp_path):
    X, y = table
    frame = named(X, names)
    model = GradientBoostingRegressor(n_estimators=5).fit(frame, y)
    expected = GradientBoostingRegressor(n_estimators=5).fit(X, y).predict(X)
    model.save(tmp_path / "model")
    for each in (model, fastens.load(tmp_path / "model")):
        np.testing.assert_array_equal(each.predict(permuted(frame)), expected)
        with pytest.raises(ValueError, match="yet now missing:\n- "):
            each.predict(named(X, ["w", "x", "y", "z"]))
    assert model.to_text().count("\n") > 3
    assert len(model.explain(frame[:3]).feature_names) == 4


def test_several_levels_of_names(table):
    X, y = table
    frame = pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a", "b"], [2020, 2021]]))
    model = GradientBoostingRegressor(n_estimators=5, monotonic_cst={("a", 2021): 1}).fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame.iloc[:, ::-1]), model.predict(frame))


def test_equal_names_are_one_name(table):
    X, y = table
    model = GradientBoostingRegressor(n_estimators=5).fit(named(X, [0, 1, 2, 3]), y)
    expected = model.predict(X)
    for names in ([0.0, np.int8(1), 2, np.float32(3)], [False, True, 2, 3]):
        np.testing.assert_array_equal(model.predict(named(X, names).iloc[:, ::-1]), expected)
    with pytest.raises(ValueError, match="unique column names; got 1 more than once"):
        model.fit(named(X, [0, 1, 2, 1]), y)
    moments = [DAY, "a", "b", "c"]
    model.fit(named(X, moments), y)
    for same in (DAY.to_pydatetime(), DAY.to_datetime64(), np.datetime64("2024-02-29T12:30")):
        np.testing.assert_array_equal(model.predict(named(X, [same, *moments[1:]]).iloc[:, ::-1]), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(named(X, [DAY + pd.Timedelta("1ns"), *moments[1:]]))


def test_positions_are_the_names_of_frames_without_names(table):
    X, y = table
    frame = pd.DataFrame(X)
    for fitted in (X, frame):
        model = GradientBoostingRegressor(n_estimators=5).fit(fitted, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.predict(X), model.predict(frame))
    for names in ([1, 2, 3, 4], ["a", "b", "c", "d"], [3, 2, 1, 9]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(named(X, names))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        GradientBoostingRegressor(n_estimators=5).fit(named(X, [5, 6, 7, 8]), y).predict(X)
    with pytest.warns(UserWarning, match="X has feature names, but"):
        GradientBoostingRegressor(n_estimators=5).fit(X, y).predict(frame[[1, 0, 2, 3]])


def test_validation_tables_are_matched_by_name(table):
    X, y = table
    frame = pd.DataFrame(X)
    model = GradientBoostingRegressor(n_estimators=30, learning_rate=0.3, early_stopping=True)
    expected = clone(model).fit(frame, y, X_val=frame, y_val=y)
    found = clone(model).fit(frame, y, X_val=frame[[3, 1, 0, 2]], y_val=y)
    assert found.n_estimators_ == expected.n_estimators_ > 1
    np.testing.assert_array_equal(
        found.evals_result_["validation"]["loss"], expected.evals_result_["validation"]["loss"]
    )


YEARS = [2020, 2021, 2022, 2023]


@pytest.mark.parametrize(
    ("by_name", "by_text"),
    [
        ({"monotonic_cst": {2021: 1}}, {"monotonic_cst": {"2021": 1}}),
        ({"interaction_cst": [[2020, 2023], [2021, 2022]]}, {"interaction_cst": [["2020", "2023"], ["2021", "2022"]]}),
        ({"categorical_features": [2020]}, {"categorical_features": ["2020"]}),
        ({"categorical_features": 2020}, {"categorical_features": "2020"}),
        (
            {"feature_weights": {2022: 0}, "max_features": 2, "random_state": 0},
            {"feature_weights": {"2022": 0}, "max_features": 2, "random_state": 0},
        ),
    ],
)
def test_numbers_in_parameters_are_names_where_columns_are_named_by_numbers(by_name, by_text, table):
    X, y = table
    X = X.round()
    model = GradientBoostingRegressor(n_estimators=5)
    expected = clone(model).set_params(**by_text).fit(named(X, map(str, YEARS)), y)
    found = clone(model).set_params(**by_name).fit(named(X, YEARS), y)
    np.testing.assert_array_equal(found.predict(named(X, YEARS)), expected.predict(named(X, map(str, YEARS))))


def test_a_number_that_is_not_a_name_among_numbers_is_an_error(table):
    X, y = table
    with pytest.raises(ValueError, match=r"monotonic_cst must name columns of X; got 0, and the columns are \[2020"):
        GradientBoostingRegressor(monotonic_cst={0: 1}).fit(named(X, YEARS), y)
    with pytest.raises(ValueError, match=r"categorical_features must name columns of X; got 1"):
        GradientBoostingRegressor(categorical_features=[1]).fit(named(X, YEARS), y)
    # A name wins over a position.
    frame = named(X, [3, 2, 1, 0])
    model = GradientBoostingRegressor(n_estimators=20, monotonic_cst={3: 1}).fit(frame, y)
    rows = named(np.repeat(X[:1], 50, axis=0), [3, 2, 1, 0])
    rows[3] = np.linspace(-2, 2, 50)
    assert (np.diff(model.predict(rows)) >= 0).all()
    assert model._encoder.names == [3, 2, 1, 0]


@pytest.mark.parametrize("target", [3, np.int64(3), 2021, ("a", 1), DAY])
def test_targets_by_name(target, table):
    X, y = table
    frame = named(np.column_stack([X[:, :3], y]), [0, 1, 2, target])
    expected = GradientBoostingRegressor(n_estimators=5).fit(frame.iloc[:, :3], y)
    for given in (frame, TableSource(frame)):
        model = GradientBoostingRegressor(n_estimators=5).fit(given, target)
        np.testing.assert_array_equal(model.predict(frame), expected.predict(frame))
        assert model.n_features_in_ == 3
    assert model.score(frame, target) == expected.score(frame.iloc[:, :3], y)
    with pytest.raises(ValueError, match="y must name a column of X; got 17"):
        model.fit(frame, 17)


def test_numbers_are_weights_and_labels_before_they_are_names(table):
    X, y = table
    frame = named(X, [1, 2, 3, 4])
    model = GradientBoostingRegressor(n_estimators=3)
    expected = clone(model).fit(frame, y, sample_weight=np.full(200, 2)).predict(frame)
    np.testing.assert_array_equal(clone(model).fit(frame, y, sample_weight=2).predict(frame), expected)
    labels = [1, 2, 1, 2] * 50
    assert GradientBoostingClassifier(n_estimators=3).fit(frame, labels).classes_.tolist() == [1, 2]
    assert GradientBoostingClassifier(n_estimators=3).fit(frame[:4], [1, 2, 1, 2]).n_features_in_ == 4
    several = RandomForestRegressor(3).fit(named(X, YEARS), [2022, 2023])
    assert (several.n_features_in_, several.n_outputs_) == (2, 2)


def test_members_match_the_columns_that_they_are_given(table):
    X, y = table
    frame = named(X, YEARS)
    forest = RandomForestRegressor(5, random_state=0)
    for model in (
        VotingRegressor([("a", forest), ("b", forest)], columns={"a": [2021, 2020]}),
        StackingRegressor([("a", forest), ("b", GradientBoostingRegressor(n_estimators=3))], columns={"b": [2022]}),
    ):
        model.fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame.iloc[:, ::-1]), model.predict(frame))


def test_streams_and_parts_are_matched_by_name(table):
    X, y = table
    frame, labels = named(X, YEARS), (y > 0).astype(int)
    model = MixedNB().fit(TableSource(frame), labels)
    np.testing.assert_array_equal(model.predict_proba(TableSource(frame.iloc[:, ::-1])), model.predict_proba(frame))
    parts = MixedNB().partial_fit(frame[:90], labels[:90], classes=[0, 1])
    parts.partial_fit(frame[90:].iloc[:, ::-1], labels[90:])
    np.testing.assert_allclose(parts.predict_proba(frame), model.predict_proba(frame), rtol=1e-9)
    binned = BinnedTable.from_source(frame, y, keep_values=True)
    boosted = GradientBoostingRegressor(n_estimators=3).fit(binned, y)
    np.testing.assert_array_equal(boosted.predict(frame.iloc[:, ::-1]), boosted.predict(binned))
    kinds = MixedNB(kinds={2021: "bernoulli"}).fit(frame, labels)
    assert kinds.kinds_.tolist() == ["gaussian", "bernoulli", "gaussian", "gaussian"]
    assert TANClassifier(root=2022).fit(frame.round(), labels).parents_[2] == -1


@pytest.mark.slow
def test_pictures_of_columns_by_name(table):
    X, y = table
    frame = named(X, YEARS)
    model = GradientBoostingRegressor(n_estimators=3).fit(frame, y)
    assert len(model.plot_dependence(frame, [2021, (2020, 2023)])) == 2
    assert model.plot_dependence(frame, 2021)[0].get_xlabel() == "2021"
    with pytest.raises(ValueError, match="features must name columns of X; got 0"):
        model.plot_dependence(frame, 0)


def test_models_in_other_formats_keep_names(table):
    X, y = table
    frame = named(X, NAMES["mixture"])
    model = GradientBoostingRegressor(n_estimators=3).fit(frame, y)
    again = fastens.from_model(model.export(format="lightgbm"))
    np.testing.assert_allclose(again.predict(permuted(frame)), model.predict(frame))


def test_frames_of_other_libraries_have_texts(table):
    X, y = table
    model = GradientBoostingRegressor(n_estimators=3).fit(named(X, list("abcd")), y)
    frame = pl.DataFrame(X, schema=list("abcd"))
    np.testing.assert_array_equal(model.predict(frame[:, ::-1]), model.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pl.DataFrame(X, schema=list("0123")))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_names_as_state(names):
    plain = plain_names(names)
    assert from_state(to_state(plain)) == plain
    assert len(set(texts_of(plain) or range(4))) == 4


@pytest.mark.parametrize("state", [[[1]], [{"kind": "a"}], [{"tuple": 3}], {"a": 1}, [1, 1.0], [{"tuple": [[]]}]])
def test_states_that_are_not_names(state):
    with pytest.raises(ValueError, match="names of the columns are"):
        from_state(state)


def test_plain_names():
    assert plain_name(np.int64(3)) == 3
    assert plain_names(plain_names(NAMES["others"])) == plain_names(NAMES["others"])
    assert plain_name(DAY) == plain_name(DAY.to_datetime64()) == OtherName("datetime", "2024-02-29T12:30:00")
    assert plain_name(DAY.tz_localize("Europe/Berlin")) == plain_name(DAY.tz_localize("UTC") - pd.Timedelta("1h"))
    assert plain_name(float("nan")) == plain_name(np.float32("nan")) != plain_name(None)
    assert texts_of([1, "1"]) == ["1", "'1'"]

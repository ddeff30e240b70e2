"""Monotonic constraints on ordered categories, against the same column as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fastens
from fastens import (
    AdaBoostRegressor,
    BaggingRegressor,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from fastens.params.options import Categories
from reference.rank_fits import fit_on_ranks

GRADES = ["poor", "fair", "good", "fine"]  # their alphabetical order is another one
MODELS = {
    "boosting": GradientBoostingRegressor(n_estimators=10),
    "linear": GradientBoostingRegressor(n_estimators=10, linear_leaves=True),
    "tree": DecisionTreeRegressor(random_state=0),
    "forest": RandomForestRegressor(5, random_state=0),
    "extra trees": ExtraTreesRegressor(5, random_state=0),
    "AdaBoost": AdaBoostRegressor(n_estimators=5, random_state=0),
}


@pytest.fixture(scope="module")
def grades():
    """Positions, names with missing values, and a target that falls once with the grade."""
    rng = np.random.default_rng(0)
    position = rng.integers(0, 4, 400)
    names = np.array(GRADES, dtype=object)[position]
    names[:9] = None
    y = np.array([0.0, 2.0, 1.0, 3.0])[position] + 0.5 * rng.normal(size=400)
    return np.where(np.arange(400) < 9, np.nan, position), names, rng.normal(size=400), y


def frame(names, x, order=GRADES):
    return pd.DataFrame({"grade": pd.Categorical(names, categories=order, ordered=True), "x": x})


def arrow(names, x):
    codes = pa.array([None if name is None else GRADES.index(name) for name in names])
    return pa.table({"grade": pa.DictionaryArray.from_arrays(codes, pa.array(GRADES), ordered=True), "x": x})


def enum(names, x):
    return pl.DataFrame({"grade": pl.Series(list(names), dtype=pl.Enum(GRADES)), "x": x})


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", MODELS)
def test_ordered_categories_are_split_as_their_positions(grades, name, sign, weighted, tmp_path):
    positions, names, x, y = grades
    weight = np.arange(400) % 3 if weighted else None
    model = MODELS[name].set_params(monotonic_cst={"grade": sign})
    numbers = pd.DataFrame({"grade": positions, "x": x})
    expected = model.fit(numbers, y, weight).predict(numbers)
    for make in (frame, arrow, enum):
        table = make(names, x)
        np.testing.assert_array_equal(model.fit(table, y, weight).predict(table), expected)
    at_zero = model.predict(frame(GRADES, np.zeros(4)))
    assert (sign * np.diff(at_zero) >= 0).all()
    assert np.ptp(at_zero) > 0 or sign < 0
    table = frame(names, x)
    model.save(tmp_path / "model")
    again = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(table), expected)
    np.testing.assert_array_equal([again.predict(table[row : row + 1])[0] for row in (0, 20)], expected[[0, 20]])
    np.testing.assert_array_equal(model.predict(table.assign(grade=names)), expected)  # the values decide


def test_order_of_streams_ranks_and_options(grades):
    _, names, x, y = grades
    model, table = GradientBoostingRegressor(n_estimators=5, monotonic_cst={"grade": 1}, n_jobs=1), arrow(names, x)
    expected = model.fit(table, y).predict(table)
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(100))
    np.testing.assert_array_equal(model.fit(stream, y).predict(table), expected)
    wide = frame(names, x).loc[np.arange(6000) % 400].reset_index(drop=True)
    whole = model.fit(wide, np.tile(y, 15)).predict(wide)
    make = lambda: GradientBoostingRegressor(n_estimators=5, monotonic_cst={"grade": 1}, n_jobs=1)  # noqa: E731
    for own in fit_on_ranks(3, make, np.tile(y, 15), table=wide):
        np.testing.assert_array_equal(own.predict(wide), whole)
    for options in (Categories(missing="category"), Categories("target"), Categories("ordered")):
        own = model.set_params(categories=options).fit(table, y)
        np.testing.assert_array_equal(own.predict(table), expected)
        np.testing.assert_array_equal(own.predict(frame(names, x)[:1]), expected[:1])


def test_many_ordered_categories_keep_their_order():
    rng = np.random.default_rng(1)
    names = [f"{place:03}" for place in range(60)]
    position = rng.integers(0, 60, 500)
    table = pd.DataFrame({"x": pd.Categorical(np.array(names)[position], categories=names[::-1], ordered=True)})
    model = GradientBoostingRegressor(n_estimators=20, monotonic_cst=[-1]).fit(
        table, position + 9 * rng.normal(size=500)
    )
    assert (np.diff(model.predict(pd.DataFrame({"x": names}))) >= 0).all()


def test_classes_and_ensembles_obey_the_order(grades):
    _, names, x, y = grades
    table, steps = frame(names, x), frame(GRADES, np.zeros(4))
    level = np.digitize(y, [0.8, 2.0])
    model = GradientBoostingClassifier(n_estimators=10, monotonic_cst={2: {"grade": 1}}).fit(table, level)
    assert (np.diff(model.decision_function(steps)[:, 2]) >= 0).all()
    tree = DecisionTreeRegressor(monotonic_cst={"grade": 1})
    for whole in (BaggingRegressor(tree, 5, random_state=0), StackingRegressor([("tree", tree)], cv=3)):
        assert (np.diff(whole.fit(table, y).predict(steps)) >= 0).all()


def test_trees_show_the_names_in_order(grades):
    _, names, x, y = grades
    text = DecisionTreeRegressor(max_depth=1, monotonic_cst=[1, 0]).fit(frame(names, x), y).to_text()
    assert "grade in {poor, fair, good} or missing" in text
    assert "grade in {fine}" in text


def test_limits_of_ordered_categories(grades):
    _, names, x, y = grades
    model, table = GradientBoostingRegressor(n_estimators=5, monotonic_cst={"grade": 1}), frame(names, x)
    with pytest.raises(
        ValueError, match=r"column 'grade' is categorical\. Declare their order with pandas\.Categorical"
    ):
        model.fit(table.assign(grade=names), y)
    with pytest.raises(ValueError, match=r"Declare their order"):
        model.fit(table.assign(grade=pd.Categorical(names, categories=GRADES)), y)
    with pytest.raises(ValueError, match=r"Column 'grade' must hold numbers or unordered categories to be exported"):
        model.fit(table, y).export("unused", format="lightgbm")
    with pytest.raises(ValueError, match=r"must have the ordered categories of the earlier fit.*got 'best'"):
        model.set_params(warm_start=True, n_estimators=6).fit(frame(names, x, [*GRADES, "best"]), y)
    again = GradientBoostingRegressor(n_estimators=5, monotonic_cst={"grade": 1}).fit(frame(names, x, GRADES[::-1]), y)
    with pytest.raises(ValueError, match="must have the same ordered categories"):
        fastens.merge_models([again, GradientBoostingRegressor(**again.get_params(deep=False)).fit(table, y)])
    plain = GradientBoostingRegressor(n_estimators=5).fit(table, y)  # without a constraint, the order is not used
    np.testing.assert_array_equal(plain.predict(table), plain.fit(table.assign(grade=names), y).predict(table))

"""scikit-learn's own partial dependence, numbers and pictures, on every kind of model and table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.inspection import PartialDependenceDisplay, partial_dependence
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import fastens

MODELS = {
    "boosting": {"n_estimators": 10},
    "linear leaves": {"n_estimators": 10, "linear_leaves": True},
    "forest": {"n_estimators": 10, "random_state": 0},
    "extra trees": {"n_estimators": 10, "random_state": 0},
    "tree": {"max_depth": 5},
}
STEMS = {"forest": "RandomForest", "extra trees": "ExtraTrees", "tree": "DecisionTree"}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(300, 3)), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], 300))
    y = 2 * X["a"] + X["b"] ** 2 + (X["kind"] == "y")
    X.loc[::11, "b"] = np.nan
    return X, y.fillna(0).to_numpy()


def make(name, n_classes):
    stem = STEMS.get(name, "GradientBoosting")
    return getattr(fastens, stem + ("Classifier" if n_classes else "Regressor"))(**MODELS[name])


def target(y, n_classes):
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes)) if n_classes else y


def by_hand(model, X, column, grid):
    """The mean prediction with one column set to each value of a grid."""
    predict = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    means = []
    for value in grid:
        changed = X.copy()
        if isinstance(X, pd.DataFrame):
            changed[column] = pd.Series([value] * len(X), dtype=X[column].dtype, index=X.index)
        else:
            changed[:, column] = value
        means.append(predict(changed).mean(axis=0))
    means = np.array(means).reshape(len(grid), -1).T
    return means[1:] if len(means) == 2 else means


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("kind", ["array", "frame", "frame with categories"])
def test_partial_dependence(name, n_classes, kind, table):
    X, y = table
    categories = kind == "frame with categories"
    X = X if categories else X[["a", "b", "c"]]
    X = X.to_numpy() if kind == "array" else X
    model = make(name, n_classes).fit(X, target(y, n_classes))
    columns = ["a", "b", "kind"] if categories else ["a", "b"] if kind == "frame" else [0, 1]
    for column in columns:
        of_categories = [column] if column == "kind" else None
        # An empty value has no quantile: the grid is given where one is missing.
        given = {"custom_values": {column: np.linspace(-0.9, 0.9, 4)}} if column in ("b", 1) else {}
        found = partial_dependence(
            model, X, [column], grid_resolution=4, kind="both", categorical_features=of_categories, **given
        )
        expected = by_hand(model, X, column, found["grid_values"][0])
        np.testing.assert_allclose(found["average"], expected, rtol=1e-6, atol=1e-7)
        assert found["individual"].shape == (len(expected), 300, len(found["grid_values"][0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_pictures(name, n_classes, table):
    X, y = table
    model = make(name, n_classes).fit(X, target(y, n_classes))
    options = {"target": 2} if n_classes == 3 else {}
    drawn = PartialDependenceDisplay.from_estimator(
        model, X, ["a", "kind"], categorical_features=["kind"], grid_resolution=8, **options
    )
    line, bars = drawn.lines_[0, 0], drawn.axes_[0, 1].patches
    assert line.get_ydata()[-1] > line.get_ydata()[0]
    assert int(np.argmax([bar.get_height() for bar in bars])) == 1
    assert [text.get_text() for text in drawn.axes_[0, 1].get_xticklabels()] == ["x", "y", "z"]
    pair = PartialDependenceDisplay.from_estimator(model, X, [("a", "c")], grid_resolution=4, **options)
    assert pair.contours_[0, 0] is not None
    each = PartialDependenceDisplay.from_estimator(
        model, X, ["a"], kind="both", subsample=5, grid_resolution=4, random_state=0, **options
    )
    assert each.lines_.shape[-1] == 6


def test_in_a_pipeline(table):
    X, y = table
    model = make_pipeline(FunctionTransformer(), fastens.GradientBoostingRegressor(n_estimators=5)).fit(X, y)
    found = partial_dependence(model, X, ["a"], grid_resolution=5)
    assert found["average"].shape == (1, 5)


@pytest.mark.slow
def test_names_that_are_texts_and_numbers(table):
    X, y = table
    mixed = X.set_axis([1, "b", 2, "kind"], axis=1)
    model = fastens.DecisionTreeRegressor(max_depth=3).fit(mixed, y)
    drawn = model.plot_dependence(mixed, ["b", "kind", ("b", 1)])
    assert len(drawn) == 3
    with pytest.raises(ValueError, match="features must name columns of X; got 0"):
        model.plot_dependence(mixed, [("b", 0)])


def test_missing_values_of_objects_are_left_out(rng):
    words = pd.DataFrame({"word": np.array(["a", "b", None], object)[np.arange(60) % 3], "x": rng.normal(size=60)})
    y = (words["word"] == "a") + 0.0
    of_frame, of_array = (
        fastens.DecisionTreeRegressor(max_depth=3).fit(table, y).plot_dependence(table, 0)[0]
        for table in (words, words.to_numpy(object))
    )
    heights = [[bar.get_height() for bar in ax.patches] for ax in (of_frame, of_array)]
    assert heights[0] == heights[1]
    assert len(heights[0]) == 2

"""The plane of two columns: regions are those of `predict`, for tables of every kind."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import fastens
from fastens import plot_decision_boundary
from fastens.inspection.decision_plot import class_colours

mpl.use("Agg")
MOONS = make_moons(200, noise=0.2, random_state=0)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def mixed():
    """Numbers, categories and truth values, some missing; 300 rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": rng.normal(size=300),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], 300)),
            "age": rng.integers(18, 80, 300),
            "smoker": rng.random(300) < 0.3,
            "city": rng.choice(["Paris", "Rome", "Oslo"], 300, p=[0.5, 0.3, 0.2]),
        }
    )
    table.loc[::9, "size"] = np.nan
    table.loc[::11, "colour"] = np.nan
    y = np.where((table["size"].fillna(2) > 0) & (table["colour"] != "red"), "yes", "no")
    return table, y


def answer_at(ax, x, y, n_classes):
    """Which class has the colour at a place."""
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    values = np.asarray(image.get_array())
    row = int((y - bottom) / (top - bottom) * len(values))
    column = int((x - left) / (right - left) * values.shape[1])
    shade = 1 - values[row, column, :3]
    full = 1 - class_colours(n_classes)[:, :3]
    return int(np.argmin([np.abs(shade / shade.max() - one / one.max()).sum() for one in full]))


@pytest.mark.parametrize(
    "model",
    [
        fastens.RandomForestClassifier(n_estimators=20, random_state=0),
        fastens.GaussianNB(),
        fastens.VotingClassifier([("a", fastens.GaussianNB()), ("b", LogisticRegression())]),
        LogisticRegression(),
        SVC(),  # no probabilities
    ],
)
def test_regions_match_predict(model):
    X, y = MOONS
    model.fit(X, y)
    ax = plot_decision_boundary(model, X, y)
    answers = model.predict(X)
    found = [answer_at(ax, *row, 2) for row in X]
    assert np.mean(found == answers) > 0.97  # the rest are nearer to a line than a place of the picture is wide
    assert len(ax.collections[-1].get_offsets()) == 200
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1"]


def test_points_have_the_colours_of_their_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = fastens.DecisionTreeClassifier().fit(X[:, 2:], names)
    ax = plot_decision_boundary(model, X[:, 2:], names)
    points = ax.collections[-1]
    np.testing.assert_allclose(points.get_facecolors(), class_colours(3)[y])
    np.testing.assert_allclose(points.get_offsets(), X[:, 2:])
    assert len(plot_decision_boundary(model, X[:, 2:], n_points=7).collections[-1].get_offsets()) == 7
    grey = plot_decision_boundary(model, X[:, 2:]).collections[-1].get_facecolors()
    np.testing.assert_allclose(grey[0, :3], to_rgb("0.3"))
    n_lines = len(ax.collections) - 1
    assert len(plot_decision_boundary(model, X[:, 2:], n_points=0).collections) == n_lines


@pytest.mark.slow
def test_columns_of_a_wide_table_others_held(mixed):
    table, y = mixed
    model = fastens.GradientBoostingClassifier(n_estimators=20).fit(table, y)
    ax = plot_decision_boundary(model, table, y, features=["size", "colour"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("size", "colour")
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["blue", "green", "red", "missing"]
    assert ax.get_xticklabels()[-1].get_text() == "missing"
    typical = f"age = {int(np.sort(table['age'])[149])}, smoker = False, city = Paris"
    assert ax.get_title() == typical
    for size, colour in [(-1.0, "red"), (1.0, "red"), (1.0, "blue"), (-1.0, "blue"), (np.nan, "green"), (2.0, None)]:
        row = table.iloc[[1]].assign(size=size, age=49, smoker=False, city="Paris")
        row["colour"] = pd.Categorical([colour], table["colour"].cat.categories)
        place = ax.get_xticks()[-1] if np.isnan(size) else size
        found = answer_at(ax, place, ["blue", "green", "red", None].index(colour), 2)
        assert model.classes_[found] == model.predict(row)[0]


def test_held_values_are_those_given(mixed):
    table, _ = mixed
    y = np.where(table["city"] == "Rome", "yes", "no")
    model = fastens.RandomForestClassifier(n_estimators=20, random_state=0).fit(table, y)
    for city, answer in [("Rome", 1), ("Oslo", 0)]:
        held = {"city": city, "smoker": True, 1: None}
        ax = plot_decision_boundary(model, table, features=("age", 0), held=held)
        assert answer_at(ax, 40, 0.5, 2) == answer
        assert ax.get_title() == f"colour = missing, smoker = True, city = {city}"


@pytest.mark.slow
def test_frames_of_any_kind_have_the_same_picture(mixed):
    table, y = mixed
    plain = table.assign(colour=table["colour"].astype(object).where(table["colour"].notna(), None))
    images = []
    for frame in (table, pl.from_pandas(table), pl.from_pandas(table).to_arrow(), plain.to_numpy(dtype=object)):
        model = fastens.GradientBoostingClassifier(n_estimators=5, categorical_features=[1, 3, 4]).fit(frame, y)
        images.append(np.asarray(plot_decision_boundary(model, frame, y, features=[0, 1]).images[0].get_array()))
    for other in images[1:]:
        np.testing.assert_allclose(images[0], other, atol=1e-6)


@pytest.mark.slow
def test_types_with_a_missing_value_of_their_own(mixed):
    table, y = mixed
    table = table.assign(age=table["age"].astype("Int64"), smoker=table["smoker"].astype("boolean"))
    table.loc[3, "age"], table.loc[4, "smoker"] = pd.NA, pd.NA
    dated = table.assign(day=pd.date_range("2020", periods=300))  # held, not drawn
    model = fastens.RandomForestClassifier(n_estimators=3, random_state=0).fit(table, y)
    for features in (["age", "smoker"], ["size", "age"], ["smoker", "colour"]):
        ax = plot_decision_boundary(model, table, y, features=features)
        assert ax.get_xticklabels()[-1].get_text() == "missing"
    foreign = make_pipeline(FunctionTransformer(lambda X: X[["size", "age"]].fillna(0).astype(float)), SVC())
    plot_decision_boundary(foreign.fit(dated, y), dated, y, features=["size", "age"])


def test_numbers_that_are_categories_have_strips(mixed):
    X = np.column_stack([np.random.default_rng(0).integers(0, 4, 100), np.arange(100)])
    model = fastens.GradientBoostingClassifier(n_estimators=5, categorical_features=[0]).fit(X, X[:, 0] % 2)
    ax = plot_decision_boundary(model, X)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2", "3"]
    assert [answer_at(ax, place, 50, 2) for place in range(4)] == [0, 1, 0, 1]


def test_many_categories_the_most_frequent(rng):
    names = np.array([f"c{i:02}" for i in range(60)])
    table = pd.DataFrame({"name": np.repeat(names, np.arange(1, 61)), "size": rng.normal(size=1830)})
    model = fastens.RandomForestClassifier(n_estimators=3, random_state=0).fit(table, table["size"] > 0)
    ax = plot_decision_boundary(model, table)
    assert ax.get_xlabel() == "name (30 most frequent of 60)"
    assert [label.get_text() for label in ax.get_xticklabels()] == names[30:].tolist()


def test_surfaces_of_regressors_and_outlier_detectors(rng):
    X = rng.normal(size=(100, 2))
    ax = plot_decision_boundary(LinearRegression().fit(X, X[:, 0]), X, X[:, 0])
    values = np.asarray(ax.images[0].get_array())
    left, right, *_ = ax.images[0].get_extent()
    step = (right - left) / values.shape[1]
    np.testing.assert_allclose(values[0], np.linspace(left + step / 2, right - step / 2, values.shape[1]), atol=step)
    assert len(ax.figure.axes) == 2  # the bar of colours
    scores = plot_decision_boundary(fastens.IsolationForest(random_state=0).fit(X), X).images[0].get_array()
    assert len(np.unique(np.asarray(scores))) > 20


@pytest.mark.slow
def test_infinite_values_are_not_drawn_and_ranges_are_finite():
    X, y = MOONS
    X = X.copy()
    X[0, 0], X[1, 0] = np.inf, -np.inf
    model = fastens.RandomForestClassifier(n_estimators=5).fit(X, y)
    ax = plot_decision_boundary(model, X, y)
    assert np.isfinite(ax.get_xlim()).all()
    assert len(ax.collections[-1].get_offsets()) == 198
    far = X[2:] * [1e290, 1e-290]
    assert plot_decision_boundary(fastens.DecisionTreeClassifier().fit(far, y[2:]), far).figure.canvas.draw() is None
    constant = np.zeros((50, 2))
    assert plot_decision_boundary(fastens.DecisionTreeClassifier().fit(constant, np.arange(50) % 2), constant)


@pytest.mark.slow
def test_wide_tables_are_predicted_in_parts(rng):
    X = rng.normal(size=(60, 3000))
    model = fastens.GaussianNB().fit(X, X[:, 5] > 0)
    ax = plot_decision_boundary(model, X, features=(5, 7))
    assert ax.get_title() == "2998 other columns fixed at given or typical values"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": [0]}, r"features must be a pair of columns; got \[0\]"),
        ({"features": "size"}, "features must be a pair of columns; got 'size'"),
        ({"features": [0, 0]}, "features must be two different columns"),
        ({"features": [0, 9]}, "a column in features must be a whole number from 0 to 4; got 9"),
        ({"features": [0, "weight"]}, "features must name columns of X.*got 'weight'"),
        ({"features": None}, "features must name two of the.*got None"),
        ({"held": [1.0]}, r"held must be a dict that maps columns to values; got \[1\.0\]"),
        ({"held": {"size": 1.0}}, "held must name columns other than the two of the axes"),
        ({"held": {"city": "Bonn"}}, "held must map column"),
        ({"held": {"smoker": np.inf}}, "held must map column.*got inf"),
        ({"n_points": -1}, "n_points must be a whole number of at least 0; got -1"),
        ({"y": ["yes"]}, "X and y must have the same number of rows; got 300 and 1"),
        ({"y": ["maybe"] * 300}, r"y must hold classes of the model, \['no', 'yes'\]; got 'maybe'"),
        ({"y": [1] * 300}, "y and classes_ must hold labels of one type; got 1 and 'no'"),
        ({"y": [None] * 300}, "y must hold labels without missing values"),
        ({"X": []}, "X must be a table with rows and columns"),
        ({"X": "rows.csv"}, "X must be a table with rows and columns in memory; got a str"),
        ({"estimator": fastens.RandomForestClassifier()}, "not fitted"),
        ({"estimator": SVC()}, "not fitted"),
        ({"estimator": 7}, "estimator must be a fitted estimator that predicts; got 7"),
    ],
)
def test_errors_say_what_to_do(mixed, options, message):
    table, y = mixed
    model = fastens.RandomForestClassifier(n_estimators=2).fit(table, y)
    with pytest.raises(ValueError, match=message):
        plot_decision_boundary(**{"estimator": model, "X": table, "features": ["size", "age"], **options})


def test_columns_that_cannot_be_drawn(mixed):
    table, y = mixed
    model = fastens.RandomForestClassifier(n_estimators=2).fit(table, y)
    dates = table.assign(age=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="Column 'age' must hold numbers, strings or booleans to be drawn"):
        plot_decision_boundary(model, dates, features=["size", "age"])
    with pytest.raises(ValueError, match="must hold at least one value to be drawn; all of its values are"):
        plot_decision_boundary(model, table.assign(size=np.nan), features=["size", "age"])
    huge = table.assign(size=np.where(table["age"] > 40, 1.7e308, -1.7e308))
    with pytest.raises(ValueError, match="must hold numbers with an absolute value of at most"):
        plot_decision_boundary(model, huge, features=["size", "age"])


def test_one_target_only(rng):
    X = rng.normal(size=(50, 2))
    for y in (X, X > 0):
        kind = fastens.RandomForestRegressor if y is X else fastens.RandomForestClassifier
        model = kind(n_estimators=2).fit(X, y.astype(int) if y is not X else y)
        with pytest.raises(ValueError, match="the model must predict one target for a decision boundary; it"):
            plot_decision_boundary(model, X)


@pytest.mark.parametrize("names", [range(3), [2, 0, 1], [("k", 0), ("k", 1), ("l", 0)], [1, "colour", None]])
def test_frames_whose_names_are_not_texts(names, rng):
    table = pd.DataFrame({"size": rng.normal(size=60), "colour": rng.choice(["red", "blue"], 60), "age": range(60)})
    y = (table["size"] > 0) & (table["colour"] == "red")
    other = table.copy()
    other.columns = pd.MultiIndex.from_tuples(names) if isinstance(names[0], tuple) else pd.Index(names)
    has_numbers = any(isinstance(name, int) for name in names)  # which are names, not positions
    images = []
    for X, columns in ((table, range(3)), (other, names if has_numbers else range(3))):
        model = fastens.DecisionTreeClassifier(max_depth=3).fit(X, y)
        ax = plot_decision_boundary(model, X, y, features=list(columns[:2]), held={columns[2]: 9})
        images.append(ax.images[0].get_array())
    np.testing.assert_array_equal(*images)


def test_pairs_of_tuple_names():
    names = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "z")])
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=names)
    y = frame["b", "z"] > 0
    model = fastens.DecisionTreeClassifier().fit(frame, y)
    shown = plot_decision_boundary(model, frame, y, features=[("a", "x"), ("b", "z")])
    axes = getattr(shown, "axes", shown)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("('a', 'x')", "('b', 'z')")

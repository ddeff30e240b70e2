"""What a fitted model tells of itself in numbers and pictures."""

from __future__ import annotations

import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from scipy.sparse import csr_matrix
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression

import fastens
from fastens.inspection import diversity as theory
from fastens.inspection import model_plots
from fastens.inspection.contribution_plots import plot_explanation
from fastens.params.options import Categories

TREES = {
    "boosting": (fastens.GradientBoostingClassifier, fastens.GradientBoostingRegressor, {"n_estimators": 20}),
    "forest": (fastens.RandomForestClassifier, fastens.RandomForestRegressor, {"n_estimators": 10}),
    "extra": (fastens.ExtraTreesClassifier, fastens.ExtraTreesRegressor, {"n_estimators": 10}),
    "tree": (fastens.DecisionTreeClassifier, fastens.DecisionTreeRegressor, {"max_depth": 6}),
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def table():
    """Columns that matter much, a little and not at all; one holds categories, one has missing values."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "large": rng.normal(size=400),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], 400)),
            "small": rng.normal(size=400),
            "nothing": rng.normal(size=400),
        }
    )
    y = 3 * X["large"] + 2.0 * (X["kind"] == "b") + 0.5 * X["small"]
    X.loc[::9, "small"] = np.nan
    return X, y.fillna(0).to_numpy()


def fitted(name, table, classes=0, **more):
    X, y = table
    classifier, regressor, parameters = TREES[name]
    parameters = {**parameters, "random_state": 0, **more}
    if not classes:
        return regressor(**parameters).fit(X, y)
    labels = np.array(["no", "perhaps", "yes"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    return classifier(**parameters).fit(X, labels)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_contributions_add_up(table, name, classes):
    model = fitted(name, table, classes)
    parts = model.predict_contributions(table[0]).sum(axis=-1)
    if classes and name == "boosting":
        expected = model.decision_function(table[0])
    elif classes:
        expected = model.predict_proba(table[0])
        expected = expected[:, 1] if classes == 2 else expected
    else:
        expected = model.predict(table[0])
    np.testing.assert_allclose(parts, expected, atol=1e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("name", TREES)
def test_importances_by_hand(table, name):
    model = fitted(name, table)
    nodes = model.to_dataframe()
    assert model.importances("gain") == pytest.approx(model.feature_importances_)
    inner = nodes[nodes["feature"].notna()] if "feature" in nodes else nodes[nodes["column"].notna()]
    column = inner["feature"] if "feature" in inner else inner["column"]
    counts = column.value_counts().reindex(table[0].columns, fill_value=0).to_numpy()
    np.testing.assert_allclose(model.importances("split"), counts / counts.sum())
    trees = model._ensemble
    cover = [trees.weight[trees.feature == j].sum() for j in range(4)]
    np.testing.assert_allclose(model.importances("cover"), np.array(cover) / np.sum(cover), rtol=1e-5)
    assert model.importances("cover").argmax() == 0
    with pytest.raises(ValueError, match="kind must be 'gain', 'split' or 'cover'; got 'weight'"):
        model.importances("weight")


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("kind", ["gain", "split", "cover", "permutation"])
def test_plot_importance(table, name, kind):
    model = fitted(name, table)
    ax = model.plot_importance(kind, X=table[0], y=table[1])
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0] == "large" or kind in ("split", "cover")
    assert set(labels) == set(table[0].columns)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths, reverse=True)


def test_how_many_columns_are_drawn(table):
    assert len(fitted("boosting", table).plot_importance(n_top=2).patches) == 2


def test_importance_of_rows_that_are_not_given(table):
    with pytest.raises(
        ValueError, match="X and y must be passed with kind='permutation', because permutation importances score"
    ):
        fitted("boosting", table).plot_importance("permutation")
    with pytest.raises(ValueError, match="kind must be one of"):
        fitted("boosting", table).plot_importance("shap")


@pytest.mark.slow
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_permutation_importance_of_boosting_matches_scikit_learn(table, classes):
    model, (X, y) = fitted("boosting", table, classes), table
    if classes:
        y = np.array(["no", "perhaps", "yes"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    ours = model.permutation_importance(X, y, weight, n_repeats=20, random_state=0)
    theirs = permutation_importance(model, X, y, n_repeats=20, random_state=1, sample_weight=weight)
    error = 4 * np.hypot(ours.importances_standard_error, theirs.importances_std / np.sqrt(20)) + 1e-12
    assert (np.abs(ours.importances_mean - theirs.importances_mean) < error).all()
    assert ours.importances.shape == (4, 20)
    polars = model.permutation_importance(pl.from_pandas(X), y, weight, n_repeats=20, random_state=0)
    np.testing.assert_array_equal(ours.importances, polars.importances)


def test_permutation_importance_of_columns_with_statistics(table):
    X, y = table
    model = fitted("boosting", table, categories=Categories(encoding="target"))
    found = model.permutation_importance(X, y, random_state=0)
    assert found.importances_mean.shape == (4,)
    assert found.importances_mean.argmax() == 0
    assert found.importances_mean[1] > found.importances_mean[3]


def test_permutation_importance_of_a_sparse_matrix(table):
    X, y = table[0][["large", "small", "nothing"]].fillna(0).to_numpy(), table[1]
    model = fastens.GradientBoostingRegressor(n_estimators=10).fit(X, y)
    dense, sparse = (model.permutation_importance(T, y, random_state=0).importances for T in (X, csr_matrix(X)))
    np.testing.assert_array_equal(dense, sparse)


def test_plot_training(table):
    X, y = table
    model = fastens.GradientBoostingRegressor(early_stopping=True, learning_rate=0.5, random_state=0).fit(X, y)
    ax = model.plot_training()
    assert [line.get_label() for line in ax.lines[:2]] == ["training rows", "validation rows"]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), model.evals_result_["validation"]["loss"])
    assert ax.lines[2].get_xdata()[0] == model.n_estimators_
    forest = fitted("forest", table, n_estimators=30, oob_score=True)
    np.testing.assert_array_equal(forest.plot_training().lines[0].get_ydata(), forest.oob_error_curve_)
    with pytest.raises(ValueError, match="for a training curve; got DecisionTreeRegressor"):
        fitted("tree", table).plot_training()


@pytest.mark.parametrize("name", TREES)
def test_dependence_matches_scikit_learn(table, name):
    X, _ = table
    model = fitted(name, table)
    drawn = model.plot_dependence(X, ["large", "kind"])
    assert [ax.get_xlabel() for ax in drawn] == ["large", "kind"]
    line = drawn[0].lines[0]
    expected = partial_dependence(model, X, ["large"], grid_resolution=50)
    np.testing.assert_allclose(line.get_xdata(), expected["grid_values"][0])
    np.testing.assert_allclose(line.get_ydata(), expected["average"][0])
    heights = [bar.get_height() for bar in drawn[1].patches]
    assert int(np.argmax(heights)) == 1


@pytest.mark.slow
def test_dependence_of_other_tables_pairs_and_missing_values(table):
    X, _ = table
    model = fitted("boosting", table, 3)
    assert len(model.plot_dependence(pl.from_pandas(X), "small", label="yes")) == 1
    assert len(model.plot_dependence(X, [("large", "small")], label="no")) == 1
    empty = X.assign(small=np.nan)
    with pytest.raises(ValueError, match="X must have at least one row without missing values in the columns"):
        model.plot_dependence(empty, "small", label="no")
    with pytest.raises(ValueError, match="features must name columns of X; got 'huge', and the columns are"):
        model.plot_dependence(X, "huge", label="no")
    with pytest.raises(ValueError, match="features must hold column indices from 0 to"):
        model.plot_dependence(X, 99, label="no")
    numbers = X[["large", "nothing"]].to_numpy()
    plain = fastens.RandomForestRegressor(n_estimators=5).fit(numbers, table[1])
    assert plain.plot_dependence(numbers, [0, 1])[0].get_xlabel() == "x0"


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_plot_contributions(table, name, classes):
    X, _ = table
    model = fitted(name, table, classes)
    ax = model.plot_contributions(X)
    assert ax.get_yticklabels()[0].get_text() == "large"
    ax = model.plot_contributions(X, 9)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert "small = missing" in labels
    assert f"kind = {X['kind'][9]}" in labels
    parts = model.predict_contributions(X)[9]
    shown = parts[[*model.classes_].index(model.predict(X)[9])] if classes == 3 else parts
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx(sorted(shown[:-1]), abs=1e-9)
    last = ax.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(shown.sum())
    if classes == 3:
        assert "yes" in model.plot_contributions(X, label="yes").get_xlabel()


def test_contributions_of_many_columns_and_mistakes(table, rng):
    X = rng.normal(size=(200, 30))
    model = fastens.GradientBoostingClassifier(n_estimators=20).fit(X, X[:, 0] + X[:, 1:8].sum(axis=1) / 4 > 0)
    ax = model.plot_contributions(X, 0)
    assert ax.get_yticklabels()[-1].get_text() == "19 other columns"
    parts = model.predict_contributions(X[:1])[0]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(parts[:-1].sum())
    with pytest.raises(ValueError, match="row must be a position from 0 to 199; got 200"):
        model.plot_contributions(X, 200)
    with pytest.raises(ValueError, match="label must be one of"):
        model.plot_contributions(X, label=7)
    with pytest.raises(ValueError, match="label must be True with two classes"):
        model.plot_contributions(X, label=False)


def test_adaboost_shows_what_it_can(table):
    X, y = table
    model = fastens.AdaBoostClassifier(n_estimators=20).fit(X, y > 0)
    assert model.plot_importance().get_yticklabels()[0].get_text() == "large"
    assert model.permutation_importance(X, y > 0, random_state=0).importances_mean.argmax() == 0
    assert len(model.plot_training().lines) == 1


def test_dependence_on_whole_numbers(rng):
    X = pd.DataFrame({"count": rng.integers(0, 9, 200), "size": rng.normal(size=200)})
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X, X["count"] + X["size"])
    assert model.plot_dependence(X, "count")[0].get_xlabel() == "count"
    whole = rng.integers(0, 9, (200, 2))
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(whole, whole[:, 0])
    assert len(model.plot_dependence(whole, [0, (0, 1)])) == 2


@pytest.mark.slow
def test_dependence_on_pairs_that_change_no_prediction(rng):
    X = rng.normal(size=(100, 3))
    model = fastens.GradientBoostingRegressor(n_estimators=5, max_features=1.0, max_depth=1).fit(X, X[:, 0] > 0)
    assert model.feature_importances_[1:].tolist() == [0, 0]
    for features in ([(1, 2)], [(1, 2), 1], [(1, 2), (0, 1)]):
        assert len(model.plot_dependence(X, features)) == len(features)


def test_dependence_of_targets_far_from_0_fills_the_axes(rng):
    X = rng.normal(size=(100, 2))
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X, 2.0**32 + X[:, 0])
    low, high = model.plot_dependence(X, [0])[0].get_ylim()
    assert high - low < 10


@pytest.mark.slow
def test_dependence_on_days_shows_dates(rng):
    days = pd.date_range("2020-01-01", periods=80)
    hours = pd.date_range("2020-01-01", periods=80, freq="h")
    for dates, text in ((days, r"20\d\d-\d\d-\d\d"), (hours, r"\d\d-\d\d \d\d:\d\d")):
        X = pd.DataFrame({"when": dates, "size: day": rng.normal(size=80)})
        model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X, np.arange(80.0))
        by_name, by_place, pair, number = model.plot_dependence(X, ["when", 0, ("size: day", "when"), "size: day"])
        by_name.figure.canvas.draw()
        for axis in (by_name.xaxis, by_place.xaxis, pair.yaxis):
            assert all(re.fullmatch(text, label.get_text()) for label in axis.get_ticklabels())
        assert not any(re.match(r"\d+-", label.get_text()) for label in number.get_xticklabels())


@pytest.fixture(scope="module")
def models(table):
    """A classifier of two classes and of three, a regressor, and the rows."""
    return {"two": fitted("forest", table, 2), "three": fitted("boosting", table, 3), "none": fitted("tree", table)}


@pytest.mark.parametrize(
    ("name", "method", "arguments", "message"),
    [
        ("two", "importances", {"kind": np.zeros(2)}, "kind must be 'gain', 'split' or 'cover'; got array"),
        ("two", "predict_contributions", {"interactions": "no"}, "interactions must be True or False; got 'no'"),
        ("two", "explain", {"interactions": 2}, "interactions must be True or False; got 2"),
        ("two", "explain", {"background": np.zeros((2, 3))}, "background must be a table of rows like X: X has 3 feat"),
        ("two", "proximity", {"others": np.zeros((2, 3))}, "others must be a table of rows like X: X has 3 features"),
        ("two", "export", {"format": ["onnx"]}, r"format must be one of .*; got \['onnx'\]"),
        ("two", "permutation_importance", {"random_state": "1", "y": None}, "random_state must be .* got '1'"),
        ("two", "importances", {"kind": ["gain"]}, r"kind must be 'gain', 'split' or 'cover'; got \['gain'\]"),
        ("two", "plot_importance", {"kind": ["gain"]}, r"kind must be one of .* got \['gain'\]"),
        ("two", "plot_importance", {"ax": 5}, "ax must be matplotlib Axes or None; got int"),
        ("two", "plot_dependence", {"features": None}, "features must hold column indices from 0 to 3; got None"),
        (
            "two",
            "plot_dependence",
            {"features": np.array(3)},
            "features must hold column indices from 0 to 3; got array",
        ),
        ("two", "plot_dependence", {"features": 1.5}, r"features must hold column indices from 0 to 3; got 1\.5"),
        ("two", "plot_dependence", {"features": True}, "features must hold column indices from 0 to 3; got True"),
        (
            "two",
            "plot_dependence",
            {"features": []},
            "features must be one or more columns or pairs of different columns",
        ),
        (
            "two",
            "plot_dependence",
            {"features": [(0, 1, 2)]},
            "features must be one or more columns or pairs of different columns",
        ),
        (
            "two",
            "plot_dependence",
            {"features": [(0, 0)]},
            "features must be one or more columns or pairs of different columns",
        ),
        ("two", "plot_dependence", {"features": 0, "X": [1, 2]}, "X must be a table with rows and columns"),
        ("two", "plot_dependence", {"features": 0, "X": "rows.csv"}, "X must be a table .* in memory; got a str"),
        ("two", "plot_dependence", {"features": 0, "label": "no"}, "label must be 'perhaps' or None with two classes"),
        ("none", "plot_dependence", {"features": 0, "label": "no"}, "label must be None without classes; got 'no'"),
        ("three", "plot_dependence", {"features": 0}, r"label must be one of \['no', 'perhaps', 'yes'\]; got None"),
        ("three", "plot_dependence", {"features": 0, "label": 7}, "label must be one of .* got 7"),
        ("two", "plot_contributions", {"row": 1.5}, "row must be a position from 0 to 399; got 1.5"),
        ("two", "plot_contributions", {"row": True}, "row must be a position from 0 to 399; got True"),
        ("two", "plot_contributions", {"row": "first"}, "row must be a position from 0 to 399; got 'first'"),
        ("none", "plot_contributions", {"label": 3}, r"label must be one of \[0\]; got 3"),
    ],
)
def test_errors_say_what_to_do(table, models, name, method, arguments, message):
    without_rows = ("importances", "plot_importance", "export")
    given = arguments if method in without_rows else {"X": table[0], **arguments}
    with pytest.raises(ValueError, match=message):
        getattr(models[name], method)(**given)


def test_axes_that_are_not_straight(models):
    for projection in ("polar", "3d"):
        ax = pyplot.figure().add_subplot(projection=projection)
        with pytest.raises(ValueError, match="ax must be two-dimensional matplotlib Axes; got "):
            models["two"].plot_importance(ax=ax)


def test_functions_on_foreign_estimators_and_other_numbers(table, models):
    foreign = LogisticRegression()
    with pytest.raises(ValueError, match="kind='gain' needs an estimator with feature_importances_; got LogisticReg"):
        model_plots.plot_importance(foreign)
    with pytest.raises(ValueError, match="kind='split' needs an estimator with importances; got LogisticRegression"):
        model_plots.plot_importance(foreign, "split")
    explained = models["two"].explain(table[0])
    for plot in (model_plots.plot_importance, lambda model, n_top: plot_explanation(explained, n_top=n_top)):
        for n_top in (0, -1, 2.5):
            with pytest.raises(ValueError, match=f"n_top must be a whole number of at least 1; got {n_top}"):
                plot(models["two"], n_top=n_top)
    with pytest.raises(ValueError, match="n_rows must be a whole number of at least 1; got 0"):
        model_plots.plot_dependence(models["two"], table[0], 0, n_rows=0)


def test_dependence_leaves_infinite_values_out(table, models):
    X = table[0].assign(large=np.where(np.arange(400) == 7, np.inf, table[0]["large"]))
    (ax,) = models["none"].plot_dependence(X, "large")
    assert np.isfinite(ax.lines[0].get_xdata()).all()
    with pytest.raises(ValueError, match="X must have at least one row without missing values in the columns"):
        models["none"].plot_dependence(X.assign(large=-np.inf), "large")


@pytest.mark.parametrize("loss", [{}, {"loss": "quantile", "quantile": [0.1, 0.9]}])
def test_dependence_of_one_of_several_targets_and_quantiles(table, loss):
    X, y = table
    model = fastens.GradientBoostingRegressor(n_estimators=5, **loss).fit(X, np.column_stack([y, -y]))
    up, down = [0, 1] if not loss else [1, 2]
    for label, sign in ((up, 1), (np.int64(down), -1)):
        (ax,) = model.plot_dependence(X, "large", label=label)
        assert sign * (ax.lines[0].get_ydata()[-1] - ax.lines[0].get_ydata()[0]) > 0
    for label in (None, 7, "y"):
        with pytest.raises(ValueError, match="label must be the index of a target or quantile, from 0 to"):
            model.plot_dependence(X, "large", label=label)


def test_dependence_of_what_ranks(table):
    X, y = table
    ranker = fastens.GradientBoostingRanker(n_estimators=5).fit(X, (y > 0).astype(int), group=[200, 200])
    (ax,) = ranker.plot_dependence(X, "large")
    assert ax.lines[0].get_ydata()[-1] > ax.lines[0].get_ydata()[0]


@pytest.mark.slow
def test_names_with_dollar_signs_are_not_mathematics(table):
    """Between two dollar signs matplotlib reads mathematics, and fails where it is none."""
    X, y = table
    X = X.rename(columns={"large": "$^ in $", "kind": "x_$_^$"})
    X["x_$_^$"] = X["x_$_^$"].cat.rename_categories({"a": "$^$", "b": "$_{$", "c": "c"})
    labels = np.where(y > 0, "$^$", "$_{$")
    model = fastens.GradientBoostingClassifier(n_estimators=5).fit(X, labels)
    stumps = fastens.AdaBoostClassifier(n_estimators=5).fit(X, np.append(labels[1:], "$\\"))
    drawn = [
        *map(stumps.plot_contribution_curve, [0, 1]),
        model.plot_importance(),
        model.plot_contributions(X),
        model.plot_contributions(X, 0),
        *model.plot_dependence(X, [0, 1]),
        model.plot_tree(),
        fastens.plot_decision_boundary(model, X, labels, features=[0, 1]),
        theory.plot_diversity({"$^$": labels, "b": labels}, labels, "kappa"),
        theory.plot_kappa_error({"$^$": labels, "b": labels[::-1]}, labels),
    ]
    for ax in drawn:
        ax.figure.canvas.draw()


def test_a_contribution_of_one_column_alone(table):
    model = fastens.AdaBoostClassifier(n_estimators=5).fit(table[0], table[1] > 0)
    for feature in (1.5, -1, 4, None):
        with pytest.raises(ValueError, match=f"feature must hold column indices from 0 to 3; got {feature}"):
            model.plot_contribution_curve(feature)


def test_without_matplotlib_the_extra_is_named(table, models, monkeypatch):
    net = fastens.BayesianNetwork("tan").fit(table[0][["kind"]], table[1] > 0)
    space = fastens.VersionSpaceClassifier().fit([["a", "b"], ["c", "d"]], [1, 0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    X, model = table[0], models["two"]
    for plot in (
        model.plot_importance,
        models["three"].plot_training,
        model.plot_tree,
        net.plot,
        space.plot_lattice,
        theory.plot_oob_share,
        theory.plot_majority_error,
        theory.plot_average_variance,
        lambda: model.plot_dependence(X, 0),
        lambda: model.plot_contributions(X),
        lambda: fastens.plot_decision_boundary(model, X, features=[0, 1]),
        lambda: theory.plot_diversity({"a": [1, 0]}, [1, 0]),
        lambda: theory.plot_kappa_error({"a": [1, 0], "b": [1, 1]}, [1, 0]),
        lambda: fastens.plot_bias_variance(
            LogisticRegression(), [[0], [1]] * 9, [0, 1] * 9, param_name="C", param_range=[1], n_rounds=2
        ),
    ):
        with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'fastens\[plot\]'"):
            plot()

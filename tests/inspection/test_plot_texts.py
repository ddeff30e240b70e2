"""Texts of plots can be read: ticks clear of each other, names cut, legends that hold every name."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import fastens

NAMES = ["a rather long name of a category, number one", "another name of a category", "short", "_under"]
LONG = "a very long name of a column that goes on and on and on until nothing else has room (km/h)"


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = pd.DataFrame({
        LONG: random.normal(size=120),
        "kind": pd.Categorical(random.choice(NAMES, 120)),
        "many": pd.Categorical(random.choice([f"category {place}" for place in range(40)], 120)),
        "half": np.where(np.arange(120) % 4, random.uniform(0, 100, 120), np.nan),
        "same": 1.0,
    })  # fmt: skip
    return X, X[LONG] + (X["kind"] == "short") + X["half"].fillna(50) / 50


@pytest.fixture(scope="module")
def models(table):
    X, y = table
    return {
        "numbers": fastens.GradientBoostingRegressor(n_estimators=5).fit(X, y),
        "stumps": fastens.AdaBoostClassifier(n_estimators=5).fit(X, y > y.mean()),
    }


@pytest.fixture(autouse=True)
def _no_figures():
    yield
    pyplot.close("all")


def _check_ticks(ax):
    """The texts along x are turned or clear of each other, and the axes have the most of their figure."""
    figure = ax.figure
    figure.canvas.draw()
    texts = [text for text in ax.get_xticklabels() if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    lines = [text.get_fontsize() * figure.dpi / 72 for text in texts]
    for (one, other), height, text in zip(pairwise(boxes), lines, texts, strict=False):
        if text.get_rotation():
            assert other.x1 - one.x1 > 0.95 * height
        else:
            assert one.x1 < other.x0
    inner = ax.get_window_extent()
    assert inner.width > 0.4 * figure.bbox.width
    assert inner.height > 0.3 * figure.bbox.height
    assert ax.xaxis.label.get_window_extent().x0 >= 0


@pytest.mark.slow
@pytest.mark.parametrize("column", ["kind", "many", "half", LONG, "same"])
def test_pictures_of_one_column_have_ticks_that_can_be_read(table, models, column):
    _check_ticks(models["stumps"].plot_contribution_curve(column))
    _check_ticks(models["numbers"].plot_contributions(table[0], feature=column))
    _check_ticks(models["numbers"].plot_contributions(table[0], feature=(column, "kind")))
    (ax,) = models["numbers"].plot_dependence(table[0], [column])
    _check_ticks(ax)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("kind", "half"), ("half", "kind"), ("many", "kind")])
def test_planes_have_ticks_that_can_be_read(table, pair):
    X = table[0][list(pair)]
    model = fastens.DecisionTreeClassifier(max_depth=3).fit(X, np.where(table[1] > 0, "a class", "b"))
    _check_ticks(fastens.plot_decision_boundary(model, X))


@pytest.mark.slow
def test_two_columns_of_categories_together(table, models):
    """Many cells have no room for numbers."""
    (ax,) = models["numbers"].plot_dependence(table[0], [("kind", "many")])
    ax.figure.canvas.draw()
    assert not ax.texts
    assert ax.get_window_extent().height > 0.3 * ax.figure.bbox.height


def test_a_pair_of_numbers_and_categories_is_an_error_before_a_figure(table, models):
    with pytest.raises(
        ValueError, match=r"features must not have a pair of a numerical and a categorical.*got .'half', 'kind'."
    ):
        models["numbers"].plot_dependence(table[0], [("half", "kind")])
    assert not pyplot.get_fignums()


@pytest.mark.slow
def test_a_curve_next_to_a_picture_of_two_columns_has_numbers(table, models):
    _, beside = models["numbers"].plot_dependence(table[0], [(0, 3), 0])
    beside.figure.canvas.draw()
    assert any(text.get_text() for text in beside.get_yticklabels())
    assert beside.get_ylabel() == "Partial dependence"


def test_dependence_on_one_value_is_a_dot(table, models):
    (ax,) = models["numbers"].plot_dependence(table[0], ["same"])
    assert ax.lines[0].get_marker() == "o"


def test_parameters_with_long_values_have_ticks_that_can_be_read(table):
    X = table[0][["half"]].fillna(0)
    values = [fastens.DecisionTreeRegressor(max_depth=depth, min_samples_leaf=2) for depth in (1, 2, 3)]
    options = {"param_name": "estimator", "param_range": values, "n_rounds": 2}
    _check_ticks(fastens.plot_bias_variance(fastens.BaggingRegressor(n_estimators=2), X, table[1], **options))


def _legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.slow
def test_legends_hold_names_that_begin_with_an_underscore(table):
    """matplotlib leaves them out unless they are given with what was drawn."""
    X, y = table
    labels = np.array(["_low", "$^$", "high"])[np.digitize(y, [0.5, 1.5])]
    stumps = fastens.AdaBoostClassifier(n_estimators=5).fit(X, labels)
    assert len(_legend(stumps.plot_contribution_curve("kind"))) == 3
    assert len(_legend(stumps.plot_contribution_curve("half"))) == 3
    forest = fastens.RandomForestClassifier(n_estimators=3, random_state=0).fit(X, labels)
    assert "_low" in _legend(forest.plot_contributions(X))
    assert "_under" in _legend(forest.plot_contributions(X, feature=("half", "kind"), label="_low"))
    tossed = fastens.FiniteHypothesisLearner(
        [[0.5, 0.5], [0.2, 0.8]], outcomes=["_a$^$", "b"], hypotheses=["_fair $^$", "c"]
    )
    tossed.fit(["b"] * 3)
    tossed.plot_posterior().figure.canvas.draw()
    tossed.plot_predictions("_a$^$").figure.canvas.draw()
    assert _legend(tossed.plot_posterior()) == [r"_fair \$^\$", "c"]


@pytest.mark.slow
def test_figures_next_to_bars_keep_clear_of_names_and_ends(table, models):
    X, y = table
    X = X.assign(**{"zip code": np.linspace(20_150, 20_269, 120)})
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X, y)
    for row in range(4):
        ax = model.plot_contributions(X, row)
        ax.figure.canvas.draw()
        inner = ax.get_window_extent()
        for text in ax.texts:
            extent = text.get_window_extent()
            assert inner.x0 <= extent.x0
            assert extent.x1 <= inner.x1
    assert "zip code = 20153" in [text.get_text() for text in ax.get_yticklabels()]


@pytest.mark.slow
def test_ticks_of_large_and_of_close_numbers_next_to_missing_values_are_apart(table):
    _, y = table
    known = np.tile(np.arange(120)[:, None] % 4 > 0, 2)
    X = pd.DataFrame({"number": np.linspace(1e7, 1.06e7, 120), "close": np.linspace(0.001, 0.0010004, 120)})
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X.where(known), np.sort(y))
    for column in X:
        ax = model.plot_contributions(X.where(known), feature=column)
        _check_ticks(ax)
        texts = [text.get_text() for text in ax.get_xticklabels() if text.get_text()]
        assert len(set(texts)) == len(texts) > 1
        assert not any("e+" in text for text in texts)
    assert "number = 10005042" in [text.get_text() for text in model.plot_contributions(X, 1).get_yticklabels()]


@pytest.mark.slow
def test_figures_next_to_bars_keep_clear_of_names_in_a_layout_of_several_axes(table, models):
    figure, places = pyplot.subplots(2, 2, figsize=(14, 9), layout="constrained")
    models["numbers"].plot_contributions(table[0], ax=places[0, 0])
    for row, ax in enumerate((places[1, 0], places[1, 1])):
        models["numbers"].plot_contributions(table[0], row, ax=ax)
    figure.canvas.draw()
    for ax in (places[1, 0], places[1, 1]):
        assert all(text.get_window_extent().x0 >= ax.get_window_extent().x0 for text in ax.texts)


def test_dots_of_one_column_leave_the_label_of_their_colours_room(table):
    X = table[0][["half"]]
    model = fastens.GradientBoostingRegressor(n_estimators=5).fit(X, table[1])
    figure = model.plot_contributions(X).figure
    figure.canvas.draw()
    assert figure.axes[1].yaxis.label.get_window_extent().y1 <= figure.bbox.height


def test_rounds_are_whole_numbers(table):
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(*table)
    ax = model.plot_training()
    assert all(tick == round(tick) for tick in ax.get_xticks())

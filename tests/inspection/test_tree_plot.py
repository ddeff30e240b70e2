"""Pictures of trees: no two boxes overlap, whatever stands in them and wherever they are drawn."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import fastens
from fastens.params.options import Categories
from reference.boxes import extents, overlaps

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def random_table(rng, n=400):
    """Columns and categories with short names and long ones, some missing."""
    words = ["a", "income in $ of $ 1", "a name of a column that goes on and on", "x" * 70, "Größe", "b"]
    n_categories = int(rng.integers(2, 40))
    category = rng.choice(["k", "category number", "a_very_long_category_name_without_any_space_in_it"])
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=rng.choice(words, 4, replace=False))
    table["kind"] = pd.Categorical([f"{category} {code}" for code in rng.integers(0, n_categories, n)])
    table.iloc[:: int(rng.integers(2, 9)), 0] = np.nan
    return table


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_boxes_of_random_trees_never_overlap(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    y = rng.normal(size=400) + table.iloc[:, 1] * (table["kind"].cat.codes % 2)
    n_leaves = int(rng.integers(2, 40))
    if seed % 3 == 0:
        model = fastens.DecisionTreeClassifier(max_leaf_nodes=n_leaves).fit(table, np.digitize(y, [-1, 0, 0.5, 1, 2]))
    elif seed % 3 == 1:
        model = fastens.GradientBoostingRegressor(
            n_estimators=1,
            max_leaf_nodes=n_leaves,
            linear_leaves=bool(seed % 2),
            categories=Categories(encoding="partition"),
        ).fit(table, y)
    else:
        model = fastens.ExtraTreesRegressor(n_estimators=1, max_leaf_nodes=n_leaves, random_state=seed).fit(table, y)
    for depth in (2, None):
        ax = model.plot_tree(max_depth=depth)
        assert overlaps(ax) == []
        width, height = ax.figure.get_size_inches() * ax.figure.dpi
        ends = np.array(extents(ax))
        assert ends.min() >= 0
        assert ends[:, 2].max() <= width
        assert ends[:, 3].max() <= height


@pytest.mark.slow
def test_boxes_do_not_overlap_in_any_figure(rng):
    table = random_table(rng)
    model = fastens.DecisionTreeRegressor(max_leaf_nodes=25).fit(table, rng.normal(size=400))
    figure, grid = pyplot.subplots(2, 2, figsize=(7, 5), layout="constrained")
    ax = model.plot_tree(max_depth=None, ax=grid[0, 1])
    assert ax is grid[0, 1]
    assert overlaps(ax) == []
    grid[0, 0].set_ylabel("one\ntwo\nthree")
    for size in ((3, 3), (12, 2), (25, 20)):
        figure.set_size_inches(size)
        assert overlaps(ax) == []
    ax = model.plot_tree()
    ax.figure.set_size_inches(4, 3)
    assert overlaps(ax) == []
    figure = pyplot.figure(figsize=(8, 4))
    assert overlaps(model.plot_tree(ax=figure.subfigures(1, 2)[0].subplots())) == []


@pytest.mark.slow
def test_deep_and_large_trees_stay_within_what_can_be_drawn(rng):
    X = np.arange(400.0)[:, None]
    chain = fastens.DecisionTreeRegressor(min_samples_leaf=1, max_leaf_nodes=30).fit(X[:40], 2.0 ** np.arange(40))
    assert overlaps(chain.plot_tree(max_depth=None)) == []
    large = fastens.DecisionTreeRegressor().fit(X, rng.normal(size=400))
    ax = large.plot_tree(max_depth=None)
    assert max(ax.figure.get_size_inches()) < 151
    assert sum("rows" in text.get_text() for text in ax.texts) > 400


def test_a_leaf_alone_and_signs_of_mathematics(rng):
    table = pd.DataFrame({"price $a_1$ in $": rng.normal(size=100)})
    model = fastens.DecisionTreeRegressor(max_depth=1).fit(table, table.iloc[:, 0] > 0)
    ax = model.plot_tree()
    ax.figure.canvas.draw()
    assert "price $a_1$ in $ <=" in ax.texts[0].get_text()
    assert not ax.texts[0].get_parse_math()
    alone = fastens.DecisionTreeRegressor(max_depth=1).fit(table, np.zeros(100)).plot_tree()
    assert len(alone.texts) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree": 1}, "tree must be a whole number from 0 to 0; got 1"),
        ({"tree": -1}, "tree must be a whole number from 0 to 0; got -1"),
        ({"tree": 0.5}, "tree must be a whole number from 0 to 0; got 0.5"),
        ({"tree": "first"}, "tree must be a whole number from 0 to 0; got 'first'"),
        ({"max_depth": -1}, "max_depth must be a whole number of at least 0 or None; got -1"),
        ({"max_depth": 2.5}, "max_depth must be a whole number of at least 0 or None; got 2.5"),
        ({"decimals": -2}, "decimals must be a whole number from 0 to 17; got -2"),
        ({"decimals": "2"}, "decimals must be a whole number from 0 to 17; got '2'"),
    ],
)
@pytest.mark.parametrize("method", ["plot_tree", "to_text"])
def test_errors_say_what_to_do(rng, method, options, message):
    model = fastens.DecisionTreeRegressor(max_depth=2).fit(rng.normal(size=(50, 2)), rng.normal(size=50))
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(**options)

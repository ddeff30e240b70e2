"""Trees in words, as tables and as pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier, export_text

from fastens import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor
from fastens.inspection.trees import MAX_CATEGORIES, Names, plot_tree, split_at, to_dataframe, to_text, value_text
from fastens.params.options import Categories
from reference.sklearn_trees import ensemble_of

IRIS = load_iris()
NAMES = Names(IRIS.feature_names, None, IRIS.target_names.tolist())


@pytest.fixture(scope="module")
def iris():
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(IRIS.data, IRIS.target)


@pytest.fixture(scope="module")
def mixed():
    """A model of a table with names, categories and missing values."""
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", None], size=600)
    table = pd.DataFrame({"size": rng.normal(size=600), "colour": pd.Categorical(colour)})
    table.loc[::7, "size"] = np.nan
    y = (table["colour"] == "red") * 2.0 + (table["size"] > 0.5) + table["size"].isna() * 1.0
    model = GradientBoostingRegressor(n_estimators=2, max_leaf_nodes=4, categorical_features=["colour"])
    return table, model.fit(table, y)


def test_text_has_the_lines_of_scikit_learn(iris):
    trees = ensemble_of([iris])
    ours = to_text(trees, names=NAMES).replace(" or missing", "").splitlines()
    theirs = export_text(iris, feature_names=IRIS.feature_names, class_names=IRIS.target_names).splitlines()
    assert len(ours) == len(theirs)
    for line, expected in zip(ours, theirs, strict=True):
        assert line.startswith(expected.replace("class: ", "class: ").rstrip())


def test_text_stops_at_a_depth(iris):
    trees = ensemble_of([iris])
    text = to_text(trees, names=NAMES, max_depth=1)
    assert "truncated branch of depth 1" in text
    assert text.count("\n") < to_text(trees, names=NAMES).count("\n")
    theirs = export_text(iris, max_depth=1)
    assert text.count("truncated") == theirs.count("truncated")


def test_conditions_of_both_sides_send_rows_where_the_tree_does(mixed):
    table, model = mixed
    frame, trees = model.to_dataframe(), model._ensemble
    leaves = model.apply(table)
    for tree in range(2):
        nodes = frame[frame["tree"] == tree].set_index("node")
        for row in range(0, 600, 17):
            node = 0
            while nodes.loc[node, "left_child"] >= 0:
                split = nodes.loc[node]
                value = table[split["feature"]].iloc[row]
                if pd.isna(value):
                    left = split["missing"] == "left"
                elif split["left_categories"] is None:
                    left = value <= split["threshold"]
                else:
                    left = value in split["left_categories"]
                node = split["left_child"] if left else split["right_child"]
            assert node == leaves[row, tree]
    assert len(frame) == len(trees.feature)


def test_dataframe_has_what_the_arrays_have(mixed):
    _, model = mixed
    frame, trees = model.to_dataframe(), model._ensemble
    np.testing.assert_array_equal(frame["gain"], trees.gain)
    np.testing.assert_array_equal(frame["value"], trees.value[:, 0])
    np.testing.assert_array_equal(frame["n_samples"], trees.n_samples)
    np.testing.assert_array_equal(frame.loc[frame["parent"] < 0, "depth"], 0)
    children = frame[frame["parent"] >= 0]
    parents = frame.set_index(["tree", "node"]).loc[list(zip(children["tree"], children["parent"], strict=True))]
    np.testing.assert_array_equal(children["depth"], parents["depth"].to_numpy() + 1)
    assert set(frame["feature"].dropna()) <= {"size", "colour"}


def test_values_of_several_outputs_have_columns_of_their_own(iris):
    frame = to_dataframe(ensemble_of([iris]), NAMES)
    assert [name for name in frame if name.startswith("value")] == ["value_0", "value_1", "value_2"]


def test_text_names_columns_and_categories(mixed):
    _, model = mixed
    text = model.to_text()
    assert "colour in {red}" in text
    assert "or missing" in text
    assert "size <= " in text
    with pytest.raises(ValueError, match="tree must be a whole number from 0 to 1; got 2"):
        model.to_text(tree=2)


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, RandomForestRegressor])
def test_missing_values_that_are_a_category_have_a_side(kind):
    table = pd.DataFrame({"colour": ["red", "blue", None, "red", "blue", None] * 20})
    y = table["colour"].isna().to_numpy(dtype=float)
    model = kind(n_estimators=1, categories=Categories(missing="category")).fit(table, y)
    [condition] = [line for line in model.to_text(max_depth=0).split("|--- ") if "missing" in line]
    assert condition == "colour in {} or missing\n|   "
    root = model.to_dataframe().iloc[0]
    assert root["missing"] == ("right" if root["left_categories"] else "left")
    pyplot.close(model.plot_tree().figure)


def test_many_categories_are_cut_short():
    rng = np.random.default_rng(0)
    X = rng.integers(40, size=(2000, 1)).astype(float)
    model = GradientBoostingRegressor(
        n_estimators=1, max_leaf_nodes=2, categorical_features=[0], categories=Categories(encoding="partition")
    )
    model.fit(X, X[:, 0] % 2)
    split = split_at(model._ensemble, 0, Names(None, model._encoder.categories))
    assert sorted(split.left + split.right) == list(range(40))
    assert f"{20 - MAX_CATEGORIES} more}}" in split.side(True)


@pytest.mark.parametrize(
    ("value", "classes", "text"),
    [
        ([0.25], None, "value: 0.25"),
        ([0.25], ["a", "b"], "class: a [0.75, 0.25]"),
        ([0.1, 0.7, 0.2], ["a", "b", "c"], "class: b [0.10, 0.70, 0.20]"),
        ([1.0, 2.0], None, "value: [1.00, 2.00]"),
    ],
)
def test_values_in_words(value, classes, text):
    assert value_text(np.array(value), Names(classes=classes)) == text


def test_plot_shows_a_box_for_each_node(iris):
    trees = ensemble_of([iris])
    ax = plot_tree(trees, names=NAMES, max_depth=None)
    words = [text.get_text() for text in ax.texts]
    assert sum("rows" in word for word in words) == len(trees.feature)
    assert sum(word in ("yes", "no") for word in words) == len(trees.feature) - 1
    assert any("petal" in word for word in words)
    pyplot.close(ax.figure)
    ax = plot_tree(trees, names=NAMES, max_depth=1)
    assert sum("rows" in text.get_text() for text in ax.texts) == 3
    assert any("..." in text.get_text() for text in ax.texts)
    pyplot.close(ax.figure)


def test_plots_are_drawn_where_asked_and_of_single_leaves():
    model = GradientBoostingClassifier(n_estimators=1, min_samples_leaf=500).fit(IRIS.data[:100], IRIS.target[:100])
    ax = pyplot.figure().subplots()
    assert model.plot_tree(ax=ax) is ax
    assert len(ax.texts) == 1
    pyplot.close(ax.figure)


def test_unfitted_estimators_say_so():
    for method in ("to_text", "to_dataframe", "plot_tree"):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(GradientBoostingRegressor(), method)()


def test_values_that_round_to_zero_have_no_sign():
    X = np.arange(8.0)[:, None]
    model = GradientBoostingRegressor(n_estimators=1, min_samples_leaf=1).fit(X, np.where(X[:, 0] < 4, -1e-6, 1e-6))
    assert "-0.00" not in model.to_text()
    assert "value: 0.00" in model.to_text()

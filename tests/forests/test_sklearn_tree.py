"""`tree_`: the arrays of scikit-learn's trees."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn import tree as sklearn_tree
from sklearn.datasets import load_diabetes, load_iris

import fastens


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_a_tree_of_classes_has_the_arrays_of_scikit_learn(criterion):
    X, y = load_iris(return_X_y=True)
    given = {"criterion": criterion, "max_depth": 3, "random_state": 0}
    ours = fastens.DecisionTreeClassifier(**given).fit(X, y).tree_
    theirs = sklearn_tree.DecisionTreeClassifier(**given).fit(X, y).tree_
    assert (ours.node_count, ours.n_leaves, ours.max_depth) == (theirs.node_count, theirs.n_leaves, theirs.max_depth)
    root, theirs_root = (
        (t.impurity[0], t.n_node_samples[0], t.weighted_n_node_samples[0], *t.value[0, 0]) for t in (ours, theirs)
    )
    np.testing.assert_allclose(list(root), list(theirs_root))
    np.testing.assert_allclose(sorted(ours.impurity), sorted(theirs.impurity), atol=1e-12)
    np.testing.assert_allclose(ours.compute_feature_importances().sum(), 1)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X.astype(np.float32)))


def walk(tree, row):
    """The leaf of a row, by the arrays alone."""
    node = 0
    while tree.children_left[node] != -1:
        value = row[tree.feature[node]]
        left = tree.missing_go_to_left[node] if np.isnan(value) else value <= tree.threshold[node]
        node = tree.children_left[node] if left else tree.children_right[node]
    return node


@pytest.mark.parametrize("random", [False, True])
def test_the_arrays_predict(random):
    X, y = load_diabetes(return_X_y=True)
    X[::7, 2] = np.nan
    model = fastens.DecisionTreeRegressor(splitter="random" if random else "best", max_depth=6, random_state=0).fit(
        X, y
    )
    tree = model.tree_
    leaves = np.array([walk(tree, row) for row in X])
    np.testing.assert_array_equal(leaves, model.apply(X))
    np.testing.assert_array_equal(tree.value[leaves, 0, 0], model.predict(X))
    inner = tree.children_left >= 0
    for array in (tree.n_node_samples, tree.weighted_n_node_samples):
        np.testing.assert_array_equal(
            array[inner], array[tree.children_left[inner]] + array[tree.children_right[inner]]
        )
    assert (tree.decision_path(X).toarray()[np.arange(len(X)), leaves] == 1).all()
    again = pickle.loads(pickle.dumps(tree))
    np.testing.assert_array_equal(again.threshold, tree.threshold)


def test_several_targets():
    X, y = load_iris(return_X_y=True)
    both = np.column_stack([y, y > 0])
    tree = fastens.DecisionTreeClassifier(max_depth=2).fit(X, both).tree_
    assert tree.value.shape == (tree.node_count, 2, 3)
    np.testing.assert_allclose(tree.value.sum(axis=2), 1)
    assert tree.n_classes.tolist() == [3, 2]


def test_members_of_forests_have_it():
    X, y = load_diabetes(return_X_y=True)
    forest = fastens.RandomForestRegressor(n_estimators=3, random_state=0).fit(X, y)
    mean = np.mean([member.tree_.predict(X)[:, 0] for member in forest.estimators_], axis=0)
    np.testing.assert_allclose(mean, forest.predict(X), rtol=1e-6)


def test_text_and_picture_by_scikit_learn():
    """Given our trees as they are, where scikit-learn does not look for its own classes, or its own objects of them."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = load_diabetes(return_X_y=True)
    tree = fastens.RandomForestRegressor(n_estimators=2, max_depth=3, random_state=0).fit(X, y)[1]
    own = tree.export(format="sklearn")
    axes = pyplot.figure().add_subplot()
    with config_context(skip_parameter_validation=True):
        text, boxes = sklearn_tree.export_text(tree), sklearn_tree.plot_tree(tree, ax=axes)
    # The same splits, in single precision there.
    assert text.count("<=") == sklearn_tree.export_text(own).count("<=") == tree.get_n_leaves() - 1
    assert text == sklearn_tree.export_text(own)
    n_boxes = sum("squared_error" in box.get_text() for box in boxes)
    assert n_boxes == tree.tree_.node_count
    pyplot.close("all")

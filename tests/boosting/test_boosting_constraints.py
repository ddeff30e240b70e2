"""Constraints on boosted trees: each changes the model as it says, always holds, and refuses wrong values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.params.options import Dart, Growth
from reference.sklearn_checks import parametrize_with_checks

CONSTRAINED = {
    "growth": Growth(path_smooth=1.0, max_delta_step=3.0),
    "interaction_cst": "pairwise",
    "max_features_per_tree": 0.7,
}


@parametrize_with_checks([GradientBoostingClassifier(**CONSTRAINED), GradientBoostingRegressor(**CONSTRAINED)])
def test_sklearn_check(check):
    check()


def make_rows(seed, n_rows=400, n_features=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] = np.round(X[:, 1], 1)
    # Against the constraints at places, so that they bind.
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def fit(X, y, loss="squared_error", **options):
    options = {"n_estimators": 15, "min_samples_leaf": 2, **options}
    if loss in ("log_loss", "exponential"):
        return GradientBoostingClassifier(loss, **options).fit(X, y > np.median(y))
    if loss in ("poisson", "gamma"):
        y = np.exp(0.5 * y)
    return GradientBoostingRegressor(loss, **options).fit(X, y)


def raw(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def paths(model):
    """The features on each path from a root to a leaf."""
    ensemble = model._ensemble
    for t in range(ensemble.n_trees):
        tree, open_nodes = ensemble.tree(t), [(0, frozenset())]
        while open_nodes:
            node, path = open_nodes.pop()
            if tree.left_child[node] == 0:
                yield path
                continue
            below = path | {int(tree.feature[node])}
            open_nodes += [(tree.left_child[node], below), (tree.left_child[node] + 1, below)]


def breaks_of_order(model, X, signs, *, is_finite=False):
    """By how much, at most, predictions of any output go against the signs along any feature."""
    values = np.unique(X[~np.isnan(X)])[::20]
    values = values if is_finite else np.concatenate([[-np.inf], values, [np.inf]])
    worst = 0.0
    for feature, sign in enumerate(signs):
        rows = np.repeat(X[:12], len(values), axis=0)
        rows[:, feature] = np.tile(values, 12)
        steps = np.diff(raw(model, rows).reshape(12, len(values), -1), axis=1)
        worst = max(worst, float((-sign * steps).max() / (1 + np.abs(steps).max())))
    return worst


# Monotone --------------------------------------------------

LOSSES = ["squared_error", "log_loss", "absolute_error", "quantile", "huber", "poisson", "gamma"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(LOSSES),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    leaves=st.sampled_from([4, 31, None]),
    extra=st.sampled_from(
        [
            {},
            {"growth": Growth(path_smooth=5.0)},
            {"growth": Growth(max_delta_step=0.3)},
            {"subsample": 0.5},
            {"max_bins": 300},
        ]
    ),
    n_rows=st.sampled_from([30, 400]),
)
def test_predictions_are_monotone(seed, loss, signs, leaves, extra, n_rows):
    X, y = make_rows(seed, n_rows)
    options = {"quantile": 0.8} if loss == "quantile" else {}
    model = fit(
        X,
        y,
        loss,
        n_estimators=8,
        n_jobs=1,
        monotonic_cst=signs,
        max_leaf_nodes=leaves,
        max_depth=8,
        **extra,
        **options,
    )
    assert breaks_of_order(model, X, signs) < 1e-10


ROUNDS = [
    {},
    {"boosting": Dart(rate_drop=0.5, skip_drop=0.0)},
    {"sampling": "goss"},
    {"sampling": "mvs", "subsample": 0.5},
    {"growth": Growth(path_smooth=5.0)},
    {"growth": Growth(max_delta_step=0.3)},
    {"max_features": 0.5, "max_features_per_tree": 0.7},
    {"interaction_cst": "pairwise"},
    {"max_bins": 300, "min_samples_leaf": 1},
]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    levels=st.lists(st.sampled_from([0.02, 0.1, 0.3, 0.5, 0.6, 0.9, 0.99]), min_size=2, max_size=4, unique=True),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    growth=st.fixed_dictionaries(
        {"max_leaf_nodes": st.sampled_from([2, 8, 31, None]), "learning_rate": st.sampled_from([0.1, 1.0])}
    ),
    extra=st.sampled_from(ROUNDS),
    refits=st.booleans(),
)
def test_quantiles_never_cross_and_are_monotone(seed, levels, signs, growth, extra, refits):
    X, y = make_rows(seed, 40 if seed % 4 == 0 else 300)
    options = {"n_estimators": 6, "n_jobs": 1, "max_depth": 8, "random_state": 0, **growth, **extra}
    model = fit(X, y, "quantile", quantile=sorted(levels), monotonic_cst=signs, **options)
    if refits:
        model = model.refit_leaves(X[::-1], -y, decay_rate=0.3)
    new, _ = make_rows(seed + 1, 100)
    assert (np.diff(model.predict(np.concatenate([X, new])), axis=1) >= 0).all()
    assert breaks_of_order(model, X, signs) < 1e-10


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(["log_loss", "exponential", "squared_error", "poisson", "huber", "expectile", "log_cosh"]),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    leaves=st.sampled_from([2, 8, 31, None]),
    extra=st.sampled_from(ROUNDS),
    refits=st.booleans(),
)
def test_ways_to_grow_and_refit_are_monotone(seed, loss, signs, leaves, extra, refits):
    X, y = make_rows(seed, 200)
    options = {"n_estimators": 6, "n_jobs": 1, "max_depth": 8, "random_state": 0, "max_leaf_nodes": leaves, **extra}
    if loss == "expectile":
        options["quantile"] = 0.8
    model = fit(X, y, loss, monotonic_cst=signs, **options)
    if refits:
        target = model.classes_[(y < np.median(y)).astype(int)] if hasattr(model, "classes_") else np.exp(-y / 4)
        model = model.refit_leaves(X, target, decay_rate=0.3)
    assert breaks_of_order(model, X, signs) < 1e-10


def test_refitting_moves_leaves_within_their_limits():
    X, y = make_rows(0)
    model = fit(X, y, monotonic_cst=[1, 0, 0, -1], growth=Growth(max_delta_step=0.2), learning_rate=0.5)
    moved = model.refit_leaves(X, y + 5, decay_rate=0.0)
    assert moved.predict(X).mean() > model.predict(X).mean()
    assert np.abs(moved._ensemble.value).max() <= 0.1 + 1e-12
    np.testing.assert_array_equal(model.refit_leaves(X, y + 5, decay_rate=1.0).predict(X), model.predict(X))


def test_constraint_against_the_data_leaves_a_constant(rng):
    X = rng.normal(size=(500, 1))
    model = fit(X, X[:, 0], monotonic_cst=[-1])
    assert np.ptp(model.predict(X)) == 0


def test_constraint_along_the_data_keeps_the_model(rng):
    X = np.repeat(np.arange(10.0), 30)[:, None]
    free, bound = fit(X, X[:, 0]), fit(X, X[:, 0], monotonic_cst={0: 1})
    np.testing.assert_allclose(free.predict(X), bound.predict(X), rtol=1e-6)


def test_constraints_by_name_survive_a_file(tmp_path):
    X, y = make_rows(0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = fit(
        frame, y, monotonic_cst={"a": 1, "d": -1}, interaction_cst=[{"a", "b"}, ["c"]], feature_weights={"b": 0}
    )
    np.testing.assert_array_equal(
        model.predict(frame),
        fit(X, y, monotonic_cst=[1, 0, 0, -1], interaction_cst=[[0, 1], [2]], feature_weights=[1, 0, 1, 1]).predict(X),
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(frame), model.predict(frame))


def test_no_order_among_three_classes(rng):
    X, y = make_rows(0)
    for signs in ([1, 0, 0, 0], {0: 1}):
        with pytest.raises(ValueError, match=r"must have a row for each class, or be a dict .* more than two classes"):
            GradientBoostingClassifier(monotonic_cst=signs).fit(X, np.digitize(y, [-1, 1]))


BY_CLASS = [[1, 0, 0, -1], [0, 0, 1, 0], [-1, 1, 0, 0]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "one_vs_rest"},
        {"boosting": Dart(rate_drop=0.5, skip_drop=0.0)},
        {"growth": Growth(path_smooth=5.0, max_delta_step=0.5), "sampling": "goss"},
        {"linear_leaves": True},
    ],
    ids=str,
)
def test_scores_are_monotone_by_class(options, tmp_path):
    X, y = make_rows(3, n_rows=400)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    target = np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    made = {"n_estimators": 8, "random_state": 0, "min_samples_leaf": 3, **options}
    model = GradientBoostingClassifier(monotonic_cst=BY_CLASS, n_jobs=1, **made).fit(X, target, weight)
    by_name = {"low": {0: 1, 3: -1}, "top": [-1, 1, 0, 0], "mid": [0, 0, 1, 0]}
    same = GradientBoostingClassifier(monotonic_cst=by_name, n_jobs=3, **made).fit(X, target, weight)
    np.testing.assert_array_equal(same.decision_function(X), model.decision_function(X))
    model.save(tmp_path / "model")
    refits = [] if "boosting" in options else [model.refit_leaves(X, np.roll(target, 5))]
    part = GradientBoostingClassifier(monotonic_cst=by_name, warm_start=True, **{**made, "n_estimators": 3})
    part.fit(X, target, weight).set_params(n_estimators=8, monotonic_cst=BY_CLASS).fit(X, target, weight)
    np.testing.assert_array_equal(part.decision_function(X), model.decision_function(X))
    free = GradientBoostingClassifier(**made).fit(X, target, weight)
    is_linear = "linear_leaves" in options  # constraints of linear leaves hold among finite values
    at = np.nan_to_num(X) if is_linear else X
    worst = [
        [breaks_of_order(OneScore(each, k), at, signs, is_finite=is_linear) for k, signs in enumerate(BY_CLASS)]
        for each in (model, fastens.load(tmp_path / "model"), *refits, free)
    ]
    assert np.max(worst[:-1]) < 1e-10 < np.min(worst[-1])
    with pytest.raises(ValueError, match="monotonic_cst must be the same as in the last fit"):
        part.set_params(monotonic_cst=[[0] * 4, *BY_CLASS[1:]], n_estimators=9).fit(X, target, weight)


class OneScore:
    """The score of one class of a model."""

    def __init__(self, model, number):
        self.model, self.number = model, number

    def predict(self, X):
        return self.model.decision_function(X)[:, self.number]


def test_probabilities_of_one_vs_rest_are_monotone_by_class():
    X, y = make_rows(3, n_rows=400)
    model = GradientBoostingClassifier("one_vs_rest", n_estimators=8, monotonic_cst={2: {1: 1}})
    model.fit(X, np.digitize(y, np.quantile(y, [0.3, 0.7])))
    rows = np.repeat(np.nan_to_num(X[:20]), 50, axis=0)
    rows[:, 1] = np.tile(np.linspace(-3, 3, 50), 20)
    assert np.diff(model.predict_proba(rows)[:, 2].reshape(20, 50), axis=1).min() >= 0


@pytest.mark.parametrize(
    ("signs", "message"),
    [
        (BY_CLASS[:2], "monotonic_cst must have a row for each of the 3 classes; got 2 rows"),
        ({3: [1, 0, 0, 0]}, r"monotonic_cst must have keys among the classes \[0, 1, 2\]; got 3"),
        ([[2, 0, 0, 0]] * 3, "monotonic_cst must hold 1, -1 or 0 for each column; got 2"),
        ([[1, 0]] * 3, "monotonic_cst must have one value for each of the 4 columns"),
    ],
)
def test_wrong_signs_by_class(signs, message):
    X, y = make_rows(0)
    target = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    with pytest.raises(ValueError, match=message):
        GradientBoostingClassifier(monotonic_cst=signs).fit(X, target)
    with pytest.raises(ValueError, match="monotonic_cst must have one axis unless there are three or more classes"):
        GradientBoostingClassifier(monotonic_cst=BY_CLASS).fit(X, target > 0)
    for constraints in (BY_CLASS, [1] + [0] * (X.shape[1] - 1)):
        with pytest.raises(ValueError, match="monotonic_cst must be None with loss='ordinal'"):
            GradientBoostingClassifier("ordinal", monotonic_cst=constraints).fit(X, target)
    with pytest.raises(ValueError, match="monotonic_cst must be None with more than two classes"):
        fastens.RandomForestClassifier(monotonic_cst=BY_CLASS, averaging=None).fit(X, target)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{"monotonic_cst": [1, -1, 0, 1]}, CONSTRAINED], ids=["monotone", "others"])
def test_threads_do_not_matter(loss, options):
    X, y = make_rows(1, n_rows=5000)
    options = {"random_state": 0, "quantile": 0.3, **options} if loss == "quantile" else {"random_state": 0, **options}
    one, three = (fit(X, y, loss, n_estimators=4, n_jobs=n, **options) for n in (1, 3))
    np.testing.assert_array_equal(raw(one, X), raw(three, X))


@pytest.mark.parametrize(
    "options",
    [{"monotonic_cst": [1, -1, 0, 1]}, {"growth": Growth(path_smooth=3.0)}, {"growth": Growth(max_delta_step=0.2)}],
)
def test_weights_are_repetition(options):
    X, y = make_rows(2)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    options = {"min_samples_leaf": 1, **options}
    weighted = GradientBoostingRegressor(n_estimators=10, **options).fit(X, y, sample_weight=weight)
    copied = GradientBoostingRegressor(n_estimators=10, **options).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_true_constraints_do_no_harm(loss):
    X, noise = make_rows(8, n_rows=1500)
    y = 2 * np.nan_to_num(X[:, 3]) + 0.2 * noise
    options = {"quantile": 0.5} if loss == "quantile" else {}
    free, bound = (fit(X, y, loss, n_estimators=30, monotonic_cst=cst, **options) for cst in (None, [0, 0, 0, 1]))
    rows, _ = make_rows(9, n_rows=1500)
    fits = [np.corrcoef(raw(model, rows), np.nan_to_num(rows[:, 3]))[0, 1] for model in (free, bound)]
    assert fits[1] > fits[0] - 0.01


# Interactions --------------------------------------------------


@pytest.mark.parametrize(("given", "most"), [("no_interactions", 1), ("pairwise", 2)])
def test_words_bound_the_features_of_a_path(given, most):
    X, y = make_rows(3)
    assert max(len(path) for path in paths(fit(X, y))) > most
    assert max(len(path) for path in paths(fit(X, y, interaction_cst=given))) == most


def test_groups_hold_paths():
    X, y = make_rows(3)
    found = set(paths(fit(X, y, interaction_cst=[{0, 1}, {1, 2}])))
    assert all(path <= {0, 1} or path <= {1, 2} or path <= {3} for path in found)
    assert {frozenset({0, 1}), frozenset({1, 2}), frozenset({3})} & found


def test_without_interactions_the_model_is_a_sum():
    X, y = make_rows(4)
    model = fit(X, y, interaction_cst="no_interactions")
    base, one, other = X[:50].copy(), X[:50].copy(), X[:50].copy()
    one[:, 1], other[:, 2] = X[50:100, 1], X[50:100, 2]
    both = one.copy()
    both[:, 2] = X[50:100, 2]
    np.testing.assert_allclose(
        model.predict(both) - model.predict(one), model.predict(other) - model.predict(base), atol=1e-9
    )


# Features drawn --------------------------------------------------


def test_features_of_a_tree():
    X, y = make_rows(5)
    model = fit(X, y, max_features_per_tree=2, random_state=0)
    trees = [model._ensemble.tree(t).feature for t in range(15)]
    used = [set(feature[feature >= 0].tolist()) for feature in trees]
    assert max(map(len, used)) == 2
    assert set.union(*used) == {0, 1, 2, 3}
    share = fit(X, y, max_features_per_tree=0.5, random_state=0)
    np.testing.assert_array_equal(share.predict(X), model.predict(X))
    other = fit(X, y, max_features_per_tree=2, random_state=1)
    assert (other.predict(X) != model.predict(X)).any()


def test_features_of_nodes_come_from_those_of_the_tree():
    X, y = make_rows(5)
    model = fit(X, y, max_features_per_tree=2, max_features=1, random_state=0)
    used = [np.unique(feature[feature >= 0]) for feature in (model._ensemble.tree(t).feature for t in range(15))]
    assert max(map(len, used)) == 2


@pytest.mark.parametrize("parameter", ["max_features", "max_features_per_tree"])
def test_weights_of_features(parameter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X.sum(axis=1)
    options = {parameter: 1, "n_estimators": 200, "max_leaf_nodes": 2, "split_penalty": 0.0, "random_state": 0}
    model = fit(X, y, feature_weights=[6, 3, 1, 0], **options)
    shares = model.feature_split_counts_ / model.feature_split_counts_.sum()
    np.testing.assert_allclose(shares, [0.6, 0.3, 0.1, 0.0], atol=0.09)
    assert (fit(X, y, **options).feature_split_counts_ > 30).all()


# Leaves --------------------------------------------------


def test_steps_are_bounded():
    X, y = make_rows(6)
    model = fit(X, y, growth=Growth(max_delta_step=0.05), learning_rate=0.5)
    assert np.abs(model._ensemble.value).max() == pytest.approx(0.025)
    for loss in ("absolute_error", "log_loss"):
        assert (
            np.abs(fit(X, y, loss, growth=Growth(max_delta_step=0.05), learning_rate=1.0)._ensemble.value).max() <= 0.05
        )


def test_smoothing_pulls_towards_the_parent():
    X, y = make_rows(6)
    spread = [
        fit(X, y, growth=Growth(path_smooth=smooth), n_estimators=1).predict(X).std() for smooth in (0, 1, 10, 1e3, 1e9)
    ]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-5 * spread[0]


def test_smoothed_value_of_a_leaf():
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    options = {"n_estimators": 1, "learning_rate": 1.0, "l2_regularization": 0.0, "min_samples_leaf": 1}
    model = GradientBoostingRegressor(growth=Growth(path_smooth=5.0), **options).fit(X, 3 * X[:, 0])
    # Root 0; leaves of 10 rows: 10 / (10 + 5) of their step of 1.5 away from the mean.
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [0.5, 2.5])


@pytest.mark.parametrize("smooth", [0.0, 2.0, 50.0])
def test_smoothed_values_along_a_path(smooth):
    X = np.repeat([[0.0], [1.0], [2.0], [3.0]], [10, 20, 30, 40], axis=0)
    y = np.array([0.0, 4.0, 9.0, -5.0])[X[:, 0].astype(int)]
    options = {
        "n_estimators": 1,
        "learning_rate": 1.0,
        "l2_regularization": 0.0,
        "min_samples_leaf": 1,
        "max_leaf_nodes": 4,
    }
    model = GradientBoostingRegressor(growth=Growth(path_smooth=smooth), **options).fit(X, y)
    nodes = model.to_dataframe().set_index("node")
    rows = {0: np.arange(100)}
    expected = {0: 0.0}
    for node, parent in nodes["parent"].items():
        if parent >= 0:
            is_left = nodes["left_child"][parent] == node
            goes_left = X[rows[parent], 0] <= nodes["threshold"][parent]
            rows[node] = rows[parent][goes_left == is_left]
            own = (y[rows[node]] - y.mean()).mean()
            n = len(rows[node])
            expected[node] = (n * own + smooth * expected[parent]) / (n + smooth)
    assert len(expected) == 7
    leaves = nodes.index[nodes["feature"].isna()]
    np.testing.assert_allclose(nodes["value"][leaves], [expected[leaf] for leaf in leaves], atol=1e-5)


@pytest.mark.parametrize("limit", [0.1, 1.0, 3.0])
def test_steps_are_cut_at_the_limit(limit):
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    y = np.array([-2.0, 0.5, 4.0])[X[:, 0].astype(int)]
    options = {"n_estimators": 1, "learning_rate": 0.5, "l2_regularization": 0.0, "min_samples_leaf": 1}
    model = GradientBoostingRegressor(growth=Growth(max_delta_step=limit), **options).fit(X, y)
    expected = y.mean() + 0.5 * np.clip(y - y.mean(), -limit, limit)
    # A leaf of rows that would all be cut alike need not be split.
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)

"""AdaBoost within constraints: sums of votes and weighted medians of monotone trees are monotone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastens import AdaBoostClassifier, AdaBoostRegressor, DecisionTreeClassifier, load

ALGORITHMS = ["discrete", "real", "gentle", "logit"]
SIGNS = [1, -1, 0]


def make_rows(seed, n_rows=120):
    """Few distinct values, so that a column changes by itself; some missing; targets that have no such order."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n_rows, 3)).astype(float)
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] - X[:, 1] * X[:, 2] / 4 + rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def assert_monotone(respond, X):
    for column, sign in enumerate(SIGNS):
        line = X.copy()
        before = -np.inf
        for value in np.arange(-1, 7) if sign > 0 else np.arange(7, -2, -1):
            line[:, column] = value
            now = respond(line)
            assert sign == 0 or (now >= before - 1e-12).all()
            before = now


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    max_depth=st.integers(1, 4),
    resample=st.booleans(),
    options=st.fixed_dictionaries(
        {"criterion": st.sampled_from(["gini", "entropy"]), "learning_rate": st.sampled_from([0.3, 1.0, 2.0])}
    ),
    seed=st.integers(0, 99),
)
def test_no_classifier_breaks_a_constraint(algorithm, max_depth, resample, options, seed):
    X, y = make_rows(seed)
    weight = np.random.default_rng(seed).exponential(size=len(y)) ** 3 if seed % 2 else None
    if algorithm in ("gentle", "logit"):
        options = options | {"criterion": "gini"}
    model = AdaBoostClassifier(
        n_estimators=8,
        algorithm=algorithm,
        max_depth=max_depth,
        resample=resample and algorithm in ("discrete", "real"),
        monotonic_cst=SIGNS,
        random_state=seed,
        **options,
    ).fit(X, y > np.median(y), sample_weight=weight)
    assert_monotone(model.decision_function, X)
    assert_monotone(lambda rows: model.predict_proba(rows)[:, 1], X)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    loss=st.sampled_from(["linear", "square", "exponential"]),
    max_depth=st.integers(1, 5),
    resample=st.booleans(),
    seed=st.integers(0, 99),
)
def test_no_regressor_breaks_a_constraint(loss, max_depth, resample, seed):
    X, y = make_rows(seed)
    model = AdaBoostRegressor(
        n_estimators=8, loss=loss, max_depth=max_depth, resample=resample, monotonic_cst=SIGNS, random_state=seed
    ).fit(X, y)
    assert_monotone(model.predict, X)
    for stage in range(1, model.n_estimators_ + 1, 3):
        assert_monotone(lambda rows, stage=stage: list(model.staged_predict(rows))[stage - 1], X)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_the_constraint_there_are_violations(algorithm):
    X, y = make_rows(0)
    model = AdaBoostClassifier(n_estimators=8, algorithm=algorithm, max_depth=3).fit(X, y > np.median(y))
    with pytest.raises(AssertionError):
        assert_monotone(model.decision_function, X)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_true_constraint_costs_little(algorithm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X @ [2, -1, 0.5, 0] + rng.normal(size=2000) > 0
    free, bound = (
        AdaBoostClassifier(algorithm=algorithm, max_depth=2, monotonic_cst=cst).fit(X[:1000], y[:1000])
        for cst in (None, [1, -1, 1, 0])
    )
    assert bound.score(X[1000:], y[1000:]) > free.score(X[1000:], y[1000:]) - 0.01


@pytest.mark.parametrize("algorithm", ["discrete", "real"])
def test_the_constraints_of_our_tree_as_an_estimator(algorithm):
    X, y = make_rows(1)
    tree = DecisionTreeClassifier(max_depth=3, max_bins=255, monotonic_cst=SIGNS, interaction_cst="pairwise")
    own = AdaBoostClassifier(tree, n_estimators=6, algorithm=algorithm).fit(X, y > 0)
    assert_monotone(own.decision_function, X)
    same = AdaBoostClassifier(
        n_estimators=6, algorithm=algorithm, max_depth=3, monotonic_cst=SIGNS, interaction_cst="pairwise"
    ).fit(X, y > 0)
    np.testing.assert_array_equal(own.decision_function(X), same.decision_function(X))


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
def test_interactions(kind):
    X, y = make_rows(2)
    y = y if kind is AdaBoostRegressor else y > 0
    for options in [{}] if kind is AdaBoostRegressor else [{"algorithm": algorithm} for algorithm in ALGORITHMS]:
        model = kind(max_depth=4, n_estimators=6, interaction_cst=[[0, 1], [2]], **options).fit(X, y)
        trees = model._ensemble
        for tree in map(trees.tree, range(trees.n_trees)):
            path = {0: frozenset()}
            for node in np.flatnonzero(tree.left_child > 0):
                joined = path[node] | {int(tree.feature[node])}
                assert joined <= {0, 1} or joined <= {2}
                path[tree.left_child[node]] = path[tree.left_child[node] + 1] = joined


@pytest.mark.parametrize(
    "make", [AdaBoostRegressor, *(lambda a=a: AdaBoostClassifier(algorithm=a) for a in ALGORITHMS)]
)
def test_names_threads_weights_and_files(make, tmp_path):
    X, y = make_rows(3, 200)
    y = y if make is AdaBoostRegressor else y > 0
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    weight = np.random.default_rng(0).integers(0, 4, len(y))

    def fitted(X, cst, **options):
        model = make().set_params(max_depth=2, n_estimators=6, random_state=0, monotonic_cst=cst)
        return model.set_params(**options).fit(X, y, sample_weight=weight)

    def raw(model, X):
        return model.predict(X) if make is AdaBoostRegressor else model.decision_function(X)

    model = fitted(X, SIGNS)
    expected = raw(model, X)
    np.testing.assert_array_equal(raw(fitted(frame, {"a": 1, "b": -1}), frame), expected)
    np.testing.assert_array_equal(raw(fitted(X, SIGNS, n_jobs=3), X), expected)
    copies = np.repeat(np.arange(len(y)), weight)
    repeated = make().set_params(**model.get_params()).fit(X[copies], y[copies])
    np.testing.assert_array_equal(raw(repeated, X), expected)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(raw(load(tmp_path / "model"), X), expected)


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"monotonic_cst": [1, 2, 0]}, "monotonic_cst must hold 1, -1 or 0 for each column; got 2"),
        ({"monotonic_cst": {"a": 1}}, "monotonic_cst must name columns of X; got 'a'"),
        ({"interaction_cst": "any"}, "interaction_cst must be 'no_interactions', .* got 'any'"),
        (
            {"monotonic_cst": SIGNS, "estimator": DecisionTreeClassifier()},
            "monotonic_cst must be None with an estimator",
        ),
        (
            {"interaction_cst": "pairwise", "estimator": DecisionTreeClassifier()},
            "interaction_cst must be None with an",
        ),
    ],
)
def test_wrong_values(kind, parameters, message):
    X, y = make_rows(4)
    with pytest.raises(ValueError, match=message):
        kind(**parameters).fit(X, y > 0)


def test_incompatible_parameters_raise():
    X, y = make_rows(5)
    with pytest.raises(ValueError, match="criterion must be 'gini' or 'entropy' with monotonic_cst; got 'error'"):
        AdaBoostClassifier(criterion="error", monotonic_cst=SIGNS).fit(X, y > 0)
    for algorithm in ALGORITHMS:
        with pytest.raises(ValueError, match="monotonic_cst must be None with more than two classes"):
            AdaBoostClassifier(algorithm=algorithm, monotonic_cst=SIGNS).fit(X, np.digitize(y, [-1, 1]))

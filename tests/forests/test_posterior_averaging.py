"""Forests of trees averaged over all their prunings: against every pruning of each tree, and as estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_diabetes, load_iris, make_classification

import fastens
from fastens import (
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    PosteriorAverage,
    RandomForestClassifier,
    RandomForestRegressor,
)
from reference import prunings as twin
from reference.sklearn_checks import parametrize_with_checks

OOB = PosteriorAverage(evidence="oob")


@parametrize_with_checks(
    [
        RandomForestClassifier(10, averaging="posterior"),
        RandomForestClassifier(10, averaging=OOB),
        ExtraTreesClassifier(10, averaging="posterior"),
        RandomForestRegressor(10, averaging="posterior"),
        RandomForestRegressor(10, averaging=OOB),
        ExtraTreesRegressor(10, averaging="posterior"),
    ]
)
def test_sklearn_check(check):
    check()


@pytest.fixture
def classes():
    X, y = load_iris(return_X_y=True)
    return X, np.where(np.random.default_rng(0).random(len(y)) < 0.1, (y + 1) % 3, y)


@pytest.fixture
def numbers():
    X, y = load_diabetes(return_X_y=True)
    return X, y


def nodes_of_rows(forest, t, X):
    """For each row the nodes of tree t on its way."""
    left_child = forest._ensemble.tree(t).left_child
    return left_child, [twin.way_to(left_child, int(leaf)) for leaf in forest.apply(X)[:, t]]


def averaged_by_hand(forest, X, y, weights):
    """What each tree says of the rows, from all its prunings; weights are of rows grown on, and of those left out."""
    prior, said = forest._averaging.pruning_prior(forest), []
    for t in range(len(weights)):
        left_child, ways = nodes_of_rows(forest, t, X)
        columns = prior.leaves.statistics(np.asarray(y, dtype=float))
        sums = np.zeros((len(weights[t]), len(columns), len(left_child)))
        for part, weight in zip(sums, weights[t], strict=True):
            for i, way in enumerate(ways):
                part[:, way] += weight[i] * columns[:, i, None]
        log_evidence = prior.leaves.log_evidence(sums.sum(axis=0))
        if len(sums) > 1:
            log_evidence = log_evidence - prior.leaves.log_evidence(sums[0])
        found, logs = twin.log_joints(left_child, log_evidence, np.full(len(left_child), prior.split))
        posterior = np.exp(logs - logsumexp(logs))
        values = prior.leaves.values(sums.sum(axis=0))
        leaf_in = np.array([[next(node for node in way if node in p.leaves) for way in ways] for p in found])
        said.append(np.tensordot(posterior, values.T[leaf_in], 1))
    return said


def unseen(X, y, bag):
    """1 for rows that are not in the bag, nor any copy of them."""
    drawn = {(*row, label) for row, label, count in zip(X.tolist(), y, bag, strict=True) if count}
    return np.array([float((*row, label) not in drawn) for row, label in zip(X.tolist(), y, strict=True)])


@pytest.mark.parametrize("evidence", ["train", "oob"])
@pytest.mark.parametrize("kind", ["classes", "numbers", "poisson", "two classes"])
def test_every_tree_equals_all_its_prunings(kind, evidence, request):
    X, y = request.getfixturevalue("classes" if "classes" in kind else "numbers")
    given = {"n_estimators": 4, "max_leaf_nodes": 6, "random_state": 0, "averaging": PosteriorAverage(evidence)}
    if kind == "two classes":
        X, y = X[y < 2], y[y < 2]
    if "classes" in kind:
        forest = RandomForestClassifier(**given).fit(X, y)
    else:
        criterion = "poisson" if kind == "poisson" else "squared_error"
        forest = RandomForestRegressor(criterion=criterion, **given).fit(X, y)
    bags = [forest.in_bag(t).astype(float) for t in range(4)]
    weights = [[bag] if evidence == "train" else [bag, unseen(X, y, bag)] for bag in bags]
    expected = averaged_by_hand(forest, X, y, weights)
    for found, by_hand in zip(forest._each_tree(X), expected, strict=True):
        np.testing.assert_allclose(found, by_hand, rtol=2e-5)


def test_weights_of_nodes_come_back_exactly():
    X, y = make_classification(3000, 10, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    forest = RandomForestClassifier(3, min_samples_leaf=5, random_state=0, averaging="posterior").fit(X, y)
    plain = RandomForestClassifier(3, min_samples_leaf=5, random_state=0).fit(X, y)
    for t, (tree, [statistics]) in enumerate(forest._averaging.trees_with_statistics(forest._ensemble)):
        leaf, bag = plain.apply(X)[:, t], forest.in_bag(t)
        for k in range(3):
            counts = np.bincount(leaf, bag * (y == k), tree.n_nodes)
            np.testing.assert_array_equal(statistics[k], counts[tree.left_child == 0])


CASES = [
    RandomForestClassifier(8, averaging="posterior", random_state=0),
    RandomForestClassifier(8, averaging=OOB, random_state=0),
    RandomForestClassifier(8, averaging=OOB, class_weight="balanced_subsample", bootstrap="stratified", random_state=0),
    ExtraTreesClassifier(8, averaging=PosteriorAverage(alpha=0.1, split_prior="strict"), random_state=0),
    RandomForestRegressor(8, averaging="posterior", min_samples_leaf=3, random_state=0),
    RandomForestRegressor(8, averaging=OOB, random_state=0),
    ExtraTreesRegressor(8, averaging="posterior", criterion="poisson", random_state=0),
]


def fitted(model, classes, numbers, **changes):
    X, y = classes if hasattr(model, "voting") else numbers
    return X, y, type(model)(**model.get_params(deep=False) | changes).fit(X, y)


def said(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize("model", CASES, ids=str)
def test_another_prior_is_as_if_fitted_with_it(model, classes, numbers):
    X, _, forest = fitted(model, classes, numbers)
    other = {"split_prior": (0.9, 0.5), "temperature": 2.0} | (
        {"alpha": 1.0} if hasattr(model, "voting") else {"prior_weight": 0.3}
    )
    before = said(forest, X)
    forest.reweight(**other)
    _, _, again = fitted(model, classes, numbers, averaging=model._options("averaging").replaced(other))
    np.testing.assert_array_equal(said(forest, X), said(again, X))
    assert np.abs(said(forest, X) - before).max() > 0
    assert forest.get_params() == again.get_params()
    assert (forest.expected_n_leaves_ <= forest._ensemble.n_leaves).all()


@pytest.mark.parametrize("model", CASES, ids=str)
def test_saved_and_pickled(model, classes, numbers, tmp_path):
    X, _, forest = fitted(model, classes, numbers)
    forest.save(tmp_path / "forest.fastens")
    for same in (fastens.load(tmp_path / "forest.fastens"), pickle.loads(pickle.dumps(forest))):
        np.testing.assert_array_equal(said(same, X), said(forest, X))
        np.testing.assert_array_equal(same.log_evidence_, forest.log_evidence_)
        given = {"split_prior": 0.2}
        np.testing.assert_array_equal(
            said(same.reweight(**given), X), said(pickle.loads(pickle.dumps(forest)).reweight(**given), X)
        )


@pytest.mark.parametrize("model", CASES, ids=str)
def test_the_same_for_any_number_of_threads(model, classes, numbers):
    X, _, one = fitted(model, classes, numbers, n_jobs=1)
    _, _, two = fitted(model, classes, numbers, n_jobs=2)
    np.testing.assert_array_equal(said(one, X), said(two, X))


@pytest.mark.parametrize("model", CASES, ids=str)
def test_more_trees(model, classes, numbers):
    X, y, whole = fitted(model, classes, numbers)
    part = type(model)(**model.get_params(deep=False) | {"n_estimators": 5, "warm_start": True}).fit(X, y)
    part.set_params(n_estimators=8).fit(X, y)
    np.testing.assert_array_equal(said(part, X), said(whole, X))
    np.testing.assert_array_equal(part.log_evidence_, whole.log_evidence_)


@pytest.mark.parametrize("averaging", ["posterior", OOB])
def test_integer_weights_are_repetition(averaging, classes, rng):
    X, y = classes
    weight = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    a = RandomForestClassifier(8, averaging=averaging, random_state=0).fit(X, y, weight)
    b = RandomForestClassifier(8, averaging=averaging, random_state=0).fit(X[rows], y[rows])
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("scale", [1e-3, 7.3])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(averaging="posterior", random_state=0),
        ExtraTreesClassifier(3, random_state=0),
        RandomForestClassifier(3, random_state=0),
        ExtraTreesRegressor(3, averaging="posterior", random_state=0),
    ],
)
def test_importance_weights_have_no_scale(model, scale, classes, rng):
    X, y = classes
    weight = rng.random(len(y))
    predict = getattr(model, "predict_proba", model.predict)
    model.fit(X, y, weight)
    once = predict(X)
    model.fit(X, y, weight * scale)
    np.testing.assert_allclose(predict(X), once, atol=1e-6)


def test_weights_of_classes_in_bags_count_as_rows(classes):
    """Bags are weighed in steps; the evidence must not be that of so many rows."""
    X, y = classes
    forest = RandomForestClassifier(
        3, averaging="posterior", class_weight="balanced_subsample", bootstrap="stratified", random_state=0
    ).fit(X, y)
    for _, [statistics] in forest._averaging.trees_with_statistics(forest._ensemble):
        np.testing.assert_allclose(statistics.sum(), len(y), rtol=1e-6)


def test_several_targets(classes):
    X, y = classes
    both = RandomForestClassifier(6, averaging="posterior", random_state=0).fit(X, np.column_stack([y, y > 0]))
    shares = both.predict_proba(X)
    assert [part.shape for part in shares] == [(150, 3), (150, 2)]
    assert all((part > 0).all() for part in shares)
    X, y = load_diabetes(return_X_y=True)
    numbers = RandomForestRegressor(6, averaging="posterior", random_state=0).fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(numbers.predict(X)[:, 0], -numbers.predict(X)[:, 1], rtol=1e-5)


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_files_must_hold_weights_of_leaves(kind, classes, rng):
    X, y = classes
    forest = kind(2, averaging="posterior", bootstrap=False, random_state=0).fit(X, y, rng.random(len(y)))
    arrays = forest._averaging.to_arrays()
    type(forest._averaging).from_arrays(forest, arrays)
    arrays["averaging.leaves.0"] = -np.abs(arrays["averaging.leaves.0"])
    with pytest.raises(ValueError, match="the leaves' statistics are malformed"):
        type(forest._averaging).from_arrays(forest, arrays)


def test_out_of_bag_predictions_are_averaged_too(classes):
    X, y = classes
    forest = RandomForestClassifier(60, averaging="posterior", oob_score=True, random_state=0).fit(X, y)
    assert (forest.oob_decision_function_ > 0).all()
    tree = forest.estimators_[0]
    np.testing.assert_allclose(tree.predict_proba(X), next(iter(forest.predict_proba_all(X))), rtol=1e-6)
    assert not hasattr(forest.reweight(alpha=1.0), "oob_score_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"averaging": "mean"},
            "averaging must be 'auto' or None or 'posterior' or PosteriorAverage; got 'mean'",
        ),
        ({"averaging": PosteriorAverage(alpha=0)}, r"averaging\.alpha must be a number greater than 0; got 0"),
        ({"averaging": PosteriorAverage(prior_shape=3)}, "because this model does not use it.*got 3"),
        ({"averaging": "posterior", "monotonic_cst": [1, 0, 0, 0]}, "averaging must be None with monotonic_cst"),
        ({"averaging": OOB, "bootstrap": False}, r"averaging\.evidence must be 'train' without bootstrap"),
        ({"averaging": OOB, "oob_score": True}, r"averaging\.evidence must be 'train' with oob_score"),
    ],
)
def test_invalid_input_raises(parameters, message, classes):
    X, y = classes
    with pytest.raises(ValueError, match=message):
        RandomForestClassifier(5, **parameters).fit(X, y)


def test_invalid_options_of_reweight_raise(classes):
    X, y = classes
    with pytest.raises(ValueError, match="averaging must be set in fit, because only then are trees averaged"):
        RandomForestClassifier(5, averaging=None).fit(X, y).reweight(alpha=1.0)
    forest = RandomForestClassifier(5, averaging="posterior").fit(X, y)
    with pytest.raises(ValueError, match="evidence must not be passed to reweight"):
        forest.reweight(evidence="oob")
    with pytest.raises(ValueError, match=r"averaging\.alpha must be a number"):
        forest.reweight(alpha=-1)
    with pytest.raises(ValueError, match="PosteriorAverage has no option 'beta'"):
        forest.reweight(beta=1)
    with pytest.raises(ValueError, match=r"averaging\.prior_weight must be 0.02"):
        forest.reweight(prior_weight=1.0)
    assert forest.averaging == "posterior"
    with pytest.raises(ValueError, match="averaging must be None with criterion='absolute_error', because it has no"):
        RandomForestRegressor(5, averaging="posterior", criterion="absolute_error").fit(X, y)
    forest = RandomForestClassifier(5, averaging=None, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="averaging must be None with warm_start"):
        forest.set_params(averaging="posterior", n_estimators=6).fit(X, y)
    forest = RandomForestClassifier(5, warm_start=True, averaging="posterior").fit(X, y)
    with pytest.raises(ValueError, match="averaging must be set with warm_start"):
        forest.set_params(averaging=None, n_estimators=6).fit(X, y)
    with pytest.raises(ValueError, match=r"averaging\.evidence must be 'train' with warm_start"):
        forest.set_params(averaging=PosteriorAverage(evidence="oob")).fit(X, y)


def test_warm_starts_that_add_no_trees_or_fail_leave_what_is_averaged(rng, monkeypatch):
    X = rng.normal(size=(40, 3))
    forest = RandomForestRegressor(3, warm_start=True, averaging="posterior", random_state=0).fit(X, X[:, :2])
    expected = forest.log_evidence_
    with pytest.warns(UserWarning, match="does not fit new trees"):
        forest.fit(X, X[:, :2])
    np.testing.assert_array_equal(forest.log_evidence_, expected)

    def fail(*_):
        raise ValueError("after the trees")

    monkeypatch.setattr(RandomForestRegressor, "_keep_leaf_rows", fail)
    with pytest.raises(ValueError, match="after the trees"):
        forest.set_params(n_estimators=5, keep_leaves=True).fit(X, X[:, :2])
    forest.set_params(keep_leaves=False).fit(X, X[:, :2])
    at_once = RandomForestRegressor(5, averaging="posterior", random_state=0).fit(X, X[:, :2])
    np.testing.assert_array_equal(forest.log_evidence_, at_once.log_evidence_)


@pytest.mark.parametrize(("first", "then"), [("squared_error", "poisson"), ("poisson", "squared_error")])
def test_statistics_of_leaves_match_the_criterion_of_fit(first, then, rng, tmp_path):
    X, y = rng.normal(size=(40, 3)), rng.poisson(2.0, 40)
    forest = RandomForestRegressor(3, warm_start=True, averaging="posterior", criterion=first, random_state=0).fit(X, y)
    predicted, evidence = forest.predict(X), forest.log_evidence_
    forest.set_params(criterion=then)
    np.testing.assert_array_equal(forest.log_evidence_, evidence)
    forest.save(tmp_path / "forest")
    for same in (forest, fastens.load(tmp_path / "forest")):
        np.testing.assert_array_equal(same.reweight(temperature=1.0).predict(X), predicted)
    with pytest.raises(ValueError, match="'poisson' with averaging and warm_start, as it was for the first"):
        forest.set_params(n_estimators=5).fit(X, y)


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_averaged_forests_are_saved_after_averaging_was_set_to_none(kind, rng, tmp_path):
    X = rng.normal(size=(40, 3))
    forest = kind(3, averaging="posterior", random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    forest.set_params(averaging=None).save(tmp_path / "forest")
    loaded = fastens.load(tmp_path / "forest")
    np.testing.assert_array_equal(said(loaded, X), said(forest, X))
    np.testing.assert_array_equal(
        loaded.set_params(averaging="posterior").log_evidence_, forest.set_params(averaging="posterior").log_evidence_
    )


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_classifiers_average_by_default(kind, classes):
    X, y = classes
    default, given, plain = (
        kind(10, random_state=0, **options).fit(X, y)
        for options in ({}, {"averaging": "posterior"}, {"averaging": None})
    )
    np.testing.assert_array_equal(default.predict_proba(X), given.predict_proba(X))
    assert default.predict_proba(X).min() > 0 == plain.predict_proba(X).min()
    # An average over prunings need not obey the constraints, so "auto" does without.
    rows = y < 2
    constrained = kind(10, monotonic_cst=[1, 0, 0, 0], random_state=0).fit(X[rows], y[rows])
    assert not hasattr(constrained, "log_evidence_")
    assert fastens.BaggingClassifier(n_estimators=3, random_state=0).fit(X, y).predict_proba(X).min() == 0

"""AdaBoost against the three lecture notes, SAMME and scikit-learn, and its edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.ensemble import AdaBoostClassifier as PeerAdaBoost
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from fastens import AdaBoostClassifier, GradientBoostingClassifier, Growth
from fastens.adaboost.weak_learners import BinnedRows, Stumps, VotingRules, VotingRun
from fastens.engine.bins.binning import learn_binning
from fastens.engine.grow.stumps import StumpLearner
from reference.adaboost import (
    naive_stump,
    notes_with_confidence,
    notes_with_learning_rate,
    notes_with_ratio,
    samme,
)

N_ROUNDS = 12
VARIANTS = ["discrete", "real", "gentle", "logit"]


@pytest.fixture
def noisy(rng):
    """Rows that no stump classifies well: -1 and 1."""
    X = rng.normal(size=(80, 4))
    return X, np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=80) > 0, 1, -1)


def our_rounds(X, y, learning_rate=1.0, n_rounds=N_ROUNDS):
    """Weights at the start of each round, and the model's errors."""
    classes, index = np.unique(y, return_inverse=True)
    index = index.astype(np.uint16)
    binning = learn_binning(X)
    rows = BinnedRows(binning, binning.codes(X), None, 1)
    learner = Stumps(rows, StumpLearner(binning, rows.columns, index, len(classes), "gini", 1))
    rules = VotingRules(len(classes), n_rounds, False, learning_rate, False, False, False, 10, 0.0, 0, 1)
    run = VotingRun(learner, index, None, rules)
    weights = [run.weights.shares]
    run.run(lambda *_: weights.append(run.weights.shares))
    return weights[:-1], [vote.error for vote in run.votes]


def check_notes(notes, ours):
    for theirs, our in zip(notes[0], ours[0], strict=True):
        np.testing.assert_allclose(our, theirs, rtol=1e-8)
    np.testing.assert_allclose(ours[1], notes[1], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1])
def test_first_notes_with_twice_the_learning_rate(noisy, rate):
    X, y = noisy
    notes = notes_with_learning_rate(naive_stump(X, y, np.array([-1, 1])), y, N_ROUNDS, rate)
    check_notes(notes, our_rounds(X, y, 2 * rate))
    model = AdaBoostClassifier(n_estimators=N_ROUNDS, learning_rate=2 * rate).fit(X, y)
    np.testing.assert_allclose(0.5 * model.decision_function(X), notes[2], rtol=1e-8, atol=1e-10)


def test_second_notes(noisy):
    X, y = noisy
    notes = notes_with_ratio(naive_stump(X, y, np.array([-1, 1])), y, N_ROUNDS)
    check_notes(notes, our_rounds(X, y))
    model = AdaBoostClassifier(n_estimators=N_ROUNDS).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), notes[2], rtol=1e-8, atol=1e-10)


def test_third_notes(noisy):
    X, y = noisy
    notes = notes_with_confidence(naive_stump(X, y, np.array([-1, 1])), y, N_ROUNDS)
    check_notes(notes, our_rounds(X, y))
    model = AdaBoostClassifier(n_estimators=N_ROUNDS).fit(X, y)
    np.testing.assert_allclose(0.5 * model.decision_function(X), notes[2], rtol=1e-8, atol=1e-10)


def test_samme(rng):
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=90), [-0.5, 0.5])
    notes = samme(naive_stump(X, y, np.arange(3)), y, 3, N_ROUNDS)
    check_notes(notes, our_rounds(X, y))
    model = AdaBoostClassifier(n_estimators=N_ROUNDS).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), notes[2], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_wine])
def test_predictions_match_scikit_learn(load):
    X, y = load(return_X_y=True)
    ours = AdaBoostClassifier(n_estimators=25, max_bins=1000).fit(X, y)
    peer = PeerAdaBoost(n_estimators=25).fit(X, y)
    np.testing.assert_allclose(ours.estimator_weights_, peer.estimator_weights_, rtol=1e-9)
    np.testing.assert_allclose(ours.estimator_errors_, peer.estimator_errors_, rtol=1e-9)
    if load is not load_iris:  # where two columns cut the rows alike
        np.testing.assert_allclose(ours.feature_importances_, peer.feature_importances_, atol=1e-9)
    assert (ours.predict(X) == peer.predict(X)).mean() > 0.99


# Edge cases --------------------------------------------------


def test_a_perfect_first_classifier_is_all_there_is():
    model = AdaBoostClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    assert model.n_estimators_ == 1
    assert model.estimator_weights_.tolist() == [1.0]
    assert model.estimator_errors_.tolist() == [0.0]
    assert model.predict([[-1.0], [9.0]]).tolist() == ["a", "b"]


def test_a_first_classifier_no_better_than_chance_is_kept_with_a_warning():
    X = np.zeros((4, 2))
    with pytest.warns(UserWarning, match=r"the first weak classifier is not better than chance \(weighted error"):
        model = AdaBoostClassifier().fit(X, [0, 0, 1, 1])
    assert model.n_estimators_ == 1
    assert model.estimator_weights_.tolist() == [1.0]
    assert model.predict(X).tolist() == [0, 0, 0, 0]


def test_boosting_ends_before_a_classifier_no_better_than_chance():
    # Nothing to split on: after the first round both classes weigh the same.
    model = AdaBoostClassifier().fit(np.zeros((5, 1)), [0, 0, 0, 1, 1])
    assert model.n_estimators_ == 1
    assert model.estimator_errors_[0] == pytest.approx(0.4)
    assert model.predict([[0.0]]).tolist() == [0]


def test_a_class_without_weight_is_absent():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 2]
    model = AdaBoostClassifier(n_estimators=5).fit(X, y, sample_weight=[1, 1, 1, 0])
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_ten_thousand_rounds_leave_the_weights_finite(rng):
    # Two bumps on a line: the weights of the easy rows go far below the smallest float.
    X = np.arange(12.0)[:, None]
    y = np.array([0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1])
    model = AdaBoostClassifier(n_estimators=10_000).fit(X, y)
    assert model.n_estimators_ == 10_000
    assert np.isfinite(model.decision_function(X)).all()
    assert (model.predict(X) == y).all()
    assert (model.estimator_errors_ < 0.5).all()
    # Weights concentrate on the rows of least margin, which come out equal (Schapire et al. 1998).
    assert model.margins(X, y).min() > 0.1


def test_a_row_that_cannot_be_right_gets_all_the_weight(rng):
    X = np.array([[0.0], [0.0], [1.0], [2.0]] * 3)
    y = np.array([0, 1, 1, 1] * 3)
    for algorithm in VARIANTS:
        model = AdaBoostClassifier(n_estimators=200, algorithm=algorithm).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert (model.predict(X[2:4]) == 1).all()


@pytest.mark.parametrize("algorithm", VARIANTS)
def test_missing_values_and_categories(rng, algorithm):
    pd = pytest.importorskip("pandas")
    n = 400
    y = rng.integers(0, 2, n)
    number = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n) + 0.2 * y)
    number[(y == 1) & (rng.random(n) < 0.4)] = np.nan
    letter = np.where(y == 1, rng.choice(list("ace"), n), rng.choice(list("bdef"), n))
    table = pd.DataFrame({"number": number, "letter": pd.Categorical(letter)})
    model = AdaBoostClassifier(algorithm=algorithm, n_estimators=20).fit(table, y)
    assert model.score(table, y) > 0.85
    unseen = pd.DataFrame({"number": [np.nan], "letter": pd.Categorical(["z"])})
    assert np.isfinite(model.predict_proba(unseen)).all()


# What does not change the model --------------------------------------------------


def same(a, b, X):
    return np.array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("options", [{}, {"algorithm": "real"}, {"algorithm": "gentle"}, {"max_depth": 3}], ids=str)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_any_number_of_threads_gives_the_same_bits(options, n_classes):
    X, y = make_classification(30_000, 9, n_informative=6, n_classes=n_classes, random_state=0)
    one, three = (AdaBoostClassifier(n_estimators=6, n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 3))
    assert same(one, three, X)


@pytest.mark.parametrize("options", [{}, {"algorithm": "real"}, {"max_depth": 3}, {"resample": True}], ids=str)
def test_integer_weights_count_as_copies_of_rows(rng, options):
    X, y = make_classification(300, 5, flip_y=0.2, random_state=1)
    weight = rng.integers(0, 4, 300)
    model = AdaBoostClassifier(n_estimators=15, random_state=0, **options)
    weighted = model.fit(X, y, weight)
    shuffled = rng.permutation(np.repeat(np.arange(300), weight))
    repeated = AdaBoostClassifier(n_estimators=15, random_state=0, **options).fit(X[shuffled], y[shuffled])
    assert same(weighted, repeated, X)


def test_small_and_uneven_weights(rng):
    X, y = make_classification(300, 5, flip_y=0.2, random_state=1)
    weight = rng.random(300)
    a = AdaBoostClassifier(n_estimators=15).fit(X, y, weight)
    b = AdaBoostClassifier(n_estimators=15).fit(X, y, weight * 1e-12)
    np.testing.assert_allclose(a.estimator_errors_, b.estimator_errors_, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"algorithm": "real"}, {"max_depth": 2}, {"resample": True}, {"estimator": GaussianNB()}],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_start_is_the_same_as_at_once(options, n_classes):
    X, y = make_classification(400, 6, n_informative=4, n_classes=n_classes, flip_y=0.1, random_state=2)
    at_once = AdaBoostClassifier(n_estimators=20, random_state=0, **options).fit(X, y)
    model = AdaBoostClassifier(n_estimators=8, random_state=0, warm_start=True, **options).fit(X, y)
    model.set_params(n_estimators=20).fit(X, y)
    assert model.n_estimators_ == at_once.n_estimators_
    assert np.array_equal(model.estimator_weights_, at_once.estimator_weights_)
    assert same(model, at_once, X)


def test_warm_start_wants_the_same_columns_and_more_rounds():
    X, y = make_classification(100, 6, random_state=2)
    model = AdaBoostClassifier(n_estimators=8, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="n_estimators must be at least 8"):
        model.set_params(n_estimators=4).fit(X, y)
    with pytest.raises(ValueError, match="columns, categories and classes of the last fit"):
        model.set_params(n_estimators=9).fit(X[:, :3], y)


# Other algorithms --------------------------------------------------


@pytest.mark.parametrize("algorithm", ["gentle", "logit"])
def test_probabilities_next_to_0_keep_their_digits(algorithm):
    """Of both classes: one less the other's has none left."""
    X, y = np.arange(10.0)[:, None], np.arange(10) > 4
    model = AdaBoostClassifier(algorithm=algorithm, n_estimators=40).fit(X, y)
    raw, logs = model.decision_function(X), model.predict_log_proba(X)
    assert np.abs(raw).min() > 20
    np.testing.assert_allclose(logs, -np.logaddexp(0, np.stack([raw, -raw], axis=1)), rtol=1e-9, atol=1e-15)


def test_gentle_is_the_weighted_mean_of_the_signs(noisy):
    X, y = noisy
    model = AdaBoostClassifier(algorithm="gentle", n_estimators=1).fit(X, y)
    tree = model._ensemble.tree(0)
    left = X[:, tree.feature[0]] <= model._ensemble.threshold[0]
    means = [y[left].mean(), y[~left].mean()]
    np.testing.assert_allclose(0.5 * tree.value[1:, 0], means, rtol=1e-3)


def test_real_adds_half_the_log_odds(noisy):
    X, y = noisy
    model = AdaBoostClassifier(algorithm="real", n_estimators=1).fit(X, y)
    tree = model._ensemble.tree(0)
    left = X[:, tree.feature[0]] <= model._ensemble.threshold[0]
    smooth = 1 / (2 * len(y))
    for value, side in zip(tree.value[1:, 0], (left, ~left), strict=True):
        share = [(side & (y == k)).mean() + smooth for k in (-1, 1)]
        assert value == pytest.approx(np.log(share[1] / share[0]))


@pytest.mark.parametrize("algorithm", VARIANTS)
@pytest.mark.parametrize("max_depth", [1, 3])
def test_all_algorithms_learn(algorithm, max_depth):
    X, y = make_classification(2000, 8, n_informative=5, n_classes=3, random_state=3)
    model = AdaBoostClassifier(algorithm=algorithm, max_depth=max_depth, n_estimators=30).fit(X[:1000], y[:1000])
    single = AdaBoostClassifier(algorithm=algorithm, max_depth=max_depth, n_estimators=1).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > single.score(X[1000:], y[1000:]) + 0.04
    if algorithm != "real":
        assert model.evals_result_["training"]["loss"][-1] < model.evals_result_["training"]["loss"][0]


def test_logit_is_boosting_of_the_log_loss():
    X, y = make_classification(500, 5, flip_y=0.2, random_state=1)
    logit = AdaBoostClassifier(algorithm="logit", n_estimators=5, learning_rate=0.2).fit(X, y)
    boosting = GradientBoostingClassifier(
        n_estimators=5,
        learning_rate=0.2,
        max_leaf_nodes=2,
        min_samples_leaf=1,
        max_features=1.0,
        l2_regularization=0,
        growth=Growth(min_child_weight=0, rows_per_threshold=None),
    ).fit(X, y)
    np.testing.assert_allclose(logit.predict_proba(X), boosting.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["gentle", "logit"])
@pytest.mark.parametrize(("name", "value"), [("resample", True), ("warm_start", True), ("estimator", GaussianNB())])
def test_newton_steps_refuse_parameters_of_votes(algorithm, name, value):
    with pytest.raises(
        ValueError, match=f"{name} must be .* used only if algorithm is one of 'discrete', 'm1', 'real'"
    ):
        AdaBoostClassifier(algorithm=algorithm, **{name: value}).fit([[0.0], [1.0]], [0, 1])


# Resampling and other estimators --------------------------------------------------


def test_resampling_starts_again_where_the_error_passes_one_half(rng):
    # Labels that do not depend on the columns: drawn samples soon mislead.
    X, y = rng.integers(0, 2, (60, 2)).astype(float), rng.integers(0, 2, 60)
    model = AdaBoostClassifier(n_estimators=60, resample=True, random_state=0).fit(X, y)
    assert model.restarted_.any()
    assert (model.estimator_errors_ < 0.5).all()
    assert (model.estimator_weights_ > 0).all()


@pytest.mark.parametrize(
    "estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=2), KNeighborsClassifier(3)], ids=str
)
@pytest.mark.parametrize("algorithm", ["discrete", "real"])
def test_any_estimator(estimator, algorithm):
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "rose", "white"])[y]
    model = AdaBoostClassifier(estimator, algorithm=algorithm, n_estimators=8, random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.6
    assert len(model.estimators_) == model.n_estimators_
    stages = list(model.staged_predict(X))
    assert len(stages) == model.n_estimators_
    assert np.array_equal(stages[-1], model.predict(X))


def test_criterion_error_is_for_stumps():
    with pytest.raises(ValueError, match="criterion must be 'gini' or 'entropy' with max_depth=2"):
        AdaBoostClassifier(criterion="error", max_depth=2).fit([[0.0], [1.0]], [0, 1])


def test_stumps_that_do_not_split_read_the_codes_of_one_column():
    """The last column has more codes than the first, whose cells they would be."""
    X, index = np.column_stack([np.full(40, 3.0), np.arange(40.0)]), (np.arange(40) % 2).astype(np.uint16)
    binning = learn_binning(X)
    rows = BinnedRows(binning, binning.codes(X, 1), None, 1)
    learner = Stumps(rows, StumpLearner(binning, rows.columns, index, 2, "gini", 1))
    weak = learner.fit(None, np.eye(40, dtype=np.int64)[0], 0)
    assert weak.model.feature < 0
    assert weak.codes.max() < len(weak.cells)

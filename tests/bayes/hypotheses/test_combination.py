"""The Bayes-optimal combination of classifiers, MAP, ML and Gibbs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fastens
from fastens import (
    BayesOptimalClassifier,
    GibbsClassifier,
    GradientBoostingClassifier,
    MAPClassifier,
    MaximumLikelihoodClassifier,
    estimate_errors,
)
from fastens.bayes.hypotheses.combination import Evidence, fit_mixture_weights, posterior, pseudo_bma
from reference import mixing as naive
from reference.sklearn_checks import parametrize_with_checks

CLASSES = (BayesOptimalClassifier, MAPClassifier, MaximumLikelihoodClassifier, GibbsClassifier)
PAIR = [("nb", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=3, random_state=0))]
BOOSTED = [
    ("a", GradientBoostingClassifier(n_estimators=4, min_samples_leaf=1, learning_rate=0.3)),
    ("b", GradientBoostingClassifier(n_estimators=2, min_samples_leaf=1, learning_rate=0.5)),
]


@parametrize_with_checks([BayesOptimalClassifier(BOOSTED, cv=2)])
def test_sklearn_check(check):
    check()


class Constant(ClassifierMixin, BaseEstimator):
    """Says one class of every row, but for rows it is told to know."""

    def __init__(self, says=0, known=0.0):
        self.says = says
        self.known = known

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        X = np.asarray(X)
        return np.where(X[:, 0] == self.known, 1, self.says)


def three_hypotheses(**options):
    """Mitchell's example: P(h | D) = .4, .3, .3; on a new row h1 says +, h2 and h3 say -."""
    members = [(name, Constant(says)) for name, says in (("h1", 1), ("h2", 0), ("h3", 0))]
    X, y = np.array([[0.0], [1.0]]), np.array([1, 0])
    fitted = [(name, member.fit(X, y)) for name, member in members]
    options = {"prior": [0.4, 0.3, 0.3], "noise": 0.0, "cv": "prefit", **options}
    return fitted, options


def test_textbook():
    fitted, options = three_hypotheses()
    seen = np.array([[0.0]] * 4), [1] * 4  # all three agree with these
    model = BayesOptimalClassifier(fitted, **options).fit(*seen)
    np.testing.assert_allclose(model.posterior_, [0.4, 0.3, 0.3])
    new = np.array([[1.0]])
    np.testing.assert_allclose(model.predict_proba(new), [[0.6, 0.4]])
    assert model.predict(new).tolist() == [0]
    assert model.predict(new, mode="map").tolist() == [1]
    assert MAPClassifier(fitted, **options).fit(*seen).predict(new).tolist() == [1]
    with pytest.raises(ValueError, match="estimators must have a member with a positive prior that gives the"):
        BayesOptimalClassifier(fitted, **options).fit(np.array([[0.0], [0.0]]), [1, 0])


@pytest.mark.parametrize("noise", [None, 0.2, (1.0, 1.0), (2.0, 5.0)], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_posterior_against_the_definition(noise, n_classes, rng):
    y = rng.integers(0, n_classes, 12)
    responses = rng.dirichlet(np.ones(n_classes), (3, 12))
    if noise is not None:
        responses = np.eye(n_classes)[responses.argmax(axis=2)]
    evidence = Evidence(responses, y, np.ones(12), noise)
    expected = [naive.likelihood(found, y, noise) for found in responses]
    np.testing.assert_allclose(np.exp(evidence.log_likelihoods()), expected, rtol=1e-7)
    twice = Evidence(responses, y, np.full(12, 2.0), noise)
    repeated = Evidence(np.tile(responses, (1, 2, 1)), np.tile(y, 2), np.ones(24), noise)
    np.testing.assert_allclose(twice.log_likelihoods(), repeated.log_likelihoods())


def test_noise_learned_where_one_row_weighs_most(rng):
    """The weight of the right votes is not lost beside that of the wrong ones."""
    weight = np.array([*rng.random(8), 1e30])
    responses = np.repeat(np.eye(2)[[0, 1]], 9, axis=0).reshape(2, 9, 2)
    wrong, right = Evidence(responses, np.ones(9, np.intp), weight, (2.0, 1.0)).log_likelihoods()
    total = np.log(weight.sum())
    np.testing.assert_allclose([wrong, right], [-np.log(weight.sum() / 2), np.log(2) - 2 * total], rtol=1e-12)


def test_temperatures_next_to_zero_leave_the_best():
    with np.errstate(all="raise"):
        shares, _ = posterior(np.full(3, 1 / 3), np.array([-3e9, -1e9, -2e9]), 1e-300)
    np.testing.assert_array_equal(shares, [0, 1, 0])


def test_out_of_fold_posterior():
    X, y = load_iris(return_X_y=True)
    model = BayesOptimalClassifier(PAIR, prior=[1, 3], temperature=2.0).fit(X, y)
    logs = []
    for _, member in PAIR:
        proba = cross_val_predict(member, X, y, cv=5, method="predict_proba")
        with np.errstate(divide="ignore"):
            logs.append(np.log(proba[np.arange(150), y]).sum())
    assert np.isneginf(logs).tolist() == [False, True]  # the tree is sure of wrong classes
    np.testing.assert_allclose(model.log_likelihoods_, logs)
    joint = np.log([0.25, 0.75]) + np.array(logs) / 2
    np.testing.assert_allclose(model.posterior_, np.exp(joint - np.logaddexp(*joint)))
    np.testing.assert_allclose(model.log_evidence_, np.logaddexp(*joint))
    each = [member.fit(X, y).predict_proba(X) for _, member in PAIR]
    np.testing.assert_allclose(model.predict_proba(X), np.tensordot(model.posterior_, each, 1))


def test_held_out_ways_agree():
    """Rows to validate on, fitted members, frozen members and a single split say the same."""
    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y, "benign", "malignant")
    train, test = np.arange(0, 569, 2), np.arange(1, 569, 2)
    fitted = [(name, member.fit(X[train], y[train])) for name, member in PAIR]
    models = [
        BayesOptimalClassifier(PAIR).fit(X[train], y[train], X_val=X[test], y_val=y[test]),
        BayesOptimalClassifier(fitted, cv="prefit").fit(X[test], y[test]),
        BayesOptimalClassifier([(name, FrozenEstimator(m)) for name, m in fitted], cv=3).fit(X[test], y[test]),
        BayesOptimalClassifier(PAIR, cv=[(train, test)], refit=False).fit(X, y),
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.log_likelihoods_, models[0].log_likelihoods_)
        np.testing.assert_allclose(model.predict_proba(X), models[0].predict_proba(X))


def test_the_guarantee_of_the_mixture(rng):
    """Log P(D) is at least log P(h) + log P(D | h) for every member: the mixture loses at most log 1/P(h)."""
    X, y = load_iris(return_X_y=True)
    model = BayesOptimalClassifier(PAIR, prior=[1, 9]).fit(X, y)
    assert (model.log_evidence_ >= np.log(model.prior_) + model.log_likelihoods_ - 1e-9).all()


def test_pool_climbs_to_the_most_likely_mixture(rng):
    p = rng.random((3, 200))
    weight = np.ones(200)
    steps = [
        naive.mixture_log_likelihood(fit_mixture_weights(np.log(p), weight, 1.0, max_iter=n), p) for n in range(12)
    ]
    assert (np.diff(steps) >= -1e-12).all()
    found = fit_mixture_weights(np.log(p), weight, 1.0)
    best = naive.mixture_log_likelihood(found, p)
    others = [naive.mixture_log_likelihood(w, p) for w in rng.dirichlet(np.ones(3), 500)]
    assert best >= max(others) - 1e-9
    assert np.abs(fit_mixture_weights(np.log(p), weight, 1e6) - 1 / 3).max() < 1e-3
    # Rows of hardly any weight, and a prior that wants one member alone.
    best = np.log(p).sum(axis=1).argmax()
    assert fit_mixture_weights(np.log(p), 1e-9 * weight, 0.5)[best] == 1


def test_pseudo_bma_decides_less(rng):
    log_p = np.log(rng.uniform(0.2, 0.9, (2, 100)))
    log_p[0] += 0.03
    prior = np.array([0.5, 0.5])
    found = pseudo_bma(log_p, np.ones(100), prior, rng)
    total = log_p.sum(axis=1)
    certain = np.exp(total - np.logaddexp(*total))
    assert found.sum() == pytest.approx(1)
    assert abs(found[0] - 0.5) < abs(certain[0] - 0.5)


@pytest.mark.slow
def test_methods_on_real_data(load_table):
    """A pool is never behind a posterior that has settled on one member, on rows that none of them has seen."""
    table = load_table("breast_w").dropna()
    X, y = table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy()
    members = [*PAIR, ("line", LogisticRegression(max_iter=3000))]
    losses = {}
    for method in ("bma", "pool", "pseudo-bma+"):
        model = BayesOptimalClassifier(members, method=method, random_state=0).fit(X[::2], y[::2])
        losses[method] = log_loss(y[1::2], model.predict_proba(X[1::2]))
        np.testing.assert_allclose(model.weights_.sum(), 1)
    assert losses["pool"] <= losses["bma"] + 0.01
    assert losses["pseudo-bma+"] <= losses["bma"] + 0.01


def test_votes_of_members_without_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    members = [("svc", LinearSVC(random_state=0)), ("nb", GaussianNB())]
    with pytest.raises(ValueError, match=r"'svc' must have the method predict_proba; .* noise=\(1, 1\) learns"):
        BayesOptimalClassifier(members).fit(X, y)
    model = BayesOptimalClassifier(members, noise=(1, 1)).fit(X, y)
    assert ((model.noise_ > 0) & (model.noise_ < 0.3)).all()
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.slow
def test_one_member_classifiers(rng):
    X, y = load_iris(return_X_y=True)
    y[rng.random(150) < 0.1] = 0
    prior = [1e-9, 1]
    both = BayesOptimalClassifier(PAIR, prior=prior).fit(X, y)
    assert MaximumLikelihoodClassifier(PAIR, prior=prior).fit(X, y).chosen_index_ == both.log_likelihoods_.argmax()
    assert MAPClassifier(PAIR, prior=prior).fit(X, y).chosen_index_ == both.posterior_.argmax()
    for mode, kind in (("map", MAPClassifier), ("ml", MaximumLikelihoodClassifier)):
        one = kind(PAIR, prior=prior).fit(X, y)
        np.testing.assert_array_equal(one.predict(X), both.predict(X, mode=mode))
        assert type(one.chosen_estimator_) is type(getattr(both, f"{mode}_estimator_"))


@pytest.mark.slow
def test_gibbs_draws_by_the_posterior():
    X, y = load_iris(return_X_y=True)
    model = BayesOptimalClassifier(PAIR, temperature=100, noise=(1, 1), random_state=0).fit(X, y)
    assert 0.05 < model.posterior_[0] < 0.95
    drawn = [GibbsClassifier(PAIR, temperature=100, noise=(1, 1), cv=2, random_state=seed) for seed in range(30)]
    drawn = {gibbs.fit(X, y).chosen_index_ for gibbs in drawn}
    assert drawn == {0, 1}
    rows = np.repeat(X[70:71], 5000, axis=0)
    mean = model._proba_in(rows, "gibbs", 1).mean(axis=0)
    np.testing.assert_allclose(mean, model.predict_proba(rows[:1])[0], atol=0.02)
    assert {type(m) for m in model.sample_posterior(50)} == {GaussianNB, DecisionTreeClassifier}


@pytest.mark.slow
def test_gibbs_errs_at_most_twice_as_often(rng):
    """The target is one of the members, drawn from the prior, its labels noisy: the theorem's conditions."""
    grid = np.linspace(0, 1, 9)[:, None]
    X0, y0 = np.array([[0.0], [1.0]]), np.array([0, 1])
    members = [(f"t{i}", Threshold(float(t)).fit(X0, y0)) for i, t in enumerate(grid[1:-1, 0])]
    prior = rng.dirichlet(np.ones(len(members)))
    errors = []
    for _ in range(300):
        target = members[rng.choice(len(members), p=prior)][1]
        X = rng.random((6, 1))
        y = target.predict(X) ^ (rng.random(6) < 0.2)
        model = BayesOptimalClassifier(members, prior=prior, noise=0.2, cv="prefit").fit(X, y)
        new = rng.random((40, 1))
        errors.append(estimate_errors(model, new, target.predict(new)))
    bayes, gibbs = np.mean(errors, axis=0)
    assert 0 < bayes < gibbs <= 2 * bayes


class Threshold(ClassifierMixin, BaseEstimator):
    """Says 1 above a number."""

    def __init__(self, at=0.5):
        self.at = at

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > self.at).astype(int)


@pytest.mark.parametrize("kind", CLASSES)
def test_saving(kind, tmp_path):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    ours = kind(BOOSTED, cv=3, noise=(1, 1), random_state=0).fit(X, labels)
    ours.save(tmp_path / "ours")
    found = fastens.load(tmp_path / "ours")
    np.testing.assert_array_equal(found.predict_proba(X), ours.predict_proba(X))
    np.testing.assert_array_equal(found.posterior_, ours.posterior_)
    foreign = kind(PAIR, cv=ShuffleSplit(2, random_state=0), refit=False, random_state=0).fit(X, labels)
    with pytest.raises(TypeError, match="pickle"):
        foreign.save(tmp_path / "foreign")
    foreign.save(tmp_path / "foreign", allow_pickle=True)
    with pytest.raises(fastens.ModelFileError, match="pickle"):
        fastens.load(tmp_path / "foreign")
    found = fastens.load(tmp_path / "foreign", allow_pickle=True)
    np.testing.assert_array_equal(found.predict_proba(X), foreign.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": [1.0]}, "prior must have one probability for each of the 2 hypotheses"),
        ({"method": "vote"}, "method must be one of 'bma', 'pool', 'pseudo-bma"),
        ({"noise": 1.0}, "noise must be a number at least 0 and less than 1"),
        ({"noise": (1, 0)}, r"noise must be .*a pair of numbers greater than 0"),
        ({"temperature": 0}, "temperature must be a number greater than 0; got 0"),
        ({"concentration": -1}, "concentration must be a number greater than 0; got -1"),
        ({"estimators": [("a", 3)]}, "Member 'a' must be a classifier; got 3"),
    ],
)
def test_errors(options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        BayesOptimalClassifier(**{"estimators": PAIR, **options}).fit(X, y)


class Says(ClassifierMixin, BaseEstimator):
    """A hypothesis: the probabilities of the classes, whatever the row."""

    def __init__(self, proba):
        self.proba = proba

    def fit(self, X, y):
        self.classes_ = np.array(["a", "b"])
        return self

    def predict(self, X):
        return self.classes_[np.full(len(X), np.argmax(self.proba))]

    def predict_proba(self, X):
        return np.tile(self.proba, (len(X), 1))


def hypotheses(*probas):
    return [(f"h{k}", FrozenEstimator(Says(list(proba)).fit(None, None))) for k, proba in enumerate(probas)]


ROWS = np.zeros((100, 1)), ["a"] * 99 + ["b"]


@pytest.mark.parametrize("method", ["bma", "pool", "pseudo-bma+"])
def test_a_refuted_hypothesis_has_the_posterior_0(method):
    """99 "a" and 1 "b": that all are "a" is impossible, though it fits 99 rows best."""
    members = hypotheses((1.0, 0.0), (0.9, 0.1), (0.5, 0.5), (0.0, 1.0))
    with np.errstate(all="raise"):
        model = BayesOptimalClassifier(members, cv="prefit", method=method, random_state=0).fit(*ROWS)
        said = {kind: kind(members, cv="prefit", random_state=0).fit(*ROWS) for kind in CLASSES[1:]}
    logs = [-np.inf, 99 * np.log(0.9) + np.log(0.1), 100 * np.log(0.5), -np.inf]
    np.testing.assert_allclose(model.log_likelihoods_, logs)
    assert model.posterior_.tolist() == pytest.approx([0, 1, 0, 0])
    assert model.posterior_[0] == model.posterior_[3] == 0
    assert (model.map_index_, model.ml_index_) == (1, 1)
    assert model.log_evidence_ == pytest.approx(logs[1] - np.log(4))
    for mode in ("bayes", "map", "ml", "gibbs"):
        assert model.predict(ROWS[0][:3], mode=mode, random_state=0).tolist() == ["a"] * 3
    if method != "pool":  # a mixture may have a part that no single hypothesis could be
        assert model.weights_[0] == model.weights_[3] == 0
    assert np.isfinite(model.weights_).all()
    assert {kind: one.chosen_index_ for kind, one in said.items()} == dict.fromkeys(CLASSES[1:], 1)


@pytest.mark.parametrize("kind", CLASSES)
def test_where_all_are_refuted_an_error_says_so(kind):
    members = hypotheses((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
    with pytest.raises(ValueError, match="estimators must have a member with a positive prior that gives the"):
        kind(members, cv="prefit", prior=[0.5, 0.5, 0.0]).fit(*ROWS)
    kind(members, cv="prefit", prior=[0.5, 0.5, 0.0], noise=(1, 1)).fit(*ROWS)
    # A row of weight 0 refutes nothing.
    kind(members[:2], cv="prefit").fit(*ROWS, sample_weight=np.repeat([1, 0], [99, 1]))


def test_a_mixture_needs_no_member_that_makes_all_rows_possible():
    logs = np.log([[0.5, 0.5, 0.5], [1e-300, 1.0, 1.0]])
    logs[1, 0] = -np.inf
    with np.errstate(all="raise"):
        np.testing.assert_allclose(fit_mixture_weights(logs, np.ones(3), 1.0), [2 / 3, 1 / 3], rtol=1e-4)
        assert np.isfinite(fit_mixture_weights(logs, np.ones(3), 0.1)).all()

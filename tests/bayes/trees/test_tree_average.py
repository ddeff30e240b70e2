"""The average over all trees, against naming every one of them, and on real tables."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

import fastens
from fastens import ExactTreeAverageClassifier, estimate_errors
from fastens.bayes.trees.tree_average import LEAF, n_trees
from reference import spaces as naive

PRIORS = [0.5, 0.2, (0.95, 2.0)]


def split_of(prior):
    return (lambda depth: prior[0] * (1 + depth) ** -prior[1]) if isinstance(prior, tuple) else lambda depth: prior


def make_data(rng, p, n=40, n_classes=2):
    X = rng.integers(0, 2, (n, p))
    X[0], X[1] = 0, 1  # both answers to every question
    y = np.where(rng.random(n) < 0.2, rng.integers(0, n_classes, n), (X[:, 0] + X[:, -1]) % n_classes)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def as_naive(tree, node=0):
    """A fitted tree as nested tuples; the questions are x <= 0.5, so that yes is 0."""
    if tree.question[node] == LEAF:
        return None
    no, yes = tree.children[node]
    return (int(tree.question[node]), as_naive(tree, yes), as_naive(tree, no))


def test_numbers_of_trees():
    assert [n_trees(p) for p in range(1, 5)] == [2, 9, 244, 238145]
    assert [f"{n_trees(p):.1e}" for p in (5, 6)] == ["2.8e+11", "4.8e+23"]
    assert sum(1 for _ in naive.trees((0, 1, 2))) == 244


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_evidence_and_best_tree(p, n_classes, prior, rng):
    X, y = make_data(rng, p, n_classes=n_classes)
    model = ExactTreeAverageClassifier(split_prior=prior, alpha=0.7).fit(X, y)
    rules = (n_classes, 0.7, split_of(prior))
    logs = naive.all_log_joints(X, y, tuple(range(p)), rules)
    assert len(logs) == model.n_trees_ == n_trees(p)
    np.testing.assert_allclose(model.log_evidence_, logsumexp(logs), rtol=1e-12)
    np.testing.assert_allclose(model.map_log_joint_, logs.max(), rtol=1e-12)
    tree = as_naive(model.map_estimator_)
    np.testing.assert_allclose(naive.log_joint(tree, X, y, tuple(range(p)), rules), logs.max(), rtol=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("p", [2, 3])
def test_predictions(p, prior, rng):
    X, y = make_data(rng, p, n=25)
    model = ExactTreeAverageClassifier(split_prior=prior).fit(X, y)
    rules = (2, 0.5, split_of(prior))
    found = list(naive.trees(tuple(range(p))))
    logs = np.array([naive.log_joint(tree, X, y, tuple(range(p)), rules) for tree in found])
    posterior = np.exp(logs - logsumexp(logs))
    queries = np.array(list(itertools.product([0, 1], repeat=p)))
    each = np.array([[naive.tree_proba(tree, X, y, x, rules) for x in queries] for tree in found])
    np.testing.assert_allclose(model.predict_proba(queries), np.tensordot(posterior, each, 1), rtol=1e-10)
    votes = np.tensordot(posterior, np.eye(2)[each.argmax(axis=2)], 1)  # Gibbs's predictions
    labels = np.arange(len(queries)) % 2
    errors = 1 - votes[np.arange(len(queries)), labels]
    np.testing.assert_allclose(estimate_errors(model, queries, labels).gibbs, errors.mean(), rtol=1e-10)
    best = each[int(logs.argmax())]
    np.testing.assert_allclose(model._proba_in(queries, "map"), best, rtol=1e-12)
    np.testing.assert_allclose(model.map_estimator_.predict_proba(model.answers(queries)), best, rtol=1e-12)


@pytest.mark.slow
def test_samples_follow_the_posterior(rng):
    X, y = make_data(rng, 2, n=12)
    model = ExactTreeAverageClassifier(random_state=3).fit(X, y)
    rules = (2, 0.5, split_of(0.5))
    found = list(naive.trees((0, 1)))
    logs = np.array([naive.log_joint(tree, X, y, (0, 1), rules) for tree in found])
    posterior = np.exp(logs - logsumexp(logs))
    drawn = [as_naive(tree) for tree in model.sample_posterior(4000)]
    shares = [drawn.count(tree) / 4000 for tree in found]
    np.testing.assert_allclose(shares, posterior, atol=0.03)
    queries = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 4000, axis=0)
    mean = model._proba_in(queries, "gibbs", 0).reshape(4, 4000, 2).mean(axis=1)
    np.testing.assert_allclose(mean, model.predict_proba(queries[::4000]), atol=0.02)


def test_exclusive_or_among_noise(rng):
    """A greedy tree sees nothing in the first split; the average over all trees finds it."""
    X = rng.integers(0, 2, (400, 8))
    y = X[:, 2] ^ X[:, 5]
    model = ExactTreeAverageClassifier().fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) == 1
    assert {2, 5} == set(model.map_estimator_.question.tolist()) - {LEAF}
    assert "x2 <= 0.5" in str(model.map_estimator_)


def test_questions_about_large_numbers_differ():
    X = 1.7e9 + np.arange(40.0)[:, None]
    model = ExactTreeAverageClassifier(max_questions=3).fit(X, X[:, 0] > 1.7e9 + 20)
    assert len(set(model.questions_)) == 3
    assert all(float(question.split()[-1]) in X + 0.5 for question in model.questions_)


def test_questions_from_any_table(rng):
    n = 300
    frame = pd.DataFrame(
        {
            "size": rng.standard_normal(n),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "flag": rng.random(n) < 0.5,
            "note": np.where(rng.random(n) < 0.3, None, "x"),
        }
    )
    y = np.where((frame["kind"] == "b") & (frame["size"] > 0.5) | frame["note"].isna(), "yes", "no")
    model = ExactTreeAverageClassifier(8).fit(frame, y)
    assert len(model.questions_) == 8
    assert {"kind = b", "note is missing"} <= set(model.questions_)
    assert model.score(frame, y) > 0.95
    assert "kind = b: yes" in str(model.map_estimator_)
    unseen = frame.assign(kind="z", size=np.nan)
    assert np.isfinite(model.predict_proba(unseen)).all()


def test_constant_columns():
    model = ExactTreeAverageClassifier().fit(np.ones((10, 2)), [0, 1] * 5)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), [[0.5, 0.5]])


def test_weights_are_repetitions(rng):
    X, y = rng.standard_normal((80, 3)), rng.integers(0, 3, 80)
    weight = rng.integers(0, 4, 80)
    weighted = ExactTreeAverageClassifier(6).fit(X, y, weight)
    repeated = ExactTreeAverageClassifier(6).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert weighted.log_evidence_ == repeated.log_evidence_


@pytest.mark.slow
def test_better_than_one_tree(load_table):
    """Against a greedy tree whose pruning is chosen by cross-validation: log loss on held-out rows."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    wins = 0
    for name in ("breast_w", "heart_c", "tic_tac_toe", "vote", "kr_vs_kp"):
        table = load_table(name).dropna()
        X, y = pd.get_dummies(table.iloc[:, :-1]).astype(float).to_numpy(), table.iloc[:, -1].astype(str).to_numpy()
        rows = np.random.default_rng(0).permutation(len(X))
        train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        model = ExactTreeAverageClassifier().fit(X[train], y[train])
        pruned = GridSearchCV(
            DecisionTreeClassifier(random_state=0),
            {"ccp_alpha": [0, 0.002, 0.005, 0.01, 0.02, 0.05]},
            scoring="neg_log_loss",
        ).fit(X[train], y[train])
        ours, theirs = (log_loss(y[test], m.predict_proba(X[test])) for m in (model, pruned))
        wins += ours < theirs
    assert wins >= 4


def test_saving(tmp_path, rng):
    X, y = make_data(rng, 4)
    model = ExactTreeAverageClassifier(split_prior=(0.9, 1.0)).fit(X, y)
    model.save(tmp_path / "model")
    for found in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
        assert str(found.map_estimator_) == str(model.map_estimator_)
        np.testing.assert_array_equal(found.predict(X, "gibbs", 1), model.predict(X, "gibbs", 1))


@pytest.mark.parametrize("rows", [[[0, 1, 2]], [[0, 1]], [0, 1, 0], [[0, None, 1]], [["a", "b", "c"]]], ids=str)
def test_trees_predict_from_answers(rows, rng):
    X, y = make_data(rng, 3)
    model = ExactTreeAverageClassifier().fit(X, y)
    answers = model.answers(X)
    for tree in (model.map_estimator_, *model.sample_posterior(2, random_state=0)):
        np.testing.assert_array_equal(tree.predict_proba(answers.tolist()), tree.predict_proba(answers))
        with pytest.raises(ValueError, match=r"answers must come from the answers\(X\) of this model, with a 0 or 1"):
            tree.predict_proba(rows)


def test_answers_of_a_table_in_parts(rng):
    X, y = make_data(rng, 3)
    model = ExactTreeAverageClassifier().fit(X, y)
    np.testing.assert_array_equal(model.answers(fastens.TableSource(X)), model.answers(X))
    with pytest.raises(NotFittedError):
        ExactTreeAverageClassifier().answers(X)


def test_expected_errors(rng):
    X, y = make_data(rng, 3, n=15)
    model = ExactTreeAverageClassifier().fit(X, y)
    expected = estimate_errors(model, X)
    assert expected.bayes <= expected.gibbs <= 2 * expected.bayes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_questions": 16}, "max_questions must be a whole number from 1 to 15; got 16"),
        ({"split_prior": 1.0}, "split_prior must be a number greater than 0 and less than 1 or a pair"),
        ({"alpha": 0}, "alpha must be a number greater than 0; got 0"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        ExactTreeAverageClassifier(**options).fit([[0], [1]], [0, 1])

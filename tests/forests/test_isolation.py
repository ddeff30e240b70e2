"""Isolation forests against scikit-learn's, and by their definition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest as OtherForest
from sklearn.metrics import roc_auc_score

import fastens
from fastens import IsolationForest
from reference.sklearn_checks import parametrize_with_checks


@parametrize_with_checks([IsolationForest(20, max_samples=0.5, max_features=0.7, contamination=0.1)])
def test_sklearn_check(check):
    check()


def with_outliers(rng, n_rows=1000):
    X = rng.standard_normal((n_rows, 4))
    is_outlier = np.arange(n_rows) < n_rows // 20
    X[is_outlier] = rng.uniform(-6, 6, (is_outlier.sum(), 4))
    return X, is_outlier


@pytest.mark.slow
def test_finds_what_scikit_learn_finds(rng):
    X, is_outlier = with_outliers(rng)
    ours = IsolationForest(random_state=0).fit(X).score_samples(X)
    theirs = OtherForest(random_state=0).fit(X).score_samples(X)
    assert roc_auc_score(is_outlier, -ours) > 0.95
    assert roc_auc_score(is_outlier, -ours) > roc_auc_score(is_outlier, -theirs) - 0.02
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95
    assert abs(ours - theirs).mean() < 0.02


def test_contamination_is_the_share_of_outliers(rng):
    X, _ = with_outliers(rng)
    model = IsolationForest(contamination=0.05, random_state=0).fit(X)
    assert (model.predict(X) == -1).mean() == pytest.approx(0.05, abs=0.005)


def test_a_share_of_outliers_that_rounding_makes_larger(rng):
    X, _ = with_outliers(rng, 100)
    model = IsolationForest(50, contamination=0.07, random_state=0).fit(X)  # 0.07 * 100 > 7 in floating point
    assert (model.predict(X) == -1).sum() == 7


@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_are_not_outliers_where_they_are_too_many(weighted, rng):
    """As in scikit-learn: rows of the same score are together outliers or not."""
    X = np.zeros((400, 3))
    X[:20] = rng.normal(5, 1, (20, 3))
    weight = np.where(np.arange(400) < 390, 0.3, 0) if weighted else None
    for share in (0.02, 0.05, 0.1, 0.4):
        model = IsolationForest(50, contamination=share, random_state=0).fit(X, sample_weight=weight)
        is_outlier = model.predict(X) == -1
        assert is_outlier.sum() == (8 if share == 0.02 else 20)
        assert not is_outlier[20:].any()
    assert (IsolationForest(5, contamination=0.1, random_state=0).fit_predict(X[20:]) == 1).all()


def test_two_rows_are_alone_after_one_split():
    model = IsolationForest(10, random_state=0).fit([[0.0], [1.0]])
    np.testing.assert_allclose(model.score_samples([[0.0], [1.0]]), -0.5)


def test_same_for_any_threads_and_saved(rng, tmp_path):
    X, _ = with_outliers(rng, 300)
    X[::7, 0] = np.nan
    one, two = (IsolationForest(random_state=3, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    one.save(tmp_path / "model.fastens")
    same = fastens.load(tmp_path / "model.fastens")
    np.testing.assert_array_equal(one.predict(X), same.predict(X))


def test_weights_are_repetition(rng):
    X, _ = with_outliers(rng, 200)
    weight = rng.integers(0, 3, 200)
    rows = rng.permutation(np.repeat(np.arange(200), weight))
    weighted = IsolationForest(20, max_samples=64, random_state=0).fit(X, sample_weight=weight)
    many = IsolationForest(20, max_samples=64, random_state=0).fit(X[rows])
    np.testing.assert_array_equal(weighted.score_samples(X), many.score_samples(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contamination": 0.7}, "contamination must be 'auto' or a number greater than 0 and at most 0.5; got 0.7"),
        ({"max_samples": 0}, "max_samples must be 'auto' or a whole number of at least 1"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        IsolationForest(**options).fit([[0.0], [1.0]])


def test_trees_on_other_numbers_of_rows_are_not_mixed(rng):
    X = rng.normal(size=(60, 3))
    model = IsolationForest(3, warm_start=True, random_state=0).fit(X)
    for changed, rows in (({"max_samples": 10}, X), ({}, X[:50])):
        model.set_params(n_estimators=5, **changed)
        with pytest.raises(ValueError, match="rows for each tree, as in the last fit, with warm_start=True"):
            model.fit(rows)
        assert (len(model), model.max_samples_) == (3, 60)
    assert len(model.set_params(max_samples=1.0).fit(X)) == 5


def test_rows_of_a_stream_are_explained(rng):
    pa = pytest.importorskip("pyarrow")
    X = rng.normal(size=(60, 2))
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    model = IsolationForest(n_estimators=3, random_state=0).fit(table)
    found = model.explain(table.to_reader(25))
    np.testing.assert_array_equal(found.values, model.explain(table).values)
    np.testing.assert_array_equal(found.data, X)


@pytest.mark.parametrize("share", [0.29, 0.57, 0.58])
def test_shares_that_are_whole_numbers_of_rows_but_for_rounding(share, rng):
    X = rng.normal(size=(100, 2))
    n_rows = round(share * 100)
    assert int(share * 100) == n_rows - 1
    assert IsolationForest(n_estimators=1, max_samples=share).fit(X).max_samples_ == n_rows
    forest = fastens.RandomForestRegressor(n_estimators=1, max_samples=share).fit(X, X[:, 0])
    assert forest.in_bag(0).sum() == n_rows

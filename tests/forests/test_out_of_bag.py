"""Out-of-bag estimates, importances, warm starts, members: what a forest knows of its trees."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.inspection import permutation_importance
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import fastens
from fastens import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from reference.forests import CASES, FORESTS, make, make_table, make_targets, outputs

FOREST_CASES = [(kind, target) for kind, target in CASES if kind in FORESTS]


@pytest.fixture
def rows():
    rng = np.random.default_rng(6)
    X = make_table(rng, 120)
    return X, make_targets(X, rng)


def by_hand(forest, X):
    """Mean of the outputs of the trees that were not grown on a row; NaN where there is none."""
    sums, n_trees = 0.0, np.zeros((len(X), 1))
    for t, tree in enumerate(forest.estimators_):
        left_out = forest.in_bag(t)[:, None] == 0
        sums = sums + outputs(tree, X) * left_out
        n_trees += left_out
    with np.errstate(invalid="ignore"):
        return sums / n_trees


def known_out_of_bag(forest):
    if not hasattr(forest, "classes_"):
        return forest.oob_prediction_.reshape(len(forest._out_of_bag.mean), -1)
    found = forest.oob_decision_function_
    return np.column_stack(found) if isinstance(found, list) else found


@pytest.mark.filterwarnings("ignore:Some rows are in all bags")
@pytest.mark.parametrize(("kind", "target"), FOREST_CASES)
@pytest.mark.parametrize("n_estimators", [3, 25])
def test_predictions_match_trees_that_left_rows_out(kind, target, n_estimators, rows):
    X, targets = rows
    y = targets[target]
    forest = make(kind, n_estimators=n_estimators, bootstrap=True, oob_score=True, max_samples=0.8).fit(X, y)
    expected, found = by_hand(forest, X), known_out_of_bag(forest)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    known = ~np.isnan(found[:, 0])
    assert known.all() == (n_estimators > 20)
    if y.ndim == 1 and hasattr(forest, "classes_"):
        predicted = forest.classes_[found[known].argmax(axis=1)]
        assert forest.oob_score_ == pytest.approx(accuracy_score(y[known], predicted))
        assert forest.oob_error_curve_[-1] == pytest.approx(1 - forest.oob_score_)
    elif not hasattr(forest, "classes_"):
        truth = y.reshape(len(y), -1)
        assert forest.oob_score_ == pytest.approx(r2_score(truth[known], found[known]))
        assert forest.oob_error_curve_[-1] == pytest.approx(((truth - found)[known] ** 2).mean())


@pytest.mark.filterwarnings("ignore:Some rows are in all bags")
@pytest.mark.parametrize(("kind", "target"), FOREST_CASES)
def test_warm_start_is_all_at_once(kind, target, rows):
    X, targets = rows
    y, given = targets[target], {"bootstrap": True, "oob_score": True}
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    once = make(kind, n_estimators=9, **given).fit(X, y, weight)
    grown = make(kind, n_estimators=2, warm_start=True, **given).fit(X, y, weight)
    for n_estimators in (3, 9):
        grown.set_params(n_estimators=n_estimators).fit(X, y, weight)
    np.testing.assert_array_equal(outputs(grown, X), outputs(once, X))
    np.testing.assert_array_equal(grown.oob_error_curve_, once.oob_error_curve_)
    np.testing.assert_array_equal(known_out_of_bag(grown), known_out_of_bag(once))
    # The curve of a forest is the start of that of a larger one.
    np.testing.assert_array_equal(
        make(kind, n_estimators=4, **given).fit(X, y, weight).oob_error_curve_, once.oob_error_curve_[:4]
    )


def test_warm_start_goes_on_only(rows):
    X, targets = rows
    y = targets["classes"]
    forest = make(RandomForestClassifier, warm_start=True).fit(X, y)
    with pytest.warns(UserWarning, match="does not fit new trees"):
        forest.fit(X, y)
    with pytest.raises(ValueError, match=r"n_estimators must be at least.*got 3"):
        forest.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="y must hold the classes seen in fit"):
        forest.set_params(n_estimators=9).fit(X, np.full(len(X), "new"))


@pytest.mark.filterwarnings("ignore:Some rows are in all bags")
@pytest.mark.parametrize("kind", [RandomForestClassifier, partial(BaggingClassifier, fastens.GaussianNB())])
def test_bags_of_other_fits_are_not_drawn_again(kind, rng, tmp_path):
    X, y = rng.normal(size=(120, 3)), np.arange(120) % 5 % 3
    others = (
        ({"max_samples": 0.2}, (X, y)),
        ({}, (X, y, np.arange(len(X)) % 3 + 1)),
        ({}, (X[:90], y[:90])),
        ({}, (X[::-1].copy(), y)),
    )
    for changed, table in others:
        model = kind(n_estimators=3, max_samples=2.0, warm_start=True, random_state=0).fit(X, y)
        model.set_params(n_estimators=4, oob_score=True, **changed)
        with pytest.raises(ValueError, match="oob_score must be False with warm_start=True unless rows are drawn as"):
            model.fit(*table)
        assert len(model) == 3
        model.set_params(oob_score=False).fit(*table).save(tmp_path / "model.fastens")
        for found in (model, fastens.load(tmp_path / "model.fastens")):
            with pytest.raises(ValueError, match=r"needs bags|not available"):
                found.in_bag(0)
            assert not hasattr(found, "estimators_samples_")
            with pytest.raises(ValueError, match="oob_score must be False with warm_start=True unless"):
                found.set_params(n_estimators=5, oob_score=True).fit(*table)
    # A seed is that of the first fit.
    model = kind(n_estimators=3, oob_score=True, warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_estimators=9, random_state=1).fit(X, y)
    assert model.oob_score_ == kind(n_estimators=9, oob_score=True, random_state=0).fit(X, y).oob_score_


def test_a_function_as_score(rows):
    X, targets = rows
    y = targets["classes"]
    seen = {}

    def score(truth, predicted):
        seen["truth"], seen["predicted"] = truth, predicted
        return 7.0

    forest = make(RandomForestClassifier, n_estimators=40, oob_score=score).fit(X, y)
    assert forest.oob_score_ == 7.0
    np.testing.assert_array_equal(seen["truth"], y)
    assert np.mean(seen["predicted"] == y) > 0.5


def test_rows_without_weight_have_no_prediction(rows):
    X, targets = rows
    y = targets["numbers"]
    weight = np.where(np.arange(len(X)) % 3 == 0, 0.0, 1.0)
    forest = make(RandomForestRegressor, n_estimators=40, oob_score=True).fit(X, y, weight)
    np.testing.assert_array_equal(np.isnan(forest.oob_prediction_), weight == 0)
    kept = weight > 0
    same = make(RandomForestRegressor, n_estimators=40, oob_score=True).fit(X[kept], y[kept])
    np.testing.assert_array_equal(forest.oob_prediction_[kept], same.oob_prediction_)
    assert forest.oob_score_ == same.oob_score_


def test_there_is_nothing_out_of_bag_without_bags(rows):
    X, targets = rows
    forest = make(RandomForestRegressor).fit(X, targets["numbers"])
    assert not hasattr(forest, "oob_prediction_")
    with pytest.raises(AttributeError, match="out-of-bag predictions require oob_score=True in fit"):
        _ = forest.oob_prediction_
    whole = make(ExtraTreesRegressor).fit(X, targets["numbers"])
    with pytest.raises(ValueError, match="bootstrap must be True in fit"):
        whole.in_bag(0)
    with pytest.raises(ValueError, match="bootstrap must be True in fit"):
        whole.oob_permutation_importance(X, targets["numbers"])


# Bags --------------------------------------------------


def test_bags(rows):
    X, targets = rows
    y = targets["classes"]
    _, index = np.unique(y, return_inverse=True)
    sizes = np.bincount(index)

    def drawn(t, **parameters):
        return np.bincount(index, make(RandomForestClassifier, **parameters).fit(X, y).in_bag(t))

    np.testing.assert_array_equal(drawn(2, bootstrap="stratified"), sizes)
    np.testing.assert_array_equal(drawn(2, bootstrap="balanced"), np.full(3, sizes.min()))
    half = np.minimum(sizes, round(sizes.min() / 0.5))
    np.testing.assert_array_equal(drawn(2, bootstrap=0.5), half)
    np.testing.assert_array_equal(drawn(2, bootstrap=1.0), np.full(3, sizes.min()))
    np.testing.assert_array_equal(drawn(2, bootstrap={"low": 5, "middle": 0.5}), [sizes[0], 5, round(sizes[2] / 2)])
    np.testing.assert_array_equal(drawn(2, bootstrap={"high": 200}), [200, *sizes[1:]])
    with pytest.raises(
        ValueError, match=r"bootstrap must have keys among the classes \['high', 'low', 'middle'\]; got 'other'"
    ):
        drawn(0, bootstrap={"other": 5})
    with pytest.raises(ValueError, match="max_samples must be None where bootstrap has numbers of draws; got 17"):
        drawn(0, bootstrap={"low": 5}, max_samples=17)
    assert drawn(2).sum() == len(X)
    assert drawn(1, max_samples=17).sum() == 17
    assert drawn(1, max_samples=0.25).sum() == 30
    assert drawn(1, max_samples=1.5).sum() == 180
    forest = make(RandomForestClassifier).fit(X, y, sample_weight=np.full(len(X), 3))
    assert forest.in_bag(0).sum() == 3 * len(X)
    assert make(RandomForestClassifier).fit(X, y, sample_weight=np.full(len(X), 0.3)).in_bag(0).sum() == len(X)


# Members --------------------------------------------------


@pytest.mark.parametrize(("kind", "target"), FOREST_CASES)
def test_members(kind, target, rows):
    X, targets = rows
    forest = make(kind).fit(X, targets[target])
    members = forest.estimators_
    assert len(members) == 8
    assert len(members[2:5]) == 3
    np.testing.assert_allclose(np.mean([outputs(tree, X) for tree in members], axis=0), outputs(forest, X), rtol=1e-5)
    every = forest.predict_proba_all(X) if hasattr(forest, "classes_") else forest.predict_all(X)
    for tree, predicted, labels in zip(members, every, forest.predict_all(X), strict=True):
        found = np.column_stack(predicted) if isinstance(predicted, list) else predicted.reshape(len(X), -1)
        np.testing.assert_allclose(found, outputs(tree, X), rtol=1e-6)
        np.testing.assert_array_equal(labels, tree.predict(X))
    np.testing.assert_array_equal(forest.apply(X)[:, 3], members[3].apply(X))
    with pytest.raises(IndexError):
        members[8]


@pytest.mark.parametrize("target", ["binary", "classes", "class targets"])
def test_votes(target, rows):
    X, targets = rows
    forest = make(RandomForestClassifier, voting="hard", min_samples_leaf=10, n_estimators=11).fit(X, targets[target])
    votes = []
    for tree in forest.estimators_:
        parts = tree.predict_proba(X)
        parts = parts if isinstance(parts, list) else [parts]
        votes.append(np.column_stack([np.eye(part.shape[1])[part.argmax(axis=1)] for part in parts]))
    np.testing.assert_allclose(outputs(forest, X), np.mean(votes, axis=0), rtol=1e-12)
    soft = make(RandomForestClassifier, min_samples_leaf=10, n_estimators=11).fit(X, targets[target])
    assert (outputs(forest, X) != outputs(soft, X)).any()
    softened = forest.set_params(voting="soft").fit(X, targets[target])
    np.testing.assert_array_equal(outputs(softened, X), outputs(soft, X))


# Importance --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("target", ["binary", "classes", "numbers", "number targets"])
def test_permutation_importance_agrees_with_a_slow_one(target, rows):
    X, targets = rows
    y = targets[target]
    kind = RandomForestRegressor if "number" in target else RandomForestClassifier
    forest = make(kind, min_samples_leaf=3, max_features=None).fit(X[:80], y[:80])
    found = forest.permutation_importance(X[80:], y[80:], n_repeats=40, random_state=0)
    slow = permutation_importance(forest, X[80:], y[80:], n_repeats=40, random_state=0)
    spread = np.hypot(found.importances_std, slow.importances_std) / np.sqrt(40)
    assert (np.abs(found.importances_mean - slow.importances_mean) <= 4 * spread + 1e-12).all()
    assert found.importances.shape == (4, 40)
    assert np.argmax(found.importances_mean) == np.argmax(slow.importances_mean)


def test_permutation_importance_is_exact(rows):
    """With two rows a shuffle either swaps a value or does nothing."""
    X, targets = rows
    y = targets["numbers"]
    forest = make(RandomForestRegressor).fit(X, y)
    pair, weight = X[:2], [1.0, 3.0]
    found = forest.permutation_importance(pair, y[:2], sample_weight=weight, n_repeats=8, random_state=0)
    score = forest.score(pair, y[:2], sample_weight=weight)
    for j, name in enumerate(X.columns):
        swapped = pair.assign(**{name: pair[name].to_numpy()[::-1]}).astype(X.dtypes.to_dict())
        change = score - forest.score(swapped, y[:2], sample_weight=weight)
        for value in found.importances[j]:
            assert value == pytest.approx(change, rel=1e-6, abs=1e-9) or value == 0


def test_importance_of_one_repeat_has_no_standard_error(rng):
    X = rng.standard_normal((30, 2))
    found = make(RandomForestRegressor).fit(X, X[:, 0]).permutation_importance(X, X[:, 0], n_repeats=1)
    assert np.isfinite(found.importances_mean).all()
    assert np.isnan(found.importances_standard_error).all()


@pytest.mark.parametrize("target", ["classes", "numbers"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_importance_out_of_bag(target, n_jobs, rng):
    X = rng.standard_normal((300, 5))
    signal = 3 * X[:, 1] + X[:, 3]
    y = np.digitize(signal, [-1, 1]) if target == "classes" else signal
    kind = RandomForestClassifier if target == "classes" else RandomForestRegressor
    forest = make(kind, n_estimators=50, n_jobs=n_jobs, max_features=2).fit(X, y)
    found = forest.oob_permutation_importance(X, y)
    assert found.importances.shape == (5, 50)
    np.testing.assert_allclose(found.importances_mean, found.importances.mean(axis=1))
    error = found.importances.std(axis=1, ddof=1) / np.sqrt(50)
    np.testing.assert_allclose(found.importances_standard_error, error)
    assert list(np.argsort(found.importances_mean)[::-1][:2]) == [1, 3]
    ratio = found.importances_mean / error
    assert (ratio[[1, 3]] > 5).all()
    assert (np.abs(ratio[[0, 2, 4]]) < 4).all()
    again = make(kind, n_estimators=50, n_jobs=3 - n_jobs, max_features=2).fit(X, y).oob_permutation_importance(X, y)
    np.testing.assert_array_equal(again.importances, found.importances)
    with pytest.raises(ValueError, match=r"X must hold the 300 rows of fit that have a positive weight; got 299"):
        forest.oob_permutation_importance(X[1:], y[1:])
    with pytest.raises(ValueError, match="X and y must hold the rows of fit in the same order; got other rows"):
        forest.oob_permutation_importance(X[::-1], y[::-1])


# Trees one by one --------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor, ExtraTreesRegressor])
def test_each_tree_is_scored_on_the_rows_out_of_its_bag(kind, weighted, rows):
    X, targets = rows
    y = (targets["numbers"] > np.median(targets["numbers"])) if kind is RandomForestClassifier else targets["numbers"]
    weight = np.random.default_rng(0).integers(0, 3, len(y)) if weighted else None
    forest = kind(12, bootstrap=True, oob_score=True, max_samples=0.7, random_state=1).fit(X, y, sample_weight=weight)
    kept = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
    expected = []
    for t, tree in enumerate(forest.estimators_):
        out = kept[forest.in_bag(t) == 0]
        expected.append(tree.score(X.iloc[out], y[out], None if weight is None else weight[out]))
    np.testing.assert_allclose(forest.oob_scores_, expected)
    assert forest.oob_scores_.mean() < forest.oob_score_


def test_scores_of_trees_by_a_function_and_without_rows_out_of_the_bag(rows):
    X, targets = rows
    y = targets["numbers"]
    forest = RandomForestRegressor(5, oob_score=lambda truth, found: -np.abs(truth - found).max(), random_state=0)
    forest.fit(X, y)
    out = forest.in_bag(3) == 0
    assert forest.oob_scores_[3] == pytest.approx(-np.abs(y[out] - forest.estimators_[3].predict(X[out])).max())
    with pytest.warns(UserWarning, match="All rows are in all bags"):
        forest = RandomForestRegressor(3, oob_score=True, max_samples=50.0, random_state=0).fit(X[:8], y[:8])
    assert np.isnan(forest.oob_scores_).all()


@pytest.mark.parametrize("estimator", [None, GaussianNB(), DecisionTreeClassifier(max_depth=2)])
def test_each_member_of_a_bagging_is_scored(estimator, rows, tmp_path):
    X, targets = rows
    X = np.nan_to_num(X[["a", "b"]].to_numpy(float))
    y = targets["numbers"] > np.median(targets["numbers"])
    model = BaggingClassifier(estimator, 8, oob_score=True, random_state=2).fit(X, y)
    expected = [
        (np.asarray(member.predict(X[out]), bool) == y[out]).mean()
        for number, member in enumerate(model.estimators_)
        if (out := model.in_bag(number) == 0).any()
    ]
    np.testing.assert_allclose(model.oob_scores_, expected)
    model.save(tmp_path / "bags.fastens", allow_pickle=True)
    same = fastens.load(tmp_path / "bags.fastens", allow_pickle=True)
    np.testing.assert_array_equal(same.oob_scores_, model.oob_scores_)
    assert not hasattr(BaggingClassifier(estimator, 2, random_state=2).fit(X, y), "oob_scores_")


def test_scores_of_members_of_numbers(rows):
    X, targets = rows
    X, y = np.nan_to_num(X[["a", "b"]].to_numpy(float)), targets["numbers"]
    model = BaggingRegressor(Ridge(), 6, oob_score=True, random_state=2).fit(X, y)
    expected = [m.score(X[model.in_bag(t) == 0], y[model.in_bag(t) == 0]) for t, m in enumerate(model.estimators_)]
    np.testing.assert_allclose(model.oob_scores_, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_permutation_importance_of_sparse_rows_matches_an_array(kind, monkeypatch):
    """Only columns that a tree splits on become dense, of some rows at a time."""
    from fastens.engine.bins.binning import Binning
    from fastens.engine.trees import contributions as walks

    table = random_sparse(300, 2000, density=0.05, format="csc", random_state=0)
    target = np.ravel(table[:, :9].sum(axis=1))
    y = target > np.median(target) if kind is RandomForestClassifier else target
    weight = np.arange(300) % 3 + 1.0
    forest = kind(6, random_state=0, n_jobs=2).fit(table, y, weight)
    sizes, transform = [], Binning.transform

    def noted(self, X, *args, **kwargs):
        sizes.append(X.shape[0] * X.shape[1])
        return transform(self, X, *args, **kwargs)

    monkeypatch.setattr(Binning, "transform", noted)
    monkeypatch.setattr(walks, "_BLOCK_VALUES", 5000)
    found = forest.oob_permutation_importance(table, y, weight)
    assert 0 < max(sizes) <= 2 * 5000 < table.shape[0] * table.shape[1] / 50
    assert (found.importances_mean != 0).any()
    of_array = kind(6, random_state=0).fit(table.toarray(), y, weight)
    expected = of_array.oob_permutation_importance(table.toarray(), y, weight)
    np.testing.assert_array_equal(found.importances, expected.importances)


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_the_number_of_targets_must_match_fit(kind, rng):
    X = rng.normal(size=(30, 3))
    for fitted, other in ((X[:, :2], X[:, 0]), (X[:, 0], X[:, :2])):
        forest = kind(3, bootstrap=True, warm_start=True, random_state=0).fit(X, fitted)
        n_targets = forest.n_outputs_
        for method in (
            forest.permutation_importance,
            forest.oob_permutation_importance,
            forest.set_params(n_estimators=4).fit,
        ):
            with pytest.raises(
                ValueError, match=f"y must have the same number of targets as in fit, {n_targets}; got {3 - n_targets}"
            ):
                method(X, other)

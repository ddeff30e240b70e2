"""Spread, variance, intervals, sets, quantiles and proximities of forests, by their definitions and by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_friedman1

import fastens
from fastens import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from fastens.engine.trees.leaf_values import LeafRows
from fastens.forests import random_forest as forest_regressor
from fastens.forests.out_of_bag import quantiles_of_trees


@pytest.fixture(scope="module")
def patients():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def forest(patients):
    options = {"min_samples_leaf": 5, "oob_score": True, "keep_leaves": True, "random_state": 0}
    return RandomForestRegressor(100, **options).fit(*patients)


def naive_quantiles(forest, X_train, y_train, x, levels):
    """Meinshausen (2006): weights 1 / leaf size, the mean over the trees, and the inverse of their distribution."""
    weight = np.zeros(len(y_train))
    train, query = forest.apply(X_train), forest.apply(x[None])[0]
    for tree in range(train.shape[1]):
        drawn = forest.in_bag(tree) * (train[:, tree] == query[tree])
        weight += drawn / drawn.sum()
    y_train, weight = y_train[weight > 0], weight[weight > 0]
    order = np.argsort(y_train)
    reached = np.cumsum(weight[order]) / weight.sum()
    return y_train[order][np.searchsorted(reached, np.asarray(levels) - 1e-9)]


def test_quantiles_match_the_leaves(forest, patients):
    X, y = patients
    levels = [0.0, 0.05, 0.5, 0.95, 1.0]
    found = forest.predict_quantiles(X[:20], levels)
    for row in range(20):
        np.testing.assert_array_equal(found[row], naive_quantiles(forest, X, y, X[row], levels))
    np.testing.assert_array_equal(forest.predict_quantiles(X[:20], levels[::-1]), found[:, ::-1])


def test_quantiles_without_bootstrap(patients):
    X, y = patients
    forest = ExtraTreesRegressor(5, max_depth=1, keep_leaves=True, random_state=0).fit(X, y)
    found = forest.predict_quantiles(X, [0.1, 0.9])
    assert ((found[:, 0] <= forest.predict(X)) & (forest.predict(X) <= found[:, 1])).all()


def test_quantiles_of_trees(rng):
    """Level p at place p (k + 1) of the k values that are there; between two of them in proportion."""
    values = rng.normal(size=(6, 9)).astype(np.float32)
    values[2, 3:] = values[4, 0] = np.nan
    values[5] = 7.0
    levels = [0.0, 0.05, 0.3, 0.5, 0.77, 1.0]
    found = quantiles_of_trees(values, levels)
    for row, of_row in zip(values, found, strict=True):
        known = np.sort(row[~np.isnan(row)]).astype(float)
        places = np.arange(1, len(known) + 1) / (len(known) + 1)
        np.testing.assert_allclose(of_row, np.interp(levels, places, known), rtol=1e-12)


@pytest.fixture(scope="module")
def noisy():
    """Rows whose noise grows with the first feature."""
    X, y = make_friedman1(3000, noise=1.0, random_state=0)
    return X, y + 4 * X[:, 0] * np.random.default_rng(1).standard_normal(3000)


@pytest.mark.slow
def test_quantiles_without_leaves(noisy):
    X, y = noisy
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    for options in ({}, {"oob_score": True}, {"oob_score": True, "max_depth": 6}):
        forest = RandomForestRegressor(100, random_state=0, **options).fit(X[:1500], y[:1500])
        found = forest.predict_quantiles(X[1500:], levels)
        assert (np.diff(found, axis=1) >= 0).all()
        np.testing.assert_allclose((y[1500:, None] <= found).mean(axis=0), levels, atol=0.09)


@pytest.mark.slow
def test_rows_to_calibrate_by_are_drawn_by_content(noisy, monkeypatch):
    X, y = noisy
    order = np.random.default_rng(2).permutation(1500)
    options = {"n_estimators": 30, "oob_score": True, "random_state": 0}
    full = RandomForestRegressor(**options).fit(X[:1500], y[:1500]).predict_interval(X[1500:])
    monkeypatch.setattr(forest_regressor, "MAX_ROWS", 600)
    first, other = (RandomForestRegressor(**options).fit(X[rows], y[rows]) for rows in (np.arange(1500), order))
    assert len(first._out_of_bag.conformity.errors.values) == 601
    found = first.predict_interval(X[1500:])
    np.testing.assert_array_equal(found, other.predict_interval(X[1500:]))
    assert (found != full).any()
    low, high = found.T
    assert ((low <= y[1500:]) & (y[1500:] <= high)).mean() == pytest.approx(0.9, abs=0.04)


def test_targets_that_are_often_the_same_are_covered():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 4))
    y = np.where(X[:, 0] < 0.7, 0.1, np.round(X[:, 1] * 10) / 3)
    forest = RandomForestRegressor(50, oob_score=True, random_state=0).fit(X[:1000], y[:1000])
    low, high = forest.predict_interval(X[1000:], 0.9).T
    assert ((low <= y[1000:]) & (y[1000:] <= high)).mean() > 0.88


def test_intervals_survive_a_file(noisy, tmp_path):
    X, y = noisy
    forest = RandomForestRegressor(20, oob_score=True, random_state=0).fit(X[:500], y[:500])
    forest.save(tmp_path / "forest")
    same = fastens.load(tmp_path / "forest")
    np.testing.assert_array_equal(same.predict_interval(X, 0.7), forest.predict_interval(X, 0.7))
    np.testing.assert_array_equal(same.predict_quantiles(X), forest.predict_quantiles(X))


@pytest.mark.slow
def test_intervals_and_quantiles_cover(rng):
    X, y = make_friedman1(3000, noise=1.0, random_state=0)
    y += 3 * X[:, 0] * rng.standard_normal(3000)
    options = {"min_samples_leaf": 5, "oob_score": True, "keep_leaves": True, "random_state": 0}
    forest = RandomForestRegressor(100, **options).fit(X[:1500], y[:1500])
    new, truth = X[1500:], y[1500:]
    for coverage in (0.5, 0.9, 0.95):
        low, high = forest.predict_interval(new, coverage).T
        assert ((low <= truth) & (truth <= high)).mean() == pytest.approx(coverage, abs=0.03)
    width = forest.predict_interval(new, 0.9) @ [-1, 1]
    assert np.corrcoef(width, new[:, 0])[0, 1] > 0.2, "intervals do not adapt"
    low, high = forest.predict_quantiles(new, [0.05, 0.95]).T
    assert ((low <= truth) & (truth <= high)).mean() > 0.88


def test_intervals_of_targets_far_from_0_are_as_wide_as_those_near_it(rng):
    X, y = rng.normal(size=(300, 2)), np.round(rng.normal(size=300) * 64) / 64
    model = RandomForestRegressor(n_estimators=20, oob_score=True, random_state=0)
    widths = [np.diff(model.fit(X, y + far).predict_interval(X), axis=1).mean() for far in (0, 2.0**30)]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_cover_on_a_real_table(patients, seed):
    X, y = patients
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:300], order[300:]
    forest = RandomForestRegressor(200, oob_score=True, random_state=seed).fit(X[train], y[train])
    low, high = forest.predict_interval(X[test], 0.8).T
    assert ((low <= y[test]) & (y[test] <= high)).mean() == pytest.approx(0.8, abs=0.09)


def test_sets_cover():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:300], order[300:]
    forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X[train], y[train])
    for coverage in (0.8, 0.95):
        sets = forest.predict_set(X[test], coverage)
        assert sets[np.arange(len(test)), y[test]].mean() == pytest.approx(coverage, abs=0.05)
    assert (forest.predict_set(X[test], 0.999).sum(axis=1) == 2).mean() > (sets.sum(axis=1) == 2).mean()


def naive_jackknife(said, drawn):
    """Wager, Hastie & Efron (2014), eq. 5 and 7."""
    n_trees, n_rows = drawn.shape
    covariance = (drawn - drawn.mean(axis=0)).T @ (said - said.mean(axis=0)) / n_trees
    correction = n_rows / n_trees**2 * ((said - said.mean(axis=0)) ** 2).sum(axis=0)
    return np.maximum((covariance**2).sum(axis=0) - correction, 0)


def test_variance_is_the_infinitesimal_jackknife(forest, patients):
    X, _ = patients
    said = np.stack(list(forest.predict_all(X[:30])))
    drawn = np.stack([forest.in_bag(tree) for tree in range(100)]).astype(float)
    np.testing.assert_allclose(forest.predict_variance(X[:30]), naive_jackknife(said, drawn), rtol=1e-3, atol=0.01)


@pytest.mark.slow
def test_variance_is_that_over_training_sets():
    """A forest of stumps on noise, fitted on many training sets, against its own estimate on each."""
    rng = np.random.default_rng(0)
    x = np.array([[0.3]])
    said, estimated = [], []
    for seed in range(30):
        X = rng.uniform(size=(100, 1))
        y = X[:, 0] + 0.5 * rng.standard_normal(100)
        forest = RandomForestRegressor(200, max_depth=2, random_state=seed).fit(X, y)
        said.append(forest.predict(x)[0])
        estimated.append(forest.predict_variance(x)[0])
    assert np.mean(estimated) == pytest.approx(np.var(said), rel=0.5)


def test_spread_matches_the_trees(forest, patients):
    X, _ = patients
    said = np.stack(list(forest.predict_all(X)))
    np.testing.assert_allclose(forest.predict_std(X), said.std(axis=0), rtol=1e-5)
    labels, y = load_iris(return_X_y=True)
    classes = RandomForestClassifier(20, max_depth=2, random_state=0).fit(labels, y)
    said = np.stack(list(classes.predict_proba_all(labels)))
    np.testing.assert_allclose(classes.predict_std(labels), said.std(axis=0), atol=1e-6)
    several = RandomForestRegressor(5, random_state=0).fit(labels, np.column_stack([y, -y]))
    assert several.predict_std(labels).shape == (150, 2)


def test_proximity_is_the_share_of_common_leaves(forest, patients):
    X, _ = patients
    leaf = forest.apply(X[:60])
    expected = (leaf[:, None, :] == leaf[None, :, :]).mean(axis=2)
    found = forest.proximity(X[:60])
    np.testing.assert_allclose(found.toarray(), expected)
    near = forest.proximity(X[:60], X[:30], n_neighbors=4)
    assert near.shape == (60, 30)
    for row in range(60):
        kept = near[row].data
        assert (np.diff(kept) <= 0).all()
        np.testing.assert_allclose(kept, np.sort(expected[row, :30])[::-1][: len(kept)])


def test_saved_and_the_same_for_any_threads(forest, patients, tmp_path):
    X, y = patients
    forest.save(tmp_path / "forest.fastens")
    same = fastens.load(tmp_path / "forest.fastens")
    other = RandomForestRegressor(**(forest.get_params() | {"n_jobs": 2})).fit(X, y)
    for name in ("predict_quantiles", "predict_interval", "predict_variance", "predict_std"):
        expected = getattr(forest, name)(X[:50])
        np.testing.assert_array_equal(getattr(same, name)(X[:50]), expected)
        np.testing.assert_array_equal(getattr(other, name)(X[:50]), expected)


def test_weights_mean_repetition(rng, patients):
    X, y = patients[0][:80], patients[1][:80]
    weight = rng.integers(0, 3, 80)
    rows = rng.permutation(np.repeat(np.arange(80), weight))
    options = {"oob_score": True, "keep_leaves": True, "min_samples_leaf": 1, "random_state": 0}
    weighted = RandomForestRegressor(60, **options).fit(X, y, sample_weight=weight)
    many = RandomForestRegressor(60, **options).fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict_quantiles(X), many.predict_quantiles(X))


def test_quantiles_of_rows_next_to_no_weight(patients):
    X, y = patients
    weight = np.full(len(X), 1e-60)
    weight[:5] = 1.0
    forest = RandomForestRegressor(30, bootstrap=False, keep_leaves=True, min_samples_leaf=60, random_state=0)
    expected = forest.fit(X, y, weight).predict_quantiles(X)
    assert (forest._leaf_rows.weights > 0).all()
    np.testing.assert_array_equal(forest.fit(X, y, weight * 1e-30).predict_quantiles(X), expected)
    assert (forest._leaf_rows.weights > 0).all()


@pytest.mark.parametrize(("name", "change"), [("weights", lambda a: 0 * a), ("first_node", lambda a: a + 1)])
def test_files_must_hold_the_rows_of_the_leaves(name, change, forest):
    trees, n_values = forest._ensemble, len(forest._leaf_values)
    arrays = forest._leaf_rows.to_arrays()
    LeafRows.from_arrays(arrays, trees.node_offsets, n_values)
    with pytest.raises(ValueError, match="the arrays do not describe the rows of leaves"):
        LeafRows.from_arrays(
            arrays | {f"leaf_rows.{name}": change(arrays[f"leaf_rows.{name}"])}, trees.node_offsets, n_values
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f, X: f.set_params(max_depth=3).fit(X, X[:, 0]).predict_quantiles(X),
            "for predict_quantiles if keep_leaves and oob_score were False in fit.*got 3",
        ),
        (lambda f, X: f.predict_quantiles(X, [1.2]), "quantiles must hold numbers from 0 to 1"),
        (lambda f, X: f.predict_interval(X, 1.0), "coverage must be a number greater than 0 and less than 1"),
        (lambda f, X: f.proximity(X, n_neighbors=0), "n_neighbors must be a whole number of at least 1"),
        (
            lambda f, X: f.set_params(bootstrap=False).fit(X, X[:, 0]).predict_variance(X),
            "bootstrap must be True in fit, because the variance is estimated from",
        ),
    ],
)
def test_errors(call, message, patients):
    X, y = patients
    with pytest.raises(ValueError, match=message):
        call(RandomForestRegressor(3, random_state=0).fit(X, y), X)
    with pytest.raises(ValueError, match=r"oob_score must be True in fit for predict_interval; it was False\."):
        RandomForestRegressor(3).fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match=r"oob_score must be True in fit for predict_set; it was False\."):
        RandomForestClassifier(3).fit(X, y > y[0]).predict_set(X)


@pytest.mark.parametrize("n_trees", [20, 33])
def test_the_variance_of_a_row_does_not_depend_on_the_others(n_trees, patients):
    X, y = patients
    forest = RandomForestRegressor(n_trees, random_state=0).fit(X, y)
    together = forest.predict_variance(X[:70])
    np.testing.assert_array_equal([forest.predict_variance(X[[row]])[0] for row in range(70)], together)
    np.testing.assert_array_equal(forest.predict_variance(X[60:70]), together[60:])


def test_arguments_that_are_none_are_named(forest, patients):
    X, y = patients
    for tree in (-1, 100, 1.5, "first"):
        with pytest.raises(ValueError, match=f"tree must be a whole number from 0 to 99; got {tree!r}"):
            forest.in_bag(tree)
    for number in (1.5, "all"):
        with pytest.raises(
            ValueError, match=f"n_neighbors must be a whole number of at least 1 or None; got {number!r}"
        ):
            forest.proximity(X[:5], n_neighbors=number)
    with pytest.raises(ValueError, match="quantiles must hold numbers"):
        forest.predict_quantiles(X[:5], "median")
    for number in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"n_repeats must be a whole number of at least 1; got {number}"):
            forest.permutation_importance(X, y, n_repeats=number)


def test_leaf_quantiles_of_several_targets(rng, tmp_path):
    """For each target they are the quantiles of its values in the leaves, by the weights of the draws."""
    X, weight = rng.normal(size=(150, 3)), rng.integers(1, 3, 150)
    Y = np.round(np.column_stack([X[:, 0] + rng.normal(size=150), X[:, 1]]), 1)
    model = RandomForestRegressor(6, min_samples_leaf=10, keep_leaves=True, random_state=0).fit(X, Y, weight)
    levels = [0.9, 0.1, 0.5]
    found = model.predict_quantiles(X[:20], levels)
    leaf = model.apply(X)
    for row, target in np.ndindex(20, 2):
        shares = [model.in_bag(tree) * (leaf[:, tree] == leaf[row, tree]) for tree in range(6)]
        mass = sum(share / share.sum() for share in shares) / 6
        values = np.unique(Y[:, target])
        upto = np.cumsum([mass[Y[:, target] == value].sum() for value in values])
        np.testing.assert_array_equal(found[row, target], [values[np.argmax(upto >= p - 1e-6)] for p in levels])
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_quantiles(X[:20], levels), found)
    with pytest.raises(ValueError, match="keep_leaves must have been True in fit for quantiles of several targets"):
        RandomForestRegressor(2).fit(X, Y).predict_quantiles(X)

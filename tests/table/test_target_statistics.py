"""Target statistics against a twin of loops, and what they must not tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from fastens import Categories, DecisionTreeClassifier, GradientBoostingClassifier
from fastens.engine.parts import RowSource, as_array
from fastens.engine.rows.sampling import random_stream
from fastens.table.target_statistics import N_FOLDS, Targets, TargetStatistics, _fit_prior, _Smoothing


def make_rows(seed, n_rows=300, n_categories=12, missing=0.1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n_rows), rng.integers(0, n_categories, n_rows).astype(float)])
    X[rng.random(n_rows) < missing, 1] = np.nan
    return X, rng.normal(size=n_rows) + np.nan_to_num(X[:, 1]) / 3, rng.integers(1, 4, n_rows).astype(float)


def naive_mean(values, y, weight, category, others, smoothing):
    rows = others & (values == category)
    if np.isinf(smoothing.prior):
        return smoothing.mean
    total = (weight * y)[rows].sum() + smoothing.prior * smoothing.mean
    return total / (weight[rows].sum() + smoothing.prior)


def naive_smoothing(values, y, weight):
    sums = np.array([[(w * t**p).sum() for p in (1, 2, 0)] for w, t in groups(values, y, weight)])
    return _fit_prior(sums)


def groups(values, y, weight):
    return [(weight[values == c], y[values == c]) for c in np.unique(values[~np.isnan(values)])]


@pytest.mark.parametrize("method", ["target", "ordered"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_encoded_as_by_the_twin(method, weighted, dtype):
    X, y, weight = make_rows(3)
    statistics, encoded = TargetStatistics.learn(
        X.astype(dtype), Targets(y[None], weight if weighted else None), [1], method, seed=7
    )
    weight = weight if weighted else np.ones(len(y))
    values, smoothing = X[:, 1], naive_smoothing(X[:, 1], y, weight)
    draw = random_stream(7, 0)
    if method == "ordered":
        place = np.empty(len(y), dtype=int)
        place[draw.permutation(len(y))] = np.arange(len(y))
    else:
        fold = draw.integers(0, N_FOLDS, len(y), dtype=np.uint8)
    tolerance = 1e-12 if dtype is np.float64 else 1e-6
    for i, category in enumerate(values):
        if np.isnan(category):
            assert np.isnan(encoded[i, 1])
            continue
        others = place < place[i] if method == "ordered" else fold != fold[i]
        expected = naive_mean(values, y, weight, category, others, smoothing)
        assert encoded[i, 1] == pytest.approx(expected, rel=tolerance)
    everyone = np.ones(len(y), dtype=bool)
    means = [naive_mean(values, y, weight, category, everyone, smoothing) for category in range(12)]
    rows = np.column_stack([np.zeros(14), [*range(12), np.nan, 40]]).astype(dtype)
    np.testing.assert_allclose(statistics.transform(rows)[:12, 1], means, rtol=tolerance)
    # The column had missing values: missing ones, and categories never seen, stay missing.
    assert np.isnan(statistics.transform(rows)[12:, 1]).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_means_of_all_rows_take_weights_as_copies(seed):
    X, y, weight = make_rows(seed, missing=0.0)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted, _ = TargetStatistics.learn(X, Targets(y[None], weight), [1], "target", seed=0)
    copied, _ = TargetStatistics.learn(X[rows], Targets(y[None, rows]), [1], "target", seed=0)
    np.testing.assert_allclose(weighted.means[0], copied.means[0], rtol=1e-9)
    np.testing.assert_allclose(weighted.fill, copied.fill)


def test_scale_of_fractions_does_not_matter():
    X, y, _ = make_rows(1)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    encoded = [TargetStatistics.learn(X, Targets(y[None], scale * weight), [1], "target", 0)[1] for scale in (1, 1e-6)]
    np.testing.assert_allclose(encoded[0], encoded[1], rtol=1e-9)


@pytest.mark.parametrize("method", ["target", "ordered"])
def test_a_row_does_not_know_its_own_target(method):
    """But for the prior, which is that of all rows."""
    X, y, _ = make_rows(5)
    changed = y.copy()
    changed[17] += 1e6
    column, encoded = np.ascontiguousarray(X[:, 1]), []
    for targets in map(Targets, (y[None], changed[None])):
        of_others = targets.ordered if method == "ordered" else targets.of_other_folds
        encoded.append(of_others(column, targets.sums(column), [_Smoothing(0.0, 2.0)], 0)[0])
    assert encoded[0][17] == encoded[1][17]
    assert (encoded[0] != encoded[1]).any()


def test_several_targets_are_further_columns():
    X, y, _ = make_rows(2, missing=0.0)
    X = np.column_stack([X, X[::-1, 1]])
    targets = np.array([y, -y, 2 * y])
    statistics, encoded = TargetStatistics.learn(X, Targets(targets), [1, 2], "target", seed=0)
    assert encoded.shape == (300, 7)
    np.testing.assert_array_equal(statistics.column_of(3), [0, 1, 2, 1, 1, 2, 2])
    np.testing.assert_allclose(encoded[:, 3:5], np.column_stack([-encoded[:, 1], 2 * encoded[:, 1]]))
    np.testing.assert_allclose(encoded[:, 5:], np.column_stack([-encoded[:, 2], 2 * encoded[:, 2]]))
    again = TargetStatistics.from_arrays(statistics.to_arrays())
    np.testing.assert_array_equal(again.transform(X), statistics.transform(X))


@pytest.mark.parametrize("broken", ["columns", "means", "n_categories", "fill"])
def test_damaged_arrays_are_refused(broken):
    X, y, _ = make_rows(2)
    arrays = TargetStatistics.learn(X, Targets(y[None]), [1], "target", seed=0)[0].to_arrays()
    arrays[broken] = np.concatenate([arrays[broken], arrays[broken]])
    with pytest.raises(ValueError, match="the statistics of the categories are malformed"):
        TargetStatistics.from_arrays(arrays)


def test_prior_follows_the_noise():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(50.0), 20)
    effect = rng.normal(size=50)
    priors = []
    for noise in (0.1, 1.0, 4.0):
        y = effect[codes.astype(int)] + noise * rng.normal(size=codes.size)
        priors.append(naive_smoothing(codes, y, np.ones(codes.size)).prior)
    # within / between variance: noise**2 / 1
    np.testing.assert_allclose(priors, [0.01, 1.0, 16.0], rtol=0.5)


def test_categories_of_one_row_tell_nothing():
    X = np.arange(40.0)[:, None]
    y = np.random.default_rng(0).normal(size=40)
    statistics, encoded = TargetStatistics.learn(X, Targets(y[None]), [0], "target", seed=0)
    np.testing.assert_allclose(encoded, y.mean())
    assert np.ptp(statistics.transform(X)) < np.ptp(y) / 10


def test_categories_without_weight_are_uninformative():
    sums = np.array([[3.2, 3.2, 8.0], [0.0, 0.0, 1e-30]])
    with np.errstate(all="raise"):
        assert _fit_prior(sums) == _Smoothing(0.4, np.inf)


@pytest.mark.slow
@pytest.mark.parametrize("n_categories", [30, 1000, 4000, 10**6])
def test_noise_is_not_encoded(n_categories):
    """Also with nearly as many categories as rows; 2 standard errors leave chance for about one column of forty."""
    n_constant = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, n_categories, (5600, 1)).astype(float), rng.normal(size=5600)
        for method in ("target", "ordered"):
            statistics, encoded = TargetStatistics.learn(X, Targets(y[None]), [0], method, seed=0)
            is_constant = np.ptp(encoded) == 0
            assert is_constant == (np.ptp(statistics.transform(X)) == 0)
            n_constant += is_constant
    assert n_constant >= 34


def test_what_categories_have_in_common_is_kept():
    rng = np.random.default_rng(0)
    X, effect = rng.integers(0, 4000, (5600, 1)).astype(float), rng.normal(size=4000)
    y = effect[X[:, 0].astype(int)] + rng.normal(size=5600)
    statistics, _ = TargetStatistics.learn(X, Targets(y[None]), [0], "target", seed=0)
    assert np.corrcoef(statistics.transform(X)[:, 0], effect[X[:, 0].astype(int)])[0, 1] > 0.7


def test_a_table_in_parts_is_read_once_for_all_columns():
    X = np.random.default_rng(0).integers(0, 9, (200, 5)).astype(float)
    source = CountedRows(X)
    parted, of_parts = TargetStatistics.learn(source, Targets(X.sum(axis=1)[None]), [0, 2, 3], "target", seed=0)
    assert source.n_passes == 1
    whole, expected = TargetStatistics.learn(X, Targets(X.sum(axis=1)[None]), [0, 2, 3], "target", seed=0)
    np.testing.assert_array_equal(as_array(of_parts), expected)
    np.testing.assert_array_equal(parted.transform(X), whole.transform(X))


class CountedRows(RowSource):
    def __init__(self, X):
        self._X, self.shape, self.n_passes = X, X.shape, 0

    def parts(self):
        self.n_passes += 1
        yield from np.array_split(self._X, 7)


@pytest.mark.parametrize("method", ["target", "ordered"])
@pytest.mark.parametrize("far", [2.0**20, -(2.0**40)])
def test_targets_far_from_0_are_encoded_as_those_near_it(method, far, rng):
    """The squares of targets of 2**40 have no digit left of their variance, and float32 none of the means."""
    X = rng.integers(0, 40, size=(1000, 1)).astype(np.float32)
    y = np.round((rng.normal(size=40)[X[:, 0].astype(int)] + rng.normal(size=1000)) * 64) / 64
    near, encoded = TargetStatistics.learn(X, Targets(y[None]), [0], method, seed=0)
    statistics, found = TargetStatistics.learn(X, Targets(y[None] + far), [0], method, seed=0)
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(encoded, axis=0), atol=1e-5)
    np.testing.assert_allclose(np.ptp(statistics.means[0]), np.ptp(near.means[0]), rtol=1e-9)
    np.testing.assert_allclose(np.diff(statistics.transform(X), axis=0), np.diff(near.transform(X), axis=0), atol=1e-5)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 0.7}])
@pytest.mark.parametrize("kind", [GradientBoostingClassifier, DecisionTreeClassifier])
def test_integer_weights_are_copies_with_class_weights(kind, class_weight, rng):
    X, weight = rng.integers(0, 12, size=(300, 1)).astype(float), rng.integers(1, 5, 300)
    y = (X[:, 0] + 4 * rng.normal(size=300) > 6).astype(int)
    encoded = {"categorical_features": [0], "categories": Categories(encoding="target"), "random_state": 0}
    model = kind(class_weight=class_weight, **encoded)
    weighted, copied = (
        clone(model).fit(*given)._statistics.means
        for given in ((X, y, weight), (np.repeat(X, weight, axis=0), np.repeat(y, weight)))
    )
    np.testing.assert_allclose(weighted[0], copied[0], rtol=1e-12)

"""The stump kernel against an exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.engine.grow.stump import StumpFinder
from fastens.engine.splits.workspace import CRITERIA

from fastens.engine.bins.binning import SparseCodes
from reference.adaboost import best_impurity, best_subset_impurity, class_weights, impurity
from reference.growth import middle_code
from reference.threads_comm import on_ranks


def make(rng, n_rows=60, n_features=5, n_classes=2, n_codes=9, dtype=np.uint8):
    codes = rng.integers(0, n_codes, (n_features, n_rows)).astype(dtype)
    y = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    return codes, y, rng.integers(0, 1000, n_rows)


def limits_of(n_codes):
    """Thresholds that are spread unevenly."""
    return [1.7 ** np.arange(max(n - 2, 0)) for n in n_codes]


def finder(codes, y, n_classes, n_threads=1, categorical=(), columns=None):
    n_codes = codes.max(axis=1).astype(np.int32) + 1
    kinds = np.isin(np.arange(len(codes)), categorical).astype(np.uint8)
    return StumpFinder(
        codes if columns is None else columns, n_codes, kinds, limits_of(n_codes), y, n_classes, n_threads
    )


def assert_same_stump(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def found_impurity(found, codes, y, w, n_classes, criterion):
    feature, _, goes_left, sums = found
    left = goes_left[codes[feature]] == 1
    sides = np.array([class_weights(y, w, rows, n_classes) for rows in (~left, left)])
    assert np.array_equal(sides, sums)
    return sum(impurity(side, criterion) for side in sides)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "error"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_least_impurity(rng, criterion, n_classes, dtype):
    for _ in range(5):
        codes, y, w = make(rng, n_classes=n_classes, dtype=dtype)
        codes[1] %= 3
        found = finder(codes, y, n_classes).find(w, CRITERIA[criterion])
        best = best_impurity(codes, y, w, n_classes, criterion)
        assert found_impurity(found, codes, y, w, n_classes, criterion) == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["gini", "entropy", "error"])
@pytest.mark.parametrize("most", [999, 2])
def test_best_of_all_subsets_of_categories(rng, criterion, most):
    """Of little weight they are in another order where it is not quite their own."""
    for _ in range(5 if most > 2 else 100):
        codes, y, _ = make(rng, n_rows=60 if most > 2 else 20, n_features=1, n_codes=7)
        w = rng.integers(0, most + 1, len(y))
        found = finder(codes, y, 2, categorical=[0]).find(w, CRITERIA[criterion])
        best = best_subset_impurity(codes[0], y, w, 2, criterion)
        assert found_impurity(found, codes, y, w, 2, criterion) == pytest.approx(best, rel=1e-9)


def test_categories_are_ordered_by_the_share_of_every_class(rng):
    for _ in range(20):
        codes, y, _ = make(rng, n_rows=300, n_features=1, n_codes=9, n_classes=3)
        w = rng.integers(0, 4, 300)
        of_codes = np.array([class_weights(y, w, codes[0] == code, 3) for code in range(9)])
        splits = []
        for shares in (of_codes / of_codes.sum(axis=1, keepdims=True)).T:
            sums = np.cumsum(of_codes[np.argsort(shares)], axis=0)
            splits += [impurity(left, "gini") + impurity(sums[-1] - left, "gini") for left in sums[:-1]]
        found = finder(codes, y, 3, categorical=[0]).find(w, CRITERIA["gini"])
        assert found_impurity(found, codes, y, w, 3, "gini") == pytest.approx(min(splits), rel=1e-9)


def test_categories_of_three_classes_come_close(rng):
    ratios = []
    for _ in range(20):
        codes, y, w = make(rng, n_features=1, n_codes=6, n_classes=3)
        found = finder(codes, y, 3, categorical=[0]).find(w, CRITERIA["gini"])
        ratios.append(found_impurity(found, codes, y, w, 3, "gini") / best_subset_impurity(codes[0], y, w, 3, "gini"))
    assert max(ratios) < 1.02


def test_threads_do_not_matter(rng):
    codes, y, _ = make(rng, n_rows=9000, n_features=13, n_codes=200)
    w = rng.integers(0, 2**40, 9000)
    one, many = (finder(codes, y, 2, n_threads).find(w, 0) for n_threads in (1, 5))
    assert_same_stump(one, many)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_stored_codes_suffice_for_sparse_rows(rng, dtype, n_classes):
    codes, y, w = make(rng, n_rows=300, n_features=7, n_classes=n_classes, dtype=dtype)
    of_zero = rng.integers(0, 9, len(codes)).astype(dtype)
    codes = np.where(rng.random(codes.shape) < 0.8, of_zero[:, None], codes)
    feature, rows = np.nonzero(codes != of_zero[:, None])
    starts = np.searchsorted(feature, np.arange(len(codes) + 1))
    columns = SparseCodes(rows.astype(np.int32), starts, codes[feature, rows], of_zero, 300)
    for criterion in CRITERIA.values():
        for_all, for_stored = (finder(codes, y, n_classes, columns=each).find(w, criterion) for each in (None, columns))
        assert_same_stump(for_stored, for_all)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_on_several_ranks(rng, n_classes):
    codes, y, w = make(rng, n_rows=300, n_features=70, n_classes=n_classes)

    def find(comm):
        rows = slice(100 * comm.rank, 100 * (comm.rank + 1))
        own = np.ascontiguousarray(codes[:, rows])
        n_codes, kinds = np.full(len(codes), 9, np.int32), np.zeros(len(codes), np.uint8)
        return StumpFinder(own, n_codes, kinds, limits_of(n_codes), y[rows].copy(), n_classes, 1).find(
            w[rows].copy(), 0, comm
        )

    for found in on_ranks(3, find):
        assert_same_stump(found, finder(codes, y, n_classes).find(w, 0))


@pytest.mark.slow
def test_more_cells_than_are_counted_at_once(rng):
    codes, y, w = make(rng, n_rows=300, n_features=40, n_classes=40, n_codes=90)
    found = finder(codes, y, 40).find(w, 0)
    assert found_impurity(found, codes, y, w, 40, "gini") == pytest.approx(best_impurity(codes, y, w, 40, "gini"))


def test_the_first_of_equal_stumps():
    codes = np.array([[1, 1, 2, 2], [1, 1, 2, 2]], dtype=np.uint8)
    found = finder(codes, np.array([0, 0, 1, 1], np.uint16), 2).find(np.ones(4, np.int64), 0)
    assert found[:2] == (0, 1)


def test_no_split_where_all_codes_are_alike():
    codes = np.ones((2, 5), dtype=np.uint8)
    feature, _, goes_left, sums = finder(codes, np.array([0, 1, 1, 1, 0], np.uint16), 2).find(np.ones(5, np.int64), 0)
    assert feature == -1
    assert not goes_left.any()
    assert sums.tolist() == [[2, 3], [0, 0]]


def test_missing_rows_choose_their_side():
    codes = np.array([[0, 0, 1, 2, 3, 3]], dtype=np.uint8)
    y = np.array([1, 1, 0, 0, 1, 1], np.uint16)
    assert finder(codes, y, 2).find(np.ones(6, np.int64), 0)[2].tolist() == [0, 1, 1, 0]
    assert finder(codes, 1 - y, 2).find(np.ones(6, np.int64), 0)[2].tolist() == [0, 1, 1, 0]
    y = np.array([0, 0, 0, 0, 1, 1], np.uint16)
    assert finder(codes, y, 2).find(np.ones(6, np.int64), 0)[2].tolist() == [1, 1, 1, 0]


def test_thresholds_stand_in_the_middle_between_weights(rng):
    for _ in range(20):
        codes, y, w = make(rng, n_rows=12, n_features=1, n_codes=30, n_classes=int(rng.integers(2, 4)))
        w *= rng.random(12) < 0.6
        feature, code, goes_left, _ = finder(codes, y, int(y.max()) + 1).find(w, 0)
        if feature < 0 or codes.max() < 2:
            continue
        used = codes[0, w > 0]
        left = goes_left[used] == 1
        expected = middle_code(limits_of([codes.max() + 1])[0], used[left & (used > 0)], used[~left & (used > 0)])
        assert code == expected
        assert goes_left[1:].tolist() == [1] * code + [0] * (len(goes_left) - 1 - code)


def test_missing_without_training_rows_goes_with_most():
    codes = np.array([[1, 1, 1, 2]], dtype=np.uint8)
    assert finder(codes, np.array([0, 0, 0, 1], np.uint16), 2).find(np.ones(4, np.int64), 0)[2].tolist() == [1, 1, 0]


def test_bad_lengths_are_refused():
    codes = np.ones((2, 5), dtype=np.uint8)
    with pytest.raises(ValueError, match="classes must have 5 entries"):
        finder(codes, np.zeros(4, np.uint16), 2)
    with pytest.raises(ValueError, match="n_codes and is_categorical must have one entry per feature"):
        StumpFinder(codes, np.ones(3, np.int32), np.zeros(2, np.uint8), [np.zeros(0)] * 2, np.zeros(5, np.uint16), 2, 1)
    with pytest.raises(ValueError, match="weights must have 5 entries"):
        finder(codes, np.zeros(5, np.uint16), 2).find(np.ones(4, np.int64), 0)

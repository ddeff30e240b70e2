"""Values to codes, against the naive twin: every kind of spread of the thresholds, both float types, every layout."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fastens.engine.bins.bins import BinTable, bin_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from fastens.engine.bins.binning import Binning
from reference import bins as naive

LARGEST = np.finfo(np.float64).max
TINY = 5e-324


def codes_of(thresholds, X, dtype=np.uint8, category_codes=None, n_threads=1):
    table = BinTable(thresholds, category_codes or [None] * len(thresholds))
    columns = np.empty((X.shape[1], X.shape[0]), dtype=dtype)
    bin_matrix(table, X, columns, None, 0, n_threads)
    return columns


def around(thresholds):
    """Values at, just below and just above the thresholds, and the special ones."""
    with np.errstate(over="ignore"):
        beside = [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)]
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, TINY, -TINY, LARGEST, -LARGEST, 1.0]
    return np.concatenate([*beside, special])


SPREADS = {
    "even": np.linspace(-3, 3, 254),
    "none": np.zeros(0),
    "one": np.array([0.25]),
    "zero": np.array([0.0]),
    "whole numbers": np.arange(-100.0, 100.0) + 0.5,
    "normal": np.sort(np.random.default_rng(0).normal(size=254)),
    "lognormal": np.sort(np.exp(2 * np.random.default_rng(1).normal(size=254))),
    "forty magnitudes": np.sort(np.exp(30 * np.random.default_rng(2).normal(size=254))),
    "both signs": np.sort(np.random.default_rng(3).standard_cauchy(254) ** 3),
    "with zero": np.unique(np.append(np.random.default_rng(4).standard_cauchy(200) ** 3, 0.0)),
    "far from zero": 1e9 + np.sort(np.random.default_rng(5).normal(size=254)),
    "adjacent": 1.0 + np.arange(254) * np.finfo(float).eps,
    "denormal": np.arange(-100, 100) * TINY,
    "huge": np.linspace(-1, 1, 99) * LARGEST,
    "infinite": np.array([-np.inf, -LARGEST, -1.0, 0.0, 1.0, LARGEST]),
    "only infinite": np.array([-np.inf, LARGEST]),
    "one cluster": np.sort(np.append(np.random.default_rng(6).normal(size=250) * 1e-9, [1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("value_type", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPREADS)
def test_codes_as_naive(name, value_type):
    thresholds = SPREADS[name] + 0.0
    with np.errstate(over="ignore"):
        x = around(thresholds).astype(value_type)
    assert np.array_equal(codes_of([thresholds], x[:, None])[0], naive.codes(x, thresholds))


any_float = st.floats(allow_nan=False, width=64)


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(st.lists(any_float.filter(lambda t: t < np.inf), max_size=60), st.lists(st.floats(), max_size=30))
def test_codes_as_naive_for_any_floats(limits, values):
    thresholds = np.unique(np.array(limits, dtype=np.float64)) + 0.0
    x = np.concatenate([around(thresholds), np.array(values, dtype=np.float64)])
    assert np.array_equal(codes_of([thresholds], x[:, None])[0], naive.codes(x, thresholds))


@pytest.mark.parametrize("n_thresholds", [255, 1000, 65_534])
def test_many_bins(n_thresholds, rng):
    thresholds = np.unique(rng.normal(size=n_thresholds))
    x = np.concatenate([thresholds, rng.normal(size=1000), [-np.inf, np.inf]])
    found = codes_of([thresholds], x[:, None], np.uint16)[0]
    assert np.array_equal(found, np.searchsorted(thresholds, x) + 1)
    assert found.max() == n_thresholds + 1


def test_codes_agree_with_comparisons(rng):
    thresholds = np.unique(rng.integers(-20, 20, 15) / 4)
    x = rng.integers(-40, 40, 500) / 8
    found = codes_of([thresholds], x[:, None])[0]
    for c, threshold in enumerate(thresholds, start=1):
        assert np.array_equal(x <= threshold, found <= c)


def test_categories():
    category_codes = np.array([3, 0, 1, 2], dtype=np.uint16)
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, -1.0, np.nan, np.inf, -np.inf, 1e300, -0.0])
    found = codes_of([np.zeros(0)], x[:, None], category_codes=[category_codes])[0]
    assert found.tolist() == naive.codes_of_categories(x, category_codes).tolist()
    assert found.tolist() == [3, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3]


@pytest.mark.parametrize("rule", range(8))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_are_not_positions(rule, dtype):
    category_codes = np.array([3, 0, 1, 2], dtype=np.uint16)
    x = np.array([0, -0.0, -0.5, -1, 2, 2.7, 3.99999999, 4, 1e-60, np.nan, np.inf, -np.inf, 7e4], dtype=dtype)
    binning = Binning([np.zeros(0)], [category_codes], np.array([[4, rule]]))
    again = Binning.from_arrays(binning.to_arrays())
    expected = naive.codes_of_categories(x, category_codes, 4, rule).tolist()
    for own in (binning, again, binning.of_features([0]), binning.with_thresholds([np.zeros(0)])):
        assert own.codes(x[:, None])[0].tolist() == expected


def test_category_without_categories():
    x = np.array([[0.0], [np.nan]])
    assert codes_of([np.zeros(0)], x, category_codes=[np.zeros(0, np.uint16)]).tolist() == [[0, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("code_type", [np.uint8, np.uint16])
@pytest.mark.parametrize("value_type", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (511, 3), (512, 64), (1500, 65), (3, 200)])
def test_columns_and_records_in_every_layout(shape, value_type, code_type, rng):
    X = rng.normal(size=shape).astype(value_type)
    thresholds = [np.sort(rng.normal(size=50)) for _ in range(shape[1])]
    want = np.array([naive.codes(x, t) for x, t in zip(X.T, thresholds, strict=True)])
    wide = np.zeros((2 * shape[0], 2 * shape[1]), dtype=value_type)
    wide[::2, 1::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    for layout in (X, np.asfortranarray(X), wide[::2, 1::2], X[::-1, ::-1][::-1, ::-1], read_only):
        for n_threads in (1, 2, 3):
            columns = np.empty(shape[::-1], dtype=code_type)
            stride = shape[1] * columns.itemsize + 6
            records = np.full((shape[0], stride), 77, dtype=np.uint8)
            bin_matrix(BinTable(thresholds, [None] * shape[1]), layout, columns, records, 0, n_threads)
            assert np.array_equal(columns, want)
            by_row = np.ascontiguousarray(records[:, :-6]).view(code_type)
            assert np.array_equal(by_row, want.T)
            assert (records[:, -6:] == 77).all()


def test_rows_in_the_middle(rng):
    X = rng.normal(size=(40, 2))
    columns = np.zeros((2, 100), dtype=np.uint8)
    records = np.zeros((100, 8), dtype=np.uint8)
    bin_matrix(BinTable([np.zeros(1), np.ones(1)], [None, None]), X, columns, records, 30, 1)
    assert np.array_equal(columns[:, 30:70], np.array([1 + (X[:, 0] > 0), 1 + (X[:, 1] > 1)]))
    assert np.array_equal(records[30:70, :2], columns[:, 30:70].T)
    assert not columns[:, :30].any()
    assert not columns[:, 70:].any()


def test_one_table_in_many_threads(rng):
    X = rng.normal(size=(3000, 5))
    thresholds = [np.sort(rng.normal(size=100)) for _ in range(5)]
    table = BinTable(thresholds, [None] * 5)

    def work(_):
        columns = np.empty((5, 3000), dtype=np.uint8)
        bin_matrix(table, X, columns, None, 0, 1)
        return columns

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(16)))
    assert all(np.array_equal(found[0], other) for other in found)

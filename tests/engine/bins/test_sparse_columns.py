import numpy as np
import pytest
from fastens.engine.bins.sketch import cut_columns
from scipy import sparse

from fastens.engine.bins.row_sketch import DistinctValues
from fastens.engine.rows.sampling import columns_of
from reference import bins as reference


def sparse_table(rng, n_rows=300, n_columns=9, dtype=np.float64):
    X = rng.normal(size=(n_rows, n_columns)).round(1).astype(dtype)
    X[rng.random(X.shape) < np.linspace(0, 1, n_columns)] = 0
    X[rng.random(X.shape) < 0.02] = np.nan
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bins", [2, 7, 255])
def test_thresholds_match_the_reference(rng, dtype, weighted, max_bins):
    X = sparse_table(rng, dtype=dtype)
    weight = rng.integers(1, 5, len(X)) if weighted else np.ones(len(X), dtype=np.int64)
    found, counts = cut_columns(
        *columns_of(sparse.csr_matrix(X)), weight if weighted else None, int(weight.sum()), max_bins, False, 2
    )
    for column, own in zip(X.T, np.split(found, np.cumsum(counts)[:-1]), strict=True):
        np.testing.assert_array_equal(own, reference.thresholds(column, weight, max_bins))


def test_distinct_values(rng):
    X = sparse_table(rng)
    found, counts = cut_columns(*columns_of(sparse.csc_matrix(X)), None, len(X), 40, True, 1)
    own = iter(np.split(found, np.cumsum(np.maximum(counts, 0))[:-1]))
    for column, count in zip(X.T, counts, strict=True):
        values = np.unique(column[~np.isnan(column)])
        assert count == (len(values) if len(values) <= 40 else -1)
        np.testing.assert_array_equal(next(own), values if count >= 0 else [])


def test_distinct_values_of_parts_match_the_whole_table(rng):
    X = sparse_table(rng)
    whole, parts, merged = (DistinctValues(np.arange(9) == 4, 30) for _ in range(3))
    whole.note(X)
    for rows in np.array_split(X, 3):
        parts.note(sparse.csr_matrix(rows), 2)
        one = DistinctValues(np.arange(9) == 4, 30)
        one.note(rows, 2)
        merged.merge(one)
    for found in (parts, merged):
        np.testing.assert_array_equal(found.is_over, whole.is_over)
        np.testing.assert_array_equal(found.values, whole.values)
        np.testing.assert_array_equal(found.starts, whole.starts)
    assert whole.is_over[4]
    assert 1 < whole.is_over.sum() < 9

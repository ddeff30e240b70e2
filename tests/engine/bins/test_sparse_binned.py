import numpy as np
import pytest
from scipy import sparse

from fastens.engine.bins.binning import learn_binning, sparse_codes, sparse_matrix, stays_sparse


@pytest.fixture(params=[(np.float32, 255), (np.float64, 255), (np.float64, 600)], ids=str)
def binned(request, rng):
    """Rows, their bins and their codes, of one or two bytes."""
    dtype, max_bins = request.param
    X = rng.normal(size=(700, 11)).astype(dtype)
    X[rng.random(X.shape) < np.linspace(0.05, 1, 11)] = 0
    X[rng.random(X.shape) < 0.02] = np.nan
    binning = learn_binning(X, max_bins=max_bins)
    assert binning.code_dtype.itemsize == (1 if max_bins < 256 else 2)
    return sparse.csr_matrix(X), binning, binning.codes(X)


def test_codes_match_dense_rows(binned):
    X, binning, codes = binned
    found = sparse_codes(binning, X, 2)
    assert found.shape == codes.shape
    assert found.n_stored == (codes != found.of_zero[:, None]).sum()
    features = np.array([7, 0, 10], dtype=np.int32)
    np.testing.assert_array_equal(np.hstack([part for _, part in found.of_features(features)]), codes[features])


def test_codes_of_features_come_in_blocks_of_rows(binned, monkeypatch):
    X, binning, codes = binned
    monkeypatch.setattr("fastens.engine.bins.binning._BLOCK", 100)
    parts = list(sparse_codes(binning, X).of_features(np.array([1, 2], dtype=np.int32)))
    assert [first for first, _ in parts] == list(range(0, 700, 50))
    np.testing.assert_array_equal(np.hstack([part for _, part in parts]), codes[1:3])


def test_cells_match_the_stored_codes_row_by_row(binned):
    X, binning, codes = binned
    matrix = sparse_matrix(binning, X)
    offsets = np.cumsum(binning.n_codes) - binning.n_codes
    for row, own in enumerate(codes.T):
        stored = np.flatnonzero(own != matrix.columns.of_zero)
        found = matrix.cells[matrix.first_cell[row] : matrix.first_cell[row + 1]]
        np.testing.assert_array_equal(found, offsets[stored] + own[stored])


def test_tables_of_few_stored_values_stay_sparse():
    assert stays_sparse(sparse.random(100, 100, density=0.1, format="csr"))
    assert not stays_sparse(sparse.random(100, 100, density=0.2, format="csr"))
    assert not stays_sparse(np.zeros((3, 3)))

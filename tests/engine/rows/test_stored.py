import numpy as np
from scipy import sparse

from fastens.engine.rows.sampling import canonical, columns_of, hash_table


def twice_stored(rng, n=2000, shape=(40, 30)):
    """A CSR matrix with many places that are stored more than once, in no order."""
    rows, columns = np.sort(rng.integers(0, shape[0], n)), rng.integers(0, shape[1], n)
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=shape[0])))
    return sparse.csr_matrix((rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n), columns, starts), shape=shape)


def test_values_of_one_place_are_added_up_in_their_order(rng):
    X = twice_stored(rng)
    dense = X.toarray()
    np.testing.assert_array_equal(canonical(X).toarray(), dense)
    assert canonical(X).has_canonical_format
    assert canonical(X).nnz == np.count_nonzero(dense)
    values, rows, starts = columns_of(X)
    for column in range(X.shape[1]):
        own = slice(starts[column], starts[column + 1])
        assert (np.diff(rows[own]) > 0).all()
        np.testing.assert_array_equal(values[own], dense[rows[own], column])


def test_canonical_arrays_are_not_copied(rng):
    X = sparse.random(10, 10, density=0.3, format="csr", random_state=0)
    X.sum_duplicates()
    assert canonical(X) is X


def test_hashes_match_dense_rows(rng):
    for X in (twice_stored(rng), twice_stored(rng).astype(np.float32)):
        X.data[::7] = np.nan
        found, expected = np.empty((2, X.shape[0]), dtype=np.uint64)
        hash_table(X, found)
        hash_table(X.toarray(), expected)
        np.testing.assert_array_equal(found, expected)

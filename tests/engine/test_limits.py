"""Tables larger than kernels number are refused by name, before anything is allocated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from fastens.bayes.naive.text import index_type
from fastens.engine.bins.binning import Binning, learn_and_bin, learn_binning
from fastens.engine.bins.sparse_binned import sparse_matrix
from fastens.engine.limits import MAX_INT32, Limits
from fastens.engine.parts import RowSource
from fastens.engine.rows.sampling import columns_of, hash_order


class Rows(RowSource):
    """A table that only claims its rows."""

    def __init__(self, n_rows):
        self.shape = (n_rows, 1)


def test_rows():
    binning = learn_binning(np.arange(4.0)[:, None])
    for use in (learn_binning, learn_and_bin, binning.transform):
        with pytest.raises(ValueError, match="X must have at most 2,147,483,647 rows; got 2,147,483,648"):
            use(Rows(MAX_INT32 + 1))


def test_rows_of_draws():
    with pytest.raises(ValueError, match="at most 2,147,483,647 rows"):
        hash_order(np.broadcast_to(np.uint64(0), MAX_INT32 + 1))


def test_columns_of_sparse_tables():
    X = csr_array(([1.0], ([0], [2**31])), shape=(1, 2**31 + 1))
    with pytest.raises(ValueError, match="X must have at most 2,147,483,647 columns; got 2,147,483,649"):
        columns_of(X)


def test_bins_of_sparse_tables():
    binning = Binning([np.zeros(0)], [None])
    binning.n_codes = np.broadcast_to(np.int32(65_536), 65_536)
    with pytest.raises(ValueError, match="at most 4,294,967,295 bins of all columns together; got 4,294,967,296"):
        sparse_matrix(binning, csr_array((1, 1)))


def test_nodes():
    Limits().check_nodes(2**30)
    for limits in (Limits(max_leaf_nodes=31), Limits(max_depth=30), Limits(min_samples_leaf=2)):
        limits.check_nodes(2**31 - 1)
    for limits in (Limits(), Limits(max_depth=31), Limits(max_leaf_nodes=2**31 - 1)):
        with pytest.raises(ValueError, match="A tree must have at most 1,073,741,824 leaves"):
            limits.check_nodes(2**31 - 1)


def test_positions_of_terms():
    assert index_type(MAX_INT32) is np.int32
    assert index_type(MAX_INT32 + 1) is np.int64

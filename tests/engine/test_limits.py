"""Tables larger than kernels number are refused by name, before anything is allocated."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from fastens import GradientBoostingRegressor
from fastens.bayes.naive.text import index_type
from fastens.engine.bins.binning import Binning, learn_and_bin, learn_binning, sparse_matrix
from fastens.engine.comm import Comm
from fastens.engine.grow.growth import RowWeights
from fastens.engine.limits import MAX_INT32, Limits, check_shape
from fastens.engine.parts import RowSource
from fastens.engine.rows.sampling import columns_of, hash_order
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble
from fastens.forests.bags import rows_in_bags
from fastens.tree_model.explanations import raw_contributions


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
    with pytest.raises(ValueError, match="at most 4,294,967,295 bins in all columns together; got 4,294,967,296"):
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


class TwoRanks(Comm):
    """Two ranks with equal tables."""

    size = 2

    def allreduce_sum(self, *arrays):
        for array in arrays:
            np.multiply(array, 2, out=array)

    def allgather(self, value):
        return [value, value]


def test_rows_of_all_ranks():
    check_shape(Rows(2**30 - 1), TwoRanks())
    with pytest.raises(ValueError, match="X must have at most 2,147,483,647 rows; got 2,147,483,648"):
        learn_binning(Rows(2**30), comm=TwoRanks())


def test_copies_of_rows():
    half = np.full(2, 2.0**30)
    assert RowWeights.of(half - 1, 2).n_copies == 2.0**31 - 2
    with pytest.warns(UserWarning, match=r"sample_weight must sum to less than 2\*\*31 .*; got 2,147,483,648"):
        assert RowWeights.of(half, 2).copies is None
    with warnings.catch_warnings(action="error"):
        RowWeights.of(half + 0.5, 2)  # fractional weights are never copies


def test_words_of_category_sets():
    trees = GradientBoostingRegressor(n_estimators=1).fit([[0.0], [1.0]], [0, 1])._ensemble
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES}
    arrays["category_words"] = np.broadcast_to(np.uint32(0), MAX_INT32 + 1)
    with pytest.raises(
        ValueError, match="at most 2,147,483,647 words for the category sets of splits; got 2,147,483,648"
    ):
        TreeEnsemble(trees.binning, **arrays)


def test_background_rows():
    model = GradientBoostingRegressor(n_estimators=1).fit([[0.0], [1.0]], [0, 1])
    background = np.broadcast_to(np.float64(0), (2**29 + 1, 1))
    with pytest.raises(ValueError, match="background must have at most 536,870,912 rows; got 536,870,913"):
        raw_contributions(model, np.zeros((1, 1)), pairs=False, background=background)


def test_rows_of_bags():
    with pytest.raises(ValueError, match="estimators_samples_ must have at most 2,147,483,647 rows"):
        rows_in_bags(SimpleNamespace(draws=None), 1, np.array([0, MAX_INT32]))

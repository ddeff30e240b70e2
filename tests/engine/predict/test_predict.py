"""Every route of prediction against the naive twin, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.engine.predict.compile import CompiledTrees, best_level
from scipy.sparse import csr_matrix

from fastens.engine.bins.binning import learn_binning
from fastens.engine.predict import predict
from reference import predict as twin

LEVELS = range(best_level() + 1)
SIZES = [31] * 9 + [1, 2, 3, 8, 16, 32, 33, 60, 64, 65, 130, 256, 257, 400]


def table(rng, n_rows, dtype=np.float64):
    """Two numeric features, a categorical one of 9 and one of 300 categories, a numeric one of few values."""
    X = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.exponential(size=n_rows),
            rng.integers(9, size=n_rows),
            np.minimum(rng.geometric(0.02, size=n_rows), 299),
            rng.integers(4, size=n_rows),
        ]
    ).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def make_binning(rng, max_bins=255):
    is_categorical = np.array([False, False, True, True, False])
    return learn_binning(table(rng, 3000), None, max_bins, is_categorical, 1)


@pytest.fixture(params=[255, 16, 1000], ids="max_bins={}".format)
def binning(request):
    return make_binning(np.random.default_rng(1), request.param)


def compile_at(ensemble, level):
    binning = ensemble.binning
    return CompiledTrees(ensemble, binning.table, np.dtype(binning.code_dtype).itemsize, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 7, 9, 512, 700])
def test_equals_the_twin(binning, level, n_outputs, n_rows):
    rng = np.random.default_rng(n_rows)
    ensemble = twin.random_ensemble(rng, binning, SIZES if n_rows < 600 else SIZES[::3], n_outputs)
    X = table(rng, n_rows)
    codes = binning.codes(X, 1)
    trees = compile_at(ensemble, level)
    expected = twin.predict_raw(ensemble, codes)
    np.testing.assert_array_equal(predict.predict_raw(trees, X), expected)
    np.testing.assert_array_equal(predict.predict_raw(trees, X, 3), expected)
    np.testing.assert_array_equal(predict.apply(trees, X), twin.apply(ensemble, codes))
    raw = np.tile(ensemble.baseline[:, None], n_rows)
    predict.add_to_raw(trees, codes, raw, 0, ensemble.n_trees)
    np.testing.assert_array_equal(raw.T, expected)


@pytest.mark.parametrize("sizes", [SIZES, SIZES[:9]], ids=["walks", "scans"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_rows", [0, 1, 9, 700])
def test_sparse_rows_equal_the_twin(binning, n_rows, dtype, sizes):
    rng = np.random.default_rng(n_rows)
    ensemble = twin.random_ensemble(rng, binning, sizes, 3)
    X = table(rng, n_rows, dtype)
    X[rng.random(X.shape) < 0.4] = 0
    rows = csr_matrix(X)
    rows.data[::7] = 0  # stored zeros
    codes = binning.codes(rows.toarray(), 1)
    trees = compile_at(ensemble, 2)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(predict.predict_raw(trees, rows, n_threads), twin.predict_raw(ensemble, codes))
    np.testing.assert_array_equal(predict.apply(trees, rows), twin.apply(ensemble, codes))


@pytest.mark.parametrize("max_bins", [16, 500])
def test_wide_sparse_rows_walk_one_by_one(max_bins):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(600, 3000)) * (rng.random((600, 3000)) < 0.6)
    X[rng.random(X.shape) < 0.01] = np.nan
    binning = learn_binning(X, None, max_bins, None, 1)
    forest = twin.random_forest(rng, binning, [400] * 10, 2)
    assert len(np.unique(forest.feature)) > 2048
    rows, codes = csr_matrix(X[:150]), binning.codes(X[:150], 1)
    trees = compile_at(forest, 2)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(predict.predict_raw(trees, rows, n_threads), twin.predict_raw(forest, codes))
        np.testing.assert_array_equal(predict.apply(trees, rows, n_threads), twin.apply(forest, codes))


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 9, 700])
def test_values_for_all_outputs(binning, n_outputs, n_rows):
    rng = np.random.default_rng(n_rows)
    forest = twin.random_forest(rng, binning, SIZES[::3], n_outputs)
    X = table(rng, n_rows)
    expected = twin.predict_raw(forest, binning.codes(X, 1))
    trees = compile_at(forest, 2)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(predict.predict_raw(trees, X, n_threads), expected)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_routes_agree_on_many_rows(binning, level):
    rng = np.random.default_rng(2)
    ensemble = twin.random_ensemble(rng, binning, SIZES)
    X = table(rng, 5000)
    one_by_one = np.concatenate([predict.predict_raw(compile_at(ensemble, 0), row[None]) for row in X])
    trees = compile_at(ensemble, level)
    for n_threads in (1, 2, 5):
        np.testing.assert_array_equal(predict.predict_raw(trees, X, n_threads), one_by_one)
    parts = [predict.predict_raw(trees, part) for part in np.split(X, [3, 20, 1044, 2600])]
    np.testing.assert_array_equal(np.concatenate(parts), one_by_one)


@pytest.mark.parametrize("n_trees", [0, 1, 5, 100])
@pytest.mark.parametrize("n_rows", [3, 600])
def test_first_trees(n_trees, n_rows):
    rng = np.random.default_rng(3)
    binning = make_binning(rng)
    ensemble = twin.random_ensemble(rng, binning, [5] * 9, 2)
    X = table(rng, n_rows)
    expected = twin.predict_raw(ensemble, binning.codes(X, 1), min(n_trees, 9))
    np.testing.assert_array_equal(predict.predict_raw(compile_at(ensemble, 2), X, n_trees=n_trees), expected)


def test_memory_layouts():
    rng = np.random.default_rng(4)
    ensemble = twin.random_ensemble(rng, make_binning(rng), [20] * 5)
    trees = compile_at(ensemble, 2)
    X = table(rng, 1100, np.float32)
    expected = predict.predict_raw(trees, X)
    read_only = X.copy()
    read_only.flags.writeable = False
    padded = np.zeros((2200, 11), dtype=np.float32)[::2, 1::2]
    padded[:] = X
    for same in (np.asfortranarray(X), read_only, padded, X[::-1].copy()[::-1], X.astype(np.float64)):
        np.testing.assert_array_equal(predict.predict_raw(trees, same), expected)
        np.testing.assert_array_equal(predict.predict_raw(trees, same[:2]), expected[:2])
    packed = np.zeros(1100, dtype=[("row", X.dtype, 5), ("mark", "u1")])
    packed["row"] = X
    np.testing.assert_array_equal(predict.predict_raw(trees, packed["row"][:1]), expected[:1])


def test_add_to_raw_some_trees_and_strides():
    rng = np.random.default_rng(5)
    binning = make_binning(rng)
    ensemble = twin.random_ensemble(rng, binning, [5] * 6, 2)
    X = table(rng, 1300)
    codes = binning.codes(X, 1)
    trees = compile_at(ensemble, 2)
    raw = predict.predict_raw(trees, X, n_trees=2)
    predict.add_to_raw(trees, codes, raw.T, 2, 6, 2)
    np.testing.assert_array_equal(raw, predict.predict_raw(trees, X))


def test_no_trees_and_single_leaves():
    rng = np.random.default_rng(6)
    binning = make_binning(rng)
    X = table(rng, 20)
    for sizes in ([], [1], [1, 1]):
        ensemble = twin.random_ensemble(rng, binning, sizes, 2)
        expected = twin.predict_raw(ensemble, binning.codes(X, 1))
        for rows in (X, X[:1]):
            np.testing.assert_array_equal(predict.predict_raw(compile_at(ensemble, 2), rows), expected[: len(rows)])
        assert predict.apply(compile_at(ensemble, 2), X).shape == (20, len(sizes))


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [1, 10_000])
def test_few_and_many_features(n_features):
    rng = np.random.default_rng(7)
    X = rng.integers(50, size=(600, n_features)).astype(np.float32)
    binning = learn_binning(X, None, 255, None, 1)
    ensemble = twin.random_ensemble(rng, binning, [31] * 20)
    expected = twin.predict_raw(ensemble, binning.codes(X, 1))
    np.testing.assert_array_equal(predict.predict_raw(compile_at(ensemble, 2), X), expected)


@pytest.mark.slow
def test_more_views_than_a_node_can_name():
    rng = np.random.default_rng(10)
    X = rng.integers(5, size=(20, 60_000)).astype(np.float32)
    binning = learn_binning(X, None, 255, None, 1)
    forest = twin.random_forest(rng, binning, [120_000, 3])
    numeric = forest.feature >= 0
    shifted = (forest.missing_left == 0) & (forest.bin_threshold > 0)
    assert len(np.unique(forest.feature[numeric] * 2 + shifted[numeric])) > 2**16
    expected = twin.predict_raw(forest, binning.codes(X, 1))
    trees = compile_at(forest, 2)
    np.testing.assert_array_equal(predict.predict_raw(trees, X), expected)
    np.testing.assert_array_equal(predict.predict_raw(trees, X[:3]), expected[:3])


def test_blocks_of_many_rows():
    rng = np.random.default_rng(11)
    binning = make_binning(rng)
    forest = twin.random_forest(rng, binning, [700, 1, 300], 2)
    X = table(rng, 150_001)
    trees = compile_at(forest, 2)
    expected = predict.predict_raw(trees, X)
    leaves = predict.apply(trees, X, 2)
    value = sum(forest.value[forest.node_offsets[t] + leaves[:, t]].astype(np.float64) for t in range(3))
    np.testing.assert_array_equal(expected, value)
    np.testing.assert_array_equal(leaves[:300], twin.apply(forest, binning.codes(X[:300], 1)))
    for n_threads in (2, 3, 7):
        np.testing.assert_array_equal(predict.predict_raw(trees, X, n_threads), expected)


def test_65_535_bins():
    rng = np.random.default_rng(8)
    X = rng.permutation(66_000).astype(np.float64)[:, None]
    binning = learn_binning(X, None, 65_535, None, 1)
    assert binning.code_dtype == np.uint16
    X = np.append(X[:500], [[np.nan], [np.inf], [-np.inf]], axis=0)
    ensemble = twin.random_ensemble(rng, binning, [300, 31, 31])
    expected = twin.predict_raw(ensemble, binning.codes(X, 1))
    np.testing.assert_array_equal(predict.predict_raw(compile_at(ensemble, 2), X), expected)


def test_refuses_what_it_cannot_read():
    rng = np.random.default_rng(9)
    binning = make_binning(rng)
    trees = compile_at(twin.random_ensemble(rng, binning, [31] * 5), 2)
    X = table(rng, 20)
    codes = binning.codes(X, 1)
    with pytest.raises(ValueError, match="5 columns or more, got 4"):
        predict.predict_raw(trees, X[:, :4])
    unaligned = np.zeros((20, 5), dtype=[("a", "u1"), ("b", "f8")])["b"]
    for wrong in (X[0], np.ones((20, 5), dtype=int), X.astype(">f8"), X.astype(np.float16), unaligned):
        with pytest.raises(ValueError, match="float32 or float64"):
            predict.predict_raw(trees, wrong)
    with pytest.raises(ValueError, match="codes must be of 1 bytes"):
        predict.add_to_raw(trees, codes.astype(np.uint16), np.zeros((1, 20)), 0, 5)
    with pytest.raises(ValueError, match="do not fit"):
        predict.add_to_raw(trees, codes, np.zeros((1, 19)), 0, 5)
    with pytest.raises(ValueError, match="not among"):
        predict.add_to_raw(trees, codes, np.zeros((1, 20)), 0, 6)
    with pytest.raises(ValueError, match="without their binning"):
        predict.predict_raw(CompiledTrees(twin.random_ensemble(rng, binning, [3]), None, 1), X)

"""Learning bins: the naive twin, weights as repetition, parts as the whole, and odd input."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from fastens.engine.bins.sketch import kth_distinct
from hypothesis import given, settings
from hypothesis import strategies as st

from fastens.engine.bins.binning import Binning, BinningSketch, learn_and_bin, learn_binning
from reference import bins as naive


def assert_same(a: Binning, b: Binning) -> None:
    """The same bins, to the bit."""
    one, other = a.to_arrays(), b.to_arrays()
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.dtype == other[name].dtype
        assert np.array_equal(values, other[name]), name


def sketch_of(*parts, **options) -> BinningSketch:
    sketch = BinningSketch(parts[0][0].shape[1], **options)
    for X, weight in parts:
        sketch.update(X, weight)
    return sketch


def mixed_table(rng, n_rows):
    """Continuous, whole, constant, heavy-tailed, mostly zero and categorical columns; missing values, infinities."""
    X = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.integers(0, 9, n_rows),
            np.full(n_rows, 2.5),
            rng.standard_cauchy(n_rows) ** 3,
            np.where(rng.random(n_rows) < 0.9, 0.0, rng.exponential(size=n_rows)),
            rng.zipf(1.5, n_rows) % 50,
        ]
    ).astype(np.float64)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[rng.integers(0, n_rows, 2), 0] = [np.inf, -np.inf]
    return X, np.arange(6) == 5


# As specified ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bins", [2, 3, 10, 60, 255])
@pytest.mark.parametrize("value_type", [np.float32, np.float64])
def test_bins_as_naive(value_type, max_bins, weighted, rng):
    X, is_categorical = mixed_table(rng, 600)
    with np.errstate(over="ignore"):
        X = X.astype(value_type)
    weight = rng.integers(1, 6, 600).astype(float) if weighted else None
    binning = learn_binning(X, weight, max_bins, is_categorical)
    w = np.ones(600) if weight is None else weight
    codes = binning.codes(X)
    for f in range(6):
        if is_categorical[f]:
            assert np.array_equal(binning.category_codes[f], naive.category_codes(X[:, f], w, max_bins))
        else:
            assert np.array_equal(binning.thresholds[f], naive.thresholds(X[:, f], w, max_bins))
            assert np.array_equal(codes[f], naive.codes(X[:, f], binning.thresholds[f]))
        assert codes[f].max() < binning.n_codes[f] <= max_bins + 1


few_floats = st.lists(
    st.tuples(st.floats(width=64) | st.integers(-4, 4).map(float), st.integers(1, 9)), min_size=1, max_size=80
)


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(few_floats, st.integers(2, 12))
def test_bins_as_naive_for_any_floats(rows, max_bins):
    x, weight = (np.array(part, dtype=np.float64) for part in zip(*rows, strict=True))
    with np.errstate(over="ignore"):
        binning = learn_binning(x[:, None], weight, max_bins)
    limits = binning.thresholds[0]
    assert np.array_equal(limits, naive.thresholds(x, weight, max_bins))
    values = np.unique(x[~np.isnan(x)])
    if len(values) <= max_bins:
        assert np.array_equal(binning.codes(values[:, None])[0], np.arange(1, len(values) + 1))


def test_adjacent_numbers_are_apart():
    for pair in ([1.0, 1.0 + 1e-9], [1.0, np.nextafter(1.0, 2.0)], [0.0, 5e-324], [-5e-324, 0.0], [-np.inf, np.inf]):
        X = np.array(pair)[:, None]
        assert learn_binning(X).codes(X).tolist() == [[1, 2]]
    X = np.array([[1.0], [np.nextafter(np.float32(1), np.float32(2))]], dtype=np.float32)
    assert learn_binning(X).codes(X).tolist() == [[1, 2]]


def test_infinities_have_bins_of_their_own():
    binning = learn_binning(np.array([[-np.inf], [1.0], [2.0], [np.inf]]))
    x = np.array([-np.inf, -1e308, 1.0, 2.0, 1e308, np.inf])
    assert binning.codes(x[:, None])[0].tolist() == [1, 2, 2, 3, 3, 4]


def test_both_zeros_are_one_value():
    X = np.array([[-0.0], [0.0], [1.0]])
    binning = learn_binning(X)
    assert binning.n_codes.tolist() == [3]
    assert binning.codes(X).tolist() == [[1, 1, 2]]


def test_heavy_values_have_bins_of_their_own(rng):
    x = np.concatenate([np.zeros(5000), np.full(3000, 0.5), rng.normal(size=5000)])
    binning = learn_binning(x[:, None], max_bins=32)
    codes = binning.codes(x[:, None])[0]
    for value in (0.0, 0.5):
        assert len(np.unique(x[codes == codes[x == value][0]])) == 1
    sizes = np.bincount(codes[(x != 0) & (x != 0.5)])
    assert sizes.max() <= 2 * 5000 / 30


def test_bins_of_a_continuous_column_are_even(rng):
    x = rng.normal(size=(50_000, 1))
    sizes = np.bincount(learn_binning(x).codes(x)[0])[1:]
    assert len(sizes) == 255
    assert sizes.min() >= 195
    assert sizes.max() <= 197


def test_rarest_categories_share_a_code():
    x = np.repeat(np.arange(7.0), [3, 9, 1, 5, 0, 2, 1])
    binning = learn_binning(x[:, None], max_bins=4, is_categorical=np.array([True]))
    assert binning.category_codes[0].tolist() == [3, 1, 4, 2, 0, 4, 4]
    assert binning.n_codes.tolist() == [5]
    assert binning.codes(np.array([[4.0], [99.0], [np.nan]])).tolist() == [[0, 0, 0]]


# The same whatever the way --------------------------------------------------------------------------------------------


def cut_in_parts(rng, n_rows, n_parts):
    return np.split(rng.permutation(n_rows), np.sort(rng.integers(0, n_rows, n_parts - 1)))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 120), st.integers(1, 150), st.integers(2, 40))
def test_weights_mean_repetition(seed, n_rows, n_sample, max_bins):
    rng = np.random.default_rng(seed)
    X, is_categorical = mixed_table(rng, n_rows)
    weight = rng.integers(1, 6, n_rows)
    repeated = np.repeat(X, weight, axis=0)[rng.permutation(weight.sum())]
    options = {"max_bins": max_bins, "is_categorical": is_categorical, "n_sample": n_sample}
    assert_same(sketch_of((X, weight), **options).finish(), sketch_of((repeated, None), **options).finish())
    assert_same(
        learn_binning(X, weight.astype(float), max_bins, is_categorical),
        learn_binning(repeated, None, max_bins, is_categorical),
    )


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.integers(1, 150), st.booleans())
def test_parts_make_the_whole(seed, n_rows, n_sample, is_weighted):
    rng = np.random.default_rng(seed)
    X, is_categorical = mixed_table(rng, n_rows)
    X = X[rng.integers(0, n_rows, n_rows)]
    weight = rng.exponential(size=n_rows) if is_weighted else np.ones(n_rows)
    options = {"max_bins": 20, "is_categorical": is_categorical, "n_sample": n_sample}
    whole = sketch_of((X, weight), **options).finish()
    parts = [(X[rows], weight[rows]) for rows in cut_in_parts(rng, n_rows, 5)]
    assert_same(sketch_of(*parts, **options).finish(), whole)
    merged = BinningSketch(6, **options)
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(sketch_of(part, **options))))
        merged.finish()
    assert_same(merged.finish(), whole)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 3))
def test_order_does_not_matter(seed, n_rows, n_threads):
    rng = np.random.default_rng(seed)
    X, is_categorical = mixed_table(rng, n_rows)
    weight = rng.exponential(size=n_rows) * 10.0 ** rng.integers(-12, 12)
    whole = learn_binning(X, weight, 30, is_categorical)
    rows, columns = rng.permutation(n_rows), rng.permutation(6)
    assert_same(learn_binning(X[rows], weight[rows], 30, is_categorical, n_threads), whole)
    shuffled = learn_binning(X[:, columns], weight, 30, is_categorical[columns], n_threads)
    for place, f in enumerate(columns):
        assert np.array_equal(shuffled.thresholds[place], whole.thresholds[f])
        assert np.array_equal(shuffled.codes(X[:, columns])[place], whole.codes(X)[f])


@pytest.fixture(scope="module")
def long_table():
    """More rows than are kept: sampled, with columns of few values that are not."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120_000, 21)).astype(np.float32)
    X[:, 1] = rng.integers(0, 255, len(X))
    X[:, 2] = np.where(rng.random(len(X)) < 1e-5, 1.0, 0.0)
    X[::50, 3] = np.nan
    return X


def test_few_values_are_exact_over_all_rows(long_table):
    X = long_table.copy()
    X[[5, 70_000], 2] = [-3.0, 7.0]
    binning = learn_binning(X, n_threads=2)
    for f in (1, 2):
        values = np.unique(X[:, f])
        assert np.array_equal(binning.thresholds[f], (values[1:] + values[:-1]) / 2)


def test_sampled_bins_are_near_even(long_table):
    binning = learn_binning(long_table)
    sizes = np.bincount(binning.codes(long_table)[0])[1:] * 255 / len(long_table)
    assert len(sizes) == 255
    assert 0.8 < sizes.min() < sizes.max() < 1.2


@pytest.mark.slow
def test_sampled_bins_do_not_depend_on_threads_order_or_layout(long_table, rng):
    whole = learn_binning(long_table, n_threads=1)
    assert_same(learn_binning(np.asfortranarray(long_table), n_threads=2), whole)
    assert_same(learn_binning(long_table[rng.permutation(len(long_table))], n_threads=2), whole)
    assert_same(learn_binning(long_table.astype(np.float64)), whole)
    assert_same(learn_binning(long_table, np.full(len(long_table), 3.0)), whole)
    sketch = BinningSketch(21)
    for start in range(0, len(long_table), 30_000):
        sketch.update(long_table[start : start + 30_000])
    assert_same(sketch.finish(), whole)


def test_many_copies_of_few_rows(rng):
    X = rng.normal(size=(300, 3))
    weight = rng.integers(1, 20, 300)
    sketch = BinningSketch(3, max_bins=50, n_sample=400)
    for _ in range(5):
        sketch.update(np.repeat(X, weight, axis=0))
    assert sum(len(rows.values) for rows in sketch._rows) <= 1.5 * 400
    assert_same(sketch.finish(), learn_binning(X, weight, 50))


def test_a_sketch_goes_on_after_finish(rng):
    X = rng.normal(size=(500, 2))
    sketch = BinningSketch(2, max_bins=16, n_sample=100)
    for start in range(0, 500, 100):
        sketch.update(X[start : start + 100])
        assert_same(sketch.finish(), sketch_of((X[: start + 100], None), max_bins=16, n_sample=100).finish())


def test_a_sketch_keeps_no_reference_to_its_input(rng):
    X = rng.normal(size=(50, 2))
    sketch = sketch_of((X, None))
    want = sketch.finish()
    X[:] = 0.0
    assert_same(sketch.finish(), want)


# Input and output -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_array"])
def test_sparse(kind, rng, monkeypatch):
    monkeypatch.setattr("fastens.engine.bins.row_sketch._BLOCK", 256)
    X = np.where(rng.random((200, 20)) < 0.8, 0.0, rng.normal(size=(200, 20)))
    sparse = getattr(scipy.sparse, kind)(X)
    weight = rng.integers(1, 4, 200)
    binning = learn_binning(sparse, weight, 16)
    assert_same(binning, learn_binning(X, weight, 16))
    assert np.array_equal(binning.codes(sparse), binning.codes(X))
    assert np.array_equal(binning.transform(sparse, 2).records, binning.transform(X).records)


def test_read_only_and_memory_mapped(tmp_path, rng):
    X = rng.normal(size=(300, 4))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    weight = np.ones(300)
    weight.flags.writeable = False
    assert_same(learn_binning(mapped, weight), learn_binning(X))
    assert np.array_equal(learn_binning(X).codes(mapped), learn_binning(X).codes(X))


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 12, 13, 28, 29, 60, 61, 300])
@pytest.mark.parametrize("max_bins", [255, 300])
def test_records(n_features, max_bins, rng):
    X = rng.normal(size=(400, n_features))
    matrix = learn_binning(X, max_bins=max_bins).transform(X)
    n_bytes = n_features * matrix.columns.itemsize
    stride = matrix.records.shape[1]
    assert matrix.columns.dtype == (np.uint8 if max_bins == 255 else np.uint16)
    assert matrix.columns.shape == (matrix.n_features, matrix.n_rows) == (n_features, 400)
    assert matrix.columns.ctypes.data % 64 == matrix.records.ctypes.data % 64 == 0
    assert matrix.payload_offset % 4 == 0
    assert n_bytes <= matrix.payload_offset <= stride - 4
    assert stride in {8, 16, 32} or stride % 16 == 0
    codes = np.ascontiguousarray(matrix.records[:, :n_bytes]).view(matrix.columns.dtype)
    assert np.array_equal(codes.T, matrix.columns)


def test_constant_and_empty_columns():
    X = np.array([[1.0, np.nan], [1.0, np.nan]])
    binning = learn_binning(X)
    assert binning.n_codes.tolist() == [2, 2]
    assert binning.codes(np.array([[1.0, np.nan], [5.0, 5.0], [np.nan, -5.0]])).tolist() == [[1, 1, 0], [0, 1, 1]]
    empty = learn_binning(np.full((3, 1), np.nan), is_categorical=np.array([True]))
    assert empty.codes(np.array([[0.0]])).tolist() == [[0]]


def test_one_row():
    X = np.array([[1.0, np.nan, np.inf]])
    matrix = learn_binning(X, np.array([0.5])).transform(X, n_threads=2)
    assert matrix.columns.tolist() == [[1], [0], [1]]


def test_no_rows():
    X = np.zeros((0, 3))
    assert learn_binning(X).transform(X).columns.shape == (3, 0)
    assert learn_binning(np.ones((2, 3))).codes(scipy.sparse.csr_array(X)).shape == (3, 0)


def test_ten_thousand_columns(rng):
    X = rng.permuted(np.tile(np.arange(100, dtype=np.float32), (10_000, 1)), axis=1).T
    binning = learn_binning(X)
    assert (binning.n_codes == 101).all()
    assert np.array_equal(binning.transform(X, n_threads=2).columns, X.T + 1)


def test_most_bins(rng):
    x = rng.permutation(70_000).astype(np.float64)
    exact = learn_binning(x[:65_535, None], max_bins=65_535)
    assert exact.n_codes.tolist() == [65_536]
    assert np.array_equal(exact.codes(x[:65_535, None])[0], x[:65_535].argsort().argsort() + 1)
    assert learn_binning(x[:, None], max_bins=65_535).n_codes[0] > 60_000


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_weights_of_any_size(scale, rng):
    X, is_categorical = mixed_table(rng, 500)
    weight = rng.random(500) + 0.01
    power = 2.0 ** np.round(np.log2(scale))
    assert_same(learn_binning(X, weight * power, 20, is_categorical), learn_binning(X, weight, 20, is_categorical))


def test_arrays_and_pickles(rng):
    X, is_categorical = mixed_table(rng, 300)
    binning = learn_binning(X, max_bins=40, is_categorical=is_categorical)
    codes = binning.codes(X)
    for copy in (Binning.from_arrays(binning.to_arrays()), pickle.loads(pickle.dumps(binning))):
        assert_same(copy, binning)
        assert np.array_equal(copy.codes(X), codes)
        assert np.array_equal(copy.n_codes, binning.n_codes)
    assert "table" not in binning.__getstate__()


def test_one_binning_in_many_threads(rng):
    X = rng.normal(size=(2000, 6))
    binning = learn_binning(X)
    want = learn_binning(X).codes(X)
    with ThreadPoolExecutor(8) as pool:
        assert all(np.array_equal(codes, want) for codes in pool.map(lambda _: binning.codes(X, 2), range(16)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("value_type", [np.float32, np.float64])
@pytest.mark.parametrize("max_bins", [255, 300, 5000])
def test_bins_and_codes_in_one_go(value_type, max_bins, weighted, rng):
    X, _ = mixed_table(rng, 2000)
    with np.errstate(over="ignore"):
        X = X.astype(value_type)
    weight = rng.integers(1, 4, len(X)).astype(np.float64) if weighted else None
    binning, matrix = learn_and_bin(X, weight, max_bins, n_threads=2)
    assert_same(binning, learn_binning(X, weight, max_bins))
    expected = binning.transform(X)
    assert np.array_equal(matrix.columns, expected.columns)
    assert matrix.columns.dtype == expected.columns.dtype
    assert np.array_equal(matrix.records, expected.records)
    assert matrix.payload_offset == expected.payload_offset


def test_bins_and_codes_in_one_go_of_categories_and_sparse_rows(rng):
    X, is_categorical = mixed_table(rng, 1000)
    for table, categorical in (
        (X, is_categorical),
        (scipy.sparse.csr_matrix(np.nan_to_num(X, posinf=9.0, neginf=-9.0)), None),
    ):
        binning, matrix = learn_and_bin(table, None, 800, categorical)
        assert_same(binning, learn_binning(table, None, 800, categorical))
        assert np.array_equal(matrix.records, binning.transform(table).records)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_the_kth_of_distinct_numbers(rng, n):
    numbers = rng.integers(0, 2**64, n, dtype=np.uint64)
    numbers = np.append(numbers, numbers[: n // 2])
    for k in range(1, n + 1):
        assert kth_distinct(numbers.copy(), np.empty_like(numbers), k) == np.sort(numbers[:n])[k - 1]
    for k in (n + 1, len(numbers) + 1):
        assert kth_distinct(numbers.copy(), np.empty_like(numbers), k) is None

"""Ctrl-C is seen within passes over many rows, not only after them."""

from __future__ import annotations

import os
import signal
import threading

import joblib
import numpy as np
import pytest
from fastens.bayes.naive.moments import add_gaussian
from fastens.engine.bins.bins import bin_matrix, copy_to_records
from fastens.engine.predict.predict import predict_raw
from fastens.engine.rows.draws import hash_rows
from sklearn.naive_bayes import GaussianNB

from fastens import GradientBoostingRegressor, StackingClassifier
from fastens.bayes.naive import likelihoods
from fastens.combining.folds import GivenRows, MemberData, make_folds
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, number_target
from fastens.engine.rows.sampling import _SORTED_AT_ONCE, Bootstrap, hash_order
from fastens.engine.threads import in_threads
from fastens.engine.trees import leaf_values as midpoints
from fastens.table import parts, tables
from fastens.table.columns import factorize as factorizing


def binning():
    X = np.random.default_rng(0).random((1 << 20, 16), dtype=np.float32)
    columns, records = np.zeros((16, len(X)), np.uint8), np.zeros((len(X), 16), np.uint8)
    return bin_matrix, learn_binning(X[:10_000]).table, X, columns, records, 0, 1


def copying():
    columns = np.zeros((64, 1 << 20), np.uint16)
    return copy_to_records, columns, np.zeros((1 << 20, 128), np.uint8), 1


def predicting():
    X = np.random.default_rng(0).random((300_000, 8), dtype=np.float32)
    model = GradientBoostingRegressor(n_estimators=200, min_samples_leaf=5).fit(X[:3000], X[:3000, 0] * X[:3000, 1])
    return predict_raw, model._ensemble.compiled, X


def numbering():
    words = np.array([f"word {number}" for number in np.random.default_rng(0).permutation(1 << 18)], dtype=object)
    return (
        factorizing.encode_objects,
        factorizing.Distinct(len(words), len(words)),
        np.asarray(factorizing._Pointers(words)),
    )


def hashing():
    X = np.broadcast_to(np.random.default_rng(0).random(128), (1 << 20, 128))
    return hash_rows, X, np.zeros(len(X), np.uint64), 1


def densities():
    X = np.broadcast_to(np.random.default_rng(0).random(64), (1 << 19, 64))
    return add_gaussian, X, np.ones((64, 3, 4)), np.zeros((len(X), 4)), 1


def sides_of_thresholds():
    X = np.random.default_rng(0).random((1 << 19, 4))
    binning = learn_binning(X[:10_000])
    grower = ForestGrower(binning.transform(X[:3000]), number_target(X[:3000, 0] * X[:3000, 1]), ForestParameters())
    [tree] = grower.grow([TreeSample(None, None, 0)])
    return midpoints._split_midpoints, tree, binning.transform(X), X, 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    "kernel",
    [binning, copying, predicting, numbering, hashing, densities, sides_of_thresholds],
)
def test_kernels_look_for_signals(kernel):
    """There is always another one; after the call alone, one would be seen."""
    function, *arguments = kernel()
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(None))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        seen.clear()
        function(*arguments)
        n_seen = len(seen)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert n_seen > 3


class Watched(np.ndarray):
    """An array that notes how many rows are taken at a time."""

    def __getitem__(self, rows):
        if isinstance(rows, np.ndarray):
            self.taken.append(len(rows))
        return super().__getitem__(rows)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_taken_block_by_block(order, monkeypatch):
    monkeypatch.setattr(tables, "_COPIED", 100)
    plain = np.asarray(np.random.default_rng(0).random((500, 7)), order=order)
    X = plain.view(Watched)
    X.taken = []
    rows = np.flatnonzero(plain[:, 0] < 0.5)
    found = parts.take_rows(X, rows)
    np.testing.assert_array_equal(found, plain[rows])
    assert type(found) is np.ndarray
    assert found.flags.c_contiguous
    assert max(X.taken) * 7 <= 100
    assert sum(X.taken) == len(rows)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_are_copied_block_by_block(order, monkeypatch):
    monkeypatch.setattr(tables, "_COPIED", 100)
    lengths = []
    plain_take = np.take
    monkeypatch.setattr(np, "take", lambda X, *args, **how: (lengths.append(len(X)), plain_take(X, *args, **how))[1])
    X = np.asarray(np.random.default_rng(0).random((500, 7)), order=order)
    columns = np.array([6, 1, 3])
    np.testing.assert_array_equal(likelihoods.Likelihood(columns).select(X), X[:, columns])
    assert sum(lengths) == (500 if order == "C" else 0)
    assert max(lengths, default=0) <= 100 // 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64, object])
def test_numbers_are_put_before_columns_block_by_block(dtype, monkeypatch):
    monkeypatch.setattr(tables, "_COPIED", 100)
    values, X = np.random.default_rng(0).random((500, 1)), np.random.default_rng(1).random((500, 7)).astype(dtype)
    expected = np.hstack([values, X])
    lengths = []
    plain_hstack = np.hstack
    monkeypatch.setattr(np, "hstack", lambda blocks: (lengths.append(len(blocks[0])), plain_hstack(blocks))[1])
    found = parts.hstack(values, ["value"], X)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert sum(lengths) == 500
    assert max(lengths) <= 100


def test_hashes_are_sorted_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 1 << 64, 3 * _SORTED_AT_ONCE // 2, np.uint64)
    hashes[rng.integers(0, len(hashes), 1000)] = hashes[0]
    stratum = rng.integers(0, 3, len(hashes))
    expected, of_strata = np.argsort(hashes, kind="stable"), np.lexsort((hashes, stratum))
    lengths = []

    def watched(values, kind):
        if values.itemsize > 2:  # narrow numbers are counted, in no time
            lengths.append(len(values))
        return plain_argsort(values, kind=kind)

    plain_argsort = np.argsort
    monkeypatch.setattr(np, "argsort", watched)
    np.testing.assert_array_equal(hash_order(hashes), expected)
    np.testing.assert_array_equal(Bootstrap.plan(hashes, None, np.array([1, 1, 1]), stratum).order, of_strata)
    assert sum(lengths) == 2 * len(hashes)
    assert max(lengths) < 2000


def test_a_splitter_may_give_masks():
    class Halves:
        def split(self, X, y=None, groups=None):
            is_first = np.arange(len(X)) < len(X) // 2
            yield from [(is_first, ~is_first), (~is_first, is_first)]

        def get_n_splits(self, X=None, y=None, groups=None):
            return 2

    data = MemberData(np.arange(10.0)[:, None], np.arange(10.0), None, None)
    (train, test), _ = make_folds(Halves(), data, GivenRows(np.arange(10), 10))
    assert train.tolist() == [0, 1, 2, 3, 4]
    assert test.tolist() == [5, 6, 7, 8, 9]
    assert data.take(train).X.ravel().tolist() == train.tolist()


@pytest.mark.parametrize("ties", [1, 10, 5000])
def test_categories_are_sorted_some_at_a_time(ties, monkeypatch):
    values = (np.random.default_rng(0).permutation(5000) // ties).tolist()
    lengths = []

    def watched(values):
        lengths.append(len(values))
        return sorted(values)

    monkeypatch.setattr(factorizing, "SORTED_AT_ONCE", 100)
    monkeypatch.setattr(factorizing, "sorted", watched, raising=False)
    assert factorizing._sorted_objects(values) == sorted(values)
    assert sum(lengths[1:]) == 5000
    assert max(lengths[1:]) <= max(200, ties)


def test_numbers_come_before_texts():
    values = ["b", 2, "10", 1.5, None, "9", True, float("nan"), -1]
    assert factorizing.sorted_categories(values, "'a'") == [-1, True, 1.5, 2, "10", "9", "b"]
    assert factorizing.sorted_categories([], "'a'") == []


def test_ctrl_c_does_not_wait_for_other_threads():
    begun, ended, release = threading.Event(), threading.Event(), threading.Event()
    items = []

    def work(item):
        items.append(item)
        if threading.current_thread() is threading.main_thread():
            begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        release.wait(60)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(100), 2)
    assert begun.is_set()
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)
    for thread in threading.enumerate():
        if thread.name.startswith("fastens"):
            thread.join(60)
    assert len(items) == 2


class Interrupted(GaussianNB):
    """A member whose third fit is interrupted."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Interrupted.fits += 1
        if Interrupted.fits == 3:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


def test_after_ctrl_c_the_rows_of_a_stack_are_hashed_once(monkeypatch):
    """A table of a million rows takes a while; what is finished is kept for a warm start."""
    X = np.random.default_rng(0).random((60, 2))
    hashed = []
    plain_hash = joblib.hash
    monkeypatch.setattr(joblib, "hash", lambda value, **how: (hashed.append(value), plain_hash(value, **how))[1])
    model = StackingClassifier([("member", Interrupted())], warm_start=True, random_state=0, n_jobs=1)
    Interrupted.fits = 0
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0] > 0.5)
    assert sum(any(part is X for part in value if isinstance(part, np.ndarray)) for value in hashed) == 1
    model.fit(X, X[:, 0] > 0.5)
    assert Interrupted.fits == 6  # the interrupted one and two more of five folds

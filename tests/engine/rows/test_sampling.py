"""Which rows a tree is grown on."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from fastens.engine.rows.sampling import Bootstrap, content_hashes, random_stream, stream_seeds


def test_seeds_depend_on_their_number_alone():
    seeds = stream_seeds(7, 0, 1000)
    np.testing.assert_array_equal(stream_seeds(7, 300, 400), seeds[300:400])
    others = np.concatenate([stream_seeds(8, 0, 1000), stream_seeds(7, 0, 1000, purpose=1)])
    assert len(np.unique(np.concatenate([seeds, others]))) == 3000


def test_streams_differ():
    assert random_stream(1, 2).random() != random_stream(1, 3).random()
    assert random_stream(1, 2).random() == random_stream(1, 2).random()


def test_hashes_belong_to_the_content(rng):
    X = rng.integers(0, 3, (300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 2, (300, 2)).astype(float)
    hashes = content_hashes(X, y)
    np.testing.assert_array_equal(content_hashes(X.astype(np.float64), y, 2), hashes)
    order = rng.permutation(300)
    np.testing.assert_array_equal(content_hashes(X[order], y[order]), hashes[order])
    np.testing.assert_array_equal(
        content_hashes(sparse.csr_array(np.nan_to_num(X)), y), content_hashes(np.nan_to_num(X), y)
    )
    contents = np.unique(np.nan_to_num(np.column_stack([X, y]), nan=9), axis=0)
    assert len(np.unique(hashes)) == len(contents)


def totals(hashes, counts):
    """How often each content is drawn."""
    return np.bincount(np.unique(hashes, return_inverse=True)[1], counts)


@pytest.mark.parametrize("by_class", [False, True])
def test_weights_are_repetition_and_order_does_not_matter(by_class, rng):
    n_rows = 200
    hashes = rng.integers(0, 2**63, n_rows).astype(np.uint64)
    stratum = (hashes % np.uint64(2)).astype(int) if by_class else None
    n_draws = np.array([150, 90]) if by_class else np.array([300])
    weight = rng.integers(1, 4, n_rows)
    plan = Bootstrap.plan(hashes, weight.astype(float), n_draws, stratum)
    rows = rng.permutation(np.repeat(np.arange(n_rows), weight))
    repeated = Bootstrap.plan(hashes[rows], None, n_draws, None if stratum is None else stratum[rows])
    seeds = np.arange(5, dtype=np.uint64)
    for one, other in zip(plan.counts(seeds), repeated.counts(seeds), strict=True):
        np.testing.assert_array_equal(totals(hashes, one), totals(hashes[rows], other))


def make_plan(weighted=True):
    weight = np.array([1.0, 2, 1, 1, 1]) if weighted else None
    hashes = np.array([4, 2, 3, 1, 0], dtype=np.uint64)
    return Bootstrap.plan(hashes, weight, np.array([3, 3]), np.array([0, 0, 1, 1, 1]))


@pytest.mark.parametrize("weighted", [False, True])
def test_state(weighted):
    plan = make_plan(weighted)
    seeds = np.arange(9, dtype=np.uint64)
    expected = plan.counts(seeds)
    for copy in (Bootstrap.from_arrays(plan.to_arrays()), pickle.loads(pickle.dumps(plan))):
        np.testing.assert_array_equal(copy.counts(seeds), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"order": np.array([0, 0, 2, 3, 4], np.uint32)},
        {"order": np.arange(5)},
        {"order": np.array([0, 1, 2, 3, 7], np.uint32)},
        {"offsets": np.array([0, 2, 6])},
        {"offsets": np.array([0, 0, 5])},
        {"offsets": np.array([0, 5])},
        {"draws": np.array([0, 3, 2])},
        {"draws": np.array([1, 3, 6])},
        {"cumulated": np.array([1.0, 2, 3])},
        {"cumulated": np.array([1.0, 0.5, 1, 2, 3])},
        {"cumulated": np.array([1.0, 2, 1, 2, np.nan])},
        {"cumulated": np.array([0.0, 0, 1, 2, 3])},
        {"cumulated": np.array([-1.0, 2, 1, 2, 3])},
    ],
)
def test_malformed_state(change):
    arrays = make_plan().to_arrays() | {f"bootstrap.{name}": array for name, array in change.items()}
    with pytest.raises(ValueError, match="do not describe a bootstrap"):
        Bootstrap.from_arrays(arrays)


def test_malformed_state_of_huge_numbers_takes_no_memory():
    arrays = make_plan().to_arrays() | {"bootstrap.order": np.array([0, 1, 2, 3, 100_000_000], np.uint32)}
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="do not describe a bootstrap"):
            Bootstrap.from_arrays(arrays)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

"""Rows drawn without replacement, whose weights are numbers of copies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

from fastens.engine.rows import sampling as module
from fastens.engine.rows.sampling import MAX_COPIED_ROWS, Subsample, repeated


@pytest.fixture(params=["one by one", "counted"])
def way(request, monkeypatch):
    """Both ways of drawing, whatever the number of copies."""
    if request.param == "counted":
        monkeypatch.setattr(module, "MAX_DRAWN_ONE_BY_ONE", 0)


@pytest.mark.usefixtures("way")
def test_integer_weights_count_as_copies_in_any_order(rng):
    hashes = rng.integers(0, 40, 60).astype(np.uint64)
    weight = rng.integers(1, 5, 60)
    repeated = np.repeat(hashes, weight)[rng.permutation(weight.sum())]
    for seed in range(20):
        forms = ((hashes, weight.astype(float)), (repeated, None))
        drawn = [Subsample.plan(*form, 50).draw(np.random.default_rng(seed)) for form in forms]
        assert drawn[0].sum() == drawn[1].sum() == 50
        assert (drawn[0] <= weight).all()
        assert drawn[1].max() == 1
        weighted = np.bincount(hashes.astype(int), drawn[0], minlength=40)
        np.testing.assert_array_equal(weighted, np.bincount(repeated.astype(int), drawn[1], minlength=40))


@pytest.mark.usefixtures("way")
def test_counts_are_hypergeometric(rng):
    weight = np.array([1.0, 2.0, 3.0, 10.0, 4.0])
    drawer = Subsample.plan(np.arange(5, dtype=np.uint64)[::-1].copy(), weight, 8)
    counts = np.array([drawer.draw(rng) for _ in range(4000)])
    for row, copies in enumerate(weight.astype(int)):
        law = hypergeom(20, copies, 8)
        expected = law.pmf(np.arange(copies + 1))
        found = np.bincount(counts[:, row], minlength=copies + 1) / 4000
        np.testing.assert_allclose(found, expected, atol=4.5 * np.sqrt(0.25 / 4000))


def test_weights_that_are_not_whole_are_rows():
    drawer = Subsample.plan(np.arange(10, dtype=np.uint64), np.linspace(0.5, 3, 10), 4)
    assert not drawer.are_weights
    assert drawer.total == 10
    assert sorted(drawer.draw(np.random.default_rng(0))) == [0] * 6 + [1] * 4


@pytest.mark.parametrize("largest", [1e8, 1e9, 1e15])
def test_large_weights_cost_no_more_than_small_ones(largest):
    weight = np.ones(1000)
    weight[:3] = largest
    n_drawn = int(weight.sum() * 0.2)
    counts = Subsample.plan(np.arange(1000, dtype=np.uint64), weight, n_drawn).draw(np.random.default_rng(0))
    assert counts.sum() == n_drawn
    np.testing.assert_allclose(counts[:3] / largest, 0.2, rtol=0.01)
    assert 100 < counts[3:].sum() < 300


def test_weights_that_cannot_be_counted_are_not_copies():
    copies = Subsample.plan(np.arange(3, dtype=np.uint64), np.array([1e300, 1.0, 1.0]))
    assert (copies.total, copies.are_weights) == (3, False)


def test_copies_are_made_up_to_a_number():
    with pytest.raises(
        ValueError, match=rf"at most {MAX_COPIED_ROWS} if rows have to be copied \(because\); got 10000001"
    ):
        repeated(np.arange(2), np.array([MAX_COPIED_ROWS, 1]), "because")

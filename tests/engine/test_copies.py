"""Copies of rows, made and drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.copies import MOST_DRAWN, MOST_MADE, Copies, repeated

HASHES = np.array([5, 3, 9, 1], dtype=np.uint64)


def generator():
    return np.random.Generator(np.random.Philox(key=[1, 2]))


def test_copies_are_drawn_as_rows_given_so_often_would_be():
    weight = np.array([3.0, 1.0, 200.0, 40.0])
    rows = np.repeat(np.arange(4), weight.astype(int))
    for n_drawn in (1, 20, 244):
        found = Copies.of(HASHES, weight).draw(n_drawn, generator())
        one_by_one = Copies.of(HASHES[rows], None).draw(n_drawn, generator())
        np.testing.assert_array_equal(found, np.bincount(rows, one_by_one))
        assert (found <= weight).all()


def test_few_of_very_many_copies_take_little_memory():
    copies = Copies.of(HASHES, np.array([1.0, 2.0**40, 2.0**50, 3.0]))
    drawn = copies.draw(10_000, generator())
    assert drawn.sum() == 10_000
    assert drawn[1] == pytest.approx(10_000 / 1025, abs=15)


def test_weights_that_are_no_copies_leave_one_of_each_row():
    for weight in (None, np.array([0.5, 1, 1, 1]), np.array([1e300, 1, 1, 1])):
        assert len(Copies.of(HASHES, weight)) == 4


def test_what_is_too_much_is_said():
    copies = Copies.of(HASHES, np.array([1.0, 1.0, MOST_MADE, 1.0]))
    with pytest.raises(ValueError, match=f"max_samples must draw at most {MOST_DRAWN} of the 10000003 copies of rows"):
        copies.draw(MOST_DRAWN + 1, generator())
    with pytest.raises(ValueError, match=f"at most {MOST_MADE} copies of rows .* because; got 10000001"):
        repeated(np.arange(2), np.array([MOST_MADE, 1]), "because")

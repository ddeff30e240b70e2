"""Sums of table entries that two codes choose, and averages over parents."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.naive.moments import add_families, average_parents
from scipy.special import logsumexp

N_ROWS = 700  # more than two blocks
DTYPES = [np.uint8, np.uint16]


def offsets_of(widths):
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_families(rng, dtype, n_threads):
    widths = np.array([3, 5, 4, 2])
    parents = np.array([2, -1, 1, 1])
    codes = (rng.random((4, N_ROWS)) * widths[:, None]).astype(dtype)
    heights = np.where(parents < 0, 1, widths[parents])
    starts = offsets_of(heights * widths)
    table = rng.normal(size=(starts[-1], 3))
    out = rng.normal(size=(N_ROWS, 3))
    expected = out.copy()
    for i in range(N_ROWS):
        for j, parent in enumerate(parents):
            above = int(codes[parent, i]) if parent >= 0 else 0
            expected[i] += table[starts[j] + widths[j] * above + codes[j, i]]
    add_families(codes, parents, widths, starts, table, out, n_threads)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_averages(rng, dtype, n_threads, order):
    widths = np.array([3, 5, 4])
    offsets = offsets_of(widths)
    codes = (rng.random((3, N_ROWS)) * widths[:, None]).astype(dtype)
    parents = [(0, -1), (1, -1), (2, -1)] if order == 1 else [(0, 1), (0, 2), (1, 2)]
    strides = [1, 1, 1] if order == 1 else [5, 4, 4]
    starts = offsets_of([widths[one] * (widths[other] if other >= 0 else 1) for one, other in parents])
    place = np.where(rng.random(starts[-1]) < 0.6, rng.integers(0, 20, starts[-1]), -1)
    place[starts[1] : starts[2]] = place[[0, starts[2]]] = -1  # a model that never applies, and rows without any
    table = rng.normal(size=(20, 12, 2)) * 300  # far beyond what exp takes
    table[rng.random(table.shape) < 0.05] = -np.inf
    models = np.array([[*pair, start, stride] for pair, start, stride in zip(parents, starts, strides, strict=False)])
    out, totals = np.full((N_ROWS, 2), -np.inf), np.zeros((N_ROWS, 2))
    n_parents = np.zeros(N_ROWS, dtype=np.int32)
    scores, places = np.empty((n_threads, 256 * 2)), np.empty((n_threads, 256), dtype=np.int64)
    average_parents(codes, offsets, models, place, table, out, totals, n_parents, scores, places)
    for i in range(N_ROWS):
        cells = []
        for one, other, start, stride in models:
            cells.append(place[start + stride * int(codes[one, i]) + (int(codes[other, i]) if other >= 0 else 0)])
        cells = [cell for cell in cells if cell >= 0]
        assert n_parents[i] == len(cells)
        scores = np.array([table[cell, offsets[:-1] + codes[:, i]].sum(axis=0) for cell in cells])
        with np.errstate(divide="ignore"):
            expected = logsumexp(scores, axis=0) if cells else [-np.inf, -np.inf]
        np.testing.assert_allclose(out[i], expected, rtol=1e-13)
    assert set(n_parents.tolist()) == {0, 1, 2}

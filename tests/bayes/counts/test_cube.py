"""The count cube against counting in every cell, and its trees against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.counts.cube import tree_evidence, tree_reach
from scipy.special import gammaln

from fastens.bayes.counts.counting import CountCube, check_cube_size
from reference import cube as naive
from reference import spaces


@pytest.mark.parametrize("sizes", [[2], [3, 2], [2, 4, 3], [1, 2, 2, 2]], ids=str)
def test_counts_and_sums(sizes, rng):
    rows = np.stack([rng.integers(-1, size, 30) for size in sizes], axis=1)
    classes, weight = rng.integers(0, 3, 30), rng.integers(0, 5, 30).astype(float)
    cube = CountCube(rows, classes, weight, sizes, 3)
    expected = naive.counts(rows, classes, weight, sizes, 3)
    np.testing.assert_array_equal(cube.counts, expected)
    np.testing.assert_array_equal(cube.counts[-1], np.bincount(classes, weights=weight, minlength=3))
    values = rng.random((len(cube), 2))
    np.testing.assert_allclose(cube.spread(values), naive.spread(values, sizes))
    for place, cell in enumerate(naive.cells(sizes)):
        digits = [-1 if digit == size else digit for digit, size in zip(cell, sizes, strict=True)]
        assert cube.digits_of(place).tolist() == digits
        assert cube.cells_of(np.array([digits])).tolist() == [place]
        assert cube.n_fixed()[place] == sum(digit >= 0 for digit in digits)


def test_too_large():
    with pytest.raises(ValueError, match="conjunctions of attribute values"):
        check_cube_size([6] * 12, 2)


@pytest.mark.parametrize("greatest", [False, True])
@pytest.mark.parametrize("n_table", [1, 5, 50])
def test_evidence_of_every_cell(greatest, n_table, rng):
    """Each cell's number is that of the trees on its rows; tables of any length say the same."""
    p, alpha, g = 3, 0.7, 0.4
    X, y = rng.integers(0, 2, (15, p)), rng.integers(0, 2, 15)
    cube = CountCube(X, y, np.ones(15), [2] * p, 2)
    layout = np.stack([cube.sizes, cube.strides])
    log_prior = np.array([[np.log(1 - g)] * p + [0.0], [*np.log(g / np.arange(p, 0, -1)), -np.inf]])
    bases = np.array([[alpha], [2 * alpha]])
    tables = gammaln(bases + np.arange(n_table)) - gammaln(bases)
    log_f, log_q = np.empty(27), np.empty(27)
    tree_evidence(cube.counts, layout, log_prior, alpha, tables, greatest, log_f, log_q)
    for place in range(27):
        digits = cube.digits_of(place)
        inside = ((digits < 0) | (digits == X)).all(axis=1)
        free = tuple(np.flatnonzero(digits < 0).tolist())
        logs = spaces.all_log_joints(X[inside], y[inside], free, (2, alpha, lambda depth: g))
        np.testing.assert_allclose(log_q[place], logs.max() if greatest else np.logaddexp.reduce(logs), atol=1e-12)
        np.testing.assert_allclose(log_f[place], spaces.log_leaf(cube.counts[place], alpha), atol=1e-12)


def test_reach_sums_to_one_path(rng):
    """The probabilities that a row's path ends at the cells around it sum to 1."""
    p, g = 4, 0.5
    X, y = rng.integers(0, 2, (30, p)), rng.integers(0, 2, 30)
    cube = CountCube(X, y, np.ones(30), [2] * p, 2)
    layout = np.stack([cube.sizes, cube.strides])
    log_prior = np.array([[np.log(1 - g)] * p + [0.0], [*np.log(g / np.arange(p, 0, -1)), -np.inf]])
    tables = gammaln(np.array([[0.5], [1.0]]) + np.arange(40)) - gammaln(np.array([[0.5], [1.0]]))
    log_f, log_q, reach = np.empty(81), np.empty(81), np.zeros(81)
    tree_evidence(cube.counts, layout, log_prior, 0.5, tables, False, log_f, log_q)
    reach[-1] = 1
    tree_reach(log_q, layout, log_prior, reach)
    ends = reach * np.exp(log_prior[0][cube.n_fixed()] + log_f - log_q)
    np.testing.assert_allclose(cube.spread(ends)[cube.cells_of(X)], 1)

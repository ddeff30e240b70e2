"""Draws from Dirichlet posteriors."""

from __future__ import annotations

import numpy as np

from fastens.bayes.counts.dirichlet import Groups


def test_draws_of_tiny_parameters_are_nearly_one_cell(rng):
    # The middle group has no cell, and the last no pseudo-counts.
    groups = Groups(np.array([2, 0, 3, 2]), np.array([*[1e-4] * 5, 0.0, 0.0]))
    drawn = np.array([groups.draw(np.zeros((2, 7)), rng) for _ in range(500)])
    np.testing.assert_allclose(groups.sums(drawn.reshape(-1, 7)), np.broadcast_to([1, 0, 1, 1], (1000, 4)))
    assert (drawn[..., 5:] == 0.5).all()
    assert (drawn[..., :5] > 0.99).sum(axis=-1).min() >= 1
    # The variance of Beta(a, a) is 1 / (4 (2 a + 1)), nearly 1 / 4.
    np.testing.assert_allclose(drawn[..., 0].mean(), 1 / 2, atol=0.06)
    np.testing.assert_allclose(drawn[..., 0].var(), 1 / 4, atol=0.01)
    np.testing.assert_allclose(drawn[..., 2:5].mean(axis=(0, 1)), 1 / 3, atol=0.06)

"""The kernel of accelerated failure times against its naive twin, in the middle and in the tails."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.losses import survival as kernels
from fastens.engine.losses.ranking_loss import AFT
from reference import survival as naive

pytestmark = pytest.mark.parametrize("distribution", kernels.DISTRIBUTIONS)

N_ROWS = 3000  # several blocks, the last one not full
KINDS = ("event", "right", "left", "interval")


def bounds(rng, kind, n_rows=N_ROWS):
    """Times of which the same is known."""
    time = np.exp(rng.normal(size=n_rows))
    later = time * np.exp(rng.uniform(0.1, 3, n_rows))
    low, high = {"event": (time, time), "right": (time, np.inf), "left": (0.0, time), "interval": (time, later)}[kind]
    return np.column_stack(np.broadcast_arrays(low, high))


def derivatives(y, raw, distribution, scale=1.0, n_threads=1):
    out = np.full((2, len(y)), np.nan)
    kernels.derivatives(kernels.DISTRIBUTIONS[distribution], scale, y, raw, out[0], out[1], n_threads)
    return out


def losses(y, raw, distribution, scale=1.0, n_threads=1):
    out = np.full(len(y), np.nan)
    kernels.row_losses(kernels.DISTRIBUTIONS[distribution], scale, y, raw, out, n_threads)
    return out


def mixed(rng):
    parts = np.concatenate([bounds(rng, kind, N_ROWS // 4) for kind in KINDS])
    return parts[rng.permutation(len(parts))]


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle(rng, distribution, kind, scale):
    y, raw = bounds(rng, kind), rng.normal(size=N_ROWS) * scale
    first, second = naive.aft_derivatives(y, raw, distribution, scale)
    found = derivatives(y, raw, distribution, scale)
    z = naive.standardised(y, raw, scale)
    near = (np.abs(z) < 6).all(axis=0, where=np.isfinite(z))
    assert near.sum() > N_ROWS // 3
    np.testing.assert_allclose(found[0, near], first[near], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found[1, near], second[near], rtol=1e-8, atol=1e-12)
    expected = naive.aft_losses(y, raw, distribution, scale)
    np.testing.assert_allclose(losses(y, raw, distribution, scale)[near], expected[near], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", ["event", "right", "left"])
def test_in_the_tails(distribution, kind):
    z = np.linspace(-29.5, 29.5, 1001)
    low, high = {"event": (1.0, 1.0), "right": (1.0, np.inf), "left": (0.0, 1.0)}[kind]
    y = np.tile([low, high], (len(z), 1))
    twin = {"event": naive.slopes, "right": naive.right_tail, "left": naive.left_tail}[kind](distribution, z)
    sign = np.array([[1], [-1]]) if kind == "event" else np.array([[-1], [1]])
    first, second = sign * np.array(twin)
    found = derivatives(y, -z, distribution)
    np.testing.assert_allclose(found[0], first, rtol=1e-11, atol=1e-200)
    np.testing.assert_allclose(found[1], np.maximum(second, 1e-16), rtol=3e-10)
    expected = naive.aft_losses(y, -z, distribution, 1.0)
    np.testing.assert_allclose(losses(y, -z, distribution), expected, rtol=1e-11, atol=1e-12)


def test_intervals_in_the_tails_pull_inwards(distribution):
    raw = np.linspace(-60, 60, 501)
    y = np.tile([0.8, 1.3], (len(raw), 1))
    first, second = derivatives(y, raw, distribution)
    assert (np.sign(first) == np.sign(raw))[np.abs(raw) > 1].all()
    assert (np.diff(first) > -1e-9 * np.abs(first[1:])).all()
    assert (second > 0).all()
    assert np.isfinite(losses(y, raw, distribution)).all()


def test_narrow_intervals_are_points(rng, distribution):
    time, raw = np.exp(rng.normal(size=500)), rng.normal(size=500)
    events, width = np.column_stack([time, time]), 10.0 ** rng.uniform(-15.9, -4, 500)
    narrow = np.column_stack([time, time * (1 + width)])
    narrow = narrow[narrow[:, 0] < narrow[:, 1]]
    assert len(narrow) > 400
    kept = time * (1 + width) > time
    expected = derivatives(events[kept], raw[kept], distribution)
    np.testing.assert_allclose(derivatives(narrow, raw[kept], distribution), expected, rtol=1e-3, atol=1e-3)


def test_rows_of_which_nothing_is_known_pull_nowhere(distribution):
    y, raw = np.array([[0.0, np.inf]]), np.zeros(1)
    np.testing.assert_allclose(derivatives(y, raw, distribution)[:, 0], [0, 1e-16], atol=1e-300)
    np.testing.assert_allclose(losses(y, raw, distribution), 0, atol=1e-300)


def test_nothing_depends_on_the_threads_or_the_other_rows(rng, distribution):
    y = mixed(rng)
    raw = rng.normal(size=len(y))
    found, of_rows = derivatives(y, raw, distribution), losses(y, raw, distribution)
    np.testing.assert_array_equal(derivatives(y, raw, distribution, n_threads=3), found)
    np.testing.assert_array_equal(losses(y, raw, distribution, n_threads=3), of_rows)
    some = rng.permutation(len(y))[:777]
    np.testing.assert_array_equal(derivatives(y[some], raw[some], distribution), found[:, some])
    np.testing.assert_array_equal(losses(y[some], raw[some], distribution), of_rows[some])


def test_gradients_are_derivatives_rounded_to_single_precision(rng, distribution):
    y = mixed(rng)
    raw, found = rng.normal(size=(1, len(y))), np.empty((2, 1, len(y)), np.float32)
    AFT(distribution, 1.0).gradients(y, raw, found[0], found[1], n_threads=2)
    np.testing.assert_array_equal(found[:, 0], derivatives(y, raw[0], distribution).astype(np.float32))


def test_no_rows(distribution):
    assert derivatives(np.empty((0, 2)), np.empty(0), distribution).shape == (2, 0)
    assert losses(np.empty((0, 2)), np.empty(0), distribution).shape == (0,)

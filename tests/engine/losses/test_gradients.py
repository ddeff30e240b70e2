"""The loss kernels against their naive twins."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from fastens.engine.losses import gradients as kernels
from reference import losses as naive

CASES = [(name, 4 if name == "multiclass_log_loss" else 1) for name in kernels.LOSS_CODES]
PARAMETER = 0.3


def target(name, n_rows, n_outputs, rng):
    if "log_loss" in name:
        return rng.integers(0, max(2, n_outputs), n_rows).astype(np.float64)
    return rng.exponential(size=n_rows)


@pytest.mark.parametrize("n_rows", [1, 7, 129, 3000])
@pytest.mark.parametrize(("name", "n_outputs"), CASES)
def test_gradients(name, n_outputs, n_rows, rng):
    y = target(name, n_rows, n_outputs, rng)
    raw = 3 * rng.standard_normal((n_outputs, n_rows))
    raw[0, 0] = y[0]  # no residual
    g, h = np.ones((2, n_outputs, n_rows), np.float32)
    kernels.gradients(kernels.LOSS_CODES[name], PARAMETER, y, raw, g, h, 1)
    expected_g, expected_h = naive.derivatives(name, y, raw, PARAMETER)
    np.testing.assert_allclose(g, expected_g, rtol=2e-7, atol=1e-7)
    np.testing.assert_allclose(h, expected_h, rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize(("name", "n_outputs"), CASES)
def test_row_losses(name, n_outputs, rng):
    y = target(name, 3000, n_outputs, rng)
    raw = 3 * rng.standard_normal((n_outputs, 3000))
    out = np.empty(3000)
    kernels.row_losses(kernels.LOSS_CODES[name], PARAMETER, y, raw, out, 1)
    np.testing.assert_allclose(out, naive.loss_of_rows(name, y, raw, PARAMETER), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("name", "n_outputs"), CASES)
def test_threads_and_batches_change_nothing(name, n_outputs, rng):
    code = kernels.LOSS_CODES[name]
    y = target(name, 5000, n_outputs, rng)
    raw = rng.standard_normal((n_outputs, 5000))
    results = []
    for n_threads in (1, 3):
        g, h = np.ones((2, n_outputs, 5000), np.float32)
        out = np.empty(5000)
        kernels.gradients(code, PARAMETER, y, raw, g, h, n_threads)
        kernels.row_losses(code, PARAMETER, y, raw, out, n_threads)
        results.append((g, h, out))
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)
    few = slice(1023, 1030)
    g, h = np.ones((2, n_outputs, 7), np.float32)
    kernels.gradients(code, PARAMETER, y[few], np.ascontiguousarray(raw[:, few]), g, h, 1)
    np.testing.assert_array_equal(g, results[0][0][:, few])
    np.testing.assert_array_equal(h, results[0][1][:, few])


def test_exp_is_accurate_over_its_range(rng):
    raw = np.concatenate([rng.uniform(-705, 705, 20_000), rng.standard_normal(20_000), [0.0, -0.0]])
    out = np.empty(raw.size)
    kernels.means_of_log(raw, out)
    np.testing.assert_allclose(out, np.exp(raw), rtol=2e-14)
    kernels.means_of_log(np.array([-np.inf, np.inf, 1e300]), out)
    assert 0 < out[0] < 1e-300
    assert np.isfinite(out[:3]).all()


def test_probabilities(rng):
    raw = np.array([-800.0, -30, -1, 0, 1, 30, 800])
    out = np.empty((7, 2))
    kernels.binary_probabilities(raw, out)
    np.testing.assert_allclose(out[:, 1], [0, *(1 / (1 + np.exp(-raw[1:-1]))), 1], rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(out[:, 0], out[::-1, 1])
    raw = 100 * rng.standard_normal((500, 6))
    out = np.empty(raw.shape)
    kernels.class_probabilities(raw, out)
    np.testing.assert_allclose(out, naive.softmax(raw.T).T, rtol=1e-12, atol=1e-300)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    values=hnp.arrays(np.float64, st.integers(1, 40), elements=st.integers(-5, 5).map(float)),
    level=st.floats(0.01, 0.99),
    data=st.data(),
)
def test_leaf_values_are_quantiles(values, level, data):
    n = values.size
    weights = data.draw(hnp.arrays(np.int64, n, elements=st.integers(1, 4)))
    cut = data.draw(st.integers(0, n))
    starts = np.array([0, cut, n])
    out = np.empty(2)
    kernels.leaf_values(values.copy(), weights.copy(), starts, level, 0.0, out, 1)
    for leaf, rows in enumerate((slice(0, cut), slice(cut, n))):
        expected = naive.weighted_quantile(values[rows], level, weights[rows]) if len(values[rows]) else 0
        assert out[leaf] == expected


def test_no_rows():
    y, raw = np.empty(0), np.empty((1, 0))
    g = np.empty((1, 0), np.float32)
    out = np.ones(2)
    for code in kernels.LOSS_CODES.values():
        kernels.gradients(code, 0.5, y, raw, g, g, 2)
        kernels.row_losses(code, 0.5, y, raw, y, 2)
    kernels.leaf_values(y, np.empty(0, np.int64), np.zeros(3, np.int64), 0.5, 0.0, out, 2)
    np.testing.assert_array_equal(out, 0)


def test_read_only_arrays(rng):
    y, raw = rng.exponential(size=9), rng.standard_normal((1, 9))
    y.flags.writeable = raw.flags.writeable = False
    g = np.empty((1, 9), np.float32)
    kernels.gradients(kernels.LOSS_CODES["squared_error"], 0.0, y, raw, g, None, 1)
    np.testing.assert_allclose(g, raw - y, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 4001])
def test_largest_magnitude(n, rng):
    values = rng.standard_normal(n) * 1e3 ** rng.integers(-90, 90, n)
    for surprise in (0.0, -0.0, -5e300, -np.inf, np.nan):
        values[n // 2] = surprise
        np.testing.assert_equal(kernels.largest_magnitude(values), np.abs(values).max())

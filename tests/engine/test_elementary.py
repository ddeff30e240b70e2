"""exp and log: right to the last bit but one for all numbers, and what is made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from fastens.engine import elementary

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1.7976931348623157e308, -800.0, 709.8, 1e-300]


def numbers(name, rng):
    if name == "exp":
        return np.concatenate([rng.uniform(-745, 709.7, 20_000), rng.normal(size=10_000), 1e-6 * rng.normal(size=999)])
    x = np.exp(np.concatenate([rng.uniform(-744, 709, 20_000), 1e-3 * rng.normal(size=10_000)]))
    return x if name == "log" else np.concatenate([x, -rng.random(10_000), 1e-6 * rng.normal(size=999)])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no numbers of more digits here")
@pytest.mark.parametrize(("name", "most"), [("exp", 1.0), ("log", 1.0), ("log1p", 1.5)])
def test_errors_are_less_than_a_unit_or_so_in_the_last_place(name, most, rng):
    x = numbers(name, rng)
    exact = getattr(np, name)(x.astype(np.longdouble))
    error = np.abs(getattr(elementary, name)(x) - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    assert error.max() < most


@pytest.mark.parametrize("name", ["exp", "log", "log1p"])
@np.errstate(all="ignore")
def test_special_numbers_and_shapes(name):
    ours, numpys = getattr(elementary, name), getattr(np, name)
    np.testing.assert_allclose(ours(np.array(SPECIAL)), numpys(SPECIAL), rtol=1e-15)
    assert isinstance(ours(2), float)
    table = np.arange(1.0, 25.0).reshape(4, 6)
    np.testing.assert_array_equal(ours(table.T[::2]), ours(np.ascontiguousarray(table.T[::2])))
    assert ours(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("name", ["digamma", "trigamma"])
def test_derivatives_of_log_gamma(name, rng):
    x = np.concatenate([np.exp(rng.uniform(-30, 60, 5000)), rng.uniform(0.01, 30, 5000), np.arange(1.0, 300.0)])
    expected = special.digamma(x) if name == "digamma" else special.polygamma(1, x)
    np.testing.assert_allclose(getattr(elementary, name)(x), expected, rtol=1e-14, atol=1e-14 * (name == "digamma"))
    assert np.isnan(getattr(elementary, name)([0.0, -1.0, np.nan])).all()


@pytest.mark.parametrize(("name", "special_name"), [("gammaln", "gammaln"), ("log2", None)])
def test_errors_of_the_others(name, special_name, rng):
    x = np.concatenate([np.exp(rng.uniform(-700, 700, 5000)), rng.uniform(0, 30, 5000), np.arange(1.0, 3000.0)])
    expected = getattr(special, special_name)(x) if special_name else np.log2(x)
    np.testing.assert_allclose(getattr(elementary, name)(x), expected, rtol=5e-15, atol=1e-14)


@np.errstate(all="ignore")
def test_whole_numbers_and_ends():
    powers = np.arange(-1074, 1024)
    np.testing.assert_array_equal(elementary.log2(np.ldexp(1.0, powers)), powers)
    np.testing.assert_array_equal(elementary.log2([0.0, -1.0, np.inf, np.nan]), [-np.inf, np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(
        elementary.gammaln([1.0, 2.0, 0.0, np.inf, np.nan]), [0.0, 0.0, np.inf, np.inf, np.nan]
    )
    factorials = np.cumprod(np.arange(1.0, 19.0))
    np.testing.assert_array_equal(elementary.gammaln(np.arange(2.0, 20.0)), elementary.log(factorials))


def test_products_with_logarithms(rng):
    x, y = np.append(rng.random(9), [0.0, 0.0]), np.append(rng.random(9), [0.0, np.inf])
    np.testing.assert_allclose(elementary.xlogy(x, y), special.xlogy(x, y), rtol=1e-15)
    np.testing.assert_allclose(elementary.xlog1py(x, -y), special.xlog1py(x, -y), rtol=1e-15)
    assert elementary.xlogy(0, 0) == 0


def test_beta_of_small_and_large_numbers(rng):
    a, b = rng.uniform(0.01, 30, size=(2, 500))
    expected = special.betaln(a, b)
    np.testing.assert_allclose(elementary.betaln(a, b), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(elementary.betaln(b, a), elementary.betaln(a, b))
    steps = math.log(math.factorial(7)) - math.fsum(math.log(100_000 + k) for k in range(8))
    assert elementary.betaln(8, 100_000) == pytest.approx(steps, rel=1e-14)
    large = 10.0 ** np.array([15, 17, 100, 300])
    np.testing.assert_allclose(elementary.betaln(1, large), -np.log(large), rtol=1e-15)
    np.testing.assert_allclose(elementary.betaln(large, large), -2 * math.log(2) * large, rtol=1e-13)
    assert elementary.betaln([], 1).shape == (0,)


def test_a_number_has_the_same_bits_alone_and_among_others(rng):
    x = rng.normal(scale=100, size=37)
    assert elementary.exp(x).tolist() == [elementary.exp(value) for value in x]
    assert elementary.log(np.abs(x)).tolist() == [elementary.log(abs(value)) for value in x]


def test_exp_in_place(rng):
    x = rng.normal(size=(5, 3))
    expected = elementary.exp(x)
    assert elementary.exp(x, out=x) is not None
    np.testing.assert_array_equal(x, expected)


@np.errstate(all="ignore")
def test_composite_functions_match_scipy(rng):
    x = np.array([[-np.inf, -np.inf, -np.inf], [-np.inf, 3.0, 1.0], [1000.0, 999.0, -5.0], [0.0, np.inf, 1.0]])
    np.testing.assert_allclose(elementary.logsumexp(x[:3], axis=1), special.logsumexp(x[:3], axis=1), rtol=1e-15)
    assert elementary.logsumexp(x[1:3]) == pytest.approx(special.logsumexp(x[1:3]), rel=1e-15)
    np.testing.assert_allclose(elementary.logaddexp(x[:, 0], x[:, 1]), np.logaddexp(x[:, 0], x[:, 1]), rtol=1e-15)
    np.testing.assert_allclose(elementary.softmax(x[1:3], axis=1), special.softmax(x[1:3], axis=1), rtol=1e-14)
    z = np.concatenate([rng.normal(scale=20, size=99), [-800.0, 800.0, 0.0]])
    np.testing.assert_allclose(elementary.expit(z), special.expit(z), rtol=1e-15)


def test_sums_are_the_same_on_every_release_of_python():
    assert elementary.sum_in_order([0.1] * 10) == 0.9999999999999999
    assert elementary.sum_in_order([1e308, 1e308, -1e308]) == np.inf

"""Weights of rows and classes at the door."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.engine.forest.data import totals_of

from fastens.engine.whole import are_whole
from fastens.table.training_data import as_multiples, check_weights, class_factors, multiplied


@pytest.mark.parametrize("weight", [[1.0, 2, 3], [0, 0.1, 1e20], [1e-20, 1e-25, 0]])
def test_usual_weights_stay_what_they_are(weight):
    np.testing.assert_array_equal(check_weights(weight, 3), weight)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-40, 1e40, 1e307])
def test_others_are_multiplied_by_a_power_of_two(scale):
    weight = np.array([1.0, 3.0, 0.0, 8.0]) * scale
    found = check_weights(weight, 4)
    np.testing.assert_array_equal(found / found[0], weight / weight[0])
    assert np.frexp(found[0])[0] == np.frexp(weight[0])[0]
    assert 2.0**-101 <= found.max() <= 2.0**100


def test_tiny_weights_are_not_dropped():
    found = check_weights([1e300, 1.0, 5e-324, 0.0], 4)
    np.testing.assert_array_equal(found > 0, [True, True, True, False])
    assert found[1:].sum() < 1e-29 * found[0]


def test_products_neither_overflow_nor_vanish():
    found = multiplied(np.array([2.0**90, 1.0, 3.0]), np.array([1e300, 1e300, 1e-300]))
    assert found[0] / found[1] == 2.0**90
    assert 0 < found[2] < 1e-29 * found[0]
    np.testing.assert_array_equal(multiplied(np.array([1.5, 2.0]), np.array([3.0, 0.1])), [4.5, 0.2])


def test_balanced_classes_of_which_one_is_absent():
    factors = class_factors("balanced", np.array([0, 1, 2]), np.array([0.0, 2.0, 2.0]), None)
    np.testing.assert_array_equal(factors, [1, 1, 0.5])


@pytest.mark.parametrize("weight", [None, [1.0, 5.0, 2.0, 0.0]])
def test_factors_as_multiples_of_a_power_of_two(weight):
    factors = np.array([0.1, 1 / 3, 3.7, 2.0])
    found = as_multiples(factors, None if weight is None else np.array(weight), 14)
    np.testing.assert_allclose(found, factors, rtol=1e-3)
    n_rows, total, unit = totals_of(found)
    assert (n_rows, total) == (4, found.sum())
    assert are_whole(found / unit)
    assert (found / unit).max() < 2**17
    assert np.frexp(unit)[0] == 0.5


def test_factors_of_weights_that_are_not_copies_stay():
    factors = np.array([0.1, 0.3])
    assert as_multiples(factors, np.array([0.5, 1.5]), 14) is factors
    far = np.array([1e-6, 1.0])
    assert as_multiples(far, None, 14) is far


@pytest.mark.parametrize(
    ("weight", "unit"),
    [([3.0, 8.0], 1.0), ([0.75, 2.5], 0.25), ([0.1, 0.3], 0.0), ([2.0**40], 0.0), ([2.0**-60, 2.0**-59], 2.0**-60)],
)
def test_the_unit_that_trees_count_weights_by(weight, unit):
    assert totals_of(np.array(weight)) == (len(weight), sum(weight), unit)

"""The choice of combinations of parameters that slow tests run with."""

from __future__ import annotations

from itertools import product

import pytest

from reference.covering import covering


def chosen(cases):
    return [case for case, is_chosen in zip(cases, covering(cases), strict=True) if is_chosen]


@pytest.mark.parametrize("sizes", [(1,), (5,), (3, 4), (4, 3), (2, 3, 5), (3, 3, 3)])
def test_every_value_is_chosen_once_or_more(sizes):
    cases = [dict(enumerate(values)) for values in product(*(range(size) for size in sizes))]
    found = chosen(cases)
    assert {item for case in found for item in case.items()} == {item for case in cases for item in case.items()}
    assert max(sizes) <= len(found) <= sum(sizes) - len(sizes) + 1


def test_objects_that_differ_are_different_values():
    assert len(chosen([{"options": {"a": 1}}, {"options": {"a": 1}}])) == 2
    assert len(chosen([{"options": True}, {"options": 1}, {"options": 1.0}, {"options": "1"}, {"options": 1}])) == 4


def test_a_test_without_parameters_is_chosen(pytestconfig):
    assert covering([{"": None}]) == [True]
    assert pytestconfig.getoption("--exhaustive") in {True, False}

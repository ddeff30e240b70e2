"""What is said about columns becomes arrays, or an error that names the parameter, the rule and the value."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.grow.growth import ColumnLookup, count_of, feature_chances, interaction_groups, monotone_signs

COLUMNS = ColumnLookup(3, ["a", "b", "c"])
NUMERIC = np.zeros(3, dtype=bool)


@pytest.mark.parametrize("given", [[1, 0, -1], (1, 0, -1), np.array([1, 0, -1]), {"a": 1, "c": -1}, {0: 1, 2: -1}])
def test_signs(given):
    np.testing.assert_array_equal(monotone_signs(given, COLUMNS, NUMERIC), [1, 0, -1])


@pytest.mark.parametrize("given", [None, [0, 0, 0], {}])
def test_no_signs(given):
    assert monotone_signs(given, COLUMNS, NUMERIC) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 0], r"monotonic_cst must have one value for each of the.*got \[1, 0\]"),
        ("increasing", "monotonic_cst must have one value for each of the"),
        ([2, 0, 0], "monotonic_cst must hold 1, -1 or 0 for each column; got 2"),
        ([np.nan, 0, 0], "monotonic_cst must hold finite numbers; got nan"),
        ([0, "up", 0], "monotonic_cst must hold finite numbers; got 'up'"),
        ({"d": 1}, r"monotonic_cst must name columns of X; got 'd', and the columns are \['a', 'b', 'c'\]"),
        ({3: 1}, "monotonic_cst must hold column indices from 0 to 2; got 3"),
    ],
)
def test_wrong_signs(given, message):
    with pytest.raises(ValueError, match=message):
        monotone_signs(given, COLUMNS, NUMERIC)


def test_categories_have_no_order():
    with pytest.raises(
        ValueError, match="must be 0 for categorical columns, because they have no order; column 'b' is"
    ):
        monotone_signs([0, 1, 0], COLUMNS, np.array([False, True, False]))


def test_names_need_names():
    with pytest.raises(ValueError, match="X has no column names"):
        monotone_signs({"a": 1}, ColumnLookup(3), NUMERIC)


def test_chances():
    np.testing.assert_array_equal(feature_chances([2, 0, 1], COLUMNS), [1, 0, 0.5])
    np.testing.assert_array_equal(feature_chances({"b": 0.5}, COLUMNS), [1, 0.5, 1])
    assert feature_chances(None, COLUMNS) is None


@pytest.mark.parametrize("given", [[-1, 1, 1], [0, 0, 0]])
def test_wrong_chances(given):
    with pytest.raises(ValueError, match="feature_weights must be non-negative and not all 0; got"):
        feature_chances(given, COLUMNS)


def test_groups():
    assert interaction_groups(None, COLUMNS) == (None, None)
    assert interaction_groups("no_interactions", COLUMNS) == (1, None)
    assert interaction_groups("pairwise", COLUMNS) == (2, None)
    limit, groups = interaction_groups([{"a", "b"}], COLUMNS)
    assert limit is None
    np.testing.assert_array_equal(groups, [[1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(interaction_groups([[0, 1], (1, 2)], COLUMNS)[1], [[1, 1, 0], [0, 1, 1], [0, 0, 0]])


@pytest.mark.parametrize("given", ["triples", 3, [0, 1], ["a"], {"a": 1}])
def test_wrong_groups(given):
    with pytest.raises(ValueError, match="interaction_cst must be 'no_interactions', 'pairwise', None or a list of"):
        interaction_groups(given, COLUMNS)


def test_columns_of_groups():
    with pytest.raises(ValueError, match="interaction_cst must hold column indices from 0 to 2; got -1"):
        interaction_groups([[0, -1]], COLUMNS)


@pytest.mark.parametrize(("wanted", "count"), [(2, 2), (9, 3), (1.0, 3), (0.5, 1), (0.01, 1)])
def test_counts(wanted, count):
    assert count_of(wanted, 3) == count

"""Features are joined as in the plain way, and the numbers tell their codes."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.engine.bins.bundling import MAX_CODES, join

from reference import bundles as plain

ROWS_FOR_THREADS = 120_000  # a thread has 50 000 at least


def table(seed, n_rows, n_features=20):
    """Features of few and of many codes, some of them of one code, rare ones, and some that others tell."""
    rng = np.random.default_rng(seed)
    n_codes = rng.choice([1, 2, 3, 5, MAX_CODES], size=n_features, p=[0.05, 0.45, 0.3, 0.15, 0.05])
    shares = rng.random((n_features, n_rows)) ** rng.uniform(0.5, 6, (n_features, 1))
    columns = (shares * n_codes[:, None]).astype(np.uint8)
    for feature in range(1, n_features, 4):
        columns[feature] = np.minimum(columns[feature - 1], n_codes[feature] - 1)
    return columns, n_codes.astype(np.int32)


def groups(bundle_of):
    """The features of each bundle, and of those that are alone."""
    joined = [np.flatnonzero(bundle_of == bundle).tolist() for bundle in np.unique(bundle_of[bundle_of >= 0])]
    return sorted(joined + [[feature] for feature in np.flatnonzero(bundle_of < 0).tolist()])


def codes_in(members, place, n_codes, most_frequent_bin, n_combinations):
    """The code that a feature has in each combination."""
    codes = np.full(n_combinations, most_frequent_bin, dtype=np.uint8)
    for code in range(n_codes):
        n_with = members[place]
        codes[members[place + 1 : place + 1 + n_with]] = code
        place += 1 + n_with
    return codes


def check_numbers(columns, n_codes, joined):
    numbers, bundle_of, n_combinations, most_frequent_bin, first_member, members = joined
    for feature in np.flatnonzero(bundle_of >= 0):
        bundle = bundle_of[feature]
        codes = codes_in(
            members, first_member[feature], n_codes[feature], most_frequent_bin[feature], n_combinations[bundle]
        )
        np.testing.assert_array_equal(codes[numbers[bundle]], columns[feature])
        assert most_frequent_bin[feature] == plain.most_frequent_bin(codes)
    for bundle in np.unique(bundle_of[bundle_of >= 0]):
        assert n_combinations[bundle] == plain.combinations(columns[bundle_of == bundle]).shape[1]


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1, 100, 1000])
@pytest.mark.parametrize("most_cost", [6, 20, 80, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_features_join_where_they_cost_least(seed, most_cost, n_rows):
    columns, n_codes = table(seed, n_rows)
    joined = join(columns, np.arange(len(columns)), n_codes, most_cost, None, 1)
    assert groups(joined[1]) == sorted(plain.join(columns, n_codes, most_cost))
    check_numbers(columns, n_codes, joined)


def test_limits_make_a_difference():
    columns, n_codes = table(0, 1000)
    n_groups = [
        len(groups(join(columns, np.arange(len(columns)), n_codes, most_cost, None, 1)[1]))
        for most_cost in (0, 80, 10_000)
    ]
    assert n_groups[0] == len(columns)
    assert len(columns) > n_groups[1] > n_groups[2] > 1


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1000, ROWS_FOR_THREADS])
def test_a_plan_is_followed_where_it_does_not_cost_too_much(n_rows):
    columns, n_codes = table(4, n_rows, 12)
    features = np.random.default_rng(0).permutation(12)[:9]
    planned = np.array([0, 0, 1, 0, 1, 2, 0, 1, 0], dtype=np.int32)
    found = [join(columns, features, n_codes[features], 80, planned, n_threads) for n_threads in (1, 2)]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    assert groups(found[0][1]) == sorted(plain.join_as_planned(columns[features], n_codes[features], 80, planned))
    assert 9 > len(groups(found[0][1])) > 3
    check_numbers(columns[features], n_codes[features], found[0])


@pytest.mark.slow
def test_one_hot_columns_share_one_byte():
    kind = np.random.default_rng(0).integers(256, size=20_000)
    columns = (kind == np.arange(255)[:, None]).astype(np.uint8)
    n_codes = np.full(255, 2, dtype=np.int32)
    joined = join(columns, np.arange(255), n_codes, 6, None, 1)
    assert joined[2][0] == 256
    assert (joined[1] == 0).all()
    check_numbers(columns, n_codes, joined)

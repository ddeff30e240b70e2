"""Columns that only tell rows apart."""

import numpy as np
import pyarrow as pa
import pytest

from fastens.cli.table.columns import column_kinds
from fastens.cli.table.notes import (
    COUNTER,
    DRAWN,
    INDEX,
    NAMED,
    NAMES,
    identifier_reason,
    is_group,
    is_unrelated,
)

RNG = np.random.default_rng(0)
DRAWN_NUMBERS = RNG.choice(10**6, 400, replace=False)


def found(values, name="a"):
    table = pa.table({name: values})
    return identifier_reason(table[name], column_kinds(table, [])[name], name)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([f"name {i}" for i in range(60)], NAMES),
        (pa.array([f"name {i}" for i in range(60)]).dictionary_encode(), NAMES),
        (list(range(10, 70)), COUNTER),
        (RNG.permutation(60) + 5, COUNTER),
        (DRAWN_NUMBERS, DRAWN),
        (DRAWN_NUMBERS + 2**60, DRAWN),
    ],
)
def test_identifiers(values, reason):
    assert found(values) == reason


@pytest.mark.parametrize(
    "values",
    [
        list(range(0, 120, 2)),  # rises by steps: may be a time
        list(range(40)),  # too few to tell
        ["x", "y"] * 30,
        np.append(DRAWN_NUMBERS, DRAWN_NUMBERS[:1]),
        RNG.choice(10**6, 400, replace=False).astype(float),
        np.unique(np.exp(RNG.normal(10, 2, 400)).astype(int))[RNG.permutation(300)],
        [f"{n}.50" for n in range(60)] + ["-"],  # numbers but for one cell
    ],
)
def test_no_identifiers(values):
    assert found(values) is None


OTHERS = np.random.default_rng(1)
RESPONDENTS = np.sort(OTHERS.integers(10**9, 2 * 10**9, 200))[::-1] ** 2 // 10**6
RUNNING = np.delete(np.arange(1, 101), [3, 40, 41, 77])


@pytest.mark.parametrize("name", ["respondent_id", "RespondentID", "Response ID", "EmployeeNumber", "Kunden-Nr", "key"])
def test_numbers_by_the_name_of_an_identifier(name):
    assert found(RESPONDENTS, name) == NAMED
    assert found(pa.array(RESPONDENTS.astype(float)), name) == NAMED
    assert found(np.append(RESPONDENTS, RESPONDENTS[:1]), name) is None


@pytest.mark.parametrize("name", ["Unnamed: 0", "", "index", "...1", "rownames", "X", "column 1", "Unnamed: 0_level_1"])
def test_the_running_index_without_a_name(name):
    """With rows left out, and of several tables one below the other; few rows are enough."""
    for values in (RUNNING, np.concatenate([RUNNING, RUNNING]), np.arange(12), RUNNING.astype(float)):
        assert found(values, name) == INDEX
    assert found(OTHERS.normal(size=100), name) is None
    assert found(np.sort(OTHERS.choice(10**6, 100)), name) != INDEX
    assert found(RUNNING, "age") is None


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("patient_id", np.repeat(np.arange(40), 5), True),
        ("customer", [f"c{i % 30}" for i in range(200)], True),
        ("store_id", np.arange(200) % 5, False),
        ("patient_id", np.arange(200), False),
        ("width", np.repeat(np.arange(40), 5), False),
    ],
)
def test_groups(name, values, expected):
    table = pa.table({name: values})
    assert is_group(table[name], column_kinds(table, [])[name], name) == expected


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_relations(task):
    column = pa.chunked_array([DRAWN_NUMBERS])
    unrelated = RNG.random(400)
    related = DRAWN_NUMBERS + RNG.normal(0, 3e5, 400)
    if task == "classification":
        unrelated, related = (np.digitize(y, np.quantile(y, [0.3, 0.6])) for y in (unrelated, related))
    assert is_unrelated(column, unrelated, task)
    assert not is_unrelated(column, related, task)


@pytest.mark.parametrize(("y", "task"), [(["no"] * 60, "classification"), ([2.5] * 60, "regression")])
@pytest.mark.filterwarnings("error")
def test_one_target_alone_says_nothing_of_relations(y, task):
    """As the first rows of a table that is sorted by its classes."""
    values = pa.chunked_array([np.random.default_rng(0).permutation(60)])
    assert not is_unrelated(values, np.array(y, dtype=object if task == "classification" else None), task)

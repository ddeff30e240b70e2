"""The column to predict, and the rows to hold out."""

import numpy as np
import pyarrow as pa
import pytest

from fastens.cli.table.columns import CommandError
from fastens.cli.table.target import check_target, recognised_task, target_values, weight_values


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["x", "y"], "classification"),
        ([True, False], "classification"),
        ([0, 1] * 20, "classification"),
        ([0.0, 1.0] * 20, "classification"),
        (list(range(10)), "classification"),
        (list(range(11)), "regression"),
        ([0.0, 1.0, 2.0], "regression"),
        ([0.5, 1.5] * 20, "regression"),
    ],
)
def test_recognised_task(values, task):
    assert recognised_task(pa.chunked_array([values])) == task


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["x", "x"], "classification", "at least two classes; got only 'x'"),
        (["x", "y"], "regression", "must hold numbers for regression"),
        ([0.5, 1.5, 2.25], "classification", "3 distinct non-integer numbers"),
        ([f"name {i}" for i in range(9)], "classification", "9 classes in 9 rows"),
        ([[1], [2]], "classification", "must hold classes or numbers"),
    ],
)
def test_targets_that_cannot_be_learned(values, task, message):
    with pytest.raises(CommandError, match=message):
        check_target(pa.chunked_array([values]), "t", task)


def test_target_values():
    text = pa.chunked_array([pa.array(["b ", "a"]).dictionary_encode()])
    assert target_values(text, "t", "text", "classification").tolist() == ["b", "a"]
    numbers = pa.chunked_array([pa.array([1, 2], pa.int8())])
    assert target_values(numbers, "t", "number", "regression").dtype == np.float64
    assert target_values(numbers, "t", "number", "classification").tolist() == [1, 2]


@pytest.mark.parametrize("values", [[1.0, None], [1.0, -1.0], [0.0, 0.0], [1.0, float("inf")], ["x", "y"]])
def test_bad_weights(values):
    with pytest.raises(CommandError, match="'w'"):
        weight_values(pa.table({"w": values}), "w")


def test_weights_that_are_not_numbers_are_refused_by_the_name_of_the_option():
    with pytest.raises(CommandError, match="--weight must name a column of numbers; 'w' holds 'A'"):
        weight_values(pa.table({"w": ["A", "B"]}), "w")

"""Files of every public estimator with what they hold altered: a right checksum, and arrays or JSON that are not."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fastens
from fastens.modelfile import storage
from properties.choices import Choices
from properties.parameters import ESTIMATORS
from properties.trial import PREDICTIONS
from reference.public_estimators import make, table_for

REFUSALS = (ValueError, TypeError)
# What keeps fits short.
SMALL = {"n_estimators": 2, "max_layers": 1, "max_iter": 3, "random_state": 0, "n_jobs": 1}
SHAPES = {
    "without rows": lambda array: array[:0],
    "without the last row": lambda array: array[:-1],
    "with a row more": lambda array: np.concatenate([array, array[-1:]]),
    "without the last column": lambda array: array[..., :-1],
    "with a column more": lambda array: np.concatenate([array, array[..., -1:]], axis=-1),
    "transposed": np.transpose,
    "flat": np.ravel,
    "in one more row": lambda array: array[None],
    "in one more column": lambda array: array[..., None],
    "one number": lambda array: array.ravel().take(0),
}
TYPES = (np.float64, np.float32, np.int64, np.int32, np.uint16, np.bool_, "U3")
NUMBERS = (-1, 0, 1, 2, 1000, 2**31 - 1, -(2**31), 2**63 - 1, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf)
VALUES = (None, -1, 0, 1, 2**70, 1e308, float("nan"), True, "x", "", [], [1, 2], ["a"], [[]], {})


@cache
def state(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any], Any]:
    """What the file of a small model holds, and rows to predict."""
    accepted = inspect.signature(getattr(fastens, name)).parameters
    table = table_for(name)
    model = make(name, **{key: value for key, value in SMALL.items() if key in accepted}).fit(*table)
    return *model._to_state(), table[0][:5]


def altered_array(array: np.ndarray, choices: Choices) -> np.ndarray:
    """Another shape, another type, or another number in one place or all."""
    kind = choices.below(4)
    if kind == 0:
        return np.asarray(choices.of(list(SHAPES.values()))(np.atleast_1d(array)))
    with np.errstate(all="ignore"):
        if kind == 1:
            return array.astype(choices.of(TYPES))
        number = np.array(choices.of(NUMBERS)).astype(array.dtype)
    if kind == 2 or array.size == 0:
        return np.full_like(array, number)
    found = array.flatten()
    found[choices.below(array.size)] = number
    return found.reshape(array.shape)


def altered_json(value: Any, choices: Choices) -> Any:
    """The same with one thing in it replaced or left out."""
    if not isinstance(value, dict | list) or len(value) == 0:
        return choices.of(VALUES)
    place = choices.of(list(value) if isinstance(value, dict) else range(len(value)))
    found = value.copy()
    if choices.below(8) == 0:
        del found[place]
    else:
        found[place] = altered_json(value[place], choices)
    return found


def altered(
    arrays: dict[str, np.ndarray], meta: dict[str, Any], choices: Choices
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """One or two things altered."""
    for _ in range(1 + choices.below(2)):
        if choices.below(4) == 0 or not arrays:
            meta = altered_json(meta, choices)
        else:
            name = choices.of(sorted(arrays))
            arrays = arrays | {name: altered_array(arrays[name], choices)}
    return arrays, meta


def predict(model: Any, X: Any) -> None:
    """All that it predicts; refusals are right."""
    for method in PREDICTIONS:
        try:
            if hasattr(model, method):
                getattr(model, method)(X)
        except (*REFUSALS, NotImplementedError):
            pass
        except AttributeError as error:  # of what only some fits make
            if "has no attribute" in str(error):
                raise


def check_state(choices: Choices, folder: Path) -> None:
    """A model is refused, or its predictions are some, or refused."""
    name = choices.of(ESTIMATORS)
    *held, X = state(name)
    path = folder / "state"
    try:
        storage.save(path, name, *altered(*held, choices))
    except (*REFUSALS, IndexError, OverflowError):  # there is no such row, or no file can hold it
        return
    try:
        model = fastens.load(path)
    except fastens.ModelFileError:
        return
    repr(model)
    predict(model, X)


STATES = {"state": check_state}

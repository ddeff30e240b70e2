"""Records of columns, outputs and models for import and export, and the checks of values in files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.modelfile.storage import ModelFileError

Floats = NDArray[np.float64]
# The estimators that implement the objectives.
REGRESSOR, CLASSIFIER, RANKER, SURVIVAL = (
    f"GradientBoosting{kind}" for kind in ("Regressor", "Classifier", "Ranker", "Survival")
)
# Types of labels and categories in notes.
PLAIN = (str, bool, int, float)
# A damaged file may claim any number of columns.
_MAX_FEATURES = 1 << 21


def refuse(message: str) -> ModelFileError:
    """Return the error for a model that cannot be read."""
    return ModelFileError(message)


@dataclass(slots=True)
class ModelColumn:
    """Column of a table that trees read.

    Attributes
    ----------
    name : str
        The name, for export.
    categories : list or None
        The categories in the order of their positions; None for numeric columns.
    is_coded : bool
        True if the table contains the codes 0, 1, ... of the categories.
    has_others : bool
        True if a column of codes has an additional last position for all other numbers, which otherwise are missing.
    convention : str or None
        How another library reads the column, one of the conventions of foreign.py.
    """

    name: str = ""
    categories: list[Any] | None = None
    is_coded: bool = False
    has_others: bool = False
    convention: str | None = None

    @property
    def has_strings(self) -> bool:
        """True if categories are strings."""
        return self.categories is not None and any(isinstance(category, str) for category in self.categories)


class ModelColumns(list[ModelColumn]):
    """The columns of an imported model.

    Attributes
    ----------
    names : list of str or None
        The names of the columns.
    code_rule : int
        How numbers are converted to category codes: a sum of `TOWARD_ZERO`, `WHOLE` and `SINGLE` of
        engine/bins/binning.py.
    repeated : list of int
        Columns that are repeated after all others; set by `to_ensemble`.
    table : dict or None
        The names, date columns and date parts of the training table, if they differ from the columns of the model.
    missing_is_category : bool
        True if missing values of categorical columns have the position after the last category.
    missing_number : float or None
        A number that counts as missing in all columns of numbers and codes, compared in single precision.
    absent_is_missing : bool
        True if values that a sparse table does not store are missing instead of 0.
    """

    def __init__(
        self, n_features: int, names: list[str] | None = None, *, code_rule: int = 0, absent_is_missing: bool = False
    ) -> None:
        if n_features > _MAX_FEATURES:
            raise refuse(f"the model has {n_features} columns; at most {_MAX_FEATURES} can be read")
        super().__init__(ModelColumn() for _ in range(n_features))
        self.names, self.code_rule, self.absent_is_missing = names, code_rule, absent_is_missing
        self.repeated: list[int] = []
        self.table: dict[str, Any] | None = None
        self.missing_is_category = False
        self.missing_number: float | None = None


@dataclass
class Objective:
    """The counterpart of a model's objective in fastens.

    Attributes
    ----------
    estimator : str
        The name of the fastens class.
    parameters : dict
        The parameters of that class.
    n_outputs : int
        The number of raw predictions per row.
    n_targets : int
        The number of targets.
    classes : sequence, or None
        The classes; a list of arrays if there are several targets.
    fitted : dict
        Other attributes of the fitted estimator.
    """

    estimator: str = REGRESSOR
    parameters: dict[str, Any] = field(default_factory=dict)
    n_outputs: int = 1
    n_targets: int = 1
    classes: Any = None
    fitted: dict[str, Any] = field(default_factory=dict)


def no_hazard() -> dict[str, Any]:
    """Return the fitted attributes of a Cox model whose baseline hazard is not in the file."""
    return {"event_times_": np.zeros(0), "cumulative_hazard_": np.zeros(0)}


# Values of files ------------------------------------------------------------


# NumPy kinds that may be converted to each kind.
_FITS = {"i": "iub", "f": "fiub", "b": "iub"}


def array_of(value: Any, name: str, dtype: Any, size: int | None = None) -> NDArray[Any]:
    """Return numbers of a file as a one-dimensional array.

    Parameters
    ----------
    value : list or array
        The value in the file.
    name : str
        The name of the value in error messages.
    dtype : type
        ``float``, ``bool`` or ``np.int64``. Floats are not converted to integers.
    size : int, optional
        The required number of entries. If None, any number is accepted.
    """
    dtype = np.dtype(dtype)
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise refuse(f"{name} must hold numbers") from error
    if array.size == 0:
        array = array.astype(dtype)
    if array.ndim != 1 or array.dtype.kind not in _FITS[dtype.kind]:
        raise refuse(f"{name} must be a list of {'whole ' if dtype.kind == 'i' else ''}numbers")
    if size is not None and len(array) != size:
        raise refuse(f"{name} must have {size} entries; got {len(array)}")
    return array.astype(dtype)


def part(holder: Any, name: str, wanted_type: type | tuple[type, ...]) -> Any:
    """Return entry `name` of a JSON object; raise ModelFileError if it is absent or has another type."""
    if not isinstance(holder, dict) or name not in holder:
        raise refuse(f"{name!r} must be present; the file is of another kind or damaged")
    if not isinstance(holder[name], wanted_type):
        raise refuse(f"{name!r} has the wrong type; got {str(holder[name])[:40]!r}")
    return holder[name]


def number(value: Any, name: str) -> float:
    """Return a finite float from a number or a string; raise ModelFileError, naming `name`, for other values."""
    try:
        converted = float(value)
    except (ValueError, TypeError) as error:
        raise refuse(f"{name} must be a number; got {str(value)[:40]!r}") from error
    if not np.isfinite(converted):
        raise refuse(f"{name} must be a finite number; got {converted}")
    return converted


def whole_number(value: Any, name: str, low: int = 0, high: int = 2**31) -> int:
    """Return an integer from `low` to `high`, from a number or a string; raise ModelFileError otherwise."""
    converted = number(value, name)
    if converted != int(converted) or not low <= converted <= high:
        raise refuse(f"{name} must be a whole number from {low} to {high}; got {value!r}")
    return int(converted)


def read_feature_names(value: Any, n_features: int) -> list[str] | None:
    """Check the column names in a file and return them; None if empty.

    Raises ModelFileError unless they are `n_features` strings.
    """
    if not value:
        return None
    if not isinstance(value, list) or len(value) != n_features or not all(isinstance(name, str) for name in value):
        raise refuse(f"the column names must be {n_features} strings")
    return value


def note_in(text: Any) -> dict[str, Any] | None:
    """Parse and check the note that `export` stores in a file; None for no text. Raises ModelFileError if invalid."""
    if not text:
        return None
    try:
        note = json.loads(text, strict=False)  # XGBoost does not escape control characters
    except (ValueError, TypeError, RecursionError) as error:
        raise refuse("the fastens metadata in the file must be JSON; it is damaged") from error
    for name in ("links", "widths", "parameters", "levels"):
        part(note, name, list)
    part(note, "estimator", str)
    names = part(note, "names", (list, type(None)))
    if names is not None and not all(isinstance(name, str) for name in names):
        raise refuse("the fastens metadata must have names that are strings")
    if not all(type(width) is int and 0 < width < 2**16 for width in note["widths"]):
        raise refuse("the fastens metadata must have the number of raw predictions of each target")
    for values in [*(note.get("classes") or []), *part({"categories": {}} | note, "categories", dict).values()]:
        if not isinstance(values, list) or not all(isinstance(value, PLAIN) for value in values):
            raise refuse("the fastens metadata must have lists of labels and categories")
        if len(set(values)) != len(values):
            raise refuse("the fastens metadata must list each label and category once")
    return note


# Single precision -----------------------------------------------------------


def single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Convert numbers to float32; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def single_at_most(threshold: Any) -> NDArray[np.float32]:
    """Return the largest float32 that is at most each threshold."""
    exact = np.asarray(threshold, dtype=np.float64)
    rounded = single(exact)
    with np.errstate(over="ignore"):
        below = np.where(rounded.astype(np.float64) > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return below.astype(np.float32)


def at_most(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` equals ``float32(x) <= threshold`` for every double x."""
    return _last_rounded_to(single_at_most(threshold))


def less_than(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` equals ``float32(x) < threshold`` for every double x and a float32 threshold."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(threshold).astype(np.float32)
    return _last_rounded_to(np.nextafter(rounded, np.float32(-np.inf)))


def _last_rounded_to(low: NDArray[np.float32]) -> Floats:
    """Return the largest double that rounds to `low` or less; ties round to the even float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.nextafter(low, np.float32(np.inf))
        wide, above = low.astype(np.float64), high.astype(np.float64)
        above = np.where(np.isposinf(above) & np.isfinite(wide), 2.0**128, above)
        wide = np.where(np.isneginf(wide), -(2.0**128), wide)
        is_even = (np.asarray(low, dtype=np.float32).view(np.uint32) & 1) == 0
        middle = wide + (above - wide) / 2
        # The tie between -inf and the lowest finite float32 rounds to -inf, because the finite number is odd.
        last = np.where(is_even, middle, np.nextafter(middle, -np.inf))
        return np.where(np.isposinf(low), np.inf, np.where(np.isnan(low), np.nan, last))

"""Columns, targets and weights that users have, ordinary and not, by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from importlib.machinery import PathFinder

import numpy as np
import pandas as pd
from scipy import sparse

Draw = Callable[[np.random.Generator, int], np.ndarray]
HUGE = 1.7e308

# Columns --------------------------------------------------


def _with(values: list[float], share: float = 0.3) -> Draw:
    """Normal numbers, some of them replaced."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        column = rng.normal(size=n)
        replaced = rng.random(n) < share
        column[replaced] = rng.choice(values, size=int(replaced.sum()))
        return column

    return draw


def _among(values: list[float]) -> Draw:
    return lambda rng, n: rng.choice(np.array(values, dtype=np.float64), size=n)


NUMBERS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "counts": lambda rng, n: rng.poisson(2.0, size=n).astype(np.float64),
    "one value": lambda rng, n: np.full(n, 3.0),
    "two values": _among([0.0, 1.0]),
    "missing": lambda rng, n: np.full(n, np.nan),
    "some missing": _with([np.nan]),
    "-inf": _with([-np.inf]),
    "inf": _with([np.inf]),
    "both infinities": _with([-np.inf, np.inf, np.nan]),
    "infinities only": _among([-np.inf, np.inf]),
    "huge": _among([-HUGE, 0.0, 1.0, HUGE]),
    "spanning all": lambda rng, n: rng.uniform(-1, 1, size=n) * HUGE,
    "subnormal": _among([0.0, 5e-324, -5e-324, 1e-310]),
    "tiny steps": lambda rng, n: 1.0 + rng.integers(0, 5, size=n) * np.finfo(np.float64).eps,
    "signed zeros": _among([-0.0, 0.0]),
    "outlier": _with([1e300], 0.02),
    "identifiers": lambda rng, n: 2.0**60 + np.arange(n) * 4096.0,
}


def _objects(values: list[object]) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        column = np.empty(n, dtype=object)
        column[:] = [values[place] for place in rng.integers(0, len(values), size=n)]
        return column

    return draw


def _categories(rng: np.random.Generator, n: int) -> pd.Categorical:
    return pd.Categorical(rng.choice(["red", "green"], size=n), categories=["blue", "green", "red"])


def _dates(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.datetime64("2020-02-28T23:00", "s") + rng.integers(0, 10**7, size=n).astype("timedelta64[s]")


OTHERS: dict[str, Draw] = {
    "text": _objects(["one", "two", "", "ein sehr langer Name" * 20]),
    "text and missing": _objects(["one", "two", None, np.nan]),
    "text of numbers": _objects(["1", "2", "10"]),
    "text and numbers": _objects(["one", 1, 2.5, None]),
    "booleans": _objects([True, False]),
    "booleans and missing": _objects([True, False, None]),
    "large whole numbers": _objects([2**70, -(2**70), 1]),
    "categories": _categories,
    "datetimes": _dates,
    "dates": _objects([dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "lists": _objects([[1, 2], [3]]),
    "dicts": _objects([{"a": 1}, {}]),
    "complex": _objects([1 + 2j, 3.0]),
}

_ALL_FORMS = ("array", "float32", "columns first", "list", "pandas", "polars", "sparse")
FORMS = tuple(form for form in _ALL_FORMS if form != "polars" or PathFinder.find_spec("polars"))


def make_table(kinds: tuple[str, ...], form: str, rng: np.random.Generator, n_rows: int) -> object:
    """Draw a table of columns of these kinds, in a form; columns that are no numbers make it a frame of pandas."""
    columns = {f"c{place}": (NUMBERS | OTHERS)[kind](rng, n_rows) for place, kind in enumerate(kinds)}
    if form == "pandas" or any(kind in OTHERS for kind in kinds):
        return pd.DataFrame(columns)
    return _FORMS[form](columns)


def _as_float32(columns: dict[str, np.ndarray]) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.column_stack(list(columns.values())).astype(np.float32)


def _as_polars(columns: dict[str, np.ndarray]) -> object:
    import polars as pl

    return pl.DataFrame(columns)


_FORMS: dict[str, Callable[[dict[str, np.ndarray]], object]] = {
    "array": lambda columns: np.column_stack(list(columns.values())),
    "float32": _as_float32,
    "columns first": lambda columns: np.asfortranarray(np.column_stack(list(columns.values()))),
    "list": lambda columns: np.column_stack(list(columns.values())).tolist(),
    "polars": _as_polars,
    "sparse": lambda columns: sparse.csr_matrix(np.column_stack(list(columns.values()))),
}

# Targets --------------------------------------------------

LABELS: dict[str, Draw] = {
    "two classes": lambda rng, n: rng.integers(0, 2, size=n),
    "three classes": lambda rng, n: rng.integers(0, 3, size=n) * 5 - 3,
    "many classes": lambda rng, n: rng.integers(0, 30, size=n),
    "very many classes": lambda rng, n: np.arange(n) % 100,
    "rare class": lambda rng, n: (np.arange(n) == n // 2).astype(int),
    "words": lambda rng, n: rng.choice(["yes", "no", "perhaps"], size=n),
    "booleans": lambda rng, n: rng.random(n) < 0.5,
    "large numbers": lambda rng, n: rng.integers(0, 2, size=n) + 2**60,
    "objects": _objects(["a", "b"]),
    "one class": lambda rng, n: np.ones(n, dtype=int),
    "missing label": _objects(["a", "b", None]),
    "mixed labels": _objects(["a", 1]),
    "not whole": lambda rng, n: rng.normal(size=n),
}

TARGETS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "positive": lambda rng, n: rng.gamma(2.0, size=n),
    "counts": lambda rng, n: rng.poisson(1.0, size=n),
    "one value": lambda rng, n: np.full(n, -2.5),
    "zeros": lambda rng, n: np.zeros(n),
    "outlier": _with([1e12], 0.02),
    "huge": lambda rng, n: rng.choice([-1.0, 1.0], size=n) * 1e308,
    "positive and huge": lambda rng, n: np.full(n, 1e308),
    "subnormal": _among([5e-324, 0.0, 1e-310]),
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-200,
    "missing": _with([np.nan]),
    "infinite": _with([np.inf]),
    "words": lambda rng, n: rng.choice(["yes", "no"], size=n),
}

# Weights --------------------------------------------------


def _one_among_ones(value: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        weight = np.ones(n)
        weight[rng.integers(n)] = value
        return weight

    return draw


WEIGHTS: dict[str, Draw] = {
    "whole": lambda rng, n: rng.integers(1, 4, size=n).astype(np.float64),
    "fractions": lambda rng, n: rng.random(n),
    "some zero": lambda rng, n: (rng.random(n) < 0.7).astype(np.float64),
    "survey": lambda rng, n: np.floor(rng.lognormal(12.0, 1.0, size=n)),
    "1e-6": lambda rng, n: np.full(n, 1e-6),
    "1e-300": lambda rng, n: np.full(n, 1e-300),
    "1e300": lambda rng, n: np.full(n, 1e300),
    "one 1e9": _one_among_ones(1e9),
    "one 1e300": _one_among_ones(1e300),
    "subnormal and 1": _among([5e-324, 1.0]),
    "negative": _one_among_ones(-1.0),
    "missing": _one_among_ones(np.nan),
    "infinite": _one_among_ones(np.inf),
    "all zero": lambda rng, n: np.zeros(n),
    "too few": lambda rng, n: np.ones(max(n - 1, 0)),
    "words": _objects(["heavy", "light"]),
}

"""Models to export, rows to compare their predictions on, and those rows as other libraries read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fastens
from fastens.exchange.export import targets_of, view_of

N_ROWS = 600


@cache
def numbers() -> tuple[NDArray[Any], NDArray[Any]]:
    """A table of numbers with missing values, and targets."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, 5))
    X[:, 1] = X[:, 1].round(1)
    X[:, 2] = rng.integers(0, 6, N_ROWS)
    X[rng.random(X.shape) < 0.08] = np.nan
    filled = np.nan_to_num(X)
    return X, filled[:, 0] + np.sin(3 * filled[:, 1]) + (filled[:, 2] > 3) + rng.normal(size=N_ROWS) / 10


@cache
def mixed() -> tuple[pd.DataFrame, NDArray[Any]]:
    """The same with columns of few categories, of many, and of whole numbers as categories."""
    X, y = numbers()
    rng = np.random.default_rng(8)
    few, many, whole = rng.integers(0, 9, N_ROWS), rng.integers(0, 70, N_ROWS), rng.integers(0, 40, N_ROWS)
    frame = pd.DataFrame(X[:, :3], columns=["size", "a b", "count"])
    frame["few"] = pd.Categorical.from_codes(few, [f"it's {c}" for c in "pqrstuvwx"])
    frame["many"] = pd.Categorical.from_codes(many, [f"k{c}" for c in range(70)])
    frame["whole"] = pd.Categorical.from_codes(whole, 3 * np.arange(40) + 2)
    frame.loc[rng.random(N_ROWS) < 0.1, "few"] = np.nan
    return frame, y + (few % 3) + (many % 7) / 3 + (whole % 5) / 2


def classes_of(y: NDArray[Any], n_classes: int = 2) -> NDArray[Any]:
    """Labels by quantiles of a target."""
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes)
    return np.array(["low", "mid", "high", "top"])[np.searchsorted(cuts, y)]


BOOSTED: dict[str, Callable[[], Any]] = {
    "regression": lambda: fastens.GradientBoostingRegressor(n_estimators=12, random_state=0).fit(*numbers()),
    "absolute": lambda: fastens.GradientBoostingRegressor(loss="absolute_error", n_estimators=12, random_state=0).fit(
        *numbers()
    ),
    "mixed": lambda: fastens.GradientBoostingRegressor(n_estimators=12, random_state=0).fit(*mixed()),
    "statistics": lambda: fastens.GradientBoostingRegressor(
        n_estimators=12, categories=fastens.Categories(encoding="target"), random_state=0
    ).fit(*mixed()),
    "poisson": lambda: fastens.GradientBoostingRegressor(loss="poisson", n_estimators=12, random_state=0).fit(
        mixed()[0], np.exp(mixed()[1])
    ),
    "two classes": lambda: fastens.GradientBoostingClassifier(n_estimators=12, random_state=0).fit(
        mixed()[0], classes_of(mixed()[1])
    ),
    "exponential": lambda: fastens.GradientBoostingClassifier(loss="exponential", n_estimators=12, random_state=0).fit(
        numbers()[0], classes_of(numbers()[1])
    ),
    "three classes": lambda: fastens.GradientBoostingClassifier(n_estimators=12, random_state=0).fit(
        mixed()[0], classes_of(mixed()[1], 3)
    ),
    "three classes by statistics": lambda: fastens.GradientBoostingClassifier(
        n_estimators=6, categories=fastens.Categories(encoding="target"), random_state=0
    ).fit(mixed()[0], classes_of(mixed()[1], 3)),
    "dart": lambda: fastens.GradientBoostingRegressor(n_estimators=12, boosting=fastens.Dart(), random_state=0).fit(
        *mixed()
    ),
    "survival": lambda: fastens.GradientBoostingSurvival(n_estimators=12).fit(
        numbers()[0],
        np.rec.fromarrays([np.arange(N_ROWS) % 3 > 0, np.exp(numbers()[1])], names="event,time"),
    ),
    "ranking": lambda: fastens.GradientBoostingRanker(n_estimators=12).fit(
        numbers()[0], np.clip(numbers()[1].round(), 0, 3), qid=np.repeat(np.arange(N_ROWS // 20), 20)
    ),
    "adaboost": lambda: fastens.AdaBoostClassifier(n_estimators=12, random_state=0).fit(
        mixed()[0], classes_of(mixed()[1], 3)
    ),
}
SEVERAL: dict[str, Callable[[], Any]] = {
    "two targets": lambda: fastens.GradientBoostingRegressor(n_estimators=8, random_state=0).fit(
        numbers()[0], np.column_stack([numbers()[1], -(numbers()[1] ** 2)])
    ),
}
AVERAGED: dict[str, Callable[[], Any]] = {
    "forest": lambda: fastens.RandomForestRegressor(n_estimators=7, max_depth=6, random_state=0).fit(*mixed()),
    "forest of two classes": lambda: fastens.RandomForestClassifier(n_estimators=7, max_depth=6, random_state=0).fit(
        mixed()[0], classes_of(mixed()[1])
    ),
    "votes": lambda: fastens.RandomForestClassifier(n_estimators=7, max_depth=6, voting="hard", random_state=0).fit(
        mixed()[0], classes_of(mixed()[1], 3)
    ),
    "extra trees": lambda: fastens.ExtraTreesClassifier(n_estimators=7, max_depth=6, random_state=0).fit(
        mixed()[0], classes_of(mixed()[1], 3)
    ),
    "tree": lambda: fastens.DecisionTreeRegressor(max_depth=6).fit(*numbers()),
    "stump": lambda: fastens.DecisionStumpClassifier().fit(mixed()[0], classes_of(mixed()[1], 3)),
    "tree of no split": lambda: fastens.DecisionTreeClassifier(min_samples_leaf=N_ROWS).fit(
        numbers()[0], classes_of(numbers()[1])
    ),
}


@cache
def fitted(name: str) -> Any:
    """One of these models."""
    return (BOOSTED | SEVERAL | AVERAGED)[name]()


def raw_of(model: Any, X: Any) -> NDArray[np.float64]:
    """What the sum, or mean, of the trees is; log odds where the model has halves of them."""
    raw = targets_of(model)[1] * model._raw(X)
    return raw / len(model._ensemble.tree_output) if model._combination != "sum" else raw


def rows_for(model: Any, *, as_float32: bool = False, n_rows: int = 1500) -> Any:
    """Rows whose values are thresholds, their neighbours, halves of float32 steps beside them, missing or infinite.

    Categories are known, missing or never seen. A frame where the model has names, else an array.
    """
    view, rng = view_of(model), np.random.default_rng(11)
    thresholds: list[list[float]] = [[] for _ in view.columns]
    for tree in view.trees:
        for column, value in zip(tree.feature, tree.threshold, strict=True):
            if np.isfinite(value):
                thresholds[column].append(value)
    columns = {}
    for own, column in zip(thresholds, view.columns, strict=True):
        if column.categories is None:
            values = _beside(np.unique(own), as_float32=as_float32)
            columns[column.name] = rng.choice(values, n_rows)
            continue
        known = list(column.categories)
        unseen = "never seen" if isinstance(known[0], str) else 10_000
        chosen = rng.integers(-1, len(known) + 1, n_rows)
        columns[column.name] = pd.Categorical.from_codes(chosen, [*known, unseen])
    frame = pd.DataFrame(columns)
    return frame if model._encoder.names is not None else frame.to_numpy(np.float64)


def _beside(thresholds: NDArray[np.float64], *, as_float32: bool) -> NDArray[np.float64]:
    """Values at and beside thresholds."""
    nearest = thresholds.astype(np.float32)
    steps = [nearest, np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))]
    single = [step.astype(np.float64) for step in steps]
    values = [*single, np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1e30, 1e30])]
    if as_float32:
        return np.concatenate(values).astype(np.float32).astype(np.float64)
    below, above = np.nextafter(thresholds, -np.inf), np.nextafter(thresholds, np.inf)
    halves = [(single[0] + single[1]) / 2, (single[0] + single[2]) / 2]
    between = (thresholds[1:] + thresholds[:-1]) / 2
    found = np.concatenate([*values, thresholds, below, above, *halves, between])
    return found[(found == 0) | ~(np.abs(found) < 1e-30)]  # LightGBM reads values up to 1e-35 as 0


def with_positions(model: Any, X: Any, missing: float = np.nan) -> NDArray[np.float64]:
    """The rows as numbers: of categories their positions, and the number of categories for one never seen."""
    if not isinstance(X, pd.DataFrame):
        return X
    out = np.empty(X.shape)
    for index, column in enumerate(view_of(model).columns):
        values = X[column.name]
        if column.categories is None:
            out[:, index] = values
            continue
        position = {value: place for place, value in enumerate(column.categories)}
        out[:, index] = [missing if pd.isna(value) else position.get(value, len(position)) for value in values]
    return out

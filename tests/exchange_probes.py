"""Rows on which a model that was read differently from how it was written gives other predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens import load


def table(n_rows: int = 1200, seed: int = 0, n_categories: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, some missing in column 2, whole numbers in column 3 and codes of categories in column 4; a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    X[:, 1] = np.round(X[:, 1], 1)
    X[rng.random(n_rows) < 0.15, 2] = np.nan
    X[:, 3] = rng.integers(0, 30, n_rows)
    X[:, 4] = rng.integers(0, n_categories, n_rows)
    effect = rng.normal(size=n_categories)
    y = X[:, 0] * X[:, 1] + np.nan_to_num(X[:, 2], nan=1.5) + X[:, 3] / 10 + effect[X[:, 4].astype(int)]
    return X, y + rng.normal(scale=0.2, size=n_rows)


def probes(X: np.ndarray, model: Any, *, infinite: bool = True, seed: int = 1) -> np.ndarray:
    """Rows with values at, beside (by an ulp of doubles, and half one of float32) and between the thresholds."""
    rng = np.random.default_rng(seed)
    parts = [X]
    for column, thresholds in enumerate(model._ensemble.binning.thresholds):
        if len(thresholds) == 0:
            continue
        near = thresholds.astype(np.float32)
        above, below = (np.nextafter(near, np.float32(side)).astype(float) for side in (np.inf, -np.inf))
        exact = near.astype(float)
        values = [thresholds, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf), exact, above, below]
        for other in (above, below):
            half = exact + (other - exact) / 2
            values += [half, np.nextafter(half, np.inf), np.nextafter(half, -np.inf)]
        values += [(thresholds[1:] + thresholds[:-1]) / 2, [0.0, -0.0, 1e-35, -1e-35, 1e-36, 1e30, -1e30, np.nan]]
        values += [[np.inf, -np.inf]] if infinite else []
        own = np.concatenate([np.asarray(part, dtype=float) for part in values])
        rows = X[rng.integers(0, len(X), len(own))].copy()
        rows[:, column] = own
        parts.append(rows)
    return np.concatenate(parts)


def raw(model: Any, X: Any) -> np.ndarray:
    """Raw predictions, of one output without its axis."""
    found = model._raw(X)
    return found[:, 0] if found.shape[1] == 1 else found


def saved_and_loaded(model: Any, folder: Any) -> Any:
    model.save(folder / "model.fastens")
    return load(folder / "model.fastens")

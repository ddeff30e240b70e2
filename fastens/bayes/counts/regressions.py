"""Linear regressions of continuous variables from second moments, by the values of discrete parents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import CodedRows, n_cells
from fastens.engine.elementary import log

Array = NDArray[np.float64]
LOG_2PI = math.log(2 * math.pi)
MIN_VARIANCE = 1e-9  # relative to the variance of the column; the default of scikit-learn's GaussianNB


def family_moments(rows: CodedRows, child: int, parents: Sequence[int], also_known: Sequence[int] = ()) -> Array:
    """Return the sums of z z' with z = (1, continuous parents, child) by combination of discrete parent values.

    The shape is (n_combinations, d, d). Only rows in which the family and the variables `also_known` are known count.
    """
    discrete = [parent for parent in parents if parent not in rows.continuous]
    is_known = (rows.codes[[*parents, child, *also_known]] > 0).all(axis=0)
    selected: Any = slice(None) if is_known.all() else is_known  # a slice avoids copies of the columns
    sizes = rows.sizes.tolist()
    cells = np.zeros(int(is_known.sum()), dtype=np.int64)
    for parent in discrete:
        cells = cells * sizes[parent] + rows.codes[parent][selected] - 1
    numbers = [parent for parent in parents if parent in rows.continuous]
    z = [rows.of_values(variable)[selected] for variable in (*numbers, child)]
    weights = None if rows.weights is None else rows.weights[selected]
    out = np.empty((n_cells(discrete, sizes), 1 + len(z), 1 + len(z)))
    out[:, 0, 0] = np.bincount(cells, weights, minlength=len(out))
    for i, one in enumerate(z, 1):
        weighted = one if weights is None else weights * one
        out[:, i, 0] = out[:, 0, i] = np.bincount(cells, weighted, minlength=len(out))
        for j, other in enumerate(z[:i], 1):
            out[:, i, j] = out[:, j, i] = np.bincount(cells, weighted * other, minlength=len(out))
    return out


def regress(moments: Array, pseudo: float, prior_variance: float) -> Array:
    """Return intercept, slopes and variance of the regression in each cell, from its second moments.

    The variance has a prior of `pseudo` rows with the variance `prior_variance`. Coefficients that the rows of a cell
    do not determine equal the coefficients of the regression on the rows of all cells.
    """
    a, b = moments[..., :-1, :-1], moments[..., :-1, -1]
    all_cells = tuple(range(b.ndim - 1))
    pooled = np.linalg.pinv(a.sum(axis=all_cells), hermitian=True) @ b.sum(axis=all_cells)
    inverse = np.linalg.pinv(a, rcond=1e-12, hermitian=True)
    coefficients = pooled + (inverse @ (b - a @ pooled)[..., None])[..., 0]
    n_rows = moments[..., 0, 0]
    mass = residual_squares(coefficients, moments) + pseudo * prior_variance
    total = n_rows + pseudo
    variance = np.divide(mass, total, out=np.full(total.shape, prior_variance), where=total > 0)
    return np.concatenate([coefficients, np.maximum(variance, MIN_VARIANCE)[..., None]], axis=-1)


def residual_squares(coefficients: Array, moments: Array) -> Array:
    """Return the sum of squared residuals of each cell, given coefficients and second moments by cell."""
    contrast = np.concatenate([coefficients, np.full((*coefficients.shape[:-1], 1), -1.0)], axis=-1)
    return np.maximum(np.einsum("...i,...ij,...j->...", contrast, moments, contrast), 0.0)


def pooled_variance(moments: Array) -> float:
    """Return the residual variance of the regressions in all cells together, or 1 without degrees of freedom."""
    n_coefficients = moments.shape[-1] - 1
    freedom = float(np.maximum(moments[..., 0, 0] - n_coefficients, 0).sum())
    squares = float(residual_squares(regress(moments, 0, 1.0)[..., :-1], moments).sum())
    return max(squares / freedom, MIN_VARIANCE) if freedom > 0 else 1.0


def gaussian_objective(regressions: Array, moments: Array, pseudo: float = 0.0, prior_variance: float = 1.0) -> float:
    """Return the log likelihood of the rows with these moments, plus the log density of `pseudo` prior rows.

    The squared residuals of the prior rows have the mean `prior_variance`.
    """
    variance = regressions[..., -1]
    squares = residual_squares(regressions[..., :-1], moments) + pseudo * prior_variance
    return float(-0.5 * ((moments[..., 0, 0] + pseudo) * (log(variance) + LOG_2PI) + squares / variance).sum())


def gaussian_fit(moments: Array) -> tuple[float, float]:
    """Return the log likelihood of the regressions fitted to these moments, and the number of cells with rows.

    The variance has a prior of one row, because the likelihood of a cell with few rows has no maximum.
    """
    return gaussian_objective(regress(moments, 1.0, pooled_variance(moments)), moments), float(
        (moments[:, 0, 0] > 0).sum()
    )

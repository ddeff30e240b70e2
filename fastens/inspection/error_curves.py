"""The error of a classifier after each of its rounds, as numbers and as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.inspection.plotting import axes, whole_ticks


def staged_errors(
    estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> NDArray[np.float64]:
    """The share of rows that are classified wrongly after each round, (n_rounds,), from `staged_score`."""
    return 1 - np.fromiter(estimator.staged_score(X, y, sample_weight), dtype=np.float64)


def plot_errors(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    X_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    ax: Any = None,
) -> Any:
    """Draw the error after each round, from `staged_score`, and the bound of the training error where there is one.

    ValueError if only one of `X_val` and `y_val` is given.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import AdaBoostClassifier
    >>> from fastens.inspection.error_curves import plot_errors
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=10).fit(X[::2], y[::2])
    >>> [line.get_label() for line in plot_errors(model, X[::2], y[::2], X_val=X[1::2], y_val=y[1::2]).lines]
    ['training rows', 'validation rows', 'bound of the training error']
    """
    if (X_val is None) != (y_val is None):
        given, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
        raise ValueError(f"X_val and y_val must be given together; got {given} without {missing}.")
    curves = {"training rows": staged_errors(estimator, X, y)}
    if X_val is not None and y_val is not None:
        curves["validation rows"] = staged_errors(estimator, X_val, y_val)
    ax = axes(ax, figsize=(6, 3.6))
    for name, values in curves.items():
        ax.plot(np.arange(1, len(values) + 1), values, label=name)
    highest = max(values.max() for values in curves.values())
    bound = _bound(estimator)
    if bound is not None:
        ax.plot(np.arange(1, len(bound) + 1), bound, color="0.5", linestyle="--", label="bound of the training error")
        highest = max(highest, min(1.0, bound.max()))
    ax.set(xlabel="rounds", ylabel="share of wrong rows", ylim=(0, 1.05 * highest or 1))
    whole_ticks(ax)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _bound(estimator: Any) -> NDArray[np.float64] | None:
    """The bound of the training error, if there is one."""
    try:
        return np.asarray(estimator.training_error_bound()[: estimator.n_estimators_])
    except (AttributeError, ValueError):
        return None

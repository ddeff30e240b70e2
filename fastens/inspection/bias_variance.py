"""Decomposition of a model's error into bias, variance and noise, by training on bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from fastens.inspection.plotting import as_labels, as_numbers, axes, check_same_kind, name_ticks
from fastens.params.rules import ESTIMATOR, NONE, RANDOM_STATE, instance, one_of, real, whole
from fastens.params.types import RandomState
from fastens.table.arrays import check_sparse_indices
from fastens.table.opening import split_columns
from fastens.table.sources import in_memory_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
LOSSES = ("squared_error", "zero_one")
MAX_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class BiasVariance:
    """Parts of an expected loss, each averaged over the test rows.

    Attributes
    ----------
    loss : float
        Expected loss of a model trained on a bootstrap sample.
    bias : float
        For the squared error, the squared bias; for the 0-1 loss, the fraction of rows whose main prediction is wrong.
    variance : float
        For the squared error, the variance of the predictions. For the 0-1 loss, the net variance: the variance of
        unbiased rows minus the part of the variance of biased rows that makes predictions correct (Domingos 2000).
    noise : float
        Irreducible loss. It is 0 if `optimal` was not given, in which case the bias includes the noise.
    main_prediction : array of shape (n_test,)
        Mean prediction of the models (squared error), or their most frequent prediction (0-1 loss).
    row_bias, row_variance : arrays of shape (n_test,)
        Bias and variance of each test row; for the 0-1 loss, the variance is unsigned.
    """

    loss: float
    bias: float
    variance: float
    noise: float
    main_prediction: NDArray[Any]
    row_bias: Array
    row_variance: Array

    def __repr__(self) -> str:
        parts = (f"{name}={getattr(self, name):.4g}" for name in ("loss", "bias", "variance", "noise"))
        return f"{type(self).__name__}({', '.join(parts)})"


@in_memory_only
def bias_variance_decomposition(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | None = None,
    optimal: ArrayLike | None = None,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    test_size: float | int = 0.25,
    n_rounds: int = 100,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> BiasVariance:
    """Decompose the expected loss of an estimator into bias, variance and noise.

    The estimator is trained on `n_rounds` bootstrap samples of the training rows, and its predictions for the test rows
    are compared across samples.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor with scikit-learn's interface; it is cloned.
    X, y : table of shape (n_samples, n_features) and array of shape (n_samples,), or the name of a column
        The data. A test set is held out unless `X_test` and `y_test` are given.
    loss : {"squared_error", "zero_one"}, optional
        The loss to decompose. If None, "zero_one" for a classifier and "squared_error" for a regressor.
    optimal : array, optional
        The best possible prediction for each row of `y`, or of `y_test` if given, such as the noise-free function of
        simulated data. If None, the targets are treated as optimal, so the bias includes the noise.
    X_test, y_test : table and array, or the name of a column, optional
        A separate test set.
    test_size : float or int, default=0.25
        Fraction or number of rows to hold out.
    n_rounds : int, default=100
        Number of bootstrap samples, at least 2. Larger values reduce the sampling error of the estimates.
    random_state : int, RandomState or None
        Determines the samples, and the `random_state` of the estimator in each round if it has one.
    n_jobs : int, optional
        Number of rounds that run in parallel.

    Returns
    -------
    BiasVariance
        For the squared error, loss = bias + variance + noise in expectation, and exactly if `optimal` is not given. For
        the 0-1 loss, loss = bias + variance + noise exactly, each with its factor (c2, c1) applied.

    Raises
    ------
    ValueError
        If `loss` is unknown, there are fewer than two rounds, array shapes do not match, or targets are missing,
        infinite or invalid for the loss.

    References
    ----------
    S. Geman, E. Bienenstock, R. Doursat (1992). Neural networks and the bias/variance dilemma. Neural Computation 4.
    P. Domingos (2000). A unified bias-variance decomposition and its applications. ICML, theorems 2 and 3.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> from fastens import bias_variance_decomposition
    >>> X, y = make_friedman1(n_samples=300, random_state=0)
    >>> parts = bias_variance_decomposition(Ridge(), X, y, n_rounds=20, random_state=0)
    >>> parts.variance < parts.bias
    True
    """
    kind = _checked_loss(estimator, loss)
    whole(2).check("n_rounds", n_rounds)
    RANDOM_STATE.check("random_state", random_state)
    random = check_random_state(random_state)
    X, y = _split_target("y", X, y)
    X_test, y_test = _split_target("y_test", X_test, y_test)
    X, X_test = _indexable_table("X", X), None if X_test is None else _indexable_table("X_test", X_test)
    y = _checked_target("y", y, X, kind)
    if X_test is None and y_test is None:
        parts = _split_rows(X, y, optimal, test_size, random.randint(MAX_SEED), kind)
    else:
        parts = _passed_test_rows(X, y, X_test, y_test, optimal, kind)
    X_train, y_train, X_test, y_test, best = parts
    seeds = random.randint(MAX_SEED, size=n_rounds)
    predictions = np.stack(
        Parallel(n_jobs=n_jobs)(delayed(_fit_and_predict)(estimator, X_train, y_train, X_test, seed) for seed in seeds)
    )
    if predictions.ndim != 2:
        shape = predictions.shape[1:]
        raise ValueError(f"estimator must predict one value for each row; got predictions of shape {shape}.")
    if kind == "zero_one":
        return _zero_one_parts(predictions, y_test, best)
    return _squared_parts(predictions.astype(np.float64), y_test, best)


@in_memory_only
def plot_bias_variance(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    param_name: str,
    param_range: Iterable[Any],
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Plot loss, bias, variance and noise over the values of a parameter.

    Parameters
    ----------
    estimator, X, y
        See `bias_variance_decomposition`.
    param_name : str
        Name of a parameter of the estimator.
    param_range : iterable
        Values of the parameter, from left to right.
    ax : matplotlib Axes, optional
        Axes to draw on. If None, a new figure is created.
    **options
        Passed to `bias_variance_decomposition`. Every value uses the same samples; `random_state` defaults to 0.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from fastens import DecisionTreeRegressor, plot_bias_variance
    >>> X, y = make_friedman1(n_samples=100, random_state=0)
    >>> options = {"param_name": "max_depth", "param_range": [1, 4], "n_rounds": 3, "random_state": 0}
    >>> plot_bias_variance(DecisionTreeRegressor(), X, y, **options).get_xlabel()
    'max_depth'
    """
    ESTIMATOR.check("estimator", estimator)
    instance(str, "the name of a parameter").check("param_name", param_name)
    values = list(param_range) if np.iterable(param_range) else []
    if not values:
        raise ValueError(f"param_range must hold at least one value of {param_name}; got {param_range!r}.")
    options.setdefault("random_state", 0)
    parts = [
        bias_variance_decomposition(clone(estimator).set_params(**{param_name: value}), X, y, **options)
        for value in values
    ]
    ax = axes(ax, figsize=(6.4, 4))
    squared = _checked_loss(estimator, options.get("loss")) == "squared_error"
    labels = {
        "loss": "expected loss",
        "bias": "squared bias" if squared else "bias",
        "variance": "variance" if squared else "net variance",
        "noise": "noise",
    }
    position = np.arange(len(values))
    for name, label in labels.items():
        heights = [getattr(part, name) for part in parts]
        if name != "noise" or any(heights):
            ax.plot(position, heights, label=label, marker="o", markersize=4, linewidth=2.5 if name == "loss" else 1.5)
    name_ticks(ax, "x", [" ".join(str(value).split()) for value in values], limit=28)
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel=param_name, ylabel="mean squared error" if squared else "0-1 loss")
    ax.legend(frameon=False)
    return ax


# Training rows and targets, test rows and targets, and the optimal predictions for the test rows.
_Rows = tuple[Any, NDArray[Any], Any, NDArray[Any], NDArray[Any]]


def _checked_loss(estimator: Any, loss: str | None) -> str:
    """Return the loss or, if None, "zero_one" for classifiers and "squared_error" for regressors.

    Raises ValueError if the loss is unknown, or "zero_one" for a regressor.
    """
    ESTIMATOR.check("estimator", estimator)
    (one_of(*LOSSES) | NONE).check("loss", loss)
    if loss == "zero_one" and is_regressor(estimator):
        raise ValueError(f"loss='zero_one' needs a classifier; got the regressor {estimator!r}.")
    return loss or ("zero_one" if is_classifier(estimator) else "squared_error")


def _split_target(name: str, X: Any, y: Any) -> list[Any]:
    """Return [table, target]; if `y` is a column name, the target is split off. `name` is the argument of y."""
    by_name: dict[str, Any] = {name: y}
    return split_columns(X, **by_name) if isinstance(y, str) else [nw.to_native(X, pass_through=True), y]


def _indexable_table(name: str, X: Any) -> Any:
    """Return X as a table that supports indexing rows: sparse matrices as CSR, buffers as arrays.

    Raises ValueError, which names the argument `name`, if X has no rows and columns.
    """
    check_sparse_indices(X)
    has_rows = (hasattr(X, "__getitem__") or issparse(X)) and not isinstance(X, memoryview)
    table = X if has_rows else np.asarray(X)
    if getattr(table, "shape", None) == ():
        raise ValueError(f"{name} must be a table with rows and columns in memory; got a {type(X).__name__}.")
    (table,) = indexable(table)
    return table


def _checked_target(name: str, y: Any, X: Any, kind: str) -> NDArray[Any]:
    """Return the argument `name` as the target of X: finite numbers if `kind` is "squared_error", otherwise labels.

    Raises ValueError for invalid values or a wrong number of rows.
    """
    target = as_numbers(name, y) if kind == "squared_error" else as_labels(name, y)
    if kind == "zero_one" and type_of_target(target).startswith("continuous"):
        raise ValueError(f"{name} must hold labels with loss='zero_one'; got fractions such as {target[0]!r}.")
    if len(target) != _num_samples(X):
        table = "X" if name == "y" else "X_test"
        raise ValueError(
            f"{table} and {name} must have the same number of rows; got {_num_samples(X)} and {len(target)}."
        )
    return target


def _passed_test_rows(X: Any, y: NDArray[Any], X_test: Any, y_test: Any, optimal: Any, loss: str) -> _Rows:
    """Return `_Rows` whose test rows are `X_test` and `y_test`; `optimal` belongs to them.

    Raises ValueError if one of the two is None or they do not match.
    """
    if X_test is None or y_test is None:
        raise ValueError("X_test and y_test must be passed together.")
    y_test = _checked_target("y_test", y_test, X_test, loss)
    check_same_kind("y", y, "y_test", y_test)
    return X, y, X_test, y_test, _checked_optimal(optimal, y_test, loss)


def _split_rows(X: Any, y: NDArray[Any], optimal: Any, test_size: float | int, seed: int, loss: str) -> _Rows:
    """Return `_Rows` after a random split of X, y and `optimal`; `seed` determines the split.

    Raises ValueError for fewer than 2 rows or an invalid `test_size`.
    """
    from sklearn.model_selection import train_test_split

    best = _checked_optimal(optimal, y, loss)
    if len(y) < 2:
        raise ValueError(f"y must have at least 2 rows, because some of them are held out; got {len(y)}.")
    (real(0, 1, open_low=True, open_high=True) | whole(1, len(y) - 1)).check("test_size", test_size)
    train, test = train_test_split(np.arange(len(y)), test_size=test_size, random_state=seed)
    return _safe_indexing(X, train), y[train], _safe_indexing(X, test), y[test], best[test]


def _checked_optimal(optimal: Any, y: NDArray[Any], loss: str) -> NDArray[Any]:
    """Return the optimal predictions, or y if None; raise ValueError unless they match y in shape and kind."""
    if optimal is None:
        return y
    values = as_numbers("optimal", optimal) if loss == "squared_error" else as_labels("optimal", optimal)
    if values.shape != y.shape:
        raise ValueError(f"optimal must have one value for each row, {y.shape}; got shape {values.shape}.")
    check_same_kind("y", y, "optimal", values)
    return values


def _fit_and_predict(estimator: Any, X: Any, y: NDArray[Any], X_test: Any, seed: int) -> NDArray[Any]:
    """Return predictions for X_test of a clone of the estimator, fitted to a bootstrap sample of the rows.

    `seed` determines the sample and the `random_state` of the clone, if it has one.
    """
    random = np.random.RandomState(seed)
    sample = random.randint(len(y), size=len(y))
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=int(seed))
    return np.asarray(model.fit(_safe_indexing(X, sample), y[sample]).predict(X_test))


def _squared_parts(predictions: Array, y: NDArray[Any], optimal: NDArray[Any]) -> BiasVariance:
    """Return the decomposition of the squared error of predictions, (n_models, n_rows), for targets y."""
    mean = predictions.mean(axis=0)
    bias, variance = (mean - optimal) ** 2, predictions.var(axis=0)
    noise = (y - optimal) ** 2
    loss = ((predictions - y) ** 2).mean()
    mean_bias, mean_variance, mean_noise = (float(part.mean()) for part in (bias, variance, noise))
    return BiasVariance(float(loss), mean_bias, mean_variance, mean_noise, mean, bias, variance)


def _zero_one_parts(predictions: NDArray[Any], y: NDArray[Any], optimal: NDArray[Any]) -> BiasVariance:
    """Return the decomposition of the zero-one loss of predictions, (n_models, n_rows), for labels y."""
    main = _most_frequent(predictions)
    bias = (main != optimal).astype(np.float64)
    variance = (predictions != main).mean(axis=0)
    right = (predictions == optimal).mean(axis=0)
    # For biased rows, only deviations to the optimal class reduce the loss: c2 V = -P(y = optimal).
    net_variance = np.where(bias > 0, -right, variance)
    # Loss added by a target that differs from the optimal one: P(y = optimal) - P(y = target).
    noise = right - (predictions == y).mean(axis=0)
    loss = (predictions != y).mean()
    return BiasVariance(
        float(loss), float(bias.mean()), float(net_variance.mean()), float(noise.mean()), main, bias, variance
    )


def _most_frequent(predictions: NDArray[Any]) -> NDArray[Any]:
    """Return the most frequent prediction of each row; ties go to the first in sorted order."""
    classes, codes = np.unique(predictions, return_inverse=True)
    codes = codes.reshape(predictions.shape)
    counts = np.stack([(codes == k).sum(axis=0) for k in range(len(classes))])
    return classes[counts.argmax(axis=0)]

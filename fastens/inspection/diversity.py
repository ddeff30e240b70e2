"""Diversity of ensemble members, error curves, and formulas that explain why ensembles work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.elementary import sum_in_order
from fastens.inspection.plotting import (
    COUNT,
    as_labels,
    as_numbers,
    as_truths,
    axes,
    check_same_kind,
    check_same_rows,
    each,
    plain,
    shortened,
    whole_ticks,
)
from fastens.params.rules import Rule, one_of, real

Array = NDArray[np.float64]
MEMBERS = Rule(
    "a non-empty dict that maps members to labels", lambda value: isinstance(value, Mapping) and len(value) > 0
)


def _agreement(first: ArrayLike, second: ArrayLike) -> Array:
    """Return the fractions of rows in a 2 x 2 table: by first voter right, wrong, and second voter right, wrong.

    Both arguments are True for rows that the voter predicts correctly.
    """
    a, b = as_truths("first", first), as_truths("second", second)
    check_same_rows(first=a, second=b)
    counts = np.bincount(2 * ~a + ~b, minlength=4)
    return (counts / counts.sum()).reshape(2, 2)


def disagreement(first: ArrayLike, second: ArrayLike) -> float:
    """Return the fraction of rows that exactly one of two voters gets right.

    Parameters
    ----------
    first, second : bool arrays of shape (n_rows,)
        True where each voter is right.

    Examples
    --------
    >>> from fastens.inspection.diversity import disagreement
    >>> disagreement([True, True, False, False], [True, False, False, True])
    0.5
    """
    both = _agreement(first, second)
    return float(both[0, 1] + both[1, 0])


def q_statistic(first: ArrayLike, second: ArrayLike) -> float:
    """Return Yule's Q of two voters' correctness: 0 if independent, 1 if they err together, -1 if on different rows.

    Parameters
    ----------
    first, second : bool arrays of shape (n_rows,)
        True where each voter is right. The result is NaN if one of them is always right, or always wrong.

    References
    ----------
    Kuncheva & Whitaker (2003), "Measures of diversity in classifier ensembles", eq. 1.

    Examples
    --------
    >>> from fastens.inspection.diversity import q_statistic
    >>> q_statistic([True, True, False, False], [True, False, False, True])
    0.0
    """
    both = _agreement(first, second)
    agreed, differed = both[0, 0] * both[1, 1], both[0, 1] * both[1, 0]
    return float((agreed - differed) / (agreed + differed)) if agreed + differed > 0 else float("nan")


def double_fault(first: ArrayLike, second: ArrayLike) -> float:
    """Return the fraction of rows that both voters get wrong; parameters as in `disagreement`."""
    return float(_agreement(first, second)[1, 1])


def error_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return the correlation of two voters' mistakes; NaN if one never, or always, errs.

    The parameters are as in `disagreement`.
    """
    both = _agreement(first, second)
    right = both.sum(axis=1)[0], both.sum(axis=0)[0]
    spread = np.sqrt(right[0] * (1 - right[0]) * right[1] * (1 - right[1]))
    return float((both[0, 0] - right[0] * right[1]) / spread) if spread > 0 else float("nan")


def kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Return Cohen's kappa of two voters' labels: 1 for full agreement, 0 for agreement by chance.

    Parameters
    ----------
    first, second : arrays of shape (n_rows,)
        Labels that each voter predicts. The result is NaN if both predict a single label for all rows.

    References
    ----------
    Margineantu & Dietterich (1997), "Pruning adaptive boosting".

    Examples
    --------
    >>> from fastens.inspection.diversity import kappa
    >>> kappa(["a", "b", "a", "b"], ["a", "b", "b", "a"])
    0.0
    """
    a, b = as_labels("first", first), as_labels("second", second)
    check_same_rows(first=a, second=b)
    check_same_kind("first", a, "second", b)
    labels = np.unique(np.concatenate([a, b]))
    by_chance = sum_in_order(np.mean(a == label) * np.mean(b == label) for label in labels)
    observed = float(np.mean(a == b))
    return (observed - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


def ambiguity_decomposition(predictions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> dict[str, float]:
    """Decompose the squared error of an average: ensemble error = average error - ambiguity.

    Parameters
    ----------
    predictions : array of shape (n_members, n_rows)
        Predictions of each member.
    y : array of shape (n_rows,)
        The true values.
    weights : array of shape (n_members,), optional
        Weights of the members, which are normalised to sum to 1. If None, all members have equal weights.

    Returns
    -------
    dict
        "ensemble_error", "average_error", and "ambiguity", the weighted variance of the members around their average.

    References
    ----------
    Krogh & Vedelsby (1995), "Neural network ensembles, cross validation, and active learning", eq. 6.

    Examples
    --------
    >>> from fastens.inspection.diversity import ambiguity_decomposition
    >>> ambiguity_decomposition([[1.0, 3.0], [3.0, 5.0]], [2.0, 3.0])
    {'ensemble_error': 0.5, 'average_error': 1.5, 'ambiguity': 1.0}
    """
    predicted, target = as_numbers("predictions", predictions, 2), as_numbers("y", y)
    if predicted.shape[1] != len(target):
        raise ValueError(
            f"predictions must be (n_members, n_rows) and y (n_rows,); got {predicted.shape} and {target.shape}."
        )
    share = np.ones(len(predicted)) if weights is None else as_numbers("weights", weights)
    if len(share) != len(predicted) or share.min() < 0 or share.max() == 0:
        raise ValueError(
            f"weights must have a non-negative number for each of the {len(predicted)} members, and not all 0; got "
            f"{weights!r}."
        )
    share = share / share.max()
    share /= share.sum()
    average = share @ predicted
    return {
        "ensemble_error": float(np.mean((average - target) ** 2)),
        "average_error": float(share @ np.mean((predicted - target) ** 2, axis=1)),
        "ambiguity": float(share @ np.mean((predicted - average) ** 2, axis=1)),
    }


MEASURES = {
    "disagreement": disagreement,
    "q_statistic": q_statistic,
    "double_fault": double_fault,
    "error_correlation": error_correlation,
    "kappa": kappa,
}


def diversity(predictions: Mapping[str, ArrayLike], y: ArrayLike, measure: str = "disagreement") -> Array:
    """Return a diversity measure for every pair of members, shape (n_members, n_members).

    Parameters
    ----------
    predictions : dict of str to array of shape (n_rows,)
        Labels that each member predicts.
    y : array of shape (n_rows,)
        The true labels.
    measure : {"disagreement", "q_statistic", "double_fault", "error_correlation", "kappa"}, default="disagreement"
        Diversity measure.

    Examples
    --------
    >>> from fastens.inspection.diversity import diversity
    >>> diversity({"a": [0, 0, 1, 1], "b": [0, 1, 1, 0]}, [0, 0, 0, 0])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    one_of(*MEASURES).check("measure", measure)
    labels, truth = _checked_labels(predictions, y)
    seen = list(labels.values()) if measure == "kappa" else [predicted == truth for predicted in labels.values()]
    return np.array([[MEASURES[measure](first, second) for second in seen] for first in seen])


def _checked_labels(predictions: Mapping[str, ArrayLike], y: ArrayLike) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the labels of each member, by name, and the true labels.

    Raises ValueError unless they are labels of one kind with equal numbers of rows.
    """
    MEMBERS.check("predictions", predictions)
    truth = as_labels("y", y)
    if truth.dtype.kind == "f" and (fractions := truth[truth % 1 != 0]).size:
        raise ValueError(f"y must hold labels; got {fractions[0]}. Use ambiguity_decomposition for regression.")
    labels = {name: as_labels(f"predictions[{name!r}]", values) for name, values in predictions.items()}
    for name, values in labels.items():
        check_same_rows(**{"y": truth, f"predictions[{name!r}]": values})
        check_same_kind(f"predictions[{name!r}]", values, "y", truth)
    return labels, truth


# Plots --------------------------------------------------


def plot_diversity(
    predictions: Mapping[str, ArrayLike], y: ArrayLike, measure: str = "disagreement", *, ax: Any = None
) -> Any:
    """Plot a diversity measure of every pair of members as a heat map; parameters as in `diversity`.

    Returns
    -------
    matplotlib Axes
    """
    values = diversity(predictions, y, measure)
    names = list(predictions)
    ax = axes(ax, figsize=(2.5 + 0.8 * len(names), 2 + 0.8 * len(names)))
    ends = {"q_statistic": (-1, 1), "error_correlation": (-1, 1), "kappa": (-1, 1)}.get(measure, (0, None))
    image = ax.imshow(values, cmap="RdBu_r" if ends[0] == -1 else "Blues", vmin=ends[0], vmax=ends[1])
    middle = np.nanmax(np.abs(values)) * 0.6 if np.isfinite(values).any() else 0.0
    for row, column in np.ndindex(values.shape):
        colour = "white" if abs(values[row, column]) > middle else "black"
        ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", color=colour)
    texts = [plain(shortened(str(name), 16)) for name in names]
    ax.set_xticks(range(len(names)), texts, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), texts)
    ax.set_title(measure.replace("_", " "))
    ax.figure.colorbar(image, ax=ax)
    return ax


def plot_kappa_error(predictions: Mapping[str, ArrayLike], y: ArrayLike, *, ax: Any = None) -> Any:
    """Plot each pair of members by their agreement (kappa) and their mean error.

    Pairs of good ensembles are at the lower left: few errors and little agreement (Margineantu & Dietterich 1997).

    Returns
    -------
    matplotlib Axes
    """
    labels, truth = _checked_labels(predictions, y)
    if len(labels) < 2:
        raise ValueError(f"predictions must have at least two members, to be compared in pairs; got {list(labels)}.")
    ax = axes(ax, figsize=(6, 4))
    names = list(labels)
    agreement = diversity(predictions, y, "kappa")
    error = [float(np.mean(predicted != truth)) for predicted in labels.values()]
    pairs = list(zip(*np.triu_indices(len(names), 1), strict=True))
    middle = np.nanmean([agreement[pair] for pair in pairs])
    for first, second in pairs:
        x, height = agreement[first, second], (error[first] + error[second]) / 2
        ax.plot(x, height, "o", color="C0")
        side = "right" if x > middle else "left"
        ax.annotate(plain(f"  {names[first]}, {names[second]}  "), (x, height), fontsize="small", ha=side, va="center")
    ax.margins(x=0.1)
    ax.set(xlabel="kappa", ylabel="mean error of the pair", title="Agreement and error of pairs of members")
    return ax


TIES = {"wrong": 1.0, "half": 0.5, "right": 0.0}
SHARE = real(0, 1)
SPREAD = real(0)


# Majorities --------------------------------------------------


def majority_error(n_voters: int, error: ArrayLike, correlation: float = 0.0, ties: str = "half") -> float:
    """Return the probability that a majority of voters is wrong (Condorcet's jury theorem).

    Parameters
    ----------
    n_voters : int
        Number of voters.
    error : float or array of shape (n_voters,)
        Probability that a voter is wrong, from 0 to 1. An array gives one probability for each voter, and requires a
        correlation of 0.
    correlation : float, default=0.0
        Correlation between the mistakes of any two voters, from 0 to 1. The number of mistakes is then beta-binomial:
        all voters have the same error probability on a row, and it varies from row to row.
    ties : {"half", "wrong", "right"}, default="half"
        How a tie of an even number of voters is counted.

    Returns
    -------
    float

    References
    ----------
    Dietterich (2000), "Ensemble methods in machine learning"; Ladha (1992), "The Condorcet jury theorem, free speech,
    and correlated votes".

    Examples
    --------
    >>> from fastens.inspection.diversity import majority_error
    >>> round(majority_error(3, 0.3), 6)
    0.216
    >>> round(majority_error(3, 0.3, correlation=1.0), 6)
    0.3
    """
    one_of(*TIES).check("ties", ties)
    chances = mistakes_distribution(n_voters, error, correlation)
    half = n_voters // 2
    wrong = chances[half + 1 :].sum()
    return float(wrong + TIES[ties] * chances[half]) if n_voters % 2 == 0 else float(wrong)


def mistakes_distribution(n_voters: int, error: ArrayLike, correlation: float = 0.0) -> Array:
    """Return the probabilities that 0, 1, ..., n voters are wrong; parameters as in `majority_error`.

    Examples
    --------
    >>> from fastens.inspection.diversity import mistakes_distribution
    >>> mistakes_distribution(2, 0.5)
    array([0.25, 0.5 , 0.25])
    """
    COUNT.check("n_voters", n_voters)
    SHARE.check("correlation", correlation)
    errors = as_numbers("error", error, min(np.ndim(error), 1))
    if errors.ndim == 1 and len(errors) != n_voters:
        raise ValueError(f"error must be a number or a list of {n_voters} numbers; got shape {errors.shape}.")
    if not ((errors >= 0) & (errors <= 1)).all():
        raise ValueError(f"error must be from 0 to 1; got {error!r}.")
    if errors.ndim == 0 and correlation > 0 and 0 < errors < 1:
        return _mistake_probabilities(n_voters, float(errors), correlation)
    if correlation > 0 and errors.ndim == 1:
        raise ValueError("correlation must be 0 if error lists a different value for each voter.")
    chances = np.ones(1)
    for one in np.broadcast_to(errors, n_voters):
        chances = np.append(chances * (1 - one), 0.0) + np.append(0.0, chances * one)
    return chances


def _mistake_probabilities(n_voters: int, error: float, correlation: float) -> Array:
    """Return the probabilities that 0, 1, ..., n voters err, if each errs with probability `error`.

    `correlation` is the correlation of any two mistakes, 1 / (1 + a + b) of the beta-binomial distribution with the
    parameters a and b. The probabilities are products over the voters of a + i, b + i and a + b + i, each divided by a
    + b, because differences of log gammas lose precision if a and b are large.
    """
    if correlation == 1:
        return np.concatenate([[1 - error], np.zeros(n_voters - 1), [error]])
    n_wrong = np.arange(n_voters)
    steps = n_wrong * (correlation / (1 - correlation))
    orders = _log_products((n_voters - n_wrong) / (n_wrong + 1))
    wrong, right = _log_products(error + steps), _log_products(1 - error + steps)
    chances = np.exp(orders + wrong + right[::-1] - _log_products(1 + steps)[-1])
    return np.asarray(chances / chances.sum())


def _log_products(factors: NDArray[Any]) -> Array:
    """Return the logarithms of the products of the first 0, 1, ..., n factors."""
    return np.append(0.0, np.cumsum(np.log(factors)))


# Averages and bootstrap samples --------------------------------------------------


def average_variance(variance: float, n_members: int, correlation: float = 0.0) -> float:
    """Return the variance of the average of members: rho s^2 + (1 - rho) s^2 / k.

    Parameters
    ----------
    variance : float
        Variance of a single member's prediction.
    n_members : int
        Number of members that are averaged.
    correlation : float, default=0.0
        Correlation between the predictions of any two members; at least -1 / (n_members - 1), the lowest possible
        value.

    Raises
    ------
    ValueError
        If the variance is negative, the number of members is not a positive integer, or the correlation is impossible.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The elements of statistical learning", eq. 15.1.

    Examples
    --------
    >>> from fastens.inspection.diversity import average_variance
    >>> average_variance(1.0, 4), average_variance(1.0, 4, correlation=0.5)
    (0.25, 0.625)
    """
    COUNT.check("n_members", n_members)
    SPREAD.check("variance", variance)
    lowest = -1.0 if n_members == 1 else -1 / (n_members - 1)
    if not real(lowest, 1).holds(correlation):
        raise ValueError(f"correlation must be from {lowest:g} to 1 for {n_members} members; got {correlation!r}.")
    return max(float(correlation * variance + (1 - correlation) * variance / n_members), 0.0)


def oob_share(n_rows: ArrayLike) -> Any:
    """Return the expected fraction of rows outside a bootstrap sample, (1 - 1/n)^n, which tends to 1/e.

    Parameters
    ----------
    n_rows : int or array
        Number of rows.

    Examples
    --------
    >>> from fastens.inspection.diversity import oob_share
    >>> round(oob_share(10), 4), round(oob_share(10**9), 4)
    (0.3487, 0.3679)
    """
    n = as_numbers("n_rows", n_rows, np.ndim(n_rows))
    if not ((n >= 1) & (n % 1 == 0)).all():
        raise ValueError(f"n_rows must be an integer of at least 1; got {n_rows!r}.")
    # Powers of numbers near 1 are computed as exponentials to keep precision.
    with np.errstate(divide="ignore"):
        share = np.exp(n * np.log1p(-1 / n))
    return float(share) if share.ndim == 0 else share


# Plots --------------------------------------------------


def plot_majority_error(
    error: float = 0.3, correlations: Sequence[float] = (0.0, 0.1, 0.3, 0.6), n_voters: int = 51, *, ax: Any = None
) -> Any:
    """Plot the error of a majority against the number of voters, with a line for each correlation of mistakes.

    Parameters
    ----------
    error : float, default=0.3
        Error probability of a single voter.
    correlations : sequence of float
        Correlations between the mistakes of any two voters.
    n_voters : int, default=51
        Maximum number of voters. Only odd numbers are plotted, which have no ties.
    ax : matplotlib Axes, optional
        Axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes
    """
    COUNT.check("n_voters", n_voters)
    SHARE.check("error", error)
    each(SHARE).check("correlations", correlations)
    ax = axes(ax, figsize=(6, 4))
    sizes = np.arange(1, n_voters + 1, 2)
    for correlation in correlations:
        wrong = [majority_error(int(n), error, correlation) for n in sizes]
        ax.plot(sizes, wrong, marker=".", label=f"correlation {correlation:g}")
    ax.axhline(error, color="grey", linestyle="--", linewidth=1, label="a single voter")
    ax.set(xlabel="voters", ylabel="probability of a wrong majority", title=f"Majority of voters of error {error:g}")
    ax.set_ylim(0, max(error, 0.01) * 1.7)
    ax.legend(loc="upper right", ncols=2)
    return ax


def plot_average_variance(
    variance: float = 1.0, correlations: Sequence[float] = (0.0, 0.1, 0.3, 0.6), n_members: int = 50, *, ax: Any = None
) -> Any:
    """Plot the variance of an average against the number of members, with a line for each correlation.

    Parameters
    ----------
    variance : float, default=1.0
        Variance of a single member.
    correlations : sequence of float
        Correlations between any two members.
    n_members : int, default=50
        Maximum number of members.
    ax : matplotlib Axes, optional
        Axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes
    """
    COUNT.check("n_members", n_members)
    SPREAD.check("variance", variance)
    each(SHARE).check("correlations", correlations)
    ax = axes(ax, figsize=(6, 4))
    sizes = np.arange(1, n_members + 1)
    for correlation in correlations:
        (line,) = ax.plot(
            sizes,
            [average_variance(variance, int(n), correlation) for n in sizes],
            label=f"correlation {correlation:g}",
        )
        ax.axhline(correlation * variance, color=line.get_color(), linestyle=":", linewidth=1)
    ax.set(
        xlabel="members",
        ylabel="variance of the average",
        title="Averaging removes the errors that members do not share",
    )
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def plot_oob_share(n_rows: int = 1000, *, ax: Any = None) -> Any:
    """Plot the fraction of rows outside a bootstrap sample against the number of rows, up to `n_rows`.

    Returns
    -------
    matplotlib Axes
    """
    COUNT.check("n_rows", n_rows)
    ax = axes(ax, figsize=(6, 4))
    sizes = np.unique(np.geomspace(1, n_rows, 200).round())
    ax.plot(sizes, oob_share(sizes))
    ax.axhline(np.exp(-1), color="grey", linestyle="--", linewidth=1, label="1/e = 0.368")
    ax.set(xscale="log", xlabel="rows", ylabel="share out of bag", title="Rows outside a bootstrap sample")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def staged_errors(
    estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the misclassification rate after each round, (n_rounds,), from `staged_score`."""
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
    """Plot the error after each round, and the bound on the training error if the estimator has one.

    Raises ValueError if only one of `X_val` and `y_val` is given.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import AdaBoostClassifier
    >>> from fastens.inspection.diversity import plot_errors
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=10).fit(X[::2], y[::2])
    >>> [line.get_label() for line in plot_errors(model, X[::2], y[::2], X_val=X[1::2], y_val=y[1::2]).lines]
    ['training rows', 'validation rows', 'bound of the training error']
    """
    if (X_val is None) != (y_val is None):
        passed, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
        raise ValueError(f"X_val and y_val must be passed together; got {passed} without {missing}.")
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
    """Return the bound on the training error after each round, or None if the estimator has none."""
    try:
        return np.asarray(estimator.training_error_bound()[: estimator.n_estimators_])
    except (AttributeError, ValueError):
        return None

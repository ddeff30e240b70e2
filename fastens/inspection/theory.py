"""Why ensembles work, in small exact formulas: errors of majorities, variances of averages, diversity of members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import betabinom

from fastens.inspection.plotting import axes

Array = NDArray[np.float64]

TIES = {"wrong": 1.0, "half": 0.5, "right": 0.0}


# Majorities --------------------------------------------------


def majority_error(n_voters: int, error: ArrayLike, correlation: float = 0.0, ties: str = "half") -> float:
    """Return the probability that a majority of voters is wrong (Condorcet's jury theorem).

    Parameters
    ----------
    n_voters : int
        How many vote.
    error : float or array of shape (n_voters,)
        The probability that a voter is wrong, from 0 to 1; one for each where they differ, which must not be correlated
        then.
    correlation : float, default=0.0
        Between the mistakes of any two voters, from 0 to 1. The number of mistakes is then beta-binomial: the voters
        are alike, and their chance of a mistake on a row varies from row to row.
    ties : {"half", "wrong", "right"}, default="half"
        What a tie of an even number of voters counts as.

    Returns
    -------
    float

    References
    ----------
    Dietterich (2000), "Ensemble methods in machine learning"; Ladha (1992), "The Condorcet jury theorem, free speech,
    and correlated votes".

    Examples
    --------
    >>> from fastens.inspection.theory import majority_error
    >>> round(majority_error(3, 0.3), 6)
    0.216
    >>> round(majority_error(3, 0.3, correlation=1.0), 6)
    0.3
    """
    chances = mistakes_distribution(n_voters, error, correlation)
    if ties not in TIES:
        raise ValueError(f"ties must be one of {', '.join(map(repr, TIES))}; got {ties!r}.")
    half = n_voters // 2
    wrong = chances[half + 1 :].sum()
    return float(wrong + TIES[ties] * chances[half]) if n_voters % 2 == 0 else float(wrong)


def mistakes_distribution(n_voters: int, error: ArrayLike, correlation: float = 0.0) -> Array:
    """Return the probabilities that 0, 1, ..., n voters are wrong; parameters as for `majority_error`.

    Examples
    --------
    >>> from fastens.inspection.theory import mistakes_distribution
    >>> mistakes_distribution(2, 0.5)
    array([0.25, 0.5 , 0.25])
    """
    if type(n_voters) is bool or not isinstance(n_voters, int | np.integer) or n_voters < 1:
        raise ValueError(f"n_voters must be a whole number of at least 1; got {n_voters!r}.")
    errors = np.asarray(error, dtype=np.float64)
    if errors.ndim > 1 or (errors.ndim == 1 and len(errors) != n_voters):
        raise ValueError(f"error must be a number, or {n_voters} of them; got shape {errors.shape}.")
    if not ((errors >= 0) & (errors <= 1)).all():
        raise ValueError(f"error must be from 0 to 1; got {error!r}.")
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation must be a number from 0 to 1; got {correlation!r}.")
    if errors.ndim == 0 and correlation > 0 and 0 < errors < 1:
        return _correlated(n_voters, float(errors), correlation)
    if correlation > 0 and errors.ndim == 1:
        raise ValueError("correlation must be 0 where the voters have errors of their own.")
    chances = np.ones(1)
    for one in np.broadcast_to(errors, n_voters):
        chances = np.append(chances * (1 - one), 0.0) + np.append(0.0, chances * one)
    return chances


def _correlated(n_voters: int, error: float, correlation: float) -> Array:
    """Beta-binomial: the correlation of any two mistakes is 1 / (1 + a + b)."""
    if correlation == 1:
        return np.concatenate([[1 - error], np.zeros(n_voters - 1), [error]])
    both = (1 - correlation) / correlation
    return np.asarray(betabinom.pmf(np.arange(n_voters + 1), n_voters, error * both, (1 - error) * both))


# Averages and bootstrap samples --------------------------------------------------


def average_variance(variance: float, n_members: int, correlation: float = 0.0) -> float:
    """Return the variance of the average of members: rho s^2 + (1 - rho) s^2 / k.

    Parameters
    ----------
    variance : float
        Of a single member's prediction.
    n_members : int
        How many are averaged.
    correlation : float, default=0.0
        Between the predictions of any two; at least -1 / (n_members - 1), or there are no such members.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The elements of statistical learning", eq. 15.1.

    Examples
    --------
    >>> from fastens.inspection.theory import average_variance
    >>> average_variance(1.0, 4), average_variance(1.0, 4, correlation=0.5)
    (0.25, 0.625)
    """
    if n_members < 1:
        raise ValueError(f"n_members must be a whole number of at least 1; got {n_members!r}.")
    lowest = -1.0 if n_members == 1 else -1 / (n_members - 1)
    if not lowest <= correlation <= 1:
        raise ValueError(f"correlation must be from {lowest:g} to 1 for {n_members} members; got {correlation!r}.")
    return float(correlation * variance + (1 - correlation) * variance / n_members)


def oob_share(n_rows: ArrayLike) -> Any:
    """Return the expected share of rows outside a bootstrap sample, (1 - 1/n)^n, which tends to 1/e.

    Parameters
    ----------
    n_rows : int or array
        Number of rows.

    Examples
    --------
    >>> from fastens.inspection.theory import oob_share
    >>> round(oob_share(10), 4), round(oob_share(10**9), 4)
    (0.3487, 0.3679)
    """
    n = np.asarray(n_rows, dtype=np.float64)
    if not (n >= 1).all():
        raise ValueError(f"n_rows must be at least 1; got {n_rows!r}.")
    # The powers of numbers near 1 keep their digits as exponentials.
    with np.errstate(divide="ignore"):
        share = np.exp(n * np.log1p(-1 / n))
    return float(share) if share.ndim == 0 else share


# Diversity --------------------------------------------------


def _agreement(first: ArrayLike, second: ArrayLike, weight: ArrayLike | None = None) -> Array:
    """The shares of rows that both, only the first, only the second, or none of two voters get right: 2 x 2."""
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise ValueError(f"both voters must have the same rows; got shapes {a.shape} and {b.shape}.")
    counts = np.bincount(2 * ~a + ~b, weights=weight, minlength=4)
    return (counts / counts.sum()).reshape(2, 2)


def disagreement(first: ArrayLike, second: ArrayLike) -> float:
    """Return the share of rows that only one of two voters gets right.

    Parameters
    ----------
    first, second : bool arrays of shape (n_rows,)
        Whether each voter is right.

    Examples
    --------
    >>> from fastens.inspection.theory import disagreement
    >>> disagreement([True, True, False, False], [True, False, False, True])
    0.5
    """
    both = _agreement(first, second)
    return float(both[0, 1] + both[1, 0])


def q_statistic(first: ArrayLike, second: ArrayLike) -> float:
    """Return Yule's Q of two voters' correctness: 0 for independent ones, 1 where they err together, -1 in turn.

    Parameters
    ----------
    first, second : bool arrays of shape (n_rows,)
        Whether each voter is right. NaN where one of them is always right, or always wrong.

    References
    ----------
    Kuncheva & Whitaker (2003), "Measures of diversity in classifier ensembles", eq. 1.

    Examples
    --------
    >>> from fastens.inspection.theory import q_statistic
    >>> q_statistic([True, True, False, False], [True, False, False, True])
    0.0
    """
    both = _agreement(first, second)
    alike, unlike = both[0, 0] * both[1, 1], both[0, 1] * both[1, 0]
    return float((alike - unlike) / (alike + unlike)) if alike + unlike > 0 else float("nan")


def double_fault(first: ArrayLike, second: ArrayLike) -> float:
    """Return the share of rows that both of two voters get wrong; parameters as for `disagreement`."""
    return float(_agreement(first, second)[1, 1])


def error_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return the correlation of two voters' mistakes, NaN where one has none; parameters as for `disagreement`."""
    both = _agreement(first, second)
    right = both.sum(axis=1)[0], both.sum(axis=0)[0]
    spread = np.sqrt(right[0] * (1 - right[0]) * right[1] * (1 - right[1]))
    return float((both[0, 0] - right[0] * right[1]) / spread) if spread > 0 else float("nan")


def kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Return Cohen's kappa of two voters' labels: 1 where they agree, 0 where they do so by chance.

    Parameters
    ----------
    first, second : arrays of shape (n_rows,)
        The labels that each voter predicts.

    References
    ----------
    Margineantu & Dietterich (1997), "Pruning adaptive boosting".

    Examples
    --------
    >>> from fastens.inspection.theory import kappa
    >>> kappa(["a", "b", "a", "b"], ["a", "b", "b", "a"])
    0.0
    """
    a, b = np.asarray(first), np.asarray(second)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise ValueError(f"both voters must have the same rows; got shapes {a.shape} and {b.shape}.")
    labels = np.unique(np.concatenate([a, b]))
    by_chance = sum(float(np.mean(a == label) * np.mean(b == label)) for label in labels)
    observed = float(np.mean(a == b))
    return (observed - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


def ambiguity_decomposition(predictions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> dict[str, float]:
    """Take the squared error of an average apart: error of the average = average error - ambiguity.

    Parameters
    ----------
    predictions : array of shape (n_members, n_rows)
        What each member predicts.
    y : array of shape (n_rows,)
        The true values.
    weights : array of shape (n_members,), optional
        Weights of the members; they are made to sum to 1.

    Returns
    -------
    dict
        "ensemble_error", "average_error", and "ambiguity", the weighted variance of the members around their average.

    References
    ----------
    Krogh & Vedelsby (1995), "Neural network ensembles, cross validation, and active learning", eq. 6.

    Examples
    --------
    >>> from fastens.inspection.theory import ambiguity_decomposition
    >>> ambiguity_decomposition([[1.0, 3.0], [3.0, 5.0]], [2.0, 3.0])
    {'ensemble_error': 0.5, 'average_error': 1.5, 'ambiguity': 1.0}
    """
    found, target = np.asarray(predictions, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if found.ndim != 2 or target.shape != (found.shape[1],):
        raise ValueError(
            f"predictions must be (n_members, n_rows) and y (n_rows,); got {found.shape} and {target.shape}."
        )
    share = np.ones(len(found)) if weights is None else np.asarray(weights, dtype=np.float64)
    share = share / share.sum()
    average = share @ found
    return {
        "ensemble_error": float(np.mean((average - target) ** 2)),
        "average_error": float(share @ np.mean((found - target) ** 2, axis=1)),
        "ambiguity": float(share @ np.mean((found - average) ** 2, axis=1)),
    }


MEASURES = {
    "disagreement": disagreement,
    "q_statistic": q_statistic,
    "double_fault": double_fault,
    "error_correlation": error_correlation,
    "kappa": kappa,
}


def diversity(predictions: Mapping[str, ArrayLike], y: ArrayLike, measure: str = "disagreement") -> Array:
    """Return a measure of every pair of members, (n_members, n_members).

    Parameters
    ----------
    predictions : dict of str to array of shape (n_rows,)
        The labels that each member predicts.
    y : array of shape (n_rows,)
        The true labels.
    measure : {"disagreement", "q_statistic", "double_fault", "error_correlation", "kappa"}, default="disagreement"
        What to measure.

    Examples
    --------
    >>> from fastens.inspection.theory import diversity
    >>> diversity({"a": [0, 0, 1, 1], "b": [0, 1, 1, 0]}, [0, 0, 0, 0])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(map(repr, MEASURES))}; got {measure!r}.")
    labels = [np.asarray(found) for found in predictions.values()]
    seen = labels if measure == "kappa" else [found == np.asarray(y) for found in labels]
    return np.array([[MEASURES[measure](first, second) for second in seen] for first in seen])


# Plots --------------------------------------------------


def plot_majority_error(
    error: float = 0.3, correlations: Sequence[float] = (0.0, 0.1, 0.3, 0.6), n_voters: int = 51, *, ax: Any = None
) -> Any:
    """Draw the error of a majority against the number of voters, a line for each correlation of their mistakes.

    Parameters
    ----------
    error : float, default=0.3
        Of a single voter.
    correlations : sequence of float
        Between the mistakes of any two.
    n_voters : int, default=51
        Most voters; odd numbers are drawn, which have no ties.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
    """
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
    """Draw the variance of an average against the number of members, a line for each correlation.

    Parameters
    ----------
    variance : float, default=1.0
        Of a single member.
    correlations : sequence of float
        Between any two members.
    n_members : int, default=50
        Most members.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
    """
    ax = axes(ax, figsize=(6, 4))
    sizes = np.arange(1, n_members + 1)
    for correlation in correlations:
        (line,) = ax.plot(
            sizes,
            [average_variance(variance, int(n), correlation) for n in sizes],
            label=f"correlation {correlation:g}",
        )
        ax.axhline(correlation * variance, color=line.get_color(), linestyle=":", linewidth=1)
    ax.set(xlabel="members", ylabel="variance of the average", title="Averaging removes what members do not share")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def plot_oob_share(n_rows: int = 1000, *, ax: Any = None) -> Any:
    """Draw the share of rows outside a bootstrap sample against the number of rows, up to `n_rows`.

    Returns
    -------
    matplotlib Axes
    """
    ax = axes(ax, figsize=(6, 4))
    sizes = np.unique(np.geomspace(1, n_rows, 200).round())
    ax.plot(sizes, oob_share(sizes))
    ax.axhline(np.exp(-1), color="grey", linestyle="--", linewidth=1, label="1/e = 0.368")
    ax.set(xscale="log", xlabel="rows", ylabel="share out of bag", title="Rows outside a bootstrap sample")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def plot_diversity(
    predictions: Mapping[str, ArrayLike], y: ArrayLike, measure: str = "disagreement", *, ax: Any = None
) -> Any:
    """Draw a measure of every pair of members as a table of colours; parameters as for `diversity`.

    Returns
    -------
    matplotlib Axes
    """
    values = diversity(predictions, y, measure)
    names = list(predictions)
    ax = axes(ax, figsize=(1.5 + 0.8 * len(names), 1 + 0.8 * len(names)))
    ends = {"q_statistic": (-1, 1), "error_correlation": (-1, 1), "kappa": (-1, 1)}.get(measure, (0, None))
    image = ax.imshow(values, cmap="RdBu_r" if ends[0] == -1 else "Blues", vmin=ends[0], vmax=ends[1])
    middle = np.nanmax(np.abs(values)) * 0.6 if np.isfinite(values).any() else 0.0
    for row, column in np.ndindex(values.shape):
        colour = "white" if abs(values[row, column]) > middle else "black"
        ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set_title(measure.replace("_", " "))
    ax.figure.colorbar(image, ax=ax)
    return ax


def plot_kappa_error(predictions: Mapping[str, ArrayLike], y: ArrayLike, *, ax: Any = None) -> Any:
    """Draw each pair of members by how far they agree (kappa) and how often they err on average.

    Good ensembles have their pairs at the lower left: few errors, little agreement (Margineantu & Dietterich 1997).

    Returns
    -------
    matplotlib Axes
    """
    ax = axes(ax, figsize=(6, 4))
    names = list(predictions)
    agreement = diversity(predictions, y, "kappa")
    error = [float(np.mean(np.asarray(found) != np.asarray(y))) for found in predictions.values()]
    pairs = list(zip(*np.triu_indices(len(names), 1), strict=True))
    middle = np.nanmean([agreement[pair] for pair in pairs])
    for first, second in pairs:
        x, height = agreement[first, second], (error[first] + error[second]) / 2
        ax.plot(x, height, "o", color="C0")
        side = "right" if x > middle else "left"
        ax.annotate(f"  {names[first]}, {names[second]}  ", (x, height), fontsize="small", ha=side, va="center")
    ax.margins(x=0.1)
    ax.set(xlabel="kappa", ylabel="mean error of the pair", title="Agreement and error of pairs of members")
    return ax

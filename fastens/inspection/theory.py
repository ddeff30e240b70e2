"""Why ensembles work, in small exact formulas: errors of majorities, variances of averages, diversity of members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.inspection.arguments import COUNT, as_numbers, each
from fastens.inspection.diversity import (
    ambiguity_decomposition,
    disagreement,
    diversity,
    double_fault,
    error_correlation,
    kappa,
    plot_diversity,
    plot_kappa_error,
    q_statistic,
)
from fastens.inspection.plotting import axes
from fastens.parameters import one_of, real

__all__ = [
    "ambiguity_decomposition",
    "average_variance",
    "disagreement",
    "diversity",
    "double_fault",
    "error_correlation",
    "kappa",
    "majority_error",
    "mistakes_distribution",
    "oob_share",
    "plot_average_variance",
    "plot_diversity",
    "plot_kappa_error",
    "plot_majority_error",
    "plot_oob_share",
    "q_statistic",
]

Array = NDArray[np.float64]

TIES = {"wrong": 1.0, "half": 0.5, "right": 0.0}
SHARE = real(0, 1)
SPREAD = real(0)


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
    one_of(*TIES).check("ties", ties)
    chances = mistakes_distribution(n_voters, error, correlation)
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
    COUNT.check("n_voters", n_voters)
    SHARE.check("correlation", correlation)
    errors = as_numbers("error", error, min(np.ndim(error), 1))
    if errors.ndim == 1 and len(errors) != n_voters:
        raise ValueError(f"error must be a number, or {n_voters} of them; got shape {errors.shape}.")
    if not ((errors >= 0) & (errors <= 1)).all():
        raise ValueError(f"error must be from 0 to 1; got {error!r}.")
    if errors.ndim == 0 and correlation > 0 and 0 < errors < 1:
        return _correlated(n_voters, float(errors), correlation)
    if correlation > 0 and errors.ndim == 1:
        raise ValueError("correlation must be 0 where the voters have errors of their own.")
    chances = np.ones(1)
    for one in np.broadcast_to(errors, n_voters):
        chances = np.append(chances * (1 - one), 0.0) + np.append(0.0, chances * one)
    return chances


def _correlated(n_voters: int, error: float, correlation: float) -> Array:
    """Beta-binomial: the correlation of any two mistakes is 1 / (1 + a + b).

    As products over the voters, of a + i, b + i and a + b + i, each times 1 / (a + b): differences of log gammas lose
    their digits where a and b are large.
    """
    if correlation == 1:
        return np.concatenate([[1 - error], np.zeros(n_voters - 1), [error]])
    places = np.arange(n_voters)
    steps = places * (correlation / (1 - correlation))
    orders = _log_products((n_voters - places) / (places + 1))
    wrong, right = _log_products(error + steps), _log_products(1 - error + steps)
    chances = np.exp(orders + wrong + right[::-1] - _log_products(1 + steps)[-1])
    return np.asarray(chances / chances.sum())


def _log_products(factors: NDArray[Any]) -> Array:
    """Logarithms of the products of the first 0, 1, ..., n factors."""
    return np.append(0.0, np.cumsum(np.log(factors)))


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

    Raises
    ------
    ValueError
        For a negative variance, a number of members that is not whole, or a correlation that they cannot have.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The elements of statistical learning", eq. 15.1.

    Examples
    --------
    >>> from fastens.inspection.theory import average_variance
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
    n = as_numbers("n_rows", n_rows, np.ndim(n_rows))
    if not ((n >= 1) & (n % 1 == 0)).all():
        raise ValueError(f"n_rows must be at least 1, and whole; got {n_rows!r}.")
    # The powers of numbers near 1 keep their digits as exponentials.
    with np.errstate(divide="ignore"):
        share = np.exp(n * np.log1p(-1 / n))
    return float(share) if share.ndim == 0 else share


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
    COUNT.check("n_rows", n_rows)
    ax = axes(ax, figsize=(6, 4))
    sizes = np.unique(np.geomspace(1, n_rows, 200).round())
    ax.plot(sizes, oob_share(sizes))
    ax.axhline(np.exp(-1), color="grey", linestyle="--", linewidth=1, label="1/e = 0.368")
    ax.set(xscale="log", xlabel="rows", ylabel="share out of bag", title="Rows outside a bootstrap sample")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax

"""How far the members of an ensemble differ, pair by pair and taken together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.elementary import sum_in_order
from fastens.inspection.arguments import as_labels, as_numbers, as_truths, check_same_kind, check_same_rows
from fastens.inspection.plotting import axes, plain, shortened
from fastens.parameters import Rule, one_of

Array = NDArray[np.float64]
MEMBERS = Rule(
    "a dict of labels by member, of at least one", lambda value: isinstance(value, Mapping) and len(value) > 0
)


def _agreement(first: ArrayLike, second: ArrayLike) -> Array:
    """The shares of rows that both, only the first, only the second, or none of two voters get right: 2 x 2."""
    a, b = as_truths("first", first), as_truths("second", second)
    check_same_rows(first=a, second=b)
    counts = np.bincount(2 * ~a + ~b, minlength=4)
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
    agreed, differed = both[0, 0] * both[1, 1], both[0, 1] * both[1, 0]
    return float((agreed - differed) / (agreed + differed)) if agreed + differed > 0 else float("nan")


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
        The labels that each voter predicts. NaN where both predict one and the same label for all rows.

    References
    ----------
    Margineantu & Dietterich (1997), "Pruning adaptive boosting".

    Examples
    --------
    >>> from fastens.inspection.theory import kappa
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
    """Decompose the squared error of an average: error of the average = average error - ambiguity.

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
    found, target = as_numbers("predictions", predictions, 2), as_numbers("y", y)
    if found.shape[1] != len(target):
        raise ValueError(
            f"predictions must be (n_members, n_rows) and y (n_rows,); got {found.shape} and {target.shape}."
        )
    share = np.ones(len(found)) if weights is None else as_numbers("weights", weights)
    if len(share) != len(found) or share.min() < 0 or share.max() == 0:
        raise ValueError(
            f"weights must have a number for each of the {len(found)} members, none negative and not all 0; "
            f"got {weights!r}."
        )
    share = share / share.max()
    share /= share.sum()
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
    one_of(*MEASURES).check("measure", measure)
    labels, truth = _labels_of(predictions, y)
    seen = list(labels.values()) if measure == "kappa" else [found == truth for found in labels.values()]
    return np.array([[MEASURES[measure](first, second) for second in seen] for first in seen])


def _labels_of(predictions: Mapping[str, ArrayLike], y: ArrayLike) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """The labels that each member predicts and the true ones, of as many rows."""
    MEMBERS.check("predictions", predictions)
    truth = as_labels("y", y)
    if truth.dtype.kind == "f" and (fractions := truth[truth % 1 != 0]).size:
        raise ValueError(f"y must hold labels; it holds {fractions[0]}. ambiguity_decomposition is for numbers.")
    labels = {name: as_labels(f"predictions[{name!r}]", found) for name, found in predictions.items()}
    for name, found in labels.items():
        check_same_rows(**{"y": truth, f"predictions[{name!r}]": found})
        check_same_kind(f"predictions[{name!r}]", found, "y", truth)
    return labels, truth


# Plots --------------------------------------------------


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
    """Draw each pair of members by how far they agree (kappa) and how often they err on average.

    Good ensembles have their pairs at the lower left: few errors, little agreement (Margineantu & Dietterich 1997).

    Returns
    -------
    matplotlib Axes
    """
    labels, truth = _labels_of(predictions, y)
    if len(labels) < 2:
        raise ValueError(f"predictions must have at least two members, to be compared in pairs; got {list(labels)}.")
    ax = axes(ax, figsize=(6, 4))
    names = list(labels)
    agreement = diversity(predictions, y, "kappa")
    error = [float(np.mean(found != truth)) for found in labels.values()]
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

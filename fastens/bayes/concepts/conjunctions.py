"""Conjunctions of attribute constraints: hypotheses, their partial order and brute-force learning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.bayes.posterior import check_prior, normalised
from fastens.engine.elementary import xlog1py, xlogy
from fastens.params.rules import PROBABILITY, real, whole
from fastens.table.arrays import dense
from fastens.table.columns.factorize import is_missing
from fastens.table.tables import table_over


class _Any:
    """Constraint that every value satisfies: a singleton that differs from all values of a table.

    Examples
    --------
    >>> from fastens import ANY, Conjunction
    >>> Conjunction(("sunny", ANY)) >= Conjunction(("sunny", "warm"))
    True
    """

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> str:
        return "ANY"


ANY = _Any()


@dataclass(frozen=True)
class Conjunction:
    """Hypothesis that requires a value, or accepts `ANY` value, for each attribute.

    ``h >= g`` means that h is at least as general as g: every instance that satisfies g also satisfies h. This partial
    order is exact if every attribute has at least two values.

    Parameters
    ----------
    values : tuple, list or None
        Required value of each attribute, or `ANY`. If None, the hypothesis rejects every instance. The string "?" is an
        ordinary value and is printed in quotes; `ANY` is printed as ? without quotes.

    Raises
    ------
    ValueError
        If an entry is missing or not a scalar, or if hypotheses with different numbers of attributes are compared.

    Examples
    --------
    >>> from fastens import ANY, Conjunction
    >>> specific, general = Conjunction(("sunny", "warm", ANY)), Conjunction(("sunny", ANY, ANY))
    >>> general > specific, specific >= general
    (True, False)
    >>> general.covers([["sunny", "cold", "strong"], ["rainy", "cold", "strong"]])
    array([ True, False])
    >>> specific, Conjunction(("sunny", "warm", "?"))
    (<sunny, warm, ?>, <sunny, warm, '?'>)
    """

    values: tuple[Any, ...] | None

    def __post_init__(self) -> None:
        if self.values is None:
            return
        if not isinstance(self.values, tuple | list):
            raise ValueError(
                f"values must be None or a tuple with a value or ANY for each attribute; got {self.values!r}."
            )
        for value in self.values:
            if is_missing(value) or not isinstance(value, Hashable):
                raise ValueError(
                    "values must hold a value for each attribute, or ANY where the attribute is not "
                    f"constrained; got {value!r}."
                )
        object.__setattr__(self, "values", tuple(self.values))

    def __repr__(self) -> str:
        return "<nothing>" if self.values is None else f"<{', '.join(map(_format_value, self.values))}>"

    def __len__(self) -> int:
        """Number of constraints."""
        return sum(value is not ANY for value in self.values or ())

    def __bool__(self) -> bool:
        return True

    def __ge__(self, other: Conjunction) -> bool:
        if not isinstance(other, Conjunction):
            return NotImplemented
        if other.values is None or self.values is None:
            return other.values is None
        if len(self.values) != len(other.values):
            raise ValueError(
                f"hypotheses must have the same number of attributes to be compared; got {self!r} with "
                f"{len(self.values)} and {other!r} with {len(other.values)}."
            )
        return all(mine is ANY or mine == its for mine, its in zip(self.values, other.values, strict=True))

    def __gt__(self, other: Conjunction) -> bool:
        return self >= other and not other >= self if isinstance(other, Conjunction) else NotImplemented

    def __le__(self, other: Conjunction) -> bool:
        return other >= self if isinstance(other, Conjunction) else NotImplemented

    def __lt__(self, other: Conjunction) -> bool:
        return other > self if isinstance(other, Conjunction) else NotImplemented

    def covers(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Return a mask of the instances that satisfy the hypothesis; missing values only satisfy `ANY`."""
        rows = _rows_of_objects(X)
        if self.values is None:
            return np.zeros(len(rows), dtype=bool)
        if rows.shape[1] != len(self.values):
            raise ValueError(
                f"X must have {len(self.values)} columns, one for each attribute of the "
                f"hypothesis; got {rows.shape[1]}."
            )
        covered = np.ones(len(rows), dtype=bool)
        for column, value in zip(rows.T, self.values, strict=True):
            if value is not ANY:
                covered &= np.array([not is_missing(cell) and cell == value for cell in column.tolist()], dtype=bool)
        return covered

    def is_consistent(self, X: ArrayLike, is_positive: ArrayLike) -> bool:
        """Return True if h(x) = c(x) for all examples; `is_positive` holds c(x) as booleans, or 1 and 0."""
        covered = self.covers(X)
        return bool((covered == _truth_values("is_positive", is_positive, len(covered))).all())


def _format_value(value: Any) -> str:
    """Return a value as hypotheses print it; strings that look like something else are quoted."""
    if not isinstance(value, str):
        return str(value)
    is_plain = value == value.strip() and value not in ("", "?", "True", "False") and "," not in value
    return value if is_plain and not _is_number_text(value) else repr(value)


def _is_number_text(text: str) -> bool:
    """Return True if the text is a number, such as "1.5" or "nan"."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_list(value: Any) -> bool:
    """Return True for sequences and arrays other than strings."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


NOTHING = Conjunction(None)


class SpaceSizes(NamedTuple):
    """Numbers of instances, of syntactically distinct hypotheses and of semantically distinct hypotheses."""

    instances: int
    syntactic: int
    semantic: int


def space_sizes(n_values: Sequence[int]) -> SpaceSizes:
    """Count instances and conjunctions over attributes with the given numbers of values.

    Examples
    --------
    >>> from fastens.bayes.concepts.conjunctions import space_sizes
    >>> space_sizes([3, 2, 2, 2, 2, 2])  # EnjoySport, Mitchell (1997), chapter 2
    SpaceSizes(instances=96, syntactic=5120, semantic=973)
    """
    if not _is_list(n_values):
        raise ValueError(f"n_values must be a list with the number of values of each attribute; got {n_values!r}.")
    for size in n_values:
        whole(1).check("each of n_values", size)
    return SpaceSizes(math.prod(n_values), math.prod(n + 2 for n in n_values), 1 + math.prod(n + 1 for n in n_values))


def all_conjunctions(categories: Sequence[Sequence[Any]]) -> Iterator[Conjunction]:
    """Yield every conjunction over attributes with the given values, starting with the one that covers nothing.

    Parameters
    ----------
    categories : sequence of sequences
        The values of each attribute.

    Returns
    -------
    iterator of Conjunction
        All 1 + prod(n + 1) conjunctions over attributes with n values.

    Raises
    ------
    ValueError
        If `categories` does not hold a list of distinct values for each attribute.

    Examples
    --------
    >>> from fastens import all_conjunctions
    >>> list(all_conjunctions([["sun", "rain"]]))
    [<nothing>, <sun>, <rain>, <?>]
    """
    if not _is_list(categories):
        raise ValueError(f"categories must be a list with one list of values for each attribute; got {categories!r}.")
    for number, values in enumerate(categories):
        if not _is_list(values) or len(set(values)) < len(values):
            raise ValueError(
                f"categories must have a list of distinct values for each attribute; got {values!r} at index {number}."
            )
    choices = itertools.product(*([*values, ANY] for values in categories))
    return itertools.chain([NOTHING], map(Conjunction, choices))


def sample_complexity(n_hypotheses: int, epsilon: float, delta: float) -> int:
    """Return the number of examples for which all consistent hypotheses are probably approximately correct.

    With probability 1 - delta, the error of every consistent hypothesis is at most epsilon if the number of examples is
    at least ``(ln |H| + ln 1/delta) / epsilon``, for noise-free examples of a concept in H (Haussler 1988).

    Parameters
    ----------
    n_hypotheses : int
        Size of the hypothesis space.
    epsilon, delta : float
        Maximum error, and probability that a hypothesis exceeds it, both between 0 and 1. Smaller values require more
        examples.

    Returns
    -------
    int
        Minimum number of examples for which the bound holds.

    Examples
    --------
    >>> from fastens import sample_complexity
    >>> sample_complexity(3**10, epsilon=0.1, delta=0.05)
    140
    """
    PROBABILITY.check("epsilon", epsilon)
    PROBABILITY.check("delta", delta)
    whole(1).check("n_hypotheses", n_hypotheses)
    return math.ceil((math.log(n_hypotheses) - math.log(delta)) / epsilon)


class BruteForce(NamedTuple):
    """Results of the brute-force learner for all hypotheses, in their order."""

    posterior: NDArray[np.float64]  # P(h | D)
    map_index: int  # index of the first most probable hypothesis
    n_consistent: int  # number of hypotheses consistent with all examples
    log_evidence: float  # log P(D)
    log_likelihoods: NDArray[np.float64]  # log P(D | h)


def brute_force_map(
    hypotheses: Iterable[Conjunction],
    X: ArrayLike,
    is_positive: ArrayLike,
    prior: ArrayLike | None = None,
    noise: float = 0.0,
) -> BruteForce:
    """Compute P(h | D) of every hypothesis with the brute-force MAP learning algorithm (Mitchell 1997, section 6.3).

    Without noise, P(D | h) is 1 for consistent hypotheses and 0 otherwise. Under a uniform prior, all consistent
    hypotheses then have the posterior probability ``1 / |VS|``, and P(D) = ``|VS| / |H|``.

    Parameters
    ----------
    hypotheses : iterable of Conjunction
        The hypothesis space, such as `all_conjunctions`: objects with a method `covers(X)`.
    X : table of shape (n_samples, n_features)
        The examples.
    is_positive : bool array of shape (n_samples,)
        True for positive examples.
    prior : array of shape (n_hypotheses,), optional
        Prior probabilities of the hypotheses. If None, they are equal.
    noise : float, default=0
        Probability that a label is wrong, below 0.5.

    Returns
    -------
    BruteForce
        The posterior probabilities, the index of the most probable hypothesis, the number of consistent hypotheses, the
        log evidence and the log likelihoods.

    Raises
    ------
    ValueError
        If no hypothesis explains the examples, or an argument is invalid.

    Examples
    --------
    >>> from fastens import all_conjunctions, brute_force_map
    >>> space = list(all_conjunctions([["sun", "rain"], ["warm", "cold"]]))
    >>> found = brute_force_map(space, [["sun", "warm"], ["rain", "warm"]], [True, False])
    >>> found.n_consistent, space[found.map_index], round(float(found.posterior.max()), 3)
    (2, <sun, warm>, 0.5)
    """
    real(0, 0.5, open_high=True).check("noise", noise)
    rows, space = _rows_of_objects(X), _check_hypotheses(hypotheses)
    truth = _truth_values("is_positive", is_positive, len(rows))
    log_prior = xlogy(1, check_prior("prior", prior, len(space)))
    errors = np.array([np.count_nonzero(hypothesis.covers(rows) != truth) for hypothesis in space])
    log_likelihoods = xlogy(errors, noise) + xlog1py(len(truth) - errors, -noise)
    joint = log_prior + log_likelihoods
    if np.isneginf(joint).all():
        raise ValueError("no hypothesis of the space agrees with all examples. Set noise above 0.")
    posterior, log_evidence = normalised(joint)
    return BruteForce(posterior, int(posterior.argmax()), int((errors == 0).sum()), log_evidence, log_likelihoods)


def _check_hypotheses(hypotheses: Any) -> list[Any]:
    """Return the hypotheses as a list; raise ValueError if it is empty or an item lacks a method `covers`."""
    space = list(hypotheses) if isinstance(hypotheses, Iterable) else None
    if not space:
        raise ValueError(f"hypotheses must be a list of at least one Conjunction; got {hypotheses!r}.")
    for index, hypothesis in enumerate(space):
        if not callable(getattr(hypothesis, "covers", None)):
            raise ValueError(
                f"hypotheses must be Conjunctions or objects with covers(X); got {hypothesis!r} at index {index}."
            )
    return space


# Instances and labels --------------------------------------------------


def _rows_of_objects(X: Any) -> NDArray[np.object_]:
    """Return the rows of a table as an array of Python objects; a list of values is one row.

    Raises ValueError if the rows differ in length.
    """
    table = table_over(X)
    if table.names is not None:
        frame = nw.from_native(table.native, eager_only=True)
        rows = np.empty(frame.shape, dtype=object)
        for j, column in enumerate(frame.iter_columns()):
            rows[:, j] = column.to_list()
        return rows
    rows = np.asarray(dense(X), dtype=object)
    if isinstance(X, np.ma.MaskedArray):
        rows = np.array(rows)
        rows[np.ma.getmaskarray(X)] = None
    is_ragged = rows.ndim == 1 and any(isinstance(row, list | tuple | np.ndarray) for row in rows)
    if is_ragged or rows.ndim not in (1, 2):
        raise ValueError(f"X must be a table whose rows have the same length; got {X!r}.")
    return rows[None, :] if rows.ndim == 1 else rows


def _truth_values(name: str, values: Any, n_rows: int) -> NDArray[np.bool_]:
    """Convert booleans, or 1 and 0, to a boolean array; raise ValueError for other values or a wrong length."""
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(f"{name} must have one boolean for each of the {n_rows} rows; got shape {array.shape}.")
    for value in () if array.dtype.kind == "b" and not np.ma.is_masked(array) else array.tolist():
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise ValueError(
                f"{name} must hold booleans (True and False, or 1 and 0); got {value!r}. Compare labels first, "
                "as in y == 'yes'."
            )
    return np.asarray(array, dtype=bool)

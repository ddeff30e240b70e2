"""Conjunctions of constraints on attributes: the hypotheses, their order, and learning by going through all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py, xlogy

from fastens.bayes.attributes import plain_rows
from fastens.bayes.posterior import check_prior, normalised


class _Any:
    """The constraint that every value meets; one object, equal to nothing that a table may hold."""

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> str:
        return "ANY"


ANY = _Any()


@dataclass(frozen=True)
class Conjunction:
    """A hypothesis: for each attribute the one value it asks for, or `ANY`; `values` None rejects every instance.

    ``h >= g`` says that h is more general than g or equal to it: every instance that satisfies g satisfies h. The order
    is partial; it is exact where every attribute has at least two values.

    Parameters
    ----------
    values : tuple or None
        One entry for each attribute.

    Examples
    --------
    >>> from fastens import ANY, Conjunction
    >>> specific, general = Conjunction(("sunny", "warm", ANY)), Conjunction(("sunny", ANY, ANY))
    >>> general > specific, specific >= general
    (True, False)
    >>> general.covers([["sunny", "cold", "strong"], ["rainy", "cold", "strong"]])
    array([ True, False])
    >>> specific
    <sunny, warm, ?>
    """

    values: tuple[Any, ...] | None

    def __repr__(self) -> str:
        return "<nothing>" if self.values is None else f"<{', '.join(map(str, self.values))}>"

    def __len__(self) -> int:
        """Number of constraints."""
        return sum(value is not ANY for value in self.values or ())

    def __bool__(self) -> bool:
        return True

    def __ge__(self, other: Conjunction) -> bool:
        if other.values is None or self.values is None:
            return other.values is None
        return all(mine is ANY or mine == its for mine, its in zip(self.values, other.values, strict=True))

    def __gt__(self, other: Conjunction) -> bool:
        return self >= other and not other >= self

    def __le__(self, other: Conjunction) -> bool:
        return other >= self

    def __lt__(self, other: Conjunction) -> bool:
        return other > self

    def covers(self, X: Any) -> NDArray[np.bool_]:
        """Return for each instance whether it satisfies the hypothesis; missing values satisfy only `ANY`."""
        rows = plain_rows(X)
        if self.values is None:
            return np.zeros(len(rows), dtype=bool)
        if rows.shape[1] != len(self.values):
            raise ValueError(f"X must have {len(self.values)} columns, as the hypothesis has; got {rows.shape[1]}.")
        covered = np.ones(len(rows), dtype=bool)
        for column, value in zip(rows.T, self.values, strict=True):
            if value is not ANY:
                covered &= np.array([found == value for found in column.tolist()], dtype=bool)
        return covered

    def is_consistent(self, X: Any, is_positive: ArrayLike) -> bool:
        """Whether h(x) = c(x) for all examples; `is_positive` holds c(x) as truth values."""
        return bool((self.covers(X) == np.asarray(is_positive, dtype=bool)).all())


NOTHING = Conjunction(None)


class SpaceSizes(NamedTuple):
    """How many there are: instances, hypotheses as written, and hypotheses that differ in what they cover."""

    instances: int
    syntactic: int
    semantic: int


def space_sizes(n_values: Sequence[int]) -> SpaceSizes:
    """Count instances and conjunctions over attributes with so many values each.

    Examples
    --------
    >>> from fastens.bayes.conjunctions import space_sizes
    >>> space_sizes([3, 2, 2, 2, 2, 2])  # EnjoySport, Mitchell (1997), chapter 2
    SpaceSizes(instances=96, syntactic=5120, semantic=973)
    """
    return SpaceSizes(math.prod(n_values), math.prod(n + 2 for n in n_values), 1 + math.prod(n + 1 for n in n_values))


def all_conjunctions(categories: Sequence[Sequence[Any]]) -> Iterator[Conjunction]:
    """Yield every conjunction over attributes with these values, the one that covers nothing first."""
    yield NOTHING
    for values in itertools.product(*([*values, ANY] for values in categories)):
        yield Conjunction(values)


def sample_complexity(n_hypotheses: int, epsilon: float, delta: float) -> int:
    """Return how many examples make every consistent hypothesis's error at most epsilon, with probability 1 - delta.

    m >= (ln |H| + ln 1/delta) / epsilon, for noise-free examples of a concept in H (Haussler 1988).

    Parameters
    ----------
    n_hypotheses : int
        Size of the hypothesis space.
    epsilon, delta : float
        Error and risk, between 0 and 1.

    Examples
    --------
    >>> from fastens import sample_complexity
    >>> sample_complexity(3**10, epsilon=0.1, delta=0.05)
    140
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be a number between 0 and 1; got {value!r}.")
    if n_hypotheses < 1:
        raise ValueError(f"n_hypotheses must be at least 1; got {n_hypotheses!r}.")
    return math.ceil((math.log(n_hypotheses) - math.log(delta)) / epsilon)


class BruteForce(NamedTuple):
    """The posterior of each hypothesis, the place of the first most probable one, how many agree with all examples."""

    posterior: NDArray[np.float64]
    map_index: int
    n_consistent: int
    log_evidence: float


def brute_force_map(
    hypotheses: Iterable[Conjunction], X: Any, is_positive: ArrayLike, prior: Any = None, noise: float = 0.0
) -> BruteForce:
    """Learn by computing P(h | D) of every hypothesis, as the textbook's brute-force MAP learner does.

    Without noise P(D | h) is 1 for a consistent hypothesis and 0 otherwise: under a uniform prior all consistent ones
    have the posterior probability 1 / |VS|, and P(D) = |VS| / |H|.

    Parameters
    ----------
    hypotheses : iterable of Conjunction
        The hypothesis space; anything with `covers(X)`.
    X : array-like or data frame
        The instances.
    is_positive : array-like of bool
        c(x) of each.
    prior : array-like, optional
        Probability of each hypothesis; None is uniform.
    noise : float, default=0
        Probability that a label is wrong, independently for each example.

    Raises
    ------
    ValueError
        If no hypothesis of the space explains the examples.

    Examples
    --------
    >>> from fastens.bayes.conjunctions import all_conjunctions, brute_force_map
    >>> space = list(all_conjunctions([["sun", "rain"], ["warm", "cold"]]))
    >>> found = brute_force_map(space, [["sun", "warm"], ["rain", "warm"]], [True, False])
    >>> found.n_consistent, space[found.map_index], round(float(found.posterior.max()), 3)
    (2, <sun, warm>, 0.5)
    """
    if not 0 <= noise < 0.5:
        raise ValueError(f"noise must be a number of at least 0 and less than 0.5; got {noise!r}.")
    truth = np.asarray(is_positive, dtype=bool)
    rows = plain_rows(X)
    errors = np.array([np.count_nonzero(hypothesis.covers(rows) != truth) for hypothesis in hypotheses])
    log_prior = xlogy(1, check_prior("prior", prior, len(errors)))
    joint = log_prior + xlogy(errors, noise) + xlog1py(len(truth) - errors, -noise)
    if np.isneginf(joint).all():
        raise ValueError("no hypothesis of the space agrees with all examples: set noise above 0.")
    posterior, log_evidence = normalised(joint)
    return BruteForce(posterior, int(posterior.argmax()), int((errors == 0).sum()), log_evidence)

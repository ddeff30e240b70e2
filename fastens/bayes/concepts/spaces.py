"""Enumeration of the conjunctions in a version space, and their posterior probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.concepts.hitting_sets import build_family, minimal_clauses, minimal_hitting_sets
from fastens.bayes.counts.counting import CountCube
from fastens.bayes.posterior import draw_index
from fastens.engine.elementary import exp, log, log1p, logaddexp


def all_hitting_sets(clauses: Sequence[int], n_items: int) -> Iterator[int]:
    """Yield all sets of items that satisfy all clauses, as bit masks, starting with the set of all items.

    The search includes or excludes one item at a time. An item is excluded only if the remaining items can still
    satisfy every clause, so that no path is a dead end.
    """
    waiting = [(0, 0)]  # number of decided items, and the chosen items
    while waiting:
        n_decided, chosen = waiting.pop()
        if n_decided == n_items:
            yield chosen
            continue
        if all(clause & chosen or clause >> (n_decided + 1) for clause in clauses):
            waiting.append((n_decided + 1, chosen))
        waiting.append((n_decided + 1, chosen | 1 << n_decided))


Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
ANYTHING, NEVER = -1, -2
NEGATIVE, POSITIVE = 0, 1
# Sums of weights whose difference relative to the total is smaller are equal up to rounding.
_ROUNDING = 1e-12

# The prior weight of a hypothesis is this factor to the power of its number of constraints. The hypothesis that covers
# nothing counts as having a constraint on every attribute.
CONSTRAINT_WEIGHT = {"uniform": 1.0, "length": 0.5}


class SpaceError(ValueError, AttributeError):
    """Raised for results that a version space cannot provide; a ValueError and, for properties, an AttributeError."""


class Examples(NamedTuple):
    """Distinct rows of codes with the total weights of their negative and positive labels."""

    codes: Codes
    weight: Floats

    @classmethod
    def of(cls, codes: Codes, is_positive: NDArray[np.bool_], weight: Floats | None = None) -> Examples:
        """Create examples from rows of codes, labels and, if passed, weights."""
        both = np.zeros((len(codes), 2))
        both[np.arange(len(codes)), is_positive.astype(np.intp)] = 1 if weight is None else weight
        return cls(codes, both).merge_duplicates()

    def merge(self, other: Examples) -> Examples:
        """Return both sets of examples as one, with the weights of equal rows added up."""
        return Examples(
            np.concatenate([self.codes, other.codes]), np.concatenate([self.weight, other.weight])
        ).merge_duplicates()

    def merge_duplicates(self) -> Examples:
        """Return the examples with the weights of equal rows added up, in ascending order of codes."""
        codes, index = np.unique(self.codes, axis=0, return_inverse=True)
        weight = np.zeros((len(codes), 2))
        np.add.at(weight, index.ravel(), self.weight)
        return Examples(codes, weight)

    def codes_of_class(self, label: int) -> Codes:
        """Return the rows of codes that have a positive weight of the label, 0 (negative) or 1 (positive)."""
        return self.codes[self.weight[:, label] > 0]


def covers(hypotheses: Codes, codes: Codes) -> NDArray[np.bool_]:
    """Return a mask of the hypotheses that cover the row of codes at the same index, shape (n,)."""
    return ((hypotheses == ANYTHING) | (hypotheses == codes)).all(axis=1)


def log_prior_mass(sizes: Sequence[int], prior: str) -> float:
    """Return the log of the total prior weight of all conjunctions over attributes with these numbers of values.

    `prior` is the name of a prior, a key of `CONSTRAINT_WEIGHT`.
    """
    weight = CONSTRAINT_WEIGHT[prior]
    logs = [log1p(weight * size) for size in sizes]
    return float(logaddexp(math.fsum(logs), len(sizes) * log(weight)))


def _first_values(sizes: Sequence[int]) -> Codes:
    """Return the code of the first value of each attribute; attributes without values get ANYTHING."""
    return np.where(np.array(sizes) > 0, 0, ANYTHING)


class ConsistentSpace:
    """Conjunctions that cover every positive example and no negative one.

    All of them generalize the least general one, s. They keep a subset of its constraints that satisfies the clause of
    every negative example, which demands at least one of the constraints that the example violates (Hirsh 1994).
    Negative examples that s covers are set aside, because no conjunction separates them from the positive ones.
    """

    noise = 0.0

    def __init__(self, examples: Examples, sizes: Sequence[int], prior: str, random: np.random.Generator) -> None:
        positives, negatives = examples.codes_of_class(POSITIVE), examples.codes_of_class(NEGATIVE)
        is_constrained = (positives == positives[0]).all(axis=0) & (positives[0] != ANYTHING)
        self.specific = np.where(is_constrained, positives[0], ANYTHING)
        self._sizes, self._prior = sizes, prior
        self._constrained = np.flatnonzero(is_constrained)
        clauses = ~self._satisfied_constraints(negatives)
        is_possible = clauses.any(axis=1)
        self.n_set_aside = int(np.count_nonzero(~is_possible))
        self._clauses = clauses[is_possible]
        weight = CONSTRAINT_WEIGHT[prior]
        self._family = build_family(self._clauses, weight / (1 + weight), random)
        self.is_exact = self._family.is_exact

    def _satisfied_constraints(self, codes: Codes) -> NDArray[np.bool_]:
        """Return a mask, (n_rows, n_constraints), of the constraints that each row of codes satisfies.

        The constraints are the constrained attributes of the least general hypothesis.
        """
        return codes[:, self._constrained] == self.specific[self._constrained]

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses."""
        return self._family.n_sets

    def bounds(self) -> tuple[int, int]:
        """Return lower and upper bounds of the number of hypotheses; they are equal if it is exact."""
        return self._family.bounds()

    @property
    def log_evidence(self) -> float:
        """Log of the prior probability of all consistent hypotheses together."""
        log_relaxations = len(self._constrained) * log1p(CONSTRAINT_WEIGHT[self._prior])
        return math.log(self._family.mass) + log_relaxations - log_prior_mass(self._sizes, self._prior)

    def cover_proba(self, codes: Codes) -> Floats:
        """Return the posterior probability that a hypothesis covers each row of codes, shape (n_rows,)."""
        return self._family.vote(self._satisfied_constraints(codes))

    def map_codes(self) -> Codes:
        """Return the codes of a MAP hypothesis: the least general or, with prior="length", a shortest one."""
        if CONSTRAINT_WEIGHT[self._prior] == 1:
            return self.specific
        return self._to_codes(self._family.smallest_set()[None, :])[0]

    def ml_codes(self) -> Codes:
        """Return the codes of the least general hypothesis, because all have the same likelihood."""
        return self.specific

    def draw(self, n: int, random: np.random.Generator) -> Codes:
        """Draw n hypotheses from the posterior, as codes of shape (n, n_attributes)."""
        return self._to_codes(self._family.draw(n, random))

    def _to_codes(self, constrained: NDArray[np.bool_]) -> Codes:
        """Return hypotheses as codes, (n, n_attributes), from (n, n_constraints) masks of their constraints."""
        out = np.full((len(constrained), len(self.specific)), ANYTHING)
        out[:, self._constrained] = np.where(constrained, self.specific[self._constrained], ANYTHING)
        return out

    def find_query(self) -> tuple[Codes, float]:
        """Return the codes of an instance, and the posterior mass that covers it, which is close to 1/2.

        A local search changes one attribute of the instance at a time.
        """
        can_differ = np.array(self._sizes)[self._constrained] > 1
        instance = np.where(self.specific == ANYTHING, _first_values(self._sizes), self.specific)
        agrees, share = np.ones(len(self._constrained), dtype=bool), 1.0
        while can_differ.any():
            neighbours = agrees ^ np.eye(len(agrees), dtype=bool)[can_differ]
            votes = self._family.vote(neighbours)
            best = int(np.abs(votes - 0.5).argmin())
            if abs(votes[best] - 0.5) >= abs(share - 0.5):
                break
            agrees, share = neighbours[best], float(votes[best])
        differs = self._constrained[~agrees]
        instance[differs] = (instance[differs] + 1) % np.array(self._sizes)[differs]
        return instance, share

    def general_boundary(self, limit: int) -> Codes:
        """Return the most general hypotheses as codes; raise TooManyError if there are more than `limit`."""
        sets = minimal_hitting_sets(self._clause_masks(self._clauses), [0] * len(self._constrained), limit)
        return self._to_codes(np.array([self._unpack_mask(s) for s in sets]).reshape(len(sets), -1))

    def all_codes(self) -> Iterator[Codes]:
        """Yield the codes of all hypotheses, starting with the least general one."""
        masks = self._clause_masks(minimal_clauses(self._clauses))
        for items in all_hitting_sets(masks, len(self._constrained)):
            yield self._to_codes(np.array([self._unpack_mask(items)], dtype=bool))[0]

    def _clause_masks(self, clauses: NDArray[np.bool_]) -> list[int]:
        """Return each clause as an integer bit mask of the constraints of the least general hypothesis."""
        powers = [1 << item for item in range(len(self._constrained))]
        return [sum(power for power, chosen in zip(powers, row, strict=True) if chosen) for row in clauses.tolist()]

    def _unpack_mask(self, mask: int) -> list[bool]:
        """Return the bits of an integer mask as one boolean for each constraint of the least general hypothesis."""
        return [bool(mask >> item & 1) for item in range(len(self._constrained))]

    def posterior(self) -> Floats:
        """Return the posterior probability of each hypothesis, in the order of `all_codes`."""
        n, weight = self.n_hypotheses, CONSTRAINT_WEIGHT[self._prior]
        if weight == 1:
            return np.full(n, 1 / n)
        masks = all_hitting_sets(self._clause_masks(minimal_clauses(self._clauses)), len(self._constrained))
        return self._probability(np.fromiter((mask.bit_count() for mask in masks), dtype=np.int64, count=n))

    def posterior_of(self, codes: Codes) -> float:
        """Return the posterior probability of the hypothesis with these codes, 0 if it is not consistent."""
        constrained = codes != ANYTHING
        is_relaxed = bool((codes[constrained] == self.specific[constrained]).all())
        if not is_relaxed or not (self._clauses & constrained[self._constrained]).any(axis=1).all():
            return 0.0
        if CONSTRAINT_WEIGHT[self._prior] == 1:
            return 1 / self.n_hypotheses
        return float(self._probability(np.count_nonzero(constrained)))

    def _probability(self, n_constraints: Any) -> Any:
        """Return the posterior probability of a consistent hypothesis with this number of constraints."""
        weight, n = CONSTRAINT_WEIGHT[self._prior], len(self._constrained)
        return weight**n_constraints / (1 + weight) ** n / self._family.mass


class WeightedSpace:
    """All conjunctions with their posterior weights, computed from the count cube.

    P(y | h, x) is 1 - noise if h agrees with y, otherwise noise. In the limit of zero noise (`noise` is None), the
    hypotheses with the fewest errors share the posterior; they are the version space if it is not empty.
    """

    is_exact = True
    n_set_aside = 0

    def __init__(self, examples: Examples, sizes: Sequence[int], prior: str, noise: float | None) -> None:
        codes = np.repeat(examples.codes, 2, axis=0)
        classes = np.tile(np.array([NEGATIVE, POSITIVE]), len(examples.codes))
        self._cube = CountCube(codes, classes, examples.weight.ravel(), sizes, 2)
        counts = self._cube.counts
        n, n_positive = float(counts[-1].sum()), float(counts[-1, POSITIVE])
        self.noise = 0.0 if noise is None else noise
        errors = np.full(len(counts) + 1, n_positive)  # the hypothesis that covers nothing comes last
        errors[:-1] -= counts[:, POSITIVE]
        errors[:-1] += counts[:, NEGATIVE]
        del counts, self._cube.counts  # as large as all other arrays together
        self.min_errors = float(errors.min())
        # The prior has a factor for each constraint and the likelihood has a factor for each error.
        weights = np.append(self._cube.n_fixed(), len(sizes)) * float(log(CONSTRAINT_WEIGHT[prior]))
        if noise is None:
            is_ruled_out = errors > self.min_errors + _ROUNDING * n
            weights[is_ruled_out] = -math.inf
            self._ml_cell = int(is_ruled_out.argmin())
        else:
            self._ml_cell = int(errors.argmin())
            errors *= log(noise) - log1p(-noise)
            weights += errors
        largest = float(weights.max())
        exp(np.subtract(weights, largest, out=weights), out=weights)
        total = float(weights.sum())
        self._posterior = np.divide(weights, total, out=weights)
        log_constant = 0.0 if noise is None else n * log1p(-noise)
        self.log_evidence = largest + log(total) + log_constant - log_prior_mass(sizes, prior)
        self._cover = self._cube.spread(self._posterior[:-1])
        self.n_hypotheses = int(np.count_nonzero(weights)) if noise is None else len(weights)

    def bounds(self) -> tuple[int, int]:
        """Return lower and upper bounds of the number of hypotheses, which are equal, because it is exact."""
        return self.n_hypotheses, self.n_hypotheses

    def cover_proba(self, codes: Codes) -> Floats:
        """Return the posterior probability that a hypothesis covers each row of codes, shape (n_rows,)."""
        return np.minimum(self._cover[self._cube.cells_of(codes)], 1.0)

    def map_codes(self) -> Codes:
        """Return the codes of the most probable hypothesis; ties go to the first."""
        return self._hypothesis_codes(int(self._posterior.argmax()))

    def ml_codes(self) -> Codes:
        """Return the codes of the hypothesis with the fewest errors; ties go to the first."""
        return self._hypothesis_codes(self._ml_cell)

    def draw(self, n: int, random: np.random.Generator) -> Codes:
        """Draw n hypotheses from the posterior, as codes of shape (n, n_attributes)."""
        cells, index = np.unique(draw_index(self._posterior, n, random), return_inverse=True)
        return np.array([self._hypothesis_codes(int(cell)) for cell in cells])[index]

    def _hypothesis_codes(self, cell: int) -> Codes:
        """Return the codes of the hypothesis at a cell of the count cube; index len(cube) is the empty hypothesis."""
        if cell == len(self._cube):
            return np.full(len(self._cube.sizes), NEVER)
        return self._cube.digits_of(cell)

    def all_codes(self) -> Iterator[Codes]:
        """Yield the codes of the hypotheses with a positive posterior, or of all with noise; the empty one is last."""
        return map(self._hypothesis_codes, self._voting_cells().tolist())

    def _voting_cells(self) -> NDArray[np.intp]:
        """Return the indices of hypotheses that vote: with positive posterior if `noise` is 0, otherwise all."""
        return np.flatnonzero(self._posterior) if self.noise == 0 else np.arange(len(self._posterior))

    def posterior(self) -> Floats:
        """Return the posterior probability of each hypothesis, in the order of `all_codes`."""
        return self._posterior[self._voting_cells()]

    def posterior_of(self, codes: Codes) -> float:
        """Return the posterior probability of the hypothesis with these codes, 0 if it requires a value never seen."""
        is_never = codes == NEVER
        if is_never.any():
            return float(self._posterior[-1]) if is_never.all() else 0.0
        return float(self._posterior[self._cube.cells_of(codes[None, :])[0]])

    def find_query(self) -> tuple[Codes, float]:
        """Return the codes of the instance that a posterior mass closest to 1/2 covers, and this mass."""
        sizes = self._cube.sizes
        instances = np.stack([grid.ravel() for grid in np.indices(np.maximum(sizes, 1).tolist())], axis=1)
        instances = np.where(sizes > 0, instances, ANYTHING)
        shares = self.cover_proba(instances)
        best = int(np.abs(shares - 0.5).argmin())
        return instances[best], float(shares[best])


def general_without_positives(negatives: Codes, sizes: Sequence[int], limit: int) -> Codes:
    """Return the most general conjunctions that cover no negative example, as codes of shape (n, n_attributes).

    Without positive examples, they are the general boundary. Raises TooManyError if there are more than `limit`.
    """
    first = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    attribute = np.repeat(np.arange(len(sizes)), sizes)
    block = [((1 << size) - 1) << start for size, start in zip(sizes, first, strict=False)]
    incompatible = [block[j] for j in attribute.tolist()]
    everything = (1 << first[-1]) - 1
    masks = [
        everything & ~sum(1 << (first[j] + code) for j, code in enumerate(row) if code != ANYTHING)
        for row in negatives.tolist()
    ]
    sets = minimal_hitting_sets(masks, incompatible, limit)
    out = np.full((max(len(sets), 1), len(sizes)), ANYTHING if sets else NEVER)
    for row, items in zip(out, sets, strict=False):
        for item in range(items.bit_length()):
            if items >> item & 1:
                row[attribute[item]] = item - first[attribute[item]]
    return out

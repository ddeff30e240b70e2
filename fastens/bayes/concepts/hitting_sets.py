"""Sets of attributes that satisfy every clause: counted, weighted and drawn exactly, or by sampling with error bounds.

A clause is a set of attributes of which at least one must be chosen. The sets that satisfy all clauses are represented
by a tree. Its nodes are attributes forced by a clause of size one, attributes without clauses, products of independent
parts, bit arrays of all subsets for parts of up to 30 attributes, and branches on one attribute for larger parts. The
weight of a set is a product of q for each chosen attribute and 1 - q for each other one, so q = 1/2 gives all sets
equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from fastens.bayes.concepts.hitting import count_passing_by_size, draw_sets, mark_subsets, write_subset_weights
from fastens.engine.threads import cached_property

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

MAX_TABLE = 30  # number of attributes of the largest bit array: 2^30 bits are 128 MB
MAX_LEAF = 22  # number of attributes of the bit arrays below branches: half a megabyte each
BUDGET_BITS = 1 << 30  # total size of all bit arrays
COMPARED_AT_ONCE = 1024
_EVEN = 0.5  # value of q for which all sets have equal weights


class TooManyError(Exception):
    """Raised if an exact result would exceed the budget."""


# The tree --------------------------------------------------


@dataclass(frozen=True)
class _Free:
    """Attributes without constraints."""

    attributes: list[int]

    def subset_weights(self, allowed: Bools, q: float) -> Floats:
        """Return the total weight of the sets within each mask of allowed attributes, shape (n_masks,).

        The weight of a set is a product of `q` for each chosen attribute and 1 - `q` for each other one.
        """
        return (1 - q) ** np.count_nonzero(~allowed[:, self.attributes], axis=1)

    def size_counts(self) -> list[int]:
        """Return the number of sets of each size, from size 0."""
        return reduce(_multiply_polynomials, [[1, 1]] * len(self.attributes), [1])

    def smallest_set(self) -> list[int]:
        """Return no attributes, because the empty set is the smallest."""
        return []

    def draw(self, out: Bools, rows: NDArray[np.intp], q: float, random: np.random.Generator) -> None:
        """Mark each attribute in the rows `rows` of `out` with probability `q`."""
        out[_index_grid(rows, self.attributes)] = random.random((len(rows), len(self.attributes))) < q


@dataclass(frozen=True)
class _Forced:
    """Attributes that every set must contain."""

    attributes: list[int]

    def subset_weights(self, allowed: Bools, q: float) -> Floats:
        """Return the total weight of the sets within each mask of allowed attributes, shape (n_masks,).

        The weight of a set is a product of `q` for each chosen attribute and 1 - `q` for each other one.
        """
        return np.where(allowed[:, self.attributes].all(axis=1), q ** len(self.attributes), 0.0)

    def size_counts(self) -> list[int]:
        """Return the number of sets of each size, from size 0."""
        return [0] * len(self.attributes) + [1]

    def smallest_set(self) -> list[int]:
        """Return all forced attributes, because every set contains them."""
        return self.attributes

    def draw(self, out: Bools, rows: NDArray[np.intp], q: float, random: np.random.Generator) -> None:
        """Mark the forced attributes in the rows `rows` of `out`; `q` and `random` are ignored."""
        out[_index_grid(rows, self.attributes)] = True


@dataclass(frozen=True)
class _Both:
    """Product of independent parts."""

    parts: list[Any]

    def subset_weights(self, allowed: Bools, q: float) -> Floats:
        """Return the total weight of the sets within each mask of allowed attributes, shape (n_masks,).

        The weight of a set is a product of `q` for each chosen attribute and 1 - `q` for each other one.
        """
        return np.prod([part.subset_weights(allowed, q) for part in self.parts], axis=0)

    def size_counts(self) -> list[int]:
        """Return the number of sets of each size, from size 0."""
        return reduce(_multiply_polynomials, [part.size_counts() for part in self.parts], [1])

    def smallest_set(self) -> list[int]:
        """Return the attributes of a set with the fewest attributes."""
        return [attribute for part in self.parts for attribute in part.smallest_set()]

    def draw(self, out: Bools, rows: NDArray[np.intp], q: float, random: np.random.Generator) -> None:
        """Draw sets in proportion to their weights into the rows `rows` of `out`, independently for each part."""
        for part in self.parts:
            part.draw(out, rows, q, random)


@dataclass(frozen=True)
class _Branch:
    """Branch on whether an attribute is chosen."""

    attribute: int
    chosen: Any
    left: Any

    def subset_weights(self, allowed: Bools, q: float) -> Floats:
        """Return the total weight of the sets within each mask of allowed attributes, shape (n_masks,).

        The weight of a set is a product of `q` for each chosen attribute and 1 - `q` for each other one.
        """
        with_attribute = allowed[:, self.attribute] * q * self.chosen.subset_weights(allowed, q)
        return with_attribute + (1 - q) * self.left.subset_weights(allowed, q)

    def size_counts(self) -> list[int]:
        """Return the number of sets of each size, from size 0."""
        with_attribute, without = [0, *self.chosen.size_counts()], self.left.size_counts()
        longest = max(len(with_attribute), len(without))
        return [_coefficient(with_attribute, size) + _coefficient(without, size) for size in range(longest)]

    def smallest_set(self) -> list[int]:
        """Return the attributes of a set with the fewest attributes."""
        return min([self.attribute, *self.chosen.smallest_set()], self.left.smallest_set(), key=len)

    def draw(self, out: Bools, rows: NDArray[np.intp], q: float, random: np.random.Generator) -> None:
        """Draw sets in proportion to their weights into the rows `rows` of `out`."""
        everything = np.ones((1, out.shape[1]), dtype=bool)
        with_attribute = q * self.chosen.subset_weights(everything, q)[0]
        share = with_attribute / (with_attribute + (1 - q) * self.left.subset_weights(everything, q)[0])
        is_chosen = random.random(len(rows)) < share
        out[rows, self.attribute] = is_chosen
        self.chosen.draw(out, rows[is_chosen], q, random)
        self.left.draw(out, rows[~is_chosen], q, random)


@dataclass(frozen=True)
class _Table:
    """Bit array over all subsets of a few attributes; a bit is set if the subset violates a clause."""

    attributes: list[int]
    failing: NDArray[np.uint64]

    @classmethod
    def of(cls, clauses: Bools, attributes: list[int]) -> _Table:
        """Create the bit array from clauses that contain no attributes other than `attributes`."""
        n = len(attributes)
        failing = np.zeros(1 << max(0, n - 6), dtype=np.uint64)
        if n < 6:
            failing[0] = np.uint64(2**64 - (1 << (1 << n)))  # bits beyond the last subset
        largest = _bit_masks(~clauses[:, attributes])  # the largest set that violates a clause is its complement
        np.bitwise_or.at(failing, largest >> np.uint64(6), np.uint64(1) << (largest & np.uint64(63)))
        mark_subsets(failing, n)
        return cls(attributes, failing)

    def _weight_by_size(self, q: float) -> Floats:
        """Return the weight of a set of each size, 0 for impossible sizes, shape (n_attributes + 7,)."""
        n = len(self.attributes)
        sizes = np.arange(n + 7)
        return np.where(sizes <= n, q**sizes * (1 - q) ** np.maximum(n - sizes, 0), 0.0)

    def subset_weights(self, allowed: Bools, q: float) -> Floats:
        """Return the total weight of the sets within each mask of allowed attributes, shape (n_masks,).

        The weight of a set is a product of `q` for each chosen attribute and 1 - `q` for each other one.
        """
        out = np.empty(len(allowed))
        write_subset_weights(self.failing, _bit_masks(allowed[:, self.attributes]), self._weight_by_size(q), out)
        return out

    def size_counts(self) -> list[int]:
        """Return the number of sets of each size, from size 0."""
        counts = np.zeros(len(self.attributes) + 7, dtype=np.int64)
        count_passing_by_size(self.failing, counts)
        return counts[: len(self.attributes) + 1].tolist()

    def smallest_set(self) -> list[int]:
        """Return the attributes of a set with the fewest attributes."""
        weight = np.zeros(len(self.attributes) + 7)
        weight[np.flatnonzero(self.size_counts())[0]] = 1
        return np.array(self.attributes)[self._find_sets(np.zeros(1), weight)[0]].tolist()

    def draw(self, out: Bools, rows: NDArray[np.intp], q: float, random: np.random.Generator) -> None:
        """Draw sets in proportion to their weights into the rows `rows` of `out`."""
        total = self.subset_weights(np.ones((1, out.shape[1]), dtype=bool), q)[0]
        points = random.random(len(rows)) * total
        order = np.argsort(points, kind="stable")
        out[_index_grid(rows[order], self.attributes)] = self._find_sets(points[order], self._weight_by_size(q))

    def _find_sets(self, targets: Floats, size_weight: Floats) -> Bools:
        """Return the sets at ascending positions `targets` of the cumulative weight.

        The masks have the shape (n_targets, n_attributes). `size_weight` is the weight of a set of each size.
        """
        bits = np.empty(len(targets), dtype=np.uint64)
        draw_sets(self.failing, size_weight, targets, bits)
        shifts = np.arange(len(self.attributes), dtype=np.uint64)
        return (bits[:, None] >> shifts & np.uint64(1)).astype(bool)


def _index_grid(rows: NDArray[np.intp], attributes: list[int]) -> tuple[NDArray[Any], ...]:
    """Return index arrays that select some rows and attributes of a matrix."""
    return np.ix_(rows, np.array(attributes, dtype=np.intp))


def _bit_masks(sets: Bools) -> NDArray[np.uint64]:
    """Return each boolean row as a bit mask; attribute j is bit j."""
    return sets.astype(np.uint64) @ (np.uint64(1) << np.arange(sets.shape[1], dtype=np.uint64))


def _coefficient(numbers: Sequence[int], index: int) -> int:
    """Return the number at an index of a list, or 0 if the index is beyond its end."""
    return numbers[index] if index < len(numbers) else 0


def _multiply_polynomials(left: list[int], right: list[int]) -> list[int]:
    """Return the coefficients, by degree, of the product of two polynomials with integer coefficients."""
    out = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            out[i + j] += a * b
    return out


# From clauses to the tree --------------------------------------------------


def minimal_clauses(clauses: Bools) -> Bools:
    """Return the clauses that do not contain another clause; they imply all others."""
    clauses = np.unique(clauses, axis=0)
    clauses = clauses[np.argsort(clauses.sum(axis=1), kind="stable")]
    kept = clauses[:0]
    for first in range(0, len(clauses), COMPARED_AT_ONCE):
        block = clauses[first : first + COMPARED_AT_ONCE]
        block = block[~_contains_any(block, kept, strictly=False)]
        kept = np.concatenate([kept, block[~_contains_any(block, block, strictly=True)]])
    return kept


def _contains_any(sets: Bools, others: Bools, *, strictly: bool) -> Bools:
    """Return a mask of the `sets` that contain one of `others`, as a proper subset if `strictly`."""
    if len(others) == 0:
        return np.zeros(len(sets), dtype=bool)
    contains = np.ones((len(sets), len(others)), dtype=bool)
    for first in range(0, sets.shape[1], 64):
        words, parts = _bit_masks(sets[:, first : first + 64]), _bit_masks(others[:, first : first + 64])
        contains &= words[:, None] & parts == parts
    if strictly:
        contains &= sets.sum(axis=1)[:, None] > others.sum(axis=1)
    return np.asarray(contains.any(axis=1))


@dataclass
class _Budget:
    bits: int

    def spend(self, n_attributes: int) -> None:
        """Subtract the 2**`n_attributes` bits of a bit array over all subsets; raise TooManyError if too few remain."""
        self.bits -= 1 << n_attributes
        if self.bits < 0:
            raise TooManyError


def _compile(clauses: Bools, attributes: list[int], budget: _Budget, max_table: int) -> Any:
    """Return a tree that represents the sets which contain an attribute of each minimal clause.

    Its leaves include bit arrays over at most `max_table` attributes, whose bits are spent from the budget;
    TooManyError is raised if it is exhausted.
    """
    named: Bools = np.asarray(clauses.any(axis=0))
    single = clauses.sum(axis=1) == 1
    forced: Bools = np.asarray(clauses[single].any(axis=0))
    parts: list[Any] = []
    for kind, chosen in ((_Forced, forced), (_Free, ~named)):
        indices = [j for j in attributes if chosen[j]]
        if indices:
            parts.append(kind(indices))
    parts += [_compile_component(component, budget, max_table) for component in _components(clauses[~single])]
    return parts[0] if len(parts) == 1 else _Both(parts) if parts else _Free([])


def _compile_component(clauses: Bools, budget: _Budget, max_table: int) -> Any:
    """Return the tree of `_compile` for clauses that are connected by shared attributes.

    Many attributes are split into the sets with and without the attribute that most clauses contain.
    """
    attributes = np.flatnonzero(clauses.any(axis=0)).tolist()
    if len(attributes) <= max_table:
        budget.spend(len(attributes))
        return _Table.of(clauses, attributes)
    budget.spend(10)
    attribute = int(clauses.sum(axis=0).argmax())
    rest = [j for j in attributes if j != attribute]
    contains_attribute = clauses[:, attribute]
    shorter = clauses.copy()
    shorter[:, attribute] = False
    chosen = _compile(clauses[~contains_attribute], rest, budget, MAX_LEAF)
    return _Branch(attribute, chosen, _compile(minimal_clauses(shorter), rest, budget, MAX_LEAF))


def _components(clauses: Bools) -> list[Bools]:
    """Partition clauses into groups that share no attributes."""
    groups = []
    left = np.ones(len(clauses), dtype=bool)
    while left.any():
        reached = np.zeros(clauses.shape[1], dtype=bool)
        grown = clauses[left.argmax()]
        while (grown & ~reached).any():
            reached = reached | grown
            grown = clauses[clauses[:, reached].any(axis=1)].any(axis=0)
        member = left & clauses[:, reached].any(axis=1)
        groups.append(clauses[member])
        left &= ~member
    return groups


# Families of sets --------------------------------------------------


class ExactFamily:
    """Exact representation of all sets that satisfy the clauses, as a tree."""

    is_exact = True

    def __init__(self, tree: Any, n_attributes: int, q: float) -> None:
        self._tree, self._n, self._q = tree, n_attributes, q

    @cached_property
    def mass(self) -> float:
        """Total weight of the sets; for q = 1/2, the fraction of all subsets."""
        return float(self._tree.subset_weights(np.ones((1, self._n), dtype=bool), self._q)[0])

    @cached_property
    def n_sets(self) -> int:
        """Number of sets."""
        return sum(self._tree.size_counts())

    def bounds(self) -> tuple[int, int]:
        """Return the number of sets twice, as lower and upper bound, because it is exact."""
        return self.n_sets, self.n_sets

    def vote(self, allowed: Bools) -> Floats:
        """Return, for each mask of attributes, the probability that a set drawn by weight is a subset of it."""
        masks, index = np.unique(allowed, axis=0, return_inverse=True)
        return (self._tree.subset_weights(masks, self._q) / self.mass)[index.ravel()]

    def draw(self, n: int, random: np.random.Generator) -> Bools:
        """Draw n sets in proportion to their weights, as masks of shape (n, n_attributes)."""
        out = np.zeros((n, self._n), dtype=bool)
        self._tree.draw(out, np.arange(n), self._q, random)
        return out

    def smallest_set(self) -> Bools:
        """Return the mask of a set with the fewest attributes."""
        out = np.zeros(self._n, dtype=bool)
        out[self._tree.smallest_set()] = True
        return out


class SampledFamily:
    """Sampled representation of the sets that satisfy the clauses, if there are too many for an exact result.

    The failing sets are a union of boxes, one for each violated clause. The Karp-Luby estimator computes their total
    weight: draw a box by weight and a set in it, and count the sets that are not in an earlier box. Votes are fractions
    of sets drawn by rejection sampling.
    """

    is_exact = False
    n_draws = 100_000
    pool_size = 10_000
    confidence = 0.99

    def __init__(self, clauses: Bools, q: float, random: np.random.Generator) -> None:
        self._clauses, self._q = clauses, q
        self.mass, bounds = self._estimate_mass(q, random)
        self._pool = self._draw_pool(self.pool_size, random)
        # The number of sets is the number of all subsets times the share under equal weights.
        self._share, self._share_bounds = (self.mass, bounds) if q == _EVEN else self._estimate_mass(_EVEN, random)

    def _estimate_mass(self, q: float, random: np.random.Generator) -> tuple[float, tuple[float, float]]:
        """Return the estimated probability that a random set satisfies all clauses, and its confidence bounds.

        A random set contains each attribute with probability q.
        """
        boxes = (1 - q) ** self._clauses.sum(axis=1)
        first, total = self._count_unseen(boxes, q, random), boxes.sum()
        low, high = _proportion_bounds(first, self.n_draws, self.confidence)
        smallest_mass = q ** self._clauses.shape[1]  # the set of all attributes satisfies every clause
        mass = max(1 - total * first / self.n_draws, smallest_mass)
        return mass, (max(1 - total * high, smallest_mass), min(1 - total * low, 1.0))

    def _count_unseen(self, boxes: Floats, q: float, random: np.random.Generator) -> int:
        """Draw sets that violate a random clause; return how often it is the first clause that the set violates.

        `boxes` are the probabilities that a random set violates each clause, by which clauses are drawn.
        """
        box = random.choice(len(boxes), self.n_draws, p=boxes / boxes.sum())
        n_first = 0
        for start in range(0, self.n_draws, COMPARED_AT_ONCE):
            chosen = box[start : start + COMPARED_AT_ONCE]
            sets = self._random_sets(len(chosen), q, random) & ~self._clauses[chosen]
            n_first += int((self._violations(sets).argmax(axis=1) == chosen).sum())
        return n_first

    def _random_sets(self, n: int, q: float, random: np.random.Generator) -> Bools:
        """Draw n random sets, each attribute with probability q, without regard to the clauses."""
        return random.random((n, self._clauses.shape[1])) < q

    def _violations(self, sets: Bools) -> Bools:
        """Return a mask of the violated clauses of each set, shape (n_sets, n_clauses)."""
        return sets.astype(np.float32) @ self._clauses.T.astype(np.float32) == 0

    def _draw_pool(self, n: int, random: np.random.Generator) -> Bools:
        """Draw n sets that satisfy the clauses by rejection, as masks of shape (n, n_attributes).

        Raises ValueError if fewer than n of about 100 n random sets satisfy them.
        """
        drawn: list[Bools] = []
        missing = n
        for _ in range(100 * n // COMPARED_AT_ONCE):
            sets = self._random_sets(COMPARED_AT_ONCE, self._q, random)
            drawn.append(sets[~self._violations(sets).any(axis=1)][:missing])
            missing -= len(drawn[-1])
            if missing == 0:
                return np.concatenate(drawn)
        raise ValueError(
            f"the version space over {self._clauses.shape[1]} constrained attributes is too large to count, "
            "and too small a share of all conjunctions to sample from. Use fewer attributes or more positive "
            "examples."
        )

    @property
    def n_sets(self) -> int:
        """Estimated number of sets."""
        return round(self._share * 2 ** self._clauses.shape[1])

    def bounds(self) -> tuple[int, int]:
        """Return bounds of the number of sets, with 99 % confidence."""
        low, high = self._share_bounds
        scale = 2 ** self._clauses.shape[1]
        return max(1, int(low * scale)), int(high * scale) + 1

    def vote(self, allowed: Bools) -> Floats:
        """Return, for each mask of attributes, the fraction of drawn sets that are subsets of it."""
        outside = self._pool.astype(np.float32) @ (~allowed).T.astype(np.float32)
        return (outside == 0).mean(axis=0)

    def draw(self, n: int, random: np.random.Generator) -> Bools:
        """Draw n sets with replacement from the stored sample, as masks of shape (n, n_attributes)."""
        return self._pool[random.integers(0, len(self._pool), n)]

    def smallest_set(self) -> Bools:
        """Return a small set: a sampled set from which attributes are removed while it satisfies the clauses."""
        best = self._pool[self._pool.sum(axis=1).argmin()].copy()
        for attribute in np.flatnonzero(best):
            best[attribute] = False
            best[attribute] = self._violations(best[None, :]).any()
        return best


def _proportion_bounds(n_hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the Clopper-Pearson confidence bounds of a probability, given the number of hits in n draws."""
    tail = (1 - confidence) / 2
    low = 0.0 if n_hits == 0 else float(betaincinv(n_hits, n - n_hits + 1, tail))
    high = 1.0 if n_hits == n else float(betaincinv(n_hits + 1, n - n_hits, 1 - tail))
    return low, high


def build_family(clauses: Bools, q: float, random: np.random.Generator, budget_bits: int = BUDGET_BITS) -> Any:
    """Return the family of sets that contain an attribute of each clause, (n_clauses, n_attributes) masks.

    Attributes are weighted by q. The family is exact if its bit arrays fit `budget_bits`, otherwise sampled.
    """
    n = clauses.shape[1]
    try:
        tree = _compile(minimal_clauses(clauses), list(range(n)), _Budget(budget_bits), MAX_TABLE)
        return ExactFamily(tree, n, q)
    except TooManyError:
        return SampledFamily(minimal_clauses(clauses), q, random)


# Minimal sets --------------------------------------------------


def minimal_hitting_sets(clauses: Sequence[int], incompatible: Sequence[int], limit: int) -> list[int]:
    """Return the minimal sets that satisfy all clauses as bit masks, by Berge's algorithm.

    `incompatible` holds, for each item, the mask of items that exclude it. Raises TooManyError if there are more than
    `limit` sets after any clause.
    """
    sets = [0]
    for clause in sorted(set(clauses), key=int.bit_count):
        hit = [s for s in sets if s & clause]
        items = [item for item in range(clause.bit_length()) if clause >> item & 1]
        longer = {s | 1 << item for s in sets if not s & clause for item in items if not incompatible[item] & s}
        if len(hit) + len(longer) > limit:
            raise TooManyError
        sets = hit + [s for s in longer if not any(h & s == h for h in hit)]
        sets = _drop_supersets(sets)
    return sets


def _drop_supersets(sets: list[int]) -> list[int]:
    """Return the sets, as bit masks, that contain no other of the sets, in ascending order of size."""
    kept: list[int] = []
    for candidate in sorted(sets, key=lambda s: (s.bit_count(), s)):
        if not any(smaller & candidate == smaller for smaller in kept):
            kept.append(candidate)
    return kept

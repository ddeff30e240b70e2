"""Search for the structure of the greatest score: edges added, removed and turned around one at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.family_scores import Addition, Candidate, FamilyScores
from fastens.bayes.networks.graphs import Parents, topological_order

Array = NDArray[np.float64]
LEAST_GAIN = 1e-9  # relative to the score: what rounding may make of a gain of zero


class Move(NamedTuple):
    """A change of one edge, and what it adds to the score."""

    gain: float
    kind: str
    parent: int
    child: int


def hill_climb(
    scores: FamilyScores, n_variables: int, *, max_parents: int = 3, tabu: int = 0, max_moves: int = 10_000
) -> Parents:
    """Hill-climbing from the empty graph, always by the best change of one edge; returns the parents of each variable.

    With `tabu`, so many changes in a row may fail to improve on the best structure; none is visited twice (Glover
    1986). Heckerman, Geiger & Chickering (1995), "Learning Bayesian networks: the combination of knowledge and
    statistical data", section 7.2.
    """
    climb = _Search(scores, n_variables, max_parents)
    best, best_score, since = climb.parents, climb.score, 0
    visited = {best}
    for _ in range(max_moves):
        move = climb.best_move(visited, -np.inf if tabu else climb.least_gain)
        if move is None:
            break
        climb.make(move)
        visited.add(climb.parents)
        if climb.score > best_score + climb.least_gain:
            best, best_score, since = climb.parents, climb.score, 0
        else:
            since += 1
            if since >= max(tabu, 1):
                break
    return best


def _rank(move: Move) -> tuple[float, str, int, int]:
    return -move.gain, move.kind, move.parent, move.child


def _descendants(parents: Parents) -> list[int]:
    """For each variable itself and all below it, as bits of a number."""
    below = [1 << node for node in range(len(parents))]
    for node in reversed(topological_order(parents)):
        for parent in parents[node]:
            below[parent] |= below[node]
    return below


class _Search:
    """A structure, and what each change of an edge would add to its score."""

    def __init__(self, scores: FamilyScores, n_variables: int, max_parents: int) -> None:
        self._scores, self._max_parents = scores, max_parents
        self.parents: Parents = ((),) * n_variables
        self._current = np.array(scores.of((child, ()) for child in range(n_variables)))
        # By parent and child: what the edge adds, to be there or to be away.
        self._gains = np.full((n_variables, n_variables), -np.inf)
        self._learn(range(n_variables))

    @property
    def score(self) -> float:
        """Of the structure."""
        return float(self._current.sum())

    @property
    def least_gain(self) -> float:
        """Smaller ones are rounding."""
        return LEAST_GAIN * max(1.0, abs(self.score))

    def _learn(self, children: range | list[int]) -> None:
        """Score all changes of the parents of some variables."""
        tried: list[tuple[int, int, Addition]] = []
        for child in children:
            self._gains[:, child] = -np.inf
            for other in range(len(self.parents)):
                candidate = (child, self._changed(other, child))
                # Reversing an edge adds a parent too, so every variable but the child is tried.
                is_there = other in self.parents[child]
                if other != child and self._may_help(candidate, is_there):
                    tried.append((other, child, ((child, self.parents[child]) if is_there else candidate, other)))
        found = self._scores.added(addition for _, _, addition in tried)
        for (other, child, _), gain in zip(tried, found, strict=True):
            self._gains[other, child] = -gain if other in self.parents[child] else gain

    def _changed(self, other: int, child: int) -> tuple[int, ...]:
        return tuple(sorted(set(self.parents[child]) ^ {other}))

    def _may_help(self, candidate: Candidate, is_removal: bool) -> bool:
        child, parents = candidate
        if is_removal:
            return True
        return len(parents) <= self._max_parents and self._scores.bound(candidate) > self._current[child]

    def best_move(self, visited: set[Parents], above: float) -> Move | None:
        """The move of the greatest gain to a structure without a cycle that was not visited; the first of equals."""
        below = _descendants(self.parents)
        moves = heapq.merge(
            self._additions(above),
            sorted(self._changes(above), key=_rank),
            key=_rank,
        )
        return next((m for m in moves if not self._closes_cycle(m, below) and self._after(m) not in visited), None)

    def _additions(self, above: float) -> Iterator[Move]:
        """New edges, the best first."""
        gains = self._gains.copy()
        for child, found in enumerate(self.parents):
            gains[list(found), child] = -np.inf
        while True:
            parent, child = map(int, np.unravel_index(gains.argmax(), gains.shape))
            gain = float(gains[parent, child])
            if gain <= above or gain == -np.inf:
                return
            yield Move(gain, "add", parent, child)
            gains[parent, child] = -np.inf

    def _changes(self, above: float) -> Iterator[Move]:
        """Edges removed, and turned around."""
        for child, found in enumerate(self.parents):
            for parent in found:
                removed = float(self._gains[parent, child])
                if removed > above:
                    yield Move(removed, "remove", parent, child)
                turned = removed + float(self._gains[child, parent])
                if turned > above:
                    yield Move(turned, "turn", parent, child)

    def _closes_cycle(self, move: Move, below: list[int]) -> bool:
        if move.kind == "add":
            return bool(below[move.child] >> move.parent & 1)
        if move.kind == "remove":
            return False
        # Another way from the parent to the child than the edge itself.
        others = (c for c, found in enumerate(self.parents) if move.parent in found and c != move.child)
        return any(below[other] >> move.child & 1 for other in others)

    def _after(self, move: Move) -> Parents:
        parents = list(self.parents)
        parents[move.child] = self._changed(move.parent, move.child)
        if move.kind == "turn":
            parents[move.parent] = self._changed(move.child, move.parent)
        return tuple(parents)

    def make(self, move: Move) -> None:
        """Change the structure."""
        self._current[move.child] += self._gains[move.parent, move.child]
        if move.kind == "turn":
            self._current[move.parent] += self._gains[move.child, move.parent]
        self.parents = self._after(move)
        self._learn([move.child, move.parent] if move.kind == "turn" else [move.child])

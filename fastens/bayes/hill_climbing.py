"""Search for the structure of the greatest score: edges added, removed and turned around one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.family_scores import Candidate, FamilyScores
from fastens.bayes.graphs import Parents, children_of

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
    """Climb from the empty structure, always by the best move.

    Parameters
    ----------
    scores : FamilyScores
        Scores of families.
    n_variables : int
        Number of variables.
    max_parents : int, default=3
        Most parents of a variable.
    tabu : int, default=0
        How many moves in a row may fail to improve on the best structure so far; none is come to twice. 0 stops at the
        first top.
    max_moves : int, default=10000
        Most moves.

    Returns
    -------
    tuple of tuples of int
        Parents of each variable, in ascending order, of the best structure.

    References
    ----------
    Heckerman, Geiger & Chickering (1995), "Learning Bayesian networks: the combination of knowledge and statistical
    data", section 7.2; Glover (1986) for tabu search.
    """
    climb = _Climb(scores, n_variables, max_parents)
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


class _Climb:
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
        asked: list[tuple[int, int, Candidate]] = []
        for child in children:
            self._gains[:, child] = -np.inf
            for other in range(len(self.parents)):
                candidate = (child, self._changed(other, child))
                # A turned edge adds a parent too, so every variable but the child is asked.
                if other != child and self._may_help(candidate, other in self.parents[child]):
                    asked.append((other, child, candidate))
        found = self._scores.of(candidate for _, _, candidate in asked)
        for (other, child, _), score in zip(asked, found, strict=True):
            self._gains[other, child] = score - self._current[child]

    def _changed(self, other: int, child: int) -> tuple[int, ...]:
        return tuple(sorted(set(self.parents[child]) ^ {other}))

    def _may_help(self, candidate: Candidate, is_removal: bool) -> bool:
        child, parents = candidate
        if is_removal:
            return True
        return len(parents) <= self._max_parents and self._scores.bound(candidate) > self._current[child]

    def best_move(self, visited: set[Parents], above: float) -> Move | None:
        """The move of the greatest gain to a structure without a cycle that was not visited; the first of equals."""
        moves = sorted(self._moves(above), key=lambda move: (-move.gain, move.kind, move.parent, move.child))
        for move in moves:
            after = self._after(move)
            if not self._closes_cycle(move) and after not in visited:
                return move
        return None

    def _moves(self, above: float) -> Iterator[Move]:
        gains = self._gains
        for parent, child in zip(*np.nonzero(gains > above), strict=True):
            if int(parent) not in self.parents[child]:
                yield Move(float(gains[parent, child]), "add", int(parent), int(child))
        for child, found in enumerate(self.parents):
            for parent in found:
                removed = float(gains[parent, child])
                if removed > above:
                    yield Move(removed, "remove", parent, child)
                turned = removed + float(gains[child, parent])
                if turned > above:
                    yield Move(turned, "turn", parent, child)

    def _closes_cycle(self, move: Move) -> bool:
        if move.kind == "remove":
            return False
        if move.kind == "add":
            return self._leads(move.child, move.parent, without=None)
        return self._leads(move.parent, move.child, without=(move.parent, move.child))

    def _leads(self, start: int, end: int, without: tuple[int, int] | None) -> bool:
        """Whether a directed path leads from one variable to another, one edge left out."""
        children = children_of(self.parents)
        seen, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            for child in children[node]:
                if (node, child) != without and child not in seen:
                    if child == end:
                        return True
                    seen.add(child)
                    waiting.append(child)
        return False

    def _after(self, move: Move) -> Parents:
        parents = list(self.parents)
        parents[move.child] = self._changed(move.parent, move.child)
        if move.kind == "turn":
            parents[move.parent] = self._changed(move.child, move.parent)
        return tuple(parents)

    def make(self, move: Move) -> None:
        """Change the structure."""
        self.parents = self._after(move)
        changed = [move.child, move.parent] if move.kind == "turn" else [move.child]
        for child, score in zip(
            changed, self._scores.of((child, self.parents[child]) for child in changed), strict=True
        ):
            self._current[child] = score
        self._learn(changed)

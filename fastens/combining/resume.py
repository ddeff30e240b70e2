"""Fits that go on from where one before them stopped."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass, field
from typing import Any

import joblib

from fastens.combining.folds import Fold, MemberData, MemberSpec, Piece

Pieces = dict[tuple[str, int], Piece]


@dataclass
class Trail:
    """What a fit has done so far."""

    data: MemberData
    options: Any  # what else the folds follow from
    folds: list[Fold]
    levels: list[tuple[list[MemberSpec], MemberData, Pieces]] = field(default_factory=list)

    def finished(self) -> Finished:
        """The same, without the rows."""
        levels = [(_of_rows(data), _of_members(specs), pieces) for specs, data, pieces in self.levels]
        return Finished(_of_rows(self.data, self.options), self.folds, levels)

    def describe(self) -> str:
        """The fits that are done, by member."""
        names = [name for _, _, pieces in self.levels for name, _ in pieces]
        return ", ".join(f"{name} ({names.count(name)} fits)" for name in dict.fromkeys(names)) or "none"


@dataclass
class Finished:
    """What a fit leaves for the next one: hashes of what its members saw and were, and what they became."""

    rows: str
    folds: list[Fold]
    levels: list[tuple[str, dict[str, str], Pieces]]

    def folds_for(self, data: MemberData, options: Any) -> list[Fold] | None:
        """The folds, if these are the same rows; random folds are drawn once, what is finished belongs to them."""
        return self.folds if _of_rows(data, options) == self.rows else None

    def pieces_for(self, depth: int, specs: list[MemberSpec], data: MemberData) -> Pieces:
        """What is finished of a level, of members that are the same and see the same."""
        if depth >= len(self.levels) or self.levels[depth][0] != _of_rows(data):
            return {}
        _, before, pieces = self.levels[depth]
        now = _of_members(specs)
        return {key: piece for key, piece in pieces.items() if before.get(key[0]) == now.get(key[0])}


def _of_rows(data: MemberData, options: Any = None) -> str:
    validation, routed = data.validation, data.routed
    return _hash([data.X, data.y, data.classes, data.sample_weight, data.groups, validation, routed, options])


def _of_members(specs: list[MemberSpec]) -> dict[str, str]:
    return {spec.name: _hash([spec.estimator, spec.columns, spec.method]) for spec in specs}


def _hash(value: Any) -> str:
    """A hash of the content; of what cannot be pickled, as a class inside a function, one that nothing equals."""
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return uuid.uuid4().hex

"""How much memory models made of others take: that of their members, and what is held beside them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from fastens.base import BaseFastens
from fastens.combining.folds import VALUES_FOR_ALL_THREADS
from fastens.table.memory_limits import MemoryLimits, MemoryNeeds, TableShape

# Bytes of a row: its number, target and weight, and its hash; its number in a fold.
_ROW = 80
_FOLD = 8
_MOST_FOLDS = 10
# Of each response of a member: of the folds, summed up, and as columns.
_RESPONSE = 32
# How often there is a table of which rows are taken: with rows of a fold, of them those of a bag, and others beside.
_TAKEN = 4
_TAKEN_VALUE = 12  # of a sparse table
# Of a value that a stacker learns from: as it is given, its logarithm, and what these are made into.
STACKED = 64


class Fits(NamedTuple):
    """How a model fits its members.

    Attributes
    ----------
    members : list of (name, estimator)
        What is fitted on the table.
    n_fits : int
        How often each of them is.
    n_folds : int
        The folds of the rows.
    n_at_once : int
        The most fits at a time, of a table that is not large.
    n_columns : int
        The responses that are columns beside those of the table.
    further : list of (name, estimator, shape)
        What is fitted on another table, once.
    """

    members: list[tuple[str, Any]]
    n_fits: int
    n_folds: int
    n_at_once: int
    n_columns: int = 0
    further: tuple[tuple[str, Any, TableShape], ...] = ()


def needs_of_members(model: Any, shape: TableShape, fits: Fits) -> MemoryNeeds:
    """Return what a fit takes on a table of this shape."""
    of_members = shape._replace(n_columns=shape.n_columns + fits.n_columns, n_values=None)
    found = [needs_of_member(name, member, of_members if fits.n_columns else shape) for name, member in fits.members]
    times = n_at_once(shape, fits)
    further = [needs_of_member(*each) for each in fits.further]
    most = {field.name: max(getattr(each, field.name) for each in found) for field in fields(MemoryNeeds)}
    kept = fits.n_fits * sum(each.kept for each in found) + sum(each.kept for each in further)
    beside = held_beside(model, shape, fits) + kept
    of_further = max((each.in_memory for each in further), default=0)
    needs = MemoryNeeds(**{name: times * n_bytes for name, n_bytes in most.items()})
    needs = replace(needs, held=max(needs.held, of_further) + beside, given=needs.given + beside)
    needs = replace(needs, learning=needs.learning + beside, kept=kept)
    # Members of models that take tables in memory alone do not see the ceiling, and put nothing into files.
    return needs if model._fits_sources else replace(needs, held=needs.in_memory, codes=0, disk=0, column=0)


def limits_of_members(model: Any, shape: TableShape, fits: Fits, limits: MemoryLimits) -> MemoryLimits:
    """Return the limits of each member's fit: what all members' models, and what is held beside them, leave."""
    room = limits.max_memory - needs_of_members(model, shape, fits).kept - held_beside(model, shape, fits)
    return limits._replace(max_memory=room // n_at_once(shape, fits))


def held_beside(model: Any, shape: TableShape, fits: Fits) -> int:
    """Return what is held while members are fitted, besides their models and what their fits take."""
    n_responses = (len(fits.members) if fits.n_folds else 1) * responses_of(model, shape)
    held = shape.n_rows * (_ROW + _FOLD * fits.n_folds + _RESPONSE * n_responses)
    if shape.n_stored is not None:
        return held + _TAKEN * _TAKEN_VALUE * shape.n_stored
    return held + (0 if model._fits_sources else _TAKEN * 8 * shape.n_rows * (shape.n_columns + fits.n_columns))


def n_at_once(shape: TableShape, fits: Fits) -> int:
    """Return how many members are fitted at the same time."""
    return fits.n_at_once if shape.n_rows * shape.n_columns <= VALUES_FOR_ALL_THREADS else 1


def n_folds_of(cv: Any) -> int:
    """Return how many folds a splitter makes, or the most that are likely where it does not say."""
    if isinstance(cv, int | np.integer):
        return int(cv)
    if hasattr(cv, "__len__") and not isinstance(cv, str):
        return len(cv)
    return int(getattr(cv, "n_splits", _MOST_FOLDS))


def responses_of(model: Any, shape: TableShape) -> int:
    """Return how many numbers a member gives for a row."""
    return max(2, shape.n_outputs) if is_classifier(model) else shape.n_outputs


def needs_of_member(name: str, member: Any, shape: TableShape) -> MemoryNeeds:
    """Return what the fit of a member takes; ValueError for one of another library."""
    if not isinstance(member, BaseFastens):
        raise ValueError(
            f"max_memory must be None with {name!r}, a {type(member).__name__}: how much memory models of other "
            "libraries take is not known."
        )
    return member._memory_needs(shape)

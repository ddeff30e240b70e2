"""Tables over a few variables, multiplied and summed: variable elimination, for one row of evidence or many at once.

A factor has a first axis for the rows, of length 1 where all rows share it, then an axis for each variable of its
scope, in ascending order. Products are rescaled row by row, so that long ones do not underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.families import MOST_CELLS
from fastens.engine.elementary import log

Array = NDArray[np.float64]
UNSCALED = 16  # factors whose product does not underflow


class Factor(NamedTuple):
    """A table over the variables of `scope`."""

    scope: tuple[int, ...]
    values: Array  # (n_rows or 1, sizes of the scope...)


class Elimination(NamedTuple):
    """What is left after variables were summed out, and what they were summed out of."""

    factors: list[Factor]
    log_scale: Array  # (n_rows or 1,): the logs of what rescaling took away
    steps: list[tuple[int, Factor]]  # each variable with the product that it was removed from


def product(factors: Sequence[Factor]) -> tuple[Factor, Array]:
    """The product of factors, rescaled row by row, and the log of what it was divided by."""
    scope = tuple(sorted({variable for factor in factors for variable in factor.scope}))
    values, log_scale = np.ones((1,) * (len(scope) + 1)), np.zeros(1)
    for count, factor in enumerate(sorted(factors, key=lambda factor: factor.values.size)):
        sizes = dict(zip(factor.scope, factor.values.shape[1:], strict=True))
        aligned = factor.values.reshape(-1, *[sizes.get(variable, 1) for variable in scope])
        _check_size(values.shape, aligned.shape)
        values = values * aligned if count else aligned
        if count % UNSCALED == UNSCALED - 1:
            values, log_peak = _rescaled(values)
            log_scale = log_scale + log_peak
    return Factor(scope, values), log_scale


def _check_size(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    n_cells = math.prod(map(max, one, other))
    if n_cells > MOST_CELLS:
        raise ValueError(
            f"Exact inference here needs a table of {n_cells:.3g} cells, more than the {MOST_CELLS} allowed: too many "
            "variables depend on each other."
        )


def elimination_order(scopes: Iterable[Sequence[int]], remove: Iterable[int], sizes: Sequence[int]) -> list[int]:
    """In which order to sum variables out: next the one whose neighbours need the fewest new edges (min-fill).

    Of equal ones, the one whose product is the smallest table.
    """
    neighbours = _neighbours(scopes)
    waiting = set(remove)
    costs = {variable: _fill_cost(variable, neighbours, sizes) for variable in waiting}
    order = []
    queue = [(cost, variable) for variable, cost in costs.items()]  # and those that have changed since
    heapify(queue)
    while waiting:
        cost, best = heappop(queue)
        if best not in waiting or cost != costs[best]:
            continue
        waiting.remove(best)
        order.append(best)
        around = neighbours.pop(best, set())
        if cost[0] == 0:  # all of them are neighbours of each other already
            for variable in around:
                gone = len(neighbours[variable]) - len(around)  # edges that were missing to the one that is removed
                neighbours[variable].remove(best)
                if variable in waiting:
                    costs[variable] = costs[variable][0] - gone, _table_size(variable, neighbours[variable], sizes)
            changed = around
        else:
            for variable in around:
                neighbours[variable] |= around
                neighbours[variable] -= {variable, best}
            changed = around.union(*(neighbours[variable] for variable in around))
            costs |= {variable: _fill_cost(variable, neighbours, sizes) for variable in changed & waiting}
        for variable in changed & waiting:
            heappush(queue, (costs[variable], variable))
    return order


def _neighbours(scopes: Iterable[Sequence[int]]) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = {}
    for scope in scopes:
        for variable in scope:
            neighbours.setdefault(variable, set()).update(scope)
    for variable, around in neighbours.items():
        around.discard(variable)
    return neighbours


def _fill_cost(variable: int, neighbours: dict[int, set[int]], sizes: Sequence[int]) -> tuple[int, float]:
    around = neighbours.get(variable, set())
    missing = sum(len(around - neighbours[other]) - 1 for other in around) // 2
    return missing, _table_size(variable, around, sizes)


def _table_size(variable: int, around: Iterable[int], sizes: Sequence[int]) -> float:
    try:
        return float(math.prod(sizes[other] for other in around) * sizes[variable])
    except OverflowError:
        return math.inf


def eliminate(
    factors: Sequence[Factor], remove: Iterable[int], sizes: Sequence[int], *, by_max: bool = False
) -> Elimination:
    """Sum variables out of a product of factors, or with `by_max` take the maximum over them."""
    left = dict(enumerate(factors))  # in the order of their numbers
    numbers: dict[int, list[int]] = {}  # of the factors whose scope a variable is in, also of those that are gone
    for number, factor in left.items():
        for variable in factor.scope:
            numbers.setdefault(variable, []).append(number)
    log_scale = np.zeros(1)
    steps: list[tuple[int, Factor]] = []
    constants = [number for number, factor in left.items() if not factor.scope]
    for variable in elimination_order([factor.scope for factor in factors], remove, sizes):
        joined, log_peak = product([left.pop(number) for number in numbers.pop(variable, []) if number in left])
        axis = 1 + joined.scope.index(variable)
        values = joined.values.max(axis=axis) if by_max else joined.values.sum(axis=axis)
        values, log_message = _rescaled(values)
        number = len(factors) + len(steps)
        left[number] = Factor(tuple(other for other in joined.scope if other != variable), values)
        for other in left[number].scope:
            numbers[other].append(number)
        log_scale = log_scale + log_peak + log_message
        steps.append((variable, joined))
        constants += [] if left[number].scope else [number]
        log_scale = log_scale + _sum_of_logs(left.pop(constant) for constant in constants)
        constants = []
    log_scale = log_scale + _sum_of_logs(left.pop(constant) for constant in constants)
    return Elimination(list(left.values()), log_scale, steps)


def _sum_of_logs(constants: Iterable[Factor]) -> Array:
    with np.errstate(divide="ignore"):
        return sum((np.log(factor.values) for factor in constants), np.zeros(1))


def _rescaled(values: Array) -> tuple[Array, Array]:
    """Values whose largest in each row is 1, and the log of what they were divided by; rows of zeros stay."""
    peak = values.reshape(len(values), -1).max(axis=1)
    peak = np.where(peak > 0, peak, 1.0)
    return values / peak.reshape(-1, *(1,) * (values.ndim - 1)), log(peak)


def marginal(factors: Sequence[Factor], keep: Iterable[int], sizes: Sequence[int]) -> tuple[Factor, Array]:
    """The product of the factors summed over all variables but `keep`, divided by its total; and the log of that.

    Rows whose total is 0 have log -inf and zeros.
    """
    kept = set(keep)
    remove = {variable for factor in factors for variable in factor.scope} - kept
    found = eliminate(factors, remove, sizes)
    joined, log_peak = product(found.factors)
    total = joined.values.reshape(len(joined.values), -1).sum(axis=1)
    log_total = log(total) + log_peak + found.log_scale
    safe = np.where(total > 0, total, 1.0)
    values = joined.values / safe.reshape(-1, *(1,) * len(joined.scope))
    if (log_total == -np.inf).any():
        values = values * (log_total > -np.inf).reshape(-1, *(1,) * len(joined.scope))
    return Factor(joined.scope, values), log_total


def draw_backwards(steps: Sequence[tuple[int, Factor]], n: int, random: np.random.Generator) -> dict[int, NDArray]:
    """Draw `n` joint values of all variables that were summed out, by the last first; factors have one row.

    Given the values of those removed later, a variable has the distribution of the product that it was removed from.
    """
    drawn: dict[int, NDArray] = {}
    for variable, joined in reversed(steps):
        weights = np.moveaxis(_at(joined, variable, drawn, n), 0, -1)
        cumulative = np.cumsum(weights, axis=0)
        drawn[variable] = (cumulative < random.random(n) * cumulative[-1]).sum(axis=0)
    return drawn


def best_backwards(steps: Sequence[tuple[int, Factor]]) -> dict[int, int]:
    """The most probable joint values of all variables that were removed by maxima; the first of equals."""
    found: dict[int, NDArray] = {}
    for variable, joined in reversed(steps):
        found[variable] = _at(joined, variable, found, 1).argmax(axis=1)
    return {variable: int(values[0]) for variable, values in found.items()}


def _at(joined: Factor, variable: int, known: dict[int, NDArray], n: int) -> Array:
    """The table's entries for each value of a variable, shape (n, size), the others being known."""
    others = tuple(other for other in joined.scope if other != variable)
    values = np.moveaxis(joined.values[0], joined.scope.index(variable), -1)
    entries = values[tuple(known[other] for other in others)]
    return np.broadcast_to(entries, (n, entries.shape[-1]))

"""Exact inference by variable elimination: factors, independent groups of missing values, and queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import MAX_CELLS, add_family_logs
from fastens.bayes.networks.gaussians import (
    Conditional,
    condition,
    draw_missing,
    independent_groups,
    mixture_moments,
    second_moments,
)
from fastens.bayes.networks.network_data import NetworkData, split_axes
from fastens.bayes.networks.structures import ancestors
from fastens.engine.elementary import exp, log

Array = NDArray[np.float64]
UNSCALED = 16  # number of factors whose product cannot underflow


class Factor(NamedTuple):
    """Table over the variables of `scope`."""

    scope: tuple[int, ...]
    values: Array  # (n_rows or 1, sizes of the scope...)
    log_scale: Array | float = 0.0  # (n_rows or 1,): log of a number to multiply the values by


class Elimination(NamedTuple):
    """Result of variable elimination: the remaining factors and the elimination steps."""

    factors: list[Factor]
    log_scale: Array  # (n_rows or 1,): logs of the scale factors
    steps: list[tuple[int, Factor]]  # each variable with the product it was eliminated from


def product(factors: Sequence[Factor]) -> tuple[Factor, Array]:
    """Return a factor and the logs of a scale by row, (n_rows or 1,), which together give the product of `factors`.

    The product is the values of the factor times exp(log scale); rows are rescaled so that long products do not
    underflow.
    """
    scope = tuple(sorted({variable for factor in factors for variable in factor.scope}))
    values = np.ones((1,) * (len(scope) + 1))
    log_scale: Array = np.asarray(sum((factor.log_scale for factor in factors), np.zeros(1)))
    for count, factor in enumerate(sorted(factors, key=lambda factor: factor.values.size)):
        sizes = dict(zip(factor.scope, factor.values.shape[1:], strict=True))
        aligned = factor.values.reshape(-1, *[sizes.get(variable, 1) for variable in scope])
        _check_size(values.shape, aligned.shape)
        values = values * aligned if count else aligned
        if count % UNSCALED == UNSCALED - 1:
            values, log_peak = _rescale_rows(values)
            log_scale = log_scale + log_peak
    return Factor(scope, values), log_scale


def _check_size(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Raise ValueError if the product of two tables, given by their broadcastable shapes, exceeds MAX_CELLS cells."""
    n_cells = math.prod(map(max, one, other))
    if n_cells > MAX_CELLS:
        raise ValueError(
            f"The network must have tables of at most {MAX_CELLS} cells for exact inference; got "
            f"{n_cells:.3g}, because too many variables depend on each other. Use fewer edges or bins."
        )


def elimination_order(scopes: Iterable[Sequence[int]], remove: Iterable[int], sizes: Sequence[int]) -> list[int]:
    """Return the variables in `remove` in min-fill order: next is the variable whose elimination adds the fewest edges.

    `scopes` holds the variables of each factor, and `sizes` the number of values of each variable. Ties go to the
    variable whose product is the smallest table.
    """
    neighbours = _neighbours(scopes)
    waiting = set(remove)
    costs = {variable: _fill_cost(variable, neighbours, sizes) for variable in waiting}
    order = []
    queue = [(cost, variable) for variable, cost in costs.items()]  # stale entries remain in the queue
    heapify(queue)
    while waiting:
        cost, best = heappop(queue)
        if best not in waiting or cost != costs[best]:
            continue
        waiting.remove(best)
        order.append(best)
        around = neighbours.pop(best, set())
        if cost[0] == 0:  # all neighbours are connected already
            for variable in around:
                gone = len(neighbours[variable]) - len(around)  # missing edges to the eliminated variable
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
    """Return for each variable the set of other variables that share a scope with it."""
    neighbours: dict[int, set[int]] = {}
    for scope in scopes:
        for variable in scope:
            neighbours.setdefault(variable, set()).update(scope)
    for variable, around in neighbours.items():
        around.discard(variable)
    return neighbours


def _fill_cost(variable: int, neighbours: dict[int, set[int]], sizes: Sequence[int]) -> tuple[int, float]:
    """Return the number of edges that eliminating a variable adds, and the size of the table it creates."""
    around = neighbours.get(variable, set())
    missing = sum(len(around - neighbours[other]) - 1 for other in around) // 2
    return missing, _table_size(variable, around, sizes)


def _table_size(variable: int, around: Iterable[int], sizes: Sequence[int]) -> float:
    """Return the number of cells of the table over a variable and its neighbours `around`; inf if it overflows."""
    try:
        return float(math.prod(sizes[other] for other in around) * sizes[variable])
    except OverflowError:
        return math.inf


def eliminate(
    factors: Sequence[Factor], remove: Iterable[int], sizes: Sequence[int], *, by_max: bool = False
) -> Elimination:
    """Sum the variables in `remove` out of a product of factors, or maximise over them if `by_max` is True.

    `sizes` holds the number of values of each variable. Return the remaining factors, a log scale by row, and for each
    eliminated variable the product that it was eliminated from.
    """
    left = dict(enumerate(factors))  # ordered by factor index
    numbers: dict[int, list[int]] = {}  # factor indices by variable, including eliminated factors
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
        values, log_message = _rescale_rows(values)
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
    """Return the sum of the logs and log scales of factors without variables, by row, shape (n_rows or 1,)."""
    with np.errstate(divide="ignore"):
        return sum((np.log(factor.values) + factor.log_scale for factor in constants), np.zeros(1))


def _rescale_rows(values: Array) -> tuple[Array, Array]:
    """Return each row divided by its maximum, and the logs of the maxima; rows of zeros stay, with a log of 0."""
    peak = values.reshape(len(values), -1).max(axis=1)
    peak = np.where(peak > 0, peak, 1.0)
    return values / peak.reshape(-1, *(1,) * (values.ndim - 1)), log(peak)


def marginal(factors: Sequence[Factor], keep: Iterable[int], sizes: Sequence[int]) -> tuple[Factor, Array]:
    """Return the product of the factors, summed over variables not in `keep` and normalised by row, and log totals.

    `sizes` holds the number of values of each variable. The log totals are the logs of the sums of the product by row.
    Rows with a total of 0 hold zeros and a log total of -inf.
    """
    kept = set(keep)
    remove = {variable for factor in factors for variable in factor.scope} - kept
    elimination = eliminate(factors, remove, sizes)
    joined, log_peak = product(elimination.factors)
    total = joined.values.reshape(len(joined.values), -1).sum(axis=1)
    log_total = log(total) + log_peak + elimination.log_scale
    safe = np.where(total > 0, total, 1.0)
    values = joined.values / safe.reshape(-1, *(1,) * len(joined.scope))
    if (log_total == -np.inf).any():
        values = values * (log_total > -np.inf).reshape(-1, *(1,) * len(joined.scope))
    return Factor(joined.scope, values), log_total


def draw_backwards(steps: Sequence[tuple[int, Factor]], n: int, random: np.random.Generator) -> dict[int, NDArray]:
    """Draw `n` joint positions of the eliminated variables; return an array of shape (n,) for each variable.

    `steps` comes from `eliminate` for factors with one row. Variables are drawn in reverse order of elimination: given
    the values drawn before, the distribution of a variable is proportional to the product it was eliminated from.
    """
    drawn: dict[int, NDArray] = {}
    for variable, joined in reversed(steps):
        weights = np.moveaxis(_select_entries(joined, variable, drawn, n), 0, -1)
        cumulative = np.cumsum(weights, axis=0)
        drawn[variable] = (cumulative < random.random(n) * cumulative[-1]).sum(axis=0)
    return drawn


def best_backwards(steps: Sequence[tuple[int, Factor]]) -> dict[int, int]:
    """Return the position of the most probable value of each eliminated variable; ties go to the first value.

    `steps` comes from `eliminate` with `by_max=True` for factors with one row.
    """
    positions: dict[int, NDArray] = {}
    for variable, joined in reversed(steps):
        positions[variable] = _select_entries(joined, variable, positions, 1).argmax(axis=1)
    return {variable: int(values[0]) for variable, values in positions.items()}


def _select_entries(joined: Factor, variable: int, positions: dict[int, NDArray], n: int) -> Array:
    """Return the entries of a one-row factor for each value of `variable`, (n, size), the others at `positions`."""
    others = tuple(other for other in joined.scope if other != variable)
    values = np.moveaxis(joined.values[0], joined.scope.index(variable), -1)
    entries = values[tuple(positions[other] for other in others)]
    return np.broadcast_to(entries, (n, entries.shape[-1]))


BLOCK_CELLS = 1 << 20  # maximum joint table of a block of rows: 8 MB
JOINT_CELLS = 1 << 12  # maximum cells of a small joint table


class Component(NamedTuple):
    """Connected missing variables, the variables whose tables contain them, and the rows that lack them."""

    variables: tuple[int, ...]
    touched: tuple[int, ...]
    rows: NDArray[np.intp]


def find_components(
    network: NetworkData, is_missing: NDArray[np.bool_], target: int | None = None, *, prune: bool = True
) -> list[Component]:
    """Group the missing variables of each row into components; return each with the rows in which it occurs.

    `is_missing` has the shape (n_variables, n_rows). Missing variables are connected if one table contains both. If
    `target` is passed, only components that contain this variable are returned. If `prune` is True, missing variables
    without known or target descendants are dropped, because their tables sum to 1.
    """
    packed = np.packbits(is_missing, axis=0)
    patterns, first, pattern_of_row = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    by_pattern = np.argsort(pattern_of_row.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(pattern_of_row.ravel(), minlength=patterns.shape[1]))
    rows_of: dict[tuple[tuple[int, ...], tuple[int, ...]], list[NDArray[np.intp]]] = {}
    for index, row in enumerate(first):
        missing = np.flatnonzero(is_missing[:, row]).tolist()
        rows = by_pattern[ends[index - 1] if index else 0 : ends[index]]
        for component in _connected_components(network, missing, target, prune):
            if target is None or target in component[0]:
                rows_of.setdefault(component, []).append(rows)
    return [Component(*component, np.sort(np.concatenate(rows))) for component, rows in sorted(rows_of.items())]


def _connected_components(
    network: NetworkData, missing: list[int], target: int | None, prune: bool
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield each connected set of `missing` variables, and the variables whose tables contain one of them.

    If `prune` is True, missing variables without a known descendant are dropped, except `target` and its ancestors.
    """
    unknown = set(missing)
    needed = set(range(len(network.names)))
    if prune:
        roots = needed - unknown if target is None else (needed - unknown) | {target}
        needed = ancestors(network.parents, roots)
    waiting = unknown & needed
    while waiting:
        component, touched, new = set(), set(), [min(waiting)]
        while new:
            variable = new.pop()
            component.add(variable)
            families = {variable, *network.children[variable]} & needed
            around = {other for family in families for other in network.families[family]} & unknown
            new += [other for other in around if other not in component and other not in new]
            touched |= families
        waiting -= component
        yield tuple(sorted(component)), tuple(sorted(touched))


def evidence_factors(
    network: NetworkData, component: Component, codes: NDArray[Any], rows: NDArray[np.intp], values: Array | None = None
) -> tuple[list[Factor], list[tuple[list[int], Conditional]]]:
    """Return the factors of a component at the known values of `rows`, and its groups of continuous variables.

    `codes` and `values` have the shape (n_variables, n_all_rows), and `rows` holds row indices. Each group is a list of
    variables and the result of `condition` for them.
    """
    unknown = set(component.variables)
    groups = conditionals(
        network,
        independent_groups(network, component.touched, unknown),
        unknown,
        codes[:, rows],
        values_of_rows(values, rows),
    )
    factors = [
        evidence_factor(network, variable, unknown, codes[:, rows])
        for variable in component.touched
        if variable not in network.continuous
    ]
    return factors + [density_factor(conditional) for _, conditional in groups], groups


def values_of_rows(values: Array | None, rows: Any) -> Array:
    """Return `values[:, rows]`, the numbers of some rows, or an empty array if `values` is None."""
    return np.zeros((0, 0)) if values is None else values[:, rows]


def conditionals(
    network: NetworkData,
    groups: Iterable[list[int]],
    unknown: set[int],
    codes: NDArray[Any],
    values: Array,
    *,
    by_max: bool = False,
) -> list[tuple[list[int], Conditional]]:
    """Return each group of continuous variables with the result of `condition`, which describes the parameters."""
    return [(group, condition(network, group, unknown, codes, values, by_max=by_max)) for group in groups]


def density_factor(conditional: Conditional) -> Factor:
    """Return the density of the known continuous variables as a factor over the variables `conditional.scope`."""
    _check_size(conditional.log_density.shape, (1,) * conditional.log_density.ndim)
    peak = conditional.log_density.reshape(len(conditional.log_density), -1).max(axis=1)
    peak = np.where(peak > -np.inf, peak, 0.0)
    return Factor(
        conditional.scope, exp(conditional.log_density - peak.reshape(-1, *(1,) * len(conditional.scope))), peak
    )


def evidence_factor(network: NetworkData, variable: int, unknown: set[int], codes: NDArray[Any]) -> Factor:
    """Return P(variable | parents) at the known values of rows, as a factor over its family's unknown variables.

    `codes` has the shape (n_variables, n_rows). The factor has a single row if the whole family is unknown.
    """
    family = network.families[variable]
    table, scope, observed = split_axes(network.tables[variable], family, unknown)
    if not observed:
        return Factor(scope, table[None])
    return Factor(scope, table[tuple(codes[other].astype(np.intp) - 1 for other in observed)])


def row_blocks(network: NetworkData, component: Component) -> Iterator[NDArray[np.intp]]:
    """Yield, in blocks that fit the cache, the indices of rows that lack the component's connected variables."""
    n_cells = min(np.prod(network.sizes[list(component.variables)], dtype=np.float64), JOINT_CELLS)
    n_moments = (1 + len(network.continuous.intersection(component.touched))) ** 2
    step = max(1, BLOCK_CELLS // (max(int(n_cells), 1) * n_moments))
    for first in range(0, len(component.rows), step):
        yield component.rows[first : first + step]


def component_posterior(
    network: NetworkData, component: Component, keep: tuple[int, ...], factors: list[Factor], n_rows: int
) -> tuple[Array, Array]:
    """Return P(keep | known values of a component), and the log of the total of the product of `factors` by row.

    The posterior has the shape (n_rows, sizes of `keep` in ascending order...), with zeros for impossible rows.
    `factors` are the factors of the component, see `evidence_factors`.
    """
    posterior, log_total = marginal(factors, keep, network.sizes.tolist())
    shape = tuple(network.sizes[sorted(keep)])
    return np.broadcast_to(posterior.values, (n_rows, *shape)), np.broadcast_to(log_total, n_rows)


def expected_counts(
    network: NetworkData,
    components: list[Component],
    codes: NDArray[Any],
    weights: Array | None,
    values: Array | None = None,
) -> tuple[list[Array], float]:
    """Return the expected counts of each family from rows with missing values, and the sum of log probabilities.

    `components` holds the missing variables and their rows, see `find_components`; families that are known in a row are
    counted elsewhere. Continuous variables have expected second moments instead of counts. The log probabilities are
    weighted sums of the components' log totals. Impossible rows add no counts and make the sum -inf.
    """
    counts = [np.zeros(table.shape) for table in network.tables]
    for node, regression in network.regressions.items():
        counts[node] = np.zeros((*regression.shape, regression.shape[-1]))
    total = 0.0
    for component in components:
        joint_size = np.prod(network.sizes[list(component.variables)], dtype=np.float64)
        # A small joint table is computed once and marginalised for each family.
        keep = component.variables if joint_size <= JOINT_CELLS else ()
        for rows in row_blocks(network, component):
            weight = np.ones(len(rows)) if weights is None else weights[rows]
            factors, groups = evidence_factors(network, component, codes, rows, values)
            joint, log_total = component_posterior(network, component, keep, factors, len(rows))
            total += float((weight * log_total).sum())
            for variable in component.touched:
                family = network.families[variable]
                group = next((conditional for members, conditional in groups if variable in members), None)
                view, scope, observed = split_axes(counts[variable], family, set(component.variables))
                within, scope = scope, scope if group is None else group.scope
                if keep:
                    others = [1 + axis for axis, other in enumerate(keep) if other not in scope]
                    share = joint.sum(axis=tuple(others))
                else:
                    share = component_posterior(network, component, scope, factors, len(rows))[0]
                if group is not None:
                    moments = second_moments(network, variable, group, values_of_rows(values, rows))
                    others = [1 + axis for axis, other in enumerate(scope) if other not in within]
                    share = (share[..., None, None] * moments).sum(axis=tuple(others))
                _add_shares(view, [codes[other][rows] for other in observed], share, weight)
    return counts, total


def _add_shares(view: Array, codes: list[NDArray[Any]], share: Array, weight: Array) -> None:
    """Add `weight[i] * share[i]` to the cells of row i in `view`, in place.

    The first axes of `view` belong to known variables, and `codes` has one array of shape (n_rows,) for each of them.
    The cells of row i are `view[codes[0][i] - 1, codes[1][i] - 1, ...]`.
    """
    n_known = view.shape[: len(codes)]
    cells = np.zeros(len(weight), dtype=np.intp)
    for size, code in zip(n_known, codes, strict=True):
        cells = cells * size + (code.astype(np.intp) - 1)
    n_cells = int(np.prod(n_known))
    flat = share.reshape(len(weight), -1)
    sums = [np.bincount(cells, weights=flat[:, k] * weight, minlength=n_cells) for k in range(flat.shape[1])]
    view += np.stack(sums, axis=1).reshape(view.shape)


# Rows --------------------------------------------------


def log_likelihoods(
    network: NetworkData, codes: NDArray[Any], n_threads: int = 1, values: Array | None = None
) -> Array:
    """Return the log probability of the known values of each row, shape (n_rows,).

    `codes` has the shape (n_variables, n_rows); 0 and codes above the number of values are missing. `values` holds the
    numbers of continuous variables in the same shape, or None if there are none.
    """
    out = np.zeros((codes.shape[1], 1))
    tables = [log(table)[..., None] for table in network.tables]
    add_family_logs(codes, network.sizes, network.families, tables, out, n_threads)
    out = out[:, 0]
    is_missing = missing_mask(network, codes)
    for node in sorted(network.continuous):
        known_rows = np.flatnonzero(~is_missing[list(network.families[node])].any(axis=0))
        out[known_rows] += condition(
            network, [node], set(), codes[:, known_rows], values_of_rows(values, known_rows)
        ).log_density
    some = np.flatnonzero(is_missing.any(axis=0))
    for component in find_components(network, is_missing[:, some]):
        for rows in row_blocks(network, component):
            factors, _ = evidence_factors(network, component, codes, some[rows], values)
            out[some[rows]] += component_posterior(network, component, (), factors, len(rows))[1]
    return out


def missing_mask(network: NetworkData, codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the missing values, shape (n_variables, n_rows): codes of 0, or above the number of values."""
    return (codes == 0) | (codes > network.sizes[:, None])


def log_posteriors(
    network: NetworkData, variable: int, codes: NDArray[Any], n_threads: int = 1, values: Array | None = None
) -> Array:
    """Return log P(variable | known values) of each row up to a constant per row, shape (n_rows, n_values).

    If the Markov blanket of the variable is known, only its table and the tables of its children matter (Pearl 1988,
    section 3.3.1). Otherwise, missing values are summed out. The code of the variable itself is ignored. Impossible
    rows are -inf everywhere.
    """
    codes = codes.copy()
    codes[variable] = 0
    out = np.zeros((codes.shape[1], int(network.sizes[variable])))
    touched = [variable, *network.children[variable]]
    families, tables = [], []
    for node in touched:
        family = network.families[node]
        axis = family.index(variable)
        families.append(family[:axis] + family[axis + 1 :])
        tables.append(log(np.moveaxis(network.tables[node], axis, -1)))
    add_family_logs(codes, network.sizes, families, tables, out, n_threads)
    blanket = sorted({other for family in families for other in family})
    unknown = missing_mask(network, codes)
    is_partial = unknown[blanket].any(axis=0)
    some, known_rows = np.flatnonzero(is_partial), np.flatnonzero(~is_partial)
    for _, conditional in conditionals(
        network,
        independent_groups(network, touched, {variable}),
        {variable},
        codes[:, known_rows],
        values_of_rows(values, known_rows),
    ):
        out[known_rows] += conditional.log_density
    for component in find_components(network, unknown[:, some], variable):
        for rows in row_blocks(network, component):
            factors, _ = evidence_factors(network, component, codes, some[rows], values)
            out[some[rows]] = log(component_posterior(network, component, (variable,), factors, len(rows))[0])
    return out


def posterior_moments(network: NetworkData, variable: int, codes: NDArray[Any], values: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of a continuous variable given the known values of each row.

    Impossible rows are NaN.
    """
    codes = codes.copy()
    codes[variable] = 0
    out = np.empty((2, codes.shape[1]))
    for component in find_components(network, missing_mask(network, codes), variable):
        for rows in row_blocks(network, component):
            factors, groups = evidence_factors(network, component, codes, rows, values)
            conditional = next(group for _, group in groups if variable in group.missing)
            share, log_total = component_posterior(network, component, conditional.scope, factors, len(rows))
            at = conditional.missing.index(variable)
            cells = (len(rows), *share.shape[1:])
            mean = np.broadcast_to(conditional.mean[..., at], cells).reshape(len(rows), -1, 1)
            covariance = np.broadcast_to(conditional.covariance[..., at, at], cells).reshape(len(rows), -1, 1, 1)
            mean, covariance = mixture_moments(share.reshape(len(rows), -1), mean, covariance)
            out[:, rows] = np.where(log_total > -np.inf, (mean[:, 0], covariance[:, 0, 0]), np.nan)
    return out[0], out[1]


# One set of evidence --------------------------------------------------

# The number, or the position of the value, of each observed variable, or the likelihood of each value (virtual
# evidence).
Evidence = Mapping[int, "int | float | Array"]


def observed(evidence: Evidence) -> dict[int, float]:
    """Return the evidence without virtual evidence: the number, or position of the value, of each observed variable."""
    return {variable: value for variable, value in evidence.items() if isinstance(value, int | float)}


def query(network: NetworkData, variables: Sequence[int], evidence: Evidence) -> tuple[Array, float]:
    """Return P(variables | evidence), with one axis for each variable in order, and log P(evidence)."""
    factors, _ = _shared_evidence_factors(network, ancestors(network.parents, [*variables, *evidence]), evidence)
    joint, log_total = marginal(factors, variables, network.sizes.tolist())
    axes = [joint.scope.index(variable) for variable in variables]
    return joint.values[0].transpose(axes), float(log_total[0])


def query_numbers(
    network: NetworkData, variables: Sequence[int], evidence: Evidence
) -> tuple[Array, Array, Array, float]:
    """Return weights, means and covariances of the normal mixture P(variables | evidence), and log P(evidence).

    The `variables` are continuous. Components with a weight of 0 are left out.
    """
    nodes = ancestors(network.parents, [*variables, *evidence])
    factors, groups = _shared_evidence_factors(network, nodes, evidence, variables)
    conditional = groups[0][1]
    joint, log_total = marginal(factors, conditional.scope, network.sizes.tolist())
    at = np.array([conditional.missing.index(variable) for variable in variables])
    weights = joint.values.ravel()
    mean = np.broadcast_to(conditional.mean[..., at], (*joint.values.shape, len(at)))
    covariance = np.broadcast_to(conditional.covariance[..., at[:, None], at], (*joint.values.shape, len(at), len(at)))
    held = weights > 0
    means, covariances = mean.reshape(-1, len(at))[held], covariance.reshape(-1, len(at), len(at))[held]
    return weights[held], means, covariances, float(log_total[0])


def _shared_evidence_factors(
    network: NetworkData, nodes: set[int], evidence: Evidence, first_group: Sequence[int] = (), *, by_max: bool = False
) -> tuple[list[Factor], list[tuple[list[int], Conditional]]]:
    """Return the factors of `nodes` given one set of evidence, and their groups of continuous variables.

    Virtual evidence adds a factor. Groups are as in `evidence_factors`, and the group of `first_group` is the first. If
    `by_max` is True, densities are maximised over missing continuous variables, not integrated.
    """
    codes, values = _evidence_as_row(network, evidence)
    unknown = set(range(len(network.names))) - set(observed(evidence))
    virtual = [
        Factor((v,), likelihood[None]) for v, likelihood in evidence.items() if isinstance(likelihood, np.ndarray)
    ]
    discrete = [evidence_factor(network, node, unknown, codes) for node in sorted(nodes - network.continuous)]
    groups = conditionals(
        network, independent_groups(network, sorted(nodes), unknown, first_group), unknown, codes, values, by_max=by_max
    )
    return discrete + virtual + [density_factor(conditional) for _, conditional in groups], groups


def _evidence_as_row(network: NetworkData, evidence: Evidence) -> tuple[NDArray[np.int64], Array]:
    """Return evidence as codes and numbers, each of shape (n_variables, 1); virtual evidence is left out.

    The code of an unobserved variable is 0, and of an observed continuous variable 1.
    """
    codes, values = np.zeros((len(network.names), 1), dtype=np.int64), np.zeros((len(network.names), 1))
    for variable, value in observed(evidence).items():
        codes[variable], values[variable] = (1 if variable in network.continuous else int(value) + 1), value
    return codes, values


def explain(network: NetworkData, evidence: Evidence) -> tuple[dict[int, int], Array, float]:
    """Return the most probable joint state of all unobserved variables, and its log probability with the evidence.

    The state is a dict of positions by variable, and an array of the numbers of all continuous variables.
    """
    factors, _ = _shared_evidence_factors(network, set(range(len(network.names))), evidence, by_max=True)
    unknown = set(range(len(network.names))) - set(observed(evidence))
    elimination = eliminate(factors, unknown, network.sizes.tolist(), by_max=True)
    best = best_backwards(elimination.steps)
    codes, values = _evidence_as_row(
        network, {**evidence, **{v: at for v, at in best.items() if v not in network.continuous}}
    )
    missing = unknown & network.continuous
    for _, group in conditionals(network, independent_groups(network, network.order, missing), missing, codes, values):
        values[list(group.missing), 0] = group.mean.reshape(-1)
    return best, values[:, 0], float(elimination.log_scale[0])


# Draws --------------------------------------------------


def draw(
    network: NetworkData, n: int, evidence: Evidence, random: np.random.Generator
) -> tuple[NDArray[np.int64], Array]:
    """Draw joint values from the exact distribution given evidence, as positions and numbers (n_variables, n).

    Continuous variables are drawn given the discrete variables.
    """
    out = _draw_positions(network, n, evidence, random)
    observations = observed(evidence)
    numbers = np.zeros(out.shape if network.continuous else (0, 0))
    for variable in network.continuous & set(observations):
        numbers[variable] = observations[variable]
    draw_missing(network, out + 1, numbers, set(network.continuous) - set(observations), random)
    return out, numbers


def _draw_positions(network: NetworkData, n: int, evidence: Evidence, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw `n` joint values as positions, shape (n_variables, n).

    Without evidence, parents are drawn before children; otherwise, in reverse order of an elimination.
    """
    out = np.zeros((len(network.names), n), dtype=np.int64)
    if not evidence:
        for node in network.order:
            cumulative = np.cumsum(network.tables[node], axis=-1)[
                tuple(out[parent] for parent in network.parents[node])
            ]
            out[node] = (cumulative < (random.random(n) * cumulative[..., -1])[..., None]).sum(axis=-1)
        return out
    factors, _ = _shared_evidence_factors(network, set(range(len(network.names))), evidence)
    observations = observed(evidence)
    unknown = set(range(len(network.names))) - set(observations)
    elimination = eliminate(factors, unknown, network.sizes.tolist())
    for variable in set(observations) - network.continuous:
        out[variable] = int(observations[variable])
    for variable, positions in draw_backwards(elimination.steps, n, random).items():
        out[variable] = positions
    return out

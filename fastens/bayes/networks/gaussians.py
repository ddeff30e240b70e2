"""Continuous variables of a network: densities given evidence, draws and expected moments.

Given the values of its discrete parents, a continuous variable is a linear regression on its continuous parents with
normal noise (conditional linear Gaussian; Lauritzen & Wermuth 1989).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import CodedRows
from fastens.bayes.counts.regressions import LOG_2PI
from fastens.bayes.networks.network_data import NetworkData, split_axes
from fastens.engine.elementary import log

Array = NDArray[np.float64]


class Conditional(NamedTuple):
    """Density of the known variables of a group, and the normal distribution of its missing variables given them."""

    scope: tuple[int, ...]  # missing variables; continuous variables have one value
    log_density: Array  # (n_rows or 1, sizes of the scope...)
    missing: tuple[int, ...]  # continuous missing variables, in the order of the last axis of `mean`
    mean: Array
    covariance: Array  # 0 for variables that an intervention has set


def independent_groups(
    network: NetworkData, nodes: Iterable[int], unknown: set[int], first_group: Iterable[int] = ()
) -> list[list[int]]:
    """Partition the continuous variables among `nodes` into groups that share no missing continuous variable.

    Two variables are in one group if their families, which are variables with their parents, have a continuous variable
    in `unknown` in common. Return the variables of each group. The variables whose families are linked to `first_group`
    form the first group.
    """
    groups: list[tuple[set[int], list[int]]] = [(set(first_group), [])]
    for node in (node for node in nodes if node in network.continuous):
        linked = set(network.families[node]) & unknown & network.continuous
        touched = [group for group in groups if group[0] & linked]
        rest = [group for group in groups if not group[0] & linked]
        joined = (
            set().union(linked, *(links for links, _ in touched)),
            [*(v for _, members in touched for v in members), node],
        )
        groups = [joined, *rest] if touched and touched[0] is groups[0] else [*rest, joined]
    return [members for _, members in groups if members]


def condition(
    network: NetworkData,
    group: Sequence[int],
    unknown: set[int],
    codes: NDArray[Any],
    values: Array,
    *,
    by_max: bool = False,
) -> Conditional:
    """Return the density of a group's known variables, and the distribution of its missing variables given them.

    `group` holds continuous variables and `unknown` all variables without a value; `codes` and `values`, (n_variables,
    n_rows), hold the other values. The density is the product of the group's regression densities, integrated over the
    missing continuous variables, or maximised over them if `by_max` is True.

    The log of the product is quadratic in the missing variables, so its precision and mean are sums over the densities
    (the canonical form of Lauritzen 1992, "Propagation of probabilities, means, and variances in mixed graphical
    association models").
    """
    scope = tuple(sorted({variable for node in group for variable in network.families[node]} & unknown))
    missing = tuple(variable for variable in scope if variable in network.continuous)
    free = [variable not in network.constants for variable in missing]
    shape = (1,) * (len(scope) + 1)
    constant = np.zeros(shape)
    precision, shift = np.zeros((*shape, len(missing), len(missing))), np.zeros((*shape, len(missing)))
    terms = []
    for node in group:
        family = network.families[node]
        view, own_scope, observed = split_axes(network.regressions[node], family, unknown)
        view = view[tuple(codes[other].astype(np.intp) - 1 for other in observed)] if observed else view[None]
        sizes = dict(zip(own_scope, view.shape[1:-1], strict=True))
        view = view.reshape(len(view), *[sizes.get(variable, 1) for variable in scope], view.shape[-1])
        parents = [parent for parent in family[:-1] if parent in network.continuous]
        residual, slopes = -view[..., 0], np.zeros((*view.shape[:-1], len(missing)))
        for slope, variable in zip(
            (*np.moveaxis(view[..., 1:-1], -1, 0), np.full(view.shape[:-1], -1.0)), (*parents, node), strict=True
        ):
            if variable not in unknown:
                residual = residual - slope * values[variable].reshape(-1, *shape[1:])
            elif variable in network.constants:
                residual = residual - slope * network.constants[variable]
            else:
                slopes[..., missing.index(variable)] = slope
        if node in network.constants:
            with np.errstate(divide="ignore"):
                constant = constant + np.log(residual == 0)
            continue
        variance = view[..., -1]
        terms.append((residual, slopes, variance))
        precision = precision + slopes[..., :, None] * slopes[..., None, :] / variance[..., None, None]
        shift = shift + slopes * (residual / variance)[..., None]
    mean, covariance = shift, precision
    if missing:
        precision = precision + np.diag(np.where(free, 0.0, 1.0))  # constants are independent of the others
        covariance = np.linalg.inv(precision)
        mean = (covariance @ shift[..., None])[..., 0]
    for residual, slopes, variance in terms:
        # The densities at the mean do not cancel each other, unlike the coefficients of the quadratic.
        squared = (residual - (slopes * mean).sum(axis=-1)) ** 2
        constant = constant - 0.5 * (squared / variance + log(variance) + LOG_2PI)
    if missing and not by_max:
        constant = constant + 0.5 * (sum(free) * LOG_2PI - np.linalg.slogdet(precision)[1])
    constants = np.array([network.constants.get(variable, 0.0) for variable in missing])
    return Conditional(scope, constant, missing, mean + constants, covariance * np.outer(free, free))


def draw_missing(
    network: NetworkData, codes: NDArray[Any], values: Array, unknown: set[int], random: np.random.Generator
) -> None:
    """Draw the continuous variables in `unknown` given all other variables of each row, and write them to `values`.

    `codes` and `values` have the shape (n_variables, n_rows).
    """
    step = 1 << 12  # rows whose matrices are held at once
    for group in independent_groups(network, sorted(network.continuous), unknown):
        for first in range(0, codes.shape[1], step):
            rows = slice(first, first + step)
            conditional = condition(network, group, unknown, codes[:, rows], values[:, rows])
            missing = list(conditional.missing)
            if missing:
                mean = conditional.mean.reshape(-1, len(missing))
                # The eigenvectors also factorise the covariance of constants, which is 0.
                scales, vectors = np.linalg.eigh(conditional.covariance.reshape(-1, len(missing), len(missing)))
                noise = random.standard_normal((codes[:, rows].shape[1], len(missing), 1))
                noise = vectors @ (np.sqrt(np.maximum(scales, 0))[..., None] * noise)
                values[missing, rows] = (mean + noise[..., 0]).T


def mixture_moments(weights: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return the means (n, d) and the covariances (n, d, d) of n mixtures of k normal distributions.

    `weights` has the shape (n, k), `mean` (n, k, d) and `covariance` (n, k, d, d).
    """
    total = (weights[..., None] * mean).sum(axis=1)
    centred = mean - total[:, None]
    spread = covariance + centred[..., :, None] * centred[..., None, :]
    return total, (weights[..., None, None] * spread).sum(axis=1)


def second_moments(network: NetworkData, node: int, conditional: Conditional, values: Array) -> Array:
    """Return E[z z'] for each row and each cell of `conditional.scope`, shape (n_rows, sizes of the scope..., d, d).

    z = (1, continuous parents of `node`, `node`) has d entries. Missing entries are distributed as in `conditional`;
    the others are in `values`, (n_variables, n_rows).
    """
    variables = [other for other in network.families[node] if other in network.continuous]
    positions = [conditional.missing.index(v) if v in conditional.missing else -1 for v in variables]
    flat = (-1, *(1,) * len(conditional.scope))
    means = [
        conditional.mean[..., at] if at >= 0 else values[v].reshape(flat)
        for v, at in zip(variables, positions, strict=True)
    ]
    z = np.stack(np.broadcast_arrays(np.ones((1, *flat[1:])), *means), axis=-1)
    out = z[..., :, None] * z[..., None, :]
    missing_entries = [(i + 1, at) for i, at in enumerate(positions) if at >= 0]
    if missing_entries:
        z_index, at = np.array(missing_entries).T
        out[..., z_index[:, None], z_index] += conditional.covariance[..., at[:, None], at]
    return out


class Scale(NamedTuple):
    """Means and standard deviations of the continuous variables, which keep moments free of cancellation."""

    mean: Array
    deviation: Array

    def regression(self, network: NetworkData, node: int) -> Array:
        """Return the regressions of a variable, fitted to standardised columns, in the units of the columns."""
        regressions, deviation = network.regressions[node].copy(), self.deviation[node]
        parents = [parent for parent in network.parents[node] if parent in network.continuous]
        regressions[..., 1:-1] *= deviation / self.deviation[parents]
        regressions[..., 0] = (
            self.mean[node] + deviation * regressions[..., 0] - regressions[..., 1:-1] @ self.mean[parents]
        )
        regressions[..., -1] *= deviation**2
        return regressions


def standardised(rows: CodedRows) -> tuple[CodedRows, Scale, float]:
    """Return rows whose continuous variables have mean 0 and deviation 1, the scale, and a log density correction.

    The correction is added to the log density of the standardised rows to give the log density of the original rows.
    The rows of all processes are gathered.
    """
    rows = rows.of_all_ranks()
    scale = Scale(np.zeros(len(rows.codes)), np.ones(len(rows.codes)))
    values, log_density = np.zeros((len(rows.codes), rows.codes.shape[1])), 0.0
    weights = np.ones(rows.codes.shape[1]) if rows.weights is None else rows.weights
    for variable in sorted(rows.continuous):
        is_known, column = rows.codes[variable] > 0, rows.of_values(variable)
        mean = np.average(column[is_known], weights=weights[is_known])
        deviation = math.sqrt(np.average((column[is_known] - mean) ** 2, weights=weights[is_known])) or 1.0
        scale.mean[variable], scale.deviation[variable] = mean, deviation
        values[variable, is_known] = (column[is_known] - mean) / deviation
        log_density -= float(weights[is_known].sum()) * math.log(deviation)
    return replace(rows, values=values), scale, log_density

"""Exact inference: probabilities of rows and of variables in them, joint distributions, samples, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.families import add_family_logs
from fastens.bayes.networks.components import (
    blocks_of,
    evidence_factor,
    evidence_factors,
    find_components,
    posterior_of,
)
from fastens.bayes.networks.discrete_network import DiscreteNetwork
from fastens.bayes.networks.factors import Array, Factor, best_backwards, draw_backwards, eliminate, marginal
from fastens.bayes.networks.graphs import ancestors
from fastens.engine.elementary import log

# Rows --------------------------------------------------


def log_likelihoods(network: DiscreteNetwork, codes: NDArray[Any], n_threads: int = 1) -> Array:
    """Log probability of the known values of each row; codes above the sizes count as missing."""
    out = np.zeros((codes.shape[1], 1))
    tables = [log(table)[..., None] for table in network.tables]
    add_family_logs(codes, network.sizes, network.families, tables, out, n_threads)
    out = out[:, 0]
    is_missing = missing_in(network, codes)
    some = np.flatnonzero(is_missing.any(axis=0))
    for component in find_components(network, is_missing[:, some]):
        for rows in blocks_of(network, component):
            factors = evidence_factors(network, component, codes, some[rows])
            out[some[rows]] += posterior_of(network, component, (), factors, len(rows))[1]
    return out


def missing_in(network: DiscreteNetwork, codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which codes are missing values."""
    return (codes == 0) | (codes > network.sizes[:, None])


def log_posteriors(network: DiscreteNetwork, variable: int, codes: NDArray[Any], n_threads: int = 1) -> Array:
    """Log of P(variable | the known values of each row), (n_rows, n_values), up to a constant for each row.

    Where the variable's Markov blanket is known, its own table and its children's decide (Pearl 1988, section 3.3.1).
    Otherwise missing values are summed out. The variable's own code does not count. Impossible rows are all -inf.
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
    unknown = missing_in(network, codes)
    some = np.flatnonzero(unknown[blanket].any(axis=0))
    for component in find_components(network, unknown[:, some], variable):
        for rows in blocks_of(network, component):
            factors = evidence_factors(network, component, codes, some[rows])
            out[some[rows]] = log(posterior_of(network, component, (variable,), factors, len(rows))[0])
    return out


# One set of evidence --------------------------------------------------


def query(network: DiscreteNetwork, variables: Sequence[int], evidence: Mapping[int, int]) -> tuple[Array, float]:
    """P(variables | evidence), an axis for each variable in their order, and log P(evidence)."""
    factors = _factors(network, ancestors(network.parents, [*variables, *evidence]), evidence)
    found, log_total = marginal(factors, variables, network.sizes.tolist())
    axes = [found.scope.index(variable) for variable in variables]
    return found.values[0].transpose(axes), float(log_total[0])


def _factors(network: DiscreteNetwork, nodes: set[int], evidence: Mapping[int, int]) -> list[Factor]:
    """The tables of some variables at the evidence, which is the same in all rows."""
    codes = np.zeros((len(network.names), 1), dtype=np.int64)
    for variable, position in evidence.items():
        codes[variable] = position + 1
    unknown = set(range(len(network.names))) - set(evidence)
    return [evidence_factor(network, node, unknown, codes) for node in sorted(nodes)]


def explain(network: DiscreteNetwork, evidence: Mapping[int, int]) -> tuple[dict[int, int], float]:
    """The most probable values of all variables without evidence, and log P(them, evidence)."""
    factors = _factors(network, set(range(len(network.names))), evidence)
    unknown = set(range(len(network.names))) - set(evidence)
    found = eliminate(factors, unknown, network.sizes.tolist(), by_max=True)
    return best_backwards(found.steps), float(found.log_scale[0])


# Draws --------------------------------------------------


def draw(
    network: DiscreteNetwork, n: int, evidence: Mapping[int, int], random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw joint values given the evidence, exactly; positions, shape (n_variables, n).

    Without evidence, parents before children; with it, backwards through an elimination.
    """
    out = np.zeros((len(network.names), n), dtype=np.int64)
    if not evidence:
        for node in network.order:
            cumulative = np.cumsum(network.tables[node], axis=-1)[
                tuple(out[parent] for parent in network.parents[node])
            ]
            out[node] = (cumulative < (random.random(n) * cumulative[..., -1])[..., None]).sum(axis=-1)
        return out
    factors = _factors(network, set(range(len(network.names))), evidence)
    unknown = set(range(len(network.names))) - set(evidence)
    found = eliminate(factors, unknown, network.sizes.tolist())
    for variable, position in evidence.items():
        out[variable] = position
    for variable, positions in draw_backwards(found.steps, n, random).items():
        out[variable] = positions
    return out

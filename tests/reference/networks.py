"""Bayesian networks by enumeration of the joint distribution."""

from __future__ import annotations

from itertools import product

import numpy as np


def joint(network):
    """P(all variables), an axis for each."""
    out = np.zeros(tuple(network.sizes))
    for cell in product(*map(range, network.sizes)):
        p = 1.0
        for family, table in zip(network.families, network.tables, strict=True):
            p *= table[tuple(cell[variable] for variable in family)]
        out[cell] = p
    return out


def query(network, variables, evidence):
    """P(variables | evidence) and P(evidence); evidence: positions, or likelihoods of all values, by variable."""
    table = joint(network)
    for variable, found in evidence.items():
        if not isinstance(found, int):
            table = table * found.reshape([-1 if axis == variable else 1 for axis in range(table.ndim)])
    evidence = {variable: found for variable, found in evidence.items() if isinstance(found, int)}
    table = table[
        tuple(slice(evidence[v], evidence[v] + 1) if v in evidence else slice(None) for v in range(table.ndim))
    ]
    total = table.sum()
    table = table.sum(axis=tuple(v for v in range(table.ndim) if v not in variables))
    return table.transpose(np.argsort(np.argsort(variables))) / total, total


def intervened(network, values):
    """P(all variables) after an intervention, by the truncated product (Pearl 2009, eq. 3.10)."""
    out = np.zeros(tuple(network.sizes))
    for cell in product(*map(range, network.sizes)):
        p = float(all(cell[variable] == value for variable, value in values.items()))
        for node, (family, table) in enumerate(zip(network.families, network.tables, strict=True)):
            p *= 1.0 if node in values else table[tuple(cell[variable] for variable in family)]
        out[cell] = p
    return out


def row_evidence(network, code):
    """Positions of the known values of a row of codes."""
    return {v: int(c) - 1 for v, c in enumerate(code) if 0 < c <= network.sizes[v]}


def expected_counts(network, codes, weights):
    """Counts of each family, a missing value shared out by the posterior of the row; and the log likelihood."""
    counts, total = [np.zeros(table.shape) for table in network.tables], 0.0
    everything = range(len(network.sizes))
    for code, weight in zip(codes.T, weights, strict=True):
        evidence = row_evidence(network, code)
        unknown = [v for v in everything if v not in evidence]
        table, p = query(network, unknown, evidence)
        total += weight * np.log(p)
        for cell in np.ndindex(table.shape):
            values = evidence | dict(zip(unknown, cell, strict=True))
            for count, family in zip(counts, network.families, strict=True):
                count[tuple(values[v] for v in family)] += weight * table[cell]
    return counts, total


def best(network, evidence):
    """The most probable joint values given the evidence, and their probability."""
    table = joint(network)
    for variable, position in evidence.items():
        others = np.arange(table.shape[variable]) != position
        table[(slice(None),) * variable + (others,)] = 0
    cell = np.unravel_index(table.argmax(), table.shape)
    return {v: int(place) for v, place in enumerate(cell) if v not in evidence}, table.max()

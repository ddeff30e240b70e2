"""Networks for tests: published ones, and random ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fastens.bayes.networks.network_data import NetworkData

FOLDER = Path(__file__).resolve().parents[1] / "bayes" / "networks"


def random_network(rng, n_variables=6, most=3, zeros=0.0):
    """A network with up to three parents each, variables in no topological order; some probabilities may be zero."""
    order = rng.permutation(n_variables)
    sizes = rng.integers(1, most + 1, n_variables)
    parents, tables = [()] * n_variables, [None] * n_variables
    for place, node in enumerate(order):
        found = tuple(int(v) for v in rng.permutation(order[:place])[: rng.integers(0, 4)])
        parents[node] = found
        table = rng.random([sizes[v] for v in (*found, node)]) + 0.05
        table[..., 1:][rng.random(table[..., 1:].shape) < zeros] = 0
        tables[node] = table / table.sum(axis=-1, keepdims=True)
    names = tuple(f"v{index}" for index in range(n_variables))
    return NetworkData(names, tuple(tuple(range(size)) for size in sizes), tuple(parents), tuple(tables))


def random_mixed_network(rng, n_discrete=3, n_continuous=3):
    """A network of discrete variables and continuous variables with parents of both kinds, in no topological order."""
    n = n_discrete + n_continuous
    place = [int(v) for v in rng.permutation(n)]
    own = random_network(rng, n_discrete)
    parents, tables, states, regressions = [()] * n, [None] * n, [()] * n, {}
    for v in range(n_discrete):
        parents[place[v]] = tuple(place[p] for p in own.parents[v])
        tables[place[v]], states[place[v]] = own.tables[v], own.states[v]
    for v in range(n_discrete, n):
        found = [int(p) for p in rng.permutation(v)[: rng.integers(0, 4)]]
        numbers = [p for p in found if p >= n_discrete]
        shape = [1 if p >= n_discrete else int(own.sizes[p]) for p in found]
        node, parents[place[v]] = place[v], tuple(place[p] for p in found)
        tables[node], states[node] = np.ones((*shape, 1)), ("any",)
        regressions[node] = rng.normal(0, 2, (*shape, 1, len(numbers) + 2))
        regressions[node][..., -1] = 0.1 + rng.random((*shape, 1))
    names = tuple(f"v{index}" for index in range(n))
    return NetworkData(names, tuple(states), tuple(parents), tuple(tables), regressions)

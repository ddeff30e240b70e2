"""Networks for tests: published ones, and random ones."""

from __future__ import annotations

from pathlib import Path

from fastens.bayes.networks.discrete_network import DiscreteNetwork

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
    return DiscreteNetwork(names, tuple(tuple(range(size)) for size in sizes), tuple(parents), tuple(tables))

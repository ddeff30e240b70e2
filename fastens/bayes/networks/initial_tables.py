"""Initial tables of EM and gradient ascent: from complete families, drawn, or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.discrete_network import DiscreteNetwork, as_table, check_table
from fastens.bayes.networks.em import shares
from fastens.parameters import instance, one_of

Array = NDArray[np.float64]
START = one_of("counts", "random") | instance(Mapping, "a dict of tables by variable")
SYMMETRY = 0.5  # how far the first tables of hidden variables are from even ones: even ones never part


def initial_tables(
    start: Any, network: DiscreteNetwork, counts: Sequence[Array], hidden: set[int], rng: np.random.Generator
) -> list[Array]:
    """Initial tables of the optimisation, without zeros, which it would never change.

    "counts": the shares of the rows in which a family is known, after one more of each, with some noise for hidden
    variables. "random": uniformly drawn distributions. A dict: tables by name, of other variables as with "counts";
    ValueError if one names no variable, has another shape, or holds no probabilities greater than 0.
    """
    if isinstance(start, str) and start == "random":
        return [shares(mass, mass) for mass in (rng.standard_exponential(found.shape) for found in counts)]
    tables = []
    for family, found in zip(network.families, counts, strict=True):
        mass = found + 1
        if hidden & set(family):
            mass = mass * (1 + SYMMETRY * rng.uniform(-1, 1, mass.shape))
        tables.append(shares(mass, mass))
    for name, given in {} if isinstance(start, str) else start.items():
        if name not in network.names:
            raise ValueError(f"start must name variables of the network, {list(network.names)}; got {name!r}.")
        number = network.names.index(name)
        tables[number] = _given_table(name, given, tables[number].shape)
    return tables


def _given_table(name: str, given: Any, shape: tuple[int, ...]) -> Array:
    table = as_table(f"start[{name!r}]", given)
    try:
        check_table(name, table, shape)
    except ValueError as error:
        raise ValueError(f"start must hold tables of the variables, but {error}") from None
    if not table.all():
        raise ValueError(f"start[{name!r}] must hold probabilities greater than 0: EM never changes a zero.")
    return shares(table, table)

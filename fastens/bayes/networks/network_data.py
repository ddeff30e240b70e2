"""Bayesian network as plain data: names, values, parents, probability tables, and regressions if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.structures import Parents, check_acyclic, children_of, topological_order
from fastens.engine.threads import cached_property

Array = NDArray[np.float64]
NEAR_ONE = 0.01  # tolerance for sums, because published tables are rounded


@dataclass(frozen=True)
class NetworkData:
    """Bayesian network whose variables are indexed in the order of `names`.

    For inference on the discrete variables, a continuous variable has a single value and a table of ones. Its
    regressions have the axes of the table, and a last axis with the intercept, a slope for each continuous parent in
    order, and the variance. Only a variable without parents may have the variance 0: it is a constant, as after an
    intervention.
    """

    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]  # values of each variable
    parents: Parents
    tables: tuple[Array, ...]  # P(variable | parents): one axis per parent, in order, then the variable
    regressions: Mapping[int, Array] = field(default_factory=dict)  # of continuous variables

    @cached_property
    def continuous(self) -> frozenset[int]:
        """Continuous variables."""
        return frozenset(self.regressions)

    @cached_property
    def constants(self) -> dict[int, float]:
        """Values of continuous variables with the variance 0."""
        return {
            v: float(regression.flat[0]) for v, regression in self.regressions.items() if not regression[..., -1].any()
        }

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of values of each variable."""
        return np.array([len(values) for values in self.states], dtype=np.int64)

    @cached_property
    def families(self) -> list[tuple[int, ...]]:
        """Variables of each table, in the order of its axes."""
        return [(*parents, node) for node, parents in enumerate(self.parents)]

    @cached_property
    def children(self) -> list[list[int]]:
        """Children of each variable."""
        return children_of(self.parents)

    @cached_property
    def order(self) -> list[int]:
        """Topological order of the variables, with parents before children."""
        return topological_order(self.parents)

    @cached_property
    def n_parameters(self) -> int:
        """Number of free parameters: the number of cells minus one for each distribution, and of the regressions."""
        n_regression = sum(regression.size for regression in self.regressions.values())
        return n_regression + sum(table.size - table[..., 0].size for table in self.tables)

    @cached_property
    def edges(self) -> list[tuple[str, str]]:
        """Edges as pairs (parent, child), grouped by child."""
        return [(self.names[p], self.names[node]) for node, parents in enumerate(self.parents) for p in parents]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def with_tables(self, tables: Sequence[Array]) -> NetworkData:
        """Return a network with this structure and other probability tables."""
        return replace(self, tables=tuple(tables))

    def reorder(self, order: Sequence[int]) -> NetworkData:
        """Return the network with its variables in another order: position i holds the old variable `order[i]`."""
        new_index = {old: new for new, old in enumerate(order)}
        return NetworkData(
            tuple(self.names[old] for old in order),
            tuple(self.states[old] for old in order),
            tuple(tuple(new_index[parent] for parent in self.parents[old]) for old in order),
            tuple(self.tables[old] for old in order),
            {new_index[old]: regression for old, regression in self.regressions.items()},
        )

    def intervene(self, values: Mapping[int, float]) -> NetworkData:
        """Return the network after interventions: the variables in `values` lose their parents and are constant.

        `values` has the position of the value of discrete variables, and the number of continuous variables.
        """
        parents = tuple(() if v in values else old_parents for v, old_parents in enumerate(self.parents))
        positions = {v: 0 if v in self.continuous else int(value) for v, value in values.items()}
        tables = [np.eye(self.sizes[v])[positions[v]] if v in values else table for v, table in enumerate(self.tables)]
        constants = {v: np.array([[values[v], 0.0]]) for v in self.continuous & set(values)}
        return replace(self, parents=parents, tables=tuple(tables), regressions={**self.regressions, **constants})

    def with_observations(self, deviations: Mapping[int, float]) -> NetworkData:
        """Return the network with an additional last variable for each noisy observation of a continuous variable.

        An observation is the sum of the variable and normal noise; `deviations` has the standard deviation of the noise
        by variable.
        """
        if not deviations:
            return self
        first, n = len(self.names), len(deviations)
        regressions = {first + i: np.array([[[0.0, 1.0, std**2]]]) for i, std in enumerate(deviations.values())}
        return NetworkData(
            (*self.names, *[""] * n),
            (*self.states, *[(None,)] * n),
            (*self.parents, *((variable,) for variable in deviations)),
            (*self.tables, *[np.ones((1, 1))] * n),
            {**self.regressions, **regressions},
        )

    def with_sorted_states(self, variable: int) -> NetworkData:
        """Return the network with the values of one variable sorted in ascending order."""
        values = self.states[variable]
        order = sorted(range(len(values)), key=values.__getitem__)

        def moved(table: Array, family: tuple[int, ...]) -> Array:
            """Return a table with the values of the variable in sorted order along its axis, if it has one."""
            return np.take(table, order, axis=family.index(variable)) if variable in family else table

        tables = [moved(table, family) for table, family in zip(self.tables, self.families, strict=True)]
        regressions = {v: moved(regression, self.families[v]) for v, regression in self.regressions.items()}
        states = [
            tuple(values[i] for i in order) if v == variable else old_values for v, old_values in enumerate(self.states)
        ]
        return replace(self, states=tuple(states), tables=tuple(tables), regressions=regressions)

    def check(self) -> None:
        """Raise ValueError unless all parts are consistent and the tables hold probabilities."""
        n = len(self.names)
        if len({len(self.names), len(self.states), len(self.parents), len(self.tables)}) != 1 or n == 0:
            raise ValueError(
                "a network must have one or more variables, each with a list of values, a set of parents and a table."
            )
        if len(set(self.names)) != n:
            raise ValueError(f"the variables of a network must have different names; got {list(self.names)}.")
        for node, parents in enumerate(self.parents):
            if len(set(parents)) != len(parents) or not all(0 <= parent < n for parent in parents):
                raise ValueError(f"the parents of {self.names[node]!r} must be different variables of the network.")
        check_acyclic(self.parents, self.names)
        for name, values, family, table in zip(self.names, self.states, self.families, self.tables, strict=True):
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name!r} must have at least one value and no duplicates; got {list(values)}.")
            check_table(name, table, tuple(self.sizes[list(family)].tolist()))
        check_directions(self.parents, self.continuous, self.names)
        for node, regression in self.regressions.items():
            name, n_slopes = self.names[node], len(self.continuous.intersection(self.parents[node]))
            if regression.shape != (*self.tables[node].shape, n_slopes + 2) or not np.isfinite(regression).all():
                raise ValueError(f"the regressions of {name!r} must be finite numbers for all values of its parents.")
            variance = regression[..., -1]
            if not (variance > 0).all() and (self.parents[node] or variance.min() < 0):
                raise ValueError(f"the variances of {name!r} must be greater than 0; got {variance.min():g}.")


def check_directions(parents: Parents, continuous: frozenset[int], names: Sequence[Any]) -> None:
    """Raise ValueError if a discrete variable has a continuous parent."""
    for child, child_parents in enumerate(parents):
        if child not in continuous and (wrong := sorted(continuous.intersection(child_parents))):
            raise ValueError(
                f"a discrete variable must not have continuous parents; got {names[wrong[0]]!r} -> {names[child]!r}. "
                "Reverse the edge, or bin the column."
            )


def split_axes(table: Array, family: tuple[int, ...], unknown: set[int]) -> tuple[Array, tuple[int, ...], list[int]]:
    """Move the axes of a table: first observed variables, then unknown variables in ascending order, then further axes.

    `family` names the variables of the first axes. Return the view, the unknown variables and the observed variables,
    each in the order of their axes.
    """
    observed = [variable for variable in family if variable not in unknown]
    scope = tuple(sorted(variable for variable in family if variable in unknown))
    axes = [family.index(variable) for variable in (*observed, *scope)]
    return table.transpose([*axes, *range(len(family), table.ndim)]), scope, observed


def flatten_tables(tables: Sequence[Array]) -> Array:
    """Return the cells of all tables in one flat array."""
    return np.concatenate([table.ravel() for table in tables])


def check_table(name: str, table: Array, shape: tuple[int, ...]) -> None:
    """Raise ValueError, with `name`, unless a table has this shape and its last axis holds distributions."""
    if table.shape != shape:
        raise ValueError(f"the table of {name!r} must have the shape {shape}, parents first; got {table.shape}.")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError(f"the table of {name!r} must hold probabilities; it holds {table.min()}.")
    sums = table.sum(axis=-1)
    if np.abs(sums - 1).max() > NEAR_ONE:
        worst = float(sums.flat[np.abs(sums - 1).argmax()])
        raise ValueError(f"the distributions of {name!r} must each sum to 1; one sums to {worst:.6g}.")

"""Queries of a fitted network, in the user's names and values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.bayes.networks.discrete_network import DiscreteNetwork
from fastens.bayes.networks.inference import draw, explain, log_likelihoods, log_posteriors, query
from fastens.bayes.posterior import generator
from fastens.engine.elementary import exp, log
from fastens.engine.names import plain_name
from fastens.engine.threads import resolve_n_jobs
from fastens.inspection.network_plot import plot_network
from fastens.inspection.table_text import table_text
from fastens.parameters import FLAG, NONE, instance, whole
from fastens.table.columns.factorize import is_missing
from fastens.table.encoder import InputEncoder
from fastens.table.opening import opening_tables

Array = NDArray[np.float64]
Evidence = Mapping[str, Any] | None


class Explanation(NamedTuple):
    """The most probable values of the variables without evidence, and log P(they and the evidence)."""

    values: dict[str, Any]
    log_probability: float


class NetworkQueries:
    """Exact inference in `_network`; `_code_rows(X, y)` encodes rows in the order of the network's variables."""

    _network: DiscreteNetwork
    _encoder: InputEncoder
    n_jobs: int | None

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def _code_rows(self, X: Any, y: Any = None) -> NDArray[Any]:
        raise NotImplementedError

    @property
    def _fitted(self) -> DiscreteNetwork:
        self._check_fitted()
        return self._network

    # The network --------------------------------------------------

    @property
    def node_names_(self) -> list[str]:
        """The variables: the columns, hidden variables, the class."""
        return list(self._fitted.names)

    @property
    def states_(self) -> dict[str, list[Any]]:
        """The values of each variable."""
        return {name: list(found) for name, found in zip(self._fitted.names, self._network.states, strict=True)}

    @property
    def parents_(self) -> dict[str, list[str]]:
        """The parents of each variable."""
        names = self._fitted.names
        return {name: [names[p] for p in found] for name, found in zip(names, self._network.parents, strict=True)}

    @property
    def edges_(self) -> list[tuple[str, str]]:
        """Pairs (parent, child)."""
        return self._fitted.edges

    @property
    def tables_(self) -> dict[str, Array]:
        """P(variable | parents): axes for the parents in the order of `parents_`, and one for the variable."""
        return dict(zip(self._fitted.names, self._network.tables, strict=True))

    @property
    def n_parameters_(self) -> int:
        """Free parameters of the tables."""
        return self._fitted.n_parameters

    def _number(self, variable: Any, parameter: str = "variable") -> int:
        names = self._network.names
        if isinstance(variable, Hashable) and variable in names:
            return names.index(variable)
        columns = self._encoder.names or []
        if not isinstance(variable, Hashable) or plain_name(variable) not in columns:
            raise ValueError(f"{parameter} must name variables of the network, {self.node_names_}; got {variable!r}.")
        return names.index(self._encoder.texts[columns.index(plain_name(variable))])

    def _evidence(self, evidence: Evidence) -> dict[int, int]:
        (NONE | instance(Mapping, "a dict of values by variable")).check("evidence", evidence)
        found = {}
        for variable, value in (evidence or {}).items():
            number = self._number(variable, "evidence")
            position = self._position(number, value)
            if position is None:
                values = list(self._network.states[number])
                raise ValueError(f"evidence of {variable!r} must be one of its values, {values}; got {value!r}.")
            found[number] = position
        return found

    def _position(self, number: int, value: Any) -> int | None:
        """The position of a value of a variable, None if it has no such value."""
        values = self._network.states[number]
        is_value = isinstance(value, Hashable) and not is_missing(value) and value in values
        return values.index(value) if is_value else None

    # One set of evidence --------------------------------------------------

    def query(self, variables: str | list[str], evidence: Evidence = None) -> dict[Any, float]:
        """Return the exact distribution of variables given values of others, by variable elimination.

        Parameters
        ----------
        variables : str or list of str
            The query variable, or several for their joint distribution.
        evidence : dict, optional
            Values of other variables, by name.

        Returns
        -------
        dict
            The probability of each value, or of each tuple of values.

        Raises
        ------
        ValueError
            If a variable or value is unknown, a variable is both queried and given, or the evidence is impossible.
        """
        self._check_fitted()
        instance((str, list, tuple), "the name of a variable, or a list of names").check("variables", variables)
        queried = [variables] if isinstance(variables, str) else list(variables)
        numbers, known = [self._number(variable, "variables") for variable in queried], self._evidence(evidence)
        if not numbers or len(set(numbers)) < len(numbers) or set(numbers) & set(known):
            raise ValueError(f"variables must be different ones without evidence, at least one; got {queried}.")
        table, log_evidence = query(self._network, numbers, known)
        if log_evidence == -np.inf:
            raise ValueError(f"evidence must be possible under the network; {dict(evidence or {})} has probability 0.")
        values = [self._network.states[number] for number in numbers]
        if isinstance(variables, str):
            return dict(zip(values[0], table.tolist(), strict=True))
        cells = np.ndindex(table.shape)
        return {tuple(v[i] for v, i in zip(values, cell, strict=True)): float(table[cell]) for cell in cells}

    def log_probability(self, evidence: Evidence = None) -> float:
        """Return log P(evidence), -inf where it is impossible; `evidence` as in `query`."""
        return query(self._fitted, [], self._evidence(evidence))[1]

    def most_probable(self, evidence: Evidence = None) -> Explanation:
        """Return the most probable explanation: the joint values of all other variables that are most probable.

        Parameters
        ----------
        evidence : dict, optional
            Values of variables, by name.

        Returns
        -------
        Explanation
            With `values` and `log_probability`, that of them and the evidence together.
        """
        found, log_probability = explain(self._fitted, self._evidence(evidence))
        values = {self._network.names[v]: self._network.states[v][place] for v, place in sorted(found.items())}
        return Explanation(values, log_probability)

    def sample(self, n: int = 1, evidence: Evidence = None, random_state: Any = None) -> NDArray[Any]:
        """Draw rows from the network, given evidence exactly.

        Parameters
        ----------
        n : int, default=1
            Number of rows, at least 0.
        evidence : dict, optional
            Values of variables, by name, that all rows have.
        random_state : int, RandomState, Generator or None, default=None
            Fixes the draws.

        Returns
        -------
        array of objects, shape (n, n_variables)
            Values; columns in the order of `node_names_`.

        Raises
        ------
        ValueError
            If the evidence is impossible.
        """
        self._check_fitted()
        whole(0).check("n", n)
        known = self._evidence(evidence)
        if known and query(self._network, [], known)[1] == -np.inf:
            raise ValueError(f"evidence must be possible under the network; {dict(evidence or {})} has probability 0.")
        positions = draw(self._network, n, known, generator(random_state))
        out = np.empty((n, len(positions)), dtype=object)
        for column, (values, drawn) in enumerate(zip(self._network.states, positions, strict=True)):
            lookup = np.empty(len(values), dtype=object)
            lookup[:] = values
            out[:, column] = lookup[drawn]
        return out

    # Rows --------------------------------------------------

    def posterior(self, variable: str, X: ArrayLike) -> Array:
        """Return P(variable | what is known of the row) for many rows at once.

        Parameters
        ----------
        variable : str
            Any variable of the network; if it is a column of `X`, its values there do not count.
        X : array or data frame of shape (n_samples, n_features)
            The rows. Missing values, and those not seen in `fit`, are summed out; so is the class.

        Returns
        -------
        array of shape (n_samples, n_values)
            Columns in the order of ``states_[variable]``. Where the values that decide have probability 0, P(variable).
        """
        self._check_fitted()
        number = self._number(variable)
        scores = log_posteriors(self._network, number, self._code_rows(X), resolve_n_jobs(self.n_jobs))
        best = scores.max(axis=1, keepdims=True)
        impossible = best[:, 0] == -np.inf
        if impossible.any():
            scores[impossible] = log(query(self._network, [number], {})[0])
            best = scores.max(axis=1, keepdims=True)
        out = exp(scores - best)
        return out / out.sum(axis=1, keepdims=True)

    @opening_tables
    def score_samples(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Return log P(what is known of the row), with its label where `y` is given; shape (n_samples,)."""
        return log_likelihoods(self._fitted, self._code_rows(X, y), resolve_n_jobs(self.n_jobs))

    # A picture --------------------------------------------------

    def plot(self, ax: Any = None, *, tables: bool = False, max_rows: int = 8) -> Any:
        """Draw the network in layers, parents above children, and return the axes; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure, large enough.
        tables : bool, default=False
            Whether the probabilities of each variable's values stand below its name, a line for each combination of its
            parents' values.
        max_rows : int, default=8
            Most lines of a table; "..." stands for the others.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from fastens import BayesianNetwork
        >>> net = BayesianNetwork.from_tables(
        ...     {"rain": ["no", "yes"], "grass": ["dry", "wet"]},
        ...     {"grass": ["rain"]},
        ...     {"rain": [0.8, 0.2], "grass": [[0.9, 0.1], [0.1, 0.9]]},
        ... )
        >>> ax = net.plot(tables=True)
        >>> print(ax.texts[-1].get_text())
        rain |  dry  wet
        no   | 0.90 0.10
        yes  | 0.10 0.90
        """
        self._check_fitted()
        FLAG.check("tables", tables)
        whole(1).check("max_rows", max_rows)
        found = self._network
        texts = None
        if tables:
            texts = [
                table_text(
                    found.states[node],
                    [found.names[parent] for parent in found.parents[node]],
                    [found.states[parent] for parent in found.parents[node]],
                    found.tables[node],
                    max_rows,
                )
                for node in range(len(found.names))
            ]
        return plot_network(list(found.names), found.parents, self._highlighted(), ax, texts)

    def _highlighted(self) -> int | None:
        """The variable that a picture makes stand out."""
        return None

"""Exact queries of Bayesian networks: a mixin for estimators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.bayes.counts.attributes import Limits
from fastens.bayes.networks.gaussians import mixture_moments
from fastens.bayes.networks.inference import (
    draw,
    explain,
    log_likelihoods,
    log_posteriors,
    observed,
    posterior_moments,
    query,
    query_numbers,
)
from fastens.bayes.networks.network_data import NetworkData
from fastens.bayes.networks.pc import compelled_edges
from fastens.bayes.posterior import generator
from fastens.engine.elementary import exp, log
from fastens.engine.names import plain_name
from fastens.engine.threads import resolve_n_jobs
from fastens.inspection.network_plot import HIGHLIGHTED, PLAIN, draw_layers
from fastens.inspection.trees import table_text
from fastens.params.rules import FLAG, NONE, Rule, instance, real, whole
from fastens.params.types import RandomState
from fastens.table.columns.factorize import is_missing
from fastens.table.encoder import InputEncoder
from fastens.table.opening import opening_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Evidence = Mapping[str, Any] | None
NUMBER = Rule("a finite number", real(-np.inf).holds)
OBSERVATION = NUMBER | Rule(
    "a dict of the mean and the std of a noisy observation",
    lambda value: isinstance(value, Mapping) and set(value) == {"mean", "std"} and NUMBER.holds(value["mean"]),
)


class Explanation(NamedTuple):
    """Most probable values of the variables without evidence, and their log joint probability with the evidence."""

    values: dict[str, Any]
    log_probability: float


class Mixture(NamedTuple):
    """Mixture of normal distributions: the exact posterior of continuous variables."""

    weights: Array  # (n_components,)
    means: Array  # (n_components, n_variables)
    covariances: Array  # (n_components, n_variables, n_variables)

    @property
    def mean(self) -> Array:
        """Mean of each variable."""
        return mixture_moments(self.weights[None], self.means[None], self.covariances[None])[0][0]

    @property
    def covariance(self) -> Array:
        """Covariance matrix of the variables."""
        return mixture_moments(self.weights[None], self.means[None], self.covariances[None])[1][0]


class NetworkQueries:
    """Mixin for exact inference in `_network`.

    `_code_rows(X, y)` returns codes in the order of its variables, and the numbers of continuous variables, if any.
    """

    _network: NetworkData
    _encoder: InputEncoder
    _limits: Limits
    n_jobs: int | None

    def _check_fitted(self) -> None:
        """Raise NotFittedError if the model is not fitted."""
        raise NotImplementedError

    def _code_rows(self, X: Any, y: Any = None) -> tuple[NDArray[Any], Array | None]:
        """Return the codes of all variables, (n_variables, n_rows), 0 if missing, and numbers of the same shape.

        The numbers are None if no variable is continuous; discrete variables have zeros. `y` holds class labels.
        """
        raise NotImplementedError

    @property
    def _fitted(self) -> NetworkData:
        """Network; raises NotFittedError if the model is not fitted."""
        self._check_fitted()
        return self._network

    # The network --------------------------------------------------

    @property
    def node_names_(self) -> list[str]:
        """Names of the variables: columns, hidden variables and the class."""
        return list(self._fitted.names)

    @property
    def states_(self) -> dict[str, list[Any]]:
        """Values of each variable; continuous variables have an empty list."""
        names, continuous = self._fitted.names, self._network.continuous
        return {names[v]: [] if v in continuous else list(values) for v, values in enumerate(self._network.states)}

    @property
    def parents_(self) -> dict[str, list[str]]:
        """Parents of each variable."""
        names = self._fitted.names
        return {name: [names[p] for p in parents] for name, parents in zip(names, self._network.parents, strict=True)}

    @property
    def edges_(self) -> list[tuple[str, str]]:
        """Edges as pairs (parent, child)."""
        return self._fitted.edges

    @property
    def compelled_edges_(self) -> list[tuple[str, str]]:
        """Edges with the same direction in all networks that imply the same independences (Meek 1995).

        Observations cannot show the direction of the other edges.
        """
        names, parents, continuous = self._fitted.names, self._network.parents, self._network.continuous
        fixed = [(p, child) for child in continuous for p in parents[child] if p not in continuous]
        return [(names[parent], names[child]) for parent, child in compelled_edges(parents, sorted(fixed))]

    @property
    def tables_(self) -> dict[str, Array]:
        """P(variable | parents) of each discrete variable.

        A table has one axis per parent, in the order of `parents_`, then its own.
        """
        names, continuous = self._fitted.names, self._network.continuous
        return {names[v]: table for v, table in enumerate(self._network.tables) if v not in continuous}

    @property
    def regressions_(self) -> dict[str, Array]:
        """Regressions of each continuous variable.

        They have one axis per discrete parent, in the order of `parents_`. The last axis holds the intercept, the slope
        of each continuous parent in order, and the variance of the noise.
        """
        network = self._fitted
        return {
            network.names[v]: regression.reshape(
                *(network.sizes[p] for p in network.parents[v] if p not in network.continuous), regression.shape[-1]
            )
            for v, regression in sorted(network.regressions.items())
        }

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters of the tables and regressions."""
        return self._fitted.n_parameters

    def _variable_index(self, variable: Any, parameter: str = "variable") -> int:
        """Return the index of a variable from its name or column label; if unknown, a ValueError names `parameter`."""
        names = self._network.names
        if isinstance(variable, Hashable) and variable in names:
            return names.index(variable)
        columns = self._encoder.names or []
        if not isinstance(variable, Hashable) or plain_name(variable) not in columns:
            raise ValueError(f"{parameter} must name variables of the network, {self.node_names_}; got {variable!r}.")
        return names.index(self._encoder.texts[columns.index(plain_name(variable))])

    def _read_evidence(self, evidence: Evidence) -> tuple[NetworkData, dict[int, Any]]:
        """Return the network and the evidence by variable: positions, numbers, or likelihoods of all values.

        The network has an additional variable for each noisy observation of a number. Raises ValueError if a variable
        or a value is unknown.
        """
        self._check_fitted()
        (NONE | instance(Mapping, "a dict that maps variables to values")).check("evidence", evidence)
        observations: dict[int, Any] = {}
        noisy: dict[int, tuple[float, float]] = {}  # means and standard deviations
        for variable, value in (evidence or {}).items():
            number = self._variable_index(variable, "evidence")
            if number in self._network.continuous:
                OBSERVATION.check(f"evidence for {variable!r}", value)
                if isinstance(value, Mapping):
                    # A smaller deviation would be lost among the rounding errors of the mean.
                    real(max(1e-12 * abs(value["mean"]), 1e-100), 1e100).check(f"std of {variable!r}", value["std"])
                    noisy[number] = float(value["mean"]), float(value["std"])
                else:
                    observations[number] = float(value)
                continue
            if isinstance(value, Mapping):
                observations[number] = self._read_likelihoods(number, variable, value)
                continue
            position = self._value_position(number, value)
            if position is None:
                values = list(self._network.states[number])
                raise ValueError(f"evidence for {variable!r} must be one of its values, {values}; got {value!r}.")
            observations[number] = position
        network = self._network.with_observations({number: std for number, (_, std) in noisy.items()})
        return network, observations | dict(enumerate((mean for mean, _ in noisy.values()), len(self._network.names)))

    def _read_likelihoods(self, number: int, variable: Any, evidence: Mapping[Any, Any]) -> Array:
        """Return the likelihood of each value of variable `number` from virtual evidence, shape (n_values,).

        `variable` is its name in error messages. Raises ValueError unless `evidence` maps every value to a likelihood
        of at least 0, not all of them 0.
        """
        values = list(self._network.states[number])
        positions = [self._value_position(number, value) for value in evidence]
        if sorted(-1 if position is None else position for position in positions) != list(range(len(values))):
            raise ValueError(f"evidence of {variable!r} must have a likelihood for each of {values}; got {evidence!r}.")
        likelihoods = np.zeros(len(values))
        for position, likelihood in zip(positions, evidence.values(), strict=True):
            real(0).check(f"evidence of {variable!r}", likelihood)
            likelihoods[cast(int, position)] = likelihood
        if not likelihoods.any():
            raise ValueError(f"evidence of {variable!r} must have a positive likelihood; got {evidence!r}.")
        return likelihoods

    def do(self, interventions: Mapping[str, Any]) -> Self:
        """Return the network after interventions that set variables to values, whatever their parents are.

        The variables lose their parents and have the value with certainty; all other tables stay. The queries of the
        returned network, such as ``net.do({"treatment": "yes"}).query("recovery")``, are interventional distributions
        if the edges are causal, which data cannot show. The network itself is unchanged.

        Parameters
        ----------
        interventions : dict
            Values by variable.

        Returns
        -------
        A fitted network of the same class.

        Raises
        ------
        ValueError
            If a variable or a value is unknown.

        References
        ----------
        Pearl (2009), "Causality", section 3.2.

        Examples
        --------
        >>> from fastens import BayesianNetwork
        >>> net = BayesianNetwork.from_tables(
        ...     {"rain": ["no", "yes"], "grass": ["dry", "wet"]},
        ...     {"grass": ["rain"]},
        ...     {"rain": [0.8, 0.2], "grass": [[0.9, 0.1], [0.1, 0.9]]},
        ... )
        >>> net.do({"grass": "wet"}).query("rain")  # wetting the grass does not make it rain
        {'no': 0.8, 'yes': 0.2}
        """
        self._check_fitted()
        instance(Mapping, "a dict of values by variable").check("interventions", interventions)
        _, observations = self._read_evidence(interventions)
        if any(isinstance(value, Mapping) for value in interventions.values()):
            raise ValueError(f"interventions must be values; got uncertain observations in {dict(interventions)!r}.")
        changed = copy(self)
        changed._network = self._network.intervene(observations)
        return changed

    def _value_position(self, number: int, value: Any) -> int | None:
        """Return the position of a value, or its bin, among the values of variable index `number`; None if unknown."""
        limits = self._limits[number] if number < len(self._limits) else None
        if limits is not None and isinstance(value, Real) and not np.isnan(float(value)):
            return int(np.searchsorted(limits, float(value)))
        values = self._network.states[number]
        is_value = isinstance(value, Hashable) and not is_missing(value) and value in values
        return values.index(value) if is_value else None

    # One set of evidence --------------------------------------------------

    def query(self, variables: str | list[str], evidence: Evidence = None) -> dict[Any, float] | Mixture:
        """Return the exact distribution of variables given evidence, by variable elimination.

        Parameters
        ----------
        variables : str or list of str
            Query variable, or a list of variables for their joint distribution.
        evidence : dict, optional
            Values of observed variables by name. A dict instead of a value is virtual evidence: the likelihood of an
            uncertain observation for each value of the variable, such as ``{"grass": {"dry": 0.1, "wet": 0.7}}``. Only
            the ratios of likelihoods affect the result. For a continuous variable, the dict has the observed number and
            the standard deviation of its normal error: ``{"height": {"mean": 180, "std": 2}}``.

        Returns
        -------
        dict
            Probability of each value, or of each tuple of values. For continuous variables, a named tuple instead: the
            `weights`, `means` and `covariances` of a mixture of normal distributions, whose `mean` and `covariance`
            are properties.

        Raises
        ------
        ValueError
            If a variable or value is unknown, a query variable is also in the evidence, discrete and continuous
            variables are queried together, or the evidence is impossible.
        """
        self._check_fitted()
        instance((str, list, tuple), "the name of a variable, or a list of names").check("variables", variables)
        queried = [variables] if isinstance(variables, str) else list(variables)
        numbers = [self._variable_index(variable, "variables") for variable in queried]
        network, observations = self._read_evidence(evidence)
        if not numbers or len(set(numbers)) < len(numbers) or set(numbers) & set(observed(observations)):
            raise ValueError(f"variables must be one or more distinct variables without evidence; got {queried}.")
        n_continuous = len(self._network.continuous.intersection(numbers))
        if 0 < n_continuous < len(numbers):
            raise ValueError(f"variables must be all discrete or all continuous; got {queried}. Query them separately.")
        *distribution, log_evidence = (query_numbers if n_continuous else query)(network, numbers, observations)
        if log_evidence == -np.inf:
            raise ValueError(f"evidence must be possible under the network; {dict(evidence or {})} has probability 0.")
        if n_continuous:
            return Mixture(*distribution)
        table = distribution[0]
        values = [self._network.states[number] for number in numbers]
        if isinstance(variables, str):
            return dict(zip(values[0], table.tolist(), strict=True))
        cells = np.ndindex(table.shape)
        return {tuple(v[i] for v, i in zip(values, cell, strict=True)): float(table[cell]) for cell in cells}

    def log_probability(self, evidence: Evidence = None) -> float:
        """Return log P(evidence), or -inf if the evidence is impossible; see `query` for `evidence`.

        It is a log density if the evidence contains continuous variables.
        """
        network, observations = self._read_evidence(evidence)
        return query(network, [], observations)[1]

    def most_probable(self, evidence: Evidence = None) -> Explanation:
        """Return the most probable explanation: the most probable joint values of all unobserved variables.

        Parameters
        ----------
        evidence : dict, optional
            Values of observed variables by name, and virtual evidence as in `query`.

        Returns
        -------
        Explanation
            Named tuple with `values` and `log_probability`, the log joint probability of the values and the evidence.
        """
        positions, numbers, log_probability = explain(*self._read_evidence(evidence))
        values = {
            self._network.names[v]: float(numbers[v])
            if v in self._network.continuous
            else self._network.states[v][position]
            for v, position in sorted(positions.items())
        }
        return Explanation(values, log_probability)

    def sample(self, n: int = 1, evidence: Evidence = None, random_state: RandomState = None) -> NDArray[Any]:
        """Draw rows from the exact distribution of the network given evidence.

        Parameters
        ----------
        n : int, default=1
            Number of rows, at least 0.
        evidence : dict, optional
            Values of observed variables by name, which are fixed in all rows, and virtual evidence as in `query`.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws.

        Returns
        -------
        array of objects, shape (n, n_variables)
            Sampled values, with columns in the order of `node_names_`.

        Raises
        ------
        ValueError
            If the evidence is impossible.
        """
        self._check_fitted()
        whole(0).check("n", n)
        network, observations = self._read_evidence(evidence)
        if observations and query(network, [], observations)[1] == -np.inf:
            raise ValueError(f"evidence must be possible under the network; {dict(evidence or {})} has probability 0.")
        positions, numbers = draw(network, n, observations, generator(random_state))
        out = np.empty((n, len(self._network.names)), dtype=object)
        for column, (values, drawn) in enumerate(zip(self._network.states, positions, strict=False)):
            lookup = np.empty(len(values), dtype=object)
            lookup[:] = values
            out[:, column] = numbers[column] if column in self._network.continuous else lookup[drawn]
        return out

    # Rows --------------------------------------------------

    def posterior(self, variable: str, X: ArrayLike) -> Array:
        """Return P(variable | known values of the row) for many rows at once.

        Parameters
        ----------
        variable : str
            Any variable of the network. If it is a column of `X`, its values in `X` are ignored.
        X : array or data frame of shape (n_samples, n_features)
            Rows. Missing values, values that were not seen in `fit`, and the class are summed out.

        Returns
        -------
        array of shape (n_samples, n_values)
            Probabilities, with columns in the order of ``states_[variable]``. If the known values have probability 0,
            the marginal P(variable). For a continuous variable, its mean and its variance, shape (n_samples, 2).
        """
        self._check_fitted()
        number, (codes, numbers) = self._variable_index(variable), self._code_rows(X)
        if number in self._network.continuous and numbers is not None:
            moments = np.stack(posterior_moments(self._network, number, codes, numbers), axis=1)
            impossible = np.isnan(moments).any(axis=1)
            if impossible.any():
                marginal = Mixture(*query_numbers(self._network, [number], {})[:3])
                moments[impossible] = marginal.mean[0], marginal.covariance[0, 0]
            return moments
        scores = log_posteriors(self._network, number, codes, resolve_n_jobs(self.n_jobs), numbers)
        best = scores.max(axis=1, keepdims=True)
        impossible = best[:, 0] == -np.inf
        if impossible.any():
            scores[impossible] = log(query(self._network, [number], {})[0])
            best = scores.max(axis=1, keepdims=True)
        out = exp(scores - best)
        return out / out.sum(axis=1, keepdims=True)

    @opening_tables
    def score_samples(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Return log P(known values of the row), including the label if `y` is passed; shape (n_samples,)."""
        network, (codes, numbers) = self._fitted, self._code_rows(X, y)
        return log_likelihoods(network, codes, resolve_n_jobs(self.n_jobs), numbers)

    # Plot --------------------------------------------------

    def plot(self, ax: Axes | None = None, *, tables: bool = False, max_rows: int = 8) -> Axes:
        """Plot the network in layers, with parents above children; requires matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot on. If None, a new figure of sufficient size is created.
        tables : bool, default=False
            If True, the conditional probability table of each variable is printed below its name, with one line for
            each combination of parent values.
        max_rows : int, default=8
            Maximum number of lines of a table; "..." replaces the remaining lines.

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
        network = self._network
        texts = None
        if tables:
            texts = [self._table_text(node, max_rows) for node in range(len(network.names))]
        colours = [PLAIN] * len(network.names)
        if hasattr(self, "classes_"):
            colours[-1] = HIGHLIGHTED
        return draw_layers(ax, network.names, network.parents, colours, tables=texts)

    def _table_text(self, node: int, max_rows: int) -> str:
        """Return the table or the regressions of a variable as text with at most `max_rows` lines of numbers."""
        network = self._network
        numbers = [network.names[parent] for parent in network.parents[node] if parent in network.continuous]
        parents = [parent for parent in network.parents[node] if parent not in network.continuous]
        is_number = node in network.continuous
        header: Any = ["intercept", *numbers, "variance"] if is_number else network.states[node]
        table = self.regressions_[network.names[node]] if is_number else network.tables[node]
        names, states = [network.names[parent] for parent in parents], [network.states[parent] for parent in parents]
        return table_text(header, names, states, table, max_rows)

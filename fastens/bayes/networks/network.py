"""Bayesian networks over discrete variables: the estimator and its queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import Capabilities
from fastens.bayes.counts.attributes import (
    CodedInput,
    Values,
    bin_names,
    binned,
    declared_values,
    given_values,
    learn_limits,
    with_values,
)
from fastens.bayes.counts.counting import CODE_DTYPES, CodedRows, encode
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.networks.discrete_network import DiscreteNetwork
from fastens.bayes.networks.inference import draw, explain, log_likelihoods, log_posteriors, observed, query
from fastens.bayes.networks.network_files import NetworkFiles
from fastens.bayes.networks.structures import (
    LEARNED,
    SCORES,
    WITH_CLASS,
    EdgeRules,
    Parents,
    Search,
    learn_structure,
    parents_from,
)
from fastens.bayes.networks.table_estimation import OPTIMISERS, START, TableEstimation
from fastens.bayes.posterior import generator
from fastens.engine.elementary import exp, log
from fastens.engine.names import plain_name
from fastens.engine.parts import RowSource, as_array, in_memory
from fastens.engine.threads import resolve_n_jobs
from fastens.inspection.network_plot import plot_network
from fastens.inspection.trees import table_text
from fastens.modelfile.saving import SavedEstimator
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, Rule, instance, one_of, parameter, real, whole
from fastens.params.types import Edges, RandomState
from fastens.table.columns.factorize import is_missing
from fastens.table.encoder import InputEncoder
from fastens.table.opening import opening_tables
from fastens.table.parts import present_part
from fastens.table.training_data import WEIGHT_TYPE, check_same_rows, check_weights, unless_ones
from fastens.warn import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Evidence = Mapping[str, Any] | None


class Explanation(NamedTuple):
    """Most probable values of the variables without evidence, and their log joint probability with the evidence."""

    values: dict[str, Any]
    log_probability: float


class NetworkQueries:
    """Mixin for exact inference in `_network`; `_code_rows(X, y)` encodes rows in the order of its variables."""

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
        """Names of the variables: columns, hidden variables and the class."""
        return list(self._fitted.names)

    @property
    def states_(self) -> dict[str, list[Any]]:
        """Values of each variable."""
        return {name: list(found) for name, found in zip(self._fitted.names, self._network.states, strict=True)}

    @property
    def parents_(self) -> dict[str, list[str]]:
        """Parents of each variable."""
        names = self._fitted.names
        return {name: [names[p] for p in found] for name, found in zip(names, self._network.parents, strict=True)}

    @property
    def edges_(self) -> list[tuple[str, str]]:
        """Edges as pairs (parent, child)."""
        return self._fitted.edges

    @property
    def tables_(self) -> dict[str, Array]:
        """P(variable | parents) of each variable: one axis per parent, in the order of `parents_`, then its own."""
        return dict(zip(self._fitted.names, self._network.tables, strict=True))

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters of the tables."""
        return self._fitted.n_parameters

    def _number(self, variable: Any, parameter: str = "variable") -> int:
        names = self._network.names
        if isinstance(variable, Hashable) and variable in names:
            return names.index(variable)
        columns = self._encoder.names or []
        if not isinstance(variable, Hashable) or plain_name(variable) not in columns:
            raise ValueError(f"{parameter} must name variables of the network, {self.node_names_}; got {variable!r}.")
        return names.index(self._encoder.texts[columns.index(plain_name(variable))])

    def _evidence(self, evidence: Evidence) -> dict[int, Any]:
        """Return the position of each value, or the likelihoods of all values, by variable."""
        (NONE | instance(Mapping, "a dict that maps variables to values")).check("evidence", evidence)
        found: dict[int, Any] = {}
        for variable, value in (evidence or {}).items():
            number = self._number(variable, "evidence")
            if isinstance(value, Mapping):
                found[number] = self._likelihoods(number, variable, value)
                continue
            position = self._position(number, value)
            if position is None:
                values = list(self._network.states[number])
                raise ValueError(f"evidence for {variable!r} must be one of its values, {values}; got {value!r}.")
            found[number] = position
        return found

    def _likelihoods(self, number: int, variable: Any, given: Mapping[Any, Any]) -> Array:
        """Return virtual evidence as a likelihood for each value of a variable."""
        values = list(self._network.states[number])
        places = [self._position(number, value) for value in given]
        if sorted(-1 if place is None else place for place in places) != list(range(len(values))):
            raise ValueError(f"evidence of {variable!r} must have a likelihood for each of {values}; got {given!r}.")
        found = np.zeros(len(values))
        for place, likelihood in zip(places, given.values(), strict=True):
            real(0).check(f"evidence of {variable!r}", likelihood)
            found[cast(int, place)] = likelihood
        if not found.any():
            raise ValueError(f"evidence of {variable!r} must have a positive likelihood; got {given!r}.")
        return found

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
        known = self._evidence(interventions)
        if len(observed(known)) < len(known):
            raise ValueError(f"interventions must be values; got likelihoods in {dict(interventions)!r}.")
        changed = copy(self)
        changed._network = self._network.fixed(known)
        return changed

    def _position(self, number: int, value: Any) -> int | None:
        """Return the position of a value of a variable, or None if the value is unknown."""
        values = self._network.states[number]
        is_value = isinstance(value, Hashable) and not is_missing(value) and value in values
        return values.index(value) if is_value else None

    # One set of evidence --------------------------------------------------

    def query(self, variables: str | list[str], evidence: Evidence = None) -> dict[Any, float]:
        """Return the exact distribution of variables given evidence, by variable elimination.

        Parameters
        ----------
        variables : str or list of str
            Query variable, or a list of variables for their joint distribution.
        evidence : dict, optional
            Values of observed variables by name. A dict instead of a value is virtual evidence: the likelihood of an
            uncertain observation for each value of the variable, such as ``{"grass": {"dry": 0.1, "wet": 0.7}}``. Only
            the ratios of likelihoods affect the result.

        Returns
        -------
        dict
            Probability of each value, or of each tuple of values.

        Raises
        ------
        ValueError
            If a variable or value is unknown, a query variable is also in the evidence, or the evidence is impossible.
        """
        self._check_fitted()
        instance((str, list, tuple), "the name of a variable, or a list of names").check("variables", variables)
        queried = [variables] if isinstance(variables, str) else list(variables)
        numbers, known = [self._number(variable, "variables") for variable in queried], self._evidence(evidence)
        if not numbers or len(set(numbers)) < len(numbers) or set(numbers) & set(observed(known)):
            raise ValueError(f"variables must be one or more distinct variables without evidence; got {queried}.")
        table, log_evidence = query(self._network, numbers, known)
        if log_evidence == -np.inf:
            raise ValueError(f"evidence must be possible under the network; {dict(evidence or {})} has probability 0.")
        values = [self._network.states[number] for number in numbers]
        if isinstance(variables, str):
            return dict(zip(values[0], table.tolist(), strict=True))
        cells = np.ndindex(table.shape)
        return {tuple(v[i] for v, i in zip(values, cell, strict=True)): float(table[cell]) for cell in cells}

    def log_probability(self, evidence: Evidence = None) -> float:
        """Return log P(evidence), or -inf if the evidence is impossible; see `query` for `evidence`."""
        return query(self._fitted, [], self._evidence(evidence))[1]

    def most_probable(self, evidence: Evidence = None) -> Explanation:
        """Return the most probable explanation: the most probable joint values of all unobserved variables.

        Parameters
        ----------
        evidence : dict, optional
            Values of observed variables by name.

        Returns
        -------
        Explanation
            Named tuple with `values` and `log_probability`, the log joint probability of the values and the evidence.
        """
        found, log_probability = explain(self._fitted, self._evidence(evidence))
        values = {self._network.names[v]: self._network.states[v][place] for v, place in sorted(found.items())}
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
            the marginal P(variable).
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
        """Return log P(known values of the row), including the label if `y` is passed; shape (n_samples,)."""
        return log_likelihoods(self._fitted, self._code_rows(X, y), resolve_n_jobs(self.n_jobs))

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
        """Index of the variable that plots highlight, or None."""
        return None


MANY_VALUES = 100  # a column with more distinct fractional values is probably continuous

GIVEN = instance((Mapping, list, tuple), "a dict that maps children to parents, or a list of edges (parent, child)")
EDGES = NONE | GIVEN
MANY = whole(2, 65_000)
HIDDEN = NONE | Rule(
    "a dict that maps names to numbers of values from 2 to 65000",
    lambda value: (
        isinstance(value, Mapping) and all(isinstance(key, str) and MANY.holds(n) for key, n in value.items())
    ),
)


@with_parameters
class BayesianNetwork(TableEstimation, NetworkFiles, CodedInput, SavedEstimator, NetworkQueries):
    """Bayesian network over discrete variables: a classifier and a model of the joint distribution of a table.

    Every column is a variable whose states are its distinct values. This also applies to numeric columns unless
    `max_bins` is set. If `y` is passed, the class is an additional variable. The structure is either specified or
    learned. Conditional probability tables are estimated from counts under Dirichlet priors, and inference is exact.

    Missing values are handled by EM in `fit` and summed out by variable elimination in prediction. Values that were not
    seen in `fit` are treated as missing.

    Parameters
    ----------
    structure : {"hill-climb", "chow-liu", "tan", "kdb"}, dict or list of pairs, default="hill-climb"
        Structure of the network. "hill-climb" adds, removes and reverses edges greedily while the score improves.
        "chow-liu" is the maximum likelihood tree. "tan" makes the class a parent of all columns, which also form a
        tree. "kdb" makes the class a parent of all columns and ranks columns by mutual information with the class; the
        other parents of a column are the higher-ranked columns with the highest conditional mutual information given
        the class. A structure can be specified as a dict of parents by child or as a list of edges (parent, child).
        Variables are identified by name (x0, x1, ... for the columns of arrays) or index.
    criterion : {"bic", "aic", "bdeu", "k2"}, default="bic"
        Score that hill-climbing maximises.
    required_edges, forbidden_edges : dict, list of pairs or None, default=None
        Edges that hill-climbing keeps from the beginning and edges that it never adds, in the format of `structure`. A
        forbidden edge may have the opposite direction. If None, no edges are required or forbidden.
    max_parents : int, default=3
        Maximum number of parents of a variable for "hill-climb" and "kdb". The class counts as a parent, so 3 is KDB
        with k = 2.
    min_information : float, default=0.03
        Minimum conditional mutual information between a column and a parent given the class for "kdb", in nats. Larger
        values add fewer edges.
    tabu : int, default=0
        Number of consecutive moves of hill-climbing that may fail to improve on the best structure. No structure is
        visited twice. Larger values escape more local maxima but take longer.
    smoothing : {"laplace", "m", "kt", "bdeu", "none"}, default="laplace"
        Pseudo-count of each of the r values of a variable for each of the q combinations of parent values. "laplace"
        uses `alpha`, "m" uses `m` / r, "kt" uses 1/2, "bdeu" uses `ess` / (r q) and "none" uses 0 (maximum likelihood).
    alpha : float, default=1.0
        Pseudo-count for smoothing="laplace". Larger values smooth more.
    m : float, default=1.0
        Total pseudo-count of each distribution for smoothing="m". Larger values smooth more.
    ess : float, default=1.0
        Equivalent sample size for smoothing="bdeu" and criterion="bdeu". Larger values smooth more.
    missing : {"em", "gradient", "theta-gradient"}, default="em"
        Algorithm that maximises the likelihood if values are missing: expectation-maximisation, gradient ascent in the
        logs of the probabilities, or gradient ascent in the probabilities themselves, whose path is `theta_path_`.
    start : {"counts", "random"} or dict, default="counts"
        Initial tables of EM. "counts" uses the rows in which a variable and its parents are known, and "random" draws
        tables uniformly. A dict specifies tables by variable, with probabilities greater than 0 in the format of
        `tables_`; the remaining tables are initialised as with "counts".
    learning_rate : float or None, default=None
        Step size of gradient ascent, greater than 0 and at most 1. If set, gradient ascent also runs without missing
        values, although counts give the maximum. If None, the step size is adaptive: it is doubled while the likelihood
        increases and halved when it decreases. "theta-gradient" starts each step with 0.1 if None, and halves a step
        that would decrease the likelihood.
    max_iter : int, default=200
        Maximum number of iterations of EM or gradient ascent.
    tol : float, default=1e-6
        EM and gradient ascent stop when an iteration improves the mean log likelihood per row by less than `tol`;
        "theta-gradient" stops when no probability changes by more than `tol`.
    hidden : dict or None, default=None
        Number of values of each hidden variable, by name. Requires a specified structure. If None, there are no hidden
        variables.
    states : dict of lists or None, default=None
        Values of columns by name, in the order of `states_`. They may include values that do not occur in the rows,
        which smoothing gives a positive probability. If None, the states are the values found in the rows and those
        that the dtype declares (pandas categories, enums).
    max_bins : int or None, default=None
        Maximum number of bins of a numeric column. A column with more distinct values is binned at quantiles; otherwise
        each value has its own bin. If None, every distinct number is a state.
    weight_type : {"auto", "frequency", "importance"}, default="auto"
        Meaning of `sample_weight`. For "frequency", a weight is the number of copies of the row. For "importance",
        weights are relative to the mean of the nonzero weights. "auto" selects "frequency" for integer weights with a
        median of at most 10, otherwise "importance", with a warning if the weights are integers.
    class_name : str, default="class"
        Name of the class variable.
    random_state : int, RandomState or None, default=None
        Seed of the initial tables of hidden variables and of predict(mode="gibbs").
    n_jobs : int or None, default=None
        Number of threads. If None, OMP_NUM_THREADS or the number of available cores; -1 means all available cores.
        Results do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted class labels. Only available if the network has a class.
    history_ : array
        Objective of EM before each iteration and at the end: the log likelihood plus, with smoothing, the
        pseudo-counts times the log probabilities. It has one value if there are no missing values.
    theta_path_ : dict of arrays
        Table of each variable before each iteration and at the end, (``n_iter_ + 1``, ...). Only for
        missing="theta-gradient", and not in loaded models.
    n_iter_ : int
        Number of iterations; 1 if there are no missing values.
    {attributes}
    n_features_in_ : int
        Number of columns.

    Raises
    ------
    ValueError
        If a parameter or the data is invalid, the structure has a cycle, or a table would be too large.

    References
    ----------
    Pearl (1988), "Probabilistic reasoning in intelligent systems"; Heckerman, Geiger & Chickering (1995), "Learning
    Bayesian networks", Machine Learning 20; Chow & Liu (1968); Friedman, Geiger & Goldszmidt (1997), "Bayesian network
    classifiers", Machine Learning 29; Sahami (1996), "Learning limited dependence Bayesian classifiers"; Binder,
    Koller, Russell & Kanazawa (1997), "Adaptive probabilistic networks with hidden variables", Machine Learning 29;
    Koller & Friedman (2009), "Probabilistic graphical models", chapter 9.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens import BayesianNetwork
    >>> X = pd.DataFrame({"sprinkler": ["on", "off", "off", "on"] * 5, "grass": ["wet", "dry", "wet", "wet"] * 5})
    >>> y = ["sun", "sun", "rain", "sun"] * 5
    >>> model = BayesianNetwork({"grass": ["class", "sprinkler"], "sprinkler": "class"}).fit(X, y)
    >>> model.predict(pd.DataFrame({"sprinkler": ["off", None], "grass": ["wet", "dry"]})).tolist()
    ['rain', 'sun']
    >>> {value: round(p, 3) for value, p in model.query("class", {"grass": "wet"}).items()}
    {'rain': 0.32, 'sun': 0.68}
    """

    _may_lack_classes = True
    _poor_score = True
    _compares_weights = True
    _capabilities = Capabilities(supports_distributed_fit=True, supports_binned=False, predicts_row_sources=False)

    structure: Any = parameter(one_of(*LEARNED) | GIVEN, default="hill-climb", kw_only=False)
    criterion: str = parameter(one_of(*SCORES), default="bic")
    required_edges: Edges = parameter(EDGES, default=None)
    forbidden_edges: Edges = parameter(EDGES, default=None)
    max_parents: int = parameter(whole(1), default=3)
    min_information: float = parameter(real(0), default=0.03)
    tabu: int = parameter(whole(0), default=0)
    smoothing: str = parameter(SMOOTHING_RULES["smoothing"], default="laplace")
    alpha: float = parameter(real(0), default=1.0)
    m: float = parameter(SMOOTHING_RULES["m"], default=1.0)
    ess: float = parameter(SMOOTHING_RULES["ess"], default=1.0)
    missing: str = parameter(one_of(*OPTIMISERS), default="em")
    start: Any = parameter(START, default="counts")
    learning_rate: float | None = parameter(real(0, 1, open_low=True) | NONE, default=None)
    max_iter: int = parameter(whole(1), default=200)
    tol: float = parameter(real(0), default=1e-6)
    hidden: Mapping[str, int] | None = parameter(HIDDEN, default=None)
    states: Mapping[str, Any] | None = parameter(
        NONE | instance(Mapping, "a dict that maps columns to lists of values"), default=None
    )
    max_bins: int | None = parameter(MANY | NONE, default=None)
    class_name: str = parameter(instance(str, "a string"), default="class")
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = None
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.learning_rate is not None and self.missing == "em":
            raise ValueError(
                "learning_rate must be None unless missing='gradient' or 'theta-gradient', because missing='em' has "
                f"no step size; got {self.learning_rate!r}."
            )
        for name in ("required_edges", "forbidden_edges"):
            if self.structure != "hill-climb" and (given := getattr(self, name)) is not None:
                raise ValueError(f"{name} must be None unless structure='hill-climb'; got {given!r}.")

    @property
    def categorical_features(self) -> str:
        """Columns that are encoded as categories."""
        return "all" if self.max_bins is None else "from_dtype"

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> BayesianNetwork:
        """Learn the structure, unless it is specified, and the probability tables.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Training rows.
        y : array of shape (n_samples,), optional
            Class labels. If None, the network has no class variable and is not a classifier.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows. A weight of 2 is equivalent to repeating the row.

        Returns
        -------
        self
        """
        positions, labels, weights = self._start(X, y, sample_weight)
        n_threads, comm = resolve_n_jobs(self.n_jobs), self._comm
        how = self.max_bins or 1, self._encoder.is_categorical, n_threads, comm
        self._limits = learn_limits(positions, weights, *how)
        names, states = self._variables()
        self._warn_of_numbers(names, states)
        codes = self._join_codes(positions, labels, n_threads)
        data = CodedRows(codes, np.array([len(found) for found in states], dtype=np.int64), weights, n_threads, comm)
        parents = self._choose_parents(names, data)
        self._estimate_tables(DiscreteNetwork(names, states, parents, ()), data)
        return self

    def _warn_of_numbers(self, names: tuple[str, ...], states: tuple[tuple[Any, ...], ...]) -> None:
        """Warn about columns that are unlikely to be discrete variables."""
        for name, found in zip(names, states, strict=True):
            if len(found) > MANY_VALUES and isinstance(found[0], float) and any(value % 1 for value in found):
                warn(
                    f"column {name!r} has {len(found)} distinct numbers, and each becomes a value of its "
                    "variable. Set max_bins, such as max_bins=8, to bin such columns."
                )
                return

    def _start(self, X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any] | None, Array | None]:
        """Return encoded columns, labels and weights without rows of weight 0."""
        self.__dict__.pop("classes_", None)
        declared = declared_values(X)
        if y is not None:
            data = self._start_fit(X, y, sample_weight)
            X, y, weights = data.X, data.y, data.sample_weight
        else:
            self._check_parameters()
            X, sample_weight = present_part(X, sample_weight, self._comm)
            X = self._learn_table(X)
            weights = check_weights(sample_weight, X.shape[0], self._comm)
            weights = unless_ones(self._weights_to_count(weights, is_fit=True), self._comm)
        return self._declare(in_memory(X), declared), y, weights  # codes, or numbers that are binned later

    def _declare(self, X: NDArray[Any], declared: list[Values]) -> NDArray[Any]:
        """Add declared values to the columns; `states` overrides the values that a dtype declares."""
        given = given_values(self.states or {}, self._encoder, self._column_names())
        first = 1 if self._reads_codes else 0
        by_type = [None if own else found for found, own in zip(declared, given, strict=False)]
        self._encoder, X = with_values(self._encoder, X, by_type, first)
        self._encoder, X = with_values(self._encoder, X, given, first, in_order=True)
        return X

    def _column_names(self) -> list[str]:
        return self._encoder.texts

    def _variables(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Return names and values of the variables: columns, hidden variables and the class."""
        categories = self._encoder.categories
        names = self._column_names()
        states = [
            tuple(found or () if limits is None else bin_names(limits))
            for found, limits in zip(categories, self._limits, strict=True)
        ]
        empty = [name for name, found in zip(names, states, strict=True) if not found]
        if empty:
            raise ValueError(
                f"every column must hold at least one value; {empty[0]!r} is empty. Leave it out, "
                "and name it in hidden instead."
            )
        for name, count in (self.hidden or {}).items():
            names.append(name)
            states.append(tuple(range(count)))
        if hasattr(self, "classes_"):
            names.append(self.class_name)
            states.append(tuple(self.classes_.tolist()))
        if len(set(names)) < len(names):
            raise ValueError(f"the variables must have different names; got {names}.")
        return tuple(names), tuple(states)

    def _join_codes(self, positions: NDArray[Any], labels: NDArray[Any] | None, n_threads: int) -> NDArray[Any]:
        """Return the codes of all variables, shape (n_variables, n_rows), with 0 for unknown values."""
        found = self._codes_of(positions, n_threads)
        n_classes = len(self.classes_) if hasattr(self, "classes_") else 0
        n_more = len(self.hidden or ()) + (n_classes > 0)
        if n_more == 0:
            return found
        largest = max(n_classes, *(self.hidden or {}).values(), np.iinfo(found.dtype).max - 1)
        dtype = next(dtype for dtype in CODE_DTYPES if largest < np.iinfo(dtype).max)
        codes = np.zeros((len(found) + n_more, found.shape[1]), dtype=dtype)
        codes[: len(found)] = found
        if labels is not None:
            codes[-1] = labels + 1
        return codes

    def _codes_of(self, X: NDArray[Any], n_threads: int) -> NDArray[Any]:
        """Return the codes of the columns."""
        if self._reads_codes:
            return np.ascontiguousarray(X.T)
        sizes = np.array(
            [
                len(found or ()) if limits is None else len(limits) + 1
                for found, limits in zip(self._encoder.categories, self._limits, strict=True)
            ],
            dtype=np.int64,
        )
        return encode(binned(X, self._limits), sizes, n_threads).codes

    def _choose_parents(self, names: tuple[str, ...], data: CodedRows) -> Parents:
        if not isinstance(self.structure, str):
            return parents_from(self.structure, names)
        if self.hidden:
            raise ValueError(
                f"structure must list the edges if there are hidden variables; got structure={self.structure!r}."
            )
        if self.structure in WITH_CLASS and not hasattr(self, "classes_"):
            raise ValueError(
                f"structure={self.structure!r} requires y to be passed, but the target y is None: the class is a "
                "parent of all columns."
            )
        required = self._edges("required_edges", names, acyclic=True)
        rules = EdgeRules(required, self._edges("forbidden_edges", names, acyclic=False), self.max_parents)
        rules.check(names)
        search = Search(self.criterion, self.ess, self.max_parents, self.tabu, self.min_information, rules)
        return learn_structure(self.structure, data, search)

    def _edges(self, parameter: str, names: tuple[str, ...], *, acyclic: bool) -> Parents:
        """Return the parents of each variable in the edges of a parameter."""
        try:
            return parents_from(getattr(self, parameter) or (), names, acyclic=acyclic)
        except ValueError as error:
            raise ValueError(f"{parameter} is invalid: {error}") from error

    # Predict --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return P(class | row), shape (n_samples, n_classes), computed from the Markov blanket of the class."""
        self._check_fitted()
        if not hasattr(self, "classes_"):
            raise AttributeError("the network has no class. Fit it with y, or call posterior for one of its variables.")
        return self.posterior(self._network.names[-1], X)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log P(class | row), shape (n_samples, n_classes)."""
        return log(self.predict_proba(X))

    def score(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy or, for a network without a class, the mean log probability of the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Test rows.
        y : array of shape (n_samples,), optional
            Class labels; must be passed if the network has a class.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows.
        """
        self._check_fitted()
        if hasattr(self, "classes_"):
            if y is None:
                raise ValueError("BayesianNetwork with a class requires y to be passed, but the target y is None.")
            return super().score(X, y, sample_weight)
        found = self.score_samples(X, y)
        weight = check_weights(sample_weight, len(found))
        if weight is None:
            return float(found.mean())
        return float(np.average(found[weight > 0], weights=weight[weight > 0]))  # avoid 0 * -inf

    def _code_rows(self, X: Any, y: Any = None) -> NDArray[Any]:
        fitted = self._as_fitted()
        table = fitted._check_table(X)
        positions = as_array(table) if isinstance(table, RowSource) else table
        labels = None
        if y is not None:
            if not hasattr(self, "classes_"):
                raise ValueError("y must be None, because the network has no class.")
            labels = self._encode_target(self._read_target(y))
            check_same_rows(len(positions), len(labels))
        return fitted._join_codes(positions, labels, resolve_n_jobs(self.n_jobs))

    def _position(self, number: int, value: Any) -> int | None:
        limits = self._limits[number] if number < len(self._limits) else None
        if limits is None or not isinstance(value, Real) or np.isnan(float(value)):
            return super()._position(number, value)
        return int(np.searchsorted(limits, float(value)))

    def _highlighted(self) -> int | None:
        return len(self._network.names) - 1 if hasattr(self, "classes_") else None

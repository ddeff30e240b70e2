"""Bayesian networks over discrete variables: the estimator and its queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from fastens.bayes.counts.counting import CODE_DTYPES, CodedRows, encode, network_needs
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.networks.discrete_network import DiscreteNetwork
from fastens.bayes.networks.inference import draw, explain, log_likelihoods, log_posteriors, query
from fastens.bayes.networks.network_files import NetworkFiles
from fastens.bayes.networks.structures import (
    LEARNED,
    SCORES,
    WITH_CLASS,
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
from fastens.table.columns.factorize import is_missing
from fastens.table.encoder import InputEncoder
from fastens.table.opening import opening_tables
from fastens.table.parts import present_part
from fastens.table.source import MemoryNeeds, TableShape
from fastens.table.training_data import WEIGHT_TYPE, check_same_rows, check_weights, unless_ones
from fastens.warn import warn

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


MANY_VALUES = 100  # of a column of fractions, which was hardly meant to be a discrete variable

GIVEN = instance((Mapping, list, tuple), "a dict of parents by child, or a list of edges (parent, child)")
MANY = whole(2, 65_000)
HIDDEN = NONE | Rule(
    "a dict of numbers of values, from 2 to 65000, by name",
    lambda value: (
        isinstance(value, Mapping) and all(isinstance(key, str) and MANY.holds(n) for key, n in value.items())
    ),
)


@with_parameters
class BayesianNetwork(TableEstimation, NetworkFiles, CodedInput, SavedEstimator, NetworkQueries):
    """A Bayesian network over discrete variables: a classifier, and a model of the whole table.

    Every column is a variable and its distinct values are the variable's states, numbers too, unless `max_bins` cuts
    them into bins. With `y` the class is one more variable. The structure is given or learned, the conditional
    probability tables are estimated from counts under Dirichlet priors, and inference is exact.

    Missing values are summed out: in `fit` by EM, in predictions by variable elimination. A value that `fit` did not
    see counts as missing.

    Parameters
    ----------
    structure : {"hill-climb", "chow-liu", "tan", "kdb"}, dict or list of pairs, default="hill-climb"
        "hill-climb": edges are added, removed and reversed, the best first, while the score rises. "chow-liu": the tree
        of the greatest likelihood. "tan": the class is a parent of all columns, which also form a tree. "kdb": the
        class is a parent of all columns; columns are ranked by mutual information with the class, and each has further
        parents from those before it, of the greatest mutual information given the class. Given: a dict of parents by
        child, or edges (parent, child); variables by name (columns of arrays are x0, x1, ...) or number.
    criterion : {"bic", "aic", "bdeu", "k2"}, default="bic"
        The score that hill-climbing maximises.
    max_parents : int, default=3
        Most parents of a variable in hill-climbing and "kdb", where the class is one: 3 is KDB with k = 2.
    min_information : float, default=0.03
        In "kdb" the least mutual information of a column and its parent given the class, in nats.
    tabu : int, default=0
        How many moves of hill-climbing in a row may fail to improve on the best structure; none is visited twice.
    smoothing : {"laplace", "m", "kt", "bdeu", "none"}, default="laplace"
        Pseudo-count of each of the r values under each of the q combinations of the parents' values: `alpha`; `m` / r;
        1/2; `ess` / (r q); 0, maximum likelihood.
    alpha : float, default=1.0
        For smoothing="laplace".
    m : float, default=1.0
        For smoothing="m".
    ess : float, default=1.0
        Equivalent sample size, for smoothing="bdeu" and criterion="bdeu".
    missing : {"em", "gradient"}, default="em"
        How the likelihood is maximised where values are missing: expectation-maximisation or gradient ascent.
    start : {"counts", "random"} or dict, default="counts"
        Initial tables of EM. "counts": those of the rows in which a variable and its parents are known. "random":
        drawn uniformly. Or tables by variable, of probabilities greater than 0, as in `tables_`; the others are those
        of "counts".
    learning_rate : float or None, default=None
        Step size of missing="gradient", greater than 0 and at most 1. With it gradient ascent also runs where nothing
        is missing and counts give the maximum. None: adaptive steps, doubled while the likelihood rises and halved
        where it falls.
    max_iter : int, default=200
        Most iterations of EM or gradient ascent.
    tol : float, default=1e-6
        They stop where an iteration raises the log likelihood by less than this for each row.
    hidden : dict or None, default=None
        Hidden variables: numbers of values by name. Needs a given structure.
    states : dict of lists or None, default=None
        Values of columns by name, in the order of `states_`, also values that no row has: smoothing gives them a
        probability. None: the values found, and those of the column's type (pandas' categories, enums).
    max_bins : int or None, default=None
        Most bins of a column of numbers, which are the variable's values: quantiles, or one for each distinct value
        where these are fewer. None: every distinct number is a value.
    weight_type : {"auto", "frequency", "importance"}, default="auto"
        What `sample_weight` means. "frequency": a weight is the number of equal rows that the row stands for.
        "importance": weights are relative to their mean over the rows whose weight is not 0. "auto": "frequency" for
        whole numbers with a median of at most 10, else "importance", with a warning if they are whole.
    class_name : str, default="class"
        The class's name as a variable.
    random_state : int, RandomState or None, default=None
        Seeds the initial tables of hidden variables, and predict(mode="gibbs").
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them; results do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted; only with a class.
    history_ : array
        The objective of EM before each iteration and at the end: the log likelihood plus, with smoothing, the
        pseudo-counts times the logs of the probabilities. One value where nothing is missing.
    n_iter_ : int
        Iterations; 1 where nothing is missing.
    {attributes}
    n_features_in_ : int
        Number of columns.

    Raises
    ------
    ValueError
        If a parameter or the data break a rule, the structure has a cycle, or a table would be too large.

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
    _parameter_rules: ClassVar = {
        **SMOOTHING_RULES,
        "alpha": real(0),
        "structure": one_of(*LEARNED) | GIVEN,
        "criterion": one_of(*SCORES),
        "max_parents": whole(1),
        "min_information": real(0),
        "tabu": whole(0),
        "missing": one_of(*OPTIMISERS),
        "start": START,
        "learning_rate": real(0, 1, open_low=True) | NONE,
        "max_iter": whole(1),
        "tol": real(0),
        "hidden": HIDDEN,
        "states": NONE | instance(Mapping, "a dict of lists of values by column"),
        "max_bins": MANY | NONE,
        "class_name": instance(str, "a string"),
        "n_jobs": ANYTHING,
    }
    _poor_score = True
    _compares_weights = True
    _takes_parts = True

    structure: Any = field(default="hill-climb", kw_only=False)
    criterion: str = "bic"
    max_parents: int = 3
    min_information: float = 0.03
    tabu: int = 0
    smoothing: str = "laplace"
    alpha: float = 1.0
    m: float = 1.0
    ess: float = 1.0
    missing: str = "em"
    start: Any = "counts"
    learning_rate: float | None = None
    max_iter: int = 200
    tol: float = 1e-6
    hidden: Mapping[str, int] | None = None
    states: Mapping[str, Any] | None = None
    max_bins: int | None = None
    class_name: str = "class"
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: Any = None
    n_jobs: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.learning_rate is not None and self.missing != "gradient":
            raise ValueError(
                f"learning_rate must be None without missing='gradient', as missing={self.missing!r} has no step size; "
                f"got {self.learning_rate!r}."
            )

    @property
    def categorical_features(self) -> str:
        """The columns that are encoded as categories."""
        return "all" if self.max_bins is None else "from_dtype"

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> BayesianNetwork:
        """Learn the structure, unless it is given, and the tables.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,), optional
            Their labels. Without, the network has no class and cannot predict one.
        sample_weight : array of shape (n_samples,), optional
            Weight 2 is the row twice.

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

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return network_needs(self, shape)

    def _warn_of_numbers(self, names: tuple[str, ...], states: tuple[tuple[Any, ...], ...]) -> None:
        """Warn of a column that is hardly a discrete variable."""
        for name, found in zip(names, states, strict=True):
            if len(found) > MANY_VALUES and isinstance(found[0], float) and any(value % 1 for value in found):
                warn(
                    f"column {name!r} has {len(found)} distinct numbers, and each is a value of its variable; "
                    "max_bins=8 cuts such columns into bins."
                )
                return

    def _start(self, X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], NDArray[Any] | None, Array | None]:
        """Encoded columns, labels and weights, without rows of weight 0."""
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
        return self._declare(in_memory(X), declared), y, weights  # numbers that will be bins; else it is codes already

    def _declare(self, X: NDArray[Any], declared: list[Values]) -> NDArray[Any]:
        """Add declared values to the columns; those in `states` override those of the type."""
        given = given_values(self.states or {}, self._encoder, self._column_names())
        first = 1 if self._reads_codes else 0
        by_type = [None if own else found for found, own in zip(declared, given, strict=False)]
        self._encoder, X = with_values(self._encoder, X, by_type, first)
        self._encoder, X = with_values(self._encoder, X, given, first, in_order=True)
        return X

    def _column_names(self) -> list[str]:
        return self._encoder.texts

    def _variables(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Names and values of the variables: the columns, the hidden ones, the class."""
        categories = self._encoder.categories
        names = self._column_names()
        states = [
            tuple(found or () if limits is None else bin_names(limits))
            for found, limits in zip(categories, self._limits, strict=True)
        ]
        empty = [name for name, found in zip(names, states, strict=True) if not found]
        if empty:
            raise ValueError(f"every column must hold a value; {empty[0]!r} holds none: name it in hidden instead.")
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
        """Codes of all variables, (n_variables, n_rows); 0 where a variable is not known."""
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
        """Codes of the columns."""
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
            raise ValueError(f"hidden variables need a given structure; got structure={self.structure!r}.")
        if self.structure in WITH_CLASS and not hasattr(self, "classes_"):
            raise ValueError(
                f"structure={self.structure!r} requires y to be passed, but the target y is None: the class is a "
                "parent of all columns."
            )
        search = Search(self.criterion, self.ess, self.max_parents, self.tabu, self.min_information)
        return learn_structure(self.structure, data, search)

    # Predict --------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return P(class | row), shape (n_samples, n_classes); the Markov blanket of the class decides."""
        self._check_fitted()
        if not hasattr(self, "classes_"):
            raise AttributeError(
                "the network has no class: fit it with y, or compute the `posterior` of one of its variables."
            )
        return self.posterior(self._network.names[-1], X)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log P(class | row), shape (n_samples, n_classes)."""
        return log(self.predict_proba(X))

    def score(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose label is predicted; of a network without a class, the mean of `score_samples`.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        y : array of shape (n_samples,), optional
            Their labels; None where the network has no class.
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
        return float(np.average(found[weight > 0], weights=weight[weight > 0]))  # 0 times -inf is none

    def _code_rows(self, X: Any, y: Any = None) -> NDArray[Any]:
        fitted = self._as_fitted()
        table = fitted._check_table(X)
        positions = as_array(table) if isinstance(table, RowSource) else table
        labels = None
        if y is not None:
            if not hasattr(self, "classes_"):
                raise ValueError("y must not be given: the network has no class.")
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

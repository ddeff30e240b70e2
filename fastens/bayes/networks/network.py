"""Bayesian networks over discrete and continuous variables: the estimator and its queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import Capabilities
from fastens.bayes.counts.attributes import (
    CodedInput,
    Values,
    bin_names,
    binned,
    declared_values,
    learn_limits,
    sizes_of,
    specified_values,
    with_values,
)
from fastens.bayes.counts.counting import CODE_DTYPES, CodedRows, encode
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.networks.gaussians import standardised
from fastens.bayes.networks.network_data import NetworkData, check_directions
from fastens.bayes.networks.network_files import NetworkFiles
from fastens.bayes.networks.pc import INDEPENDENCE_TESTS, pc
from fastens.bayes.networks.queries import NetworkQueries
from fastens.bayes.networks.structures import (
    LEARNED,
    SCORES,
    WITH_CLASS,
    WITH_EDGE_RULES,
    EdgeRules,
    Parents,
    learn_structure,
    parents_from,
)
from fastens.bayes.networks.table_estimation import OPTIMISERS, START, TableEstimation
from fastens.engine.elementary import log
from fastens.engine.parts import RowSource, as_array, in_memory
from fastens.engine.threads import resolve_n_jobs
from fastens.modelfile.saving import SavedEstimator
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, NONE, Rule, instance, one_of, parameter, real, whole
from fastens.params.types import ColumnChoice, Edges, RandomState
from fastens.table.arrays import dense
from fastens.table.opening import open_table
from fastens.table.parts import present_part
from fastens.table.tables import column_positions
from fastens.table.training_data import WEIGHT_TYPE, check_same_rows, check_weights, unless_ones
from fastens.warn import warn

Array = NDArray[np.float64]


MANY_VALUES = 100  # a column with more distinct fractional values is probably continuous
_LARGEST = 1e100  # largest absolute value of continuous columns, so that sums of their squares are finite

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
    """Bayesian network: a classifier and a model of the joint distribution of a table.

    Every column is a variable whose states are its distinct values. This also applies to numeric columns unless
    `max_bins` is set, or they are in `continuous_features`. A continuous variable is a linear regression on its
    continuous parents with normal noise, for each combination of values of its discrete parents (conditional linear
    Gaussian); discrete variables have discrete parents only. If `y` is passed, the class is an additional variable. The
    structure is either specified or learned. Conditional probability tables are estimated from counts under Dirichlet
    priors, and inference is exact.

    Missing values are handled by EM in `fit` and summed out by variable elimination in prediction. Values that were not
    seen in `fit` are treated as missing.

    Parameters
    ----------
    structure : {"hill-climb", "pc", "chow-liu", "tan", "kdb"}, dict or list of pairs, default="hill-climb"
        Structure of the network. "hill-climb" adds, removes and reverses edges greedily while the score improves. "pc"
        removes the edges of conditionally independent variables and directs the others by the independences; the
        result does not depend on the order of the columns.
        "chow-liu" is the maximum likelihood tree. "tan" makes the class a parent of all columns, which also form a
        tree. "kdb" makes the class a parent of all columns and ranks columns by mutual information with the class; the
        other parents of a column are the higher-ranked columns with the highest conditional mutual information given
        the class. A structure can be specified as a dict of parents by child or as a list of edges (parent, child).
        Variables are identified by name (x0, x1, ... for the columns of arrays) or index.
    criterion : {"bic", "aic", "bdeu", "k2"}, default="bic"
        Score that hill-climbing maximises.
    required_edges, forbidden_edges : dict, list of pairs or None, default=None
        Edges that "hill-climb" and "pc" keep from the beginning and edges that they never add, in the format of
        `structure`. A forbidden edge may have the opposite direction. If None, no edges are required or forbidden.
    independence_test : {"g2", "chi2"}, default="g2"
        Statistic of the conditional independence tests of "pc": the likelihood ratio or Pearson's chi-squared.
    significance_level : float, default=0.01
        Significance level of the tests of "pc", greater than 0 and less than 1. Larger values keep more edges.
    max_parents : int, default=3
        Maximum number of parents of a variable for "hill-climb" and "kdb", and maximum number of variables in a
        condition for "pc": parents separate a variable from its non-descendants, so larger conditions are not needed if
        no variable has more parents. The class counts as a parent, so 3 is KDB with k = 2.
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
    continuous_features : "from_dtype", list or None, default=None
        Continuous columns: "from_dtype" selects the numeric columns, and a list contains names or indices. Their
        variances have a prior, the residual variance within cells, with the weight of as many rows as the pseudo-counts
        of a distribution with one value. Networks with continuous variables have no posterior of their parameters. If
        None, there are no continuous columns.
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
    Koller & Friedman (2009), "Probabilistic graphical models", chapter 9; Lauritzen & Wermuth (1989), "Graphical models
    for associations between variables, some of which are qualitative and some quantitative", Annals of Statistics 17.

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
    independence_test: str = parameter(one_of(*INDEPENDENCE_TESTS), default="g2")
    significance_level: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.01)
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
    continuous_features: ColumnChoice = parameter(ANYTHING, default=None)
    class_name: str = parameter(instance(str, "a string"), default="class")
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = None
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def _validate_combinations(self) -> None:
        """Raise ValueError if parameters contradict each other.

        `learning_rate` contradicts some values of `missing`, lists of edges contradict some values of `structure`, and
        `continuous_features` contradicts some values of `structure`, `criterion` and `missing`.
        """
        if self.learning_rate is not None and self.missing == "em":
            raise ValueError(
                "learning_rate must be None unless missing='gradient' or 'theta-gradient', because missing='em' has "
                f"no step size; got {self.learning_rate!r}."
            )
        for name in ("required_edges", "forbidden_edges"):
            if self.structure not in WITH_EDGE_RULES and (value := getattr(self, name)) is not None:
                raise ValueError(f"{name} must be None unless structure='hill-climb' or 'pc'; got {value!r}.")

        if self.continuous_features is not None:
            for name, allowed in (("structure", WITH_EDGE_RULES), ("criterion", ("bic", "aic")), ("missing", ("em",))):
                if isinstance(value := getattr(self, name), str) and value not in allowed:
                    raise ValueError(f"{name} must be one of {allowed} with continuous_features; got {value!r}.")

    @property
    def categorical_features(self) -> Any:
        """Columns that are encoded as categories."""
        if self.max_bins is None and not isinstance(self.continuous_features, str):
            return "all" if self.continuous_features is None else self.__dict__.get("_categorical", "from_dtype")
        return "from_dtype"

    def _learn_table(self, X: Any) -> Any:
        """Learn the encoder of the columns of `X` and return `X` encoded: category positions and numbers."""
        self.__dict__.pop("_categorical", None)
        is_type = isinstance(self.continuous_features, str) and self.continuous_features == "from_dtype"
        if self.continuous_features is not None and not is_type:
            table = open_table(dense(X), type(self).__name__, min_rows=0)
            chosen = column_positions("continuous_features", self.continuous_features, table.names, len(table))
            self._categorical = [column for column in range(len(table)) if column not in chosen]
        return super()._learn_table(X)

    def _continuous_columns(self) -> list[int]:
        """Return the positions of the continuous columns; raise ValueError if one of them is categorical."""
        if self.continuous_features is None:
            return []
        discrete = self.__dict__.get("_categorical", [])
        columns = [column for column in range(self.n_features_in_) if column not in discrete]
        numeric = [column for column in columns if not self._encoder.is_categorical[column]]
        if isinstance(self.continuous_features, str):
            return numeric
        if wrong := [self._encoder.texts[column] for column in columns if column not in numeric]:
            raise ValueError(f"continuous_features must be numeric columns; got {wrong[0]!r}, which is categorical.")
        return columns

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
        positions, labels, weights = self._read_training_data(X, y, sample_weight)
        n_threads, comm = resolve_n_jobs(self.n_jobs), self._comm
        continuous = self._continuous_columns()
        is_unbinned = self._encoder.is_categorical.copy()
        is_unbinned[continuous] = True
        others = positions
        if continuous:
            others = np.array(positions)
            others[:, continuous] = 0  # the binning takes columns that it does not bin for positions
        self._limits = learn_limits(others, weights, self.max_bins or 1, is_unbinned, n_threads, comm)
        for column in continuous:
            self._limits[column] = np.zeros(0)  # one bin
        names, states = self._variables()
        self._warn_about_many_values(names, states)
        codes = self._code_variables(positions, labels, n_threads)
        numbers = _continuous_values(positions, continuous, len(names))
        sizes = np.array([len(values) for values in states], dtype=np.int64)
        data = CodedRows(codes, sizes, weights, n_threads, comm, numbers, frozenset(continuous))
        parents = self._choose_parents(names, data)
        check_directions(parents, data.continuous, names)
        self._estimate_tables(NetworkData(names, states, parents, ()), data)
        return self

    def _warn_about_many_values(self, names: tuple[str, ...], states: tuple[tuple[Any, ...], ...]) -> None:
        """Warn about the first variable with more than MANY_VALUES values some of which are fractions."""
        for name, values in zip(names, states, strict=True):
            if len(values) > MANY_VALUES and isinstance(values[0], float) and any(value % 1 for value in values):
                warn(
                    f"column {name!r} has {len(values)} distinct numbers, and each becomes a value of its "
                    "variable. Set max_bins, such as max_bins=8, to bin such columns."
                )
                return

    def _read_training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[NDArray[Any], NDArray[Any] | None, Array | None]:
        """Learn the encoder; return encoded columns (n_rows, n_columns), labels and weights, without rows of weight 0.

        Labels are None if `y` is None. Weights are None if all are 1.
        """
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
        return self._add_declared_values(in_memory(X), declared), y, weights  # codes, or numbers that are binned later

    def _add_declared_values(self, X: NDArray[Any], declared: list[Values]) -> NDArray[Any]:
        """Add declared values to the categories of the encoder and return `X` with positions in the new categories.

        `declared` holds the values that the dtype of each column declares; the parameter `states` overrides them.
        """
        state_values = specified_values(self.states or {}, self._encoder, self._encoder.texts)
        first = 1 if self._reads_codes else 0
        by_type = [None if override else values for values, override in zip(declared, state_values, strict=False)]
        self._encoder, X = with_values(self._encoder, X, by_type, first)
        self._encoder, X = with_values(self._encoder, X, state_values, first, in_order=True)
        return X

    def _variables(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Return the names and the values of all variables: columns, hidden variables and the class, in this order.

        Raises ValueError if a column has no values, or two variables have one name.
        """
        categories = self._encoder.categories
        names = list(self._encoder.texts)
        states = [
            tuple(values or () if limits is None else bin_names(limits))
            for values, limits in zip(categories, self._limits, strict=True)
        ]
        empty = [name for name, values in zip(names, states, strict=True) if not values]
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

    def _code_variables(self, positions: NDArray[Any], labels: NDArray[Any] | None, n_threads: int) -> NDArray[Any]:
        """Return the codes of all variables, shape (n_variables, n_rows), with 0 for missing or hidden values.

        `positions` holds the encoded columns, (n_rows, n_columns), and `labels` the class indices; if None, the class
        is missing.
        """
        column_codes = self._encode_columns(positions, n_threads)
        n_classes = len(self.classes_) if hasattr(self, "classes_") else 0
        n_more = len(self.hidden or ()) + (n_classes > 0)
        if n_more == 0:
            return column_codes
        largest = max(n_classes, *(self.hidden or {}).values(), np.iinfo(column_codes.dtype).max - 1)
        dtype = next(dtype for dtype in CODE_DTYPES if largest < np.iinfo(dtype).max)
        codes = np.zeros((len(column_codes) + n_more, column_codes.shape[1]), dtype=dtype)
        codes[: len(column_codes)] = column_codes
        if labels is not None:
            codes[-1] = labels + 1
        return codes

    def _encode_columns(self, X: NDArray[Any], n_threads: int) -> NDArray[Any]:
        """Return the codes of encoded columns, shape (n_columns, n_rows), with 0 for missing values."""
        if self._reads_codes:
            return np.ascontiguousarray(X.T)
        sizes = sizes_of(self._encoder.categories, self._limits)
        return encode(binned(X, self._limits), sizes, n_threads).codes

    def _choose_parents(self, names: tuple[str, ...], data: CodedRows) -> Parents:
        """Return the parents of each variable: specified by `structure`, or learned from the rows.

        Raises ValueError if `structure` is malformed, or contradicts the hidden variables, a missing target or edge
        lists.
        """
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
        required = self._parse_edge_parameter("required_edges", names, acyclic=True)
        check_directions(required, data.continuous, names)
        forbidden = self._parse_edge_parameter("forbidden_edges", names, acyclic=False)
        if data.continuous:
            to_discrete = [[] if v in data.continuous else sorted(data.continuous) for v in range(len(names))]
            forbidden = tuple(tuple({*a, *b}) for a, b in zip(forbidden, to_discrete, strict=True))
        rules = EdgeRules(required, forbidden, self.max_parents)
        rules.check(names)
        data = standardised(data)[0] if data.continuous else data
        if self.structure == "pc":
            return pc(data, names, rules, self.independence_test, self.significance_level)
        return learn_structure(self, data, rules)

    def _parse_edge_parameter(self, parameter: str, names: tuple[str, ...], *, acyclic: bool) -> Parents:
        """Return the parents of each variable in the list of edges that is the value of the parameter `parameter`.

        Raises ValueError, with the name of the parameter, for unknown variables or, if `acyclic` is True, a cycle.
        """
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
        log_probabilities = self.score_samples(X, y)
        weight = check_weights(sample_weight, len(log_probabilities))
        if weight is None:
            return float(log_probabilities.mean())
        return float(np.average(log_probabilities[weight > 0], weights=weight[weight > 0]))  # avoid 0 * -inf

    def _code_rows(self, X: Any, y: Any = None) -> tuple[NDArray[Any], Array | None]:
        """Return the codes of all variables, shape (n_variables, n_rows), 0 for missing values, and their numbers.

        The numbers of discrete variables are 0; they are None if no variable is continuous.
        """
        fitted = self._as_fitted()
        table = fitted._check_table(X)
        positions = as_array(table) if isinstance(table, RowSource) else table
        labels = None
        if y is not None:
            if not hasattr(self, "classes_"):
                raise ValueError("y must be None, because the network has no class.")
            labels = self._encode_target(self._read_target(y))
            check_same_rows(len(positions), len(labels))
        codes = fitted._code_variables(positions, labels, resolve_n_jobs(self.n_jobs))
        return codes, _continuous_values(positions, sorted(self._network.continuous), len(codes))


def _continuous_values(columns: NDArray[Any], continuous: list[int], n_variables: int) -> Array | None:
    """Return the numbers of the continuous columns, 0 for other columns and missing values, (n_variables, n_rows).

    Returns None if no column is continuous. Raises ValueError if a number is too large or infinite.
    """
    if not continuous:
        return None
    numbers = np.zeros((n_variables, len(columns)))
    numbers[continuous] = columns.T[continuous]
    largest = np.nanmax(np.abs(numbers), initial=0.0)
    if largest > _LARGEST:
        raise ValueError(f"continuous columns must hold finite numbers up to {_LARGEST:g}; got {largest:g}.")
    numbers[np.isnan(numbers)] = 0.0
    return numbers

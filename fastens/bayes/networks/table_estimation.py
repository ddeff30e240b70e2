"""Conditional probability tables, estimated from counts, or by EM or gradient ascent if values are missing."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fastens.bayes.counts.counting import MAX_CELLS, CodedRows, FamilyLayout, complete_columns, family_counts, n_cells
from fastens.bayes.counts.dirichlet import Groups, Smoothing
from fastens.bayes.counts.regressions import MIN_VARIANCE, family_moments, gaussian_objective, pooled_variance, regress
from fastens.bayes.networks.gaussians import standardised
from fastens.bayes.networks.inference import expected_counts, find_components, missing_mask
from fastens.bayes.networks.network_data import NetworkData, check_table, flatten_tables
from fastens.bayes.posterior import ParameterPosteriorMixin, floats_in, generator
from fastens.engine.comm import is_any
from fastens.engine.elementary import exp, log
from fastens.params.rules import instance, one_of
from fastens.warn import warn

Array = NDArray[np.float64]
ROUNDING = 1e-10  # relative tolerance; a larger decrease is not a rounding error
LONGEST, SHORTEST = 1e6, 1e-12  # step sizes along the gradient


@dataclass(frozen=True)
class Optimum:
    """Result of likelihood maximisation."""

    network: NetworkData
    counts: list[Array]  # expected counts of each family under the network
    history: Array  # objective before each step and at the end
    converged: bool
    path: Sequence[Sequence[Array]] | None = (
        None  # tables before each step and at the end; only recorded by gradient ascent
    )


def table_moments(network: NetworkData, node: int, rows: CodedRows) -> Array:
    """Return the second moments of z = (1, continuous parents, node) for each cell of the node's table.

    The shape is (numbers of values of the discrete parents..., 1, d, d) if z has d entries. Moments are sums over known
    rows.
    """
    moments = family_moments(rows, node, network.parents[node])
    return moments.reshape(*network.tables[node].shape, *moments.shape[1:])


def objective(table: Array, counts: Array, pseudo: Array) -> float:
    """Return the sum over all cells of (counts + pseudo-counts) times the log probabilities in `table`."""
    mass = counts + pseudo
    counted = mass > 0
    return float((log(table[counted]) * mass[counted]).sum())


class _Objective:
    """Objective: the log likelihood of rows plus pseudo-counts times log probabilities."""

    def __init__(self, network: NetworkData, rows: CodedRows, pseudo: Sequence[float]) -> None:
        self._rows, self._pseudo = rows, pseudo
        known_counts = family_counts(rows, network.families)
        self._observed = [counts.astype(np.float64) for counts in known_counts]
        self._observed_cells = flatten_tables(self._observed)
        self._pseudo_cells = np.repeat(pseudo, [counts.size for counts in known_counts])
        self._priors = {}
        for node in network.regressions:
            moments = table_moments(network, node, rows)
            self._observed[node], self._priors[node] = moments, (pseudo[node], pooled_variance(moments))
            self._pseudo = [0.0 if v == node else count for v, count in enumerate(self._pseudo)]
        self._components = find_components(network, missing_mask(network, rows.codes), prune=False)
        self.weight = rows.n_copies()

    def evaluate(self, network: NetworkData) -> tuple[float, list[Array]]:
        """Return the objective of a network and the expected counts of each family, without pseudo-counts."""
        rows = self._rows
        hidden, value = expected_counts(network, self._components, rows.codes, rows.weights, rows.values)
        counts = [observed + expected for observed, expected in zip(self._observed, hidden, strict=True)]
        for node, prior in self._priors.items():
            value += gaussian_objective(network.regressions[node], self._observed[node], *prior)
        return value + objective(flatten_tables(network.tables), self._observed_cells, self._pseudo_cells), counts

    def check_rise(self, before: float, after: float) -> None:
        """Raise ArithmeticError if a step decreases the objective by more than rounding errors can explain."""
        tolerance = ROUNDING * max(1.0, abs(before)) + np.finfo(np.float64).eps * len(self._observed) * self.weight
        if self._priors:  # squared residuals are differences of moments of size 1
            tolerance += np.finfo(np.float64).eps * len(self._observed) * self.weight / MIN_VARIANCE
        if after < before - tolerance:
            raise ArithmeticError(f"a step of EM must not lower the likelihood; it fell from {before!r} to {after!r}.")

    def maximise(self, network: NetworkData, counts: Sequence[Array]) -> NetworkData:
        """Return the network that maximises the objective, given the expected counts of each family."""
        tables = list(network.tables)
        for node, mass in enumerate(self.with_pseudo(counts)):
            if node not in network.continuous:
                tables[node] = normalise(mass, tables[node])
        regressions = {node: regress(counts[node], *prior) for node, prior in self._priors.items()}
        return replace(network, tables=tuple(tables), regressions=regressions)

    def with_pseudo(self, counts: Sequence[Array]) -> list[Array]:
        """Return the counts of each family plus its pseudo-count, which is 0 for continuous variables."""
        return [cells + pseudo for cells, pseudo in zip(counts, self._pseudo, strict=True)]


def run_em(network: NetworkData, rows: CodedRows, pseudo: Sequence[float], *, max_iter: int, tol: float) -> Optimum:
    """Run at most `max_iter` steps of expectation-maximisation from the tables of `network`; return the optimum.

    `pseudo` holds the pseudo-count of the cells of each table. Every step must increase the objective, which is
    checked. EM stops when a step improves the objective by less than `tol` per row.

    References
    ----------
    Dempster, Laird & Rubin (1977), "Maximum likelihood from incomplete data via the EM algorithm"; Lauritzen (1995),
    "The EM algorithm for graphical association models with missing data", eq. 4.
    """
    objective = _Objective(network, rows, pseudo)
    value, counts = objective.evaluate(network)
    history, converged = [value], False
    while len(history) <= max_iter and not converged:
        network = objective.maximise(network, counts)
        value, counts = objective.evaluate(network)
        objective.check_rise(history[-1], value)
        history.append(value)
        converged = value - history[-2] < tol * objective.weight
    return Optimum(network, counts, np.array(history), converged)


def run_gradient_ascent(
    network: NetworkData,
    rows: CodedRows,
    pseudo: Sequence[float],
    *,
    max_iter: int,
    tol: float,
    learning_rate: float | None = None,
) -> Optimum:
    """Run at most `max_iter` steps of gradient ascent on the objective of EM, in logs of unnormalised probabilities.

    See `run_em` for `network`, `rows` and `pseudo`; the start is the tables of `network`.

    The derivative with respect to the log of cell k of a distribution is N_k - N theta_k, with expected counts N_k
    (Binder, Koller, Russell & Kanazawa 1997, eq. 9, by the chain rule). It is divided by N, the expected number of rows
    of the distribution. A step that does not increase the objective is undone and halved; after a successful step, the
    step size doubles.

    With a `learning_rate` of at most 1, every step is the learning rate times the derivative. Such steps always
    increase the objective, because the second derivative of the expected log likelihood with respect to the logs is at
    most N / 2. The ascent stops when a step improves the objective by less than `tol` times the learning rate per row.
    """
    objective = _Objective(network, rows, pseudo)
    value, counts = objective.evaluate(network)
    history, converged, step = [value], False, learning_rate or 1.0
    min_rise = tol * objective.weight * step
    while len(history) <= max_iter and not converged:
        slopes = _gradient_of_logits(network.tables, objective.with_pseudo(counts))
        while True:
            trial = network.with_tables(
                [_step_logits(table, step * slope) for table, slope in zip(network.tables, slopes, strict=True)]
            )
            value, trial_counts = objective.evaluate(trial)
            if value >= history[-1] or step < SHORTEST or learning_rate is not None:
                break
            step /= 2
        if value < history[-1]:  # no step increases the objective: a maximum, up to rounding
            converged = True
            break
        network, counts = trial, trial_counts
        history.append(value)
        step = min(2 * step, LONGEST) if learning_rate is None else learning_rate
        converged = value - history[-2] < min_rise
    return Optimum(network, counts, np.array(history), converged)


def run_theta_ascent(
    network: NetworkData,
    rows: CodedRows,
    pseudo: Sequence[float],
    *,
    max_iter: int,
    tol: float,
    learning_rate: float | None = None,
) -> Optimum:
    """Run at most `max_iter` steps of gradient ascent on the objective of EM, in the probabilities themselves.

    See `run_em` for `network`, `rows` and `pseudo`; the start is the tables of `network`.

    The derivative with respect to the probability of cell k of a distribution is N_k / theta_k, with expected counts
    N_k. It is divided by the expected number of rows of the distribution, and its mean over the cells is subtracted so
    that probabilities still sum to 1. A step is the learning rate, by default 0.1, times the derivative, shortened so
    that no probability falls by more than half. A step that does not increase the objective is halved until it does.
    The ascent stops when no probability changes by more than `tol`.
    """
    objective = _Objective(network, rows, pseudo)
    value, counts = objective.evaluate(network)
    history, path, change = [value], [network.tables], np.inf
    while len(history) <= max_iter and change > tol:
        step, trial = learning_rate or 0.1, network
        mass = objective.with_pseudo(counts)
        slopes = [
            _gradient_of_probabilities(table, table_mass)
            for table, table_mass in zip(network.tables, mass, strict=True)
        ]
        while step >= SHORTEST:
            trial = network.with_tables(
                [_step_probabilities(table, step * slope) for table, slope in zip(network.tables, slopes, strict=True)]
            )
            value, trial_counts = objective.evaluate(trial)
            if value >= history[-1]:
                break
            step /= 2
        if value < history[-1]:  # no step increases the objective: a maximum, up to rounding
            change = 0.0
            break
        change = float(np.abs(flatten_tables(trial.tables) - flatten_tables(network.tables)).max())
        network, counts = trial, trial_counts
        history.append(value)
        path.append(network.tables)
    return Optimum(network, counts, np.array(history), change <= tol, path)


def _gradient_of_probabilities(table: Array, mass: Array) -> Array:
    """Return the derivatives with respect to the probabilities, divided by the mass of each distribution.

    The mean over the cells of a distribution is subtracted; distributions without mass have zeros.
    """
    total = mass.sum(axis=-1, keepdims=True)
    slopes = np.divide(mass, table * total, out=np.zeros_like(table), where=total > 0)
    return slopes - slopes.mean(axis=-1, keepdims=True)


def _step_probabilities(table: Array, change: Array) -> Array:
    """Add `change` to the probabilities, scaled down so that none falls by more than half, and normalise."""
    falls = np.divide(0.5 * table, -change, out=np.ones_like(table), where=change < -0.5 * table)
    moved = table + falls.min(axis=-1, keepdims=True) * change
    return moved / moved.sum(axis=-1, keepdims=True)


def normalise(mass: Array, fallback: Array) -> Array:
    """Return `mass` divided by its sums along the last axis; distributions without mass are copied from `fallback`."""
    total = mass.sum(axis=-1, keepdims=True)
    return np.divide(mass, total, out=fallback.copy(), where=total > 0)


def _gradient_of_logits(tables: Sequence[Array], mass: Sequence[Array]) -> list[Array]:
    """Return the derivatives with respect to the log probabilities, divided by the mass of each distribution."""
    return [normalise(table_mass, table) - table for table, table_mass in zip(tables, mass, strict=True)]


def _step_logits(table: Array, change: Array) -> Array:
    """Add `change` to the logs of the probabilities and normalise the distributions."""
    logits = log(table) + change
    logits -= logits.max(axis=-1, keepdims=True)
    moved = exp(logits)
    return moved / moved.sum(axis=-1, keepdims=True)


START = one_of("counts", "random") | instance(Mapping, "a dict that maps variables to tables")
SYMMETRY = 0.5  # noise in the initial tables of hidden variables, because EM cannot leave uniform tables


def initial_tables(
    start: Any, network: NetworkData, counts: Sequence[Array], hidden: set[int], rng: np.random.Generator
) -> list[Array]:
    """Return the initial tables of the optimisation, without zeros, which the optimisation could never change.

    "counts" uses rows in which the family is known, with one pseudo-count for each cell and noise for hidden variables.
    "random" draws distributions uniformly. A dict holds tables by name; other variables are initialised as with
    "counts". Raises ValueError if a table has an unknown name, a wrong shape, or probabilities that are not positive.
    """
    if isinstance(start, str) and start == "random":
        return [normalise(mass, mass) for mass in (rng.standard_exponential(cells.shape) for cells in counts)]
    tables = []
    for family, cells in zip(network.families, counts, strict=True):
        mass = cells + 1
        if hidden & set(family):
            mass = mass * (1 + SYMMETRY * rng.uniform(-1, 1, mass.shape))
        tables.append(normalise(mass, mass))
    for name, table in {} if isinstance(start, str) else start.items():
        discrete = [variable for v, variable in enumerate(network.names) if v not in network.continuous]
        if name not in discrete:
            raise ValueError(f"start must name variables of the network, {discrete}; got {name!r}.")
        number = network.names.index(name)
        tables[number] = _check_start_table(name, table, tables[number].shape)
    return tables


def _check_start_table(name: str, start: Any, shape: tuple[int, ...]) -> Array:
    """Return an initial table as an array; raise ValueError unless it has this shape and positive probabilities."""
    table = floats_in(f"start[{name!r}]", start)
    try:
        check_table(name, table, shape)
    except ValueError as error:
        raise ValueError(f"start must hold tables of the variables, but {error}") from None
    if not table.all():
        raise ValueError(f"start[{name!r}] must hold probabilities greater than 0: EM never changes a zero.")
    return normalise(table, table)


def initial_regressions(network: NetworkData, hidden: set[int], rng: np.random.Generator) -> dict[int, Array]:
    """Return the initial regressions by variable, for standardised variables: random means if a parent is hidden.

    Other regressions are unchanged. Random means are needed because EM keeps equal cells equal.
    """
    regressions = dict(network.regressions)
    for node, regression in regressions.items():
        if hidden & set(network.parents[node]):
            regressions[node] = np.zeros_like(regression)
            regressions[node][..., 0], regressions[node][..., -1] = rng.standard_normal(regression.shape[:-1]), 1.0
    return regressions


OPTIMISERS: dict[str, Callable[..., Optimum]] = {
    "em": run_em,
    "gradient": run_gradient_ascent,
    "theta-gradient": run_theta_ascent,
}


class TableEstimation(ParameterPosteriorMixin):
    """Mixin that estimates the tables of `BayesianNetwork` and draws them from their posterior."""

    _counts: list[Array] | None

    def _estimate_tables(self: Any, network: NetworkData, data: CodedRows) -> None:
        """Estimate the tables and regressions of `network` from the rows; set `_network`, `_counts` and `history_`.

        Missing values are handled by the iterative optimiser that `missing` names. Raises ValueError if a table is too
        large.
        """
        self.__dict__.pop("theta_path_", None)
        data, scale, log_density = standardised(data) if data.continuous else (data, None, 0.0)
        sizes = data.sizes.tolist()
        for name, family in zip(network.names, network.families, strict=True):
            if n_cells(family, sizes) > MAX_CELLS:
                raise ValueError(
                    f"The table of {name!r} must have at most {MAX_CELLS} cells; with its parents it would "
                    f"have {n_cells(family, sizes):.3g}. Use fewer parents or bins."
                )
        layout = FamilyLayout(network.families, data.sizes)
        is_complete = complete_columns(data.codes, data.sizes)
        cells = layout.count(data, is_complete).astype(np.float64)
        groups = self._dirichlet_groups(layout.shapes)
        tables = groups.estimate(cells[None], "bayes")[0]
        network, counts = network.with_tables(layout.split(tables)), layout.split(cells)
        pseudo = groups.pseudo[layout.offsets[:-1]].tolist()
        moments = {node: table_moments(network, node, data) for node in sorted(data.continuous)}
        priors = {node: (pseudo[node], pooled_variance(node_moments)) for node, node_moments in moments.items()}
        network = replace(
            network, regressions={v: regress(node_moments, *priors[v]) for v, node_moments in moments.items()}
        )
        is_iterative = is_any(data.comm, not is_complete.all()) or self.learning_rate is not None
        if is_iterative or not isinstance(self.start, str):  # this also validates user tables that are not used
            first, n_hidden = len(self._encoder.categories), len(self.hidden or ())
            hidden = set(range(first, first + n_hidden))
            rng = generator(self.random_state)
            start = initial_tables(self.start, network, counts, hidden, rng)
            network = replace(network, regressions=initial_regressions(network, hidden, rng))
        if is_iterative:
            self._maximise_likelihood(network.with_tables(start), data.of_all_ranks(), pseudo)
        else:
            self._network, self._counts = network, counts
            value = objective(tables, cells, groups.pseudo)
            value += sum(
                gaussian_objective(network.regressions[v], node_moments, *priors[v])
                for v, node_moments in moments.items()
            )
            self.history_, self.n_iter_ = np.array([value]), 1
        if scale is not None:
            self.history_, self._counts = self.history_ + log_density, None  # regressions have no posterior
            regressions = {node: scale.regression(self._network, node) for node in sorted(data.continuous)}
            self._network = replace(self._network, regressions=regressions)

    def _dirichlet_groups(self: Any, shapes: list[tuple[int, ...]]) -> Groups:
        """Return the Dirichlet priors of the distributions in tables of these shapes, concatenated."""
        n_values = np.array([shape[-1] for shape in shapes], dtype=np.int64)
        n_rows = np.array([math.prod(shape[:-1]) for shape in shapes], dtype=np.int64)
        fitted = self._as_fitted()
        pseudo = Smoothing(fitted.smoothing, fitted.alpha, fitted.m, fitted.ess).of_groups(n_values, n_rows)
        return Groups(np.repeat(n_values, n_rows), np.repeat(pseudo, n_rows * n_values))

    def _tables_from_counts(self: Any, mode: str, rng: np.random.Generator | None) -> list[Array]:
        """Return all tables, estimated from the counts by `mode`, or drawn from the posterior if `rng` is passed."""
        layout = FamilyLayout(self._network.families, self._network.sizes)
        groups, cells = self._dirichlet_groups(layout.shapes), flatten_tables(self._counts or ())[None]
        return layout.split((groups.estimate(cells, mode) if rng is None else groups.draw(cells, rng))[0])

    def _maximise_likelihood(self: Any, network: NetworkData, data: CodedRows, pseudo: list[float]) -> None:
        """Run the optimiser that `missing` names, from the tables of `network`, and set the fitted attributes.

        `pseudo` holds the pseudo-count of the cells of each table. Warns if the optimiser does not converge.
        """
        options = {} if self.learning_rate is None else {"learning_rate": self.learning_rate}
        run = OPTIMISERS[self.missing]
        optimum = run(network, data, pseudo, max_iter=self.max_iter, tol=self.tol, **options)
        if not optimum.converged:
            warn(
                f"EM has not converged after max_iter={self.max_iter} steps. Raise max_iter or tol.", ConvergenceWarning
            )
        self._network, self._counts, self.history_ = optimum.network, optimum.counts, optimum.history
        self.n_iter_ = len(optimum.history) - 1
        if optimum.path is not None:
            steps = zip(*optimum.path, strict=True)
            self.theta_path_ = {name: np.stack(tables) for name, tables in zip(network.names, steps, strict=True)}

    # The posterior of the tables --------------------------------------------------

    def _with_estimate(self: Any, mode: str, rng: np.random.Generator | None = None) -> Any:
        """Return a copy whose tables are estimated by `mode` or, if `rng` is passed, drawn from the posterior.

        Raises AttributeError if the network was not learned from counts.
        """
        self._check_fitted()
        if self._counts is None:
            raise AttributeError(
                "the network must be fitted to have a posterior of its tables; this network "
                "was not learned from counts."
            )
        model = copy.copy(self)
        model._network = self._network.with_tables(self._tables_from_counts(mode, rng))
        return model

    @property
    def log_evidence_(self: Any) -> float:
        """Log probability of the data given the structure, with the tables integrated out under their prior."""
        self._check_fitted()
        counts = self._counts or ()
        groups = self._dirichlet_groups([cells.shape for cells in counts])
        if not counts or len(self.history_) > 1 or (groups.pseudo == 0).any():
            raise AttributeError(
                "log_evidence_ is only available if the network was fitted with smoothing to rows without missing "
                "values."
            )
        return float(groups.log_evidence(flatten_tables(counts)[None]).sum())

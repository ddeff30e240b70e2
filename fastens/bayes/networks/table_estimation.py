"""Estimates of the conditional probability tables: from counts, by EM where values are missing; their posterior."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fastens.bayes.counts.dirichlet import Groups, Smoothing
from fastens.bayes.counts.families import MOST_CELLS, CodedRows, FamilyLayout, complete_columns, n_cells
from fastens.bayes.networks.discrete_network import DiscreteNetwork, joined
from fastens.bayes.networks.em import objective, run_em, run_gradient_ascent
from fastens.bayes.networks.initial_tables import initial_tables
from fastens.bayes.posterior import ParameterPosteriorMixin, generator
from fastens.engine.comm import is_any
from fastens.table.encoder import InputEncoder
from fastens.warn import warn

Array = NDArray[np.float64]
OPTIMISERS = {"em": run_em, "gradient": run_gradient_ascent}


class TableEstimation(ParameterPosteriorMixin):
    """Estimates the tables of `BayesianNetwork` by its parameters, and draws them from their posterior."""

    _network: DiscreteNetwork
    _counts: list[Array] | None
    _encoder: InputEncoder
    history_: Array
    n_iter_: int
    smoothing: str
    alpha: float
    m: float
    ess: float
    missing: str
    start: Any
    learning_rate: float | None
    max_iter: int
    tol: float
    hidden: Any
    random_state: Any

    def _estimate_tables(self, network: DiscreteNetwork, data: CodedRows) -> None:
        sizes = data.sizes.tolist()
        for name, family in zip(network.names, network.families, strict=True):
            if n_cells(family, sizes) > MOST_CELLS:
                raise ValueError(
                    f"The table of {name!r} must have at most {MOST_CELLS} cells; with its parents it would have "
                    f"{n_cells(family, sizes):.3g}."
                )
        layout = FamilyLayout(network.families, data.sizes)
        is_complete = complete_columns(data.codes, data.sizes, data.n_threads)
        cells = layout.count(data, is_complete).astype(np.float64)
        groups = self._groups(layout.shapes)
        tables = groups.estimate(cells[None], "bayes")[0]
        network, counts = network.with_tables(layout.split(tables)), layout.split(cells)
        if is_any(data.comm, not is_complete.all()) or self.learning_rate is not None:
            pseudo = groups.pseudo[layout.offsets[:-1]].tolist()
            first, n_hidden = len(self._encoder.categories), len(self.hidden or ())
            hidden = set(range(first, first + n_hidden))
            rng = generator(self.random_state)
            start = initial_tables(self.start, network, counts, hidden, rng)
            self._maximise_likelihood(network.with_tables(start), data.of_all_ranks(), pseudo)
            return
        self._network, self._counts = network, counts
        self.history_ = np.array([objective(tables, cells, groups.pseudo)])
        self.n_iter_ = 1

    def _groups(self, shapes: list[tuple[int, ...]]) -> Groups:
        """The prior of the distributions of tables, one after another."""
        n_values = np.array([shape[-1] for shape in shapes], dtype=np.int64)
        n_rows = np.array([math.prod(shape[:-1]) for shape in shapes], dtype=np.int64)
        fitted = self._as_fitted()  # type: ignore[attr-defined]
        pseudo = Smoothing(fitted.smoothing, fitted.alpha, fitted.m, fitted.ess).of_groups(n_values, n_rows)
        return Groups(np.repeat(n_values, n_rows), np.repeat(pseudo, n_rows * n_values))

    def _estimate(self, mode: str, rng: np.random.Generator | None) -> list[Array]:
        """Tables from their counts, all at once: by the estimate of a mode, or drawn."""
        layout = FamilyLayout(self._network.families, self._network.sizes)
        groups, cells = self._groups(layout.shapes), joined(self._counts or ())[None]
        return layout.split((groups.estimate(cells, mode) if rng is None else groups.draw(cells, rng))[0])

    def _maximise_likelihood(self, network: DiscreteNetwork, data: CodedRows, pseudo: list[float]) -> None:
        options = {} if self.learning_rate is None else {"learning_rate": self.learning_rate}
        run = OPTIMISERS[self.missing]
        found = run(network, data, pseudo, max_iter=self.max_iter, tol=self.tol, **options)
        if not found.converged:
            warn(
                f"the likelihood still rises after max_iter={self.max_iter} steps; raise max_iter or tol.",
                ConvergenceWarning,
            )
        self._network, self._counts, self.history_ = found.network, found.counts, found.history
        self.n_iter_ = len(found.history) - 1

    # The posterior of the tables --------------------------------------------------

    def _with_estimate(self, mode: str, rng: np.random.Generator | None = None) -> Any:
        self._check_fitted()  # type: ignore[attr-defined]
        if self._counts is None:
            raise AttributeError("a network that was not fitted has no counts, and so no posterior of its tables.")
        model = copy.copy(self)
        model._network = self._network.with_tables(self._estimate(mode, rng))
        return model

    @property
    def log_evidence_(self) -> float:
        """Log probability of the data given the structure, the tables averaged out under their prior."""
        self._check_fitted()  # type: ignore[attr-defined]
        groups = None if self._counts is None else self._groups([found.shape for found in self._counts])
        if groups is None or len(self.history_) > 1 or not (groups.pseudo > 0).all():
            raise AttributeError("log_evidence_ needs a fit to rows without missing values, with smoothing.")
        evidence = groups.log_evidence(joined(self._counts or ())[None])
        return float(evidence.sum())

"""Explaining single predictions of tree ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import contributions, interactions
from fastens.tree_model.saving import SavedEnsemble


class ContributionsMixin(SavedEnsemble):
    """An estimator whose predictions are explained by its features' Shapley values."""

    n_jobs: int | None

    def predict_contributions(self, X: ArrayLike, *, interactions: bool = False) -> NDArray[np.float64]:
        """How much each feature moves the raw prediction of each row away from the expected one.

        These are exact path-dependent Shapley values (Lundberg et al. 2020): what is known of a row's other features
        is averaged over as the training rows were spread over the trees.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows with the columns of training.
        interactions : bool, default=False
            Split each contribution into that of the feature by itself and those of its pairs with the others.

        Returns
        -------
        array of shape (n_samples, n_features + 1) or (n_samples, n_outputs, n_features + 1)
            The last entry is the expected raw prediction; a row's entries add up to its raw prediction: the predicted
            value (before the inverse link), log-odds, or log-probabilities up to a constant with an axis for classes.
            With `interactions`, another axis of length n_features + 1 follows: a symmetric matrix whose rows add up to
            the contributions.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = GradientBoostingRegressor(n_estimators=20).fit(X, y)
        >>> parts = model.predict_contributions(X)
        >>> parts.shape
        (442, 11)
        >>> bool(abs(parts.sum(axis=1) - model.predict(X)).max() < 1e-9)
        True
        """
        self._check_fitted()
        explained = _explain(self._ensemble, self._check_table(X), resolve_n_jobs(self.n_jobs), pairs=interactions)
        explained = self._of_columns(explained, axes=2 if interactions else 1) * self._contribution_scale()
        return explained[:, 0] if explained.shape[1] == 1 else explained

    def _of_columns(self, explained: NDArray[np.float64], axes: int) -> NDArray[np.float64]:
        """Sums over the columns that trees see for each column of X, along the last axes."""
        places = np.append(self._column_of, self.n_features_in_)
        if len(places) == self.n_features_in_ + 1:
            return explained
        to_column = np.equal.outer(places, np.arange(self.n_features_in_ + 1)).astype(np.float64)
        explained = explained @ to_column
        return explained if axes == 1 else to_column.T @ explained

    def _contribution_scale(self) -> float:
        """What the sum of the trees is multiplied with to give a prediction."""
        return 1.0


def _explain(ensemble: Any, X: Any, n_threads: int, *, pairs: bool) -> NDArray[np.float64]:
    explain = interactions if pairs else contributions
    return map_parts(lambda part: explain(ensemble, part, n_threads), X)

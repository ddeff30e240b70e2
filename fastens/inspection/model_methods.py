"""The methods of estimators that draw what they have learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.trees.trees import TreeEnsemble
from fastens.inspection.contribution_plots import plot_contributions
from fastens.inspection.model_plots import plot_dependence, plot_importance, plot_training


class ShowsModel:
    """An estimator of trees that tells and draws which columns matter, and how."""

    _ensemble: TreeEnsemble
    _check_fitted: Callable[[], None]
    _column_of: NDArray[np.intp]
    n_features_in_: int

    if TYPE_CHECKING:

        @property
        def feature_importances_(self) -> NDArray[np.float64]:  # noqa: D102
            ...

    def importances(self, kind: str = "gain") -> NDArray[np.float64]:
        """Return the share of each column in what the splits do, shape (n_features,).

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            What the splits on the column gain (`feature_importances_`), how many they are, or the weights of the rows
            that they divide.
        """
        self._check_fitted()
        if kind not in ("gain", "split", "cover"):
            raise ValueError(f"kind must be 'gain', 'split' or 'cover'; got {kind!r}.")
        if kind == "gain":
            return self.feature_importances_
        trees = self._ensemble
        inner = trees.feature >= 0
        weight = trees.weight[inner] if kind == "cover" else None
        found = np.bincount(self._column_of[trees.feature[inner]], weight, self.n_features_in_).astype(np.float64)
        return found / found.sum() if found.any() else found

    def plot_importance(
        self, kind: str = "gain", *, X: ArrayLike | None = None, y: ArrayLike | None = None, ax: Any = None
    ) -> Any:
        """Draw the most important columns as bars, and return the axes; see `importances`.

        Parameters
        ----------
        kind : {"gain", "split", "cover", "permutation"}, default="gain"
            As for `importances`; "permutation": by how much the score of X and y falls when a column is shuffled.
        X, y : table and array, optional
            Rows, for "permutation".
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_importance(self, kind, X=X, y=y, ax=ax)

    def plot_training(self, ax: Any = None) -> Any:
        """Draw the loss after each round, or the error out of bag after each tree, and return the axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_training(self, ax)

    def plot_dependence(self, X: ArrayLike, features: Any, *, label: Any = None, ax: Any = None) -> NDArray[Any]:
        """Draw how the mean prediction depends on columns, and return the axes, one for each picture.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to average over; 500 at most, evenly spaced, are used.
        features : int, str, pair, or list of these
            Columns to draw; a pair is a picture of two together.
        label : object, optional
            With three or more classes: the class whose probability is drawn.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_dependence(self, X, features, label=label, ax=ax)

    def plot_contributions(self, X: ArrayLike, row: int | None = None, *, label: Any = None, ax: Any = None) -> Any:
        """Draw what each column contributes to the predictions of all rows, or of one, and return the axes.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        row : int, optional
            The position of the one row to explain.
        label : object, optional
            With several outputs: the class, the number of the target, or both as a pair.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_contributions(self, X, row, label=label, ax=ax)

"""The methods of estimators that show their trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastens.inspection.arguments import check_position
from fastens.inspection.model_methods import ShowsModel
from fastens.inspection.tree_plot import plot_tree
from fastens.inspection.tree_text import Names, to_dataframe, to_text

if TYPE_CHECKING:
    import pandas as pd


class ShowsTrees(ShowsModel):
    """An estimator whose trees can be read: as text, as a table, as a picture."""

    _encoder: Any
    _statistics: Any
    # Whether the values of nodes are shares of classes; otherwise they are numbers.
    _has_class_shares: bool = False

    def _names(self) -> Names:
        """What the fitted table's columns, categories and classes are called."""
        self._check_fitted()
        classes = getattr(self, "classes_", None) if self._has_class_shares else None
        names, kinds = self._encoder.names, self._encoder.categories
        if self._statistics is not None:
            names = [f"x{column}" for column in range(len(kinds))] if names is None else names
            is_mean = np.isin(self._column_of, self._statistics.columns)
            pairs = zip(self._column_of, is_mean, strict=True)
            names = [f"mean target of {names[column]}" if mean else names[column] for column, mean in pairs]
            kinds = [None if mean else kinds[column] for column, mean in zip(self._column_of, is_mean, strict=True)]
        return Names(names, kinds, classes)

    def to_text(self, tree: int = 0, max_depth: int | None = 10, decimals: int = 2) -> str:
        """Return one tree as indented text.

        Parameters
        ----------
        tree : int, default=0
            Which one.
        max_depth : int or None, default=10
            Branches deeper than this are only named.
        decimals : int, default=2
            Of thresholds and values.
        """
        names = self._names()
        return to_text(self._ensemble, check_position("tree", tree, self._ensemble.n_trees), names, max_depth, decimals)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table with a row for each node of each tree: split, counts, gain, value."""
        names = self._names()
        return to_dataframe(self._ensemble, names)

    def plot_tree(self, tree: int = 0, max_depth: int | None = 3, decimals: int = 2, ax: Any = None) -> Any:
        """Draw one tree and return the axes.

        Parameters
        ----------
        tree : int, default=0
            Which one.
        max_depth : int or None, default=3
            Draw down to this depth; None for all of it.
        decimals : int, default=2
            Of thresholds and values.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure, large enough for its boxes.
        """
        names = self._names()
        return plot_tree(
            self._ensemble, check_position("tree", tree, self._ensemble.n_trees), names, max_depth, decimals, ax
        )

"""Additive classifiers that sum votes: predictions, margins, training error bound and contributions of features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from fastens.base import BaseClassifier
from fastens.boosting.classifier import most_probable
from fastens.engine.elementary import exp, sum_in_order
from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.grow.stumps import feature_table
from fastens.engine.trees.trees import TreeEnsemble
from fastens.inspection.diversity import plot_errors, staged_errors
from fastens.inspection.plotting import axes, name_ticks, plain, shortened
from fastens.monitoring.callbacks import staged_scores
from fastens.monitoring.metrics import Evaluations
from fastens.tree_model.tree_model import TreeModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
# Algorithms whose weak classifiers vote for a single class.
CLASS_VOTES = ("discrete", "m1")


class Contribution(NamedTuple):
    """Exact contribution of one feature to the raw prediction of a stump ensemble, a step function.

    Attributes
    ----------
    name : str
        Name of the feature.
    thresholds : float64 array of shape (n_steps,)
        Positions of the steps of a numeric feature. ``values[i]`` applies up to and including ``thresholds[i]``, and
        the last value applies above all thresholds.
    categories : list
        Categories of a categorical feature. ``values[i]`` is the contribution of ``categories[i]``.
    values : float64 array of shape (n_steps + 1,) or (n_categories,)
        Contributions to the raw prediction; with three or more classes, one column per class.
    missing : float64 or array of shape (n_classes,)
        Contribution of missing values, and of unseen categories unless missing values are a category of their own.
    """

    name: str
    thresholds: Array
    categories: list[Any]
    values: Array
    missing: Array


class AdditiveVotes(BaseClassifier, TreeModel):
    """Base class of classifiers whose raw prediction is a sum of votes."""

    algorithm: str
    estimator: BaseEstimator
    estimator_weights_: Array
    estimator_errors_: Array
    n_estimators_: int
    restarted_: NDArray[np.bool_]
    evals_result_: Evaluations

    def _staged_raw(self, X: Any) -> Iterator[Array]:
        """Yield the raw predictions, (n_samples, n_outputs), after each round."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the raw predictions: log odds of the second class, or one column per class if there are more."""
        return _decision(self._raw(X))

    def staged_decision_function(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the decision function after each round."""
        return map(_decision, self._staged_raw(X))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes)."""
        raw = self._raw(X)  # raises NotFittedError before `_loss` is looked up
        return self._loss.predict(raw)

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the probabilities after each round."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,); ties go to the first class."""
        return most_probable(self._raw(X), self.classes_)

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Yield the predicted classes after each round."""
        for raw in self._staged_raw(X):
            yield most_probable(raw, self.classes_)

    def staged_score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[float]:
        """Yield the score after each round.

        Parameters
        ----------
        X, y, sample_weight
            Rows, class labels and weights, as for `score`.
        """
        return staged_scores(self, X, y, sample_weight)

    def _predicting_trees(self) -> TreeEnsemble:
        """Return the trees whose leaf values are summed to raw predictions."""
        return self._shown_trees()

    def _shown_trees(self) -> TreeEnsemble:
        """Return the trees; raise ValueError if the weak classifiers are other estimators."""
        if "_ensemble" not in vars(self):
            self._check_fitted()
            raise ValueError(
                "estimator must be None or a fastens.DecisionTreeClassifier, so that the votes are sums of "
                f"trees; got {self.estimator!r}."
            )
        return self._ensemble

    def training_error_bound(self) -> Array:
        """Return an upper bound on the training error after each round, shape (n_rounds,).

        The bound is the product of sum(w exp(-y f / 2)) over the rounds. For "m1", and for "discrete" with two classes,
        each factor is 2 sqrt(e (1 - e)) at learning_rate=1 (Freund & Schapire 1997, theorem 6). If a round restarted,
        the bound is the mean of exp(-y F / 2), which equals the product if no round restarts.

        Raises
        ------
        ValueError
            If `algorithm` is "logit", or "real" or "gentle" with three or more classes, for which it is not a bound.
        """
        self._check_fitted()
        of_classes = self._algorithm in CLASS_VOTES
        if self._algorithm == "logit" or (not of_classes and len(self.classes_) > 2):
            raise ValueError(
                f"the training error has no such bound for algorithm={self._algorithm!r} and "
                f"{len(self.classes_)} classes; use algorithm='discrete' or 'm1'."
            )
        losses = self.evals_result_["training"]["loss"]
        if not of_classes:
            return losses[: self.n_estimators_].copy()  # drop the rounds that early stopping discarded
        if self.restarted_.any():
            all_votes = np.cumsum(self.estimator_weights_)
            return losses[: len(all_votes)] * exp(all_votes * (0.5 - 1 / len(self.classes_)))
        half, error = 0.5 * self.estimator_weights_, self.estimator_errors_
        return np.cumprod((1 - error) * exp(-half) + error * exp(half), dtype=np.float64)

    def staged_errors(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """Return the error rate after each round, shape (n_rounds,).

        Parameters
        ----------
        X, y, sample_weight
            Rows, class labels and weights.
        """
        return staged_errors(self, X, y, sample_weight)

    def plot_errors(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the training error, its bound and optionally the validation error by round; return the axes.

        Parameters
        ----------
        X, y : table and array
            Training set as passed to `fit`.
        X_val, y_val : table and array, optional
            Validation set.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.
        """
        self._check_fitted()
        return plot_errors(self, X, y, X_val=X_val, y_val=y_val, ax=ax)

    def margins(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Return the margin of each row, shape (n_samples,).

        The margin is the votes for the true class minus the largest votes for another class, as a fraction of all
        votes. It ranges from -1 (all votes are wrong) to 1 and is positive if the row is classified correctly
        (Schapire, Freund, Bartlett & Lee 1998).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        y : array of shape (n_samples,)
            True class labels.
        """
        raw = self._raw(X)
        index = self._encode_target(self._read_target(y)).astype(np.intp)
        if len(index) != len(raw):
            raise ValueError(f"X and y must have the same number of rows; got {len(raw)} and {len(index)}.")
        if raw.shape[1] == 1:
            difference = np.where(index == 1, raw[:, 0], -raw[:, 0])
        else:
            rows = np.arange(len(index))
            true_votes = raw[rows, index]
            raw[rows, index] = -np.inf
            difference = true_votes - raw.max(axis=1)
        return np.clip(difference / self._sum_of_votes(), -1.0, 1.0)

    def _sum_of_votes(self) -> float:
        """Return the sum over rounds of the largest possible difference of votes, which normalises margins."""
        if self._algorithm in CLASS_VOTES:
            return float(self.estimator_weights_.sum())
        if "_ensemble" not in vars(self):
            return sum_in_order(np.ptp(values, axis=1).max() for values in self._values)
        first, value = self._ensemble.node_offsets[:-1], np.array(self._ensemble.value)
        spread = np.abs(value[:, 0]) if value.shape[1] == 1 else np.ptp(value, axis=1)
        spread[self._ensemble.left_child > 0] = 0
        return float(np.maximum.reduceat(spread, first).sum() + np.ptp(np.append(self._ensemble.baseline, 0.0)))

    def plot_margins(self, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None) -> Axes:
        """Plot the cumulative distribution of the margins.

        Parameters
        ----------
        X, y : table and array
            Rows and their true class labels.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.

        Returns
        -------
        matplotlib Axes
        """
        margins = np.sort(self.margins(X, y))
        ax = axes(ax, figsize=(5.5, 3.6))
        share = np.arange(1, len(margins) + 1) / len(margins)
        ax.step(np.concatenate([[-1.0], margins, [1.0]]), np.concatenate([[0.0], share, [1.0]]), where="post")
        ax.axvline(0.0, color="0.6", linewidth=0.8)
        ax.set(xlim=(-1, 1), ylim=(0, 1), xlabel="margin", ylabel="share of the rows at or below")
        return ax

    def contribution_curve(self, feature: int | str) -> Contribution:
        """Return the contribution of one feature to the raw prediction of a stump ensemble.

        The raw prediction is the sum of the contributions of all features.

        Parameters
        ----------
        feature : int or str
            Index or name of a column.

        Raises
        ------
        ValueError
            If the model is not an ensemble of stumps, or the feature is unknown.
        """
        self._check_fitted()
        if self.estimator is not None or self._ensemble.max_depth.max(initial=0) > 1:
            raise ValueError("contribution curves need an ensemble of stumps: set estimator=None and max_depth=1.")
        parts = self._encoder.part_names()
        if isinstance(feature, str) and feature not in (self._encoder.names or ()) and feature in parts:
            index = parts.index(feature)
        else:
            index = ColumnLookup(self.n_features_in_, self._encoder.names).position("feature", feature)
            column_parts = [
                part for part, column in zip(parts, self._encoder.column_of, strict=True) if column == index
            ]
            if len(column_parts) > 1:
                shown = ", ".join(map(repr, column_parts[:10])) + (", ..." if len(column_parts) > 10 else "")
                raise ValueError(f"feature must be one part of the column, one of {shown}; got {feature!r}.")
        name = parts[index] if self._encoder.has_own_names else f"feature {index}"
        categories = self._encoder.categories[index] if index < self.n_features_in_ else None
        if categories is not None:
            values = self._category_contributions(index, len(categories))
            return Contribution(name, np.zeros(0), list(categories), values[:-1], values[-1])
        table = feature_table(self._ensemble, index)
        table = table[:, 0] if table.shape[1] == 1 else table
        binning = self._ensemble.binning
        n_values = 1 if table.ndim == 1 else table.shape[1]
        jumps = np.flatnonzero((np.diff(table[1:], axis=0) != 0).reshape(len(table) - 2, n_values).any(axis=1))
        values = table[np.append(jumps, len(table) - 2) + 1]
        return Contribution(name, binning.thresholds[index][jumps], [], values, table[0])

    def _category_contributions(self, column: int, n_categories: int) -> Array:
        """Return what each category, and then a missing value, of a column adds to the raw prediction.

        The shape is (n_categories + 1,), with another axis for several outputs.
        """
        rows = np.full((n_categories + 1, len(self._encoder.column_of)), np.nan)
        n_positions = n_categories + self._encoder.missing_is_category
        rows[:n_positions, column] = np.arange(n_positions)
        encoded = rows if self._statistics is None else self._statistics.transform(rows)
        codes = self._ensemble.binning.codes(encoded, 1)
        added = np.zeros((n_categories + 1, self._ensemble.n_outputs))
        for feature in np.flatnonzero(self._column_of == column).tolist():
            added += feature_table(self._ensemble, feature)[codes[feature]]
        return added[:, 0] if added.shape[1] == 1 else added

    def plot_contribution_curve(self, feature: int | str, ax: Axes | None = None) -> Axes:
        """Plot the contribution of one feature to the raw prediction: steps, or one bar per category.

        Parameters
        ----------
        feature : int or str
            Index or name of a column.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.

        Returns
        -------
        matplotlib Axes
        """
        curve = self.contribution_curve(feature)
        ax = axes(ax, figsize=(5.5, 3.6))
        columns = np.atleast_2d(curve.values.T) if len(curve.values) else np.empty((0, 0))
        drawn: list[Any] = []
        for index, column in enumerate(columns):
            if curve.categories:
                width = 0.8 / len(columns)
                drawn += [ax.bar(np.arange(len(column)) + width * (index - 0.5 * (len(columns) - 1)), column, width)]
            else:
                ends = _curve_ends(curve.thresholds)
                drawn += ax.step(
                    np.concatenate([ends[:1], curve.thresholds, ends[1:]]), np.append(column, column[-1]), where="post"
                )
        if curve.categories:
            name_ticks(ax, "x", [str(category) for category in curve.categories])
        if len(columns) > 1:
            # Passed explicitly, because matplotlib omits labels that start with an underscore.
            labels = [plain(shortened(str(label), 20)) for label in self.classes_]
            ax.legend(drawn, labels, title="class", fontsize="small")
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        ax.set(
            xlabel=plain(shortened(curve.name, 60)),
            ylabel="adds to the log odds" if len(columns) == 1 else "adds to the votes",
        )
        return ax


def _decision(raw: Array) -> Array:
    """Return raw predictions, (n_rows, n_outputs), without the last axis if there is one output."""
    return raw[:, 0] if raw.shape[1] == 1 else raw


def _curve_ends(thresholds: Array) -> Array:
    """Return the two ends, (2,), at which to draw a step curve, slightly beyond its sorted `thresholds`."""
    if len(thresholds) == 0:
        return np.array([0.0, 1.0])
    room = 0.1 * (thresholds[-1] - thresholds[0]) or 1.0
    return np.array([thresholds[0] - room, thresholds[-1] + room])

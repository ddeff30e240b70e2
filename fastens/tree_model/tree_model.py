"""Methods of all estimators whose predictions are sums or means of trees."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from fastens.base import BaseFastens
from fastens.engine.grow.growth import Columns, count_of, feature_chances, interaction_groups, monotone_signs
from fastens.engine.losses.losses import Loss
from fastens.inspection.contribution_plots import output_place, plot_explanation
from fastens.inspection.model_plots import plot_dependence, plot_importance, plot_training
from fastens.inspection.plotting import check_position
from fastens.inspection.trees import Names, plot_tree, to_dataframe, to_text
from fastens.modelfile.saving import plain_parameter
from fastens.params.docstrings import WEIGHT_TYPE_DOCS, entries
from fastens.params.options import Categories
from fastens.params.rules import FLAG, NONE, Rule, read_with
from fastens.tree_model.explanations import explain, permutation_importance, raw_contributions, score_of_predictions
from fastens.tree_model.saving import SavedEnsemble

if TYPE_CHECKING:
    import pandas as pd


Array = NDArray[np.float64]


class TreeModel(SavedEnsemble, BaseFastens):
    """An estimator whose raw predictions are sums of leaf values: it shows its trees and explains predictions."""

    # Whether the values of nodes are shares of classes; otherwise they are numbers.
    _has_class_shares: bool = False
    _loss: Any
    _n_targets: int = 1
    # Of trees whose mean predicts, ClassTargets or NumberTargets: they have a loss of each row's mean leaf value.
    _targets: ClassVar[Any] = None

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        self._check_fitted()
        return self._n_targets

    # Explain --------------------------------------------------

    def predict_contributions(self, X: ArrayLike, *, interactions: bool = False, parts: bool = False) -> Array:
        """How much each feature moves the raw prediction of each row away from the expected one.

        These are exact path-dependent Shapley values (Lundberg et al. 2020): what is known of a row's other features
        is averaged over as the training rows were spread over the trees. In boosting a row counts there by its weight
        times the hessian of its loss.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows with the columns of training.
        interactions : bool, default=False
            Split each contribution into that of the feature by itself and those of its pairs with the others.
        parts : bool, default=False
            If True, split by `feature_parts_`, what the trees see, instead of by column.

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
        FLAG.check("interactions", interactions)
        FLAG.check("parts", parts)
        explained = raw_contributions(self, self._check_table(X), pairs=interactions, parts=parts)
        return explained[:, 0] if explained.shape[1] == 1 else explained

    def explain(
        self,
        X: ArrayLike,
        background: ArrayLike | None = None,
        *,
        output: str = "raw",
        interactions: bool = False,
        parts: bool = False,
        y: ArrayLike | None = None,
    ) -> Any:
        """Explain predictions by Shapley values, as the library shap returns them and its plots take them.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to explain.
        background : table of shape (n_background, n_features), optional
            Rows to compare with (interventional): what is not known of a row is as in these, with their mean as
            result. Default: as the training rows were spread over the trees (path-dependent), as
            `predict_contributions` has it.
        output : {"raw", "probability", "loss"}, default="raw"
            What is explained: the raw predictions; the prediction after the inverse link (the probability of the second
            class of two, the mean of log links); or each row's loss, the squared error or the model's own. The last two
            need a background and one raw prediction; the contributions against each of its rows are scaled to the
            difference of the outputs. Of forests and trees of classes, the raw predictions are probabilities. An
            isolation forest has mean path lengths as raw predictions, and for "probability" what `score_samples` gives.
        interactions : bool, default=False
            Split each value into that of the feature by itself and those of its pairs with the others.
        parts : bool, default=False
            If True, explain by each of `feature_parts_` instead of by column: by the month and the hour of a column of
            dates, and by each class's mean target of a column of categories.
        y : array of shape (n_samples,), optional
            Targets, for the loss.

        Returns
        -------
        shap.Explanation, or Explanation where shap is not installed
            ``values`` of shape (n_samples, n_features), ``base_values`` (n_samples,), and ``data``, ``display_data``,
            ``feature_names`` and ``output_names``. With several outputs these have another axis at the end, and with
            `interactions` another one of n_features after the first of that length.

        Raises
        ------
        ValueError
            Where an argument does not fit the others or the model; the message names it.

        References
        ----------
        S. Lundberg et al. (2020). From local explanations to global understanding with explainable AI for trees. Nature
        Machine Intelligence 2.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = GradientBoostingRegressor(n_estimators=20).fit(X, y)
        >>> explained = model.explain(X[:50], X[100:200])
        >>> explained.values.shape
        (50, 10)
        >>> total = explained.base_values + explained.values.sum(axis=1)
        >>> bool(abs(total - model.predict(X[:50])).max() < 1e-9)
        True
        """
        self._check_fitted()
        return explain(self, X, background, output, interactions=interactions, parts=parts, y=y)

    @property
    def _predicts_raw(self) -> bool:
        """Whether predictions, or probabilities, are the raw predictions."""
        return self._has_class_shares or self._targets is not None or type(self._loss).predict is Loss.predict

    def _inverse_link(self, raw: Array) -> Array:
        """Predictions for raw predictions of one target, both (n_rows,): of classes, the probability of the last."""
        if self._targets is not None:
            return raw
        predicted: Array = self._loss.predict(raw[:, None])
        return predicted if predicted.ndim == 1 else predicted[:, -1]

    def _contribution_scale(self) -> float:
        """What the sum of the trees is multiplied by to give a prediction."""
        return 1.0

    def permutation_importance(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        n_repeats: int = 5,
        random_state: Any = None,
    ) -> Bunch:
        """Return by how much `score` falls when the values of a feature are shuffled among the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; better such that the trees were not grown on.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Weights in the score.
        n_repeats : int, default=5
            How often to shuffle.
        random_state : int, RandomState or None, default=None
            Of the shuffles.

        Returns
        -------
        Bunch
            ``importances_mean``, ``importances_std`` and ``importances_standard_error`` of shape (n_features,), and
            ``importances`` of shape (n_features, n_repeats); the standard error of one repeat is NaN.
        """
        self._check_fitted()
        return permutation_importance(self, X, y, sample_weight, n_repeats, random_state)

    def _score_of_raw(self, raw: Array, y: Array, weight: Array) -> float:
        """What `score` returns for raw predictions and encoded targets."""
        return score_of_predictions(self._loss.predict(raw), y, weight, of_classes=hasattr(self, "classes_"))

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the gain of all splits, shape (n_features,)."""
        self._check_fitted()
        gain = self._by_columns(self._ensemble.feature_importances("gain"))
        return gain / gain.sum() if gain.sum() > 0 else gain

    @property
    def feature_split_counts_(self) -> NDArray[np.int64]:
        """Number of splits on each feature, shape (n_features,)."""
        self._check_fitted()
        return self._by_columns(self._ensemble.feature_importances("split")).astype(np.int64)

    def importances(self, kind: str = "gain", *, parts: bool = False) -> Array:
        """Return the share of each column in what the splits do, shape (n_features,).

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            What the splits on the column gain (`feature_importances_`), how many they are, or the weights of the rows
            that they divide, in boosting times the hessians of the loss.
        parts : bool, default=False
            If True, return the share of each of `feature_parts_`, such as the month of a column of dates.
        """
        self._check_fitted()
        FLAG.check("parts", parts)
        if not isinstance(kind, str) or kind not in ("gain", "split", "cover"):
            raise ValueError(f"kind must be 'gain', 'split' or 'cover'; got {kind!r}.")
        if kind == "gain":
            return self._part_importances() if parts else self.feature_importances_
        trees = self._shown_trees()
        inner = trees.feature >= 0
        weight = trees.weight[inner] if kind == "cover" else None
        found = np.bincount(trees.feature[inner], weight, len(self._column_of)).astype(np.float64)
        found = found if parts else self._by_columns(found)
        return found / found.sum() if found.any() else found

    def _part_importances(self) -> Array:
        """`feature_importances_` of each column that the trees see."""
        gain = self._ensemble.feature_importances("gain").astype(np.float64)
        return gain / gain.sum() if gain.sum() > 0 else gain

    def plot_importance(
        self,
        kind: str = "gain",
        *,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        n_top: int = 20,
        ax: Any = None,
    ) -> Any:
        """Draw the most important columns as bars, and return the axes; see `importances`.

        Parameters
        ----------
        kind : {"gain", "split", "cover", "permutation"}, default="gain"
            As for `importances`; "permutation": by how much the score of X and y falls when a column is shuffled.
        X, y : table and array, optional
            Rows, for "permutation".
        n_top : int, default=20
            At most so many columns.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_importance(self, kind, X=X, y=y, n_top=n_top, ax=ax)

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
            Columns to draw; a pair, of numbers or of categories, is a picture of two together.
        label : object, optional
            With three or more classes: the class whose probability is drawn. With several targets or quantiles of
            numbers: the number of one; with both, targets come first, each with its quantiles.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.
        """
        self._check_fitted()
        return plot_dependence(self, X, features, label=label, ax=ax)

    def plot_contributions(
        self,
        X: ArrayLike,
        row: int | None = None,
        *,
        feature: Any = None,
        kind: str | None = None,
        label: Any = None,
        ax: Any = None,
    ) -> Any:
        """Draw what each column contributes to the predictions of all rows, or of one, and return the axes.

        Twelve columns are drawn at most; `plot_explanation` takes another number as `n_top`.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or Explanation
            Rows, or what `explain` returned for them, without interactions.
        row : int, optional
            The position of the one row to explain.
        feature : int, str, or pair of these, optional
            The one column to draw, over its values; of a pair, the second one gives the dots their colours.
        kind : {"dots", "bars"}, optional
            How all rows are drawn. Default: dots, and of several outputs bars.
        label : object, optional
            With several outputs: the class, the number of the target, or both as a pair.
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure.

        See Also
        --------
        plot_explanation : The same of an explanation alone.
        """
        self._check_fitted()
        explained: Any = X if hasattr(X, "base_values") else self.explain(X)
        if np.shape(explained.values)[1] not in (self.n_features_in_, len(self._column_of)):
            raise ValueError(
                f"X must be an explanation of {self.n_features_in_} columns; got {np.shape(explained.values)[1]}."
            )
        output = output_place(self, explained, label)
        return plot_explanation(explained, row, feature=feature, output=output, kind=kind, ax=ax)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the leaf that each row falls into.

        Returns
        -------
        int32 array of shape (n_samples, n_estimators)
            Node numbers within the trees; (n_samples, n_estimators, n_trees) where a round has several trees, one for
            each class, quantile, or target with linear leaves.
        """
        leaves, per_round = self._leaves(X), self._ensemble.trees_per_round
        return leaves if per_round == 1 else leaves.reshape(len(leaves), -1, per_round)

    # Show trees --------------------------------------------------

    def _names(self) -> Names:
        """The names of the fitted table's columns, categories and classes."""
        self._check_fitted()
        classes = getattr(self, "classes_", None) if self._has_class_shares else None
        is_category = self._is_categorical
        kinds = [self._encoder.categories[column] for column in self._column_of]
        kinds = [kind if flag else None for kind, flag in zip(kinds, is_category, strict=True)]
        return Names(self.feature_parts_, kinds, classes)

    @property
    def feature_parts_(self) -> list[str]:
        """Names of the columns that the trees see, of which a column of dates or of categories may be several.

        They are the columns of `explain` and `importances` with ``parts=True``.
        """
        self._check_fitted()
        names = self._encoder.part_names()
        if self._statistics is None:
            return names
        columns = self._statistics.column_of(len(names))
        is_mean = np.isin(columns, self._statistics.columns)
        pairs = zip(columns, is_mean, strict=True)
        return [f"mean target of {names[column]}" if mean else names[column] for column, mean in pairs]

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
        names, trees = self._names(), self._shown_trees()
        return to_text(trees, check_position("tree", tree, trees.n_trees), names, max_depth, decimals)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table with a row for each node of each tree: split, counts, gain, value."""
        names = self._names()
        return to_dataframe(self._shown_trees(), names)

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
        names, trees = self._names(), self._shown_trees()
        return plot_tree(trees, check_position("tree", tree, trees.n_trees), names, max_depth, decimals, ax)


# The parameters of trees that an `estimator` given in their place has of its own.
OF_OWN_TREES = dict.fromkeys(("max_depth", "max_bins"), read_with("estimator", None))
CONSTRAINTS = ("monotonic_cst", "interaction_cst")
# What a fit that goes on must not change.
_KEPT = (*CONSTRAINTS, "feature_weights", "max_bins", "categorical_features", "categories")
CATEGORIES = NONE | Rule(
    "Categories with an encoding, missing and unseen alone",
    lambda value: isinstance(value, Categories) and value == Categories(value.encoding, value.missing, value.unseen),
)


def check_no_constraints(model: Any) -> None:
    """Raise ValueError for constraints beside an `estimator`, which knows nothing of them."""
    for name in CONSTRAINTS if model.estimator is not None else ():
        if getattr(model, name) is not None:
            raise ValueError(f"{name} must be None with an estimator, which has its own; got {getattr(model, name)!r}.")


def monotone_columns(model: Any) -> NDArray[np.int8] | None:
    """1 where predictions must not fall with a column, -1 where they must not rise, else 0; None: no constraint."""
    signs = monotone_signs(getattr(model, "monotonic_cst", None), _columns(model), model._encoder.is_categorical)
    if signs is None:
        return None
    for column, _ in model._encoder.date_parts:
        if signs[column]:
            raise ValueError(
                f"monotonic_cst must be 0 for dates of a BinnedTable, which are split into parts; column "
                f"{model._encoder.texts[column]!r} is one. Pass the table itself."
            )
    classes = getattr(model, "classes_", [])
    if max(map(len, classes if isinstance(classes, list) else [classes]), default=0) > 2:
        raise ValueError("monotonic_cst must be None with more than two classes: each class has scores of its own.")
    return signs[model._column_of]


def path_rules(model: Any) -> dict[str, Any]:
    """Which columns may stand on one path, as rules of both engines."""
    max_on_path, groups = interaction_groups(model.interaction_cst, _columns(model))
    return {
        "max_features_on_path": max_on_path,
        "feature_groups": None if groups is None else groups[:, model._column_of],
    }


def column_chances(model: Any, *, up: bool = False) -> NDArray[np.float64] | None:
    """The chances of columns where some are drawn; ValueError where all are, so that they would not matter.

    `up`: shares of columns are rounded up.
    """
    chances = feature_chances(model.feature_weights, _columns(model))
    if chances is None:
        return None
    n_features = len(model._column_of)
    wanted = [getattr(model, name, None) for name in ("max_features", "max_features_per_tree")]
    if 0 < chances.min() < chances.max() and min(count_of(each, n_features, up=up) for each in wanted) == n_features:
        raise ValueError(
            f"feature_weights are chances of columns that are drawn, and max_features={wanted[0]!r} draws none of the "
            f"{n_features}; set it below, or weights of 0 for columns to leave out; got {model.feature_weights!r}."
        )
    return chances[model._column_of]


def obeyed(model: Any) -> dict[str, Any]:
    """What all trees of a fitted model obey of the columns, by parameter; equal values are the same rule."""
    columns = _columns(model)
    signs = monotone_signs(getattr(model, "monotonic_cst", None), columns, model._encoder.is_categorical)
    on_path, groups = interaction_groups(getattr(model, "interaction_cst", None), columns)
    chances = feature_chances(getattr(model, "feature_weights", None), columns)
    return {
        "monotonic_cst": None if signs is None else signs.tolist(),
        "interaction_cst": (on_path, None if groups is None else sorted(groups[groups.any(axis=1)].tolist())),
        "feature_weights": [] if chances is None else np.flatnonzero(chances == 0).tolist(),  # columns in no tree
    }


def check_same_rules(model: Any) -> None:
    """Raise ValueError where a fit with warm_start=True would add trees that obey or see other rules of the columns."""
    last = copy(model)
    vars(last).update(getattr(model, "_parameters_before", {}))
    given = {name: (getattr(last, name), getattr(model, name)) for name in _KEPT if hasattr(model, name)}
    if "categories" in given:
        of_last, of_now = last._category_options().encoding, model._category_options().encoding
        given["categories.encoding"] = of_last, of_now
        del given["categories"]
    rules = obeyed(last), obeyed(model)
    for name, (was, now) in given.items():
        one, other = (own[name] for own in rules) if name in rules[0] else map(plain_parameter, (was, now))
        if one != other:
            raise ValueError(
                f"{name} must be as in the last fit, {was!r}, with warm_start=True, because the trees of that fit "
                f"stay; got {now!r}. Use warm_start=False to grow all trees anew."
            )


def _columns(model: Any) -> Columns:
    encoder = model._encoder
    return Columns(model.n_features_in_, encoder.names)


DOCS = WEIGHT_TYPE_DOCS | entries("""\
max_bins : int
    Most bins of a feature, up to 65 535. A feature with no more distinct values keeps every one of them; missing
    values have a bin of their own besides.
feature_weights : array of shape (n_features,), dict by name, or None
    Chances of the features where some are drawn (`max_features`, `max_features_per_tree`); 1 for those that a dict
    leaves out. A feature of weight 0 is in no tree.
interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None
    Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
    in no group are one more group.
categorical_features : "from_dtype", list of names or indices, mask, or None
    Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
categories : Categories or None
    What trees see of categorical columns: the options `encoding`, `missing` and `unseen` of `Categories`.
class_weight : dict, "balanced" or None
    Weights of the classes, multiplied with `sample_weight`.
random_state : int, RandomState or None
    Fixes what is drawn; the model does not depend on `n_jobs`.
n_jobs : int or None
    Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.
classes_ : array of shape (n_classes,)
    The labels, sorted.
n_features_in_ : int
    Number of columns.
feature_names_in_ : array of shape (n_features_in_,)
    Their names, where all of them are strings.
""")

"""Methods shared by all estimators whose predictions are sums or means of trees."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from fastens.base import BaseFastens
from fastens.engine.grow.growth import ColumnLookup, count_of, feature_chances, interaction_groups, monotone_signs
from fastens.engine.losses.losses import IDENTITY
from fastens.inspection.contribution_plots import output_index, plot_explanation
from fastens.inspection.model_plots import plot_dependence, plot_importance, plot_training
from fastens.inspection.plotting import check_position
from fastens.inspection.trees import Names, plot_tree, to_dataframe, to_text
from fastens.modelfile.saving import plain_parameter
from fastens.params.options import Categories
from fastens.params.rules import FLAG, NONE, Rule, requires
from fastens.params.types import ColumnPair, RandomState
from fastens.tree_model.explanations import (
    explain,
    feature_players,
    permutation_importance,
    raw_contributions,
    score_of_predictions,
)
from fastens.tree_model.saving import SavedEnsemble

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


Array = NDArray[np.float64]


class TreeModel(SavedEnsemble, BaseFastens):
    """Base class of estimators whose raw predictions are sums of leaf values.

    It provides explanations, importances, plots and dumps of the trees.
    """

    # True if node values are class probabilities, False if they are numbers.
    _has_class_shares: bool = False
    _loss: Any
    _n_targets: int = 1
    # ClassTargets or NumberTargets for models that average their trees; None for models with a loss to boost.
    _targets: ClassVar[Any] = None

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        self._check_fitted()
        return self._n_targets

    # Explain --------------------------------------------------

    def predict_contributions(self, X: ArrayLike, *, interactions: bool = False, parts: bool = False) -> Array:
        """Return the contribution of each feature to the raw prediction of each row.

        The contributions are exact path-dependent Shapley values (Lundberg et al. 2020): features outside a coalition
        are averaged over according to the cover of the nodes, in boosting the sum of weights times hessians.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to explain, with the columns of the training set.
        interactions : bool, default=False
            If True, return interaction values: the main effect of each feature and its interactions with the others.
        parts : bool, default=False
            If True, return a contribution for each of `feature_parts_` instead of for each column.

        Returns
        -------
        array of shape (n_samples, n_features + 1) or (n_samples, n_outputs, n_features + 1)
            The last entry is the expected raw prediction, and the entries of a row sum to its raw prediction. With
            `interactions`, each row has a symmetric matrix whose rows sum to the contributions.

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
        explained = raw_contributions(
            self, self._check_table(X), pairs=interactions, players=feature_players(self, parts=parts)
        )
        return explained[:, 0] if explained.shape[1] == 1 else explained

    def explain(  # noqa: PLR0913
        self,
        X: ArrayLike,
        background: ArrayLike | None = None,
        *,
        output: str = "raw",
        interactions: bool = False,
        parts: bool = False,
        groups: Mapping[str, Any] | None = None,
        y: ArrayLike | None = None,
    ) -> Any:
        """Return Shapley values of the predictions as an Explanation for the plots of shap.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to explain.
        background : table of shape (n_background, n_features), optional
            Background rows for interventional Shapley values: features outside a coalition take the values of these
            rows, and the results are averaged. If None, the values are path-dependent, as in `predict_contributions`.
        output : {"raw", "probability", "loss"}, default="raw"
            "raw": the raw prediction, which is a probability in classification forests. "probability": the prediction
            after the inverse link, such as the probability of the second class. "loss": the loss of each row. The last
            two need a background and a model with one raw prediction.
        interactions, parts : bool, default=False
            As for `predict_contributions`.
        groups : dict of lists of columns, optional
            Groups of columns by name, such as ``{"size": ["width", "height"]}``. Groups may also contain names of
            `feature_parts_`, such as words of a text. ``values`` has the Shapley value of each group, followed by the
            columns that are in no group; the parts of a column that are in no group form one player.
        y : array of shape (n_samples,), optional
            Targets. Required for ``output="loss"`` and not allowed otherwise.

        Returns
        -------
        shap.Explanation, or Explanation if shap is not installed
            Has ``values`` of shape (n_samples, n_features) and ``base_values`` of shape (n_samples,); several outputs
            add a last axis, and `interactions` a second axis of length n_features.

        Raises
        ------
        ValueError
            If the arguments are inconsistent, or the model does not support the output.

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
        return explain(self, X, background, output, y, interactions=interactions, parts=parts, groups=groups)

    @property
    def _predicts_raw(self) -> bool:
        """True if predictions, or probabilities, equal the raw predictions."""
        return self._has_class_shares or self._targets is not None or self._loss.link == IDENTITY

    def _inverse_link(self, raw: Array) -> Array:
        """Return the prediction for each raw prediction of one target, (n_rows,): a number, or a probability.

        In classification, it is the probability of the last class.
        """
        if self._targets is not None:
            return raw
        predicted: Array = self._loss.predict(raw[:, None])
        return predicted if predicted.ndim == 1 else predicted[:, -1]

    def _contribution_scale(self) -> float:
        """Return the factor that turns the sum of the trees' values into a prediction: 1, or 1 / n_trees for means."""
        return 1 / self._ensemble.n_trees if self._combination == "mean" else 1.0

    def permutation_importance(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        n_repeats: int = 5,
        random_state: RandomState = None,
    ) -> Bunch:
        """Return the decrease of `score` when the values of a feature are shuffled among the rows.

        Parameters
        ----------
        X, y, sample_weight
            Rows to score, preferably held-out rows, as for `score`.
        n_repeats : int, default=5
            Number of times each feature is shuffled. More repeats reduce the standard error.
        random_state : int, RandomState or None, default=None
            Seed of the shuffles.

        Returns
        -------
        Bunch
            ``importances_mean``, ``importances_std`` and ``importances_standard_error`` of shape (n_features,), and
            ``importances`` of shape (n_features, n_repeats). With one repeat, the standard error is NaN.
        """
        self._check_fitted()
        return permutation_importance(self, X, y, sample_weight, n_repeats, random_state)

    def _score_of_raw(self, raw: Array, y: Array, weight: Array) -> float:
        """Return accuracy or R2 for raw predictions, (n_rows, n_outputs), and encoded targets `y`."""
        return score_of_predictions(self._loss.predict(raw), y, weight, of_classes=hasattr(self, "classes_"))

    @property
    def feature_importances_(self) -> Array:
        """Total gain of the splits on each feature, normalised to sum to 1, shape (n_features,)."""
        self._check_fitted()
        gain = self._by_columns(self._ensemble.feature_importances("gain"))
        return gain / gain.sum() if gain.sum() > 0 else gain

    @property
    def feature_split_counts_(self) -> NDArray[np.int64]:
        """Number of splits on each feature, shape (n_features,)."""
        self._check_fitted()
        return self._by_columns(self._ensemble.feature_importances("split")).astype(np.int64)

    def importances(self, kind: str = "gain", *, parts: bool = False) -> Array:
        """Return the importance of each column, normalised to sum to 1, shape (n_features,).

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            "gain": total gain of the splits on the column (`feature_importances_`). "split": number of splits on it.
            "cover": total weight of the rows that these splits divide, in boosting multiplied by the hessians.
        parts : bool, default=False
            If True, return the importance of each of `feature_parts_`, such as the month of a date column.
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
        importances = np.bincount(trees.feature[inner], weight, len(self._column_of)).astype(np.float64)
        importances = importances if parts else self._by_columns(importances)
        return importances / importances.sum() if importances.any() else importances

    def _part_importances(self) -> Array:
        """Return the total gain of the splits on each of `feature_parts_`, normalised to sum to 1, (n_parts,)."""
        gain = self._ensemble.feature_importances("gain").astype(np.float64)
        return gain / gain.sum() if gain.sum() > 0 else gain

    def plot_importance(
        self,
        kind: str = "gain",
        *,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        n_top: int = 20,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the most important columns as bars and return the axes; see `importances`.

        Parameters
        ----------
        kind : {"gain", "split", "cover", "permutation"}, default="gain"
            Kind of importance, as in `importances`, or "permutation", as in `permutation_importance`.
        X, y : table and array, optional
            Rows and targets. Required for "permutation".
        n_top : int, default=20
            Maximum number of columns to plot.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.
        """
        self._check_fitted()
        return plot_importance(self, kind, X=X, y=y, n_top=n_top, ax=ax)

    def plot_training(self, ax: Axes | None = None) -> Axes:
        """Plot the loss after each round, or the out-of-bag error after each tree, and return the axes."""
        self._check_fitted()
        return plot_training(self, ax)

    def plot_dependence(
        self, X: ArrayLike, features: ColumnPair, *, label: Hashable | None = None, ax: Axes | None = None
    ) -> NDArray[Any]:
        """Plot the partial dependence of the prediction on columns and return the axes, one per plot.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to average over. At most 500 evenly spaced rows are used.
        features : int, str, pair, or list of these
            Columns to plot. A pair, both numeric or both categorical, gives one plot of their joint dependence.
        label : object, optional
            The class, with three or more classes; in regression, the index of the target or quantile.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.
        """
        self._check_fitted()
        return plot_dependence(self, X, features, label=label, ax=ax)

    def plot_contributions(  # noqa: PLR0913
        self,
        X: ArrayLike,
        row: int | None = None,
        *,
        feature: ColumnPair = None,
        kind: str | None = None,
        label: Hashable | None = None,
        groups: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the contribution of each column to the predictions of all rows, or of one row, and return the axes.

        At most twelve columns are drawn; `plot_explanation` draws any number.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or Explanation
            Rows to explain, or their Explanation from `explain` without interactions.
        row : int, optional
            Index of the row to explain. If None, all rows are shown.
        feature : int, str, or pair of these, optional
            Column to plot against its values; the second of a pair sets the colours. If None, all columns are shown.
        kind : {"beeswarm", "bar"}, optional
            Kind of plot for all rows. If None, dots are drawn for a single output and bars for several outputs.
        label : object, optional
            With several outputs, the class, the index of the target, or a pair of both.
        groups : dict of lists of columns, optional
            Groups of columns, as in `explain`.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created.

        See Also
        --------
        plot_explanation : Plot an Explanation without the model.
        """
        self._check_fitted()
        is_explained = hasattr(X, "base_values")
        if is_explained and groups is not None:
            raise ValueError("groups must be None with an Explanation of X; pass them to `explain`.")
        explained: Any = X if is_explained else self.explain(X, groups=groups)
        n_values = np.shape(explained.values)[1]
        if n_values not in (self.n_features_in_, len(self._column_of)) and len(explained.feature_names) != n_values:
            raise ValueError(
                f"X must be an explanation with {self.n_features_in_} columns; got {np.shape(explained.values)[1]}."
            )
        output = output_index(self, explained, label)
        return plot_explanation(explained, row, feature=feature, output=output, kind=kind, ax=ax)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the leaf that each row falls into.

        Returns
        -------
        int32 array of shape (n_samples, n_estimators)
            Node indices within each tree. The shape is (n_samples, n_estimators, n_trees) if each round has several
            trees: one for each class or quantile, or for each target with linear leaves.
        """
        leaves, per_round = self._leaves(X), self._ensemble.trees_per_round
        return leaves if per_round == 1 else leaves.reshape(len(leaves), -1, per_round)

    # Show trees --------------------------------------------------

    def _names(self) -> Names:
        """Return the names of the features that trees split on, and of their categories and the classes."""
        self._check_fitted()
        classes = getattr(self, "classes_", None) if self._has_class_shares else None
        is_category = self._is_categorical | np.isin(self._column_of, self._encoder.ordered)
        kinds = [self._encoder.categories[column] for column in self._column_of]
        kinds = [kind if flag else None for kind, flag in zip(kinds, is_category, strict=True)]
        return Names(self.feature_parts_, kinds, classes)

    def to_text(self, tree: int = 0, max_depth: int | None = 10, decimals: int = 2) -> str:
        """Return one tree as indented text.

        Parameters
        ----------
        tree : int, default=0
            Index of the tree.
        max_depth : int or None, default=10
            Depth at which branches are truncated. If None, the whole tree is shown.
        decimals : int, default=2
            Number of decimals of thresholds and values.
        """
        names, trees = self._names(), self._shown_trees()
        return to_text(trees, check_position("tree", tree, trees.n_trees), names, max_depth, decimals)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per node of each tree: split, counts, gain and value."""
        names = self._names()
        return to_dataframe(self._shown_trees(), names)

    def plot_tree(self, tree: int = 0, max_depth: int | None = 3, decimals: int = 2, ax: Axes | None = None) -> Axes:
        """Plot one tree and return the axes.

        Parameters
        ----------
        tree, max_depth, decimals
            As for `to_text`.
        ax : matplotlib Axes, optional
            Axes to draw on. If None, a new figure is created that is large enough for the tree.
        """
        names, trees = self._names(), self._shown_trees()
        return plot_tree(trees, check_position("tree", tree, trees.n_trees), names, max_depth, decimals, ax)


# Parameters that are only read without an `estimator`, which has its own.
OF_OWN_TREES = dict.fromkeys(("max_depth", "max_bins"), requires("estimator", None))
CONSTRAINTS = ("monotonic_cst", "interaction_cst")
# Parameters that a warm start must not change.
_KEPT = (*CONSTRAINTS, "feature_weights", "max_bins", "categorical_features", "text_features", "categories")
CATEGORIES = NONE | Rule(
    "Categories with only encoding, missing and unseen",
    lambda value: isinstance(value, Categories) and value == Categories(value.encoding, value.missing, value.unseen),
)


def check_no_constraints(model: Any) -> None:
    """Raise ValueError if a constraint and an `estimator`, which would ignore it, are both set."""
    for name in CONSTRAINTS if model.estimator is not None else ():
        if getattr(model, name) is not None:
            raise ValueError(
                f"{name} must be None with an estimator, because the estimator sets it; got {getattr(model, name)!r}."
            )


def monotone_columns(model: Any, *, by_class: bool = False) -> NDArray[np.int8] | None:
    """Return the monotonic constraint of each feature of the trees: 1, -1 or 0; None without constraints.

    If `by_class` is True, constraints of three or more classes have a row for each class; otherwise they raise
    ValueError. So do constraints on texts and lists.
    """
    classes = vars(model).get("classes_", [])
    signs = _constraint_signs(model)
    if signs is None:
        return None
    for column in model._encoder.expanded:
        if signs[..., column].any():
            name = model._encoder.texts[column]
            raise ValueError(
                f"monotonic_cst must be 0 for texts and lists, which become several columns; got {name!r}."
            )
    for column, _ in model._encoder.date_parts:
        if signs[..., column].any():
            raise ValueError(
                "monotonic_cst must be 0 for dates of a BinnedTable, because their parts are stored as separate "
                f"columns; column {model._encoder.texts[column]!r} holds dates. Pass the table itself."
            )
    has_several = max(map(len, classes if isinstance(classes, list) else [classes]), default=0) > 2
    if has_several and getattr(model, "loss", None) == "ordinal":
        raise ValueError("monotonic_cst must be None with loss='ordinal', because this loss has no score per class.")
    if has_several and not (by_class and signs.ndim == 2):
        rule = "have a row for each class, or be a dict of constraints by class," if by_class else "be None"
        raise ValueError(f"monotonic_cst must {rule} with more than two classes: each class has scores of its own.")
    return signs[..., model._column_of]


def _constraint_signs(model: Any) -> NDArray[np.int8] | None:
    """Return each column's monotonic constraint, 1, -1 or 0, with a row per class if set by class; None without any.

    Raise ValueError if `monotonic_cst` is invalid.
    """
    classes = vars(model).get("classes_")
    classes = None if isinstance(classes, list) else classes
    constraints = getattr(model, "monotonic_cst", None)
    kinds = model._encoder.is_categorical
    kinds[list(model._encoder.ordered)] = False
    return monotone_signs(constraints, _column_lookup(model), kinds, classes)


def path_rules(model: Any) -> dict[str, Any]:
    """Return the interaction constraints as keyword arguments of the growth parameters of boosting and forests."""
    max_on_path, groups = interaction_groups(model.interaction_cst, _column_lookup(model))
    return {
        "max_features_on_path": max_on_path,
        "feature_groups": None if groups is None else groups[:, model._column_of],
    }


def column_chances(model: Any, *, up: bool = False) -> NDArray[np.float64] | None:
    """Return the relative probability, at most 1, of drawing each feature of the trees; None without weights.

    Raise ValueError if `feature_weights` differ but all columns are used, because they would then have no effect. If
    `up` is True, fractions of the columns are rounded up.
    """
    chances = feature_chances(model.feature_weights, _column_lookup(model))
    if chances is None:
        return None
    n_features = len(model._column_of)
    wanted = [getattr(model, name, None) for name in ("max_features", "max_features_per_tree")]
    if 0 < chances.min() < chances.max() and min(count_of(each, n_features, up=up) for each in wanted) == n_features:
        raise ValueError(
            f"feature_weights must be equal, or 0 for columns to omit, with max_features={wanted[0]!r}, because every "
            f"split then uses all {n_features} columns; got {model.feature_weights!r}. Lower max_features to draw "
            "columns."
        )
    return chances[model._column_of]


def column_constraints(model: Any) -> dict[str, Any]:
    """Return constraints and excluded columns that a model's parameters set, by parameter, in a comparable form."""
    columns = _column_lookup(model)
    signs = _constraint_signs(model)
    on_path, groups = interaction_groups(getattr(model, "interaction_cst", None), columns)
    chances = feature_chances(getattr(model, "feature_weights", None), columns)
    return {
        "monotonic_cst": None if signs is None else signs.tolist(),
        "interaction_cst": (on_path, None if groups is None else sorted(groups[groups.any(axis=1)].tolist())),
        "feature_weights": [] if chances is None else np.flatnonzero(chances == 0).tolist(),  # excluded columns
    }


def check_same_rules(model: Any) -> None:
    """Raise ValueError if a warm start changes constraints, bins or category options since the last fit."""
    last = copy(model)
    vars(last).update(getattr(model, "_parameters_before", {}))
    parameters = {name: (getattr(last, name), getattr(model, name)) for name in _KEPT if hasattr(model, name)}
    if "categories" in parameters:
        of_last, of_now = last._category_options().encoding, model._category_options().encoding
        parameters["categories.encoding"] = of_last, of_now
        del parameters["categories"]
    rules = column_constraints(last), column_constraints(model)
    for name, (was, now) in parameters.items():
        one, other = (fit_rules[name] for fit_rules in rules) if name in rules[0] else map(plain_parameter, (was, now))
        if one != other:
            raise ValueError(
                f"{name} must be the same as in the last fit, {was!r}, with warm_start=True, because the trees "
                f"of that fit are kept; got {now!r}. Use warm_start=False to grow all trees from scratch."
            )


def _column_lookup(model: Any) -> ColumnLookup:
    """Return an object that finds columns of X by name or index, and reads parameters with a value by column."""
    encoder = model._encoder
    return ColumnLookup(model.n_features_in_, encoder.names)

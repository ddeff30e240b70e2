"""Decision stumps: trees of a single split (Iba & Langley 1992)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.adaboost.weak_learners import BinnedRows, RoundWeights, Trees, encode_classes
from fastens.base import BaseClassifier, BaseFastens, BaseRegressor, TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.engine.bins.binning import Binning, binned, codes_of, learn_binning
from fastens.engine.forest.forests import ForestParameters, number_target
from fastens.engine.grow.stumps import StumpLearner, stump_ensemble
from fastens.engine.losses.losses import weighted_mean
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import TreeEnsemble, codes_left
from fastens.params.estimator import with_parameters
from fastens.params.options import TextChoice
from fastens.params.rules import ANYTHING, one_of, parameter
from fastens.params.types import ClassWeight, ColumnChoice
from fastens.table.training_data import WEIGHT_TYPE
from fastens.tree_model.saving import SavedEnsemble, bins_of_features

Array = NDArray[np.float64]


@with_parameters
class _Stump(SavedEnsemble, BaseFastens):
    """Base class of decision stumps."""

    _combination = "mean"
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BoostedTrees._parameter_rules["max_bins"], default=255)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _holds = "rounds"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A single split cannot reach the scores that scikit-learn's checks require by default.
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the stump to a training set.

        Parameters
        ----------
        {X}
        {y}
        {sample_weight}

        Returns
        -------
        self
        """
        data = self._start_fit(X, y, sample_weight)
        self._warn_of_pooled()
        n_threads = resolve_n_jobs(self.n_jobs)
        is_categorical = self._is_categorical
        binning = learn_binning(data.X, data.sample_weight, bins_of_features(self), is_categorical, n_threads)
        self._ensemble = self._grow(data, binning, n_threads)
        self._send_unseen()
        return self

    def _grow(self, data: TrainingData, binning: Binning, n_threads: int) -> TreeEnsemble:
        """Return the stump as an ensemble of one tree, grown on the rows of `data` with the bins of `binning`."""
        raise NotImplementedError

    @property
    def feature_(self) -> int:
        """Index of the column that the stump splits on, -1 if no split is possible."""
        self._check_fitted()
        feature = int(self._ensemble.feature[0])
        return feature if feature < 0 else int(self._column_of[feature])

    @property
    def threshold_(self) -> float:
        """Threshold of the split: values at or below it go left; NaN for a categorical split."""
        self._check_fitted()
        return float(self._ensemble.threshold[0])

    @property
    def categories_left_(self) -> list[Any]:
        """Categories that go left; empty for a numeric feature."""
        self._check_fitted()
        first = self._ensemble.category_set[0]
        categories = self._encoder.categories[self.feature_]
        if first < 0 or categories is None:
            return []
        codes = np.asarray(self._ensemble.binning.category_codes[self._ensemble.feature[0]])[: len(categories)].astype(
            np.int64
        )
        is_left = codes_left(self._ensemble, 0, codes)
        return [category for category, left in zip(categories, is_left, strict=True) if left]

    @property
    def missing_left_(self) -> bool:
        """True if missing values and unseen categories go left."""
        self._check_fitted()
        first = self._ensemble.category_set[0]
        return bool(self._ensemble.missing_left[0] if first < 0 else self._ensemble.category_words[first] & 1)

    @property
    def feature_importances_(self) -> Array:
        """1 for the feature that the stump splits on and 0 for all others, shape (n_features,)."""
        self._check_fitted()
        return (np.arange(self.n_features_in_) == self.feature_).astype(np.float64)


@with_parameters
class DecisionStumpClassifier(_Stump, BaseClassifier):
    """Decision stump for classification: a tree with a single split.

    Parameters
    ----------
    criterion : {"gini", "entropy", "error"}, default="gini"
        Function that measures the quality of the split. "error" minimises the weighted misclassification error.
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Iba & Langley (1992), "Induction of one-level decision trees". Categorical splits follow Fisher (1958): they are
    exact for two classes; with more classes, the best cut of the orders by the frequency of each class is used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastens import DecisionStumpClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecisionStumpClassifier().fit(X, y)
    >>> model.feature_, round(model.threshold_, 2)
    (2, 2.45)
    """

    criterion: str = parameter(one_of("gini", "entropy", "error"), default="gini", kw_only=False)
    class_weight: ClassWeight = parameter(ANYTHING, default=None)

    def _grow(self, data: TrainingData, binning: Binning, n_threads: int) -> TreeEnsemble:
        """Return the stump as an ensemble of one tree, whose leaves hold class frequencies.

        The criterion is `criterion`, and the rows of `data` are binned by `binning`.
        """
        classes = encode_classes(data.y, len(self.classes_))
        codes = codes_of(binning, data.X, n_threads)
        weights = RoundWeights(classes, data.sample_weight, n_threads)
        stump = StumpLearner(binning, codes, classes, len(self.classes_), self.criterion, n_threads).fit(weights.whole)
        shares = stump.sums / np.maximum(stump.sums.sum(axis=1, keepdims=True), 1)
        values = shares[:, 1:] if len(self.classes_) == 2 else shares
        return stump_ensemble([stump], values[None], codes, binning)

    def _n_outputs(self) -> int:
        """Return the number of values of a leaf: 1 for two classes, else one for each class."""
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the class frequencies of the leaf that each row falls into, shape (n_samples, n_classes)."""
        raw = self._raw(X)
        return np.hstack([1 - raw, raw]) if len(self.classes_) == 2 else raw


@with_parameters
class DecisionStumpRegressor(_Stump, BaseRegressor):
    """Decision stump for regression: a tree with a single split that minimises the squared error.

    {parameters and attributes}

    References
    ----------
    Breiman, Friedman, Olshen & Stone (1984), "Classification and regression trees", section 8.4.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import DecisionStumpRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DecisionStumpRegressor().fit(X, y).feature_
    8
    """

    def _grow(self, data: TrainingData, binning: Binning, n_threads: int) -> TreeEnsemble:
        """Return the stump as an ensemble of one tree, whose leaves hold mean targets."""
        matrix = binned(binning, data.X, n_threads)
        center = weighted_mean(data.y, data.sample_weight)
        rows = BinnedRows(binning, matrix.columns, None, n_threads)
        trees = Trees(
            rows, matrix, number_target(data.y - center), ForestParameters("squared_error", max_depth=1), n_threads
        )
        weights = RoundWeights(np.zeros(len(data.y), np.uint16), data.sample_weight, n_threads)
        tree = trees.grow(weights, None, 0)
        return trees.with_values([tree], [tree.value.astype(np.float64) + center])

    def predict(self, X: ArrayLike) -> Array:
        """Return the mean of the leaf that each row falls into, shape (n_samples,)."""
        return self._raw(X)[:, 0]

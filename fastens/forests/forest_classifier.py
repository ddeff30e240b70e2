"""Random forests of classes (Breiman 2001): weights of classes, strata, votes, and sets of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.checked_parameters import with_parameters
from fastens.conformal.quantiles import ConformalScores
from fastens.conformal.scores import COVERAGE, SetScore, SetScores, sets
from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import Reweight
from fastens.forests.base_forest import BaseForest
from fastens.forests.base_trees import TreesClassifier
from fastens.forests.parameters import CLASS_CRITERION, NUMBER_OF_FEATURES
from fastens.forests.posterior_averaging import ClassAveraging
from fastens.parameters import FLAG, instance, one_of, parameter
from fastens.table.sample_weights import as_multiples
from fastens.table.training_data import AllRows

Array = NDArray[np.float64]
STRATIFIED = FLAG | one_of("stratified", "balanced")
CLASS_WEIGHT = (
    one_of("balanced", "balanced_subsample", None)
    | instance(Mapping, "a dict of weights by class")
    | instance(list, "a list of such dicts")
)


@with_parameters
class RandomForestClassifier(TreesClassifier, BaseForest):
    """A random forest for classification.

    Each tree is grown on a bootstrap sample of the rows, and looks for each split at a few features drawn at random.
    The trees' class shares are averaged.

    {parameters and attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.oob_score_ > 0.9
    True
    """

    criterion: str = parameter(CLASS_CRITERION, default="gini")
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default="sqrt")
    bootstrap: Any = parameter(STRATIFIED, default=True)
    voting: str = parameter(one_of("soft", "hard"), default="soft")
    class_weight: Any = parameter(CLASS_WEIGHT, default=None)

    _averaging_kind: ClassVar = ClassAveraging

    def _combine_weights(self, y: Array, weight: Array | None) -> Array | None:
        return weight  # Classes have chances of their own to be drawn: see `_row_factors`.

    def _weighs_bags(self) -> bool:
        """Whether class weights are those of rows in a bag: of each bag, or where a class has draws of its own."""
        by_bag = isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"
        return bool(self.bootstrap) and (by_bag or isinstance(self.bootstrap, str))

    def _of_members(self) -> dict[str, Any]:
        # Rows of a bag have the weights of their classes already, as chances to be drawn, or by a rule of the bag.
        given = super()._of_members()
        if isinstance(self.class_weight, str):
            given["class_weight"] = "balanced"
        return given | ({"class_weight": None} if self.bootstrap and not self._weighs_bags() else {})

    def _row_factors(self, data: AllRows) -> Array | None:
        if self.class_weight is None or self._weighs_bags():
            return None
        given = "balanced" if isinstance(self.class_weight, str) else self.class_weight
        factors = self._class_factors(given, data.y, data.sample_weight)
        return factors if self.bootstrap else as_multiples(factors, data.sample_weight, self._factor_bits)

    def _reweighting(self, data: AllRows) -> Reweight | None:
        if self.class_weight is None or not self._weighs_bags():
            return None
        given = "balanced" if isinstance(self.class_weight, str) else self.class_weight

        # Whole numbers, of which the smallest has eight bits: then they mean repetition to the bit.
        y = data.y
        smallest = self._class_factors(given, y, data.sample_weight).min()
        unit = math.ldexp(1.0, max(0, 9 - math.frexp(smallest)[1]))

        def reweight(counts: Array) -> Array:
            drawn = counts > 0
            factors = self._class_factors(given, y[drawn], counts[drawn])
            weight = np.zeros_like(counts)
            weight[drawn] = counts[drawn] * np.maximum(np.rint(factors * unit), 1.0)
            return weight

        return reweight

    def _strata(self, data: AllRows) -> tuple[NDArray[np.intp], bool] | None:
        if not isinstance(self.bootstrap, str):
            return None
        # Rows that a warm start goes on with may lack a class: none is drawn of it.
        classes = np.unique(data.y, axis=0, return_inverse=True)[1].ravel()
        return classes, self.bootstrap == "balanced"

    def _predicting_trees(self) -> TreeEnsemble:
        if self._as_fitted().voting == "soft":
            return self._ensemble
        notes = self._ensemble.notes
        if "votes" not in notes:
            notes["votes"] = self._ensemble.with_values(self._targets.votes(self._ensemble.value))
        return notes["votes"]

    def predict_proba_all(self, X: ArrayLike) -> Iterator[Any]:
        """Yield the probabilities of the classes that each tree predicts, one tree after the other."""
        for values in self._each_tree(X):
            yield self._targets.probabilities(values)

    @property
    def oob_decision_function_(self) -> Any:
        """Probabilities out of bag, (n_samples, n_classes), with `oob_score`; NaN for rows in all bags.

        With several targets of as many classes each, (n_samples, n_classes, n_targets), and else a list.
        """
        found = self._targets.probabilities(self._measured().mean)
        return np.dstack(found) if isinstance(found, list) and len(set(self._targets.counts)) == 1 else found

    # Uncertainty --------------------------------------------------

    def _conformity(
        self, matrix: AnyMatrix, mean: Array, y: Array, known: NDArray[np.bool_], weight: Array | None
    ) -> ConformalScores:
        """The scores of rows out of bag, by the probabilities of their classes."""
        return ConformalScores.of(SetScore().of_labels(self._targets.probabilities(mean[known]), y[known]), weight)

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return, for each row, a set of classes that holds the right one with a given probability.

        Classes whose probability is at least 1 - q are in the set, q being the quantile `coverage`, with its correction
        for the number of rows, of 1 - the out-of-bag probability of the right class (conformal prediction: Johansson et
        al. 2014). Needs ``oob_score=True``; for one target.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's class is in its set, over rows and training sets.

        Returns
        -------
        bool array of shape (n_samples, n_classes)

        Raises
        ------
        ValueError
            Without ``oob_score=True`` in fit, or for several targets.
        """
        self._check_fitted()
        if isinstance(self.classes_, list):
            raise ValueError("predict_set must be used with one target; this forest has several.")
        COVERAGE.check("coverage", coverage)
        if self._out_of_bag is None:
            raise ValueError("oob_score must have been True in fit for predict_set; it was False.")
        scores = SetScores([self._measured().measured_conformity()])
        return sets([scores], [SetScore().of(self.predict_proba(X))], coverage)

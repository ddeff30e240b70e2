"""Deep forest: layers of forests that receive the columns and the previous layers' predictions (Zhou & Feng 2017)."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRouter

from fastens.base import BaseClassifier, BaseRegressor, Capabilities
from fastens.combining.folds import FittedMember, GivenRows, MemberData, rows_with_responses
from fastens.combining.members import default_forests
from fastens.combining.responses import CV, INPUTS, MEMBERS, NamedMembers, added, ensemble_request
from fastens.combining.stacking import BaseLevels
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, parameter, real, whole
from fastens.params.types import Folds, RandomState
from fastens.table.training_data import WEIGHT_TYPE

Array = NDArray[np.float64]


@with_parameters
class BaseCascade(BaseLevels):
    """Base class of the cascade classifier and regressor.

    Parameters
    ----------
    estimators : list of (name, estimator) or None
        The forests of a layer. If None, these are two random forests and two forests of extremely randomised trees.
    cv : int, splitter, list of (train, test) or None
        The folds, whose test sets must cover all rows. If None, 3 folds are used, stratified for classification.
    inputs_from : {"last", "all"}
        Layers whose predictions a layer receives in addition to the columns: "last" is the previous layer, as in the
        paper, and "all" is all previous layers.
    random_state : int, RandomState or None
        Seeds the forests whose `random_state` is None, with new seeds in each layer.

    Attributes
    ----------
    n_layers_ : int
        Number of layers kept.
    validation_losses_ : list of float
        Brier score (classification) or mean squared error (regression) after each layer tried.
    estimators_, named_estimators_ : list of lists, Bunch
        The fitted models of each layer, and the models of all layers by name.
    """

    _capabilities = Capabilities(supports_out_of_core=False, supports_binned=False, predicts_row_sources=False)
    _learned: ClassVar[str] = "_fitted_levels"
    _default_cv: ClassVar[int] = 3
    _docs: ClassVar[Docs] = BaseLevels._docs | described(__doc__)
    columns = None
    passthrough = True

    estimators: NamedMembers | None = parameter(MEMBERS | NONE, default=None, kw_only=False)
    max_layers: int = parameter(whole(1), default=10)
    n_iter_no_change: int = parameter(whole(1), default=1)
    tol: float = parameter(real(0), default=0.0)
    inputs_from: str = parameter(INPUTS, default="last")
    cv: Folds = parameter(CV, default=None)
    refit: bool = parameter(FLAG, default=False)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    n_layers_: int = field(init=False)
    validation_losses_: list[float] = field(init=False)

    def _default_members(self) -> NamedMembers:
        """Return the named forests of a layer: two random forests and two with random splits."""
        return default_forests(is_classifier(self))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return a router for the members' metadata in `fit`; the cascade itself requests X_val and y_val."""
        return super().get_metadata_routing().add_self_request(ensemble_request(self, reads_validation_rows=True))

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit layer after layer, and set the attributes of the layers up to the best one.

        Raises ValueError if a row is in no test set.
        """
        folds = self._folds(data, rows)
        self._seeds = None if self.random_state is None else check_random_state(self.random_state)
        layers: list[list[FittedMember]] = []
        metas: list[Array] = []
        validation_metas: list[Array] = []
        self.validation_losses_ = []
        table, validation_table = data, None if data.validation is None else data.validation[0]
        while self._should_add_layer():
            (specs,) = self._specs()
            members, responses = self._fit_level(specs, table, folds, self.refit)
            if not rows_with_responses(responses).all():
                raise ValueError("cv must place every row in a test set; some rows are in no test set.")
            layers.append(members)
            predicted = [member.respond(validation_table) for member in members] if data.validation is not None else []
            self.validation_losses_.append(self._validation_loss(data, responses, predicted))
            metas.append(self._meta(responses))
            if data.validation is not None:
                validation_metas.append(self._meta(predicted))
                validation_table = self._next_table(layers, validation_metas, data.validation[0])
            table = data.with_table(self._next_table(layers, metas, data.X), validation_table)
        del self._seeds
        self.n_layers_ = self._best_layer() + 1
        self._fitted_levels = layers[: self.n_layers_]

    def _seed_source(self) -> Any:
        """Return the random generator that draws the seeds of all layers; None if `random_state` is None."""
        return self._seeds

    def _should_add_layer(self) -> bool:
        """Return True while the loss has improved within the last `n_iter_no_change` layers."""
        n_layers = len(self.validation_losses_)
        waited = n_layers - 1 - self._best_layer() if n_layers else 0
        return n_layers < self.max_layers and waited < self.n_iter_no_change

    def _best_layer(self) -> int:
        """Return the index of the last layer whose loss was lower than the best loss before it by more than `tol`."""
        best = 0
        for layer, loss in enumerate(self.validation_losses_):
            if loss < self.validation_losses_[best] - self.tol:
                best = layer
        return best

    def _validation_loss(self, data: MemberData, responses: list[Array], predicted: list[Array]) -> float:
        """Return the mean squared error, or Brier score, of the average of the members' responses in a layer.

        With validation rows, it is computed from `predicted`, the responses for these rows; otherwise from the
        out-of-fold `responses`.
        """
        if data.validation is None:
            average, y, weight = np.mean(responses, axis=0), data.y, data.sample_weight
        else:
            average, y, weight = np.mean(predicted, axis=0), self._encode_target(data.validation[1]), None
        target = y.reshape(len(y), -1)
        if is_classifier(self):
            target = (target == np.arange(len(self.classes_))).astype(np.float64)
        return float(np.average(((average - target) ** 2).sum(axis=1), weights=weight))

    def _average(self, X: Any) -> Array:
        """Return the mean response of the last layer, (n_samples, n_outputs)."""
        self._check_fitted()
        X = self._check_table(X)
        table = self._level_table(self._fitted_levels[:-1], X)
        last = self._fitted_levels[-1]
        return added(member.respond(table) for member in last) / len(last)

    @property
    def estimators_(self) -> list[list[Any]]:
        """The fitted models of each layer."""
        self._check_fitted()
        return [[model for member in layer for model in member.models] for layer in self._fitted_levels]

    def _list_losses(self, arrays: Arrays) -> None:
        """Convert `validation_losses_`, restored as an array, to a list of floats; `arrays` is ignored."""
        self.validation_losses_ = np.atleast_1d(self.validation_losses_).tolist()

    _saved: ClassVar[SavedParts] = ("n_layers_", "validation_losses_", Saved(finish=_list_losses))


@with_parameters
class CascadeForestClassifier(BaseClassifier, BaseCascade):
    """Deep forest for classification.

    Each layer consists of a few forests. Their out-of-fold class probabilities, together with the columns, are the
    input of the next layer. Layers are added until the Brier score of their average stops decreasing.

    {parameters and attributes}

    References
    ----------
    Zhou & Feng (2017), "Deep forest: towards an alternative to deep neural networks".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastens import CascadeForestClassifier, ExtraTreesClassifier, RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forests = [("forest", RandomForestClassifier(20)), ("extra_trees", ExtraTreesClassifier(20))]
    >>> model = CascadeForestClassifier(forests, max_layers=2, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _response_method = "predict_proba"

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the last layer's average probability of each class, shape (n_samples, n_classes)."""
        return self._average(X)


@with_parameters
class CascadeForestRegressor(BaseRegressor, BaseCascade):
    """Deep forest for regression, with one or several targets; see `CascadeForestClassifier`.

    {parameters and attributes}

    References
    ----------
    Zhou & Feng (2017), "Deep forest: towards an alternative to deep neural networks".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import CascadeForestRegressor, ExtraTreesRegressor, RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forests = [("forest", RandomForestRegressor(20)), ("extra_trees", ExtraTreesRegressor(20))]
    >>> model = CascadeForestRegressor(forests, max_layers=2, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.2
    True
    """

    _takes_several_targets = True
    _saved: ClassVar[SavedParts] = ("_n_targets",)

    def predict(self, X: ArrayLike) -> Array:
        """Return the last layer's average prediction, shape (n_samples,) or (n_samples, n_targets)."""
        return self._squeeze_targets(self._average(X))

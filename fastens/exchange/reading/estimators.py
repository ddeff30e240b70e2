"""Construction of fitted estimators from the records of models of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastens.adaboost.adaboost_regressor import AdaBoostRegressor
from fastens.base import BaseFastens
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.ranker import GradientBoostingRanker
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.boosting.survival import GradientBoostingSurvival
from fastens.engine.trees.trees import TreeEnsemble
from fastens.exchange.reading.ensembles import in_single_precision, of_second_class, to_ensemble
from fastens.exchange.reading.notes import set_noted
from fastens.exchange.reading.records import Columns, FlatTrees, ForeignModel, refuse
from fastens.forests.base_forest import BaseForest
from fastens.forests.isolation import IsolationForest
from fastens.forests.random_forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.monitoring.metrics import Evaluations
from fastens.params.options import LinearLeaves
from fastens.table.columns.factorize import given_values
from fastens.table.encoder import FOREIGN, InputEncoder

KINDS: dict[str, type[BaseFastens]] = {
    kind.__name__: kind
    for kind in (
        AdaBoostRegressor,
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        GradientBoostingRanker,
        GradientBoostingRegressor,
        GradientBoostingSurvival,
        IsolationForest,
        RandomForestClassifier,
        RandomForestRegressor,
    )
}


def fitted_estimator(found: ForeignModel, categories: Mapping[Any, Sequence[Any]] | None = None) -> Any:
    """Return a fitted estimator with the predictions of another library's model.

    Parameters
    ----------
    found : ForeignModel
        The model.
    categories : mapping of column names or indices to lists, optional
        Categories of columns for which the model stores only the codes 0, 1, ..., in the order of the codes.
    """
    set_noted(found)
    _name_categories(found.columns, found.trees, categories or {})
    ensemble = to_ensemble(found.trees, found.columns, found.baseline)
    parameters = dict(found.parameters)
    if _are_two_of_softmax(found, ensemble):
        ensemble = of_second_class(ensemble)
    if found.note is not None and found.note.get("is_single") is True:
        ensemble = in_single_precision(ensemble)
    if not ensemble.has_constant_leaves:
        parameters["linear_leaves"] = LinearLeaves()
    if (np.diff(np.ravel(parameters.get("quantile", 0.5))) <= 0).any():
        raise refuse(f"several levels must ascend; got {parameters['quantile']}")
    kind = KINDS[found.estimator]
    learned: dict[str, Any] = {"_n_targets": found.n_targets}
    if ensemble.n_trees < ensemble.trees_per_round:
        raise refuse("the model has no trees")
    if issubclass(kind, BoostedTrees | BaseForest | IsolationForest):
        parameters["n_estimators"] = ensemble.n_trees // ensemble.trees_per_round
        learned |= without_fit(kind, parameters["n_estimators"])
    if issubclass(kind, BaseForest):
        parameters["bootstrap"] = False
    model: Any = kind(**parameters)
    try:
        model._check_parameters()
    except ValueError as error:
        raise refuse(f"no {kind.__name__} has the model's parameters: {error}") from error
    _set_table(model, found)
    vars(model).update(learned | found.fitted)
    model._ensemble = ensemble
    model._restored()
    _check_outputs(ensemble, model._n_outputs())
    return model


def _are_two_of_softmax(found: ForeignModel, ensemble: TreeEnsemble) -> bool:
    """Return True if a binary classifier has one raw prediction per class, where fastens has a single one."""
    is_log_loss = found.parameters.get("loss", "log_loss") == "log_loss"
    if found.estimator != "GradientBoostingClassifier" or not is_log_loss or found.classes is None:
        return False
    return found.n_targets == 1 and len(found.classes) == ensemble.n_outputs == 2


def without_fit(kind: type, n_rounds: int) -> dict[str, Any]:
    """Return the other attributes that `fit` sets, for a model that was not fitted: no scores and no samples."""
    if issubclass(kind, BaseForest):
        no_rows = {"_seed": 0, "_kept_rows": np.zeros(0, dtype=np.intp)}
        return no_rows | dict.fromkeys(("_bootstrap", "_out_of_bag", "_averaging"))
    if issubclass(kind, IsolationForest):
        return {}
    return {"_seed": 0, "n_estimators_": n_rounds, "evals_result_": Evaluations()}


def _check_outputs(ensemble: TreeEnsemble, n_outputs: int) -> None:
    if ensemble.n_outputs != n_outputs:
        raise refuse(
            f"the trees have {ensemble.n_outputs} raw predictions, and the objective and the classes {n_outputs}"
        )
    if ensemble.n_trees % ensemble.trees_per_round:
        raise refuse(f"{ensemble.n_trees} trees are not whole rounds of {ensemble.trees_per_round}")


def _name_categories(columns: Columns, trees: FlatTrees, given: Mapping[Any, Sequence[Any]]) -> None:
    """Replace category codes by the given categories."""
    codes = [columns.names[c] if columns.names else c for c in sorted(columns.n_codes)]
    for key, values in given.items():
        known = columns.names or []
        column = known.index(key) if key in known else int(key) if isinstance(key, np.integer) else key
        if type(column) is not int or column not in columns.n_codes:
            raise ValueError(f"categories must be of columns that the model splits by codes, {codes}; got {key!r}.")
        n = columns.n_codes.pop(column)
        has_others = column in columns.has_others
        columns.has_others.discard(column)
        try:
            found = given_values(values)
        except ValueError as error:
            raise ValueError(f"categories of column {key!r} {error}.") from error
        if len(found) < n or len(set(found)) != len(found):
            raise ValueError(
                f"categories must list at least {n} different categories for column {key!r}, in the order of their "
                f"codes; got {found!r}."
            )
        columns.categories[column] = found
        if not any(isinstance(value, int | float) for value in found):
            columns.coded.append(column)
        # Categories that no set can contain take the direction of all other values.
        for node in [node for node in trees.sets if trees.feature[node] == column]:
            own = trees.sets[node]
            if (n in own) if has_others else trees.missing_left[node]:
                trees.sets[node] = np.union1d(own, np.arange(n, len(found)))


def _encoder_of_table(
    table: dict[str, Any], kinds: list[list[Any] | None], *, missing_is_category: bool
) -> InputEncoder:
    """Return the encoder of an exported model whose file has columns derived from the training table."""
    try:
        own = kinds[: len(kinds) - len(table["date_parts"])]
        if any(kind is not None for kind in kinds[len(own) :]):
            raise ValueError("the parts of dates are categories")
        return InputEncoder.from_state({**table, "categories": own, "missing_is_category": missing_is_category})
    except (KeyError, TypeError, ValueError) as error:
        raise refuse(f"the note of fastens must describe the columns of the table; {error}") from error


def _set_table(model: Any, found: ForeignModel) -> None:
    """Set the attributes that `fit` learns about columns and classes."""
    columns = found.columns
    names = columns.names
    if names is not None and len(names) != columns.n_features:
        raise refuse(f"the model names {len(names)} columns and has {columns.n_features}")
    if names is not None and len(set(names)) != len(names):
        names = None
    kinds = [columns.categories.get(column) for column in range(columns.n_features)]
    encoder = InputEncoder(names, kinds, missing_is_category=columns.missing_is_category)
    if columns.table is not None and not columns.repeated:
        encoder = _encoder_of_table(columns.table, kinds, missing_is_category=columns.missing_is_category)
    is_noted = found.note is not None and bool(found.note.get("categories"))  # knows all categories by value
    columns.coded = [] if is_noted else sorted(set(columns.coded).intersection(columns.categories))
    columns.absent_is_missing &= found.note is None
    for name in FOREIGN:
        setattr(encoder, name, getattr(columns, name))
    model._encoder, model._statistics = encoder, None
    model._set_columns()
    if found.classes is not None:
        several = found.n_targets > 1
        model.classes_ = list(map(np.asarray, found.classes)) if several else np.asarray(found.classes)

"""`from_model`: detection of the library and format, and conversion to a fitted estimator."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fastens.adaboost.adaboost_regressor import AdaBoostRegressor
from fastens.base import BaseFastens
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.ranker import GradientBoostingRanker
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.boosting.survival import GradientBoostingSurvival
from fastens.engine.losses.ranking_loss import DISTRIBUTIONS
from fastens.engine.trees.trees import TreeEnsemble
from fastens.exchange.foreign import ARRAY_CODES, ForeignEncoder
from fastens.exchange.records import (
    CLASSIFIER,
    RANKER,
    REGRESSOR,
    SURVIVAL,
    ModelColumns,
    Objective,
    array_of,
    number,
    part,
    refuse,
    single,
)
from fastens.exchange.trees import (
    FlatTrees,
    ForeignModel,
    in_single_precision,
    of_second_class,
    to_ensemble,
    with_vectors,
)
from fastens.forests.base_forest import BaseForest
from fastens.forests.random_forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.forests.random_splits import IsolationForest
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.modelfile.storage import MAGIC, ModelFileError
from fastens.monitoring.metrics import Evaluations
from fastens.params.options import AFTLoss, LinearLeaves
from fastens.table.columns.factorize import given_values
from fastens.table.encoder import InputEncoder

_EXPECTED = "a LightGBM text model, an XGBoost JSON or UBJSON model, a CatBoost JSON model or an ONNX TreeEnsemble"


def from_model(
    model: Any, *, categories: Mapping[Any, Sequence[Any]] | None = None, missing: float | None = None
) -> Any:
    """Convert a model of another library to a fitted estimator with the same predictions.

    Parameters
    ----------
    model : path, bytes or object
        The model: a file in one of the formats LightGBM text, XGBoost JSON or UBJSON, CatBoost JSON, or ONNX with a
        TreeEnsemble; the content of such a file as bytes or text; or a fitted object of LightGBM, XGBoost, CatBoost or
        scikit-learn. Reading a file executes no code from it and does not require the other library.
    categories : mapping of column names or indices to lists, optional
        Categories of columns for which the model stores only the codes 0, 1, ..., in the order of the codes. If None,
        these columns must contain the codes.
    missing : float, optional
        A number that marks missing values, in addition to NaN: the `missing` of the ``DMatrix`` that an XGBoost Booster
        was trained on, which its model does not store. If None, the `missing` parameter of an XGBoost estimator is
        used; for all other models, only NaN is missing.

    Returns
    -------
    A fitted estimator
        The corresponding estimator of fastens, with the predictions of the model.

    Raises
    ------
    ModelFileError
        If the file is damaged, has an unsupported format or version, or contains a model that has no counterpart in
        fastens.
    TypeError
        If `categories` is not a mapping, or `missing` is not a number.
    ValueError
        If `categories` contains anything but lists of strings, numbers, booleans or dates, has too few categories for
        a column, or names a column that the model does not store as codes.

    Examples
    --------
    >>> import fastens
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> theirs = RandomForestRegressor(n_estimators=10, random_state=0).fit(X, y)
    >>> ours = fastens.from_model(theirs)
    >>> bool((ours.predict(X) == theirs.predict(X)).all())
    True
    """
    where = ""
    if not isinstance(categories, Mapping | None):
        raise TypeError(f"categories must be a dict that maps columns to lists of categories; got {categories!r}.")
    if isinstance(missing, bool) or not isinstance(missing, numbers.Real | None):
        raise TypeError(f"missing must be a number or None; got {missing!r}.")
    try:
        if isinstance(model, bytes | bytearray | memoryview):
            record = _read_content(bytes(model))
        elif isinstance(model, str) and _is_content(model):
            record = _read_content(model.encode("utf-8", "surrogatepass"))
        elif isinstance(model, str | os.PathLike):
            where = f"{os.fspath(model)}: "
            record = _read_content(Path(model).read_bytes())
        else:
            record = _read_object(model)
        if missing is not None and not np.isnan(missing):
            record.columns.missing_number = float(missing)
        return fitted_estimator(record, categories)
    except ModelFileError as error:
        raise ModelFileError(f"{where}{error}") from error.__cause__
    except (
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        MemoryError,
        ArithmeticError,
    ) as error:
        raise ModelFileError(f"{where}the model does not describe trees: {type(error).__name__}: {error}") from error


def _reader(name: str) -> Any:
    """Import and return a reader function from its name, "module.function"."""
    module, function = name.split(".")
    return getattr(import_module(f"fastens.exchange.{module}"), function)


def _is_content(text: str) -> bool:
    """Return True if a text is the content of a model file, by line breaks or braces, rather than a path."""
    text = text.strip()
    return "\n" in text or (text.startswith("{") and text.endswith("}"))


def _read_content(content: bytes) -> ForeignModel:
    """Read the content of a file, whose format its first bytes show; raise ModelFileError if it is unknown."""
    if content.startswith(MAGIC):
        raise ModelFileError("the file is a fastens model. Read it with fastens.load.")
    start = content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"tree\n", b"tree\r\n")):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError("a LightGBM model must be text in UTF-8") from error
        return _reader("lightgbm.read_lightgbm")(text.replace("\r\n", "\n"))
    if start.startswith(b"{L"):
        return _reader("xgboost.read_xgboost")(_reader("xgboost.read_ubjson")(content))
    if start.startswith(b"{"):
        return _read_json(_reader("xgboost.parse_json")(content))
    if start.startswith(b"CBM1"):
        raise ModelFileError("the file has CatBoost's binary format. Save the model with format='json'.")
    if start.startswith(b"binf"):
        raise ModelFileError("the file has XGBoost's old binary format. Load it with XGBoost and save it as JSON.")
    # An ONNX file begins with its IR version, a varint in field 1.
    if content[:1] == b"\x08":
        return _reader("onnx_reader.read_onnx")(content)
    raise ModelFileError(f"the file must be {_EXPECTED}; it begins with {content[:16]!r}")


def _read_json(content: Any) -> ForeignModel:
    """Read a JSON model, whose library is detected by its top-level keys; raise ModelFileError if unknown."""
    if isinstance(content, dict) and "learner" in content:
        return _reader("xgboost.read_xgboost")(content)
    if isinstance(content, dict) and "features_info" in content:
        return _reader("catboost.read_catboost")(content)
    raise ModelFileError(f"the file must be {_EXPECTED}; it is another kind of JSON")


def _read_object(model: Any) -> ForeignModel:
    """Read a fitted object, whose library is detected by its class; raise ModelFileError for other objects."""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "fastens" in packages:
        raise ModelFileError(f"the {type(model).__name__} is already a fastens model. Use it directly.")
    if "lightgbm" in packages:
        return _reader("lightgbm.read_booster")(model)
    if "xgboost" in packages:
        return _reader("xgboost.read_booster")(model)
    if "catboost" in packages:
        return _reader("catboost.read_object")(model)
    if "onnx" in packages:
        return _reader("onnx_reader.read_onnx")(model.SerializeToString())
    if "sklearn" in packages:
        return _reader("sklearn.read_sklearn")(model)
    raise ModelFileError(
        f"model must be a path, bytes, or a fitted model of LightGBM, XGBoost, CatBoost or scikit-learn; got "
        f"{type(model).__module__}.{type(model).__qualname__}"
    )


# Notes of `export` --------------------


_FORESTS = ("RandomForest", "ExtraTrees", "DecisionTree")


def _apply_note(model: ForeignModel) -> None:
    """Set labels, column names, categories and estimator of an imported model from its note, if it has one.

    The note is the metadata that `export` stores in a file. Raises ModelFileError if it does not match the trees.
    """
    note, columns = model.note, model.columns
    if note is None:
        return
    _set_classes(model, note)
    _set_task(model.objective, note)
    columns.names = note["names"]  # the original names, because some formats change or require names
    columns.table = part({"columns": None} | note, "columns", (dict, type(None)))
    named = note.get("categories", {})
    columns.missing_is_category = bool(named) and note.get("missing_is_category") is True
    for key, values in named.items():
        column = int(key) if key.isdecimal() else -1
        if not 0 <= column < len(columns):
            raise refuse(f"the fastens metadata has categories for a column {key[:20]!r} that the model does not have")
        if columns[column].is_coded:
            _name_codes(model, column, values)
        elif columns[column].categories is None:
            columns[column].categories = values


def _set_classes(model: ForeignModel, note: dict[str, Any]) -> None:
    """Set the class labels from the note that `export` wrote; make the model a forest if the exported one was."""
    labels, objective = note.get("classes"), model.objective
    if labels is None or len(labels) != len(note["widths"]):
        return
    arrays = [np.asarray(each) for each in labels]
    classes: Any = arrays if len(arrays) > 1 else arrays[0]
    if objective.classes is not None:
        if len(arrays) == objective.n_targets > 1 or (
            objective.n_targets == 1 and len(objective.classes) == len(classes)
        ):
            objective.classes = classes
        is_forest = objective.estimator.startswith(_FORESTS)
    else:
        is_forest = set(note["links"]) == {"shares"} and _turn_into_forest(model)
        if is_forest:
            objective.classes, objective.n_targets = classes, len(arrays)
    if is_forest:
        kind = note["estimator"]
        objective.estimator = kind if kind.startswith(_FORESTS) else "RandomForestClassifier"
        objective.fitted["_has_all_shares"] = note.get("has_all_shares") is True


def _set_task(objective: Objective, note: dict[str, Any]) -> None:
    """Turn a regression objective into a ranker or survival model if the note says that the exported one was."""
    if note["estimator"] not in (RANKER, SURVIVAL) or note["links"] != ["identity"] or objective.n_targets != 1:
        return
    if objective.estimator not in (REGRESSOR, RANKER):
        raise refuse(f"the fastens metadata describes a {note['estimator']}, but the file a {objective.estimator}")
    objective.estimator, objective.parameters = note["estimator"], {}
    if objective.estimator == SURVIVAL:
        _set_times(objective, part(note, "survival", dict))


def _set_times(objective: Objective, note: dict[str, Any]) -> None:
    """Set a survival model's error distribution, or its event times and hazard, from the `survival` note.

    Raises ModelFileError for an unknown distribution, unsorted times or a decreasing hazard.
    """
    if "distribution" in note:
        kind, scale = part(note, "distribution", str), number(part(note, "scale", float), "the scale")
        if kind not in DISTRIBUTIONS or not scale > 0:
            raise refuse("the fastens metadata must have the distribution of errors and their scale")
        objective.parameters = {"loss": AFTLoss(distribution=kind, scale=scale)}
        return
    times = array_of(part(note, "times", list), "times", float)
    hazard = array_of(part(note, "hazard", list), "hazard", float, len(times))
    if not (np.isfinite(times).all() and np.isfinite(hazard).all() and (np.diff(times) > 0).all()):
        raise refuse("the fastens metadata must have ascending event times, and the hazard at each")
    if (np.diff(hazard, prepend=0.0) < 0).any():
        raise refuse("the hazard in the fastens metadata must not decrease")
    objective.fitted |= {"event_times_": times, "cumulative_hazard_": hazard}


def _turn_into_forest(model: ForeignModel) -> bool:
    """Make a sum of trees a forest, by undoing the division of leaf values by the number of trees.

    Returns False, without changes, if the model has a baseline, another objective, or trees that cannot be merged.
    """
    if model.objective.estimator == "RandomForestRegressor":
        return True
    if model.objective.estimator != REGRESSOR or np.any(model.baseline):
        return False
    n_outputs = len(model.baseline)
    trees = model.trees if model.trees.value.shape[1] == n_outputs else with_vectors(model.trees, n_outputs)
    if trees is None:
        return False
    trees.value = single(trees.value * len(trees.roots)).astype(np.float64)
    model.trees, model.objective.parameters = trees, {}
    return True


def _name_codes(model: ForeignModel, index: int, values: list[Any]) -> None:
    """Replace codes of column `index` by the categories `values`, and change the trees' sets accordingly.

    If missing is a category, its position follows the others. Raises ModelFileError if the trees use more categories.
    """
    column, trees, is_category = model.columns[index], model.trees, model.columns.missing_is_category
    n, has_others = len(column.categories or ()), column.has_others
    if n > len(values):
        raise refuse(f"the fastens metadata has {len(values)} categories for column {index}, but the trees {n}")
    column.categories, column.is_coded, column.has_others = values, False, False
    for node in [node for node in trees.sets if trees.feature[node] == index]:
        codes, missing_left = trees.sets[node], bool(trees.missing_left[node])
        others_left = n in codes if has_others else missing_left
        rest = np.arange(n, len(values)) if others_left else np.zeros(0, np.int64)
        last = [len(values)] if is_category and missing_left else []
        trees.sets[node] = np.concatenate([codes[codes < n], rest, np.array(last, dtype=np.int64)])
        trees.missing_left[node] = others_left if is_category else missing_left


# Estimators --------------------


_KINDS: dict[str, type[BaseFastens]] = {
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


def fitted_estimator(foreign: ForeignModel, categories: Mapping[Any, Sequence[Any]] | None = None) -> Any:
    """Return a fitted estimator with the predictions of another library's model.

    Parameters
    ----------
    foreign : ForeignModel
        The model.
    categories : mapping of column names or indices to lists, optional
        Categories of columns for which the model stores only the codes 0, 1, ..., in the order of the codes.
    """
    _apply_note(foreign)
    _name_categories(foreign.columns, foreign.trees, categories or {})
    ensemble = to_ensemble(foreign.trees, foreign.columns, foreign.baseline)
    objective = foreign.objective
    parameters = dict(objective.parameters)
    if _are_two_of_softmax(objective, ensemble):
        ensemble = of_second_class(ensemble)
    if foreign.note is not None and foreign.note.get("is_single") is True:
        ensemble = in_single_precision(ensemble)
    if not ensemble.has_constant_leaves:
        parameters["linear_leaves"] = LinearLeaves()
    if (np.diff(np.ravel(parameters.get("quantile", 0.5))) <= 0).any():
        raise refuse(f"several quantile levels must be ascending; got {parameters['quantile']}")
    kind = _KINDS[objective.estimator]
    learned: dict[str, Any] = {"_n_targets": objective.n_targets}
    if ensemble.n_trees < ensemble.trees_per_round:
        raise refuse("the model has no trees")
    if issubclass(kind, BoostedTrees | BaseForest | IsolationForest):
        parameters["n_estimators"] = ensemble.n_trees // ensemble.trees_per_round
        learned |= without_fit(kind, parameters["n_estimators"])
    if issubclass(kind, BaseForest):
        parameters |= {"bootstrap": False, "averaging": None}
    model: Any = kind(**parameters)
    try:
        model._check_parameters()
    except ValueError as error:
        raise refuse(f"{kind.__name__} does not allow the model's parameters: {error}") from error
    _set_table(model, foreign)
    vars(model).update(learned | objective.fitted)
    model._ensemble = ensemble
    model._restored()
    _check_outputs(ensemble, model._n_outputs())
    return model


def _are_two_of_softmax(objective: Objective, ensemble: TreeEnsemble) -> bool:
    """Return True for a binary log loss with one raw prediction per class; fastens has one for both classes."""
    if objective.estimator != CLASSIFIER or objective.parameters.get("loss", "log_loss") != "log_loss":
        return False
    if objective.classes is None or objective.n_targets != 1:
        return False
    return len(objective.classes) == ensemble.n_outputs == 2


def without_fit(model_class: type, n_rounds: int) -> dict[str, Any]:
    """Return placeholders for the attributes that only a fit can set, such as seeds and evaluation results."""
    if issubclass(model_class, BaseForest):
        no_rows = {"_seed": 0, "_kept_rows": np.zeros(0, dtype=np.intp)}
        return no_rows | dict.fromkeys(("_bootstrap", "_out_of_bag", "_averaging"))
    if issubclass(model_class, IsolationForest):
        return {}
    return {"_seed": 0, "n_estimators_": n_rounds, "evals_result_": Evaluations()}


def _check_outputs(ensemble: TreeEnsemble, n_outputs: int) -> None:
    """Raise ModelFileError unless the trees match the number of outputs and form whole rounds."""
    if ensemble.n_outputs != n_outputs:
        raise refuse(
            f"the trees have {ensemble.n_outputs} raw predictions, but the objective and the classes imply {n_outputs}"
        )
    if ensemble.n_trees % ensemble.trees_per_round:
        raise refuse(f"{ensemble.n_trees} trees cannot be divided into rounds of {ensemble.trees_per_round}")


def _name_categories(columns: ModelColumns, trees: FlatTrees, by_key: Mapping[Any, Sequence[Any]]) -> None:
    """Replace category codes by the categories that the user passed, by column name or index.

    Raises ValueError for invalid lists, and for keys that are not columns of codes.
    """
    names = columns.names or []
    codes = [names[c] if names else c for c, column in enumerate(columns) if column.is_coded]
    for key, values in by_key.items():
        index = names.index(key) if key in names else int(key) if isinstance(key, np.integer) else key
        if type(index) is not int or not 0 <= index < len(columns) or not columns[index].is_coded:
            raise ValueError(
                f"categories must name columns that the model splits by category codes, {codes}; got {key!r}."
            )
        column = columns[index]
        n, has_others = len(column.categories or ()), column.has_others
        try:
            categories = given_values(values)
        except ValueError as error:
            raise ValueError(f"categories of column {key!r} {error}.") from error
        if len(categories) < n or len(set(categories)) != len(categories):
            raise ValueError(
                f"categories must list at least {n} different categories for column {key!r}, in the order of their "
                f"codes; got {categories!r}."
            )
        column.categories, column.is_coded, column.has_others = categories, False, False
        if not any(isinstance(value, int | float) for value in categories):
            column.convention = ARRAY_CODES
        # Categories whose codes exceed those of the model go to the same side as unlisted values; without such a rule,
        # to the side of missing values.
        for node in [node for node in trees.sets if trees.feature[node] == index]:
            members = trees.sets[node]
            if (n in members) if has_others else trees.missing_left[node]:
                trees.sets[node] = np.union1d(members, np.arange(n, len(categories)))


def _encoder_of_table(
    table: dict[str, Any], kinds: list[list[Any] | None], *, missing_is_category: bool
) -> InputEncoder:
    """Return the encoder of an exported model whose columns were derived from dates of the training table.

    `table` is the note's description of that table, and `kinds` has the categories of each column or None. Raises
    ModelFileError if they do not match.
    """
    try:
        input_kinds = kinds[: len(kinds) - len(table["date_parts"])]
        if any(kind is not None for kind in kinds[len(input_kinds) :]):
            raise ValueError("the parts of dates must not be categories")
        return InputEncoder.from_state({**table, "categories": input_kinds, "missing_is_category": missing_is_category})
    except (KeyError, TypeError, ValueError) as error:
        raise refuse(f"the fastens metadata must describe the columns of the table; {error}") from error


def _set_table(model: Any, foreign: ForeignModel) -> None:
    """Set the attributes of `model` that `fit` learns about columns and classes; raise ModelFileError if invalid."""
    columns, classes = foreign.columns, foreign.objective.classes
    names = columns.names
    if names is not None and len(names) != len(columns):
        raise refuse(f"the model has {len(columns)} columns, but names of {len(names)}")
    if names is not None and len(set(names)) != len(names):
        names = None
    kinds = [None if column.is_coded else column.categories for column in columns]
    encoder = InputEncoder(names, kinds, missing_is_category=columns.missing_is_category)
    if columns.table is not None and not columns.repeated:
        encoder = _encoder_of_table(columns.table, kinds, missing_is_category=columns.missing_is_category)
    encoder.repeated = columns.repeated
    conventions = {index: column.convention for index, column in enumerate(columns) if column.convention is not None}
    if foreign.note is not None and foreign.note.get("categories"):  # the model has all categories by value
        conventions = {index: convention for index, convention in conventions.items() if convention != ARRAY_CODES}
    absent = columns.absent_is_missing and foreign.note is None
    model._encoder = ForeignEncoder.of(encoder, conventions, columns.missing_number, absent=absent)
    model._statistics = None
    model._set_columns()
    if classes is not None:
        several = foreign.objective.n_targets > 1
        model.classes_ = list(map(np.asarray, classes)) if several else np.asarray(classes)

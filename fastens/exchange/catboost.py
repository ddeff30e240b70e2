"""Reader of CatBoost models in JSON format."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fastens.exchange.foreign import HASHED
from fastens.exchange.records import (
    CLASSIFIER,
    RANKER,
    REGRESSOR,
    SURVIVAL,
    ModelColumns,
    Objective,
    array_of,
    at_most,
    no_hazard,
    number,
    part,
    refuse,
    single,
    whole_number,
)
from fastens.exchange.trees import FlatTrees, ForeignModel, join_trees
from fastens.exchange.xgboost import parse_json
from fastens.params.options import TweedieLoss

# A loss without a counterpart is replaced by one with the same kind of prediction, which returns the raw values.
_NUMBERS = {
    "RMSE": "squared_error",
    "MultiRMSE": "squared_error",
    "MultiRMSEWithMissingValues": "squared_error",
    "MAE": "absolute_error",
    "MAPE": "absolute_error",
    "Lq": "squared_error",
    "Huber": "huber",
    "LogCosh": "log_cosh",
    "LogLinQuantile": "squared_error",
    "Poisson": "poisson",
    "RMSPE": "squared_error",
    "RMSEWithUncertainty": "squared_error",  # predicts the mean and the log of the standard deviation
    "MultiCrossEntropy": "cross_entropy",
    "PythonUserDefinedPerObject": "squared_error",
}
_CLASSES = ("CrossEntropy", "Logloss", "MultiClass", "MultiClassOneVsAll", "MultiLogloss")
_LEVELS = {"Quantile": "quantile", "MultiQuantile": "quantile", "Expectile": "expectile"}
_RANKING = (
    "LambdaMart",
    "PairLogit",
    "PairLogitPairwise",
    "QueryCrossEntropy",
    "QueryRMSE",
    "QuerySoftMax",
    "StochasticFilter",
    "StochasticRank",
    "YetiRank",
    "YetiRankPairwise",
)


def objective_of(info: dict[str, Any], n_outputs: int) -> Objective:
    """Return the counterpart of a model's loss function in fastens.

    Parameters
    ----------
    info : dict
        The `model_info` of the file.
    n_outputs : int
        The number of raw predictions per row.

    Raises
    ------
    ModelFileError
        If the loss function is unknown or the class names do not match the outputs.
    """
    parameters = info.get("params") or {}
    function = parameters.get("loss_function") if isinstance(parameters, dict) else None
    function = function if isinstance(function, dict) else {}
    kind, options = str(function.get("type", "RMSE")), function.get("params") or {}
    class_params = info.get("class_params") or {}
    if kind in _CLASSES or (class_params and kind not in _NUMBERS):
        return _class_objective(kind, class_params, n_outputs)
    objective = _number_objective(kind, options, n_outputs)
    if objective is None:
        raise refuse(f"the loss function {kind[:60]!r} cannot be read")
    return objective


def _number_objective(loss_name: str, options: dict[str, Any], n_outputs: int) -> Objective | None:
    """Return the objective of a regression, survival or ranking model; None for an unknown loss.

    `loss_name` is CatBoost's name of the loss, and `options` are its parameters.
    """
    if loss_name in _LEVELS:
        levels = [number(level, "alpha") for level in str(options.get("alpha", "0.5")).split(",")]
        return Objective(REGRESSOR, {"loss": _LEVELS[loss_name], "quantile": levels[0] if len(levels) == 1 else levels})
    if loss_name == "Tweedie":
        return Objective(
            REGRESSOR, {"loss": TweedieLoss(variance_power=number(options.get("variance_power"), loss_name))}
        )
    if loss_name in _NUMBERS:
        return Objective(REGRESSOR, {"loss": _NUMBERS[loss_name]}, n_targets=n_outputs)
    if loss_name == "Cox":
        return Objective(SURVIVAL, {"loss": "cox"}, fitted=no_hazard())
    return Objective(RANKER) if loss_name in _RANKING else None


def _class_objective(loss_name: str, info: dict[str, Any], n_outputs: int) -> Objective:
    """Return the objective of a classification model, with its labels.

    `loss_name` is CatBoost's name of the loss, and `info` is `class_params` of the file. Raises ModelFileError if the
    class names do not match the outputs.
    """
    if loss_name == "MultiLogloss":
        return Objective(CLASSIFIER, n_targets=n_outputs, classes=[np.arange(2)] * n_outputs)
    n_classes = 2 if n_outputs == 1 else n_outputs
    names = info.get("class_names") or list(range(n_classes))
    if loss_name == "CrossEntropy" and not info.get("class_names"):
        return Objective(REGRESSOR, {"loss": "cross_entropy"})
    if not isinstance(names, list) or len(names) != n_classes or len(set(map(str, names))) != n_classes:
        raise refuse(f"class_names must have {n_classes} different names; got {str(names)[:60]}")
    loss = "one_vs_rest" if loss_name == "MultiClassOneVsAll" else "log_loss"
    return Objective(CLASSIFIER, {"loss": loss}, classes=np.array(names))


_DEEPEST = 16
# The column of a split, its threshold, True if missing values go left, and the categories that go left.
_Test = tuple[int, float, bool, Any]
_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_ADVICE = (
    "the model uses target statistics (split_type 'OnlineCtr'), which fastens cannot import. Train with "
    "one_hot_max_size of at least the number of categories, or encode the categories before CatBoost."
)


def read_catboost(model: dict[str, Any]) -> ForeignModel:
    """Read the output of ``save_model(..., format="json")``.

    Parameters
    ----------
    model : dict
        The parsed content of the file.

    Raises
    ------
    ModelFileError
        If the model is malformed or has features or splits that fastens cannot import.
    """
    features = _Features(part(model, "features_info", dict))
    scale_and_bias = part(model, "scale_and_bias", list)
    if len(scale_and_bias) != 2:
        raise refuse(f"scale_and_bias must have 2 entries; got {len(scale_and_bias)}")
    factor, bias = number(scale_and_bias[0], "the scale"), scale_and_bias[1]
    bias = array_of(bias if isinstance(bias, list) else [bias], "the bias", float)
    objective = objective_of(model.get("model_info") or {}, len(bias))
    if "oblivious_trees" in model:
        parts = [_symmetric(tree, features, len(bias)) for tree in part(model, "oblivious_trees", list)]
    else:
        parts = [_nested(tree, features, len(bias)) for tree in part(model, "trees", list)]
    trees = join_trees(parts, np.zeros(len(parts), dtype=np.int64))
    trees.scale(factor)
    return ForeignModel(objective, trees, features.columns, bias)


def read_object(model: Any) -> ForeignModel:
    """Read a fitted estimator of CatBoost's Python package; raise ModelFileError if it is not fitted."""
    if not model.is_fitted():
        raise refuse(f"the {type(model).__name__} must be fitted")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        foreign = read_catboost(parse_json(path.read_bytes()))
    names = model.feature_names_
    if names and names != [str(index) for index in range(len(names))]:
        foreign.columns.names = [str(name) for name in names]
    return foreign


class _Features:
    """The columns of a model, and the conversion of its splits."""

    def __init__(self, info: dict[str, Any]) -> None:
        numbers, categories = (info.get(f"{kind}_features") or [] for kind in ("float", "categorical"))
        if info.get("text_features") or info.get("embedding_features"):
            raise refuse("the model has text or embedding features, which fastens cannot import")
        self.column: dict[tuple[str, int], int] = {}
        self.missing_left: dict[int, bool] = {}
        for kind, features in (("float", numbers), ("cat", categories)):
            for feature in features:
                index = whole_number(part(feature, "feature_index", int), "feature_index")
                self.column[kind, index] = whole_number(part(feature, "flat_feature_index", int), "flat_feature_index")
        n_features = max(self.column.values(), default=-1) + 1
        if len(set(self.column.values())) != len(self.column) or n_features > len(self.column) + 2**16:
            raise refuse("flat_feature_index must hold the index of a different column for each feature")
        names = [str(column) for column in range(n_features)]
        self.columns = ModelColumns(n_features)
        for feature in (*numbers, *categories):
            names[feature["flat_feature_index"]] = str(feature.get("feature_name") or feature.get("feature_id") or "")
        if any(name != str(index) for index, name in enumerate(names)) and all(names):
            self.columns.names = names
        for feature in numbers:
            treatment = feature.get("nan_value_treatment", "AsIs")
            if treatment not in _TREATMENTS:
                raise refuse(f"nan_value_treatment must be one of {_TREATMENTS}; got {str(treatment)[:40]!r}")
            self.missing_left[feature["flat_feature_index"]] = treatment != "AsTrue"
        self._set_categories(categories, info.get("cat_features_hash") or [])

    def _set_categories(self, categories: list[Any], named: list[Any]) -> None:
        """Set the categories of the columns, and each category's position by its hash.

        `categories` are the file's categorical features, and `named` are its pairs of a hash and a category.
        """
        texts = {_signed(part(pair, "hash", int)): part(pair, "value", str) for pair in named}
        self.position: dict[int, dict[int, int]] = {}
        for feature in categories:
            index = feature["flat_feature_index"]
            hashes = [_signed(value) for value in array_of(feature.get("values") or [], "values", np.int64).tolist()]
            hashes = list(dict.fromkeys(hashes))
            column = self.columns[index]
            column.categories, column.convention = [texts.get(value, value) for value in hashes], HASHED
            self.position[index] = {value: position for position, value in enumerate(hashes)}

    def test(self, split: Any) -> _Test:
        """Return a split's column, its threshold, True if missing values go left, and the categories that go left.

        The categories are None for a numeric split. Raises ModelFileError for splits of other types.
        """
        kind = part(split, "split_type", str)
        if kind == "FloatFeature":
            column = self._column("float", split)
            border = number(split.get("border"), "border")
            return column, float(at_most(single(np.array(border)))), self.missing_left[column], None
        if kind == "OneHotFeature":
            column = self._column("cat", split)
            position = self.position[column].get(_signed(part(split, "value", int)))
            others = [other for other in self.position[column].values() if other != position]
            return column, 0.0, True, np.array(others, dtype=np.int64)
        raise refuse(_ADVICE if kind == "OnlineCtr" else f"a split of the type {kind[:40]!r} cannot be read")

    def _column(self, feature_type: str, split: dict[str, Any]) -> int:
        """Return the column of a split of type "float" or "cat"; raise ModelFileError for an unknown feature."""
        key = feature_type, part(split, f"{feature_type}_feature_index", int)
        if key not in self.column:
            raise refuse(f"{feature_type}_feature_index={key[1]} is not a feature of the model")
        return self.column[key]


def _signed(value: int) -> int:
    """Return the low 32 bits of an integer as a signed integer."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _tree(tests: list[_Test], children: tuple[Any, Any], value: Any, weight: Any) -> FlatTrees:
    """Return a tree whose nodes are the splits, then the leaves; `children` are all left and all right children."""
    n_leaves = len(value)
    feature, threshold, missing_left, sets = zip(*tests, strict=True) if tests else ((), (), (), ())
    left, right = (np.append(np.array(each, dtype=np.int64), np.full(n_leaves, -1)) for each in children)
    return FlatTrees(
        left=left,
        right=right,
        feature=np.append(np.array(feature, dtype=np.int64), np.zeros(n_leaves, dtype=np.int64)),
        threshold=np.append(threshold, np.zeros(n_leaves)),
        missing_left=np.append(np.array(missing_left, dtype=bool), np.zeros(n_leaves, dtype=bool)),
        value=np.concatenate([np.zeros((len(tests), value.shape[1])), value]),
        weight=np.append(np.zeros(len(tests)), weight),
        sets={node: members for node, members in enumerate(sets) if members is not None},
    )


def _symmetric(tree: Any, features: _Features, width: int) -> FlatTrees:
    """Read an oblivious tree: one split per level, where the first is the lowest bit of a leaf's index.

    `width` is the number of values per leaf. Raises ModelFileError if the tree is malformed or too deep.
    """
    splits = part(tree, "splits", list) if tree.get("splits") is not None else []
    depth = len(splits)
    if depth > _DEEPEST:
        raise refuse(f"a tree has {depth} levels; CatBoost allows at most {_DEEPEST}")
    n_leaves = 1 << depth
    value = array_of(tree.get("leaf_values"), "leaf_values", float, n_leaves * width).reshape(n_leaves, width)
    weight = tree.get("leaf_weights")
    weights = np.zeros(n_leaves) if not weight else array_of(weight, "leaf_weights", float, n_leaves)
    levels = [features.test(split) for split in reversed(splits)]
    tests = [test for level, test in enumerate(levels) for _ in range(1 << level)]
    nodes = np.arange(n_leaves - 1)
    return _tree(tests, (2 * nodes + 1, 2 * nodes + 2), value, weights)


def _nested(tree: Any, features: _Features, width: int) -> FlatTrees:
    """Read a non-symmetric tree, which is stored as nested records; `width` is the number of values per leaf."""
    splits: list[_Test] = []
    children: list[list[tuple[bool, int]]] = []
    values: list[np.ndarray] = []
    weights: list[float] = []
    waiting: list[tuple[Any, int]] = [(tree, -1)]
    for node, parent in waiting:
        is_split = isinstance(node, dict) and "split" in node
        if parent >= 0:
            children[parent].append((is_split, len(splits) if is_split else len(values)))
        if is_split:
            waiting += [(part(node, side, dict), len(splits)) for side in ("left", "right")]
            splits.append(features.test(node["split"]))
            children.append([])
        else:
            value = node.get("value") if isinstance(node, dict) else None
            values.append(array_of(value if isinstance(value, list) else [value], "value", float, width))
            weights.append(number(node.get("weight", 0), "weight"))
    left, right = (
        [index if is_split else len(splits) + index for is_split, index in (pair[side] for pair in children)]
        for side in (0, 1)
    )
    return _tree(splits, (left, right), np.array(values), weights)

"""CatBoost's models as JSON: symmetric and other trees, one-hot categories by their hashes; and its Python objects."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fastens.exchange.reading.catboost_objectives import Objective, objective_of
from fastens.exchange.reading.checks import array_of, number, part, single, whole_number
from fastens.exchange.reading.float32 import at_most
from fastens.exchange.reading.records import Columns, ForeignModel, join_trees, refuse
from fastens.exchange.reading.xgboost_json import parse_json

_DEEPEST = 16
_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_ADVICE = (
    "the model has features made of the target's statistics (split_type 'OnlineCtr'), which cannot be read; train with "
    "one_hot_max_size at least the number of categories, or encode the categories before CatBoost"
)


def read_catboost(model: dict[str, Any]) -> ForeignModel:
    """Read what ``save_model(..., format="json")`` writes.

    Parameters
    ----------
    model : dict
        The content of the file.
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
    for tree in parts:
        tree["value"] = tree["value"] * factor
    return _model(parts, features.columns, bias, objective)


def read_object(model: Any) -> ForeignModel:
    """Read a fitted estimator of CatBoost's Python package."""
    if not model.is_fitted():
        raise refuse(f"the {type(model).__name__} must be fitted")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        found = read_catboost(parse_json(path.read_bytes()))
    names = model.feature_names_
    if names and names != [str(index) for index in range(len(names))]:
        found.columns.names = [str(name) for name in names]
    return found


def _model(parts: list[dict[str, Any]], columns: Columns, bias: Any, objective: Objective) -> ForeignModel:
    return ForeignModel(
        estimator=objective.estimator,
        parameters=objective.parameters,
        trees=join_trees(parts, np.zeros(len(parts), dtype=np.int64)),
        columns=columns,
        baseline=bias.tolist(),
        classes=objective.classes,
        n_targets=objective.n_targets,
        fitted=objective.fitted,
    )


class _Features:
    """The columns, and the tests of splits on them."""

    def __init__(self, info: dict[str, Any]) -> None:
        numbers, categories = (info.get(f"{kind}_features") or [] for kind in ("float", "categorical"))
        if info.get("text_features") or info.get("embedding_features"):
            raise refuse("the model has features of texts or embeddings, which cannot be read")
        self.column: dict[tuple[str, int], int] = {}
        self.missing_left: dict[int, bool] = {}
        for kind, given in (("float", numbers), ("cat", categories)):
            for feature in given:
                index = whole_number(part(feature, "feature_index", int), "feature_index")
                self.column[kind, index] = whole_number(part(feature, "flat_feature_index", int), "flat_feature_index")
        n_features = max(self.column.values(), default=-1) + 1
        if len(set(self.column.values())) != len(self.column) or n_features > len(self.column) + 2**16:
            raise refuse("flat_feature_index must number the columns")
        names = [str(column) for column in range(n_features)]
        self.columns = Columns(n_features)
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
        texts = {_signed(part(pair, "hash", int)): part(pair, "value", str) for pair in named}
        self.position: dict[int, dict[int, int]] = {}
        for feature in categories:
            column = feature["flat_feature_index"]
            hashes = [_signed(value) for value in array_of(feature.get("values") or [], "values", np.int64).tolist()]
            hashes = list(dict.fromkeys(hashes))
            self.columns.categories[column] = [texts.get(value, value) for value in hashes]
            self.columns.hashed.append(column)
            self.position[column] = {value: place for place, value in enumerate(hashes)}

    def test(self, split: Any) -> tuple[int, float, bool, Any]:
        """The column of a split, its threshold, the side of missing values, and the categories to the left."""
        kind = part(split, "split_type", str)
        if kind == "FloatFeature":
            column = self._column("float", split)
            border = number(split.get("border"), "border")
            return column, float(at_most(single(np.array(border)))), self.missing_left[column], None
        if kind == "OneHotFeature":
            column = self._column("cat", split)
            place = self.position[column].get(_signed(part(split, "value", int)))
            others = [other for other in self.position[column].values() if other != place]
            return column, 0.0, True, np.array(others, dtype=np.int64)
        raise refuse(_ADVICE if kind == "OnlineCtr" else f"a split of the type {kind[:40]!r} cannot be read")

    def _column(self, kind: str, split: dict[str, Any]) -> int:
        key = kind, part(split, f"{kind}_feature_index", int)
        if key not in self.column:
            raise refuse(f"{kind}_feature_index={key[1]} is none of the features of the model")
        return self.column[key]


def _signed(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _arrays(tests: list[tuple[int, float, bool, Any]], n_leaves: int) -> dict[str, Any]:
    """The arrays of splits, and room for leaves after them."""
    feature, threshold, missing_left, sets = zip(*tests, strict=True) if tests else ((), (), (), ())
    return {
        "feature": np.append(np.array(feature, dtype=np.int64), np.zeros(n_leaves, dtype=np.int64)),
        "threshold": np.append(np.array(threshold, dtype=float), np.zeros(n_leaves)),
        "missing_left": np.append(np.array(missing_left, dtype=bool), np.zeros(n_leaves, dtype=bool)),
        "sets": {node: own for node, own in enumerate(sets) if own is not None},
    }


def _symmetric(tree: Any, features: _Features, width: int) -> dict[str, Any]:
    """A tree with one test for each level, of which the first is the lowest bit of a leaf's number."""
    splits = part(tree, "splits", list) if tree.get("splits") is not None else []
    depth = len(splits)
    if depth > _DEEPEST:
        raise refuse(f"a tree has {depth} levels; CatBoost's have {_DEEPEST} at most")
    n_leaves = 1 << depth
    value = array_of(tree.get("leaf_values"), "leaf_values", float, n_leaves * width).reshape(n_leaves, width)
    weight = tree.get("leaf_weights")
    weights = np.zeros(n_leaves) if not weight else array_of(weight, "leaf_weights", float, n_leaves)
    levels = [features.test(split) for split in reversed(splits)]
    n_splits = n_leaves - 1
    out = _arrays([test for level, test in enumerate(levels) for _ in range(1 << level)], n_leaves)
    nodes = np.arange(n_splits)
    out["left"] = np.append(2 * nodes + 1, np.full(n_leaves, -1))
    out["right"] = np.append(2 * nodes + 2, np.full(n_leaves, -1))
    out["value"] = np.concatenate([np.zeros((n_splits, width)), value])
    out["weight"] = np.append(np.zeros(n_splits), weights)
    return out


def _nested(tree: Any, features: _Features, width: int) -> dict[str, Any]:
    """A tree of records within records."""
    splits: list[tuple[int, float, bool, Any]] = []
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
    out = _arrays(splits, len(values))
    ends = np.full(len(values), -1)
    for side, name in enumerate(("left", "right")):
        own = [index if is_split else len(splits) + index for is_split, index in (pair[side] for pair in children)]
        out[name] = np.append(np.array(own, dtype=np.int64), ends)
    out["value"] = np.concatenate([np.zeros((len(splits), width)), np.array(values)])
    out["weight"] = np.append(np.zeros(len(splits)), weights)
    return out

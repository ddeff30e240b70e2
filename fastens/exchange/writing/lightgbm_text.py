"""Export to LightGBM's text format, version 4. Predictions of the resulting Booster are bit-identical."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from fastens.engine.trees.tree_store import set_of
from fastens.exchange.writing.view import CannotHoldError, Column, FlatTree, Line, ModelView, Target, text_of

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2, 4, 8


def write(view: ModelView) -> str:
    """Return the text of a Booster."""
    target = view.only_target
    trees = [f"Tree={number}\n{_tree(tree, view.columns)}\n\n" for number, (_, tree) in enumerate(view.rounds())]
    header = {
        "version": "v4",
        "num_class": view.n_outputs,
        "num_tree_per_iteration": view.n_outputs,
        "label_index": 0,
        "max_feature_idx": len(view.columns) - 1,
        **_objective(target, view.n_outputs),
        "feature_names": " ".join(_name(column.name, place) for place, column in enumerate(view.columns)),
        "feature_infos": " ".join(_infos(view)),
        "tree_sizes": " ".join(str(len(tree.encode())) for tree in trees),
        "fastens": text_of(view.note),
    }
    lines = [f"{name}={value}" for name, value in header.items()]
    if view.is_mean:
        lines.insert(lines.index(f"feature_names={header['feature_names']}"), "average_output")
    categories = [own.categories for own in view.columns if own.categories is not None and not own.is_coded]
    end = ["end of trees", "", "feature_importances:", "", "parameters:", "end of parameters", ""]
    end += [f"pandas_categorical:{json.dumps(categories) if categories else 'null'}", ""]
    return "\n".join(["tree", *lines, "", ""]) + "".join(trees) + "\n".join(end)


def _name(name: str, place: int) -> str:
    """Return a name without whitespace, which separates names, and without characters that break LightGBM's JSON.

    A NUL makes LightGBM read forever, and UTF-8 cannot encode surrogates. An empty name is replaced by one with the
    column's index.
    """
    return re.sub(r'[\s"\\\0\ud800-\udfff]', "_", name) or f"Column_{place}"


def _objective(target: Target, n_outputs: int) -> dict[str, str]:
    """Return the objective, which determines the link; averaged class probabilities need none."""
    if target.link in ("one vs rest", "sorted", "anomaly"):
        raise CannotHoldError(f"predictions by the link {target.link!r}")
    # With several trees per round, LightGBM applies these links only to the first.
    if n_outputs > 1 and target.link in ("sigmoid", "exp"):
        raise CannotHoldError(f"several predictions by the link {target.link!r}")
    if target.link == "sigmoid":
        return {"objective": "cross_entropy" if target.classes is None else "binary sigmoid:1"}
    if target.link == "softmax":
        return {"objective": f"multiclass num_class:{n_outputs}"}
    if target.link == "exp":
        return {"objective": "poisson"}
    return {} if n_outputs > 1 or target.classes is not None else {"objective": "regression"}


def _infos(view: ModelView) -> Iterable[str]:
    """Yield the range of each column's thresholds, or its categories."""
    limits = [[np.inf, -np.inf] for _ in view.columns]
    for tree in view.trees:
        numeric = np.isfinite(tree.threshold)
        for column, value in zip(tree.feature[numeric].tolist(), tree.threshold[numeric].tolist(), strict=True):
            limits[column] = [min(limits[column][0], value), max(limits[column][1], value)]
    for column, (low, high) in zip(view.columns, limits, strict=True):
        if column.categories:
            yield ":".join(map(str, range(len(column.categories))))
        else:
            yield f"[{low!r}:{high!r}]" if low <= high else "none"


def _tree(tree: FlatTree, columns: list[Column]) -> str:
    is_leaf = tree.is_leaf
    leaves, inner = np.flatnonzero(is_leaf), np.flatnonzero(~is_leaf)
    # Inner nodes are numbered 0, 1, ... and leaves -1, -2, ...
    number = np.empty(len(is_leaf), dtype=np.int64)
    number[inner], number[leaves] = np.arange(len(inner)), -1 - np.arange(len(leaves))
    fields: dict[str, Any] = {"num_leaves": [len(leaves)], "num_cat": [len(tree.members)]}
    if len(inner):
        threshold, kind, sets = _splits(tree, inner.tolist(), columns)
        fields |= {
            "split_feature": tree.feature[inner],
            "split_gain": tree.gain[inner],
            "threshold": threshold,
            "decision_type": kind,
            "left_child": number[tree.left[inner]],
            "right_child": number[tree.right[inner]],
        } | sets
    fields["leaf_value"] = tree.value[leaves, 0]
    fields["leaf_weight"], fields["leaf_count"] = tree.weight[leaves], tree.n_samples[leaves]
    if len(inner):
        fields["internal_value"] = tree.value[inner, 0]
        fields["internal_weight"], fields["internal_count"] = tree.weight[inner], tree.n_samples[inner]
    fields |= _linear(tree, leaves.tolist()) | {"shrinkage": [1]}
    return "\n".join(f"{name}={' '.join(map(repr, np.asarray(v).tolist()))}" for name, v in fields.items())


def _linear(tree: FlatTree, leaves: list[int]) -> dict[str, list[Any]]:
    """Return the fields of linear models in leaves, if there are any."""
    if not tree.lines:
        return {"is_linear": [0]}
    lines = [tree.lines.get(node) or Line(float(tree.value[node, 0]), [], []) for node in leaves]
    return {
        "is_linear": [1],
        "leaf_const": [line.constant for line in lines],
        "num_features": [len(line.features) for line in lines],
        "leaf_features": [feature for line in lines for feature in line.features],
        "leaf_coeff": [slope for line in lines for slope in line.slopes],
    }


def _splits(tree: FlatTree, inner: list[int], columns: list[Column]) -> tuple[list[float], list[int], dict[str, Any]]:
    """Return thresholds (set indices for categorical splits), decision types and the sets."""
    thresholds, kinds, words, ends = [], [], [], [0]
    for node in inner:
        missing_left = bool(tree.missing_left[node])
        if (members := tree.members.get(node)) is None:
            thresholds.append(float(tree.threshold[node]))
            missing = _MISSING_IS_ZERO if columns[tree.feature[node]].zero_is_missing else _MISSING_IS_NAN
            kinds.append(missing | _DEFAULT_LEFT * missing_left)
            continue
        if missing_left:
            name = columns[tree.feature[node]].name
            raise CannotHoldError(f"missing values of {name!r} on another side than categories never seen")
        thresholds.append(len(ends) - 1)
        kinds.append(_CATEGORICAL | _MISSING_IS_NAN)
        words += set_of(members).tolist()
        ends.append(len(words))
    return thresholds, kinds, {"cat_boundaries": ends, "cat_threshold": words} if len(ends) > 1 else {}

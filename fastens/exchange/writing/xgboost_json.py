"""Export to XGBoost's JSON format; splits are identical for X in single precision, which XGBoost uses throughout."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.exchange.writing.view import CannotHoldError, FlatTree, ModelView, Target, text_of

_LARGEST = float(np.finfo(np.float32).max)
_NO_PARENT = 2**31 - 1
# The objective of each link, its parameters, and the base score that corresponds to a margin of 0.
_OBJECTIVES: dict[str, tuple[str, dict[str, dict[str, str]], str]] = {
    "identity": ("reg:squarederror", {"reg_loss_param": {"scale_pos_weight": "1"}}, "0E0"),
    "shares": ("reg:squarederror", {"reg_loss_param": {"scale_pos_weight": "1"}}, "0E0"),
    "sigmoid": ("binary:logistic", {"reg_loss_param": {"scale_pos_weight": "1"}}, "5E-1"),
    "share": ("reg:logistic", {"reg_loss_param": {"scale_pos_weight": "1"}}, "5E-1"),
    "exp": ("count:poisson", {"poisson_regression_param": {"max_delta_step": "0.7"}}, "1E0"),
    "softmax": ("multi:softprob", {"softmax_multiclass_param": {}}, "0E0"),
}


def write(view: ModelView) -> str:
    """Return the JSON text of a Booster. Categories become their positions in the model's categories."""
    target = view.only_target
    if target.link not in _OBJECTIVES:
        raise CannotHoldError(f"predictions by the link {target.link!r}")
    view.refuse_characters(r"[\ud800-\udfff]", values=False)  # values are only in the note, escaped
    rounds = view.rounds()
    trees = [_tree(tree, number, view) for number, (_, tree) in enumerate(rounds)]
    model = {
        "gbtree_model_param": {"num_trees": str(len(trees)), "num_parallel_tree": "1"},
        "iteration_indptr": list(range(0, len(trees) + 1, view.n_outputs)),
        "tree_info": [output for output, _ in rounds],
        "trees": trees,
    }
    objective, parameters = _learner(target, view)
    learner = {
        "attributes": {"fastens": text_of(view.note)},
        "feature_names": view.note["names"] or [],
        "feature_types": ["float" if column.categories is None else "c" for column in view.columns],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": parameters,
        "objective": objective,
    }
    # XGBoost does not decode Unicode escapes, so non-ASCII letters are written unescaped.
    return json.dumps({"learner": learner, "version": [3, 0, 0]}, separators=(",", ":"), ensure_ascii=False)


def _learner(target: Target, view: ModelView) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the objective and the parameters of the learner."""
    is_share = target.link == "sigmoid" and target.classes is None
    name, parameters, base_score = _OBJECTIVES["share" if is_share else target.link]
    is_softmax = target.link == "softmax"
    if is_softmax:
        parameters = {"softmax_multiclass_param": {"num_class": str(view.n_outputs)}}
    return {"name": name, **parameters}, {
        "base_score": base_score,
        "boost_from_average": "1",
        "num_class": str(view.n_outputs if is_softmax else 0),
        "num_feature": str(len(view.columns)),
        "num_target": str(1 if is_softmax else view.n_outputs),
    }


def _tree(tree: FlatTree, number: int, view: ModelView) -> dict[str, Any]:
    by_set = np.zeros(len(tree.left), dtype=bool)
    by_set[list(tree.members)] = True
    # In XGBoost, members of a set go right and all others go left.
    left, right = np.where(by_set, tree.right, tree.left), np.where(by_set, tree.left, tree.right)
    order = _order(left.tolist(), right.tolist())
    place = np.argsort(order)
    is_leaf, by_set = tree.is_leaf[order], by_set[order]
    left, right = (np.where(is_leaf, -1, place[child[order]]) for child in (left, right))
    parents = np.full(len(left), _NO_PARENT)
    parents[left[~is_leaf]] = parents[right[~is_leaf]] = np.flatnonzero(~is_leaf)
    value = tree.value[order, 0] / view.divisor
    sets = {node: tree.members[order[node]].tolist() for node in np.flatnonzero(by_set).tolist()}
    # XGBoost does not accept empty sets, so a set without members becomes a threshold of infinity.
    condition = np.where(by_set, np.inf, _above(tree.threshold[order]))
    nodes = [node for node, members in sets.items() if members]
    condition[nodes] = 0.0
    is_set = np.isin(np.arange(len(left)), nodes)
    sizes = [len(sets[node]) for node in nodes]
    return {
        "base_weights": _singles(value),
        "categories": [position for node in nodes for position in sets[node]],
        "categories_nodes": nodes,
        "categories_segments": (np.cumsum(sizes) - sizes).astype(int).tolist(),
        "categories_sizes": sizes,
        "default_left": (tree.missing_left[order] ^ by_set).astype(int).tolist(),
        "id": number,
        "left_children": left.tolist(),
        "loss_changes": _singles(tree.gain[order]),
        "parents": parents.tolist(),
        "right_children": right.tolist(),
        "split_conditions": _singles(np.where(is_leaf, value, condition)),
        "split_indices": np.where(is_leaf, 0, tree.feature[order]).tolist(),
        "split_type": is_set.astype(int).tolist(),
        "sum_hessian": _singles(tree.weight[order]),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(view.columns)),
            "num_nodes": str(len(left)),
            "size_leaf_vector": "1",
        },
    }


def _order(left: list[int], right: list[int]) -> list[int]:
    """Return the nodes in level order with each left child directly before its sibling, as XGBoost expects."""
    order = [0]
    for node in order:
        if left[node] >= 0:
            order += (left[node], right[node])
    return order


def _above(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the smallest float32 above each threshold, because XGBoost compares by ``<``."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    last = np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return np.nextafter(last, np.float32(np.inf))


def _singles(values: ArrayLike) -> list[float]:
    """Round numbers to the digits of float32 and clip them to its range."""
    found = np.clip(np.asarray(values, dtype=np.float64), -_LARGEST, _LARGEST).tolist()
    return [float(f"{value:.9g}") for value in found]

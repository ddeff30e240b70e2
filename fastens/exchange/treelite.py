"""Export to treelite's checkpoint format, version 4, with thresholds and leaf values in double precision."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView, text_of
from fastens.exchange.trees import FlatTrees

_VERSION = (4, 0, 0)
_DOUBLE = 3
_LEAF, _NUMERIC, _CATEGORICAL = 0, 1, 2
_AT_MOST = 3
_BINARY, _REGRESSOR, _CLASSIFIER = 0, 1, 2
_POSTPROCESSORS = {
    ("identity", 1): (_REGRESSOR, "identity"),
    ("exp", 1): (_REGRESSOR, "exponential"),
    ("sigmoid", 1): (_BINARY, "sigmoid"),
    ("shares", 1): (_BINARY, "identity"),
    ("shares", 2): (_CLASSIFIER, "identity_multiclass"),
    ("softmax", 2): (_CLASSIFIER, "softmax"),
}


def write(view: ModelView) -> bytes:
    """Return bytes for `treelite.Model.deserialize_bytes`. Categories become their positions."""
    target = view.only_target
    task, postprocessor = _task_and_postprocessor(target, view.n_outputs)
    # Regression has one class per target, and each tree belongs to one target.
    by_target = view.n_outputs > 1 and task == _REGRESSOR
    n_targets, n_classes = (view.n_outputs, [1] * view.n_outputs) if by_target else (1, [view.n_outputs])
    # Trees that only add 0 are left out, but one is kept because a model must have a tree.
    rounds = [(output, tree) for output, tree in view.rounds() if len(tree.left) > 1 or tree.value[0, 0]]
    rounds = rounds or view.rounds()[:1]
    outputs = np.array([output for output, _ in rounds], dtype=np.int32)
    zero = np.zeros_like(outputs)
    parts = [
        struct.pack("<iii", *_VERSION),
        struct.pack("<BBQ", _DOUBLE, _DOUBLE, len(rounds)),
        # The number of columns, the task, and True if the trees of an output are averaged.
        struct.pack("<iB?", len(view.columns), task, view.is_mean),
        struct.pack("<i", n_targets),
        _array(np.array(n_classes, dtype=np.int32)),
        _array(np.ones(2, dtype=np.int32)),
        _array(outputs if by_target else zero),
        _array(zero if by_target else outputs),
        _array(np.frombuffer(postprocessor.encode(), dtype=np.int8)),
        struct.pack("<ff", 1.0, 1.0),
        _array(np.zeros(n_targets * max(n_classes))),
        _array(np.frombuffer(json.dumps({"fastens": text_of(view.note)}).encode(), dtype=np.int8)),
        struct.pack("<i", 0),
    ]
    return b"".join([*parts, *(_tree(tree) for _, tree in rounds)])


def _task_and_postprocessor(target: LinkedTarget, n_outputs: int) -> tuple[int, str]:
    """Return treelite's code of the task and the name of the function from sums to predictions.

    Raises CannotHoldError for links that treelite does not have.
    """
    if target.classes is None and target.link == "identity":
        return _REGRESSOR, "identity"
    kind = (target.link, min(n_outputs, 2))
    if kind not in _POSTPROCESSORS:
        raise CannotHoldError(f"predictions with the link {target.link!r}")
    task, postprocessor = _POSTPROCESSORS[kind]
    return (_REGRESSOR if target.classes is None else task), postprocessor


def _array(values: NDArray[Any]) -> bytes:
    """Return an array in treelite's binary format: its length, then its values."""
    return struct.pack("<Q", len(values)) + values.tobytes()


def _tree(tree: FlatTrees) -> bytes:
    """Return a tree in treelite's binary format."""
    n_nodes, is_leaf = len(tree.left), tree.is_leaf
    kind = np.where(is_leaf, _LEAF, _NUMERIC).astype(np.int8)
    kind[list(tree.sets)] = _CATEGORICAL
    # The categories of all nodes are concatenated.
    counts = np.zeros(n_nodes, dtype=np.uint64)
    for node, members in tree.sets.items():
        counts[node] = len(members)
    ends = np.cumsum(counts, dtype=np.uint64)
    lists = np.concatenate([np.zeros(0, np.int64), *(tree.sets[node] for node in sorted(tree.sets))])
    no_vectors = np.zeros(n_nodes, dtype=np.uint64)
    present = np.ones(n_nodes, dtype=np.bool_)
    arrays: list[NDArray[Any]] = [
        kind,
        tree.left.astype(np.int32),
        tree.right.astype(np.int32),
        np.where(is_leaf, -1, tree.feature).astype(np.int32),
        tree.missing_left.astype(np.bool_),
        np.where(is_leaf, tree.value[:, 0], 0.0),
        np.where(kind == _NUMERIC, tree.threshold, 0.0),
        np.where(kind == _NUMERIC, _AT_MOST, 0).astype(np.int8),
        np.zeros(n_nodes, dtype=np.bool_),  # the listed categories go left
        np.zeros(0),
        no_vectors,
        no_vectors,
        lists.astype(np.uint32),
        ends - counts,
        ends,
        tree.n_samples.astype(np.uint64),
        present,
        tree.weight,
        present,
        tree.gain,
        present,
    ]
    head = struct.pack("<i?", n_nodes, bool(tree.sets))
    return head + b"".join(map(_array, arrays)) + struct.pack("<ii", 0, 0)

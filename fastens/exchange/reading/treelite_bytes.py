"""Reader of treelite's serialised models, version 4 of the format."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import SINGLE
from fastens.exchange.reading.notes import note_in
from fastens.exchange.reading.records import (
    CodeSet,
    Columns,
    ForeignModel,
    Outputs,
    at_most,
    less_than,
    refuse,
    set_codes,
    sum_of_trees,
    whole_number,
)

_LESS, _AT_MOST = 2, 3
_LEAF, _NUMBER, _CATEGORY = range(3)
_SINGLE = 2
_KINDS = {_SINGLE: "<f4", 3: "<f8"}
_BINARY, _REGRESSOR, _MULTICLASS, _RANKING, _ISOLATION = range(5)


class _Bytes:
    """A reader of consecutive numbers and arrays."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def some(self, kind: str, n: int) -> NDArray[Any]:
        size = n * np.dtype(kind).itemsize
        if n < 0 or self.at + size > len(self.content):
            raise refuse("treelite's bytes must not end within a value; they are truncated or damaged")
        self.at += size
        return np.frombuffer(self.content, dtype=kind, count=n, offset=self.at - size)

    def one(self, kind: str) -> Any:
        return self.some(kind, 1)[0].item()

    def array(self, kind: str, size: int | None = None) -> NDArray[Any]:
        n = self.one("<u8")
        if size is not None and n != size:
            raise refuse(f"an array of treelite's bytes must have {size} entries; it has {n}")
        return self.some(kind, n)

    def text(self) -> str:
        return self.array("<u1").tobytes().decode("ascii", errors="replace")

    def skip_options(self) -> None:
        if self.one("<i4"):
            raise refuse("treelite's bytes have optional fields, which are not known here")


def begins_as_treelite(content: bytes) -> bool:
    """Return True if a file begins like a treelite 4 model."""
    if len(content) < 14:
        return False
    head = np.frombuffer(content, dtype="<i4", count=3)
    return bool(head[0] == 4 and 0 <= head[1] < 100 and 0 <= head[2] < 1000 and content[12] in _KINDS)


def read_treelite(content: bytes) -> ForeignModel:
    """Read the output of `Model.serialize_bytes`."""
    data = _Bytes(content)
    major = data.some("<i4", 3)[0]
    kinds = data.some("<u1", 2).tolist()
    if major != 4 or kinds[0] != kinds[1] or kinds[0] not in _KINDS:
        raise refuse("treelite's bytes must be of version 4, with values of float32 or float64")
    n_trees = whole_number(data.one("<u8"), "the number of trees", 1, len(content))
    n_features = whole_number(data.one("<i4"), "the number of columns", 1)
    task, averages = data.one("<u1"), bool(data.one("<u1"))
    n_targets = whole_number(data.one("<i4"), "the number of targets", 1, 2**16)
    n_classes = data.array("<i4", n_targets)
    shape = data.array("<i4", 2)
    target, class_id = data.array("<i4", n_trees), data.array("<i4", n_trees)
    link, alpha, ratio = data.text(), data.one("<f4"), data.one("<f4")
    base = data.array("<f8")
    attributes = data.text()
    data.skip_options()
    width = int(shape[0]) * int(shape[1])
    if not (shape >= 1).all() or width > len(content) or not ((n_classes >= 1) & (n_classes <= 2**16)).all():
        raise refuse("the shapes of treelite's leaves and classes must be positive")
    most = int(n_classes.max())
    parts = [_tree(data, _KINDS[kinds[0]], width) for _ in range(n_trees)]
    if data.at != len(content):
        raise refuse("treelite's bytes must end with the last tree")
    columns = Columns(n_features, code_rule=SINGLE if kinds[0] == _SINGLE else 0)
    set_codes(parts, columns)
    output = np.zeros(n_trees, np.int64) if width > 1 else np.maximum(target, 0) * most + np.maximum(class_id, 0)
    if width > 1 and n_targets > 1 and most > 1 and (n_classes != most).any():
        raise refuse("several targets must have the same number of classes")
    outputs = Outputs(
        n_outputs=n_targets * most,
        n_targets=n_targets,
        averages=averages,
        baseline=base.tolist(),
        is_classifier=task in (_BINARY, _MULTICLASS),
        is_ranking=task == _RANKING,
        link=link if task != _ISOLATION else "isolation",
        alpha=ratio if task == _ISOLATION else alpha,
    )
    return sum_of_trees(parts, output, columns, outputs, _note(attributes))


def _note(attributes: str) -> dict[str, Any] | None:
    """Return the note of `export` from the attributes, which are JSON or empty."""
    try:
        found = json.loads(attributes or "{}")
    except (ValueError, RecursionError) as error:
        raise refuse("treelite's attributes must be JSON") from error
    return note_in(found.get("fastens")) if isinstance(found, dict) else None


def _tree(data: _Bytes, kind: str, width: int) -> dict[str, Any]:
    n_nodes = whole_number(data.one("<i4"), "the number of nodes", 1, len(data.content))
    data.one("<u1")
    node_type, left, right = data.array("<i1", n_nodes), data.array("<i4", n_nodes), data.array("<i4", n_nodes)
    feature, default_left = data.array("<i4", n_nodes), data.array("<u1", n_nodes)
    leaf_value, threshold = data.array(kind, n_nodes), data.array(kind, n_nodes)
    compare, list_right = data.array("<i1", n_nodes), data.array("<u1", n_nodes)
    vectors, begin, end = data.array(kind), data.array("<u8", n_nodes), data.array("<u8", n_nodes)
    codes, code_begin, code_end = data.array("<u4"), data.array("<u8", n_nodes), data.array("<u8", n_nodes)
    counts, _ = data.array("<u8"), data.array("<u1")
    weight, _ = data.array("<f8"), data.array("<u1")
    gain, _ = data.array("<f8"), data.array("<u1")
    data.skip_options()
    data.skip_options()
    is_number = node_type == _NUMBER
    if not np.isin(node_type, (_LEAF, _NUMBER, _CATEGORY)).all():
        raise refuse("a node of treelite must be a leaf, or a split of numbers or categories")
    if not np.isin(compare[is_number], (_LESS, _AT_MOST)).all():
        raise refuse("the splits of treelite must compare by < or <=")
    is_leaf = node_type == _LEAF
    sets = {
        node: CodeSet(_part(codes, code_begin[node], code_end[node]), is_left=not list_right[node])
        for node in np.flatnonzero(node_type == _CATEGORY).tolist()
    }
    count = np.array(counts, dtype=np.float64) if len(counts) == n_nodes else None
    return {
        "left": np.where(is_leaf, -1, left),
        "right": np.where(is_leaf, -1, right),
        "feature": np.where(is_leaf, 0, feature).astype(np.int64),
        "threshold": np.where(is_number, _threshold(threshold, compare, kind), 0.0),
        "missing_left": default_left > 0,
        "value": _values(leaf_value, vectors, (begin, end), is_leaf, width),
        "n_samples": np.zeros(n_nodes) if count is None else count,
        "weight": np.array(weight) if len(weight) == n_nodes else np.zeros(n_nodes) if count is None else count,
        "gain": np.array(gain) if len(gain) == n_nodes else np.zeros(n_nodes),
        "code_sets": sets,
    }


def _threshold(threshold: NDArray[Any], compare: NDArray[Any], kind: str) -> NDArray[np.float64]:
    is_less = compare == _LESS
    if kind == "<f4":
        return np.where(is_less, less_than(threshold), at_most(threshold))
    return np.where(is_less, np.nextafter(threshold, -np.inf), threshold)


def _part(codes: NDArray[Any], begin: int, end: int) -> NDArray[np.int64]:
    if not 0 <= begin <= end <= len(codes):
        raise refuse("the categories of a split must lie within those of the tree")
    return codes[int(begin) : int(end)].astype(np.int64)


def _values(
    value: NDArray[Any], vectors: NDArray[Any], bounds: tuple[Any, Any], is_leaf: NDArray[np.bool_], width: int
) -> NDArray[np.float64]:
    if width == 1:
        return np.where(is_leaf, value, 0.0)[:, None]
    begin, end = (np.where(is_leaf, side, 0).astype(np.int64) for side in bounds)
    if (end[is_leaf] - begin[is_leaf] != width).any() or (end > len(vectors)).any() or (begin < 0).any():
        raise refuse(f"a leaf must have {width} values")
    places = np.where(is_leaf, begin, 0)[:, None] + np.arange(width)
    found = vectors[places] if len(vectors) >= width else np.zeros((len(value), width))
    return np.where(is_leaf[:, None], found, 0.0).astype(np.float64)

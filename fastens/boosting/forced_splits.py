"""Splits that every tree of boosting makes first: from nested dicts or JSON files to arrays for the growth kernels."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.grow.growth import ColumnLookup, ForcedNodes
from fastens.table.columns.dates import date_of, elapsed_days

_NAME = "growth.forced_splits"
_KEYS = {"feature", "threshold", "left", "right"}


class ForcedSplit(NamedTuple):
    """A split that every tree makes before other splits."""

    feature: int
    threshold: float  # rows up to it go left
    categories: list[int] | None  # positions of the categories that go left; None for a numeric feature
    children: list[int]  # indices of the forced splits of the left and the right child, or -1


def forced_splits(model: Any) -> list[ForcedSplit]:
    """Return the model's forced splits from the root down, level by level; raise ValueError if one is invalid.

    Columns are resolved to indices, and thresholds to numbers or category positions, which requires learned columns.
    """
    root_split = model.growth.forced_splits
    root_split = root_split if isinstance(root_split, Mapping) else _read_json(root_split)
    waiting, columns = [root_split], ColumnLookup(model.n_features_in_, model._encoder.names)
    splits = list[ForcedSplit]()
    for each in waiting:  # the loop appends children
        if not isinstance(each, Mapping) or not {"feature", "threshold"} <= each.keys() <= _KEYS:
            raise ValueError(
                f"{_NAME} must be nested dicts with the keys 'feature', 'threshold' and, optionally, 'left' and "
                f"'right'; got {each!r}."
            )
        column = columns.position(_NAME, each["feature"])
        children = [each.get(side) for side in ("left", "right")]
        child_indices = [
            -1 if not child else len(waiting) + sum(map(bool, children[:k])) for k, child in enumerate(children)
        ]
        waiting += filter(None, children)
        splits.append(ForcedSplit(column, *_left_side(model, column, each["threshold"]), child_indices))
    return splits


def _read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file with forced splits; raise ValueError if it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{_NAME} must be a dict or the path of a JSON file; got {str(path)!r} ({error}).") from error


def _left_side(model: Any, column: int, threshold: Any) -> tuple[float, list[int] | None]:
    """Return (threshold, None) for a numeric column, or (0, positions of the categories that go left).

    Raise ValueError for a threshold that does not match the kind of the column, or a column that cannot be split.
    """
    encoder, name = model._encoder, model._encoder.texts[column]
    if column in encoder.expanded or (model._statistics is not None and column in model._statistics.columns):
        raise ValueError(
            f"{_NAME} must not split texts, lists or target-encoded categories; got column {name!r}. For categories, "
            "use Categories(encoding='partition')."
        )
    categories = encoder.categories[column]
    if categories is not None:
        # Categories may also be listed by a column of a data frame.
        threshold = np.asarray(threshold).tolist() if hasattr(threshold, "__array__") else threshold
        listed = list(threshold) if isinstance(threshold, list | tuple | set | frozenset) else [threshold]
        is_ordered = column in encoder.ordered
        if not listed or not all(each in categories for each in listed) or (len(listed) > 1 and is_ordered):
            rule = "one category, the last that goes left," if is_ordered else "categories"
            raise ValueError(f"{_NAME} must have {rule} of column {name!r} as a threshold; got {threshold!r}.")
        positions = [categories.index(each) for each in listed]
        return (positions[0] + 0.5, None) if is_ordered else (0.0, positions)
    number = math.nan
    with suppress(OverflowError, TypeError, ValueError):
        if column in encoder.dates:
            number = float(elapsed_days(date_of(threshold)))
        elif isinstance(threshold, numbers.Real):
            number = float(threshold)
    if not math.isfinite(number):
        kind = "dates" if column in encoder.dates else "finite numbers"
        raise ValueError(f"{_NAME} must have {kind} as thresholds of column {name!r}; got {threshold!r}.")
    return number, None


def with_forced_edges(splits: list[ForcedSplit], binning: Binning, max_bins: int | NDArray[np.int32]) -> Binning:
    """Return the binning with the forced thresholds added to the bin edges.

    In features that would then exceed `max_bins`, they replace the nearest edges.
    """
    thresholds = list(binning.thresholds)
    max_edges = np.broadcast_to(max_bins, binning.n_features) - 1
    for feature in {split.feature for split in splits if split.categories is None}:
        forced = np.unique([split.threshold for split in splits if split.feature == feature])
        learned = np.setdiff1d(thresholds[feature], forced)
        for edge in np.setdiff1d(forced, thresholds[feature]):
            if len(learned) and len(learned) + len(forced) > max_edges[feature]:
                learned = np.delete(learned, np.abs(learned - edge).argmin())
        thresholds[feature] = np.union1d(learned, forced)
    return binning.with_thresholds(thresholds)


def forced_nodes(splits: list[ForcedSplit], binning: Binning) -> ForcedNodes:
    """Return the splits on bin codes, with thresholds at the nearest bin edges.

    A row of the first array has the feature, the last code that goes left, the position in the second array of its set
    of category codes that go left, and the indices of the forced splits of both children; -1 means none. The second
    array holds the sets of codes as bits of 32-bit words.
    """
    nodes, words = np.full((len(splits), 5), -1, dtype=np.int32), [np.zeros(1, dtype=np.uint32)]
    for row, (feature, threshold, categories, children) in zip(nodes, splits, strict=True):
        limits, codes, row[3:] = binning.thresholds[feature], binning.category_codes[feature], children
        if codes is not None:
            is_left = np.zeros(-(-int(binning.n_codes[feature]) // 32) * 32, dtype=bool)
            is_left[codes[categories]] = True
            row[:3] = feature, 0, sum(map(len, words))
            words.append(np.packbits(is_left, bitorder="little").view("<u4").astype(np.uint32))
        elif len(limits):  # a feature with a single bin cannot be split
            row[:2] = feature, 1 + np.abs(limits - threshold).argmin()
    return nodes, np.concatenate(words)

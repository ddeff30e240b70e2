"""Reader of LightGBM models in text format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import TOWARD_ZERO
from fastens.exchange.reading.notes import note_in
from fastens.exchange.reading.records import (
    CLASSIFIER,
    RANKER,
    REGRESSOR,
    Columns,
    ForeignModel,
    Line,
    join_trees,
    refuse,
    with_vectors,
)
from fastens.params.options import TweedieLoss


@dataclass(frozen=True)
class Objective:
    """The counterpart of a LightGBM objective.

    Attributes
    ----------
    estimator : str
        The class of the estimator.
    parameters : dict
        The parameters of the estimator.
    classes : array or None
        The classes of the estimator; None for regressors.
    n_outputs : int
        The number of raw predictions per row.
    scale : float
        The factor of the leaf values.
    """

    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    classes: Any = None
    n_outputs: int = 1
    scale: float = 1.0


# Losses with the same kind of prediction. Other objectives have no counterpart and predict raw values by another loss.
_NUMBERS: dict[str, Any] = {
    "regression": "squared_error",
    "regression_l2": "squared_error",
    "regression_l1": "absolute_error",
    "mape": "absolute_error",
    "huber": "huber",
    "fair": "log_cosh",
    "poisson": "poisson",
    "gamma": "gamma",
    "cross_entropy": "cross_entropy",
    "cross_entropy_lambda": "cross_entropy_lambda",
}


def objective_of(text: str, per_round: int) -> Objective:
    """Return the counterpart of an objective from a model's header.

    Parameters
    ----------
    text : str
        The objective, such as ``"binary sigmoid:1"``, or "" for a custom objective.
    per_round : int
        The number of trees per round.
    """
    name, *given = text.split(" ")
    options = dict(word.partition(":")[::2] for word in given)
    if "sqrt" in options:  # reg_sqrt applies to all variants of "regression"
        return Objective(REGRESSOR, {"loss": "squared_error_of_root"})
    if name in _NUMBERS:
        return Objective(REGRESSOR, {"loss": _NUMBERS[name]})
    if name == "quantile":
        return Objective(REGRESSOR, {"loss": "quantile", "quantile": _number(options.get("alpha", "0.9"))})
    if name == "tweedie":
        return Objective(REGRESSOR, {"loss": _tweedie(_number(options.get("tweedie_variance_power", "1.5")))})
    if name == "binary":
        return Objective(CLASSIFIER, classes=np.arange(2), scale=_number(options.get("sigmoid", "1")))
    return _several_or_ranking(name, text, options, per_round)


def _tweedie(power: float) -> Any:
    return TweedieLoss(variance_power=power) if 1 < power < 2 else "gamma" if power == 2 else "poisson"


def _several_or_ranking(name: str, text: str, options: Mapping[str, str], per_round: int) -> Objective:
    if name in ("multiclass", "multiclassova"):
        if options.get("num_class") != str(per_round):
            raise refuse(f"num_class must be the {per_round} trees in a round; got {options.get('num_class')!r}")
        loss, scale = ("log_loss", 1.0)
        if name == "multiclassova":
            loss, scale = "one_vs_rest", _number(options.get("sigmoid", "1"))
        return Objective(CLASSIFIER, {"loss": loss}, np.arange(per_round), per_round, scale)
    if name in ("lambdarank", "rank_xendcg"):
        return Objective(RANKER)
    if name in ("", "custom", "none"):
        return Objective(REGRESSOR, {"loss": "squared_error"}, n_outputs=per_round)
    raise refuse(f"the objective {text[:60]!r} is none that LightGBM has")


def _number(text: str) -> float:
    if not re.fullmatch(r"[0-9.eE+-]{1,30}", text):
        raise refuse(f"an option of the objective must be a number; got {text[:40]!r}")
    try:
        found = float(text)
    except ValueError as error:
        raise refuse(f"an option of the objective must be a number; got {text!r}") from error
    if not found > 0:
        raise refuse(f"an option of the objective must be positive; got {text!r}")
    return found


_VERSIONS = ("v2", "v3", "v4")
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = range(3)
# LightGBM treats inputs with an absolute value up to this as 0 in prediction.
_TINY = float(np.float32(1e-35))
_DEFAULT_NAME = re.compile(r"Column_\d+")
_MAX_CODE = 60_000  # columns with larger codes are read as integer categories
_AFTER_TREES = re.compile(r"^(?=feature.importances:|parameters:|pandas_categorical:)", re.MULTILINE)
_CONSTANT = re.compile(r"^num_leaves=1[ \r]*$", re.MULTILINE)
_NEEDED = ("leaf_value", "split_feature", "threshold", "left_child", "right_child")
# Arrays with one entry per leaf or per split; absent arrays are read as zeros.
_OF_LEAVES = {"leaf_value": float, "leaf_weight": float, "leaf_count": np.int64}
_OF_SPLITS = {
    "split_feature": np.int64,
    "threshold": float,
    "decision_type": np.int64,
    "left_child": np.int64,
    "right_child": np.int64,
    "split_gain": float,
    "internal_count": np.int64,
}


def read_lightgbm(text: str) -> ForeignModel:
    """Read the output of `Booster.save_model`.

    Parameters
    ----------
    text : str
        The content of the file.
    """
    body, *after = re.split(r"^end of trees[ \r]*$", text, maxsplit=1, flags=re.MULTILINE)
    head, *blocks = re.split(r"^Tree=", body, flags=re.MULTILINE)
    header = _fields(head)
    if not after and header.get("version") == "v2" and blocks:
        # Early files of version 2 lack this line, but the section after the last tree begins with one of these names.
        blocks[-1], *after = _AFTER_TREES.split(blocks[-1], maxsplit=1)
        after = after or [""]
    if not after:
        raise refuse("a LightGBM model must have the line 'end of trees'; the text is truncated")
    tail = after[0]
    if header.get("version") not in _VERSIONS:
        raise refuse(f"the version of a LightGBM model must be one of {_VERSIONS}; got {header.get('version')!r}")
    _check_sizes(header, blocks)
    n_features = _whole(header, "max_feature_idx") + 1
    names = header.get("feature_names", "").split(" ")
    infos = header.get("feature_infos", "").split(" ")
    if len(names) != n_features or len(infos) != n_features:
        raise refuse(f"feature_names and feature_infos must have {n_features} entries; got {len(names)}, {len(infos)}")
    per_round = _whole(header, "num_tree_per_iteration", "num_class")
    parts = [_tree(block, number) for number, block in enumerate(blocks)]
    if per_round < 1 or len(parts) % per_round:
        raise refuse(f"{len(parts)} trees are not whole rounds of {per_round}")
    columns = Columns(n_features, None if all(map(_DEFAULT_NAME.fullmatch, names)) else names, code_rule=TOWARD_ZERO)
    _set_missing(parts, columns)
    _set_categories(parts, columns, infos, _pandas_categories(tail))
    objective = objective_of(header.get("objective", ""), per_round)
    found = _model(parts, columns, objective, per_round, averages="average_output" in header)
    found.note = note_in(header.get("fastens"))
    return found


def read_booster(booster: Any) -> ForeignModel:
    """Read a Booster or a scikit-learn estimator of LightGBM, up to its best iteration if it has one."""
    fitted = getattr(booster, "booster_", booster)
    found = read_lightgbm(fitted.model_to_string())
    classes = getattr(booster, "classes_", None)
    if classes is not None and found.classes is not None and len(classes) == len(found.classes):
        found.classes = np.asarray(classes)
    return found


def _fields(block: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.splitlines():
        key, _, value = line.partition("=")
        if key in found:
            raise refuse(f"{key!r} must be there once; it is there twice")
        if key:
            found[key] = value
    return found


def _whole(fields: Mapping[str, str], *names: str) -> int:
    """Return the value of the first of these fields that is present, which must be an integer."""
    for name in names:
        if name in fields:
            if not re.fullmatch(r"\d{1,9}", fields[name]):
                raise refuse(f"{name} must be a whole number; got {fields[name][:40]!r}")
            return int(fields[name])
    raise refuse(f"a LightGBM model must have {names[0]}")


def _check_sizes(header: Mapping[str, str], blocks: list[str]) -> None:
    """Compare the trees with the sizes in the header, if it has any."""
    if "tree_sizes" not in header:
        return
    sizes = header["tree_sizes"].split()
    found = [str(len(f"Tree={block}".encode())) for block in blocks]
    # The header that LightGBM writes has a wrong size for constant trees.
    pairs = zip(sizes, found, blocks, strict=False)
    if len(sizes) != len(found) or any(size != own and not _CONSTANT.search(block) for size, own, block in pairs):
        raise refuse(f"tree_sizes tells of {len(sizes)} trees that are not the {len(found)} of the text")


def _numbers(fields: Mapping[str, str], name: str, kind: Any, n: int) -> NDArray[Any]:
    """Return a field of `n` numbers, or zeros if the field is absent."""
    words = fields.get(name, "").split()
    if not words:
        return np.zeros(n, dtype=kind)
    try:
        found = np.array(words, dtype=kind)
    except (ValueError, OverflowError) as error:
        raise refuse(f"{name} must hold numbers; got {fields[name][:40]!r}") from error
    if len(found) != n:
        raise refuse(f"{name} must have {n} entries; got {len(found)}")
    return found


def _tree(block: str, number: int) -> dict[str, Any]:
    """Read a tree, with inner nodes before leaves."""
    first, _, rest = block.partition("\n")
    if first.strip() != str(number):
        raise refuse(f"tree {number} must follow tree {number - 1}; got tree {first.strip()[:20]!r}")
    fields = _fields(rest)
    n_leaves, n_sets = _whole(fields, "num_leaves"), _whole(fields, "num_cat")
    n_splits = n_leaves - 1
    if not 1 <= n_leaves <= len(block) or n_sets > len(block):
        raise refuse(f"tree {number} must have as many leaves and sets as it says")
    leaves = {name: _numbers(fields, name, kind, n_leaves) for name, kind in _OF_LEAVES.items()}
    splits = {name: _numbers(fields, name, kind, n_splits) for name, kind in _OF_SPLITS.items()}
    missing = [name for name in _NEEDED if name not in fields and (n_splits or name == "leaf_value")]
    if missing:
        raise refuse(f"tree {number} must have {missing[0]}")
    out: dict[str, Any] = {"sets": {}, "lines": {}}
    for name in ("left", "right"):
        child = splits[f"{name}_child"]
        if ((child >= n_splits) | (~child >= n_leaves)).any():
            raise refuse(f"{name}_child of tree {number} names nodes that are not there")
        # LightGBM refers to leaf i as ~i; here leaves follow the splits.
        out[name] = np.append(np.where(child < 0, n_splits + ~child, child), np.full(n_leaves, -1))
    of_leaves = np.zeros(n_leaves, np.int64)
    out["feature"] = np.append(splits["split_feature"], of_leaves)
    out["threshold"] = np.append(splits["threshold"], of_leaves)
    out["gain"] = np.append(splits["split_gain"], of_leaves)
    out["decision"] = np.append(splits["decision_type"], of_leaves)
    out["value"] = np.append(np.zeros(n_splits), leaves["leaf_value"])
    out["n_samples"] = np.append(splits["internal_count"], leaves["leaf_count"])
    out["weight"] = out["n_samples"].astype(float)
    _check_counts(out, number, n_splits)
    _add_sets(out, fields, n_sets, n_splits)
    if fields.get("is_linear") == "1":
        _add_lines(out, fields, n_leaves, n_splits)
    return out


def _check_counts(tree: Mapping[str, Any], number: int, n_splits: int) -> None:
    """Raise ModelFileError unless each split has as many rows as its children together."""
    counts, left, right = tree["n_samples"], tree["left"][:n_splits], tree["right"][:n_splits]
    if (counts[:n_splits] != counts[left] + counts[right]).any():
        raise refuse(f"internal_count and leaf_count of tree {number} do not fit together")


def _add_sets(tree: dict[str, Any], fields: Mapping[str, str], n_sets: int, n_splits: int) -> None:
    """Add the sets of categories that go left."""
    nodes = np.flatnonzero(tree["decision"][:n_splits] & _CATEGORICAL)
    if not len(nodes):
        return
    bounds = _numbers(fields, "cat_boundaries", np.int64, n_sets + 1)
    n_words = min(int(bounds[-1]), len(fields.get("cat_threshold", "")))
    words = _numbers(fields, "cat_threshold", np.int64, max(n_words, 0))
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] != len(words):
        raise refuse("cat_boundaries and cat_threshold must describe the sets of categories")
    if ((words < 0) | (words >= 2**32)).any():
        raise refuse("cat_threshold must hold words of 32 bits")
    index = tree["threshold"][nodes]
    if not ((index >= 0) & (index < n_sets) & (index == np.floor(index))).all():
        raise refuse("the threshold of a split by categories must be the number of its set")
    for node, k in zip(nodes.tolist(), index.astype(int).tolist(), strict=True):
        own = words[bounds[k] : bounds[k + 1]].astype("<u4")
        tree["sets"][node] = np.flatnonzero(np.unpackbits(own.view(np.uint8), bitorder="little"))
    tree["threshold"][nodes] = 0.0


def _add_lines(tree: dict[str, Any], fields: Mapping[str, str], n_leaves: int, n_splits: int) -> None:
    """Add the linear models of the leaves."""
    constants, counts = (
        _numbers(fields, name, kind, n_leaves) for name, kind in (("leaf_const", float), ("num_features", np.int64))
    )
    if "leaf_const" not in fields or (counts < 0).any():
        raise refuse("linear leaves must have leaf_const and num_features")
    total = min(int(counts.sum()), len(fields.get("leaf_features", "")))
    features = _numbers(fields, "leaf_features", np.int64, total)
    slopes = _numbers(fields, "leaf_coeff", float, total)
    if total != counts.sum() or not ("leaf_coeff" in fields or total == 0):
        raise refuse("linear leaves must have leaf_features and leaf_coeff")
    ends = np.cumsum(counts)
    for leaf in range(n_leaves):
        terms = slice(ends[leaf] - counts[leaf], ends[leaf])
        if counts[leaf]:
            line = Line(float(constants[leaf]), features[terms].tolist(), slopes[terms].tolist())
            tree["lines"][n_splits + leaf] = line
        else:
            tree["value"][n_splits + leaf] = constants[leaf]


def _set_missing(parts: list[dict[str, Any]], columns: Columns) -> None:
    """Set the direction of missing values and the columns in which zeros are missing."""
    kinds: dict[int, set[int]] = {}
    for tree in parts:
        decision, inner = tree.pop("decision"), tree["left"] >= 0
        is_set = (decision & _CATEGORICAL) > 0
        kind, default = (decision >> 2) & 3, (decision & _DEFAULT_LEFT) > 0
        numeric = inner & ~is_set
        threshold = tree["threshold"]
        tree["threshold"] = np.where(
            np.abs(threshold) > _TINY, threshold, np.where(threshold < 0, np.nextafter(-_TINY, -1), _TINY)
        )
        for feature, own in set(zip(tree["feature"][numeric].tolist(), kind[numeric].tolist(), strict=True)):
            kinds.setdefault(feature, set()).add(own)
        # If there were no missing values in training, LightGBM treats NaN as 0.
        tree["missing_left"] = np.where(kind == _NONE, threshold >= 0, default) & numeric
        if set(tree["sets"]) != set(np.flatnonzero(inner & is_set).tolist()):
            raise refuse("a split by categories must have its set")
    columns.zero_is_missing = sorted(column for column, found in kinds.items() if _ZERO in found)
    mixed = [column for column in columns.zero_is_missing if kinds[column] != {_ZERO}]
    if mixed or 3 in set().union(*kinds.values()):
        raise refuse(f"zeros of a column must be missing in all its splits, or in none; columns {mixed} mix both")


def _pandas_categories(tail: str) -> list[list[Any]]:
    """Return the categories of pandas columns, in the order of the columns."""
    found = re.search(r"^pandas_categorical:(.*)$", tail, flags=re.MULTILINE)
    if found is None:
        return []
    try:
        lists = json.loads(found[1])
    except ValueError as error:
        raise refuse("pandas_categorical must be JSON") from error
    if lists is None:
        return []
    if not isinstance(lists, list) or not all(isinstance(own, list) for own in lists):
        raise refuse("pandas_categorical must be a list of lists")
    return lists


def _set_categories(parts: list[dict[str, Any]], columns: Columns, infos: list[str], named: list[list[Any]]) -> None:
    """Set the categories of categorical columns, by value if the model stores the values."""
    largest: dict[int, int] = {}
    for tree in parts:
        for node, positions in tree["sets"].items():
            column = int(tree["feature"][node])
            largest[column] = max(largest.get(column, 0), int(positions.max(initial=0)))
    if not named:
        columns.n_codes = {column: most + 1 for column, most in largest.items() if most <= _MAX_CODE}
        _set_sparse_codes(parts, columns, [column for column, most in largest.items() if most > _MAX_CODE])
        return
    # LightGBM treats ordered categories as numbers and drops constant columns, so some lists do not belong to a
    # categorical column.
    candidates = [c for c, info in enumerate(infos) if ":" in info and not info.startswith("[")]
    needed = {c: max(largest.get(c, 0), *map(int, _codes(infos[c]))) for c in candidates}
    needed |= {c: most for c, most in largest.items() if c not in needed}
    found = [
        chosen
        for chosen in _choices(len(named), len(needed))
        if all(len(named[i]) > needed[c] for i, c in zip(chosen, sorted(needed), strict=True))
    ]
    if len(found) != 1:
        raise refuse(
            f"pandas_categorical has the categories of {len(named)} columns, and it is not known which of them are "
            f"those of the {len(needed)} columns that the trees split by categories; train on categories without order"
        )
    for i, column in zip(found[0], sorted(needed), strict=True):
        columns.categories[column] = named[i]
        columns.coded.append(column)


def _set_sparse_codes(parts: list[dict[str, Any]], columns: Columns, large: list[int]) -> None:
    """Set the categories of columns with large codes to those in sets; LightGBM sends all others to the right."""
    for column in large:
        own = [(tree["sets"], node) for tree in parts for node in tree["sets"] if tree["feature"][node] == column]
        codes = np.unique(np.concatenate([sets[node] for sets, node in own]))
        for sets, node in own:
            sets[node] = np.searchsorted(codes, sets[node])
        columns.categories[column] = codes.tolist()
        columns.sparse_codes.append(column)


def _codes(info: str) -> list[str]:
    return [code for code in info.split(":") if re.fullmatch(r"\d{1,9}", code)] or ["0"]


def _choices(n: int, k: int) -> list[tuple[int, ...]]:
    """Return all ways to assign lists to columns in order, or none if there are too many to try."""
    if k > n or (k < n and n > 20):
        return []
    return list(combinations(range(n), k))


def _model(
    parts: list[dict[str, Any]], columns: Columns, objective: Objective, per_round: int, *, averages: bool
) -> ForeignModel:
    if per_round != objective.n_outputs:
        raise refuse(f"{per_round} trees in a round do not fit an objective of {objective.n_outputs} outputs")
    factor, n_rounds = objective.scale, max(1, len(parts) // per_round)
    estimator = objective.estimator
    is_mean = averages and estimator == "GradientBoostingRegressor" and objective.parameters in ({}, _PLAIN)
    is_mean &= not any(tree["lines"] for tree in parts)
    trees = join_trees(parts, [number % per_round for number in range(len(parts))])
    if is_mean and per_round > 1:
        vectors = with_vectors(trees, per_round)
        trees, is_mean = (trees, False) if vectors is None else (vectors, True)
    if averages and not is_mean:
        factor /= n_rounds
    if factor != 1.0:
        trees.value = trees.value * factor
        for line in trees.lines.values():
            line.constant, line.slopes = line.constant * factor, [slope * factor for slope in line.slopes]
    return ForeignModel(
        estimator="RandomForestRegressor" if is_mean else estimator,
        parameters={} if is_mean else objective.parameters,
        trees=trees,
        columns=columns,
        baseline=[0.0] * per_round,
        classes=objective.classes,
        n_targets=per_round if objective.classes is None else 1,
    )


_PLAIN = {"loss": "squared_error"}

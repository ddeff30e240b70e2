"""Import of XGBoost's JSON and UBJSON formats, and export to JSON.

Splits of exported models are identical for X in single precision, which XGBoost uses throughout.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.bins.binning import SINGLE
from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView, text_of
from fastens.exchange.foreign import ARRAY_CODES
from fastens.exchange.records import (
    CLASSIFIER,
    RANKER,
    REGRESSOR,
    SURVIVAL,
    ModelColumns,
    Objective,
    array_of,
    less_than,
    no_hazard,
    note_in,
    number,
    part,
    read_feature_names,
    refuse,
    single,
    single_at_most,
    whole_number,
)
from fastens.exchange.trees import FlatTrees, ForeignModel, join_trees, set_codes
from fastens.params.options import AFTLoss, TweedieLoss

# Replacements of objectives without a counterpart: losses with the same kind of prediction.
_NUMBERS = {
    "reg:squarederror": "squared_error",
    "reg:linear": "squared_error",
    "reg:squaredlogerror": "squared_error",
    "reg:pseudohubererror": "huber",
    "reg:absoluteerror": "absolute_error",
    "reg:logistic": "cross_entropy",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
}
_TWO_CLASSES = ("binary:logistic", "binary:logitraw", "binary:hinge")
_RANKING = {"rank:pairwise": "pairwise", "rank:ndcg": "lambdarank", "rank:map": "map"}
_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


def objective_of(objective: dict[str, Any], settings: dict[str, Any]) -> Objective:
    """Return the counterpart of an objective.

    Parameters
    ----------
    objective : dict
        The objective in the file, with its name and options.
    settings : dict
        The `learner_model_param` of the file.

    Raises
    ------
    ModelFileError
        If the objective is unknown or its options are invalid.
    """
    name = str(objective.get("name"))
    n_targets = max(1, whole_number(settings.get("num_target", "1"), "num_target"))
    n_classes = whole_number(settings.get("num_class", "0"), "num_class")
    if name in _NUMBERS or name == "reg:tweedie":
        loss = _tweedie(objective) if name == "reg:tweedie" else _NUMBERS[name]
        return Objective(REGRESSOR, {"loss": loss}, n_targets, n_targets)
    if name in ("reg:quantileerror", "reg:expectileerror"):
        return _level_objective(name, objective, n_targets)
    if name in _TWO_CLASSES:
        classes: Any = np.arange(2) if n_targets == 1 else [np.arange(2)] * n_targets
        return Objective(CLASSIFIER, {}, n_targets, n_targets, classes)
    if name in ("multi:softprob", "multi:softmax") and n_classes > 1 and n_targets == 1:
        return Objective(CLASSIFIER, {}, n_classes, classes=np.arange(n_classes))
    if name in _RANKING:
        return Objective(RANKER, {"loss": _RANKING[name]})
    return _survival_objective(name, objective)


def _survival_objective(name: str, objective: dict[str, Any]) -> Objective:
    """Return the counterpart of a Cox or AFT objective; raise ModelFileError for all other objectives."""
    if name == "survival:cox":
        return Objective(SURVIVAL, {"loss": "cox"}, fitted=no_hazard())
    if name == "survival:aft":
        options = objective.get("aft_loss_param", {})
        kind = options.get("aft_loss_distribution", "normal")
        if kind not in ("normal", "logistic", "extreme"):
            raise refuse(f"aft_loss_distribution must be one that XGBoost supports; got {str(kind)[:40]!r}")
        scale = number(options.get("aft_loss_distribution_scale", "1"), "aft_loss_distribution_scale")
        return Objective(SURVIVAL, {"loss": AFTLoss(distribution=kind, scale=scale)})
    raise refuse(
        f"XGBoost does not have the objective {name[:60]!r}, or the objective does not match the number of classes"
    )


def _tweedie(objective: dict[str, Any]) -> Any:
    """Return the counterpart of a Tweedie objective; Poisson loss if its variance power is not between 1 and 2."""
    options = objective.get("tweedie_regression_param", {})
    power = number(options.get("tweedie_variance_power", "1.5"), "tweedie_variance_power")
    return TweedieLoss(variance_power=power) if 1 < power < 2 else "poisson"


def _level_objective(name: str, objective: dict[str, Any], n_targets: int) -> Objective:
    """Return the objective of quantile or expectile regression, by its XGBoost name, for one or several levels.

    Raises ModelFileError for invalid levels, or if there are not `n_targets` levels.
    """
    kind = name.removeprefix("reg:").removesuffix("error")
    options = objective.get(f"{kind}_loss_param") or {}
    text = str(options.get(f"{kind}_alpha", "[]")).replace("(", "[").replace(")", "]")
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise refuse(f"{kind}_alpha must be a list of numbers; got {text[:40]!r}") from error
    levels = [number(level, f"{kind}_alpha") for level in (parsed if isinstance(parsed, list) else [parsed])]
    if not levels or any(not 0 < level < 1 for level in levels):
        raise refuse(f"{kind}_alpha must hold levels between 0 and 1; got {text[:40]!r}")
    if n_targets not in (1, len(levels)):
        raise refuse(f"{kind}_alpha must have {n_targets} levels; got {text[:40]!r}")
    return Objective(REGRESSOR, {"loss": kind, "quantile": levels[0] if len(levels) == 1 else levels}, len(levels))


_NUMBER_TYPES = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_MAX_LEVELS = 100


def read_ubjson(content: bytes) -> Any:
    """Parse UBJSON, with typed arrays as NumPy arrays.

    Raises
    ------
    ModelFileError
        If the content is malformed or truncated.
    """
    reader = _Reader(content)
    value = reader.value(reader.mark(), 0)
    if reader.at != len(content):
        raise refuse("UBJSON must end after its value; the file continues")
    return value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, n: int) -> bytes:
        """Return the next n bytes and move past them; raise ModelFileError if the content is too short."""
        if n < 0 or self.at + n > len(self.content):
            raise refuse("UBJSON must not end within a value; the file is truncated or damaged")
        self.at += n
        return self.content[self.at - n : self.at]

    def mark(self) -> str:
        """Read the next type marker, a character; no-op markers are skipped."""
        mark = self.take(1)
        while mark == b"N":
            mark = self.take(1)
        return mark.decode("latin-1")

    def value(self, mark: str, level: int) -> Any:
        """Read a value whose type marker, `mark`, has been read; `level` is its depth of nesting.

        Raises ModelFileError for unknown types and too deep nesting.
        """
        if level > _MAX_LEVELS:
            raise refuse("UBJSON must not be nested so deeply")
        if mark in _NUMBER_TYPES:
            return self.numbers(mark, 1)[0].item()
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark in "SH":
            return self.text()
        if mark == "C":
            return self.take(1).decode("latin-1")
        if mark == "{":
            return self.members(level)
        if mark == "[":
            return self.items(level)
        raise refuse(f"UBJSON must not have a value of type {mark!r}; the file is damaged")

    def numbers(self, mark: str, n: int) -> np.ndarray:
        """Read n numbers of the type with the marker `mark`, as an array in native byte order."""
        kind = np.dtype(_NUMBER_TYPES[mark])
        return np.frombuffer(self.take(n * kind.itemsize), dtype=kind).astype(kind.newbyteorder("="))

    def size(self) -> int:
        """Read the number of items or bytes of a value; raise ModelFileError unless it is an integer."""
        mark = self.mark()
        if mark not in "iUIlL":
            raise refuse("the size of a UBJSON value must be a whole number; the file is damaged")
        return int(self.numbers(mark, 1)[0])

    def text(self) -> str:
        """Read a string."""
        try:
            return self.take(self.size()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise refuse("a UBJSON string must be UTF-8; the file is damaged") from error

    def members(self, level: int) -> dict[str, Any]:
        """Read an object after its opening brace, at depth `level`; raise ModelFileError if a name occurs twice."""
        members: dict[str, Any] = {}
        left = self.size() if self.skip("#") else -1
        while left != 0 and not (left < 0 and self.skip("}")):
            name = self.text()
            if name in members:
                raise refuse(f"{name!r} occurs twice")
            members[name] = self.value(self.mark(), level + 1)
            left -= 1
        return members

    def items(self, level: int) -> Any:
        """Read an array after its opening bracket, at depth `level`; typed arrays become NumPy arrays."""
        if self.skip("$"):
            mark = self.mark()
            if mark not in _NUMBER_TYPES or not self.skip("#"):
                raise refuse("a typed UBJSON array must have a size and hold numbers; the file is damaged")
            return self.numbers(mark, self.size())
        left = self.size() if self.skip("#") else -1
        items = []
        while left != 0 and not (left < 0 and self.skip("]")):
            items.append(self.value(self.mark(), level + 1))
            left -= 1
        return items

    def skip(self, mark: str) -> bool:
        """Move past the marker `mark` if it is next; return True if it was."""
        is_there = self.content[self.at : self.at + 1] == mark.encode()
        self.at += is_there
        return is_there


# An upper bound of category codes.
_MAX_CODE = 1 << 24


def read_xgboost(model: Any, *, up_to_best: bool | None = None) -> ForeignModel:
    """Read the output of `Booster.save_model`.

    Parameters
    ----------
    model : dict
        The parsed content of the file.
    up_to_best : bool, optional
        If True, only the rounds up to the best iteration of early stopping are read. If None, this applies to models
        that were saved by a scikit-learn estimator of XGBoost, because such estimators predict with these rounds.
    """
    learner = part(model, "learner", dict)
    booster = part(learner, "gradient_booster", dict)
    name = part(booster, "name", str)
    if name == "gblinear":
        raise refuse("the model is linear (booster='gblinear') and has no trees")
    inner = part(booster, "gbtree", dict) if "gbtree" in booster else booster
    trees = part(inner, "model", dict)
    settings = part(learner, "learner_model_param", dict)
    n_features = whole_number(part(settings, "num_feature", str), "num_feature")
    names = read_feature_names(learner.get("feature_names"), n_features)
    columns = ModelColumns(n_features, names, code_rule=SINGLE, absent_is_missing=True)
    function = part(learner, "objective", dict)
    objective = objective_of(function, settings)
    drop = booster.get("weight_drop", trees.get("weight_drop"))
    parts, output = _trees(trees, learner, objective, up_to_best)
    weights = None if drop is None or len(drop) == 0 else single(array_of(drop, "weight_drop", float))
    if weights is not None and len(weights) < len(parts):
        raise refuse("weight_drop must have an entry for each tree")
    read = [_tree(tree, index, None if weights is None else weights[index]) for index, tree in enumerate(parts)]
    joined = join_trees(read, output).by_round(objective.n_outputs)
    _set_categories(joined, columns, trees.get("cats"), learner.get("feature_types") or [])
    baseline = _baseline(settings, str(function.get("name")), objective.n_outputs)
    note = note_in((learner.get("attributes") or {}).get("fastens"))
    return ForeignModel(objective, joined, columns, baseline, note)


def read_booster(model: Any) -> ForeignModel:
    """Read a Booster, or a scikit-learn estimator of XGBoost up to its best iteration."""
    is_estimator = hasattr(model, "get_booster")
    booster = model.get_booster() if is_estimator else model
    foreign = read_xgboost(read_ubjson(bytes(booster.save_raw(raw_format="ubj"))), up_to_best=is_estimator)
    missing = getattr(model, "missing", None)  # only estimators store it; for a Booster, it belongs to the DMatrix
    if missing is not None and not np.isnan(missing):
        foreign.columns.missing_number = float(missing)
    return foreign


def _trees(
    model: dict[str, Any], learner: dict[str, Any], objective: Objective, up_to_best: bool | None
) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the trees of the rounds to read, and the index of the output that each tree adds to.

    With `up_to_best`, rounds after the best iteration are left out. If it is None, they are left out for models that
    scikit-learn estimators saved. Raises ModelFileError if the number of trees is wrong.
    """
    trees = part(model, "trees", list)
    settings = part(model, "gbtree_model_param", dict)
    if whole_number(part(settings, "num_trees", str), "num_trees") != len(trees):
        raise refuse(f"num_trees must be the number of trees, {len(trees)}; got {settings['num_trees']}")
    output = array_of(model.get("tree_info"), "tree_info", np.int64, len(trees))
    attributes = learner.get("attributes") or {}
    if up_to_best is None:
        up_to_best = "scikit_learn" in attributes
    if up_to_best and "best_iteration" in attributes:
        n_rounds = whole_number(attributes["best_iteration"], "best_iteration") + 1
        parallel = whole_number(settings.get("num_parallel_tree", "1"), "num_parallel_tree", 1)
        # Trees with vector leaves have a value for each output.
        has_vectors = trees and trees[0].get("tree_param", {}).get("size_leaf_vector", "1") not in ("0", "1")
        per_round = parallel * (1 if has_vectors else objective.n_outputs)
        trees, output = trees[: n_rounds * per_round], output[: n_rounds * per_round]
    return trees, output


def _tree(tree: Any, index: int, weight: np.float32 | None) -> FlatTrees:
    """Read tree number `index`; `weight` multiplies its leaf values if it is not None (DART)."""
    settings = part(tree, "tree_param", dict)
    n_nodes = whole_number(part(settings, "num_nodes", str), "num_nodes", 1)
    width = max(1, whole_number(settings.get("size_leaf_vector", "1"), "size_leaf_vector"))

    def numbers(name: str, kind: Any = float, *, needed: bool = True) -> NDArray[Any]:
        if not needed and tree.get(name) is None:
            return np.zeros(n_nodes, dtype=kind)
        return array_of(tree.get(name), f"{name} of tree {index}", kind, n_nodes)

    left, right = numbers("left_children", np.int64), numbers("right_children", np.int64)
    condition = single(numbers("split_conditions"))
    is_leaf = left < 0
    value = condition[:, None] if width == 1 else _leaf_vectors(tree, np.where(is_leaf, right, 0), is_leaf, width)
    if weight is not None:
        value = value * weight
    is_set = numbers("split_type", np.int64, needed=False) == 1
    return FlatTrees(
        left=left,
        right=np.where(is_leaf, -1, right),
        feature=numbers("split_indices", np.int64),
        threshold=np.where(is_set | is_leaf, 0.0, less_than(condition)),
        missing_left=numbers("default_left", bool),
        value=np.where(is_leaf[:, None], value, 0),
        # In version 2, trees with vector leaves have neither gains nor sums of hessians.
        gain=numbers("loss_changes", needed=False),
        weight=numbers("sum_hessian", needed=False),
        sets=_code_sets(tree, np.flatnonzero(is_set & ~is_leaf)),
    )


def _leaf_vectors(
    tree: dict[str, Any], number: NDArray[np.int64], is_leaf: NDArray[np.bool_], width: int
) -> NDArray[np.float32]:
    """Return values, (n_nodes, width), with the leaf vector of each leaf.

    `number` is the index of each leaf in the file's vectors. Raises ModelFileError if a leaf has no vector.
    """
    vectors = single(array_of(tree.get("leaf_weights", tree.get("base_weights")), "leaf_weights", float))
    if len(vectors) % width:
        raise refuse(f"leaf_weights must have {width} entries for each leaf")
    vectors = vectors.reshape(-1, width)
    if "leaf_weights" not in tree:
        number = np.arange(len(number))
    if (number[is_leaf] < 0).any() or (number[is_leaf] >= len(vectors)).any():
        raise refuse("a leaf has no entry in leaf_weights")
    return vectors[np.where(is_leaf, number, 0)]


def _code_sets(tree: dict[str, Any], nodes: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Return the category codes that go right, by node index, for the categorical splits `nodes`.

    Raises ModelFileError if a split has no codes.
    """
    if not len(nodes):
        return {}
    names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    of_node, start, size, codes = (array_of(tree.get(name), name, np.int64) for name in names)
    if not len(of_node) == len(start) == len(size):
        raise refuse("categories_nodes, categories_segments and categories_sizes must have the same length")
    if (start < 0).any() or (size < 0).any() or (start + size > len(codes)).any() or (codes < 0).any():
        raise refuse("categories_segments and categories_sizes must lie within categories")
    sets = {node: codes[a : a + n] for node, a, n in zip(of_node.tolist(), start.tolist(), size.tolist(), strict=True)}
    if not set(nodes.tolist()) <= sets.keys():
        raise refuse("a categorical split has no categories")
    return {node: sets[node] for node in nodes.tolist()}


def _set_categories(trees: FlatTrees, columns: ModelColumns, cats: Any, types: list[Any]) -> None:
    """Set the trees' category sets, and the categories of columns for which the file has names.

    `cats` is the file's list of names, and `types` has the type of each column, "c" for categories.
    """
    is_split = {int(trees.feature[node]) for node in trees.sets}
    is_coded = is_split | {column for column, kind in enumerate(types) if kind == "c"}
    # XGBoost has no empty sets; it uses a threshold above all codes instead.
    is_above = ~trees.is_leaf & (trees.threshold > _MAX_CODE) & np.isin(trees.feature, list(is_coded))
    for node in np.flatnonzero(is_above).tolist():
        trees.sets.setdefault(node, np.zeros(0, dtype=np.int64))
        is_split.add(int(trees.feature[node]))
    trees.threshold[is_above] = 0.0
    for column, names in _named_categories(cats, len(columns)).items():
        if column in is_split:
            columns[column].categories, columns[column].convention = names, ARRAY_CODES
    set_codes(trees, columns, is_left=False)


def _named_categories(cats: Any, n_features: int) -> dict[int, list[Any]]:
    """Return the categories of the training dataframe by column index; columns without stored names are absent.

    Raises ModelFileError if the list does not have `n_features` columns.
    """
    encoded = (cats or {}).get("enc") or []
    if not isinstance(encoded, list) or len(encoded) not in (0, n_features):
        raise refuse(f"the file must list the categories of {n_features} columns")
    by_column: dict[int, list[Any]] = {}
    for column, encoding in enumerate(encoded):
        values = encoding.get("values")
        if values is None or len(values) == 0:
            continue
        if "offsets" in encoding:
            texts = _ascii_texts(encoding["offsets"], values)
            if texts is not None:
                by_column[column] = texts
        else:
            by_column[column] = np.asarray(values).tolist()
    return by_column


def _ascii_texts(offsets: Any, values: Any) -> list[str] | None:
    """Return category names from the file's offsets and characters.

    Returns None if they are not ASCII, because XGBoost truncates such names.
    """
    ends, content = array_of(offsets, "offsets", np.int64), array_of(values, "values", np.int64)
    if (ends < 0).any() or (ends > len(content)).any() or (np.diff(ends) < 0).any():
        raise refuse("the offsets of category names must be ascending")
    if ((content < 0) | (content > 127)).any():
        return None
    whole = content.astype(np.uint8).tobytes()
    return [whole[a:b].decode("ascii") for a, b in pairwise(ends.tolist())]


def _baseline(settings: dict[str, Any], name: str, n_outputs: int) -> NDArray[np.float64]:
    """Return the raw predictions before the first tree; the file stores them after the inverse link, in float32.

    `name` is the objective. Raises ModelFileError if the number of scores or their range is invalid.
    """
    text = part(settings, "base_score", str).strip()
    words = text.removeprefix("[").removesuffix("]").split(",")
    scores = single(np.array([number(word, "base_score") for word in words]))
    if len(scores) not in (1, n_outputs):
        raise refuse(f"base_score must have 1 or {n_outputs} entries; got {len(scores)}")
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = np.log(scores) if name in _LOG else scores
        if name in _LOGIT:
            margins = -np.log(np.float32(1) / scores - np.float32(1))
    if not np.isfinite(margins).all():
        raise refuse(f"base_score={text} is out of range for the objective")
    return np.full(n_outputs, margins.astype(np.float64))


def parse_json(content: bytes) -> Any:
    """Parse JSON; raise ModelFileError if it is damaged."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise refuse(f"the file must be complete JSON; it is truncated or damaged: {error}") from error


# Export --------------------------------------------------------------------


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
        raise CannotHoldError(f"predictions with the link {target.link!r}")
    view.refuse_characters(r"[\ud800-\udfff]", values=False)  # values are only in the note, escaped
    rounds = view.rounds()
    trees = [_written_tree(tree, number, view) for number, (_, tree) in enumerate(rounds)]
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


def _learner(target: LinkedTarget, view: ModelView) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the entries `objective` and `learner_model_param` of the file for a target's link."""
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


def _written_tree(tree: FlatTrees, number: int, view: ModelView) -> dict[str, Any]:
    """Return a tree as the JSON object of an XGBoost model, with `number` as its index."""
    by_set = np.zeros(len(tree.left), dtype=bool)
    by_set[list(tree.sets)] = True
    # In XGBoost, members of a set go right and all others go left.
    left, right = np.where(by_set, tree.right, tree.left), np.where(by_set, tree.left, tree.right)
    order = _level_order(left.tolist(), right.tolist())
    new_index = np.argsort(order)
    is_leaf, by_set = tree.is_leaf[order], by_set[order]
    left, right = (np.where(is_leaf, -1, new_index[child[order]]) for child in (left, right))
    parents = np.full(len(left), _NO_PARENT)
    parents[left[~is_leaf]] = parents[right[~is_leaf]] = np.flatnonzero(~is_leaf)
    value = tree.value[order, 0] / view.divisor
    sets = {node: tree.sets[order[node]].tolist() for node in np.flatnonzero(by_set).tolist()}
    # XGBoost does not accept empty sets, so a set without members becomes a threshold of infinity.
    # XGBoost compares by ``<``, so a threshold becomes the smallest float32 above it.
    condition = np.where(by_set, np.inf, np.nextafter(single_at_most(tree.threshold[order]), np.float32(np.inf)))
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


def _level_order(left: list[int], right: list[int]) -> list[int]:
    """Return the nodes in level order with each left child directly before its sibling, as XGBoost expects."""
    order = [0]
    for node in order:
        if left[node] >= 0:
            order += (left[node], right[node])
    return order


def _singles(values: ArrayLike) -> list[float]:
    """Round numbers to the digits of float32 and clip them to its range."""
    clipped = np.clip(np.asarray(values, dtype=np.float64), -_LARGEST, _LARGEST).tolist()
    return [float(f"{value:.9g}") for value in clipped]

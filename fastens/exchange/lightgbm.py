"""Import and export of LightGBM's text format. Predictions of exported Boosters are bit-identical."""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import TOWARD_ZERO
from fastens.engine.trees.trees import set_of
from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView, text_of
from fastens.exchange.foreign import ARRAY_CODES, TRUNCATED, ZERO_IS_MISSING
from fastens.exchange.records import (
    CLASSIFIER,
    RANKER,
    REGRESSOR,
    ModelColumn,
    ModelColumns,
    Objective,
    note_in,
    refuse,
)
from fastens.exchange.trees import FlatTrees, ForeignModel, Line, with_vectors
from fastens.params.options import TweedieLoss

# Losses with the same kind of prediction. Other objectives have no counterpart; another loss then predicts their raw
# values.
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


def objective_of(text: str, per_round: int) -> tuple[Objective, float]:
    """Return the counterpart of an objective from a model's header, and the factor of the leaf values.

    Parameters
    ----------
    text : str
        The objective, such as ``"binary sigmoid:1"``, or "" for a custom objective.
    per_round : int
        The number of trees per round.

    Raises
    ------
    ModelFileError
        If the objective is unknown or its options are invalid.
    """
    name, *words = text.split(" ")
    options = dict(word.partition(":")[::2] for word in words)
    if "sqrt" in options:  # reg_sqrt applies to all variants of "regression"
        return Objective(REGRESSOR, {"loss": "squared_error_of_root"}), 1.0
    if name in _NUMBERS:
        return Objective(REGRESSOR, {"loss": _NUMBERS[name]}), 1.0
    if name == "quantile":
        return Objective(REGRESSOR, {"loss": "quantile", "quantile": _number(options.get("alpha", "0.9"))}), 1.0
    if name == "tweedie":
        return Objective(REGRESSOR, {"loss": _tweedie(_number(options.get("tweedie_variance_power", "1.5")))}), 1.0
    if name == "binary":
        return Objective(CLASSIFIER, classes=np.arange(2)), _number(options.get("sigmoid", "1"))
    return _other_objective(name, text, options, per_round)


def _tweedie(power: float) -> Any:
    """Return the loss for a variance power: Tweedie between 1 and 2, gamma for 2, and Poisson otherwise."""
    return TweedieLoss(variance_power=power) if 1 < power < 2 else "gamma" if power == 2 else "poisson"


def _other_objective(name: str, text: str, options: Mapping[str, str], per_round: int) -> tuple[Objective, float]:
    """Return the counterpart and leaf factor of a multiclass, ranking or custom objective by its name.

    `text` is the complete objective for messages. Raises ModelFileError for unknown names and wrong class counts.
    """
    if name in ("multiclass", "multiclassova"):
        if options.get("num_class") != str(per_round):
            raise refuse(f"num_class must equal the trees per round, {per_round}; got {options.get('num_class')!r}")
        loss, scale = ("log_loss", 1.0)
        if name == "multiclassova":
            loss, scale = "one_vs_rest", _number(options.get("sigmoid", "1"))
        return Objective(CLASSIFIER, {"loss": loss}, per_round, classes=np.arange(per_round)), scale
    if name in ("lambdarank", "rank_xendcg"):
        return Objective(RANKER, {"loss": "xendcg" if name == "rank_xendcg" else name}), 1.0
    if name in ("", "custom", "none"):
        return Objective(REGRESSOR, {"loss": "squared_error"}, n_outputs=per_round), 1.0
    raise refuse(f"LightGBM does not have the objective {text[:60]!r}")


def _number(text: str) -> float:
    """Return a positive number of an objective's options; raise ModelFileError for other texts."""
    if not re.fullmatch(r"[0-9.eE+-]{1,30}", text):
        raise refuse(f"an option of the objective must be a number; got {text[:40]!r}")
    try:
        value = float(text)
    except ValueError as error:
        raise refuse(f"an option of the objective must be a number; got {text!r}") from error
    if not value > 0:
        raise refuse(f"an option of the objective must be positive; got {text!r}")
    return value


_VERSIONS = ("v2", "v3", "v4")
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2, 4, 8
_NONE, _ZERO, _NAN = range(3)
# LightGBM treats inputs with an absolute value up to this as 0 in prediction.
_TINY = float(np.float32(1e-35))
_DEFAULT_NAME = re.compile(r"Column_\d+")
_MAX_CODE = 60_000  # columns with larger codes are read as integer categories
_AFTER_TREES = re.compile(r"^(?=feature.importances:|parameters:|pandas_categorical:)", re.MULTILINE)
_CONSTANT = re.compile(r"^num_leaves=1[ \r]*$", re.MULTILINE)
_END = re.compile(r"^end of trees[ \r]*$", re.MULTILINE)
_PLAIN = {"loss": "squared_error"}


def read_lightgbm(text: str) -> ForeignModel:
    """Read the output of `Booster.save_model`.

    Parameters
    ----------
    text : str
        The content of the file.

    Raises
    ------
    ModelFileError
        If the text is malformed or has an unsupported version.
    """
    header, blocks, tail = _sections(text)
    _check_sizes(header, blocks)
    n_features = _integer_field(header, "max_feature_idx") + 1
    names = header.get("feature_names", "").split(" ")
    infos = header.get("feature_infos", "").split(" ")
    if len(names) != n_features or len(infos) != n_features:
        raise refuse(f"feature_names and feature_infos must have {n_features} entries; got {len(names)}, {len(infos)}")
    per_round = _integer_field(header, "num_tree_per_iteration", "num_class")
    if per_round < 1 or len(blocks) % per_round:
        raise refuse(f"{len(blocks)} trees cannot be divided into rounds of {per_round}")
    columns = ModelColumns(
        n_features, None if all(map(_DEFAULT_NAME.fullmatch, names)) else names, code_rule=TOWARD_ZERO
    )
    texts = _Trees(blocks)
    trees = texts.trees(per_round)
    _set_missing(trees, texts.decision, columns)
    _set_categories(trees, columns, infos, _pandas_categories(tail))
    objective, factor = objective_of(header.get("objective", ""), per_round)
    if per_round != objective.n_outputs:
        raise refuse(f"{per_round} trees per round do not match an objective of {objective.n_outputs} outputs")
    if objective.classes is None:
        objective.n_targets = per_round
    if "average_output" in header:
        vectors = None
        if objective.estimator == REGRESSOR and objective.parameters == _PLAIN and not trees.lines:
            vectors = with_vectors(trees, per_round) if per_round > 1 else trees
        if vectors is None:
            factor /= max(1, len(blocks) // per_round)
        else:
            trees, objective.estimator, objective.parameters = vectors, "RandomForestRegressor", {}
    if factor != 1.0:
        trees.scale(factor)
    return ForeignModel(objective, trees, columns, np.zeros(per_round), note_in(header.get("fastens")))


def _sections(text: str) -> tuple[dict[str, str], list[str], str]:
    """Return the header fields, the text of each tree without "Tree=", and the text after the trees.

    Raises ModelFileError if the text is truncated or has an unsupported version.
    """
    at = text.find("\nend of trees")  # a regular expression would take longer than the numbers
    end = _END.match(text, at + 1) if at >= 0 else None
    body, tail = (text, None) if end is None else (text[: at + 1], text[end.end() :])
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    if tail is None and header.get("version") == "v2" and blocks:
        # Early files of version 2 lack this line, but the section after the last tree begins with one of these names.
        blocks[-1], *after = _AFTER_TREES.split(blocks[-1], maxsplit=1)
        tail = "".join(after)
    if tail is None:
        raise refuse("a LightGBM model must have the line 'end of trees'; the text is truncated")
    if header.get("version") not in _VERSIONS:
        raise refuse(f"the version of a LightGBM model must be one of {_VERSIONS}; got {header.get('version')!r}")
    return header, blocks, tail


def read_booster(booster: Any) -> ForeignModel:
    """Read a Booster or a scikit-learn estimator of LightGBM, up to its best iteration if it has one."""
    fitted = getattr(booster, "booster_", booster)
    with tempfile.TemporaryDirectory() as folder:
        # `model_to_string` writes models of more than a megabyte twice, to find their size first.
        path = Path(folder) / "model.txt"
        fitted.save_model(path)
        foreign = read_lightgbm(path.read_bytes().decode())
    classes, labels = getattr(booster, "classes_", None), foreign.objective.classes
    if classes is not None and labels is not None and len(classes) == len(labels):
        foreign.objective.classes = np.asarray(classes)
    return foreign


def _fields(block: str) -> dict[str, str]:
    """Return the values of lines `name=value` by name; raise ModelFileError if a name occurs twice."""
    pairs = [line.partition("=")[::2] for line in block.split("\n") if line]
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise refuse(f"{next(key for key in keys if keys.count(key) > 1)!r} must occur once; it occurs twice")
    return fields


def _integer_field(fields: Mapping[str, str], *names: str) -> int:
    """Return the first of the fields `names` that is present; raise ModelFileError unless it is an integer."""
    for name in names:
        if (text := fields.get(name)) is not None:
            if not (text.isascii() and text.isdecimal() and len(text) < 10):
                raise refuse(f"{name} must be a whole number; got {text[:40]!r}")
            return int(text)
    raise refuse(f"a LightGBM model must have {names[0]}")


def _check_sizes(header: Mapping[str, str], blocks: list[str]) -> None:
    """Raise ModelFileError if the sizes of the trees' texts differ from the header's, if it has any."""
    if "tree_sizes" not in header:
        return
    sizes = header["tree_sizes"].split()
    # Each block lacks the first and the last characters of its tree, except the last block.
    lengths = [len(block) + 6 if block.isascii() else len(block.encode()) + 6 for block in blocks]
    if lengths:
        lengths[-1] -= 1
    # The header that LightGBM writes has a wrong size for constant trees.
    pairs = zip(sizes, lengths, blocks, strict=False)
    if len(sizes) != len(lengths) or any(
        size != str(length) and not _CONSTANT.search(block) for size, length, block in pairs
    ):
        raise refuse(f"tree_sizes must describe the {len(lengths)} trees of the text; it describes {len(sizes)}")


class _Trees:
    """The fields of all trees, which are parsed together: the text of a field in all trees becomes one array.

    In the arrays of nodes, the splits of a tree precede its leaves.
    """

    def __init__(self, blocks: list[str]) -> None:
        self._fields = []
        for number, block in enumerate(blocks):
            first, _, rest = block.partition("\n")
            if first.strip() != str(number):
                raise refuse(f"tree {number} must follow tree {number - 1}; got tree {first.strip()[:20]!r}")
            self._fields.append(_fields(rest))
        n_leaves = [_integer_field(fields, "num_leaves") for fields in self._fields]
        self.n_sets = [_integer_field(fields, "num_cat") for fields in self._fields]
        for number, (block, leaves, sets) in enumerate(zip(blocks, n_leaves, self.n_sets, strict=True)):
            if not 1 <= leaves <= len(block) or sets > len(block):
                raise refuse(f"tree {number} must have the declared numbers of leaves and category sets")
        if not blocks:
            raise refuse("the model has no trees")
        self.n_leaves = np.array(n_leaves)
        self.n_splits = self.n_leaves - 1
        self.roots = np.cumsum(self.n_leaves + self.n_splits) - (self.n_leaves + self.n_splits)
        # The nodes of all splits and of all leaves.
        self.splits = np.arange(self.n_splits.sum()) + np.repeat(
            self.roots - np.cumsum(self.n_splits) + self.n_splits, self.n_splits
        )
        self.leaves = np.arange(self.n_leaves.sum()) + np.repeat(
            self.roots + self.n_splits - np.cumsum(self.n_leaves) + self.n_leaves, self.n_leaves
        )

    def numbers(self, name: str, dtype: Any, sizes: NDArray[np.int64], *, needed: bool = False) -> NDArray[Any]:
        """Return a field's numbers of all trees, `sizes` per tree; zeros for trees that lack it, unless `needed`.

        Raises ModelFileError for other sizes and for trees that lack a needed field.
        """
        values, counts = _parse_numbers([fields.get(name, "") for fields in self._fields], dtype, name)
        if (counts == sizes).all():
            return values
        absent = np.flatnonzero((counts == 0) & (sizes > 0))
        if needed and len(absent):
            raise refuse(f"tree {absent[0]} must have {name}")
        for count, size in zip(counts.tolist(), sizes.tolist(), strict=True):
            if count not in (0, size):
                raise refuse(f"{name} must have {size} entries; got {count}")
        out = np.zeros(sizes.sum(), dtype=dtype)
        out[np.repeat(counts > 0, sizes)] = values
        return out

    def trees(self, per_round: int) -> FlatTrees:
        """Return all trees, with `per_round` trees per round; raise ModelFileError if children or counts are wrong."""
        n_nodes, n_splits, n_leaves = len(self.splits) + len(self.leaves), self.n_splits, self.n_leaves
        arrays: dict[str, Any] = {name: np.full(n_nodes, -1) for name in ("left", "right")}
        first = np.repeat(self.roots, self.n_splits)
        for name, child in arrays.items():
            number = self.numbers(f"{name}_child", np.int64, n_splits, needed=True)
            splits, leaves = (np.repeat(sizes, n_splits) for sizes in (n_splits, n_leaves))
            if (is_wrong := (number >= splits) | (~number >= leaves)).any():
                tree = np.repeat(np.arange(len(n_splits)), n_splits)[is_wrong][0]
                raise refuse(f"{name}_child of tree {tree} refers to nodes that do not exist")
            child[self.splits] = first + np.where(number < 0, splits + ~number, number)
        counts = np.zeros(n_nodes, dtype=np.int64)
        counts[self.splits] = self.numbers("internal_count", np.int64, n_splits)
        counts[self.leaves] = self.numbers("leaf_count", np.int64, n_leaves)
        sums = counts[arrays["left"][self.splits]] + counts[arrays["right"][self.splits]]
        if (counts[self.splits] != sums).any():
            tree = np.repeat(np.arange(len(n_splits)), self.n_splits)[counts[self.splits] != sums][0]
            raise refuse(f"internal_count and leaf_count of tree {tree} do not match")
        for name, field, kind in (
            ("feature", "split_feature", np.int64),
            ("threshold", "threshold", float),
            ("gain", "split_gain", float),
            ("decision", "decision_type", np.int64),
        ):
            arrays[name] = np.zeros(n_nodes, dtype=kind)
            needed = name in ("feature", "threshold")
            arrays[name][self.splits] = self.numbers(field, kind, n_splits, needed=needed)
        arrays["value"] = np.zeros(n_nodes)
        arrays["value"][self.leaves] = self.numbers("leaf_value", float, n_leaves, needed=True)
        self.decision = arrays.pop("decision")
        trees = FlatTrees(
            **arrays,
            missing_left=np.zeros(n_nodes, dtype=bool),
            weight=counts.astype(np.float64),
            n_samples=counts,
            roots=self.roots,
            output=np.arange(len(self.roots)) % per_round,
        )
        is_set = np.add.reduceat(self.decision & _CATEGORICAL, self.roots)
        for tree in np.flatnonzero(is_set).tolist():
            self._add_sets(trees, tree)
        for tree in [tree for tree, fields in enumerate(self._fields) if fields.get("is_linear") == "1"]:
            self._add_lines(trees, tree)
        return trees

    def _numbers_of_tree(self, tree: int, name: str, dtype: Any, n: int) -> NDArray[Any]:
        """Return the `n` numbers of a field of one tree; zeros if absent. Raises ModelFileError for another size."""
        values, (count,) = _parse_numbers([self._fields[tree].get(name, "")], dtype, name)
        if count not in (0, n):
            raise refuse(f"{name} must have {n} entries; got {count}")
        return values if count else np.zeros(n, dtype=dtype)

    def _add_sets(self, trees: FlatTrees, tree: int) -> None:
        """Add, to `trees.sets`, the categories that go left at each categorical split of tree number `tree`."""
        root, n_sets, fields = int(self.roots[tree]), self.n_sets[tree], self._fields[tree]
        nodes = root + np.flatnonzero(self.decision[root : root + self.n_splits[tree]] & _CATEGORICAL)
        bounds = self._numbers_of_tree(tree, "cat_boundaries", np.int64, n_sets + 1)
        n_words = min(int(bounds[-1]), len(fields.get("cat_threshold", "")))
        words = self._numbers_of_tree(tree, "cat_threshold", np.int64, max(n_words, 0))
        if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] != len(words):
            raise refuse("cat_boundaries and cat_threshold must describe the sets of categories")
        if ((words < 0) | (words >= 2**32)).any():
            raise refuse("cat_threshold must hold words of 32 bits")
        index = trees.threshold[nodes]
        if not ((index >= 0) & (index < n_sets) & (index == np.floor(index))).all():
            raise refuse("the threshold of a categorical split must be the index of its set of categories")
        for node, k in zip(nodes.tolist(), index.astype(int).tolist(), strict=True):
            set_words = words[bounds[k] : bounds[k + 1]].astype("<u4")
            trees.sets[node] = np.flatnonzero(np.unpackbits(set_words.view(np.uint8), bitorder="little"))
        trees.threshold[nodes] = 0.0

    def _add_lines(self, trees: FlatTrees, tree: int) -> None:
        """Add the linear models of the leaves of tree number `tree` to `trees.lines`; constants become values."""
        fields, n_leaves = self._fields[tree], int(self.n_leaves[tree])
        constants = self._numbers_of_tree(tree, "leaf_const", float, n_leaves)
        counts = self._numbers_of_tree(tree, "num_features", np.int64, n_leaves)
        if "leaf_const" not in fields or (counts < 0).any():
            raise refuse("linear leaves must have leaf_const and num_features")
        total = min(int(counts.sum()), len(fields.get("leaf_features", "")))
        features = self._numbers_of_tree(tree, "leaf_features", np.int64, total)
        slopes = self._numbers_of_tree(tree, "leaf_coeff", float, total)
        if total != counts.sum() or not ("leaf_coeff" in fields or total == 0):
            raise refuse("linear leaves must have leaf_features and leaf_coeff")
        ends, first = np.cumsum(counts), int(self.roots[tree] + self.n_splits[tree])
        for leaf in range(n_leaves):
            terms = slice(ends[leaf] - counts[leaf], ends[leaf])
            if counts[leaf]:
                line = Line(float(constants[leaf]), features[terms].tolist(), slopes[terms].tolist())
                trees.lines[first + leaf] = line
            else:
                trees.value[first + leaf] = constants[leaf]


def _parse_numbers(texts: list[str], dtype: Any, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the numbers of all texts in one array, and the count of numbers in each text.

    Raises ModelFileError, which has the field's name, for other text.
    """
    counts = np.array([len(text.split()) for text in texts], dtype=np.int64)
    text = " ".join(texts)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.fromstring(text, dtype=dtype, sep=" ") if counts.any() else np.zeros(0, dtype=dtype)
    except (ValueError, OverflowError, DeprecationWarning) as error:
        raise refuse(f"{name} must hold numbers; got {text[:40]!r}") from error
    if len(values) != counts.sum():
        raise refuse(f"{name} must have {counts.sum()} entries; got {len(values)}")
    return values, counts


def _set_missing(trees: FlatTrees, decision: NDArray[np.int64], columns: ModelColumns) -> None:
    """Set where missing values go at each node, and mark the columns in which zeros are missing.

    `decision` holds LightGBM's decision types of all nodes. Raises ModelFileError if the splits of a column differ.
    """
    inner, is_set, threshold = ~trees.is_leaf, (decision & _CATEGORICAL) > 0, trees.threshold
    kind, default = (decision >> 2) & 3, (decision & _DEFAULT_LEFT) > 0
    numeric = inner & ~is_set
    tiny = np.where(threshold < 0, np.nextafter(-_TINY, -1), _TINY)
    trees.threshold = np.where(np.abs(threshold) > _TINY, threshold, tiny)
    # If there were no missing values in training, LightGBM treats NaN as 0.
    trees.missing_left = np.where(kind == _NONE, threshold >= 0, default) & numeric
    features = trees.feature[numeric]
    if ((features < 0) | (features >= len(columns))).any():
        raise refuse(f"a split uses a column beyond the {len(columns)} of the model")
    has_kind = np.zeros((4, len(columns)), dtype=bool)
    has_kind[kind[numeric], features] = True
    mixed = np.flatnonzero(has_kind[_ZERO] & (has_kind[_NONE] | has_kind[_NAN])).tolist()
    if mixed or has_kind[3].any():
        raise refuse(f"zeros of a column must be missing in all its splits or in none; columns {mixed} mix both")
    for column in np.flatnonzero(has_kind[_ZERO]).tolist():
        columns[column].convention = ZERO_IS_MISSING


def _pandas_categories(tail: str) -> list[list[Any]]:
    """Return the categories of the training frame's categorical columns, in their order; empty if not stored.

    `tail` is the text after the trees.
    """
    match = re.search(r"^pandas_categorical:(.*)$", tail, flags=re.MULTILINE)
    if match is None:
        return []
    try:
        lists = json.loads(match[1])
    except ValueError as error:
        raise refuse("pandas_categorical must be JSON") from error
    if lists is None:
        return []
    if not isinstance(lists, list) or not all(isinstance(each, list) for each in lists):
        raise refuse("pandas_categorical must be a list of lists")
    return lists


def _set_categories(trees: FlatTrees, columns: ModelColumns, infos: list[str], named: list[list[Any]]) -> None:
    """Set the categories of categorical columns, by value if the model stores the values, else as codes.

    `infos` are the entries of `feature_infos`, and `named` are the lists of pandas categories. Raises ModelFileError if
    it is ambiguous which list belongs to which column.
    """
    largest: dict[int, int] = {}
    for node, positions in trees.sets.items():
        column = int(trees.feature[node])
        if not 0 <= column < len(columns):
            raise refuse(f"a split uses a column beyond the {len(columns)} of the model")
        largest[column] = max(largest.get(column, 0), int(positions.max(initial=0)))
    if not named:
        for column, code in largest.items():
            if code <= _MAX_CODE:
                columns[column].categories, columns[column].is_coded = list(range(code + 1)), True
            else:
                _set_large_codes(trees, columns[column], column)
        return
    # LightGBM treats ordered categories as numbers and drops constant columns, so some lists do not belong to a
    # categorical column.
    candidates = [c for c, info in enumerate(infos) if ":" in info and not info.startswith("[")]
    needed = {c: max(largest.get(c, 0), *map(int, _codes_in_info(infos[c]))) for c in candidates}
    needed |= {c: most for c, most in largest.items() if c not in needed}
    fitting = [
        chosen
        for chosen in _column_choices(len(named), len(needed))
        if all(len(named[i]) > needed[c] for i, c in zip(chosen, sorted(needed), strict=True))
    ]
    if len(fitting) != 1:
        raise refuse(
            f"pandas_categorical has the categories of {len(named)} columns, and it is ambiguous which of them "
            f"are the {len(needed)} columns that the trees split by categories. Train on unordered categories."
        )
    for i, column in zip(fitting[0], sorted(needed), strict=True):
        columns[column].categories, columns[column].convention = named[i], ARRAY_CODES


def _set_large_codes(trees: FlatTrees, column: ModelColumn, index: int) -> None:
    """Set the categories of column `index` to the codes in its sets, because codes are too large to be listed.

    LightGBM sends all other codes to the right.
    """
    nodes = [node for node in trees.sets if trees.feature[node] == index]
    codes = np.unique(np.concatenate([trees.sets[node] for node in nodes]))
    for node in nodes:
        trees.sets[node] = np.searchsorted(codes, trees.sets[node])
    column.categories, column.convention = codes.tolist(), TRUNCATED


def _codes_in_info(info: str) -> list[str]:
    """Return the category codes in a feature's entry of `feature_infos`, such as "0:3:1"."""
    return [code for code in info.split(":") if re.fullmatch(r"\d{1,9}", code)] or ["0"]


def _column_choices(n: int, k: int) -> list[tuple[int, ...]]:
    """Return all choices of k of n category lists, in order, for k columns; empty if n > 20, unless k equals n."""
    if k > n or (k < n and n > 20):
        return []
    return list(combinations(range(n), k))


# Export --------------------------------------------------------------------


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
        "feature_names": " ".join(_name(column.name, index) for index, column in enumerate(view.columns)),
        "feature_infos": " ".join(_feature_infos(view)),
        "tree_sizes": " ".join(str(len(tree.encode())) for tree in trees),
        "fastens": text_of(view.note),
    }
    lines = [f"{name}={value}" for name, value in header.items()]
    if view.is_mean:
        lines.insert(lines.index(f"feature_names={header['feature_names']}"), "average_output")
    categories = [column.categories for column in view.columns if column.categories is not None and not column.is_coded]
    end = ["end of trees", "", "feature_importances:", "", "parameters:", "end of parameters", ""]
    end += [f"pandas_categorical:{json.dumps(categories) if categories else 'null'}", ""]
    return "\n".join(["tree", *lines, "", ""]) + "".join(trees) + "\n".join(end)


def _name(name: str, index: int) -> str:
    """Return a name without whitespace, which separates names, and without characters that break LightGBM's JSON.

    A NUL makes LightGBM read forever, and UTF-8 cannot encode surrogates. An empty name is replaced by one with the
    column's index.
    """
    return re.sub(r'[\s"\\\0\ud800-\udfff]', "_", name) or f"Column_{index}"


def _objective(target: LinkedTarget, n_outputs: int) -> dict[str, str]:
    """Return the objective field of a model's header, which determines the link; empty for class averages.

    Raises CannotHoldError for links that LightGBM does not have.
    """
    if target.link in ("one vs rest", "sorted", "anomaly"):
        raise CannotHoldError(f"predictions with the link {target.link!r}")
    # With several trees per round, LightGBM applies these links only to the first.
    if n_outputs > 1 and target.link in ("sigmoid", "exp"):
        raise CannotHoldError(f"several outputs with the link {target.link!r}")
    if target.link == "sigmoid":
        return {"objective": "cross_entropy" if target.classes is None else "binary sigmoid:1"}
    if target.link == "softmax":
        return {"objective": f"multiclass num_class:{n_outputs}"}
    if target.link == "exp":
        return {"objective": "poisson"}
    return {} if n_outputs > 1 or target.classes is not None else {"objective": "regression"}


def _feature_infos(view: ModelView) -> Iterable[str]:
    """Yield, for each column, its category codes as "0:1:2", the range of its thresholds, or "none"."""
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


def _tree(tree: FlatTrees, columns: list[ModelColumn]) -> str:
    """Return the section of a tree in LightGBM's text format, without its first line."""
    is_leaf = tree.is_leaf
    leaves, inner = np.flatnonzero(is_leaf), np.flatnonzero(~is_leaf)
    # Inner nodes are numbered 0, 1, ... and leaves -1, -2, ...
    number = np.empty(len(is_leaf), dtype=np.int64)
    number[inner], number[leaves] = np.arange(len(inner)), -1 - np.arange(len(leaves))
    fields: dict[str, Any] = {"num_leaves": [len(leaves)], "num_cat": [len(tree.sets)]}
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


def _linear(tree: FlatTrees, leaves: list[int]) -> dict[str, list[Any]]:
    """Return the fields that describe the linear models of `leaves`; only `is_linear`, 0, if there are none."""
    if not tree.lines:
        return {"is_linear": [0]}
    lines = [tree.lines.get(node) or Line(float(tree.value[node, 0])) for node in leaves]
    return {
        "is_linear": [1],
        "leaf_const": [line.constant for line in lines],
        "num_features": [len(line.features) for line in lines],
        "leaf_features": [feature for line in lines for feature in line.features],
        "leaf_coeff": [slope for line in lines for slope in line.slopes],
    }


def _splits(
    tree: FlatTrees, inner: list[int], columns: list[ModelColumn]
) -> tuple[list[float], list[int], dict[str, Any]]:
    """Return the thresholds and decision types of the nodes `inner`, and the fields of their category sets.

    The threshold of a categorical split is the index of its set. Raises CannotHoldError if its missing values go left.
    """
    thresholds, kinds, words, ends = [], [], [], [0]
    for node in inner:
        missing_left = bool(tree.missing_left[node])
        if (members := tree.sets.get(node)) is None:
            thresholds.append(float(tree.threshold[node]))
            missing = _MISSING_IS_ZERO if columns[tree.feature[node]].convention == ZERO_IS_MISSING else _MISSING_IS_NAN
            kinds.append(missing | _DEFAULT_LEFT * missing_left)
            continue
        if missing_left:
            name = columns[tree.feature[node]].name
            raise CannotHoldError(f"missing values of {name!r} that go to another branch than unseen categories")
        thresholds.append(len(ends) - 1)
        kinds.append(_CATEGORICAL | _MISSING_IS_NAN)
        words += set_of(members).tolist()
        ends.append(len(words))
    return thresholds, kinds, {"cat_boundaries": ends, "cat_threshold": words} if len(ends) > 1 else {}

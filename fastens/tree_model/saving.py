"""Saving, slicing and merging of estimators that hold a TreeEnsemble."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from importlib import import_module
from inspect import signature
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.engine.bins.binning import Binning
from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.linear.linear_leaves import LinearEnsemble, read_trees
from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import leaf_features, on_used_columns, raw_of_rows
from fastens.engine.trees.packing import MAX_CODES
from fastens.engine.trees.trees import TreeEnsemble, recoded
from fastens.modelfile.saving import Saved, SavedParts
from fastens.modelfile.storage import ModelFileError
from fastens.params.docstrings import WEIGHT_TYPE_DOCS, Docs, described
from fastens.params.options import Categories
from fastens.params.rules import Rule, whole
from fastens.table.columns.dates import part_name
from fastens.table.columns.factorize import same_categories
from fastens.table.encoder import InputEncoder
from fastens.table.target_statistics import METHODS, Targets, TargetStatistics, Terms
from fastens.warn import warn

PREFIX = "ensemble."
# With Categories(encoding="auto"), columns with more categories, or texts with more terms, are target-encoded.
MAX_PARTITIONED = 32


def tree_arrays(trees: TreeEnsemble, prefix: str) -> dict[str, np.ndarray]:
    """Return trees as arrays to save, whose names start with `prefix`."""
    return {prefix + name: array for name, array in trees.to_arrays().items()}


def trees_from_arrays(arrays: dict[str, np.ndarray], prefix: str) -> TreeEnsemble:
    """Return the trees in the saved arrays whose names start with `prefix`."""
    return read_trees({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)})


_MOST_BINS = 65_535
# A rule for `max_bins`, which `bins_of_features` resolves.
BINS = whole(2, _MOST_BINS) | Rule(
    "an array or dict with a number for each column",
    lambda value: isinstance(value, Mapping) or (np.iterable(value) and not isinstance(value, str | bytes)),
)


def column_bins(model: Any, owner: Any) -> Any:
    """Return the `max_bins` of `owner`, the model or its base estimator: an integer, or an array by column of X.

    Raise ValueError for invalid numbers.
    """
    max_bins = owner.max_bins
    if isinstance(max_bins, Integral):
        return max_bins
    default = float(signature(type(owner)).parameters["max_bins"].default)
    columns = ColumnLookup(model.n_features_in_, model._encoder.names)
    of_columns = columns.values("max_bins", max_bins, default)
    for number in of_columns.tolist():
        if not number.is_integer() or not 2 <= number <= _MOST_BINS:
            raise ValueError(f"max_bins must hold integers from 2 to {_MOST_BINS}; got {number:g}.")
    return of_columns.astype(np.int32)


def bins_of_features(model: Any, owner: Any = None) -> Any:
    """Return `owner.max_bins` (by default, the model's) as an integer, or as an array by feature of the trees."""
    max_bins = column_bins(model, model if owner is None else owner)
    return max_bins[model._column_of] if isinstance(max_bins, np.ndarray) else max_bins


class SavedEnsemble:
    """Base class of estimators whose fitted state is an input encoder, a TreeEnsemble and a few numbers.

    Parameters
    ----------
    max_bins : int, array of shape (n_features,) or dict by name
        Maximum number of bins per feature, at most 65 535, plus one bin for missing values. A feature with no more
        distinct values has one bin per value. Features that a dict leaves out have the default.
    feature_weights : array of shape (n_features,), dict by name, or None
        Relative probabilities with which features are drawn (`max_features`, `max_features_per_tree`). Features that
        a dict leaves out have weight 1. A feature of weight 0 is never used. If None, all features are equally likely.
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None
        Features that may appear together on a path through a tree: a single feature ("no_interactions"), any two
        features ("pairwise"), or features of the same group. Features that are not listed form another group. If None,
        any features may interact.
    categorical_features : "from_dtype", list of names or indices, mask, or None
        Columns to treat as categorical. "from_dtype" selects the category, enum, string and boolean columns of a data
        frame. If None, no column is categorical.
    text_features : list of names or indices, mask, dict, Texts or None
        Columns of texts, which become counts of words (see `Texts`). A dict such as ``{"review": "word", "tags": ";"}``
        has the analyzer of each column, as in ``TableSchema.text_features``. If None, strings are categories.
    categories : Categories or None
        How categorical columns are encoded: the options `encoding`, `missing` and `unseen` of `Categories`. If None,
        the defaults are used.
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with `sample_weight`. "balanced" weights classes inversely to their
        frequency. If None, all classes have weight 1.
    random_state : int, RandomState or None
        Seed of the random draws. Pass an int for reproducible results; they do not depend on `n_jobs`.
    n_jobs : int or None
        Number of threads. If None, OMP_NUM_THREADS is used, or else the number of available physical cores. Negative
        values count back from that number, so -1 uses all of them.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted class labels.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Names of the columns seen during `fit`. Defined only if all names are strings.
    """

    _docs: ClassVar[Docs] = WEIGHT_TYPE_DOCS | described(__doc__)
    _ensemble: TreeEnsemble
    _statistics: TargetStatistics | None = None
    # How the values of the trees are combined: "sum", "mean", "path length", "weighted median" or "leaves".
    _combination: ClassVar[str] = "sum"
    _has_random_thresholds: ClassVar[Any] = False
    _splits_dates = True
    _splits_lists = True
    _holds: str | None = "forest"
    # True if a model may hold other estimators instead of trees.
    _may_lack_trees: ClassVar[bool] = False

    if TYPE_CHECKING:  # attributes of the estimator
        n_jobs: int | None
        _check_fitted: Any
        _check_table: Any
        _encoder: Any
        n_features_in_: int
        _options: Any
        _every_parameter: Any

    def _tree_arrays(self) -> dict[str, np.ndarray]:
        """Return the trees as arrays to save; empty if the model consists of other estimators."""
        return {} if self._may_lack_trees and "_ensemble" not in vars(self) else tree_arrays(self._ensemble, PREFIX)

    def _restore_trees(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the trees from saved arrays; models of other estimators may lack them."""
        if not self._may_lack_trees or any(name.startswith(PREFIX) for name in arrays):
            self._ensemble = trees_from_arrays(arrays, PREFIX)

    def _check_trees(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise ModelFileError if the restored trees do not match the targets, columns, classes or rounds.

        `arrays`, the saved arrays, are not used.
        """
        if "_ensemble" not in vars(self):
            return
        if not 1 <= getattr(self, "_n_targets", 1) <= self._ensemble.n_outputs:
            raise ModelFileError("the trees and the targets do not match")
        self._restored()
        # Trees of other libraries may have categorical splits on numeric columns that hold category codes.
        in_trees, in_table = self._ensemble.binning.is_categorical, self._is_categorical
        if in_trees.shape != in_table.shape or (in_table & ~in_trees).any():
            raise ModelFileError("the trees and the columns do not match")
        if self._ensemble.n_outputs != self._n_outputs():
            raise ModelFileError("the trees and the classes do not match")
        if self._ensemble.n_trees % self._ensemble.trees_per_round:
            raise ModelFileError("the trees cannot be divided into rounds")

    _saved: ClassVar[SavedParts] = (Saved(_tree_arrays, _restore_trees, _check_trees),)

    def _n_outputs(self) -> int:
        """Return the number of raw predictions for each row, 1 by default."""
        return 1

    def _restored(self) -> None:
        """Set attributes that derive from others, after loading or slicing; by default, there is nothing to set."""

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of the individual trees by name."""
        return self._every_parameter() | {"splitter": "random" if self._has_random_thresholds else "best"}

    # Categories --------------------------------------------------

    def _category_options(self) -> Categories:
        """Return the options of the parameter `categories`; models without it have the encoding "partition"."""
        return self._options("categories") if hasattr(self, "categories") else Categories(encoding="partition")

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        """Learn the target encoding of categories and terms, and return the rows encoded by cross-fitting on `seed`.

        Without such columns, the rows are unchanged. Warn about columns with more categories than bins.
        """
        self._statistics = None
        method, columns = self._columns_of_statistics()
        self._warn_of_pooled(columns)
        terms = self._terms_of_statistics()
        if not columns and not terms:
            return data
        values = _encoding_targets(data.y, self._n_classes())
        targets = Targets(values, data.sample_weight, data.comm, data.weight_before_classes)
        self._statistics, X = TargetStatistics.learn(data.X, targets, columns, method, seed, terms)
        return data._replace(X=X)

    def _columns_of_statistics(self) -> tuple[str, list[int]]:
        """Return the method of target encoding, and the indices of the columns of X that it is applied to."""
        method = self._category_options().encoding
        sizes = [0 if categories is None else len(categories) for categories in self._encoder.categories]
        for column in self._encoder.ordered:
            sizes[column] = 0
        if method == "auto":
            return "target", [column for column, size in enumerate(sizes) if size > MAX_PARTITIONED]
        return method, np.flatnonzero(sizes).tolist() if method in METHODS else []

    def _terms_of_statistics(self) -> list[Terms]:
        """Return the vocabularies of the text columns whose terms (words) get a mean target each."""
        method = self._category_options().encoding
        least = {"auto": MAX_PARTITIONED + 1} | dict.fromkeys(METHODS, 1)
        return [terms for terms in self._encoder.terms() if method in least and terms.n >= least[method]]

    def _n_classes(self) -> list[int]:
        """Return the number of classes of each target, as a list; it is empty in regression."""
        classes = getattr(self, "classes_", [])
        return [len(target_classes) for target_classes in (classes if isinstance(classes, list) else [classes])]

    def _warn_of_pooled(self, encoded: Collection[int] = ()) -> None:
        """Warn about columns with more categories than bins, which pool rare ones, except for the columns `encoded`."""
        if self._encoder.categories.count(None) == len(self._encoder.categories):
            return
        estimator, has_option = getattr(self, "estimator", None), hasattr(self, "categories")
        owner = self if estimator is None else estimator
        most = column_bins(self, owner) if hasattr(owner, "max_bins") else None
        limits = most.tolist() if isinstance(most, np.ndarray) else [most] * len(self._encoder.categories)
        for column, categories in enumerate(self._encoder.categories):
            if (
                categories is None
                or (limit := limits[column]) is None
                or len(categories) <= limit
                or column in (*encoded, *self._encoder.ordered)
            ):
                continue
            name = column if self._encoder.names is None else self._encoder.names[column]
            remedy = "Categories(encoding='target') or a larger max_bins" if has_option else "a larger max_bins"
            warn(
                f"Column {name!r} must have at most max_bins={limit} categories to keep them all; "
                f"got {len(categories)}. Only the {limit - 1} most frequent ones are kept, and the others are treated "
                f"as a single category. Use {remedy} to distinguish them."
            )

    def _learn_same_statistics(self, data: Any, seed: int) -> Any:
        """Return the rows of an earlier fit with its target encoding, learned again with cross-fitting from `seed`.

        The model is not changed. Raise ValueError if the rows give another target encoding.
        """
        again = copy(self)
        encoded = again._learn_statistics(data, seed)
        again._check_same_statistics(self._statistics_arrays())
        return encoded

    def _check_same_statistics(self, before: dict[str, NDArray[Any]]) -> None:
        """Raise ValueError unless the target encoding equals `before`, the arrays of the fit that is continued."""
        now = self._statistics_arrays()
        if before.keys() != now.keys() or any(
            not np.array_equal(now[name], old, equal_nan=True) for name, old in before.items()
        ):
            raise ValueError(
                "X and y must be the same as in the fit that this one continues, because they determine the "
                "target encoding. Use Categories(encoding='partition') to continue on other rows."
            )

    def _apply_statistics(self, data: Any) -> Any:
        """Return rows that were not used to learn it with the learned target encoding; unchanged without one."""
        return data if self._statistics is None else data._replace(X=self._statistics.transform(data.X))

    @property
    def _is_categorical(self) -> NDArray[np.bool_]:
        """Mask of the columns of the encoded table that hold categories."""
        kinds = self._encoder.is_categorical
        kinds[list(self._encoder.ordered)] = False  # thresholds split positions in the order of the categories
        if self._statistics is not None:
            kinds[self._statistics.columns] = False
        return np.append(kinds, np.zeros(len(self._column_of) - len(kinds), dtype=bool))

    @property
    def feature_parts_(self) -> list[str]:
        """Names of the features that trees split on; a column of dates, texts, lists or categories may give several."""
        self._check_fitted()
        names = self._encoder.part_names()
        if self._statistics is None:
            return names
        columns = self._statistics.column_of(len(names))
        is_mean = np.isin(columns, self._statistics.columns)
        pairs = zip(columns, is_mean, strict=True)
        part_names = [f"mean target of {names[column]}" if mean else names[column] for column, mean in pairs]
        texts = np.repeat([terms.length for terms in self._statistics.terms], self._statistics.n_targets)
        return part_names[: len(part_names) - len(texts)] + [
            part_name(self._encoder.texts[column], "mean target") for column in texts
        ]

    @property
    def _column_of(self) -> NDArray[np.intp]:
        """The column of X that each column of the encoded table is derived from."""
        columns = self._encoder.column_of
        return columns if self._statistics is None else columns[self._statistics.column_of(len(columns))]

    def _by_columns(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum over each column of X, (n_features,), of `values`, which has one for each encoded column."""
        return np.bincount(self._column_of, values, self.n_features_in_).astype(np.float64)

    def _statistics_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned target encoding as arrays to save; empty if there is none."""
        return {} if self._statistics is None else self._statistics.to_arrays()

    def _send_unseen(self) -> None:
        """If the option `unseen` is "average", make the trees average both branches for unseen categories."""
        if self._category_options().unseen == "average":
            self._ensemble = self._ensemble.with_unseen_on_average()

    def _restore_statistics(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Set the target encoding from the arrays of `_statistics_arrays`, if there are any.

        Raise ValueError if it does not match the columns.
        """
        if arrays:
            self._statistics = TargetStatistics.from_arrays(arrays)
            kinds = self._encoder.is_categorical
            if any(not 0 <= column < len(kinds) or not kinds[column] for column in self._statistics.columns):
                raise ValueError("the statistics of the categories and the columns do not match")
            if any(terms not in self._encoder.terms() for terms in self._statistics.terms):
                raise ValueError("the statistics of the texts and the columns do not match")

    def export(self, path: str | os.PathLike[str] | None = None, *, format: str, **options: Any) -> Any:  # noqa: A002
        """Export the model to another format; if the format cannot represent all of it, raise ValueError.

        Parameters
        ----------
        path : path, optional
            File to write. If None, the exported model is returned.
        format : {"lightgbm", "onnx", "sklearn", "xgboost", "treelite", "c", "sql"}
            "lightgbm": the text of a Booster. "onnx": a serialised model. "sklearn": a scikit-learn estimator.
            "xgboost": the JSON text of a Booster. "treelite": a checkpoint. "c": a C99 header. "sql": a query.
        **options
            Options of the format. "onnx": `ml_opset`, 5 or 3 (for older runtimes), and `inputs`, "auto", "tensor" or
            "columns". "c": `name`, the prefix of all identifiers. "sql": `table`, the name of the table.

        Raises
        ------
        ValueError
            If the format cannot represent the model.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> text = GradientBoostingRegressor(n_estimators=5).fit(X, y).export(format="lightgbm")
        >>> text.splitlines()[:2]
        ['tree', 'version=v4']
        """
        self._check_fitted()
        return import_module("fastens.exchange.export").export(self, path, format, options)

    # Predict --------------------------------------------------

    def _raw(self, X: Any) -> NDArray[np.float64]:
        """Return the raw predictions for the rows of the table X, (n_samples, n_outputs)."""
        X = self._check_table(X)
        trees = self._predicting_trees()
        if isinstance(X, np.ndarray):  # resolving n_jobs would take most of the time of a single-row prediction
            return trees.predict_raw(X, 1 if X.shape[0] == 1 else resolve_n_jobs(self.n_jobs))
        return raw_of_rows(trees, X, resolve_n_jobs(self.n_jobs))

    def _predicting_trees(self) -> TreeEnsemble:
        """Return the trees whose values are summed in predictions; subclasses may change the values."""
        return self._ensemble

    def _shown_trees(self) -> TreeEnsemble:
        """Return the trees as grown, for leaves and plots; subclasses raise ValueError for models without trees."""
        return self._ensemble

    def leaf_features(self, X: ArrayLike) -> csr_matrix:
        """Return a one-hot encoding of each row's leaves, a CSR matrix of shape (n_samples, n_leaves).

        References
        ----------
        Moosmann, Triggs & Jurie (2006), "Fast discriminative visual codebooks using randomized clustering forests".
        """
        self._check_fitted()
        return leaf_features(self._shown_trees(), self._leaves(X))

    def _leaves(self, X: Any) -> NDArray[np.int32]:
        """Return the index within its tree of the leaf of each row of X, in each tree, (n_samples, n_trees)."""
        return self._leaves_of(self._check_table(X))

    def _leaves_of(self, table: Any) -> NDArray[np.int32]:
        """Return the index within its tree of the leaf of each row of an encoded table, (n_samples, n_trees)."""
        n_threads = resolve_n_jobs(self.n_jobs)
        trees, table = on_used_columns(self._shown_trees(), table)
        return map_parts(lambda part: trees.apply(part, n_threads), table, is_dense=False)


def _encoding_targets(y: NDArray[np.float64], n_classes: list[int]) -> NDArray[np.float64]:
    """Return the rows of numbers that target encoding averages, (n_encoded_targets, n_rows).

    `n_classes` has the number of classes of each target. A target with three or more classes gives an indicator for
    each class; others give their values.
    """
    targets = np.atleast_2d(y.T)
    sizes = n_classes if len(n_classes) == len(targets) else [0] * len(targets)
    parts = [of == np.arange(n)[:, None] if n > 2 else of[None] for of, n in zip(targets, sizes, strict=True)]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float64)


# A number larger than the position of any category.
_BEYOND = float(2**31)


class _MergedColumn(NamedTuple):
    """Categorical column of merged models: new codes by category position, and each model's old code for them."""

    codes: NDArray[np.uint16]
    of_others: int
    old_codes: list[NDArray[np.intp]]


def recode_to_common_binning(models: Sequence[Any], encoder: InputEncoder) -> list[TreeEnsemble]:
    """Return the trees of fitted models, recoded to one binning with the categories of `encoder`.

    Raise ValueError if a column would have too many bins.
    """
    binnings = [model._ensemble.binning for model in models]
    thresholds = _common_thresholds(models)
    kinds = binnings[0].is_categorical
    columns = {f: _merge_codes(models, f, encoder) for f in np.flatnonzero(kinds).tolist()}
    for f, feature_thresholds in enumerate(thresholds):
        n_codes = len(columns[f].old_codes[0]) if f in columns else len(feature_thresholds) + 2
        if n_codes > MAX_CODES:
            name = _column_label(encoder, int(models[0]._column_of[f]))
            raise ValueError(
                f"column {name} must have at most {MAX_CODES} bins across all models; got "
                f"{n_codes}. Fit the models with a smaller max_bins."
            )
    lookup = np.zeros((len(kinds), 2), dtype=np.int32)
    if binnings[0].lookup is not None:
        lookup[:, 1] = binnings[0].lookup[:, 1]
    for f, column in columns.items():
        lookup[f, 0] = column.of_others
    codes = [columns[f].codes if f in columns else None for f in range(len(kinds))]
    binning = Binning(thresholds, codes, lookup)
    return [
        recode_trees(model._ensemble, binning, {f: column.old_codes[number] for f, column in columns.items()})
        for number, model in enumerate(models)
    ]


def recode_trees(trees: TreeEnsemble, binning: Binning, old_codes: dict[int, NDArray[np.intp]]) -> TreeEnsemble:
    """Return the trees with bin codes of `binning`; `old_codes` has, by feature, the old code of each new code."""
    out = recoded(trees, binning, old_codes)
    return LinearEnsemble(out, trees.linear) if isinstance(trees, LinearEnsemble) else out


def extend_categories(model: Any, trees: TreeEnsemble, encoder: InputEncoder) -> TreeEnsemble:
    """Return a fitted model's trees with bin codes for new categories of `encoder`, which extends the model's."""
    binning, old_codes = trees.binning, {}
    category_codes = list(binning.category_codes)
    for f in np.flatnonzero(binning.is_categorical).tolist():
        column, n_codes = int(model._column_of[f]), int(binning.n_codes[f])
        old_codes[f] = np.arange(n_codes)
        categories = encoder.categories[column]
        if categories is None:
            continue
        positions = np.array(_code_positions(model._encoder, column, categories, 0))
        codes = binning.of_features([f]).codes(positions[:, None])[0].astype(np.intp)
        n_known, n_all = len(model._encoder.categories[column]), len(categories)
        new = np.arange(n_known, n_all)[: max(model.max_bins + 1 - n_codes, 0)]
        old_codes[f] = np.append(old_codes[f], codes[new])
        codes[new] = n_codes + np.arange(len(new))
        category_codes[f] = codes.astype(np.uint16)
    return recode_trees(trees, Binning(binning.thresholds, category_codes, binning.lookup), old_codes)


def _common_thresholds(models: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return each feature's bin edges: of the first model if all are equal, otherwise all edges that trees use."""
    every = [model._ensemble.binning.thresholds for model in models]
    if all(all(map(np.array_equal, every[0], thresholds)) for thresholds in every[1:]):
        return every[0]
    used = [model._ensemble.with_used_thresholds().binning.thresholds for model in models]
    return [np.unique(np.concatenate(of_column)) for of_column in zip(*used, strict=True)]


def _merge_codes(models: Sequence[Any], feature: int, encoder: InputEncoder) -> _MergedColumn:
    """Return the coarsest codes of a categorical feature that separate what any of the models separates.

    `encoder` has the categories of all models. Code 0 is for missing values. Raise ValueError if models treat fractions
    as codes differently.
    """
    column = int(models[0]._column_of[feature])
    categories = encoder.categories[column]
    binnings = [model._ensemble.binning.of_features([feature]) for model in models]
    ways = [0 if each.lookup is None else int(each.lookup[0, 1]) for each in binnings]
    if categories is None and len(set(ways)) > 1:
        name = _column_label(encoder, column)
        raise ValueError(f"column {name} must hold integer codes, because the models treat fractions differently.")
    n_positions = max(len(each.category_codes[0]) for each in binnings)
    codes = []
    for model, binning in zip(models, binnings, strict=True):
        positions = _code_positions(model._encoder, column, categories, n_positions)
        codes.append(binning.codes(np.array([[np.nan], *([position] for position in positions), [_BEYOND]]))[0])
    every, first, kind = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    code = np.argsort(order)[kind]
    old = list(every[:, order].astype(np.intp))
    return _MergedColumn(code[1:-1].astype(np.uint16), int(code[-1]), old)


def _code_positions(encoder: InputEncoder, column: int, categories: list[Any] | None, n_positions: int) -> list[float]:
    """Return the code that a model's `encoder` gives to each of `categories` of a column, (n_categories,).

    If `categories` is None, the codes are 0 to `n_positions` - 1.
    """
    if categories is None:
        return [float(position) for position in range(n_positions)]
    positions = {category: float(position) for position, category in enumerate(encoder.categories[column] or [])}
    same = same_categories([each for each in categories if each not in positions], positions)
    missing = [float(len(positions))] if encoder.missing_is_category else []
    return [positions.get(same.get(each, each), encoder.unseen) for each in categories] + missing


def _column_label(encoder: InputEncoder, column: int) -> str:
    """Return a column's quoted name, or its index if columns have no names."""
    return str(column) if encoder.names is None else repr(encoder.names[column])


def slice_rounds(model: Any, chosen: slice) -> Any:
    """Return a copy of a fitted model with only the rounds in the slice `chosen`, and the baseline unchanged."""
    trees = model._ensemble
    per_round = trees.trees_per_round
    rounds = np.arange(trees.n_trees // per_round)[chosen]
    kept = (rounds[:, None] * per_round + np.arange(per_round)).ravel()
    separate = trees.separate_trees()
    part = copy(model)
    part._delete("_best_trees", "_calibration", "oob_improvement_", "oob_prediction_", "oob_decision_function_")
    part._ensemble = type(trees).from_trees(
        [separate[number] for number in kept.tolist()], trees.tree_output[kept], trees.baseline, trees.binning
    )
    part.n_estimators, part.n_estimators_ = max(len(rounds), 1), len(rounds)
    part.evals_result_ = model.evals_result_.of_rounds(rounds)
    part._restored()
    return part

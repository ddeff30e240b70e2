"""Unsupervised trees with random splits, and access to the trees of a forest as estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from fastens.base import BaseFastens
from fastens.engine.bins.binning import learn_binning
from fastens.engine.bins.sparse_binned import binned
from fastens.engine.comm import gathered
from fastens.engine.forest.forests import ForestGrower, TreeRules, number_target
from fastens.engine.limits import check_count
from fastens.engine.rows.sampling import Bootstrap, checked_seed, content_hashes, repeated, stream_seeds
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.tree_store import TreeStore
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import (
    GROWING,
    Bags,
    OwnRows,
    Samples,
    check_continued,
    check_no_bags_needed,
    draw_alike,
    draw_seed,
)
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.params.docstrings import Docs, entries
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, RANDOM_STATE, parameter, whole
from fastens.table.parts import present_part
from fastens.table.source import FitNeeds
from fastens.table.training_data import WEIGHT_TYPE, AllRows, check_weights, unless_ones
from fastens.tree_model.saving import SavedEnsemble
from fastens.tree_model.tree_model import DOCS as TREE_DOCS
from fastens.tree_model.tree_model import check_same_rules

_LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "_encoder",
    "_statistics",
    "_n_plain_features",
    "_n_targets",
    "_has_all_shares",
)

NOT_ALIKE = "The bags are not known: a warm start went on with other rows, or drew them in another way."


class Members(Sequence[Any]):
    """Sequence of the trees of a forest as estimators, which are created on access and share the forest's memory."""

    def __init__(self, forest: Any) -> None:
        self._forest = forest._as_it_is()

    def __len__(self) -> int:
        return self._forest._ensemble.n_trees

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        places = range(len(self))[index]
        return [self._member(t) for t in places] if isinstance(places, range) else self._member(places)

    def _member(self, t: int) -> Any:
        model, trees = self._forest, self._forest._ensemble
        tree = single_tree(model, TreeEnsemble.from_trees([trees.tree(t)], [0], trees.baseline, trees.binning))
        if hasattr(model, "_seed"):
            tree.random_state = int(stream_seeds(model._seed, t, t + 1, GROWING)[0])
            # A forest draws features even if it evaluates all of them; a single tree does so for 1.0 but not for None.
            tree.max_features = 1.0 if tree.max_features is None else tree.max_features
        return tree


def template(model: Any) -> Any:
    """Return an unfitted decision tree with the parameters of a tree model."""
    kind: Any = DecisionTreeClassifier if is_classifier(model) else DecisionTreeRegressor
    given = model._as_fitted()._of_members()
    return kind(**{name: given[name] for name in kind().get_params() if name in given})


def single_tree(model: Any, trees: TreeEnsemble) -> Any:
    """Return a fitted decision tree with the parameters and the table schema of a model."""
    estimator = template(model)
    vars(estimator).update({name: vars(model)[name] for name in _LEARNED if name in vars(model)})
    estimator._ensemble = trees
    return estimator


def rows_in_bags(bags: Bags, n_members: int, rows: NDArray[np.intp]) -> list[NDArray[np.int32]]:
    """Return the rows of each bag, repeated as often as drawn; `rows` are positions of rows with a weight in `fit`."""
    check_count("estimators_samples_", "rows", int(rows.max(initial=-1)) + 1, advice="Train on a sample of them.")
    if bags.draws is None:
        return [rows.astype(np.int32) for _ in range(n_members)]
    why = "estimators_samples_ holds a row as often as it was drawn"
    counts = (bags.counts(member, member + 1)[0] for member in range(n_members))
    return [repeated(rows, of_rows, why).astype(np.int32) for of_rows in counts]


def rows_of_bags(forest: Any, data: AllRows, draws: Bootstrap | None, rows: Any) -> NDArray[np.intp] | None:
    """Return the rows with a weight, or an empty array if a warm start draws its bags differently than the last fit.

    Parameters
    ----------
    forest : BaseForest
        Forest with the trees of the last fit and the bootstrap of this one.
    data : AllRows
        The rows of this fit.
    draws, rows
        Bootstrap of the last fit, and its rows with a weight.
    """
    as_many = draws is not None or data.n_rows == forest._ensemble.n_samples[0]
    same_rows = rows is data.rows or (rows is not None and data.rows is not None and np.array_equal(rows, data.rows))
    if as_many and same_rows and draw_alike(draws, forest._bootstrap):
        return data.rows
    if draws is not None:
        check_no_bags_needed(forest)
    return np.zeros(0, dtype=np.intp)


def mean_importances(trees: TreeEnsemble, column_of: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Return the mean decrease in impurity of each feature, normalised to sum to 1."""
    tree = np.repeat(np.arange(trees.n_trees), np.diff(trees.node_offsets))
    inner = trees.feature >= 0
    cell = tree[inner] * n_features + column_of[trees.feature[inner]]
    gain = np.zeros((trees.n_trees, n_features))
    np.add.at(gain.ravel(), cell, trees.gain[inner])
    total = gain.sum(axis=1, keepdims=True)
    share = np.divide(gain, total, out=np.zeros_like(gain), where=total > 0).mean(axis=0)
    return share / share.sum() if share.any() else share


Array = NDArray[np.float64]
_SEED = "seed"

DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of trees. Time and memory are proportional to it.
warm_start : bool
    If True, `fit` keeps the existing trees and adds new ones until there are `n_estimators`. With the same rows, the
    result is identical to fitting all trees at once.
""")


@with_parameters
class RandomSplits(SavedEnsemble, BaseFastens):
    """Base class of forests that are grown by random splits, without a target."""

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    categorical_features: Any = parameter(ANYTHING, default="from_dtype")
    max_bins: int = parameter(whole(2, 65_535), default=255)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = parameter(FLAG, default=False)
    random_state: Any = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = DOCS
    _takes_parts = True

    def _grow_at_random(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        """Grow the trees; return this rank's rows of nonzero weight and their weights (None if all are 1)."""
        self._check_parameters()
        continues = self._continues()
        if continues:
            check_continued(self.n_estimators, self._ensemble.n_trees, "trees")
            check_same_rules(self)
        comm = self._comm
        self._check_ranks()
        needs = FitNeeds.of(self, weighted=sample_weight is not None)
        X, sample_weight = present_part(X, sample_weight, comm)
        table = self._encode_table(X) if continues else self._learn_table(X, needs)
        if continues and (limits := getattr(table, "limits", None)) is not None:
            table.place = needs.place(limits, table)
        weight = check_weights(sample_weight, table.shape[0], comm)
        weight = unless_ones(self._weights_to_count(weight, is_fit=True), comm)
        n_threads = resolve_n_jobs(self.n_jobs)
        if not continues or not hasattr(self, "_seed"):  # models imported from other libraries have no seed
            self._seed: int = comm.allgather(draw_seed(self.random_state))[0]
        self._warn_of_pooled()
        is_categorical = self._is_categorical
        known = self._ensemble.binning if continues else None
        binning = known or learn_binning(table, weight, self.max_bins, is_categorical, n_threads, comm)
        store = TreeStore(binning, 1, self.n_estimators)
        if continues:
            store.keep(self._ensemble)
        hashes = content_hashes(table, np.zeros(table.shape[0]), n_threads)
        own, (all_hashes, all_weights) = OwnRows.of(comm, len(hashes)), gathered(comm, [hashes, weight])
        bags = self._bags(self._seed, all_hashes, all_weights)
        given = all_weights if bags.draws is None else None
        samples = Samples(bags, given, store.n_trees, self.n_estimators, own)
        # Row hashes as targets: no node with distinct rows is pure, so growth only stops at the limits.
        target = number_target((hashes / 2.0**64)[:, None], comm=comm)
        matrix = binned(binning, table, n_threads, comm)
        total = float(len(all_hashes) if all_weights is None else all_weights.sum())
        grower = ForestGrower(matrix, target, self._rules(len(all_hashes), total), n_threads, X=table)
        grower.grow_into(store.add, samples, store.n_trees)
        self._ensemble = store.ensemble()
        return X, weight

    def _continues(self) -> bool:
        """Return True if this fit adds trees to those of the last fit."""
        return self.warm_start and hasattr(self, "_ensemble")

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        """Return the bags of the trees, given the hashes and weights of the rows; by default all rows and columns."""
        n_features = len(self._column_of)
        return Bags(seed, None, n_features, n_features)

    def _rules(self, n_rows: int, total_weight: float) -> TreeRules:
        """Return the growth limits for a number of rows and their total weight."""
        raise NotImplementedError

    def _of_members(self) -> dict[str, Any]:
        """Return the parameters of the individual trees."""
        return self._every_parameter() | {"splitter": "random", "max_features": 1}

    @property
    def estimators_(self) -> Members:
        """The fitted trees, each of which is created as a regression tree estimator when it is accessed."""
        self._check_fitted()
        return Members(self)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """Return a tree of `estimators_`, or a list of trees for a slice."""
        return self.estimators_[index]

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row falls into in each tree, (n_samples, n_estimators)."""
        return self._leaves(X)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return super()._fitted_arrays() | ({_SEED: np.array(self._seed)} if hasattr(self, "_seed") else {})

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if _SEED in arrays:
            self._seed = checked_seed(arrays[_SEED].item())

    def _n_outputs(self) -> int:
        return 1

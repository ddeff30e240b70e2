"""The weak classifiers that AdaBoost can fit: stumps and trees on rows binned once, and any estimator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from fastens.adaboost.weak_rounds import Vote, Weak
from fastens.adaboost.weights import RowWeights
from fastens.base import BaseFastens
from fastens.combining.parameters import check_kind, seeded, tags_of, with_weight_type
from fastens.combining.responses import label_places
from fastens.engine.bins.binning import Binning
from fastens.engine.bins.sparse_binned import AnyCodes, AnyMatrix
from fastens.engine.comm import LOCAL, Comm, sum_ints
from fastens.engine.forest.branches import Totals
from fastens.engine.forest.forests import ForestGrower, Target, TreeRules, TreeSample
from fastens.engine.grow.stumps import StumpLearner, stump_ensemble
from fastens.engine.rows.copies import repeated
from fastens.engine.trees.adding import add_tree_to_raw
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.saving import nested_arrays, numbered_arrays, restored_model

MODELS = "estimators."
MOST_LEAVES = 1 << 15

# The forests' engine sums whole weights exactly where all together stay below 2**40.
_TREE_BITS = 39


class BinnedRows:
    """Training rows, and perhaps rows to validate on, binned alike; columns are of shape (n_features, n_rows)."""

    def __init__(self, binning: Binning, columns: AnyCodes, validation: AnyCodes | None, n_threads: int) -> None:
        self.binning, self.columns, self.validation = binning, columns, validation
        self._n_threads = n_threads

    def nodes(self, tree: Tree) -> tuple[NDArray[np.uint16], NDArray[np.uint16] | None]:
        """The leaves of a tree, as node numbers, that the rows fall into."""
        validation = None if self.validation is None else self._nodes_of(tree, self.validation)
        return self._nodes_of(tree, self.columns), validation

    def _nodes_of(self, tree: Tree, columns: AnyCodes) -> NDArray[np.uint16]:
        numbers = np.zeros(columns.shape[1])
        numbered = replace(tree, value=np.arange(tree.n_nodes, dtype=np.float64)[:, None])
        add_tree_to_raw(columns, numbered, numbers, self._n_threads)
        return numbers.astype(np.uint16)


class Stumps:
    """Fits stumps."""

    monotone: NDArray[np.int8] | None = None
    has_own_classes = False

    def __init__(self, rows: BinnedRows, finder: StumpLearner, comm: Comm = LOCAL) -> None:
        self.rows, self._finder, self._comm = rows, finder, comm
        self.columns = rows.columns

    def fit(self, weights: RowWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Fit a stump; of equal ones that on the first feature, at the lowest threshold."""
        stump = self._finder.fit(weights.whole if drawn is None else drawn, self._comm)
        column, validation = max(stump.feature, 0), self.rows.validation  # -1: a stump that does not split
        codes, validation_codes = self.columns[column], None if validation is None else validation[column]
        return Weak(stump, codes, validation_codes, stump.goes_left, stump.sums.argmax(axis=1), stump.sums)

    def ensemble(self, votes: Sequence[Vote]) -> TreeEnsemble:
        """The stumps as trees."""
        values = np.array([tree_values(vote.values) for vote in votes])
        given = self.columns, self.rows.binning, self._comm
        return stump_ensemble([vote.weak.model for vote in votes], values, *given)


class Trees:
    """Fits trees on the forests' engine, each on one thread or more, to classes or numbers."""

    has_own_classes = False

    def __init__(self, rows: BinnedRows, matrix: AnyMatrix, target: Target, rules: TreeRules, n_threads: int) -> None:
        self.rows, self.target = rows, target
        self.columns = rows.columns
        self.monotone = rules.monotone
        self._comm = matrix.comm
        (n_rows,) = sum_ints(self._comm, matrix.n_rows)
        self._grower = ForestGrower(matrix, target, _limited(rules, n_rows), n_threads)

    def fit(self, weights: RowWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Grow a tree; its cells are its nodes."""
        tree = self.grow(weights, drawn, index)
        share = tree.value
        cell_class = (share[:, 0] > 0.5).astype(np.intp) if share.shape[1] == 1 else share.argmax(axis=1)
        codes, validation = self.rows.nodes(tree)
        return Weak(tree, codes, validation, None, cell_class, None)

    def grow(self, weights: RowWeights, drawn: NDArray[np.int64] | None, index: int) -> Tree:
        """Grow the tree of a round on the rows as they are weighted, or as they were drawn."""
        sample = weights.rounded(_TREE_BITS) if drawn is None else drawn
        totals = None
        if self._comm.size > 1:
            n_drawn, total = sum_ints(self._comm, int(np.count_nonzero(sample)), int(sample.sum()))
            totals = Totals(n_drawn, float(total), whole=True)
        [tree] = self._grower.grow([TreeSample(sample.astype(np.float64), None, index, totals)])
        return tree

    def ensemble(self, votes: Sequence[Vote]) -> TreeEnsemble:
        """The trees with their votes as values."""
        return self.with_values([vote.weak.model for vote in votes], [tree_values(vote.values) for vote in votes])

    def with_values(self, trees: Sequence[Tree], values: Sequence[NDArray[np.float64]]) -> TreeEnsemble:
        """Trees with other values."""
        renewed = [replace(tree, value=value) for tree, value in zip(trees, values, strict=True)]
        return TreeEnsemble.from_trees(
            renewed, np.zeros(len(renewed)), np.zeros(renewed[0].value.shape[1]), self.rows.binning
        )


def _limited(rules: TreeRules, n_rows: int) -> TreeRules:
    """Rules of trees whose nodes have numbers of 16 bits: where there could be more, the best `MOST_LEAVES` leaves."""
    depth = rules.max_depth or n_rows
    if min(n_rows, 2 ** min(depth, 40), rules.max_leaf_nodes or n_rows) <= MOST_LEAVES:
        return rules
    return replace(rules, max_leaf_nodes=MOST_LEAVES)


def tree_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Votes by cell and class as trees have them: for two classes the difference, otherwise one value per class."""
    return values[:, 1:] - values[:, :1] if values.shape[1] == 2 else values


def class_values(values: NDArray[np.float64], is_real: bool) -> NDArray[np.float64]:
    """The inverse of `tree_values`."""
    if values.shape[1] > 1:
        return values
    if is_real:
        return np.hstack([-0.5 * values, 0.5 * values])
    return np.hstack([np.maximum(-values, 0), np.maximum(values, 0)])


class Estimators:
    """Fits copies of any classifier: with weights where it takes them, otherwise on as many copies of a row."""

    monotone: NDArray[np.int8] | None = None
    has_own_classes = True

    def __init__(self, estimator: Any, labels: NDArray[Any], X: Any, classes: NDArray[np.uint16], X_val: Any) -> None:
        self._estimator, self._labels = estimator, labels
        self._X, self._classes, self._X_val = X, classes, X_val
        dense = X.toarray() if hasattr(X, "toarray") else X
        self.columns = np.asarray(dense, dtype=np.float64).T

    def fit(self, weights: RowWeights, drawn: NDArray[np.int64] | None, index: int) -> Weak:
        """Fit a copy; its cells are the classes it predicts."""
        y = self._labels[self._classes]
        counts = weights.whole if drawn is None else drawn
        return self.from_fitted(fitted_copy(self._estimator, self._X, y, (counts, weights.n_copies), index))

    def from_fitted(self, model: Any) -> Weak:
        """A fitted copy as a weak classifier."""
        validation = None if self._X_val is None else class_indices(model, self._labels, self._X_val)
        predicted = class_indices(model, self._labels, self._X)
        return Weak(model, predicted, validation, None, np.arange(len(self._labels)), None)


def fitted_copy(estimator: Any, X: Any, y: NDArray[Any], whole: tuple[NDArray[np.int64], int], index: int) -> Any:
    """A copy of an estimator, fitted with whole weights, or to as many copies of each row where it takes none.

    `whole` are these, and of how many rows, copies among them: it is given weights that sum up to as much.
    """
    weights, n_copies = whole
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False) and model.random_state is None:
        model.set_params(random_state=index)
    model = seeded(model, np.random.RandomState(index))
    given = {"sample_weight": weights / (int(weights.sum()) / n_copies)} if takes_weights(model) else {}
    model = with_weight_type(model, given["sample_weight"]) if given else model
    if not given:
        rows = repeated(np.arange(len(y)), weights, f"fit of {type(model).__name__} takes no sample_weight")
        X, y = X[rows], y[rows]
    try:
        model.fit(X, y, **given)
    except ValueError as error:
        if "dataframe" not in str(error).lower():
            raise
        raise ValueError(
            f"estimator must take arrays of numbers, which AdaBoost makes of frames; {type(model).__name__} does not: "
            f"{error} Name columns by their numbers, or prepare them in a pipeline whose last step is AdaBoost."
        ) from error
    return model


def check_weak(estimator: Any, wants_classifier: bool) -> None:
    """Raise ValueError for an estimator of another kind, or of texts, which are given as numbers."""
    check_kind("estimator", estimator, wants_classifier)
    tags = tags_of(estimator)
    if tags is not None and not tags.input_tags.two_d_array:
        raise ValueError(f"estimator must learn from tables of numbers, which texts are made into; got {estimator!r}.")


def knowing_categories(estimator: Any, is_categorical: NDArray[np.bool_]) -> Any:
    """One of our estimators that goes by the types of columns, told which of the encoded ones are categories."""
    known = estimator.get_params(deep=False) if isinstance(estimator, BaseFastens) else {}
    places = np.flatnonzero(is_categorical).tolist()
    if places and isinstance(known.get("categorical_features"), str) and known["categorical_features"] == "from_dtype":
        return clone(estimator).set_params(categorical_features=places)
    if places and isinstance(known.get("kinds"), str):  # of MixedNB
        return clone(estimator).set_params(kinds=dict.fromkeys(places, "categorical"))
    return estimator


def class_indices(model: Any, labels: NDArray[Any], X: Any) -> NDArray[np.uint16]:
    """The index, in sorted labels, of the class that an estimator predicts for each row."""
    return label_places("estimator", model.predict(X), labels, X.shape[0]).astype(np.uint16)


def models_to_arrays(models: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Fitted copies as arrays of a model file; those of other libraries only as pickles, where these are allowed."""
    found: dict[str, NDArray[Any]] = {}
    for number, model in enumerate(models):
        found |= nested_arrays(f"{MODELS}{number}.", model, f"Estimator {number}")
    return found


def models_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """The fitted copies again; none where the arrays hold none."""
    own = numbered_arrays(MODELS, arrays)
    return [restored_model(own.get(f"{number}", {}), f"Estimator {number}") for number in range(len(own))]


def check_own_trees(estimator: Any, comm: Comm) -> None:
    """Raise ValueError where other estimators than our own trees would have to learn on several ranks."""
    if comm.size > 1:
        raise ValueError(
            "estimator must be None (or, for classes, a DecisionTreeClassifier of ours) where rows are on several "
            f"ranks; got {estimator!r}."
        )


def drawn_seed(model: Any) -> int:
    """Return a seed that follows from `random_state`."""
    return int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max))


def takes_weights(estimator: Any) -> bool:
    """Whether `fit` has a parameter `sample_weight`."""
    return "sample_weight" in inspect.signature(estimator.fit).parameters


def weighted_importances(model: Any, *, parts: bool = False) -> NDArray[np.float64]:
    """The mean importances of the weak learners of a fitted AdaBoost, by their weights, shape (n_features,)."""
    if getattr(model, "_models", None) is not None:
        importances = np.array([each.feature_importances_ for each in model._models])
    else:
        importances = _tree_importances(model._ensemble)
    total = model.estimator_weights_ @ importances
    total = total if parts else model._by_columns(total)
    return total / total.sum() if total.sum() > 0 else total


def _tree_importances(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Share of each feature in the gain of each tree, shape (n_trees, n_features)."""
    gains = np.zeros((ensemble.n_trees, ensemble.binning.n_features))
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.node_offsets))
    inner = ensemble.feature >= 0
    # A split without gain on the way to better ones, or alone, is a split all the same.
    gain = np.maximum(ensemble.gain[inner], np.finfo(float).tiny)
    np.add.at(gains, (tree[inner], ensemble.feature[inner]), gain)
    total = gains.sum(axis=1, keepdims=True)
    return np.divide(gains, total, out=gains, where=total > 0)

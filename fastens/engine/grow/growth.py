"""Growing one tree: growth parameters, constraints, the call into the kernels, and cost-complexity pruning."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, is_any, max_floats, sum_ints
from fastens.engine.grow.grow import Grower
from fastens.engine.grow.leaves import bind_values, leaf_means, places, weakest_links
from fastens.engine.limits import Limits
from fastens.engine.losses.losses import exact_sum, weighted_mean
from fastens.engine.names import are_positions, have_numbers, plain_name
from fastens.engine.trees.trees import Tree
from fastens.engine.whole import are_whole

if TYPE_CHECKING:
    from fastens.engine.bins.sparse_binned import AnyMatrix
    from fastens.engine.losses.losses import Loss
    from fastens.engine.trees.trees import Tree


# Of those of all rows, in an L2 that follows the noise itself: some huge targets must not forbid all splits.
MOST_OF_HESSIANS = 0.2
# Of the rows of a tree, in a leaf's fewest rows that follow a quantile's level.
MOST_OF_ROWS = 0.2


def weight_unit(
    weights: NDArray[np.float64] | None, copies: NDArray[np.float64] | None = None, comm: Comm = LOCAL
) -> float:
    """What one row counts as in penalties: the mean weight, of so many copies of the rows, where that is below 1."""
    return 1.0 if weights is None else min(1.0, weighted_mean(weights, copies, comm))


@dataclass(frozen=True, kw_only=True)
class GrowthRules(Limits):
    """Limits of a tree of Newton steps and of its leaf values, beside those of any tree.

    Attributes
    ----------
    min_samples_tail : float
        A leaf has so many rows beyond a quantile on average, on the side that has fewer; up to a fifth of the rows that
        its tree is grown on.
    min_child_weight : float
        Smallest sum of hessians in a leaf; where the weights' mean is below 1, times that mean.
    min_gain_to_split : float
        A split must gain more than this; the gain is G^2/(H + l2), children minus parent.
    split_penalty : float
        A tree ends where its gain, less this for each split, is greatest; in units of the gradients' dispersion, their
        variance within leaves over the mean hessian. At 2 that is Akaike's criterion with an estimated dispersion.
    l2_regularization : float
        Added to the hessians of a leaf: lambda in eq. 5-7 of Chen & Guestrin (2016); where the weights' mean is below
        1, times that mean.
    noise_l2 : float
        Added besides: this times a power of the noise before the tree, the sum of the squared gradients of its rows
        over that of the hessians; scaled as the other.
    noise_power : float
        That power, 0.5 or 1, then up to a fifth of all hessians: the noise of log odds has no unit, nor has that of
        numbers beside a constant's, that of logarithms of means has the hessians'.
    features_per_tree : int or None
        How many features, drawn at random, a tree may split on; None for all.
    rows_per_threshold : int or None
        A node looks at one threshold of a numeric feature for so many of its rows, and at two at least: each is drawn
        at random from one of as many equal parts of those that leave enough rows on both sides. None: at all.
    path_smooth : float
        Pulls a node's value towards its parent's, as `l2_regularization` pulls it towards 0.
    max_delta_step : float or None
        Largest absolute value of a leaf.
    category_l2 : float
        Added to `l2_regularization` in the gain of splits on sets of categories, which have more freedom than
        thresholds; in rows of average hessian.
    category_smoothing : float
        Added to a category's sum of hessians before categories are put in order of gradient over hessian, so that few
        rows count for little; in rows of average hessian.
    min_samples_category : int
        Categories with fewer rows in a node are pooled there: they go to the same side.
    max_categories_per_split : int or None
        Most categories on the side of a split that has fewer of them.
    one_hot_max_size : int
        A feature of no more categories splits them off one by one, without `category_l2`.
    """

    max_leaf_nodes: int | None = 31
    min_samples_leaf: int = 20
    min_samples_tail: float = 0.0
    min_child_weight: float = 1e-3
    min_gain_to_split: float = 0.0
    split_penalty: float = 0.0
    l2_regularization: float = 0.0
    noise_l2: float = 0.0
    noise_power: float = 0.5
    features_per_tree: int | None = None
    rows_per_threshold: int | None = None
    path_smooth: float = 0.0
    max_delta_step: float | None = None
    category_l2: float = 10.0
    category_smoothing: float = 5.0
    min_samples_category: int = 1
    max_categories_per_split: int | None = None
    one_hot_max_size: int = 0

    def in_units(self, unit: float) -> GrowthRules:
        """The limits for rows that each count as so much: small weights do not mean that there are few rows."""
        if unit == 1:
            return self
        scaled = ("min_child_weight", "l2_regularization", "noise_l2")
        return replace(self, **{name: getattr(self, name) * unit for name in scaled})

    def l2_of_noise(self, root: float, hessian: float) -> float:
        """The L2 of the leaves of an output, given the root of the noise and the sum of the hessians of all rows."""
        of_noise = self.noise_l2 * root
        if self.noise_power == 1:
            of_noise = min(of_noise * root, MOST_OF_HESSIANS * hessian)
        return self.l2_regularization + of_noise

    def fewest_rows(self, tail: float, n_rows: float) -> int:
        """The fewest rows of a leaf, given the share of them on the side of a quantile that has fewer, and all rows."""
        of_tail = min(self.min_samples_tail / tail, MOST_OF_ROWS * n_rows)
        return max(self.min_samples_leaf, math.ceil(of_tail * (1 - 1e-12)))

    @property
    def bind_values(self) -> bool:
        """Whether leaf values are more than the Newton steps of their rows."""
        return self.monotone is not None or self.path_smooth > 0 or self.max_delta_step is not None


@dataclass(frozen=True)
class RowWeights:
    """Weights of a rank's rows, numbers of copies times other factors, and what is known of those of all ranks.

    Attributes
    ----------
    of_rows : float64 array of shape (n_rows,) or None
        The weights; None for ones, then on all ranks.
    copies : float64 array of shape (n_rows,) or None
        Whole numbers with a sum that kernels can count; None for ones, then on all ranks.
    factors : float64 array of shape (n_rows,) or None
        What the weights are beside that; None for ones, then on all ranks.
    comm : Comm
        The ranks.
    n_copies, total : float
        The sums of the copies and of the weights.
    most_copies : float
        The largest number of copies.
    """

    of_rows: NDArray[np.float64] | None
    copies: NDArray[np.float64] | None
    factors: NDArray[np.float64] | None
    comm: Comm
    n_copies: float
    total: float
    most_copies: float

    @classmethod
    def of(
        cls,
        weights: NDArray[np.float64] | None,
        n_rows: int,
        comm: Comm = LOCAL,
        own: NDArray[np.float64] | None = None,
    ) -> RowWeights:
        """Return what is known of such weights; `own` are they without those of classes, where both are given."""
        (n_rows,) = sum_ints(comm, n_rows)
        if weights is None:
            return cls(None, None, None, comm, n_rows, n_rows, 1.0)
        total, choices = exact_sum(weights, comm), list[tuple[NDArray[np.float64], NDArray[np.float64] | None]]()
        of_classes = np.ones(0) if own is None else weights / own
        if not is_any(comm, not are_whole(of_classes)):  # whole weights of classes are copies too, unless too many
            choices.append((weights, None))
        if own is not None:
            choices.append((own, of_classes))
        for copies, factors in choices:
            n_copies, (most,) = exact_sum(copies, comm), max_floats(comm, float(copies.max(initial=0.0)))
            if n_copies < 2.0**31 and not is_any(comm, not are_whole(copies)):
                return cls(weights, copies if most > 1 else None, factors, comm, n_copies, total, most)
        return cls(weights, None, weights, comm, n_rows, total, 1.0)

    @property
    def are_ones(self) -> bool:
        """Whether the weights are known to be 1."""
        return self.copies is None and self.factors is None

    def n_copies_of(self, rows: NDArray[np.uint32] | None) -> float:
        """How many copies some of a rank's rows have, on all ranks; None for all rows."""
        if rows is None:
            return self.n_copies
        return sum_ints(self.comm, len(rows) if self.copies is None else int(self.copies[rows].sum()))[0]

    @property
    def unit(self) -> float:
        """What one row counts as in penalties."""
        return weight_unit(self.factors, self.copies, self.comm)


class TreeGrower(Grower):
    """Grows one tree after another on the same rows, with the memory allocated once.

    Where the matrix has payloads for several outputs, every leaf has a value for each, and the gain of a split is the
    sum of its gains for the outputs. `min_child_weight` is then of their mean hessian. Limits of values (`path_smooth`,
    `max_delta_step`) are kept, but splits are chosen as if values were free. Monotone constraints hold for every
    output; a split whose sides are in the wrong order for one gains nothing for it.

    Parameters
    ----------
    matrix : BinnedMatrix or SparseMatrix
        The rows. Their records carry the quantised gradients, so a matrix has one grower at a time. Where they are
        those of one of several ranks, all ranks grow the same trees.
    rules : GrowthRules
        Limits of every tree.
    sample_weight : float64 array of shape (n_rows,), RowWeights or None
        Positive weights. A whole-number weight is the same, to the bit, as so many copies of the row.
    constant_hessian : bool
        All hessians are 1 before weighting.
    renews_leaves : bool
        Every tree will be given to `renew_leaves`: its own values only choose the splits, and may be on another scale.
    n_threads : int
        Number of threads; it does not change the trees.
    """

    def __init__(
        self,
        matrix: AnyMatrix,
        rules: GrowthRules,
        sample_weight: NDArray[np.float64] | RowWeights | None = None,
        *,
        constant_hessian: bool = False,
        renews_leaves: bool = False,
        n_threads: int = 1,
    ) -> None:
        weights = sample_weight
        if not isinstance(weights, RowWeights):
            weights = RowWeights.of(weights, matrix.n_rows, matrix.comm)
        self.row_weights, self.unit = weights, weights.unit
        super().__init__(matrix, rules.in_units(self.unit), weights, constant_hessian, renews_leaves, n_threads)

    def renew_leaves(
        self,
        tree: Tree,
        loss: Loss,
        residuals: NDArray[np.float64],
        n_threads: int = 1,
        factors: NDArray[np.float32] | None = None,
        column: int = 0,
    ) -> Tree:
        """Return the tree just grown with leaf values that `loss` finds from the residuals of their rows.

        `factors` of the rows that it was grown on, if given, are multiplied with their weights; `column` is that of the
        values that are found.
        """
        nodes, rows, starts = self.leaves()
        weights = None if self.row_weights.of_rows is None else self.row_weights.of_rows[rows]
        if factors is not None:
            of_row = np.zeros(len(residuals))
            of_row[np.sort(rows)] = factors
            weights = of_row[rows] if weights is None else weights * of_row[rows]
        found = np.zeros(tree.n_nodes)
        found[nodes] = loss.leaf_values(residuals[rows], starts, weights, n_threads)
        if self.rules.bind_values:
            leaf_means(found, tree.weight, tree.left_child)
            bind_values(found, tree.weight, tree, self.rules)
        value = tree.value.copy()
        value[:, column] = found
        return replace(tree, value=value)


def leaves_within_limits(
    tree: Tree, value: NDArray[np.float64], rules: GrowthRules, factor: float
) -> NDArray[np.float64]:
    """New leaf values within the limits of growth, where steps count `factor` times: monotone, and not too large.

    Parameters
    ----------
    tree : Tree
        A tree grown by `rules`.
    value : array of shape (n_nodes,)
        The new values of its leaves.
    rules : GrowthRules
        The limits.
    factor : float
        What the steps of leaves are multiplied by in `value`.
    """
    if rules.monotone is None and rules.max_delta_step is None:
        return value
    value, weight = value.copy(), np.asarray(tree.weight, dtype=np.float64)
    leaf_means(value, weight, tree.left_child)
    most = None if rules.max_delta_step is None else factor * rules.max_delta_step
    bind_values(value, weight, tree, replace(rules, path_smooth=0.0, max_delta_step=most))
    return value


# Different features on a path, by scikit-learn's names.
PATH_WORDS = {"no_interactions": 1, "pairwise": 2}


class Columns:
    """The columns that constraints refer to.

    Parameters
    ----------
    n_features : int
        How many there are.
    names : sequence of names or None
        Their names, as `plain_name` has them. Where any of them is a number, numbers are names, not positions.
    """

    def __init__(self, n_features: int, names: Sequence[Any] | None = None) -> None:
        self.n_features = n_features
        self.names = None if names is None else list(names)
        self._place = {name: place for place, name in enumerate(self.names or ())}
        self._takes_positions = not have_numbers(self.names) or are_positions(self.names)

    def is_name(self, item: Any) -> bool:
        """Whether a value is the name of a column."""
        return isinstance(item, Hashable) and plain_name(item) in self._place

    def position(self, parameter: str, item: Any) -> int:
        """Where a column stands that is named, or given by its position."""
        if self.is_name(item):
            return self._place[plain_name(item)]
        is_whole = isinstance(item, numbers.Integral) and not isinstance(item, bool | np.bool_)
        if isinstance(item, str) or not self._takes_positions:
            known = f"the columns are {self.names}" if self.names else "X has no column names"
            raise ValueError(f"{parameter} must name columns of X; got {item!r}, and {known}.")
        if not is_whole or not 0 <= item < self.n_features:
            raise ValueError(f"{parameter} must hold column indices from 0 to {self.n_features - 1}; got {item!r}.")
        return int(item)

    def values(self, parameter: str, given: Any, default: float) -> NDArray[np.float64]:
        """One number for each column: from an array, or from a dict of some columns."""
        out = np.full(self.n_features, default)
        if isinstance(given, Mapping):
            for item, value in given.items():
                out[self.position(parameter, item)] = _number(parameter, value)
            return out
        found = [given] if isinstance(given, str) else np.asarray(given, dtype=object).ravel().tolist()
        if len(found) != self.n_features:
            raise ValueError(
                f"{parameter} must have a value for each of the {self.n_features} columns, or be a dict of some; "
                f"got {given!r}."
            )
        return np.array([_number(parameter, value) for value in found])


def _number(parameter: str, value: Any) -> float:
    if isinstance(value, str | bytes) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{parameter} must hold finite numbers; got {value!r}.")
    return float(value)


def count_of(wanted: float | str | None, n_features: int, *, up: bool = False) -> int:
    """How many features a number of them means, a share of all (rounded down or up), "sqrt", "log2" or None (all)."""
    if wanted is None:
        return n_features
    if isinstance(wanted, str):
        return max(1, int(math.sqrt(n_features) if wanted == "sqrt" else math.log2(n_features)))
    if isinstance(wanted, numbers.Integral):
        return min(int(wanted), n_features)
    return math.ceil(wanted * n_features) if up else max(1, int(wanted * n_features))


def monotone_signs(given: Any, columns: Columns, is_categorical: NDArray[np.bool_]) -> NDArray[np.int8] | None:
    """Read `monotonic_cst`: 1, -1 or 0 for each column; None where there is no constraint."""
    if given is None:
        return None
    signs = columns.values("monotonic_cst", given, 0)
    for sign in signs:
        if sign not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must hold 1, -1 or 0 for each column; got {sign:g}.")
    bound = np.flatnonzero((signs != 0) & is_categorical)
    if bound.size:
        name = repr(columns.names[bound[0]]) if columns.names else str(bound[0])
        raise ValueError(f"monotonic_cst must be 0 for categorical columns, which have no order; column {name} is one.")
    return signs.astype(np.int8) if signs.any() else None


def feature_chances(given: Any, columns: Columns) -> NDArray[np.float64] | None:
    """Read `feature_weights`: chances of being drawn, 1 for the columns that a dict leaves out."""
    if given is None:
        return None
    weights = columns.values("feature_weights", given, 1.0)
    if weights.min() < 0 or not weights.any():
        bad = weights.min() if weights.min() < 0 else 0.0
        raise ValueError(f"feature_weights must not be negative, and not all of them 0; got {bad:g}.")
    return weights / weights.max()


def interaction_groups(given: Any, columns: Columns) -> tuple[int | None, NDArray[np.uint8] | None]:
    """Read `interaction_cst`: the most features on a path, or the groups, (n_groups, n_features), that hold a path.

    Columns that no group names are one more group, as in scikit-learn.
    """
    if given is None:
        return None, None
    if isinstance(given, str):
        if given not in PATH_WORDS:
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
        return PATH_WORDS[given], None
    if not isinstance(given, Sequence) or any(isinstance(group, str | Mapping) for group in given):
        raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
    groups = np.zeros((len(given) + 1, columns.n_features), dtype=np.uint8)
    for row, group in zip(groups, given, strict=False):
        if not isinstance(group, Sequence | set | frozenset | np.ndarray):
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
        row[[columns.position("interaction_cst", item) for item in group]] = 1
    groups[-1] = ~groups.any(axis=0)
    return None, groups


_INTERACTION_TEXT = "'no_interactions', 'pairwise', None or a list of groups of columns"


_OF_LEAVES = {"left_child": 0, "feature": -1, "bin_threshold": 0, "missing_left": 0, "category_set": -1, "gain": 0}


def pruning_path(tree: Tree, impurity: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the alphas at which the best subtree changes, and the impurities of those subtrees.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of impurity times weight.
    impurity : float
        That of the whole tree's leaves: the sum of their shares of the weight times their impurities; 0 where leaves
        are pure.

    Returns
    -------
    ccp_alphas : float64 array
        Ascending; the first is 0, for the tree as it is; at the last only the root remains.
    impurities : float64 array
        Impurity of the leaves that remain.
    """
    alpha, gain, nodes = _links(tree)
    order = np.lexsort((-nodes, alpha[nodes]))
    nodes = nodes[order]
    alphas = np.concatenate([[0.0], alpha[nodes]])
    return alphas, impurity + np.concatenate([[0.0], np.cumsum(gain[nodes])])


def prune(tree: Tree, ccp_alpha: float) -> Tree:
    """Return the smallest subtree with the least impurity plus `ccp_alpha` times the number of leaves.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of impurity times weight.
    ccp_alpha : float
        The complexity parameter; 0 leaves the tree as it is.
    """
    if ccp_alpha <= 0:
        return tree
    alpha, _, _ = _links(tree)
    return cut(tree, alpha <= ccp_alpha)


def cut(tree: Tree, is_leaf: NDArray[np.bool_]) -> Tree:
    """Return the tree that ends at some nodes.

    Parameters
    ----------
    tree : Tree
        A tree.
    is_leaf : bool array of shape (n_nodes,)
        Whether a node is a leaf, where it is reached; the tree's own leaves are.
    """
    is_inner = tree.left_child > 0
    number, kept = places(np.ascontiguousarray(tree.left_child), (is_leaf | ~is_inner).view(np.uint8))
    ends = (is_leaf & is_inner)[kept].nonzero()[0]
    arrays = {name: array.take(kept, axis=0) for name, array in vars(tree).items() if name != "category_words"}
    arrays["left_child"] = number.take(arrays["left_child"])
    for name, nothing in _OF_LEAVES.items():
        arrays[name][ends] = nothing
    return type(tree)(category_words=tree.category_words, **arrays)


def _links(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Alpha and gain of each node's branch, per unit of weight, and the nodes that are cut by themselves."""
    gain = np.ascontiguousarray(tree.gain, dtype=np.float64) / np.float64(tree.weight[0])
    return weakest_links(np.ascontiguousarray(tree.left_child), gain)

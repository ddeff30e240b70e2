"""Growth of the trees of forests and of single trees: targets, samples, limits, and the call into the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.bins.bin_values import values_of_bins
from fastens.engine.bins.binned import BinnedMatrix, make_matrix
from fastens.engine.bins.bins import copy_to_records
from fastens.engine.comm import LOCAL, Comm, CommPool, max_floats, sum_ints
from fastens.engine.forest.data import ForestData
from fastens.engine.forest.grow import TreeWorker
from fastens.engine.limits import Limits
from fastens.engine.threads import in_threads
from fastens.engine.trees.trees import MeasuredTree, SearchedTree, Tree

if TYPE_CHECKING:
    from fastens.engine.bins.binning import AnyMatrix


Arrays = dict[str, NDArray[Any]]


class Totals(NamedTuple):
    """Number of rows and total weight of a tree's sample over all ranks, and the unit of the weights.

    All weights are multiples of the unit, a power of two that is at most 1; it is 0 if it is too small to count by.
    """

    n_rows: int
    total: float
    unit: float


class Branch(NamedTuple):
    """A node to grow instead of a whole tree, and its rows.

    Attributes
    ----------
    rows : (int, int)
        Range of rows: the first one, and one past the last.
    node, mask : bytes
        Output of `TreeWorker.open_branches`.
    """

    rows: tuple[int, int]
    node: bytes
    mask: bytes


class Trunk(NamedTuple):
    """The upper part of a tree, and the nodes where its branches begin.

    Attributes
    ----------
    arrays : dict of arrays
        Arrays of a Tree.
    nodes : list of int
        Nodes that are replaced by branches.
    sizes : list of int
        Number of rows of each branch over all ranks.
    rows : list of uint32 arrays
        Row indices of each branch on this rank.
    roots : list of (bytes, bytes)
        Node and mask of each branch.
    """

    arrays: Arrays
    nodes: list[int]
    sizes: list[int]
    rows: list[NDArray[np.uint32]]
    roots: list[tuple[bytes, bytes]]

    @classmethod
    def from_worker(cls, arrays: Arrays, branches: Sequence[tuple[int, int, Any, bytes, bytes]]) -> Trunk:
        """Create a trunk from the arrays of a tree and the output of `TreeWorker.open_branches`."""
        nodes, sizes, rows, roots, masks = [list(part) for part in zip(*branches, strict=True)] or [[]] * 5
        return cls(arrays, nodes, sizes, rows, list(zip(roots, masks, strict=True)))


class SentRows(NamedTuple):
    """Rows that are sent between ranks."""

    codes: NDArray[Any]  # (n_features, n_rows)
    y: NDArray[Any]
    weight: NDArray[np.float64] | None

    @classmethod
    def concatenate(cls, parts: Sequence[SentRows]) -> SentRows:
        """Concatenate the rows of all parts, in order."""
        weights = [part.weight for part in parts if part.weight is not None]
        weight = np.concatenate(weights) if weights else None
        codes = np.concatenate([part.codes for part in parts], axis=1)
        return cls(codes, np.concatenate([part.y for part in parts]), weight)


def assign_owners(sizes: Sequence[int], n_ranks: int) -> NDArray[np.intp]:
    """Return the rank that grows each branch: the largest branch first, each on the rank with the fewest rows so far.

    Examples
    --------
    >>> assign_owners([5, 9, 4], 2)
    array([1, 0, 1])
    """
    load, owner = [0] * n_ranks, np.zeros(len(sizes), dtype=np.intp)
    for branch in np.argsort(np.negative(sizes), kind="stable").tolist():
        owner[branch] = load.index(min(load))
        load[owner[branch]] += sizes[branch]
    return owner


def send_to_owners(comm: Comm, parts: Sequence[SentRows], owner: NDArray[np.intp]) -> tuple[SentRows | None, list[int]]:
    """Send this rank's rows of each branch to the rank that owns the branch, and receive the rows of own branches.

    Parameters
    ----------
    comm : Comm
        Ranks that exchange rows.
    parts : sequence of SentRows
        This rank's rows of each branch.
    owner : int array of shape (n_branches,)
        Rank that owns each branch.

    Returns
    -------
    SentRows or None
        Rows of the branches that this rank owns, branch by branch; None if it does not own any.
    list of int
        Number of rows of each of these branches.
    """
    branches_of_rank = [np.flatnonzero(owner == rank).tolist() for rank in range(comm.size)]
    outgoing = [[len(parts[i].y) for i in branches] for branches in branches_of_rank]
    packed = [SentRows.concatenate([parts[i] for i in branches]) if branches else None for branches in branches_of_rank]
    received = comm.alltoall(list(zip(outgoing, packed, strict=True)))
    n_own = len(branches_of_rank[comm.rank])
    if n_own == 0:
        return None, []
    # `begins` holds the offsets of the branches in the rows of each rank; `order` lists the rows branch by branch.
    begins = [np.append(0, np.cumsum(counts)) for counts, _ in received]
    order = [
        (rank, slice(begins[rank][branch], begins[rank][branch + 1]))
        for branch in range(n_own)
        for rank in range(comm.size)
    ]
    rows = SentRows.concatenate([
        SentRows(of.codes[:, part], of.y[part], None if of.weight is None else of.weight[part])
        for of, part in ((received[rank][1], part) for rank, part in order)
    ])  # fmt: skip
    return rows, np.sum([counts for counts, _ in received], axis=0).tolist()


def local_matrix(like: BinnedMatrix, codes: NDArray[Any], n_threads: int) -> BinnedMatrix:
    """Return a matrix for this rank only of codes, (n_features, n_rows), with the bins and features of `like`."""
    codes = np.ascontiguousarray(codes)
    matrix = make_matrix(codes, like.n_codes, like.is_categorical, like.thresholds)
    copy_to_records(codes, matrix.records, n_threads)
    return replace(matrix, comm=LOCAL)


def join_branches(trunk: Trunk, branches: Sequence[Arrays]) -> Arrays:
    """Return the arrays of the whole tree: the nodes of the trunk, then the nodes of each branch except its root.

    `branches` holds the arrays of the trunk's open branches, in order.
    """
    parts: dict[str, list[NDArray[Any]]] = {name: [array.copy()] for name, array in trunk.arrays.items()}
    n_nodes, n_words = len(trunk.arrays["feature"]), len(trunk.arrays["category_words"])
    for node, branch in zip(trunk.nodes, branches, strict=True):
        moved = dict(branch)
        is_inner, has_set = branch["left_child"] > 0, branch["category_set"] >= 0
        moved["left_child"] = branch["left_child"] + (n_nodes - 1) * is_inner.astype(np.int32)
        moved["category_set"] = branch["category_set"] + n_words * has_set.astype(np.int32)
        for name, array in moved.items():
            if name == "category_words":
                parts[name].append(array)
            else:
                parts[name][0][node] = array[0]
                parts[name].append(array[1:])
        n_nodes += len(branch["feature"]) - 1
        n_words += len(branch["category_words"])
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


# Trees are grown in batches without the GIL, of at most this many rows in total, because returning a small tree to
# Python takes as long as growing it.
_BLOCK_ROWS = 1 << 15
_BLOCKS_PER_THREAD = 4
# Distributed fits: the number of trees whose trunks grow concurrently and share reductions, and the maximum number of
# bytes of a rank's rows that are in transit to the owners of their branches.
_MAX_TRUNKS = 32
_MOVING_BYTES = 1 << 28
# Bytes of a row's entry and its copy.
_BYTES_OF_ENTRY = 32
# The sum of 2**32 squares of numbers up to this is within the range of float32.
_NARROW = 2.0**48


@dataclass(frozen=True)
class ForestParameters(Limits):
    """Split criteria and stopping rules of forest trees, in addition to the limits of any tree.

    If `features_per_split` is set, features that are not constant in the node are evaluated in the order drawn, and the
    first one wins ties. With `monotone`, the prediction (the probability of the second class for binary targets) is
    monotone in the feature; this is not supported for several targets.

    Attributes
    ----------
    criterion : str
        Impurity that splits reduce: a key of `CRITERIA` in engine/splits/workspace.pyx.
    min_samples_split : int
        Nodes with fewer rows are not split.
    min_impurity_decrease : float
        Minimum decrease of the impurity by a split, weighted by the node's share of the total weight.
    random_thresholds : bool
        If True, each feature gets one random threshold between its minimum and maximum in the node (Geurts, Ernst &
        Wehenkel 2006) instead of the best threshold.
    """

    criterion: str = "gini"
    min_samples_split: int = 2
    min_impurity_decrease: float = 0.0
    random_thresholds: bool = False


class TreeTarget(NamedTuple):
    """Target of the trees, one column per output: class indices with the numbers of classes, or real numbers."""

    y: NDArray[Any]
    n_classes: tuple[int, ...] | None
    value_dtype: type[np.floating[Any]] = np.float32
    span: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None  # for regression: the minima and the maxima


def class_target(y: ArrayLike, n_classes: Sequence[int]) -> TreeTarget:
    """Return a target of class indices 0 .. n_classes[t] - 1 from `y`, shape (n_rows,) or (n_rows, n_targets).

    Examples
    --------
    >>> from fastens.engine.forest.forests import class_target
    >>> class_target([0, 2, 1], [3]).y.shape
    (3, 1)
    """
    y = np.asarray(y, dtype=np.int32)
    return TreeTarget(y[:, None] if y.ndim == 1 else y, tuple(n_classes))


def number_target(y: ArrayLike, value_dtype: type[np.floating[Any]] = np.float32, comm: Comm = LOCAL) -> TreeTarget:
    """Return a regression target, shape (n_rows,) or (n_rows, n_targets), with node values of `value_dtype`.

    Nevertheless, values are float64 if the 24-bit precision of float32 would round them by more than 1/100000 of the
    range of the targets, or if sums of squared targets might leave the range of float32.
    """
    y = np.asarray(y, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 else y
    ends = [y.max(axis=0, initial=-np.inf), -y.min(axis=0, initial=np.inf)]
    highest, minus_lowest = np.split(np.array(max_floats(comm, *np.concatenate(ends))), 2)
    lowest = -minus_lowest
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    is_coarse = largest * np.finfo(np.float32).epsneg > 1e-5 * (highest - lowest)
    is_far = (largest > _NARROW) | ((largest < 1 / _NARROW) & (largest > 0))
    return TreeTarget(y, None, np.float64 if (is_coarse | is_far).any() else value_dtype, (lowest, highest))


class TreeSample(NamedTuple):
    """The sample that one tree is grown on.

    Attributes
    ----------
    weight : float64 array of shape (n_rows,) or None
        Row weights. Rows with weight 0 are left out; integer weights are bit-identical to copies of the row. If None,
        all weights are 1.
    features : int array or None
        Features that the tree may use. If None, it may use all features.
    seed : int
        Seed of the features drawn at each node and of random thresholds.
    totals : Totals or None
        Totals of the rows of all ranks. If None, all rows are on this rank.
    branch : Branch or None
        Branch to grow instead of a whole tree.
    """

    weight: NDArray[np.float64] | None
    features: NDArray[np.integer[Any]] | None
    seed: int
    totals: Totals | None = None
    branch: Branch | None = None


class ForestGrower:
    """Grows trees on the same rows; the trees do not depend on the number of threads.

    All nodes have values, one target after another. For classification, they are the class proportions, or only the
    proportion of the second class for binary targets. For regression, they are the mean, or the weighted median for the
    absolute error. `gain` is the decrease of the node's weight times its impurity by a split, so the gains below a node
    add up to R(t) - R(T_t) in cost-complexity pruning.

    Parameters
    ----------
    matrix : BinnedMatrix or SparseMatrix
        The rows.
    target : TreeTarget
        Target to predict.
    rules : ForestParameters
        Limits of every tree.
    n_threads : int
        Number of threads. Several trees are grown in parallel, one per thread; a single tree uses all threads.
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features), optional
        Values of the rows, required for random thresholds.
    kind : type
        `Tree`, `MeasuredTree` (only for regression) or `SearchedTree`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> grower = ForestGrower(learn_binning(X).transform(X), class_target([0, 0, 1, 1], [2]), ForestParameters())
    >>> [tree] = grower.grow([TreeSample(None, None, 0)])
    >>> tree.value.ravel()
    array([0.5, 0. , 1. ], dtype=float32)
    """

    def __init__(
        self,
        matrix: AnyMatrix,
        target: TreeTarget,
        rules: ForestParameters,
        n_threads: int = 1,
        *,
        X: Any = None,
        kind: type[Tree] = Tree,
    ) -> None:
        self._values = values_of_bins(matrix, X, n_threads) if rules.random_thresholds else None
        self._matrix, self._target, self._rules, self._kind = matrix, target, rules, kind
        self._data = self._make_data(matrix, target)
        self._value_dtype = target.value_dtype
        self._n_rows = matrix.n_rows
        rules.check_nodes(sum_ints(matrix.comm, matrix.n_rows)[0])
        self._n_threads = n_threads

    def _make_data(self, matrix: AnyMatrix, target: TreeTarget) -> ForestData:
        """Return the kernels' view of a matrix and a target, with the rules and bin values of this grower."""
        kind = self._kind
        return ForestData(matrix, self._values, target, self._rules, kind is MeasuredTree, kind is SearchedTree)

    def grow(self, samples: Sequence[TreeSample]) -> list[Tree]:
        """Grow one tree for each sample. Samples are accessed block by block, so they may be created lazily."""
        trees: dict[int, Tree] = {}
        self.grow_into(trees.__setitem__, samples)
        return [trees[number] for number in range(len(samples))]

    def grow_into(self, store: Callable[[int, Tree], None], samples: Sequence[TreeSample], first: int = 0) -> None:
        """Grow one tree for each sample, and pass each tree with its number to `store` as soon as it is grown.

        Parameters
        ----------
        store : function of int and Tree
            Callback, which several threads may call concurrently and for trees in any order.
        samples : sequence of TreeSample
            Samples, accessed in slices.
        first : int
            Number of the first tree.
        """
        if self._matrix.comm.size > 1:
            self._grow_over_ranks(store, samples, first)
            return
        stop = np.zeros(1, np.uint8)
        n_workers = max(min(self._n_threads, len(samples)), 1)
        idle = [self._new_worker(self._n_threads if n_workers == 1 else 1) for _ in range(n_workers)]

        def grow(block: slice) -> None:
            worker = idle.pop()
            grown = worker.grow(samples[block], stop)
            idle.append(worker)
            for number, arrays in enumerate(grown or (), first + block.start):
                store(number, self._kind(**arrays))

        try:
            in_threads(grow, list(self._iter_batches(len(samples))), n_workers)
        except BaseException:
            stop[0] = 1
            raise

    def _new_worker(self, n_threads: int) -> TreeWorker:
        """Return a worker that grows trees one after another, each with n_threads threads."""
        return TreeWorker(self._data, n_threads, self._value_dtype == np.float32)

    def _iter_batches(self, n_trees: int) -> Iterator[slice]:
        """Return slices of 0 .. n_trees - 1, one for each call of a worker: several small trees or one large tree."""
        n_blocks = max(self._n_threads * _BLOCKS_PER_THREAD, -(-n_trees * self._n_rows // _BLOCK_ROWS))
        size = max(1, -(-n_trees // n_blocks)) if self._n_threads > 1 else max(1, _BLOCK_ROWS // self._n_rows)
        return (slice(start, min(start + size, n_trees)) for start in range(0, n_trees, size))

    # Over ranks --------------------------------------------------

    def _grow_over_ranks(self, store: Callable[[int, Tree], None], samples: Sequence[TreeSample], first: int) -> None:
        """Grow trees like `grow_into`, with trunks on all ranks together and each branch on one rank."""
        for block in self._iter_batches_over_ranks(len(samples)):
            block_samples = samples[block]
            trunks = CommPool(self._matrix.comm, self._n_threads).run(self._grow_trunk, block_samples)
            for number, arrays in enumerate(self._grow_whole_trees(trunks, block_samples), first + block.start):
                store(number, self._kind(**arrays))

    def _iter_batches_over_ranks(self, n_trees: int) -> Iterator[slice]:
        """Return slices of 0 .. n_trees - 1 whose rows fit in a limit of bytes in transit; equal on all ranks."""
        comm, matrix = self._matrix.comm, self._matrix
        n_bytes = matrix.n_features * matrix.columns.itemsize + self._target.y[:1].nbytes + _BYTES_OF_ENTRY
        n_rows = max(comm.allgather(self._n_rows))
        size = min(max(_MOVING_BYTES // max(n_rows * n_bytes, 1), 1), _MAX_TRUNKS)
        return (slice(start, min(start + size, n_trees)) for start in range(0, n_trees, size))

    def _grow_trunk(self, comm: Comm, sample: TreeSample) -> Trunk:
        """Grow the nodes above the branches of one tree on all ranks of `comm`; return them and the open branches."""
        worker = TreeWorker(self._data, 1, self._value_dtype == np.float32, comm)
        [arrays] = worker.grow([sample], _GO)
        return Trunk.from_worker(arrays, worker.open_branches())

    def _grow_whole_trees(self, trunks: Sequence[Trunk], samples: Sequence[TreeSample]) -> list[dict[str, Any]]:
        """Grow the branches of the trunks, each on one rank; return the arrays of each whole tree, on all ranks."""
        comm = self._matrix.comm
        branches = [(tree, i) for tree, trunk in enumerate(trunks) for i in range(len(trunk.nodes))]
        owner = assign_owners([trunks[tree].sizes[i] for tree, i in branches], comm.size)
        parts = [self._select_rows(trunks[tree].rows[i], samples[tree].weight) for tree, i in branches]
        rows, counts = send_to_owners(comm, parts, owner)
        del parts
        mine = [branches[index] for index in np.flatnonzero(owner == comm.rank)]
        ends = np.cumsum(counts, dtype=np.intp).tolist()
        grown = []
        if rows is not None:
            orders = [
                TreeSample(rows.weight, None, 0, samples[tree].totals, Branch((start, end), *trunks[tree].roots[i]))
                for (tree, i), start, end in zip(mine, [0, *ends], ends, strict=False)
            ]
            grown = self._grow_branches(rows, orders)
        of_branch: dict[tuple[int, int], dict[str, Any]] = {}
        for of_rank in comm.allgather(dict(zip(mine, grown, strict=True))):
            of_branch |= of_rank
        return [
            join_branches(trunk, [of_branch[tree, i] for i in range(len(trunk.nodes))])
            for tree, trunk in enumerate(trunks)
        ]

    def _select_rows(self, rows: NDArray[np.uint32], weight: NDArray[np.float64] | None) -> SentRows:
        """Return the codes, targets and weights (None if all are 1) of the rows at these indices."""
        assert isinstance(self._matrix, BinnedMatrix)  # sparse matrices are not used with several ranks
        return SentRows(self._matrix.columns[:, rows], self._target.y[rows], None if weight is None else weight[rows])

    def _grow_branches(self, rows: SentRows, orders: Sequence[TreeSample]) -> list[dict[str, Any]]:
        """Grow the branch of each TreeSample on rows that are all on this rank; return each branch's arrays."""
        assert isinstance(self._matrix, BinnedMatrix)
        data = self._make_data(local_matrix(self._matrix, rows.codes, self._n_threads), self._target._replace(y=rows.y))
        worker = TreeWorker(data, self._n_threads, self._value_dtype == np.float32)
        return worker.grow(orders, _GO)


_GO = np.zeros(1, np.uint8)

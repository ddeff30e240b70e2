"""Branches of trees whose rows are on several ranks: each is grown on one rank, which gets all of its rows.

The ranks grow the trunk of a tree together (see grow.pyx), node by node, with a few reductions each. Its small nodes,
those of at most 1/32 of the tree's rows, are too many for that. A branch's rows go to one rank instead, as bytes of
codes: over all branches of a tree each row of its sample moves at most once, however deep the tree grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binned import BinnedMatrix, make_matrix
from fastens.engine.bins.bins import copy_to_records
from fastens.engine.comm import LOCAL, Comm

Arrays = dict[str, NDArray[Any]]


class Totals(NamedTuple):
    """The rows of a tree's sample, wherever they are: how many, their weight, and whether weights are whole numbers."""

    n_rows: int
    total: float
    whole: bool


class Branch(NamedTuple):
    """A node to grow in place of a whole tree, and its rows.

    Attributes
    ----------
    rows : (int, int)
        The first row, and the end of them.
    node, mask : bytes
        What `TreeWorker.open_branches` returned.
    """

    rows: tuple[int, int]
    node: bytes
    mask: bytes


class Trunk(NamedTuple):
    """A tree without its branches, and where they begin.

    Attributes
    ----------
    arrays : dict of arrays
        Those of a Tree.
    nodes : list of int
        The nodes that branches replace.
    sizes : list of int
        How many rows of all ranks each has.
    rows : list of uint32 arrays
        Which rows of this rank.
    roots : list of (bytes, bytes)
        Each node and its mask.
    """

    arrays: Arrays
    nodes: list[int]
    sizes: list[int]
    rows: list[NDArray[np.uint32]]
    roots: list[tuple[bytes, bytes]]

    @classmethod
    def of(cls, arrays: Arrays, branches: Sequence[tuple[int, int, Any, bytes, bytes]]) -> Trunk:
        """From what a TreeWorker has."""
        nodes, sizes, rows, roots, masks = [list(part) for part in zip(*branches, strict=True)] or [[]] * 5
        return cls(arrays, nodes, sizes, rows, list(zip(roots, masks, strict=True)))


class Rows(NamedTuple):
    """Rows as they move between ranks."""

    codes: NDArray[Any]  # (n_features, n_rows)
    y: NDArray[Any]
    weight: NDArray[np.float64] | None

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, one after another."""
        weights = [part.weight for part in parts if part.weight is not None]
        weight = np.concatenate(weights) if weights else None
        codes = np.concatenate([part.codes for part in parts], axis=1)
        return cls(codes, np.concatenate([part.y for part in parts]), weight)


def owners_of(sizes: Sequence[int], n_ranks: int) -> NDArray[np.intp]:
    """Return the rank that grows each branch: the largest first, each where there is least to do.

    Examples
    --------
    >>> owners_of([5, 9, 4], 2)
    array([1, 0, 1])
    """
    load, owner = [0] * n_ranks, np.zeros(len(sizes), dtype=np.intp)
    for place in np.argsort(np.negative(sizes), kind="stable").tolist():
        owner[place] = load.index(min(load))
        load[owner[place]] += sizes[place]
    return owner


def bring_together(comm: Comm, parts: Sequence[Rows], owner: NDArray[np.intp]) -> tuple[Rows | None, list[int]]:
    """Send this rank's rows of each branch to its owner.

    Returns
    -------
    Rows or None
        Those of the branches of this rank, one branch after another; None if it has none.
    list of int
        How many rows each of them has.
    """
    places = [np.flatnonzero(owner == rank).tolist() for rank in range(comm.size)]
    outgoing = [[len(parts[i].y) for i in own] for own in places]
    packed = [Rows.joined([parts[i] for i in own]) if own else None for own in places]
    received = comm.exchange(list(zip(outgoing, packed, strict=True)))
    n_own = len(places[comm.rank])
    if n_own == 0:
        return None, []
    # Of each rank, where its rows of each branch begin; branch by branch, the rows of all ranks.
    begins = [np.append(0, np.cumsum(counts)) for counts, _ in received]
    order = [
        (rank, slice(begins[rank][branch], begins[rank][branch + 1]))
        for branch in range(n_own)
        for rank in range(comm.size)
    ]
    rows = Rows.joined([
        Rows(of.codes[:, part], of.y[part], None if of.weight is None else of.weight[part])
        for of, part in ((received[rank][1], part) for rank, part in order)
    ])  # fmt: skip
    return rows, np.sum([counts for counts, _ in received], axis=0).tolist()


def matrix_of(like: BinnedMatrix, codes: NDArray[Any], n_threads: int) -> BinnedMatrix:
    """Return rows of other ranks, by their codes, as a matrix of this rank alone."""
    codes = np.ascontiguousarray(codes)
    matrix = make_matrix(codes, like.n_codes, like.is_categorical, like.thresholds)
    copy_to_records(codes, matrix.records, n_threads)
    return replace(matrix, comm=LOCAL)


def joined_tree(trunk: Trunk, branches: Sequence[Arrays]) -> Arrays:
    """Return the arrays of the whole tree: the nodes of the trunk, then those of each branch but its first."""
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

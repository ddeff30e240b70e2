"""What the walks of chosen rows give, row by row and from whole predictions."""

from __future__ import annotations

import numpy as np

from reference.predict import find_leaf


def left_out(ensemble, codes, counts):
    """Sums of the leaves' values of each row over the trees where it counts 0, and how many trees those are."""
    sums = np.zeros((codes.shape[1], ensemble.value.shape[1]))
    n_trees = np.zeros(codes.shape[1], dtype=np.int32)
    for tree in range(ensemble.n_trees):
        for row in np.flatnonzero(counts[tree] == 0):
            leaf = ensemble.node_offsets[tree] + find_leaf(ensemble, tree, codes[:, row])
            sums[row] += ensemble.value[leaf]
            n_trees[row] += 1
    return sums, n_trees


def changed_codes(codes, row, other, is_changed):
    """The codes of a row with some taken from another row."""
    return np.where(is_changed, codes[:, other], codes[:, row])


def permuted_losses(ensemble, tree, codes, pairs, loss, column_of):
    """For each column the growth of the loss; `loss` is a function of row and node."""
    growth = np.zeros(column_of.max() + 1)
    for row, other in pairs.T.tolist():
        before = loss(row, find_leaf(ensemble, tree, codes[:, row]))
        for column in range(len(growth)):
            leaf = find_leaf(ensemble, tree, changed_codes(codes, row, other, column_of == column))
            growth[column] += loss(row, leaf) - before
    return growth


def permuted_changes(ensemble, codes, others, first, last, column_of):
    """For each column and row the change of the summed values, (n_columns, last - first, n_values)."""
    changes = np.zeros((column_of.max() + 1, last - first, ensemble.value.shape[1]))
    for tree in range(ensemble.n_trees):
        root = ensemble.node_offsets[tree]
        for row in range(first, last):
            before = ensemble.value[root + find_leaf(ensemble, tree, codes[:, row])]
            for column in range(len(changes)):
                leaf = find_leaf(ensemble, tree, changed_codes(codes, row, others[row], column_of == column))
                changes[column, row - first] += ensemble.value[root + leaf].astype(float) - before
    return changes

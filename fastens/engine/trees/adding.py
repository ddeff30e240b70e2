"""Raw predictions of binned rows: those of one tree more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from fastens.engine.bins.pages import PAGE, MappedPages
from fastens.engine.bins.sparse_binned import AnyCodes, SparseCodes
from fastens.engine.predict import predict
from fastens.engine.predict.compile import CompiledTrees
from fastens.engine.trees.trees import Tree, enough_threads, renumbered

# Bytes of codes in files that are read at a time.
_BLOCK = 4 << 20


def add_tree_to_raw(
    codes: AnyCodes, tree: Tree, raw_column: np.ndarray, n_threads: int = 1, pages: MappedPages | None = None
) -> None:
    """Add a tree's values to a raw column, in place.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n_features, n_rows), or SparseCodes
        The binned rows.
    tree : Tree
        The tree.
    raw_column : float64 array of shape (n_rows,)
        Raw predictions.
    n_threads : int
        How many threads there may be.
    pages : MappedPages, optional
        What the process may hold of codes that are in files, which are read some rows at a time.
    """
    if pages is not None and isinstance(codes, np.ndarray):
        for rows in _blocks(codes, pages):
            add_tree_to_raw(codes[:, rows], tree, raw_column[rows], n_threads)
        return
    if isinstance(codes, SparseCodes):
        columns, feature = renumbered(tree.feature)
        for first, part in codes.of_features(columns, n_threads):
            add_tree_to_raw(part, replace(tree, feature=feature), raw_column[first : first + part.shape[1]], n_threads)
        return
    # No TreeEnsemble: on small data, making one takes longer than all the rest.
    offsets, output = np.array([0, tree.n_nodes], dtype=np.int64), np.zeros(1, np.int32)
    alone = SimpleNamespace(**vars(tree), node_offsets=offsets, tree_output=output, baseline=np.zeros(1))
    n_threads = enough_threads(len(raw_column), tree.n_nodes, 0, n_threads)
    predict.add_to_raw(CompiledTrees(alone, None, codes.itemsize), codes, raw_column[None], 0, 1, n_threads)


def _blocks(codes: np.ndarray, pages: MappedPages) -> Iterator[slice]:
    """Yield rows whose codes are about to be read, by column or record by record."""
    n_columns, n_rows = codes.shape
    by_column = codes.strides[1] == codes.itemsize
    of_row = n_columns * codes.itemsize if by_column else codes.strides[1]
    step = max(1, _BLOCK // max(1, of_row))
    for first in range(0, n_rows, step):
        n_runs = n_columns if by_column else 1  # each begins, and ends, within a page
        pages.note(min(step, n_rows - first) * of_row + 2 * n_runs * PAGE)
        yield slice(first, first + step)
    pages.drop()

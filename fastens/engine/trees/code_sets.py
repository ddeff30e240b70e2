"""Which codes go left at a node, for arrays of them, as goes_left.h has it for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastens.engine.trees.trees import TreeEnsemble


def set_of(codes: NDArray[np.integer[Any]], n_codes: int | None = None) -> NDArray[np.uint32]:
    """Return the set of some codes as the bits of words: of those that `n_codes` need, or as few as hold them.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.trees.code_sets import set_of
    >>> set_of(np.array([1, 4, 33]))
    array([18,  2], dtype=uint32)
    """
    n = int(codes.max(initial=0)) + 1 if n_codes is None else n_codes
    words = np.zeros((n + 31) // 32, dtype=np.uint32)
    np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
    return words


def codes_left(trees: TreeEnsemble, node: int, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return which codes of a node's feature go left."""
    first = trees.category_set[node]
    if first < 0:
        return np.where(codes == 0, trees.missing_left[node] > 0, codes <= trees.bin_threshold[node])
    return (trees.category_words[first + (codes >> 5)] >> (codes & 31).astype(np.uint32)) & 1 > 0

"""Trees that see only the columns they split on: of a wide sparse table the others need not be made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fastens.engine.parts import is_coded, map_parts
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble, renumbered

_NOTE = "used columns"


def on_used_columns(trees: TreeEnsemble, X: Any) -> tuple[TreeEnsemble, Any]:
    """Return trees and rows that give the same predictions with fewer columns; as they are unless X is sparse.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    X : row source
        The rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from fastens import GradientBoostingRegressor
    >>> from fastens.engine.trees.used_columns import on_used_columns
    >>> X = csr_matrix(np.eye(40)[np.arange(400) % 40])
    >>> trees = GradientBoostingRegressor(n_estimators=1, min_samples_leaf=5).fit(X, X[:, 7].toarray()[:, 0])._ensemble
    >>> on_used_columns(trees, X)[1].shape
    (400, 1)
    """
    if not scipy.sparse.issparse(X) or type(trees) is not TreeEnsemble:
        return trees, X
    if _NOTE not in trees.notes:
        trees.notes[_NOTE] = narrowed(trees)
    columns, narrow = trees.notes[_NOTE]
    return narrow, X[:, columns]


def raw_of_rows(trees: TreeEnsemble, X: Any, n_threads: int = 1) -> NDArray[np.float64]:
    """Return the raw predictions of a row source, (n_rows, n_outputs)."""
    if is_coded(X) and trees.has_constant_leaves and X.has_codes_of(trees.binning):
        return trees.raw_of_codes(X.codes(), n_threads)
    trees, X = on_used_columns(trees, X)
    return map_parts(lambda part: trees.predict_raw(part, n_threads), X)


def narrowed(trees: TreeEnsemble) -> tuple[np.ndarray, TreeEnsemble]:
    """The columns that trees split on, at least one, and the trees of these columns."""
    columns, feature = renumbered(trees.feature)
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES} | {"feature": feature}
    return columns, TreeEnsemble(trees.binning.of_features(columns.tolist()), **arrays)

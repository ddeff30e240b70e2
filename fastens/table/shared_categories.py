"""Categories of a table that is divided among ranks: those that any of them has, in the order of one table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import Comm
from fastens.table.columns.factorize import sorted_categories


def share_categories(
    categories: list[list[Any] | None], X: Any, comm: Comm, *, missing_is_category: bool = False
) -> tuple[list[list[Any] | None], Any]:
    """Return the categories of all ranks, and the rows with positions among those.

    Parameters
    ----------
    categories : list
        Those of this rank's rows, sorted, for each column; None for one of numbers.
    X : float array of shape (n_rows, n_features)
        The rows, with positions among their own categories.
    comm : Comm
        The ranks.
    missing_is_category : bool
        A missing value has the position after the last.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> from fastens.table.shared_categories import share_categories
    >>> share_categories([["a", "b"]], np.array([[1.0], [0.0]]), LOCAL)[0]
    [['a', 'b']]
    """
    of_ranks = comm.gather(categories)
    if len({tuple(found is None for found in own) for own in of_ranks}) > 1:
        raise ValueError("All ranks must have categories in the same columns.")
    together: list[list[Any] | None] = []
    encoded: Any = X.copy() if any(found is not None for found in categories) else X
    for column, own in enumerate(categories):
        if own is None:
            together.append(None)
            continue
        values = sorted_categories([value for rank in of_ranks for value in rank[column]], str(column))
        place = {value: number for number, value in enumerate(values)}
        places: NDArray[np.floating] = np.array([place[value] for value in own] + [len(values)] * missing_is_category)
        is_known = ~np.isnan(encoded[:, column])
        encoded[is_known, column] = places[encoded[is_known, column].astype(np.intp)]
        together.append(values)
    return together, encoded

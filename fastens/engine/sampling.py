"""Which rows a tree is grown on; random numbers are counter-based: a round's rows depend on nothing but its number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator of stream number `index`; streams are independent (Philox, Salmon et al. 2011)."""
    return np.random.Generator(np.random.Philox(key=[seed, index]))


def sample_rows(n_rows: int, fraction: float, seed: int, index: int) -> NDArray[np.uint32] | None:
    """Draw about `fraction` of the rows without replacement, each with that probability.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    fraction : float
        Share of the rows, above 0; 1 stands for all of them.
    seed, index : int
        The stream of random numbers.

    Returns
    -------
    uint32 array, ascending, at least one row; None for all rows

    Examples
    --------
    >>> from fastens.engine.sampling import sample_rows
    >>> sample_rows(6, 0.5, seed=0, index=1)
    array([3, 5], dtype=uint32)
    """
    if fraction >= 1.0:
        return None
    generator = random_stream(seed, index)
    rows = np.flatnonzero(generator.random(n_rows) < fraction).astype(np.uint32)
    return rows if len(rows) else generator.integers(0, n_rows, 1).astype(np.uint32)

"""Rows held out from training, reproducible from the table."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastens.cli.table.target import CLASSIFICATION


@dataclass(frozen=True)
class Split:
    """How rows were held out, and of which target: enough to hold out the same rows of the same table again."""

    fraction: float
    random_state: int
    fingerprint: int

    @classmethod
    def of(cls, y: NDArray, fraction: float, random_state: int) -> Split:
        """The split of a table with this target."""
        return cls(fraction, random_state, _fingerprint(y))

    def is_of(self, y: NDArray) -> bool:
        """Whether this is the target of the table that was split."""
        return _fingerprint(y) == self.fingerprint

    def held_out(self, y: NDArray, task: str) -> NDArray[np.bool_]:
        """The rows held out: a share of every class, or of all rows."""
        strata = np.unique(y, return_inverse=True)[1] if task == CLASSIFICATION else np.zeros(len(y), dtype=int)
        return held_out_rows(strata, self.fraction, self.random_state)


def _fingerprint(y: NDArray) -> int:
    """A number that equal targets have in common, whatever type a file stores them in."""
    return zlib.crc32("\0".join(y).encode() if y.dtype == object else (y.astype(np.float64) + 0.0).tobytes())


def held_out_rows(strata: NDArray, fraction: float, random_state: int) -> NDArray[np.bool_]:
    """Mark a random share of the rows, the same share of every stratum, at least one row of each left unmarked.

    The rows, shuffled inside each stratum, are laid out stratum by stratum; every (1/fraction)-th is taken. So strata
    of any size work, and the number of rows taken is right.
    """
    generator = np.random.default_rng(random_state)
    n_rows = len(strata)
    order = np.lexsort((generator.random(n_rows), strata))
    steps = np.floor(np.arange(n_rows + 1) * fraction + generator.random())
    held_out = np.zeros(n_rows, dtype=bool)
    held_out[order] = np.diff(steps) > 0
    only_held_out = np.setdiff1d(strata, strata[~held_out])
    held_out[np.isin(strata, only_held_out)] = False
    return held_out

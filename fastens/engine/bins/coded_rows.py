"""Rows whose codes are kept: what is fitted on many parts of a table is binned once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.parts import RowSource


class CodedRows(RowSource):
    """The codes of rows, by column, and the binning that they are of.

    Parameters
    ----------
    binning : Binning
        The bins.
    columns : array of shape (n_features, n_rows)
        The codes.
    """

    is_coded = True
    dtype = None

    def __init__(self, binning: Binning, columns: NDArray[np.unsignedinteger]) -> None:
        self._binning, self._columns = binning, columns
        self.shape = (columns.shape[1], columns.shape[0])

    def parts(self) -> Iterator[Any]:
        """Raise ValueError: there are codes and no values."""
        raise ValueError("there are codes of these rows and no values.")

    def __getitem__(self, rows: Any) -> CodedRows:
        """Return some of the rows, in any order."""
        return CodedRows(self._binning, np.ascontiguousarray(self._columns[:, rows]))

    def learned(self, max_bins: int) -> Binning:
        """Return the bins."""
        return self._binning

    def has_codes_of(self, binning: Binning) -> bool:
        """Return whether these are the bins: always, since all that is fitted on the rows takes theirs."""
        return binning is self._binning

    def codes(self) -> NDArray[np.unsignedinteger]:
        """Return the codes by column."""
        return self._columns

    def records(self) -> None:
        """Return None: those by row are made of the others."""
        return

"""Whether a table that is read several times gives the same rows each time, in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The first rows are all looked at, and of those after them every so manieth; of a wide table, so many columns.
_FIRST_ROWS = 1 << 16
_STEP = 16
_MOST_COLUMNS = 64
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


class SameRows:
    """What the passes over a table have in common: sums of hashes of columns, whatever the batches.

    A sum is over rows, each with a factor of its own, so that it depends on the rows' order too.
    """

    def __init__(self) -> None:
        self._passes: dict[str, tuple[int, int]] = {}  # by column: rows and sum of the first whole pass

    def over(self, batches: Iterable[Any], columns: list[str]) -> Iterator[Any]:
        """Yield the batches of a pass; ValueError at its end where a column differs from that of an earlier pass."""
        chosen = range(0, len(columns), -(-len(columns) // _MOST_COLUMNS) or 1)
        sums, n_rows = dict.fromkeys(chosen, 0), 0
        for batch in batches:
            rows = _looked_at(n_rows, batch.num_rows)
            factors = (rows.astype(np.uint64) + np.uint64(n_rows)) * _MIXER | np.uint64(1)
            for index in chosen if len(rows) else ():
                sums[index] += int(np.dot(_hashes(batch.column(index), rows), factors))
            n_rows += batch.num_rows
            yield batch
        for index, total in sums.items():
            found = n_rows, total & _MASK
            first = self._passes.setdefault(columns[index], found)
            if first[0] == n_rows and first != found:  # other numbers of rows are an error that says so
                raise ValueError(
                    f"X must give the same rows at every pass; column {columns[index]!r} has other values, or another "
                    "order, than before."
                )


def _looked_at(start: int, n_rows: int) -> NDArray[np.int64]:
    """The rows of a batch, counted in it, that are looked at."""
    n_all = min(max(_FIRST_ROWS - start, 0), n_rows)
    return np.concatenate([np.arange(n_all), np.arange(n_all + -(start + n_all) % _STEP, n_rows, _STEP)])


def _hashes(column: Any, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each of some rows of an Arrow array, the same for the same value."""
    import pyarrow as pa

    try:
        taken = column if len(rows) == len(column) else column.take(pa.array(rows))
        hashes = _of_numbers(taken) if _is_numeric(taken.type) else _of_values(taken)
    except pa.ArrowNotImplementedError:  # Arrow does little with some types
        return np.zeros(len(rows), np.uint64)
    if taken.null_count:  # what stands there is of no meaning
        hashes[taken.is_null().to_numpy(zero_copy_only=False)] = _MIXER
    return hashes


def _is_numeric(kind: Any) -> bool:
    """Whether values, numbers or times, are a whole number of bytes of a buffer."""
    import pyarrow as pa

    return pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64)


def _of_numbers(values: Any) -> NDArray[np.uint64]:
    size = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1], f"u{size}", len(values), values.offset * size).astype(np.uint64)


def _of_values(values: Any) -> NDArray[np.uint64]:
    encoded = values if hasattr(values, "dictionary") else values.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    # Each NaN has a hash of its own.
    known = np.array([hash(value) & _MASK if value == value else 0 for value in values] or [0], np.uint64)  # noqa: PLR0124
    return known[encoded.indices.fill_null(0).to_numpy()]

"""Rankings of queries whose rows lie on several ranks: each query moves, with all of its rows, to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import Comm, is_any
from fastens.table.columns.vectors import array_of
from fastens.table.parts import with_rows_to_take

Part = Mapping[str, Any]


def with_whole_queries(comm: Comm, parts: Sequence[Part], table: str, qid: Any) -> list[Part]:
    """Return the partitions of this rank with all rows of each query on the first rank that has any of them.

    Parameters
    ----------
    comm : Comm
        The ranks.
    parts : list of dict
        Partitions with the table and what belongs to its rows.
    table : str
        The name of the table among that.
    qid : str
        The name of the queries among that, or the name of the table's column that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> with_whole_queries(LOCAL, [{"X": np.zeros((2, 1)), "qid": np.array([7, 7])}], "X", "qid")[0]["qid"]
    array([7, 7])
    """
    of_parts = [_array(part[qid] if qid in part else _column(part[table], qid)) for part in parts]
    of_ranks = comm.gather(np.unique(np.concatenate(of_parts)))
    labels, first = np.unique(np.concatenate(of_ranks), return_index=True)
    homes = np.repeat(np.arange(comm.size), [len(own) for own in of_ranks])[first]
    goes_to = [homes[np.searchsorted(labels, queries)] for queries in of_parts]
    if not is_any(comm, any((ranks != comm.rank).any() for ranks in goes_to)):
        return list(parts)
    sent: list[list[Part]] = [[] for _ in range(comm.size)]
    for part, ranks in zip(parts, goes_to, strict=True):
        # Columns must be known on ranks without rows, too.
        for rank in {comm.rank, *np.unique(ranks).tolist()}:
            sent[rank].append({name: _rows(values, ranks == rank) for name, values in part.items()})
    kept = sent[comm.rank]
    sent[comm.rank] = []
    return [*kept, *(part for received in comm.exchange(sent) for part in received)]


def _array(values: Any) -> NDArray[Any]:
    return array_of(values).ravel()


def _column(table: Any, name: str) -> Any:
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or name not in frame.columns:
        raise ValueError(f"qid must name a column of X; got {name!r}.")
    return array_of(frame[name])


def _rows(values: Any, chosen: NDArray[np.bool_]) -> Any:
    if sparse.issparse(values):
        return values.tocsr()[chosen]
    if isinstance(values, np.ndarray | list):
        return np.asarray(values)[chosen]
    known = nw.from_native(with_rows_to_take(values), eager_only=True, allow_series=True)
    return known[np.flatnonzero(chosen)].to_native()

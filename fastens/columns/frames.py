"""Frames as their libraries have them: names, types and columns."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np


def opened(frame: Any) -> Any:
    """A pandas frame as it is, as its columns are sooner read than narwhals has looked at it; others by narwhals."""
    frame = nw.to_native(frame, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(frame) and frame.columns.is_unique:
        return frame
    return nw.from_native(frame, eager_only=True)


def names_of(frame: Any) -> list[Any]:
    """The names of the columns."""
    return frame.columns if isinstance(frame, nw.DataFrame) else index_values(frame.columns)


def common_kind(frame: Any) -> str | None:
    """The kind of NumPy's type that all columns of a frame share; None where they have several, or others."""
    if isinstance(frame, nw.DataFrame):
        return "f" if set(frame.schema.values()) in ({nw.Float64}, {nw.Float32}) else None
    types = frame.dtypes.tolist()
    first = types[0] if types else None
    return first.kind if isinstance(first, np.dtype) and all(dtype == first for dtype in types) else None


def is_one_block(frame: Any) -> bool:
    """Whether a pandas frame gives its columns as one array without copying them."""
    head = frame.iloc[:1]
    return np.may_share_memory(head.to_numpy(), head.to_numpy())


def arrays_of(frame: Any) -> list[Any]:
    """The columns of a pandas frame as arrays: those of NumPy, or pandas' own.

    Each Series that pandas makes takes ten microseconds, more than the values of a small table. What makes none of them
    is not public; where it is gone, they are made.
    """
    take = getattr(frame, "_get_column_array", None)
    if take is not None:
        return [take(index) for index in range(frame.shape[1])]
    return [column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array for _, column in frame.items()]


def index_values(index: Any) -> list[Any]:
    """The values of an index of pandas; strings in Arrow's memory without the detour of its own method."""
    is_arrow = getattr(index.dtype, "storage", None) == "pyarrow"
    return index.array.__arrow_array__().to_pylist() if is_arrow else index.tolist()

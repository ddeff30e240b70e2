"""Frames as their libraries have them: names, types and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

WIDE = 100  # columns


def is_pandas(frame: Any) -> bool:
    """Whether something is a frame of pandas."""
    pandas = nw.dependencies.get_pandas()
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def opened(frame: Any) -> Any:
    """A pandas frame as it is, since reading its columns directly is faster; others wrapped by narwhals."""
    native = frame if is_pandas(frame) else nw.to_native(frame, pass_through=True)
    if is_pandas(native):
        if not native.columns.is_unique:
            raise _same_names(native.columns[native.columns.duplicated()][0])
        return native
    try:
        return nw.from_native(native, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = list(native.column_names)  # of Arrow; other libraries make no such frame
        raise _same_names(next(name for name in names if names.count(name) > 1)) from None


def _same_names(name: Any) -> ValueError:
    return ValueError(f"X must have columns of different names; more than one is called {name!r}.")


def names_of(frame: Any) -> list[Any]:
    """The names of the columns."""
    return frame.columns if isinstance(frame, nw.DataFrame) else index_values(frame.columns)


def listed_values(dtype: Any) -> list[Any] | None:
    """The values that a column's type lists, whether a row has them or not: pandas' categories, enums; None of others.

    Categories of polars belong to all columns together, and list none of one column.
    """
    return list(dtype.categories) if type(dtype).__name__ in ("CategoricalDtype", "Enum") else None


def common_kind(frame: Any) -> str | None:
    """The kind of NumPy's type, numbers or booleans, that all columns of a frame share; None for other frames."""
    if isinstance(frame, nw.DataFrame):
        return "f" if set(frame.schema.values()) in ({nw.Float64}, {nw.Float32}) else None
    first = _taker_of(frame)(0).dtype if frame.shape[1] else None
    if not isinstance(first, np.dtype) or first.kind not in "fbiu":
        return None
    # A list of all types takes longer than the columns, unless there are many.
    is_wide = frame.shape[1] > WIDE
    types = frame.dtypes.tolist() if is_wide else [column.dtype for column in arrays_of(frame)]
    return first.kind if all(dtype == first for dtype in types) else None


def floats_of(frame: Any) -> NDArray[np.floating]:
    """Return a frame whose columns are all floats of one size as an array, without a copy where it is one already."""
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_pyarrow():
        return frame.to_numpy()
    # Arrow's columns lie apart; its own array is by rows, which takes much longer to write.
    out = np.empty(frame.shape, np.float32 if nw.Float32 in frame.schema.values() else np.float64, order="F")
    for own, column in zip(out.T, frame.to_native().columns, strict=True):
        own[:] = column.to_numpy()
    return out


def block_of(frame: Any) -> NDArray[Any] | None:
    """The columns of a pandas frame, all of one type, as one array; None where they would have to be copied."""
    take = _taker_of(frame)
    first, last = take(0), take(frame.shape[1] - 1)
    if first.base is None or first.base is not last.base:
        return None
    block = frame.to_numpy()
    return block if np.may_share_memory(block, first) else None


def arrays_of(frame: Any) -> list[Any]:
    """The columns of a pandas frame as arrays: those of NumPy, or pandas' own."""
    return list(map(_taker_of(frame), range(frame.shape[1])))


def numbers_of_array(array: Any) -> NDArray[Any] | None:
    """A column of a pandas frame as numbers, missing ones as NaN; None where its type is another."""
    dtype = getattr(array.dtype, "numpy_dtype", array.dtype)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iuf":
        return None
    if isinstance(array, np.ndarray):
        return array
    return array.to_numpy(np.float32 if dtype == np.float32 else np.float64, na_value=np.nan)


def _taker_of(frame: Any) -> Callable[[int], Any]:
    """What gives the column at a place.

    Each Series that pandas makes takes ten microseconds, more than the values of a small table. What makes none of them
    is not public; where it is gone, they are made.
    """

    def take(index: int) -> Any:
        column = frame.iloc[:, index]
        return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array

    return getattr(frame, "_get_column_array", take)


def index_values(index: Any) -> list[Any]:
    """The values of an index of pandas; strings in Arrow's memory without the detour of its own method."""
    is_arrow = getattr(index.dtype, "storage", None) == "pyarrow"
    return index.array.__arrow_array__().to_pylist() if is_arrow else index.tolist()

"""Arrow's columns of codes and the values they stand for, of which any may be missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fastens as fe


class Stream:
    """A new stream for each pass."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_nan_among_the_values_is_the_same_at_every_pass():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 30), pa.array([1.5, float("nan")]))
    table = pa.table({"a": values, "y": np.arange(60.0) % 3})
    model, whole = (fe.DecisionTreeRegressor().fit(X, "y") for X in (Stream(table), table))
    np.testing.assert_array_equal(model.predict(Stream(table)), whole.predict(table))


def test_a_dictionary_without_words_needs_no_offsets():
    empty = pa.Array.from_buffers(pa.string(), 0, [None, None, pa.py_buffer(b"words")])
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.nulls(40, pa.int8()), empty)])
    table = pa.table({"a": column, "b": np.arange(40.0)})
    model = fe.DecisionTreeRegressor().fit(table, np.arange(40.0))
    np.testing.assert_array_equal(model.predict(table), np.arange(40.0))


@pytest.mark.parametrize("words", [["a", "b"], ["a", None]], ids=["missing rows", "missing value"])
@pytest.mark.parametrize("opened", [Stream, lambda table: table, fe.TableSource], ids=["stream", "table", "source"])
def test_missing_labels(words, opened):
    codes = pa.array([0, 1, 0, None if "b" in words else 1] * 5)
    parts = [pa.DictionaryArray.from_arrays(codes, pa.array(own)) for own in (words, ["c", *words[1:]])]
    table = pa.table({"x": np.arange(40.0), "y": pa.chunked_array(parts)})
    for X, y in ((opened(table), "y"), (np.arange(40.0)[:, None], table["y"])):
        for model in (fe.DecisionTreeClassifier(), fe.MixedNB()):
            with pytest.raises(ValueError, match="Input y contains NaN"):
                model.fit(X, y)


def test_missing_weights():
    weights = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([1, 2]))] * 2)
    table = pa.table({"x": np.arange(6.0), "y": np.arange(6.0), "w": weights})
    for X in (table, Stream(table)):
        with pytest.raises(ValueError, match="sample_weight must be finite and non-negative; got nan"):
            fe.DecisionTreeRegressor().fit(X, "y", sample_weight="w")


DAY = 86400 * 10**6


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0, -1, 5 * 10**6, 3 * DAY + 5, None, 10**6 - 2 * DAY], pa.duration("us")),
        ([0, 86399, None, 60], pa.time32("s")),
        ([0, 365, None, -1], pa.date32()),
        ([0, 86400, None, -1], pa.timestamp("s")),
    ],
    ids=str,
)
def test_times_among_the_values_are_categories_as_pandas_writes_them(numbers, kind):
    whole = pa.int64() if kind.bit_width == 64 else pa.int32()
    table = pa.table({"a": pa.array(numbers * 4, whole).cast(kind).dictionary_encode()})
    y = np.arange(len(table)) % 3
    models = [fe.DecisionTreeClassifier().fit(X, y) for X in (table, table.to_pandas(), Stream(table))]
    for model in models:
        assert model._encoder.to_state() == models[0]._encoder.to_state()
        np.testing.assert_array_equal(model.predict(table), models[0].predict(table.to_pandas()))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize("index", [-1, 3, 100])
def test_an_index_that_is_not_of_the_dictionary_is_refused(kind, index):
    if index < 0 and "u" in str(kind):
        index = 127
    codes = pa.array([0, 1, 2, index] * 5, kind)
    table = pa.table({"a": pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y", "z"]), safe=False)})
    with pytest.raises(ValueError, match="the index of row 3 is none of its 3"):
        fe.DecisionTreeRegressor().fit(table, np.arange(20.0))

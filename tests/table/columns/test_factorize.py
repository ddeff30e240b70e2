"""Columns of every kind against the twin that reads them value by value."""

from __future__ import annotations

import sys
import threading
import warnings
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pytest
from fastens.table.columns.copy_blocks import write_offsets
from hypothesis import given, settings

from fastens.table.columns.factorize import Factorized, factorize
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.tables import ArrayTable, table_from_frame
from reference.columns import categories, column_values, positions

pa = pytest.importorskip("pyarrow")

WORDS = ["", "a", "b", "ab", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghijkl", "abcdefghijklm", "x" * 16, "x" * 17]
WORDS += ["x" * 8 + "y" * 10 + "z" * 8, "x" * 8 + "Y" * 10 + "z" * 8, "ä", "é" * 9, "ж", "жж", "慢", "😀", "a\0"]
WORDS += ["a\0\0"]


def fresh(word):
    """An equal string that is another object."""
    return None if word is None else "".join([*word, "?"])[:-1]


def kinds_of_frame(words):
    """A column of words in every kind of frame."""
    known = sorted({word for word in words if word is not None})
    objects = np.array([*words, None], dtype=object)[:-1]
    arrow = pa.chunked_array([words[:3], words[3:]], pa.string())
    return {
        "object": pd.DataFrame({"a": pd.Series(objects, dtype=object)}),
        "fresh": pd.DataFrame({"a": pd.Series([fresh(word) for word in words], dtype=object)}),
        "str": pd.DataFrame({"a": pd.Series(words, dtype="str")}),
        "string": pd.DataFrame({"a": pd.Series(words, dtype=pd.StringDtype("python"))}),
        "string of Arrow": pd.DataFrame({"a": pd.Series(words, dtype=pd.ArrowDtype(pa.string()))}),
        "category": pd.DataFrame({"a": pd.Categorical(words, categories=["never", *known[::-1]])}),
        "polars": pl.DataFrame({"a": pl.Series(words, dtype=pl.String)}),
        "polars, sliced": pl.DataFrame({"a": pl.Series(["zz", None, *words], dtype=pl.String)})[2:],
        "polars categorical": pl.DataFrame({"a": pl.Series(words, dtype=pl.Categorical)}),
        "polars enum": pl.DataFrame({"a": pl.Series(words, dtype=pl.Enum(["never", *known[::-1]]))}),
        "arrow": pa.table({"a": arrow}),
        "large arrow": pa.table({"a": arrow.cast(pa.large_string())}),
        "arrow views": pa.table({"a": arrow.cast(pa.string_view())}),
        "sliced arrow": pa.table({"a": pa.chunked_array([["zz", None, *words]], pa.string())}).slice(2),
        "arrow dictionary": pa.table({"a": arrow.dictionary_encode()}),
        "arrow dictionary, unsigned": pa.table({"a": arrow.cast(pa.dictionary(pa.uint32(), pa.string()))}),
    }


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.none() | st.sampled_from(WORDS) | st.text(max_size=20), min_size=1, max_size=40), st.data())
def test_words_in_frames(words, data):
    words = [word if word is None else word.encode("utf-8", "ignore").decode() for word in words]
    known = categories(words)
    other = data.draw(st.lists(st.none() | st.sampled_from([*known, "unseen", "unseen at length!"]), max_size=9))
    for kind, frame in kinds_of_frame(words).items():
        table = table_from_frame(frame)
        encoder = InputEncoder.fit(table, "all")
        assert encoder.categories == [known], kind
        expected = [np.nan if place is None else place for place in positions(words, known)]
        np.testing.assert_array_equal(encoder.transform(table)[:, 0], expected, kind)
        codes = encoder.codes(table_from_frame(frame))
        np.testing.assert_array_equal(codes[:, 0], np.nan_to_num(np.array(expected) + 1), kind)
        assert table_from_frame(frame).is_categorical(0) is not False, kind
    for kind, frame in kinds_of_frame(other).items():
        encoder = InputEncoder(None, [known])
        found = [place if place is not None and place >= 0 else np.nan for place in positions(other, known)]
        np.testing.assert_array_equal(encoder.transform(table_from_frame(frame))[:, 0], found, kind)
        encoder.unseen = -1.0
        found = [0 if place is None else place + 1 or len(known) + 1 for place in positions(other, known)]
        np.testing.assert_array_equal(encoder.codes(table_from_frame(frame))[:, 0], found, kind)


OBJECTS = st.sampled_from([None, np.nan, float("nan"), pd.NA, True, False, np.True_, 1, 1.0, 2**70, -0.0, 0, 0.5, "1"])
OBJECTS |= st.sampled_from([np.str_("a"), np.float64(2), np.int8(2), np.float32(np.nan), "a", "True"])


@pytest.mark.slow
@given(st.lists(OBJECTS, min_size=1, max_size=30))
def test_objects(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    expected = column_values(column)
    table = ArrayTable(column[:, None])
    for found in (table, table_from_frame(pd.DataFrame({"a": pd.Series(column, dtype=object)}))):
        encoder = InputEncoder.fit(found, "all")
        assert encoder.categories == [categories(expected)]
        places = [np.nan if place is None else place for place in positions(expected, categories(expected))]
        np.testing.assert_array_equal(encoder.transform(found)[:, 0], places)


NUMBERS = {
    "int8": st.integers(-128, 127),
    "int32": st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
    "uint8": st.integers(0, 255),
    "uint16": st.integers(0, 2**16 - 1),
    "uint64": st.integers(2**64 - 5, 2**64 - 1) | st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32) | st.integers(-5, 5).map(float),
    "float64": st.floats() | st.integers(-5, 5).map(float) | st.just(2.0**51),
    "float16": st.floats(width=16),
    "bool": st.booleans(),
    ">i4": st.integers(-5, 5),
    "U3": st.text("abж", max_size=3),
    "S2": st.binary(max_size=2),
}


@pytest.mark.slow
@given(st.sampled_from(sorted(NUMBERS)), st.data())
def test_arrays(dtype, data):
    values = data.draw(st.lists(NUMBERS[dtype], min_size=1, max_size=30))
    column = np.array(values, dtype=dtype)
    expected = column_values(column)
    for found in (column, np.stack([column, column], axis=1)[:, 0], np.append(column, column)[: len(column)]):
        assert factorize(found).decoded() == expected
    if column.dtype.kind in "biuf" and dtype not in ("float16", ">i4"):
        assert factorize(pd.Series(column)).decoded() == expected
        assert factorize(pl.Series(column)).decoded() == expected


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint16, np.float32])
@pytest.mark.parametrize("step", [1, 7, 10**7])
def test_many_numbers(dtype, step, rng):
    if np.dtype(dtype).itemsize < 8 and step > 7:
        pytest.skip("does not hold so large numbers")
    column = (rng.permutation(5000) * step).astype(dtype)
    assert factorize(column).decoded() == column.tolist()
    if column.dtype.kind == "f":
        column[::3] = np.nan
        assert factorize(column).decoded() == [None if np.isnan(x) else x for x in column.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
@pytest.mark.parametrize("late", [[], [2], [100], [-1], [255], [256], [-1, 0, 100, 255]])
def test_numbers_that_come_late(dtype, late, rng):
    # The first numbers have the least of most columns; blocks in which nothing new comes are not looked at again.
    info = None if dtype == "bool" else np.iinfo(dtype)
    for low in [0] if info is None else [info.min, info.min + 1, 7, info.max - 256, info.max - 3]:
        most = 1 if info is None else info.max
        least = 0 if info is None else info.min
        column = np.array([min(low + place, most) for place in rng.integers(0, 3, 10_000).tolist()])
        column[9000 : 9000 + len(late)] = [min(max(low + place, least), most) for place in late]
        column = column.astype(dtype)
        found = factorize(column)
        assert found.decoded() == column.tolist()
        assert [value for value in sorted(found.present(), key=str) if value is not None] == sorted(
            set(column.tolist()), key=str
        )


@pytest.mark.slow
@pytest.mark.parametrize("n_distinct", [255, 256, 257, 70_000])
def test_many_words(n_distinct, rng):
    words = [f"word {number}" for number in rng.integers(0, n_distinct, 100_000)]
    for column in (
        np.array(words, dtype=object),
        np.array(words),
        pl.Series(words),
        pd.Series(words, dtype="str"),
        pa.chunked_array([words[:50_000], words[50_000:]]),
    ):
        assert factorize(column).decoded() == words


@pytest.mark.parametrize(
    "make", [pl.Series, lambda values: pa.chunked_array([values]), lambda values: pd.Series(values, dtype="Int64")]
)
def test_numbers_with_gaps(make):
    values = [3, None, 2**60, 3, -1]
    assert factorize(make(values)).decoded() == values


def test_other_objects_are_found_as_before():
    column = pd.Series([b"a", "a", None, (1, 2), b"a", pd.NaT], dtype=object)
    assert factorize(column).decoded() == [b"a", "a", None, (1, 2), b"a", None]
    with pytest.raises(TypeError, match="unhashable"):
        factorize(np.array([{}, "a"], dtype=object))


WHOLE = [0, 1, 2, 1]
DECIMALS = list(map(Decimal, WHOLE))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(DECIMALS),
        pd.Series(map(Fraction, WHOLE)),
        pd.Series(pd.Categorical(DECIMALS)),
        pd.Series(DECIMALS, dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pl.Series(DECIMALS),
        pa.chunked_array([DECIMALS]),
        pd.Series(WHOLE, dtype=np.longdouble),
        pd.Series(WHOLE, dtype=">i4"),
        pd.Series(WHOLE, dtype=">f8"),
    ],
    ids=lambda column: f"{type(column).__module__}-{getattr(column, 'dtype', None)}",
)
def test_numbers_of_any_type_are_categories(column):
    table = table_from_frame(pa.table({"a": column}) if isinstance(column, pa.ChunkedArray) else frame_of(column))
    encoder = InputEncoder.fit(table, ["a"])
    assert encoder.categories == [[0, 1, 2]]
    assert {type(value) for value in encoder.categories[0]} <= {int, float}
    np.testing.assert_array_equal(encoder.transform(table), np.array([WHOLE]).T)


def frame_of(column):
    return pd.DataFrame({"a": column}) if isinstance(column, pd.Series) else pl.DataFrame({"a": column})


def test_decimals_and_fractions_keep_their_value():
    values = [Decimal("0.5"), Decimal(2**70), Fraction(1, 4), Decimal("NaN"), Decimal("Infinity")]
    assert factorize(np.array(values, dtype=object)).decoded() == [0.5, 2**70, 0.25, None, np.inf]


def test_threads_and_order(rng):
    frame = pd.DataFrame(rng.choice(np.array(["x", "yy", "zzz", None], dtype=object), (30_000, 12)))
    frame.columns = [f"c{index}" for index in range(12)]
    results = []
    for n_threads in (1, 3):
        table = table_from_frame(frame)
        encoder = InputEncoder.fit(table, n_threads=n_threads)
        results.append((encoder.categories, encoder.transform(table, n_threads)))
    assert results[0][0] == results[1][0] == [["x", "yy", "zzz"]] * 12
    np.testing.assert_array_equal(results[0][1], results[1][1])
    frame = frame.astype(object)
    frame.iloc[5, [3, 7]] = b"bytes"
    with pytest.raises(ValueError, match=r"Column 'c3' must hold categories.*b'bytes'"):
        InputEncoder.fit(table_from_frame(frame), n_threads=3)


def test_objects_that_leave_the_array_are_not_kept():
    word = fresh("a word of its own")
    before = sys.getrefcount(word)
    column = np.array([word] * 10, dtype=object)
    found = factorize(column)
    del column, found
    assert sys.getrefcount(word) == before


def test_one_column_in_many_threads():
    column = np.array([fresh(f"w{i % 300}") for i in range(20_000)], dtype=object)
    results: list[Factorized] = []
    threads = [threading.Thread(target=lambda: results.append(factorize(column))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.decoded() for found in results] == [column.tolist()] * 4


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_that_are_categories_are_the_same_texts_in_arrow(unit, zone):
    texts = ["2024-01-02 00:00:00", None, "2024-03-31 05:06:07", "2024-01-02 00:00:00"]
    dates = pd.to_datetime(texts).as_unit(unit).tz_localize(zone)
    frame = pd.DataFrame({"when": pd.Categorical(dates)})
    values = frame["when"].cat
    # Older pyarrow leaves the zone of pandas' categories out.
    indices = pa.array(values.codes, mask=values.codes < 0)
    table = pa.table({"when": pa.DictionaryArray.from_arrays(indices, pa.array(values.categories))})
    encoder, codes = InputEncoder.learn(frame, Reading("from_dtype", False), "the model")
    same, codes_of_arrow = InputEncoder.learn(table, Reading("from_dtype", False), "the model")
    assert same.categories == encoder.categories
    np.testing.assert_array_equal(codes_of_arrow, codes)


def test_few_rows_of_a_long_list_of_categories_are_read_without_the_list():
    codes = np.array([700, -1, 3, 700])
    found = factorize(pd.Series(pd.Categorical.from_codes(codes, [f"c{code:04}" for code in range(1000)])))
    assert found.values == ["c0003", "c0700"]
    assert found.codes.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize("values", [["c0003", None, "c0999"], [3, 999], ["c0003", "no"], [3.5, 3], [True, "c0003"]])
@pytest.mark.parametrize("order", [1, -1])
def test_few_values_have_the_places_that_they_have_among_many(values, order):
    class Unread(list):
        n_read = 0

        def __iter__(self):
            self.n_read += 1
            return super().__iter__()

    known = [*range(1000)] if isinstance(values[-1], int) else [f"c{code:04}" for code in range(1000)]
    known = Unread(known[::order])
    table = table_from_frame(pd.DataFrame({"a": pd.Series(values, dtype=object)}))
    out = np.empty(len(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.find_positions(0, known, (-1, -2, 0), out)
    n_read = known.n_read
    expected = [-1 if value is None else known.index(value) if value in list(known) else -2 for value in values]
    assert out.tolist() == expected
    if order == 1 and -2 not in expected:
        assert n_read == 0


def test_close_single_precision_numbers_are_distinguished():
    places, present = np.empty(2, np.uint32), np.zeros(2**24 + 3, np.uint8)
    write_offsets(np.array([1, 2**24 + 2], np.float32), 1.0, places, present)
    assert places.tolist() == np.flatnonzero(present).tolist() == [0, 2**24 + 1]

"""Columns of numbers: of any size and type, and what an error says of others."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import RandomForestClassifier
from fastens.table.arrays import with_missing
from fastens.table.columns.numbers import numbers_in, numbers_of, unmasked
from fastens.table.encoder import InputEncoder
from fastens.table.tables import ArrayTable, has_large_numbers, table_from_frame

pa = pytest.importorskip("pyarrow")
IDS = [2**60 + 1, 2**53 + 1, -(2**62) - 1, 7]
HUGE = [2**63 + 1, 2**64 - 1, 2**53 + 1, 7]


def objects(*values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


NULLABLE = {pa.int64(): "Int64", pa.uint64(): "UInt64"}
WHOLE = {
    "numpy": lambda values: pd.DataFrame({"a": np.array(values)}),
    "objects": lambda values: pd.DataFrame({"a": pd.Series(values, dtype=object)}),
    "nullable": lambda values: pd.DataFrame(
        {"a": pd.array(values, dtype="UInt64" if max(values) >= 2**63 else "Int64")}
    ),
    "pandas arrow": lambda values: pd.DataFrame(
        {"a": pd.array(pa.array(values, pa.decimal128(25)).cast(whole(values)))}
    ),
    "polars": lambda values: pl.DataFrame({"a": values}),
    "arrow": lambda values: pa.table({"a": pa.array(values, whole(values))}),
    "decimal": lambda values: pa.table({"a": pa.array([Decimal(value) for value in values])}),
}


def whole(values):
    return pa.uint64() if max(values) >= 2**63 else pa.int64()


@pytest.mark.parametrize("make_frame", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("values", [IDS, HUGE], ids=["signed", "unsigned"])
def test_large_whole_numbers_are_the_nearest_floats(make_frame, values):
    table = table_from_frame(make_frame(values))
    found = InputEncoder.fit(table, None).transform(table)
    assert found[:, 0].tolist() == [float(value) for value in values]


@pytest.mark.parametrize("make_frame", [WHOLE[name] for name in ("numpy", "objects", "nullable", "polars", "arrow")])
def test_as_categories_they_are_exact(make_frame):
    ids = [2**60 + 1, 2**60, 2**60 + 1, 2**60 + 2]  # one float
    table = table_from_frame(make_frame(ids))
    encoder = InputEncoder.fit(table, ["a"])
    assert encoder.categories == [[2**60, 2**60 + 1, 2**60 + 2]]
    assert encoder.transform(table)[:, 0].tolist() == [1, 0, 1, 2]


def test_as_categories_of_an_array_they_are_exact():
    ids = np.repeat(2**60 + np.arange(4), 20)[:, None]
    model = RandomForestClassifier(3, bootstrap=False, categorical_features=[0]).fit(ids, ids[:, 0] % 2)
    assert model.score(ids, ids[:, 0] % 2) == 1
    assert model.n_features_in_ == len(model._encoder.categories) == 1


def test_whole_numbers_beyond_64_bits():
    values = [2**100, -(2**70), 10**300]
    assert numbers_of(objects(*values), "0").tolist() == [float(value) for value in values]
    wide = table_from_frame(pl.DataFrame({"a": pl.Series([2**100, None], dtype=pl.Int128)}))
    np.testing.assert_array_equal(InputEncoder.fit(wide).transform(wide)[:, 0], [2.0**100, np.nan])
    with pytest.raises(ValueError, match=r"Column 0 must hold numbers that a 64-bit float can hold; row 1 holds 1000"):
        numbers_of(objects(1, 10**400), "0")


def test_other_real_numbers():
    values = objects(Decimal("0.1"), Fraction(1, 3), np.float32(0.5), np.int8(3), True, None, Decimal("NaN"), pd.NA)
    expected = [0.1, 1 / 3, 0.5, 3, 1, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(numbers_of(values, "0"), expected)


@pytest.mark.parametrize(
    "make_column",
    [
        lambda values: pd.DataFrame({"a": pd.Series(values, dtype=object)}),
        lambda values: pd.DataFrame({"a": pd.Series(values, dtype="string")}),
        lambda values: pd.DataFrame({"a": pd.Categorical(values)}),
        lambda values: pl.DataFrame({"a": values}),
        lambda values: pa.table({"a": values}),
        lambda values: pa.table({"a": pa.array(values).dictionary_encode()}),
    ],
)
def test_texts_that_spell_numbers(make_column):
    encoder = InputEncoder.fit(table_from_frame(pd.DataFrame({"a": [1.0, 2.0]})))
    found = encoder.transform(encoder.matched(make_column(["30000", None, " -1.5e3", "30000"]), "a model"))
    np.testing.assert_array_equal(found[:, 0], [30000, np.nan, -1500, 30000])
    for wrong in ("abc", "1_000", "nan", "", "0x10", "1,5"):
        with pytest.raises(ValueError, match=f"Column 'a' must hold numbers; row 2 holds '{wrong}' of type str"):
            encoder.transform(encoder.matched(make_column(["30000", None, wrong, "30000"]), "a model"))


def test_texts_of_arrays():
    encoder = InputEncoder(None, [None])
    for dtype in (np.str_, object):
        found = encoder.transform(ArrayTable(np.array([["3"], ["4.5"]], dtype=dtype)))
        assert found[:, 0].tolist() == [3, 4.5]
        with pytest.raises(ValueError, match="Column 0 must hold numbers; row 1 holds 'abc' of type str"):
            encoder.transform(ArrayTable(np.array([["30000"], ["abc"]], dtype=dtype)))


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, 2), b"12", {1}, 1j, np.complex128(1j), object(), np.ones(1)])
def test_errors_name_values_that_are_not_numbers(value):
    values = objects(30000, None, value)
    message = rf"Column 'a' must hold numbers: each argument .*; row 2 holds .*{type(value).__name__}"
    for frame in (pd.DataFrame({"a": values}), pl.DataFrame({"a": pl.Series(list(values), dtype=pl.Object)})):
        table = table_from_frame(frame)
        with pytest.raises(TypeError, match=message):
            InputEncoder.fit(table).transform(table)
    if not isinstance(value, tuple | bytes | complex | np.complexfloating) and type(value) is not object:
        with pytest.raises(TypeError, match=r"Column 'a' must hold categories: each .*; row 2 holds"):
            InputEncoder.fit(table_from_frame(pd.DataFrame({"a": values})), ["a"])


def test_long_values_are_cut_off_in_errors():
    with pytest.raises(TypeError) as error:
        numbers_of(objects(list(range(10**6))), "0")
    assert len(str(error.value)) < 250


# Arrays and vectors --------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.bool_, "M8[s]", object, "U3"])
def test_masked_values_are_missing(dtype):
    data = np.array([[1, 0], [0, 1]], dtype=np.int64).astype(dtype)
    plain = with_missing(np.ma.masked_array(data, [[True, False], [False, False]]))
    table = table_from_frame(pd.DataFrame(plain))
    assert table_from_frame(pd.DataFrame(plain)).source.isna().to_numpy().tolist() == [[True, False], [False, False]]
    assert type(plain) is np.ndarray
    assert (np.asarray(table.source)[1] == data[1]).all() or dtype == "M8[s]"
    assert with_missing(np.ma.masked_array(data)).dtype == data.dtype


def test_masked_large_numbers_stay_exact():
    data = np.array([[2**60 + 1], [2**60], [3]])
    assert with_missing(np.ma.masked_array(data, [[False], [False], [True]])).tolist() == [[2**60 + 1], [2**60], [None]]
    assert has_large_numbers(data)
    assert not has_large_numbers(data[2:])
    assert not has_large_numbers(np.zeros((0, 2), dtype=np.uint64))


def test_vectors_of_numbers():
    assert numbers_in([1, True, Decimal("0.5")], "y").tolist() == [1, 1, 0.5]
    np.testing.assert_array_equal(numbers_in(pd.Series([1, pd.NA], dtype="Int64"), "y"), [1, np.nan])
    assert unmasked(np.ma.masked_array([1, 2]), "y").tolist() == [1, 2]
    for values, message in [
        (["1", "2"], r"w must hold numbers; row 0 holds '1' of type str\."),
        ([1j], "w must hold numbers; it holds complex128"),
        (objects(1.0, "2"), "w must hold numbers; row 1 holds '2' of type str"),
        (objects(1.0, [2]), r"w must hold numbers; row 1 holds \[2\] of type list"),
        (np.array(["2024-01-01"], dtype="M8[D]"), r"w must hold numbers; it holds datetime64\[D\]"),
        (np.ma.masked_array([1, 2, 3], [False, True, True]), "w must not have masked values; row"),
    ]:
        with pytest.raises(ValueError, match=message):
            numbers_in(values, "w")


@pytest.mark.parametrize("type_", ["binary", "large_binary", "fixed"])
def test_bytes_of_arrow(type_):
    pa = pytest.importorskip("pyarrow")
    kind = pa.binary(1) if type_ == "fixed" else getattr(pa, type_)()
    table = nw.from_native(pa.table({"a": pa.array([b"x", b"y"], kind)}))
    with pytest.raises(ValueError, match=r"Column 'a' must hold numbers; it holds \w*[bB]inary.*Encode it first"):
        numbers_of(table["a"], "'a'")

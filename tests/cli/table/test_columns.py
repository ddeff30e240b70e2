"""Kinds of columns, and the features made of them."""

import datetime
import decimal
import re

import pyarrow as pa
import pytest

from fastens.cli.table.columns import CommandError, column_kinds, convert_column, kind_of, make_features
from fastens.cli.table.notes import column_notes
from fastens.files import TableSchema

MOMENT = datetime.datetime(2024, 2, 29, 18, 30)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (pa.int8(), "number"),
        (pa.float16(), "number"),
        (pa.decimal128(5, 2), "number"),
        (pa.string(), "text"),
        (pa.large_string(), "text"),
        (pa.dictionary(pa.int8(), pa.string()), "text"),
        (pa.bool_(), "boolean"),
        (pa.date32(), "date"),
        (pa.timestamp("ns", tz="UTC"), "timestamp"),
        (pa.time32("s"), "time"),
        (pa.duration("ms"), "time"),
        (pa.null(), "unusable"),
        (pa.list_(pa.int8()), "unusable"),
    ],
)
def test_kinds(type_, kind):
    assert kind_of(type_) == kind


def test_features():
    table = pa.table(
        {
            "half": pa.array([1.5, None], pa.float16()),
            "cents": pa.array([decimal.Decimal("1.25"), None]),
            "zip": [12, None],
            "text": pa.array(["x ", None]).dictionary_encode(),
            "flag": [True, None],
            "day": [MOMENT.date(), None],
            "moment": pa.array([MOMENT, None], pa.timestamp("ns", tz="Europe/Berlin")),
            "time": [datetime.time(1, 0, 30), None],
        }
    )
    made = make_features(table, column_kinds(table, ["zip"])).to_pylist()
    assert made[0] == {
        "half": 1.5,
        "cents": 1.25,
        "zip": "12",
        "text": "x",
        "flag": True,
        "day": MOMENT.date(),
        "moment": MOMENT.replace(tzinfo=datetime.UTC),
        "time": 3630.0,
    }
    assert set(made[1].values()) == {None}


@pytest.mark.parametrize("kind", ["number", "text", "boolean", "date", "timestamp", "time"])
def test_a_column_without_values_takes_any_kind(kind):
    made = make_features(pa.table({"a": pa.nulls(2)}), {"a": kind})
    assert all(column.null_count == 2 for column in made.columns)


@pytest.mark.parametrize(
    ("values", "kind", "made"),
    [(["1", "2"], "text", ["1", "2"]), ([1, 2], "text", ["1", "2"]), ([True, False], "number", [1, 0])],
)
def test_conversions(values, kind, made):
    assert convert_column(pa.chunked_array([values]), "a", kind).to_pylist() == made


@pytest.mark.parametrize(("values", "kind"), [(["x"], "number"), ([1], "boolean"), (["x"], "date"), ([MOMENT], "text")])
def test_other_kinds_are_refused(values, kind):
    with pytest.raises(CommandError, match=r"column 'a' must hold .*, as in training; got"):
        convert_column(pa.chunked_array([values]), "a", kind)


def notes_about(values: list) -> list[str]:
    table = pa.table({"a": values})
    return column_notes(column_kinds(table, []), TableSchema())


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([None, None], "Ignored, .*: 'a'"),
        ([MOMENT.date()], "Dates, split into .*: 'a'"),
    ],
)
def test_notes(values, note):
    (found,) = notes_about(values)
    assert re.search(note, found)


@pytest.mark.parametrize("values", [list(range(10, 70)), ["x", "y"] * 30, [0.5, 1.5]])
def test_nothing_to_note(values):
    assert notes_about(values) == []

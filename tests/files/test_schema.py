"""Schemas as files, and frames written in any dialect and read back."""

import csv
import io
import warnings

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import fastens  # noqa: E402
from fastens.files import Column, TableFileError, TableSchema  # noqa: E402
from fastens.files.numbers import SEPARATORS  # noqa: E402

SCHEMA = TableSchema(
    {
        'price "net"': Column("number", ",", ".", "€"),
        "day\\night": Column("date", format="%d.%m.%Y"),
        "größe": Column("text"),
        "\N{GRINNING FACE}\x7f": Column("number", symbol="\N{GRINNING FACE}"),
    },
    separator=";",
    missing=("-", "n\tn"),
)


def test_schemas_are_files(tmp_path):
    SCHEMA.save(tmp_path / "schema.toml")
    assert TableSchema.load(tmp_path / "schema.toml") == SCHEMA
    assert TableSchema.from_dict(SCHEMA.to_dict()) == SCHEMA


@pytest.mark.parametrize("name", ["price 😀", "größe", "a\x7fb", 'a"b\\', "a\r\nb", "\u2028", "長.度"])
def test_any_name_comes_back(name, tmp_path):
    schema = TableSchema({name: Column("number", symbol="$")}, missing=(name,))
    schema.save(tmp_path / "schema.toml")
    assert TableSchema.load(tmp_path / "schema.toml") == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("separator = ", "cannot read the schema"),
        ("delimiter = ';'", "got 'delimiter'"),
        ("[columns.a]\ntype = 'float'", "type must be one of number, text"),
        ("[columns.a]\nunits = 'kg'", "has no 'units'"),
        ("separator = ';;'", "separator must be .* one ASCII character.*; got ';;'"),
        ("encoding = 'none'", "encoding must be .* an encoding that Python supports; got 'none'"),
        ("missing = '-'", "missing must be a list of strings; got '-'"),
        ("missing = [-9]", "missing must be a list of strings"),
        ("skip_lines = '3'", "skip_lines must be None or a whole number of at least 0; got '3'"),
        ("skip_lines = -1", "skip_lines must be None or a whole number of at least 0; got -1"),
        (
            "columns = 3",
            "a schema's columns must be a dict that maps names to columns.*got 3",
        ),
        ("[columns]\na = 3", "column 'a' of a schema must be a type or a dict; got 3"),
        ("[columns.a]\ntype = 'number'\ndecimal = ''", "decimal must be one of .*; got ''"),
        ("[columns.a]\ntype = 'number'\nthousands = '.'", "decimal and thousands must differ"),
        ("[columns.a]\ntype = 'date'\nformat = 3", "format must be a string.*got 3"),
    ],
)
def test_schemas_that_are_none(tmp_path, text, message):
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(TableFileError, match=message):
        TableSchema.load(tmp_path / "schema.toml")


def test_several_patterns(tmp_path):
    for name in ("a1", "a2", "b1"):
        (tmp_path / f"{name}.csv").write_text("a\n1.5\n")
    patterns = [str(tmp_path / "a*.csv"), str(tmp_path / "b*.csv")]
    assert fastens.read_table(patterns).num_rows == 3
    with pytest.raises(TypeError, match="path must be a path, or a sequence of them; got 3"):
        fastens.read_table(3)
    with pytest.raises(TypeError, match=r"column_types must be a dict that maps columns to types; got \['number'\]"):
        fastens.read_table(patterns, column_types=["number"])
    with pytest.raises(TableFileError, match="path must name at least one file"):
        fastens.read_table([])


def written(value: float, decimal: str, thousands: str, frame: str) -> str:
    digits = f"{abs(value):,.2f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)
    return frame.format(("-" if value < 0 else "") + digits)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=20),
    pair=st.sampled_from(SEPARATORS),
    frame=st.sampled_from(["{}", "{} €", "${}", "{}%"]),
    dialect=st.tuples(
        st.sampled_from([";", "\t", "|", ","]),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    ),
)
def test_numbers_in_any_dialect_are_read_back(tmp_path_factory, values, pair, frame, dialect):
    separator, ends, encoding = dialect
    # A value with thousands and cents makes the writing certain.
    numbers = [1234567.25, *(value / 100 for value in values)]
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator=ends)
    writer.writerow(["n", "text"])
    for position, value in enumerate(numbers):
        writer.writerow([written(value, *pair, frame), f"row {position}"])
    path = tmp_path_factory.mktemp("dialect") / "t.csv"
    path.write_bytes(stream.getvalue().encode(encoding))
    with warnings.catch_warnings(action="ignore"):
        table, schema = fastens.read_table(path, return_schema=True)
    assert np.allclose(table["n"].to_pylist(), numbers, rtol=0, atol=1e-6)
    assert table["text"].to_pylist() == [f"row {position}" for position in range(len(numbers))]
    assert fastens.read_table(path, schema=schema).equals(table)

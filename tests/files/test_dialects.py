"""A table written in any dialect reads back equal, at once and with the schema that was found."""

from __future__ import annotations

import csv
import datetime
import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("rich")

from fastens.cli.table.parts import UNFIT, open_parts  # noqa: E402
from fastens.files import TableFileError, TableSchema  # noqa: E402
from fastens.files.csv_streams import CsvStream  # noqa: E402
from fastens.files.formats import array_of  # noqa: E402
from fastens.files.read import read  # noqa: E402

N_EXAMPLES = int(os.environ.get("FASTENS_EXAMPLES", "20"))
EXAMPLES = settings(
    max_examples=N_EXAMPLES,
    derandomize="FASTENS_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LETTERS = "abcxyzäöüßéèñ"
# Signs that must be quoted, or that another reader would take for something else.
MARKS = " ,;|\t\"'.-%$()#"
MISSING = ["", "NA", "n/a", "NaN", "null", "?", "#N/A", "-"]


@dataclass(frozen=True)
class Dialect:
    """How a file is written."""

    separator: str
    decimal: str
    thousands: str
    symbol: str
    negative: str
    day: str
    encoding: str
    line_end: str
    missing: str

    def number(self, value: float | None) -> str:
        """A number with two decimals."""
        if value is None:
            return self.missing
        digits = f"{abs(value):,.2f}".replace(",", "_").replace(".", self.decimal).replace("_", self.thousands)
        digits = {"€": f"{digits} €", "%": f"{digits}%", "": digits}.get(self.symbol, self.symbol + digits)
        if value >= 0:
            return digits
        return f"({digits})" if self.negative == "()" else f"{self.negative}{digits}"

    def date(self, value: datetime.date | None) -> str:
        """A date."""
        return self.missing if value is None else value.strftime(self.day)

    def text(self, value: str | None) -> str:
        """A text."""
        return self.missing if value is None else value


@st.composite
def dialects(draw) -> Dialect:
    """A dialect whose parts do not contradict each other."""
    decimal = draw(st.sampled_from(".,"))
    thousands = draw(st.sampled_from(["", ",", "\u00a0", " ", "'"] if decimal == "." else ["", ".", "\u202f", " "]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"]))
    symbols = ["", "%", "$", "€"] if encoding.startswith("utf") else ["", "%", "$"]
    if not encoding.startswith("utf") and thousands == "\u202f":
        thousands = "."
    return Dialect(
        draw(st.sampled_from(",;\t|")),
        decimal,
        thousands,
        draw(st.sampled_from(symbols)),
        draw(st.sampled_from(["-", "()"] if encoding != "utf-8" else ["-", "()", "\u2212"])),
        draw(st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %b %Y"])),
        encoding,
        draw(st.sampled_from(["\n", "\r\n", "\r"])),
        draw(st.sampled_from(MISSING)),
    )


@st.composite
def tables(draw) -> dict[str, list]:
    """Columns of numbers, whole numbers, dates and texts; the first row is whole, and tells the dialect."""
    n_more = draw(st.integers(1, 12))
    words = st.text(LETTERS + MARKS, max_size=8).map(lambda text: f"v{text}w")
    cents = st.integers(-(10**9), 10**9).map(lambda number: number / 100)
    days = st.dates(datetime.date(1970, 1, 1), datetime.date(2069, 12, 31))
    columns = {
        "price": ([12345678.25], cents),
        "n": ([7], st.integers(-(10**6), 10**6)),
        "day": ([datetime.date(2020, 12, 25)], days),
        "wörter, oder": (["vw"], words),
    }
    names = draw(st.permutations(list(columns)))
    return {
        name: columns[name][0] + draw(st.lists(st.none() | columns[name][1], min_size=n_more, max_size=n_more))
        for name in names
    }


def written(table: dict[str, list], dialect: Dialect) -> bytes:
    """The file."""
    cells = {
        "price": dialect.number,
        "day": dialect.date,
        "n": lambda value: dialect.missing if value is None else str(value),
        "wörter, oder": dialect.text,
    }
    text = io.StringIO()
    writer = csv.writer(text, delimiter=dialect.separator, lineterminator=dialect.line_end)
    writer.writerow(table)
    writer.writerows(zip(*([cells[name](value) for value in table[name]] for name in table), strict=True))
    return text.getvalue().encode(dialect.encoding)


@pytest.mark.slow
@EXAMPLES
@given(tables(), dialects())
def test_written_files_are_read_back(tmp_path_factory, table, dialect):
    path = Path(tmp_path_factory.mktemp("dialect")) / "t.csv"
    path.write_bytes(written(table, dialect))
    given = TableSchema(missing=(dialect.missing,)) if dialect.missing == "-" else TableSchema()
    found = read(str(path), given, {})
    assert {name: found.table[name].to_pylist() for name in found.table.column_names} == table
    again = read(str(path), TableSchema.from_dict(found.schema.to_dict()), {})
    assert again.table.equals(found.table)
    found.schema.save(path.with_suffix(".toml"))
    assert TableSchema.load(path.with_suffix(".toml")) == found.schema


@pytest.mark.parametrize(("separator", "number"), [("|", 1234), ("\t", 1234), ("^", 1234), (";", 1.234)])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_comma_before_three_digits(tmp_path, separator, number, quote):
    path = tmp_path / "t.csv"
    for others, expected in (("x", number), ("1,5", 1.234)):
        path.write_text(f"a{separator}b\n{quote}1,234{quote}{separator}{others}\n")
        table = read(str(path), TableSchema.from_dict({"separator": separator}), {}).table
        assert table["a"].to_pylist() == [expected]


def test_whole_numbers_beyond_64_bits_of_sheets_are_texts_at_first():
    assert array_of((10**20, 1)).to_pylist() == ["100000000000000000000", "1"]


# Decimal separators --------------------------------------------------


def read_text(path, text, **given):
    path.write_text(text, encoding="utf-8")
    return read(str(path), TableSchema.from_dict(given), {})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('a,b\n"1,234","12,5"\n"5,678","3,25"\n', [1.234, 5.678]),
        ('a,b\n"1,234",12.5\n"5,678",3.25\n', [1234, 5678]),
        ('a,b\n"1,234","$12.50"\n"5,678","$3.25"\n', [1234, 5678]),
        ('a,b\n"1,234","1,234,567"\n"5,678","2,500,000"\n', [1234, 5678]),
        ("a;b\n1,234;12.5\n5,678;3.25\n", [1234, 5678]),
        ("a;b\n1,234;x\n5,678;y\n", [1.234, 5.678]),
        ("a\tb\n1,234\t2,5\n5,678\t3,25\n", [1.234, 5.678]),
        ("a\tb\n1,234\t2.5\n5,678\t3.25\n", [1234, 5678]),
        ("a;b\n1.234;2,5\n5.678;3,25\n", [1234, 5678]),
        ("a;b\n007;2,5\n008;3,25\n", ["007", "008"]),
    ],
)
def test_a_file_has_one_decimal_separator(tmp_path, text, values):
    found = read_text(tmp_path / "t.csv", text)
    assert found.table["a"].to_pylist() == values
    stream = CsvStream([str(tmp_path / "t.csv")], TableSchema())
    assert pa.Table.from_batches(stream.batches(["a"]))["a"].to_pylist() == values


def prices(n, separator, decimal, thousands, unit=""):
    """A file with prices, whole numbers and shares in one notation."""

    def cell(value):
        text = f"{value:,.2f}".translate({ord(","): thousands, ord("."): decimal}) + unit
        return f'"{text}"' if separator in text else text

    rows = [[cell(i * 371.37 % 5000), str(i % 9), cell(i * 7.77 % 100)] for i in range(n)]
    return "\n".join(map(separator.join, [["x", "n", "y"], *rows])) + "\n"


PLAIN = [(",", ".", ""), (";", ",", ""), (",", ",", ""), ("\t", ".", ""), ("\t", ",", "")]
GROUPED = [(";", ",", ".", " €"), (",", ",", ".", " €"), (",", ".", ",", " €")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[(a, b) for a in PLAIN for b in PLAIN if a != b],
        *[(a, b) for a in GROUPED for b in [*PLAIN, *GROUPED] if a != b],
    ],
)
def test_later_files_with_other_separators(tmp_path, old, new):
    schema = read_text(tmp_path / "old.csv", prices(60, *old)).schema
    found = read_text(tmp_path / "new.csv", prices(60, *new), **schema.to_dict())
    assert found.table["x"].to_pylist() == [round(i * 371.37 % 5000, 2) for i in range(60)]
    for is_lenient in (False, True):
        parts = open_parts([str(tmp_path / "new.csv")], schema, is_lenient=is_lenient)
        table = pa.concat_tables(parts.read(["x", "y"]))
        assert table["x"].to_pylist() == found.table["x"].to_pylist()
        assert not is_lenient or table[UNFIT].null_count == 60


def test_ambiguous_numbers_of_later_files(tmp_path):
    schema = read_text(tmp_path / "t.csv", 'a;b\n"1.234 €";"2.500,5 €"\n"2 €";"3,25 €"\n').schema.to_dict()
    found = read_text(tmp_path / "t.csv", 'a,b\n"1,234 €","2,500.5 €"\n"2 €","3.25 €"\n', **schema)
    assert found.table.to_pydict() == {"a": [1234, 2], "b": [2500.5, 3.25]}
    assert "Numbers have a decimal point in this file" in found.notes[0]
    schema = read_text(tmp_path / "t.csv", "a,b\n1234,2.5\n5678,3.5\n").schema.to_dict()
    with pytest.raises(TableFileError, match="'1,234' is not a number"):
        read_text(tmp_path / "t.csv", 'a,b\n"1,234",2.5\n"5,678",3.5\n', **schema)

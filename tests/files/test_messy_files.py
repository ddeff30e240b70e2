"""A corpus of messy files, and how each is read."""

import bz2
import datetime
import gzip
import io
import lzma
import sqlite3
import struct
import sys
import zipfile

import pytest

pa = pytest.importorskip("pyarrow")

import fastens  # noqa: E402
from fastens.files import TableFileError, TableSchema  # noqa: E402
from fastens.files.csv_streams import CsvStream  # noqa: E402
from fastens.files.formats import _CheckedLines  # noqa: E402
from fastens.files.read import read  # noqa: E402

DAY = datetime.date


def found_in(content: str | bytes, tmp_path, name: str = "t.csv", **given):
    """What is read from a file with this content."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    types = given.pop("column_types", {})
    return read(str(path), TableSchema.from_dict(given), types)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,x\n,y\n", [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]),
        ("a;b\n1,5;x\n2,5;y\n", [{"a": 1.5, "b": "x"}, {"a": 2.5, "b": "y"}]),
        ("a;b\n1.5;x,y\n", [{"a": 1.5, "b": "x,y"}]),
        ("a\tb\n1\t2\n", [{"a": 1, "b": 2}]),
        ("a|b\n1|2\n", [{"a": 1, "b": 2}]),
        ('"a,1",b\n"two\nlines",2\n', [{"a,1": "two\nlines", "b": 2}]),
        ("\ufeffa,b\n1,2\n", [{"a": 1, "b": 2}]),
        ("a,\n1,2\n", [{"a": 1, "column 2": 2}]),
        ("a, b\n1, 2\n", [{"a": 1, "b": 2}]),
        ("a,b\r1,2\r3,4\r", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("a,b\r\n1,2\r\n", [{"a": 1, "b": 2}]),
        ("\n\na,b\n\n1,2\n", [{"a": 1, "b": 2}]),
        ("a,a,a\n1,2,3\n", [{"a": 1, "a.1": 2, "a.2": 3}]),
        ("a,b\nr1,1,2\nr2,3,4\n", [{"column 1": "r1", "a": 1, "b": 2}, {"column 1": "r2", "a": 3, "b": 4}]),
        ("a,b\n1,2,\n3,4,\n", [{"a": 1, "b": 2, "column 3": None}, {"a": 3, "b": 4, "column 3": None}]),
        ("a b;c\n1;2\n", [{"a b": 1, "c": 2}]),
        ("a\n1\n2\n", [{"a": 1}, {"a": 2}]),
        ('a,b\n1,"x;y;z"\n', [{"a": 1, "b": "x;y;z"}]),
    ],
    ids=[
        *("comma", "decimal comma", "semicolon", "tab", "bar", "quoted", "byte order mark", "unnamed", "blanks"),
        *(
            "carriage returns",
            "Windows",
            "empty lines",
            "equal names",
            "names of rows",
            "separator at the end",
            "blank in a name",
            "one column",
        ),
        "other separators in a text",
    ],
)
def test_csv_dialects(tmp_path, text, rows):
    assert found_in(text, tmp_path).table.to_pylist() == rows


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "NaN", "null", "None", "?", " ?", "<NA>", "#N/A", "#DIV/0!"])
def test_missing_values(tmp_path, missing):
    table = found_in(f"n,s\n1,x\n{missing},{missing}\n", tmp_path).table
    assert table.to_pylist()[1] == {"n": None, "s": None}
    assert table.schema.field("n").type == pa.int64()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("types", [{}, {"größe": "text", "ort": "text"}])
def test_encodings(tmp_path, encoding, types):
    table = found_in("größe, ort\n1,Köln\n2,Bonn\n".encode(encoding), tmp_path, column_types=types).table
    assert table.to_pylist()[0] == {"größe": "1" if types else 1, "ort": "Köln"}


def test_the_euro_sign_of_windows(tmp_path):
    found = found_in("p;x\n1.234,50 €;\u201ex\u201c\n9,90 €;ü\n".encode("cp1252"), tmp_path)
    assert found.table.to_pylist() == [{"p": 1234.5, "x": "\u201ex\u201c"}, {"p": 9.9, "x": "ü"}]


def test_any_byte_is_read(tmp_path):
    assert found_in(b"a,b\n1,\x81\n2,\xfc\n", tmp_path).table["b"].to_pylist() == ["\x81", "ü"]


def test_a_given_encoding_is_used(tmp_path):
    content = "a,b\n1,я\n".encode("cp1251")
    assert found_in(content, tmp_path, encoding="cp1251").table["b"].to_pylist() == ["я"]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["16,435.04", "3", "-1,000"], [16435.04, 3, -1000]),
        (["9.188,70", "1,5", "12"], [9188.7, 1.5, 12]),
        (["$1,200", "-$5", "$3.50"], [1200, -5, 3.5]),
        (["1.234 €", "5,60 €", "-1 €"], [1234, 5.6, -1]),
        (["CHF 5.00", "6.10"], [5, 6.1]),
        (["12 500", "1 234,5", "7"], [12500, 1234.5, 7]),
        (["12\u00a0500", "1\u202f234"], [12500, 1234]),
        (["1'234.50", "12"], [1234.5, 12]),
        (["45%", "3.5%", "0"], [45, 3.5, 0]),
        (["(123)", "45", "(1,200.5)"], [-123, 45, -1200.5]),
        (["(1.5)", "(2)", "3"], [-1.5, -2, 3]),
        (["1,5", "2,25", "3,125"], [1.5, 2.25, 3.125]),
        (["0,123", "0,456"], [0.123, 0.456]),
        (["12,34,567.5", "1,00,000"], [1234567.5, 100000]),
        (["\u22125", "7x"[:1]], [-5, 7]),
        (["1_000", "2_500_000"], [1000, 2500000]),
        (["1,234", "5,678"], [1234, 5678]),
    ],
)
def test_numbers_in_every_common_writing(tmp_path, cells, numbers):
    text = "n|s\n" + "".join(f'"{cell}"|x\n' for cell in cells)
    found = found_in(text, tmp_path)
    assert found.table["n"].to_pylist() == pytest.approx(numbers)
    again = found_in(text, tmp_path, **found.schema.to_dict())
    assert again.table.equals(found.table)
    for schema in (TableSchema(), found.schema):
        batches = CsvStream([str(tmp_path / "t.csv")], schema).batches(["n", "s"])
        assert pa.Table.from_batches(batches)["n"].to_pylist() == found.table["n"].to_pylist()


def test_whole_numbers_stay_whole(tmp_path):
    assert found_in('a\n"1,200"\n"3,400,000"\n', tmp_path).table["a"].type == pa.int64()


@pytest.mark.parametrize(
    "cells",
    [
        ["45%", ".45"],
        ["€ 5", "$ 5"],
        ["192.168.1.1", "10.0.0.1"],
        ["1.2.3", "1.2.4"],
        ["030 123 456", "030 555 111"],
        ["(5", "6)"],
        ["--5", "5"],
        ["1,2,3", "4,5,6"],
        ["12-345", "22-111"],
        ["A1", "B2"],
    ],
)
def test_texts_that_are_not_numbers(tmp_path, cells):
    text = "n|s\n" + "".join(f'"{cell}"|x\n' for cell in cells)
    found = found_in(text, tmp_path)
    assert found.table["n"].to_pylist() == cells


def test_one_odd_value_is_named_and_changes_no_other_column(tmp_path):
    rows = [f'"{n},000","{n},500"' for n in range(1, 30)]
    rows[17] = '"12 kg","18,500"'
    found = found_in("a,b\n" + "\n".join(rows), tmp_path)
    assert found.table["a"].type == pa.string()
    assert found.table["b"].to_pylist()[17] == 18500
    assert any(
        "'a' is read as text, because of '12 kg' in row 18." in note and "--column a:number" in note
        for note in found.notes
    )
    given = found_in("a,b\n" + "\n".join(rows), tmp_path, column_types={"a": "number"})
    assert given.table["a"].to_pylist()[16:19] == [17000, None, 19000]
    assert any("'12 kg' in row 18" in note for note in given.notes)


def test_codes_of_missing_values_are_offered(tmp_path):
    text = "a\n" + "".join(f"{n}.5\n" for n in range(30)) + "-\n"
    found = found_in(text, tmp_path)
    assert found.table["a"].type == pa.string()
    assert "--missing=-" in found.notes[0]
    assert found_in(text, tmp_path, missing=["-"]).table["a"].null_count == 1


@pytest.mark.parametrize(
    ("cells", "days", "text"),
    [
        (["01.02.2020", "31.12.2021"], [DAY(2020, 2, 1), DAY(2021, 12, 31)], "%d.%m.%Y"),
        (["1/2/2020", "12/31/2020"], [DAY(2020, 1, 2), DAY(2020, 12, 31)], "%m/%d/%Y"),
        (["13/2/2020", "1/12/2020"], [DAY(2020, 2, 13), DAY(2020, 12, 1)], "%d/%m/%Y"),
        (["01-02-20", "31-01-21"], [DAY(2020, 2, 1), DAY(2021, 1, 31)], "%d-%m-%y"),
        (["5 Jan 2020", "17 Feb 2021"], [DAY(2020, 1, 5), DAY(2021, 2, 17)], "%d %b %Y"),
        (
            ["1/2/2020 12:05 AM", "12/31/2020 1:00 pm"],
            [datetime.datetime(2020, 1, 2, 0, 5), datetime.datetime(2020, 12, 31, 13)],
            "%m/%d/%Y %I:%M %p",
        ),
    ],
)
def test_dates(tmp_path, cells, days, text):
    found = found_in("d|x\n" + "".join(f"{cell}|1\n" for cell in cells), tmp_path)
    assert found.table["d"].to_pylist() == days
    assert found.schema.columns["d"].format == text


def test_an_order_of_day_and_month_that_is_not_certain_is_noted(tmp_path):
    found = found_in("d|x\n1/2/2020|1\n3/4/2020|2\n", tmp_path)
    assert "the order of day and month is ambiguous" in found.notes[0]


def test_types_are_found_from_all_rows(tmp_path):
    table = found_in("a,b\n" + "1,2\n" * 300_000 + "1.5,x\n", tmp_path).table
    assert [field.type for field in table.schema] == [pa.float64(), pa.string()]
    assert table["b"][0].as_py() == "2"


def test_text_columns_stay_text(tmp_path):
    found = found_in("zip\n01234\n", tmp_path, column_types={"zip": "text", "other": "text"})
    assert found.table["zip"].to_pylist() == ["01234"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("sep=;\na;b\n1;x\n", [{"a": 1, "b": "x"}]),
        ("sep=|\r\na|b\r\n1,2|x\r\n", [{"a": 1.2, "b": "x"}]),
        ("# made, by, hand\n#\na,b\n1,x\n2,y\n", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ("# by hand\n#a,b\n1,x\n", [{"#a": 1, "b": "x"}]),
        ("a,b\n#1,x\n", [{"a": "#1", "b": "x"}]),
        ("# only a comment\na\n1\n", [{"a": 1}]),
    ],
)
def test_lines_before_the_header(tmp_path, text, rows):
    assert found_in(text, tmp_path).table.to_pylist() == rows


@pytest.mark.parametrize(
    "text",
    [
        "5.1,3.5,setosa\n4.9,3.0,setosa\n6.1,?,virginica\n",
        "39,private,male\n50,self,female\n38,private,male\n",
        "p,x\ne,x\np,x\n",
        "1.5\n2.5\n",
    ],
)
def test_files_without_a_header(tmp_path, text):
    found = found_in(text, tmp_path)
    n_columns = text.splitlines()[0].count(",") + 1
    assert found.table.column_names == [f"column {i + 1}" for i in range(n_columns)]
    assert found.table.num_rows == len(text.splitlines())
    assert any(
        note.startswith("The first line is read as data, not as a header; the columns are named")
        for note in found.notes
    )
    # A later file of the kind, of rows that tell nothing about it.
    later = found_in(text.splitlines()[0] + "\n", tmp_path, **found.schema.to_dict())
    assert later.table.to_pylist() == found.table.slice(0, 1).to_pylist()
    # In batches.
    (tmp_path / "t.csv").write_text(text)
    stream = CsvStream([str(tmp_path / "t.csv")], TableSchema())
    assert stream.n_rows == found.table.num_rows
    assert stream.notes == found.notes
    assert pa.Table.from_batches(stream.batches(found.table.column_names)).to_pylist() == found.table.to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "city,2023,2024\nrome,1,2\noslo,3,4\n",
        "2023,2024\n1.5,2\n3,4\n",
        ",a\n0,1\n1,2\n",
        "a,b\nx,y\nz,b\n",
    ],
)
def test_the_header_is_not_a_row(tmp_path, text):
    names = found_in(text, tmp_path).table.column_names
    assert names == [name or "column 1" for name in text.splitlines()[0].split(",")]


def test_lines_above_the_header_and_a_given_separator(tmp_path):
    text = "report of June\nmade by hand\na:b\n1:2\n"
    assert found_in(text, tmp_path, separator=":", skip_lines=2).table.to_pylist() == [{"a": 1, "b": 2}]
    with pytest.raises(
        TableFileError, match="skip_lines must be less than the number of lines at the start of the file; got 9"
    ):
        found_in(text, tmp_path, skip_lines=9)


def test_given_types_of_columns_that_are_not_texts(tmp_path):
    text = "flag,day,sure\n1,2020-01-02,true\n,,\n0,2020-01-03,false\n"
    found = found_in(text, tmp_path, column_types={"flag": "boolean", "sure": "number"})
    assert found.table.to_pydict() == {
        "flag": [True, None, False],
        "day": [DAY(2020, 1, 2), None, DAY(2020, 1, 3)],
        "sure": [1, None, 0],
    }
    assert found_in(text, tmp_path, columns=found.schema.to_dict()["columns"]).table["flag"].to_pylist()[0] is True
    for name, type_, held in (("flag", "date", "int64.*1"), ("day", "number", "date32"), ("sure", "date", "bool")):
        with pytest.raises(TableFileError, match=f"column '{name}' cannot be read as {type_}: it holds {held}"):
            found_in(text, tmp_path, column_types={name: type_})


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("t.csv.gz", gzip.compress),
        ("t.csv.bz2", bz2.compress),
        ("t.csv.xz", lzma.compress),
        ("t.csv.zst", lambda content: pa.Codec("zstd").compress(content, asbytes=True)),
    ],
)
def test_compressed(tmp_path, name, packed):
    if name.endswith("zst"):
        with pa.output_stream(tmp_path / name, compression="zstd") as stream:
            stream.write(b"a,b\n1,2\n")
        assert read(str(tmp_path / name), TableSchema(), {}).table.to_pylist() == [{"a": 1, "b": 2}]
    else:
        assert found_in(packed(b"a,b\n1,2\n"), tmp_path, name).table.to_pylist() == [{"a": 1, "b": 2}]


def test_zip_archives(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data/t.csv", "a,b\n1,2\n")
    assert found_in(content.getvalue(), tmp_path, "t.zip").table.to_pylist() == [{"a": 1, "b": 2}]
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("other.csv", "a\n1\n")
    with pytest.raises(TableFileError, match="must hold one file; it holds 2"):
        found_in(content.getvalue(), tmp_path, "t.zip")


def test_standard_input(monkeypatch):
    class Stream:
        buffer = io.BytesIO("größe;b\n1;2\n".encode("latin-1"))

    monkeypatch.setattr(sys, "stdin", Stream)
    assert fastens.read_table("-").to_pylist() == [{"größe": 1, "b": 2}]


def test_several_files(tmp_path):
    for part in range(3):
        (tmp_path / f"{part}.csv").write_text(f"a,b\n{part},x\n" if part else "a,b\n1.5,y\n")
    table = fastens.read_table(tmp_path / "*.csv")
    assert table["a"].to_pylist() == [1.5, 1, 2]
    assert fastens.read_table([tmp_path / "2.csv", tmp_path / "1.csv"])["a"].to_pylist() == [2, 1]
    with pytest.raises(TableFileError, match="no such file"):
        fastens.read_table(tmp_path / "*.parquet")


def test_other_formats(tmp_path):
    table = pa.table({"a": [1, 2], "s": ["1,200", "3"]})
    pa.parquet.write_table(table.append_column("__index_level_0__", pa.array([0, 1])), tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed")
    (tmp_path / "t.jsonl").write_text('{"a": 1, "s": "1,200"}\n{"a": 2, "s": "3"}\n')
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("create table one (a integer, s text)")
        database.executemany("insert into one values (?, ?)", [(1, "1,200"), (2, "3")])
    database.close()
    for name in ["t.parquet", "t.arrow", "t.jsonl", "t.db"]:
        found = read(str(tmp_path / name), TableSchema(), {})
        assert found.table.to_pylist() == [{"a": 1, "s": 1200}, {"a": 2, "s": 3}], name


def test_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["a", "s"], [1, "1,200"], [None, None], [2, "x"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert read(str(tmp_path / "t.xlsx"), TableSchema(), {}).table.to_pylist() == [
        {"a": 1, "s": "1,200"},
        {"a": 2, "s": "x"},
    ]


def test_sheets_of_files_that_have_none(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(
        TableFileError, match="sheet is only for workbooks and databases, and must be None for CSV; got 'q'"
    ):
        fastens.read_table(tmp_path / "t.csv", sheet="q")


def test_digits_that_are_text_in_a_file_with_types_stay_text(tmp_path):
    pa.parquet.write_table(pa.table({"zip": ["12345", "67890"], "price": ["1,200", "3"]}), tmp_path / "t.parquet")
    found = read(str(tmp_path / "t.parquet"), TableSchema(), {})
    assert found.table.to_pylist()[0] == {"zip": "12345", "price": 1200}


def test_views_of_strings(tmp_path):
    pa.parquet.write_table(pa.table({"a": pa.array(["x", "y"], pa.string_view())}), tmp_path / "t.parquet")
    assert read(str(tmp_path / "t.parquet"), TableSchema(), {}).table["a"].type == pa.string()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("a,b\n", "has no rows"),
        (
            "a,b\n1,2\n3\n4,5\n6,7,8\n",
            "must have 2 values, like the header; line 3 has 1: '3'; the same holds for line 5",
        ),
        ("a,b\n1,2\n\u20ac".encode()[:-1], "line 3 has 1: 'â"),
        (bytes(500), "binary data"),
        (b"\x00\x01\x02\xff" * 200, "binary data"),
    ],
)
def test_files_that_are_not_tables(tmp_path, content, message):
    with pytest.raises(TableFileError, match=message):
        found_in(content, tmp_path)


def test_bad_files(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "folder.csv").mkdir()
    for name, message in [
        ("none.csv", "no such file"),
        ("folder.csv", "is a folder"),
        ("t.parquet", "as Parquet"),
        ("t.doc", "cannot infer the format"),
    ]:
        with pytest.raises(TableFileError, match=message):
            fastens.read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('p,d\n"1,200",01.02.2020\n"3 kg",02.02.2020\n', "column 'p', row 2: '3 kg' is not a number written like"),
        ('p,d\n"12 00",01.02.2020\n', "column 'p', row 1: '12 00' is not a number"),
        ('p,d\n"1,200",2020/02/01\n', "column 'd', row 1: '2020/02/01' is not a date written as %d.%m.%Y"),
    ],
)
def test_a_later_table_must_fit_the_schema(tmp_path, text, message):
    first = found_in('p,d\n"1,200",01.02.2020\n"3,400",31.12.2020\n', tmp_path)
    with pytest.raises(TableFileError, match=message):
        found_in(text, tmp_path, **first.schema.to_dict())


def test_columns_that_are_written_alike_have_one_note(tmp_path):
    names = [f"c{n}" for n in range(10)]
    text = "\n".join("|".join(row) for row in [[*names, "d", "e"], ["1,234,567"] * 10 + ["1.200,5", "31.12.2020"]])
    notes = found_in(text, tmp_path).notes
    several = ", ".join(f"'c{n}'" for n in range(8))
    assert notes == [
        f"{several} and 2 more are read as numbers, written like '1,234.5'.",
        "'d' is read as numbers, written like '1.234,5'.",
        "'e' is read as dates, written as %d.%m.%Y.",
    ]


def test_arrow_files_with_texts_outside_of_the_file_are_refused(tmp_path):
    path = tmp_path / "t.arrow"
    table = pa.table({"a": pa.array(["one", "two", "three"])})
    pa.feather.write_feather(table, path, compression="uncompressed")
    places = struct.pack("<4i", 0, 3, 6, 11)
    content = path.read_bytes()
    assert content.count(places) == 1
    path.write_bytes(content.replace(places, struct.pack("<4i", 0, 3, 6, 2_000_000_000)))
    with pytest.raises(ValueError, match=r"t\.arrow"):
        fastens.read_table(path)


def test_names_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "names.parquet"
    pa.parquet.write_table(pa.table({"größe": [1.0, 2.0]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace("ö".encode(), b"\xff\xfe"))
    with pytest.raises(TableFileError, match=r"cannot read .*names.parquet as Parquet: .*can't decode byte 0xff"):
        fastens.read_table(path)


def test_views_of_texts_outside_of_the_file_are_refused(tmp_path):
    """Of a missing text too: it is read."""
    path = tmp_path / "views.arrow"
    table = pa.table({"a": pa.array(["one", None, "a text of more than twelve bytes"], pa.string_view())})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    assert fastens.read_table(path)["a"].to_pylist() == table["a"].to_pylist()
    content = path.read_bytes()
    one = struct.pack("<i", 3) + b"one".ljust(12, b"\0")
    assert content.count(one + bytes(16)) == 1
    path.write_bytes(content.replace(one + bytes(16), one + struct.pack("<4i", 2_000_000_000, 0, 7, 5)))
    with pytest.raises(TableFileError, match=r"views\.arrow as Arrow: a string lies outside of the file"):
        fastens.read_table(path)


def test_texts_that_are_not_utf8(tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_bytes(b'{"a": 1, "b": "x"}\n{"a": 2, "b": "\x80"}\n')
    with pytest.raises(fastens.TableFileError, match=r"cannot read .*table\.jsonl as .*UTF8"):
        fastens.read_table(path)


@pytest.mark.parametrize(
    "text",
    ["null", "null\n", '\ufeffnull\n{"a": 1}\n', ' \r\n\t null, "b": "y"}\n{"a": 1}', '{"a": 1}\n' + " " * 70 + "null"],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_of_json_that_are_null(tmp_path, text, suffix):
    path = tmp_path / f"table.jsonl{suffix}"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(fastens.TableFileError, match=r"table\.jsonl.* as JSON: each line must be an object"):
        fastens.read_table(path)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_null_is_found_however_a_stream_is_cut(size):
    def read(text):
        lines = _CheckedLines(io.BytesIO(text))
        return b"".join(iter(lambda: lines.read(size), b""))

    for good in (b"", b"\n\n", b'{"a": null}\n  {"b": "\\nnull"}', b'\xef\xbb\xbf{"a":\t null}\r\nnul'):
        assert read(good) == good
    for wrong in (b"null", b" \r\n null", b'{"a": null}\n\t \tnull\n{"a": 1}', b'{"a": null}\n\n  null'):
        with pytest.raises(ValueError, match="one is null"):
            read(wrong)

"""Reading and writing tables in files."""

import gzip

import pyarrow as pa
import pyarrow.parquet
import pytest

from fastens.cli.table.errors import CommandError
from fastens.cli.table.tables import read_table, table_format, write_table


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
    ],
    ids=["comma", "decimal comma", "semicolon", "tab", "bar", "quoted", "byte order mark", "unnamed", "blanks"],
)
def test_csv_dialects(write_csv, text, rows):
    assert read_table(str(write_csv(text))).to_pylist() == rows


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "NaN", "null", "None", "?", " ?", "<NA>"])
def test_missing_values(write_csv, missing):
    table = read_table(str(write_csv(f"n,s\n1,x\n{missing},{missing}\n")))
    assert table.to_pylist()[1] == {"n": None, "s": None}
    assert table.schema.field("n").type == pa.int64()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("text_columns", [[], ["größe", "ort"]])
def test_encodings(write_csv, encoding, text_columns):
    table = read_table(str(write_csv("größe, ort\n1,Köln\n2,Bonn\n".encode(encoding))), text_columns)
    assert table.to_pylist()[0] == {"größe": "1" if text_columns else 1, "ort": "Köln"}


def test_types_are_inferred_from_all_rows(write_csv):
    table = read_table(str(write_csv("a,b\n" + "1,2\n" * 300_000 + "1.5,x\n")))
    assert [field.type for field in table.schema] == [pa.float64(), pa.string()]
    assert table["b"][0].as_py() == "2"


def test_text_columns_stay_text(write_csv):
    assert read_table(str(write_csv("zip\n01234\n")), ["zip", "other"])["zip"].to_pylist() == ["01234"]


def test_compressed(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(str(path)).to_pylist() == [{"a": 1, "b": 2}]


def test_index_of_pandas_is_left_out(tmp_path):
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1], "__index_level_0__": [0]}), path)
    assert read_table(str(path)).column_names == ["a"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.csv.gz"])
def test_written_tables_are_read_back(tmp_path, name):
    table = pa.table({"a,b": [1.5, None], "c": ["x", 'with "quotes"']})
    write_table(table, str(tmp_path / name))
    assert read_table(str(tmp_path / name)).equals(table)


@pytest.mark.parametrize("name", ["t", "t.xlsx", "t.parquet.gz", "csv"])
def test_unknown_formats(name):
    with pytest.raises(CommandError, match=r"cannot tell the format of .*\.csv"):
        table_format(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read .* as CSV: Empty"),
        ("a,b\n", "has no rows"),
        ("a,a\n1,2\n", "more than one column named 'a'"),
        ("a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
    ],
)
def test_bad_csv(write_csv, text, message):
    with pytest.raises(CommandError, match=message):
        read_table(str(write_csv(text)))


def test_bad_files(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "folder.csv").mkdir()
    for name, message in [("none.csv", "no such file"), ("folder.csv", "is a folder"), ("t.parquet", "as PARQUET")]:
        with pytest.raises(CommandError, match=message):
            read_table(str(tmp_path / name))

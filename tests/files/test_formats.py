"""Files in formats of their own: how they are named, and that they are closed."""

import bz2
import gc
import gzip
import lzma
import sqlite3
import zipfile

import pyarrow
import pytest
from pyarrow import parquet

import fastens
from fastens.files import TableFileError, TableSchema, formats
from fastens.files.csv_streams import CsvStream

CONTENT = b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * n * 7919 % 10007) for n in range(2000))


@pytest.mark.parametrize("name", ["a#1.db", "50%20.db", "é b.db"])
def test_databases_whose_names_have_signs_of_addresses(tmp_path, name):
    with sqlite3.connect(tmp_path / name) as database:
        database.execute("create table one (a integer)")
        database.execute("insert into one values (1)")
    database.close()
    assert fastens.read_table(tmp_path / name)["a"].to_pylist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("members", [["a.csv"], ["a.csv", "b.csv"]])
def test_archives_are_closed(tmp_path, monkeypatch, members):
    opened = []

    class Archive(zipfile.ZipFile):
        def __init__(self, path):
            super().__init__(path)
            opened.append(self.fp)

    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name in members:
            archive.writestr(name, "a,b\n1,2\n")
    monkeypatch.setattr(formats.zipfile, "ZipFile", Archive)
    gc.disable()
    try:
        if len(members) == 1:
            assert fastens.read_table(tmp_path / "t.zip").num_rows == 1
        else:
            with pytest.raises(TableFileError, match="must hold one file"):
                fastens.read_table(tmp_path / "t.zip")
        assert opened
        assert all(file.closed for file in opened)
    finally:
        gc.enable()


def test_workbooks_are_closed(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book, opened, load = openpyxl.Workbook(), [], openpyxl.load_workbook
    book.create_sheet("second")
    book.save(tmp_path / "t.xlsx")

    def load_noted(*args, **options):
        opened.append(load(*args, **options))
        return opened[-1]

    monkeypatch.setattr(openpyxl, "load_workbook", load_noted)
    with pytest.raises(TableFileError, match="has 2 sheets"):
        fastens.read_table(tmp_path / "t.xlsx")
    assert opened[0]._archive.fp is None


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.xz", "t.csv.bz2", "t.csv.zip", "t.jsonl.gz", "t.jsonl.xz", "t.db"])
@pytest.mark.parametrize("is_text", [False, True])
def test_damaged_files_are_an_error_that_names_them(tmp_path, name, is_text):
    path, suffix = tmp_path / name, name.rsplit(".", 1)[1]
    if suffix == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", CONTENT)
    elif suffix == "db":
        with sqlite3.connect(path) as database:
            database.execute("create table one (a integer)")
        database.close()
    else:
        path.write_bytes({"gz": gzip, "xz": lzma, "bz2": bz2}[suffix].compress(CONTENT))
    content = bytearray(path.read_bytes())
    content[60:400] = bytes(byte ^ 0x5A for byte in content[60:400])
    path.write_bytes(b"a,b\n1,2\n" if is_text else content)
    with pytest.raises(TableFileError, match=f"cannot read .*{name}"):
        fastens.read_table(path)
    if name.startswith("t.csv"):
        with pytest.raises(TableFileError, match=f"cannot read .*{name}"):
            CsvStream([str(path)], TableSchema())


def test_names_within_records_that_are_not_utf_8(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": [[{"name": 1}]]}), path)
    path.write_bytes(path.read_bytes().replace(b"name", b"n\x80me"))
    with pytest.raises(TableFileError, match=r"cannot read .*t\.parquet as Parquet: 'utf-8' codec"):
        fastens.read_table(path)


def test_texts_of_a_database_that_are_not_utf_8(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("create table one as select cast(x'ff41' as text) as a")
    database.close()
    with pytest.raises(TableFileError, match=r"cannot read .*t\.db as SQLite: Could not decode to UTF-8"):
        fastens.read_table(tmp_path / "t.db")
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    with pytest.raises(TableFileError, match="has no tables"):
        fastens.read_table(tmp_path / "empty.db")


def test_workbooks_with_charts_and_archives_of_something_else(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.active.append([1])
    book.create_chartsheet("chart").add_chart(openpyxl.chart.BarChart())
    book.save(tmp_path / "t.xlsx")
    assert fastens.read_table(tmp_path / "t.xlsx")["a"].to_pylist() == [1]
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as archive:
        archive.writestr("t.csv", CONTENT)
    with pytest.raises(TableFileError, match=r"cannot read .*other\.xlsx as Excel: There is no item"):
        fastens.read_table(tmp_path / "other.xlsx")

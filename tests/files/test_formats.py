"""Files in formats of their own: how they are named, and that they are closed."""

import gc
import sqlite3
import zipfile

import pytest

import fastens
from fastens.files import TableFileError, formats


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

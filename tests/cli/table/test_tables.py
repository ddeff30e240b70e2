"""Tables that the command line writes, and how it reads them back."""

import pyarrow as pa
import pytest

from fastens.cli.table.columns import CommandError
from fastens.cli.table.tables import output_format, read_table, write_tables


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.csv.gz"])
def test_written_tables_are_read_back(tmp_path, name):
    table = pa.table({"a,b": [1.5, None], "c": ["x", 'with "quotes"']})
    write_tables([table], str(tmp_path / name))
    assert read_table(str(tmp_path / name)).table.equals(table)


@pytest.mark.parametrize("name", ["t", "csv"])
def test_unknown_formats(name):
    with pytest.raises(CommandError, match=r"cannot infer the format of .*\.csv"):
        output_format(name)


@pytest.mark.parametrize("name", ["t.xlsx", "t.db", "t.parquet.gz", "t.csv.zip", "t.csv.xz", "t.jsonl"])
def test_formats_that_are_read_only(name):
    with pytest.raises(CommandError, match="tables are written as CSV"):
        output_format(name)

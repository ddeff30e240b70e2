"""Files as trades make them: how each is read, trained on and predicted, with no option but those of training."""

import bz2
import csv
import datetime
import gzip
import io
import json
import lzma
import sqlite3
import warnings
import zipfile

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("rich")

import binary_tables  # noqa: E402
import fastens  # noqa: E402
from fastens.cli import main  # noqa: E402
from fastens.files import Column, TableFileError, TableSchema  # noqa: E402
from fastens.files.csv_streams import CsvStream  # noqa: E402
from fastens.files.read import read  # noqa: E402

N_ROWS, N_NEW = 80, 20
D = datetime.date


def shown(rows, separator=","):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue()


def table_of(cells, n_rows, header=("x", "n", "y"), separator=","):
    """A file with a column of these cells, in turn, a number, and a target that follows from both."""
    rows = [[cells[i % len(cells)], i * 7 % 31, (i % len(cells)) * 10 + i * 7 % 31] for i in range(n_rows)]
    return shown([header, *rows], separator)


def read_text(path, text, encoding="utf-8", **given):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return read(str(path), TableSchema.from_dict(given), {})


# One column in a writing of its own: the cells, what they are read as, and what a note says.
COLUMNS = {
    "dollars and millions": (["$1.2 M", "$650k", "$3", "$2bn"], [1.2e6, 650e3, 3, 2e9], "multiplied out"),
    "ten thousands of China": (["650万", "1.2亿", "3000"], [6.5e6, 1.2e8, 3000], "multiplied out"),
    "yuan": (["650万元", "12万元", "3万元"], [6.5e6, 1.2e5, 3e4], "multiplied out"),
    "kilometres a litre": (["19.7 kmpl", "18 kmpl", "20.1 kmpl"], [19.7, 18, 20.1], "kmpl"),
    "thousands": (["14k", "2.5k", "900"], [14000, 2500, 900], "multiplied out"),
    "kilograms with a comma": (["12,5 kg", "3 kg", "0,25 kg"], [12.5, 3, 0.25], "kg"),
    "at least": (["10,000+", "500+", "1,000,000+"], [10000, 500, 1000000], "such as > and +"),
    "above and below": ([">50", "12", "<0.1"], [50, 12, 0.1], "such as > and +"),
    "billions and small millions": (["1.2bn", "3m", "4 bn"], [1.2e9, 3e6, 4e9], "multiplied out"),
    "pounds and small millions": (["£1.2m", "£3m", "£400k"], [1.2e6, 3e6, 4e5], "multiplied out"),
    "metres": (["1.2 m", "3 m", "2.5 m"], [1.2, 3, 2.5], "1234.5 m"),
    "lakh and crore": (["5 Lakh", "1.2 Crore", "₹7 lakh"], [5e5, 1.2e7, 7e5], "multiplied out"),
    "rupees": (["Rs.500", "Rs. 1,200", "Rs 30"], [500, 1200, 30], "Rs"),
    "German thousands and millions": (["1,5 Mio. €", "200 Tsd. €", "3 Mrd. €"], [1.5e6, 2e5, 3e9], "multiplied out"),
    "feet and inches": (["5'11\"", "6'", "5'2\""], [71, 72, 62], "in in"),
    "hours and minutes": (["2h 30m", "3h", "1h 5m"], [150, 180, 65], "in min"),
    "litres for 100 km": (["5,6 l/100km", "7,1 l/100 km", "4,9 l/100km"], [5.6, 7.1, 4.9], "l/100km"),
    "one and several": (["1 owner", "2 owners", "3 owners"], [1, 2, 3], "owner"),
    "minus behind": (["1,234.5-", "5", "6"], [-1234.5, 5, 6], "1,234.5"),
    "price of a unit": (["5,10 €/kg", "7,20 €/kg", "6 €/kg"], [5.1, 7.2, 6], "/kg"),
    "degrees": (["5 °C", "-3 °C", "0"], [5, -3, 0], "°C"),
    "ArcGIS": (["2017/09/12 00:00:00+00", "2018/10/11 10:00:00+02"], ["2017-09-12 00:00:00", "2018-10-11 08:00:00"], "UTC"),  # noqa: E501
    "UTC": (["2017-09-12 10:00:00 UTC", "2018-01-02 11:30:00 UTC"], ["2017-09-12 10:00:00", "2018-01-02 11:30:00"], "UTC"),  # noqa: E501
    "days as numbers": (["20230101", "20231231", "20230615"], [D(2023, 1, 1), D(2023, 12, 31), D(2023, 6, 15)], "%Y%m%d"),  # noqa: E501
    "months": (["2023-01", "2023-12", "2024-02"], [D(2023, 1, 1), D(2023, 12, 1), D(2024, 2, 1)], "%Y-%m"),
    "months of names": (["Jan-23", "Dec-24", "Mar-22"], [D(2023, 1, 1), D(2024, 12, 1), D(2022, 3, 1)], "%b %y"),
    "times with full stops": (["18.00.00", "19.30.00", "07.00.00"], ["18:00:00", "19:30:00", "07:00:00"], "%H.%M.%S"),
    "times of 12 hours": (["7:15 PM", "11:00 am", "1:30 pm"], ["19:15:00", "11:00:00", "13:30:00"], "%I:%M %p"),
    "German months": (["1. Januar 2020", "12. März 2021", "3. Dez. 2019"], [D(2020, 1, 1), D(2021, 3, 12), D(2019, 12, 3)], "%d %b %Y"),  # noqa: E501
    "French months": (["1er janvier 2020", "5 févr. 2021", "14 août 2019"], [D(2020, 1, 1), D(2021, 2, 5), D(2019, 8, 14)], "%d %b %Y"),  # noqa: E501
    "Spanish months": (["5 de enero de 2020", "7 dic. 2021", "1-ago-2019"], [D(2020, 1, 5), D(2021, 12, 7), D(2019, 8, 1)], "%d %b %Y"),  # noqa: E501
    "birthdays": (["12.03.68", "31.01.45", "05.06.01"], [D(1968, 3, 12), D(1945, 1, 31), D(2001, 6, 5)], "years are"),
    "weekdays": (["Monday, 6 January 2020", "Tue, 7 Jan 2020"], [D(2020, 1, 6), D(2020, 1, 7)], "%d %b %Y"),
    "quarters": (["2023Q1", "2023Q4", "2022Q2"], [D(2023, 1, 1), D(2023, 10, 1), D(2022, 4, 1)], "Q%q"),
    "weeks": (["2023-W05", "2023-W52"], [D(2023, 1, 30), D(2023, 12, 25)], "%G-W%V"),
    "days of China": (["2020年1月5日", "2021年12月31日"], [D(2020, 1, 5), D(2021, 12, 31)], "%Y-%m-%d"),
    "zip codes": (["01234", "90210", "00501"], ["01234", "90210", "00501"], "leading zeros"),
}  # fmt: skip


def plain(values):
    return [str(value) if isinstance(value, datetime.datetime | datetime.time) else value for value in values]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("format_", ["csv", "xlsx"])
def test_columns_in_writings_of_trades(tmp_path, name, format_):
    cells, expected, note = COLUMNS[name]
    text = table_of(cells, len(cells) * 3)
    path = tmp_path / f"t.{format_}"
    content = text if format_ == "csv" else workbook(list(csv.reader(io.StringIO(text))))
    found = read_text(path, content)
    assert (
        plain(found.table["x"].to_pylist()[: len(cells)]) == pytest.approx(expected)
        if isinstance(expected[0], float)
        else plain(found.table["x"].to_pylist()[: len(cells)]) == expected
    )
    assert any(note in said and "'x'" in said for said in found.notes), found.notes
    again = read(str(path), TableSchema.from_dict(found.schema.to_dict()), {})
    assert again.table.equals(found.table)
    if format_ == "csv":
        stream = CsvStream([str(path)], TableSchema())
        in_parts = pa.Table.from_batches(stream.batches(["x"]))["x"].to_pylist()
        assert in_parts == found.table["x"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_round_trips(tmp_path, monkeypatch, capsys, name):
    cells = COLUMNS[name][0]
    round_trip(tmp_path, monkeypatch, capsys, lambda n: table_of(cells, n))


def round_trip(tmp_path, monkeypatch, capsys, write, suffix="csv", options=()):
    """Train on a file, and predict a copy with new rows with no option but those of training."""
    monkeypatch.chdir(tmp_path)
    for name, n in (("old", N_ROWS), ("new", N_ROWS + N_NEW)):
        content = write(n)
        (tmp_path / f"{name}.{suffix}").write_bytes(content if isinstance(content, bytes) else content.encode())
    train = ["train", f"old.{suffix}", "--target", "y", "--task", "regression", "--n-estimators", "5", *options]
    assert main(train) == 0, capsys.readouterr().err
    assert main(["predict", "model.fastens", f"new.{suffix}", "-o", "out.csv"]) == 0, capsys.readouterr().err
    assert fastens.read_table("out.csv").num_rows == N_ROWS + N_NEW
    assert main(["evaluate", "model.fastens", f"new.{suffix}"]) == 0, capsys.readouterr().err


# Whole files: lines above, in and below the table. Each has the columns x, n and y, and as many rows as it is given.
def with_title(n):
    return "Sales report of the north\n\n" + table_of([1.5, 2.5], n)


def with_padded_title(n):
    return "Sales report 2023,,\n" + table_of([1.5, 2.5], n)


def with_one_word_title(n):
    return "Report\n" + table_of([1.5, 2.5], n)


def as_world_bank(n):
    return '"Data Source","World Development Indicators",\n\n"Last Updated Date","2023-09-19",\n\n' + "".join(
        line + ",\n" for line in table_of([1.5, 2.5], n).splitlines()
    )


def with_units(n):
    return table_of([1.5, 2.5], n).replace("x,n,y\n", "x,n,y\nkg,m/s,USD\n")


def with_units_in_brackets(n):
    return table_of([1.5, 2.5], n).replace("x,n,y\n", "x,n,y\n[kg],,(USD)\n")


def as_qualtrics(n):
    third = '"{""ImportId"":""QID1""}","{""ImportId"":""QID2""}","{""ImportId"":""QID3""}"'
    return table_of([1.5, 2.5], n).replace("x,n,y\n", f"x,n,y\nHow old?,How many?,How much?\n{third}\n")


def as_survey_monkey(n):
    return table_of(["often", "never"], n).replace("x,n,y\n", "x,n,y\nResponse,Open-Ended Response,Response\n")


def with_repeated_header(n):
    lines = table_of([1.5, 2.5], n).splitlines()
    return "\n".join([*lines[:31], lines[0], *lines[31:]]) + "\n"


def with_total(n):
    return table_of(["north", "south"], n) + "Total,999,9999\n"


def with_total_and_source(n):
    return table_of([1.5, 2.5], n) + "Total,999,9999\n\nSource: Office of Statistics, 2023\n"


def with_padded_source(n):
    return table_of([1.5, 2.5], n) + ",,\nSource: own calculations,,\n"


def with_notes(n):
    return table_of([1.5, 2.5], n) + '\n"* preliminary, see notes"\nLast updated: 2023-09-19\n'


def with_blank_line(n):
    return table_of([1.5, 2.5], n) + " \n"


def with_empty_rows(n):
    return table_of([1.5, 2.5], n) + ",,\n,,\n,,\nTotal,999,9999\n"


def with_windows_lines(n):
    return with_total_and_source(n).replace("\n", "\r\n")


def with_german_foot(n):
    return table_of(["1,5", "2,5"], n, separator=";") + "Gesamt;999;9999\nQuelle: Amt für Statistik\n"


def with_everything(n):
    return "Report of June,,\n,,\n" + with_units(n) + "Total,999,9999\nSource: office,,\n"


def with_short_foot_of_a_large_file(n):
    return (
        table_of(["a long text in every row of the table " * 40, "another one"], n) + "Source: office of statistics\n"
    )


LAYOUTS = [
    *(with_title, with_padded_title, with_one_word_title, as_world_bank, with_units, with_units_in_brackets),
    *(as_qualtrics, as_survey_monkey, with_repeated_header, with_total, with_total_and_source, with_padded_source),
    *(with_notes, with_blank_line, with_empty_rows, with_windows_lines, with_german_foot, with_everything),
    with_short_foot_of_a_large_file,
]


@pytest.mark.parametrize("write", LAYOUTS)
@pytest.mark.parametrize("format_", ["csv", "xlsx"])
def test_lines_that_are_not_rows(tmp_path, write, format_):
    text = write(N_ROWS)
    if format_ == "xlsx":
        separator = ";" if write is with_german_foot else ","
        text = workbook(list(csv.reader(io.StringIO(text), delimiter=separator)))
    found = read_text(tmp_path / f"t.{format_}", text)
    assert found.table.column_names[:3] == ["x", "n", "y"]
    assert found.table.num_rows == N_ROWS
    assert found.table["n"].to_pylist() == [i * 7 % 31 for i in range(N_ROWS)]
    said = [note for note in found.notes if "skipped" in note or "header" in note]
    assert said or write is with_blank_line
    if format_ == "csv":
        stream = CsvStream([str(tmp_path / "t.csv")], TableSchema())
        assert stream.n_rows == N_ROWS
        assert pa.Table.from_batches(stream.batches(["n"]))["n"].to_pylist() == found.table["n"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("write", LAYOUTS)
def test_layouts_round_trips(tmp_path, monkeypatch, capsys, write):
    round_trip(tmp_path, monkeypatch, capsys, write)


@pytest.mark.parametrize("format_", ["csv", "xlsx"])
def test_merged_headers(tmp_path, format_):
    rows = [
        ["", "2020", "", "2021", ""],
        ["region", "sales", "cost", "sales", "cost"],
        ["north", 1, 2, 3, 4],
        ["south", 5, 6, 7, 8],
    ]
    content = shown(rows) if format_ == "csv" else workbook(rows)
    found = read_text(tmp_path / f"t.{format_}", content)
    assert found.table.column_names == ["region", "2020 sales", "2020 cost", "2021 sales", "2021 cost"]
    assert "--header-rows" in found.notes[0]
    plain_ = read_text(tmp_path / f"t.{format_}", content, header_rows=1)
    assert plain_.table.num_rows == 3


def test_lines_that_a_person_counts(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a title\nx,y\nkg,m\n1,2\n3,4\nTotal,6\nmade by hand\n")
    table = fastens.read_table(path, skip_lines=1, header_rows=2, skip_footer=2)
    assert table.to_pydict() == {"x kg": [1, 3], "y m": [2, 4]}
    path.write_text("1,2\n3,4\n5,6\n")
    assert fastens.read_table(path, header_rows=0)["column 1"].to_pylist() == [1, 3, 5]
    path.write_text("x,y\nnorth,2\nTotal,4\n")
    assert fastens.read_table(path, skip_footer=0)["x"].to_pylist() == ["north", "Total"]


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n1,2\n-,-\n3,4\n5,6\n",
        "x,y\nTotal,2\nnorth,3\nTotal,4\n",
        'x,y\n1,a\n2,"some text\nSource: with lines"\n',
        "x,y\nid 1,\nid 2,\nid 3,\n",
        "x\nred\nTotal\n",
        "x,y\n1,2\n3,4\n,\n,\n",
        "name,score\nkg,1\nm,2\n",
    ],
)
def test_rows_that_stay(tmp_path, text):
    n_rows = len(list(csv.reader(io.StringIO(text)))) - 1
    assert read_text(tmp_path / "t.csv", text).table.num_rows == n_rows


def as_destatis(n):
    head = "Table: 1-1\nInvestment by district;;\nYear;;\nYearly survey;;\n;Sales;Share\n;Tsd. EUR;Prozent\n"
    return head + "".join(f"{'north' if i % 3 else 'south'}, district {i};{i * 7 % 31};{i % 9},5\n" for i in range(n))


def test_padded_titles_above_a_header_with_empty_names(tmp_path):
    found = read_text(tmp_path / "t.csv", as_destatis(40))
    assert found.table.column_names == ["column 1", "Sales", "Share"]
    assert found.table["Share"].to_pylist()[:3] == [0.5, 1.5, 2.5]
    assert "4 lines above the header are skipped, starting with 'Table: 1-1'" in found.notes[0]
    assert "'Tsd. EUR', 'Prozent'" in found.notes[1]


def test_missing_values_in_the_first_row_of_a_file_without_a_header(tmp_path):
    text = "2,1,?,38.5,?,red\n1,1,3,39.2,,blue\n2,9,4,37,5,red\n"
    found = read_text(tmp_path / "t.csv", text)
    assert found.table.num_rows == 3
    assert found.table["column 3"].to_pylist() == [None, 3, 4]
    assert read_text(tmp_path / "t.csv", ",2020,2021\nnorth,1.5,2\nsouth,2.5,3\n").table.num_rows == 2


@pytest.mark.parametrize("first", [3, 3000])
@pytest.mark.parametrize("separator", [",", ";"])
def test_surplus_empty_cells_at_the_end_of_lines(tmp_path, monkeypatch, capsys, first, separator):
    def write(n):
        lines = table_of(["a b", f'"c{separator}d"'], n + first - 3, separator=separator).splitlines()
        surplus = [f"{separator * 3}", f'{separator}""{separator} ', ""]
        return "\n".join(line + surplus[i % 3] * (i >= first) for i, line in enumerate(lines)) + "\n"

    found = read_text(tmp_path / "t.csv", write(N_ROWS))
    assert found.table.num_rows == N_ROWS + first - 3
    assert found.table["x"].to_pylist()[:2] == ["a b", f'"c{separator}d"']
    assert [note for note in found.notes if "more separators than the header" in note]
    stream = CsvStream([str(tmp_path / "t.csv")], TableSchema())
    in_parts = pa.Table.from_batches(stream.batches(found.table.column_names))
    assert in_parts.to_pylist() == found.table.to_pylist()
    if first == 3:
        round_trip(tmp_path, monkeypatch, capsys, write)
    (tmp_path / "t.csv").write_text("a,b\n1,2,,\n3,4,5\n")
    with pytest.raises(TableFileError, match="line 3 has 3"):
        fastens.read_table(tmp_path / "t.csv")
    with pytest.raises(TableFileError, match="line 3 has 3"):
        CsvStream([str(tmp_path / "t.csv")], TableSchema())


# Codes of missing values --------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
@pytest.mark.parametrize("word", ["None", " NA", "null"])
def test_words_of_the_target_that_are_read_as_missing(tmp_path, monkeypatch, capsys, suffix, word):
    monkeypatch.chdir(tmp_path)
    text = table_of([1, 2, 3], N_ROWS).replace("x,n,y\n", "x,n,damage\n")
    rows = [line.split(",") for line in text.splitlines()]
    rows[1:] = [[*row[:2], [word, "minor", "large", ""][i % 4]] for i, row in enumerate(rows[1:])]
    rows = [[int(cell) if cell.isdigit() else cell for cell in row] for row in rows]
    (tmp_path / f"t.{suffix}").write_bytes(shown(rows).encode() if suffix == "csv" else workbook(rows))
    train = ["train", f"t.{suffix}", "--target", "damage", "--n-estimators", "3"]
    note = f"are read as missing: '{word.strip()}' (20 rows). If they are classes: --column damage:category"
    for command in (train, ["inspect", *train[1:4]]):
        assert main(command) == 0
        output = capsys.readouterr()
        assert note in " ".join((output.out + output.err).split())
    assert main([*train, "--column", "damage:category"]) == 0
    assert word.strip() in [label.strip() for label in fastens.load("model.fastens").classes_]
    output = capsys.readouterr()
    assert "60 (48 for training" in output.out + output.err
    assert main(["predict", "model.fastens", f"t.{suffix}", "-o", "o.csv"]) == 0
    assert main(["evaluate", "model.fastens", f"t.{suffix}"]) == 0
    output = capsys.readouterr()
    assert "Scores on 60 rows" in output.out + output.err


def test_words_in_text_columns_in_batches(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,n\nNone,None,1\nred,NA,NA\n,blue,3\n")
    expected = {"a": ["None", "red", None], "b": [None, None, "blue"], "n": [1, None, 3]}
    assert fastens.read_table(path, column_types={"a": "text"}).to_pydict() == expected
    stream = CsvStream([str(path)], TableSchema(), requested={"a": Column.given("text")})
    assert pa.Table.from_batches(stream.batches(["a", "b", "n"])).to_pydict() == expected


@pytest.mark.parametrize("code", ["-999", " -999", "-999.0", "-999.00", "-9.99e2"])
@pytest.mark.parametrize("format_", ["csv", "xlsx", "parquet", "db", "json"])
def test_codes_of_numbers_are_compared_as_numbers(tmp_path, code, format_):
    path = tmp_path / f"t.{format_}"
    if format_ == "csv":
        path.write_text(f"a,b\n1.5,x\n{code},y\n2,z\n")
    elif format_ == "xlsx":
        path.write_bytes(workbook([["a", "b"], [1.5, "x"], [float(code), "y"], [2, "z"]]))
    else:
        table = pa.table({"a": [1.5, float(code), 2], "b": ["x", "y", "z"]})
        written(table, path)
    for given in ("-999", "-999.0"):
        found = read(str(path), TableSchema(missing=(given,)), {})
        assert found.table["a"].to_pylist() == [1.5, None, 2]
    if format_ == "csv":
        batches = CsvStream([str(path)], TableSchema(missing=("-999",))).batches(["a"])
        assert pa.Table.from_batches(batches)["a"].to_pylist() == [1.5, None, 2]


@pytest.mark.parametrize("format_", ["csv", "xlsx", "json", "db"])
def test_na_does_not_make_a_column_text(tmp_path, format_):
    path = tmp_path / f"t.{format_}"
    rows = [["a", "b"], [1, "x"], ["NA", "y"], [3, "z"]]
    if format_ == "csv":
        path.write_text(shown(rows))
    elif format_ == "xlsx":
        path.write_bytes(workbook(rows))
    elif format_ == "json":
        path.write_text(json.dumps([dict(zip(rows[0], row, strict=True)) for row in rows[1:]]))
    else:
        with sqlite3.connect(path) as database:
            database.execute("create table t (a, b)")
            database.executemany("insert into t values (?, ?)", rows[1:])
        database.close()
    assert fastens.read_table(path)["a"].to_pylist() == [1, None, 3]


# Odd cells --------------------------------------------------


def test_one_odd_date_is_named(tmp_path):
    text = "d,n\n" + "".join(f"2020-01-{day:02},{day}\n" for day in range(1, 29)) + "soon,3\n"
    found = read_text(tmp_path / "t.csv", text)
    assert "'d' is read as text, because of 'soon' in row 29. To read dates" in found.notes[0]
    given = fastens.files.read.read(str(tmp_path / "t.csv"), TableSchema(), {"d": "date"})
    assert given.table["d"].null_count == 1


def test_mixed_units_are_named_and_not_merged(tmp_path):
    found = read_text(tmp_path / "t.csv", "w\n12 kg\n500 g\n3 kg\n200 g\n")
    assert found.table["w"].to_pylist()[1] == "500 g"
    assert "several units: 'kg', 'g'" in found.notes[0]


@pytest.mark.parametrize("head", [0, 3000])
def test_leading_zeros_anywhere_in_the_file(tmp_path, head):
    text = "zip,n\n" + "".join(f"{10000 + i},{i}\n" for i in range(head)) + "01234,5\n02139,6\n"
    found = read_text(tmp_path / "t.csv", text)
    assert found.table["zip"].to_pylist()[-2:] == ["01234", "02139"]
    assert found.table["n"].type == pa.int64()
    given = read(str(tmp_path / "t.csv"), TableSchema(), {"zip": "number"})
    assert given.table["zip"].to_pylist()[-1] == 2139


@pytest.mark.parametrize("cell", ["0", "0.5", "00:15", "05/12/2020", "-05"])
def test_numbers_with_leading_zeros_that_are_not_codes(tmp_path, cell):
    found = read_text(tmp_path / "t.csv", f"a,b\n{cell},1\n{cell},2\n")
    assert not any("leading zeros" in note for note in found.notes)


# Formats --------------------------------------------------


def workbook(rows):
    """The bytes of a workbook of one sheet: numbers as numbers, all else as texts in the cells."""

    def cell(value, row, column):
        place = f"{chr(65 + column)}{row + 1}"
        try:
            number = float(value) if not str(value).startswith("0") or str(value) == "0" else None
        except (TypeError, ValueError):
            number = None
        if number is not None and value != "" and str(value)[-1:] in "0123456789":
            return f'<c r="{place}"><v>{value}</v></c>'
        text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>' if text else ""

    body = "".join(
        f'<row r="{i + 1}">' + "".join(cell(value, i, k) for k, value in enumerate(row)) + "</row>"
        for i, row in enumerate(rows)
    )
    main_ = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    links = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="'
        f'application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{links}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main_}" xmlns:r="{links}"><sheets><sheet name="one" sheetId="1" '
        'r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{links}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main_}"><sheetData>{body}</sheetData></worksheet>',
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return content.getvalue()


def open_document(rows):
    """The bytes of an OpenDocument sheet."""
    office = "urn:oasis:names:tc:opendocument:xmlns"

    def cell(value):
        if isinstance(value, int | float):
            return f'<table:table-cell office:value-type="float" office:value="{value}"><text:p>{value}</text:p></table:table-cell>'  # noqa: E501
        return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'

    body = "".join("<table:table-row>" + "".join(map(cell, row)) + "</table:table-row>" for row in rows)
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content xmlns:office="{office}:office:1.0" '
        f'xmlns:table="{office}:table:1.0" xmlns:text="{office}:text:1.0" office:version="1.2"><office:body>'
        f'<office:spreadsheet><table:table table:name="one">{body}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", text)
        manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        archive.writestr("META-INF/manifest.xml", f'<manifest:manifest xmlns:manifest="{manifest}"/>')
    return content.getvalue()


def written(table, path):
    """Write a table in the format of the path."""
    suffix = path.suffix
    rows = [table.column_names, *([row[name] for name in table.column_names] for row in table.to_pylist())]
    if suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif suffix == ".feather":
        pa.feather.write_feather(table, path)
    elif suffix == ".json":
        path.write_text(json.dumps(table.to_pylist()))
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif suffix == ".db":
        with sqlite3.connect(path) as database:
            database.execute(f"create table t ({', '.join(table.column_names)})")
            marks = ", ".join("?" * table.num_columns)
            database.executemany(f"insert into t values ({marks})", rows[1:])
        database.close()
    elif suffix in (".xlsx", ".xls", ".xlsb"):
        write = {".xlsx": workbook, ".xls": binary_tables.xls, ".xlsb": binary_tables.xlsb}[suffix]
        path.write_bytes(write(rows))
    elif suffix == ".ods":
        path.write_bytes(open_document(rows))
    elif suffix == ".arff":
        kinds = {True: "numeric", False: "{north,'the south'}"}
        head = "".join(
            f"@attribute {name} {kinds[not pa.types.is_string(table[name].type)]}\n" for name in table.column_names
        )
        data = "".join(",".join(f"'{v}'" if " " in str(v) else str(v) for v in row) + "\n" for row in rows[1:])
        path.write_text(f"% a comment\n@relation t\n{head}\n@DATA\n{data}")
    elif suffix in (".sav", ".dta"):
        pandas = pytest.importorskip("pandas")
        pyreadstat = pytest.importorskip("pyreadstat")
        write = {".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta}[suffix]
        write(pandas.DataFrame(table.to_pydict()), str(path))
    else:
        path.write_text(shown(rows))


def regions(n):
    x = ["north" if i % 3 else "the south" for i in range(n)]
    return pa.table({"x": x, "n": [i * 7 % 31 for i in range(n)], "y": [i % 3 * 10.5 + i * 7 % 31 for i in range(n)]})


SUFFIXES = ["parquet", "feather", "json", "jsonl", "db", "xlsx", "xls", "xlsb", "ods", "arff", "sav", "dta", "csv"]
PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: bytes(pa.Codec("zstd").compress(content)),
}


def zipped(content, name):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("packing", ["", "gz", "bz2", "xz", "zst", "zip", "archive"])
def test_formats_compressed_or_not(tmp_path, suffix, packing):
    path, table = tmp_path / f"t.{suffix}", regions(9)
    written(table, path)
    if packing == "archive":
        packed = tmp_path / "only.zip"
        packed.write_bytes(zipped(path.read_bytes(), path.name))
    elif packing == "zip":
        packed = tmp_path / f"t.{suffix}.zip"
        packed.write_bytes(zipped(path.read_bytes(), path.name))
    elif packing == "zst":
        packed = tmp_path / f"t.{suffix}.zst"
        with pa.output_stream(packed, compression="zstd") as stream:
            stream.write(path.read_bytes())
    elif packing:
        packed = tmp_path / f"t.{suffix}.{packing}"
        packed.write_bytes(PACKERS[packing](path.read_bytes()))
    else:
        packed = path
    assert fastens.read_table(packed).to_pylist() == table.to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_formats_round_trips(tmp_path, monkeypatch, capsys, suffix):
    def write(n):
        path = tmp_path / f"made.{suffix}"
        path.unlink(missing_ok=True)
        written(regions(n), path)
        return path.read_bytes()

    round_trip(tmp_path, monkeypatch, capsys, write, suffix)


@pytest.mark.parametrize("scheme", ["memory", "file"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx"])
def test_addresses(tmp_path, scheme, suffix):
    fsspec = pytest.importorskip("fsspec")
    path, table = tmp_path / f"t.{suffix}", regions(9)
    written(table, path)
    address = f"file://{path}" if scheme == "file" else f"memory://trades/t.{suffix}"
    if scheme == "memory":
        with fsspec.open(address, "wb") as stream:
            stream.write(path.read_bytes())
    assert fastens.read_table(address).to_pylist() == table.to_pylist()
    with pytest.raises(TableFileError, match="cannot read memory://trades/none"):
        fastens.read_table(f"memory://trades/none.{suffix}")


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]',
        '{"data": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}',
        '{"a": [1, 2], "b": ["x", "y"]}',
        '{"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": "y"}}',
        '[["a", "b"], [1, "x"], [2, "y"]]',
        '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        '[\n  {\n    "a": 1,\n    "b": "x"\n  },\n  {\n    "a": 2,\n    "b": "y"\n  }\n]\n',
    ],
)
def test_json_in_every_shape(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    assert fastens.read_table(tmp_path / "t.json").to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_labels_of_surveys(tmp_path):
    pandas = pytest.importorskip("pandas")
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pandas.DataFrame({"sex": [1.0, 2.0, 9.0, 1.0], "age": [30.0, 41.0, 99.0, 52.0]})
    labels = {"sex": {1: "female", 2: "male", 9: "no answer"}, "age": {99: "no answer"}}
    ranges = {"sex": [9], "age": [99]}
    pyreadstat.write_sav(frame, str(tmp_path / "t.sav"), variable_value_labels=labels, missing_ranges=ranges)
    table = fastens.read_table(tmp_path / "t.sav")
    assert table.to_pydict() == {"sex": ["female", "male", None, "female"], "age": [30, 41, None, 52]}


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_data_sets_of_sas(tmp_path, packing):
    pytest.importorskip("pyreadstat")
    path = tmp_path / f"t.sas7bdat{packing}"
    path.write_bytes(gzip.compress(binary_tables.SAS) if packing else binary_tables.SAS)
    table = fastens.read_table(path)
    rows = {**binary_tables.SAS_ROWS, "day": list(map(D.fromisoformat, binary_tables.SAS_ROWS["day"]))}
    assert table.to_pydict() == rows


@pytest.mark.parametrize(("name", "library"), [("t.xlsx", "python_calamine"), ("t.sav", "pyreadstat")])
def test_libraries_that_are_missing(tmp_path, monkeypatch, name, library):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(TableFileError, match=r"pip install 'fastens\[files\]', or save"):
        fastens.read_table(tmp_path / name)


# The command line --------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "options"), [("cp1250", ["--encoding", "cp1250"]), ("gb18030", ["--encoding", "gb18030"])]
)
def test_an_encoding_is_remembered(tmp_path, monkeypatch, capsys, encoding, options):
    letters = {"cp1250": ("město", ["Žďár", "Plzeň"]), "gb18030": ("城市", ["北京", "上海"])}[encoding]

    def write(n):
        return table_of(letters[1], n, header=(letters[0], "n", "y")).encode(encoding)

    round_trip(tmp_path, monkeypatch, capsys, write, options=options)
    assert main(["explain", "model.fastens", "new.csv", "-o", "r.html"]) == 0
    assert main(["predict", "model.fastens", "new.csv", "-o", "o.csv", "--encoding", "latin-1"]) == 2
    assert "lacks column" in capsys.readouterr().err


def test_a_guessed_encoding_is_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(table_of([1, 2], 40, header=("x", "n", "větší")).encode("cp1250"))
    with pytest.warns(UserWarning, match=r"\. If letters look wrong, set --encoding NAME \(such as cp1250, gb18030"):
        fastens.read_table("t.csv")
    assert main(["train", "t.csv", "--target", "větší"]) == 2
    assert "--encoding" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--missing=-999"],
        ["--separator", "^"],
        ["--skip-lines", "2"],
        ["--header-rows", "2"],
        ["--skip-footer", "1"],
        ["--column", "x:number"],
    ],
)
def test_options_are_remembered(tmp_path, monkeypatch, capsys, options):
    name = options[0].partition("=")[0]

    def write(n):
        text = table_of([1, 2, 3, " -999.0" if name == "--missing" else 4], n)
        lines = {"--skip-lines": "x,n,y\n1,2,3\n" + text, "--skip-footer": text + "1,2,3\n"}
        if name == "--header-rows":
            return text.replace("x,n,y", ",,y\nx,n,")
        if name == "--column":
            return text.replace("\n3,", "\nnever,")
        return text.replace(",", "^") if name == "--separator" else lines.get(name, text)

    round_trip(tmp_path, monkeypatch, capsys, write, options=options)


@pytest.mark.parametrize("sign", [";", ", ", "|", " ; "])
def test_cells_of_several_items(tmp_path, monkeypatch, capsys, sign):
    rng = np.random.default_rng(0)
    chosen = rng.random((N_ROWS + N_NEW, 4)) < 0.5
    cells = [sign.join(np.array(["Python", "SQL", "R", "C++"])[row]) for row in chosen]

    def write(n):
        return shown([["langs", "n", "y"], *([cells[i], i % 7, 100 * chosen[i, 1] + i % 7] for i in range(n))])

    round_trip(tmp_path, monkeypatch, capsys, write)
    output = capsys.readouterr()
    assert "Lists of items, split into one column for each item: 'langs'" in output.err + output.out
    assert "langs: SQL" in output.err + output.out
    model = fastens.load("model.fastens")
    assert list(model.feature_names_in_)[:4] == ["langs: C++", "langs: Python", "langs: R", "langs: SQL"]


@pytest.mark.parametrize("cells", [["Rome, Italy", "Paris, France", "Bonn, Germany"], ["a;b", "c;d", "e;f"]])
def test_texts_that_are_not_lists(tmp_path, monkeypatch, capsys, cells):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table_of(cells, N_ROWS))
    assert main(["train", "t.csv", "--target", "y", "--n-estimators", "3"]) == 0
    assert "Lists of items" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([f"{i}-{i + 5} kg" if i % 3 else f"{i} kg" for i in range(60)], None),
        ([f"{i} kg" if i % 4 else f"{i} g" for i in range(40)], "texts that look like numbers"),
        ([f"kind {'abcdefgh'[i % 8]}{'abcdefgh'[i // 8]}" for i in range(60)], "60 classes in 240 rows"),
    ],
)
def test_targets_that_are_hardly_classes(tmp_path, monkeypatch, capsys, cells, message):
    monkeypatch.chdir(tmp_path)
    rows = [[i % 7, i % 11, cells[i % len(cells)]] for i in range(240)]
    (tmp_path / "t.csv").write_text(shown([["a", "b", "kind"], *rows]))
    with warnings.catch_warnings():
        code = main(["train", "t.csv", "--target", "kind", "--n-estimators", "2"])
    if message is not None:
        assert code == 2
        assert message in capsys.readouterr().err
    assert main(["train", "t.csv", "--target", "kind", "--n-estimators", "2", "--column", "kind:category"]) == 0


PEOPLE = [["name", "job", "age", "born", "town"]] + [
    [f"P {i}", "ab"[i % 2], str(30 + i), f"19{50 + i}-0{1 + i % 9}-11", "xyz"[i % 3]] for i in range(12)
]
PROSE_ABOVE = [["People often", "", "", "", "write"], ["", "above", "", "the", ""], ["their", "", "tables", "", ""]]
PROSE_BELOW = [["And", "", "", "", ""], ["", "", "below", "them.", ""]]


@pytest.mark.parametrize(("above", "below"), [(PROSE_ABOVE, []), ([], PROSE_BELOW), (PROSE_ABOVE, PROSE_BELOW)])
def test_texts_scattered_around_a_table_are_skipped(tmp_path, above, below):
    done = read_text(tmp_path / "people.csv", shown([*above, *PEOPLE, *below]))
    assert done.table.column_names == PEOPLE[0]
    assert done.table["age"].to_pylist() == list(range(30, 42))
    notes = " ".join(done.notes)
    assert ("3 lines above the header are skipped" in notes) == bool(above)
    assert ("2 lines below the table are skipped" in notes) == bool(below)


@pytest.mark.parametrize("cell", ["", "n/a", "unknown"])
def test_rows_with_few_values_at_the_end_are_kept(tmp_path, cell):
    rows = [*PEOPLE, ["Q 1", "", cell, "", ""], ["Q 2", "b", cell, "", ""]]
    assert len(read_text(tmp_path / "people.csv", shown(rows)).table) == 14

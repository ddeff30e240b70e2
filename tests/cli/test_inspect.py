"""`fastens inspect`: what is found in a table that has one of everything."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fastens.cli.report import report

N = 400


@pytest.fixture
def messy(write_csv):
    """A table with a leak, identifiers, texts, times, duplicates, rare classes, codes, spellings and a copy."""
    rng = np.random.default_rng(1)
    size = rng.normal(10, 2, N)
    sold = np.where(size + rng.normal(0, 1, N) > 12.5, "yes", "no")
    colours = rng.choice(["red", "Red", "blue", "green"], N)
    day = datetime.date(2020, 1, 1)
    age = rng.integers(18, 70, N)
    age[::40] = 999
    table = pa.table(
        {
            "key": rng.choice(10**7, N, replace=False),
            "code": [f"K{i}" for i in rng.permutation(N)],
            "row": np.arange(N) + 1,
            "when": [day + datetime.timedelta(days=i) for i in range(N)],
            "size": np.where(rng.random(N) < 0.2, np.nan, size),
            "colour": colours,
            "couleur": np.char.add("c-", colours),
            "age": age,
            "note": [f"this one was seen near the river {i}" + " in the morning" * (i % 5) for i in range(N)],
            "empty": pa.nulls(N, pa.string()),
            "same": np.ones(N),
            "price paid": np.where(sold == "yes", rng.uniform(5, 9, N), 0),
            "sold": sold,
        }
    )
    table = table.set_column(4, "size", pa.array(table["size"].to_numpy(), from_pandas=True))
    return write_csv(pa.concat_tables([table, table.slice(0, 3)]))


def findings(out: str) -> str:
    return " ".join(out.partition("What to check")[2].split())


def test_remarks_of_inspect(run, messy):
    result = run("inspect", messy, "--target", "sold")
    assert (result.code, result.err) == (0, "")
    found = findings(result.out)
    for text in [
        "likely leak 'price paid' alone predicts the target: AUC 1.",
        "likely identifier 'code': a distinct value in nearly every row.",
        "free text Free text, split into words: 'note'.",
        "time Time columns: 'when'.",
        "duplicates 3 rows (0.7%) are duplicates of earlier rows",
        "duplicates 'couleur' holds the same information as 'colour'.",
        "'age' is 999 in 11 cells, far from all other values: is it a missing-value code? If so, use --missing=999.",
        "2 columns have categories that differ only in case or whitespace: 'colour' ('red', 'Red'), 'couleur' (",
        "'empty' holds nothing.",
        "'same' is the same in every row.",
    ]:
        assert text in found.replace("'Red', 'red'", "'red', 'Red'"), text
    assert found.count("likely leak") == 1
    assert re.search(r"size +numbers +\d+\.\d% +\d+ +0\.\d{4} ", result.out)


@pytest.mark.parametrize("code", [9_999_999, -99_999_999])
def test_codes_of_many_nines(run, write_csv, code):
    income = np.random.default_rng(0).integers(20_000, 90_000, 200)
    income[::20] = code
    found = findings(run("inspect", write_csv(pa.table({"income": income, "other": np.arange(200) % 7}))).out)
    assert (
        f"'income' is {code} in 10 cells, far from all other values: is it a missing-value code? "
        f"If so, use --missing={code}" in found
    )


def test_ranges_of_large_numbers_have_two_ends(run, write_csv):
    seconds = 1_700_000_000 + np.arange(200) * 7 % 101
    table = write_csv(pa.table({"seconds": seconds, "other": np.arange(200) % 7}))
    result = run("inspect", table, "--target", "seconds", "--task", "regression")
    assert "1700000000 to 1700000100" in result.out


def test_identifiers_drawn_at_random_and_counted(run, messy, tmp_path):
    lines = messy.read_text().splitlines()
    messy.write_text("\n".join(lines[: N + 1]) + "\n")
    found = findings(run("inspect", messy).out)
    assert "'key': random numbers." in found
    assert "'row': a row number." in found
    assert "the rows are sorted by 'when'" in found
    assert "leak" not in found


def test_without_a_target_there_are_no_scores(run, messy):
    out = run("inspect", messy).out
    assert "alone" not in out
    assert "suggests target leakage" not in out


def test_regression_and_contradictions(run, write_csv):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 300)
    y = np.exp(rng.normal(0, 3, 300))
    table = pa.table({"x": x, "cents": rng.permutation(300), "y": y})
    result = run("inspect", write_csv(table), "--target", "y", "--drop", "cents")
    found = findings(result.out)
    assert "'y' has a long tail" in found
    assert "300 rows are equal in all columns but the target 'y'." in found
    assert "leak" not in found


def test_a_leak_of_numbers(run, write_csv):
    y = np.random.default_rng(0).normal(size=500)
    path = write_csv(pa.table({"y": y, "euros": y**3 + 5, "near": y + np.random.default_rng(1).normal(0, 0.2, 500)}))
    found = findings(run("inspect", path, "--target", "y").out)
    assert re.findall(r"'(\w+)' alone predicts the target: rank R²", found) == ["euros"]


def test_rare_classes(run, write_csv):
    rows = "".join(f"{i % 7},{'rare' if i % 50 == 0 else 'often'}\n" for i in range(400))
    found = findings(run("inspect", write_csv("x,y\n" + rows), "--target", "y").out)
    assert "Rare classes of 'y': 'rare' 8 rows (2.00%)." in found


def test_nothing_stands_out(run, write_csv):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=200), "b": rng.choice(["u", "v"], 200)})
    assert "Nothing stands out" in run("inspect", write_csv(table), "--target", "b").out


def test_the_page(run, messy):
    result = run("inspect", messy, "--target", "sold", "-o", "page.html")
    assert "page  page.html" in result.out
    page = (messy.parent / "page.html").read_text(encoding="utf-8")
    assert "http" not in page
    for heading in ["What to check", "How informative is each column alone?", "<h3>colour</h3>", "<h3>size</h3>"]:
        assert heading in page
    assert page.count("<svg") >= 8


def test_dates_are_drawn_and_written_as_dates(run, write_csv):
    days = np.datetime64("2020-01-01", "s") + np.arange(0, 1000, 10).astype("m8[D]")
    hours = np.datetime64("2020-01-01T06:00:00") + np.arange(100).astype("m8[m]")
    path = write_csv(pa.table({"day": days, "hour": hours, "one": days[:1].repeat(100)}))
    out = run("inspect", path, "-o", "page.html").out
    assert "2020-01-01 to 2022-09-17" in out
    assert "2020-01-01 06:00:00 to 2020-01-01 07:39:00" in out
    page = (path.parent / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    for tick in ("2020-08-26", "2020-01-01 07:12", "2020-01-01</text>"):
        assert tick in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "price"), "must name a column of the table; got 'price'"),
        (("--target", "when"), "must hold classes or numbers"),
        (("--drop", "sold", "--target", "sold"), "--drop must not name the target"),
        (("-o", "page.txt"), "--output must end in .html"),
        (("-o", "no/page.html"), "the folder no"),
        (("--column", "size:float"), "--column must be COL:TYPE"),
    ],
)
def test_mistakes(run, messy, arguments, message):
    result = run("inspect", messy, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63 + 5 * n for n in range(60)], pa.uint64()),
        pa.array([float("inf")] * 30 + [1.0] * 30),
        pa.array([float("nan")] * 60),
        pa.array([[1, 2]] * 60),
        pa.array([{"x": 1}] * 60),
        pa.array([b"x"] * 60),
        pa.array(np.arange(60).astype(np.float16)),
        pa.array([datetime.time(1, 2)] * 60),
        pa.array([2**62, 5] * 30, pa.duration("s")),
        pa.array([[2**62, 5]] * 60, pa.list_(pa.timestamp("ms"))),
        pa.array([2**31 - 1, 5] * 30, pa.date32()),
        pa.array(["[bold]x[/bold]"] * 30 + ["<b>y</b>\nz"] * 30),
        pa.array(["x", "y"] * 30, pa.string_view()),
        pa.array([1, 2] * 30).dictionary_encode(),
        pa.nulls(60),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_columns_of_any_type(run, tmp_path, column):
    table = pa.table({"a": column, "": np.arange(60) / 7, "y": np.random.default_rng(0).random(60)})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for options in ((), ("--target", "y")):
        result = run("inspect", "t.parquet", *options, "-o", "page.html")
        assert (result.code, result.err) == (0, "")
    assert "<b>y" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_one_row(run, write_csv):
    assert run("inspect", write_csv("a,b\n1,x\n"), "-o", "page.html").code == 0


@pytest.mark.parametrize("command", ["inspect", "train"])
def test_an_infinite_target(run, write_csv, command):
    path = write_csv("a,y\n" + "1,inf\n2,1.5\n3,2.5\n" * 9)
    assert (
        run(command, path, "--target", "y").err
        == "fastens: the target 'y' must be finite; it is infinite in 9 of 27 rows\n"
    )


def test_columns_of_different_values_say_the_same_in_the_same_order_alone(run, write_csv):
    """Any two columns without a value that is there twice have a value of the one for each of the other."""
    random = np.random.default_rng(0)
    length = random.normal(size=60)
    width = random.normal(size=60)
    width[7] = np.nan
    table = pa.table({
        "length": length, "width": pa.array(width, from_pandas=True), "name": [f"n{i:02d}" for i in range(60)][::-1],
        "less": -2.5 * length, "turned": random.permutation(60), "group": random.integers(0, 2, 60),
    })  # fmt: skip
    for given in (table, pa.concat_tables([table, table.slice(0, 5)])):
        found = findings(run("inspect", write_csv(given)).out)
        assert re.findall(r"'(\w+)' holds the same information as '(\w+)'", found) == [("less", "length")]
    assert "holds the same information" not in findings(run("inspect", write_csv(table.slice(0, 4))).out)


def test_many_repeated_findings_are_one_line(run, tmp_path):
    path = tmp_path / "t.csv"
    odd = ",".join(["-"] * 3)
    rows = [f"{i},{','.join([str(i * 7 % 5)] * 8)},{odd if i == 3 else f'{i}.5,{i}.25,{i}'}" for i in range(30)]
    path.write_text("id," + ",".join(f"a{k}" for k in range(8)) + ",p,q,r\n" + "\n".join(rows) + "\n")
    found = findings(run("inspect", path).out)
    assert "9 columns hold the same information as another: 'a1' ('a0'), 'a2' ('a0')" in found
    assert "'p', 'q' and 'r' are read as text, because of '-' in row 4." in found
    assert "To treat that as missing, use --missing=-" in found


@pytest.mark.parametrize(
    ("name", "is_group"),
    [
        ("patient", True),
        ("Patient Number", True),
        ("shopId", True),
        ("Age of the patient", False),
        ("user score", False),
    ],
)
def test_names_of_groups(run, tmp_path, name, is_group):
    path = tmp_path / "t.csv"
    path.write_text(f"{name},x\n" + "".join(f"{i * 7 % 25},{i * 3 % 11}\n" for i in range(200)))
    assert ("--group" in run("inspect", path).out) == is_group


@pytest.mark.parametrize("width", ["60", "80"])
def test_narrow_terminals_cut_no_numbers(run, messy, monkeypatch, width):
    monkeypatch.setattr(report, "PIPED_WIDTH", int(width))
    out = run("inspect", messy, "--target", "sold").out
    assert re.search(r"size +numbers +\d+\.\d% +\d+ +0\.\d{4} ", out)
    assert ("wider terminal" in out) == (width == "60")


def test_narrow_terminals_keep_the_names_of_columns(run, messy, monkeypatch):
    monkeypatch.setattr(report, "PIPED_WIDTH", 40)
    out = run("inspect", messy, "--target", "sold").out
    assert re.search(r"^ size +numbers +\d+\.\d% $", out, re.MULTILINE)
    assert "different; AUC alone; range or frequent" in " ".join(out.split())


@pytest.mark.parametrize(
    ("targets", "task"), [("aabb", "classification"), ("aaab", "classification"), ([3.7], "regression")]
)
def test_tables_of_a_few_rows(run, write_csv, targets, task):
    table = pa.table({"size": np.arange(1.5, len(targets) + 1), "y": list(targets)})
    found = run("inspect", write_csv(table), "--target", "y", "--task", task)
    assert found.code == 0
    assert re.search(r"size +numbers ", found.out)

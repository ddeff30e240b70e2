"""What every command says of columns that give the target away, codes for missing, times and groups."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pytest

from fastens.cli.inspecting.checks import find_formulas, individual_scores
from fastens.cli.inspecting.columns import column_facts, missing_codes, share_text
from fastens.cli.table.columns import column_kinds

RNG = np.random.default_rng(0)
N = 400
QUICK = {
    "train": ("--n-estimators", 5),
    "compare": ("--models", "boosting", "--folds", 2),
    "tune": ("--models", "forest", "--folds", 2, "--trials", 1, "--time-limit", 60),
}


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def rentals(write_csv):
    """Rentals by day, of two kinds that add up to the target."""
    casual, registered = RNG.poisson(30, N), RNG.poisson(150, N)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N)]
    columns = {"day": days, "casual": casual, "wind": RNG.normal(size=N), "registered": registered}
    return write_csv(pa.table({**columns, "total": casual + registered}))


@pytest.mark.parametrize("command", ["inspect", "train", "compare", "tune"])
def test_every_command_names_the_sum_that_is_the_target(run, rentals, command):
    result = run(command, rentals, "--target", "total", *QUICK.get(command, ()))
    assert result.code == 0
    found = words(result.out)
    assert re.search(r"('casual' \+ 'registered'|'registered' \+ 'casual') predicts the target: R² 1", found)
    assert "Time columns: 'day'; the rows are sorted by 'day'" in found
    assert "--time-column day" in found


NUMBERS = {name: np.exp(RNG.normal(1, 0.5, N)) for name in "abcde"}


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (lambda t: t["a"] + t["b"] + t["c"], "abc"),
        (lambda t: 3 * (t["a"] - t["d"]) + 7, "ad"),
        (lambda t: t["a"] * t["b"], "ab"),
        (lambda t: (t["a"] / t["b"] ** 2).round(2), "ab"),
        (lambda t: t["c"] / t["e"], "ce"),
        (lambda t: np.exp(t["a"] - t["b"]), "ab"),
        (lambda t: 0.25 * t["a"] + 2 * t["e"], "ae"),
    ],
)
def test_formulas_of_numbers(target, names):
    table, y = pa.table(NUMBERS), target(NUMBERS)
    kinds = column_kinds(table, [])
    found = find_formulas(table, kinds, y, "regression", individual_scores(table, kinds, y, "regression"))
    assert [sorted(one.names) for one in found] == [sorted(names)]
    noisy = y + RNG.normal(0, 0.3 * y.std(), N)
    assert find_formulas(table, kinds, noisy, "regression", {}) == []


@pytest.mark.parametrize("sign", [np.add, np.subtract, np.divide])
def test_formulas_of_classes(sign):
    value = sign(NUMBERS["b"], NUMBERS["d"])
    y = np.where(value > np.median(value), "high", "low")
    table = pa.table(NUMBERS)
    kinds = column_kinds(table, [])
    found = find_formulas(table, kinds, y, "classification", individual_scores(table, kinds, y, "classification"))
    assert [sorted(one.names) for one in found] == [["b", "d"]]


def test_durations_are_differences_of_dates():
    start = np.datetime64("2020-01-01") + RNG.integers(0, 900, N)
    days = RNG.integers(1, 60, N)
    table = pa.table({"start": start, "end": start + days, "other": RNG.normal(size=N)})
    kinds = column_kinds(table, [])
    (found,) = find_formulas(table, kinds, days.astype(float), "regression", {})
    assert found.text == "'end' - 'start'"


@pytest.mark.parametrize("command", ["inspect", "train"])
def test_rare_classes_do_not_hide_a_leak(run, write_csv, command):
    y = np.where(RNG.random(N) < 0.5, "A", "B").astype(object)
    y[:5] = list("CDEFG")
    codes = np.unique(y, return_inverse=True)[1]
    path = write_csv(pa.table({"x": RNG.normal(size=N), "code": codes * 10 + RNG.normal(size=N), "y": y}))
    result = run(command, path, "--target", "y", *QUICK.get(command, ()))
    assert "'code' alone predicts the target" in words(result.out)
    assert not re.search(r"^ x +numbers +- +[\d,]+ +- ", result.out, re.MULTILINE)


def test_a_perfect_score_has_a_warning_and_the_column_of_all_gain_is_named(run, write_csv):
    y = np.where(RNG.random(N) < 0.5, "yes", "no")
    table = pa.table({"x": RNG.normal(size=N), "paid": np.where(y == "yes", 1.0, 0.0), "y": y})
    result = run("train", write_csv(table), "--target", "y", *QUICK["train"])
    found = words(result.out)
    assert "AUC of 1.0000 is rarely realistic" in found
    assert "'paid' has 100.0% of the total gain" in found
    assert "AUC of 1.0000 is rarely realistic" in words(run("evaluate", "model.fastens", "table.csv").out)
    assert "best AUC of 1.0000 is rarely realistic" in words(
        run("compare", "table.csv", "--target", "y", *QUICK["compare"]).out
    )


def test_without_leaks_there_are_no_warnings(run, houses, write_csv):
    for command in ("train", "compare"):
        assert (
            "Warnings"
            not in run(command, write_csv(houses), "--target", "sold", "--drop", "price", *QUICK[command]).out
        )


@pytest.mark.parametrize("code", [-200, -77, -8888, -32768, -9.99e33, 9999, -9, 1e20])
@pytest.mark.parametrize("command", ["inspect", "train"])
def test_codes_for_missing_are_named_and_a_warning_in_the_target(run, write_csv, command, code):
    x, y = RNG.uniform(1, 6, N).round(1), RNG.normal(20, 3, N).round(1)
    y[::6] = code
    for values in ({"x": x, "y": y}, {"x": y, "y": x}):
        result = run(
            command, write_csv(pa.table(values)), "--target", "y", "--task", "regression", *QUICK.get(command, ())
        )
        assert f"--missing={code:.15g}" in words(result.out)
        is_target = values["y"] is y
        assert (f"The target 'y' is {code:.15g} in 67 of 400 rows (16.8%)" in words(result.out)) == is_target
        if command == "train":
            assert ("Warnings" in result.out) == is_target


@pytest.mark.parametrize("label", ["-", "unknown", "-999", "n.a."])
def test_classes_that_look_like_missing(run, write_csv, label):
    y = np.where(RNG.random(N) < 0.5, "a", "b").astype(object)
    y[::9] = label
    result = run("train", write_csv(pa.table({"x": RNG.normal(size=N), "y": y})), "--target", "y", *QUICK["train"])
    assert f"The target 'y' is {label} in 45 of 400 rows" in words(result.out)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (RNG.uniform(647, 2040, N), [-200]),  # nearer than the others are spread, but the only negative one
        (RNG.integers(1, 11, N), [97, 98, 99]),
        (RNG.integers(1, 6, N), [-9, -8]),
        (RNG.uniform(0, 100, N), [-9999, 9999]),
        (RNG.integers(0, 2, N), [99]),
        (RNG.uniform(1870, 2020, N).round(), [0]),
    ],
)
def test_codes_at_both_ends_and_next_to_each_other(values, codes):
    values = values.astype(float)
    values[::6] = np.resize(codes, len(values[::6]))
    assert sorted(missing_codes(values)) == sorted(codes)


@pytest.mark.parametrize(
    "values",
    [
        RNG.integers(-1, 2, N),
        RNG.choice([0, 1], N),
        RNG.integers(0, 120, N),
        RNG.poisson(0.3, N),
        np.exp(RNG.normal(3, 2, N)),
        np.round(np.exp(RNG.normal(3, 1, N))),
        RNG.choice([0.0, 5.0, 50.0, 1000.0], N),
        np.where(RNG.random(N) < 0.6, 0, RNG.uniform(100, 200, N)),
        RNG.integers(0, 30, N) - 1,
    ],
)
def test_no_codes(values):
    assert missing_codes(values.astype(float)) == []


def test_one_line_for_columns_of_which_the_same_can_be_said(run, write_csv):
    columns = {f"s{i}": np.where(RNG.random(N) < 0.1, -999, RNG.normal(20, 3, N)) for i in range(10)}
    columns |= {"none": pa.nulls(N, pa.string()), "nothing": pa.nulls(N, pa.string())}
    found = words(run("inspect", write_csv(pa.table(columns))).out)
    assert found.count("--missing=-999") == 1
    assert re.search(r"10 columns hold -999, .*'s0' \(\d+ cells\), .* and 2 more\.", found)
    assert "2 columns hold nothing: 'none', 'nothing'." in found


def test_shares_are_whole_only_where_they_are():
    assert [share_text(n, 10_000) for n in (0, 3, 9997, 10_000)] == ["0.0%", "<0.1%", ">99.9%", "100.0%"]
    table = pa.table({"x": pa.array([1.0, 2.0] + [None] * 9998)})
    assert column_facts(table, "x").remarks[0].one == "is missing in >99.9% of the rows"


def test_rows_that_are_there_twice(run, houses, write_csv):
    path = write_csv(pa.concat_tables([houses, houses.slice(0, 30)]))
    assert "30 rows (9.1%) are duplicates of earlier rows" in words(
        run("train", path, "--target", "price", *QUICK["train"]).out
    )


@pytest.mark.parametrize("command", ["train", "tune", "compare"])
def test_groups_and_times_are_held_out_whole(run, write_csv, command):
    group = np.repeat(np.arange(80), 5)
    effect = RNG.normal(0, 5, 80)[group]
    table = pa.table({"patient_id": group, "x": effect + RNG.normal(0, 0.01, N), "year": np.arange(N) // 10,
                      "y": effect + RNG.normal(0, 1, N)})  # fmt: skip
    path = write_csv(table)
    out = words(run(command, path, "--target", "y", *QUICK[command]).out)
    assert "'patient_id': each value has several rows" in out
    assert "Time columns: 'year'; the rows are sorted by 'year'" in out
    out = words(run(command, path, "--target", "y", "--group", "patient_id", *QUICK[command], "--overwrite").out)
    assert "each value has several rows" not in out
    assert "columns 2 (numbers 2)" in out
    options = ("--time-column", "year", *QUICK[command], "--overwrite")
    if command == "tune":
        options += ("--checkpoint", "other.jsonl")
    later = run(command, path, "--target", "y", *options)
    assert later.code == 0, later.err
    if command == "compare":
        assert "2 folds by 'year'" in later.out
    else:
        assert "16 of 80 groups of 'patient_id'" in out
        assert "(320 for training, 80 held out, from 'year' 32 on)" in later.out


def test_evaluate_finds_the_rows_held_out_and_scores_times_and_groups(run, write_csv):
    table = pa.table({"when": np.arange(N)[::-1] // 4, "team": np.arange(N) % 7, "x": RNG.normal(size=N)})
    table = table.append_column("y", pa.array(table["x"].to_numpy() + table["when"].to_numpy() / 50))
    path = write_csv(table)
    for options in (("--time-column", "when"), ("--group", "team"), ("--time-column", "when", "--early-stopping")):
        trained = run("train", path, "--target", "y", *options, *QUICK["train"])
        assert trained.code == 0, trained.err
        result = run("evaluate", "model.fastens", path, *options[:2])
        held_out = re.search(r"Scores on (\d+) held-out rows\n.*\n +RMSE +([\d.]+)", trained.out)
        assert re.search(rf"held-out rows +{held_out[1]} +{held_out[2]}", result.out)
        assert f"Scores by {options[1]!r}" in result.out
        rows = re.findall(r"^  \S+(?: to \S+)? +(\d+) ", result.out.partition("Scores by '")[2], re.MULTILINE)
        assert len(rows) == (5 if options[1] == "when" else 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time-column", "x", "--group", "x"), "--time-column and --group must not be used together"),
        (("--time-column", "name"), "--time-column must name a date or numeric column; 'name' holds 'n"),
        (("--group", "same"), "--group must name a column with at least two values"),
        (("--group", "nothing"), "must name a column of the table; got 'nothing'"),
        (("--time-column", "y"), "must not name the target"),
    ],
)
def test_mistakes(run, write_csv, options, message):
    table = pa.table({"x": RNG.normal(size=40), "name": [f"n{i % 3}" for i in range(40)], "same": [1] * 40})
    table = table.append_column("y", pa.array(RNG.normal(size=40)))
    result = run("train", write_csv(table), "--target", "y", *options)
    assert (result.code, message in result.err, result.err.count("\n")) == (2, True, 1)


def test_why_the_auc_leaves_classes_out(run, write_csv):
    y = np.where(RNG.random(N) < 0.5, "A", "B").astype(object)
    y[0] = "rare"
    out = words(
        run("train", write_csv(pa.table({"x": RNG.normal(size=N), "y": y})), "--target", "y", *QUICK["train"]).out
    )
    assert "The AUC is the mean over the classes that occur in the scored rows; these do not: 'rare'." in out

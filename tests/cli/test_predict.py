"""`fastens predict` and `fastens evaluate`, with the columns of training and with others."""

import csv
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

import fastens
from fastens.cli.table import parts
from fastens.cli.table.tables import write_tables
from reference.children import COMMAND, run_child


@pytest.fixture(scope="module")
def of_houses() -> dict[str, bytes]:
    """Models of the houses, by target, each of which is trained once."""
    return {}


@pytest.fixture
def train(run, houses, write_csv, of_houses):
    """Train on the houses, or on another table; the file of the table."""

    def train_on(target: str, table: pa.Table = houses) -> str:
        path, model = str(write_csv(table, "houses.csv")), Path("model.fastens")
        if table is houses and target in of_houses:
            model.write_bytes(of_houses[target])
            return path
        assert run("train", path, "--target", target, "--n-estimators", 10, "--learning-rate", 0.3).code == 0
        if table is houses:
            of_houses[target] = model.read_bytes()
        return path

    return train_on


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_classes(run, train, out):
    path = train("sold")
    result = run("predict", "model.fastens", path, "-o", out)
    assert (result.code, result.out) == (0, "")
    assert "300 rows predicted" in result.err
    assert out in result.err
    predictions = fastens.read_table(out)
    assert predictions.column_names == ["prediction", "probability no", "probability yes"]
    no, yes = np.array(predictions["probability no"]), np.array(predictions["probability yes"])
    assert no + yes == pytest.approx(1)
    assert predictions["prediction"].to_pylist() == np.where(yes > no, "yes", "no").tolist()


def test_values_are_in_the_order_of_the_rows_whatever_the_format(run, train, houses, tmp_path):
    train("price")
    order = np.random.default_rng(0).permutation(300)
    pyarrow.parquet.write_table(houses.take(pa.array(order)), tmp_path / "shuffled.parquet")
    run("predict", "model.fastens", "houses.csv", "-o", "a.parquet")
    run("predict", "model.fastens", "shuffled.parquet", "-o", "b.parquet")
    a, b = (np.array(fastens.read_table(name)["prediction"]) for name in ("a.parquet", "b.parquet"))
    assert np.array_equal(a[order], b)
    assert np.corrcoef(a, np.array(houses["price"]))[0, 1] > 0.9


@pytest.mark.slow
def test_columns_are_kept_before_the_predictions(run, train, houses):
    path = train("price")
    assert run("predict", "model.fastens", path, "-o", "out.parquet", "--keep", "town,price").code == 0
    table = fastens.read_table("out.parquet")
    assert table.column_names == ["town", "price", "prediction"]
    assert table["price"].to_pylist() == pytest.approx(houses["price"].to_pylist())
    run("predict", "model.fastens", path, "-o", "out.parquet", "--keep-all")
    assert fastens.read_table("out.parquet").column_names == [*houses.column_names, "prediction"]
    result = run("predict", "model.fastens", "out.parquet", "-o", "again.parquet", "--keep-all")
    assert fastens.read_table("again.parquet").column_names[-2:] == ["prediction", "prediction.1"], result.err
    assert (
        "must name a column of the table; got 'size'"
        in run("predict", "model.fastens", path, "-o", "o.csv", "--keep", "size").err
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "sold"])
def test_intervals_and_sets(run, houses, write_csv, target):
    path = write_csv(houses, "houses.csv")
    forest = ("--model", "forest", "--oob-score", "--n-estimators", 50, "--test-fraction", 0)
    run("train", path, "--target", target, *forest)
    assert run("predict", "model.fastens", path, "-o", "out.parquet", "--coverage", 0.8).code == 0
    table = fastens.read_table("out.parquet")
    model = fastens.load("model.fastens")
    if target == "price":
        lower, upper = (table[f"{end} of 0.8"].to_numpy() for end in ("lower", "upper"))
        price = houses["price"].to_numpy()
        assert ((lower <= price) & (price <= upper)).mean() > 0.75
    else:
        assert table.column_names[-2:] == [f"set has {label}" for label in model.classes_]
    for share, message in [("1", "--coverage must be above 0 and below 1"), ("x", "invalid float")]:
        assert message in run("predict", "model.fastens", path, "-o", "out.parquet", "--coverage", share).err


def test_a_model_without_intervals(run, train):
    path = train("price")
    result = run("predict", "model.fastens", path, "-o", "out.csv", "--coverage", 0.9)
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_the_range_of_members_is_not_an_interval(run, train, houses):
    path = train("price")
    members = [("one", fastens.DecisionTreeRegressor(max_depth=1)), ("two", fastens.DecisionTreeRegressor(max_depth=2))]
    fastens.VotingRegressor(members).fit(houses.drop_columns("price"), houses["price"]).save("voting.fastens")
    result = run("predict", "voting.fastens", path, "-o", "out.csv", "--coverage", 0.9)
    assert result.code == 2
    assert "--coverage needs a model with intervals; got VotingRegressor" in result.err


def test_columns_are_found_by_name(run, train, houses, write_csv):
    train("price")
    others = houses.drop_columns("price").append_column("extra", houses["rooms"])
    write_csv(others.select(others.column_names[::-1]), "others.csv")
    assert run("predict", "model.fastens", "houses.csv", "-o", "a.csv").code == 0
    assert run("predict", "model.fastens", "others.csv", "-o", "b.csv").code == 0
    assert fastens.read_table("a.csv").equals(fastens.read_table("b.csv"))


def test_text_of_digits_stays_text(run, train, houses, write_csv):
    codes = np.where(np.array(houses["garden"]), "007", "x")
    table = pa.table({"code": codes, "price": houses["price"]})
    train("price", table)
    write_csv(table.filter(pa.array(codes == "007")), "digits.csv")
    run("predict", "model.fastens", "houses.csv", "-o", "all.parquet")
    run("predict", "model.fastens", "digits.csv", "-o", "digits.parquet")
    all_rows = np.array(fastens.read_table("all.parquet")["prediction"])
    assert np.array_equal(all_rows[codes == "007"], np.array(fastens.read_table("digits.parquet")["prediction"]))


def test_classes_of_digits_stay_text(run, train, houses, write_csv):
    table = pa.table({"area": houses["area"], "code": np.where(np.array(houses["garden"]), "1", "x")})
    train("code", table)
    write_csv(table.filter(pa.array(np.array(houses["garden"]))), "digits.csv")
    assert run("evaluate", "model.fastens", "digits.csv").code == 0


def test_unseen_categories_and_columns_without_values(run, train, houses, write_csv):
    train("price")
    new = houses.set_column(2, "town", pa.array(["Oslo"] * 300)).set_column(0, "area", pa.nulls(300))
    write_csv(new, "new.csv")
    assert run("predict", "model.fastens", "new.csv", "-o", "out.csv").code == 0
    assert fastens.read_table("out.csv")["prediction"].null_count == 0


def test_a_model_saved_from_python(run, houses, write_csv, tmp_path):
    X = houses.select(["area", "rooms"])
    fastens.GradientBoostingRegressor(n_estimators=5).fit(X, np.array(houses["price"])).save(tmp_path / "m.fastens")
    write_csv(houses)
    assert run("predict", "m.fastens", "table.csv", "-o", "out.csv").code == 0
    result = run("evaluate", "m.fastens", "table.csv")
    assert result.code == 2
    assert "--target must name" in result.err
    result = run("evaluate", "m.fastens", "table.csv", "--target", "price")
    assert "R²" in result.out
    assert "constant" not in result.out


@pytest.fixture
def of_prices(run, write_csv):
    """A model, 200 rows in German writing that it was trained on, and the lines of these."""
    rng = np.random.default_rng(0)

    def line(i: int) -> str:
        value = rng.normal()
        x, price = f"{value:.3f}".replace(".", ","), f"{1000 + 7 * i:,.2f}".translate({44: ".", 46: ","})
        label = "=cmd" if value + (i - 100) / 50 + rng.normal(0, 0.2) > 0 else "@no"
        return f"{i * 37 % 1000:06d};{price} €;{i % 28 + 1:02d}.{i % 12 + 1:02d}.2023;NA;{x};=1+{i % 3};{label}"

    lines = ["id;price;day;code;x;-f;y", *map(line, range(200))]
    path = write_csv("\n".join(lines) + "\n", "prices.csv")
    result = run("train", path, "--target", "y", "--drop", "id,-f", "--n-estimators", 20)
    assert result.code == 0, result.err
    return lines


def rows_of(text: str) -> list[list[str]]:
    return [row for row in csv.reader(text.split("\n")) if row]


@pytest.mark.slow
def test_kept_cells_are_copied_as_written(run, of_prices):
    for options in (("--keep-all",), ("--keep", "id,price,day,code,x,-f,y")):
        result = run("predict", "model.fastens", "prices.csv", "-o", "-", *options, "--no-escape-formulas")
        head, *rows = rows_of(result.out)
        assert head[:7] == of_prices[0].split(";")
        assert [row[:7] for row in rows] == [line.split(";") for line in of_prices[1:]]
    run("predict", "model.fastens", "prices.csv", "-o", "out.csv", "--keep", "id")
    assert rows_of(Path("out.csv").read_text())[2][0] == "000037"
    run("predict", "model.fastens", "prices.csv", "-o", "out.parquet", "--keep", "price,day")
    kept = pyarrow.parquet.read_table("out.parquet")
    assert (kept["price"][1].as_py(), str(kept["day"][1])) == (1007.0, "2023-02-02")


@pytest.mark.slow
def test_rows_that_do_not_fit_are_named_and_the_others_predicted(run, of_prices, write_csv):
    write_csv("\n".join(of_prices[:11]) + "\n", "fit.csv")
    lines = of_prices[:11]
    lines[3] = "000041;2.099,50 €;19.02.2023;NA;-;-5;@no"
    lines[5] = "000042;1.2 M;31.02.2023;NA;0,5;+49 170;@no"
    write_csv("\n".join(lines) + "\n", "new.csv")
    run("predict", "model.fastens", "fit.csv", "-o", "fit.parquet")
    expected = pyarrow.parquet.read_table("fit.parquet")
    for inputs in (["new.csv"], ["new.csv", "new.csv"]):
        result = run("predict", "model.fastens", *inputs, "-o", "out.parquet")
        assert result.code == 0
        told = " ".join(result.err.split())
        n = len(inputs)
        assert f"{8 * n} rows predicted" in told
        assert f"{2 * n} of {10 * n} rows were not predicted" in told
        assert "row 3, column 'x': '-' is not a number written like '1234,5'" in told
        assert "row 5, column 'price': '1.2 M' is not a number" in told
        found = pyarrow.parquet.read_table("out.parquet").slice(0, 10)
        reasons = found["not predicted"]
        assert [i + 1 for i, reason in enumerate(reasons.to_pylist()) if reason] == [3, 5]
        fit = pc.is_null(reasons)
        assert found.drop_columns("not predicted").filter(fit).equals(expected.filter(fit))
        assert found["prediction"].null_count == found["probability @no"].null_count == 2
    result = run("predict", "model.fastens", "new.csv", "-o", "strict.csv", "--strict")
    assert (result.code, "row 5: '1.2 M' is not a number" in result.err) == (2, True)
    assert not Path("strict.csv").exists()
    out = " ".join(run("evaluate", "model.fastens", "new.csv").out.split())
    assert "Scores on 8 rows" in out
    assert "Skipped 2 of 10 rows, because cells do not match the training columns: row 3, column 'x'" in out
    assert run("explain", "model.fastens", "new.csv", "-o", "page.html").code == 0


def test_a_column_that_training_did_not_use_stops_nothing(run, of_prices, write_csv):
    lines = [*of_prices[:3], of_prices[3].replace("=1+2", "a").replace("000074", "?#")]
    write_csv("\n".join(lines) + "\n", "new.csv")
    assert "3 rows predicted" in run("predict", "model.fastens", "new.csv", "-o", "out.csv").err


def test_other_types_and_formats_that_do_not_fit(run, write_csv, tmp_path):
    n = 60
    table = pd.DataFrame({
        "day": pd.date_range("2020-01-01", periods=n).astype(str), "at": ["10:00:00", "11:30:00", "12:15:00"] * 20,
        "ok": ["true", "false"] * 30, "x": np.arange(n) * 1.5, "y": np.arange(n) + [40.0, 0.0] * 30,
    })  # fmt: skip
    table.to_csv("t.csv", index=False)
    assert run("train", "t.csv", "--target", "y", "--n-estimators", 20, "--min-samples-leaf", 2).code == 0
    new = table.astype(object).head(8)
    new.loc[[1, 2, 3, 4], ["day", "at", "ok", "x"]] = np.where(np.eye(4, dtype=bool), "?!", new.iloc[1:5, :4])
    new.to_csv("new.csv", index=False)
    new.astype(str).to_json("new.jsonl", orient="records", lines=True)
    for name in ("new.csv", "new.jsonl"):
        result = run("predict", "model.fastens", name, "-o", "out.csv")
        assert result.code == 0, result.err
        assert "4 of 8 rows were not predicted" in " ".join(result.err.split()), name
        found = pd.read_csv("out.csv")
        assert found["prediction"].isna().tolist() == [False, True, True, True, True, False, False, False]


def test_standard_output_holds_the_predictions_alone(run, of_prices):
    result = run("predict", "model.fastens", "prices.csv", "-o", "-", "--keep", "id")
    rows = rows_of(result.out)
    assert (len(rows), rows[0][:2]) == (201, ["id", "prediction"])
    assert "written to standard output" in result.err
    for command in (
        ("compare", "prices.csv", "--target", "y", "-o", "-"),
        ("train", "prices.csv", "--target", "y", "-o", "-"),
    ):
        assert "- means standard output only in fastens predict" in run(*command).err


def test_cells_that_a_spreadsheet_would_run_are_escaped(run, of_prices):
    result = run("predict", "model.fastens", "prices.csv", "-o", "-", "--keep=-f,y,x")
    head, *rows = rows_of(result.out)
    assert head[:4] == ["'-f", "y", "x", "prediction"]
    assert {row[0][:2] for row in rows} == {"'="}
    assert {row[1] for row in rows} == {row[3] for row in rows} == {"'=cmd", "'@no"}
    assert any(row[2].startswith("-") for row in rows)  # numbers stay numbers
    assert "601 cells that a spreadsheet would execute" in result.err
    run("predict", "model.fastens", "prices.csv", "-o", "out.parquet", "--keep=-f,y")
    assert set(pyarrow.parquet.read_table("out.parquet")["y"].to_pylist()) == {"=cmd", "@no"}


@pytest.mark.parametrize(
    ("cell", "is_run"),
    [("-5", False), ("-1.234,50 €", False), ("+49 (170) 12", False), ("-12 %", False), ("-", False), ("1-2", False),
     ("-1e-5", False), ("=1", True), ("@a", True), ("+a", True), ("-2+3", True), ("\ta", True), ("\ra", True),
     (" =1", True), ("\uff1d1", True), ("+cmd|' /C calc'!A0", True)],
)  # fmt: skip
def test_which_cells_a_spreadsheet_would_run(tmp_path, cell, is_run):
    n = write_tables([pa.table({"a": [cell, "b", None]})], str(tmp_path / "t.csv"))
    text = (tmp_path / "t.csv").read_bytes().decode().replace("\r", "\v")
    found = rows_of(text)[1][0]
    assert (n, found) == (int(is_run), ("'" if is_run else "") + cell.replace("\r", "\v"))


def test_a_closed_pipe_is_not_an_error(of_prices, tmp_path):
    closed = "import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\n"
    closed += "import sys\nsys.stdout = open(1, 'w', closefd=False)\n"
    arguments = ("predict", "model.fastens", *["prices.csv"] * 50, "-o", "-", "--keep-all")
    done = run_child(closed + COMMAND, *arguments, folder=tmp_path)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


def test_a_file_that_must_not_grow_is_named_and_no_hidden_one(of_prices, tmp_path):
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" + COMMAND
    train = ("train", "prices.csv", "--target", "y", "--drop", "id,-f,x", "--n-estimators", "40")
    commands = {
        "half.fastens": (*train, "--checkpoint", "half.fastens", "-o", "whole.fastens"),
        "whole.fastens": (*train, "-o", "whole.fastens"),
        "out.csv": ("predict", "model.fastens", *["prices.csv"] * 9, "-o", "out.csv", "--keep-all"),
        "out.parquet": ("predict", "model.fastens", *["prices.csv"] * 9, "-o", "out.parquet", "--keep-all"),
        "page.html": ("explain", "model.fastens", "prices.csv", "-o", "page.html"),
    }
    for name, arguments in commands.items():
        done = run_child(limited, *arguments, folder=tmp_path)
        assert done.returncode == 2, done.stderr
        assert re.search(rf"cannot write \S*{name}: .*File too large", done.stderr), done.stderr
        assert not re.search(r"\.[0-9a-f]{16}\.", done.stderr)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("target", "name"), [("sold", "log loss"), ("price", "RMSE")])
def test_evaluate(run, train, target, name):
    path = train(target)
    result = run("evaluate", "model.fastens", path)
    assert (result.code, result.err) == (0, "")
    assert "Scores on 300 rows" in result.out
    assert "constant prediction" in result.out
    assert name in result.out
    assert run("evaluate", "model.fastens", path, "--weight", "rooms").out != result.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["area", "town"]), "lacks 2 columns that the model was trained on: 'area', 'town'"),
        (lambda t: t.set_column(0, "area", t["town"]), "column 'area', row 1: 'Aachen' is not a number"),
        (lambda t: t.set_column(3, "garden", t["rooms"]), "column 'garden' must hold true or false"),
        (lambda t: t.slice(0, 0), "has no rows"),
    ],
)
def test_other_columns_than_in_training(run, train, houses, write_csv, change, message):
    train("price")
    write_csv(change(houses), "new.csv")
    for command in (("predict", "model.fastens", "new.csv", "-o", "out.csv"), ("evaluate", "model.fastens", "new.csv")):
        result = run(*command)
        assert result.code == 2
        assert message in result.err
        assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("sold"), "must name a column of the table; got 'sold'"),
        (
            lambda t: t.set_column(6, "sold", pa.array(["maybe"] * 300)),
            "classes that the model was not trained on: 'maybe'",
        ),
        (lambda t: t.set_column(6, "sold", pa.nulls(300, pa.string())), "missing in all rows"),
    ],
)
def test_evaluate_needs_the_target(run, train, houses, write_csv, change, message):
    train("sold")
    write_csv(change(houses), "new.csv")
    result = run("evaluate", "model.fastens", "new.csv")
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04" + bytes(100)])
def test_broken_models(run, houses, write_csv, tmp_path, content):
    write_csv(houses)
    (tmp_path / "m.fastens").write_bytes(content)
    for command in (("predict", "m.fastens", "table.csv", "-o", "out.csv"), ("evaluate", "m.fastens", "table.csv")):
        result = run(*command)
        assert result.code == 2
        assert "cannot read the model m.fastens" in result.err
        assert result.err.count("\n") == 1


def test_a_truncated_model(run, train, tmp_path):
    path = train("price")
    content = (tmp_path / "model.fastens").read_bytes()
    (tmp_path / "model.fastens").write_bytes(content[: len(content) // 2])
    result = run("predict", "model.fastens", path, "-o", "out.csv")
    assert result.code == 2
    assert "cannot read the model" in result.err


def test_models_that_predict_no_rows_are_refused_in_a_line(run, tmp_path):
    table = pd.DataFrame({"a": np.arange(60.0), "name": ["u", "v"] * 30})
    table.to_csv("table.csv", index=False)
    fastens.RandomTreesEmbedding(n_estimators=2).fit(table[["a"]]).save("embedding.fastens")
    fastens.FiniteHypothesisLearner([[0.5, 0.5]]).fit([0]).save("hypotheses.fastens")
    fastens.BayesianNetwork().fit(table[["name"]]).save("network.fastens")
    fastens.TextClassifier().fit(["one word", "two words"], [0, 1]).save("text.fastens")
    for name in ("embedding", "hypotheses", "network", "text"):
        for command in ("evaluate", "explain"):
            refused = run(command, f"{name}.fastens", "table.csv", "--target", "a")
            assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert run("predict", f"{name}.fastens", "table.csv", "-o", "out.csv").code == 2


def test_texts_of_a_model_saved_from_python_are_found_by_the_name_of_their_column(run, tmp_path):
    table = pd.DataFrame({"a": np.arange(60.0), "said": ["good day", "bad night"] * 30, "mood": ["up", "down"] * 30})
    table.to_csv("table.csv", index=False)
    fastens.TextClassifier().fit(table[["said"]], table["mood"]).save("text.fastens")
    assert run("predict", "text.fastens", "table.csv", "-o", "out.csv").code == 0
    assert pd.read_csv("out.csv")["prediction"].tolist() == table["mood"].tolist()
    assert "100.00%" in run("evaluate", "text.fastens", "table.csv", "--target", "mood").out


def test_models_saved_from_python_are_evaluated_or_refused_in_a_line(run, tmp_path):
    X = pd.DataFrame({"a": np.arange(60.0)}).assign(name=["u", "v"] * 30)
    X.to_csv("table.csv", index=False)
    one = fastens.GradientBoostingRegressor(n_estimators=2).fit(X[["a"]], X["a"])
    one.save("one.fastens", metadata={"table": "mine"})  # what the command line calls its own record
    assert run("predict", "one.fastens", "table.csv", "-o", "out.csv").code == 0
    assert run("evaluate", "one.fastens", "table.csv", "--target", "a").code == 0
    wrong = run("evaluate", "one.fastens", "table.csv", "--target", "name")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "column 'name' must hold numbers" in wrong.err
    fastens.GradientBoostingRegressor(n_estimators=2).fit(X[["a"]], np.column_stack([X["a"]] * 2)).save("two.fastens")
    for command in (("evaluate", "two.fastens", "table.csv", "--target", "a"), ("explain", "two.fastens", "table.csv")):
        refused = run(*command)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "GradientBoostingRegressor has several outputs" in refused.err
    fastens.IsolationForest(2).fit(X[["a"]]).save("odd.fastens")
    fastens.GradientBoostingSurvival(n_estimators=2).fit(X[["a"]], X["a"] + 1).save("times.fastens")
    for file in ("odd.fastens", "times.fastens"):  # what they predict is no time and no anomaly of a column
        refused = run("evaluate", file, "table.csv", "--target", "a")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "does not predict a target column" in refused.err


@pytest.mark.parametrize(("loss", "fewest"), [("poisson", -1.0), ("gamma", 0.0)])
def test_true_values_that_a_loss_does_not_take_have_scores_all_the_same(run, loss, fewest):
    X = pd.DataFrame({"a": np.arange(1.0, 61.0)})
    fastens.GradientBoostingRegressor(loss, n_estimators=2).fit(X, X["a"]).save("model.fastens")
    for values, has_deviance in ((X["a"], True), (X["a"].where(X["a"] > 1, fewest), False)):
        X.assign(y=values).to_csv("table.csv", index=False)
        result = run("evaluate", "model.fastens", "table.csv", "--target", "y")
        assert result.code == 0, result.err
        assert "RMSE" in result.out
        assert ("deviance" in result.out) == has_deviance


@pytest.mark.slow
def test_several_outputs_have_columns_of_their_own(run, houses):
    """Of models saved from Python; the command line trains none with several outputs."""
    X = pa.table({name: houses[name] for name in ("rooms", "area")})
    y = np.array(houses["price"])
    pyarrow.parquet.write_table(X, "rows.parquet")

    def predicted(model, target):
        model.fit(X, target).save("several.fastens")
        result = run("predict", "several.fastens", "rows.parquet", "-o", "out.parquet")
        assert result.code == 0, result.err
        return model.predict(X), fastens.read_table("out.parquet").to_pydict()

    few = {"n_estimators": 5, "quantile": [0.1, 0.9]}
    expected, found = predicted(fastens.GradientBoostingRegressor("quantile", **few), y)
    assert list(found) == ["quantile 0.1", "quantile 0.9"]
    np.testing.assert_array_equal(np.column_stack(list(found.values())), expected)
    expected, found = predicted(fastens.GradientBoostingRegressor(n_estimators=5), np.column_stack([y, -y]))
    assert list(found) == ["prediction of target 0", "prediction of target 1"]
    np.testing.assert_array_equal(np.column_stack(list(found.values())), expected)
    expected, found = predicted(fastens.GradientBoostingRegressor("expectile", **few), np.column_stack([y, -y]))
    assert list(found) == [f"expectile {level} of target {target}" for target in (0, 1) for level in few["quantile"]]
    np.testing.assert_array_equal(np.column_stack(list(found.values())), expected.reshape(len(y), 4))
    labels = np.column_stack([np.where(y > np.median(y), "dear", "cheap"), np.digitize(y, np.quantile(y, [0.3, 0.6]))])
    expected, found = predicted(fastens.GradientBoostingClassifier(n_estimators=5), labels)
    assert list(found)[:4] == [
        "prediction of target 0",
        "probability cheap of target 0",
        "probability dear of target 0",
        "prediction of target 1",
    ]
    np.testing.assert_array_equal(found["prediction of target 1"], expected[:, 1])


def test_classes_of_several_targets_have_contributions_of_their_own(run):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    X.to_csv("table.csv", index=False)
    labels = np.column_stack([np.where(X["a"] > 0, "dear", "cheap"), np.digitize(X["b"], [-0.5, 0.5])])
    model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, labels).conformalize(X, labels)
    model.save("several.fastens")
    result = run("predict", "several.fastens", "table.csv", "-o", "out.csv", "--contributions")
    assert result.code == 0, result.err
    found, expected = pd.read_csv("out.csv"), model.predict_contributions(X)
    for output, label in enumerate(["dear of target 0", *(f"{k} of target 1" for k in range(3))]):
        names = [f"contribution of a for {label}", f"contribution of b for {label}", f"expected prediction for {label}"]
        np.testing.assert_allclose(found[names], expected[:, output])
    result = run("predict", "several.fastens", "table.csv", "-o", "sets.csv", "--coverage", "0.9")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "GradientBoostingClassifier has several" in result.err


@pytest.fixture
def visits(tmp_path):
    """Visits that follow the day of the week: dates, instants, identifiers beyond 2**53 and numbers that are codes."""
    when = pd.date_range("2020-01-01", periods=240, freq="31h", tz="UTC")
    frame = pd.DataFrame({"when": when, "day": when.date, "id": np.arange(240) + 2**60, "code": np.arange(240) % 3})
    frame["open"] = np.where((when.day_of_week > 4) ^ (frame["code"] == 1), "yes", "no")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    frame.to_parquet(tmp_path / "visits.parquet", index=False)
    return frame


def probabilities(path):
    return fastens.read_table(path)["probability yes"].to_numpy()


@pytest.mark.parametrize("table", ["visits.csv", "visits.parquet"])
def test_python_reads_dates_as_the_command_line_does(run, visits, table):
    arguments = ("--target", "open", "--categorical", "code", "--n-estimators", 9)
    assert run("train", table, *arguments).code == 0
    assert run("predict", "model.fastens", table, "-o", "out.csv").code == 0
    model = fastens.load("model.fastens")
    assert "when: weekday" in model.feature_parts_
    assert "day: hour" not in model.feature_parts_
    local = visits.assign(when=visits["when"].dt.tz_convert("America/New_York"))
    for frame in (visits, local, pd.read_csv("visits.csv"), pa.Table.from_pandas(visits)):
        np.testing.assert_array_equal(model.predict_proba(frame)[:, 1], probabilities("out.csv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        fastens.RandomForestClassifier(5, random_state=0),
        fastens.StackingClassifier([("forest", fastens.RandomForestClassifier(5))], random_state=0),
        fastens.CategoricalNB(),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("table", ["visits.csv", "visits.parquet"])
def test_the_command_line_reads_dates_as_python_does(run, visits, model, table):
    X, y = visits[["code", "when", "day"]].astype({"code": "str"}), visits["open"]
    model.fit(X, y).save("python.fastens")
    assert run("predict", "python.fastens", table, "-o", "out.csv").code == 0
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], probabilities("out.csv"))
    assert run("evaluate", "python.fastens", table, "--target", "open").code == 0


def test_a_model_of_an_array_of_dates(run, visits):
    when = visits["when"].dt.tz_localize(None).to_numpy()[:, None]
    model = fastens.RandomForestClassifier(5, random_state=0).fit(when, visits["open"])
    model.save("python.fastens")
    visits[["when"]].to_parquet("when.parquet", index=False)
    assert run("predict", "python.fastens", "when.parquet", "-o", "out.csv").code == 0
    np.testing.assert_array_equal(model.predict_proba(when)[:, 1], probabilities("out.csv"))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "sold", "town"])
def test_contributions_next_to_the_key(run, houses, write_csv, monkeypatch, target):
    keyed = houses.append_column("key", pa.array([f"K{n}" for n in range(300)])).filter(pc.is_valid(houses["town"]))
    path = write_csv(keyed)
    run("train", path, "--target", target, "--n-estimators", 5)
    command = ("predict", "model.fastens", path, "--keep", "key", "--contributions", "-o")
    assert run(*command, "out.csv").code == 0
    found = fastens.read_table("out.csv")
    assert found.column_names[0] == "key"
    assert found["key"].to_pylist() == keyed["key"].to_pylist()
    model = fastens.load("model.fastens")
    for label in model.classes_ if target == "town" else [None]:
        end = "" if label is None else f" for {label}"
        parts = [name for name in found.column_names if name.startswith("contribution of ") and name.endswith(end)]
        assert len(parts) == model.n_features_in_
        raw = np.sum([found[name].to_numpy() for name in [f"expected prediction{end}", *parts]], axis=0)
        if target == "price":
            np.testing.assert_allclose(raw, found["prediction"].to_numpy())
        if target == "sold":
            np.testing.assert_allclose(1 / (1 + np.exp(-raw)), found["probability yes"].to_numpy())
    monkeypatch.setattr("fastens.cli.explaining.subject.BATCH_CELLS", 200)
    assert run(*command, "pieces.csv").code == 0
    assert Path("pieces.csv").read_bytes() == Path("out.csv").read_bytes()


def test_models_without_contributions(run, houses, write_csv):
    path = write_csv(houses)
    run("train", path, "--target", "sold", "--model", "naive-bayes")
    result = run("predict", "model.fastens", path, "--contributions", "-o", "out.csv")
    assert result.code == 2
    assert result.err == "fastens: --contributions requires a model that predicts a sum of trees; got MixedNB\n"
    assert not Path("out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table.parquet", "table.csv"])
@pytest.mark.parametrize("family", ["boosting", "tree", "forest", "extra-trees", "adaboost", "bayes-tree", "voting"])
def test_columns_that_no_tree_splits_on_are_not_read(run, tmp_path, monkeypatch, family, form):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"used": rng.normal(size=400), "other": rng.integers(0, 9, 400), "near": 0.5})
    table["word"] = rng.choice(["a", "b"], 400)
    table["flag"] = rng.random(400) < 0.5
    table["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 400), unit="D")
    table["y"] = np.where(table["used"] > 0, "yes", "no")
    table.to_parquet("table.parquet", index=False)
    table.to_csv("table.csv", index=False)
    options = ["--members", "tree,forest"] if family == "voting" else ["--max-depth", 1]
    options += [] if family in ("tree", "bayes-tree", "voting") else ["--n-estimators", 3]
    given = ["--target", "y", "--model", family, "--test-fraction", 0, "-o", "m.fastens", *options]
    done = run("train", form, *given)
    assert done.code == 0, done.err
    model, seen = fastens.load("m.fastens"), []
    read = parts.FileParts.read
    monkeypatch.setattr(parts.FileParts, "read", lambda self, names: seen.append(list(names)) or read(self, names))
    assert run("predict", "m.fastens", form, "-o", "out.parquet", "--keep", "other").code == 0
    found = fastens.read_table("out.parquet")
    assert found.column_names[:2] == ["other", "prediction"]
    X = fastens.read_table(form).drop_columns(["y"])
    np.testing.assert_array_equal(found["probability yes"].to_numpy(), model.predict_proba(X)[:, 1])
    if family in ("boosting", "tree"):
        assert seen == [["other", "used", "day"]]


def test_one_of_several_tables_of_a_database(run, houses):
    with closing(sqlite3.connect("homes.db")) as database:
        for name, table in (("old", houses[:200]), ("new", houses[200:])):
            table.select(["area", "rooms", "town", "price"]).to_pandas().to_sql(name, database, index=False)
    assert run("train", "homes.db", "--sheet", "old", "--target", "price", "--n-estimators", 5).code == 0
    given = ("model.fastens", "homes.db", "--sheet", "new")
    assert run("predict", *given, "-o", "out.csv").code == 0
    assert len(pa.csv.read_csv("out.csv")) == 100
    assert "Scores on 100 rows" in run("evaluate", *given).out
    assert run("explain", *given, "--rows", 5, "-o", "page.html").code == 0
    refused = run("evaluate", "model.fastens", "out.csv", "--sheet", "new")
    assert (refused.code, "--sheet applies only to workbooks and databases; got CSV" in refused.err) == (2, True)


def test_parquet_names_with_blanks_and_without_letters_match_training(run, tmp_path):
    numbers = np.arange(60.0)
    columns = [numbers, numbers % 7, numbers % 5]
    table = pa.Table.from_arrays([*map(pa.array, columns)], names=[" size ", "", "price"])
    pyarrow.parquet.write_table(table, "homes.parquet")
    assert run("train", "homes.parquet", "--target", "price", "--n-estimators", 3, "-o", "m.fastens").code == 0
    result = run("predict", "m.fastens", "homes.parquet", "-o", "out.csv", "--keep", "size,column 2")
    assert result.code == 0, result.err
    assert fastens.read_table("out.csv").column_names == ["size", "column 2", "prediction"]


@pytest.mark.slow
def test_new_rows_are_read_as_the_table_of_training_was(run):
    rng = np.random.default_rng(1)
    ages = np.where(np.arange(200) % 9 == 5, -999, rng.integers(18, 80, 200))
    lines = ["data;miasto;wiek;cena;zgoda"]
    for i, age in enumerate(ages):
        town, price = ("Łódź", "Żory")[i % 2], f"{rng.normal(100, 20):.2f}".replace(".", ",")
        lines.append(f"{i * 7 % 28 + 1:02d}.{i % 12 + 1:02d}.2023;{town};{age};{price};{'tak' if age > 40 else 'nie'}")
    Path("t.csv").write_text("\n".join(lines) + "\n", encoding="cp1250")
    result = run("train", "t.csv", "--target", "zgoda", "--encoding", "cp1250", "--missing=-999", "--n-estimators", 5)
    assert result.code == 0, result.err
    cells = [line.split(";") for line in lines[:21]]
    cells[7][3], cells[9][0] = "drogo", "31.02.2023"
    Path("new.csv").write_text("\n".join(map(";".join, cells)) + "\n", encoding="cp1250")
    result = run("predict", "model.fastens", "new.csv", "-o", "-", "--keep-all")
    rows = rows_of(result.out)
    assert [row[:5] for row in rows] == cells
    assert [i for i, row in enumerate(rows) if row[-1] and i] == [7, 9]
    assert "'data': '31.02.2023' is not a date written as %d.%m.%Y" in rows[9][-1]
    assert "is text" not in result.err
    result = run("predict", "model.fastens", "new.csv", "-o", "strict.csv", "--strict", "--missing", "31.02.2023")
    assert "row 7: 'drogo' is not a number written like '1234,5'" in result.err
    options = ("--missing", "drogo", "--column", "data:date")
    assert "20 rows predicted" in run("predict", "model.fastens", "new.csv", "-o", "all.csv", *options).err
    assert "Scores on 18 rows" in run("evaluate", "model.fastens", "new.csv").out
    assert run("explain", "model.fastens", "new.csv", "-o", "page.html").code == 0
    assert "2023-02-08" in Path("page.html").read_text()

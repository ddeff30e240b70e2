"""The report of a model, and the table of contributions."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import fastens
from reference.report_pages import page


def train(run, path, target, *options):
    done = run("train", path, "--target", target, *options)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("leaves", [(), ("--linear-leaves", "--linear-leaves.l2", 5)])
def test_contributions_add_up(run, houses, write_csv, leaves):
    path = write_csv(houses.drop_columns("sold"))
    train(run, path, "price", "--n-estimators", 8, *leaves)
    assert run("explain", "model.fastens", path, "-o", "houses.html", "--contributions", "parts.csv").code == 0
    parts = pyarrow.csv.read_csv("parts.csv")
    assert parts.column_names[:3] == ["row", "expected prediction", "area"]
    run("predict", "model.fastens", path, "-o", "out.csv")
    total = np.sum([parts[name].to_numpy() for name in parts.column_names[1:]], axis=0)
    np.testing.assert_allclose(total, pyarrow.csv.read_csv("out.csv")["prediction"].to_numpy())


def test_a_model_without_contributions(run, houses, write_csv):
    path = write_csv(houses.drop_columns("price"))
    train(run, path, "sold", "--model", "naive-bayes")
    done = run("explain", "model.fastens", path, "--contributions", "parts.csv")
    assert done.code == 0
    assert "has no contributions" in done.err
    assert "How do their values affect predictions?" not in page().headings


def test_contributions_of_several_classes(run, houses, write_csv):
    table = houses.set_column(2, "town", houses["town"].fill_null("Bern"))
    path = write_csv(table)
    train(run, path, "town", "--n-estimators", 4)
    assert run("explain", "model.fastens", path).code == 0
    parts = pyarrow.parquet.read_table("report-contributions.parquet")
    assert parts.num_rows == 3 * 300
    assert parts["class"].to_pylist()[:4] == ["Aachen", "Bern", "Köln", "Aachen"]
    assert parts["row"].to_pylist()[:4] == [1, 1, 1, 2]
    page()


NASTY = '<script>alert("x")</script>&amp;'


@pytest.mark.parametrize("model", ["boosting", "naive-bayes"])
def test_names_and_values_are_text(run, houses, write_csv, model):
    table = houses.drop_columns("price").rename_columns(["area", "rooms", NASTY, "garden", "built", "sold"])
    table = table.set_column(2, NASTY, pa.array([f"{NASTY}{value}" for value in table[NASTY].to_pylist()]))
    path = write_csv(table.set_column(5, NASTY + "y", pa.array([f"</td>{v}" for v in table["sold"].to_pylist()])))
    train(run, path, NASTY + "y", "--model", model)
    assert run("explain", "model.fastens", path).code == 0
    found = page()
    assert "script" not in found.seen
    assert any(NASTY in text for text in found.texts)


@pytest.mark.slow
def test_rows_held_out_are_found_again(run, houses, write_csv):
    table = houses.drop_columns("price")
    path = write_csv(table)
    train(run, path, "sold", "--n-estimators", 3)
    run("explain", "model.fastens", path)
    assert "the 60 of 300 rows that training held out" in " ".join(page().texts)
    run("explain", "model.fastens", write_csv(table.slice(10), "other.csv"))
    assert "all 290 rows" in " ".join(page().texts)
    train(run, path, "sold", "--n-estimators", 3, "--test-fraction", 0)
    run("explain", "model.fastens", path)
    assert "trained on all rows of this table" in " ".join(page().texts)


def test_rows_without_weight_are_left_out_as_in_training(run, houses, write_csv):
    weight = np.where(np.arange(300) % 3, 2.0, 0.0)
    path = write_csv(houses.select(["area", "rooms", "sold"]).append_column("w", pa.array(weight)))
    train(run, path, "sold", "--n-estimators", 3, "--weight", "w")
    assert "The model was trained on 160 of these rows" in run("evaluate", "model.fastens", path, "--weight", "w").out
    run("explain", "model.fastens", path, "--weight", "w")
    assert "the 40 of 200 rows that training held out" in " ".join(page().texts)


def test_without_the_truth(run, houses, write_csv):
    path = write_csv(houses.drop_columns("price"))
    train(run, path, "sold", "--n-estimators", 3)
    done = run("explain", "model.fastens", write_csv(houses.drop_columns(["price", "sold"]), "new.csv"))
    assert (done.code, done.err) == (0, "")
    found = page()
    assert found.headings[0] == "Which columns matter?"
    assert "change of the predictions" in " ".join(found.texts)


@pytest.mark.slow
def test_a_model_from_python(run, houses, write_csv):
    table = houses.drop_columns(["sold", "built", "town"])
    path = write_csv(table)
    X = table.drop_columns("price").to_pandas()
    model = fastens.RandomForestRegressor(n_estimators=30, random_state=0)
    model.fit(X, table["price"].to_numpy()).save("forest.fastens")
    assert run("explain", "forest.fastens", path, "--target", "price").code == 0
    assert page().headings[:2] == ["Scores", "How large are the errors, and where?"]
    assert run("explain", "forest.fastens", path).code == 0
    assert page().headings[0] == "Which columns matter?"


def test_training_curve_if_kept(run, houses, write_csv):
    path = write_csv(houses.drop_columns("price"))
    train(run, path, "sold", "--early-stopping")
    run("explain", "model.fastens", path)
    found = page()
    assert "How did training go?" in found.headings
    assert "validation rows" in found.texts


def test_texts_by_their_words(run, write_csv):
    rng = np.random.default_rng(0)
    words = {"good": ["lovely", "bright"], "bad": ["broken", "late"]}
    labels = rng.choice(["good", "bad"], 80)
    texts = [f"the {rng.choice(words[label])} thing number {i}" for i, label in enumerate(labels)]
    path = write_csv(pa.table({"review": texts, "label": labels}))
    train(run, path, "label", "--text", "review")
    assert run("explain", "model.fastens", path).code == 0
    found = page()
    assert {"Which words matter?", "Why this prediction?"} <= set(found.headings)
    assert {"lovely", "broken"} <= set(found.texts)


def test_rows_of_the_table_of_contributions(run, houses, write_csv):
    path = write_csv(houses.drop_columns("sold"))
    train(run, path, "price", "--n-estimators", 3)
    done = run("explain", "model.fastens", path, "--rows", 10)
    assert "(10 of 300 rows)" in done.out
    parts = pyarrow.parquet.read_table("report-contributions.parquet")
    assert parts["row"].to_pylist() == list(range(1, 301, 30))


def test_a_column_may_be_called_row(run, houses, write_csv):
    names = ["row", "expected prediction", "town", "garden", "built", "price"]
    table = houses.drop_columns("sold").rename_columns(names)
    path = write_csv(table)
    train(run, path, "price", "--n-estimators", 3)
    assert run("explain", "model.fastens", path).code == 0
    parts = pyarrow.parquet.read_table("report-contributions.parquet")
    assert parts.column_names[:4] == ["row_", "expected prediction_", "row", "expected prediction"]


def test_constant_and_empty_columns(run, write_csv):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    table = pa.table({"x": x, "same": np.ones(60), "word": ["a"] * 60, "z": rng.normal(size=60), "y": x > 0})
    path = write_csv(table)
    train(run, path, "y", "--n-estimators", 3)
    z = pa.nulls(60, pa.float64())
    assert run("explain", "model.fastens", write_csv(table.set_column(3, "z", z), "no_z.csv")).code == 0
    page()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nowhere.fastens", "table.csv"), "no such file: nowhere.fastens"),
        (("damaged.fastens", "table.csv"), "cannot read the model damaged.fastens"),
        (("table.csv", "table.csv"), "cannot read the model table.csv"),
        (("model.fastens", "nowhere.csv"), "no such file: nowhere.csv"),
        (("model.fastens", "broken.parquet"), "cannot read broken.parquet as Parquet"),
        (("model.fastens", "less.csv"), "lacks column that the model was trained on: 'area'"),
        (("model.fastens", "table.csv", "-o", "report.txt"), "--output must end in .html; got report.txt"),
        (("model.fastens", "table.csv", "-o", "none/report.html"), "the folder none"),
        (
            ("model.fastens", "table.csv", "--contributions", "parts.xls"),
            "cannot write parts.xls: tables are written",
        ),
        (("model.fastens", "table.csv", "--target", "prise"), "--target must name a column of the table; got 'prise'"),
        (("model.fastens", "table.csv", "--target", "rooms"), "classes that the model was not trained on"),
        (("model.fastens", "table.csv", "--rows", "0"), "--rows must be at least 1; got 0"),
        (("model.fastens", "table.csv", "--rows", "many"), "invalid int value: 'many'"),
        (("model.fastens",), "the following arguments are required: TABLE"),
    ],
)
def test_wrong_input_is_one_line(run, houses, write_csv, tmp_path, options, message):
    path = write_csv(houses.drop_columns("price"))
    write_csv(houses.drop_columns(["price", "area"]), "less.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no table PAR1")
    train(run, path, "sold", "--n-estimators", 2)
    content = bytearray((tmp_path / "model.fastens").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "damaged.fastens").write_bytes(content)
    done = run("explain", *options)
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert message in done.err


@pytest.mark.slow
def test_rows_without_a_target_are_left_out_of_the_scores(run, houses, write_csv, tmp_path):
    price = np.array(houses["price"].to_pylist())
    price[::3] = np.nan
    some = houses.set_column(houses.column_names.index("price"), "price", pa.array(price, from_pandas=True))
    path = write_csv(some)
    assert run("train", path, "--target", "price", "--n-estimators", 5).code == 0
    for command in (("explain", "-o", "page.html"), ("evaluate",)):
        result = run(command[0], "model.fastens", path, *command[1:])
        assert (result.code, result.err) == (0, "")
        assert "Skipped, because the target 'price' is missing: 100 of 300 rows." in result.out
    assert fastens.read_table("page-contributions.parquet").num_rows == 300
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = [int(number) for number in re.findall(r"<h3>Row (\d+)<", page)]
    assert shown
    assert all(number % 3 != 1 for number in shown)  # counted in the whole table
    nothing = houses.set_column(houses.column_names.index("price"), "price", pa.nulls(300, pa.float64()))
    write_csv(nothing, "new.csv")
    assert run("explain", "model.fastens", "new.csv", "-o", "new.html").code == 0
    assert "missing in all rows" in run("evaluate", "model.fastens", "new.csv").err


def test_rows_shown_singly_are_counted_once(run, houses, write_csv):
    """The picture of contributions is of the rows that training held out, each of them once."""
    path = write_csv(houses.drop_columns("sold"))
    train(run, path, "price", "--n-estimators", 4)
    assert run("explain", "model.fastens", path).code == 0
    assert any("The plot shows 60 rows." in text for text in page().texts)


def test_steps_keep_their_values_where_names_are_long(run, houses, write_csv):
    long = "area of the ground and of all floors above it"
    names = [long if name == "area" else name for name in houses.column_names]
    table = houses.rename_columns(names).drop_columns("sold")
    table = table.set_column(0, long, pa.array(np.round(np.asarray(table[long]) * 1000, 1)))
    path = write_csv(table)
    train(run, path, "price", "--n-estimators", 4)
    assert run("explain", "model.fastens", path).code == 0
    steps = [text for text in page().texts if text.startswith("area") and "…" in text and " = " in text]
    assert steps
    assert {step.rpartition(" = ")[2] for step in steps} <= {f"{value:.7g}" for value in table[long].to_pylist()}

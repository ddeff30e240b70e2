"""The report of every kind of model, and the table of contributions."""

import re
from html.parser import HTMLParser

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import fastens
from fastens.cli.models import FAMILIES, families
from fastens.cli.target import CLASSIFICATION, REGRESSION

BOTH = [(name, task) for task in (CLASSIFICATION, REGRESSION) for name in families(task)]
FEW = {"boosting", "forest", "extra-trees", "bagging", "adaboost"}
VOID = {"meta"}


class Page(HTMLParser):
    """Checks that elements close in order; collects headings, texts, and whatever would be loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.texts, self.loaded = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def page(path="report.html"):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = Page(text)
    assert found.loaded == []
    assert "nan" not in re.sub(r"<style>.*?</style>|<text.*?</text>|<t[dh].*?</t[dh]>", "", text, flags=re.DOTALL)
    return found


def train(run, path, target, *options):
    done = run("train", path, "--target", target, *options)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("name", "task"), BOTH)
def test_every_family(run, houses, write_csv, name, task):
    target, other = ("sold", "price") if task == CLASSIFICATION else ("price", "sold")
    path = write_csv(houses.drop_columns(other))
    few = ("--n-estimators", 5) if name in FEW else ()
    members = ("--members", "tree,forest") if FAMILIES[name].is_composed and name != "cascade" else ()
    layers = ("--max-layers", 1) if name == "cascade" else ()
    train(run, path, target, "--model", name, *few, *members, *layers)
    done = run("explain", "model.fastens", path)
    assert (done.code, done.err) == (0, "")
    found = page()
    own = "Can the probabilities be trusted?" if task == CLASSIFICATION else "How wrong, and where?"
    assert found.headings[:3] == ["Scores", own, "Which columns matter?"]
    assert {"How do predictions depend on them?", "Why this prediction?", "The model"} <= set(found.headings)
    explains = hasattr(fastens.load("model.fastens"), "predict_contributions")
    assert ("contributions" in done.out) == explains == ("What do their values do?" in found.headings)


def test_contributions_add_up(run, houses, write_csv):
    path = write_csv(houses.drop_columns("sold"))
    train(run, path, "price", "--n-estimators", 8)
    assert run("explain", "model.fastens", path, "-o", "houses.html", "--contributions", "parts.csv").code == 0
    parts = pyarrow.csv.read_csv("parts.csv")
    assert parts.column_names[:3] == ["row", "expected prediction", "area"]
    run("predict", "model.fastens", path, "-o", "out.csv")
    total = np.sum([parts[name].to_numpy() for name in parts.column_names[1:]], axis=0)
    np.testing.assert_allclose(total, pyarrow.csv.read_csv("out.csv")["prediction"].to_numpy())


def test_linear_leaves_have_no_contributions(run, houses, write_csv):
    path = write_csv(houses.drop_columns("sold"))
    train(run, path, "price", "--n-estimators", 5, "--linear-leaves", "--linear-l2", 5)
    assert fastens.load("model.fastens").get_params()["linear_l2"] == 5
    done = run("explain", "model.fastens", path, "--contributions", "parts.csv")
    assert done.code == 0
    assert "has no contributions" in done.err
    assert "What do their values do?" not in page().headings


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

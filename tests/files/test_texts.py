"""Free text and lists of items among the text columns of a file."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.csv  # noqa: E402

import fastens  # noqa: E402
from fastens.files.csv_streams import CsvStream  # noqa: E402
from fastens.files.read import SAMPLE, analyzer_of, read  # noqa: E402
from fastens.files.schema import TableSchema  # noqa: E402

RNG = np.random.default_rng(0)
N = 120


def prose(words, n=N, least=4, most=25):
    """Texts of some of these words."""
    return [" ".join(RNG.choice(words.split(), RNG.integers(least, most))) for _ in range(n)]


ENGLISH = "the plot was thin but i liked every actor in this film and would watch it again with you tomorrow John Rome"
GERMAN = "der Film war gut und die Schauspieler haben mir gefallen aber das Ende kam viel zu schnell für diese Handlung"
RUSSIAN = "фильм был очень хорошим но конец мне совсем не понравился потому что он слишком длинный"
HEBREW = "הסרט היה טוב מאוד אבל הסוף לא מצא חן בעיני כי הוא ארוך מדי"
STREETS = ["Oak", "Elm", "Main", "North", "South", "Hill", "Park", "Lake"]


@pytest.mark.parametrize("words", [ENGLISH, GERMAN, RUSSIAN, HEBREW], ids=["English", "German", "Russian", "Hebrew"])
def test_free_text(words):
    texts = prose(words)
    assert analyzer_of(pa.chunked_array([texts])) == "word"
    assert analyzer_of(pa.chunked_array([pa.array([*texts, None, None], pa.large_string())])) == "word"


@pytest.mark.parametrize(
    "cells",
    [
        [f"Braund{i}, Mr. Allen{i % 50} Owen Harris of Springfield" for i in range(N)],
        [f"{i} North {RNG.choice(STREETS)} street, flat {i % 7}, Springfield, IL {60000 + i}" for i in range(N)],
        [f"{i} main street, flat {i % 7}, 2nd floor, springfield, il {60000 + i}" for i in range(N)],
        [f"https://shop.example.org/en/a-long-name-of-a-product-{i}/reviews?page={i}&sort=new" for i in range(N)],
        [f"the order {i} was shipped from the warehouse {i % 9} on monday" for i in range(N)],
        [f"PC {17000 + i}" for i in range(N)],
        [" ".join(f"{c:02x}" for c in RNG.integers(0, 256, RNG.integers(4, 20))).upper() for _ in range(N)],
        [" ".join(RNG.choice(["C23", "C25", "B57", "B59"], RNG.integers(4, 20))) for _ in range(N)],
        prose(ENGLISH, 40),  # too few distinct texts
        prose(ENGLISH, 5) * 60,  # long names of categories
        prose(ENGLISH, least=1, most=5),
        [None, None],
        [],
    ],
    ids=[
        *("names", "addresses", "lower-case addresses", "URLs", "log lines", "tickets", "hexadecimal", "cabins"),
        *("few", "categories", "short", "missing", "none"),
    ],
)
def test_names_addresses_and_codes_are_not_free_text(cells):
    assert analyzer_of(pa.chunked_array([pa.array(cells, pa.string())])) == ""


@pytest.fixture
def table():
    tags = [";".join(RNG.permutation(["tea", "cup", "pot", "mug"])[: RNG.integers(1, 4)]) for _ in range(SAMPLE + 200)]
    review = prose(ENGLISH, SAMPLE + 200)
    return pa.table({"review": review, "tags": tags, "shop": ["a", "b"] * (len(tags) // 2)})


def test_schemas_have_the_text_features(table, tmp_path):
    path = str(tmp_path / "t.csv")
    pyarrow.csv.write_csv(table, path)
    with pytest.warns(UserWarning, match=r"words and items of 'review', 'tags' if you pass text_features={'review'"):
        found, schema = fastens.read_table(path, return_schema=True)
    assert schema.text_features == {"review": "word", "tags": ";"}
    schema.save(tmp_path / "t.toml")
    assert TableSchema.load(tmp_path / "t.toml").text_features == schema.text_features
    assert CsvStream([path], TableSchema()).schema.text_features == schema.text_features
    y = ["actor" in text for text in found["review"].to_pylist()]
    model = fastens.DecisionTreeClassifier(max_depth=1, text_features=schema.text_features).fit(found, y)
    assert model.score(found, y) == 1
    assert 'tags: "pot"' in model.feature_parts_


@pytest.mark.filterwarnings("error")
def test_known_and_declared_columns_are_kept(table, tmp_path):
    path = str(tmp_path / "t.csv")
    pyarrow.csv.write_csv(table, path)
    text = {"review": "text", "tags": "text"}
    assert fastens.read_table(path, column_types=text, return_schema=True)[1].text_features == {}
    assert read(path, TableSchema.from_dict({"columns": text}), {}).schema.text_features == {}
    known = TableSchema.from_dict({"columns": {"review": {"type": "text", "analyzer": "char"}, "tags": "text"}})
    assert fastens.read_table(path, schema=known, return_schema=True)[1].text_features == {"review": "char"}

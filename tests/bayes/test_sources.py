"""Bayesian models learn from tables in batches: the counts, and so the models, are those of the table in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fastens as fe
from fastens.table import sources

N_ROWS = 500
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N_ROWS).round(1),
        "count": RNG.integers(0, 5, N_ROWS),
        "flag": RNG.random(N_ROWS) < 0.4,
        "word": RNG.choice(["low", "high", "middle"], N_ROWS),
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 400, N_ROWS), unit="D"),
        "weight": RNG.choice([0, 0.3, 1, 2.7], N_ROWS),
    }
)
FRAME.loc[::13, "size"] = np.nan
FRAME.loc[::7, "word"] = None
FRAME.loc[FRAME.index[-1], ["word", "weight"]] = ["absent", 0]
FRAME["kind"] = np.where(FRAME["count"] + FRAME["size"].fillna(0) > 2, "much", "little")
NUMBERS, COUNTS, CATEGORIES = ["size", "count"], ["count", "flag"], ["count", "flag", "word"]
ALL = [*CATEGORIES, "size", "when"]

MODELS = {
    "gaussian": (fe.GaussianNB(), NUMBERS),
    "categorical": (fe.CategoricalNB(), CATEGORIES),
    "categorical fractions": (fe.CategoricalNB(), ["size", "word"]),
    "bernoulli": (fe.BernoulliNB(binarize=1.5), ["count"]),
    "multinomial": (fe.MultinomialNB(), ["count"]),
    "complement": (fe.ComplementNB(), ["count"]),
    "mixed": (fe.MixedNB(), ALL),
    "mixed kinds": (fe.MixedNB(kinds={"count": "categorical", "size": "bernoulli"}), ALL),
    "tan": (fe.TANClassifier(), ALL),
    "tan with room": (fe.TANClassifier(unseen="smooth"), ALL),
    "aode": (fe.AODEClassifier(), CATEGORIES),
    "a2de": (fe.AODEClassifier(order=2), CATEGORIES),
    "tan of categories": (fe.TANClassifier(), ["flag", "word"]),
    "a2de of categories": (fe.AODEClassifier(order=2, unseen="smooth"), ["flag", "word"]),
    "mixed kinds of texts": (fe.MixedNB(kinds={"word": "categorical", "flag": "bernoulli"}), CATEGORIES),
    "network": (fe.BayesianNetwork(), CATEGORIES),
    "network of bins": (fe.BayesianNetwork("tan", max_bins=4), ALL),
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "BATCH_ROWS", 37)


def state_of(model):
    arrays, state = model._to_state()
    return arrays, {name: value for name, value in state.items() if name != "metadata"}


def assert_same(model, other):
    (arrays, state), (others, other_state) = state_of(model), state_of(other)
    assert state == other_state
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(others[name], array, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("kind", MODELS)
def test_models_match_the_table_in_memory(kind, weight, tmp_path):
    model, columns = MODELS[kind]
    used = [*columns, "kind", *([weight] if weight else [])]
    FRAME[used].to_parquet(tmp_path / "rows.parquet", row_group_size=150)
    table = pa.Table.from_pandas(FRAME[used])
    whole = clone(model).fit(FRAME[columns], FRAME["kind"], None if weight is None else FRAME[weight])
    streamed = clone(model).fit(tmp_path / "rows.parquet", "kind", weight)
    assert_same(whole, streamed)
    found, expected = streamed.predict_proba(tmp_path / "rows.parquet"), whole.predict_proba(FRAME[columns])
    # Inference in networks adds up the rows of a batch together.
    np.testing.assert_allclose(found, expected, rtol=1e-13 if "network" in kind else 0)
    one_pass = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=60))
    assert_same(whole, clone(model).fit(one_pass, "kind", weight))


WORDS = ["flag", "word"]
INTEGERS = ["count"]  # 64-bit integers: are they exact as floats?
PASSES = {
    "gaussian": [NUMBERS],
    "categorical": [INTEGERS, WORDS, CATEGORIES],
    "categorical fractions": [["word"], *[["size", "word"]] * 3],  # they are no positions; their values; the counts
    "bernoulli": [["count"]],
    "multinomial": [["count"]],
    "complement": [["count"]],
    "mixed": [WORDS, ALL],
    "mixed kinds": [CATEGORIES, ALL],
    "tan": [INTEGERS, WORDS, ALL, ALL],  # categories, bins of numbers, and the counts
    "tan of categories": [WORDS, WORDS],
    "aode": [INTEGERS, WORDS, CATEGORIES, CATEGORIES],
    "a2de of categories": [WORDS, WORDS],
    "network": [CATEGORIES, CATEGORIES],
    "network of bins": [WORDS, ALL],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PASSES)
def test_passes_over_a_table(kind, tmp_path, monkeypatch):
    model, columns = MODELS[kind]
    FRAME[[*columns, "kind"]].to_parquet(tmp_path / "rows.parquet")
    batches, seen = watched(tmp_path / "rows.parquet", monkeypatch)
    clone(model).fit(batches, "kind")
    assert seen == [["kind"], *PASSES[kind]]


def watched(path, monkeypatch):
    """A table, and the columns of each pass over it."""
    batches = sources.open_batches(path)
    read, seen = batches._reader.read, []
    monkeypatch.setattr(batches._reader, "read", lambda names: seen.append(names) or read(names))
    return batches, seen


@pytest.mark.slow
def test_columns_of_texts_without_any(tmp_path):
    """They are columns of numbers, of which none is known: found out when all rows have been read."""
    frame = FRAME[["word", "count", "kind"]].assign(none=pd.Series([None] * N_ROWS, dtype="str"))
    frame.to_parquet(tmp_path / "rows.parquet")
    X = frame[["word", "none"]]
    models = [fe.CategoricalNB(), fe.MixedNB(), fe.MixedNB(kinds={"none": "categorical"}), fe.TANClassifier()]
    for model in [*models, fe.TANClassifier(categorical_features=["word", "none"])]:
        source = sources.open_batches(tmp_path / "rows.parquet").select(["word", "none", "kind"])
        assert_same(clone(model).fit(X, frame["kind"]), clone(model).fit(source, "kind"))


@pytest.mark.slow
def test_the_first_rows_of_a_source_for_a_model_that_learns_more(tmp_path):
    FRAME[[*CATEGORIES, "kind"]].to_parquet(tmp_path / "rows.parquet")
    classes = ["little", "much"]
    whole = fe.TANClassifier().partial_fit(FRAME[CATEGORIES], FRAME["kind"], classes)
    stream = pa.Table.from_pandas(FRAME[[*CATEGORIES, "kind"]]).to_reader(50)
    for table in (tmp_path / "rows.parquet", stream):
        assert_same(whole, fe.TANClassifier().partial_fit(table, "kind", classes))
    assert_same(
        whole.partial_fit(FRAME[CATEGORIES], FRAME["kind"]),
        fe.TANClassifier()
        .partial_fit(tmp_path / "rows.parquet", "kind", classes)
        .partial_fit(tmp_path / "rows.parquet", "kind"),
    )


def test_a_fault_in_one_kind_of_column_ends_all(tmp_path):
    frame = FRAME[ALL + ["kind"]].copy()
    frame.loc[10, "size"] = np.inf
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="infinity: column 'size'"):
        fe.MixedNB().fit(tmp_path / "rows.parquet", "kind")
    with open(tmp_path / "rows.parquet", "r+b") as file:
        file.seek(2000)
        file.write(b"x" * 2000)
    with pytest.raises((OSError, ValueError), match=r"rows\.parquet"):
        fe.MixedNB().fit(tmp_path / "rows.parquet", "kind")


def clone(model):
    return type(model)(**model.get_params())


TEXTS = [f"{' '.join(RNG.choice(list('abcdefgh'), 9))} word{k % 7} word{k % 3}".replace(" ", "x ") for k in range(200)]
LABELS = np.where(np.arange(200) % 3 == 0, "spam", "ham")


@pytest.mark.parametrize("weight", [None, RNG.choice([0, 0.3, 1, 2.7], 200)], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": "count", "min_df": 2, "max_df": 0.9, "ngram_range": (1, 2)},
        {"model": "complement", "features": "count", "max_features": 6},
        {"model": "bernoulli", "min_df": 0.05},
    ],
)
def test_texts_in_batches(options, weight, tmp_path):
    texts = [None, *TEXTS[1:]]
    pd.DataFrame({"text": texts, "label": LABELS}).to_parquet(tmp_path / "texts.parquet")
    pd.DataFrame({"text": texts}).to_parquet(tmp_path / "new.parquet")
    whole = fe.TextClassifier(**options).fit(pd.DataFrame({"text": texts}), LABELS, weight)
    model = fe.TextClassifier(**options).fit(str(tmp_path / "texts.parquet"), "label", weight)
    assert_same(whole, model)
    np.testing.assert_array_equal(model.predict_proba(tmp_path / "new.parquet"), whole.predict_proba(texts))
    # The column that `fit` did not see is ignored.
    np.testing.assert_array_equal(model.predict_proba(tmp_path / "texts.parquet"), whole.predict_proba(texts))


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_texts_with_a_ceiling(kind):
    """A list of texts is a table to `TableSource` too."""
    texts = kind([None, *TEXTS[1:]])
    whole = fe.TextClassifier().fit(texts, LABELS)
    model = fe.TextClassifier().fit(fe.TableSource(texts, max_memory="1GB"), LABELS)
    np.testing.assert_array_equal(model.predict_proba(fe.TableSource(texts)), whole.predict_proba(texts))
    with pytest.raises(ValueError, match="max_memory must be at least"):
        fe.TextClassifier().fit(fe.TableSource(texts, max_memory="1MB"), LABELS)
    with pytest.raises(ValueError, match=r"X must be a two-dimensional table.*got 1"):
        fe.TextClassifier().fit(fe.TableSource(kind([0.5, 1.5])), LABELS[:2])


def test_texts_are_read_once(tmp_path, monkeypatch):
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_parquet(tmp_path / "texts.parquet")
    batches, seen = watched(tmp_path / "texts.parquet", monkeypatch)
    fe.TextClassifier().fit(batches, "label")
    assert seen == [["label"], ["text"]]


def test_texts_without_words_in_batches(tmp_path):
    pd.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}).to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(ValueError, match=r"words of at least two letters or digits .* empty vocabulary"):
        fe.TextClassifier().fit(tmp_path / "texts.parquet", "label")
    pd.DataFrame({"text": ["aa", "bb"], "label": ["x", "y"]}).to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(ValueError, match="min_df and max_df do not remove: After pruning, no terms remain"):
        fe.TextClassifier(min_df=2).fit(tmp_path / "texts.parquet", "label")


def test_more_rows_of_a_source(tmp_path):
    FRAME[[*CATEGORIES, "kind"]].to_parquet(tmp_path / "rows.parquet")
    first, rest = FRAME[:200], FRAME[200:]
    whole = fe.CategoricalNB().partial_fit(first[CATEGORIES], first["kind"], ["little", "much"])
    model = fe.CategoricalNB().partial_fit(first[CATEGORIES], first["kind"], ["little", "much"])
    rest[[*CATEGORIES, "kind"]].to_parquet(tmp_path / "rest.parquet")
    model.partial_fit(tmp_path / "rest.parquet", "kind")
    assert_same(whole.partial_fit(rest[CATEGORIES], rest["kind"]), model)


@pytest.mark.parametrize("columns", [["when", "word", "flag"], ["flag", "word", "when"], ["word", "flag"]])
def test_more_rows_of_a_source_in_another_order(columns):
    first, rest = FRAME[:200], FRAME[200:]
    whole, model = fe.MixedNB(), fe.MixedNB()
    for learner in (whole, model):
        learner.partial_fit(first[columns], first["kind"], ["little", "much"])
    table = pa.Table.from_pandas(rest[["kind", *columns[::-1]]])
    assert_same(whole.partial_fit(rest[columns], rest["kind"]), model.partial_fit(lambda: table.to_reader(50), "kind"))


def test_a_network_without_a_class(tmp_path):
    FRAME[[*CATEGORIES, "weight"]].to_parquet(tmp_path / "rows.parquet")
    whole = fe.BayesianNetwork().fit(FRAME[CATEGORIES], sample_weight=FRAME["weight"])
    assert_same(whole, fe.BayesianNetwork().fit(tmp_path / "rows.parquet", sample_weight="weight"))


def test_faults_name_the_column(tmp_path):
    frame = FRAME[["size", "kind"]].copy()
    frame.loc[N_ROWS - 1, "size"] = np.inf
    frame.to_parquet(tmp_path / "rows.parquet")
    for model, message in (
        (fe.GaussianNB(), "infinity: column 'size'"),
        (fe.CategoricalNB(), "infinity: column 'size'"),
        (fe.MultinomialNB(), "column 'size' must hold finite numbers of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(tmp_path / "rows.parquet", "kind")

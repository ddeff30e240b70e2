"""Integers that 64-bit floats do not hold stay apart wherever they are categories, labels or queries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import (
    AODEClassifier,
    BaggingClassifier,
    BayesianNetwork,
    CategoricalNB,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    MixedNB,
    RandomForestClassifier,
    TableSource,
    TANClassifier,
    VotingClassifier,
    load,
)

pa = pytest.importorskip("pyarrow")

FIRST = 2**53
VALUES = [FIRST, FIRST + 1, FIRST + 2, FIRST + 3] * 20
WITH_NONE = [None, *VALUES[1:]]
Y = np.array([0, 1] * 40)
TABLES = {
    "array": np.array(VALUES)[:, None],
    "unsigned": (np.array(VALUES, dtype=np.uint64) + np.uint64(2**63))[:, None],
    "list": [[value] for value in VALUES],
    "negative": [[-value] for value in VALUES],
    "beyond 64 bits": [[value << 40] for value in VALUES],
    "objects": pd.DataFrame({"a": pd.Series(WITH_NONE, dtype=object)}),
    "masked": np.ma.array(np.array(VALUES)[:, None], mask=(np.arange(80) == 0)[:, None]),
    "pandas": pd.DataFrame({"a": VALUES}),
    "next to floats": pd.DataFrame({"a": VALUES, "b": np.arange(80.0)}),
    "nullable": pd.DataFrame({"a": pd.array(WITH_NONE, dtype="Int64")}),
    "nullable unsigned": pd.DataFrame({"a": pd.array(WITH_NONE, dtype="UInt64")}),
    "pandas of Arrow": pd.DataFrame({"a": pd.array(WITH_NONE, dtype="int64[pyarrow]")}),
    "polars": pl.DataFrame({"a": WITH_NONE}),
    "Arrow": pa.table({"a": pa.array(WITH_NONE, pa.uint64())}),
    "source": TableSource(pa.table({"a": WITH_NONE})),
    "stream": lambda: pa.table({"a": WITH_NONE}).to_reader(16),
}
MODELS = {
    "CategoricalNB": CategoricalNB(),
    "TAN": TANClassifier(),
    "AODE": AODEClassifier(),
    "named": MixedNB(kinds={0: "categorical"}),
    "network": BayesianNetwork("tan"),
    "tree": GradientBoostingClassifier(n_estimators=3, categorical_features=[0], min_samples_leaf=1),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_categories_are_exact(name, kind, tmp_path):
    X, model = TABLES[kind], MODELS[name]
    model.fit(X, Y)
    categories = model._encoder.categories[0]
    assert len(categories) == 4
    assert all(type(value) is int for value in categories)
    assert np.mean(model.predict(X) == Y) > 0.98
    model.save(tmp_path / "model")
    assert load(tmp_path / "model")._encoder.categories[0] == categories


@pytest.mark.parametrize(
    "model",
    [
        BaggingClassifier(CategoricalNB(), 5, random_state=0),
        VotingClassifier([("a", CategoricalNB()), ("b", CategoricalNB())]),
    ],
    ids=["bag", "vote"],
)
@pytest.mark.parametrize("kind", ["array", "pandas", "nullable", "polars"])
def test_members_get_exact_values(model, kind):
    X = TABLES[kind]
    assert model.fit(X, Y).score(X, Y) > 0.98


TARGETS = {
    "list": VALUES,
    "unsigned": [value + 2**63 for value in VALUES],
    "nullable": pd.Series(VALUES, dtype="Int64"),
    "Arrow": pa.chunked_array([VALUES]),
    "polars": pl.Series(VALUES),
    "categories": pd.Series(VALUES).astype("category"),
}


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_labels_are_exact(y):
    X = np.arange(80.0)[:, None] % 4
    model = GradientBoostingClassifier(n_estimators=3, min_samples_leaf=1).fit(X, y)
    assert len(model.classes_) == 4
    assert model.score(X, y) == 1


def test_labels_that_would_be_rounded():
    X = np.arange(80.0)[:, None] % 4
    with pytest.raises(
        ValueError, match=r"y must hold labels that a single numeric type represents exactly.*got 9007199254740993"
    ):
        GradientBoostingClassifier().fit(X, [float(FIRST), *VALUES[1:]])
    with pytest.raises(ValueError, match=r"labels that fit into 64-bit integers; got \d+\. Pass the labels as strings"):
        GradientBoostingClassifier().fit(X, [value << 40 for value in VALUES])
    frame = pd.DataFrame({"a": VALUES, "b": np.array(VALUES, dtype=np.uint64) + np.uint64(2**63)})
    model = RandomForestClassifier(3, random_state=0).fit(X, frame)
    assert [len(classes) for classes in model.classes_] == [4, 4]


@pytest.mark.parametrize(
    "as_query",
    [lambda q: q + FIRST, lambda q: [int(v) + 2**63 for v in q], lambda q: [int(v) + FIRST << 40 for v in q]],
)
def test_queries_are_exact(as_query):
    rng = np.random.default_rng(0)
    X, y, query = rng.normal(size=(80, 2)), rng.integers(0, 3, 80), np.repeat(np.arange(20), 4)
    expected = GradientBoostingRanker(n_estimators=4).fit(X, y, qid=query).predict(X)
    found = GradientBoostingRanker(n_estimators=4).fit(X, y, qid=as_query(query)).predict(X)
    np.testing.assert_array_equal(found, expected)

"""Tables of any type of numbers use no more memory than tables of float32."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import fastens
from fastens.engine import parts
from fastens.table.parts import take_rows
from reference.public_estimators import CLASSES, make, shrink_default_members

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16")
SHAPE = 20_000, 40
SLACK_OF_BLOCKS = 3.3e6  # two blocks of 4096 rows; a copy of the table as float64 takes 6.4 MB
SLACK_OF_MOMENTS = 1.1e7  # two blocks of 16384 rows, whose moments GaussianNB and MixedNB add up
SLACK = 5e6  # two blocks of floats, and of what they are made of
ESTIMATORS = {
    "GradientBoostingRegressor": {"n_estimators": 2},
    "RandomForestClassifier": {"n_estimators": 2},
    "ExtraTreesRegressor": {"n_estimators": 2},
    "DecisionTreeClassifier": {"max_depth": 3},
    "AdaBoostClassifier": {"n_estimators": 2},
    "IsolationForest": {"n_estimators": 2},
}


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).integers(0, 100, SHAPE).astype(np.int8)


def named(numbers, dtype):
    return {f"c{index}": column.astype(dtype) for index, column in enumerate(numbers.T)}


def nullable(numbers, dtype):
    name = dtype.title().replace("Uint", "UInt")
    return pd.DataFrame({key: pd.array(column, dtype=name) for key, column in named(numbers, dtype).items()})


def mixed(numbers, dtype):
    frame = pd.DataFrame(named(numbers, dtype))
    return frame.assign(c1=pd.Categorical(numbers[:, 1] % 5))


KINDS = {
    "array": lambda numbers, dtype: numbers.astype(dtype),
    "sparse": lambda numbers, dtype: csr_array((numbers * (numbers < 10)).astype(dtype)),
    "pandas": lambda numbers, dtype: pd.DataFrame(numbers.astype(dtype)).add_prefix("c"),
    "mixed": mixed,
    "nullable": nullable,
    "polars": lambda numbers, dtype: pl.DataFrame(named(numbers, dtype)),
    "arrow": lambda numbers, dtype: pa.table(named(numbers, dtype)),
}


def peaks(name, X, y):
    """The peaks of a fit and of a prediction, and the prediction."""
    found = []
    model = getattr(fastens, name)(**ESTIMATORS[name])
    if hasattr(model, "random_state"):
        model.set_params(random_state=0)
    given = () if name == "IsolationForest" else (y,)
    for method in (lambda: model.fit(X, *given), lambda: model.predict(X)):
        gc.collect()
        tracemalloc.start()
        try:
            answer = method()
            found.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return np.array(found), answer


def check(name, kind, numbers, types):
    y = numbers[:, 0] > 50
    expected, answer = peaks(name, KINDS[kind](numbers, "float32"), y)
    for dtype in types:
        found, own = peaks(name, KINDS[kind](numbers, dtype), y)
        assert (found <= 1.05 * expected + SLACK).all(), (dtype, found, expected)
        if dtype != "bool":
            np.testing.assert_array_equal(own, answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_arrays(numbers, name):
    check(name, "array", numbers, ("int8", "int64"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "array"])
def test_kinds(numbers, kind):
    check("GradientBoostingRegressor", kind, numbers, ("int8", "int64"))


NO_TABLE = {
    "FiniteHypothesisLearner": "takes no table of numbers",
    "TextClassifier": "takes no table of numbers",
    "TableEncoder": "returns a table of floats",
}
FEW = {"n_estimators": 2, "random_state": 0, "max_layers": 1, "cv": 2, "n_jobs": 1, "max_depth": 3}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - NO_TABLE))
def test_every_estimator(numbers, name, monkeypatch):
    shrink_default_members(monkeypatch, 2)
    X = (numbers % 4).astype(np.int8)
    y = X[:, 0] + X[:, 1] > 3
    if name == "VersionSpaceClassifier":
        X, y = (X[:, :5] > 1).astype(np.int8), X[:, 0] > 1
    if name == "GradientBoostingSurvival":
        y = np.column_stack([y + 1.0, y + 1.0])

    def found(dtype):
        table = X.astype(dtype)
        model = make(name, **{key: value for key, value in FEW.items() if key in make(name).get_params()})
        answer = getattr(model, "predict", None) or model.transform
        model.fit(table[:100], y[:100])  # what is imported and kept by a first fit
        sizes = []
        for method in (lambda: model.fit(table, y), lambda: answer(table)):
            gc.collect()
            tracemalloc.start()
            try:
                method()
                sizes.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        return np.array(sizes)

    expected = found("float32")
    narrow = ("int8", "float16", "bool")[sorted(CLASSES).index(name) % 3]
    for dtype in (narrow, "int64"):
        sizes = found(dtype)
        slack = SLACK_OF_MOMENTS if name in ("GaussianNB", "MixedNB") else SLACK_OF_BLOCKS
        assert (sizes <= 1.05 * expected + slack).all(), (dtype, sizes, expected)


@pytest.mark.parametrize("name", ["BernoulliNB", "ComplementNB", "MultinomialNB", "GaussianNB", "CategoricalNB"])
@pytest.mark.parametrize("dtype", ["bool", "float16", "int8", "uint16"])
def test_naive_bayes_of_blocks(numbers, name, dtype, monkeypatch):
    monkeypatch.setattr(parts, "CONVERTED_BLOCK", 64)
    X, y = (numbers[:300, :4] % 3).astype(dtype), numbers[:300, 5] > 50
    weight = np.linspace(0.1, 1, 300)
    found, expected = (make(name).fit(table, y, weight).predict_proba(table) for table in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(found, expected)
    make(name).partial_fit(X, y, [False, True]).partial_fit(X, y)


def test_unseen_categories_are_named_in_later_blocks(numbers, monkeypatch):
    monkeypatch.setattr(parts, "CONVERTED_BLOCK", 64)
    X, y = (numbers[:300, :4] % 3).astype(np.float16), numbers[:300, 5] > 50
    model = fastens.CategoricalNB(unseen="error").fit(X, y)
    X[250, 2] = 9
    with pytest.raises(ValueError, match="Column 2 must hold categories seen in fit; row 250 holds 9"):
        model.predict(X)


@pytest.mark.parametrize("big", [3, 2**24 + 1, 2**53])
def test_all_rows_at_once_are_float32_where_that_is_exact(big, monkeypatch):
    monkeypatch.setattr(parts, "CONVERTED_BLOCK", 64)
    X = np.arange(400).reshape(-1, 4)
    X[60, 1] = big
    found = parts.as_array(parts.ConvertedRows.of_array(X))
    np.testing.assert_array_equal(found, X.astype(np.float64))
    assert found.dtype == (np.float32 if big != 2**24 + 1 else np.float64)
    assert parts.in_memory(parts.ConvertedRows.of_array(X)).dtype == np.float64


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_all_types(numbers, kind):
    check("GradientBoostingRegressor", kind, numbers, TYPES if kind == "array" else TYPES[:-1])


def test_large_integers_round_as_one_table_does():
    X = 2**53 + np.arange(40, dtype=np.int64).reshape(-1, 2)
    rows = parts.ConvertedRows.of_array(X)
    np.testing.assert_array_equal(parts.as_array(rows), X.astype(np.float64))


@pytest.mark.parametrize("name", ["GradientBoostingRegressor", "RandomForestClassifier", "BaggingClassifier"])
def test_blocks_do_not_matter(numbers, name, monkeypatch):
    X, y = numbers[:300, :4], numbers[:300, 0] > 50
    model = getattr(fastens, name)(n_estimators=3, random_state=0)
    expected = model.fit(X.astype(np.float64), y).predict(X.astype(np.float64))
    monkeypatch.setattr(parts, "CONVERTED_BLOCK", 64)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)
    frame = pd.DataFrame(named(X, "int16"))
    np.testing.assert_array_equal(model.fit(frame, y).predict(frame.astype("Int8")), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "pandas", "nullable", "polars", "arrow"])
@pytest.mark.parametrize("member", ["DecisionTreeClassifier", "CategoricalNB"])
def test_members_on_rows_of_wide_integers(numbers, kind, member):
    table = (numbers % 4).astype(np.int8)
    y = table[:, 0] + table[:, 1] > 3
    sizes, answers = [], []
    for dtype in ("float32", "int64"):
        X = KINDS[kind](table, dtype)
        stack = fastens.StackingClassifier([("a", make(member)), ("b", make(member))], cv=2, n_jobs=1)
        stack.set_params(**{f"{name}__max_depth": 3 for name in "ab"} if member == "DecisionTreeClassifier" else {})
        stack.fit(X[:100], y[:100])
        gc.collect()
        tracemalloc.start()
        try:
            answers.append(stack.fit(X, y).predict_proba(X[:50]))
            sizes.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    np.testing.assert_array_equal(*answers)
    assert sizes[1] <= 1.05 * sizes[0] + SLACK_OF_BLOCKS


@pytest.mark.parametrize("kind", ["array", "pandas", "nullable", "polars", "arrow"])
def test_rows_are_narrowed_only_where_they_fit(numbers, kind):
    table = np.column_stack([numbers[:50, 0], numbers[:50, 1].astype(np.int64) << 40])
    rows = np.array([3, 1, 1, 40])
    narrow = take_rows(KINDS[kind](table[:, :1], "int64"), rows, narrows=True)
    assert "32" in str(narrow.dtype if kind == "array" else pa.table(narrow).schema.field(0).type)
    for wide in (table, table[:, 1:]):
        X = KINDS[kind](wide, "int64")
        taken = take_rows(X, rows, narrows=True)
        np.testing.assert_array_equal(np.asarray(taken, dtype=np.float64), wide[rows])
        assert type(taken) is type(X)


def test_members_of_other_libraries_get_rows_in_their_own_type(numbers):
    seen = set()

    class Watched(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.add(X.dtype)
            return super().fit(X, y, sample_weight)

    X = numbers[:200, :4].astype(np.int64)
    fastens.StackingClassifier([("a", Watched()), ("b", fastens.GaussianNB())]).fit(X, X[:, 0] > 50)
    assert seen == {np.dtype(np.int64)}

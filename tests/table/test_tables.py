"""Tables of any kind: columns by name, categories by value."""

from __future__ import annotations

import datetime
import json

import narwhals
import narwhals.stable.v1
import narwhals.stable.v2
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import fastens as fe
from fastens.engine.parts import dense_blocks
from fastens.table.encoder import InputEncoder
from fastens.table.sources import is_source
from fastens.table.tables import ArrayTable, join_categorical_flags, table_from_frame

pa = pytest.importorskip("pyarrow")

DATA = {
    "number": [1.5, None, -2.0, 4.0],
    "whole": [1, 2, 3, None],
    "word": ["b", "a", None, "b"],
    "flag": [True, False, None, True],
}
EXPECTED = np.array([[1.5, 1, 1, 1], [np.nan, 2, 0, 0], [-2, 3, np.nan, np.nan], [4, np.nan, 1, 1]])


def as_pandas(data):
    frame = pd.DataFrame(data)
    return frame.astype({"whole": "Int64", "word": "category"}) if set(DATA) <= set(data) else frame


FRAMES = {"pandas": as_pandas, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(params=FRAMES)
def make_frame(request):
    return FRAMES[request.param]


@pytest.fixture(params=FRAMES)
def make_other(request):
    return FRAMES[request.param]


def fit(frame, categorical_features="from_dtype"):
    return InputEncoder.fit(table_from_frame(frame), categorical_features)


def test_types_decide_what_is_a_category(make_frame):
    table = table_from_frame(make_frame(DATA))
    encoder = InputEncoder.fit(table)
    assert encoder.names == list(DATA)
    assert encoder.categories == [None, None, ["a", "b"], [False, True]]
    np.testing.assert_array_equal(encoder.is_categorical, [False, False, True, True])
    np.testing.assert_array_equal(encoder.transform(table), EXPECTED)


def test_columns_by_name_and_categories_by_value(make_frame, make_other):
    encoder = fit(make_frame(DATA))
    other = make_other({name: DATA[name][::-1] for name in reversed(DATA)})
    np.testing.assert_array_equal(encoder.transform(encoder.matched(other, "a model")), EXPECTED[::-1])


def test_codes_of_categories_do_not_count():
    encoder = fit(pd.DataFrame({"word": pd.Categorical(["b", "a"], categories=["b", "a", "never"])}))
    assert encoder.categories == [["a", "b"]]
    frames = [
        pd.DataFrame({"word": pd.Categorical(["a", "b"], categories=["zzz", "b", "a"])}),
        pd.DataFrame({"word": np.array(["a", "b"], dtype=object)}),
        pl.DataFrame({"word": ["a", "b"]}, schema={"word": pl.Enum(["b", "c", "a"])}),
        pl.DataFrame({"word": ["a", "b"]}, schema={"word": pl.Categorical}),
        pa.table({"word": pa.array(["a", "b"]).dictionary_encode()}),
    ]
    for frame in frames:
        np.testing.assert_array_equal(encoder.transform(encoder.matched(frame, "a model")), [[0], [1]])


@pytest.mark.parametrize(
    "values",
    [
        pd.cut(pd.Series([0.5, 2.5, 0.7]), [0, 1, 2, 3]),
        pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", "2020-01-01"])),
        pd.Categorical(pd.PeriodIndex(["2020-01", "2021-01", "2020-01"], freq="M")),
        pd.Categorical(pd.to_timedelta([1, 3, 1], unit="D")),
        pd.Categorical([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2020, 1, 1)]),
        pd.Categorical([datetime.time(5), datetime.time(6), datetime.time(5)]),
    ],
    ids=["intervals", "dates", "periods", "durations", "days", "times"],
)
def test_categories_known_by_their_text(values, tmp_path):
    frame = pd.DataFrame({"a": values})
    first, second = map(str, frame["a"].iloc[:2])
    assert fit(frame).categories == [[first, second]]
    model = fe.CategoricalNB().fit(frame, ["x", "y", "x"])
    model.save(tmp_path / "model.fastens")
    again = fe.load(tmp_path / "model.fastens")
    np.testing.assert_array_equal(again.predict(frame[::-1]), ["x", "y", "x"])
    np.testing.assert_array_equal(again.predict(pd.DataFrame({"a": [second, first]})), ["y", "x"])


def test_unseen_categories_are_missing(make_frame):
    encoder = fit(make_frame({"word": ["b", "a"]}))
    out = encoder.transform(encoder.matched(make_frame({"word": ["c", "a"]}), "a model"))
    np.testing.assert_array_equal(out, [[np.nan], [0]])
    with pytest.warns(UserWarning, match="Column 'word' holds numbers, such as 1.0 of type float; fit saw text, such"):
        out = encoder.transform(table_from_frame(make_frame({"word": [1.0, 2.0]})))
    np.testing.assert_array_equal(out, [[np.nan]] * 2)


def test_float32_where_nothing_is_lost(make_frame):
    single = np.array([0.1, 0.2], dtype=np.float32)
    double = single.astype(np.float64)
    assert fit(make_frame({"a": single})).transform(table_from_frame(make_frame({"a": single}))).dtype == np.float32
    frame = make_frame({"a": single, "b": ["x", "y"]})
    assert fit(frame).transform(table_from_frame(frame)).dtype == np.float32
    frame = make_frame({"a": single, "b": double})
    assert fit(frame).transform(table_from_frame(frame)).dtype == np.float64


def test_pandas_floats_are_not_copied():
    values = np.arange(12.0).reshape(4, 3)
    table = table_from_frame(pd.DataFrame(values, copy=False))
    assert np.shares_memory(InputEncoder.fit(table).transform(table), values)


def test_pandas_frames_of_whole_numbers(rng):
    values = rng.integers(-2, 3, (50, 3))
    one_block = pd.DataFrame(values, columns=list("abc"), copy=False)
    several = pd.DataFrame({"a": values[:, 0]})
    several["b"], several["c"] = values[:, 1], values[:, 2]
    mixed = several.astype({"b": np.int8})
    assert table_from_frame(one_block).block is not None
    assert np.shares_memory(table_from_frame(one_block).block, values)
    assert table_from_frame(several).block is None
    for frame in (one_block, several, mixed):
        table = table_from_frame(frame)
        encoder = InputEncoder.fit(table, "all")
        assert encoder.categories == [np.unique(column).tolist() for column in values.T]
        backwards = encoder.matched(frame[["c", "b", "a"]], "a model")
        np.testing.assert_array_equal(encoder.transform(backwards), encoder.transform(table))
        np.testing.assert_array_equal(InputEncoder.fit(table).transform(table_from_frame(frame)), values)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("Int8", "f8"), ("UInt64", "f8"), ("Float64", "f8"), ("Float32", "f4"), ("int64[pyarrow]", "f8")]
    + [("float[pyarrow]", "f4"), ("double[pyarrow]", "f8"), ("Sparse[float64]", "f8")],
)
def test_numbers_of_pandas_own_types(kind, dtype):
    frame = pd.DataFrame({"a": [3, None, 5], "b": [1, 2, None]}, dtype=kind)
    found = fit(frame).transform(table_from_frame(frame))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [[3, 1], [np.nan, 2], [5, np.nan]])


# Before pandas 3 "str" makes objects, and words of what is missing.
OWN_STRINGS = ["str"] if pd.Series(["a"]).dtype == "str" else []


@pytest.mark.parametrize(
    "kind", [*OWN_STRINGS, "string", "string[python]", "string[pyarrow]", pd.ArrowDtype(pa.string())]
)
def test_strings_of_pandas_own_types(kind):
    frame = pd.DataFrame({"word": ["b", None, "a"], "nothing": [None] * 3}).astype(kind)
    encoder = fit(frame)
    assert encoder.categories == [["a", "b"], []]
    np.testing.assert_array_equal(encoder.transform(table_from_frame(frame)), [[1, np.nan], [np.nan] * 2, [0, np.nan]])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, "x", 2]], columns=["a", "b", "a"]),
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
    ids=["mixed", "floats", "arrow"],
)
def test_frames_with_a_name_twice_are_refused(frame):
    with pytest.raises(ValueError, match="X must have unique column names"):
        table_from_frame(frame)


@pytest.mark.parametrize("kind", ["object", "string", "null"])
@pytest.mark.parametrize(
    "model",
    [
        fe.GradientBoostingClassifier(n_estimators=2),
        fe.MixedNB(),
        fe.BaggingClassifier(n_estimators=3, random_state=0),
        fe.VotingClassifier([("tree", fe.DecisionTreeClassifier()), ("nb", fe.MixedNB())]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_without_a_value_in_fit_may_hold_anything_later(model, kind):
    """As the rows of a fold may, of a column of few words: no model knows anything of the column."""
    frame = pd.DataFrame({"a": np.arange(60.0), "note": pd.Series([None] * 60, dtype=object)})
    given = pl.from_pandas(frame) if kind == "null" else frame.astype({"note": kind})
    model = clone(model).fit(given, np.arange(60) > 30)
    for values in (["late"] * 60, np.arange(60.0)):
        np.testing.assert_array_equal(model.predict(frame.assign(note=values)), model.predict(frame))


def test_numbers_next_to_parts_without_a_value_are_not_categories():
    frame = pd.DataFrame({"note": pd.Series([None] * 30 + [1.5, 2.5, None] * 10, dtype=object)})
    parts = [table_from_frame(part) for part in (frame[:30], frame[30:])]
    assert join_categorical_flags([part.categorical_by_type() for part in parts]) == [False]
    assert join_categorical_flags([parts[0].categorical_by_type()] * 2) == [None]


def test_objects():
    values = np.array([[1, "x", True, None], [2.5, "y", None, None], [None, None, False, np.nan]], dtype=object)
    table = ArrayTable(values)
    encoder = InputEncoder.fit(table)
    assert encoder.categories == [None, ["x", "y"], [False, True], []]
    expected = [[1, 0, 1, np.nan], [2.5, 1, np.nan, np.nan], [np.nan, np.nan, 0, np.nan]]
    np.testing.assert_array_equal(encoder.transform(table), expected)
    frame = pd.DataFrame(values, columns=list("abcd"))
    np.testing.assert_array_equal(fit(frame).transform(table_from_frame(frame)), expected)


def test_strings_of_numpy():
    table = ArrayTable(np.array([["x", "1"], ["y", "2"]]))
    assert InputEncoder.fit(table).categories == [["x", "y"], ["1", "2"]]


def test_categories_in_an_array_of_numbers():
    values = np.array([[3.0, 0.5], [np.nan, 0.7], [1.0, 0.9], [3.0, 0.5]])
    table = ArrayTable(values)
    for chosen in ([0], [True, False], np.array([0])):
        encoder = InputEncoder.fit(table, chosen)
        assert encoder.categories == [[1.0, 3.0], None]
        np.testing.assert_array_equal(encoder.transform(table)[:, 0], [1, np.nan, 0, 1])
    assert InputEncoder.fit(table, None).categories == InputEncoder.fit(table, []).categories == [None, None]


def test_chosen_by_name(make_frame):
    frame = make_frame({"a": [2, 1], "b": [0.5, 1.5]})
    assert fit(frame, ["a"]).categories == [[1, 2], None]


def test_categories_without_rows_are_none():
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y", None, "y"], categories=["z", "y", "x"])})
    encoder = InputEncoder.fit(table_from_frame(frame))
    assert encoder.categories == [["x", "y"]]
    np.testing.assert_array_equal(encoder.transform(table_from_frame(frame))[:, 0], [0, 1, np.nan, 1])


def test_an_unknown_convention_is_not_ignored():
    state = InputEncoder.fit(table_from_frame(pd.DataFrame({"a": ["x", "y"]}))).to_state()
    with pytest.raises(ValueError, match="unknown entries: zero_is_missing"):
        InputEncoder.from_state(state | {"zero_is_missing": [0]})


def test_state_is_json(make_frame):
    encoder = fit(make_frame(DATA))
    again = InputEncoder.from_state(json.loads(json.dumps(encoder.to_state())))
    np.testing.assert_array_equal(again.transform(again.matched(make_frame(DATA), "a model")), EXPECTED)


def test_errors_of_columns(make_frame):
    numbers = fit(make_frame({"a": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"Column 'a' must hold numbers; row 1 holds 'x' of type str"):
        numbers.transform(numbers.matched(make_frame({"a": ["30000", "x"]}), "a model"))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- b\n.*now missing:\n- a\n"):
        numbers.matched(make_frame({"b": [1.0]}), "a model")


def test_columns_that_fit_did_not_see_are_left_out(make_frame):
    encoder = fit(make_frame(DATA))
    more = make_frame({"more": ["x"] * 4, **{name: DATA[name] for name in reversed(DATA)}, "whole ": [1] * 4})
    np.testing.assert_array_equal(encoder.transform(encoder.matched(more, "a model")), EXPECTED)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([2], "column indices from 0 to 1; got 2"),
        ([-1], "column indices from 0 to 1; got -1"),
        ([0.5], "column indices from 0 to 1; got 0.5"),
        (["a"], "name columns of X; got 'a', and X has no column names"),
        ([(0, 1), (1,)], r"be column names, column indices or a mask; got \[\(0, 1\), \(1,\)\]"),
        ([True], r"2 entries if it is a mask; got shape \(1,\)"),
    ],
)
def test_errors_of_categorical_features(chosen, message):
    with pytest.raises(ValueError, match=f"categorical_features must.*{message}"):
        InputEncoder.fit(ArrayTable(np.ones((3, 2))), chosen)


def test_categories_must_be_plain():
    frame = pd.DataFrame({"a": pd.Categorical([b"2026"])})
    with pytest.raises(ValueError, match="Column 'a' must hold categories that are strings, numbers or booleans"):
        fit(frame)


def test_dense_blocks(rng):
    sparse = pytest.importorskip("scipy.sparse")
    X = rng.integers(0, 2, (10, 3)).astype(np.float64)
    for source in (X, sparse.csr_array(X)):
        blocks = list(dense_blocks(source, 4))
        assert [first for first, _ in blocks] == [0, 4, 8]
        np.testing.assert_array_equal(np.vstack([block for _, block in blocks]), X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("version", [narwhals, narwhals.stable.v1, narwhals.stable.v2])
def test_frames_of_any_version_of_narwhals(version):
    table = pd.DataFrame({"size": np.arange(30.0) % 7, "word": list("abc") * 10, "price": np.arange(30.0)})
    model = fe.RandomForestRegressor(n_estimators=2, random_state=0).fit(table[["size", "word"]], table["price"])
    expected = model.predict(table)
    for native in (table, pl.from_pandas(table), pl.from_pandas(table).lazy(), pa.table(table)):
        frame = version.from_native(native)
        assert is_source(frame) == isinstance(native, pl.LazyFrame)
        np.testing.assert_array_equal(model.predict(frame), expected)
        fitted = fe.RandomForestRegressor(n_estimators=2, random_state=0).fit(frame, "price")
        np.testing.assert_array_equal(fitted.predict(frame), expected)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "csr_array"])
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("indices", 3, 10**6), ("indices", 3, -1), ("indptr", -1, 10**6), ("indptr", 2, -5), ("indptr", 0, 1)],
)
def test_sparse_matrices_whose_places_are_none_of_theirs_are_refused(form, name, place, value):
    X = getattr(sparse, form)(np.arange(1.0, 41.0).reshape(10, 4))
    getattr(X, name)[place] = value
    for model in (fe.MultinomialNB(), fe.BayesianNetwork(), fe.VersionSpaceClassifier(noise=0.1)):
        with pytest.raises(ValueError, match=r"X must have (an indptr|indices)"):
            model.fit(X, np.arange(10) % 2)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
@pytest.mark.parametrize(
    "model",
    [
        fe.GradientBoostingClassifier(n_estimators=2, categorical_features=[0]),
        fe.AdaBoostClassifier(n_estimators=2, categorical_features=[0]),
        fe.IsolationForest(n_estimators=2, categorical_features=[0], random_state=0),
        fe.ExactTreeAverageClassifier(max_questions=4, n_thresholds=1, categorical_features=[0]),
        fe.MixedNB(kinds=["categorical", "gaussian"]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_sparse_rows_are_predicted_by_models_that_learned_categories(model, form, rng):
    X = np.column_stack([rng.integers(0, 4, 60), rng.normal(size=60)])
    model = clone(model).fit(X, X[:, 0] % 2)
    np.testing.assert_array_equal(model.predict(getattr(sparse, form)(X)), model.predict(X))


@pytest.mark.parametrize(
    "learn",
    [
        lambda X, y, weight: fe.GradientBoostingRegressor(n_estimators=1).fit(X, y, weight),
        lambda X, y, weight: fe.MultinomialNB().partial_fit(X, y, [0, 1], weight),
        lambda X, y, weight: fe.IsolationForest(n_estimators=1).fit(X, sample_weight=weight),
        lambda X, y, weight: fe.VotingRegressor([("tree", fe.DecisionTreeRegressor())]).fit(X, y, weight),
        lambda X, y, weight: fe.BayesianNetwork().fit(X),
        lambda X, y, weight: fe.tune(X, y, "classification", sample_weight=weight, time_limit=1.0),
        lambda X, y, weight: fe.bias_variance_decomposition(fe.DecisionTreeRegressor(), X, y, n_rounds=2),
        lambda X, y, weight: fe.DecisionTreeRegressor().fit(X.toarray(), y).plot_dependence(X, 0),
    ],
)
def test_sparse_indices_are_checked_before_rows_are_selected(learn, monkeypatch):
    X, y = sparse.csr_matrix(np.arange(1.0, 41.0).reshape(10, 4)), np.arange(10) % 2
    array = X.toarray()
    X.indptr[-1] = 10**6
    monkeypatch.setattr(type(X), "toarray", lambda self, *given: array)
    monkeypatch.setattr(type(X), "__getitem__", lambda self, key: sparse.csr_matrix(array[key]))
    with pytest.raises(ValueError, match="X must have an indptr that ends with"):
        learn(X, y, np.arange(10) % 3)


@pytest.mark.parametrize("code", [9, -7])
def test_pandas_codes_of_no_category_are_refused(code):
    codes = np.array([0, 1, 2, code] * 5, dtype=np.int8)
    table = pd.DataFrame({"a": pd.Categorical.from_codes(codes, ["x", "y", "z"], validate=False)})
    with pytest.raises(ValueError, match="codes from -1 to 2"):
        fe.DecisionTreeRegressor().fit(table, np.arange(20.0))


def test_many_columns_of_numbers_are_not_looked_at_one_by_one():
    class Unread(list):
        def __iter__(self):
            raise AssertionError("read")

    X = np.ones((1, 3))
    assert InputEncoder(None, Unread([None] * 3)).transform(ArrayTable(X)) is X

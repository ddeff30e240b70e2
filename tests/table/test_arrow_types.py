"""Columns of Arrow of every type: they are read, or the error names the type."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from fastens import CategoricalNB, DecisionTreeClassifier, GradientBoostingClassifier, TableSource

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

TEXTS = pa.array(["a", "b", "c", None] * 10)
Y = np.array([0, 1, 0, 1] * 10)
DATES = pa.array([datetime.datetime(2024, 1, 1 + row % 28, row % 24) for row in range(40)])


class Own(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.string(), "fastens.test")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


RUNS = pa.array([10, 20, 30, 40], pa.int32())
AS_TEXTS = {
    "runs": pc.run_end_encode(TEXTS),
    "runs of large texts": pc.run_end_encode(TEXTS.cast(pa.large_string())),
    "slice of runs": pc.run_end_encode(pa.chunked_array([["x"] * 3, TEXTS.to_pylist()]).combine_chunks())[3:],
    "view": TEXTS.cast(pa.string_view()),
    "dictionary": TEXTS.cast(pa.large_string()).dictionary_encode(),
    "own": pa.ExtensionArray.from_storage(Own(), TEXTS),
}


def table(column):
    return pa.table({"a": column, "b": np.arange(40.0) % 7})


@pytest.mark.parametrize("column", AS_TEXTS.values(), ids=AS_TEXTS)
@pytest.mark.parametrize("model", [GradientBoostingClassifier(n_estimators=3, min_samples_leaf=1), CategoricalNB()])
def test_texts_of_any_type(model, column):
    expected = model.fit(table(TEXTS), Y).predict_proba(table(TEXTS))
    for X in (table(column), TableSource(table(column)), lambda: table(column).to_reader(16)):
        model.fit(X, Y)
        assert model._encoder.categories[0] == ["a", "b", "c"]
        np.testing.assert_array_equal(model.predict_proba(table(column)), expected)
        np.testing.assert_array_equal(model.predict_proba(table(TEXTS)), expected)


@pytest.mark.parametrize(
    "values", [pa.array(list("abcd")).cast(pa.string_view()), pa.array(list("abcd")).dictionary_encode()], ids=range(2)
)
def test_runs_that_arrow_itself_does_not_decode(values):
    column = pa.RunEndEncodedArray.from_arrays(RUNS, values)
    plain = pa.array(np.repeat(list("abcd"), 10).tolist())
    model = DecisionTreeClassifier(random_state=0).fit(table(column), Y)
    expected = DecisionTreeClassifier(random_state=0).fit(table(plain), Y).predict_proba(table(plain))
    np.testing.assert_array_equal(model.predict_proba(table(column)), expected)
    np.testing.assert_array_equal(model.predict_proba(table(column)[5:]), expected[5:])


def test_runs_of_numbers_dates_and_targets():
    for plain in (pa.array(np.arange(40) % 5), pa.array(np.arange(40) % 5 / 2), DATES):
        model = GradientBoostingClassifier(n_estimators=3, min_samples_leaf=1).fit(table(plain), Y)
        same = GradientBoostingClassifier(n_estimators=3, min_samples_leaf=1).fit(table(pc.run_end_encode(plain)), Y)
        assert same.feature_parts_ == model.feature_parts_
        np.testing.assert_array_equal(same.predict_proba(table(plain)), model.predict_proba(table(plain)))
    target = pc.run_end_encode(pa.array(np.where(Y, "yes", "no").tolist()))
    X = table(TEXTS).append_column("y", pa.chunked_array([target]))
    for given in (X, TableSource(X), X.to_reader()):
        assert GradientBoostingClassifier(n_estimators=2).fit(given, "y").classes_.tolist() == ["no", "yes"]
    assert GradientBoostingClassifier(n_estimators=2).fit(table(TEXTS), target).classes_.tolist() == ["no", "yes"]


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this Arrow has no UUIDs")
def test_types_of_arrow_beyond_the_usual():
    X = table(pa.array([bytes([row % 3] * 16) for row in range(40)], pa.uuid()))
    model = GradientBoostingClassifier(n_estimators=2).fit(X, Y)
    assert model._encoder.categories[0][1] == "01010101-0101-0101-0101-010101010101"
    X = table(pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1] * 20, pa.int8())))
    assert GradientBoostingClassifier(n_estimators=2).fit(X, Y)._encoder.categories[0] == [False, True]


REFUSED = {
    "binary": TEXTS.cast(pa.binary()),
    "fixed_size_binary": pa.array([b"ab"] * 40, pa.binary(2)),
    "list_view": pa.array([[1, 2]] * 40, pa.list_view(pa.int64())),
    "struct": pa.array([{"a": 1}] * 40),
    "month_day_nano_interval": pa.array([(1, 2, 3)] * 40, pa.month_day_nano_interval()),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0] * 40, pa.int8()), pa.array(range(40), pa.int32()), [pa.array(range(40))]
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_name_the_type(kind):
    with pytest.raises(ValueError, match=f"(?i)Column 'a' must hold numbers; it holds {kind}"):
        GradientBoostingClassifier(n_estimators=2).fit(table(REFUSED[kind]), Y)

"""A frame that has been read teaches an estimator what the frame itself does, whichever rows it is cut to."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier

from fastens import (
    BaggingClassifier,
    CascadeForestClassifier,
    ConformalClassifier,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    MixedNB,
    RandomForestClassifier,
    StackingClassifier,
    TableSource,
    TextClassifier,
    TuningConfig,
    VersionSpaceClassifier,
    VotingClassifier,
    plot_decision_boundary,
    tune,
)
from fastens.combining.folds import _reads_tables
from fastens.combining.responses import MemberError
from fastens.table.encoder import InputEncoder
from fastens.table.parts import hstack, read_table, take_columns, take_rows, with_fixed_dtypes
from fastens.table.tables import table_from_frame


def frames():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["u", "v", "w"], 60).astype(object)
    kinds[::7] = None
    columns = {
        "whole": rng.integers(0, 9, 60),
        "real": rng.normal(size=60),
        "kind": kinds.tolist(),
        "flag": rng.random(60) < 0.5,
        "none": [None] * 60,
    }
    typed = pd.DataFrame(columns).astype({"kind": "category", "whole": "Int64"})
    typed.loc[3, "whole"] = pd.NA
    floats = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    return [pd.DataFrame(columns), typed, pl.DataFrame(columns), floats, floats.astype(np.float32)]


@pytest.mark.parametrize("frame", frames(), ids=["pandas", "typed", "polars", "floats", "float32"])
def test_parts_of_a_read_table_match_the_frame(frame):
    read = read_table(frame)
    assert read.shape == frame.shape
    missing = np.flatnonzero(nw.from_native(frame, eager_only=True)[:, 2].is_null().to_numpy())
    for rows in (np.arange(0, 60, 3), np.arange(59, -1, -1), missing):
        for columns in (None, [2, 0]):
            own = take_columns(take_rows(read, rows), columns)
            other = take_columns(take_rows(frame, rows), columns)
            encoder, expected = InputEncoder.fit(own), InputEncoder.fit(table_from_frame(other))
            assert encoder.to_state() == expected.to_state()
            found, given = encoder.transform(own), expected.transform(table_from_frame(other))
            assert found.dtype == given.dtype or np.array_equal(found, given, equal_nan=True)
            np.testing.assert_array_equal(found, given)


def test_objects_that_may_be_either_are_not_read():
    assert read_table(pd.DataFrame({"a": np.array([1.0, "x", 2.0], dtype=object)})) is None
    assert read_table(pd.DataFrame({"a": pd.date_range("2020", periods=3)})) is None


def test_a_stack_on_a_frame_has_the_members_that_the_folds_give_alone():
    frame = frames()[0]
    y = (frame["real"] > 0).to_numpy()
    folds = [(np.arange(0, 40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    forest = RandomForestClassifier(10, random_state=0)
    assert _reads_tables(forest)
    model = StackingClassifier([("forest", forest)], cv=folds, n_jobs=2).fit(frame, y)
    for (train, test), own in zip(folds, model.estimators_[0], strict=True):
        alone = RandomForestClassifier(10, random_state=0).fit(frame.iloc[train], y[train])
        assert own.feature_names_in_.tolist() == list(frame)
        np.testing.assert_array_equal(own.predict_proba(frame), alone.predict_proba(frame))
        np.testing.assert_array_equal(model.oof_predictions_["forest"][test], alone.predict_proba(frame.iloc[test]))


def rare_words():
    """A table whose column of numbers holds a word in one row, and labels."""
    values = np.array([1, 2.5, 3.0, None] * 10, dtype=object)
    values[7] = "one"
    return pd.DataFrame({"a": values, "b": np.arange(40.0)}), np.arange(40) % 2


@pytest.mark.parametrize(
    "model",
    [
        BaggingClassifier(n_estimators=2, sampling="rows", random_state=0),
        BaggingClassifier(GradientBoostingClassifier(n_estimators=1), n_estimators=2, random_state=0),
        StackingClassifier([("boosting", GradientBoostingClassifier(n_estimators=1))]),
        CascadeForestClassifier([("forest", RandomForestClassifier(2))], max_layers=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_members_read_words_that_their_own_rows_do_not_have(model):
    X, y = rare_words()
    assert model.fit(X, y).predict(X).shape == y.shape


def test_rows_are_taken_of_numbers_in_the_other_order_of_bytes():
    frame = pd.DataFrame({"a": np.arange(6, dtype=">i4"), "b": np.arange(6.0), "c": np.arange(6, dtype=">f8")})
    rows = np.array([4, 1, 1])
    assert take_rows(frame, rows).to_numpy().tolist() == frame.to_numpy()[rows].tolist()
    assert str(frame["a"].to_numpy().dtype) == ">i4"
    y = np.arange(6) % 2
    bag = BaggingClassifier(DummyClassifier(), 2, random_state=0).fit(frame, y, sample_weight=[0, 1, 2, 1, 1, 1])
    assert bag.predict(frame).shape == (6,)


def test_trials_read_words_that_their_folds_do_not_have():
    X, y = rare_words()
    search = TuningConfig(families=("forest",), n_trials=1, n_folds=2)
    assert tune(X, y, "classification", search=search).best is not None


def test_columns_of_words_that_some_rows_may_lack_are_settled():
    X, _ = rare_words()
    assert [str(dtype) for dtype in with_fixed_dtypes(X).dtypes] == ["category", "float64"]
    assert X["a"].dtype == object
    for column in (["a", None], ["a", 1], [True, None]):
        assert with_fixed_dtypes(pd.DataFrame({"a": pd.Series(column, dtype=object)}))["a"].dtype == "category"
    for column in (["a", "b"], [1, None], [[1], "a"], [True, False], [np.datetime64("2020-01-01"), "a"], [None, None]):
        frame = pd.DataFrame({"a": pd.Series(column, dtype=object)})
        assert with_fixed_dtypes(frame) is frame


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_members_read_frames_of_narwhals(make):
    table = make({"a": ["x", None, "y"] * 10, "b": np.arange(30.0)})
    y = np.arange(30) % 3
    voting = VotingClassifier([("tree", DecisionTreeClassifier()), ("forest", RandomForestClassifier(n_estimators=2))])
    voting.set_params(voting="soft", forest__random_state=0)
    expected = voting.fit(table, y).predict_proba(table)
    frame = nw.from_native(table)
    np.testing.assert_array_equal(voting.fit(frame, y).predict_proba(frame), expected)


def test_dictionaries_of_arrow_in_pandas_are_categories_unchanged():
    words = pd.Series(["x", None, "y"]).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    frame = pd.DataFrame({"a": words})
    assert with_fixed_dtypes(frame) is frame


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_members_read_the_one_word_of_a_column(make):
    """Where it is missing in all rows of a fold."""
    X = make({"a": ["one", *[None] * 39], "b": np.arange(40.0)})
    model = StackingClassifier([("boosting", GradientBoostingClassifier(n_estimators=1))], cv=2)
    assert len(model.fit(X, np.arange(40) % 2).predict(X)) == 40


@pytest.mark.parametrize("word", ["rare", 1])
def test_bayesian_members_do_not_know_words_of_other_folds(word):
    X = pd.DataFrame({"a": pd.Series([word, None, *["b", "c"] * 29], dtype=object)})
    y = np.arange(60) % 2
    rest = np.arange(20, 60)
    model = StackingClassifier([("bayes", MixedNB())], cv=[(rest, np.arange(20))]).fit(X, y)
    probability = MixedNB().fit(X[20:], y[20:]).predict_proba(X[:20])
    np.testing.assert_array_equal(model.oof_predictions_["bayes"][:20], probability)


def test_members_of_other_libraries_get_the_columns_unchanged():
    class Seen(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            self.dtype_ = X["a"].dtype
            return super().fit(X, y, sample_weight)

    X, y = rare_words()
    model = VotingClassifier([("other", Seen()), ("forest", RandomForestClassifier(2))]).fit(X, y)
    assert model.named_estimators_["other"].dtype_.kind == "O"


@pytest.mark.parametrize("names", [[1, 2], [("a", 1), ("a", 2)], pd.MultiIndex.from_product([["a"], [1, 2]])])
def test_columns_next_to_those_without_texts_as_names(names):
    table = pd.DataFrame([[1, "x"], [2, "y"]]).set_axis(names, axis=1)
    found = hstack(np.array([[0.5], [1.5]]), ["new"], table)
    assert found.columns.tolist() == ["new", *map(str, names)]
    assert found.to_numpy().tolist() == [[0.5, 1, "x"], [1.5, 2, "y"]]
    assert list(table.columns) == list(names)


def test_members_on_a_source_read_words_and_numbers_part_by_part():
    frame = frames()[0]
    y = np.arange(len(frame)) % 2
    make = StackingClassifier([("bayes", MixedNB())])
    expected = make.fit(frame, y).predict_proba(frame)
    np.testing.assert_array_equal(make.fit(TableSource(frame), y).predict_proba(TableSource(frame)), expected)


@pytest.mark.parametrize("member", [VersionSpaceClassifier(), ConformalClassifier(MixedNB())])
def test_members_that_take_rows_in_any_order_need_the_table_itself(member):
    frame, model = frames()[0], StackingClassifier([("member", member)])
    with pytest.raises(
        MemberError, match=f"a table in memory for {type(member).__name__}, .* instead of a TableSource"
    ):
        model.fit(TableSource(frame), np.arange(len(frame)) % 2)


def test_members_of_other_libraries_need_the_table_itself():
    X, model = np.arange(24.0).reshape(12, 2), VotingClassifier([("ridge", RidgeClassifier())])
    with pytest.raises(MemberError, match="X must be a table in memory for models of other libraries; got one"):
        model.fit(TableSource(X), np.arange(12) % 2)


@pytest.mark.parametrize("model", [RandomForestClassifier(n_estimators=1), ConformalClassifier(MixedNB())])
def test_columns_of_a_source_are_named_in_errors(model):
    for table in (frames()[0], frames()[2], frames()[0].rename(columns={"none": 0})):
        with pytest.raises(ValueError, match="columns must name columns of X; got 'hole', and the columns are"):
            model.fit(TableSource(table, columns=["whole", "hole", "flag"]), "flag")
        with pytest.raises(ValueError, match=r"columns must list each column once.*got 'real' twice"):
            model.fit(TableSource(table, columns=["real", "whole", "real", "flag"]), "flag")
        model.fit(TableSource(table, columns=["whole", "real", "flag"]), "flag")


def test_rows_are_taken_of_views_of_texts_and_of_runs():
    texts = pa.chunked_array([["good film", "bad film"] * 2, ["good music", "bad music"]])
    runs = pa.compute.run_end_encode(pa.array([1, 1, 2, 2, 3, 3]))
    table = pa.table({"a": texts.cast(pa.string_view()), "b": runs, "c": range(6)})
    plain = pa.table({"a": texts, "b": [1, 1, 2, 2, 3, 3], "c": range(6)})
    rows = np.array([4, 1, 1])
    for views in (table, nw.from_native(table)):
        assert take_rows(views, rows).to_pydict() == plain.take(rows).to_pydict()
    y = np.arange(6) % 2
    weight = [0, 1, 2, 1, 1, 1]
    bags = [BaggingClassifier(DummyClassifier(), 2, random_state=0).fit(X, y, weight) for X in (table, plain)]
    np.testing.assert_array_equal(bags[0].predict(table), bags[1].predict(plain))
    model = TextClassifier().fit(table["a"], y, weight)
    np.testing.assert_array_equal(model.predict_proba(table["a"]), model.predict_proba(texts))
    plot_decision_boundary(DecisionTreeClassifier().fit(plain, y), table, y, features=["a", "c"])

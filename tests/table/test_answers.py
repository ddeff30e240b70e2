"""Predictions for streams come as streams, the same to the bit as those for the table in memory."""

from __future__ import annotations

import doctest
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator

import fastens as fe
from fastens.table import sources
from fastens.table.answers import ANSWERS

N_ROWS = 400
RNG = np.random.default_rng(5)
X = pd.DataFrame(
    {
        "size": RNG.normal(size=N_ROWS),
        "count": RNG.integers(0, 5, N_ROWS),
        "word": RNG.choice(["low", "high", None], N_ROWS),
    }
)
NUMBERS = X["size"].to_numpy() + (X["word"] == "low").to_numpy() + RNG.normal(size=N_ROWS) / 5
KINDS = np.select([NUMBERS > 1, NUMBERS > 0], ["dear", "fair"], "cheap")
TABLE = pa.Table.from_pandas(X.assign(unknown="?"))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "BATCH_ROWS", 41)


def stream(table=TABLE, n_rows=130):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=n_rows))


def values_of(found):
    assert isinstance(found, pa.RecordBatchReader)
    return np.column_stack([column.to_numpy() for column in found.read_all().columns])


SMALL = {"n_estimators": 4, "random_state": 0}
MODELS = {
    "boosting": (fe.GradientBoostingRegressor(**SMALL), NUMBERS),
    "quantiles": (fe.GradientBoostingRegressor(**SMALL, loss="quantile", quantile=[0.1, 0.5, 0.9]), NUMBERS),
    "classes": (fe.GradientBoostingClassifier(**SMALL), KINDS),
    "forest": (fe.RandomForestRegressor(**SMALL, keep_leaves=True, oob_score=True, bootstrap=True), NUMBERS),
    "votes": (fe.RandomForestClassifier(**SMALL), KINDS),
    "additive": (fe.AdaBoostClassifier(**SMALL), KINDS),
    "bayes": (fe.MixedNB(), KINDS),
    "pairs": (fe.AODEClassifier(), KINDS),
    "network": (fe.BayesianNetwork(max_bins=4), KINDS),
    "spaces": (fe.ExactTreeAverageClassifier(), KINDS),
    "stack": (fe.StackingClassifier([("tree", fe.DecisionTreeClassifier())], random_state=0), KINDS),
    "cascade": (fe.CascadeForestClassifier(max_layers=1, random_state=0), KINDS),
    "conformal": (fe.ConformalRegressor(fe.DecisionTreeRegressor(), random_state=0), NUMBERS),
    "isolation": (fe.IsolationForest(**SMALL), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_every_method_answers_streams(kind, tmp_path):
    model, y = MODELS[kind]
    model = model.fit(X, y)
    X.to_parquet(tmp_path / "rows.parquet")
    asked = 0
    for name in ANSWERS:
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            expected = method(X)
        except (ValueError, AttributeError):  # of what this model has not learned
            continue
        expected = np.asarray(expected)
        found = values_of(method(stream()))
        np.testing.assert_array_equal(found, expected.reshape(N_ROWS, -1), err_msg=name)
        np.testing.assert_array_equal(method(tmp_path / "rows.parquet"), expected, err_msg=name)
        asked += 1
    assert asked > 0


@pytest.mark.slow
def test_stacks_that_see_the_columns_read_tables_in_batches():
    frame = X.assign(day=pd.Timestamp("2026-01-01") + pd.to_timedelta(RNG.integers(0, 99, N_ROWS), unit="D"))
    table = pa.Table.from_pandas(frame.assign(kind=KINDS))

    def fitted(rows):
        members = [("tree", fe.DecisionTreeClassifier(max_depth=3)), ("bayes", fe.MixedNB())]
        final = fe.GradientBoostingClassifier(n_estimators=2, random_state=0)
        return fe.StackingClassifier(members, final, passthrough=True, cv=2).fit(rows, "kind")

    whole, model = fitted(frame.assign(kind=KINDS)), fitted(lambda: stream(table))
    np.testing.assert_array_equal(model.predict_proba(lambda: stream(table)), whole.predict_proba(frame))
    found, expected = model.transform(lambda: stream(table)), whole.transform(frame)
    pd.testing.assert_frame_equal(pd.DataFrame(found, columns=expected.columns), expected, check_dtype=False)


def test_columns_next_to_predictions_keep_their_types_in_streams():
    table = pa.table({"when": pd.date_range("2026-01-01", periods=60), "town": [None] * 40 + ["Kiel", "Ulm"] * 10})
    members = [("tree", fe.DecisionTreeRegressor(max_depth=1))]
    model = fe.StackingRegressor(members, passthrough=True, cv=2).fit(table, np.arange(60.0))
    found = model.transform(stream(table)).read_all()
    assert found.column("feature 1").equals(table.column("when"))
    assert found.column("feature 2").equals(table.column("town"))


def test_tables_of_arrow_become_pandas_where_set_output_asks_for_it():
    frame = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=60), "size": np.arange(60.0)})
    members = [("tree", fe.DecisionTreeRegressor(max_depth=1))]
    model = fe.StackingRegressor(members, passthrough=True, cv=2).fit(frame, np.arange(60.0))
    model.set_output(transform="pandas")
    expected = model.transform(frame)
    assert list(expected) == list(model.get_feature_names_out())
    for table in (pa.Table.from_pandas(frame), pl.from_pandas(frame)):
        pd.testing.assert_frame_equal(model.transform(table), expected)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output_is_not_for_streams(kind):
    model = fe.VotingClassifier([("bayes", fe.MixedNB())], voting="soft").fit(X, KINDS)
    expected = model.transform(X)
    model.set_output(transform=kind)
    found = model.transform(stream())
    assert isinstance(found, pa.RecordBatchReader)
    np.testing.assert_array_equal(found.read_all().to_pandas(), expected)
    np.testing.assert_array_equal(model.transform(X).to_numpy(), expected)


def test_names_of_columns():
    model = MODELS["classes"][0].fit(X, KINDS)
    names = {name: getattr(model, name)(stream()).schema.names for name in ("predict", "predict_proba")}
    assert names == {
        "predict": ["prediction"],
        "predict_proba": ["probability cheap", "probability dear", "probability fair"],
    }
    contributions = model.predict_contributions(stream()).schema.names
    assert contributions[:4] == [f"contribution cheap {name}" for name in ("size", "count", "word", "expected")]
    model.conformalize(stream(pa.Table.from_pandas(X.assign(kind=KINDS))), "kind")
    assert model.predict_set(stream(), coverage=0.5).schema.names[0] == "set has cheap"
    quantiles = MODELS["quantiles"][0].fit(X, NUMBERS)
    assert quantiles.predict(stream()).schema.names == ["prediction 0.1", "prediction 0.5", "prediction 0.9"]
    quantiles.conformalize(X, NUMBERS)
    assert quantiles.predict_interval(stream()).schema.names == ["interval lower", "interval upper"]
    forest = MODELS["forest"][0].fit(X, NUMBERS)
    assert forest.predict_quantiles(stream(), [0.25, 0.75]).schema.names == ["quantile 0.25", "quantile 0.75"]


def test_names_where_axes_are_of_one_length():
    """As many columns and a mean as classes, as many targets as quantiles or ends of intervals."""
    two = X[["size", "count"]]
    given = lambda: stream(pa.Table.from_pandas(two))  # noqa: E731
    model = fe.GradientBoostingClassifier(**SMALL).fit(two, KINDS)
    of_class = [f"contribution {kind} {name}" for kind in model.classes_ for name in ("size", "count", "expected")]
    assert model.predict_contributions(given()).schema.names == of_class
    y = np.column_stack([NUMBERS, NUMBERS])
    several = fe.GradientBoostingRegressor("quantile", quantile=[0.1, 0.9], **SMALL).fit(two, y).conformalize(two, y)
    names = [f"prediction {target} {level}" for target in (0, 1) for level in (0.1, 0.9)]
    assert several.predict(given()).schema.names == names
    names = [f"interval {target} {end}" for target in (0, 1) for end in ("lower", "upper")]
    assert several.predict_interval(given()).schema.names == names
    tree = fe.BayesTreeClassifier().fit(two, KINDS == "fair")
    names = [f"interval {kind} {end}" for kind in (False, True) for end in ("lower", "upper")]
    assert tree.predict_proba_interval(given()).schema.names == names


def test_columns_that_would_have_one_name_are_all_there():
    table = pd.DataFrame({"x y": NUMBERS, "y": NUMBERS[::-1], "expected": NUMBERS})
    labels = np.array(["a", "a x", "b"])[np.arange(len(NUMBERS)) % 3]
    model = fe.GradientBoostingClassifier(**SMALL).fit(table, labels)
    found = model.predict_contributions(stream(pa.Table.from_pandas(table)))
    np.testing.assert_array_equal(values_of(found), model.predict_contributions(table).reshape(len(table), -1))
    names = model.predict_contributions(stream(pa.Table.from_pandas(table))).schema.names
    assert names[:4] == [f"contribution a {name}" for name in ("x y", "y", "expected", "expected.1")]
    times = fe.GradientBoostingSurvival(**SMALL).fit(table, np.column_stack([1e6 + NUMBERS] * 2))
    found = times.predict_survival_function(stream(pa.Table.from_pandas(table)), [1234567.0, 1234568.0])
    assert found.schema.names == ["survival 1234567.0", "survival 1234568.0"]


def test_several_targets():
    y = np.column_stack([KINDS, NUMBERS > 0.5])
    model = fe.GradientBoostingClassifier(**SMALL).fit(X, y)
    found = model.predict_proba(stream())
    assert found.schema.names[-2:] == ["probability False of target 1", "probability True of target 1"]
    np.testing.assert_array_equal(values_of(found), np.hstack(model.predict_proba(X)))


def test_arguments_per_row_are_split_with_the_rows():
    model, scores = MODELS["boosting"][0].fit(X, NUMBERS), RNG.normal(size=N_ROWS)
    np.testing.assert_array_equal(
        values_of(model.predict(stream(), init_score=scores))[:, 0], model.predict(X, init_score=scores)
    )
    with pytest.raises(ValueError, match=r"init_score must have one value for each of the.*got 401"):
        model.predict(stream(), init_score=np.zeros(N_ROWS + 1)).read_all()


def test_a_stream_is_read_as_its_answers_are():
    read = []

    def batches():
        for batch in TABLE.to_batches(max_chunksize=40):
            read.append(len(batch))
            yield batch

    model = MODELS["boosting"][0].fit(X, NUMBERS)
    answers = model.predict(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    assert len(read) == 1
    answers.read_next_batch()
    answers.read_next_batch()
    assert len(read) == 2
    assert sum(len(batch) for batch in answers) == N_ROWS - 80


def test_scores_of_streams():
    for kind, y in (("boosting", NUMBERS), ("classes", KINDS), ("bayes", KINDS)):
        model = MODELS[kind][0].fit(X, y)
        assert model.score(stream(), y) == model.score(X, y)
        assert model.score(stream(pa.Table.from_pandas(X.assign(y=y))), "y") == model.score(X, y)


def test_faults_of_streams():
    model = MODELS["boosting"][0].fit(X, NUMBERS)
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 4\)\)"):
        model.predict(stream(TABLE[:0]))
    with pytest.raises(ValueError, match="yet now missing:\n- word"):
        model.predict(stream(TABLE.drop_columns("word")))

    def broken():
        yield TABLE.to_batches(max_chunksize=10)[0]
        raise OSError("the line is dead")

    answers = model.predict(pa.RecordBatchReader.from_batches(TABLE.schema, broken()))
    with pytest.raises(OSError, match="the line is dead"):
        answers.read_all()


@pytest.mark.parametrize(
    "model",
    [
        fe.BaggingClassifier(fe.GaussianNB()),
        fe.CascadeForestRegressor(),
        fe.ConformalRegressor(),
        fe.VersionSpaceClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_without_stream_support_raise(model, tmp_path):
    X.assign(y=KINDS).to_parquet(tmp_path / "rows.parquet")
    name = type(model).__name__
    with_target = stream(pa.Table.from_pandas(X.assign(y=KINDS)))
    for source in (tmp_path / "rows.parquet", with_target):
        with pytest.raises(ValueError, match=f"in memory for {name}.*got a table in files or a stream.*read_all"):
            model.fit(source, "y")


def methods_with_examples():
    kinds = {kind for name in fe.__all__ if isinstance(kind := getattr(fe, name), type)}
    estimators = [kind for kind in kinds if issubclass(kind, BaseEstimator)]
    found = {getattr(kind, name) for kind in estimators for name in ANSWERS if name in dir(kind)}
    return sorted((method for method in found if ">>>" in (method.__doc__ or "")), key=lambda own: own.__qualname__)


@pytest.mark.parametrize("method", methods_with_examples(), ids=lambda method: method.__qualname__)
def test_examples_of_methods_that_answer(method):
    """Doctests do not look at functions that are wrapped."""
    example = doctest.DocTestParser().get_doctest(
        method.__doc__, dict(vars(sys.modules[method.__module__])), method.__qualname__, None, 0
    )
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("kind", ["bayes", "boosting"])
def test_tables_with_a_ceiling(kind, tmp_path):
    model, y = MODELS[kind]
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    whole = model.fit(X, y).predict(X)
    for table in (tmp_path / "rows.parquet", X.assign(y=y)):
        model.fit(fe.TableSource(table), "y")
        np.testing.assert_array_equal(model.predict(fe.TableSource(table, columns=list(X))), whole)

"""Dates, durations and times of day as numbers, the same from every library."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    MixedNB,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from fastens.table.arrays import ArrayTable
from fastens.table.columns.dates import PARTS, column_and_part, date_parts, elapsed_days, times_of, with_parts
from fastens.table.columns.numbers import numbers_of
from fastens.table.encoder import InputEncoder
from fastens.table.frames import table_from_frame

pa = pytest.importorskip("pyarrow")

UTC = datetime.UTC
MOMENTS = [
    datetime.datetime(2024, 2, 29, 18, 30, 15),
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500000),
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23),
]
DAYS = [None if moment is None else moment.date() for moment in MOMENTS]
ZONED = [None if moment is None else moment.replace(tzinfo=UTC) for moment in MOMENTS]


def naive_parts(moment):
    if moment is None:
        return [np.nan] * 5
    elapsed = (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
    return [elapsed, moment.month, moment.day, moment.weekday(), moment.hour]


EXPECTED = np.array(list(map(naive_parts, MOMENTS)))
NAMES = [f"when: {part}" for part in PARTS]
COLUMNS = {
    "numpy": pd.Series(np.array(MOMENTS, dtype="M8[us]")),
    "numpy ms": pd.Series(np.array(MOMENTS, dtype="M8[ms]")),
    "pandas zone": pd.Series(pd.array(np.array(MOMENTS, dtype="M8[us]"))).dt.tz_localize("UTC"),
    "pandas arrow": pd.Series(pd.array(MOMENTS, dtype=pd.ArrowDtype(pa.timestamp("us")))),
    "objects": pd.Series(MOMENTS, dtype=object),
    "zoned objects": pd.Series(ZONED, dtype=object),
    "polars": pl.Series("when", MOMENTS),
    "polars zone": pl.Series("when", MOMENTS).dt.replace_time_zone("UTC"),
    "polars objects": pl.Series("when", MOMENTS, dtype=pl.Object),
    "arrow": pa.chunked_array([MOMENTS[:2], MOMENTS[2:]], pa.timestamp("us")),
    "arrow zone": pa.chunked_array([pa.array(MOMENTS, pa.timestamp("us", tz="Europe/Berlin"))]),
}


def frame_of(column):
    if isinstance(column, pd.Series):
        return pd.DataFrame({"when": column})
    return pl.DataFrame({"when": column}) if isinstance(column, pl.Series) else pa.table({"when": column})


def encoded(frame):
    table = table_from_frame(frame).with_date_parts()
    encoder = InputEncoder.fit(table)
    return encoder, encoder.transform(table)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_a_frame_becomes_its_parts(kind):
    encoder, found = encoded(frame_of(COLUMNS[kind]))
    assert encoder.names == NAMES
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-15)
    for other in COLUMNS.values():
        np.testing.assert_allclose(encoder.transform(encoder.matched(frame_of(other), "a model")), EXPECTED, rtol=1e-15)


DATES = {
    "objects": pd.DataFrame({"when": pd.Series(DAYS, dtype=object)}),
    "pandas arrow": pd.DataFrame({"when": pd.array(DAYS, dtype=pd.ArrowDtype(pa.date32()))}),
    "pandas arrow 64": pd.DataFrame({"when": pd.array(DAYS, dtype=pd.ArrowDtype(pa.date64()))}),
    "polars": pl.DataFrame({"when": DAYS}),
    "arrow": pa.table({"when": pa.array(DAYS)}),
    "arrow 64": pa.table({"when": pa.array(DAYS, pa.date64())}),
}


@pytest.mark.parametrize("frame", DATES.values(), ids=DATES)
def test_dates_without_a_time_have_no_hour(frame):
    encoder, found = encoded(frame)
    assert encoder.names == NAMES[:-1]
    expected = np.column_stack([np.floor(EXPECTED[:, 0]), EXPECTED[:, 1:-1]])
    np.testing.assert_array_equal(found, expected)
    moments = encoder.transform(encoder.matched(frame_of(COLUMNS["numpy"]), "a model"))  # with their time
    np.testing.assert_allclose(moments, EXPECTED[:, :-1], rtol=1e-15)


def test_instants_are_compared_not_clocks():
    utc = pd.DataFrame({"when": pd.date_range("2024-03-31", periods=9, freq="20min", tz="UTC")})
    there = utc.assign(when=utc["when"].dt.tz_convert("Europe/Berlin"))  # across the change to summer time
    np.testing.assert_array_equal(encoded(there)[1], encoded(utc)[1])
    np.testing.assert_array_equal(encoded(there.astype({"when": object}))[1], encoded(utc)[1])
    assert (np.diff(encoded(there)[1][:, 0]) > 0).all()


def test_periods_count_from_their_start():
    periods = pd.DataFrame({"when": pd.period_range("2024-01", periods=3, freq="M")})
    expected = encoded(pd.DataFrame({"when": periods["when"].dt.to_timestamp()}))[1]
    np.testing.assert_array_equal(encoded(periods)[1], expected)
    np.testing.assert_array_equal(encoded(periods.astype({"when": object}))[1], expected)


def test_periods_of_arrow_count_from_their_start(tmp_path):
    periods = pd.DataFrame({"when": pd.period_range("2024-01", periods=9, freq="Q"), "y": np.arange(9.0)})
    periods.loc[3, "when"] = pd.NaT
    model = GradientBoostingRegressor(n_estimators=5, min_samples_leaf=1).fit(periods, "y")
    periods.to_parquet(tmp_path / "table.parquet")
    table = pa.Table.from_pandas(periods)
    for X in (table, table.to_reader(4), tmp_path / "table.parquet"):
        same = GradientBoostingRegressor(n_estimators=5, min_samples_leaf=1).fit(X, "y")
        assert same.feature_names_in_.tolist() == model.feature_names_in_.tolist()
        np.testing.assert_array_equal(same.predict(periods), model.predict(table))


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_units(unit):
    dates = np.array(["2001-01-01", "1969-12-31", "NaT"], dtype="M8[D]").astype(f"M8[{unit}]")
    expected = (dates.astype("M8[D]") - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(elapsed_days(times_of(dates, "0")), expected)


def test_fractions_of_seconds():
    dates = np.array([90_000_000_000_123, -1, "NaT"], dtype="M8[ps]")
    seconds = elapsed_days(times_of(dates, "0")) * 86400
    np.testing.assert_allclose(seconds, [90.000000000123, -1e-12, np.nan], rtol=1e-3)


def test_times_and_durations_are_seconds():
    times = [datetime.time(1, 0, 30), None, datetime.time(23, 59, 59, 500000)]
    spans = [datetime.timedelta(hours=1, seconds=30), None, datetime.timedelta(seconds=-0.5)]
    for values, expected in ((times, [3630, np.nan, 86399.5]), (spans, [3630, np.nan, -0.5])):
        frames = [
            pd.DataFrame({"a": pd.Series(values, dtype=object)}),
            pd.DataFrame({"a": pd.array(pa.array(values).to_pylist(), dtype=pd.ArrowDtype(pa.array(values).type))}),
            pl.DataFrame({"a": values}),
            pa.table({"a": values}),
        ]
        for frame in frames:
            encoder, found = encoded(frame)
            assert encoder.names == ["a"]
            np.testing.assert_array_equal(found[:, 0], expected)
        np.testing.assert_array_equal(numbers_of(np.array(values, dtype=object), "0"), expected)
    nanoseconds = pa.table({"a": pa.array([3_000_000_001, None], pa.time64("ns"))})
    np.testing.assert_array_equal(encoded(nanoseconds)[1][:, 0], [3.000000001, np.nan])


def test_columns_without_names_are_days():
    dates = np.array(MOMENTS, dtype="M8[us]")[:, None]
    for array in (dates, dates.astype(object), np.array(ZONED, dtype=object)[:, None]):
        table = ArrayTable(array)
        found = InputEncoder.fit(table).transform(table)
        np.testing.assert_allclose(found[:, 0], EXPECTED[:, 0], rtol=1e-15)
    table = table_from_frame(pd.DataFrame({0: MOMENTS})).with_date_parts()
    assert InputEncoder.fit(table).transform(table).shape == (5, 1)


def test_texts_where_fit_saw_dates():
    dates = np.array(["2024-02-29", "2024-03-01T18:30:00", "NaT"], dtype="M8[s]")
    encoder, expected = encoded(pd.DataFrame({"when": dates}))
    texts = pd.DataFrame({"when": ["2024-02-29", "2024-03-01T19:30:00+01:00", None]})
    for frame in (texts, pl.from_pandas(texts), texts.astype("category"), texts.astype(object)):
        np.testing.assert_array_equal(encoder.transform(encoder.matched(frame, "a model")), expected)
    categories = pd.DataFrame({"when": dates}).astype("category")
    np.testing.assert_array_equal(encoder.transform(encoder.matched(categories, "a model")), expected)
    nothing = encoder.transform(encoder.matched(pd.DataFrame({"when": [None, None]}), "a model"))
    assert np.isnan(nothing).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2024-01-01", "soon"], "Column 'when' must hold dates; row 1 holds 'soon' of type str"),
        ([3, 4], "Column 'when' must hold dates, as in fit; it holds Int64"),
        ([datetime.date(2024, 1, 1), 7], "Column 'when' must hold dates; row 1 holds 7 of type int"),
    ],
)
def test_what_is_no_date_is_named(values, message):
    encoder, _ = encoded(frame_of(COLUMNS["numpy"]))
    frame = pd.DataFrame({"when": pd.Series(values, dtype=None if len(values) and values[0] == 3 else object)})
    with pytest.raises(ValueError, match=message):
        encoder.matched(frame, "a model")


def test_faults_of_columns_of_dates():
    dates = pd.date_range("2024", periods=2)
    with pytest.raises(ValueError, match="'when: day' has the name of a part of the dates 'when'"):
        encoded(pd.DataFrame({"when": dates, "when: day": [1, 2]}))
    encoder, _ = encoded(pd.DataFrame({"when": [1.0, 2.0]}))
    frame = pd.DataFrame({"when": dates})
    with pytest.raises(ValueError, match="Column 'when' must hold numbers, as in fit; it holds dates"):
        encoder.transform(encoder.matched(frame, "a model"))
    with pytest.raises(ValueError, match="Column 0 must hold dates and durations that are whole seconds in 64 bits"):
        numbers_of(np.array([10**14], dtype="M8[Y]"), "0")
    with pytest.raises(ValueError, match=r"durations of days or of other units of one length; got 'M'"):
        numbers_of(np.array([1], dtype="m8[M]"), "0")
    with pytest.raises(ValueError, match=r"row 0 holds datetime.timedelta\(.*of type timedelta"):
        numbers_of(np.array([datetime.timedelta.max]), "0")


def test_names_of_parts():
    assert column_and_part("a: b: day of month") == ("a: b", "day of month")
    assert column_and_part("a: day of") is None
    assert list(date_parts(np.array(["2024-01-01"], dtype="M8[D]"), ["hour", "day"])) == ["day", "hour"]


# Estimators --------------------------------------------------


@pytest.fixture
def weekends(rng):
    """A table whose classes are the days of the week."""
    when = pd.date_range("2020-01-01", periods=300, freq="31h")
    frame = pd.DataFrame({"a": rng.normal(size=300), "when": when, "b": rng.choice(["x", "y"], 300)})
    return frame.set_index(np.arange(300)[::-1] * 3), (when.day_of_week > 4).astype(int)


MODELS = {
    "forest": RandomForestClassifier(10, random_state=0),
    "mixed": MixedNB(),
    "stack": StackingClassifier([("forest", RandomForestClassifier(5)), ("nb", MixedNB())], random_state=0),
    "part": VotingClassifier([("forest", RandomForestClassifier(9))], columns={"forest": ["when"]}, voting="soft"),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_models_of_dates(model, weekends):
    frame, y = weekends
    model.fit(frame, y)
    expected = model.predict_proba(frame)
    assert model.score(frame, y) > 0.95 or isinstance(model, MixedNB)
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False), frame.assign(more=1)):
        np.testing.assert_array_equal(model.predict_proba(other), expected)
    np.testing.assert_array_equal(model.predict_proba(frame.iloc[7:9]), expected[7:9])


def test_parts_are_features_with_names(weekends, tmp_path):
    frame, y = weekends
    model = RandomForestClassifier(10, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", *NAMES, "b"]
    assert model.n_features_in_ == model.feature_importances_.size == 7
    assert model.feature_names_in_[model.feature_importances_.argmax()] == "when: weekday"
    ready = pd.DataFrame(
        model._encoder.transform(model._encoder.matched(frame, "a model"))[:, :6], columns=["a", *NAMES]
    )
    ready = ready.assign(b=frame["b"].to_numpy())
    again = RandomForestClassifier(10, random_state=0).fit(ready, y)
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(ready))


@pytest.mark.parametrize("chosen", [["b"], [2], [False, False, True]])
def test_categories_are_chosen_among_the_columns_given(chosen, weekends):
    frame, y = weekends
    model = GradientBoostingRegressor(n_estimators=2, categorical_features=chosen).fit(frame, y)
    assert model._encoder.categories == [None] * 6 + [["x", "y"]]
    with pytest.raises(ValueError, match="categorical_features must not name columns of dates; got 'when'"):
        model.set_params(categorical_features=["when"]).fit(frame, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"interaction_cst": [[0, 2]]}, "interaction_cst must name columns, as dates in X have become several; got 0"),
        ({"monotonic_cst": {1: 1}}, "monotonic_cst must name columns, as dates in X have become several; got 1"),
        ({"monotonic_cst": [0, 1, 0]}, "monotonic_cst must have a value for each of the 7 columns"),
        ({"monotonic_cst": {"when": 1}}, "monotonic_cst must name columns of X; got 'when', and the columns are"),
    ],
)
def test_rules_of_columns_name_parts(parameters, message, weekends):
    frame, y = weekends
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(n_estimators=2, **parameters).fit(frame, y)
    rules = {"monotonic_cst": {"when: day": 1}, "interaction_cst": [["a", "when: day"]]}
    GradientBoostingRegressor(n_estimators=2, **rules).fit(frame, y)


@pytest.mark.slow
def test_pictures_and_importances_are_of_parts(weekends):
    frame, y = weekends
    model = GradientBoostingClassifier(n_estimators=5).fit(frame, y)
    assert len(model.plot_dependence(frame, ["when: weekday", "a"])) == 2
    assert len(model.plot_dependence(pl.from_pandas(frame), "when: day")) == 1
    with pytest.raises(ValueError, match="features must name columns of X; got 'when', and the columns are"):
        model.plot_dependence(frame, "when")
    importance = model.permutation_importance(frame, y, random_state=0).importances_mean
    assert model.feature_names_in_[importance.argmax()] == "when: weekday"
    assert model.predict_contributions(frame).shape == (300, 8)


def test_parts_in_pandas_are_joined_at_once(monkeypatch):
    dates = {f"d{k}": pd.date_range(f"20{k}-01-30", periods=3).to_numpy() for k in range(10, 14)}
    frame = pd.DataFrame({"a": [1, 2, 3], **dates, "b": ["x", None, "y"]})
    expected = with_parts(pl.from_pandas(frame), dict.fromkeys(dates, PARTS))
    monkeypatch.delattr("fastens.table.columns.dates.nw.new_series")
    found = with_parts(frame.set_axis([0, 0, "z"]), dict.fromkeys(dates, PARTS)).to_native()
    assert found.index.tolist() == [0, 0, "z"]
    assert found.columns.tolist() == expected.columns
    for name in found.columns[:-1]:
        np.testing.assert_array_equal(found[name], expected.to_native()[name])
    assert with_parts(frame.iloc[:0], {"d10": PARTS}).shape == (0, 10)

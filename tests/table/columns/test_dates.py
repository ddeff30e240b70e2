"""Dates, durations and times of day as numbers, the same from every library."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    MixedNB,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
    from_model,
    load,
)
from fastens.table.columns.dates import PARTS, append_date_parts, date_parts, elapsed_days, times_of
from fastens.table.columns.numbers import numbers_of
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.tables import ArrayTable

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
    return InputEncoder.learn(frame, Reading(splits_dates=True), "a model")


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_a_frame_becomes_its_parts(kind):
    encoder, found = encoded(frame_of(COLUMNS[kind]))
    assert encoder.names == ["when"]
    assert encoder.part_names() == NAMES
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
    assert encoder.part_names() == NAMES[:-1]
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


def test_names_that_are_not_texts_have_parts_too():
    encoder, found = encoded(pd.DataFrame({2024: MOMENTS}))
    assert found.shape == (5, 5)
    assert encoder.part_names()[:2] == ["2024: day", "2024: month"]


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
        ([3.5, 4.0], "Column 'when' must hold dates, as in fit; it holds Float64"),
        ([datetime.date(2024, 1, 1), 7], "Column 'when' must hold dates; row 1 holds 7 of type int"),
    ],
)
def test_errors_name_values_that_are_not_dates(values, message):
    encoder, _ = encoded(frame_of(COLUMNS["numpy"]))
    frame = pd.DataFrame({"when": pd.Series(values, dtype=None if isinstance(values[0], int | float) else object)})
    with pytest.raises(ValueError, match=message):
        encoder.transform(encoder.matched(frame, "a model"))


def test_faults_of_columns_of_dates():
    dates = pd.date_range("2024", periods=2)
    encoder, _ = encoded(pd.DataFrame({"when": [1.0, 2.0]}))
    frame = pd.DataFrame({"when": dates})
    with pytest.raises(ValueError, match="Column 'when' must hold numbers, as in fit; it holds dates"):
        encoder.transform(encoder.matched(frame, "a model"))
    with pytest.raises(ValueError, match=r"must hold dates and durations that fit into 64-bit seconds\."):
        numbers_of(np.array([10**14], dtype="M8[Y]"), "0")
    with pytest.raises(ValueError, match=r"must hold durations in days or other units of fixed length.*got 'M'"):
        numbers_of(np.array([1], dtype="m8[M]"), "0")
    with pytest.raises(ValueError, match=r"row 0 holds datetime.timedelta\(.*of type timedelta"):
        numbers_of(np.array([datetime.timedelta.max]), "0")


def test_names_of_parts():
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


def of_columns(of_parts):
    return of_parts[0], of_parts[1] + of_parts[3:].sum(), of_parts[2]


def test_a_column_of_dates_is_one_feature(weekends):
    frame, y = weekends
    model = RandomForestClassifier(10, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "when", "b"]
    assert model.n_features_in_ == model.feature_importances_.size == model.feature_split_counts_.size == 3
    assert model.feature_parts_ == ["a", NAMES[0], "b", *NAMES[1:]]
    of_parts = model.importances(parts=True)
    assert model.feature_parts_[of_parts.argmax()] == "when: weekday"
    np.testing.assert_allclose(model.feature_importances_, of_columns(of_parts), rtol=1e-12)
    for kind in ("split", "cover"):
        of_parts = model.importances(kind, parts=True)
        np.testing.assert_allclose(model.importances(kind), of_columns(of_parts), rtol=1e-12)
    assert "when: weekday" in model.to_text(max_depth=None)


def test_contributions_of_dates_are_one_players(weekends):
    frame, y = weekends
    model = GradientBoostingClassifier(n_estimators=5).fit(frame, y)
    found, of_parts = model.explain(frame), model.explain(frame, parts=True)
    assert found.values.shape == found.data.shape == (300, 3)
    assert of_parts.values.shape == of_parts.data.shape == (300, 7)
    assert list(of_parts.feature_names) == model.feature_parts_
    assert found.display_data[0, 1] == frame["when"].iloc[0].to_pydatetime()
    raw = np.asarray(model.predict_contributions(frame)).sum(axis=1)
    for each in (found, of_parts):
        np.testing.assert_allclose(each.values.sum(axis=1) + each.base_values, raw)
    assert model.predict_contributions(frame, parts=True).shape == (300, 8)
    against = model.explain(frame[:20], frame[100:150], parts=True)
    np.testing.assert_allclose(against.values.sum(axis=1) + against.base_values, raw[:20])


@pytest.mark.parametrize("chosen", [["b"], [2], [False, False, True]])
def test_categories_are_chosen_among_the_columns_given(chosen, weekends):
    frame, y = weekends
    model = GradientBoostingRegressor(n_estimators=2, categorical_features=chosen).fit(frame, y)
    assert model._encoder.categories == [None, None, ["x", "y"]]
    model.set_params(categorical_features=["when"]).fit(frame[["when"]], y)
    assert model._encoder.categories[0][0] == "2020-01-01 00:00:00"
    assert model.feature_parts_ == ["mean target of when"]


@pytest.mark.parametrize("cst", [{"when": 1}, {1: 1}, [0, 1, 0]])
def test_a_monotone_date_is_its_day_alone(cst, weekends):
    frame, y = weekends
    y = y + np.linspace(0, 2, len(y))
    model = GradientBoostingRegressor(n_estimators=30, monotonic_cst=cst).fit(frame, y)
    assert model.feature_parts_ == ["a", "when", "b"]
    row = frame.iloc[[3] * 300].reset_index(drop=True).assign(when=frame["when"].to_numpy())
    assert (np.diff(model.predict(row)) >= 0).all()
    assert np.ptp(model.predict(row)) > 0
    table = BinnedTable.from_source(frame, y)
    with pytest.raises(ValueError, match="monotonic_cst must be 0 for dates of a BinnedTable"):
        GradientBoostingRegressor(n_estimators=2, monotonic_cst=cst).fit(table, y)


def test_parts_of_a_date_are_constrained_together(weekends):
    frame, y = weekends
    model = GradientBoostingRegressor(n_estimators=5, interaction_cst=[["when"], ["a", "b"]]).fit(frame, y)
    pairs = model.predict_contributions(frame, interactions=True)
    np.testing.assert_allclose(pairs[:, 1, [0, 2]], 0, atol=1e-12)
    weights = RandomForestRegressor(5, feature_weights={"when": 0}, max_features=1, random_state=0).fit(frame, y)
    assert weights.feature_importances_[1] == 0 < weights.feature_importances_[0]


@pytest.mark.slow
def test_pictures_and_importances_of_dates(weekends):
    frame, y = weekends
    model = GradientBoostingClassifier(n_estimators=5).fit(frame, y)
    assert len(model.plot_dependence(frame, ["when", "a"])) == 2
    assert len(model.plot_dependence(pl.from_pandas(frame), "when")) == 1
    assert len(model.plot_dependence(frame, [("a", "when")])) == 1
    importance = model.permutation_importance(frame, y, random_state=0).importances_mean
    assert importance.shape == (3,)
    assert importance.argmax() == 1
    assert {text.get_text() for text in model.plot_importance().get_yticklabels()} <= {"a", "when", "b"}


def test_dates_of_saved_models_and_of_arrays(weekends, tmp_path):
    frame, y = weekends
    model = GradientBoostingClassifier(n_estimators=5).fit(frame, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(again.predict_proba(frame), expected)
    assert again.feature_parts_ == model.feature_parts_
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(again.predict_proba(frame.to_numpy(dtype=object)), expected)
    imported = from_model(model.export(format="lightgbm"))
    np.testing.assert_allclose(imported.predict_proba(frame), expected, rtol=1e-9)
    assert imported.feature_names_in_.tolist() == ["a", "when", "b"]
    table = BinnedTable.from_source(frame, y, keep_values=True)
    same = GradientBoostingClassifier(n_estimators=5).fit(table, y)
    np.testing.assert_array_equal(same.predict_proba(frame), expected)
    np.testing.assert_array_equal(same.predict_proba(table), expected)


def test_hours_of_days_in_floats_are_exact():
    hours = np.arange("1600-01-01", "2400-01-01", 997, dtype="M8[h]")
    rows = append_date_parts(elapsed_days(hours)[:, None], [(0, "hour"), (0, "month")])
    np.testing.assert_array_equal(rows[:, 1], hours.astype(np.int64) % 24)
    seconds = np.arange("1999-12-31T22:59:50", "2000-01-01T01:00:10", dtype="M8[s]")
    rows = append_date_parts(elapsed_days(seconds)[:, None], [(0, "hour"), (0, "day of month")])
    np.testing.assert_array_equal(rows[:, 1], seconds.astype(np.int64) // 3600 % 24)
    assert np.isnan(append_date_parts(np.array([[np.nan], [np.inf], [1e300]]), [(0, "hour")])[:, 1]).all()

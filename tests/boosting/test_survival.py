"""Gradient boosting for survival: targets, predictions, scores."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fastens
from fastens import BinnedTable, GradientBoostingSurvival
from fastens.boosting.survival import checked_times, read_times
from fastens.params.options import AFTLoss, EarlyStopping, Growth
from reference import survival as naive
from reference.sklearn_checks import parametrize_with_checks

SMALL = {"n_estimators": 20, "max_leaf_nodes": 8, "min_samples_leaf": 5}
LOSSES = [{"loss": "cox"}, *({"loss": AFTLoss(distribution=name)} for name in ("normal", "logistic", "extreme"))]


@pytest.fixture
def table(rng):
    """Columns, bounds of Weibull times of which a third are censored, and the right log times."""
    X = rng.normal(size=(600, 4))
    centre = X[:, 0] - 0.5 * X[:, 1] * (X[:, 2] > 0)
    time = np.exp(centre) * rng.weibull(1.5, 600)
    lost = rng.exponential(2.5, 600)
    return X, np.column_stack([np.minimum(time, lost), np.where(time <= lost, time, np.inf)]), centre


@parametrize_with_checks([GradientBoostingSurvival("aft", n_estimators=20)])
def test_sklearn_check(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("parameters", LOSSES)
def test_it_learns(table, parameters):
    X, y, centre = table
    model = GradientBoostingSurvival(**parameters, **SMALL).fit(X[:400], y[:400])
    sign = -1 if parameters["loss"] == "cox" else 1
    assert np.corrcoef(sign * model.predict(X[400:]), centre[400:])[0, 1] > 0.8
    best = naive.concordance(y[400:], centre[400:], np.ones(200))
    assert model.score(X[400:], y[400:]) > best - 0.05
    assert (np.diff(model.evals_result_["training"]["loss"]) < 0).all()
    found = model.score(X[400:], y[400:])
    assert found == pytest.approx(naive.concordance(y[400:], sign * model.predict(X[400:]), np.ones(200)))


@pytest.mark.parametrize("parameters", LOSSES)
def test_scores_after_each_round(table, parameters):
    X, y, _ = table
    staged = list(GradientBoostingSurvival(**parameters, **SMALL).fit(X, y).staged_score(X[:300], y[:300]))
    for n_rounds in (1, 20):
        model = GradientBoostingSurvival(**parameters, **{**SMALL, "n_estimators": n_rounds}).fit(X, y)
        assert staged[n_rounds - 1] == model.score(X[:300], y[:300])


@pytest.mark.parametrize("parameters", LOSSES)
def test_survival_function(table, parameters):
    X, y, centre = table
    scale = {} if parameters["loss"] == "cox" else {"loss__scale": 0.7}
    model = GradientBoostingSurvival(**parameters, **SMALL).set_params(**scale).fit(X[:400], y[:400])
    times = np.linspace(0, 10, 50)
    found = model.predict_survival_function(X[400:], times)
    assert (found[:, 0] == 1).all()
    assert (np.diff(found) <= 0).all()
    right = np.exp(-((times / np.exp(centre[400:, None])) ** 1.5))
    assert np.abs(found - right).mean() < 0.1


def test_survival_function_of_cox_is_breslow(table):
    X, y, _ = table
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = GradientBoostingSurvival(**SMALL).fit(X, y, sample_weight=weight)
    raw = model.predict(X)
    np.testing.assert_allclose(
        model.cumulative_hazard_, naive.cumulative_hazard(y, raw, weight, model.event_times_), rtol=1e-10
    )
    times = np.array([0.0, model.event_times_[3], 1.0, 1e9])
    hazard = naive.cumulative_hazard(y, raw, weight, times)
    np.testing.assert_allclose(model.predict_survival_function(X, times), np.exp(-np.outer(np.exp(raw), hazard)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("learning_rate", [100.0, 1e6])
def test_predictions_that_are_too_large_still_order_the_rows(table, learning_rate):
    X, y, _ = table
    options = {"n_estimators": 5, "l2_regularization": 1.0, "n_jobs": 1}
    model = GradientBoostingSurvival(learning_rate=learning_rate, **options).fit(X, y)
    assert np.ptp(model.predict(X)) > 709
    assert np.isfinite(model.cumulative_hazard_).all()
    found = model.predict_survival_function(X, [0.0, 0.5, 1e9])
    assert ((found >= 0) & (found <= 1) & (np.diff(found, axis=1, prepend=1.0) <= 0)).all()


def test_early_stopping_keeps_the_baseline_of_the_best_round(table):
    X, y, _ = table
    model = GradientBoostingSurvival(n_estimators=200, learning_rate=0.3, n_iter_no_change=5)
    model.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    assert model.n_estimators_ < len(model.evals_result_["training"]["loss"])
    expected = naive.cumulative_hazard(y[:400], model.predict(X[:400]), np.ones(400), model.event_times_)
    np.testing.assert_allclose(model.cumulative_hazard_, expected, rtol=1e-10)


@pytest.mark.parametrize(("folds", "share"), [(None, 1), (5, 2)])
def test_rows_held_out_have_their_share_of_the_events(folds, share, rng):
    """Without events Cox's loss is 0 from the first round on."""
    X, time = rng.normal(size=(80, 2)), rng.exponential(size=80) + 1
    y = np.column_stack([time, np.where(np.arange(80) % 8 == 0, time, np.inf)])
    found = set()

    def n_events(y, predicted):
        found.add(np.count_nonzero(y[:, 0] == y[:, 1]))
        return 0.0

    for seed in range(4):
        options = {"early_stopping": EarlyStopping(folds=folds), "eval_metric": n_events}
        GradientBoostingSurvival(n_estimators=1, random_state=seed, **options).fit(X, y)
    assert found == {share}


def test_rows_to_validate_on_have_events(table):
    X, y, _ = table
    model, censored = GradientBoostingSurvival(n_estimators=2), y[np.isinf(y[:, 1])]
    with pytest.raises(ValueError, match="The validation set must hold at least one event for loss='cox'; all"):
        model.fit(X, y, X_val=X[:20], y_val=censored[:20])
    rare = np.concatenate([y[~np.isinf(y[:, 1])][:2], censored[:58]])
    with pytest.raises(ValueError, match="The validation set must hold at least one event for loss='cox'; all"):
        clone(model).set_params(early_stopping=EarlyStopping(folds=5)).fit(X[:60], rare)
    clone(model).set_params(loss="aft").fit(X, y, X_val=X[:20], y_val=censored[:20])


def test_a_slice_has_no_baseline_until_it_is_learned(table):
    X, y, _ = table
    model, few = GradientBoostingSurvival(**SMALL).fit(X, y), GradientBoostingSurvival(**SMALL | {"n_estimators": 4})
    alive = few.fit(X, y).predict_survival_function(X, [0.5, 1.0])
    part = model[:4]
    np.testing.assert_array_equal(part.predict(X), few.predict(X))
    with pytest.raises(ValueError, match="predict_survival_function needs the baseline hazard from fit, which"):
        part.predict_survival_function(X, [0.5])
    learned = part.refit_leaves(X, y, decay_rate=1.0)
    np.testing.assert_allclose(learned.predict_survival_function(X, [0.5, 1.0]), alive, rtol=1e-6)
    whole = model[:]
    np.testing.assert_array_equal(whole.cumulative_hazard_, model.cumulative_hazard_)
    assert GradientBoostingSurvival("aft", **SMALL).fit(X, y)[:4].predict_survival_function(X, [0.5]).shape == (600, 1)


def test_intervals_tell_more_than_their_middles_alone(rng):
    X = rng.normal(size=(800, 2))
    time = np.exp(X[:, 0] + 0.3 * rng.normal(size=800))
    wide = np.column_stack([np.where(rng.random(800) < 0.3, 0.0, time / 4), time * 4])
    model = GradientBoostingSurvival(AFTLoss(scale=0.3), **SMALL).fit(X, wide)
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9


@pytest.mark.parametrize("parameters", LOSSES[:2])
def test_weights_are_repetition(table, parameters, rng):
    X, y, _ = table
    times = rng.integers(0, 3, len(y))
    model = GradientBoostingSurvival(
        **parameters, n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=2.0)
    )
    weighted = clone(model).fit(X, y, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    at = [0.5, 1.0]
    np.testing.assert_allclose(
        weighted.predict_survival_function(X, at), repeated.predict_survival_function(X, at), rtol=1e-9
    )
    assert weighted.score(X, y, times) == pytest.approx(repeated.score(X.repeat(times, 0), y.repeat(times, 0)))


def test_threads_do_not_change_the_model(table):
    X, y, _ = table
    one, two = (GradientBoostingSurvival(**SMALL, n_jobs=n).fit(X, y).predict(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("parameters", LOSSES[:2])
def test_names_pickle_save_and_load(table, tmp_path, parameters):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["site"] = pd.Categorical([f"site {number}" for number in np.arange(600) % 150])
    model = GradientBoostingSurvival(**parameters, **SMALL).fit(frame, y)
    model.save(tmp_path / "model")
    expected = model.predict_survival_function(frame, [1.0])
    for same in (pickle.loads(pickle.dumps(model)), fastens.load(tmp_path / "model")):
        np.testing.assert_array_equal(same.predict_survival_function(frame, [1.0]), expected)


def test_all_ways_to_give_times():
    event, time = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    expected = np.column_stack([time, [1.0, np.inf, 3.0]])
    structured = np.rec.fromarrays([event, time], names="cens,days")
    for y in (
        structured,
        np.rec.fromarrays([time, event], names="days,cens"),
        pd.DataFrame({"event": event.astype(int), "time": time}),
        pd.DataFrame({"days": time, "dead": event}),
        pl.DataFrame({"days": time, "dead": event}),
        pd.DataFrame({0: event, 1: time}),
        pd.DataFrame({"lower": expected[:, 0], "upper": expected[:, 1]}),
        expected,
    ):
        np.testing.assert_array_equal(read_times(y), expected)
    np.testing.assert_array_equal(read_times(time), np.column_stack([time, time]))
    np.testing.assert_array_equal(checked_times(read_times([[-np.inf, 2.0]]), [0]), [[0.0, 2.0]])


@pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf])
def test_rows_without_weight_may_have_any_times(wrong, rng):
    X, time, weight = rng.normal(size=(60, 2)), rng.exponential(size=60), np.arange(60) % 3
    given = np.where(weight > 0, time, wrong)
    models = [GradientBoostingSurvival(n_estimators=2).fit(X, y, sample_weight=weight) for y in (time, given)]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    scores = [model.score(X, y, sample_weight=weight) for model, y in zip(models, (time, given), strict=True)]
    assert scores[0] == scores[1]
    events = pd.DataFrame({"event": np.where(weight > 0, 1.0, wrong if np.isnan(wrong) else 1.0), "time": given})
    other = GradientBoostingSurvival(n_estimators=2).fit(X, events, sample_weight=weight)
    np.testing.assert_array_equal(other.predict(X), models[0].predict(X))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": [0, 1]}), r"y must have a boolean column .*got the columns \['a', 'b'\]"),
        (
            pd.DataFrame({"event": [2, 1], "time": [1.0, 2.0]}),
            "y must hold only 0 and 1, or True and False, in its event column.*got 2 in row 0",
        ),
        (np.ones((2, 3)), "y must have one column, or two for bounds; got 3"),
        (
            [[3.0, 2.0], [1.0, 1.0]],
            r"y must hold non-negative times, with lower bounds at most the upper.*got \[3\.0, 2\.0\] in row 0",
        ),
        (
            [1.0, -1.0],
            r"y must hold non-negative times, with lower bounds at most the upper.*got \[-1\.0, -1\.0\] in row 1",
        ),
        ([1.0, np.nan], "Input y contains NaN"),
        ([["a", "b"], ["c", "d"]], "y must hold real numbers"),
        ([True, False], "y must hold times.*got only True or False"),
        (np.array([True, False], dtype=object), "y must hold times.*got only True or False"),
        ([1.0, 2.0, 3.0], "X and y must have the same number of rows; got 2 and 3"),
        ([[0.5, 3.0], [1.0, 1.0]], "y must hold events and right-censored rows for loss='cox', not"),
        ([[1.0, np.inf], [1.0, np.inf]], "y must hold at least one event for loss='cox'"),
    ],
)
def test_wrong_times(y, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingSurvival(n_estimators=1).fit(np.zeros((2, 1)), y)


def test_events_and_times_are_never_bounds():
    """NumPy makes numbers of True and False: all events would be intervals that begin at 1."""
    X, events, times = np.arange(6.0)[:, None], np.ones(6, bool), np.arange(2.0, 8.0)
    pairs = list(zip(events.tolist(), times.tolist(), strict=True))
    model = GradientBoostingSurvival("aft", n_estimators=1)
    for y in (pairs, np.array(pairs, dtype=object), [list(pair) for pair in pairs]):
        with pytest.raises(ValueError, match="y must hold lower and upper bounds if its columns have no names"):
            model.fit(X, y)
    batch = pa.record_batch({"event": events, "time": times})
    learned = model.fit(X, batch).predict(X)
    np.testing.assert_array_equal(learned, model.fit(X, times).predict(X))
    assert model.score(X, batch) == model.score(X, times)
    column = pl.DataFrame({"event": events, "time": times}).to_struct("y")
    np.testing.assert_array_equal(learned, model.fit(X, column).predict(X))


@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_columns_of_other_names_are_never_bounds(loss, tmp_path):
    """Named within the table they are as a table of their own is: events of 0 and 1 would be lower bounds."""
    frame = pd.DataFrame({"a": np.arange(40.0), "status": np.arange(40) % 2, "days": np.arange(2.0, 42.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    model = GradientBoostingSurvival(loss, n_estimators=1)
    for table in (frame, pl.from_pandas(frame), tmp_path / "rows.parquet"):
        with pytest.raises(ValueError, match=r"must have a boolean column .*got the columns \['status', 'days'\]"):
            model.fit(table, ["status", "days"])
    with pytest.raises(ValueError, match=r"must have a boolean column .*got the columns \['status', 'days'\]"):
        model.fit(BinnedTable.from_source(frame, y=["status", "days"]))
    bounds = frame.rename(columns={"status": "lower", "days": "upper"})
    if loss == "aft":
        expected = model.fit(frame[["a"]], bounds[["lower", "upper"]]).predict(frame[["a"]])
        binned = BinnedTable.from_source(bounds, y=["lower", "upper"])
        np.testing.assert_array_equal(model.fit(binned).predict(frame[["a"]]), expected)
    flags = frame.assign(status=frame["status"] == 1)
    named = model.fit(flags, ["status", "days"])
    with pytest.raises(ValueError, match=r"must have a boolean column"):
        named.score(frame, ["status", "days"])


def test_event_arrays_are_not_weights(table):
    X, y, _ = table
    times, events = y[:, 0], y[:, 0] == y[:, 1]
    model = GradientBoostingSurvival(n_estimators=1).fit(X, y, sample_weight=events)
    for call in (model.fit, model.score, lambda *given: model.refit_leaves(*given[:2], sample_weight=given[2])):
        for given in (events, events.tolist(), pd.Series(events)):
            with pytest.raises(ValueError, match=r"sample_weight must hold numbers .*the columns 'event' and 'time'"):
                call(X, times, given)
    with pytest.raises(ValueError, match="the target y is None"):
        model.fit(X, None, events)
    model.fit(X, times, events.astype(int))
    for call in (model.fit, model.score):
        with pytest.raises(ValueError, match="the target y is None"):
            call(X, None, events)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 1.0], "y must hold positive times for loss='aft'; the smallest is 0"),
        ([[1.0, np.inf], [2.0, np.inf]], "y must hold at least one event, or both lower and upper bounds, for"),
    ],
)
def test_wrong_times_of_aft(y, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingSurvival("aft", n_estimators=1).fit(np.zeros((2, 1)), y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hazard"}, "loss must be 'cox' or 'aft' or AFTLoss; got 'hazard'"),
        (
            {"loss": AFTLoss(distribution="cauchy")},
            "distribution must be one of 'normal', 'logistic', 'extreme'; got 'cauchy'",
        ),
        ({"loss": AFTLoss(scale=0)}, "scale must be a number greater than 0; got 0"),
    ],
)
def test_wrong_parameters(table, parameters, message):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        GradientBoostingSurvival(**parameters).fit(X, y)
    model = GradientBoostingSurvival(n_estimators=1).fit(X, y)
    for times in ([-1.0], [np.nan], "a", [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="times must hold non-negative numbers"):
            model.predict_survival_function(X, times)


def test_masked_times_raise():
    X = np.arange(20.0)[:, None]
    model = GradientBoostingSurvival(n_estimators=1).fit(X, np.column_stack([X + 1, X + 1]))
    with pytest.raises(ValueError, match="times must not have masked values; row"):
        model.predict_survival_function(X, np.ma.masked_equal([1.0, 2.0], 2.0))


def test_l2_follows_the_noise():
    rng = np.random.default_rng(0)
    side = np.arange(400) % 4 == 0
    time, lost = rng.exponential(np.where(side, 0.5, 1.0)), rng.exponential(2.0, 400)
    y = np.column_stack([np.minimum(time, lost), np.where(time <= lost, time, np.inf)])
    hazard = naive.cumulative_hazard(y, np.zeros(400), np.ones(400), y[:, 0])
    slope = hazard - (time <= lost)
    l2 = 30 * (slope**2).sum() / hazard.sum()
    steps = [-slope[part].sum() / (hazard[part].sum() + l2) for part in (~side, side)]
    one_split = {"max_leaf_nodes": 2, "n_estimators": 1, "learning_rate": 1.0, "split_penalty": 0.0}
    model = GradientBoostingSurvival(**one_split).fit(side[:, None], y)
    np.testing.assert_allclose(model.predict([[0], [1]]), steps, rtol=1e-5)


@pytest.mark.parametrize("loss", ["cox", "aft"])
@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("events", ["both", "all", "none"])
def test_events_in_columns_without_names_are_refused(loss, flag, events, rng):
    """Both losses read named events in the same way, and neither takes them for bounds."""
    X, time = rng.normal(size=(60, 2)), rng.exponential(size=60) + 1
    event = {"both": np.arange(60) % 2, "all": np.ones(60), "none": np.zeros(60)}[events]
    y = np.column_stack([event, time] if flag == 0 else [time, event])
    model = GradientBoostingSurvival(loss, n_estimators=2)
    with pytest.raises(ValueError, match=f"only 0 and 1 in column {flag}, .*the columns 'event' and 'time'"):
        model.fit(X, y)
    if events == "both":
        named = [pd.DataFrame({"event": event, "time": time}), np.rec.fromarrays([event, time], names="event,time")]
        bounds = np.column_stack([time, np.where(event == 1, time, np.inf)])
        first, *others = (clone(model).fit(X, given).predict(X) for given in (bounds, *named))
        for other in others:
            np.testing.assert_array_equal(other, first)
        with pytest.raises(ValueError, match="only 0 and 1 in column"):
            model.fit(X, bounds).score(X, y)


def test_bounds_of_0_and_1_are_read_where_they_cannot_be_events():
    for bounds in ([[0.0, np.inf], [1.0, 2.0]], [[1.0, 1.0], [0.0, 0.0]]):
        np.testing.assert_array_equal(read_times(bounds), bounds)
    named = pd.DataFrame({"lower": [0, 1], "upper": [2, 3]})
    np.testing.assert_array_equal(read_times(named), named)


def test_events_given_as_weights_are_warned_of(rng):
    X, time = rng.normal(size=(60, 2)), rng.exponential(size=60) + 1
    with pytest.warns(UserWarning, match="sample_weight holds only 0 and 1; .*'event' and 'time'"):
        GradientBoostingSurvival(n_estimators=1).fit(X, time, np.arange(60) % 2)


@pytest.mark.parametrize(
    ("distribution", "scipy_name"), [("normal", "lognorm"), ("logistic", "fisk"), ("extreme", "weibull_min")]
)
def test_distributions_of_censored_times(distribution, scipy_name, tmp_path, rng):
    X = rng.random((400, 2))
    times = np.exp(2 * X[:, 0] + 0.4 * np.log(rng.weibull(1.0, 400)))
    y = np.column_stack([times, np.where(times > 4, np.inf, times)])
    y[times > 4, 0] = 4.0
    model = GradientBoostingSurvival(AFTLoss(distribution, 0.4), n_estimators=40).fit(X, y)
    dist = model.predict_dist(X)
    assert dist.dist.name == scipy_name
    at = np.array([0.5, 2.0, 6.0])
    survival = model.predict_survival_function(X, at)
    for k, time in enumerate(at):
        np.testing.assert_allclose(dist.sf(time), survival[:, k], rtol=1e-6)
    # Censored rows count by the probability beyond their bound, observed ones by their density.
    density = np.where(times > 4, dist.logsf(4.0), dist.logpdf(times))
    assert -density.mean() == pytest.approx(model._loss.loss(y, model._raw_from(X, None).T), rel=1e-6)
    quantiles = model.predict_quantiles(X, [0.1, 0.9])
    assert 0.7 < ((times > quantiles[:, 0]) & (times < quantiles[:, 1])).mean() < 0.95
    draws = model.sample(X, 300, random_state=0)
    np.testing.assert_allclose((draws < quantiles[:, 1:]).mean(), 0.9, atol=0.01)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_quantiles(X, [0.1, 0.9]), quantiles)
    with pytest.raises(ValueError, match="loss must be 'aft' for distributions of times"):
        GradientBoostingSurvival(n_estimators=1).fit(X, times).predict_dist(X)

"""Predictions for Dask collections: lazy, of the same kind, and those of one machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from fastens import (
    BaggingClassifier,
    BayesianNetwork,
    CategoricalNB,
    DecisionTreeClassifier,
    GaussianNB,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
)
from fastens.distributed import DaskTable
from fastens.distributed.dask_table import split_on_dask

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.cluster
N_ROWS = 300
COLUMNS = ["size", "number", "word"]


def make_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=N_ROWS), "number": rng.integers(0, 4, N_ROWS)})
    frame["word"] = rng.choice(["a", "b", "c"], N_ROWS)
    target = frame["size"] + (frame["word"] == "b")
    return frame.assign(weight=rng.random(N_ROWS), target=target, label=np.where(target > 0.3, "yes", "no"))


FRAME = make_frame()
X, T = FRAME[["size", "number"]].to_numpy(), FRAME[["target", "weight"]].to_numpy()


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def frame_of(frame=FRAME, n_parts=4):
    return dd.from_pandas(frame, npartitions=n_parts, sort=False)


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=3),
        RandomForestClassifier(n_estimators=3),
        BaggingClassifier(n_estimators=2),
        CategoricalNB(),
        BayesianNetwork("tan", max_bins=4),
    ],
    ids=lambda model: type(model).__name__,
)
def test_frames(model):
    model.fit(FRAME[COLUMNS], FRAME["label"])
    frame = frame_of()
    labels, shares = model.predict(frame), model.predict_proba(frame[frame["size"] > -9])
    assert isinstance(labels, da.Array)
    assert (labels.npartitions, labels.dtype) == (4, model.predict(FRAME[COLUMNS]).dtype)
    assert shares.shape[1] == 2
    np.testing.assert_array_equal(labels.compute(), model.predict(FRAME[COLUMNS]))
    np.testing.assert_array_equal(shares.compute(), model.predict_proba(FRAME[COLUMNS]))


def test_columns_of_dates():
    rows = FRAME[["size"]].assign(when=pd.Timestamp("2026-01-01") + pd.to_timedelta(FRAME["number"], unit="D"))
    model = GradientBoostingRegressor(n_estimators=3).fit(rows, FRAME["number"])
    found = model.predict(frame_of(rows.assign(unknown=1.0)))
    np.testing.assert_array_equal(found.compute(), model.predict(rows))


def test_several_targets_by_their_names():
    rows, names = FRAME[COLUMNS], ["target", "weight"]
    model = GradientBoostingRegressor(n_estimators=3).fit(rows, FRAME[names])
    assert model.score(frame_of(), names) == model.score(FRAME[[*COLUMNS, *names]], names)
    times = FRAME[COLUMNS].assign(lost=FRAME["target"] > 0, years=FRAME["weight"] + 0.1)
    survival = GradientBoostingSurvival(n_estimators=3).fit(times, ["lost", "years"])
    assert survival.score(frame_of(times), ["lost", "years"]) == survival.score(times, ["lost", "years"])
    with pytest.raises(ValueError, match="y must name a column of X; got 'nothing'"):
        model.score(frame_of(), ["target", "nothing"])


def test_arrays_have_their_chunks():
    table = da.from_array(X, chunks=(90, 1))
    model = RandomForestRegressor(n_estimators=3).fit(X, T)
    found = model.predict(table)
    assert (found.chunks, found.dtype) == (((90, 90, 90, 30), (2,)), np.float64)
    np.testing.assert_array_equal(found.compute(), model.predict(X))
    np.testing.assert_array_equal(model.apply(DaskTable(table)).compute(), model.apply(X))


def test_delayed_partitions_and_lists():
    model = RandomForestClassifier(n_estimators=3).fit(X, FRAME[["label", "word"]].to_numpy())
    expected = model.predict_proba(X)
    found = model.predict_proba(da.from_array(X, chunks=(90, 2)))
    assert [own.shape for own in found] == [own.shape for own in expected]
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own.compute(), other)
    answers = dask.compute(model.predict_proba([dask.delayed(X[:100]), dask.delayed(X[100:])]))[0]
    np.testing.assert_array_equal(np.concatenate([own for own, _ in answers]), expected[0])


def test_partitions_without_rows_and_sparse_answers():
    model = RandomTreesEmbedding(n_estimators=3).fit(FRAME[COLUMNS])
    frame = frame_of()
    chosen = frame[frame["size"] > FRAME["size"].nlargest(3).min()]
    found = model.transform(chosen).compute()
    assert sparse.issparse(found)
    assert found.shape[0] == 2
    whole = model.transform(FRAME[FRAME["size"] > FRAME["size"].nlargest(3).min()][COLUMNS])
    assert (found != whole).nnz == 0
    nothing = GaussianNB().fit(X, FRAME["label"]).predict_proba(da.from_array(X, chunks=90)[:0])
    assert nothing.compute().shape == (0, 2)


def test_frames_are_answered_where_set_output_asks_for_them():
    members = [("tree", DecisionTreeClassifier(max_depth=2)), ("forest", RandomForestClassifier(3))]
    model = StackingClassifier(members, cv=2).fit(FRAME[COLUMNS], FRAME["label"]).set_output(transform="pandas")
    found = model.transform(frame_of()[COLUMNS])
    pd.testing.assert_frame_equal(found.compute(), model.transform(FRAME[COLUMNS]))


def test_arguments_per_row_are_split_with_the_rows():
    model = GradientBoostingRegressor(n_estimators=3).fit(X, T[:, 0])
    found = model.predict(da.from_array(X, chunks=(90, 2)), init_score=da.from_array(T[:, 1], chunks=70))
    np.testing.assert_array_equal(found.compute(), model.predict(X, init_score=T[:, 1]))
    with pytest.raises(
        ValueError, match=r"init_score must have 4 partitions, like X; got 2\. Pass the name of a column of X"
    ):
        model.predict(frame_of(), init_score=frame_of(n_parts=2)["target"])


@pytest.mark.slow
def test_scores():
    frame, rows = frame_of(), FRAME[COLUMNS]
    model = GradientBoostingClassifier(n_estimators=3).fit(rows, FRAME["label"])
    expected = model.score(rows, FRAME["label"], FRAME["weight"])
    assert model.score(frame[[*COLUMNS, "label", "weight"]], "label", "weight") == expected
    assert model.score(frame, frame["label"], sample_weight=frame["weight"]) == expected
    model = GradientBoostingRegressor(n_estimators=3).fit(X, T)
    assert model.score(da.from_array(X, chunks=90), T) == model.score(X, T)
    boosted, start = GradientBoostingRegressor(n_estimators=3).fit(X, T[:, 0]), da.from_array(T[:, 1], chunks=90)
    found = boosted.score(da.from_array(X, chunks=90), T[:, 0], init_score=start)
    assert found == boosted.score(X, T[:, 0], init_score=T[:, 1])
    qid, relevance = np.repeat(np.arange(30), 10), np.digitize(T[:, 0], [0.0, 1.5])
    ranker = GradientBoostingRanker(n_estimators=3).fit(X, relevance, qid=qid)
    given = [da.from_array(each, chunks=100) for each in (relevance, qid)]
    assert ranker.score(da.from_array(X, chunks=90), given[0], qid=given[1]) == ranker.score(X, relevance, qid=qid)
    with pytest.raises(ValueError, match="y must name a column of X; got 'nothing'"):
        model.score(frame, "nothing")


def test_the_model_is_one_task_and_a_copy():
    model = GradientBoostingRegressor(n_estimators=3).fit(X, T[:, 0])
    expected = model.predict(X)
    found = model.predict(da.from_array(X, chunks=20))
    assert sum(str(key).startswith("GradientBoosting") for key in found.__dask_graph__()) == 1
    model.fit(X, T[:, 1])
    np.testing.assert_array_equal(found.compute(), expected)


def test_errors_come_at_once():
    with pytest.raises(NotFittedError):
        GaussianNB().predict(da.ones((4, 2)))
    with pytest.raises(ValueError, match="size"):
        GaussianNB().fit(FRAME[["size", "number"]], FRAME["label"]).predict(frame_of()[["number"]])


@pytest.mark.slow
def test_workers(tmp_path):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    model = GradientBoostingRegressor(n_estimators=3).fit(X, T[:, 0])
    table, target = da.from_array(X, chunks=(50, 2)), da.from_array(T[:, 0], chunks=50)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        np.testing.assert_array_equal(client.compute(model.predict(table), sync=True), model.predict(X))
        assert model.score(DaskTable(table, client=client), target) == model.score(X, T[:, 0])


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """A lazy table of 20 files, of whose single columns Dask fuses the partitions, and its rows."""
    folder = tmp_path_factory.mktemp("parquet")
    columns = {f"c{k}": np.random.default_rng(k).normal(size=2000) for k in range(20)}
    rows = pd.DataFrame(columns).assign(y=columns["c0"] > 0, w=1.0 + np.arange(2000) % 3, q=np.arange(2000) // 100)
    dd.from_pandas(rows, npartitions=20).to_parquet(folder)
    return dd.read_parquet(folder), rows


@pytest.mark.parametrize(
    "table_of",
    [
        lambda frame: frame[[f"c{k}" for k in range(20)]],
        lambda frame: frame.drop(columns=["y", "w", "q"]),
        lambda frame: frame[frame["c1"] > 0][["c0", "c1"]],
        lambda frame: frame[["c0"]],
    ],
)
def test_partitions_of_files_are_aligned(parquet, table_of):
    frame, _ = parquet
    assert len(frame["y"].to_delayed()) < 20  # what this is about
    table = table_of(frame)
    frame = frame[frame["c1"] > 0] if len(table) < len(frame) else frame
    given = {"y": frame["y"], "sample_weight": frame["w"] * 2, "qid": frame["q"], "init_score": frame["c3"]}
    given |= {"X_val": table, "y_val": frame["y"], "qid_val": frame["q"]}
    found = split_on_dask(table, given)
    for name, parts in found.items():
        assert len(parts) == 20
        whole = dask.compute(parts, scheduler="sync")[0]
        for key, values in ({"X": table} | given).items():
            if key in whole[0] and (name == "X") != key.endswith("_val"):
                expected = values.compute(scheduler="sync")
                assert pd.concat([part[key] for part in whole]).equals(expected)
                assert all(part[key].index.equals(part[name].index) for part in whole)


def test_only_the_columns_needed_are_read_from_files(parquet):
    frame, _ = parquet
    part = split_on_dask(frame[["c0", "c1"]], {"y": frame["y"]})["X"][3]
    assert "columns=['y']" in str(frame["y"].simplify().expr.tree_repr())
    assert list(part["X"].compute(scheduler="sync").columns) == ["c0", "c1"]


def test_predictions_and_scores_of_files(parquet):
    frame, rows = parquet
    columns = ["c0", "c1"]
    model = GradientBoostingClassifier(n_estimators=3).fit(rows[columns], rows["y"])
    with dask.config.set(scheduler="sync"):
        found = model.predict_proba(frame[columns]).compute()
        np.testing.assert_array_equal(found, model.predict_proba(rows[columns]))
        score = model.score(frame[columns], frame["y"], frame["w"])
    assert score == model.score(rows[columns], rows["y"], rows["w"])

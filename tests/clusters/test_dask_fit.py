"""Fits on a Dask cluster: the model file is that of one machine, to the byte."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from fastens import (
    AdaBoostClassifier,
    AODEClassifier,
    BaggingClassifier,
    BayesianNetwork,
    Checkpoint,
    DecisionTreeRegressor,
    ExactTreeAverageClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    MixedNB,
    RandomForestRegressor,
    StackingRegressor,
    TANClassifier,
    TextClassifier,
)
from fastens.distributed import DaskTable
from fastens.distributed.coordinator import ClusterLostError
from fastens.params.options import Categories, EarlyStopping
from reference.cluster_rows import content, make_frame

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
delayed = pytest.importorskip("dask").delayed

pytestmark = pytest.mark.cluster
N_ROWS = 1500
COMMON = {"n_estimators": 6, "max_leaf_nodes": 8, "random_state": 4}


FRAME = make_frame(N_ROWS)
OTHERS = [
    AdaBoostClassifier(n_estimators=3),
    BaggingClassifier(n_estimators=3, random_state=1),
    MixedNB(),
    TANClassifier(),
    AODEClassifier(),
    ExactTreeAverageClassifier(5),
    BayesianNetwork("tan", max_bins=4),
]
X, T = FRAME[["size", "number"]].to_numpy(), FRAME["target"].to_numpy()
TABLE = FRAME[["size", "number", "word"]]


@pytest.fixture(scope="module")
def client():
    options = {
        "n_workers": 3,
        "threads_per_worker": 2,
        "processes": False,
        "protocol": "tcp",
        "dashboard_address": ":0",
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as found:
        yield found


def test_without_a_cluster():
    with pytest.raises(ValueError, match=r"X is a Dask collection, but there is no Dask client\. Create a"):
        GradientBoostingRegressor().fit(da.ones((4, 2)), da.ones(4))


def frame_of(n_parts, frame=FRAME):
    return dd.from_pandas(frame, npartitions=n_parts, sort=False)


@pytest.mark.slow
@pytest.mark.parametrize(("n_workers", "n_parts"), [(1, 2), (2, 5), (3, 1), (3, 13)])
def test_names_of_columns(client, tmp_path, n_workers, n_parts):
    expected = content(GradientBoostingRegressor(**COMMON).fit(FRAME, "target", sample_weight="weight"), tmp_path)
    workers = sorted(client.nthreads())[:n_workers]
    table = DaskTable(frame_of(n_parts), client=client, workers=workers)
    model = GradientBoostingRegressor(**COMMON).fit(table, "target", sample_weight="weight")
    assert content(model, tmp_path) == expected
    assert list(model.feature_names_in_) == ["size", "number", "word"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DecisionTreeRegressor, ExtraTreesRegressor, RandomForestRegressor])
def test_forests(client, tmp_path, kind):
    options = {"random_state": 4} | ({} if kind is DecisionTreeRegressor else {"n_estimators": 4})
    expected = content(kind(**options).fit(FRAME, "target", sample_weight="weight"), tmp_path)
    model = kind(**options).fit(DaskTable(frame_of(5), client=client), "target", sample_weight="weight")
    assert content(model, tmp_path) == expected


@pytest.mark.slow
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: type(model).__name__)
def test_other_classifiers(client, tmp_path, model):
    table = TABLE.assign(label=np.where(T > 1, "yes", "no"))
    expected = content(clone(model).fit(table, "label"), tmp_path)
    frame = frame_of(7, table)
    assert content(model.fit(frame[frame["size"] > -99], "label"), tmp_path) == expected


@pytest.mark.slow
def test_arrays_and_delayed_partitions(client, tmp_path):
    labels = np.where(T > 1, "yes", "no")
    expected = content(GradientBoostingClassifier(subsample=0.5, **COMMON).fit(X, labels), tmp_path)
    array, y = da.from_array(X, chunks=(400, 1)), da.from_array(labels, chunks=700)
    pieces, targets = ([delayed(part) for part in np.array_split(each, 4)] for each in (X, labels))
    arrow = [delayed(pa.table({"a": part[:, 0], "b": part[:, 1]})) for part in np.array_split(X, 3)]
    named = GradientBoostingClassifier(subsample=0.5, **COMMON).fit(pd.DataFrame(X, columns=["a", "b"]), labels)
    model = GradientBoostingClassifier(subsample=0.5, **COMMON).fit(
        arrow, list(map(delayed, np.array_split(labels, 3)))
    )
    assert content(model, tmp_path) == content(named, tmp_path)
    for table, target in ((array, y), (array, labels), (pieces, targets)):
        model = GradientBoostingClassifier(subsample=0.5, **COMMON).fit(table, target)
        assert content(model, tmp_path) == expected


@pytest.mark.slow
def test_texts(client, tmp_path):
    words = FRAME["word"] + " ham and spam " + FRAME["number"].astype(str)
    expected = content(TextClassifier(min_df=3).fit(words, T > 1), tmp_path)
    frame = frame_of(6, FRAME.assign(text=words, label=T > 1))
    model = TextClassifier(min_df=3).fit(frame["text"], frame["label"])
    assert content(model, tmp_path) == expected
    named = content(TextClassifier(min_df=3).fit(words.to_frame("text"), T > 1), tmp_path)
    assert content(TextClassifier(min_df=3).fit(frame[["text", "label"]], "label"), tmp_path) == named
    np.testing.assert_array_equal(model.predict(frame["text"]).compute(), model.predict(words))


@pytest.mark.slow
def test_rows_to_validate_on(client, tmp_path):
    options = COMMON | {"n_estimators": 30, "early_stopping": True, "eval_metric": ["r2", "loss"]}
    options |= {"n_iter_no_change": 2, "learning_rate": 0.8}
    first, last = FRAME[:1000], FRAME[1000:]
    given = {"sample_weight": "weight", "y_val": "target", "sample_weight_val": "weight"}
    expected = GradientBoostingRegressor(**options).fit(first, "target", X_val=last, **given)
    assert expected.n_estimators_ < 30
    model = GradientBoostingRegressor(**options)
    model.fit(frame_of(4, first), "target", X_val=frame_of(2, last), **given)
    assert content(model, tmp_path) == content(expected, tmp_path)


@pytest.mark.slow
def test_encoded_categories_and_rows_held_out(client, tmp_path):
    options = COMMON | {"early_stopping": True, "categories": Categories(encoding="target"), "oob_score": True}
    options |= {"subsample": 0.6}
    y = FRAME["target"] > 1
    expected = GradientBoostingClassifier(**options).fit(TABLE, y)
    model = GradientBoostingClassifier(**options).fit(frame_of(5, TABLE), frame_of(5, y))
    assert content(model, tmp_path) == content(expected, tmp_path)
    np.testing.assert_array_equal(model.oob_decision_function_, expected.oob_decision_function_)


@pytest.mark.slow
def test_queries_and_times(client, tmp_path):
    qid, relevance = np.repeat(np.arange(30), 50), np.digitize(T, [0.0, 1.5])
    weights = {"query_weight": np.arange(30) % 3 / 2}
    given = [da.from_array(each, chunks=500) for each in (relevance, qid, np.arange(len(qid)) % 50)]
    for loss in ("lambdarank", "xendcg"):
        expected = GradientBoostingRanker(loss, sampling="queries", subsample=0.7, **COMMON)
        expected.fit(X, relevance, qid=qid, position=np.arange(len(qid)) % 50, **weights)
        model = clone(expected).fit(
            da.from_array(X, chunks=(500, 2)), given[0], qid=given[1], position=given[2], **weights
        )
        assert content(model, tmp_path) == content(expected, tmp_path)
        np.testing.assert_array_equal(model.position_bias_, expected.position_bias_)
    frame = FRAME[["size", "number"]].assign(
        relevance=relevance, query=np.array(list("abcdefghijklmnopqrstuvwxyzABCD"))[qid]
    )
    mixed = frame.sample(frac=1, random_state=1)  # no query has its rows together
    given = {"qid": "query", "X_val": frame_of(4, mixed), "y_val": "relevance", "qid_val": "query"}
    ranker = GradientBoostingRanker(early_stopping=True, **COMMON).fit(frame_of(7, mixed), "relevance", **given)
    expected = GradientBoostingRanker(early_stopping=True, **COMMON)
    expected.fit(frame, "relevance", qid="query", X_val=frame, y_val="relevance", qid_val="query")
    assert content(ranker, tmp_path) == content(expected, tmp_path)
    times = np.column_stack([np.exp(T / 2), np.where(T > -1, np.exp(T / 2), np.inf)])
    expected = GradientBoostingSurvival(**COMMON).fit(X, times)
    model = GradientBoostingSurvival(**COMMON).fit(da.from_array(X, chunks=(500, 2)), da.from_array(times, chunks=400))
    assert content(model, tmp_path) == content(expected, tmp_path)


@pytest.mark.slow
def test_empty_partitions(client, tmp_path):
    expected = content(GradientBoostingRegressor(**COMMON).fit(FRAME[FRAME["size"] > 2], "target"), tmp_path)
    frame = frame_of(60)
    model = GradientBoostingRegressor(**COMMON).fit(frame[frame["size"] > 2], "target")
    assert content(model, tmp_path) == expected


@pytest.mark.slow
def test_queries_of_workers_without_rows(client, tmp_path):
    frame = FRAME[["size", "number"]].assign(relevance=np.digitize(T, [0.0, 1.5]), query=np.arange(N_ROWS) // 40)
    parts = [delayed(frame[first:last]) for first, last in ((0, 0), (0, 0), (0, 70), (70, N_ROWS))]
    found = GradientBoostingRanker(**COMMON).fit(dd.from_delayed(parts, meta=frame[:0]), "relevance", qid="query")
    assert content(found, tmp_path) == content(
        GradientBoostingRanker(**COMMON).fit(frame, "relevance", qid="query"), tmp_path
    )


@pytest.mark.slow
def test_several_targets_by_their_names(client, tmp_path):
    frame, names = FRAME[["size", "word", "number", "target"]].dropna(), ["number", "target"]
    table = dd.from_pandas(frame, npartitions=4, sort=False)
    expected = content(GradientBoostingRegressor(**COMMON).fit(frame, names), tmp_path)
    assert content(GradientBoostingRegressor(**COMMON).fit(table, names), tmp_path) == expected
    validated = {"X_val": table, "y_val": names}
    assert GradientBoostingRegressor(**COMMON, early_stopping=True).fit(table, names, **validated).n_estimators_ > 0


@pytest.mark.slow
def test_callbacks_are_called_here(client, tmp_path, capsys):
    seen = []

    def note(env):
        seen.append((env.iteration, env.evaluation_result_list[0].metric_name, env.params["n_estimators"]))
        if env.iteration == 3:
            seen.append(env.model.n_estimators_)
        return env.iteration == 4

    path = tmp_path / "checkpoint.fastens"
    model = GradientBoostingRegressor(callbacks=[note, Checkpoint(path, 3)], verbose=1, **COMMON)
    model.fit(frame_of(4), "target")
    assert model.n_estimators_ == 5
    assert seen == [*((i, "loss", 6) for i in range(4)), 4, (4, "loss", 6)]
    expected = content(GradientBoostingRegressor(**COMMON).fit(FRAME, "target"), tmp_path)
    assert content(GradientBoostingRegressor(**COMMON).fit(frame_of(7), "target", resume=path), tmp_path) == expected


@pytest.mark.slow
def test_an_error_of_a_callback_is_raised_here(client):
    def fail(env):
        if env.iteration == 2:
            raise ZeroDivisionError("after three rounds")

    model = GradientBoostingRegressor(callbacks=[fail], **COMMON)
    with pytest.raises(ZeroDivisionError, match="after three rounds"):
        model.fit(frame_of(4), "target")
    assert model.n_estimators_ == 3


@pytest.mark.slow
def test_errors_name_what_is_wrong(client):
    frame, model = frame_of(3), GradientBoostingRegressor(**COMMON)
    with pytest.raises(ValueError, match=r"y must have 3 partitions, like X; got 2\."):
        model.fit(frame, frame_of(2)["target"])
    with pytest.raises(ValueError, match="y must be a Dask collection"):
        model.fit(frame, FRAME["target"])
    with pytest.raises(ValueError, match="sample_weight must have the same number of rows as"):
        model.fit(frame, "target", sample_weight=da.ones(N_ROWS, chunks=(300, 300, 900)))
    with pytest.raises(ValueError, match="y must name a column of X"):
        model.fit(frame, "nothing")
    with pytest.raises(ValueError, match="X_val must be a Dask collection if X is one"):
        model.fit(frame, "target", X_val=FRAME, y_val="target")
    with pytest.raises(ValueError, match="learning_rate must be"):
        GradientBoostingRegressor(learning_rate=-1).fit(frame, "target")
    with pytest.raises(ValueError, match="X must be a table in memory for StackingRegressor"):
        StackingRegressor([("a", model)]).fit(frame, "target")
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(frame[["size", "number"]], frame["number"])
    parts = [delayed(TABLE[:500]), delayed(TABLE[500:1000]), delayed(TABLE[TABLE.columns[::-1]][1000:])]
    with pytest.raises(ValueError, match="X must have the same columns in all partitions; got"):
        model.fit(parts, [delayed(part) for part in np.split(T, 3)])
    with pytest.raises(ValueError, match=r"group must be None if X is a Dask collection\. Pass the query of each row"):
        GradientBoostingRanker().fit(frame, "target", group=[N_ROWS])
    with pytest.raises(ValueError, match="table must be a Dask dataframe"):
        DaskTable(FRAME)
    with pytest.raises(ValueError, match="patience must be"):
        DaskTable(frame, patience=0)


@pytest.mark.slow
@pytest.mark.parametrize("folds", [None, 2])
def test_a_worker_leaves(tmp_path, folds):
    options = COMMON | {"n_estimators": 8, "early_stopping": EarlyStopping(folds=folds) if folds else False}
    expected = content(GradientBoostingRegressor(**options).fit(FRAME, "target"), tmp_path)
    setup = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    rounds = []

    with distributed.LocalCluster(**setup) as cluster, distributed.Client(cluster) as client:

        def leave(env):
            rounds.append(env.iteration)
            if len(rounds) == 5:
                client.retire_workers(sorted(client.nthreads())[:1])

        table = DaskTable(frame_of(4), client=client, checkpoint_every=3, patience=20)
        model = GradientBoostingRegressor(callbacks=[leave], **options).fit(table, "target")
    model.callbacks = None
    assert content(model, tmp_path) == expected
    # The first three rounds have a checkpoint; a mean of folds begins anew.
    assert rounds[:5] == [0, 1, 2, 3, 4]
    assert rounds.count(0) == (1 if folds is None else 3)


@pytest.mark.slow
def test_two_fits_at_once(client, tmp_path):
    expected = content(GradientBoostingRegressor(**COMMON).fit(FRAME, "target"), tmp_path)
    with ThreadPoolExecutor(2) as pool:
        fits = [
            pool.submit(GradientBoostingRegressor(**COMMON).fit, DaskTable(frame_of(n), client=client), "target")
            for n in (3, 5, 6)
        ]
        models = [fit.result(timeout=100) for fit in fits]
    assert [content(model, tmp_path) == expected for model in models] == [True] * 3


def test_a_fit_does_not_wait_for_tasks_of_another(client, tmp_path):
    """Of a lazy table that two fits share, each computes the partitions: the workers of the other may be lost."""
    began, go_on = tmp_path / "began", tmp_path / "go on"
    held, free = sorted(client.nthreads())[:2]

    def load(number):
        if distributed.get_worker().address == held:
            began.touch()
            _wait_for(go_on)
        return X[number::2]

    tables = [delayed(load, pure=True)(number) for number in range(2)]
    targets = [delayed(T[number::2]) for number in range(2)]

    def fit(worker):
        return GradientBoostingRegressor(**COMMON).fit(DaskTable(tables, client=client, workers=[worker]), targets)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fit, held)
        try:
            _wait_for(began)
            second = pool.submit(fit, free).result(timeout=30)
        finally:
            go_on.touch()
        assert content(second, tmp_path) == content(first.result(timeout=60), tmp_path)


def _wait_for(path):
    ends = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < ends
        time.sleep(0.01)


def local_cluster(n_workers=2):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["client", "cluster"])
@pytest.mark.filterwarnings("ignore")
def test_closing_during_a_fit_keeps_the_last_checkpoint(tmp_path, closed):
    path = tmp_path / "checkpoint.fastens"
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:

        def close(env):
            if env.iteration == 6:
                {"client": client, "cluster": cluster}[closed].close()

        model = GradientBoostingRegressor(callbacks=[close], **COMMON | {"n_estimators": 9})
        table = DaskTable(da.from_array(X, chunks=(500, 2)), client=client, checkpoint_every=3, patience=10)
        with pytest.raises(ClusterLostError, match="the client or its cluster was closed during the fit") as error:
            model.fit(table, da.from_array(T, chunks=500))
    assert "6 rounds of the last checkpoint" in error.value.__notes__[0]
    assert model.n_estimators_ == 6
    model.set_params(callbacks=None).save(path)
    resumed = GradientBoostingRegressor(**COMMON | {"n_estimators": 9}).fit(X, T, resume=path)
    np.testing.assert_array_equal(
        resumed.predict(X), GradientBoostingRegressor(**COMMON | {"n_estimators": 9}).fit(X, T).predict(X)
    )


@pytest.mark.slow
def test_tasks_that_are_cancelled_twice_end_the_fit():
    cancelled = []
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:

        def cancel(env):
            if env.iteration == 1:
                cancelled.append(env.iteration)
                client.cancel([distributed.Future(key, client) for key in list(client.futures)], reason="by the test")

        table = DaskTable(da.from_array(X, chunks=(500, 2)), client=client, patience=10)
        with pytest.raises(ClusterLostError, match="Dask reports that the tasks of the fit are"):
            GradientBoostingRegressor(callbacks=[cancel], **COMMON).fit(table, da.from_array(T, chunks=500))
    assert len(cancelled) == 2


def test_invalid_arguments_raise_before_rows_are_read(client):
    """Once, in this process: partitions that fail would say something else."""

    def fail():
        raise ZeroDivisionError

    unread = dd.from_delayed([delayed(fail)()], meta=TABLE.assign(target=T).iloc[:0])
    model = GradientBoostingRegressor()
    for call, error in [
        (lambda: GradientBoostingRegressor(learning_rate=-1).fit(unread, "target"), "learning_rate must be"),
        (lambda: GradientBoostingRegressor(quantile=0.5).fit(unread, "target"), "quantile"),
        (lambda: RandomForestRegressor(n_estimators=0).fit(unread, "target"), "n_estimators must be"),
        (lambda: model.fit(unread, "nothing"), "y must name a column of X; got 'nothing', and the columns are"),
        (lambda: model.fit(unread, "target", sample_weight="none"), "sample_weight must name a column of X"),
        (lambda: model.fit(unread, "target", X_val=unread, y_val="no"), "y_val must name a column of X_val"),
        (
            lambda: model.fit(unread, "target", eval_set=[]),
            r"eval_set must be None in distributed fits\. Pass X_val and y_val",
        ),
        (lambda: model.fit(unread, "target", eval_metric="mae"), "Use eval_metric, a parameter of the constructor"),
        (lambda: model.fit(unread, "target", group=[3]), "Only GradientBoostingRanker uses queries"),
        (lambda: model.fit(unread, "target", client=client), r"DaskTable\(X, client=...\)"),
    ]:
        with pytest.raises((TypeError, ValueError), match=error):
            call()


def with_partition(change):
    """Four delayed partitions, of which the third is changed."""
    pieces = [TABLE.assign(target=T, weight=1.0)[first : first + 300] for first in range(0, 1200, 300)]
    return [delayed(change(piece) if number == 2 else piece) for number, piece in enumerate(pieces)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda part: part.assign(target=np.nan), r"Input y contains NaN\. This is in partition 2 of X"),
        (lambda part: part.assign(weight=-1.0), r"sample_weight must be finite .* This is in partition 2 of X"),
        (lambda part: part.assign(size=1j), r"Column 'size' must hold numbers.* This is in partition 2 of X"),
        (lambda part: part.assign(size=pd.Timestamp(0)), "'size' of X must have one type .* dates in partition 2"),
        (lambda part: part.drop(columns="size"), "must have the same columns in all partitions"),
    ],
)
def test_errors_name_the_partition(client, change, error):
    with pytest.raises(ValueError, match=error):
        GradientBoostingRegressor(**COMMON).fit(with_partition(change), "target", sample_weight="weight")


def test_errors_of_arrays_name_the_partition(client):
    table = with_partition(lambda part: part)
    targets = [delayed(np.where(np.arange(300) == 5, np.nan if k == 3 else 1.0, 0.5)) for k in range(4)]
    with pytest.raises(ValueError, match=r"Input y contains NaN.* partition 3 of X"):
        GradientBoostingRegressor(**COMMON).fit(table, targets)
    with pytest.raises(ValueError, match="partition 3 of X_val"):
        GradientBoostingRegressor(early_stopping=True, **COMMON).fit(table, "target", X_val=table, y_val=targets)


def test_a_partition_that_cannot_be_computed_is_named(client):
    def fail(part):
        raise OSError("the file is gone")

    parts = with_partition(lambda part: part)
    parts[1] = delayed(fail)(parts[1])
    with pytest.raises(OSError, match="the file is gone") as error:
        GradientBoostingRegressor(**COMMON).fit(parts, "target")
    assert error.value.__notes__ == ["This is in partition 1 of X."]


def test_a_partition_of_another_type_is_warned_of_here(client):
    parts = with_partition(lambda part: part.assign(size=part["size"].astype(str)))
    said = "Column 'size' of X must have one type in all partitions; it has numbers in partition 0 and categories"
    with pytest.warns(UserWarning, match=said) as caught:
        model = GradientBoostingRegressor(**COMMON).fit(parts, "target", sample_weight="weight")
    assert [warning.filename for warning in caught if "Column" in str(warning.message)] == [__file__]
    assert model.n_features_in_ == 3

"""Fits on a Ray cluster: the model file is that of one machine, to the byte."""

from __future__ import annotations

import signal
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from fastens.distributed import RayTable
from fastens.distributed.coordinator import ClusterLostError
from reference.cluster_rows import content, make_frame

psutil = pytest.importorskip("psutil")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install fastens[ray]")

pytestmark = pytest.mark.cluster
N_ROWS = 1200
PATIENCE = 300.0  # actors import much, on a machine that may be busy
COMMON = {"n_estimators": 6, "max_leaf_nodes": 8, "random_state": 4}


FRAME = make_frame(N_ROWS).assign(label=lambda frame: np.where(frame["target"] > 0.5, "yes", "no"))
TABLE = FRAME[["size", "number", "word"]]
X, T = FRAME[["size", "number"]].to_numpy(), FRAME["target"].to_numpy()


def start():
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    start()
    yield
    ray.shutdown()


def parts_of(values, n_parts=5):
    bounds = np.linspace(0, len(values), n_parts + 1).astype(int)
    return [ray.put(values[first:last]) for first, last in pairwise(bounds)]


@pytest.mark.parametrize("n_actors", [1, 2, 3])
def test_actors(tmp_path, n_actors):
    options = COMMON | {"n_estimators": 30, "early_stopping": True, "eval_metric": ["accuracy", "loss"]}
    options |= {"n_iter_no_change": 2, "learning_rate": 0.8, "subsample": 0.7}
    model, last, seen = GradientBoostingClassifier(**options), slice(1000, None), []
    given = {name: FRAME[name] for name in ("label", "weight")}
    whole = [TABLE[:1000], *(values[:1000] for values in given.values())]
    expected = clone(model).fit(*whole, X_val=TABLE[last], y_val=FRAME["label"][last])
    assert expected.n_estimators_ < 30
    parts = [parts_of(values) for values in whole]
    table = RayTable(parts[0], n_actors=n_actors, cpus_per_actor=0.5, patience=PATIENCE, on_progress=seen.append)
    model.fit(table, *parts[1:], X_val=parts_of(TABLE[last], 1), y_val=parts_of(FRAME["label"][last], 1))
    assert content(model, tmp_path) == content(expected, tmp_path)
    assert [(now.n_done, now.n_workers) for now in seen] == [(n + 1, n_actors) for n in range(len(seen))]
    assert len(seen) == len(expected.evals_result_["training"]["loss"])
    assert (seen[-1].n_bytes > 0) == (n_actors > 1)


def test_datasets(tmp_path):
    import ray.data

    frame = FRAME.drop(columns="label")
    expected = RandomForestRegressor(n_estimators=3, random_state=1).fit(frame, "target")
    dataset = ray.data.from_pandas([frame[:500], frame[500:]])
    found = RandomForestRegressor(n_estimators=3, random_state=1).fit(RayTable(dataset, patience=PATIENCE), "target")
    assert content(found, tmp_path) == content(expected, tmp_path)
    with pytest.raises(TypeError, match="call it for batches"):
        found.predict(dataset)
    with pytest.raises(TypeError, match=r"X must be a table in memory for \w+\.score; got a Ray"):
        found.score(RayTable(dataset), "target")


def actors():
    """The processes that train."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if process.name().startswith("ray::_Rank")]


@pytest.mark.parametrize("fault", ["SIGKILL", pytest.param("SIGSTOP", marks=pytest.mark.slow)])
def test_an_actor_is_lost(tmp_path, fault):
    expected = content(GradientBoostingRegressor(**COMMON | {"n_estimators": 8}).fit(X, T), tmp_path)
    rounds, needed = [], []

    def strike(env):
        rounds.append(env.iteration)
        if env.iteration == 3 and not needed:
            needed.append(env.model.n_estimators_)
        if len(rounds) == 5:
            actors()[-1].send_signal(getattr(signal, fault))

    table = RayTable(
        parts_of(X), n_actors=2, cpus_per_actor=1, checkpoint_every=3, patience=PATIENCE if fault == "SIGKILL" else 60
    )
    model = GradientBoostingRegressor(callbacks=[strike], **COMMON | {"n_estimators": 8})
    model.fit(table, parts_of(T))
    model.callbacks = None
    assert content(model, tmp_path) == expected
    assert (rounds[:5], needed) == ([0, 1, 2, 3, 4], [4])
    assert rounds[5] == 3  # the first three rounds have a checkpoint


def test_ray_is_shut_down_during_a_fit():
    rounds = []

    def close(env):
        rounds.append(env.iteration)
        if len(rounds) == 7:
            ray.shutdown()

    table = RayTable(parts_of(X), n_actors=1, cpus_per_actor=1, checkpoint_every=3, patience=PATIENCE)
    model = GradientBoostingRegressor(callbacks=[close], **COMMON | {"n_estimators": 40})
    try:
        with pytest.raises(ClusterLostError, match="Ray was shut down during the fit") as caught:
            model.fit(table, parts_of(T))
        assert not ray.is_initialized()
    finally:
        ray.shutdown()
        start()
    assert (model.n_estimators_, len(rounds)) == (6, 7)
    assert "The model has the 6 rounds of the last checkpoint" in caught.value.__notes__[0]


def test_a_rank_has_an_error():
    table = RayTable(parts_of(X), n_actors=2, cpus_per_actor=1, patience=PATIENCE)
    with pytest.raises(ValueError, match=r"contains NaN.* partition \d of X"):
        GradientBoostingRegressor().fit(table, parts_of(np.where(T > 3, np.nan, T)))


def test_errors_name_what_is_wrong():
    table, model = parts_of(X), GradientBoostingRegressor(**COMMON)
    with pytest.raises(ValueError, match=r"y must have 5 partitions, like X; got 2\."):
        model.fit(table, parts_of(T, 2))
    with pytest.raises(ValueError, match="y must name a column of X or be a list of object references; got ndarray"):
        model.fit(table, T)
    with pytest.raises(ValueError, match="X must be a table in memory for StackingRegressor"):
        StackingRegressor([("a", model)]).fit(table, parts_of(T))
    with pytest.raises(ValueError, match="n_actors must be"):
        RayTable(table, n_actors=0)
    with pytest.raises(ValueError, match=r"X_val must be a ray\.data\.Dataset or a list of object references to"):
        model.fit(table, parts_of(T), X_val=X, y_val=T)


def test_references_are_not_predicted():
    model = GradientBoostingRegressor(**COMMON).fit(X, T)
    for name in ("predict", "staged_predict", "apply", "explain"):
        with pytest.raises(TypeError, match=rf"{name}; got a list of Ray ObjectRef\. Call it for one partition"):
            getattr(model, name)(parts_of(X))


def test_partitions_of_two_types_are_warned_of():
    halves = [FRAME[["size", "number"]][:600], FRAME[["size", "number"]][600:].astype({"number": str})]
    table = RayTable([ray.put(half) for half in halves], n_actors=1, cpus_per_actor=1, patience=PATIENCE)
    with pytest.warns(UserWarning, match="'number' of X must have one type in all partitions"):
        GradientBoostingRegressor(**COMMON).fit(table, parts_of(T, 2))


def test_no_cpus():
    table = RayTable(parts_of(X), cpus_per_actor=64, patience=2)
    with pytest.raises(ClusterLostError, match="no actor got 64 CPUs within 2 seconds"):
        GradientBoostingRegressor(**COMMON).fit(table, parts_of(T))

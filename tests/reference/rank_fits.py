"""Fits on ranks that are threads, beside the fit of one rank with the whole table."""

from __future__ import annotations

import numpy as np

from reference.threads_comm import on_ranks

N_ROWS = 6000
# Where the ranks' rows end: none, a handful, one, and most of them.
ENDS = {1: [], 2: [5], 3: [2000, 5990], 4: [40, 41, 41], 5: [1000, 1000, 1300, 5999]}
SIZES = (2, 3, 5)
# Kinds of weights, each on another number of ranks: how rows are exchanged does not depend on their weights.
WEIGHTS_AND_SIZES = [(None, 5), ("whole", 2), ("fractional", 3)]
WEIGHTS = {
    "whole": np.random.default_rng(5).integers(0, 4, N_ROWS).astype(float),
    "fractional": np.random.default_rng(6).random(N_ROWS),
}
WEIGHTS["whole"][[0, 5, 41, 1005, 2000, 5999]] = 2.0  # no rank is without weight


def make_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    X[:, 4], X[:, 5] = rng.integers(0, 12, N_ROWS), rng.integers(0, 3, N_ROWS)
    X[:5, 4] = 77.0  # a category of the first rank
    X[rng.random(X.shape) < 0.05] = np.nan
    Z = np.nan_to_num(X)
    return X, Z[:, 0] + np.sin(2 * Z[:, 1]) + Z[:, 4] % 3 / 2 + rng.normal(size=N_ROWS)


X, T = make_table()
POSITIVE = np.exp(T / 2)
TIMES = np.column_stack([POSITIVE, np.where(T > -1, POSITIVE, np.inf)])  # ends of intervals that hold a time
BINARY = np.where(T > 0.5, "yes", "no")
CLASSES = np.digitize(T, [-0.5, 1.2])
CLASSES[-1] = 3  # of the last rank
COMMON = {"n_estimators": 4, "random_state": 4, "n_jobs": 1}
# Whole queries on every rank.
QUERIES = np.searchsorted(sorted({end for ends in ENDS.values() for end in ends}), np.arange(N_ROWS), side="right")


def rows_of(comm):
    bounds = [0, *ENDS[comm.size], N_ROWS]
    return slice(*bounds[comm.rank : comm.rank + 2])


def state(model, table=X):
    """Everything that two models may differ by."""
    curves = model.evals_result_.items()
    scores = {f"{rows}.{name}": values for rows, own in curves for name, values in own.items()}
    trees = model._ensemble.to_arrays()
    assert {"value", "feature", "gain", "node_offsets"} <= set(trees)
    scores["rounds"] = model.n_estimators_
    predictions = (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(table)
    learned = {
        "predictions": np.hstack(predictions) if isinstance(predictions, list) else predictions,
        "classes": str(getattr(model, "classes_", None)),
        "categories": str(model._encoder.categories),
    }
    out_of_bag = {name: array for name, array in vars(model).items() if name.startswith("oob_") and name.endswith("_")}
    return trees | scores | out_of_bag | model._statistics_arrays() | learned


def fit_on_ranks(size, make, y, weight=None, table=X, **others):
    def work(comm):
        model, own = make(), rows_of(comm)
        given = {name: array[own] if isinstance(array, np.ndarray) else array for name, array in others.items()}
        with model._using_comm(comm):
            model.fit(table[own], None if y is None else y[own], None if weight is None else weight[own], **given)
        return model

    return on_ranks(size, work)


def assert_saved_models_are_the_same(size, make, y, weight, path):
    make().fit(X, y, weight).save(path)
    expected = path.read_bytes()
    for model in fit_on_ranks(size, make, y, weight):
        model.save(path)
        assert path.read_bytes() == expected


def assert_same_models(size, make, y, weight=None, table=X, **others):
    expected = state(make().fit(table, y, weight, **others), table)
    assert expected["node_offsets"][-1] > 20
    for model in fit_on_ranks(size, make, y, weight, table, **others):
        assert model._comm.size == 1
        for name, found in state(model, table).items():
            np.testing.assert_array_equal(found, expected[name], err_msg=name)

"""Sparse tables: the models of the dense table to the bit, in memory that goes with the values stored."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.boosting.rounds import Rounds
from fastens.engine.bins.binning import SparseCodes, SparseMatrix
from fastens.params.options import EarlyStopping
from reference.children import run_child

N_ROWS, N_COLUMNS = 500, 60
FEW = {"n_estimators": 6, "random_state": 0, "early_stopping": False}


def table(seed=0, dtype=np.float64):
    """Rows with 4 % of their values stored: NaN and zeros among them, in no order, some places twice."""
    rng = np.random.default_rng(seed)
    n = int(0.04 * N_ROWS * N_COLUMNS)
    columns = np.minimum(rng.geometric(0.05, n) - 1, N_COLUMNS - 1)
    values = rng.normal(size=n).round(1)
    values[rng.random(n) < 0.05] = np.nan
    values[rng.random(n) < 0.05] = 0.0
    rows = rng.integers(0, N_ROWS, n)
    order = np.argsort(rows, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=N_ROWS)))
    found = sparse.csr_matrix((values[order].astype(dtype), columns[order], starts), shape=(N_ROWS, N_COLUMNS))
    assert not found.has_canonical_format
    return found


X = table()
DENSE = X.toarray()
rng = np.random.default_rng(1)
SIGNAL = np.nan_to_num(DENSE) @ rng.normal(size=N_COLUMNS) + 0.3 * rng.normal(size=N_ROWS)
TARGETS = {
    "number": SIGNAL,
    "count": rng.poisson(np.exp(np.clip(SIGNAL, -2, 2))),
    "two classes": (SIGNAL > 0).astype(int),
    "three classes": np.digitize(SIGNAL, [-0.3, 0.3]),
    "two numbers": np.c_[SIGNAL, -(SIGNAL**2)],
}
WEIGHTS = {"none": None, "whole": rng.integers(0, 4, N_ROWS).astype(float), "real": rng.random(N_ROWS) + 0.1}

BOOSTED = [
    ("number", {}),
    ("number", {"loss": "absolute_error"}),
    ("number", {"loss": "quantile", "quantile": 0.3}),
    ("number", {"max_leaf_nodes": None, "max_depth": 6, "min_samples_leaf": 1}),
    ("number", {"subsample": 0.5, "oob_score": True}),
    ("number", {"sampling": "goss"}),
    ("number", {"boosting": "dart"}),
    ("number", {"max_features": 0.3, "max_features_per_tree": 0.5}),
    ("number", {"monotonic_cst": [1] * 30 + [0] * 30, "interaction_cst": "no_interactions"}),
    ("number", {"max_bins": 5}),
    ("number", {"max_bins": 1000}),
    ("number", {"early_stopping": True}),
    ("number", {"linear_leaves": True}),
    ("count", {"loss": "poisson"}),
    ("two classes", {}),
    ("two classes", {"class_weight": "balanced"}),
    ("three classes", {}),
    ("two numbers", {}),
]


def assert_same(make, target, weight=None):
    """The same trees and predictions from sparse and from dense rows, whichever is predicted for."""
    y = TARGETS[target] if isinstance(target, str) else target
    weights = {} if weight is None else {"sample_weight": weight}
    model, other = make(1).fit(X, y, **weights), make(2).fit(DENSE, y, **weights)
    found, expected = model._ensemble.to_arrays(), other._ensemble.to_arrays()
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert len(model._ensemble.feature) > 1
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    want = getattr(other, method)(DENSE)
    np.testing.assert_array_equal(getattr(model, method)(X), want)
    np.testing.assert_array_equal(getattr(other, method)(X.tocsc()), want)


@pytest.mark.parametrize(("target", "parameters"), BOOSTED, ids=str)
def test_boosting_learns_the_same(target, parameters):
    kind = GradientBoostingClassifier if "classes" in target else GradientBoostingRegressor
    assert_same(lambda n_jobs: kind(**FEW | parameters, n_jobs=n_jobs), target)


@pytest.mark.parametrize("weight", ["whole", "real"])
@pytest.mark.parametrize("target", ["two classes", "two numbers"])
def test_weighted_rows(target, weight):
    kind = GradientBoostingClassifier if target == "two classes" else GradientBoostingRegressor
    assert_same(lambda n_jobs: kind(**FEW, n_jobs=n_jobs), target, WEIGHTS[weight])


@pytest.mark.parametrize(
    "name",
    ["RandomForestClassifier", "ExtraTreesClassifier", "DecisionTreeClassifier", "AdaBoostClassifier"],
)
def test_other_trees_learn_the_same(name):
    assert_same(lambda n_jobs: getattr(fastens, name)(random_state=0), "two classes", WEIGHTS["whole"])


def test_isolation_forests_learn_the_same():
    model = fastens.IsolationForest(n_estimators=5, random_state=0)
    np.testing.assert_array_equal(
        model.fit(X).score_samples(X),
        fastens.IsolationForest(n_estimators=5, random_state=0).fit(DENSE).score_samples(DENSE),
    )


def test_ranking_and_survival():
    qid = np.repeat(np.arange(50), 10)
    ranker = fastens.GradientBoostingRanker(n_estimators=4)
    found, expected = (ranker.fit(rows, TARGETS["three classes"], qid=qid).predict(rows) for rows in (X, DENSE))
    np.testing.assert_array_equal(found, expected)
    times = np.exp(SIGNAL)
    survival = fastens.GradientBoostingSurvival(n_estimators=4)
    found, expected = (survival.fit(rows, times).predict(rows) for rows in (X, DENSE))
    np.testing.assert_array_equal(found, expected)


def test_forms_of_sparse_tables():
    expected = GradientBoostingRegressor(**FEW).fit(DENSE, SIGNAL).predict(DENSE)
    for make in (sparse.csr_array, sparse.csc_array, sparse.coo_matrix, sparse.lil_matrix):
        np.testing.assert_array_equal(GradientBoostingRegressor(**FEW).fit(make(X), SIGNAL).predict(make(X)), expected)
    narrow = table(dtype=np.float32)
    assert narrow.dtype == np.float32
    found = GradientBoostingRegressor(**FEW).fit(narrow, SIGNAL).predict(narrow)
    np.testing.assert_array_equal(
        found, GradientBoostingRegressor(**FEW).fit(narrow.toarray(), SIGNAL).predict(narrow.toarray())
    )


def test_many_rows_are_sampled_for_bins_as_dense_ones_are(monkeypatch):
    monkeypatch.setattr("fastens.engine.bins.row_sketch.default_sample", lambda *_: 100)
    assert_same(lambda n_jobs: GradientBoostingRegressor(**FEW, max_bins=8, n_jobs=n_jobs), "number", WEIGHTS["whole"])


def test_the_input_is_not_changed():
    before = X.copy()
    GradientBoostingRegressor(**FEW).fit(X, SIGNAL).predict(X)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, name), getattr(before, name))


def test_codes_stay_sparse_in_training_and_validation(monkeypatch):
    seen = []
    validate_on = Rounds.validate_on
    monkeypatch.setattr(Rounds, "validate_on", lambda rounds, data: [seen.append(rounds), validate_on(rounds, data)])
    GradientBoostingRegressor(**FEW | {"early_stopping": EarlyStopping()}).fit(X, SIGNAL)
    assert isinstance(seen[0].leaves.problem.matrix, SparseMatrix)
    assert isinstance(seen[0]._watched.codes, SparseCodes)


def test_rows_without_any_value():
    empty = sparse.csr_matrix((50, 7))
    model = GradientBoostingRegressor(n_estimators=2, early_stopping=False).fit(empty, np.arange(50.0))
    np.testing.assert_allclose(model.predict(empty), 24.5)


def test_stages_and_leaves_of_sparse_rows():
    model = GradientBoostingClassifier(**FEW).fit(X, TARGETS["two classes"])
    for found, expected in zip(model.staged_predict_proba(X), model.staged_predict_proba(DENSE), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (model.leaf_features(X) != model.leaf_features(DENSE)).nnz == 0


LARGE = """
import resource
import numpy as np
from scipy import sparse
from fastens import GradientBoostingClassifier

rng = np.random.default_rng(0)
n, d, k = 3000, 1_000_000, 20
columns = np.minimum(rng.pareto(0.5, n * k).astype(np.int64), d - 1)
rows = np.repeat(np.arange(n), k)
X = sparse.csr_matrix((rng.random(n * k), (rows, columns)), shape=(n, d))
y = (np.asarray(X[:, :3].sum(axis=1)).ravel() > 2).astype(int)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 1_200_000_000, resource.RLIM_INFINITY))
model = GradientBoostingClassifier(n_estimators=2, n_jobs=1).fit(X, y)
print(round(float((model.predict(X) == y).mean()), 3) > 0.5)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the limit counts from what is mapped, as Linux tells"
)
def test_a_million_columns_in_less_memory_than_a_byte_for_each_value(tmp_path):
    """Dense codes alone would be 3 GB."""
    done = run_child(LARGE, folder=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stderr[-2000:]

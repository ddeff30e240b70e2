"""Forced first splits of boosting: where they are made, on which tables and under which other parameters."""

from __future__ import annotations

import datetime
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens
from fastens import (
    Categories,
    EarlyStopping,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    Growth,
)
from reference.rank_fits import N_ROWS, T, assert_same_models
from reference.rank_fits import X as OF_RANKS

N = 400
SPLITS = {
    "feature": 2,
    "threshold": 0.3,
    "left": {"feature": 1, "threshold": -0.25},
    "right": {"feature": 2, "threshold": 1.0, "right": {"feature": 0, "threshold": 99.0}},
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def forced(kind=GradientBoostingRegressor, splits=SPLITS, n_estimators=3, **options):
    return kind(n_estimators=n_estimators, growth=Growth(forced_splits=splits), random_state=0, n_jobs=1, **options)


def first_splits(model):
    """The features and thresholds of the root and of its children, in all trees."""
    trees = [model._ensemble.tree(k) for k in range(model._ensemble.n_trees)]
    limits = model._ensemble.binning.thresholds
    return {
        tuple(
            (int(tree.feature[node]), float(limits[tree.feature[node]][tree.bin_threshold[node] - 1]))
            for node in (0, *tree.left_child[0] + np.arange(2))
            if tree.feature[node] >= 0
        )
        for tree in trees
    }


EXPECTED = {((2, 0.3), (1, -0.25), (2, 1.0))}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split_penalty": 100.0},
        {"max_features": 1, "feature_weights": [1.0, 0.0, 0.0, 1.0]},
        {"interaction_cst": "no_interactions"},
        {"max_leaf_nodes": None, "max_depth": 3},
        {"max_bins": 5},
        {"subsample": 0.5, "boosting": "dart"},
        {"linear_leaves": True},
        {"loss": "absolute_error"},
        pytest.param({"early_stopping": EarlyStopping(folds=3)}, marks=pytest.mark.slow),
        {"early_stopping": EarlyStopping(refit=True)},
    ],
    ids=str,
)
def test_every_tree_begins_with_them(data, options):
    """The thresholds themselves become bin edges; the split at 99 is omitted, because no value is larger."""
    X, y = data
    model = forced(**options).fit(X, y)
    assert first_splits(model) == EXPECTED
    assert 99.0 not in model.to_dataframe()["threshold"].tolist()


def test_outputs_and_losses(data):
    X, y = data
    labels = np.digitize(y, [-1, 1])
    assert first_splits(forced(GradientBoostingClassifier).fit(X, labels)) == EXPECTED
    assert first_splits(forced().fit(X, np.column_stack([y, labels]))) == EXPECTED
    assert first_splits(forced(GradientBoostingRanker).fit(X, labels, qid=np.arange(N) // 20)) == EXPECTED


def test_limits_hold_and_omit_what_is_below(data):
    X, y = data
    splits = {"feature": 3, "threshold": 5.0, "left": SPLITS}
    none, plain = forced(splits=splits).fit(X, y), GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(none.predict(X), plain.predict(X))
    many = forced(splits={"feature": 2, "threshold": 2.0}, min_samples_leaf=30).fit(X, y)
    assert (2, 2.0) not in {split for splits in first_splits(many) for split in splits}
    assert forced(max_leaf_nodes=2).fit(X, y)._ensemble.tree(0).n_leaves == 2
    assert forced(splits={}).fit(X, y).predict(X).tolist() == plain.predict(X).tolist()


def test_monotone_models_stay_monotone(data):
    X, y = data
    for options in ({}, {"loss": "absolute_error"}, {"growth__path_smooth": 5.0}):
        model = forced(n_estimators=10, monotonic_cst=[0, 0, -1, 0]).set_params(**options)
        model.fit(X, y + 2 * np.nan_to_num(X[:, 2]))
        assert first_splits(model) == EXPECTED
        grid = np.repeat(X[:20, None], 30, axis=1)
        grid[..., 2] = np.linspace(-3, 3, 30)
        assert (np.diff(model.predict(grid.reshape(-1, 4)).reshape(20, 30)) <= 0).all()


def test_weights_are_copies_and_threads_do_not_matter(data):
    X, y = data
    weight = np.arange(N) % 3
    model = forced().fit(X, y, weight)
    copies = forced().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    threads = forced().set_params(n_jobs=4).fit(X, y, weight)
    np.testing.assert_array_equal(model.predict(X), copies.predict(X))
    np.testing.assert_array_equal(model.predict(X), threads.predict(X))


def test_categories_dates_and_names(data, rng):
    X, y = data
    table = pd.DataFrame(
        {
            "a": X[:, 0],
            "kind": pd.Categorical(rng.choice(["p", "q", "r", "s"], N)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), "D"),
            "grade": pd.Categorical(rng.choice(["low", "middle", "high"], N), ["low", "middle", "high"], ordered=True),
        }
    )
    grades = {"feature": "grade", "threshold": "low"}
    splits = {
        "feature": "kind",
        "threshold": ["q", "s"],
        "left": {"feature": "day", "threshold": "2024-06-01", "left": grades},
        "right": {"feature": "kind", "threshold": "p"},
    }
    model = forced(splits=splits, monotonic_cst={"grade": 1}, split_penalty=1e9).fit(table, y)
    leaf = pd.Series(model.apply(table)[:, 0])
    is_left, is_early = table["kind"].isin(["q", "s"]), table["day"] <= "2024-06-01"
    regions = np.where(
        is_left, np.where(is_early, np.where(table["grade"] == "low", 0, 1), 2), np.where(table["kind"] == "p", 3, 4)
    )
    assert leaf.groupby(regions).nunique().tolist() == [1] * 5
    assert leaf.nunique() == 5


@pytest.mark.slow
def test_other_tables(data, tmp_path):
    X, y = data
    sparse = pytest.importorskip("scipy.sparse")
    zeros = np.where(np.abs(X) < 1.0, 0.0, X)
    same = [forced().fit(table, y) for table in (sparse.csr_array(zeros), zeros)]
    assert first_splits(same[0]) == first_splits(same[1])
    assert {each[:2] for each in first_splits(same[0])} == {((2, 0.3), (1, -0.25))}
    np.savetxt(tmp_path / "table.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="")
    source = fastens.TableSource(tmp_path / "table.csv", max_memory="1GB", spill_dir=tmp_path)
    assert first_splits(forced().fit(source, "y")) == EXPECTED
    # The edges of a binned table are fixed, so thresholds move to the nearest one.
    binned = fastens.BinnedTable.from_source(X, path=tmp_path / "bins")
    limits = forced().fit(binned, y)._ensemble.binning.thresholds
    near = [float(limits[f][np.abs(limits[f] - t).argmin()]) for f, t in next(iter(EXPECTED))]
    assert {each[0] for each in first_splits(forced().fit(binned, y))} == {(2, near[0])}


def test_files_clones_and_continued_fits(data, tmp_path):
    X, y = data
    (tmp_path / "splits.json").write_text(json.dumps(SPLITS), encoding="utf-8")
    model = forced(n_estimators=6).fit(X, y)
    part = forced(splits=tmp_path / "splits.json", warm_start=True).fit(X, y)
    part.set_params(n_estimators=6).fit(X, y)
    part.save(tmp_path / "part")
    assert fastens.load(tmp_path / "part").growth.forced_splits == str(tmp_path / "splits.json")
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    for same in (part, loaded, pickle.loads(pickle.dumps(model)), clone(loaded).fit(X, y)):
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert loaded.growth.forced_splits == SPLITS
    np.testing.assert_allclose(model.refit_leaves(X, y, decay_rate=0.0).predict(X), model.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "threshold",
    [
        "2021-01-01",
        datetime.date(2021, 1, 1),
        np.datetime64("2021-01-01", "ns"),
        pd.Timestamp("2021-01-01"),
        pd.Timestamp("2021-01-01 01:00", tz="Europe/Berlin"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_dates_as_thresholds_can_be_saved(data, tmp_path, threshold):
    y = data[1]
    X = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=len(y))})
    model = forced(splits={"feature": "day", "threshold": threshold}).fit(X, y)
    assert (model.to_dataframe().query("node == 0")["threshold"] == 18628.0).all()
    model.save(tmp_path / "model")
    again = clone(fastens.load(tmp_path / "model")).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("given", [pd.Series, pd.Index, pd.Categorical, np.array, set])
def test_categories_in_any_list(data, given):
    y = data[1]
    X = pd.DataFrame({"kind": pd.Categorical(np.array(["a", "b", "c"])[np.arange(len(y)) % 3])})
    model = forced(splits={"feature": "kind", "threshold": given(["a", "b"])}).fit(X, y)
    assert model.to_dataframe()["left_categories"][0] == ("a", "b")


@pytest.mark.slow
def test_ranks():
    given = {"feature": 4, "threshold": [3, 77], "right": {"feature": 0, "threshold": 0.123}}
    options = {"categorical_features": [4], "categories": Categories(encoding="partition")}
    assert len(OF_RANKS) == N_ROWS
    assert_same_models(3, lambda: forced(splits=given, **options), T)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([1], r"growth\.forced_splits must be a dict, the path of a JSON file or None; got \[1\]"),
        ({"feature": 1}, r"growth\.forced_splits must be nested dicts with the keys .*; got \{'feature': 1\}"),
        ({"feature": 1, "threshold": 0, "left_child": {}}, "must be nested dicts with the keys"),
        ({**SPLITS, "left": [1]}, r"must be nested dicts with the keys .*; got \[1\]"),
        ({"feature": 9, "threshold": 0}, r"growth\.forced_splits must hold column indices from 0 to 3; got 9"),
        ({"feature": "z", "threshold": 0}, r"growth\.forced_splits must name columns of X; got 'z'"),
        ({"feature": 1, "threshold": "x"}, r"must have finite numbers as thresholds of column 'x1'; got 'x'"),
        ({"feature": 1, "threshold": float("nan")}, r"must have finite numbers as thresholds of column 'x1'; got nan"),
        ({"feature": 3, "threshold": 12345}, r"must have categories of column 'x3' as a threshold; got 12345"),
        ({"feature": 1, "threshold": 10**400}, r"must have finite numbers as thresholds of column 'x1'; got 1000"),
        ({"feature": 3, "threshold": []}, r"must have categories of column 'x3' as a threshold; got \[\]"),
        ("no such file", r"growth\.forced_splits must be a dict or the path of a JSON file; got 'no such file'"),
    ],
)
def test_errors(data, splits, message):
    X, y = data
    X[:, 3] = np.arange(N) % 5
    with pytest.raises(ValueError, match=message):
        forced(splits=splits, categorical_features=[3]).fit(X, y)


def test_target_encoded_categories_are_an_error(data):
    X, y = data
    X[:, 3] = np.arange(N) % 50
    with pytest.raises(ValueError, match=r"must not split texts, lists or target-encoded categories; got column 'x3'"):
        forced(splits={"feature": 3, "threshold": 7}, categorical_features=[3]).fit(X, y)

"""Several columns of a table as targets, by their names: of regressors, classifiers, and times with their events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import fastens as fe

N_ROWS = 300
RNG = np.random.default_rng(3)
X = pd.DataFrame(
    {"size": RNG.normal(size=N_ROWS), "count": RNG.integers(0, 9, N_ROWS), "word": RNG.choice(["low", "high"], N_ROWS)}
)
TIME = RNG.exponential(np.exp(X["size"])) + 0.1
SEEN = RNG.random(N_ROWS) < 0.7
TARGETS = {
    "prices": pd.DataFrame({"p": X["size"] * 2 + RNG.normal(size=N_ROWS), "q": X["count"] - X["size"]}),
    "flag and price": pd.DataFrame({"flag": X["size"] > 0, "p": X["count"] * 0.5}),
    "kinds": pd.DataFrame(
        {"up": np.where(X["size"] > 0, "up", "down"), "level": np.where(X["count"] > 4, "much", "little")}
    ),
    "times": pd.DataFrame({"died": SEEN, "years": TIME}),
    "named times": pd.DataFrame({"time": TIME, "event": SEEN.astype(int)}),
    "bounds": pd.DataFrame({"upper": np.where(SEEN, TIME, np.inf), "lower": TIME}),
}
MODELS = [
    (fe.GradientBoostingRegressor(n_estimators=3, early_stopping=True, random_state=0), "prices"),
    (fe.GradientBoostingRegressor(n_estimators=2), "flag and price"),
    (fe.RandomForestRegressor(2, random_state=0, oob_score=True), "prices"),
    (fe.ExtraTreesRegressor(2, random_state=0), "prices"),
    (fe.DecisionTreeRegressor(max_depth=3), "flag and price"),
    (fe.GradientBoostingClassifier(n_estimators=2), "kinds"),
    (fe.RandomForestClassifier(2, random_state=0), "kinds"),
    (fe.DecisionTreeClassifier(max_depth=3), "kinds"),
    (fe.StackingClassifier([("a", fe.DecisionTreeClassifier(max_depth=2))], cv=3), "kinds"),
    (fe.GradientBoostingSurvival(n_estimators=3, early_stopping=True, random_state=0), "times"),
    (fe.GradientBoostingSurvival(n_estimators=2), "named times"),
    (fe.GradientBoostingSurvival(loss="aft", n_estimators=2), "bounds"),
    (fe.BaggingRegressor(n_estimators=2, random_state=0), "prices"),
]


def clone(model):
    return type(model)(**model.get_params(deep=False))


def in_memory(targets, model):
    return targets if isinstance(model, fe.GradientBoostingSurvival) else np.column_stack([targets[n] for n in targets])


def predicted(model):
    return np.asarray(model.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "kind"), MODELS, ids=lambda value: getattr(type(value), "__name__", value))
def test_targets_by_their_names(model, kind, tmp_path):
    targets, y = TARGETS[kind], in_memory(TARGETS[kind], model)
    frame, names = X.join(targets), list(targets)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70)
    whole = clone(model).fit(X, y)
    for table in (tmp_path / "t.parquet", frame, pa.Table.from_pandas(frame).to_reader(37)):
        found = clone(model).fit(table, names)
        np.testing.assert_array_equal(predicted(found), predicted(whole))
    assert list(found.feature_names_in_) == list(X)
    if kind != "kinds":
        assert found.score(tmp_path / "t.parquet", names) == whole.score(X, y)
    binned = fe.BinnedTable.from_source(tmp_path / "t.parquet", names, path=tmp_path / "bins", keep_values=True)
    # Single trees have more bins, and early stopping learns none from the rows held out.
    if not isinstance(model, fe.DecisionTreeRegressor | fe.DecisionTreeClassifier | fe.StackingClassifier):
        model = clone(model).set_params(early_stopping=False) if "early_stopping" in model.get_params() else model
        whole = clone(model).fit(X, y)
        opened = fe.BinnedTable.open(tmp_path / "bins")
        for given in ((binned,), (opened, names)):
            np.testing.assert_array_equal(predicted(clone(model).fit(*given)), predicted(whole))


@pytest.mark.parametrize("place", [0, 9], ids=["several targets", "survival"])
def test_searches_and_folds_of_several_targets(place, tmp_path):
    """The bins are those of the whole table, which are those of each fold where they are the distinct values."""
    model, kind = MODELS[place]
    frame, names = X.round(1).join(TARGETS[kind]), list(TARGETS[kind])
    frame.to_parquet(tmp_path / "t.parquet")
    binned = fe.BinnedTable.from_source(tmp_path / "t.parquet", names)
    y = in_memory(frame[names], model)
    rows = y.to_records(index=False) if isinstance(y, pd.DataFrame) else y
    plain = clone(model).set_params(early_stopping=False)
    fits = [
        GridSearchCV(clone(plain), {"max_leaf_nodes": [3, 5]}, cv=KFold(3)).fit(binned, y) for y in (rows, binned.y)
    ]
    scores = [fit.cv_results_["mean_test_score"] for fit in fits]
    np.testing.assert_array_equal(*scores)
    by_hand = [
        clone(plain).set_params(max_leaf_nodes=5).fit(binned[train], rows[train]).score(binned[test], rows[test])
        for train, test in KFold(3).split(rows)
    ]
    assert np.mean(by_hand) == scores[0][1]
    np.testing.assert_array_equal(
        cross_val_score(plain.set_params(max_leaf_nodes=5), binned, binned.y, cv=KFold(3)), by_hand
    )


def test_rows_to_validate_on_have_several_targets(tmp_path):
    frame, names = X.join(TARGETS["prices"]), ["p", "q"]
    frame.to_parquet(tmp_path / "t.parquet")
    y = in_memory(TARGETS["prices"], None)
    model = fe.GradientBoostingRegressor(n_estimators=3, early_stopping=True, random_state=0)
    whole = clone(model).fit(X, y, X_val=X, y_val=y)
    found = clone(model).fit(tmp_path / "t.parquet", names, X_val=tmp_path / "t.parquet", y_val=names)
    np.testing.assert_array_equal(found.evals_result_["validation"]["loss"], whole.evals_result_["validation"]["loss"])


def test_missing_names_and_labels_that_are_not_names(tmp_path):
    frame = X.join(TARGETS["prices"])
    frame.to_parquet(tmp_path / "t.parquet")
    for table in (frame, tmp_path / "t.parquet"):
        with pytest.raises(ValueError, match=r"y must name a column of X; got 'r', and the columns are \['size'"):
            fe.GradientBoostingRegressor().fit(table, ["p", "r"])
        with pytest.raises(ValueError, match=r"y should be a 1d array, got an array of shape \(300, 2\)"):
            fe.AdaBoostRegressor().fit(table, ["p", "q"])
    labels = fe.DecisionTreeClassifier().fit(X[["size", "count"]][:2], ["size", "count"])
    assert labels.classes_.tolist() == ["count", "size"]

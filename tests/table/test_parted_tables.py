"""Tables that are read in parts: nothing behind the input encoder asks for all rows at once; models are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens as fe
from fastens.engine.parts import RowSource, as_array
from fastens.params.options import Categories, EarlyStopping

N_ROWS, MAX_ROWS = 1000, 130


class PartsOnly(RowSource):
    """Rows that come in parts, and refuse to become one array."""

    def __init__(self, table, sizes=(130, 1, 70), dtype="f8"):
        self._table, self._sizes = table, sizes
        self.shape, self.dtype = table.shape, None if dtype is None else np.dtype(dtype)

    def parts(self):
        first = number = 0
        while first < len(self):
            last = first + self._sizes[number % len(self._sizes)]
            part = self._table[first:last]
            assert len(part) <= MAX_ROWS
            yield part
            first, number = last, number + 1

    def __array__(self, *args, **kwargs):
        raise AssertionError("the whole table was asked for")


@pytest.fixture(autouse=True)
def refuse_whole_tables(monkeypatch):
    """Joining the parts again, or a table from the start, fails."""
    concatenate = np.concatenate

    def concatenate_few(arrays, *args, **kwargs):
        out = concatenate(arrays, *args, **kwargs)
        is_table = out.ndim == 2 and out.shape[0] > MAX_ROWS and out.shape[1] == 6 and out.dtype.kind == "f"
        assert not is_table, "the whole table was put together"
        return out

    monkeypatch.setattr(np, "concatenate", concatenate_few)


def table_of(rng, dtype=np.float64):
    X = rng.normal(size=(N_ROWS, 6)).astype(dtype)
    X[:, 5] = rng.integers(0, 40, N_ROWS)
    X[rng.random(X.shape) < 0.03] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1] + np.sin(X[:, 5])) + rng.normal(size=N_ROWS) * 0.1
    return X, y


SETTINGS = [
    ("GradientBoostingClassifier", {"early_stopping": True}),
    ("GradientBoostingClassifier", {"max_bins": 500, "subsample": 0.5}),
    ("GradientBoostingRegressor", {"boosting": "dart"}),
    ("GradientBoostingRegressor", {"categorical_features": [5], "categories": Categories(encoding="target")}),
    ("GradientBoostingRegressor", {"categorical_features": [5], "early_stopping": EarlyStopping(refit=True)}),
    ("GradientBoostingRegressor", {"loss": "quantile", "quantile": 0.8}),
    ("RandomForestClassifier", {"oob_score": True}),
    ("RandomForestRegressor", {"keep_leaves": True, "categorical_features": [5], "categories": Categories("ordered")}),
    ("ExtraTreesClassifier", {}),
    ("ExtraTreesRegressor", {"bootstrap": True, "oob_score": True}),
    ("IsolationForest", {}),
    ("DecisionTreeClassifier", {}),
    ("DecisionTreeRegressor", {"max_features": 3}),
    ("DecisionStumpClassifier", {}),
    ("AdaBoostClassifier", {"max_depth": 3}),
    ("AdaBoostClassifier", {"algorithm": "gentle"}),
    ("AdaBoostRegressor", {}),
]
FEW_TREES = {"n_estimators": 8}


def make(name, options):
    model = getattr(fe, name)()
    if "n_estimators" in model.get_params():
        options = FEW_TREES | options
    if "random_state" in model.get_params():
        options = {"random_state": 0} | options
    return model.set_params(**options)


def answers_of(model, X):
    methods = ("predict", "predict_proba", "decision_function", "apply", "predict_contributions", "leaf_features")
    for name in methods:
        if hasattr(model, name):
            found = getattr(model, name)(X)
            yield name, found.toarray() if hasattr(found, "toarray") else found
    for name in ("staged_predict",):
        if hasattr(model, name):
            yield name, np.array(list(getattr(model, name)(X)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_same_model_to_the_bit(name, options, dtype, rng):
    X, y = table_of(rng, dtype)
    target = (y > 0).astype(int) if "Classifier" in name else y
    weight = rng.integers(0, 3, N_ROWS).astype(np.float64)
    given = {} if name == "IsolationForest" else {"y": target, "sample_weight": weight}
    whole = make(name, options).fit(X, **given)
    parted = make(name, options).fit(PartsOnly(X, dtype=X.dtype), **given)
    found = dict(answers_of(parted, PartsOnly(X, (64, 100), X.dtype)))
    for method, expected in answers_of(whole, X):
        np.testing.assert_array_equal(found[method], expected, err_msg=method)
    first, second = (dict(model._ensemble.to_arrays()) for model in (whole, parted))
    for key, array in first.items():
        np.testing.assert_array_equal(second[key], array, err_msg=key)


def test_validation_rows_in_parts(rng):
    (X, y), (X_val, y_val) = table_of(rng), table_of(rng)
    whole, parted = (
        fe.GradientBoostingRegressor(n_estimators=20, early_stopping=True, n_iter_no_change=3).fit(
            source(X), y, X_val=source(X_val), y_val=y_val
        )
        for source in (np.asarray, PartsOnly)
    )
    np.testing.assert_array_equal(whole.evals_result_["validation"]["loss"], parted.evals_result_["validation"]["loss"])


def test_permutation_importance_in_parts(rng):
    X, y = table_of(rng)
    model = fe.GradientBoostingRegressor(n_estimators=5).fit(X, y)
    found, expected = (
        model.permutation_importance(source(X), y, n_repeats=2, random_state=0) for source in (PartsOnly, np.asarray)
    )
    np.testing.assert_array_equal(found.importances, expected.importances)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["from_dtype", ["word", "e"]])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_parts_are_frames(kind, chosen, rng):
    X, y = table_of(rng)
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"))
    frame["e"] = frame["e"].round()
    frame["word"] = pd.Series(rng.choice(["low", "middle", "high"], N_ROWS)).where(rng.random(N_ROWS) > 0.1)
    frame.loc[:200, "word"] = None
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, N_ROWS), unit="D")
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif kind == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)

    class Frames(PartsOnly):
        def parts(self):
            for first in range(0, N_ROWS, 100):
                is_arrow = kind == "pyarrow"
                yield self._table.slice(first, 100) if is_arrow else self._table[first : first + 100]

    options = {"n_estimators": 8, "learning_rate": 0.3, "categorical_features": chosen}
    whole = fe.GradientBoostingRegressor(**options).fit(frame, y)
    parted = fe.GradientBoostingRegressor(**options).fit(Frames(frame, dtype=None), y)
    assert parted.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    assert parted._encoder.categories == whole._encoder.categories
    np.testing.assert_array_equal(parted.predict(Frames(frame, dtype=None)), whole.predict(frame))
    np.testing.assert_array_equal(parted.predict(frame), whole.predict(frame))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["voting", "stacking", "bagging"])
def test_members_read_parts(kind, rng):
    X, y = table_of(rng)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(f=pd.Categorical(np.nan_to_num(X[:, 5]).astype(int) % 7))
    weight = rng.integers(0, 3, N_ROWS)

    def model():
        tree, boosted = fe.DecisionTreeRegressor(random_state=0), fe.GradientBoostingRegressor(n_estimators=5)
        if kind == "bagging":
            return fe.BaggingRegressor(boosted, n_estimators=3, max_features=0.5, random_state=0)
        return getattr(fe, f"{kind.title()}Regressor")([("tree", tree), ("boosted", boosted)])

    whole, parted = (model().fit(table, y, sample_weight=weight) for table in (frame, PartsOnly(frame, dtype=None)))
    np.testing.assert_array_equal(parted.predict(PartsOnly(frame, dtype=None)), whole.predict(frame))


def test_foreign_estimators_get_an_array(rng, monkeypatch):
    monkeypatch.undo()
    tree = pytest.importorskip("sklearn.tree")
    X, y = table_of(rng)
    whole, parted = (
        fe.AdaBoostRegressor(tree.DecisionTreeRegressor(max_depth=2, random_state=0), n_estimators=3, random_state=0)
        .fit(source(X), y)
        .predict(source(X))
        for source in (np.asarray, PartsOnly)
    )
    np.testing.assert_array_equal(whole, parted)


def test_these_tests_would_fail_with_the_whole_table(rng):
    X, _ = table_of(rng)
    for whole in (as_array, np.asarray):
        with pytest.raises(AssertionError, match="the whole table was"):
            whole(PartsOnly(X))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, "500MB"])
def test_a_source_of_an_array_is_read_as_the_array(limit, rng):
    X, words = rng.normal(size=(90, 2)), rng.choice(["low", "high"], 90)
    masked = np.ma.masked_array(X, rng.random(X.shape) < 0.3)
    rows = [[*row, word] for row, word in zip(X.tolist(), words.tolist(), strict=True)]
    y = masked[:, 0].filled(3.0) + (words == "low")
    for table, plain in ((masked, masked.filled(np.nan)), (rows, np.array(rows, object))):
        for model in (fe.GradientBoostingRegressor(n_estimators=3), fe.ConformalRegressor(random_state=0)):
            expected = clone(model).fit(plain, y).predict(plain)
            np.testing.assert_array_equal(
                model.fit(fe.TableSource(table, max_memory=limit), y).predict(plain), expected
            )


def test_errors(rng):
    X, y = table_of(rng)
    with pytest.raises(ValueError, match="X and y must have the same number of rows; got 1000 and 999"):
        fe.DecisionTreeRegressor().fit(PartsOnly(X), y[:-1])
    model = fe.DecisionTreeRegressor().fit(PartsOnly(X), y)
    with pytest.raises(ValueError, match="X has 5 features, but DecisionTreeRegressor is expecting 6"):
        model.predict(PartsOnly(X[:, :5]))
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.predict(PartsOnly(X[:0]))
    short = PartsOnly(X)
    short.shape = (N_ROWS + 5, 6)
    short.parts = PartsOnly(X).parts
    with pytest.raises(ValueError, match="X must yield the same rows in every pass; it yielded"):
        model.predict(short)

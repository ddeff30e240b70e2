"""The door of all estimators: what it accepts, what it learns, what it refuses."""

from __future__ import annotations

import json
import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning, NotFittedError

from fastens import (
    BaggingClassifier,
    CategoricalNB,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    IsolationForest,
    MixedNB,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    load,
)
from fastens.base import BaseClassifier, BaseRegressor
from fastens.params.rules import real
from fastens.table.training_data import encode_labels


class Regressor(BaseRegressor):
    _parameter_rules: ClassVar = {"rate": real(0, open_low=True)}

    def __init__(self, rate=0.1, categorical_features="from_dtype"):
        self.rate = rate
        self.categorical_features = categorical_features

    def fit(self, X, y, sample_weight=None):
        self._start_fit(X, y, sample_weight)
        return self


class Classifier(BaseClassifier):
    def __init__(self, class_weight=None):
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        self._start_fit(X, y, sample_weight)
        return self


X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6.0)
LABELS = np.array([0, 1, 0, 1, 1, 0])


def start(X=X, y=Y, weight=None, **parameters):
    return Regressor(**parameters)._start_fit(X, y, weight)


# Tables --------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_go_straight_through(dtype, order):
    values = np.asarray(X, dtype=dtype, order=order)
    values.flags.writeable = False
    model = Regressor()
    assert model._start_fit(values, Y).X is values
    assert model._check_table(values) is values
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    "values", [X.astype(int), X > 3, X.astype(">f8"), X.astype(object), X.tolist(), pl.DataFrame(X)]
)
def test_other_numbers_become_float64(values):
    found = start(values).X
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.asarray(values, dtype=np.float64))


def test_missing_and_infinite_values_are_data():
    values = np.array([[np.nan, np.inf], [-np.inf, 1.0]])
    np.testing.assert_array_equal(start(values, [0, 1]).X, values)
    np.testing.assert_array_equal(start(values.tolist(), [0, 1]).X, values)


def test_sparse_stays_sparse():
    model = Regressor()
    found = model._start_fit(sparse.coo_array(X.astype(int)), Y).X
    assert found.format == "csr"
    assert found.dtype == int  # numbers become floats where they are read
    assert sparse.issparse(model._check_table(sparse.csc_matrix(X)))
    with pytest.raises(ValueError, match="categorical_features must be None or 'from_dtype' for a sparse X"):
        start(sparse.csr_array(X), categorical_features=[0])


def test_names():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = Regressor()
    model._start_fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.feature_names_in_.dtype == object
    np.testing.assert_array_equal(model._check_table(frame[["b", "a"]]), X)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(model._check_table(X), X)
    with pytest.raises(ValueError, match="feature names should match"):
        model._check_table(pd.DataFrame(X))
    model._start_fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but Regressor was fitted without"):
        np.testing.assert_array_equal(model._check_table(frame), X)


@pytest.mark.parametrize("other", [X[:, :1], X[:, :1].tolist(), sparse.csr_array(X[:, :1])])
def test_number_of_columns(other):
    model = Regressor()
    model._start_fit(X, Y)
    with pytest.raises(ValueError, match="X has 1 features, but Regressor is expecting 2 features as input"):
        model._check_table(other)
    unnamed = pd.DataFrame(X[:, :1])
    with pytest.raises(ValueError, match="X has 1 features, but Regressor is expecting 2 features as input"):
        model._check_table(unnamed)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_empty_tables(kind):
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0,.*\)\) while a minimum of 1 is required"):
        start(kind(np.empty((0, 2))), [])
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(6, 0\)\) while a minimum of 1 is required"):
        start(kind(np.empty((6, 0))), Y)
    model = Regressor()
    model._start_fit(kind(X), Y)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model._check_table(kind(X)[:0])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        Regressor()._check_table(X)


def test_parameters_are_checked_first():
    with pytest.raises(ValueError, match="rate must be a number greater than 0; got 0"):
        start(None, rate=0)


# Targets --------------------------------------------------


@pytest.mark.parametrize("as_given", [list, lambda Y: Y.astype(int), pd.Series, pl.Series, lambda Y: Y.astype(object)])
def test_numbers_as_targets(as_given):
    found = start(y=as_given(Y)).y
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (Y[:5], "X and y must have the same number of rows; got 6 and 5"),
        ([np.nan] + [1.0] * 5, "Input y contains NaN"),
        ([np.inf] + [1.0] * 5, "Input y contains infinity"),
        (list("abcdef"), "y must hold real numbers"),
        (np.ones((6, 2)), "y should be a 1d array"),
        ([[1, 2], *[[1]] * 5], "y must have one value, or the same number of values, for each row"),
        (["a", 1, 2, 3, 4, None], "y must hold real numbers"),
    ],
)
def test_errors_of_targets(y, message):
    with pytest.raises(ValueError, match=message):
        start(y=y)


def test_a_column_as_target_warns():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        np.testing.assert_array_equal(start(y=Y[:, None]).y, Y)


LABEL_KINDS = {
    "ints": (LABELS * 7 - 3, [-3, 4]),
    "far apart": (LABELS * 10**15, [0, 10**15]),
    "int8": (np.where(LABELS, 127, -128).astype(np.int8), [-128, 127]),
    "uint64": (LABELS.astype(np.uint64) + 2**63, [2**63, 2**63 + 1]),
    "floats": (LABELS * 1e300, [0.0, 1e300]),
    "booleans": (LABELS == 1, [False, True]),
    "strings": (np.array(["no", "yes"])[LABELS], ["no", "yes"]),
    "objects": (np.array(["no", "yes"], dtype=object)[LABELS], ["no", "yes"]),
    "ints as objects": (LABELS.astype(object), [0, 1]),
    "booleans as objects": ((LABELS == 1).astype(object), [False, True]),
    "long doubles": (LABELS.astype(np.longdouble), [0.0, 1.0]),
    "strings of any length": (np.array(["no", "yes"], dtype=np.dtypes.StringDType())[LABELS], ["no", "yes"]),
    "pandas category": (pd.Series(pd.Categorical(np.array(["no", "yes"])[LABELS])), ["no", "yes"]),
    "polars": (pl.Series(np.array(["no", "yes"])[LABELS]), ["no", "yes"]),
}


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_any_label(kind):
    y, classes = LABEL_KINDS[kind]
    model = Classifier()
    np.testing.assert_array_equal(model._start_fit(X, y).y, LABELS)
    assert model.classes_.tolist() == classes
    np.testing.assert_array_equal(model._check_validation(X, y).y, LABELS)
    model._restore_encoder(json.loads(json.dumps(model._encoder_state())))
    assert model.classes_.tolist() == classes


@pytest.mark.parametrize("kind", sorted(LABEL_KINDS.keys() - {"floats"}))  # too large for scikit-learn's metrics
def test_any_label_is_scored(kind, tmp_path):
    y, classes = LABEL_KINDS[kind]
    model = DecisionTreeClassifier().fit(X, y)
    assert model.score(X, y) == np.mean(model.predict(X).tolist() == np.array(classes)[LABELS])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == classes


class SeveralNumbers(Regressor):
    _takes_several_targets: ClassVar = True


class SeveralClasses(Classifier):
    _takes_several_targets: ClassVar = True


def test_several_targets():
    numbers = np.column_stack([Y, -Y])
    np.testing.assert_array_equal(SeveralNumbers()._start_fit(X, numbers).y, numbers)
    np.testing.assert_array_equal(SeveralNumbers()._start_fit(X, pd.DataFrame(numbers)).y, numbers)
    assert SeveralNumbers()._start_fit(X, Y).y.ndim == 1
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        assert SeveralNumbers()._start_fit(X, Y[:, None]).y.ndim == 1
    model = SeveralClasses()
    labels = np.column_stack([np.array(["no", "yes"])[LABELS], list("abcabc")])
    index = np.column_stack([LABELS, [0, 1, 2, 0, 1, 2]])
    np.testing.assert_array_equal(model._start_fit(X, labels).y, index)
    assert [found.tolist() for found in model.classes_] == [["no", "yes"], ["a", "b", "c"]]
    np.testing.assert_array_equal(model._check_validation(X, labels).y, index)
    again = SeveralClasses()
    again._restore_encoder(json.loads(json.dumps(model._encoder_state())))
    assert [found.tolist() for found in again.classes_] == [["no", "yes"], ["a", "b", "c"]]
    with pytest.raises(ValueError, match="y must have the same number of targets as in fit"):
        model._check_validation(X, labels[:, 0])
    model._start_fit(X, np.column_stack([labels[:, 0], ["a"] * 6]))
    assert [found.tolist() for found in model.classes_] == [["no", "yes"], ["a"]]


def test_rows_with_weight_are_numbered():
    assert start(weight=[1, 0, 2, 0, 1, 1]).rows.tolist() == [0, 2, 4, 5]
    assert start().rows is None


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y + 0.5, "Unknown label type: continuous"),
        ([None, "a", "b", "a", "b", "a"], "Input y contains NaN"),
        ([np.nan, 1, 0, 1, 0, 1], "Input y contains NaN"),
        (["a", np.nan, "b", "a", "b", "a"], "Input y contains NaN"),
        (["a", 1, "b", "a", "b", "a"], "Unknown label type: y holds int, str"),
        (np.array(["a", 1, "b", 2, "a", 1], dtype=object), "Unknown label type: y holds int, str"),
        (np.array(["2026-01-01"] * 6, dtype="datetime64[D]"), "Unknown label type: y holds datetime64"),
    ],
)
def test_errors_of_labels(y, message):
    with pytest.raises(ValueError, match=message):
        Classifier()._start_fit(X, y)


def test_validation_data_must_hold_known_classes():
    model = Classifier()
    model._start_fit(X, LABELS)
    with pytest.raises(ValueError, match="y must hold the classes seen in fit; it holds 2"):
        model._check_validation(X, LABELS + 1)


def test_narrow_and_wide_labels_agree(rng):
    for dtype in (np.int8, np.uint8, np.int32, np.float32, np.bool_):
        y = rng.integers(-100, 100, 500).astype(dtype)
        classes, index = encode_labels(y)
        expected, expected_index = np.unique(y, return_inverse=True)
        np.testing.assert_array_equal(classes, expected)
        np.testing.assert_array_equal(index, expected_index)
        assert classes.dtype == dtype


# Weights --------------------------------------------------


def test_rows_of_zero_weight_are_absent():
    weight = np.array([1.0, 0, 2, 0, 1, 1])
    found = start(weight=weight)
    np.testing.assert_array_equal(found.X, X[weight > 0])
    np.testing.assert_array_equal(found.y, Y[weight > 0])
    np.testing.assert_array_equal(found.sample_weight, weight[weight > 0])
    assert start(sparse.csr_array(X), weight=weight).X.shape == (4, 2)
    y = np.array([0, 2, 0, 2, 1, 1])
    model = Classifier()
    model._start_fit(X, y, weight)
    assert model.classes_.tolist() == [0, 1]


def test_weights_of_one_are_none():
    assert start(weight=np.ones(6)).sample_weight is None
    assert start(weight=1).sample_weight is None
    assert start(weight=[1, 1, 1, 0, 1, 1]).sample_weight is None


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(6), "all of them are zero"),
        (np.ones(5), r"one weight for each of the 6 rows; got shape \(5,\)"),
        (np.ones((6, 1)), r"got shape \(6, 1\)"),
        ([1, 1, 1, 1, 1, -0.5], r"must be finite and non-negative.*got -0\.5"),
        ([1, 1, 1, 1, 1, np.nan], "must be finite and non-negative.*got nan"),
        (["x"] * 6, "sample_weight must hold numbers"),
    ],
)
def test_errors_of_weights(weight, message):
    with pytest.raises(ValueError, match=f"sample_weight must.*{message}|{message}"):
        start(weight=weight)


def test_class_weights():
    weight = np.array([1.0, 2, 3, 4, 5, 6])
    labels = np.array(["no", "yes"])[LABELS]
    found = Classifier({"yes": 10})._start_fit(X, labels, weight)
    np.testing.assert_array_equal(found.sample_weight, np.where(LABELS, 10, 1) * weight)
    balanced = Classifier("balanced")._start_fit(X, labels, weight).sample_weight
    assert balanced[LABELS == 0].sum() == pytest.approx(balanced[LABELS == 1].sum())
    assert balanced.sum() == pytest.approx(weight.sum())
    assert Classifier("balanced")._start_fit(X, labels).sample_weight is None


@pytest.mark.parametrize(
    "bad", ["even", {0: 1, 5: 1}, {0: 0, 1: 1}, {0: -1, 1: 1}, {0: "x", 1: 1}, {0: None}, {0: np.inf}, 3]
)
def test_errors_of_class_weights(bad):
    with pytest.raises(ValueError, match="class_weight must"):
        Classifier(bad)._start_fit(X, LABELS)


# Saving --------------------------------------------------


def test_encoder_state():
    frame = pd.DataFrame({"a": X[:, 0], "k": list("xyxyxx")})
    model = Regressor()
    expected = model._start_fit(frame, Y).X
    again = Regressor()
    again._restore_encoder(json.loads(json.dumps(model._encoder_state())))
    for copy in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy._check_table(frame), expected)
        assert copy.feature_names_in_.tolist() == ["a", "k"]
        assert copy.n_features_in_ == 2


class Lazy:
    """A table of a library whose lazy tables are not read."""

    def collect(self):
        raise AssertionError("collected")


def test_lazy_tables_are_named():
    with pytest.raises(ValueError, match=r"X must be a table in memory; got a Lazy\. Pass X\.collect\(\)"):
        Regressor().fit(Lazy(), [1.0, 2.0])


def test_structured_arrays_are_refused_with_advice():
    records = np.array([(1.0, 2.0)] * 6, dtype=[("a", float), ("b", float)])
    for values in (records, np.rec.array(records)):
        with pytest.raises(ValueError, match="X must be a table; got a structured array of"):
            start(X=values)
    np.testing.assert_array_equal(start(X=pd.DataFrame(records)).X, [[1, 2]] * 6)


@pytest.mark.parametrize(
    "given", [None, {"a": [1.0, 2.0]}, iter([[1.0], [2.0]]), object()], ids=lambda each: type(each).__name__
)
def test_errors_name_input_that_is_not_a_table(given):
    with pytest.raises(ValueError, match=rf"X must be a table, such as .*of type {type(given).__name__}\."):
        start(X=given)


# Masks --------------------------------------------------


def test_masked_values_are_missing_values():
    masked = np.ma.masked_array(X, mask=X > 1)
    found = start(X=masked)
    np.testing.assert_array_equal(found.X, np.where(X > 1, np.nan, X))
    model = Classifier()
    model._start_fit(X, LABELS)
    np.testing.assert_array_equal(model._check_table(masked), found.X)
    np.testing.assert_array_equal(model._check_table(np.ma.masked_array(X)), X)


def test_masked_targets_and_weights_are_refused():
    with pytest.raises(ValueError, match=r"y must not have masked values; row . has one"):
        start(y=np.ma.masked_array(Y, [False, False, True, False, False, False]))
    with pytest.raises(ValueError, match="sample_weight must not have masked values; row"):
        start(weight=np.ma.masked_array(np.ones(6), [False] * 5 + [True]))
    start(y=np.ma.masked_array(Y), weight=np.ma.masked_array(np.ones(6)))


@pytest.mark.parametrize("model", [GradientBoostingRanker(n_estimators=2), GradientBoostingSurvival(n_estimators=2)])
def test_masked_targets_of_other_kinds_are_refused(model):
    with pytest.raises(ValueError, match=r"y must not have masked values; row . has one"):
        model.fit(X, np.ma.masked_array(Y + 1, [False, True, False, False, False, False]))


def test_objects_of_a_target_are_named():
    y = np.array([1.0, 2.0, 3.0, "x", 4.0, 5.0], dtype=object)
    with pytest.raises(ValueError, match="y must hold real numbers; row 3 holds 'x' of type str"):
        start(y=y)
    with pytest.raises(ValueError, match=r"y must hold real numbers; it holds datetime64"):
        start(y=np.arange(6).astype("M8[D]"))
    for same in (pd.Series(Y, index=[9, 8, 7, 6, 5, 4]), pd.Series(Y).astype("Int64"), pd.Series(Y, dtype=object)):
        np.testing.assert_array_equal(start(y=same).y, Y)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3, random_state=0),
        BaggingClassifier(n_estimators=3, random_state=0),
        StackingClassifier([("tree", DecisionTreeClassifier())]),
        MixedNB(),
        CategoricalNB(),
        IsolationForest(5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("dtype", [np.float64, np.int64, object])
def test_masks_in_estimators(model, dtype, rng):
    values, mask = rng.integers(0, 4, (60, 3)), rng.random((60, 3)) < 0.2
    masked, y = np.ma.masked_array(values.astype(dtype), mask), rng.integers(0, 2, 60)
    ask = (
        model.fit(masked, y).score_samples if isinstance(model, IsolationForest) else model.fit(masked, y).predict_proba
    )
    found = ask(masked)
    plain = np.where(mask, np.nan, values)
    np.testing.assert_array_equal(getattr(model.fit(plain, y), ask.__name__)(plain), found)
    assert not np.array_equal(getattr(model.fit(values, y), ask.__name__)(values), found)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier, StackingClassifier])
@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_a_sparse_target_is_named(kind, error):
    """scikit-learn's trees raise TypeError, and its forests ValueError."""
    X, y = np.eye(4), sparse.csr_matrix(np.eye(4)[:, :2])
    with pytest.raises(error, match=r"y must be a dense array; got a csr_matrix\. Pass y\.toarray\(\)"):
        kind().fit(X, y)


def test_logarithms_where_there_are_probabilities():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3
    for model in (BaggingClassifier(), MixedNB(), RandomForestClassifier()):
        proba = model.fit(X, y).predict_proba(X)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(model.predict_log_proba(X), np.log(proba))
    assert not hasattr(VotingClassifier([("a", MixedNB())], voting="hard"), "predict_log_proba")
    assert hasattr(VotingClassifier([("a", MixedNB())], voting="soft"), "predict_log_proba")


@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier])
def test_warm_starts_leave_out_rows_without_weight_as_fits_do(kind):
    """Also where no other row has their class, or their target is no class at all."""
    X, y = np.arange(40.0)[:, None], np.arange(40) % 3
    weight = np.where(y == 2, 0.0, 1.0)
    whole = kind(n_estimators=4, random_state=0).fit(X, y, sample_weight=weight)
    parts = kind(n_estimators=2, random_state=0, warm_start=True).fit(X, y, sample_weight=weight)
    parts.set_params(n_estimators=4).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))


def test_validation_rows_without_weight_are_not_looked_at():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    labels, weight = np.where(np.arange(40) < 5, 7, y), np.where(np.arange(40) < 5, 0.0, 1.0)
    model = GradientBoostingClassifier(n_estimators=3, early_stopping=True)
    found = model.fit(X, y, X_val=X, y_val=labels, sample_weight_val=weight).evals_result_["validation"]["loss"]
    without = model.fit(X, y, X_val=X[5:], y_val=y[5:]).evals_result_["validation"]["loss"]
    np.testing.assert_array_equal(found, without)


@pytest.mark.parametrize("method", ["fit", "score"])
def test_a_traceback_shows_one_frame_before_the_method(method):
    model = GradientBoostingRegressor(n_estimators=1)
    model.fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="NaN") as raised:
        getattr(model, method)([[1.0], [2.0]], [np.nan, 1.0])
    names = [frame.name for frame in raised.traceback]
    assert names.index(method) == 2
    assert names[1] == "enter"

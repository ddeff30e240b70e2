import sys

import numpy as np
import pandas as pd
import pytest
from pandas.api.types import is_numeric_dtype
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, StackingRegressor, VotingClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fastens
import fastens.onnx
from fastens.exchange.export import view_of
from reference.exported import AVERAGED, BOOSTED, SEVERAL, classes_of, fitted, mixed, numbers, rows_for

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from skl2onnx.common.data_types import (  # noqa: E402
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)

TENSORS = {np.float32: FloatTensorType, np.float64: DoubleTensorType, np.int64: Int64TensorType}
TOLERANCE = 2e-6  # sums of single precision
NO_MAPS = {"zipmap": False}


@pytest.fixture(autouse=True, scope="module")
def _registered():
    fastens.onnx.register()


def inputs_of(X, dtype):
    """Types and values of the inputs: one tensor of an array, one for each column of a frame."""
    if not isinstance(X, pd.DataFrame):
        return [("X", TENSORS[dtype]([None, X.shape[1]]))], [X.astype(dtype)]
    types, values = [], []
    for name, column in X.items():
        if isinstance(column.dtype, pd.CategoricalDtype) and not is_numeric_dtype(column.cat.categories.dtype):
            types.append((name, StringTensorType([None, 1])))
            values.append(np.array(["" if pd.isna(value) else value for value in column], dtype=object)[:, None])
        else:
            types.append((name, TENSORS[dtype]([None, 1])))
            values.append(column.astype(dtype).to_numpy()[:, None])
    return types, values


def outputs(model, X, dtype=np.float64, options=None):
    """What onnxruntime makes of the converted model, by name."""
    types, values = inputs_of(X, dtype)
    session = onnxruntime.InferenceSession(
        skl2onnx.convert_sklearn(model, initial_types=types, options=options).SerializeToString()
    )
    # Names of inputs are those of columns made identifiers.
    feed = {found.name: value for found, value in zip(session.get_inputs(), values, strict=True)}
    return dict(zip([found.name for found in session.get_outputs()], session.run(None, feed), strict=True))


def check_classes(model, X, dtype=np.float64, expected_for=None):
    expected = model.predict_proba(X if expected_for is None else expected_for)
    found = outputs(model, X, dtype, NO_MAPS)
    np.testing.assert_allclose(found["probabilities"], expected, atol=TOLERANCE)
    top = np.sort(expected, axis=1)
    is_clear = top[:, -1] - top[:, -2] > 2 * TOLERANCE
    assert is_clear.mean() > 0.5
    labels = model.predict(X if expected_for is None else expected_for)
    assert np.array_equal(found["label"][is_clear], labels[is_clear])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_every_family_from_frames_and_arrays(name, dtype):
    model = fitted(name)
    X = rows_for(model, as_float32=dtype == np.float32)
    found = outputs(model, X, dtype, NO_MAPS if hasattr(model, "classes_") else None)
    if hasattr(model, "classes_"):
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=TOLERANCE)
    else:
        expected = model.predict(X)
        np.testing.assert_allclose(found["variable"].reshape(expected.shape), expected, TOLERANCE, TOLERANCE)
        assert found["variable"].dtype == dtype


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pipelines_of_columns(dtype):
    X, y = mixed()
    X = X[["size", "count", "few", "whole"]].assign(few=X["few"].astype(object).fillna("none"))
    X = X.assign(whole=X["whole"].astype(float))
    X[["size", "count"]] = X[["size", "count"]].astype(np.float32).astype(float)
    columns = ColumnTransformer(
        [
            ("numbers", "passthrough", ["size", "count", "whole"]),
            ("scaled", StandardScaler(), ["size"]),
            ("codes", OrdinalEncoder(), ["few"]),
        ]
    )
    booster = fastens.GradientBoostingClassifier(n_estimators=9, categorical_features=[2, 4], random_state=0)
    pipeline = make_pipeline(columns, booster).fit(X, classes_of(y, 3))
    frame = X.assign(few=pd.Categorical(X["few"]))
    check_classes(pipeline, frame, dtype, expected_for=X)
    one_hot = ColumnTransformer([("words", OneHotEncoder(), ["few"])], remainder="passthrough")
    forest = fastens.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0)
    check_classes(make_pipeline(one_hot, forest).fit(X, classes_of(y)), frame, dtype, expected_for=X)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_stacks_votes_searches_and_calibration(n_classes):
    X, y = numbers()
    X, y = np.nan_to_num(X), classes_of(y, n_classes)
    boosting = fastens.GradientBoostingClassifier(n_estimators=5)
    members = [
        ("boosting", boosting),
        ("forest", fastens.RandomForestClassifier(n_estimators=5, random_state=0)),
        ("linear", LogisticRegression(max_iter=500)),
    ]
    check_classes(StackingClassifier(members, boosting, passthrough=True).fit(X, y), X)
    check_classes(StackingClassifier(members, LogisticRegression(), stack_method="predict_proba").fit(X, y), X)
    check_classes(VotingClassifier(members, voting="soft", flatten_transform=False).fit(X, y), X)
    check_classes(GridSearchCV(boosting, {"learning_rate": [0.1, 0.3]}, cv=2).fit(X, y), X)
    check_classes(CalibratedClassifierCV(boosting, cv=2).fit(X, y), X)
    forest, bag = members[1][1], fastens.BaggingClassifier(n_estimators=3, random_state=0)
    for member, method in ((forest, "sigmoid"), (bag, "isotonic")):  # these have no decision_function
        check_classes(CalibratedClassifierCV(member, method=method, cv=2).fit(X, y), X)
    check_classes(bag.fit(X, y), X)


def test_stack_of_decisions():
    X, y = numbers()
    X, y = np.nan_to_num(X), classes_of(y, 3)
    final = fastens.DecisionTreeClassifier(max_depth=3)
    members = [("boosting", fastens.GradientBoostingClassifier(n_estimators=5))]
    stack = StackingClassifier(members, final, stack_method="decision_function").fit(X, y)
    found = outputs(stack, X, options=NO_MAPS)
    np.testing.assert_allclose(found["probabilities"], stack.predict_proba(X), atol=TOLERANCE)


def test_stack_of_numbers():
    X, y = numbers()
    X = np.nan_to_num(X)
    members = [("boosting", fastens.GradientBoostingRegressor(n_estimators=5)), ("linear", RidgeCV())]
    stack = StackingRegressor(members, fastens.ExtraTreesRegressor(n_estimators=5, max_depth=3, random_state=0))
    found = outputs(stack.fit(X, y), X)
    np.testing.assert_allclose(found["variable"][:, 0], stack.predict(X), atol=1e-5)


@pytest.mark.slow
def test_options():
    X, y = numbers()
    for labels in (np.array([3, 1, 2]), np.array(["b", "a", "c"]), np.array([1.0, 0.0, -1.0])):
        target = labels[(classes_of(y, 3) == "low") + 2 * (classes_of(y, 3) == "mid")]
        model = fastens.GradientBoostingClassifier(n_estimators=3).fit(X, target)
        rows = X.astype(np.float32)
        found = outputs(model, rows, np.float32)
        assert np.array_equal(found["output_label"], model.predict(rows))
        assert sorted(found["output_probability"][0]) == sorted(labels.tolist())
        by_class = outputs(model, rows, np.float32, {"zipmap": "columns"})
        assert len(by_class) == 4
        raw = outputs(model, X, options={"zipmap": False, "raw_scores": True})["probabilities"]
        np.testing.assert_allclose(raw, model.decision_function(X), atol=TOLERANCE)
        found = outputs(model, X, options={"zipmap": False, "nocl": True})["label"]
        assert np.array_equal(model.classes_[found], model.predict(X))
    for model in (
        fastens.AdaBoostClassifier(n_estimators=5, random_state=0),
        fastens.GradientBoostingClassifier(loss="exponential", n_estimators=5),
    ):
        raw = outputs(model.fit(X, classes_of(y)), X, options={"zipmap": False, "raw_scores": True})["probabilities"]
        np.testing.assert_allclose(raw, model.decision_function(X)[:, None] * [-1, 1], atol=TOLERANCE)


def test_outliers():
    X = numbers()[0]
    model = fastens.IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(X)
    found = outputs(model, X)
    np.testing.assert_allclose(found["scores"][:, 0], model.decision_function(X), atol=TOLERANCE)
    is_clear = np.abs(model.decision_function(X)) > TOLERANCE
    assert np.array_equal(found["label"][is_clear, 0], model.predict(X)[is_clear])


@pytest.mark.slow
def test_columns_by_name_or_in_order():
    model = fitted("mixed")
    X = rows_for(model)
    turned = X[X.columns[::-1]]
    assert np.array_equal(outputs(model, turned)["variable"], outputs(model, X)["variable"])
    model = fitted("regression")
    types = [("codes", Int64TensorType([None, 2])), ("rest", FloatTensorType([None, 3]))]
    onnx_model = skl2onnx.convert_sklearn(model, initial_types=types)
    codes, rest = np.arange(40).reshape(20, 2) % 5, numbers()[0][:20, 2:].astype(np.float32)
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString())
    (found,) = session.run(None, {"codes": codes, "rest": rest})
    np.testing.assert_allclose(found[:, 0], model.predict(np.hstack([codes, rest])), rtol=TOLERANCE)
    assert view_of(model).columns[0].name == "x0"


def test_invalid_input_raises():
    X, y = numbers()
    boosting = fitted("regression")
    with pytest.raises(
        ValueError, match=r"the inputs must have 5 columns for this GradientBoostingRegressor; got \[4\]"
    ):
        skl2onnx.convert_sklearn(boosting, initial_types=[("X", FloatTensorType([None, 4]))])
    wrong = [(column.name, FloatTensorType([None, 1])) for column in view_of(fitted("mixed")).columns]
    with pytest.raises(
        ValueError, match="the input 'few' must be a tensor of strings for the column 'few'; got a tensor of numbers"
    ):
        skl2onnx.convert_sklearn(fitted("mixed"), initial_types=wrong)
    several = fastens.RandomForestClassifier(n_estimators=2).fit(X, np.column_stack([y > 0, y > 1]))
    linear = fastens.GradientBoostingRegressor(n_estimators=2, linear_leaves=fastens.LinearLeaves()).fit(X, y)
    members = fastens.BaggingRegressor(RidgeCV(), n_estimators=2).fit(np.nan_to_num(X), y)
    tree, options = fitted("tree"), {"zipmap": False, "raw_scores": True}
    for model, message in (
        (several, r"skl2onnx does not support several classification targets\. Use"),
        (linear, "format='onnx' cannot represent linear leaves"),
        (members, r"must be made of its own trees for export; this one has other members\."),
    ):
        with pytest.raises(ValueError, match=message):
            outputs(model, X, options={"zipmap": False} if hasattr(model, "classes_") else None)
    forest = fitted("forest of two classes")
    with pytest.raises(NameError, match=r"Option 'raw_scores' not in .* for class 'RandomForestClassifier'"):
        outputs(forest, rows_for(forest), options=options)
    with pytest.raises(ValueError, match="target_opset for '' must be at least 13"):
        skl2onnx.convert_sklearn(tree, initial_types=[("X", FloatTensorType([None, 5]))], target_opset=12)


def test_without_skl2onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fastens\[onnx\]'"):
        fastens.onnx.register()

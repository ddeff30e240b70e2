import sys

import numpy as np
import pandas as pd
import pytest

import fastens
from reference.exported import AVERAGED, BOOSTED, SEVERAL, classes_of, fitted, mixed, numbers, rows_for

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def predicted(model, X, **options):
    """The outputs of onnxruntime by name."""
    session = onnxruntime.InferenceSession(model.export(format="onnx", **options))
    inputs = {found.name: found.type for found in session.get_inputs()}
    if list(inputs) == ["X"]:
        feed = {"X": np.asarray(X, dtype=np.float64)}
    else:
        feed = {name: column_of(X[name], kind) for name, kind in inputs.items()}
    return dict(zip([found.name for found in session.get_outputs()], session.run(None, feed), strict=True))


def column_of(values, kind):
    if kind == "tensor(string)":
        return np.array(["" if pd.isna(value) else value for value in values], dtype=object)[:, None]
    return np.array([np.nan if pd.isna(value) else float(value) for value in values])[:, None]


def check(model, X, tolerance, **options):
    found = predicted(model, X, **options)
    if not hasattr(model, "classes_"):
        expected = model.predict(X)
        np.testing.assert_allclose(found["variable"].reshape(expected.shape), expected, tolerance, tolerance)
        return
    expected = model.predict_proba(X)
    np.testing.assert_allclose(found["probabilities"], expected, tolerance, tolerance)
    top = np.sort(expected, axis=1)
    is_clear = top[:, -1] - top[:, -2] > 2 * tolerance
    assert is_clear.mean() > 0.5 or expected.shape[1] == 2
    assert np.array_equal(found["label"][is_clear], model.predict(X)[is_clear])


@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_predictions(name):
    check(fitted(name), rows_for(fitted(name)), 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_older_runtimes_get_single_precision(name):
    check(fitted(name), rows_for(fitted(name)), 2e-6, ml_opset=3)


@pytest.mark.parametrize("missing", ["missing", "category"])
@pytest.mark.parametrize("ml_opset", [5, 3])
def test_missing_categories_are_not_unseen_ones(missing, ml_opset):
    X, y = mixed()
    options = fastens.Categories(missing=missing)
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options)
    model.fit(X, y + 9 * X["few"].isna())
    check(model, rows_for(model), 2e-6, ml_opset=ml_opset)


@pytest.mark.parametrize("ml_opset", [5, 3])
def test_numbers_as_categories_in_one_tensor(ml_opset):
    X, y = numbers()
    X = np.column_stack([X, np.random.default_rng(0).choice([-0.5, 0.0, 2.0, 7.25], len(X))])
    model = fastens.GradientBoostingRegressor(n_estimators=9, categorical_features=[2, 5]).fit(X, y + X[:, 5] ** 2)
    rows = X[:300].copy()
    rows[:100, 5] = np.repeat([np.nan, 2.0 + 1e-12, -1.0, 2.7, 1e9], 20)
    check(model, rows, 1e-13 if ml_opset == 5 else 2e-6, ml_opset=ml_opset)


def test_labels_of_any_type():
    X, y = numbers()
    for labels in (np.arange(3) - 1, np.array([-5.0, 1.0, 4.0]), np.array(["b", "a", "c"])):
        target = labels[(classes_of(y, 3) == "low") + 2 * (classes_of(y, 3) == "mid")]
        model = fastens.RandomForestClassifier(n_estimators=5, random_state=0).fit(X, target)
        assert np.array_equal(predicted(model, X)["label"], model.predict(X))
    model = fastens.DecisionTreeClassifier(max_depth=3).fit(X, y > 1)
    assert np.array_equal(predicted(model, X)["label"], model.predict(X))


def test_labels_that_are_not_int64_are_refused():
    X = np.arange(40.0)[:, None]
    model = fastens.GradientBoostingClassifier(n_estimators=2).fit(X, np.repeat(np.uint64([1, 2**63 + 5]), 20))
    with pytest.raises(ValueError, match=r"format='onnx' cannot represent a label above .* \(9223372036854775813\)"):
        model.export(format="onnx")


def test_outliers():
    X = numbers()[0]
    model = fastens.IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(X)
    found = predicted(model, rows_for(model))
    np.testing.assert_allclose(found["scores"][:, 0], model.decision_function(rows_for(model)), atol=1e-14)
    assert np.array_equal(found["label"][:, 0], model.predict(rows_for(model)))


def test_levels_are_sorted():
    X, y = numbers()
    model = fastens.GradientBoostingRegressor(loss="quantile", quantile=[0.4, 0.5, 0.6], n_estimators=5).fit(X, y)
    assert (np.diff(model._raw(X)) < 0).any()
    check(model, X, 1e-13)


def test_several_targets_with_classes():
    X, y = numbers()
    target = np.column_stack([classes_of(y), classes_of(-y, 3)])
    model = fastens.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0).fit(X, target)
    found = predicted(model, X)
    for k, expected in enumerate(model.predict_proba(X)):
        np.testing.assert_allclose(found[f"probabilities_{k}"], expected, atol=1e-13)
        assert np.array_equal(found[f"label_{k}"], model.predict(X)[:, k])


def test_one_vs_rest():
    X, y = numbers()
    model = fastens.AdaBoostClassifier(algorithm="gentle", n_estimators=9).fit(X, classes_of(y, 4))
    check(model, X, 1e-13)


def test_columns_as_inputs():
    model = fitted("mixed")
    with pytest.raises(ValueError, match=r"string categories in a single tensor \(use inputs='columns'\)"):
        model.export(format="onnx", inputs="tensor")
    X = pd.DataFrame(numbers()[0], columns=list("abcde"))
    model = fastens.DecisionTreeRegressor(max_depth=3).fit(X, numbers()[1])
    assert np.array_equal(predicted(model, X, inputs="columns")["variable"], predicted(model, X.to_numpy())["variable"])


def test_categories_that_are_texts_and_numbers_are_refused():
    X = pd.DataFrame({"town": pd.Series(["a", 1] * 30, dtype=object)})
    model = fastens.DecisionTreeRegressor(max_depth=2).fit(X, np.arange(60.0) % 2)
    with pytest.raises(ValueError, match="categories of 'town' that mix strings and numbers"):
        model.export(format="onnx")


def test_columns_without_a_name_are_refused():
    X = pd.DataFrame(numbers()[0], columns=["", "b", "c", "d", "e"])
    model = fastens.DecisionTreeRegressor(max_depth=3).fit(X, numbers()[1])
    with pytest.raises(ValueError, match="format='onnx' cannot represent a column without a name"):
        model.export(format="onnx", inputs="columns")


def test_columns_named_as_outputs_are_refused():
    X = pd.DataFrame(numbers()[0], columns=["a", "b", "variable", "c", "d"])
    model = fastens.DecisionTreeRegressor(max_depth=3).fit(X, numbers()[1])
    with pytest.raises(ValueError, match="a column with the name of the output 'variable'"):
        model.export(format="onnx", inputs="columns")


def test_options_are_checked():
    for option, value in (("ml_opset", 4), ("inputs", "rows")):
        with pytest.raises(ValueError, match=f"{option} must be .* got {value!r}"):
            fitted("regression").export(format="onnx", **{option: value})


def test_without_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fastens\[onnx\]'"):
        fitted("regression").export(format="onnx")


def test_children_of_roots_have_numbers_of_their_own():
    """onnxruntime before 1.24 takes a root for a leaf whose children, a split and a leaf, have the same number."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.exp(2 * X[:, 0]) + X[:, 1]
    n_mixed = 0
    for n_leaves in (2, 3, 5):
        model = fastens.GradientBoostingRegressor(n_estimators=6, max_leaf_nodes=n_leaves).fit(X, y)
        nodes = onnx.load_from_string(model.export(format="onnx")).graph.node
        trees = next(node for node in nodes if node.op_type == "TreeEnsemble")
        found = {attribute.name: list(attribute.ints) for attribute in trees.attribute}
        for root in found["tree_roots"]:
            kinds, numbers = (
                [found[f"nodes_{side}{what}"][root] for side in ("true", "false")] for what in ("leafs", "nodeids")
            )
            n_mixed += kinds[0] != kinds[1]
            assert kinds[0] == kinds[1] or numbers[0] != numbers[1]
    assert n_mixed > 5

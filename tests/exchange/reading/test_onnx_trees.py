"""ONNX models with trees predict here as ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble

import fastens
from exchange_probes import probes, saved_and_loaded, table
from fastens import ModelFileError, from_model

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper
X, y = table()
FULL = np.nan_to_num(X, nan=3.5)
CLASSES = np.digitize(y, [0.5, 2.5])
FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


def forest(n_targets=1, kind=ensemble.RandomForestRegressor):
    target = np.column_stack([y, -y * X[:, 0]])[:, :n_targets].squeeze()
    return kind(7, max_depth=5, random_state=0).fit(X, target)


def model_of(nodes, elem, outputs, initializers=(), width=5):
    inputs = [helper.make_tensor_value_info("X", elem, [None, width])]
    outs = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    graph = helper.make_graph(nodes, "trees", inputs, outs, list(initializers))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def tensor(name, values, elem=DOUBLE):
    values = np.asarray(values)
    return helper.make_tensor(name, elem, values.shape, values.ravel().tolist())


def five(trees, elem, *, mode=0, tracks=None, extra=(), aggregate=1, **given):
    """A TreeEnsemble of scikit-learn trees, whose tests are turned into those of a mode."""
    node = {name: [] for name in ("features", "splits", "true", "false", "true_leaf", "false_leaf", "tracks")}
    roots, weights, targets = [], [], []
    for tree in trees:
        own, n_targets = tree.tree_, tree.tree_.n_outputs
        for target in range(n_targets):
            first = len(node["features"])
            roots.append(first)
            inner = np.flatnonzero(own.children_left >= 0)
            place = {int(index): first + k for k, index in enumerate(inner)}
            for index in inner:
                ways = [own.children_left[index], own.children_right[index]]
                ways = ways[::-1] if mode in (2, 3) else ways
                missing = bool(own.missing_go_to_left[index]) != (mode in (2, 3))
                node["features"].append(int(own.feature[index]))
                node["splits"].append(float(np.float32(own.threshold[index])))
                node["tracks"].append(int(missing))
                for way, side in zip(ways, ("true", "false"), strict=True):
                    is_leaf = own.children_left[way] < 0
                    node[side].append(len(weights) if is_leaf else place[int(way)])
                    node[f"{side}_leaf"].append(int(is_leaf))
                    if is_leaf:
                        weights.append(float(own.value[way, target, 0]))
                        targets.append(target)
    kind = {"domain": "ai.onnx.ml", "n_targets": max(targets) + 1, "aggregate_function": aggregate, "post_transform": 0}
    return helper.make_node(
        "TreeEnsemble",
        ["X"],
        ["scores"],
        nodes_featureids=node["features"],
        nodes_splits=tensor("splits", node["splits"], elem),
        nodes_modes=tensor("modes", np.full(len(node["splits"]), mode), onnx.TensorProto.UINT8),
        nodes_truenodeids=node["true"],
        nodes_falsenodeids=node["false"],
        nodes_trueleafs=node["true_leaf"],
        nodes_falseleafs=node["false_leaf"],
        nodes_missing_value_tracks_true=node["tracks"],
        tree_roots=roots,
        leaf_targetids=targets,
        leaf_weights=tensor("weights", weights, elem),
        **kind | given,
    )


def run(model, rows, elem, output=0):
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": rows.astype(np.float32 if elem == FLOAT else np.float64)})[output]


def agree(model, elem, folder, *, rtol=1e-6):
    found = from_model(model.SerializeToString())
    rows = probes(X, found)
    theirs = run(model, rows, elem)
    rtol = 1e-13 if elem == DOUBLE else rtol
    ours = found.predict(rows).reshape(len(rows), -1)
    np.testing.assert_allclose(ours, theirs.reshape(len(rows), -1), rtol=rtol, atol=rtol * 10)
    np.testing.assert_array_equal(saved_and_loaded(found, folder).predict(rows), found.predict(rows))
    return found


@pytest.mark.parametrize("elem", [FLOAT, DOUBLE])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_version_5(elem, mode, tmp_path):
    agree(model_of([five(forest(), elem, mode=mode)], elem, [("scores", elem)]), elem, tmp_path)


@pytest.mark.parametrize("aggregate", [0, 1])
def test_several_targets(aggregate, tmp_path):
    trees = five(forest(2), DOUBLE, aggregate=aggregate)
    agree(model_of([trees], DOUBLE, [("scores", DOUBLE)]), DOUBLE, tmp_path)


def test_base_values_are_added(tmp_path):
    nodes = [five(forest(), DOUBLE), helper.make_node("Add", ["scores", "base"], ["out"])]
    model = model_of(nodes, DOUBLE, [("out", DOUBLE)], [tensor("base", [[2.5]])])
    agree(model, DOUBLE, tmp_path)


def test_links(tmp_path):
    nodes = [five(forest(), DOUBLE), helper.make_node("Sigmoid", ["scores"], ["out"])]
    agree(model_of(nodes, DOUBLE, [("out", DOUBLE)]), DOUBLE, tmp_path)
    # ONNX Runtime leaves out the link of a single target, which the format has.
    model = model_of([five(forest(), DOUBLE, post_transform=2)], DOUBLE, [("scores", DOUBLE)])
    np.testing.assert_allclose(
        from_model(model).predict(X), 1 / (1 + np.exp(-run(model, X, DOUBLE).ravel())), rtol=1e-12
    )


@pytest.mark.parametrize("tracks", [0, 1])
def test_membership(tracks, tmp_path):
    node = helper.make_node(
        "TreeEnsemble",
        ["X"],
        ["scores"],
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=1,
        post_transform=0,
        nodes_featureids=[4, 4, 0],
        nodes_splits=tensor("splits", [0.0, 0.0, 0.5]),
        nodes_modes=tensor("modes", [6, 6, 0], onnx.TensorProto.UINT8),
        nodes_truenodeids=[1, 0, 2],
        nodes_falsenodeids=[2, 1, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        nodes_missing_value_tracks_true=[tracks, 1 - tracks, 0],
        tree_roots=[0],
        membership_values=tensor("members", [0.0, 3.0, 40.0, np.nan, 3.0, np.nan]),
        leaf_targetids=[0, 0, 0, 0],
        leaf_weights=tensor("weights", [1.0, 2.0, 4.0, 8.0]),
    )
    model = model_of([node], DOUBLE, [("scores", DOUBLE)])
    found = from_model(model)
    rows = np.repeat(X[:60], 8, axis=0)
    rows[:, 4] = np.resize([0.0, 1.0, 3.0, 39.0, 40.0, 41.0, 3000.0, np.nan], len(rows))
    np.testing.assert_array_equal(found.predict(rows), run(model, rows, DOUBLE).ravel())
    np.testing.assert_array_equal(saved_and_loaded(found, tmp_path).predict(rows), found.predict(rows))


def three(trees, kind, weights_of, **given):
    """A TreeEnsembleRegressor or TreeEnsembleClassifier of scikit-learn trees."""
    prefix = "class" if kind == "TreeEnsembleClassifier" else "target"
    columns = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "true", "false", "tracks")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for number, tree in enumerate(trees):
        own = tree.tree_
        for index in range(own.node_count):
            is_leaf = own.children_left[index] < 0
            entry = (
                number, index, 0 if is_leaf else own.feature[index], "LEAF" if is_leaf else "BRANCH_LEQ",
                0.0 if is_leaf else float(np.float32(own.threshold[index])), max(own.children_left[index], 0),
                max(own.children_right[index], 0), int(own.missing_go_to_left[index]),
            )  # fmt: skip
            for name, value in zip(columns, entry, strict=True):
                columns[name].append(value if isinstance(value, str | float) else int(value))
            if is_leaf:
                for target, weight in weights_of(own.value[index]):
                    for name, value in zip(leaves, (number, index, target, float(weight)), strict=True):
                        leaves[name].append(value)
    names = {"true": "truenodeids", "false": "falsenodeids", "tracks": "missing_value_tracks_true"}
    attributes = {f"nodes_{names.get(name, name)}": values for name, values in columns.items()}
    attributes |= {f"{prefix}_{name}": values for name, values in leaves.items()}
    outputs = ["label", "scores"] if prefix == "class" else ["scores"]
    return helper.make_node(kind, ["X"], outputs, domain="ai.onnx.ml", **attributes | given)


def older(node, elem, outputs):
    model = model_of([node], elem, outputs)
    model.opset_import[1].version = 3
    return model


@pytest.mark.parametrize("elem", [FLOAT, DOUBLE])
def test_version_3(elem, tmp_path):
    node = three(
        forest(2), "TreeEnsembleRegressor", lambda value: enumerate(value[:, 0]), n_targets=2, base_values=[0.5, -1.0]
    )
    model = older(node, elem, [("scores", FLOAT)])
    found = from_model(model)
    rows = probes(X, found)
    np.testing.assert_allclose(found.predict(rows), run(model, rows, elem), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [3, 5, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_forest_of_classes(labels, tmp_path):
    trees = ensemble.RandomForestClassifier(7, max_depth=5, random_state=0).fit(X, CLASSES)
    node = three(trees, "TreeEnsembleClassifier", lambda value: enumerate(value[0] / 7), **labels)
    model = older(node, FLOAT, [("label", 8 if "classlabels_strings" in labels else 7), ("scores", FLOAT)])
    found = from_model(model)
    rows = probes(X, found)
    np.testing.assert_allclose(found.predict_proba(rows), run(model, rows, FLOAT, 1), rtol=1e-5, atol=1e-6)
    assert (found.predict(rows) == run(model, rows, FLOAT)).mean() > 0.999
    np.testing.assert_array_equal(saved_and_loaded(found, tmp_path).predict(rows), found.predict(rows))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_two_classes_with_one_score(transform, tmp_path):
    trees = ensemble.RandomForestRegressor(7, max_depth=5, random_state=0).fit(X, y > 1)
    shift = 0.0 if transform == "NONE" else 0.5
    node = three(
        trees,
        "TreeEnsembleClassifier",
        lambda value: [(0, value[0, 0] / 7 - shift)],
        classlabels_int64s=[0, 1],
        post_transform=transform,
    )
    model = older(node, FLOAT, [("label", 7), ("scores", FLOAT)])
    found = from_model(model)
    rows = probes(X, found)
    np.testing.assert_allclose(found.predict_proba(rows), run(model, rows, FLOAT, 1), rtol=1e-4, atol=1e-6)
    assert (found.predict(rows) == run(model, rows, FLOAT)).mean() > 0.995


def test_columns_by_name(tmp_path):
    trees = five(forest(), DOUBLE)
    trees.input[0] = "joined"
    names = list("abcde")
    inputs = [helper.make_tensor_value_info(name, DOUBLE, [None, 1]) for name in names]
    nodes = [helper.make_node("Concat", names, ["joined"], axis=1), trees]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("scores", DOUBLE, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 18)])
    assert from_model(model).feature_names_in_.tolist() == names


def broken(change):
    node = five(forest(), DOUBLE)
    change({attribute.name: attribute for attribute in node.attribute})
    return model_of([node], DOUBLE, [("scores", DOUBLE)]).SerializeToString()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own["nodes_truenodeids"].ints.__setitem__(0, 10**6), "must refer to existing nodes"),
        (lambda own: own["nodes_truenodeids"].ints.__setitem__(0, 0), "own descendant|two parents"),
        (lambda own: own["nodes_featureids"].ints.__setitem__(0, 99), "column 99"),
        (lambda own: own["nodes_featureids"].ints.pop(), "entries"),
        (lambda own: own["tree_roots"].ints.__setitem__(0, -1), "tree_roots"),
        (lambda own: setattr(own["aggregate_function"], "i", 3), "aggregate_function"),
        (lambda own: setattr(own["post_transform"], "i", 4), "post_transform"),
        (lambda own: own["leaf_targetids"].ints.__setitem__(0, 4), "n_targets"),
    ],
)
def test_bad_models(change, message):
    with pytest.raises(ModelFileError, match=message):
        from_model(broken(change))


def test_other_graphs_are_refused():
    nodes = [five(forest(), DOUBLE), helper.make_node("Sin", ["scores"], ["out"])]
    with pytest.raises(ModelFileError, match="Sin"):
        from_model(model_of(nodes, DOUBLE, [("out", DOUBLE)]))
    with pytest.raises(ModelFileError, match="one TreeEnsemble"):
        from_model(model_of([helper.make_node("Sin", ["X"], ["out"])], DOUBLE, [("out", DOUBLE)]))
    content = model_of([five(forest(), DOUBLE)], DOUBLE, [("scores", DOUBLE)]).SerializeToString()
    for end in range(1, len(content), 331):
        with pytest.raises(ModelFileError):
            from_model(content[:end])


@pytest.mark.parametrize("kind", [fastens.RandomForestRegressor, fastens.RandomForestClassifier])
def test_forests_of_our_own_return_to_the_bit(kind, tmp_path):
    ours = kind(n_estimators=9, random_state=0).fit(X, y > 1)
    ours.export(tmp_path / "model.onnx", format="onnx")
    found = from_model(tmp_path / "model.onnx")
    assert type(found) is kind
    np.testing.assert_array_equal(found.predict(X), ours.predict(X))

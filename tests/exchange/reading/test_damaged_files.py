"""Files that are cut off or changed are refused with an error that says so, or read as what they then describe."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastens
from exchange_probes import table
from fastens import ModelFileError, from_model

X, y = table(400)
N_CHANGES = 300


def lightgbm_text():
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(X, y, categorical_feature=[4])
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "linear_tree": True}
    return lightgbm.train(options, data, 3).model_to_string().encode()


def xgboost_file(form):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(X, y, feature_types=["q", "q", "q", "q", "c"], enable_categorical=True)
    booster = xgboost.train({"nthread": 1, "max_depth": 3, "max_cat_to_onehot": 2}, data, 3)
    return bytes(booster.save_raw(raw_format=form))


def catboost_json(folder):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(
        iterations=3, depth=3, verbose=0, allow_writing_files=False, grow_policy="Lossguide"
    )
    model.fit(X, y).save_model(str(folder / "model.json"), format="json")
    return (folder / "model.json").read_bytes()


def onnx_file():
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    node = helper.make_node(
        "TreeEnsemble", ["X"], ["Y"], domain="ai.onnx.ml", n_targets=1, aggregate_function=1, post_transform=0,
        nodes_featureids=[0, 4, 2], nodes_splits=helper.make_tensor("s", kinds.DOUBLE, [3], [0.5, 0.0, 1.5]),
        nodes_modes=helper.make_tensor("m", kinds.UINT8, [3], b"\x00\x06\x02", raw=True), nodes_truenodeids=[1, 0, 2],
        nodes_falsenodeids=[2, 1, 3], nodes_trueleafs=[0, 1, 1], nodes_falseleafs=[0, 1, 1], tree_roots=[0],
        nodes_missing_value_tracks_true=[1, 0, 0], leaf_targetids=[0] * 4,
        membership_values=helper.make_tensor("v", kinds.DOUBLE, [3], [1.0, 5.0, np.nan]),
        leaf_weights=helper.make_tensor("w", kinds.DOUBLE, [4], [1.0, 2.0, 3.0, 4.0]),
    )  # fmt: skip
    values = [helper.make_tensor_value_info(name, kinds.DOUBLE, [None, size]) for name, size in (("X", 5), ("Y", 1))]
    return helper.make_model(helper.make_graph([node], "g", values[:1], values[1:])).SerializeToString()


def exported(kind, **options):
    if kind == "onnx":
        pytest.importorskip("onnx")
    times = np.column_stack([np.exp(y / 3), np.where(X[:, 0] < 1, np.exp(y / 3), np.inf)])
    model = fastens.GradientBoostingSurvival(n_estimators=3, max_depth=3, categorical_features=[4]).fit(X, times)
    content = model.export(format=kind, **options)
    return content.encode() if isinstance(content, str) else content


MAKERS = {
    "lightgbm": lambda folder: lightgbm_text(),
    "xgboost json": lambda folder: xgboost_file("json"),
    "xgboost ubjson": lambda folder: xgboost_file("ubj"),
    "catboost": catboost_json,
    "onnx": lambda folder: onnx_file(),
    "exported as lightgbm": lambda folder: exported("lightgbm"),
    "exported as onnx": lambda folder: exported("onnx", ml_opset=3),
}


def changed(content, rng):
    """A file with a few bytes replaced, removed, repeated or moved, or cut off."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        if len(out) < 2:
            break
        at = int(rng.integers(len(out)))
        size = int(rng.integers(1, 40))
        kind = int(rng.integers(6))
        if kind == 0:
            out[at] = int(rng.integers(256))
        elif kind == 1:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del out[at : at + size]
        elif kind == 3:
            out[at:at] = out[at : at + size]
        elif kind == 4:
            out[at : at + 1] = rng.choice([b"-", b"9", b"0", b"1e999", b"nan", b"]", b"{", b"\xff\xff\xff\xff\x7f"])
        else:
            del out[max(at, 1) :]
    return bytes(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_changed_files_are_refused_or_predict(name, tmp_path):
    content = MAKERS[name](tmp_path)
    whole = from_model(content).predict(X)
    rng = np.random.default_rng(0)
    n_refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        for _ in range(N_CHANGES):
            other = changed(content, rng)
            try:
                model = from_model(other)
            except ModelFileError:
                n_refused += other != content
                continue
            rows = X if model.n_features_in_ == X.shape[1] else np.zeros((5, model.n_features_in_))
            if model.n_features_in_ < 1000:
                found = model._raw(rows)
                assert np.isfinite(found).all() or np.isinf(rows).any()
    assert n_refused > N_CHANGES / 10
    np.testing.assert_array_equal(from_model(content).predict(X), whole)


def test_infinite_coefficients_are_refused():
    text = lightgbm_text().decode()
    at = text.rindex("leaf_coeff=") + len("leaf_coeff=")
    value = text[at:].split(maxsplit=1)[0]
    infinite = "1e" + "999".rjust(len(value) - 2, "0")  # of the same length, which the file tells
    with pytest.raises(ModelFileError, match="a coefficient of a linear leaf is not a finite number"):
        from_model((text[:at] + infinite + text[at + len(value) :]).encode())


def test_models_without_trees_are_refused():
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 0)
    with pytest.raises(ModelFileError, match="the model has no trees"):
        from_model(bytes(booster.save_raw(raw_format="json")))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_onnx_without_roots_is_refused(n_outputs):
    model = pytest.importorskip("onnx").ModelProto.FromString(onnx_file())
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "tree_roots":
            del attribute.ints[:]
        if attribute.name == "n_targets":
            attribute.i = n_outputs
    with pytest.raises(ModelFileError, match="the model has no trees"):
        from_model(model.SerializeToString())


@pytest.mark.parametrize("name", MAKERS)
def test_truncated_files_are_refused(name, tmp_path):
    content = MAKERS[name](tmp_path)
    # LightGBM's parameters, and what follows "end of trees", may be missing.
    last = content.index(b"end of trees") if "lightgbm" in name else len(content) - 1
    for end in np.linspace(0, last, 150, dtype=int):
        with pytest.raises(ModelFileError):
            from_model(content[:end])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b"tree",
        b"tree\n",
        b"{L",
        b"\x08",
        b"PK\x03\x04",
        b"\x80\x04\x95",
        b"x" * 99,
    ],
)
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ModelFileError, match="file: "):
        from_model(tmp_path / "file")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        from_model(tmp_path / "none")

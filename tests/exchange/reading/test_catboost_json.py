"""CatBoost's models predict here as they do there, but for the place of the bias in sums."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from exchange_probes import probes, raw, saved_and_loaded, table
from fastens import GradientBoostingRanker, ModelFileError, from_model
from fastens.exchange.export import FORMATS
from fastens.exchange.foreign import category_hash

catboost = pytest.importorskip("catboost")
X, y = table()
CLASSES = np.digitize(y, [0.5, 2.5])
OPTIONS = {"iterations": 12, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def read(theirs, folder, **given):
    theirs.save_model(str(folder / "model.json"), format="json", **given)
    return from_model(folder / "model.json")


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide", "Depthwise"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_numbers(policy, nan_mode, tmp_path):
    theirs = catboost.CatBoostRegressor(grow_policy=policy, nan_mode=nan_mode, **OPTIONS).fit(X, y)
    model = read(theirs, tmp_path)
    rows = probes(X, model)
    np.testing.assert_allclose(model.predict(rows), theirs.predict(rows), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))
    np.testing.assert_array_equal(from_model(theirs).predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    "loss",
    ["MAE", "Quantile:alpha=0.2", "Poisson", "Tweedie:variance_power=1.4", "Huber:delta=1", "LogCosh", "MAPE", "RMSPE"],
)
def test_losses(loss, tmp_path):
    target = np.exp(y / 4) if loss[0] in "PT" else y
    theirs = catboost.CatBoostRegressor(loss_function=loss, **OPTIONS).fit(X, target)
    model = read(theirs, tmp_path)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)


def test_several_targets(tmp_path):
    theirs = catboost.CatBoostRegressor(loss_function="MultiRMSE", **OPTIONS).fit(X, np.column_stack([y, -y]))
    model = read(theirs, tmp_path)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)


def test_labels_of_several_targets():
    labels = np.column_stack([y > 1, y < 2, X[:, 0] > 0])
    theirs = catboost.CatBoostClassifier(loss_function="MultiLogloss", **OPTIONS).fit(X, labels.astype(int))
    model = from_model(theirs)
    np.testing.assert_allclose(
        np.column_stack([part[:, 1] for part in model.predict_proba(X)]), theirs.predict_proba(X), rtol=1e-12
    )
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    shares = catboost.CatBoost({"loss_function": "MultiCrossEntropy", **OPTIONS}).fit(X, labels / 2 + 0.2)
    raws = shares.predict(X)
    np.testing.assert_allclose(from_model(shares).predict(X), 1 / (1 + np.exp(-raws)), rtol=1e-12)


def test_quantiles():
    theirs = catboost.CatBoostRegressor(loss_function="MultiQuantile:alpha=0.2,0.8", **OPTIONS).fit(X, y)
    np.testing.assert_allclose(from_model(theirs).predict(X), np.sort(theirs.predict(X), axis=1), rtol=1e-12)
    theirs = catboost.CatBoostRegressor(loss_function="LogLinQuantile", **OPTIONS).fit(X, np.exp(y / 4))
    np.testing.assert_allclose(from_model(theirs).predict(X), theirs.predict(X), rtol=1e-12)


def test_means_with_deviations(tmp_path):
    theirs = catboost.CatBoostRegressor(loss_function="RMSEWithUncertainty", **OPTIONS).fit(X, y)
    model = read(theirs, tmp_path)
    mean, logarithm = model.predict(X).T
    np.testing.assert_allclose(np.column_stack([mean, np.exp(2 * logarithm)]), theirs.predict(X), rtol=1e-12)
    np.testing.assert_allclose(saved_and_loaded(model, tmp_path).predict(X)[:, 0], mean, rtol=0)


@pytest.mark.parametrize(
    ("target", "loss"),
    [
        (CLASSES > 0, "Logloss"),
        (np.where(CLASSES > 0, "yes", "no"), "Logloss"),
        (CLASSES, "MultiClass"),
        (np.array(["x", "y", "z"])[CLASSES], "MultiClass"),
        (CLASSES, "MultiClassOneVsAll"),
    ],
)
def test_classes(target, loss, tmp_path):
    theirs = catboost.CatBoostClassifier(loss_function=loss, **OPTIONS).fit(X, target)
    model = read(theirs, tmp_path)
    rows = probes(X, model)
    np.testing.assert_allclose(model.predict_proba(rows), theirs.predict_proba(rows), rtol=1e-11)
    np.testing.assert_array_equal(model.predict(rows).astype(str), theirs.predict(rows).ravel().astype(str))
    np.testing.assert_allclose(raw(model, rows), theirs.predict(rows, prediction_type="RawFormulaVal"), atol=1e-12)


def test_ranking(tmp_path):
    theirs = catboost.CatBoostRanker(loss_function="YetiRank", **OPTIONS)
    theirs.fit(X, CLASSES, group_id=np.repeat(np.arange(60), 20))
    model = read(theirs, tmp_path)
    assert isinstance(model, GradientBoostingRanker)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-12)


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("named", [True, False])
def test_one_hot_categories_by_value(policy, named, tmp_path):
    texts = np.array(["u", "ä and ö", "x" * 20, "y" * 40, "z" * 90])
    frame = pd.DataFrame({"a": X[:, 0], "text": texts[X[:, 4].astype(int) % 5], "number": X[:, 3].astype(int) % 7})
    pool = catboost.Pool(frame, y, cat_features=["text", "number"])
    theirs = catboost.CatBoostRegressor(one_hot_max_size=20, grow_policy=policy, **OPTIONS).fit(pool)
    model = read(theirs, tmp_path, **({"pool": pool} if named else {}))
    np.testing.assert_allclose(model.predict(frame), theirs.predict(frame), rtol=1e-12)
    other = frame[["number", "a", "text"]].astype({"text": "category"})
    other["text"] = other["text"].cat.add_categories(["unseen"])
    other.loc[::4, "text"] = "unseen"
    given = other[["a", "text", "number"]].astype({"text": str})
    np.testing.assert_allclose(model.predict(other), theirs.predict(given), rtol=1e-12)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.predict(other), model.predict(other))
    assert model.feature_names_in_.tolist() == ["a", "text", "number"]


@pytest.fixture
def with_categories():
    frame = pd.DataFrame({"a": X[:, 0], "c": np.array(list("uvwx"))[np.arange(len(y)) % 4]})
    target = y + 2 * (frame["c"] == "v")
    pool = catboost.Pool(frame, target, cat_features=["c"])
    return frame, target, pool, catboost.CatBoostRegressor(**OPTIONS | {"one_hot_max_size": 9}).fit(pool)


def test_categories_of_which_only_hashes_are_known_are_not_exported(with_categories, tmp_path):
    _, _, pool, theirs = with_categories
    for form in FORMATS:
        with pytest.raises(ValueError, match=f"format='{form}' cannot represent categories known only by .* 'c'"):
            from_model(theirs).export(format=form)
    assert "'v'" in read(theirs, tmp_path, pool=pool).export(format="sql")


@pytest.mark.parametrize("named", [True, False])
def test_further_rounds_know_the_categories_of_hashes(with_categories, named, tmp_path):
    frame, target, pool, theirs = with_categories
    model = read(theirs, tmp_path, **({"pool": pool} if named else {}))
    seen, before = frame.copy(), model.predict(frame)
    frame.loc[:20, "c"] = "new"
    more = model.set_params(warm_start=True, n_estimators=15).fit(frame, target)
    np.testing.assert_allclose(more[:12].predict(seen), before, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 300])
def test_hashes_of_every_length(n, tmp_path):
    text = "".join(chr(97 + (7 * k) % 26) for k in range(n))
    pool = catboost.Pool(pd.DataFrame({"c": [text, "other"] * 50}), [0.0, 1.0] * 50, cat_features=["c"])
    theirs = catboost.CatBoostRegressor(**OPTIONS | {"iterations": 1}).fit(pool)
    theirs.save_model(str(tmp_path / "model.json"), format="json", pool=pool)
    hashes = json.loads((tmp_path / "model.json").read_text())["features_info"]["cat_features_hash"]
    assert category_hash(text) & 0xFFFFFFFF in [pair["hash"] for pair in hashes]


def test_target_statistics_are_refused_with_advice(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "c": X[:, 3].astype(int)})
    pool = catboost.Pool(frame, y, cat_features=["c"])
    theirs = catboost.CatBoostRegressor(one_hot_max_size=2, **OPTIONS).fit(pool)
    with pytest.raises(ModelFileError, match="one_hot_max_size"):
        read(theirs, tmp_path, pool=pool)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model["oblivious_trees"][2]["leaf_values"].pop(), "16 entries"),
        (lambda model: model["oblivious_trees"][2]["splits"].pop(), "8 entries"),
        (lambda model: model["oblivious_trees"][2]["splits"][0].pop("border"), "border"),
        (
            lambda model: model["oblivious_trees"][2]["splits"][0].__setitem__("float_feature_index", 99),
            "is not a feature",
        ),
        (lambda model: model["oblivious_trees"].clear(), "no trees"),
        (lambda model: model.pop("scale_and_bias"), "scale_and_bias"),
        (lambda model: model.pop("features_info"), "another kind"),
        (lambda model: model["model_info"]["params"]["loss_function"].__setitem__("type", "Magic"), "Magic"),
    ],
)
def test_bad_models(change, message, tmp_path):
    catboost.CatBoostRegressor(**OPTIONS).fit(X, y).save_model(str(tmp_path / "m.json"), format="json")
    content = json.loads((tmp_path / "m.json").read_text())
    change(content)
    with pytest.raises(ModelFileError, match=message):
        from_model(json.dumps(content).encode())


@pytest.mark.parametrize(
    "change", [lambda model: model["scale_and_bias"].pop(), lambda model: model["scale_and_bias"].append([0])]
)
def test_scale_without_bias(change, tmp_path):
    catboost.CatBoostRegressor(**OPTIONS).fit(X, y).save_model(str(tmp_path / "model.json"), format="json")
    model = json.loads((tmp_path / "model.json").read_text())
    change(model)
    (tmp_path / "model.json").write_text(json.dumps(model))
    with pytest.raises(ModelFileError, match="scale_and_bias must have 2 entries"):
        from_model(tmp_path / "model.json")


@pytest.mark.filterwarnings("error")
def test_borders_beyond_single_precision(tmp_path):
    catboost.CatBoostRegressor(**OPTIONS).fit(X, y).save_model(str(tmp_path / "model.json"), format="json")
    model = json.loads((tmp_path / "model.json").read_text())
    for tree, border in zip(model["oblivious_trees"], (1e300, -1e300), strict=False):
        tree["splits"][0]["border"] = border
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert np.isfinite(from_model(tmp_path / "model.json").predict(X)).all()


def test_binary_format_is_refused_with_advice(tmp_path):
    catboost.CatBoostRegressor(**OPTIONS).fit(X, y).save_model(str(tmp_path / "m.cbm"))
    with pytest.raises(ModelFileError, match="format='json'"):
        from_model(tmp_path / "m.cbm")

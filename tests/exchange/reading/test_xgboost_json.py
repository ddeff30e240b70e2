"""XGBoost's models predict here as they do there, but for the rounding of its sums in float32."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fastens
from exchange_probes import probes, raw, saved_and_loaded, table
from fastens import ModelFileError, from_model

xgboost = pytest.importorskip("xgboost")
X, y = table()
CLASSES = np.digitize(y, [0.5, 2.5])
ROUNDS = 12


def train(objective, target, *, kinds=None, rounds=ROUNDS, **parameters):
    parameters = {"objective": objective, "nthread": 1, "max_depth": 4, **parameters}
    return xgboost.train(parameters, data_of(X, target, kinds), rounds)


def data_of(rows, target=None, kinds=None):
    return xgboost.DMatrix(rows, target, feature_types=kinds, enable_categorical=kinds is not None, nthread=1)


def read(booster, folder, ending="ubj"):
    booster.save_model(folder / f"model.{ending}")
    return from_model(folder / f"model.{ending}")


def agree(model, booster, rows, kinds=None):
    """Raw predictions differ by no more than the rounding of sums; another leaf would differ by far more."""
    theirs = booster.predict(data_of(rows, None, kinds), output_margin=True)
    bound = (model._ensemble.n_trees + 2) * np.spacing(np.abs(theirs).max().astype(np.float32))
    np.testing.assert_allclose(raw(model, rows), theirs, rtol=0, atol=bound)


KINDS = ["q", "q", "q", "int", "c"]


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("reg:squarederror", {}),
        ("reg:squarederror", {"base_score": 0.25}),
        ("reg:squarederror", {"booster": "dart", "rate_drop": 0.5}),
        ("reg:squarederror", {"num_parallel_tree": 3, "subsample": 0.5}),
        ("reg:squarederror", {"tree_method": "exact", "gamma": 3.0}),
        ("reg:absoluteerror", {}),
        ("reg:pseudohubererror", {}),
    ],
)
def test_numbers(objective, parameters, ending, tmp_path):
    booster = train(objective, y, **parameters)
    model = read(booster, tmp_path, ending)
    rows = probes(X, model, infinite=False)
    agree(model, booster, rows)
    np.testing.assert_allclose(model.predict(rows), booster.predict(data_of(rows)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    "objective", ["count:poisson", "reg:gamma", "reg:tweedie", "reg:logistic", "reg:squaredlogerror"]
)
def test_links(objective, tmp_path):
    target = 1 / (1 + np.exp(-y)) if objective == "reg:logistic" else np.exp(y / 3)
    booster = train(objective, target)
    model = read(booster, tmp_path)
    rows = probes(X, model, infinite=False)
    agree(model, booster, rows)
    np.testing.assert_allclose(model.predict(rows), booster.predict(data_of(rows)), rtol=2e-5)


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("binary:logistic", {}),
        ("binary:logitraw", {}),
        ("binary:hinge", {}),
        ("multi:softprob", {"num_class": 3}),
        ("multi:softprob", {"num_class": 3, "num_parallel_tree": 2, "subsample": 0.5}),
        ("multi:softmax", {"num_class": 3}),
        ("multi:softprob", {"num_class": 2}),
        ("multi:softprob", {"num_class": 3, "multi_strategy": "multi_output_tree"}),
    ],
)
def test_classes(objective, parameters, tmp_path):
    booster = train(objective, np.minimum(CLASSES, parameters.get("num_class", 2) - 1), **parameters)
    model = read(booster, tmp_path)
    rows = probes(X, model, infinite=False)
    theirs = booster.predict(data_of(rows))
    if objective in ("multi:softmax", "binary:hinge"):
        assert (model.predict(rows) == theirs).mean() > 0.999
    elif objective == "binary:logitraw":
        agree(model, booster, rows)
    else:
        theirs = np.column_stack([1 - theirs, theirs]) if theirs.ndim == 1 else theirs
        np.testing.assert_allclose(model.predict_proba(rows), theirs, rtol=2e-5, atol=1e-6)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise", "rank:map"])
def test_ranking(objective, tmp_path):
    data = data_of(X, np.minimum(CLASSES, 1) if objective == "rank:map" else CLASSES)
    data.set_group([20] * 60)
    booster = xgboost.train({"objective": objective, "nthread": 1}, data, ROUNDS)
    model = read(booster, tmp_path)
    assert isinstance(model, fastens.GradientBoostingRanker)
    agree(model, booster, probes(X, model, infinite=False))


def test_survival(tmp_path):
    booster = train("survival:cox", np.exp(y / 4))
    model = read(booster, tmp_path)
    agree(model, booster, probes(X, model, infinite=False))
    with pytest.raises(ValueError, match="baseline hazard"):
        model.predict_survival_function(X, [1.0])
    learned = model.refit_leaves(X, np.exp(y / 4), decay_rate=1.0)
    np.testing.assert_array_equal(learned.predict(X), model.predict(X))
    alive = learned.predict_survival_function(X, [1.0])[:, 0]
    assert abs(alive.mean() - (y > 0).mean()) < 0.02
    data = data_of(X)
    data.set_float_info("label_lower_bound", np.exp(y / 4))
    data.set_float_info("label_upper_bound", np.exp(y / 4))
    options = {"objective": "survival:aft", "aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 0.7}
    booster = xgboost.train(options | {"nthread": 1}, data, ROUNDS)
    model = read(booster, tmp_path)
    assert model.loss.get_params() == {"distribution": "logistic", "scale": pytest.approx(0.7)}
    agree(model, booster, probes(X, model, infinite=False))


@pytest.mark.parametrize("n_targets", [2, 3])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_several_targets(strategy, objective, n_targets, tmp_path):
    target = np.column_stack([y, -y, X[:, 0]][:n_targets])
    target = target if objective.startswith("reg") else (target > 0).astype(int)
    booster = train(objective, target, multi_strategy=strategy)
    model = read(booster, tmp_path)
    rows = probes(X, model, infinite=False)
    agree(model, booster, rows)
    theirs, ours = booster.predict(data_of(rows)), model.predict_proba(rows) if hasattr(model, "classes_") else None
    if ours is not None:
        np.testing.assert_allclose(np.column_stack([part[:, 1] for part in ours]), theirs, rtol=1e-5)
    else:
        np.testing.assert_allclose(model.predict(rows), theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))


def test_quantiles(tmp_path):
    booster = train("reg:quantileerror", y, quantile_alpha=[0.1, 0.5, 0.9])
    model = read(booster, tmp_path)
    theirs = np.sort(booster.predict(data_of(X)), axis=1)
    np.testing.assert_allclose(model.predict(X), theirs, rtol=1e-5, atol=1e-5)
    booster = train("reg:quantileerror", y, quantile_alpha=0.3)
    agree(read(booster, tmp_path), booster, X)
    booster = train("reg:quantileerror", y, quantile_alpha=[0.9, 0.1])
    with pytest.raises(ModelFileError, match="several quantile levels must be ascending"):
        from_model(booster)


@pytest.mark.parametrize("one_hot", [2, 100])
def test_category_codes(one_hot, tmp_path):
    booster = train("reg:squarederror", y, kinds=KINDS, max_cat_to_onehot=one_hot)
    model = read(booster, tmp_path)
    rows = probes(X, model, infinite=False)
    agree(model, booster, rows, KINDS)
    rows = rows[:300].copy()
    rows[:, 4] = np.resize([np.nan, 12.0, 13.0, 50.0, 7e4, 1e8, 3.0, 2.7, -0.5, -1.0], len(rows))
    agree(model, booster, rows, KINDS)
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))
    named = from_model(booster, categories={4: [f"name {code}" for code in range(12)]})
    frame = pd.DataFrame(X[:, :4]).assign(name=[f"name {code:.0f}" for code in X[:, 4]])
    np.testing.assert_array_equal(named.predict(frame), model.predict(X))


def test_frames_by_name_and_category(tmp_path):
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["text"] = pd.Categorical(np.array(["a", "bb", "c c", "d"])[X[:, 4].astype(int) % 4])
    frame["number"] = pd.Categorical(X[:, 3].astype(int) % 6 * 10)
    theirs = xgboost.XGBRegressor(n_estimators=10, enable_categorical=True, max_cat_to_onehot=2).fit(frame, y)
    theirs.save_model(tmp_path / "model.json")
    model = from_model(tmp_path / "model.json")
    other = frame.astype({"text": object})[["number", "c", "text", "b", "a"]]
    np.testing.assert_allclose(model.predict(other), theirs.predict(frame), rtol=1e-5, atol=1e-5)
    assert model.feature_names_in_.tolist() == list(frame)


def test_names_beyond_ascii_are_given_by_the_caller():
    """XGBoost cuts them off; the codes are those of the frame's categories."""
    names = pd.Categorical(np.array(["ä", "bö", "c", "d"])[X[:, 4].astype(int) % 4])
    frame = pd.DataFrame({"text": names, "x": X[:, 0]})
    theirs = xgboost.XGBRegressor(n_estimators=10, enable_categorical=True).fit(frame, y)
    model = from_model(theirs, categories={"text": names.categories})
    np.testing.assert_allclose(model.predict(frame), theirs.predict(frame), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="at least"):
        from_model(theirs, categories={"text": ["a"]})
    with pytest.raises(ValueError, match="categories must name columns that the model splits by category codes"):
        from_model(theirs, categories={"x": ["a"]})


@pytest.mark.slow
def test_estimators_predict_with_the_best_rounds(tmp_path):
    theirs = xgboost.XGBClassifier(n_estimators=200, learning_rate=1.0, early_stopping_rounds=2)
    theirs.fit(X[:800], CLASSES[:800], eval_set=[(X[800:], CLASSES[800:])], verbose=False)
    theirs.save_model(tmp_path / "model.ubj")
    for source in (theirs, tmp_path / "model.ubj"):
        model = from_model(source)
        assert model.n_estimators_ == theirs.best_iteration + 1
        np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), rtol=1e-5, atol=1e-6)
    whole = from_model(theirs.get_booster())
    assert whole.n_estimators_ > theirs.best_iteration + 1


def test_contributions():
    booster = train("reg:squarederror", y)
    model = from_model(booster)
    theirs = booster.predict(data_of(X[:50]), pred_contribs=True)
    np.testing.assert_allclose(model.predict_contributions(X[:50]), theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("version", [[1, 4, 0], [2, 1, 0]])
def test_earlier_versions(version, tmp_path):
    """Before 2.0 without iteration_indptr and names, before 3.1 with a bare base_score and no categories by value."""
    booster = train("binary:logistic", CLASSES > 0)
    content = json.loads(booster.save_raw(raw_format="json"))
    learner = content["learner"]
    content["version"] = version
    learner["learner_model_param"]["base_score"] = learner["learner_model_param"]["base_score"].strip("[]")
    model = learner["gradient_booster"]["model"]
    del model["cats"]
    if version[0] == 1:
        del model["iteration_indptr"], learner["feature_names"], learner["learner_model_param"]["num_target"]
        for tree in model["trees"]:
            tree["default_left"] = [bool(value) for value in tree["default_left"]]
    (tmp_path / "model.json").write_text(json.dumps(content))
    agree(from_model(tmp_path / "model.json"), booster, X)


def broken(change):
    content = json.loads(train("multi:softprob", CLASSES, num_class=3).save_raw(raw_format="json"))
    change(content["learner"], content["learner"]["gradient_booster"]["model"])
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda learner, model: model["trees"][1]["left_children"].__setitem__(0, 0), "own descendant|two parents"),
        (
            lambda learner, model: model["trees"][1]["left_children"].__setitem__(0, 10**6),
            "a tree has children outside of the tree",
        ),
        (
            lambda learner, model: model["trees"][1]["split_indices"].__setitem__(0, 5),
            "a split uses a column beyond the",
        ),
        (lambda learner, model: model["trees"][1]["split_indices"].pop(), "entries"),
        (lambda learner, model: model["trees"].pop(), "num_trees"),
        (lambda learner, model: model["tree_info"].__setitem__(0, 3), "do not match|rounds"),
        (lambda learner, model: learner["objective"].__setitem__("name", "reg:magic"), "objective"),
        (lambda learner, model: learner["gradient_booster"].__setitem__("name", "gblinear"), "linear"),
        (lambda learner, model: learner["learner_model_param"].__setitem__("base_score", "x"), "base_score"),
        (lambda learner, model: learner.pop("gradient_booster"), "gradient_booster"),
    ],
)
def test_bad_models(change, message):
    with pytest.raises(ModelFileError, match=message):
        from_model(broken(change))


def test_truncated_files():
    booster = train("reg:squarederror", y, rounds=2)
    for form in ("json", "ubj"):
        content = bytes(booster.save_raw(raw_format=form))
        for end in range(1, len(content), 97):
            with pytest.raises(ModelFileError):
                from_model(content[:end])

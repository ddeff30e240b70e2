"""LightGBM's models predict here as they do there, to the bit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csc_matrix, csr_matrix

import fastens
from exchange_probes import probes, raw, saved_and_loaded, table
from fastens import ModelFileError, from_model
from fastens.engine.linear.linear_leaves import read_trees

lightgbm = pytest.importorskip("lightgbm")
X, y = table()
CLASSES = np.digitize(y, [0.5, 2.5])


def train(objective, target, *, rounds=15, categorical="auto", group=None, **parameters):
    parameters = {"objective": objective, "verbose": -1, "num_threads": 1, "num_leaves": 12, **parameters}
    data = lightgbm.Dataset(X, target, categorical_feature=categorical, group=group)
    return lightgbm.train(parameters, data, rounds)


def unseen_categories(rows):
    rows = rows[:200].copy()
    rows[:, 4] = np.resize([-1.0, -0.5, -7.0, 2.7, 11.99, 50.0, 1e9, np.nan, 0.0, 3.0], len(rows))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("regression", {}),
        ("regression", {"zero_as_missing": True}),
        ("regression", {"use_missing": False}),
        ("regression", {"boosting": "dart"}),
        ("regression", {"data_sample_strategy": "goss"}),
        ("regression", {"reg_sqrt": True}),
        ("regression_l1", {}),
        ("fair", {"reg_sqrt": True}),
        ("huber", {"reg_sqrt": True}),
        ("huber", {}),
        ("fair", {}),
        ("mape", {}),
        ("quantile", {"alpha": 0.3}),
        ("none", {}),
    ],
)
@pytest.mark.parametrize("categorical", ["auto", [4]])
def test_numbers_are_the_same_to_the_bit(objective, parameters, categorical, tmp_path):
    if objective == "none":

        def gradients(predicted, data):
            return predicted - data.get_label(), np.ones(len(predicted))

        objective = gradients
    booster = train(objective, y, categorical=categorical, **parameters)
    model = from_model(booster)
    rows = probes(X, model)
    rows = np.concatenate([rows, unseen_categories(rows)])
    np.testing.assert_array_equal(model.predict(rows), booster.predict(rows))
    np.testing.assert_array_equal(model.predict(rows[:1]), booster.predict(rows[:1]))
    np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(rows), model.predict(rows))


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie", "cross_entropy", "cross_entropy_lambda"])
def test_links(objective):
    target = 1 / (1 + np.exp(-y)) if objective.startswith("cross") else np.exp(y / 3)
    booster = train(objective, target)
    model = from_model(booster)
    rows = probes(X, model)
    np.testing.assert_array_equal(raw(model, rows), booster.predict(rows, raw_score=True))
    np.testing.assert_allclose(model.predict(rows), booster.predict(rows), rtol=1e-14)


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("binary", {}),
        ("binary", {"sigmoid": 1.7}),
        ("binary", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
        ("multiclass", {"num_class": 3}),
        ("multiclass", {"num_class": 2}),
        ("multiclassova", {"num_class": 3}),
        ("multiclassova", {"num_class": 3, "sigmoid": 0.6}),
    ],
)
def test_classes(objective, parameters, tmp_path):
    n_classes = parameters.get("num_class", 2)
    booster = train(objective, np.minimum(CLASSES, n_classes - 1), categorical=[4], **parameters)
    model = from_model(booster)
    rows = probes(X, model)
    theirs = booster.predict(rows)
    theirs = np.column_stack([1 - theirs, theirs]) if theirs.ndim == 1 else theirs
    np.testing.assert_allclose(model.predict_proba(rows), theirs, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(model.predict(rows), theirs.argmax(axis=1))
    if parameters in ({}, {"num_class": 3}):
        np.testing.assert_array_equal(raw(model, rows), booster.predict(rows, raw_score=True))
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_ranking(objective):
    booster = train(objective, CLASSES, group=[20] * 60)
    model = from_model(booster)
    assert isinstance(model, fastens.GradientBoostingRanker)
    rows = probes(X, model)
    np.testing.assert_array_equal(model.predict(rows), booster.predict(rows))


def test_random_forest_is_one():
    booster = train("regression", y, boosting="rf", bagging_freq=1, bagging_fraction=0.5)
    model = from_model(booster)
    assert isinstance(model, fastens.RandomForestRegressor)
    rows = probes(X, model)
    np.testing.assert_array_equal(model.predict(rows), booster.predict(rows))
    assert len(model.estimators_) == 15


@pytest.mark.parametrize("target", ["regression", "binary"])
def test_linear_leaves(target, tmp_path):
    booster = train(target, y if target == "regression" else y > 1, linear_tree=True)
    model = from_model(booster)
    rows = probes(X, model, infinite=False)
    rows = rows[~(np.abs(rows) > 1e29).any(axis=1)]
    theirs = booster.predict(rows, raw_score=True)
    for same in (model, saved_and_loaded(model, tmp_path), from_model(booster)[:15]):
        np.testing.assert_array_equal(raw(same, rows), theirs)
    *_, last = model._ensemble.staged_raw(rows)
    np.testing.assert_array_equal(last[:, 0], theirs)
    with pytest.raises(ValueError, match="rests"):
        read_trees(model._ensemble.to_arrays() | {"linear.rests": np.zeros(3)})


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_constants_of_linear_leaves_far_from_their_values(scale):
    booster = train("regression", y + 1e6, linear_tree=True, rounds=3)
    text = re.sub("leaf_const=(.*)", lambda line: times(line[1], scale), booster.model_to_string())
    changed = lightgbm.Booster(model_str=re.sub("tree_sizes=.*\n", "", text))
    rows = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(from_model(changed).predict(rows), changed.predict(rows))


def test_a_linear_leaf_with_a_column_twice_is_refused(tmp_path):
    lines = train("regression", y, linear_tree=True, rounds=3).model_to_string().splitlines()
    start, counts = next((i, found) for i, found in enumerate(lines) if re.match("num_features=(0 )*[1-9]", found))
    first = int(re.search("[1-9][0-9]*", counts)[0])
    lines[start] = counts.replace(str(first), str(first + 1), 1)
    for i in (start + 1, start + 2):
        lines[i] = re.sub(r"=(\S+)", r"=\1 \1", lines[i])
    path = tmp_path / "model.txt"
    path.write_text(re.sub("tree_sizes=.*\n", "", "\n".join(lines)))
    with pytest.raises(ValueError, match="a linear leaf uses a column twice"):
        from_model(path)


def times(numbers, scale):
    return "leaf_const=" + " ".join(repr(float(number) * scale) for number in numbers.split())


def frame():
    names = pd.Series(["b", "a", "c", "ä d", "e"])[X[:, 4].astype(int) % 5].to_numpy()
    return pd.DataFrame(
        {
            "x": X[:, 0],
            "ordered": pd.Categorical(X[:, 3].astype(int) % 3, ordered=True),
            "name": pd.Categorical(names, categories=["c", "b", "a", "ä d", "e", "never"]),
            "number": pd.Categorical(X[:, 4].astype(int) * 10),
            "flag": X[:, 1] > 0,
            "missing": X[:, 2],
        }
    )


@pytest.mark.slow
def test_frames_by_name_and_category(tmp_path):
    data = frame()
    booster = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, min_child_samples=5).fit(data, y)
    booster.booster_.save_model(tmp_path / "model.txt")
    model = from_model(tmp_path / "model.txt")
    np.testing.assert_array_equal(model.predict(data), booster.predict(data))
    assert model.feature_names_in_.tolist() == list(data)
    # In another order, as text, with unseen and missing categories.
    other = data.astype({"name": object, "number": object})[["missing", "number", "name", "x", "flag", "ordered"]]
    np.testing.assert_array_equal(model.predict(other), booster.predict(data))
    other.loc[::3, "name"], other.loc[1::3, "number"] = "unseen", None
    theirs = data.assign(name=other["name"].astype("category"), number=other["number"].astype("category"))
    np.testing.assert_array_equal(model.predict(other), booster.predict(theirs))
    assert "ä d" in "".join(model.to_text(t, max_depth=None) for t in range(20))


CODED = np.column_stack([np.arange(240) % 3, np.arange(240) % 7]).astype(float)


def of_codes():
    data = lightgbm.Dataset(CODED, CODED[:, 1] + 5 * (CODED[:, 0] == 2), categorical_feature=[0])
    return lightgbm.train({"verbose": -1, "min_data_per_group": 1}, data, 3)


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, 1, 3]),
        np.array([0.5, 2, 1], "f4"),
        pd.date_range("2026-01-01", periods=3),
        pd.date_range("2026-01-01", periods=3).to_numpy(),
        list(pd.date_range("2026-01-01", periods=3).to_numpy()),
        ("b", "c", "a"),
        pa.array(["b", "c", "a"]),
    ],
)
def test_categories_of_any_kind_are_saved(values, tmp_path):
    theirs = of_codes()
    model = saved_and_loaded(from_model(theirs, categories={np.int64(0): values}), tmp_path)
    rows = pd.DataFrame(
        {"kind": pd.Categorical.from_codes(CODED[:, 0].astype(int), pd.Index(values)), "x": CODED[:, 1]}
    )
    with pytest.warns(UserWarning, match="without feature names"):
        found = model.predict(rows)
    np.testing.assert_array_equal(found, theirs.predict(CODED))


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        *(
            (
                {0: ["a", wrong, "b"]},
                "categories of column 0 must be strings, numbers or booleans without missing values",
            )
            for wrong in (None, np.nan, b"a", ["a"])
        ),
        ({0: "abc"}, "categories of column 0 must be a list; got 'abc'"),
        ({0: ["a", "b", "c"], 1: ["d"]}, "categories must name columns that the model splits by category codes.*got 1"),
    ],
)
def test_categories_that_are_none(categories, message):
    with pytest.raises(ValueError, match=message):
        from_model(of_codes(), categories=categories)


def test_categories_must_be_a_list():
    with pytest.raises(TypeError, match="categories must be a dict that maps columns to lists of categories; got 3"):
        from_model(of_codes(), categories=3)


@pytest.mark.slow
def test_labels_of_an_estimator():
    labels = np.array(["low", "middle", "high"])[CLASSES]
    theirs = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, labels)
    model = from_model(theirs)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(model.classes_, theirs.classes_)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), rtol=1e-12)


@pytest.mark.slow
def test_best_round_of_early_stopping():
    theirs = lightgbm.LGBMRegressor(n_estimators=200, learning_rate=0.5, verbose=-1)
    theirs.fit(X[:800], y[:800], eval_set=[(X[800:], y[800:])], callbacks=[lightgbm.early_stopping(3, verbose=False)])
    model = from_model(theirs)
    assert model.n_estimators_ == theirs.best_iteration_ < 200
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))


def test_sparse_tables_where_zero_is_missing():
    sparse = X * (np.abs(X) > 0.5)
    booster = lightgbm.train({"verbose": -1, "num_threads": 1, "zero_as_missing": True}, lightgbm.Dataset(sparse, y), 9)
    model = from_model(booster)
    for form in (csr_matrix, csc_matrix, np.asarray, lambda rows: rows.astype(np.float32).astype(float)):
        np.testing.assert_array_equal(model.predict(form(sparse)), booster.predict(form(sparse)))


def test_zeros_are_missing_where_a_column_had_any():
    shifted = X.copy()
    shifted[:, 0] = np.abs(X[:, 0]) + 1
    data = lightgbm.Dataset(np.nan_to_num(shifted), y)
    booster = lightgbm.train({"verbose": -1, "num_threads": 1, "zero_as_missing": True, "max_bin": 4}, data, 9)
    rows = probes(X, from_model(booster))
    np.testing.assert_array_equal(from_model(booster).predict(rows), booster.predict(rows))


def test_linear_random_forest():
    booster = train("regression", y, boosting="rf", bagging_freq=1, bagging_fraction=0.5, linear_tree=True)
    np.testing.assert_allclose(from_model(booster).predict(X), booster.predict(X), rtol=1e-12, atol=1e-12)


def test_several_outputs_of_an_objective_of_the_users_own():
    def gradients(predicted, data):
        return predicted - np.column_stack([y, -y]), np.ones_like(predicted)

    booster = train(gradients, y, num_class=2)
    np.testing.assert_array_equal(from_model(booster).predict(X), booster.predict(X))


def test_codes_are_exported_as_codes():
    booster = train("regression", y, categorical=[3, 4])
    model = from_model(booster)
    rows = probes(X, model)
    again = lightgbm.Booster(model_str=model.export(format="lightgbm"))
    np.testing.assert_array_equal(again.predict(rows), booster.predict(rows))
    np.testing.assert_array_equal(model.export(format="sklearn").predict(X), booster.predict(X))


@pytest.mark.parametrize("kind", ["xgboost", "onnx"])
def test_codes_are_exported_as_codes_to_single_precision(tmp_path, kind):
    if kind == "onnx":
        pytest.importorskip("onnx")
    booster = train("regression", y, categorical=[3, 4])
    from_model(booster).export(tmp_path / "model", format=kind)
    np.testing.assert_allclose(from_model(tmp_path / "model").predict(X), booster.predict(X), atol=1e-6)


def test_model_without_splits():
    booster = train("regression", np.ones(len(y)), rounds=3)
    np.testing.assert_array_equal(from_model(booster).predict(X), booster.predict(X))


def test_from_model_returns_an_estimator(tmp_path):
    booster = train("regression", y, categorical=[4])
    model = from_model(booster)
    np.testing.assert_allclose(
        model.predict_contributions(X[:50]), booster.predict(X[:50], pred_contrib=True), rtol=1e-9, atol=1e-12
    )
    assert model.apply(X).shape == (len(X), 15)
    assert model.leaf_features(X).shape[0] == len(X)
    assert model.feature_importances_.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.feature_split_counts_, booster.feature_importance("split"))
    assert model.to_dataframe().shape[0] == model._ensemble.feature.size
    refitted = model.refit_leaves(X, y + 3)
    assert refitted.predict(X).mean() > model.predict(X).mean() + 0.2
    low, high = model.conformalize(X[::2], y[::2]).predict_interval(X[1::2]).T
    assert 0.8 < ((low <= y[1::2]) & (y[1::2] <= high)).mean() <= 1
    more = from_model(booster).set_params(warm_start=True, n_estimators=20, categories=None)
    more.fit(X, y)
    assert more.score(X, y) > model.score(X, y)
    assert more.n_estimators_ == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: text.replace("version=v4", "version=v9"), "version"),
        (lambda text: text.replace("num_leaves=12", "num_leaves=13", 1), "tree_sizes|entries"),
        (lambda text: re.sub(r"tree_sizes=.*", "", text).replace("Tree=3\n", "Tree=7\n"), "must follow"),
        (lambda text: re.sub(r"tree_sizes=.*\n|split_feature=.*\n", "", text), "split_feature"),
        (
            lambda text: re.sub(r"tree_sizes=.*", "", text).replace("left_child=1", "left_child=77", 1),
            "left_child|nodes",
        ),
        (lambda text: text.replace("max_feature_idx=4", "max_feature_idx=5"), "6 entries"),
        (lambda text: text.replace("objective=regression", "objective=magic"), "objective"),
    ],
)
def test_bad_files(change, message, tmp_path):
    text = train("regression", y, categorical=[4]).model_to_string()
    (tmp_path / "bad.txt").write_text(change(text))
    with pytest.raises(ModelFileError, match=message):
        from_model(tmp_path / "bad.txt")


def test_numbers_of_one_tree_do_not_fill_another():
    text = train("regression", y, rounds=2).model_to_string()
    text = re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE)
    first, second = re.findall(r"^leaf_value=.*$", text, flags=re.MULTILINE)
    moved = text.replace(first, first + " 1.5").replace(second, second.rpartition(" ")[0])
    with pytest.raises(ModelFileError, match=r"leaf_value must have .* entries; got"):
        from_model(moved)

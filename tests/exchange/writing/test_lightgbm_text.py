import numpy as np
import pandas as pd
import pytest

import fastens
from exchange_probes import probes, raw, table
from reference.exported import AVERAGED, BOOSTED, SEVERAL, fitted, mixed, numbers, raw_of, rows_for, with_positions

lightgbm = pytest.importorskip("lightgbm")


def booster_of(model):
    return lightgbm.Booster(model_str=model.export(format="lightgbm"))


@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_raw_predictions(name):
    model = fitted(name)
    X = rows_for(model)
    # LightGBM averages only what it gives a link, which is none here.
    found = booster_of(model).predict(with_positions(model, X), raw_score=model._combination == "sum")
    assert np.array_equal(found.reshape(len(X), -1), raw_of(model, X))


@pytest.mark.parametrize("name", ["mixed", "three classes", "forest"])
def test_frames_by_category(name):
    model = fitted(name)
    X = rows_for(model)
    known = X.copy()
    for column, categories in zip(X, model._encoder.categories, strict=True):
        if categories is not None:  # LightGBM takes an unseen category as missing
            known[column] = X[column].cat.set_categories(categories[::-1])
    found = booster_of(model).predict(known, raw_score=model._combination == "sum")
    assert np.array_equal(found.reshape(len(X), -1), raw_of(model, X))


@pytest.mark.parametrize("name", ["two classes", "exponential", "three classes", "adaboost"])
def test_probabilities(name):
    model = fitted(name)
    X = rows_for(model)
    expected = model.predict_proba(X)
    expected = expected if expected.shape[1] > 2 else expected[:, 1]
    np.testing.assert_allclose(booster_of(model).predict(with_positions(model, X)), expected, rtol=1e-14)


def test_means_of_a_log_link():
    model = fitted("poisson")
    X = rows_for(model)
    np.testing.assert_allclose(booster_of(model).predict(with_positions(model, X)), model.predict(X), rtol=1e-14)


def test_counts_let_shap_values_be_the_same():
    model = fitted("regression")
    found = booster_of(model).predict(numbers()[0], pred_contrib=True)
    np.testing.assert_allclose(found, model.predict_contributions(numbers()[0]), atol=1e-12)


def test_written_again_by_lightgbm_it_is_the_same():
    model = fitted("mixed")
    X = with_positions(model, rows_for(model))
    again = lightgbm.Booster(model_str=booster_of(model).model_to_string())
    assert np.array_equal(again.predict(X), booster_of(model).predict(X))


def test_written_to_a_file(tmp_path):
    model, path = fitted("regression"), tmp_path / "model.txt"
    assert model.export(path, format="lightgbm") is None
    assert path.read_text() == model.export(format="lightgbm")


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (["", "b"], ["Column_0", "b"]),
        (['c"d', "e\\f"], ["c_d", "e_f"]),
        (["tree", "end of trees"], ["tree", "end_of_trees"]),
    ],
)
def test_names_that_its_format_cannot_hold(names, written):
    X = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(X, columns=names)
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(frame, X[:, 0])
    booster = booster_of(model)
    assert np.array_equal(booster.predict(X), model.predict(frame))
    assert booster.dump_model()["feature_names"] == booster.feature_name() == written
    assert fastens.from_model(model.export(format="lightgbm").encode()).feature_names_in_.tolist() == names


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_names_that_it_would_read_for_ever_or_that_no_file_holds(name, tmp_path):
    values = np.column_stack([np.arange(60.0), np.ones(60)])
    X = pd.DataFrame(values, columns=pd.Index([name, "other"], dtype=object))
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(X, X[name])
    model.export(tmp_path / "model.txt", format="lightgbm")
    assert b"\0" not in (tmp_path / "model.txt").read_bytes()
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert booster.feature_name() == ["a_b", "other"]
    assert np.array_equal(booster.predict(X.to_numpy()), model.predict(X))
    assert fastens.from_model(tmp_path / "model.txt").feature_names_in_.tolist() == [name, "other"]


def test_missing_values_that_are_a_category_of_their_own_are_refused():
    X, y = mixed()
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=fastens.Categories(missing="category")).fit(
        X, y + 9 * X["few"].isna()
    )
    with pytest.raises(ValueError, match="that go to another branch than unseen categories"):
        model.export(format="lightgbm")


IMPORTED = {
    "linear": ("regression", {"linear_tree": True}),
    "linear, of two classes": ("binary", {"linear_tree": True, "sigmoid": 1.7}),
    "linear, of three classes": ("multiclass", {"linear_tree": True, "num_class": 3}),
    "zeros missing": ("regression", {"zero_as_missing": True}),
}


@pytest.mark.parametrize("name", IMPORTED)
def test_features_that_only_lightgbm_supports(name):
    """Linear models without ends and zeros that are missing come from LightGBM, and go back."""
    (X, y), (objective, parameters) = table(), IMPORTED[name]
    X = X * (np.abs(X) > 0.5)
    target = {"regression": y, "binary": y > 1, "multiclass": np.digitize(y, [0.5, 2.5])}[objective]
    data = lightgbm.Dataset(X, target, categorical_feature=[4])
    booster = lightgbm.train(
        {"objective": objective, "verbose": -1, "num_threads": 1, "num_leaves": 12, **parameters}, data, 8
    )
    model = fastens.from_model(booster)
    text = model.export(format="lightgbm")
    rows = probes(X, model, infinite=False)
    np.testing.assert_array_equal(raw(fastens.from_model(text.encode()), rows), raw(model, rows))
    found = lightgbm.Booster(model_str=text).predict(rows, raw_score=True)
    np.testing.assert_array_equal(found, raw(model, rows))
    with pytest.raises(ValueError, match=r"linear leaves|zeros that are treated as missing"):
        model.export(format="onnx")


def test_linear_models_that_end_are_refused():
    X, y = table(200)
    model = fastens.GradientBoostingRegressor(n_estimators=2, linear_leaves=True).fit(X, y)
    with pytest.raises(ValueError, match="linear leaves that clip to the range of their training rows"):
        model.export(format="lightgbm")

"""Several models as one: what the merged model predicts, and what cannot be merged."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier as SklearnForest

import fastens
from fastens import (
    Categories,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    HuberLoss,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    from_model,
    merge_models,
)


def table(n, categories, scale, rng):
    """Rows with a column of categories, another of whole numbers as categories, and missing values."""
    X = pd.DataFrame({"city": rng.choice([f"c{i}" for i in categories], n), "b": scale * rng.standard_normal(n)})
    X["kind"] = pd.Categorical(rng.integers(categories[0], categories[-1], n))
    X["c"] = rng.standard_normal(n).astype(np.float32)
    y = X["city"].str[1:].astype(int) % 3 + X["b"] * X["c"]
    X.loc[::7, "b"], X.loc[::11, "city"] = np.nan, None
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def tables():
    """Two tables to train on, and rows with categories of either, both or none."""
    rng = np.random.default_rng(0)
    tables = table(400, range(20), 1.0, rng), table(300, range(10, 31), 3.0, rng)
    return *tables, table(500, range(45), 2.0, rng)[0]


def two_fits(tables, make, to_target=lambda y: y):
    return [make(number).fit(X, to_target(y)) for number, (X, y) in enumerate(tables[:2])]


def classes(y):
    return np.array(["low", "middle", "high"])[np.digitize(y, [0, 1.0])]


BOOSTED = {
    "plain": (GradientBoostingRegressor, {}),
    "linear leaves": (GradientBoostingRegressor, {"linear_leaves": True}),
    "missing categories": (GradientBoostingRegressor, {"categories": Categories(missing="category")}),
    "quantiles": (GradientBoostingRegressor, {"loss": "quantile", "quantile": [0.1, 0.9]}),
    "classes": (GradientBoostingClassifier, {}),
}


@pytest.mark.parametrize("name", BOOSTED)
@pytest.mark.parametrize("weights", [None, [1, 3]], ids=str)
def test_mean_of_boosted_models(name, weights, tables, tmp_path):
    kind, options = BOOSTED[name]
    target = classes if kind is GradientBoostingClassifier else lambda y: y
    parts, X = two_fits(tables, lambda n: kind(n_estimators=6 + 3 * n, max_bins=200, **options), target), tables[2]
    merged = merge_models(parts, weights)
    mean = np.average([part._raw(X) for part in parts], axis=0, weights=weights)
    np.testing.assert_allclose(merged._raw(X), mean, rtol=0, atol=1e-13)
    assert merged.n_estimators_ == 15
    assert merged._encoder.categories[0] == [f"c{i}" for i in sorted(range(20), key=str)] + [
        f"c{i}" for i in range(20, 31)
    ]
    contributions = merged.predict_contributions(X[:50])
    np.testing.assert_allclose(contributions.sum(axis=-1), merged._raw(X[:50]).squeeze(), atol=1e-12)
    merged.save(tmp_path / "merged.fastens")
    raw = fastens.load(tmp_path / "merged.fastens")._raw(X)
    np.testing.assert_array_equal(raw, merged._raw(X))
    merged.set_params(warm_start=True, n_estimators=17).fit(tables[1][0], target(tables[1][1]))
    np.testing.assert_array_equal(merged[:15]._raw(X), raw)


def test_parameters_set_after_fit_are_not_compared(tables):
    X = tables[2]
    parts = two_fits(tables, lambda n: GradientBoostingRegressor("poisson", n_estimators=2 + n), np.exp)
    expected = merge_models(parts).predict(X)
    for part in parts:
        part.set_params(loss="squared_error")
        np.testing.assert_array_equal(merge_models(parts).predict(X), expected)


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier, ExtraTreesClassifier])
def test_forest_of_all_trees(kind, tables, tmp_path):
    target = (lambda y: y) if kind is RandomForestRegressor else classes
    X, parts = tables[2], two_fits(tables, lambda n: kind(n_estimators=4 + 4 * n, random_state=n), target)
    merged = merge_models(parts)
    method = "predict" if kind is RandomForestRegressor else "predict_proba"
    want = (getattr(parts[0], method)(X) + 2 * getattr(parts[1], method)(X)) / 3
    np.testing.assert_allclose(getattr(merged, method)(X), want, rtol=1e-6)
    trees = [tree for part in parts for tree in part.estimators_]
    for own, tree in zip(merged.estimators_, trees, strict=True):
        np.testing.assert_array_equal(own.predict(X), tree.predict(X))
    merged.save(tmp_path / "merged.fastens")
    np.testing.assert_array_equal(fastens.load(tmp_path / "merged.fastens").predict(X), merged.predict(X))


def test_isolation_forests(tables):
    X = tables[2][["c"]]
    parts = [IsolationForest(10, random_state=n).fit(each[["c"]]) for n, (each, _) in enumerate(tables[:2])]
    depths = [-np.log2(-part.score_samples(X)) for part in parts]
    merged = merge_models(parts)
    np.testing.assert_allclose(-np.log2(-merged.score_samples(X)), np.mean(depths, axis=0))
    other = IsolationForest(10, max_samples=100).fit(tables[0][0][["c"]])
    with pytest.raises(ValueError, match="same rows for each tree as models\\[0\\], 256; got 100"):
        merge_models([parts[0], other])


def test_same_bins_are_kept_and_merged_models_are_exported(tables):
    X, y = tables[0][0][["b", "c"]], tables[0][1]
    parts = [GradientBoostingRegressor(n_estimators=5, random_state=n).fit(X, y) for n in (0, 1)]
    merged = merge_models(parts)
    own = parts[0]._ensemble.binning.thresholds
    assert list(map(len, merged._ensemble.binning.thresholds)) == list(map(len, own))
    exported = merged.export(format="sklearn").predict(X.fillna(0))
    np.testing.assert_allclose(exported, merged.predict(X.fillna(0)))


def test_models_of_other_libraries():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    parts = [from_model(SklearnForest(3, random_state=n, max_depth=4).fit(X, X[:, n] > 0)) for n in (0, 1)]
    mean = (parts[0].predict_proba(X) + parts[1].predict_proba(X)) / 2
    np.testing.assert_allclose(merge_models(parts).predict_proba(X), mean)
    with pytest.raises(ValueError, match="same form of class probabilities as models\\[0\\]"):
        merge_models([parts[0], RandomForestClassifier(3).fit(X, X[:, 0] > 0)])


def test_codes_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    parts = []
    for n in (8, 12):
        X = np.column_stack([rng.integers(0, n, 400), rng.standard_normal(400)])
        rows = lightgbm.Dataset(X, X[:, 0] % 3 + X[:, 1], categorical_feature=[0])
        parts.append(lightgbm.train({"verbose": -1, "min_data_per_group": 5, "num_threads": 1}, rows, 5))
    X = np.column_stack([np.resize([*range(14), -1, 2.7, np.nan, 1e9], 180), rng.standard_normal(180)])
    merged = merge_models(list(map(from_model, parts)))
    np.testing.assert_allclose(merged.predict(X), (parts[0].predict(X) + parts[1].predict(X)) / 2, atol=1e-13)


def test_incompatible_models_are_not_merged(tables):
    (X, y), (X2, y2), _ = tables
    plain = GradientBoostingRegressor(n_estimators=2).fit(X, y)

    def error(other, *others):
        with pytest.raises(ValueError, match="must") as caught:
            merge_models([plain, other], *others)
        return str(caught.value)

    def fitted(X=X2, y=y2, **options):
        return GradientBoostingRegressor(n_estimators=2, **options).fit(X, y)

    assert "same names of columns as models[0], ['city', 'b', 'kind', 'c']; got ['c', 'b'" in error(
        fitted(X2[["c", "b", "kind", "city"]])
    )
    assert "same categorical columns as models[0], [0, 2]; got [0]" in error(fitted(X2.assign(kind=1.0)))
    assert "same loss as models[0], 'squared_error'; got 'huber'" in error(fitted(loss="huber"))
    assert "same linear_leaves as models[0], False; got True" in error(fitted(linear_leaves=True))
    assert "same number of targets as models[0], 1; got 2" in error(fitted(y=np.column_stack([y2, y2])))
    assert "same missing_is_category as" in error(fitted(categories=Categories(missing="category")))
    assert "must have the same target statistics as models[0], but these depend on" in error(
        fitted(categories=Categories(encoding="target"))
    )
    assert "finite, non-negative numbers that are not all zero, one for each" in error(fitted(), [1, -1])
    huber = [fitted(loss=HuberLoss(alpha)) for alpha in (0.9, 0.8)]
    with pytest.raises(ValueError, match="same loss as"):
        merge_models(huber)
    labels = [GradientBoostingClassifier(n_estimators=2).fit(X, y > bound) for bound in (0, 1)]
    labels[1].classes_ = np.array([False, 2])
    with pytest.raises(ValueError, match="same classes as"):
        merge_models(labels)
    forests = [RandomForestRegressor(2).fit(X, y) for _ in range(2)]
    with pytest.raises(ValueError, match="weights must be None for forests"):
        merge_models(forests, [1, 2])
    with pytest.raises(TypeError, match=r"must be of the same class as models\[0\], GradientBoostingRegressor"):
        merge_models([plain, forests[0]])
    with pytest.raises(TypeError, match=r"\] must be a gradient boosting model or a forest of fastens"):
        merge_models([RandomTreesEmbedding(2).fit(X[["c"]])])
    with pytest.raises(ValueError, match="at least one model"):
        merge_models([])
    with pytest.raises(TypeError, match="models must be a sequence of fitted models; got GradientBoosting"):
        merge_models(plain)
    with pytest.raises(ValueError, match="weights must hold numbers; row 0 holds 'a'"):
        merge_models([plain, plain], ["a", "b"])
    cox = GradientBoostingSurvival(n_estimators=2).fit(X, np.abs(y) + 1)
    with pytest.raises(ValueError, match="loss must not be 'cox'"):
        merge_models([cox, cox])

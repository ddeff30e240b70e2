"""Explanations: what they add up to, shap's own values, its pictures and ours."""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble
from fastens.tree_model.explanations import Explanation
from reference.contributions import against_rows, coalitions, shapley_interactions, shapley_values, value_of

MODELS = {
    "classes of boosting": (GradientBoostingClassifier(n_estimators=10), 3),
    "two classes of boosting": (GradientBoostingClassifier(n_estimators=10), 2),
    "numbers of boosting": (GradientBoostingRegressor(n_estimators=10, loss="poisson"), 0),
    "dart": (GradientBoostingRegressor(n_estimators=10, boosting="dart"), 0),
    "classes of a forest": (RandomForestClassifier(n_estimators=10, random_state=0), 3),
    "two classes of a forest": (RandomForestClassifier(n_estimators=10, random_state=0), 2),
    "numbers of a forest": (RandomForestRegressor(n_estimators=10, random_state=0), 0),
    "a tree": (fastens.DecisionTreeRegressor(random_state=0), 0),
    "AdaBoost": (fastens.AdaBoostClassifier(n_estimators=10), 2),
}


@pytest.fixture(scope="module")
def table():
    """A column of numbers, one of categories, one of whole numbers; some values are missing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"size": rng.normal(size=300), "colour": rng.choice(["red", "green", "blue"], 300), "age": rng.integers(9, 300)}
    )
    X["age"] = rng.integers(18, 80, 300)
    X.loc[::9, "size"] = np.nan
    score = X["size"].fillna(0.5) + (X["colour"] == "red") + (X["age"] > 60)
    return X, np.maximum(np.round(score), 0.0)


def fitted(table, name):
    model, n_classes = MODELS[name]
    X, y = table
    return model.fit(X, y if n_classes == 0 else np.array(["no", "yes", "perhaps"])[(y % n_classes).astype(int)])


def raw_of(model, X):
    if isinstance(model, RandomForestClassifier):
        found = model.predict_proba(X)
        return found if found.shape[1] > 2 else found[:, 1]
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return np.log(model.predict(X)) if getattr(model, "loss", "") == "poisson" else model.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_adds_up(table, name):
    X, model = table[0], fitted(table, name)
    raw = raw_of(model, X)
    for background in (None, X[::7]):
        found = model.explain(X, background)
        assert found.values.shape == (300, 3, *raw.shape[1:])
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, raw, atol=1e-9)
        both = model.explain(X[:40], background, interactions=True)
        np.testing.assert_allclose(both.values.sum(axis=2), found.values[:40], atol=1e-9)
        np.testing.assert_allclose(both.values, both.values.swapaxes(1, 2), atol=1e-9)
    np.testing.assert_allclose(found.base_values[0], raw_of(model, X[::7]).mean(axis=0), atol=1e-9)
    parts = model.predict_contributions(X)
    expected = model.explain(X)
    np.testing.assert_array_equal(np.moveaxis(expected.values, 1, -1), parts[..., :-1])
    assert list(expected.feature_names) == ["size", "colour", "age"]


@pytest.mark.parametrize("name", ["two classes of boosting", "two classes of a forest", "numbers of boosting"])
def test_explains_predictions(table, name):
    X, model = table[0], fitted(table, name)
    found = model.explain(X, X[::7], output="probability")
    predicted = model.predict_proba(X)[:, 1] if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, predicted, atol=1e-12)
    both = model.explain(X[:20], X[::7], output="probability", interactions=True)
    np.testing.assert_allclose(both.values.sum(axis=2), found.values[:20], atol=1e-12)


@pytest.mark.parametrize("name", ["two classes of boosting", "numbers of a forest", "dart", "numbers of boosting"])
def test_explains_losses(table, name):
    X, model = table[0], fitted(table, name)
    y = np.where(table[1] % 2 == 1, "yes", "no") if hasattr(model, "classes_") else table[1]
    found = model.explain(X, X[::7], output="loss", y=y)
    if hasattr(model, "classes_"):
        losses = -np.log(model.predict_proba(X)[np.arange(300), (y == "yes").astype(int)])
    elif model.get_params().get("loss") == "poisson":
        losses = model._loss.row_losses(y.to_numpy(), np.log(model.predict(X)))
    else:
        losses = (y - model.predict(X)) ** 2
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, losses, atol=1e-9)
    assert found.output_names == "loss"


def test_explained_quantities_are_named_by_the_link(table):
    X, y = table[0][["size", "age"]], table[1] / table[1].max()
    names = {fastens.TweedieLoss(1.7): "logarithm", "cross_entropy": "log odds", "poisson": "logarithm"}
    for loss, name in names.items():
        model = GradientBoostingRegressor(loss, n_estimators=2).fit(X, y).set_params(loss="squared_error")
        assert model.explain(X[:2]).output_names == f"{name} of the prediction"
        assert model.explain(X[:2], X[:4], output="probability").output_names == "prediction"


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("loss", ["log_cosh", "squared_error_of_root", "tweedie", "cross_entropy", "quantile"])
def test_explains_the_loss_that_early_stopping_measures(table, loss, plain):
    X, y = table[0][["size", "age"]], table[1] / table[1].max()
    options = {"loss": loss, "n_estimators": 5, "quantile": [0.6] if loss == "quantile" else None}
    model = (GradientBoostingRegressor.textbook if plain else GradientBoostingRegressor)(**options)
    found = model.fit(X, y, X_val=X, y_val=y).explain(X, X[::7], output="loss", y=y)
    losses = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(losses.mean(), model.evals_result_["validation"]["loss"].min(), rtol=1e-6)


def test_losses_that_are_not_known_are_not_explained(table):
    X, y = table[0][["size", "age"]], table[1]
    model = GradientBoostingRegressor("huber", n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match=r"output must be 'raw' with loss='huber'.*; got 'loss'"):
        model.explain(X, X, output="loss", y=y)
    model = GradientBoostingRegressor(lambda y, raw: (raw - y, np.ones(len(y))), n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match=r"loss must have a method loss\(y, raw\) for early stopping and"):
        model.explain(X, X, output="loss", y=y)


def test_explains_the_loss_of_gentle_adaboost(table):
    X, y = table[0], table[1] % 2 == 1
    model = fastens.AdaBoostClassifier(n_estimators=4, algorithm="gentle").fit(X, y)
    found = model.explain(X, X[::7], output="loss", y=y)
    losses = np.exp(-0.5 * np.where(y, 1, -1) * model.decision_function(X))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, losses, atol=1e-9)


def test_scaled_by_pairs(table):
    """Against each background row, raw contributions times what the output changes by for each unit of raw change."""
    X, model = table[0], fitted(table, "two classes of boosting")
    others = X[10:13]
    found = model.explain(X[:5], others, output="probability").values
    expected = 0
    for row in range(3):
        one = others.iloc[[row]]
        raw = model.explain(X[:5], one).values
        change = model.predict_proba(X[:5])[:, 1] - model.predict_proba(one)[:, 1]
        total = raw.sum(axis=1)
        slope = np.divide(change, total, out=np.ones(5), where=abs(total) > 1e-12)
        expected = expected + raw * slope[:, None] / 3
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("linear_leaves", [False, True])
def test_a_category_with_a_mean_of_each_class_is_one_column(linear_leaves):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"kind": rng.choice(list("abcdef"), 120), "size": rng.normal(size=120), "age": rng.normal(size=120)}
    )
    score = X["size"] * (X["kind"] < "c") + X["age"] * (X["kind"] > "d")
    options = {"max_depth": 4, "min_samples_leaf": 3, "linear_leaves": linear_leaves, "max_features": 1.0}
    model = GradientBoostingClassifier(n_estimators=2, categories=fastens.Categories(encoding="target"), **options)
    model.fit(X, np.digitize(score, [-0.3, 0.3]))
    assert len(model._column_of) == 5
    rows, others, types = X[:4].to_numpy(object), X[20:25], X.dtypes.to_dict()
    found, pairs = (model.explain(X[:4], others, interactions=each).values for each in (False, True))
    for i, row in enumerate(rows):
        game = (
            lambda table: model.decision_function(pd.DataFrame(table, columns=X.columns).astype(types)),
            row,
            others.to_numpy(object),
        )
        np.testing.assert_allclose(found[i].T, against_rows(*game)[:, :-1], atol=1e-12)
        expected = against_rows(*game, shapley_interactions)[:, :-1, :-1]
        np.testing.assert_allclose(np.moveaxis(pairs[i], -1, 0), expected, atol=1e-12)


# Beside shap --------------------------------------------------


def shallow():
    """A model whose values and weights single precision holds, as shap computes in it: paths of one or two features."""
    rng = np.random.default_rng(1)
    X = rng.integers(-64, 64, (400, 6)) / 4
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2).fit(X, X[:, 0] + X[:, 1] * (X[:, 2] > 0))
    trees = model._ensemble
    arrays = {name: getattr(trees, name) for name in ENSEMBLE_DTYPES}
    rounded = {name: np.round(arrays[name] * 1024) / 1024 for name in ("value", "baseline")}
    model._ensemble = TreeEnsemble(trees.binning, **arrays | rounded)
    return model, X


def read_by_peer(model, library, folder):
    """The model as the library itself has it."""
    if library == "sklearn":
        return model.export(None, format="sklearn")
    path = str(folder / ("model.txt" if library == "lightgbm" else "model.json"))
    model.export(path, format=library)
    if library == "lightgbm":
        return pytest.importorskip("lightgbm").Booster(model_file=path)
    booster = pytest.importorskip("xgboost").Booster()
    booster.load_model(path)
    return booster


@pytest.mark.parametrize("library", ["sklearn", "lightgbm", "xgboost"])
def test_equals_shap_on_what_it_reads(library, tmp_path):
    shap = pytest.importorskip("shap")
    model, X = shallow()
    peer = read_by_peer(model, library, tmp_path)
    explainer = shap.TreeExplainer(peer, X[:100], feature_perturbation="interventional")
    expected = explainer.shap_values(X[100:160], check_additivity=False)
    found = model.explain(X[100:160], X[:100])
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("output", ["raw", "probability", "loss"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_close_to_shap_on_foreign_models(library, output):
    """Deeper trees: shap sums in single precision."""
    shap, peers = pytest.importorskip("shap"), pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    settings = {"n_estimators": 20, "n_jobs": 1}
    kind = peers.LGBMClassifier(verbose=-1, **settings) if library == "lightgbm" else peers.XGBClassifier(**settings)
    kind.fit(X, y)
    model = fastens.from_model(kind)
    name = "log_loss" if output == "loss" else output
    explainer = shap.TreeExplainer(kind, X[:40], feature_perturbation="interventional", model_output=name)
    given = y[40:60] if output == "loss" else None
    expected = np.asarray(explainer.shap_values(X[40:60], y=given, check_additivity=False))
    found = model.explain(X[40:60], X[:40], output=output, y=given).values
    np.testing.assert_allclose(found, expected[..., 1] if expected.ndim == 3 else expected, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["raw", "probability"])
def test_pictures_of_shap(table, output):
    shap = pytest.importorskip("shap")
    X, model = table[0], fitted(table, "two classes of boosting")
    found = model.explain(X, X[::7], output=output)
    assert isinstance(found, shap.Explanation)
    for draw, shown in (
        (shap.plots.beeswarm, found),
        (shap.plots.bar, found),
        (shap.plots.waterfall, found[3]),
        (shap.plots.scatter, found[:, "age"]),
    ):
        draw(shown, show=False)
        texts = {text.get_text() for ax in plt.gcf().axes for text in [*ax.get_yticklabels(), ax.xaxis.label]}
        assert any("age" in text for text in texts)
        plt.close("all")


def test_several_outputs_are_sliced_by_name(table):
    pytest.importorskip("shap")
    model = fitted(table, "classes of boosting")
    found = model.explain(table[0])
    assert found.output_names == [str(label) for label in model.classes_]
    np.testing.assert_array_equal(found[:, :, "yes"].values, found.values[..., 2])


# Pictures of ours, and without shap --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("has_shap", [False, True])
@pytest.mark.parametrize("name", ["classes of boosting", "two classes of boosting"])
def test_pictures_of_ours(table, name, has_shap, monkeypatch):
    if has_shap:
        pytest.importorskip("shap")
    else:
        monkeypatch.setitem(sys.modules, "shap", None)
    X, model = table[0], fitted(table, name)
    found = model.explain(X, X[::7])
    assert isinstance(found, Explanation) != has_shap
    ax = model.plot_contributions(found)
    assert {label.get_text() for label in ax.get_yticklabels()} == {"size", "colour", "age"}
    ax = model.plot_contributions(found, 9)
    assert "size = missing" in [label.get_text() for label in ax.get_yticklabels()]
    parts = found.values[9] if found.values.ndim == 2 else found.values[9, :, raw_of(model, X)[9].argmax()]
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx(sorted(parts), abs=1e-9)
    if name == "two classes of boosting":
        shares = model.explain(X, X[::7], output="probability")
        assert model.plot_contributions(shares, 9).get_xlabel() == "probability of yes"
    with pytest.raises(ValueError, match="explanation must have rows and columns and no interactions; got"):
        model.plot_contributions(model.explain(X[:5], interactions=True))
    plt.close("all")


@pytest.mark.parametrize(
    ("feature", "shown"),
    [
        ("size", {"size", "missing"}),
        (("colour", "age"), {"colour", "blue", "green", "red", "age"}),
        (["age", "colour"], {"age", "colour", "blue", "green", "red"}),
        ((2, 0), {"age", "missing", "size"}),
    ],
)
def test_pictures_of_a_column(table, feature, shown):
    X, model = table[0], fitted(table, "two classes of boosting")
    found = model.explain(X)
    ax = fastens.plot_explanation(found, feature=feature)
    drawn = np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections])
    first = feature if isinstance(feature, str) else feature[0]
    values = found.values[:, first if isinstance(first, int) else ["size", "colour", "age"].index(first)]
    np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(values))
    texts = [ax.xaxis.label, *ax.get_xticklabels(), *(bar.yaxis.label for bar in ax.figure.axes)]
    legend = ax.get_legend()
    texts += [] if legend is None else [legend.get_title(), *legend.get_texts()]
    assert shown <= {text.get_text() for text in texts}
    assert ax.get_ylabel() == "contribution to the log odds of yes"
    plt.close("all")


@pytest.mark.parametrize("labels", [[1, 2, 3], [0.0, 1.0, 2.0], ["a", "b", "c"]], ids=["integers", "floats", "texts"])
def test_outputs_are_labels_that_predict_returns(labels):
    X = np.arange(60.0)[:, None]
    model = fastens.GradientBoostingClassifier(n_estimators=3).fit(X, np.array(labels)[np.arange(60) // 20])
    label = model.predict(X)[0]
    ax = fastens.plot_explanation(model.explain(X), kind="beeswarm", output=label)
    assert ax.get_xlabel() == f"contribution to the prediction of {label}"
    plt.close("all")


def test_bars_and_outputs(table):
    X, model = table[0], fitted(table, "classes of boosting")
    found = model.explain(X)
    widths = np.abs(found.values).mean(axis=0)
    ax = fastens.plot_explanation(found)
    np.testing.assert_allclose(sorted(bar.get_width() for bar in ax.patches), np.sort(widths.ravel()))
    ax = model.plot_contributions(found, kind="bar", label="yes")
    np.testing.assert_allclose(sorted(bar.get_width() for bar in ax.patches), np.sort(widths[:, 2]))
    ax = fastens.plot_explanation(found, kind="beeswarm", output="perhaps", n_top=2)
    assert ax.get_xlabel() == "contribution to the prediction of perhaps"
    assert len(ax.get_yticklabels()) == 2
    plt.close("all")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"row": 300, "output": 0}, "row must be a position from 0 to 299; got 300"),
        ({"row": 1, "feature": 1}, "row, feature and kind must not be passed together, because each draws"),
        ({"feature": "age"}, r"output must be one of \['no', 'perhaps', 'yes'\], or its index, for this plot"),
        ({"output": "never"}, "output must be one of.*got 'never'"),
        ({"feature": "height", "output": 0}, r"feature must be one of the columns, \['size', 'colour', 'age'\], or"),
        ({"feature": (0, 1, 2), "output": 0}, r"feature must be a column or a pair of columns; got \(0, 1, 2\)"),
        ({"kind": "violins"}, "kind must be 'beeswarm' or 'bar' or None; got 'violins'"),
        ({"n_top": 0}, "n_top must be a whole number of at least 1; got 0"),
    ],
)
def test_mistakes_of_pictures(table, given, message):
    found = fitted(table, "classes of boosting").explain(table[0])
    with pytest.raises(ValueError, match=message):
        fastens.plot_explanation(found, **given)
    with pytest.raises(ValueError, match="explanation must be a result of explain; got ndarray"):
        fastens.plot_explanation(found.values)


def test_shows_categories(table):
    X, model = table[0], fitted(table, "two classes of boosting")
    found = model.explain(X)
    assert found.display_data[:, 1].tolist() == X["colour"].tolist()
    np.testing.assert_array_equal(found.data[:, 2], X["age"])
    assert GradientBoostingRegressor(n_estimators=2).fit([[1.0], [2.0]], [1, 2]).explain([[1.0]]).display_data is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": "odds"}, "output must be one of 'raw', 'probability', 'loss'; got 'odds'"),
        ({"output": "probability"}, "background must be a table of rows for output='probability'; got None"),
        ({"output": "loss", "background": True}, "y must be passed with output='loss', and only then; got None"),
        ({"y": [1.0]}, "y must be passed with output='loss', and only then; got targets with output='raw'"),
        ({"output": "loss", "background": True, "y": ["yes"]}, "y must have one target for each of the"),
    ],
)
def test_mistakes(table, given, message):
    X, model = table[0], fitted(table, "two classes of boosting")
    with pytest.raises(ValueError, match=message):
        model.explain(X, **({**given, "background": X} if "background" in given else given))


def test_models_without_a_single_output_raise(table):
    X, y = table
    model = fitted(table, "classes of boosting")
    with pytest.raises(ValueError, match="output must be 'raw' for a model of several raw predictions; got 'prob"):
        model.explain(X, X, output="probability")
    model = fitted(table, "two classes of a forest")
    with pytest.raises(
        ValueError, match=r"output must be 'raw' or 'probability' for models that average class.*got 'loss'"
    ):
        model.explain(X, X, output="loss", y=np.where(y % 2 == 1, "yes", "no"))
    model = GradientBoostingRegressor(n_estimators=3, linear_leaves=True).fit(X[["size", "age"]], y)
    assert model.explain(X[["size", "age"]]).values.shape == (300, 2)


def test_missing_values_that_are_a_category_are_shown_as_missing():
    X = pd.DataFrame({"colour": ["red", "blue", None, "red", None, "blue"] * 10})
    model = fastens.DecisionTreeRegressor(categories=fastens.Categories(missing="category")).fit(X, X["colour"].isna())
    found = model.explain(pd.DataFrame({"colour": ["red", None, "mauve"]}))
    np.testing.assert_array_equal(found.data, [[1.0], [np.nan], [np.nan]])
    assert found.display_data[0, 0] == "red"
    np.testing.assert_allclose(found.values[:, 0] + found.base_values, [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("kind", [fastens.GradientBoostingRanker, fastens.GradientBoostingSurvival])
def test_losses_of_rankers_and_of_survival_are_not_explained(rng, kind):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    queries = {"group": [len(X)]} if kind is fastens.GradientBoostingRanker else {}
    model = kind(n_estimators=2).fit(X, y + 1, **queries)
    with pytest.raises(ValueError, match="output must be 'raw' or 'probability' for rankers and survival models; got"):
        model.explain(X[:4], X, output="loss", y=y[:4] + 1)


# Groups of columns --------------------------------------------------


@pytest.mark.parametrize("name", ["classes of boosting", "numbers of boosting", "numbers of a forest", "a tree"])
def test_groups_are_players_of_the_game(table, name):
    model, (X, _) = fitted(table, name), table
    groups = {"look": ["size", "colour"]}
    rows = X[:12]
    found = model.explain(rows, groups=groups)
    assert found.feature_names == ["look", "age"]
    codes = model._ensemble.binning.transform(model._check_table(rows)).columns
    members = {0: (0, 1), 1: (2,)}
    for row in range(len(rows)):
        worth = {
            players: value_of(model._predicting_trees(), codes[:, row], sum((members[p] for p in players), ()))
            for players in coalitions(2)
        }
        expected = shapley_values(worth, 2) * model._contribution_scale()
        values = np.atleast_2d(found.values[row].T)
        np.testing.assert_allclose(values, expected[:, :2], atol=1e-9)
        np.testing.assert_allclose(found.base_values[row], expected[:, 2].squeeze(), atol=1e-9)
    pairs = model.explain(rows, groups=groups, interactions=True)
    np.testing.assert_allclose(pairs.values.sum(axis=2), found.values, atol=1e-9)
    against = model.explain(rows, X[20:40], groups=groups)
    total = against.base_values + against.values.sum(axis=1)
    np.testing.assert_allclose(total, found.base_values + found.values.sum(axis=1), atol=1e-9)


def test_groups_of_one_column_and_of_positions(table):
    model, (X, _) = fitted(table, "numbers of boosting"), table
    plain = model.explain(X)
    found = model.explain(X, groups={"hue": [1]})
    assert found.feature_names == ["hue", "size", "age"]
    np.testing.assert_allclose(found.values, plain.values[:, [1, 0, 2]], atol=1e-12)
    assert found.display_data[0, 0] == X["colour"][0]
    everything = model.explain(X, groups={"all": ["size", "colour", "age"]})
    np.testing.assert_allclose(everything.values[:, 0], plain.values.sum(axis=1), atol=1e-9)
    assert everything.display_data[0, 0] == "3 columns"


def test_groups_in_plots(table):
    model, (X, _) = fitted(table, "numbers of boosting"), table
    for row in (None, 3):
        ax = model.plot_contributions(X, row, groups={"look": ["size", "colour"]})
        texts = [text.get_text() for text in ax.get_yticklabels()]
        assert any("look" in text for text in texts)
        assert not any("colour" in text for text in texts)
    explained = model.explain(X, groups={"look": ["size", "colour"]})
    model.plot_contributions(explained)
    model.plot_contributions(explained, feature="look")
    with pytest.raises(ValueError, match="groups must be None with an Explanation"):
        model.plot_contributions(explained, groups={"look": ["size"]})
    plt.close("all")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["size"]], "groups must be a dict of lists of columns"),
        ({}, "groups must be a dict of lists of columns"),
        ({"a": "size"}, "groups must have a list of columns for 'a'; got 'size'"),
        ({"a": []}, "groups must have a list of columns for 'a'"),
        ({"a": ["size"], "b": ["size"]}, "groups must have each column once; got 'size' twice"),
        ({"a": ["width"]}, "groups must name columns of X; got 'width'"),
        ({"age": ["size"]}, "groups must have names that differ from each other and from other columns"),
    ],
)
def test_wrong_groups(table, groups, message):
    model, (X, _) = fitted(table, "numbers of boosting"), table
    with pytest.raises(ValueError, match=message):
        model.explain(X, groups=groups)
    with pytest.raises(ValueError, match="groups must be None with parts=True"):
        model.explain(X, groups={"a": ["size"]}, parts=True)

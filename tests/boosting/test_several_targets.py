"""Boosting for several targets: one tree a round, with a value for each raw prediction in every leaf."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier
from fastens.params.options import Categories, Dart, EarlyStopping, Growth
from reference.sklearn_checks import parametrize_with_checks

SMALL = {"n_estimators": 15, "max_leaf_nodes": 8, "min_samples_leaf": 5, "random_state": 0}
LOSSES = ["squared_error", "absolute_error", "huber", "poisson", "log_cosh", "cross_entropy"]
KINDS = {
    "plain": {},
    "subsample": {"subsample": 0.5},
    "goss": {"sampling": "goss"},
    "mvs": {"sampling": "mvs", "subsample": 0.5},
    "features": {"max_features": 0.5, "max_features_per_tree": 0.8},
    "dart": {"boosting": Dart(rate_drop=0.3, skip_drop=0.2)},
}


@pytest.fixture
def X(rng):
    return rng.normal(size=(400, 5))


@pytest.fixture
def Y(X, rng):
    signals = np.column_stack([X[:, 0] + X[:, 1], X[:, 1] * X[:, 2], np.abs(X[:, 0])])
    return signals + 0.1 * rng.normal(size=signals.shape)


@pytest.fixture
def labels(X, Y):
    """A label of two words, and one of three numbers."""
    found = np.empty((400, 2), dtype=object)
    found[:, 0], found[:, 1] = np.where(Y[:, 0] > 0, "up", "down"), np.digitize(Y[:, 1], [-0.5, 0.5])
    return found


def suited(loss, Y):
    return np.exp(Y / 4) if loss == "poisson" else 1 / (1 + np.exp(-Y)) if loss == "cross_entropy" else Y


@pytest.mark.parametrize("loss", LOSSES)
def test_equal_targets_are_predicted_as_one(loss, X, Y):
    y = suited(loss, Y[:, 0])
    one = GradientBoostingRegressor(loss, **SMALL).fit(X, y)
    model = GradientBoostingRegressor(loss, **SMALL).fit(X, np.column_stack([y, y]))
    np.testing.assert_allclose(model.predict(X), np.repeat(one.predict(X)[:, None], 2, axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        model.evals_result_["training"]["loss"], one.evals_result_["training"]["loss"], rtol=1e-12
    )


def test_it_learns_all_targets_with_one_tree_a_round(X, Y):
    model = GradientBoostingRegressor(n_estimators=60).fit(X[:300], Y[:300])
    assert model.predict(X).shape == (400, 3)
    assert model.score(X[300:], Y[300:]) == pytest.approx(r2_score(Y[300:], model.predict(X[300:])))
    assert model.score(X[300:], Y[300:]) > 0.75
    assert model.apply(X).shape == (400, 60)
    assert model.n_outputs_ == 3
    assert list(model.staged_score(X[300:], Y[300:]))[-1] == pytest.approx(model.score(X[300:], Y[300:]))
    assert model.to_dataframe().filter(like="value").shape[1] == 3
    assert "value: [" in model.to_text()
    assert not hasattr(model, "classes_")


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_more_rounds_later_are_all_at_once(loss, kind, X, Y, tmp_path):
    Y = suited(loss, Y)
    at_once = GradientBoostingRegressor(loss, **SMALL, **KINDS[kind]).fit(X, Y)
    model = GradientBoostingRegressor(loss, warm_start=True, **{**SMALL, "n_estimators": 7}, **KINDS[kind]).fit(X, Y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), model.predict(X))
    resumed = GradientBoostingRegressor(loss, **SMALL, **KINDS[kind]).fit(X, Y, resume=tmp_path / "model")
    model = pickle.loads(pickle.dumps(model)).set_params(n_estimators=15).fit(X, Y)
    threads = GradientBoostingRegressor(loss, n_jobs=3, **SMALL, **KINDS[kind]).fit(X, Y)
    for other in (model, resumed, threads):
        np.testing.assert_array_equal(other.predict(X), at_once.predict(X))
        np.testing.assert_array_equal(
            other.evals_result_["training"]["loss"], at_once.evals_result_["training"]["loss"]
        )


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetition(loss, X, Y, rng):
    Y, times = suited(loss, Y), rng.integers(0, 3, 400)
    model = GradientBoostingRegressor(loss, n_estimators=10, min_samples_leaf=1, growth=Growth(min_weight_leaf=5))
    weighted = clone(model).fit(X, Y, times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


SIGNS = [1, -1, 0, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_constraints_hold_for_every_target(loss, kind, X, Y):
    """Also where a target has the opposite sign, and where leaves are renewed from residuals."""
    Y = suited(loss, np.column_stack([Y, -Y[:, 0], np.sin(3 * X[:, 3])]))
    model = GradientBoostingRegressor(loss, monotonic_cst=SIGNS, **SMALL, **KINDS[kind]).fit(X, Y)
    free = GradientBoostingRegressor(loss, **SMALL, **KINDS[kind]).fit(X, Y)
    falls = [0.0, 0.0]
    for column in np.flatnonzero(SIGNS):
        lines = np.repeat(X[:40, None], 30, axis=1)
        lines[:, :, column] = np.linspace(-3, 3, 30)
        for place, each in enumerate((model, free)):
            along = each.predict(lines.reshape(-1, 5)).reshape(40, 30, -1)
            falls[place] = min(falls[place], (SIGNS[column] * np.diff(along, axis=1)).min())
    assert falls[0] >= -1e-12
    assert falls[1] < -1e-3


def test_constraints_hold_for_every_label(X, Y, rng):
    y = Y[:, :2] + rng.normal(size=(400, 2)) > 0
    model = GradientBoostingClassifier(monotonic_cst=SIGNS, interaction_cst=[[0, 2], [1, 3, 4]], **SMALL).fit(X, y)
    for column in np.flatnonzero(SIGNS):
        lines = np.repeat(X[:40, None], 30, axis=1)
        lines[:, :, column] = np.linspace(-3, 3, 30)
        for part in model.predict_proba(lines.reshape(-1, 5)):
            assert (SIGNS[column] * np.diff(part[:, 1].reshape(40, 30), axis=1)).min() >= -1e-12
    with pytest.raises(ValueError, match="monotonic_cst must have a row for each class"):
        model.fit(X, np.column_stack([y[:, 0], np.digitize(Y[:, 1], [-1, 1])]))


# Classes --------------------------------------------------


def test_labels_and_probabilities_match_forests(X, labels):
    model = GradientBoostingClassifier(**{**SMALL, "n_estimators": 60}).fit(X, labels)
    proba, predicted = model.predict_proba(X), model.predict(X)
    assert [part.shape for part in proba] == [(400, 2), (400, 3)]
    assert [list(classes) for classes in model.classes_] == [["down", "up"], [0, 1, 2]]
    for column, (classes, part) in enumerate(zip(model.classes_, proba, strict=True)):
        np.testing.assert_allclose(part.sum(axis=1), 1)
        assert (predicted[:, column] == classes[part.argmax(axis=1)].astype(predicted.dtype)).all()
        assert (predicted[:, column].astype(str) == labels[:, column].astype(str)).mean() > 0.9
    forest = fastens.RandomForestClassifier(n_estimators=5, random_state=0).fit(X, labels)
    assert predicted.dtype == forest.predict(X).dtype
    assert not hasattr(model, "decision_function")
    assert [part.shape for part in list(model.staged_predict_proba(X))[-1]] == [(400, 2), (400, 3)]
    assert model.predict_contributions(X).shape == (400, 4, 6)


def test_multilabel(X, Y, tmp_path):
    y = (Y > 0).astype(int)
    model = GradientBoostingClassifier(**{**SMALL, "n_estimators": 60}).fit(X[:300], y[:300])
    assert set(np.unique(model.predict(X))) == {0, 1}
    assert model.score(X[300:], y[300:]) == accuracy_score(y[300:], model.predict(X[300:])) > 0.5
    model.save(tmp_path / "model")
    again = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    raw = model.predict_contributions(X).sum(axis=2)
    np.testing.assert_allclose([part[:, 1] for part in model.predict_proba(X)], 1 / (1 + np.exp(-raw.T)), rtol=1e-6)


@pytest.mark.parametrize("kind", [GradientBoostingClassifier, RandomForestClassifier])
@pytest.mark.parametrize("dtype", [int, float, object, str, np.dtypes.StringDType(), "mixed"])
def test_labels_of_any_type_are_scored(kind, dtype, rng):
    X, whole = rng.normal(size=(200, 2)), rng.integers(0, 3, (200, 2))
    labels = pd.DataFrame({"a": whole[:, 0], "b": whole[:, 1].astype(str)}) if dtype == "mixed" else whole.astype(dtype)
    model = kind(n_estimators=2, random_state=0).fit(X, labels)
    right = (model.predict(X).astype(float) == whole).all(axis=1)
    assert 0 < right.mean() < 1
    assert model.score(X, labels) == right.mean()
    with pytest.raises(ValueError, match="y contains NaN"):
        model.score(X, np.where(whole == 1, None, whole))


def test_labels_that_only_begin_as_others_are_wrong(X, labels):
    labels = np.where(labels.astype(str) == labels[0].astype(str), "ab", "a")
    model = GradientBoostingClassifier(**SMALL).fit(X, labels)
    assert model.score(X, model.predict(X)) == 1
    assert model.score(X, np.char.add(model.predict(X), "bc")) == 0


def test_predictions_of_fewer_classes_than_there_are_can_be_scored(X):
    """Of two classes alone, or with labels that begin as a known one does."""
    labels = np.column_stack([np.digitize(X[:, 0], [0.0, 2.2]), X[:, 1] > 0]).astype(int)
    model = GradientBoostingClassifier(n_estimators=1, learning_rate=0.01).fit(X, labels)
    assert set(np.unique(model.predict(X))) <= {0, 1}
    assert model.score(X, labels) == (model.predict(X) == labels).all(axis=1).mean()
    assert model.score(X, labels + 0.5) == 0
    words = np.array(["a", "b"])[(X[:, :2] > 0).astype(int)]
    model = GradientBoostingClassifier(n_estimators=3).fit(X, words)
    assert model.score(X, np.char.add(words, "!")) == 0


def test_score_of_labels_is_the_share_of_rows_with_all_of_them_right(X, labels, rng):
    model, weight = GradientBoostingClassifier(**SMALL).fit(X, labels), rng.random(400)
    right = (model.predict(X).astype(str) == labels.astype(str)).all(axis=1)
    assert 0.3 < right.mean() < 1
    assert model.score(X, labels) == pytest.approx(right.mean())
    assert model.score(X, labels, weight) == pytest.approx(np.average(right, weights=weight))
    assert list(model.staged_score(X, labels, weight))[-1] == model.score(X, labels, weight)
    found = model.permutation_importance(X, labels, n_repeats=1, random_state=0).importances[:, 0]
    changed = X.copy()
    changed[:, 1] = X[np.random.RandomState(0).permutation(400), 1]
    assert found[1] == pytest.approx(model.score(X, labels) - model.score(changed, labels), abs=1e-9)
    with pytest.raises(ValueError, match=r"y must have the shape \(400, 2\) of the predictions; got \(400,\)"):
        model.score(X, labels[:, 0])


@pytest.mark.parametrize("loss", ["exponential", lambda y, raw: (1 / (1 + np.exp(-raw)) - y, np.full(len(y), 0.25))])
def test_other_losses_of_two_classes(loss, X, Y):
    model = GradientBoostingClassifier(loss, n_estimators=40).fit(X, Y > 0)
    assert model.score(X, Y > 0) > 0.7


def test_weights_of_classes(X, Y):
    y = (Y > 0.8).astype(int)
    plain = GradientBoostingClassifier(**SMALL).fit(X, y)
    balanced = GradientBoostingClassifier(class_weight="balanced", **SMALL).fit(X, y)
    assert balanced.predict(X).sum() > plain.predict(X).sum()


# Validation --------------------------------------------------


def error(y, predicted):
    assert y.shape == predicted.shape
    return np.abs(y - predicted).mean()


def misses(y, proba):
    return "misses", np.mean([part[:, 1].round() != column for part, column in zip(proba, y.T, strict=True)]), False


def test_early_stopping_and_metrics(X, Y):
    model = GradientBoostingRegressor(
        n_estimators=300, learning_rate=0.5, early_stopping=True, eval_metric=["loss", "r2", error]
    )
    model.fit(X[:250], Y[:250], X_val=X[250:], y_val=Y[250:])
    n = model.n_estimators_
    assert n < len(model.evals_result_["validation"]["loss"]) < 300
    staged = list(model.staged_predict(X[250:]))
    np.testing.assert_allclose(
        model.evals_result_["validation"]["loss"][:n], [((p - Y[250:]) ** 2).mean() / 2 for p in staged]
    )
    np.testing.assert_allclose(model.evals_result_["validation"]["r2"][:n], [r2_score(Y[250:], p) for p in staged])
    np.testing.assert_allclose(
        model.evals_result_["validation"]["error"][:n], [np.abs(p - Y[250:]).mean() for p in staged]
    )
    y = (Y > 0).astype(int)
    classifier = GradientBoostingClassifier(n_estimators=300, learning_rate=0.5, max_features=1.0)
    classifier.set_params(early_stopping=EarlyStopping(refit=True), eval_metric=["accuracy", misses])
    classifier.set_params(growth=Growth(rows_per_threshold=None))
    classifier.fit(X, y)
    assert classifier.n_estimators_ == np.argmax(classifier.evals_result_["validation"]["accuracy"]) + 1
    again = clone(classifier).set_params(n_estimators=classifier.n_estimators_, early_stopping=False)
    again.set_params(eval_metric="loss").fit(X, y)
    np.testing.assert_array_equal(classifier.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("kind", ["subsample", "goss", "mvs"])
def test_out_of_bag(kind, X, Y, labels):
    model = GradientBoostingRegressor(oob_score=True, **{**SMALL, "n_estimators": 80}, **KINDS[kind]).fit(X, Y)
    assert model.oob_prediction_.shape == (400, 3)
    seen = ~np.isnan(model.oob_prediction_).any(axis=1)
    assert r2_score(Y[seen], model.oob_prediction_[seen]) > 0.4
    classifier = GradientBoostingClassifier(oob_score=True, **SMALL, **KINDS[kind]).fit(X, labels)
    assert classifier.oob_decision_function_.shape == (400, 5)


def test_init_score(X, Y):
    first = GradientBoostingRegressor(n_estimators=10, max_features=1.0).fit(X, Y)
    start = first.predict(X)
    second = clone(first).fit(X, Y, init_score=start)
    both = clone(first).set_params(n_estimators=20).fit(X, Y)
    np.testing.assert_allclose(second.predict(X, init_score=start), both.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match=r"init_score must have the shape \(400, 3\); got \(400, 2\)"):
        first.fit(X, Y, init_score=start[:, :2])


@pytest.mark.parametrize("loss", LOSSES)
def test_new_values_for_old_leaves(loss, X, Y):
    Y = suited(loss, Y)
    model = GradientBoostingRegressor(loss, **SMALL).fit(X, Y)
    np.testing.assert_allclose(
        model.refit_leaves(X, Y, decay_rate=0.0).predict(X), model.predict(X), rtol=1e-5, atol=1e-6
    )
    moved = model.refit_leaves(X, suited(loss, np.roll(Y, 1, axis=1)), decay_rate=0.0)
    assert not np.allclose(moved.predict(X), model.predict(X))


# Explaining --------------------------------------------------


@pytest.mark.slow
def test_contributions_importances_and_pictures(X, Y, labels):
    pytest.importorskip("matplotlib").use("Agg")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = GradientBoostingRegressor(**SMALL).fit(frame, Y)
    parts = model.predict_contributions(frame)
    np.testing.assert_allclose(parts.sum(axis=2), model.predict(frame), atol=1e-9)
    pairs = model.predict_contributions(frame, interactions=True)
    np.testing.assert_allclose(pairs.sum(axis=3), parts, atol=1e-9)
    assert model.feature_importances_[:3].sum() > 0.9
    found = model.permutation_importance(frame, Y, n_repeats=2, random_state=0).importances_mean
    assert found.argmax() in (0, 1)
    classifier = GradientBoostingClassifier(**SMALL).fit(frame, labels)
    assert classifier.permutation_importance(frame, labels, n_repeats=2).importances_mean.max() > 0
    for fitted, target, label in ((model, Y, 2), (classifier, labels, (1, 2))):
        fitted.plot_importance()
        fitted.plot_importance("permutation", X=frame, y=target)
        fitted.plot_training()
        fitted.plot_tree()
        assert fitted.plot_contributions(frame).get_legend() is not None
        fitted.plot_contributions(frame, row=3, label=label)
        fitted.plot_contributions(frame, label=label)


def test_categories(X, Y, rng):
    names = np.array([f"c{i}" for i in range(12)])
    place = rng.integers(0, 12, 400)
    frame = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(names[place])})
    Y = Y + np.column_stack([place % 2, place % 3, place > 5])
    errors = []
    for encoding in ("partition", "target", "ordered"):
        model = GradientBoostingRegressor(
            n_estimators=40, categories=Categories(encoding=encoding), random_state=0
        ).fit(frame, Y)
        errors.append(model.score(frame, Y))
        assert model.importances()[1] > 0.2
    assert min(errors) > 0.5


# Errors --------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"linear_leaves": True, "loss": "quantile", "quantile": [0.1, 0.9]},
            "loss must have a hessian with linear_leaves=True",
        ),
        ({"loss": "gamma"}, "y must be positive for loss='gamma'"),
    ],
)
def test_errors(options, message, X, Y):
    model = GradientBoostingRegressor(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert model.__sklearn_tags__().target_tags.multi_output


def test_the_number_of_targets_stays(X, Y):
    model = GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="y must have the same number of targets as in fit, 3; got 2"):
        GradientBoostingRegressor().fit(X, Y, X_val=X, y_val=Y[:, :2])
    with pytest.raises(ValueError, match="raw predictions for each row, as in the fit that this one continues"):
        model.set_params(n_estimators=6).fit(X, Y[:, :2])


@parametrize_with_checks(
    [
        GradientBoostingRegressor("log_cosh", n_estimators=20, boosting=Dart(skip_drop=0.0)),
        GradientBoostingClassifier(n_estimators=20, sampling="mvs", subsample=0.7, oob_score=True, min_samples_leaf=1),
    ]
)
def test_sklearn_check(check):
    check()


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=5),
        fastens.RandomForestClassifier(5, random_state=0),
        fastens.StackingClassifier([("tree", fastens.DecisionTreeClassifier(max_depth=2))], cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_labels_keep_their_types_next_to_others(rng, model):
    X = rng.normal(size=(80, 2))
    y = np.column_stack([np.where(X[:, 0] > 0, "yes", "no").astype(object), (X[:, 1] > 0).astype(int)])
    predicted = model.fit(X, y).predict(X)
    assert [type(label) for label in predicted[0]] == [str, int]
    assert (predicted == y).mean() > 0.8
    frame = pl.DataFrame(X, schema=["a", "b"])
    named = frame.with_columns(pl.Series("word", y[:, 0].tolist()), pl.Series("number", y[:, 1].tolist()))
    np.testing.assert_array_equal(model.fit(named, ["word", "number"]).predict(frame), predicted)

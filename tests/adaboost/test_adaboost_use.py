"""What one does with an AdaBoost model: stages, early stopping, margins, curves, saving."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris, make_classification

import fastens
from fastens import AdaBoostClassifier, AdaBoostRegressor, Categories, DecisionStumpClassifier

VARIANTS = ["discrete", "real", "gentle", "logit"]


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("algorithm", VARIANTS)
def test_stages_end_in_the_prediction(algorithm, cancer, iris):
    for X, y in (cancer, iris):
        model = AdaBoostClassifier(algorithm=algorithm, n_estimators=7).fit(X, y)
        assert np.array_equal(list(model.staged_predict(X))[-1], model.predict(X))
        assert list(model.staged_score(X, y))[-1] == model.score(X, y)
        assert np.array_equal(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
        assert np.array_equal(list(model.staged_decision_function(X))[-1], model.decision_function(X))
        assert len(list(model.staged_predict(X))) == model.n_estimators_
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert np.array_equal(model.predict(csr_matrix(X)), model.predict(X))


def test_the_history_is_the_exponential_loss(cancer, iris):
    X, y = cancer
    model = AdaBoostClassifier(n_estimators=9).fit(X, y)
    for loss, raw in zip(model.evals_result_["training"]["loss"], model.staged_decision_function(X), strict=True):
        assert loss == pytest.approx(np.exp(-0.5 * np.where(y == 1, raw, -raw)).mean(), rel=1e-9)
    X, y = iris
    model = AdaBoostClassifier(n_estimators=9).fit(X, y)
    for loss, raw in zip(model.evals_result_["training"]["loss"], model.staged_decision_function(X), strict=True):
        assert loss == pytest.approx(np.exp(raw.sum(axis=1) / 3 - raw[np.arange(len(y)), y]).mean(), rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"algorithm": "real"}, {"algorithm": "gentle"}, {"max_depth": 2}], ids=str)
def test_the_bound_holds_in_every_round(options, cancer):
    X, y = cancer
    model = AdaBoostClassifier(n_estimators=20, **options).fit(X, y)
    errors = [np.mean(stage != y) for stage in model.staged_predict(X)]
    bound = model.training_error_bound()
    assert len(bound) == model.n_estimators_
    assert (np.array(errors) <= bound + 1e-12).all()
    if not options:
        e = model.estimator_errors_
        np.testing.assert_allclose(bound, np.cumprod(2 * np.sqrt(e * (1 - e))))


def test_the_bound_with_several_classes_and_small_steps(iris):
    X, y = iris
    model = AdaBoostClassifier(n_estimators=30, learning_rate=0.3).fit(X, y)
    errors = [np.mean(stage != y) for stage in model.staged_predict(X)]
    assert (np.array(errors) <= model.training_error_bound() + 1e-12).all()
    with pytest.raises(ValueError, match="no such bound for algorithm='real' and 3 classes"):
        AdaBoostClassifier(n_estimators=3, algorithm="real").fit(X, y).training_error_bound()


@pytest.mark.parametrize("algorithm", ["discrete", "real", "gentle"])
def test_the_bound_matches_the_rounds_kept(algorithm):
    X, y = make_classification(300, 4, flip_y=0.3, random_state=0)
    model = AdaBoostClassifier(algorithm=algorithm, early_stopping=True, random_state=0).fit(X, y)
    assert model.n_estimators_ < len(model.evals_result_["training"]["loss"])
    assert model.training_error_bound().shape == model.staged_errors(X, y).shape == (model.n_estimators_,)


@pytest.mark.parametrize("algorithm", VARIANTS)
def test_margins(algorithm, cancer, iris):
    for X, y in (cancer, iris):
        model = AdaBoostClassifier(n_estimators=15, algorithm=algorithm).fit(X, y)
        margins = model.margins(X, y)
        assert margins.min() >= -1
        assert margins.max() <= 1
        assert np.array_equal((margins > 0)[margins != 0], (model.predict(X) == y)[margins != 0])


def test_margins_of_a_vote_by_hand(cancer):
    X, y = cancer
    model = AdaBoostClassifier(n_estimators=3).fit(X, y)
    votes = np.array(model._ensemble.value[model._ensemble.apply(X) + model._ensemble.node_offsets[:-1], 0])
    shares = np.sign(votes) @ model.estimator_weights_ / model.estimator_weights_.sum()
    np.testing.assert_allclose(model.margins(X, y), np.where(y == 1, shares, -shares))
    with pytest.raises(ValueError, match="same number of rows"):
        model.margins(X, y[:-1])


@pytest.mark.parametrize("algorithm", VARIANTS)
def test_curves_add_up_to_the_prediction(algorithm, rng):
    pd = pytest.importorskip("pandas")
    n = 300
    table = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "c": pd.Categorical(rng.choice(list("xyz"), n))}
    )
    table.loc[::7, "a"] = np.nan
    y = np.digitize(table["b"] + (table["c"] == "y") + table["a"].isna(), [0, 1])
    for target in (y, y == 1):
        model = AdaBoostClassifier(n_estimators=25, algorithm=algorithm).fit(table, target)
        total = np.zeros((n, model._ensemble.n_outputs)) + model._ensemble.baseline
        for name in table:
            curve = model.contribution_curve(name)
            assert curve.name == name
            column = table[name]
            values = curve.values.reshape(len(curve.values), -1)
            if name == "c":
                part = values[[curve.categories.index(value) for value in column]]
            else:
                part = values[np.searchsorted(curve.thresholds, column.fillna(0), side="left")]
                part = np.where(column.isna().to_numpy()[:, None], curve.missing, part)
            total += part
        raw = model.decision_function(table)
        np.testing.assert_allclose(total, raw.reshape(n, -1), atol=1e-9)


@pytest.mark.parametrize("encoding", ["partition", "target"])
def test_curves_know_missing_values_that_are_a_category(encoding):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"c": ["x", "y", None, "z"] * 10})
    model = AdaBoostClassifier(n_estimators=4, categories=Categories(encoding, missing="category"))
    model.fit(table, table["c"].isna() | (np.arange(40) % 9 == 0))
    curve = model.contribution_curve("c")
    decided = model.decision_function(table[:3])
    np.testing.assert_allclose(curve.missing - curve.values[0], decided[2] - decided[0])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_of_columns_that_say_nothing(n_classes):
    pd, plt = pytest.importorskip("pandas"), pytest.importorskip("matplotlib.pyplot")
    table = pd.DataFrame({"a": np.arange(12), "same": 1.0, "none": np.nan, "empty": pd.Categorical([None] * 12, ["x"])})
    model = AdaBoostClassifier(n_estimators=3).fit(table, np.arange(12) % n_classes)
    for name in ("same", "none", "empty"):
        curve = model.contribution_curve(name)
        assert len(curve.thresholds) == 0
        assert not curve.values.any()
        plt.close(model.plot_contribution_curve(name).figure)


def test_curves_are_for_stumps_and_known_columns(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="contribution curves need an ensemble of stumps: set estimator=None"):
        AdaBoostClassifier(n_estimators=3, max_depth=2).fit(X, y).contribution_curve(0)
    model = AdaBoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="feature must hold column indices from 0 to 29; got 30"):
        model.contribution_curve(30)
    with pytest.raises(ValueError, match="feature must name columns of X; got 'radius'"):
        model.contribution_curve("radius")


def test_plots(cancer, iris):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    for X, y in (cancer, iris):
        model = AdaBoostClassifier(n_estimators=10).fit(X, y)
        assert model.plot_margins(X, y).get_xlabel() == "margin"
        ax = model.plot_contribution_curve(int(model.feature_importances_.argmax()))
        assert len(ax.lines) == (2 if len(model.classes_) == 2 else 4)
        matplotlib.pyplot.close("all")


# Early stopping --------------------------------------------------


@pytest.mark.parametrize("algorithm", VARIANTS)
def test_early_stopping(algorithm):
    X, y = make_classification(1500, 6, flip_y=0.3, random_state=4)
    model = AdaBoostClassifier(n_estimators=300, algorithm=algorithm, n_iter_no_change=5)
    model.fit(X[:500], y[:500], X_val=X[500:], y_val=y[500:])
    assert model.n_estimators_ == np.argmin(model.evals_result_["validation"]["loss"]) + 1
    assert model.n_estimators_ < 300
    assert len(model.evals_result_["validation"]["loss"]) >= model.n_estimators_
    share = AdaBoostClassifier(n_estimators=300, algorithm=algorithm, early_stopping=True, random_state=0).fit(X, y)
    assert share.n_estimators_ < 300


@pytest.mark.parametrize("algorithm", ["discrete", "gentle"])
def test_least_improvements_are_shares_of_a_first_loss_below_1(algorithm, rng):
    X = rng.normal(size=(600, 3))
    y = X.sum(axis=1) > 0
    rows = {"X_val": X[1::2], "y_val": y[1::2]}
    options = {"n_estimators": 3, "algorithm": algorithm, "n_iter_no_change": 1}
    first, second, *_ = (
        AdaBoostClassifier(tol=0.0, **options).fit(X[::2], y[::2], **rows).evals_result_["validation"]["loss"]
    )
    for factor, n_rounds in ((0.99, 3), (1.01, 2)):
        model = AdaBoostClassifier(tol=factor * (first - second) / first, **options).fit(X[::2], y[::2], **rows)
        assert len(model.evals_result_["validation"]["loss"]) == n_rounds


def test_the_validation_loss_matches_the_rows(cancer):
    X, y = cancer
    model = AdaBoostClassifier(n_estimators=6, n_iter_no_change=50).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
    for loss, raw in zip(
        model.evals_result_["validation"]["loss"], model.staged_decision_function(X[1::2]), strict=False
    ):
        assert loss == pytest.approx(np.exp(-0.5 * np.where(y[1::2] == 1, raw, -raw)).mean(), rel=1e-9)


# Saving --------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"algorithm": a} for a in VARIANTS] + [{"max_depth": 2}, {"resample": True}], ids=str
)
def test_saved_and_pickled_models_predict_the_same(options, cancer, iris, tmp_path):
    for X, y in (cancer, iris):
        model = AdaBoostClassifier(n_estimators=6, random_state=0, **options).fit(X, y)
        model.save(tmp_path / "model")
        for copy in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
            assert np.array_equal(copy.margins(X, y), model.margins(X, y))
            assert np.array_equal(copy.feature_importances_, model.feature_importances_)
            assert copy.n_estimators_ == model.n_estimators_


def test_a_loaded_model_can_be_continued(cancer, tmp_path):
    X, y = cancer
    at_once = AdaBoostClassifier(n_estimators=9).fit(X, y)
    AdaBoostClassifier(n_estimators=4, warm_start=True).fit(X, y).save(tmp_path / "model")
    model = fastens.load(tmp_path / "model").set_params(n_estimators=9).fit(X, y)
    assert np.array_equal(model.predict_proba(X), at_once.predict_proba(X))


@pytest.mark.parametrize("model", [AdaBoostRegressor(n_estimators=4), DecisionStumpClassifier()], ids=str)
def test_other_models_are_saved(model, iris, tmp_path):
    X, y = iris
    model.fit(X, y).save(tmp_path / "model")
    assert np.array_equal(fastens.load(tmp_path / "model").predict(X), model.predict(X))


def test_estimator_must_be_one(cancer):
    with pytest.raises(ValueError, match="estimator must be an estimator or None; got 50"):
        AdaBoostClassifier(50).fit(*cancer)

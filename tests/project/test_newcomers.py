"""Everyday tasks as users of scikit-learn, LightGBM and XGBoost would first write them: they work, or say what does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRanker, GradientBoostingRegressor

X, Y = load_diabetes(return_X_y=True, as_frame=True)
LABELS = np.where(Y > 140, "yes", "no")
TRAIN, LATER = slice(0, 300), slice(300, None)
FAST = {"n_estimators": 15}


@pytest.fixture(scope="module")
def model():
    return GradientBoostingClassifier(**FAST).fit(X[TRAIN], LABELS[TRAIN])


def watched(**options):
    """A model that records validation rows: what early stopping with `eval_set` of other libraries becomes."""
    sets = {"test": (X[LATER], LABELS[LATER]), "train": (X[TRAIN], LABELS[TRAIN])}
    model = GradientBoostingClassifier(early_stopping=False, **FAST, **options)
    return model.fit(X[TRAIN], LABELS[TRAIN], X_val=X[LATER], y_val=LABELS[LATER], eval_set=sets)


# Task, what is written first, the error with the right name, and what is written then.
TASKS = {
    "fewer leaves": (
        lambda: GradientBoostingRegressor(num_leaves=7),
        "Use max_leaf_nodes, a parameter of the constructor",
        lambda: GradientBoostingRegressor(max_leaf_nodes=7).fit(X, Y),
    ),
    "stop early": (
        lambda: GradientBoostingClassifier().fit(X, LABELS, early_stopping_rounds=5),
        "Use early_stopping and n_iter_no_change, parameters of the constructor",
        lambda: GradientBoostingClassifier(early_stopping=True, n_iter_no_change=5, **FAST).fit(X, LABELS),
    ),
    "Keras's validation set": (
        lambda: GradientBoostingRegressor().fit(X[TRAIN], Y[TRAIN], validation_data=(X[LATER], Y[LATER])),
        "Use X_val and y_val, parameters of fit",
        lambda: GradientBoostingRegressor(**FAST).fit(X[TRAIN], Y[TRAIN], X_val=X[LATER], y_val=Y[LATER]),
    ),
    "names of validation sets": (
        lambda: GradientBoostingRegressor().fit(X, Y, eval_names=["late"]),
        r"Use eval_set=\{name: \(X, y\)\}, a parameter of fit",
        lambda: GradientBoostingRegressor(**FAST).fit(X, Y, eval_set={"late": (X[LATER], Y[LATER])}),
    ),
    "a metric": (
        lambda: GradientBoostingClassifier(feval="auc"),
        "Use eval_metric, a parameter of the constructor",
        lambda: watched(eval_metric="roc_auc"),
    ),
    "XGBoost's name of a metric": (
        lambda: watched(eval_metric="aucpr"),
        "Use 'average_precision'",
        lambda: watched(eval_metric="average_precision"),
    ),
    "smallest gain": (
        lambda: GradientBoostingRegressor().set_params(growth__gamma=1.0),
        "Growth has no option 'gamma'. Use min_gain_to_split",
        lambda: GradientBoostingRegressor(**FAST).set_params(growth__min_gain_to_split=1.0).fit(X, Y),
    ),
    "NDCG at 5": (
        lambda: GradientBoostingRanker(ndcg_eval_at=5),
        "Use ndcg_at, a parameter of the constructor",
        lambda: GradientBoostingRanker(ndcg_at=5, **FAST).fit(X, Y > 140, group=[221, 221]),
    ),
    "an interval": (
        lambda: fastens.ConformalRegressor(alpha=0.1),
        "Pass the coverage to predict_interval or predict_set",
        lambda: fastens.ConformalRegressor(GradientBoostingRegressor(**FAST)).fit(X, Y).predict_interval(X, 0.9),
    ),
    "the class of another library": (
        lambda: fastens.LGBMClassifier(),  # noqa: PLW0108
        "Use GradientBoostingClassifier",
        lambda: fastens.GradientBoostingClassifier(**FAST).fit(X, LABELS),
    ),
    "a model of LightGBM": (
        lambda: fastens.load(__file__),
        r"it is not a fastens model; use fastens\.from_model for models of other",
        lambda: fastens.from_model(GradientBoostingRegressor(**FAST).fit(X, Y).export(format="lightgbm")),
    ),
    "calibrated probabilities": (
        lambda: GradientBoostingClassifier(calibrate=True),
        "Wrap the fitted or unfitted model in scikit-learn's CalibratedClassifierCV",
        lambda: CalibratedClassifierCV(GradientBoostingClassifier(**FAST), cv=2).fit(X, LABELS),
    ),
    "continued training": (
        lambda: GradientBoostingRegressor().fit(X, Y, resume=True),
        "Use warm_start=True to continue the last fit of this estimator",
        lambda: GradientBoostingRegressor(warm_start=True, **FAST).fit(X, Y).set_params(n_estimators=20).fit(X, Y),
    ),
    "a search": (
        lambda: fastens.TuningConfig(scoring="r2", n_trials=1),
        "Use eval_metric, a parameter of the constructor",
        lambda: fastens.tune(
            X, Y, search=fastens.TuningConfig(("forest",), eval_metric="r2", n_trials=1, n_folds=2), verbose=0
        ).predict(X),
    ),
    "an option in the wrong record": (
        lambda: fastens.EarlyStopping(eval_metric="r2"),
        "Use eval_metric, a parameter of the estimator",
        lambda: GradientBoostingRegressor(early_stopping=True, eval_metric="r2", **FAST).fit(X, Y),
    ),
    "memory": (
        lambda: fastens.estimate_memory(GradientBoostingRegressor(), 442),
        "n_columns must be passed unless n_rows is a table in memory; got int",
        lambda: fastens.estimate_memory(GradientBoostingRegressor(), X).in_memory,
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_the_first_attempt_leads_to_the_second(task):
    first, message, then = TASKS[task]
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        first()
    assert then() is not None


@pytest.mark.parametrize(
    ("attribute", "instead"),
    [
        ("best_iteration_", "Use n_estimators_"),
        ("n_iter_", "Use n_estimators_"),
        ("best_score_", r"Use evals_result_\['validation'\]\[metric\]\[n_estimators_ - 1\]"),
        ("validation_score_", "Use evals_result_"),
        ("train_score_", "Use evals_result_"),
        ("shap_values", r"Use predict_contributions\(X\) or explain\(X\)"),
        ("calibrate", r"Use conformalize\(X, y\) .* or scikit-learn's CalibratedClassifierCV"),
        ("plain", r"Use textbook\(...\)"),
        ("booster_", "Use the estimator itself"),
    ],
)
def test_attributes_of_other_names(attribute, instead, model):
    with pytest.raises(AttributeError, match=instead):
        getattr(model, attribute)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Source", "Use TableSource"),
        ("Tuned", "Use TuningResult"),
        ("RandomSearch", "Use TuningConfig"),
        ("MLClassifier", "Use MaximumLikelihoodClassifier"),
        ("RandomForestClasifier", "Did you mean RandomForestClassifier"),
    ],
)
def test_names_of_the_package(name, instead):
    with pytest.raises(AttributeError, match=f"module 'fastens' has no attribute {name!r}. {instead}"):
        getattr(fastens, name)


def test_watching_without_stopping():
    found = watched(eval_metric=["average_precision", "loss"])
    assert found.n_estimators_ == 15
    assert list(found.evals_result_) == ["training", "validation", "test", "train"]
    assert found.evals_result_.larger_is_better == {"loss": False, "average_precision": True}
    np.testing.assert_equal(found.evals_result_["test"], found.evals_result_["validation"])
    stopped = GradientBoostingClassifier(eval_metric="loss", **FAST)
    stopped.fit(X[TRAIN], LABELS[TRAIN], X_val=X[LATER], y_val=LABELS[LATER])
    np.testing.assert_array_equal(
        found.evals_result_["test"]["loss"][: len(stopped.evals_result_["validation"]["loss"])],
        stopped.evals_result_["validation"]["loss"],
    )


@pytest.mark.parametrize("metric", ["average_precision", "f1", "precision", "roc_auc", "neg_brier_score"])
def test_scorers_by_name_take_labels_of_any_kind(metric):
    texts = watched(eval_metric=metric).evals_result_["test"][metric]
    numbers = GradientBoostingClassifier(early_stopping=False, eval_metric=metric, **FAST)
    sets = [(X[LATER], LABELS[LATER] == "yes", np.ones(142))]
    numbers.fit(X[TRAIN], LABELS[TRAIN] == "yes", eval_set=sets)
    np.testing.assert_allclose(numbers.evals_result_["eval_0"][metric], texts)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"training": (X, Y)}, "eval_set must have names other than 'training' and 'validation'; got 'training'"),
        ([X], r"eval_set must hold pairs \(X, y\) or triples with weights"),
        ([(X.iloc[:, :3], Y)], "eval_set must hold tables and targets of the same form as X and y"),
    ],
)
def test_errors_of_sets(sets, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**FAST).fit(X, Y, eval_set=sets)
    with pytest.raises(ValueError, match="eval_set must be None in distributed fits and"):
        GradientBoostingRegressor(early_stopping=fastens.EarlyStopping(folds=2)).fit(X, Y, eval_set=[(X, Y)])


def test_metrics_need_rows():
    with pytest.raises(ValueError, match="eval_metric must be 'loss' without a validation set"):
        GradientBoostingRegressor(eval_metric="r2").fit(X, Y)


@pytest.mark.parametrize("dart", [False, True])
def test_recorded_sets_of_a_continued_fit(dart):
    options = {"boosting": "dart" if dart else "gbdt", "random_state": 0, "early_stopping": False}
    sets = {"late": (X[LATER], Y[LATER])}
    whole = GradientBoostingRegressor(n_estimators=20, **options).fit(X[TRAIN], Y[TRAIN], eval_set=sets)
    parts = GradientBoostingRegressor(n_estimators=12, warm_start=True, **options).fit(
        X[TRAIN], Y[TRAIN], eval_set=sets
    )
    parts.set_params(n_estimators=20).fit(X[TRAIN], Y[TRAIN], eval_set=sets)
    np.testing.assert_equal(dict(parts.evals_result_), dict(whole.evals_result_))


def test_adaboost_watches_without_stopping():
    options = {"X_val": X[LATER], "y_val": LABELS[LATER]}
    found = fastens.AdaBoostClassifier(n_estimators=20, early_stopping=False).fit(X[TRAIN], LABELS[TRAIN], **options)
    assert found.n_estimators_ == len(found.evals_result_["validation"]["loss"]) == 20


def test_a_folder_is_a_table(tmp_path):
    table = X.assign(target=Y)
    table[TRAIN].to_parquet(tmp_path / "a.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "more").mkdir()
    table[LATER].to_parquet(tmp_path / "more" / "b.parquet")
    found = GradientBoostingRegressor(**FAST).fit(tmp_path, "target")
    np.testing.assert_array_equal(found.predict(X), GradientBoostingRegressor(**FAST).fit(X, Y).predict(X))


def test_a_search_with_defaults(caplog):
    found = fastens.tune(X, LABELS, search=fastens.TuningConfig(("forest",), n_trials=2, n_folds=2))
    assert found.best_estimator_.classes_.tolist() == ["no", "yes"]
    assert found.best_score_ == -found.best.loss
    assert found.best_params_ == found.best.params
    np.testing.assert_array_equal(found.predict(X), found.best_estimator_.predict(X))
    trials = found.to_dataframe()
    assert trials["loss"].min() == found.best.loss
    assert list(trials.index) == [0, 1]
    assert (
        repr(found) == f"TuningResult(RandomForestClassifier, loss {found.best.loss:.4g}, 2 trials, stopped by trials)"
    )
    printed = caplog.text
    assert "tune: classification on 442 rows, 2 folds, at most 60 s" in printed
    assert "trial 0, forest: loss" in printed


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (LABELS, "classification"),
        (Y > 140, "classification"),
        (np.arange(442) % 3, "classification"),
        (np.arange(442.0) % 2, "classification"),
        (np.arange(442) % 40, "regression"),
        (Y.to_numpy(), "regression"),
        (np.arange(442.0) % 2 / 3, "regression"),
    ],
)
def test_the_task_of_a_search(y, task):
    assert fastens.tuning.tune.inferred_task(np.asarray(y)) == task


def test_no_rounds_are_the_constant():
    found = GradientBoostingRegressor(**FAST).fit(X, Y)
    np.testing.assert_allclose(found[:0].predict(X), Y.mean())
    assert found[:0].n_estimators_ == 0


def test_short_texts_of_objects(tmp_path, model):
    assert repr(fastens.Checkpoint(tmp_path / "x", 5)) == f"Checkpoint({str(tmp_path / 'x')!r}, every=5)"
    parts = fastens.bias_variance_decomposition(fastens.DecisionTreeRegressor(), X, Y, n_rounds=2, random_state=0)
    assert repr(parts).startswith("BiasVariance(loss=")
    assert len(repr(parts)) < 80
    assert repr(watched().evals_result_) == (
        "Evaluations('training': loss of 15 rounds; 'validation': loss of 15 rounds; 'test': loss of 15 rounds; "
        "'train': loss of 15 rounds)"
    )


def test_few_names_to_choose_from(model):
    assert set(dir(fastens)) == set(fastens.__all__)
    public = [name for name in dir(model) if not name.startswith("_")]
    assert len(public) <= 50
    assert {"fit", "predict_proba", "classes_", "evals_result_"} <= set(public)
    assert pd.Series(public).is_unique


def test_a_vote_of_draws_from_the_posterior(tmp_path):
    members = [("trees", fastens.RandomForestClassifier(5, random_state=0)), ("bayes", fastens.GaussianNB())]
    found = fastens.GibbsClassifier(members, n_draws=9, random_state=3, temperature=50).fit(X, LABELS)
    drawn = found.drawn_indices_
    assert len(drawn) == 9
    assert drawn[0] == found.chosen_index_
    of_each = np.array([found.estimators_[index].predict_proba(X) for index in drawn])
    np.testing.assert_allclose(found.predict_proba(X), of_each.mean(axis=0))
    votes = (of_each.argmax(axis=2)[:, :, None] == np.arange(2)).sum(axis=0)
    np.testing.assert_array_equal(found.predict(X), found.classes_[votes.argmax(axis=1)])
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), found.predict(X))
    one = fastens.GibbsClassifier(members, random_state=3, temperature=50).fit(X, LABELS)
    np.testing.assert_array_equal(one.predict_proba(X), one.chosen_estimator_.predict_proba(X))

"""The rounds of boosting: what they validate on, what measures them, who watches them."""

from __future__ import annotations

import importlib.util
import sys
import types

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedKFold, TimeSeriesSplit

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingRegressor,
    StopTraining,
)
from fastens.params.options import EarlyStopping, Goss, Mvs
from reference.models import make_target, outputs
from reference.sklearn_checks import parametrize_with_checks


@pytest.fixture
def labels(X, rng):
    return np.array(["no", "yes"])[make_target("binary", X, rng)]


# Validation --------------------------------------------------


def test_a_splitter_gives_the_rows_to_validate_on(X, y):
    splitter = TimeSeriesSplit(4)
    model = GradientBoostingRegressor(
        n_estimators=60, early_stopping=EarlyStopping(validation=splitter), learning_rate=0.3
    ).fit(X, y)
    *_, (train, test) = splitter.split(X)
    same = GradientBoostingRegressor(n_estimators=60, learning_rate=0.3)  # draws the same features: no seed is drawn
    same.fit(X[train], y[train], X_val=X[test], y_val=y[test])
    np.testing.assert_array_equal(outputs(model, X), outputs(same, X))
    np.testing.assert_array_equal(model.evals_result_["validation"]["loss"], same.evals_result_["validation"]["loss"])


def test_groups_reach_the_splitter(X, y):
    groups = np.repeat(np.arange(20), 20)
    weight = np.where(groups == 3, 0.0, 1.0)
    splitter = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(validation=splitter), max_features=1.0)
    model.fit(X, y, weight, groups=groups)
    present = np.flatnonzero(weight)
    train, test = next(splitter.split(X[present], groups=groups[present]))
    train, test = present[train], present[test]
    same = GradientBoostingRegressor(max_features=1.0).fit(X[train], y[train], X_val=X[test], y_val=y[test])
    np.testing.assert_array_equal(outputs(model, X), outputs(same, X))
    with pytest.raises(ValueError, match="groups"):
        GradientBoostingRegressor(early_stopping=EarlyStopping(validation=splitter)).fit(X, y)
    with pytest.raises(ValueError, match=r"groups must have one label for each of the.*got shape \(3,\)"):
        GradientBoostingRegressor(early_stopping=EarlyStopping(validation=splitter)).fit(X, y, groups=[1, 2, 3])
    for options in ({}, {"early_stopping": True}):
        with pytest.raises(
            ValueError, match=r"early_stopping\.validation must be a splitter such as .* if fit gets groups; got None"
        ):
            GradientBoostingRegressor(**options).fit(X, y, groups=groups)


def test_a_stack_keeps_groups_from_members_that_have_no_splitter(X, y):
    groups = np.repeat(np.arange(20), 20)
    members, folds = [("boosting", GradientBoostingRegressor(n_estimators=3))], GroupKFold(4)
    model = StackingRegressor(members, cv=folds)
    same = StackingRegressor(members, cv=list(folds.split(X, y, groups)))
    np.testing.assert_array_equal(model.fit(X, y, groups=groups).predict(X), same.fit(X, y).predict(X))


# Metrics --------------------------------------------------


def error_rate(y_true, probability):
    return ((probability > 0.5) != (y_true == "yes")).mean()


def right(y_true, probability):
    return "hits", 1 - error_rate(y_true, probability), True


def test_several_metrics(X, labels):
    metrics = ["accuracy", "loss", "roc_auc", error_rate, right, make_scorer(accuracy_score, greater_is_better=True)]
    metrics[-1]._score_func = types.FunctionType(accuracy_score.__wrapped__.__code__, globals(), "own")
    validation = {"X_val": X[250:], "y_val": labels[250:]}
    metrics = metrics[:-1]
    model = GradientBoostingClassifier(early_stopping=True, eval_metric=metrics, n_estimators=80, learning_rate=0.3)
    model.fit(X[:250], labels[:250], **validation)
    scores = model.evals_result_["validation"]
    assert list(scores) == ["accuracy", "loss", "roc_auc", "error_rate", "hits"]
    staged = [(predicted == labels[250:]).mean() for predicted in model.staged_predict(X[250:])]
    n = model.n_estimators_
    np.testing.assert_allclose(scores["accuracy"][:n], staged)
    np.testing.assert_allclose(1 - scores["error_rate"], scores["accuracy"])
    np.testing.assert_allclose(scores["hits"], scores["accuracy"])
    larger = {"accuracy": True, "loss": False, "roc_auc": True, "error_rate": False, "hits": True}
    assert model.evals_result_.larger_is_better == larger
    assert n == np.argmax(scores["accuracy"]) + 1


def test_functions_have_the_names_that_they_return(X, y):
    def missed_by(most):
        return lambda y_true, predicted: (f"beyond {most}", (np.abs(y_true - predicted) > most).mean(), False)

    def fitted(*metrics):
        model = GradientBoostingRegressor(n_estimators=2, early_stopping=True, eval_metric=list(metrics))
        return model.fit(X, y)

    assert list(fitted(missed_by(1), missed_by(2)).evals_result_["validation"]) == ["beyond 1", "beyond 2"]
    for metrics in ((missed_by(1), missed_by(1)), (lambda *_: 1.0, lambda *_: 2.0), ("r2", "r2")):
        with pytest.raises(ValueError, match=r"eval_metric must be .* with unique names; got "):
            fitted(*metrics)


def test_the_first_metric_decides(X, labels):
    def rounds(metric):
        model = GradientBoostingClassifier(early_stopping=True, eval_metric=metric, n_estimators=300, learning_rate=0.3)
        return model.fit(X[:250], labels[:250], X_val=X[250:], y_val=labels[250:]).n_estimators_

    assert rounds(["loss", "accuracy"]) == rounds("loss")
    assert rounds(["accuracy", "loss"]) == rounds("accuracy") == rounds(right) == rounds(error_rate)
    assert rounds("accuracy") != rounds("loss")


def test_scorers_of_regression_and_weights(X, y):
    weight = np.random.default_rng(0).random(400)
    options = {"early_stopping": True, "eval_metric": ["neg_mean_absolute_error", mean_absolute_error]}
    model = GradientBoostingRegressor(n_estimators=10, random_state=0, **options).fit(X, y)
    scores = model.evals_result_["validation"]
    np.testing.assert_allclose(-scores["neg_mean_absolute_error"], scores["mean_absolute_error"])
    weighted = GradientBoostingRegressor(n_estimators=10, random_state=0, **options).fit(X, y, weight)
    assert not np.allclose(
        weighted.evals_result_["validation"]["mean_absolute_error"],
        -weighted.evals_result_["validation"]["neg_mean_absolute_error"],
    )


def test_multiclass_probabilities_reach_the_metric(X, rng):
    y = make_target("multiclass", X, rng)
    shapes = []
    model = GradientBoostingClassifier(
        n_estimators=3, early_stopping=True, eval_metric=lambda y, p: shapes.append(p.shape) or 0.0
    )
    model.fit(X, y, X_val=X[:50], y_val=y[:50])
    assert set(shapes) == {(50, 3)}


@pytest.mark.parametrize("as_scorer", [False, True])
def test_a_metric_may_write_over_what_it_is_given(as_scorer, X, y):
    def error(y_true, predicted):
        predicted -= y_true
        predicted **= 2
        y_true[:] = 0
        return predicted.mean()

    metric = make_scorer(error, greater_is_better=False) if as_scorer else error
    options = {"n_estimators": 5, "random_state": 0, "n_iter_no_change": 9}
    model = GradientBoostingRegressor(early_stopping=True, eval_metric=[metric, "loss"], **options).fit(X, y)
    plain = GradientBoostingRegressor(early_stopping=True, **options).fit(X, y)
    losses = plain.evals_result_["validation"]["loss"]
    np.testing.assert_array_equal(model.evals_result_["validation"]["loss"], losses)
    np.testing.assert_allclose(np.abs(model.evals_result_["validation"]["error"]), 2 * losses)


@pytest.mark.parametrize("metric", ["nonsense", 3, [], ["loss", "loss"], ["loss", 3]])
def test_errors_of_metrics(metric, X, y):
    with pytest.raises(ValueError, match="eval_metric must be 'loss', the name of a scorer, 'neg_crps', a callable"):
        GradientBoostingRegressor(early_stopping=True, eval_metric=metric).fit(X, y)


def test_a_metric_must_give_numbers(X, y):
    for answer in (np.nan, "much", ("name", 1.0), ("name", 1.0, "yes"), (1.0, 1.0, True)):
        model = GradientBoostingRegressor(eval_metric=lambda y, p, answer=answer: answer)
        with pytest.raises(ValueError, match=r"eval_metric must (return numbers|be computable)"):
            model.fit(X, y, X_val=X, y_val=y)
    classes = np.arange(400) % 3
    with pytest.raises(ValueError, match="eval_metric must be computable for these targets"):
        GradientBoostingClassifier(early_stopping=True, eval_metric="roc_auc").fit(X, classes, X_val=X, y_val=classes)


def test_scorers_of_probabilities_are_not_for_numbers():
    X = np.arange(40.0).reshape(20, 2)
    model = GradientBoostingRegressor(n_estimators=2, early_stopping=True, eval_metric="roc_auc")
    with pytest.raises(ValueError, match="eval_metric must be computable for these targets"):
        model.fit(X, X[:, 0] % 2)


def test_weights_of_rows_to_validate_on_are_copies(X, labels):
    weight = np.arange(100) % 3
    copies = np.repeat(np.arange(300, 400), weight)
    options = {"early_stopping": True, "eval_metric": ["loss", "accuracy"], "n_estimators": 20}
    model = GradientBoostingClassifier(**options).fit(
        X[:300], labels[:300], X_val=X[300:], y_val=labels[300:], sample_weight_val=weight
    )
    same = GradientBoostingClassifier(**options).fit(X[:300], labels[:300], X_val=X[copies], y_val=labels[copies])
    for name, scores in same.evals_result_["validation"].items():
        np.testing.assert_allclose(model.evals_result_["validation"][name], scores, rtol=1e-12)
    with pytest.raises(ValueError, match="X_val must be passed with sample_weight_val, which holds its weights"):
        model.fit(X, labels, sample_weight_val=weight)


def test_errors_of_rows_to_validate_on_say_so(X, y):
    with pytest.raises(
        ValueError, match=r"validation_fraction must leave at least one row each for training and.*got 0\.1 of 2 rows"
    ):
        GradientBoostingClassifier(early_stopping=True).fit(X[:2], [0, 1])
    for rows, target in ((X[:, :2], y), (X, y[:3])):
        with pytest.raises(ValueError, match="X_val and y_val must have the same form as X and y"):
            GradientBoostingRegressor().fit(X, y, X_val=rows, y_val=target)


def test_rows_to_train_on_and_to_validate_on_differ(X, y):
    overlapping = types.SimpleNamespace(split=lambda *_: [(np.arange(60), np.arange(59, 80))])
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(validation=overlapping))
    with pytest.raises(ValueError, match=r"early_stopping\.validation must yield disjoint training and validation"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"early_stopping": EarlyStopping(validation=5)}, "early_stopping.validation must be a splitter"),
        ({"early_stopping": EarlyStopping(refit=1)}, "early_stopping.refit must be True or False"),
        ({"callbacks": [1]}, "callbacks must be a list of callables"),
        ({"callbacks": print}, "callbacks must be a list of callables"),
        ({"verbose": "loud"}, "verbose must be"),
        ({"sampling": "some"}, "sampling must be one of"),
        ({"sampling": "goss", "subsample": 0.5}, "subsample must be 1 with sampling='goss'"),
        ({"sampling": "mvs"}, "subsample must be below 1 with sampling='mvs'"),
        ({"sampling": Goss(top_rate=0.8, other_rate=0.3)}, "top_rate \\+ sampling.other_rate must be at most 1"),
        ({"sampling": Goss(top_rate=1.0)}, "top_rate must be"),
        ({"sampling": Goss(other_rate=0.0)}, "other_rate must be"),
        ({"sampling": Mvs(regularization=-1.0)}, "sampling.regularization must be"),
        ({"oob_score": True}, r"oob_score must be False if every round trains on all rows\. Set"),
        ({"warm_start": "yes"}, "warm_start must be"),
    ],
)
def test_errors_of_parameters(options, message, X, y):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**options).fit(X, y)


# Sampling --------------------------------------------------

SAMPLING = [
    {"subsample": 0.5},
    {"sampling": "goss"},
    {"sampling": "mvs", "subsample": 0.4},
    {"sampling": Mvs(regularization=5.0), "subsample": 0.4},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", SAMPLING, ids=str)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "binary", "multiclass"])
def test_sampling_acts_and_does_not_depend_on_threads_or_order(options, loss, rng):
    X = rng.standard_normal((3000, 5))
    y = make_target(loss, X, rng)
    kind = GradientBoostingClassifier if loss in ("binary", "multiclass") else GradientBoostingRegressor
    options = options | ({} if kind is GradientBoostingClassifier else {"loss": loss})
    models = [kind(n_estimators=15, random_state=0, n_jobs=n, **options).fit(X, y) for n in (1, 3)]
    np.testing.assert_array_equal(outputs(models[0], X), outputs(models[1], X))
    order = rng.permutation(3000)
    shuffled = kind(n_estimators=15, random_state=0, **options).fit(X[order], y[order])
    np.testing.assert_allclose(outputs(shuffled, X), outputs(models[0], X), rtol=1e-9)
    all_rows = kind(n_estimators=15, **({"loss": loss} if "loss" in options else {})).fit(X, y)
    assert not np.array_equal(outputs(models[0], X), outputs(all_rows, X))
    assert models[0].evals_result_["training"]["loss"][-1] < 1.3 * all_rows.evals_result_["training"]["loss"][-1] + 0.05


def test_parameters_of_sampling_act(X, y):
    def fitted(**options):
        return outputs(GradientBoostingRegressor(random_state=0, n_estimators=5, **options).fit(X, y), X)

    base = fitted(sampling="goss")
    assert not np.array_equal(base, fitted(sampling=Goss(top_rate=0.4)))
    assert not np.array_equal(base, fitted(sampling=Goss(other_rate=0.4)))
    mvs = fitted(sampling="mvs", subsample=0.5)
    assert not np.array_equal(mvs, fitted(sampling=Mvs(regularization=10.0), subsample=0.5))
    assert not np.array_equal(mvs, fitted(sampling="uniform", subsample=0.5))


def test_out_of_bag_predictions_are_of_the_rounds_that_are_kept(X, y):
    options = {"subsample": 0.5, "oob_score": True, "random_state": 0, "learning_rate": 0.5, "early_stopping": True}
    stopped = GradientBoostingRegressor(**options).fit(X, y)
    assert stopped.n_estimators_ < len(stopped.oob_improvement_)
    fewer = GradientBoostingRegressor(n_estimators=stopped.n_estimators_, **options).fit(X, y)
    np.testing.assert_array_equal(stopped.predict(X), fewer.predict(X))
    np.testing.assert_array_equal(stopped.oob_prediction_, fewer.oob_prediction_)


def test_out_of_bag_estimates(X, labels, y):
    weight = np.ones(400)
    weight[7] = 0
    options = {"subsample": 0.5, "oob_score": True, "random_state": 0, "n_estimators": 60}
    model = GradientBoostingClassifier(**options).fit(X[:300], labels[:300], weight[:300])
    assert model.oob_improvement_.shape == (60,)
    assert model.oob_improvement_[:5].min() > 0
    found = model.oob_decision_function_
    assert found.shape == (300, 2)
    assert np.isnan(found[7]).all()
    seen = np.delete(np.arange(300), 7)
    np.testing.assert_allclose(found[seen].sum(axis=1), 1)
    oob = (model.classes_[found[seen].argmax(axis=1)] == labels[:300][seen]).mean()
    assert oob < model.score(X[:300], labels[:300])
    assert abs(oob - model.score(X[300:], labels[300:])) < 0.1
    regressor = GradientBoostingRegressor(**options).fit(X, y)
    assert regressor.oob_prediction_.shape == (400,)
    assert not hasattr(regressor.set_params(oob_score=False).fit(X, y), "oob_improvement_")


# Callbacks --------------------------------------------------


def test_arguments_of_callbacks(X, y):
    seen = []
    model = GradientBoostingRegressor(
        n_estimators=4, callbacks=[seen.append], early_stopping=True, eval_metric=["r2", "loss"]
    )
    model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert [env.iteration for env in seen] == [0, 1, 2, 3]
    assert {(env.begin_iteration, env.end_iteration) for env in seen} == {(0, 4)}
    assert seen[0].params["n_estimators"] == 4
    assert seen[0].evaluation_result_list[1].metric_name == "r2"
    assert seen[0].evaluation_result_list[1].maximize
    for index, env in enumerate(seen):
        assert env.evaluation_result_list == [
            ("training", "loss", model.evals_result_["training"]["loss"][index], False),
            ("validation", "r2", model.evals_result_["validation"]["r2"][index], True),
            ("validation", "loss", model.evals_result_["validation"]["loss"][index], False),
        ]


def stop_at(number, how):
    def callback(env):
        if env.iteration == number:
            if how is None:
                return True
            raise how
        return None

    return callback


@pytest.mark.parametrize("how", [None, StopTraining])
def test_a_callback_stops_the_training(how, X, y):
    model = GradientBoostingRegressor(n_estimators=50, callbacks=[stop_at(6, how)]).fit(X, y)
    assert model.n_estimators_ == len(model.evals_result_["training"]["loss"]) == 7
    plain = GradientBoostingRegressor(n_estimators=7).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_a_callback_that_fails_leaves_the_rounds_before_it(X, y):
    model = GradientBoostingRegressor(n_estimators=50, callbacks=[stop_at(6, RuntimeError("mine"))])
    with pytest.raises(RuntimeError, match="mine"):
        model.fit(X, y)
    plain = GradientBoostingRegressor(n_estimators=7).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_the_model_so_far(X, y):
    scores = []
    model = GradientBoostingRegressor(n_estimators=5, callbacks=[lambda env: scores.append(env.model.predict(X))])
    model.fit(X, y)
    np.testing.assert_array_equal(scores, list(model.staged_predict(X)))


def test_callbacks_are_not_saved(X, y, tmp_path):
    model = GradientBoostingRegressor(
        n_estimators=5, callbacks=[print], early_stopping=True, eval_metric=["r2", mean_absolute_error]
    )
    model.fit(X, y, X_val=X, y_val=y)
    model.save(tmp_path / "model")
    again = fastens.load(tmp_path / "model")
    assert again.callbacks is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert list(again.evals_result_["validation"]) == ["r2", "mean_absolute_error"]
    assert again.n_estimators_ == model.n_estimators_


def test_a_bar(X, y, capsys, monkeypatch):
    GradientBoostingRegressor(n_estimators=20, verbose="bar").fit(X, y)
    assert "20/20" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "rich", None)
    GradientBoostingRegressor(n_estimators=20, verbose="bar").fit(X, y)


@pytest.mark.skipif(importlib.util.find_spec("sklearn.callback") is None, reason="before scikit-learn 1.9")
def test_callbacks_of_scikit_learn(X, y):
    calls = []

    class Watch:
        def setup(self, estimator, context):
            calls.append("setup")

        def teardown(self, estimator, context):
            calls.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            calls.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            calls.append((context.task_name, fitted_estimator.n_estimators_, fitted_estimator.predict(X[:1])[0]))
            return len(calls) > 6

    model = GradientBoostingRegressor(n_estimators=10).set_callbacks(Watch()).fit(X, y)
    assert calls[:2] == ["setup", "begin fit"]
    assert calls[-1] == "teardown"
    ends = [call for call in calls if isinstance(call, tuple)]
    assert [end[:2] for end in ends] == [("round", 1), ("round", 2), ("round", 3), ("fit", 3)]
    staged = [predicted[0] for predicted in model.staged_predict(X[:1])]
    assert [end[2] for end in ends[:3]] == staged


@parametrize_with_checks(
    [
        GradientBoostingClassifier(sampling="goss", min_samples_leaf=1, n_estimators=20, early_stopping=False),
        GradientBoostingRegressor(sampling="mvs", subsample=0.6, oob_score=True, min_samples_leaf=1, n_estimators=20),
        GradientBoostingClassifier(subsample=0.6, warm_start=True, n_estimators=20),
    ]
)
def test_sklearn_check(check):
    check()


def test_rows_to_validate_on_are_given_once(rng):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(validation=TimeSeriesSplit(3)))
    with pytest.raises(ValueError, match=r"early_stopping\.validation must be None with X_val, because it selects"):
        model.fit(X, y, X_val=X, y_val=y)


# LightGBM's callbacks --------------------------------------------------


def test_callbacks_of_lightgbm(X, y, capfd):
    lightgbm = pytest.importorskip("lightgbm")
    record = {}
    callbacks = [lightgbm.log_evaluation(5), lightgbm.record_evaluation(record)]
    model = GradientBoostingRegressor(n_estimators=10, early_stopping=True, random_state=0, callbacks=callbacks)
    model.fit(X, y)
    np.testing.assert_array_equal(record["training"]["loss"], model.evals_result_["training"]["loss"])
    np.testing.assert_array_equal(record["validation"]["loss"], model.evals_result_["validation"]["loss"])
    shown = capfd.readouterr().out
    assert shown.count("validation's loss") == 2
    assert "[10]" in shown


def test_early_stopping_of_lightgbm(X, y):
    lightgbm = pytest.importorskip("lightgbm")
    options = {"n_estimators": 400, "learning_rate": 0.5, "early_stopping": True, "random_state": 0}
    own = GradientBoostingRegressor(n_iter_no_change=5, tol=0.0, **options).fit(X, y)
    theirs = GradientBoostingRegressor(
        n_iter_no_change=400, callbacks=[lightgbm.early_stopping(5, verbose=False)], **options
    ).fit(X, y)
    assert theirs.n_estimators_ == own.n_estimators_ < 300
    np.testing.assert_array_equal(outputs(theirs, X), outputs(own, X))


def test_a_splitter_without_splits():
    splitter = TimeSeriesSplit(3)
    splitter.split = lambda *given: iter(())
    with pytest.raises(ValueError, match=r"early_stopping\.validation must yield a split of the rows"):
        GradientBoostingRegressor(early_stopping=EarlyStopping(validation=splitter)).fit([[1.0], [2.0]], [1.0, 2.0])


def test_a_splitter_that_cannot_split():
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(validation=StratifiedKFold(2)))
    with pytest.raises(ValueError, match=r"early_stopping\.validation=Stratified.* cannot split the rows: Sup"):
        model.fit([[1.0], [2.0], [3.0]], [1.5, 2.0, 3.0])

"""Stacking: no leakage, any folds, any members, one result."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification, make_regression
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import StackingClassifier as PeerStack
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, RepeatedKFold, TimeSeriesSplit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import fastens
from fastens import (
    ConformalClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
)
from fastens.combining.folds import MemberError
from fastens.combining.stackers import LogisticStacker, RidgeStacker
from fastens.engine.bins import binning
from fastens.modelfile.storage import load_model


def boosting(n_estimators=10, **parameters):
    return GradientBoostingClassifier(n_estimators=n_estimators, min_samples_leaf=2, **parameters)


def members():
    return [("boosting", boosting()), ("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(random_state=0))]


@pytest.fixture(scope="module")
def table():
    return make_classification(300, 8, n_informative=5, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def binary():
    return make_classification(400, 6, n_informative=4, random_state=1)


class Noise(GaussianNB):
    """Knows the labels of the rows that it was trained on, and nothing of others."""

    def fit(self, X, y, sample_weight=None):
        self.seen = {row.tobytes(): label for row, label in zip(np.asarray(X), y, strict=True)}
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X):
        rng = np.random.default_rng(0)
        share = rng.random((len(X), len(self.classes_)))
        for place, row in enumerate(np.asarray(X)):
            if row.tobytes() in self.seen:
                share[place] = 1e-6
                share[place, np.searchsorted(self.classes_, self.seen[row.tobytes()])] = 1.0
        return share / share.sum(axis=1, keepdims=True)


def test_a_member_that_memorises_gets_no_weight(binary):
    X, y = binary
    model = StackingClassifier([("noise", Noise()), ("boosting", boosting())]).fit(X, y)
    noise, honest = np.abs(model.final_estimator_.coef_[0])
    assert noise < 0.1 * honest


def test_shuffled_labels_give_chance(binary):
    X, y = binary
    shuffled = np.random.default_rng(0).permutation(y)
    model = StackingClassifier([("boosting", boosting()), ("noise", Noise())]).fit(X[::2], shuffled[::2])
    loss = log_loss(shuffled[1::2], model.predict_proba(X[1::2]))
    assert loss < np.log(2) + 0.06  # nothing was learned, and the stacker knows


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("cv", [KFold(4), 3, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)])
def test_out_of_fold_predictions_come_from_models_without_the_row(table, refit, cv):
    X, y = table
    model = StackingClassifier([("a", boosting())], cv=cv, refit=refit).fit(X, y)
    total, count = np.zeros((len(y), 3)), np.zeros((len(y), 1))
    splits = sklearn.model_selection.check_cv(cv, y, classifier=True).split(X, y)
    models = []
    for train, test in splits:
        models.append(boosting().fit(X[train], y[train]))
        np.add.at(total, test, models[-1].predict_proba(X[test]))
        np.add.at(count, test, 1)
    np.testing.assert_array_equal(model.oof_predictions_["a"], total / count)
    expected = boosting().fit(X, y).predict_proba(X) if refit else np.mean([m.predict_proba(X) for m in models], axis=0)
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-12)


@pytest.mark.slow
def test_same_as_scikit_learn_at_equal_settings(table):
    X, y = table
    peer = PeerStack(members(), LogisticRegression(), cv=4).fit(X, y)
    model = StackingClassifier(members(), LogisticRegression(), cv=4, refit=True).fit(X, y)
    np.testing.assert_array_equal(model.transform(X), peer.transform(X))
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.slow
def test_labels_of_any_kind(table):
    X, y = table
    names = np.array(["c", "a", "b"])[y]
    model = StackingClassifier(members(), LogisticRegression(), cv=3).fit(X, names)
    assert set(model.predict(X)) <= {"a", "b", "c"}
    assert model.score(X, names) > 0.8
    linear = StackingClassifier(members(), cv=3).fit(X, names)
    assert linear.score(X, names) > 0.8


@pytest.mark.slow
def test_groups_and_time(binary):
    X, y = binary
    groups = np.arange(len(y)) // 50
    model = StackingClassifier(members(), cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert not np.isnan(model.oof_predictions_["bayes"]).any()
    in_time = StackingClassifier(members(), cv=TimeSeriesSplit(4)).fit(X, y)
    unknown = np.isnan(in_time.oof_predictions_["bayes"]).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(unknown), np.arange(80))
    assert in_time.score(X, y) > 0.8


def test_levels_in_time_use_only_rows_with_predictions(binary):
    X, y = binary
    levels = [[("a", boosting()), ("b", GaussianNB())], [("c", boosting()), ("d", LogisticRegression())]]
    model = StackingClassifier(levels=levels, cv=TimeSeriesSplit(4)).fit(X, y)
    unknown = [int(np.isnan(model.oof_predictions_[name]).any(axis=1).sum()) for name in "abcd"]
    assert unknown == [80, 80, 160, 160]
    assert model.score(X, y) > 0.7


@pytest.mark.slow
def test_two_levels_are_two_stacks(binary):
    X, y = binary
    first, second = [("a", boosting()), ("b", GaussianNB())], [("c", LogisticRegression())]
    model = StackingClassifier(levels=[first, second], cv=KFold(4)).fit(X, y)
    lower = StackingClassifier(first, cv=KFold(4)).fit(X, y)
    meta = np.hstack([lower.oof_predictions_[name][:, 1:] for name in "ab"])
    upper = StackingClassifier(second, cv=KFold(4)).fit(meta, y)
    np.testing.assert_array_equal(model.oof_predictions_["c"], upper.oof_predictions_["c"])
    np.testing.assert_array_equal(model.predict_proba(X), upper.predict_proba(lower.transform(X)))


def test_cascade_gives_the_columns_to_the_final_estimator(binary):
    X, y = binary
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(kind=np.where(X[:, 0] > 0, "left", "right"))
    model = StackingClassifier([("m", boosting())], passthrough=True, cv=3).fit(frame, y)
    assert isinstance(model.final_estimator_, GradientBoostingClassifier)
    expected = ["stackingclassifier_m", *"abcdef", "kind"]
    assert model.final_estimator_.feature_names_in_.tolist() == expected
    assert model.get_feature_names_out().tolist() == expected
    pd.testing.assert_frame_equal(model.transform(frame)[list("abcdef")], frame[list("abcdef")])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_members_see_their_columns(binary, make):
    X, y = binary
    frame = make(dict(zip("abcdef", X.T, strict=True)))
    views = {"left": ["a", "b"], "right": [2, 3, 4]}
    model = StackingClassifier([("left", boosting()), ("right", boosting())], columns=views, cv=3, refit=True).fit(
        frame, y
    )
    assert model.named_estimators_["left"].feature_names_in_.tolist() == ["a", "b"]
    assert model.named_estimators_["right"].feature_names_in_.tolist() == ["c", "d", "e"]
    turned = frame[list("fedcba")] if make is pd.DataFrame else frame.select(list("fedcba"))
    np.testing.assert_array_equal(model.predict_proba(turned), model.predict_proba(frame))


def test_unknown_columns_are_named(binary):
    X, y = binary
    with pytest.raises(ValueError, match="columns must name columns of X; got 'z'"):
        StackingClassifier(members(), columns={"bayes": ["z"]}).fit(pd.DataFrame(X, columns=list("abcdef")), y)
    with pytest.raises(ValueError, match=r"columns must name members.*got 'x'"):
        StackingClassifier(members(), columns={"x": [0]}).fit(X, y)


def test_binned_once_for_all_members_of_a_fold(binary, monkeypatch):
    X, y = binary
    made = []
    finish = binning.BinningSketch.finish
    monkeypatch.setattr(binning.BinningSketch, "finish", lambda sketch: made.append(1) or finish(sketch))
    three = [(name, boosting(learning_rate=rate)) for name, rate in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    model = StackingClassifier(three, cv=4, refit=True, n_jobs=1).fit(X, y)
    assert len(made) == 5  # four folds and the whole
    for name, member in three:
        alone = clone(member).fit(X, y)
        np.testing.assert_array_equal(model.named_estimators_[name].predict_proba(X), alone.predict_proba(X))


@pytest.mark.slow
def test_the_result_does_not_depend_on_threads(table):
    X, y = table
    one, many = (StackingClassifier(members(), n_jobs=n, cv=3).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.predict_proba(X), many.predict_proba(X))


@pytest.mark.slow
def test_random_state_seeds_members_without_a_seed(binary):
    X, y = binary
    model = StackingClassifier(
        [("a", boosting(subsample=0.5)), ("b", boosting(subsample=0.5))], random_state=3, refit=True
    )
    first, second = (clone(model).fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    fitted = model.fit(X, y).named_estimators_
    assert fitted["a"].random_state != fitted["b"].random_state


@pytest.mark.parametrize("cv", [2, "prefit"])
def test_random_state_seeds_the_final_estimator(cv, binary):
    X, y = binary
    members = [("bayes", GaussianNB().fit(X, y))]
    model = StackingClassifier(members, RandomForestClassifier(2), cv=cv, passthrough=True, random_state=0)
    first, second = (model.fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("cv", [KFold(3), LeaveOneGroupOut()])
def test_weights_are_repetitions_and_zero_is_absence(binary, cv):
    X, y = binary
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    groups = np.arange(len(y)) % 3
    rows = np.repeat(np.arange(len(y)), weight)
    folds = list(LeaveOneGroupOut().split(X, groups=groups))
    repeated = list(LeaveOneGroupOut().split(X[rows], groups=groups[rows]))
    model = StackingClassifier([("a", GradientBoostingClassifier(n_estimators=5, min_samples_leaf=1))], cv=folds)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    copied = model.set_params(cv=repeated).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-7)
    assert np.isnan(weighted.oof_predictions_["a"][weight == 0]).all()
    assert not np.isnan(weighted.oof_predictions_["a"][weight > 0]).any()


def test_weights_reach_pipelines_and_a_member_without_them_is_named(binary):
    X, y = binary
    weight = np.linspace(0.5, 2, len(y))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = StackingClassifier([("p", pipeline)], cv=3, refit=True).fit(X, y, sample_weight=weight)
    alone = clone(pipeline).fit(X, y, logisticregression__sample_weight=weight)
    np.testing.assert_allclose(model.named_estimators_["p"].predict_proba(X), alone.predict_proba(X))


class _Recorder(GaussianNB):
    """Classifier that counts its fits."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).n_fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("kind", "parameters", "name"),
    [
        (StackingClassifier, {}, "knn"),
        (StackingClassifier, {"levels": [[("first", _Recorder())], [("knn", KNeighborsClassifier())]]}, "knn"),
        (StackingClassifier, {"final_estimator": KNeighborsClassifier()}, "final_estimator"),
        (fastens.VotingClassifier, {}, "knn"),
        (fastens.VotingClassifier, {"weights": "nnls"}, "knn"),
        (fastens.WeightedMajorityClassifier, {}, "knn"),
        (fastens.CascadeForestClassifier, {}, "knn"),
        (fastens.ConformalClassifier, {"estimator": KNeighborsClassifier()}, "estimator"),
    ],
)
def test_members_without_weights_raise_type_error_before_any_fit(binary, kind, parameters, name):
    X, y = binary
    has_other_members = "final_estimator" in parameters or "levels" in parameters
    members = [("first", _Recorder()), *([] if has_other_members else [("knn", KNeighborsClassifier())])]
    given = {} if {"levels", "estimator"} & {*parameters} else {"estimators": members}
    _Recorder.n_fits = 0
    with pytest.raises(TypeError, match=f"sample_weight must be None with member '{name}'"):
        kind(**given, **parameters).fit(X, y, sample_weight=np.linspace(0.5, 2, len(y)))
    assert _Recorder.n_fits == 0


def test_members_lack_every_method_of_auto(binary):
    class Silent(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

    needed = "one of the methods predict_proba, decision_function, predict; Silent does not"
    with pytest.raises(ValueError, match=f"Member 'silent' must have {needed}"):
        StackingClassifier([("silent", Silent())]).fit(*binary)


@pytest.mark.parametrize("kind", [StackingClassifier, fastens.VotingClassifier])
def test_named_estimators_list_dropped_members_in_order(binary, kind):
    model = kind([("a", GaussianNB()), ("b", "drop"), ("c", GaussianNB())]).fit(*binary)
    assert list(model.named_estimators_) == list(model.named_estimators) == ["a", "b", "c"]
    assert model.named_estimators_["b"] == "drop"
    assert [model.named_estimators_["a"], model.named_estimators_["c"]] == model.estimators_
    model.set_params(a="drop", b=GaussianNB())  # parameters of the next fit
    assert model.named_estimators_["b"] == "drop"
    assert model.named_estimators_["a"] is model.estimators_[0]


def test_validation_rows_reach_members_that_stop_early(binary):
    X, y = binary
    model = StackingClassifier([("a", boosting(200, learning_rate=0.5)), ("b", GaussianNB())], cv=3, refit=True)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert model.named_estimators_["a"].n_estimators_ < 200
    with pytest.raises(ValueError, match="X_val and y_val must be passed together"):
        model.fit(X, y, X_val=X)


def test_metadata_routing(binary):
    X, y = binary
    weight = np.linspace(0, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        asks = GaussianNB().set_fit_request(sample_weight=True)
        not_asks = DecisionTreeClassifier(max_depth=2, random_state=0).set_fit_request(sample_weight=False)
        model = StackingClassifier([("asks", asks), ("not", not_asks)], cv=3, refit=True).fit(
            X, y, sample_weight=weight
        )
    kept = weight > 0
    np.testing.assert_allclose(
        model.named_estimators_["asks"].predict_proba(X),
        GaussianNB().fit(X[kept], y[kept], weight[kept]).predict_proba(X),
    )
    plain = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.named_estimators_["not"].predict_proba(X), plain.predict_proba(X))


class Fails(GaussianNB):
    """Fails while a flag stands."""

    broken = True

    def fit(self, X, y, sample_weight=None):
        if Fails.broken:
            raise RuntimeError("out of luck")
        return super().fit(X, y, sample_weight)


class Counts(GaussianNB):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counts.fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.slow
def test_finished_members_are_kept_when_a_later_one_fails(binary):
    X, y = binary
    Counts.fits, Fails.broken = 0, True
    model = StackingClassifier([("good", Counts()), ("bad", Fails())], cv=KFold(3, shuffle=True), refit=True, n_jobs=1)
    with pytest.raises(MemberError, match=r"'bad' failed.*out of luck.*warm_start=True: good"):
        model.fit(X, y)
    done = Counts.fits
    assert done > 0
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X)
    Fails.broken = False
    model.set_params(warm_start=True).fit(X, y)
    assert Counts.fits == 4
    before = Counts.fits
    model.set_params(estimators=[*model.estimators, ("new", LogisticRegression())]).fit(X, y)
    assert Counts.fits == before  # only the new member was fitted
    model.fit(X[:-1], y[:-1])
    assert Counts.fits == before + 4  # other rows: nothing is kept


def test_prefit_members(binary):
    X, y = binary
    fitted = [("a", boosting().fit(X[:200], y[:200])), ("b", GaussianNB().fit(X[:200], y[:200]))]
    model = StackingClassifier(fitted, cv="prefit").fit(X[200:], y[200:])
    assert model.named_estimators_["a"] is fitted[0][1]
    assert model.score(X, y) > 0.8


def test_a_class_that_a_fold_has_not_seen(rng):
    X = rng.normal(size=(60, 3))
    y = np.repeat(["a", "b", "c"], 20)
    X[:, 0] += np.repeat([0, 3, 6], 20)
    groups = np.where(y == "c", 0, np.arange(60) % 3)
    model = StackingClassifier(members(), cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    assert (model.oof_predictions_["bayes"][groups == 0][:, 2] == 0).all()
    assert model.predict_proba(X).shape == (60, 3)


def test_other_methods_of_members(binary):
    X, y = binary
    model = StackingClassifier([("svc", LinearSVC()), ("a", boosting())], cv=3).fit(X, y)
    assert model.transform(X).shape == (len(y), 2)
    assert model.score(X, y) > 0.8
    by_label = StackingClassifier(members(), stack_method="predict", cv=3, refit=True).fit(X, y)
    assert set(np.unique(by_label.transform(X))) == {0.0, 1.0}
    with pytest.raises(ValueError, match="'svc' must have the method predict_proba"):
        StackingClassifier([("svc", LinearSVC())], stack_method="predict_proba").fit(X, y)


@pytest.mark.parametrize("final", [None, "boosting", LinearRegression()])
def test_regression(final):
    X, y = make_regression(300, 6, noise=20.0, random_state=0)
    members = [("boosting", GradientBoostingRegressor(n_estimators=30)), ("line", LinearRegression())]
    model = StackingRegressor(members, final, cv=4).fit(X[::2], y[::2])
    best = max(clone(member).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for _, member in members)
    assert model.score(X[1::2], y[1::2]) > best - (0.2 if final == "boosting" else 0.01)
    assert model.oof_predictions_["line"].shape == (150, 1)


@pytest.mark.parametrize("groups", [np.zeros(10), np.zeros(10**4), 3, [["a"], ["b"]]], ids=repr)
def test_groups_are_one_for_each_row(binary, groups):
    X, y = binary
    for model in (StackingClassifier(members(), cv=3), ConformalClassifier(cv=None)):
        with pytest.raises(ValueError, match=rf"groups must have one label for each of the {len(y)} rows; got shape"):
            model.fit(X, y, groups=groups)


def test_parameters_by_name(binary):
    X, y = binary
    model = StackingClassifier(members(), cv=3)
    model.set_params(boosting__n_estimators=3, tree="drop", bayes=LogisticRegression())
    assert model.get_params()["boosting__n_estimators"] == 3
    model.fit(X, y)
    assert model.named_estimators_["tree"] == "drop"
    assert model.estimators_ == [model.named_estimators_[name] for name in ("boosting", "bayes")]
    assert isinstance(clone(model).named_estimators["bayes"], LogisticRegression)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimators": []}, "at least one estimator"),
        ({"estimators": [("a", boosting()), ("a", boosting())]}, "got 'a' more than once"),
        ({"estimators": [("a__b", boosting())]}, "without '__'"),
        (
            {"estimators": [("cv", boosting())]},
            "estimators must have names that differ from the parameters of the.*got 'cv'",
        ),
        ({"estimators": [("a", GradientBoostingRegressor())]}, "'a' must be a classifier"),
        ({"estimators": "a"}, "estimators must be a list"),
        ({"final_estimator": LinearRegression()}, "final_estimator must be a classifier"),
        ({"final_estimator": LinearRegression}, "final_estimator must be an estimator .* got <class"),
        ({"final_estimator": "forest"}, "final_estimator must be an estimator or one of|final_estimator must be"),
        ({"cv": [([0, 1, 2], [2, 3])]}, "disjoint training and test rows"),
        (
            {"cv": [([0, 1, 2], [10**6])]},
            "cv must yield pairs of training and test rows, as indices or masks of the",
        ),
        (
            {"cv": [(np.array([True, False]),) * 2]},
            "cv must yield pairs of training and test rows, as indices or masks of the",
        ),
        (
            {"cv": SimpleNamespace(split=lambda *given: [([0, 1], [10**6])])},
            "cv must yield pairs of training and test rows, as indices or masks of the",
        ),
        ({"cv": [1, 2]}, "cv must yield pairs of training and test rows, as indices or masks of the"),
        ({"levels": [[("a", boosting())]]}, r"estimators must be None if levels are passed\."),
        ({"levels": [members(), [("a", "drop")]], "estimators": None}, "levels must hold .* each; level 2 has none"),
    ],
)
def test_bad_input_is_named(binary, parameters, message):
    X, y = binary
    with pytest.raises(ValueError, match=message):
        StackingClassifier(**{"estimators": members(), **parameters}).fit(X, y)


@pytest.mark.slow
def test_diagram_pickle_and_set_output(binary):
    X, y = binary
    model = StackingClassifier(members(), cv=3).fit(X, y)
    assert "boosting" in model._repr_html_()
    assert "c" in StackingClassifier(levels=[members(), [("c", boosting())]])._repr_html_()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    named = model.set_output(transform="pandas").transform(X)
    assert named.columns.tolist() == [f"stackingclassifier_{name}" for name, _ in members()]


def test_default_members(binary):
    X, y = binary
    model = StackingClassifier(cv=2, random_state=0).fit(X[:150], y[:150])
    assert list(model.named_estimators_) == ["boosting", "random_forest", "extra_trees"]
    assert model.score(X[150:], y[150:]) > 0.8


@pytest.mark.slow
def test_nested_stacks(binary):
    X, y = binary
    inner = StackingClassifier([("x", boosting()), ("y", GaussianNB())], cv=3)
    outer = StackingClassifier([("inner", inner), ("z", boosting(5))], cv=3).fit(X, y)
    assert outer.score(X, y) > 0.85


# Files --------------------------------------------------


@pytest.mark.slow
def test_a_composed_model_is_one_file(binary, tmp_path):
    X, y = binary
    inner = StackingClassifier([("x", boosting()), ("y", boosting(5))], cv=3)
    names = np.array(["no", "yes"])[y]
    model = StackingClassifier([("inner", inner), ("z", boosting(5))], cv=3, refit=False).fit(X, names)
    model.save(tmp_path / "model")
    same = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    np.testing.assert_array_equal(same.oof_predictions_["z"], model.oof_predictions_["z"])
    assert clone(same).fit(X, names).score(X, names) == model.score(X, names)


def test_members_of_other_libraries_are_pickled_only_when_asked(binary, tmp_path):
    X, y = binary
    model = StackingClassifier(members(), cv=3).fit(X, y)
    with pytest.raises(TypeError, match=r"Member 'bayes' is a sklearn.*GaussianNB.*allow_pickle=True"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    model.save(tmp_path / "model", allow_pickle=True)
    with pytest.raises(fastens.ModelFileError, match="allow_pickle=True"):
        fastens.load(tmp_path / "model")
    same = fastens.load(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    with pytest.raises(TypeError, match="allow_pickle"):
        same.save(tmp_path / "again")


@pytest.fixture
def said_and_true():
    """Probabilities of four classes by one member that knows something and one that makes them up; and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    odds = rng.normal(size=(400, 4)) + 2 * np.eye(4)[labels]
    knows, makes_up = softmax(odds, axis=1), softmax(rng.normal(size=(400, 4)), axis=1)
    return np.hstack([knows, makes_up]), labels


def test_several_classes_are_pooled_by_a_coefficient_a_member(said_and_true):
    X, y = said_and_true
    model = LogisticStacker().fit(X, y)
    pulls = model.coef_[0, [0, 4]]
    np.testing.assert_array_equal(model.coef_, np.kron(pulls, np.eye(4)))
    assert pulls[0] > 1.5
    assert abs(pulls[1]) < 0.15
    at_zero = LogisticStacker()
    at_zero.__dict__.update({**vars(model), "coef_": model.coef_ * 0})

    def loss(of):
        return log_loss(y, of.predict_proba(X))

    assert loss(model) < min(log_loss(y, X[:, :4]), loss(at_zero))
    for k in (0, 1):  # no other coefficient is better
        for step in (-0.05, 0.05):
            moved = LogisticStacker()
            other = pulls + step * np.eye(2)[k]
            moved.__dict__.update({**vars(model), "coef_": np.kron(other, np.eye(4))})
            assert loss(moved) * 400 + other @ other / 2 > loss(model) * 400 + pulls @ pulls / 2


def test_pool_weights_are_repetition(said_and_true):
    X, y = said_and_true
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = LogisticStacker().fit(X, y, sample_weight=weight)
    repeated = LogisticStacker().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


def test_columns_next_to_probabilities_have_coefficients_for_each_class(said_and_true):
    X, y = said_and_true
    model = LogisticStacker().fit(np.hstack([X, np.arange(400)[:, None], np.ones((400, 3))]), y)
    assert np.unique(model.coef_).size > 4


@pytest.mark.filterwarnings("error", "ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("weight", [None, np.array([1e300, 2e300, 1e300, 1e300])])
def test_default_final_estimators_take_infinities_passed_through(weight):
    X = np.array([[-np.inf, 0.0, 1.7e308], [np.inf, 1.0, -1.7e308], [1.0, np.nan, 0.0], [2.0, 3.0, 1.0]])
    X = np.column_stack([X, np.full(4, np.nan)])
    ridge = RidgeStacker().fit(X, [0.0, 1.0, 0.5, 0.5], sample_weight=weight)
    assert np.isfinite(ridge.predict(X)).all()
    assert ridge.predict(X[:2])[0] < 0.5 < ridge.predict(X[:2])[1]
    logistic = LogisticStacker().fit(X, [0, 1, 0, 1], sample_weight=weight)
    assert np.isfinite(logistic.predict_proba(X)).all()


@pytest.mark.parametrize("stacker", [LogisticStacker(), RidgeStacker()])
def test_columns_of_default_final_estimators_do_not_depend_on_the_scale_of_weights(stacker, rng):
    X, weight = rng.normal(size=(60, 3)), rng.random(60)
    small = stacker._learn_columns(X, weight)
    np.testing.assert_array_equal(stacker._learn_columns(X, weight * 2.0**900), small)


@pytest.mark.parametrize("scale", [2.0**-7, 2.0**-40])
def test_small_numbers_are_combined_as_large_ones_are(scale, rng):
    """Predicted numbers between 0 and 1 are no probabilities."""
    X = rng.normal(size=(200, 2))
    y = np.exp(X @ [1.0, 0.3])
    model = StackingRegressor([("line", LinearRegression()), ("constant", DummyRegressor())], cv=KFold(2))
    predicted = clone(model).fit(X, y).predict(X)
    small = model.fit(X, y * scale)
    np.testing.assert_allclose(small.predict(X) / scale, predicted, rtol=1e-9, atol=1e-9)
    boosted = StackingRegressor([("boosting", GradientBoostingRegressor(n_estimators=3))], cv=KFold(2))
    assert boosted.fit(X, y * scale).explain(X[:5]).values.shape == (5, 2)


@pytest.mark.parametrize("stacker", [LogisticStacker(), RidgeStacker()])
def test_penalties_of_default_final_estimators_match_rows_where_weights_sum_to_1(stacker, rng):
    X, weight = rng.normal(size=(60, 3)), rng.random(60)
    y = (X @ [1.0, -1.0, 0.5] + rng.normal(size=60) > 0).astype(float)
    coefficients = [clone(stacker).fit(X, y, sample_weight=weight * scale).coef_ for scale in (0.5, 1 / 60, 2.0**-40)]
    np.testing.assert_allclose(coefficients[1], coefficients[0], rtol=1e-6)
    np.testing.assert_allclose(coefficients[2], coefficients[0], rtol=1e-6)


def test_names_of_columns_ask_members_for_their_tags_a_few_times_each(binary):
    asked = 0

    class Asked(fastens.GaussianNB):
        def __sklearn_tags__(self):
            nonlocal asked
            asked += 1
            return super().__sklearn_tags__()

    model = StackingClassifier([(f"m{k}", Asked()) for k in range(9)], cv=2).fit(*binary)
    asked = 0
    assert len(model.get_feature_names_out()) == 9
    assert asked <= 3 * 9


# Several targets --------------------------------------------------


@pytest.fixture(scope="module")
def two_targets():
    X, y = make_regression(200, 5, n_targets=2, noise=10.0, random_state=3)
    return X, np.column_stack([y[:, 0], y[:, 0] * X[:, 1] + y[:, 1] ** 2 / 50])


@pytest.mark.parametrize("weighted", [False, True])
def test_several_targets_match_a_stack_written_by_hand(two_targets, weighted, tmp_path):
    X, Y = two_targets
    weight = np.random.default_rng(0).integers(1, 4, len(Y)).astype(float) if weighted else None
    members, cv = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))], KFold(4)
    model = StackingRegressor(members, Ridge(), cv=cv, refit=True).fit(X, Y, sample_weight=weight)
    table, whole = [], []
    for _, member in members:
        found = np.empty_like(Y)
        for train, test in cv.split(X):
            own = None if weight is None else weight[train]
            found[test] = clone(member).fit(X[train], Y[train], sample_weight=own).predict(X[test])
        table.append(found)
        whole.append(clone(member).fit(X, Y, sample_weight=weight).predict(X))
    final = Ridge().fit(np.hstack(table), Y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), final.predict(np.hstack(whole)), rtol=1e-8)
    np.testing.assert_allclose(model.transform(X), np.hstack(whole))
    np.testing.assert_allclose(model.oof_predictions_["tree"], table[1])
    names = ["stackingregressor_line0", "stackingregressor_line1", "stackingregressor_tree0", "stackingregressor_tree1"]
    assert model.get_feature_names_out().tolist() == names
    model.save(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(fastens.load(tmp_path / "model", allow_pickle=True).predict(X), model.predict(X))
    with pytest.raises(ValueError, match="explain supports only one target"):
        model.explain(X)


@pytest.mark.slow
@pytest.mark.parametrize("final", [None, "boosting"])
@pytest.mark.parametrize("levels", [1, 2])
def test_several_targets_of_default_stacks(two_targets, final, levels, tmp_path):
    X, Y = two_targets[0].copy(), two_targets[1]
    boosting = GradientBoostingRegressor(n_estimators=10, min_samples_leaf=2)
    forest = fastens.RandomForestRegressor(5, random_state=0)
    stack = [[("boosting", boosting), ("forest", forest)], [("again", boosting)]][:levels]
    model = StackingRegressor(levels=stack, final_estimator=final, passthrough=levels == 2, cv=3, n_jobs=1)
    X[0, 0] = np.nan
    predicted = model.fit(X, Y, X_val=X[:20], y_val=Y[:20]).predict(X)
    assert predicted.shape == Y.shape
    assert model.score(X, Y) > 0.5
    np.testing.assert_array_equal(
        clone(model).set_params(n_jobs=2).fit(X, Y, X_val=X[:20], y_val=Y[:20]).predict(X), predicted
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), predicted)
    with pytest.raises(ValueError, match=r"same number of targets as in fit, 2; got 1"):
        model.fit(X, Y, X_val=X[:20], y_val=Y[:20, 0])
    assert model.fit(X, Y[:, 0]).predict(X).shape == (200,)


def test_ridge_of_several_targets_is_a_ridge_of_each(two_targets, tmp_path):
    X, Y = two_targets
    weight = np.arange(len(Y)) % 3 + 1.0
    model = RidgeStacker(alpha=2.0).fit(X, Y, sample_weight=weight)
    assert model.coef_.shape == (2, 5)
    for target, predicted in zip(Y.T, model.predict(X).T, strict=True):
        np.testing.assert_allclose(RidgeStacker(alpha=2.0).fit(X, target, sample_weight=weight).predict(X), predicted)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model", lambda kind: RidgeStacker, "")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_estimators_of_one_target_name_the_remedy(two_targets):
    X, Y = two_targets
    line = [("line", LinearRegression())]
    with pytest.raises(
        MemberError, match=r"Member 'svr' failed .* wrapped in sklearn.multioutput.MultiOutputRegressor"
    ):
        StackingRegressor([("svr", LinearSVR())], cv=3).fit(X, Y)
    with pytest.raises(
        MemberError, match=r"final_estimator cannot be fitted: .* sklearn.multioutput.MultiOutputRegress"
    ):
        StackingRegressor(line, LinearSVR(), cv=3).fit(X, Y)
    quantiles = GradientBoostingRegressor(loss="quantile", quantile=[0.1, 0.9], n_estimators=2)
    with pytest.raises(MemberError, match=r"must return 2 numbers for each row, one for each target; got the shape"):
        StackingRegressor([("quantiles", quantiles)], cv=3).fit(X, Y)
    wrapped = StackingRegressor([("svr", MultiOutputRegressor(LinearSVR()))], cv=3).fit(X, Y)
    assert wrapped.predict(X).shape == Y.shape

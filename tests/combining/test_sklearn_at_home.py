"""Bagging, stacking and voting as scikit-learn reads them: members, decisions, arguments and metadata passed on."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier as OtherForest
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import fastens
from fastens import (
    BaggingClassifier,
    BaggingRegressor,
    BayesOptimalClassifier,
    CascadeForestClassifier,
    CascadeForestRegressor,
    ConformalClassifier,
    ConformalRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingSurvival,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
    WeightedMajorityClassifier,
    load,
)
from fastens.combining.responses import MemberError

X, y = load_iris(return_X_y=True)
binary = y > 0


class Noted(BaseEstimator):
    """Notes what it is given, says nothing of its kind, and returns nothing from fit."""

    def fit(self, X, y, sample_weight=None):
        self.given_ = X, y, sample_weight

    def predict(self, X):
        return np.zeros(X.shape[0])


class Told(ClassifierMixin, BaseEstimator):
    """Predicts the first class, and keeps what it is told."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X, lesson=None):
        self.told_ = lesson
        return np.tile(np.eye(len(self.classes_))[0], (len(X), 1))


class ToldNumber(RegressorMixin, BaseEstimator):
    """Predicts what it is told, 0 otherwise."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X, lesson=0.0):
        return np.full(len(X), lesson)


class OneColumn(ClassifierMixin, BaseEstimator):
    """Gives one column of decisions, however many targets there are."""

    def fit(self, X, y):
        self.classes_ = np.arange(2)
        return self

    def decision_function(self, X):
        return np.zeros(len(X))


# Bagging --------------------------------------------------


@pytest.mark.parametrize("given", [None, LogisticRegression(max_iter=500)])
def test_a_bag_is_a_sequence_of_members(given):
    model = BaggingClassifier(given, n_estimators=4, random_state=0).fit(X, y)
    assert len(model) == 4
    assert [type(member) for member in model] == [type(model[0])] * 4
    assert len(model[1:3]) == 2
    assert isinstance(model.estimator_, DecisionTreeClassifier if given is None else LogisticRegression)
    assert_allclose(np.mean([member.predict_proba(X) for member in model], axis=0), model.predict_proba(X), atol=1e-6)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@pytest.mark.parametrize("bootstrap", [True, False])
def test_samples_and_features_of_members(bootstrap):
    weight = np.arange(len(y)) % 2
    options = {"bootstrap": bootstrap, "max_samples": 0.4, "max_features": 2, "random_state": 0}
    model = BaggingRegressor(Ridge(), 5, sampling="rows", **options).fit(X, y, weight)
    for member, rows, columns in zip(model, model.estimators_samples_, model.estimators_features_, strict=True):
        assert len(rows) == 30
        assert (weight[rows] == 1).all()
        again = clone(member).fit(X[rows][:, columns], y[rows])
        assert_allclose(again.coef_, member.coef_)


def test_samples_of_bags_of_trees_match_the_forest():
    model = BaggingClassifier(n_estimators=3, random_state=0).fit(X, y)
    for number, rows in enumerate(model.estimators_samples_):
        assert_array_equal(np.bincount(rows, minlength=150), model.in_bag(number))


TREE_BAGS = {
    "a forest": {},
    "columns": {"max_features": 2},
    "random thresholds": {"splitter": "random"},
    "columns drawn with repetitions": {"bootstrap_features": True},
    "rows": {"sampling": "rows", "max_features": 3},
    "without replacement": {"bootstrap": False, "max_samples": 0.5},
    "bags with one class": {"bootstrap": False, "max_samples": 2},
}


@pytest.mark.parametrize("kind", [BaggingClassifier, BaggingRegressor])
@pytest.mark.parametrize("name", TREE_BAGS)
def test_leaves_of_bags_of_trees(kind, name, tmp_path):
    options = dict(TREE_BAGS[name])
    tree = DecisionTreeClassifier if kind is BaggingClassifier else DecisionTreeRegressor
    model = kind(tree(splitter=options.pop("splitter", "best")), 5, random_state=0, **options).fit(X, y)
    leaves = model.apply(X)
    assert leaves.shape == (150, 5)
    assert leaves.dtype == np.int32
    whole_table = model.estimators_features_ if model._forest is None else [slice(None)] * 5
    for column, member, columns in zip(leaves.T, model, whole_table, strict=True):
        own = member.apply(X[:, columns]) if hasattr(member, "apply") else np.zeros(150)
        assert_array_equal(column, own)
    model.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").apply(X), leaves)
    if name != "bags with one class":
        assert len(np.unique(leaves)) > 1


def test_only_bags_of_trees_have_leaves():
    assert_array_equal(BaggingClassifier(random_state=0).fit(X, y).apply(X[:3]).shape, (3, 10))
    model = BaggingRegressor(Ridge(), 2).fit(X, y)
    assert not hasattr(model, "apply")
    with pytest.raises(AttributeError, match="apply"):
        model.apply(X)
    with pytest.raises(NotFittedError):
        BaggingClassifier().apply(X)
    with pytest.raises(ValueError, match="BaggingClassifier"):
        BaggingClassifier(random_state=0).fit(X, y).apply(X[:, :2])


@pytest.mark.parametrize("target", [binary, y])
def test_decision_function_is_the_mean_of_the_members(target):
    model = BaggingClassifier(SVC(), n_estimators=5, random_state=0).fit(X, target)
    found = model.decision_function(X)
    assert_allclose(found, np.mean([member.decision_function(X) for member in model], axis=0))
    assert found.shape == ((150,) if target is binary else (150, 3))
    assert not hasattr(BaggingClassifier(), "decision_function")
    assert not hasattr(BaggingClassifier(SVC(), voting="hard"), "decision_function")


def test_decision_function_of_a_bag_of_one_class():
    one = np.arange(150) == 7
    model = BaggingClassifier(SVC(), n_estimators=5, random_state=0).fit(X, one)
    with pytest.raises(ValueError, match=r"decision_function needs at least two classes in every bag\. Use"):
        model.decision_function(X)


@pytest.mark.parametrize("kind", [sparse.csc_matrix, sparse.csc_array, sparse.csr_matrix])
def test_members_get_the_kind_of_sparse_table_that_was_given(kind):
    model = BaggingRegressor(Noted(), 2, random_state=0).fit(kind(X), y)
    assert [type(member.given_[0]) for member in model] == [kind] * 2


def test_members_of_no_kind():
    assert_array_equal(BaggingRegressor(Noted(), 2).fit(X, y).predict(X), 0)
    assert_array_equal(BaggingClassifier(Noted(), 2).fit(X, y).predict(X), 0)
    with pytest.raises(ValueError, match="estimator must be a classifier; got StandardScaler"):
        BaggingClassifier(StandardScaler(), 2).fit(X, y)


@pytest.mark.parametrize(
    "wrap", [clone, make_pipeline, FrozenEstimator, lambda own: GridSearchCV(make_pipeline(own), {}, scoring="r2")]
)
@pytest.mark.parametrize("member", [GradientBoostingRanker(), GradientBoostingSurvival()])
def test_rankers_and_survival_models_are_not_members(member, wrap):
    member = wrap(member)
    for model in (VotingRegressor([("a", member)]), BaggingRegressor(member), ConformalRegressor(member)):
        with pytest.raises(ValueError, match="must be a regressor; got "):
            model.fit(X, y)
    with pytest.raises(ValueError, match="final_estimator must be a classifier; got "):
        StackingClassifier([("bayes", GaussianNB())], member).fit(X, y > np.median(y))


def test_members_get_their_draws_as_weights_with_routing_on():
    with config_context(enable_metadata_routing=True):
        model = BaggingRegressor(Noted().set_fit_request(sample_weight=True), 3, random_state=0)
        model.fit(X, y, sample_weight=np.arange(len(y)) % 3)
    for member, rows in zip(model, model.estimators_samples_, strict=True):
        assert_array_equal(member.given_[2], np.bincount(rows)[np.unique(rows)])


def test_metadata_reaches_the_method_that_members_answer_with():
    with config_context(enable_metadata_routing=True):
        model = BaggingClassifier(Told().set_predict_proba_request(lesson=True), 2, random_state=0).fit(X, y)
        for method in ("predict", "predict_proba", "predict_log_proba"):
            getattr(model, method)(X, lesson=method)
            assert [member.told_ for member in model] == [method] * 2
        numbers = BaggingRegressor(ToldNumber().set_predict_request(lesson=True), 2, random_state=0).fit(X, y)
        assert_array_equal(numbers.predict(X, lesson=3.5), 3.5)
        with pytest.raises(TypeError, match="not routed"):
            numbers.predict(X, other=1)
    with pytest.raises(TypeError, match=r"BaggingRegressor.predict\(\) got an unexpected keyword argument 'lesson'"):
        numbers.predict(X, lesson=3.5)


ASKING = {"sample_weight": True, "X_val": True, "y_val": True, "groups": False}
FEW = np.random.default_rng(0).permutation(len(y))[:60]


def routed_and_not(make, names):
    """Probabilities or predictions of an ensemble with routing on, and off; `make` gets what members of it ask for."""
    weight, held_out = np.arange(60) % 4, np.arange(len(y))[::3]
    given = {"sample_weight": weight, "X_val": X[held_out], "y_val": y[held_out]}
    given = {name: given[name] for name in names}
    found = []
    for is_on in (True, False):
        with config_context(enable_metadata_routing=is_on):
            model = make(lambda member, is_on=is_on: member.set_fit_request(**ASKING) if is_on else member)
            model.fit(X[FEW], y[FEW], **given)
            found.append(getattr(model, "predict_proba", model.predict)(X))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        lambda: VotingRegressor(random_state=0),
        lambda: StackingClassifier(cv=2, random_state=0),
        lambda: WeightedMajorityClassifier(cv=2, random_state=0),
        lambda: CascadeForestRegressor(cv=2, max_layers=1, random_state=0),
        lambda: ConformalRegressor(random_state=0),
        lambda: ConformalClassifier(random_state=0),
    ],
)
def test_members_that_come_with_the_ensemble_get_weights_with_routing_on(kind):
    routed, plain = routed_and_not(lambda ask: kind(), ["sample_weight"])
    assert_array_equal(routed, plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda one, two: StackingClassifier(levels=[[one], [two]], cv=2),
        lambda one, two: StackingClassifier(levels=[[one], [two]], cv=2, passthrough=True),
        lambda one, two: VotingClassifier([one, two], columns={"a": [1, 2]}, voting="soft"),
        lambda one, two: CascadeForestClassifier([one], cv=2, max_layers=2),
    ],
)
def test_rows_to_validate_on_fit_the_table_of_the_member_with_routing_on(make):
    def of_boosting(ask):
        return make(*((name, ask(GradientBoostingClassifier(n_estimators=30, max_depth=2))) for name in "ab"))

    routed, plain = routed_and_not(of_boosting, ["sample_weight", "X_val", "y_val"])
    assert_array_equal(routed, plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: CascadeForestClassifier(cv=2, max_layers=2, random_state=0),
        lambda: BayesOptimalClassifier([("a", LogisticRegression()), ("b", Told())]),
    ],
)
def test_ensembles_read_rows_to_validate_on_themselves_with_routing_on(make):
    routed, plain = routed_and_not(lambda ask: make(), ["X_val", "y_val"])
    assert_array_equal(routed, plain)


# Stacking and voting --------------------------------------------------


def test_predict_of_a_stack_passes_arguments_on():
    X, y = load_diabetes(return_X_y=True)
    model = StackingRegressor([("ridge", Ridge())], BayesianRidge(), cv=3).fit(X, y)
    mean, deviation = model.predict(X, return_std=True)
    assert_allclose(mean, model.predict(X))
    assert (deviation > 0).all()


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("passthrough", [False, True])
def test_stacks_that_give_frames_predict_as_others(passthrough):
    frames = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    members = [("tree", DecisionTreeClassifier(random_state=0))]
    model = StackingClassifier(members, passthrough=passthrough, cv=2).fit(frames, binary)
    expected = model.predict_proba(frames)
    assert list(model.set_output(transform="pandas").transform(frames).columns[:1]) == ["stackingclassifier_tree"]
    assert_array_equal(model.predict_proba(frames), expected)
    numbers = StackingRegressor([("tree", fastens.DecisionTreeRegressor(random_state=0))], cv=2).fit(frames, y)
    plain = numbers.explain(frames[:5]).values
    assert_array_equal(numbers.set_output(transform="pandas").explain(frames[:5]).values, plain)


def test_metadata_reaches_the_final_estimator():
    with config_context(enable_metadata_routing=True):
        final = ToldNumber().set_predict_request(lesson=True)
        model = StackingRegressor([("ridge", Ridge())], final, cv=3).fit(X, y)
        assert_array_equal(model.predict(X, lesson=2.0), 2.0)
        with pytest.raises(TypeError, match="not routed"):
            model.predict(X, other=2.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda member: VotingClassifier([("a", member)]),
        lambda member: StackingClassifier([("a", member)], cv=2),
        lambda member: CascadeForestClassifier([("a", member)], max_layers=1, cv=2),
        lambda member: BaggingClassifier(member, n_estimators=2, random_state=0),
        lambda member: BayesOptimalClassifier([("a", member)], cv=2),
        lambda member: ConformalClassifier(member, cv=2, random_state=0),
    ],
)
def test_weights_count_in_scores_that_request_them(make):
    weight = np.arange(len(y)) % 4
    with config_context(enable_metadata_routing=True):
        model = make(DecisionTreeClassifier(max_depth=1, random_state=0).set_fit_request(sample_weight=True))
        options = {"cv": [(np.arange(0, len(y), 2), np.arange(1, len(y), 2))], "params": {"sample_weight": weight}}
        (plain,) = cross_val_score(model, X, y, **options)
        (weighted,) = cross_val_score(clone(model).set_score_request(sample_weight=True), X, y, **options)
        model.fit(X[::2], y[::2], sample_weight=weight[::2])
        assert plain == model.score(X[1::2], y[1::2])
        assert weighted == model.score(X[1::2], y[1::2], sample_weight=weight[1::2]) != plain


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_set_output_is_of_transform_alone(kind, passthrough):
    members = [("tree", DecisionTreeClassifier(max_depth=2))]
    for final in (LogisticRegression(max_iter=2000), DecisionTreeClassifier(max_depth=3)):
        model = StackingClassifier(members, final, cv=2, passthrough=passthrough).fit(kind(X), y)
        expected = model.predict_proba(kind(X))
        assert_array_equal(model.set_output(transform="pandas").predict_proba(kind(X)), expected)
        assert_array_equal(model.predict(kind(X)), expected.argmax(axis=1))


class TakesNotes(LogisticRegression):
    """Keeps what `fit` was given."""

    def fit(self, X, y, sample_weight=None, notes=None):
        self.notes_, self.weight_ = notes, sample_weight
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("requests", [{"notes": True}, {"notes": True, "sample_weight": True}, {}])
def test_fit_of_the_final_estimator_gets_what_it_requests(requests):
    weight, notes = np.arange(len(y)) % 3, np.arange(len(y))
    with config_context(enable_metadata_routing=True):
        member = TakesNotes().set_fit_request(notes=True, sample_weight=True)
        final = TakesNotes().set_fit_request(**requests) if requests else TakesNotes()
        model = StackingClassifier([("a", member)], final, cv=3)
        if requests == {"notes": True}:
            with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
                model.fit(X, y, sample_weight=weight, notes=notes)
            return
        model.fit(X, y, sample_weight=weight, notes=notes)
    kept = weight > 0
    assert_array_equal(model.final_estimator_.weight_, weight[kept])
    if requests:
        assert_array_equal(model.final_estimator_.notes_, notes[kept])
    else:
        assert model.final_estimator_.notes_ is None


@pytest.mark.parametrize(
    "notes", ["twelve words", pd.DataFrame(np.ones((20, 2))), sparse.csr_matrix(np.ones((20, 2)))], ids=type
)
def test_metadata_that_is_not_by_row_stays_whole(notes):
    X, y, weight = np.arange(12.0)[:, None], np.arange(12) % 2, np.append(np.ones(10), [0, 0])
    with config_context(enable_metadata_routing=True):
        member = TakesNotes().set_fit_request(notes=True, sample_weight=True)
        model = VotingClassifier([("a", member)]).fit(X, y, sample_weight=weight, notes=notes)
        bags = BaggingClassifier(member, 2).fit(X, y, notes=notes)
    assert {model.estimators_[0].notes_ is notes, *(each.notes_ is notes for each in bags)} == {True}


def test_metadata_of_bags_of_one_class():
    with config_context(enable_metadata_routing=True):
        model = BaggingClassifier(TakesNotes().set_fit_request(notes=True), 3, max_samples=2, random_state=0)
        model.fit(X[:40], np.arange(40) == 7, notes="rare")
    assert "OneClassClassifier" in {type(member).__name__ for member in model}


@pytest.mark.parametrize("target", [binary, y])
def test_decision_function_of_the_default_final_estimator(target):
    model = StackingClassifier([("logistic", LogisticRegression(max_iter=500))], cv=3).fit(X, target)
    found, proba = model.decision_function(X), model.predict_proba(X)
    expected = np.log(proba[:, 1] / proba[:, 0]) if target is binary else np.log(proba)
    if target is y:
        found, expected = found - found[:, :1], expected - expected[:, :1]
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert_allclose(model.predict_log_proba(X), np.log(proba))


def test_errors_of_absent_methods_say_whose_they_are():
    model = StackingClassifier([("a", LogisticRegression())], DecisionTreeClassifier()).fit(X, y)
    with pytest.raises(AttributeError, match="has no attribute 'decision_function'") as error:
        model.decision_function(X)
    assert "DecisionTreeClassifier" in str(error.value.__cause__)


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (VotingClassifier([("a", Ridge())], verbose=True), None),
        (
            VotingRegressor([("a", Ridge()), ("b", Ridge())], verbose=1),
            ["Member 'a', all rows", "Member 'b', all rows"],
        ),
        (
            StackingRegressor([("a", Ridge())], cv=2, verbose=True),
            ["Member 'a', fold 1 of 2", "Member 'a', fold 2 of 2"],
        ),
        (
            BaggingRegressor(Ridge(), 2, verbose=1),
            ["[BaggingRegressor] member 1 of 2", "[BaggingRegressor] member 2 of 2"],
        ),
        (VotingRegressor([("a", Ridge())]), []),
    ],
)
def test_verbose_logs_the_fits(model, lines, caplog):
    if lines is None:
        with pytest.raises(ValueError, match="Member 'a' must be a classifier"):
            model.fit(X, y)
        return
    with caplog.at_level(logging.INFO, logger="fastens"):
        model.fit(X, y)
    found = sorted(record.getMessage() for record in caplog.records)
    assert [line.rpartition(":")[0] for line in found] == lines
    assert all(line.endswith(" s") for line in found)


# Several targets --------------------------------------------------

labels = np.column_stack([X[:, 0] > 5.8, X[:, 1] > 3]).astype(int)
named = np.column_stack([np.array(["no", "yes"])[labels[:, 0]], np.array(["a", "b", "c"])[y]])
FOREST = RandomForestClassifier(10, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("final", [None, "boosting", KNeighborsClassifier(), OtherForest(10, random_state=0)])
def test_stacking_of_several_targets(final):
    members = [("ours", FOREST), ("theirs", OtherForest(10, random_state=0)), ("line", RidgeClassifier())]
    model = StackingClassifier(members, final, cv=3).fit(X, labels)
    assert model.stack_method_ == ["predict_proba", "predict_proba", "decision_function"]
    assert model.transform(X).shape == (150, 6)
    assert len(model.get_feature_names_out()) == 6
    assert (model.predict(X) == labels).mean() > 0.85
    assert model.score(X, labels) > 0.7
    for proba, target in zip(model.predict_proba(X), labels.T, strict=True):
        assert_allclose(proba.sum(axis=1), 1)
        assert ((proba[:, 1] > 0.5) == target).mean() > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("member", [FOREST, OtherForest(10, random_state=0)])
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_stacking_of_several_targets_of_any_number_of_classes(member, method):
    cv = KFold(3, shuffle=True, random_state=0)
    model = StackingClassifier([("a", member)], member, cv=cv, stack_method=method).fit(X, named)
    assert model.transform(X).shape == (150, 4)  # the second of two classes, and three
    assert [part.tolist() for part in model.classes_] == [["no", "yes"], ["a", "b", "c"]]
    assert (model.predict(X) == named).mean() > 0.9
    assert [proba.shape for proba in model.predict_proba(X)] == [(150, 2), (150, 3)]


def test_a_stack_of_several_targets_predicts_as_its_parts():
    model = StackingClassifier([("a", OtherForest(5, random_state=0))], KNeighborsClassifier(), cv=3, refit=True)
    model.fit(X, labels)
    [member] = model.estimators_
    table = np.column_stack([proba[:, 1] for proba in member.predict_proba(X)])
    assert_allclose(model.transform(X), table)
    assert_array_equal(model.predict(X), model.final_estimator_.predict(table))
    out_of_fold = model.oof_predictions_["a"]
    assert out_of_fold.shape == (150, 2)
    assert np.abs(out_of_fold - table).max() > 0.1


def test_saving_of_several_targets(tmp_path):
    model = StackingClassifier([("a", FOREST)], FOREST, cv=3).fit(X, named)
    model.save(tmp_path / "stack.fastens")
    again = fastens.load(tmp_path / "stack.fastens")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.predict_proba(X)[1], model.predict_proba(X)[1])


def test_members_of_one_target_say_so():
    with pytest.raises(ValueError, match="Member 'svc' failed in fold 0"):
        StackingClassifier([("svc", SVC())], cv=3).fit(X, labels)
    with pytest.raises(MemberError, match=r"must predict values for targets of.*got the shape"):
        StackingClassifier([("a", OneColumn())], FOREST, cv=3).fit(X, named)

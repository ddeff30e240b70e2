"""Parameters that are set after `fit` leave the fitted model as it is, in files too; the next fit reads them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import issparse

import fastens
from reference.public_estimators import make, shrink_default_members, table_for

SMALL = {"n_estimators": 3, "n_jobs": 1, "random_state": 0}
LEVELS = {"loss": "quantile", "quantile": [0.1, 0.5, 0.9]}
# An estimator, what it is fitted with, and what is set then.
CHANGES = [
    ("RandomForestClassifier", {"averaging": "posterior"}, {"averaging": None}),
    ("RandomForestClassifier", {"oob_score": True}, {"bootstrap": False}),
    ("RandomForestClassifier", {}, {"feature_weights": [1, 0, 1, 2]}),
    ("RandomForestClassifier", {"min_samples_leaf": 9}, {"voting": "hard"}),
    ("DecisionTreeClassifier", {}, {"max_features": 1}),
    ("ExtraTreesRegressor", {}, {"bootstrap": True, "max_depth": 1}),
    ("RandomForestRegressor", {"averaging": "posterior"}, {"criterion": "poisson"}),
    ("GradientBoostingClassifier", {}, {"loss": "one_vs_rest"}),
    ("GradientBoostingClassifier", {}, {"loss": "exponential"}),
    ("GradientBoostingRegressor", {}, {"loss": "poisson"}),
    ("GradientBoostingRegressor", LEVELS, {"quantile": None}),
    ("GradientBoostingRegressor", LEVELS, {"loss": "absolute_error", "quantile": None}),
    ("GradientBoostingSurvival", {}, {"loss": "aft"}),
    ("GradientBoostingSurvival", {"loss": "aft"}, {"loss": "cox"}),
    ("AdaBoostClassifier", {}, {"algorithm": "gentle"}),
    ("BernoulliNB", {}, {"binarize": 2.0, "alpha": 3.0}),
    ("AODEClassifier", {}, {"order": 2, "smoothing": "bdeu"}),
    ("TANClassifier", {}, {"root": 7}),
    ("TextClassifier", {}, {"model": "bernoulli"}),
    ("BayesianNetwork", {}, {"alpha": 2.0}),
    ("BayesianNetwork", {"max_bins": 3}, {"max_bins": None}),
    ("BayesianNetwork", {}, {"class_name": "y", "hidden": {"h": 2}}),
    ("BayesianNetwork", {}, {"smoothing": "none"}),
    ("BayesTreeClassifier", {}, {"alpha": 2.0, "split_prior": 0.1}),
    ("BayesTreeRegressor", {}, {"criterion": "poisson", "temperature": 2.0}),
    ("ExactTreeAverageClassifier", {}, {"alpha": 1.0}),
    ("VersionSpaceClassifier", {}, {"noise": 0.2, "positive": 2}),
    ("FiniteHypothesisLearner", {}, {"likelihoods": None}),
    ("BayesOptimalClassifier", {}, {"noise": 0.2}),
    ("StackingRegressor", {}, {"passthrough": True}),
    ("StackingClassifier", {}, {"estimators": "drop"}),
    ("BaggingClassifier", {"estimator": fastens.DecisionTreeClassifier(max_depth=1)}, {"voting": "hard"}),
    ("VotingClassifier", {}, {"voting": "soft"}),
    ("VotingClassifier", {"voting": "soft"}, {"voting": "hard", "flatten_transform": False}),
    ("ExtraTreesClassifier", {}, {"categories": "unknown", "categorical_features": "unknown"}),
    ("ConformalClassifier", {}, {"conformity": "aps"}),
]
METHODS = (
    *("predict", "predict_proba", "predict_set", "predict_interval", "predict_proba_interval", "predict_variance"),
    *("predict_quantiles", "predict_std", "score_samples", "transform"),
)
ATTRIBUTES = ("feature_importances_", "max_features_", "log_evidence_", "expected_n_leaves_")


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 2)


def fitted(name, parameters):
    model = make(name)
    small = {key: value for key, value in SMALL.items() if key in model.get_params(deep=False)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(**small, **parameters).fit(*table_for(name))


def answers(model, X, y):
    found = {}
    for name in METHODS:
        if hasattr(model, name):
            try:
                found[name] = dense(getattr(model, name)(X))
            except (ValueError, AttributeError) as error:
                found[name] = str(error)
    if y is not None:
        found["score"] = model.score(X, y)
    return found | {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}


def dense(values):
    return values.toarray() if issparse(values) else values


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No conjunction agrees")
@pytest.mark.parametrize(("name", "given", "later"), CHANGES)
def test_fitted_models_stay(name, given, later, tmp_path):
    model, (X, *more) = fitted(name, given), table_for(name)
    y = more[0] if more else None
    wanted = answers(model, X, y)
    model.set_params(**later)
    assert_same(answers(model, X, y), wanted)
    assert_same(answers(pickle.loads(pickle.dumps(model)), X, y), wanted)
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    assert_same(answers(loaded, X, y), wanted)
    assert {key: loaded.get_params(deep=False)[key] for key in later} == later


def test_the_next_fit_reads_what_was_set():
    X, y = table_for("RandomForestClassifier")
    model = fitted("RandomForestClassifier", {}).set_params(max_depth=1).fit(X, y)
    wanted = fitted("RandomForestClassifier", {"max_depth": 1})
    np.testing.assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    assert vars(model).keys() == vars(wanted).keys()


def test_a_fit_that_fails_leaves_what_was_set(tmp_path):
    X, y = table_for("RandomForestClassifier")
    model = fitted("RandomForestClassifier", {}).set_params(bootstrap=False)
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(X[:0], y[:0])
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").in_bag(0), model.in_bag(0))


def test_new_priors_and_new_leaves_follow_the_fit():
    X, y = table_for("RandomForestClassifier")
    for name, prior in (("RandomForestClassifier", {"averaging": None}), ("BayesTreeClassifier", {"split_prior": 0.1})):
        given = {"averaging": "posterior"} if "averaging" in prior else {}
        changed = fitted(name, given).set_params(**prior).reweight(temperature=2.0)
        wanted = fitted(name, given).reweight(temperature=2.0)
        np.testing.assert_array_equal(changed.predict_proba(X), wanted.predict_proba(X))
    plain = fitted("GradientBoostingClassifier", {})
    wanted = plain.refit_leaves(X, y).predict_proba(X)
    changed = plain.set_params(loss="one_vs_rest", learning_rate=1.0).refit_leaves(X, y)
    np.testing.assert_array_equal(changed.predict_proba(X), wanted)


@pytest.mark.parametrize("name", ["AODEClassifier", "CategoricalNB"])
def test_more_rows_are_smoothed_as_was_set(name, tmp_path):
    X, y = table_for(name)
    model = fitted(name, {}).set_params(alpha=3.0).partial_fit(X, y)
    wanted = fitted(name, {"alpha": 3.0}).partial_fit(X, y).predict_proba(X)
    model.save(tmp_path / "model")
    for same in (model, fastens.load(tmp_path / "model")):
        np.testing.assert_array_equal(same.predict_proba(X), wanted)


def test_costs_of_rounds_and_votes_follow_the_fit():
    X, y = table_for("AdaBoostClassifier")
    model = fitted("AdaBoostClassifier", {})
    wanted = list(model.staged_weights(X, y))
    for later in ({"criterion": "entropy"}, {"estimator": fastens.DecisionTreeClassifier()}, {"learning_rate": 0.1}):
        np.testing.assert_array_equal(list(model.set_params(**later).staged_weights(X, y)), wanted)
    encoded = {"categorical_features": [0], "categories": "target"}
    np.testing.assert_array_equal(list(model.set_params(**encoded).staged_weights(X, y)), wanted)
    voters = fitted("WeightedMajorityClassifier", {})
    bound = voters.mistake_bound()
    assert voters.set_params(beta=0.1, algorithm="hedge").mistake_bound() == bound


def test_importances_take_the_targets_of_the_fit():
    X, y = table_for("RandomForestRegressor")
    model = fitted("RandomForestRegressor", {})
    wanted = model.permutation_importance(X, -np.abs(y), random_state=0).importances
    found = model.set_params(criterion="poisson").permutation_importance(X, -np.abs(y), random_state=0).importances
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "AdaBoostClassifier", "BayesTreeClassifier"])
def test_trees_have_the_parameters_of_the_fit(name):
    model = fitted(name, {})
    later = {"criterion": "entropy", "max_depth": 1} if name != "BayesTreeClassifier" else {"max_depth": 1}
    trees = [make_tree(model), make_tree(model.set_params(**later))]
    assert trees[0].get_params() == trees[1].get_params()
    np.testing.assert_array_equal(trees[0].tree_.impurity, trees[1].tree_.impurity)


def make_tree(model):
    return model.map_estimator_ if hasattr(model, "map_estimator_") else model.estimators_[0]


def test_trees_stay_where_a_model_is_fitted_again():
    X, y = table_for("DecisionTreeClassifier")
    model = fitted("DecisionTreeClassifier", {})
    tree, wanted = model.tree_, fitted("DecisionTreeClassifier", {}).tree_
    model.set_params(criterion="entropy").fit(X[:, :2], y > 1)
    for name in ("feature", "threshold", "value", "impurity"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(wanted, name))
    np.testing.assert_array_equal(tree.apply(X), wanted.apply(X))
    forest = fitted("RandomForestClassifier", {})
    trees, wanted = forest.estimators_, forest.estimators_[0].predict_proba(X)
    forest.fit(X[:, :2], y > 1)
    np.testing.assert_array_equal(trees[0].predict_proba(X), wanted)


def test_exact_averages_are_of_the_prior_of_the_fit():
    model, same = (fitted("ExactTreeAverageClassifier", {}) for _ in range(2))
    loaded = pickle.loads(pickle.dumps(model.set_params(alpha=3.0, split_prior=0.1)))
    assert loaded.map_log_joint_ == same.map_log_joint_
    assert loaded.map_estimator_.n_leaves == same.map_estimator_.n_leaves

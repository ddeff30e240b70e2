"""Every public attribute of every public estimator, fitted or not: what cannot be given is an AttributeError."""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from fastens import (
    AdaBoostClassifier,
    BaggingClassifier,
    BayesOptimalClassifier,
    ConformalRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VersionSpaceClassifier,
    VotingClassifier,
)
from reference.public_estimators import CLASSES, REQUIRED, make, shrink_default_members, table_for

FOREST = [("forest", RandomForestClassifier(3)), ("logistic", LogisticRegression(max_iter=1000))]
HOLDING = [
    StackingClassifier(FOREST, cv=2),
    StackingClassifier(levels=[FOREST, [("second", RandomForestClassifier(2))]], cv=2, passthrough=True),
    VotingClassifier(FOREST),
    BaggingClassifier(RandomForestClassifier(2), 2),
    BaggingClassifier(LogisticRegression(max_iter=1000), 2, oob_score=True),
    BayesOptimalClassifier(FOREST, cv=2),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2),
    AdaBoostClassifier(LogisticRegression(), n_estimators=2),
    ConformalRegressor(Ridge(), cv=2),
]
# One positive instance that is also a negative one.
CONTRADICTION = np.array([[0, 0], [0, 1], [1, 0], [0, 0]]), np.array([1, 1, 0, 0])


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 3)


def look_at(model):
    """Do with a model what people, notebooks and scikit-learn do to show it."""
    for name in object.__dir__(model):
        if not name.startswith("__"):
            hasattr(model, name)  # raises what is no AttributeError
    inspect.getmembers(model)
    dir(model)
    assert type(model).__name__ in repr(model)
    assert "<div" in model._repr_html_()
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)):
        assert type(same) is type(model)
        assert repr(same) == repr(model)
    for name in ("estimators_", "feature_importances_", "oob_score_"):
        if hasattr(type(model), name):
            assert hasattr(copy.deepcopy(model), name) == hasattr(model, name)


def fitted(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


@pytest.mark.parametrize("name", CLASSES)
def test_every_attribute(name):
    model = make(name)
    if name not in REQUIRED:
        look_at(model)
    look_at(fitted(model, table_for(name)))


def test_every_attribute_where_a_parameter_is_wrong():
    look_at(BaggingClassifier(sampling="goss"))


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in REQUIRED])
def test_attributes_before_fit(name):
    """The error is of the attribute that was asked for, or says that the model is not fitted."""
    model = make(name)
    for attribute in dir(type(model)):
        if not attribute.startswith("_") and isinstance(getattr(type(model), attribute), property):
            said = ""
            try:
                getattr(model, attribute)
            except AttributeError as error:
                said = str(error)
            assert "attribute '_" not in said, attribute


@pytest.mark.slow
@pytest.mark.parametrize("model", HOLDING, ids=repr)
def test_every_attribute_of_what_holds_others(model):
    X, y = load_iris(return_X_y=True)
    look_at(clone(model))
    look_at(fitted(clone(model), (X, y)))


@pytest.mark.parametrize(
    "parameters", [{}, {"noise": 0.1}, {"on_collapse": "max-consistent"}, {"max_boundary": 1}, {"prior": "length"}]
)
def test_every_attribute_of_a_version_space(parameters):
    look_at(fitted(VersionSpaceClassifier(**parameters), CONTRADICTION))


@pytest.mark.parametrize("kind", [AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier, VotingClassifier])
def test_every_classifier_counts_its_classes(kind):
    X, y = load_iris(return_X_y=True)
    members = {"estimators": FOREST} if kind is VotingClassifier else {"n_estimators": 2}
    assert kind(**members).fit(X, y).n_classes_ == 3
    assert not hasattr(kind(**members), "n_classes_")


def test_regressors_tell_the_methods_of_a_stack():
    X, y = load_iris(return_X_y=True)
    model = StackingRegressor([("line", Ridge()), ("tree", DecisionTreeRegressor(max_depth=2))], cv=2)
    assert model.fit(X, y).stack_method_ == ["predict", "predict"]


@pytest.mark.parametrize("name", ["log_evidence_", "expected_n_leaves_"])
def test_posterior_attributes_exist_only_on_averaged_forests(name):
    X, y = load_iris(return_X_y=True)
    plain = RandomForestClassifier(3, averaging=None, random_state=0).fit(X, y)
    assert not hasattr(plain, name)
    with pytest.raises(AttributeError, match="averaging must be set in fit for a posterior of prunings; it was None"):
        getattr(plain, name)
    averaged = RandomForestClassifier(3, averaging="posterior", random_state=0).fit(X, y)
    assert getattr(averaged, name).shape == (3,)


@pytest.mark.parametrize("members", [5, [5], [("a", 5)], [("a", "drop")], "drop", [("a", None)]])
@pytest.mark.parametrize("kind", [StackingClassifier, VotingClassifier, BayesOptimalClassifier])
def test_unfittable_estimators_have_a_repr(kind, members):
    """The error belongs to fit, and names the parameter."""
    model = kind(members)
    look_at(model)
    with pytest.raises(ValueError, match=r"estimators must|Member 'a' must be a classifier"):
        model.fit(*load_iris(return_X_y=True))


# That read only what is given, or fit first.
OF_ANY = ("fit", "partial_fit", "cost_complexity_pruning_path", "with_quality", "textbook", "from_tables", "read_bif")
GIVEN = {"times": [1.0], "format": "c", "path": "model", "feature": 0, "features": [0], "member": 0, "tree": 0}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("given", [{}, {"voting": "soft"}], ids=str)
def test_methods_before_fit(name, given, tmp_path, monkeypatch):
    """No AttributeError of a private attribute."""
    monkeypatch.chdir(tmp_path)
    if not given.keys() <= inspect.signature(CLASSES[name]).parameters.keys():
        return
    X, y = table_for(name)[0], table_for(name)[-1]
    for method in [each for each in dir(CLASSES[name]) if not each.startswith(("_", "set_", "get_params", "get_meta"))]:
        asked = getattr(make(name, **given), method, None)
        if method.startswith(("fit", *OF_ANY)) or not inspect.ismethod(asked):
            continue
        needed = [each.name for each in inspect.signature(asked).parameters.values() if each.default is each.empty]
        arguments = {**GIVEN, "X": X, "y": y}
        with contextlib.suppress(ValueError, TypeError):  # of missing arguments, and NotFittedError
            found = asked(**{each: arguments[each] for each in needed if each in arguments})
            list(found) if hasattr(found, "__next__") else pytest.fail(f"{method} answered")

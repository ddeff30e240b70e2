"""Constructors of trees and forests, and the attributes that their docstrings describe."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import fastens
from fastens import Categories, RandomForestClassifier

NAMES = ["DecisionTree", "RandomForest", "ExtraTrees"]


def section(kind, title):
    return re.search(rf"^{title}\n-+\n(.*?)\n\n(?=[A-Z][^\n]*\n-+\n)", kind.__doc__, flags=re.M | re.S)[1]


@pytest.mark.parametrize("task", ["Classifier", "Regressor"])
@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_there_after_fit(name, task):
    kind = getattr(fastens, name + task)
    shown = re.findall(r"^(\w+) : ", section(kind, "Attributes"), flags=re.M)
    X = pd.DataFrame(np.random.default_rng(0).random((60, 2)), columns=["a", "b"])
    forest = {} if name == "DecisionTree" else {"n_estimators": 15, "bootstrap": True, "oob_score": True}
    shown = [key for key in shown if key not in ("log_evidence_", "expected_n_leaves_")]  # only with averaging
    model = kind(**forest).fit(X, (X["a"] > 0.5).astype(int))
    assert ("classes_" in shown, "oob_score_" in shown) == (task == "Classifier", bool(forest))
    assert all(hasattr(model, key) for key in shown)


@pytest.mark.parametrize("task", ["Classifier", "Regressor"])
@pytest.mark.parametrize("name", [*NAMES, "BayesTree"])
def test_constructors_have_a_real_signature(name, task):
    kind = getattr(fastens, name + task)
    parameters = inspect.signature(kind).parameters
    assert kind().get_params(deep=False) == {key: each.default for key, each in parameters.items()}
    positional = [key for key, each in parameters.items() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    first = {"DecisionTree": ["criterion"], "BayesTree": ["alpha"] if task == "Classifier" else []}
    assert positional == first.get(name, ["n_estimators"])


def test_categories_in_clones_searches_and_files(tmp_path):
    X = pd.DataFrame({"a": list("xyz") * 20, "b": range(60)})
    y = (X["a"] == "x").astype(int)
    forest = RandomForestClassifier(3, categories=Categories("target"), random_state=0)
    search = GridSearchCV(forest, {"categories__encoding": ["partition", "target"]}, cv=2).fit(X, y)
    assert [each["categories__encoding"] for each in search.cv_results_["params"]] == ["partition", "target"]
    model = clone(forest).fit(X, y)
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params() == forest.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert model.estimators_[0].categories == Categories("target")

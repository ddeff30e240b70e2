"""Docstrings of trees and forests: all parameters with their defaults, and attributes that a fit leaves behind."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest

import fastens

NAMES = ["DecisionTree", "RandomForest", "ExtraTrees"]


def section(kind, title):
    return re.search(rf"^{title}\n-+\n(.*?)\n\n", kind.__doc__, flags=re.M | re.S)[1]


@pytest.mark.parametrize("task", ["Classifier", "Regressor"])
@pytest.mark.parametrize("name", NAMES)
def test_parameters_stand_with_their_defaults(name, task):
    kind = getattr(fastens, name + task)
    text = section(kind, "Parameters")
    shown = dict(re.findall(r"^(\w+) : .*, default=(.*)$", text, flags=re.M))
    defaults = {p.name: p.default for p in list(inspect.signature(kind.__init__).parameters.values())[1:]}
    assert {key: eval(value) for key, value in shown.items()} == defaults
    assert all(re.search(rf"^{key} : .*\n    \S", text + "\n", flags=re.M) for key in defaults)


@pytest.mark.parametrize("task", ["Classifier", "Regressor"])
@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_there_after_fit(name, task):
    kind = getattr(fastens, name + task)
    shown = re.findall(r"^(\w+) : ", section(kind, "Attributes"), flags=re.M)
    X = pd.DataFrame(np.random.default_rng(0).random((60, 2)), columns=["a", "b"])
    forest = {} if name == "DecisionTree" else {"n_estimators": 15, "bootstrap": True, "oob_score": True}
    model = kind(**forest).fit(X, (X["a"] > 0.5).astype(int))
    assert ("classes_" in shown, "oob_score_" in shown) == (task == "Classifier", bool(forest))
    assert all(hasattr(model, key) for key in shown)

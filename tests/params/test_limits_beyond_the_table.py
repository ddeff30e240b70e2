"""Limits beyond what a table has mean all of it, in every estimator that has the parameter."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest

from reference.public_estimators import CLASSES, make, table_for

# The largest value that has an effect on a table of 50 rows and 4 columns.
LIMITS = {"max_features": 4, "max_features_per_tree": 4, "min_samples_leaf": 50, "min_samples_split": 51}
CASES = [
    (name, limit)
    for name, kind in CLASSES.items()
    for limit in LIMITS
    if limit in inspect.signature(kind).parameters and name != "TextClassifier"
]


def answers(name, **options):
    """What a model of few members that draws with a fixed seed predicts for its training rows."""
    known = inspect.signature(CLASSES[name]).parameters
    options |= {key: value for key, value in {"n_estimators": 3, "random_state": 0}.items() if key in known}
    model, data = make(name, **options), table_for(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*data)
    method = "transform" if hasattr(model, "transform") else "predict"
    method = "predict_proba" if hasattr(model, "predict_proba") else method
    found = getattr(model, method)(data[0])
    return found.toarray() if hasattr(found, "toarray") else found


@pytest.mark.parametrize(("name", "limit"), CASES)
def test_a_limit_beyond_the_table_is_the_table(name, limit):
    np.testing.assert_array_equal(answers(name, **{limit: 1000}), answers(name, **{limit: LIMITS[limit]}))


@pytest.mark.parametrize(("name", "limit"), [case for case in CASES if case[1].startswith("max")])
def test_it_is_documented(name, limit):
    text = inspect.cleandoc(CLASSES[name].__doc__)
    entry = re.search(rf"^{limit} : .*\n((?: {{4}}.*\n)+)", text, flags=re.M)[1]
    assert "above the number of" in " ".join(entry.split())

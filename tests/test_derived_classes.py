"""Classes that users derive from ours: their methods get what they would get from scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

import fastens
from reference.public_estimators import CLASSES, table_for


def with_own_predict(kind):
    class Own(kind):
        def predict(self, X):
            return super().predict(X)

    return Own


@pytest.mark.parametrize("name", [name for name in CLASSES if name.startswith("GradientBoosting")])
def test_predict_of_rows_alone(name):
    X, y = table_for(name)
    theirs, ours = (kind(n_estimators=2).fit(X, y) for kind in (with_own_predict(CLASSES[name]), CLASSES[name]))
    assert theirs.score(X, y) == ours.score(X, y)
    if hasattr(ours, "calibrate"):
        theirs.calibrate(X, y), ours.calibrate(X, y)
        answer = "predict_set" if hasattr(ours, "predict_set") else "predict_interval"
        np.testing.assert_array_equal(getattr(theirs, answer)(X), getattr(ours, answer)(X))
    if hasattr(ours, "predict_survival_function"):
        np.testing.assert_array_equal(*(model.predict_survival_function(X, [1.0]) for model in (theirs, ours)))

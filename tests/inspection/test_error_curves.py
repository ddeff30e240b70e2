"""Errors after each round: the numbers, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from fastens import AdaBoostClassifier, GradientBoostingClassifier
from fastens.inspection.diversity import plot_errors

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(scope="module")
def rows():
    return make_classification(400, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=0)


@pytest.mark.parametrize("algorithm", ["discrete", "m1", "real", "gentle", "logit"])
def test_curves_are_the_errors_by_round(rows, algorithm):
    X, y = rows
    model = AdaBoostClassifier(algorithm=algorithm, max_depth=2, n_estimators=12).fit(X[:200], y[:200])
    weight = np.arange(200.0)
    by_hand = [np.average(label != y[200:], weights=weight) for label in model.staged_predict(X[200:])]
    np.testing.assert_allclose(model.staged_errors(X[200:], y[200:], weight), by_hand)
    ax = model.plot_errors(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(lines["training rows"], model.staged_errors(X[:200], y[:200]))
    np.testing.assert_allclose(lines["validation rows"], model.staged_errors(X[200:], y[200:]))
    assert ("bound of the training error" in lines) == (algorithm in ("discrete", "m1"))
    if len(lines) == 3:
        assert (lines["bound of the training error"] >= lines["training rows"] - 1e-12).all()


def test_gradient_boosting_without_validation_rows(rows):
    X, y = rows
    model = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    [line] = plot_errors(model, X, y).lines
    assert line.get_ydata()[-1] == pytest.approx(1 - model.score(X, y))


def test_validation_rows_come_with_classes(rows):
    X, y = rows
    model = AdaBoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="got X_val without y_val"):
        model.plot_errors(X, y, X_val=X)

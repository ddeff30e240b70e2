"""What others published of TAN and AODE, to the digits they gave."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import AODEClassifier, BayesianNetwork, TANClassifier


@pytest.fixture
def car(load_table):
    table = load_table("car")
    return table.drop(columns="class"), table["class"].astype(str)


def test_averages_of_car(car):
    # bnclassify's test, "from Weka": row 12, <vhigh, vhigh, 2, 4, small, high>, P(unacc) = .793 to .001
    X, y = car
    laplace = AODEClassifier().fit(X, y)
    assert laplace.predict_proba(X.iloc[[11]])[0, 2] == pytest.approx(0.793, abs=1e-3)
    # Recomputed: Webb's Laplace and Weka's m-estimate
    assert laplace.predict_proba(X.iloc[[11]])[0, 2] == pytest.approx(0.7926, abs=5e-5)
    assert laplace.score(X, y) == pytest.approx(0.940394, abs=5e-7)
    weka = AODEClassifier(smoothing="m").fit(X, y)
    assert weka.predict_proba(X.iloc[[11]])[0, 2] == pytest.approx(0.8015, abs=5e-5)
    assert weka.score(X, y) == pytest.approx(0.946181, abs=5e-7)


def test_average_of_networks_of_car(car):
    # bnclassify's own form: P(class), P(parent | class) and P(column | parent, class) each by Laplace's rule
    X, y = car
    labels = np.unique(y)
    joint = np.zeros((len(X), len(labels)))
    for root in X:
        parents = {name: ["class", root] if name != root else ["class"] for name in X}
        model = BayesianNetwork(parents).fit(X, y)
        for place, label in enumerate(labels):
            joint[:, place] += np.exp(model.score_samples(X, np.full(len(X), label)))
    assert joint[11, 2] / joint[11].sum() == pytest.approx(0.7934, abs=5e-5)
    assert np.mean(labels[joint.argmax(axis=1)] == y) == pytest.approx(0.938657, abs=5e-7)


def test_the_tree_of_car(car):
    X, y = car
    model = TANClassifier().fit(X, y)
    names = list(X.columns)
    edges = {
        frozenset((name, names[parent])) for name, parent in zip(names, model.parents_, strict=True) if parent >= 0
    }
    expected = ["buying maint", "persons safety", "lug_boot safety", "buying safety", "doors lug_boot"]
    assert edges == {frozenset(edge.split()) for edge in expected}
    assert model.parents_[names.index("safety")] == -1

"""What others published of TAN and AODE, to the digits they gave."""

from __future__ import annotations

import pytest

from fastens import AODEClassifier, TANClassifier


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

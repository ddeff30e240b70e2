"""What others published of TAN and AODE, to the digits they gave."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import AODEClassifier, TANClassifier
from reference.mdlp import cut_points


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


@pytest.mark.parametrize(
    ("name", "kind", "accuracy"),
    [
        ("iris", AODEClassifier, 0.973333),
        ("iris", TANClassifier, 0.973333),
        ("ecoli", AODEClassifier, 0.889881),
        ("ecoli", TANClassifier, 0.892857),
    ],
)
def test_accuracies_on_the_rows_of_fit(load_table, name, kind, accuracy):
    # The tests of rmontanana's BayesNet, on bins by its FImdlp
    table = load_table(name)
    X, y = table.drop(columns="class"), np.unique(table["class"].astype(str), return_inverse=True)[1]
    columns = {column: X[column].to_numpy(np.float32) for column in X}
    bins = pd.DataFrame({c: np.searchsorted(cut_points(x, y), x, side="right") for c, x in columns.items()})
    assert kind(categorical_features="all").fit(bins, y).score(bins, y) == pytest.approx(accuracy, abs=5e-7)

"""What counts as a category of a column, whatever the table is and the weights are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from fastens import AODEClassifier, CategoricalNB, MixedNB, TANClassifier, VersionSpaceClassifier

CODES = np.array([[0, 0], [4, 1], [0, 1], [4, 0], [0, 1], [9, 7]])
WORDS = np.char.add("v", CODES.astype(str))
Y = np.array([0, 1, 1, 1, 0, 1])
WEIGHT = [1, 1, 1, 2, 1, 0]


def test_whole_numbers_of_mixed_columns_are_the_values_found():
    kinds = ["categorical", "gaussian"]
    model = MixedNB(kinds=kinds).fit(CODES, Y)
    for same in (CODES.astype(float), CODES.tolist(), CODES.astype(np.int8), pd.DataFrame(CODES)):
        assert_array_equal(MixedNB(kinds=kinds).fit(same, Y).predict_proba(same), model.predict_proba(CODES))
    assert model._likelihoods[1].sizes.tolist() == [3]


ANY_TABLE = {
    "words": WORDS,
    "objects": WORDS.astype(object),
    "lists": WORDS.tolist(),
    "frame": pd.DataFrame(WORDS),
    "masked": np.ma.array(WORDS.astype(object), mask=CODES == 4),
    "numbers": CODES + 0.5,
}


@pytest.mark.parametrize("kind", ANY_TABLE)
@pytest.mark.parametrize(
    "model",
    [
        CategoricalNB(),
        MixedNB(kinds=["categorical"] * 2),
        TANClassifier(categorical_features="all"),
        AODEClassifier(categorical_features="all"),
        VersionSpaceClassifier(noise=0.1),
    ],
)
def test_rows_of_weight_0_have_no_categories(model, kind):
    X = ANY_TABLE[kind]
    present = pd.DataFrame(X)[:5] if kind == "frame" else X[:5]
    expected = clone(model).fit(present, Y[:5], WEIGHT[:5]).predict_proba(present)
    assert_array_equal(clone(model).fit(X, Y, WEIGHT).predict_proba(present), expected)
    assert_array_equal(clone(model).partial_fit(X, Y, [0, 1], WEIGHT).predict_proba(present), expected)
    more = clone(model).partial_fit(present, Y[:5], [0, 1], WEIGHT[:5])
    twice = more.partial_fit(present, Y[:5]).predict_proba(present)
    more = clone(model).partial_fit(present, Y[:5], [0, 1], WEIGHT[:5])
    assert_array_equal(more.partial_fit(X, Y, None, [1, 1, 1, 1, 1, 0]).predict_proba(present), twice)

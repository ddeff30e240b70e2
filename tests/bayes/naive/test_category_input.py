"""What counts as a category of a column, whatever the table is and the weights are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
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


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("model", [CategoricalNB(unseen="error"), TANClassifier(unseen="error")])
def test_unseen_categories_are_refused_whatever_the_table_is(model):
    X = pd.DataFrame({"a": ["u", "v"], "b": ["x", "y"]})
    new = X.assign(b=["x", "z"])
    for rows in (new, new[["b", "a"]], new.to_numpy(), new.to_numpy(object), new.to_numpy().tolist()):
        with pytest.raises(ValueError, match="Column 'b' must hold categories seen in fit; row 1 holds 'z'"):
            clone(model).fit(X, [0, 1]).predict(rows)
    for rows in (new.to_numpy(object), new.to_numpy().tolist(), new):
        with pytest.raises(ValueError, match="Column 1 must hold categories seen in fit; row 1 holds 'z'"):
            clone(model).fit(X.to_numpy(), [0, 1]).predict(rows)


def test_unseen_positions_of_sparse_rows_are_refused():
    model = CategoricalNB(unseen="error").fit(sparse.csr_matrix([[1, 2], [0, 1]]), [0, 1])
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.coo_array):
        with pytest.raises(ValueError, match="Column 1 must hold categories seen in fit; row 0 holds 9"):
            model.predict(kind([[1, 9]]))


def test_unseen_categories_in_other_inputs_than_arrays_raise():
    model = CategoricalNB(unseen="error").fit([[1.0, 2.0], [0.0, 1.0]], [0, 1])
    with pytest.raises(ValueError, match="Column 1 must hold categories seen in fit; row 0 holds 9"):
        model.predict(memoryview(np.array([[1.0, 9.0]])))


def test_sparse_rows_with_labels_are_read_as_dense_ones():
    X = CODES[:5] + 0.5
    model = CategoricalNB().fit(X, Y[:5])
    for rows in (sparse.csr_matrix(X), sparse.coo_array(X)):
        assert_array_equal(model.score_samples(rows, Y[:5]), model.score_samples(X, Y[:5]))
        assert model.aic(rows, Y[:5]) == model.aic(X, Y[:5])


def test_more_sparse_rows_are_read_as_dense_ones():
    X = CODES[:5] + 0.5
    first = CategoricalNB().partial_fit(X, Y[:5], [0, 1])
    expected = clone(first).partial_fit(X, Y[:5], [0, 1]).partial_fit(X + 1, Y[:5]).predict_proba(X)
    assert_array_equal(first.partial_fit(sparse.csr_matrix(X + 1), Y[:5]).predict_proba(X), expected)

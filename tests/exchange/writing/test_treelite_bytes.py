import numpy as np
import pytest

import fastens
from reference.exported import AVERAGED, BOOSTED, SEVERAL, classes_of, fitted, mixed, numbers, raw_of, rows_for
from reference.exported import with_positions as positions

treelite = pytest.importorskip("treelite")


def read(model):
    return treelite.Model.deserialize_bytes(model.export(format="treelite"))


@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_raw_predictions(name):
    model = fitted(name)
    X = rows_for(model)
    expected = raw_of(model, X)
    found = treelite.gtil.predict(read(model), positions(model, X), pred_margin=True)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["two classes", "exponential", "three classes", "adaboost", "forest of two classes"])
def test_probabilities(name):
    model = fitted(name)
    X = rows_for(model)
    found = treelite.gtil.predict(read(model), positions(model, X))[:, 0]
    expected = model.predict_proba(X)
    # treelite's softmax is of single precision.
    np.testing.assert_allclose(found, expected if found.shape[1] > 1 else expected[:, 1:], atol=1e-6)


def test_means_of_a_log_link():
    model = fitted("poisson")
    X = rows_for(model)
    found = treelite.gtil.predict(read(model), positions(model, X)).ravel()
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-13)


def test_missing_values_that_are_a_category_of_their_own():
    X, y = mixed()
    options = fastens.Categories(missing="category")
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options, random_state=0)
    model.fit(X, y + 9 * X["few"].isna())
    rows = rows_for(model)
    found = treelite.gtil.predict(read(model), positions(model, rows)).ravel()
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-13)


def test_several_targets_with_classes_are_refused():
    X, y = numbers()
    target = np.column_stack([classes_of(y), classes_of(-y, 3)])
    model = fastens.RandomForestClassifier(n_estimators=2).fit(X, target)
    with pytest.raises(ValueError, match="format='treelite' cannot represent several targets"):
        model.export(format="treelite")

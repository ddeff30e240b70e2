import math
import sqlite3

import numpy as np
import pandas as pd
import pytest

import fastens
from reference.exported import AVERAGED, BOOSTED, SEVERAL, classes_of, fitted, mixed, numbers, rows_for


def selected(model, X, **options):
    """The columns that the query adds to a table of these rows."""
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    database = sqlite3.connect(":memory:")
    database.create_function("EXP", 1, lambda x: None if x is None else math.exp(x), deterministic=True)
    names = ", ".join(f'"{name}"' for name in frame)
    database.execute(f'CREATE TABLE "{options.get("table", "data")}" ({names})')
    rows = [tuple(None if pd.isna(value) else value for value in row) for row in frame.astype(object).to_numpy()]
    places = ", ".join("?" * len(frame.columns))
    database.executemany(f'INSERT INTO "{options.get("table", "data")}" VALUES ({places})', rows)
    found = database.execute(model.export(format="sql", **options))
    columns = [entry[0] for entry in found.description]
    rows = pd.DataFrame(found.fetchall(), columns=columns)
    return rows[[name for name in columns if name.startswith(("prediction", "probability"))]]


def check(model, X):
    found = selected(model, X)
    if not hasattr(model, "classes_"):
        np.testing.assert_allclose(found.to_numpy(np.float64).squeeze(), model.predict(X), rtol=1e-12, atol=1e-13)
        return
    assert list(found.columns[1:]) == [f"probability_{label}" for label in model.classes_]
    expected = model.predict_proba(X)
    np.testing.assert_allclose(found.iloc[:, 1:].to_numpy(np.float64), expected, rtol=1e-11, atol=1e-13)
    assert (found["prediction"].to_numpy() == model.predict(X)).mean() > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_predictions(name):
    check(fitted(name), rows_for(fitted(name), n_rows=400))


def test_missing_values_that_are_a_category_of_their_own():
    X, y = mixed()
    options = fastens.Categories(missing="category")
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options, random_state=0)
    model.fit(X, y + 9 * X["few"].isna())
    check(model, rows_for(model, n_rows=400))


def test_one_vs_rest_and_outliers():
    X, y = numbers()
    check(fastens.AdaBoostClassifier(algorithm="gentle", n_estimators=9).fit(X, classes_of(y, 4)), X)
    model = fastens.IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(X)
    np.testing.assert_allclose(selected(model, X)["prediction"], model.decision_function(X), atol=1e-13)


def test_more_trees_than_an_expression_may_be_deep():
    X, y = numbers()
    model = fastens.GradientBoostingRegressor(n_estimators=1200, max_depth=2, early_stopping=False).fit(X, y)
    np.testing.assert_allclose(selected(model, X[:50])["prediction"], model.predict(X[:50]), rtol=1e-11, atol=1e-12)


def test_quotes_in_names():
    X = pd.DataFrame({'a "b"': np.arange(20.0), "c": np.arange(20.0)[::-1]})
    model = fastens.DecisionTreeRegressor(max_depth=2).fit(X, np.arange(20.0))
    query = model.export(format="sql", table='my "table"')
    assert '"a ""b"""' in query or '"c"' in query
    assert 'FROM "my ""table"""' in query


@pytest.mark.parametrize("name", ["raw_0", "RAW_0"])
def test_columns_named_as_raw_predictions_are_refused(name):
    X = pd.DataFrame({name: np.arange(20.0)})
    model = fastens.DecisionTreeRegressor(max_depth=2).fit(X, np.arange(20.0))
    with pytest.raises(ValueError, match=f"cannot represent a column with the name of a result, '{name}'"):
        model.export(format="sql")


@pytest.mark.parametrize("name", ["prediction", "Probability_Yes"])
def test_columns_named_as_results_are_refused(name):
    """Of two columns of a name databases read the first, which is that of the table."""
    X = pd.DataFrame({name: np.arange(20.0)})
    model = fastens.DecisionTreeClassifier(max_depth=2).fit(X, ["no", "yes"] * 10)
    with pytest.raises(ValueError, match=f"cannot represent a column with the name of a result, '{name}'"):
        model.export(format="sql")
    model.export(format="c")


def test_two_targets_with_classes():
    X, y = numbers()
    target = np.column_stack([classes_of(y), classes_of(-y, 3)])
    model = fastens.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0).fit(X, target)
    found = selected(model, X)
    assert np.array_equal(found[["prediction_0", "prediction_1"]].to_numpy(), model.predict(X))


def test_trees_deeper_than_functions_can_call_each_other():
    X, y = np.arange(1500.0)[:, None], np.arange(1500) % 2
    model = fastens.DecisionTreeClassifier().fit(X, y)
    assert model.get_depth() > 1000
    text = model.export(format="sql")
    assert text.count("CASE WHEN") == text.count(" ELSE ") == model.get_n_leaves()  # one of them is of the prediction

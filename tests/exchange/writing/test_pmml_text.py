"""PMML is evaluated here by the rules of the specification, written down once more: no library of Python reads 4.4."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import fastens
from reference.exported import AVERAGED, BOOSTED, fitted, mixed, numbers, rows_for

PMML = "{http://www.dmg.org/PMML-4_4}"


def children(element, kind):
    return element.findall(PMML + kind)


class Evaluator:
    """Predictions of a document, row by row."""

    def __init__(self, text):
        root = ElementTree.fromstring(text)
        assert root.get("version") == "4.4"
        (self.model,) = children(root, "MiningModel")

    def rows(self, frame):
        records = [{k: None if pd.isna(v) else v for k, v in row.items()} for row in frame.to_dict("records")]
        return [self.evaluate(self.model, record) for record in records]

    def evaluate(self, model, row):
        """The outputs of a model by name."""
        (segmentation,) = children(model, "Segmentation")
        segments = children(segmentation, "Segment")
        if segmentation.get("multipleModelMethod") == "modelChain":
            for segment in segments[:-1]:
                row = row | self.evaluate(segment.find(PMML + "MiningModel"), row)
            return self.regression(segments[-1].find(PMML + "RegressionModel"), row)
        total = 0.0
        for segment in segments:
            total += self.score(segment.find(PMML + "TreeModel"), row)
        if segmentation.get("multipleModelMethod") == "average":
            total /= len(segments)
        found = {}
        for field in children(model.find(PMML + "Output"), "OutputField"):
            is_raw = field.get("feature") == "predictedValue"
            found[field.get("name")] = total if is_raw else np.exp(total)
        return found

    def regression(self, model, row):
        raw = {}
        for table in children(model, "RegressionTable"):
            terms = children(table, "NumericPredictor")
            raw[table.get("targetCategory")] = float(table.get("intercept")) + sum(
                float(term.get("coefficient")) * row[term.get("name")] for term in terms
            )
        values, method = np.array([*raw.values()]), model.get("normalizationMethod")
        if method == "logit":
            first = 1 / (1 + np.exp(-values[0]))
            shares = np.array([first, 1 - first])
        else:
            values = np.exp(values - values.max()) if method == "softmax" else values
            shares = values / values.sum()
        return dict(zip(raw, shares, strict=True))

    def score(self, tree, row):
        assert tree.get("missingValueStrategy") == "defaultChild"
        node = tree.find(PMML + "Node")
        while nodes := children(node, "Node"):
            found = [self.holds(child[0], row) for child in nodes]
            if None in found:
                (node,) = (child for child in nodes if child.get("id") == node.get("defaultChild"))
            else:
                node = nodes[found.index(True)]
        return float(node.get("score"))

    def holds(self, predicate, row):
        """Whether a predicate holds; None where that is not known."""
        kind = predicate.tag.removeprefix(PMML)
        if kind in ("True", "False"):
            return kind == "True"
        value, operator = row[predicate.get("field")], predicate.get("operator")
        if operator in ("isMissing", "isNotMissing"):
            return (value is None) == (operator == "isMissing")
        if value is None:
            return None
        if kind == "SimplePredicate":
            is_below = value <= float(predicate.get("value"))
            return is_below if operator == "lessOrEqual" else not is_below
        (array,) = children(predicate, "Array")
        values = [each.replace('\\"', '"') for each in re.findall(r'"((?:[^"\\]|\\.)*)"', array.text)]
        assert len(values) == int(array.get("n"))
        return (str(value) in values) == (predicate.get("booleanOperator") == "isIn")


def check(model, X):
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    found = Evaluator(model.export(format="pmml")).rows(frame)
    if hasattr(model, "classes_"):
        shares = [[row[str(label)] for label in model.classes_] for row in found]
        np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-12)
        return
    name = "mean" if "mean" in found[0] else "raw_0"
    np.testing.assert_allclose([row[name] for row in found], model.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOOSTED, *AVERAGED])
def test_same_predictions(name):
    check(fitted(name), rows_for(fitted(name), n_rows=200))


def test_missing_values_that_are_a_category_of_their_own():
    X, y = mixed()
    options = fastens.Categories(missing="category")
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options, random_state=0)
    model.fit(X, y + 9 * X["few"].isna())
    check(model, rows_for(model, n_rows=200))


def test_fields_have_their_types():
    root = ElementTree.fromstring(fitted("mixed").export(format="pmml"))
    fields = {field.get("name"): field for field in root.iter(PMML + "DataField")}
    kinds = {name: field.get("dataType") for name, field in fields.items()}
    assert kinds == {
        "size": "double",
        "a b": "double",
        "count": "double",
        "few": "string",
        "many": "string",
        "whole": "integer",
        "target": "double",
    }
    assert [value.get("value") for value in fields["few"]] == [f"it's {c}" for c in "pqrstuvwx"]


def test_what_it_cannot_hold_is_refused():
    X, y = numbers()
    cases = [
        (fitted("two targets"), "several predictions"),
        (fastens.IsolationForest(n_estimators=2).fit(X), "predictions by the link 'anomaly'"),
        (
            fastens.DecisionTreeRegressor(max_depth=2).fit(
                pd.DataFrame(X).add_prefix("target").iloc[:, :1].rename(columns={"target0": "target"}), y
            ),
            "a column named 'target'",
        ),
        (fastens.DecisionStumpRegressor().fit(pd.DataFrame({"raw_0": y}), y), "a column named 'raw_0'"),
    ]
    for model, reason in cases:
        with pytest.raises(ValueError, match=f"format='pmml' cannot hold {reason}"):
            model.export(format="pmml")


def test_line_ends_and_backslashes_of_categories():
    X = pd.DataFrame({"town": ["a\rb", "c\nd"] * 40})
    check(fastens.GradientBoostingRegressor(n_estimators=2).fit(X, X["town"] == "a\rb"), X[:2])
    X = pd.DataFrame({"town": ["a", "b\\"] * 40})
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(X, X["town"] == "b\\")
    with pytest.raises(ValueError, match=re.escape(r"a backslash at the end of the category 'b\\' of 'town'")):
        model.export(format="pmml")


def test_trees_of_too_many_levels():
    model = fastens.DecisionTreeClassifier().fit(np.arange(1500.0)[:, None], np.arange(1500) % 2)
    with pytest.raises(ValueError, match="format='pmml' cannot hold trees of so many levels"):
        model.export(format="pmml")

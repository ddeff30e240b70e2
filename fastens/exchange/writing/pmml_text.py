"""Export to PMML 4.4: trees are segments of a MiningModel, chained with a RegressionModel if there is a link."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np

from fastens.exchange.writing.view import CannotHoldError, Column, FlatTree, ModelView, Target

_NAMESPACE = "http://www.dmg.org/PMML-4_4"
# The normalisation method of the last model of the chain, by the link of a classifier.
_NORMALIZATIONS = {"sigmoid": "logit", "softmax": "softmax", "shares": "simplemax"}
_TARGET = "target"
# Characters that XML 1.0 documents cannot contain, not even escaped.
_NOT_OF_XML = r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"

Element = ElementTree.Element


def write(view: ModelView) -> str:
    """Return the text of the document."""
    target = view.only_target
    if target.link not in ("identity", "exp", *_NORMALIZATIONS) or (target.link == "sigmoid" and not _labels(target)):
        raise CannotHoldError(f"predictions by the link {target.link!r}")
    if view.n_outputs > 1 and not _labels(target):
        raise CannotHoldError("several predictions")
    view.refuse_characters(_NOT_OF_XML)
    for column in view.columns:
        if column.name in (_TARGET, *(f"raw_{output}" for output in range(view.n_outputs))):
            raise CannotHoldError(f"a column named {column.name!r}")
    root = ElementTree.Element("PMML", version="4.4", xmlns=_NAMESPACE)
    _add(_add(root, "Header"), "Application", name="fastens")
    dictionary = _add(root, "DataDictionary")
    for column in view.columns:
        _add_field(dictionary, column.name, column.categories)
    _add_field(dictionary, _TARGET, _labels(target))
    try:  # Python's XML writer is recursive
        root.append(_classifier(view, target) if _labels(target) else _sum(view, 0, target.link))
        ElementTree.indent(root, " ")
        text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
        return text.replace("\r", "&#13;")  # otherwise parsers normalise it to a newline
    except RecursionError:
        raise CannotHoldError("trees of so many levels") from None


def _add(parent: Element, kind: str, **attributes: Any) -> Element:
    return ElementTree.SubElement(parent, kind, {name: str(value) for name, value in attributes.items()})


def _labels(target: Target) -> list[Any] | None:
    return None if target.classes is None else np.asarray(target.classes).tolist()


def _add_field(dictionary: Element, name: str, categories: list[Any] | None) -> None:
    if categories is None:
        _add(dictionary, "DataField", name=name, optype="continuous", dataType="double")
        return
    field = _add(dictionary, "DataField", name=name, optype="categorical", dataType=_type_of(categories))
    for category in categories:
        _add(field, "Value", value=_text(category))


def _type_of(categories: list[Any]) -> str:
    kinds = {type(category) for category in categories}
    return {frozenset({bool}): "boolean", frozenset({int}): "integer", frozenset({float}): "double"}.get(
        frozenset(kinds), "string"
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _model(kind: str, columns: list[Column], function: str, **attributes: Any) -> Element:
    """Return a model element with its input fields; values that are not in the dictionary are used unchanged."""
    model = ElementTree.Element(kind, functionName=function, **attributes)
    schema = _add(model, "MiningSchema")
    for column in columns:
        _add(schema, "MiningField", name=column.name, invalidValueTreatment="asIs")
    return model


def _sum(view: ModelView, output: int, link: str) -> Element:
    """Return the sum or mean of the trees of a raw prediction."""
    model = _model("MiningModel", view.columns, "regression")
    _add(model[0], "MiningField", name=_TARGET, usageType="target")
    fields = _add(model, "Output")
    _add(fields, "OutputField", name=f"raw_{output}", optype="continuous", dataType="double", feature="predictedValue")
    if link == "exp":
        mean = _add(fields, "OutputField", name="mean", optype="continuous", dataType="double")
        mean.set("feature", "transformedValue")
        _add(_add(mean, "Apply", function="exp"), "FieldRef", field=f"raw_{output}")
    trees = _add(model, "Segmentation", multipleModelMethod="average" if view.is_mean else "sum")
    for number, tree in enumerate(view.by_output()[output]):
        segment = _add(trees, "Segment", id=number)
        _add(segment, "True")
        segment.append(_tree(tree, view.columns))
    return model


def _classifier(view: ModelView, target: Target) -> Element:
    """Return a chain of models for the raw predictions and a model that converts them to probabilities."""
    model = _model("MiningModel", view.columns, "classification")
    _add(model[0], "MiningField", name=_TARGET, usageType="target")
    chain = _add(model, "Segmentation", multipleModelMethod="modelChain")
    for output in range(view.n_outputs):
        segment = _add(chain, "Segment", id=f"raw {output}")
        _add(segment, "True")
        raw = _sum(view, output, "identity")
        raw[0].remove(raw[0][-1])  # only the last model of the chain has the target
        segment.append(raw)
    last = _add(chain, "Segment", id="probabilities")
    _add(last, "True")
    columns = [Column(f"raw_{output}", None) for output in range(view.n_outputs)]
    link = _model("RegressionModel", columns, "classification", normalizationMethod=_NORMALIZATIONS[target.link])
    _add(link[0], "MiningField", name=_TARGET, usageType="target")
    last.append(link)
    labels = _labels(target) or []
    fields = _add(link, "Output")
    _add(fields, "OutputField", name="label", optype="categorical", dataType=_type_of(labels), feature="predictedValue")
    for label in labels:
        field = _add(fields, "OutputField", name=f"probability_{_text(label)}", optype="continuous", dataType="double")
        field.set("feature", "probability")
        field.set("value", _text(label))
    # The single raw prediction of a binary classifier belongs to the second class; the first gets the complement.
    terms = [(k, 0.0, 1.0) for k in range(view.n_outputs)]
    if len(terms) < len(labels):
        terms.append((0, 1.0, -1.0) if target.link == "shares" else (0, 0.0, 0.0))
        labels = labels[::-1]
    for label, (output, intercept, coefficient) in zip(labels, terms, strict=True):
        table = _add(link, "RegressionTable", intercept=intercept, targetCategory=_text(label))
        if coefficient:
            _add(table, "NumericPredictor", name=f"raw_{output}", coefficient=coefficient)
    return model


def _tree(tree: FlatTree, columns: list[Column]) -> Element:
    used = sorted({int(column) for column in tree.feature if column >= 0})
    model = _model(
        "TreeModel",
        [columns[column] for column in used],
        "regression",
        missingValueStrategy="defaultChild",
        splitCharacteristic="binarySplit",
    )
    root = _add(model, "Node", id=0)
    _add(root, "True")
    _fill(root, tree, 0, columns)
    return model


def _fill(element: Element, tree: FlatTree, node: int, columns: list[Column]) -> None:
    """Add the children of a node, or set its score if it is a leaf."""
    if tree.left[node] < 0:
        element.set("score", repr(float(tree.value[node, 0])))
        return
    children = int(tree.left[node]), int(tree.right[node])
    element.set("defaultChild", str(children[0 if tree.missing_left[node] else 1]))
    for child, predicate in zip(children, _predicates(tree, node, columns), strict=True):
        found = _add(element, "Node", id=child)
        found.append(predicate)
        _fill(found, tree, child, columns)


def _predicates(tree: FlatTree, node: int, columns: list[Column]) -> list[Element]:
    """Return the predicates of the left and right children; they are unknown if the value is missing."""
    column = columns[tree.feature[node]]
    members = tree.members.get(node)
    if members is None and np.isfinite(tree.threshold[node]):
        value = repr(float(tree.threshold[node]))
        return [_simple(column, name, value=value) for name in ("lessOrEqual", "greaterThan")]
    if members is None or not len(members):
        known_left = members is None  # True if all values that are not missing go left, False if none do
        if known_left == tree.missing_left[node]:
            kinds = ("True", "False") if known_left else ("False", "True")
            return [ElementTree.Element(kind) for kind in kinds]
        operators = ("isNotMissing", "isMissing") if known_left else ("isMissing", "isNotMissing")
        return [_simple(column, operator) for operator in operators]
    categories = column.categories or []
    for k in members.tolist():
        if _text(categories[k]).endswith("\\"):  # it would escape the closing quotation mark
            raise CannotHoldError(f"a backslash at the end of the category {categories[k]!r} of {column.name!r}")
    values = " ".join('"' + _text(categories[k]).replace('"', '\\"') + '"' for k in members.tolist())
    sets = []
    for operator in ("isIn", "isNotIn"):
        sets.append(ElementTree.Element("SimpleSetPredicate", field=column.name, booleanOperator=operator))
        _add(sets[-1], "Array", type="string", n=len(members)).text = values
    return sets


def _simple(column: Column, operator: str, **value: str) -> Element:
    return ElementTree.Element("SimplePredicate", {"field": column.name, "operator": operator, **value})

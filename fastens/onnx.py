"""Conversion of tree models within pipelines by skl2onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, TransformerMixin

import fastens
from fastens.exchange.export import ModelView, refusals, targets_of, view_of
from fastens.exchange.onnx_writer import GraphBuilder, add_target, add_trees
from fastens.exchange.records import ModelColumn

_ML = "ai.onnx.ml"
# Since these versions, axes are inputs of Squeeze and ReduceSum, and thresholds may be doubles.
_MIN_OPSETS = {"": 13, _ML: 3}
_CLASS_OPTIONS = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]}
_DECISIONS = {"raw_scores": [True, False]}


def register() -> None:
    """Register converters of the tree-based estimators with skl2onnx.

    After this call, skl2onnx converts the estimators on their own and within the pipelines, stacking models and
    searches of scikit-learn. All estimators whose `export` method writes ONNX are registered: boosting, forests, extra
    trees, bagged trees, single trees and stumps, isolation forests, `AdaBoostClassifier` and posterior-averaged trees.

    Outputs have the same names as for scikit-learn's estimators: "label" and "probabilities" for classifiers,
    "variable" for regressors, and "label" and "scores" for isolation forests. Inputs may be floats, doubles or
    integers, and strings for columns whose categories are strings. All numbers are compared as doubles. Leaf values are
    summed in single precision, because skl2onnx supports version 3 of ai.onnx.ml, while `export` uses version 5.

    Supported options are "zipmap", "nocl", "output_class_labels", and "raw_scores" for the `decision_function`. ZipMap
    accepts only floats; set ``options={"zipmap": False}`` if the inputs are doubles.

    Raises
    ------
    ModuleNotFoundError
        If skl2onnx is not installed.

    Examples
    --------
    >>> import fastens.onnx
    >>> fastens.onnx.register()  # doctest: +SKIP
    >>> onnx_model = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})  # doctest: +SKIP
    """
    try:
        from skl2onnx import update_registered_converter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("fastens.onnx needs the package skl2onnx: pip install 'fastens[onnx]'") from error

    for name in vars(fastens)["__all__"]:
        kind = getattr(fastens, name)
        if not hasattr(kind, "export") or issubclass(kind, TransformerMixin):
            continue
        options = _CLASS_OPTIONS if issubclass(kind, ClassifierMixin) else None
        if _has_decision_function(kind):
            options = _CLASS_OPTIONS | _DECISIONS
        update_registered_converter(kind, f"Fastens{name}", _set_types, _convert, options=options)


def _has_decision_function(model_class: type) -> bool:
    """Return True if a class has a `decision_function`, which calibration requests by the option "raw_scores"."""
    return issubclass(model_class, fastens.GradientBoostingClassifier | fastens.AdaBoostClassifier)


def _set_types(operator: Any) -> None:
    """Set the types and shapes of the outputs of `operator`, skl2onnx's node for an estimator."""
    from skl2onnx.common import data_types

    model, scope = operator.raw_operator, operator.scope_inst
    is_double = any(isinstance(variable.type, data_types.DoubleTensorType) for variable in operator.inputs)
    number = data_types.DoubleTensorType if is_double else data_types.FloatTensorType
    n_rows = operator.inputs[0].get_first_dimension()
    if len(operator.outputs) == 1:
        with refusals(_with_trees(model), "onnx"):
            operator.outputs[0].set_type(number([n_rows, view_of(_with_trees(model)).n_outputs]))
    elif not isinstance(model, ClassifierMixin):
        operator.outputs[0].set_type(data_types.Int64TensorType([n_rows, 1]))
        operator.outputs[1].set_type(number([n_rows, 1]))
    else:
        labels = _labels(model, scope)
        label = data_types.StringTensorType if labels.dtype.kind in "UO" else data_types.Int64TensorType
        operator.outputs[0].set_type(label([n_rows]))
        operator.outputs[1].set_type(number([n_rows, len(labels)]))


def _with_trees(model: Any) -> Any:
    """Return the forest inside bagged trees, or the model itself for all other models."""
    forest = getattr(model, "_forest", None)
    return model if forest is None else forest


def _labels(model: Any, scope: Any) -> Any:
    """Return a classifier's labels in a type that ONNX supports, or 0, 1, ... with the option "nocl".

    Raises ValueError for several targets.
    """
    labels = model.classes_
    if isinstance(labels, list):
        raise ValueError("skl2onnx does not support several classification targets. Use model.export(format='onnx').")
    if scope.get_options(model, {"nocl": False})["nocl"]:
        return np.arange(len(labels))
    return labels.astype(np.int64) if labels.dtype.kind in "bf" else labels


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an estimator to the container of skl2onnx; raise ValueError if its opset is too old."""
    from skl2onnx.common.data_types import StringTensorType, guess_proto_type

    model = operator.raw_operator
    for domain, least in _MIN_OPSETS.items():
        if (got := container.target_opset_any_domain(domain)) < least:
            raise ValueError(f"target_opset for {domain!r} must be at least {least} for fastens; got {got}.")
    graph = GraphBuilder(_MIN_OPSETS[_ML], scope.get_unique_operator_name("fastens"))
    with refusals(_with_trees(model), "onnx"):
        view = view_of(_with_trees(model))
        raw = add_trees(graph, view, _values(graph, operator.inputs, view))
        target = view.only_target
        if target.classes is not None:
            target = target._replace(classes=_labels(model, scope))
        add_target(graph, target, raw, view.n_outputs, "")
    results = list(graph.results.values())
    # Stacking on `decision_function` sets the option of its members in the container.
    if _has_decision_function(type(model)) and container.get_options(model, {"raw_scores": False})["raw_scores"]:
        results[1] = _decision(graph, model, view, raw)
    _copy(graph, container)
    for result, output in zip(results, operator.outputs, strict=True):
        is_text = isinstance(output.type, StringTensorType)
        cast = ("Identity", {}) if is_text else ("Cast", {"to": guess_proto_type(output.type)})
        container.add_node(cast[0], [result], [output.full_name], **cast[1])


def _decision(graph: GraphBuilder, model: Any, view: ModelView, raw: str) -> str:
    """Return the name of the `decision_function`, computed from the raw predictions named `raw`.

    Binary models get two columns, the first negated, as skl2onnx expects.
    """
    decision = graph.add("Div", raw, graph.constant(np.array(targets_of(model)[1], graph.float_type)))
    return graph.add("Concat", graph.add("Neg", decision), decision, axis=1) if view.n_outputs == 1 else decision


def _values(graph: GraphBuilder, inputs: list[Any], view: ModelView) -> str | list[str]:
    """Return the name of a tensor of all columns as doubles, or one name per column if some are strings.

    Inputs are matched to columns by name if all names are present, otherwise by order. Raises ValueError if their
    number or types do not match.
    """
    from skl2onnx.common.data_types import StringTensorType

    by_name = {variable.raw_name: variable for variable in inputs}
    if all(column.name in by_name for column in view.columns):
        inputs = [by_name[column.name] for column in view.columns]
    shapes = [variable.type.shape for variable in inputs]
    n_columns, has_strings = len(view.columns), any(column.has_strings for column in view.columns)
    # Stacking models do not declare the number of columns of their final estimator.
    is_one = len(inputs) == 1 and (len(shapes[0]) < 2 or shapes[0][1] in (None, n_columns))
    if is_one and not has_strings and not isinstance(inputs[0].type, StringTensorType):
        return graph.add("Cast", inputs[0].full_name, to=np.float64)
    widths = [int(shape[1] or 0) for shape in shapes]
    if sum(widths) != n_columns:
        raise ValueError(f"the inputs must have {n_columns} columns for this {view.estimator}; got {widths}.")
    tensors: list[str] = []
    for variable, width in zip(inputs, widths, strict=True):
        for index in range(width):
            column = view.columns[len(tensors)]
            is_text = isinstance(variable.type, StringTensorType)
            _check_type(column, variable.raw_name, is_text=is_text)
            values = variable.full_name
            if width > 1:
                values = graph.add("Gather", values, graph.constant(np.array([index])), axis=1)
            tensors.append(values if is_text else graph.add("Cast", values, to=np.float64))
    return tensors if has_strings else graph.add("Concat", *tensors, axis=1)


def _check_type(column: ModelColumn, name: str, *, is_text: bool) -> None:
    """Raise ValueError unless an input has its column's type: strings for text categories, numbers otherwise.

    `is_text` is True if the input holds strings.
    """
    if is_text != column.has_strings:
        kinds = ["numbers", "strings"]
        wanted, got = kinds[column.has_strings], kinds[is_text]
        raise ValueError(
            f"the input {name!r} must be a tensor of {wanted} for the column {column.name!r}; got a tensor of {got}."
        )


def _copy(graph: GraphBuilder, container: Any) -> None:
    """Add the constants and nodes of `graph` to the container of skl2onnx."""
    from onnx.helper import get_attribute_value

    container.initializers.extend(graph.constants)
    for node in graph.nodes:
        attributes = {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}
        if node.domain:
            attributes["op_version"] = _MIN_OPSETS[node.domain]
        names = [*node.input], [*node.output]
        container.add_node(node.op_type, *names, op_domain=node.domain, name=node.name, **attributes)

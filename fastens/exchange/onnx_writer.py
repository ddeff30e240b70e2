"""Export to ONNX graphs: nodes, links and outputs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView, text_of
from fastens.exchange.records import ModelColumn
from fastens.exchange.trees import FlatTrees
from fastens.params.rules import one_of

_ML = "ai.onnx.ml"


class GraphBuilder:
    """A graph under construction, whose intermediate results have numbered names.

    Parameters
    ----------
    ml_opset : int
        The version of ai.onnx.ml.
    prefix : str
        The prefix of the names of results.

    Attributes
    ----------
    nodes, constants : lists of NodeProto and TensorProto
        The nodes and constants added so far.
    results : dict of str to str
        The names of the results that become outputs, by output name.
    """

    def __init__(self, ml_opset: int, prefix: str = "fastens") -> None:
        try:
            import onnx
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("format='onnx' needs the package onnx: pip install 'fastens[onnx]'") from error
        self._onnx: Any = onnx
        self._prefix = prefix
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.results: dict[str, str] = {}
        self.ml_opset = ml_opset
        # The ONNX type of the sums of trees.
        self.float_type = np.float64 if ml_opset >= 5 else np.float32

    def input(self, name: str, dtype: DTypeLike, n_columns: int) -> str:
        """Declare an input of shape (n_rows, n_columns) and return its name."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self._type_code(dtype), [None, n_columns]))
        return name

    def output(self, result: str, name: str, dtype: DTypeLike, n_columns: int | None) -> None:
        """Declare `result` as output `name`, of shape (n_rows, n_columns), or (n_rows,) if `n_columns` is None."""
        self.results[name] = result
        shape = [None] if n_columns is None else [None, n_columns]
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._type_code(dtype), shape))

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant and return its name."""
        name = f"{self._prefix}.constant.{len(self.constants)}"
        self.constants.append(self._tensor(values, name))
        return name

    def add(self, operator: str, *inputs: str, n_results: int = 1, **attributes: Any) -> str:
        """Add a node of ONNX's default domain, and return the name of its first result."""
        return self._add(operator, "", inputs, n_results, attributes)

    def add_ml(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of the domain ai.onnx.ml, and return the name of its result."""
        return self._add(operator, _ML, inputs, 1, attributes)

    def label_encoder(self, values: str, **keys: Any) -> str:
        """Add a lookup of the positions of `values` in the only list in `keys`, -1 for others; return its name."""
        (key_values,) = keys.values()
        return self.add_ml("LabelEncoder", values, values_int64s=list(range(len(key_values))), default_int64=-1, **keys)

    def serialised(self, name: str, opset: int, ir_version: int, note: str) -> bytes:
        """Return the checked and serialised model with a note, for the given opset and IR versions."""
        helper = self._onnx.helper
        for tensor in self._inputs:
            if not tensor.name:
                raise CannotHoldError("a column without a name (use inputs='tensor' for numerical columns)")
            if tensor.name in self.results:
                raise CannotHoldError(f"a column with the name of the output {tensor.name!r}")
        ends = [helper.make_node("Identity", [result], [output]) for output, result in self.results.items()]
        graph = helper.make_graph([*self.nodes, *ends], name, self._inputs, self._outputs, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(_ML, self.ml_opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, producer_name="fastens")
        helper.set_model_props(model, {"fastens": note})
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _add(
        self, operator: str, domain: str, inputs: tuple[str, ...], n_results: int, attributes: dict[str, Any]
    ) -> str:
        """Add a node with this operator, domain and attributes, and return the name of its first result."""
        results = [f"{self._prefix}.{len(self.nodes)}.{k}" for k in range(n_results)]
        encoded = {name: self._attribute(name, value) for name, value in attributes.items()}
        node = self._onnx.helper.make_node(operator, list(inputs), results, name=results[0], domain=domain, **encoded)
        self.nodes.append(node)
        return results[0]

    def _attribute(self, name: str, value: Any) -> Any:
        """Return the value of a node's attribute in a form that ONNX accepts: types as codes, arrays as tensors."""
        if isinstance(value, type):
            return self._type_code(value)
        return self._tensor(value, name) if isinstance(value, np.ndarray) else value

    def _tensor(self, values: NDArray[Any], name: str) -> Any:
        """Return an array as a named ONNX tensor."""
        values = values.astype(object) if values.dtype.kind == "U" else values
        return self._onnx.numpy_helper.from_array(values, name)

    def _type_code(self, dtype: DTypeLike) -> int:
        """Return ONNX's code of a NumPy type; objects are strings."""
        if np.dtype(dtype).kind in "UO":
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def add_target(graph: GraphBuilder, target: LinkedTarget, raw: str, n_outputs: int, suffix: str) -> None:
    """Add the outputs of a target: "variable"; "label" and "probabilities"; or "label" and "scores".

    `raw` is the name of the tensor of all `n_outputs` raw predictions, and `suffix` is appended to the outputs' names.
    """
    if target.n_raw < n_outputs:
        chosen = np.arange(target.outputs.start, target.outputs.stop)
        raw = graph.add("Gather", raw, graph.constant(chosen), axis=1)
    if target.link == "anomaly":
        _add_anomaly(graph, target, raw)
    elif target.classes is None:
        predicted = _NUMBERS[target.link](graph, raw, target.n_raw)
        graph.output(predicted, f"variable{suffix}", graph.float_type, target.n_raw)
    else:
        _add_classes(graph, target, raw, suffix)


def _add_anomaly(graph: GraphBuilder, target: LinkedTarget, raw: str) -> None:
    """Add an isolation forest's outputs, label and decision function, computed from the tensor named `raw`."""
    mean_length, offset = target.parameters
    exponent = graph.add("Mul", raw, _number(graph, -math.log(2) / mean_length))
    # The score is a negated power of 2, and the decision function is the score minus the offset.
    decision = graph.add("Sub", _number(graph, -offset), graph.add("Exp", exponent))
    is_outlier = graph.add("Less", decision, _number(graph, 0.0))
    label = graph.add("Where", is_outlier, graph.constant(np.array(-1)), graph.constant(np.array(1)))
    graph.output(label, "label", np.int64, 1)
    graph.output(decision, "scores", graph.float_type, 1)


def _add_classes(graph: GraphBuilder, target: LinkedTarget, raw: str, suffix: str) -> None:
    """Add the outputs of a classification target, label and probabilities, computed from the tensor named `raw`.

    Raises CannotHoldError for labels above 2**63 - 1.
    """
    classes = target.classes
    assert classes is not None
    if target.n_raw == 1 and len(classes) == 2:
        limit = 0.5 if target.link == "shares" else 0.0
        is_second = graph.add("Greater", raw, _number(graph, limit))
        index = graph.add("Squeeze", graph.add("Cast", is_second, to=np.int64), graph.constant(np.array([1])))
    else:
        index = graph.add("ArgMax", raw, axis=1, keepdims=0)
    if classes.dtype.kind == "u" and classes.max() > np.iinfo(np.int64).max:
        raise CannotHoldError(f"a label above 2**63 - 1 ({classes.max()})")
    labels = classes.astype(np.int64) if classes.dtype.kind in "iu" else classes
    labels = np.array([str(label) for label in labels]) if labels.dtype.kind in "UO" else labels
    graph.output(graph.add("Gather", graph.constant(labels), index), f"label{suffix}", labels.dtype, None)
    link = "second share" if target.link == "shares" and target.n_raw == 1 else target.link
    shares = _SHARES[link](graph, raw, target.n_raw)
    graph.output(shares, f"probabilities{suffix}", graph.float_type, len(classes))


def _number(graph: GraphBuilder, value: float) -> str:
    """Add a scalar constant and return its name."""
    return graph.constant(np.array(value, dtype=graph.float_type))


def _sigmoids_of_two(graph: GraphBuilder, raw: str, n_raw: int) -> str:
    """Add both classes' probabilities, computed from the log odds of the second class; return their name."""
    return graph.add("Concat", graph.add("Sigmoid", graph.add("Neg", raw)), graph.add("Sigmoid", raw), axis=1)


def _divide_by_sum(graph: GraphBuilder, shares: str) -> str:
    """Add the tensor named `shares` with each row divided by its sum; return the result's name."""
    return graph.add("Div", shares, graph.add("ReduceSum", shares, graph.constant(np.array([1]))))


def _one_vs_rest(graph: GraphBuilder, raw: str, n_raw: int) -> str:
    """Add the sigmoid of each raw prediction, divided by the sum over classes; return the result's name."""
    least = _number(graph, float(np.finfo(graph.float_type).tiny))
    return _divide_by_sum(graph, graph.add("Max", graph.add("Sigmoid", raw), least))


def _shares_of_two(graph: GraphBuilder, raw: str, n_raw: int) -> str:
    """Add both classes' probabilities, computed from the probability of the second class; return their name."""
    return graph.add("Concat", graph.add("Sub", _number(graph, 1.0), raw), raw, axis=1)


def _sort_levels(graph: GraphBuilder, raw: str, n_levels: int) -> str:
    """Add the quantiles of each row of `raw` in ascending order, and return the result's name."""
    n_wanted = graph.constant(np.array([n_levels]))
    return graph.add("TopK", raw, n_wanted, n_results=2, axis=1, largest=0, sorted=1)


_Link = Callable[[GraphBuilder, str, int], str]
_NUMBERS: dict[str, _Link] = {
    "identity": lambda graph, raw, n: raw,
    "exp": lambda graph, raw, n: graph.add("Exp", raw),
    "sigmoid": lambda graph, raw, n: graph.add("Sigmoid", raw),
    "sorted": _sort_levels,
}
_SHARES: dict[str, _Link] = {
    "sigmoid": _sigmoids_of_two,
    "softmax": lambda graph, raw, n: graph.add("Softmax", raw, axis=1),
    "one vs rest": _one_vs_rest,
    "shares": lambda graph, raw, n: _divide_by_sum(graph, raw),
    "second share": _shares_of_two,
}


# The opset and the IR version for each version of ai.onnx.ml.
_VERSIONS = {5: (18, 9), 3: (15, 8)}
_LEQ, _MEMBER = 0, 6


def write(view: ModelView, *, ml_opset: int = 5, inputs: str = "auto") -> bytes:
    """Return a serialised ModelProto.

    Parameters
    ----------
    view : ModelView
        The model.
    ml_opset : {5, 3}
        The version of ai.onnx.ml. Version 5 sums in double precision and needs onnxruntime 1.21 or later, or 1.23 or
        later if there are categories. Version 3 sums in single precision.
    inputs : {"auto", "tensor", "columns"}
        If "tensor", the graph has one input "X" with all columns. If "columns", it has one input of shape (n, 1) per
        column, with the name of the column. If "auto", "columns" is used only if categories are strings. Missing
        numbers are NaN, and missing strings are "".
    """
    if ml_opset not in _VERSIONS:
        raise ValueError(f"ml_opset must be 5 or 3; got {ml_opset!r}.")
    one_of("auto", "tensor", "columns").check("inputs", inputs)
    view.refuse_characters(r"[\ud800-\udfff]")
    graph = GraphBuilder(ml_opset)
    has_strings = any(column.has_strings for column in view.columns)
    if inputs == "tensor" and has_strings:
        raise CannotHoldError("string categories in a single tensor (use inputs='columns')")
    if has_strings or inputs == "columns":
        values: str | list[str] = [
            graph.input(column.name, np.str_ if column.has_strings else np.float64, 1) for column in view.columns
        ]
    else:
        values = graph.input("X", np.float64, len(view.columns))
    raw = add_trees(graph, view, values)
    for number, target in enumerate(view.targets):
        add_target(graph, target, raw, view.n_outputs, f"_{number}" if len(view.targets) > 1 else "")
    note = view.note
    if ml_opset < 5:
        note = note | {"columns_of_sets": sorted({int(tree.feature[n]) for tree in view.trees for n in tree.sets})}
    return graph.serialised(view.estimator, *_VERSIONS[ml_opset], text_of(note))


def add_trees(graph: GraphBuilder, view: ModelView, values: str | list[str]) -> str:
    """Add the trees of a model and return the name of their sum or mean.

    Parameters
    ----------
    graph : GraphBuilder
        The graph to add to.
    view : ModelView
        The model.
    values : str or list of str
        The name of a result with all columns in double precision, or the names of results of shape (n, 1), one per
        column, with doubles or strings.
    """
    columns = _Inputs(graph, view.columns, values)
    raw = (_ensemble if graph.ml_opset >= 5 else _regressor)(graph, view, columns)
    return graph.add("Div", raw, graph.constant(np.array(view.divisor, graph.float_type))) if view.is_mean else raw


class _Inputs:
    """The columns in the form that the trees read."""

    def __init__(self, graph: GraphBuilder, columns: list[ModelColumn], values: str | list[str]) -> None:
        self._graph, self._columns = graph, columns
        self._tensor, self._inputs = (values, []) if isinstance(values, str) else ("", values)
        self._positions: dict[int, str] = {}

    def numbers(self) -> str:
        """Return the name of a tensor of all columns as doubles, with categories as positions.

        Missing categories have the position after the last category, and unseen categories have -1.
        """
        if self._tensor and all(column.categories is None for column in self._columns):
            return self._tensor
        parts = [
            self._values(index)
            if column.categories is None
            else self._graph.add("Cast", self.positions(index), to=np.float64)
            for index, column in enumerate(self._columns)
        ]
        return self._graph.add("Concat", *parts, axis=1)

    def positions(self, index: int) -> str:
        """Return the name of a tensor with the positions of the categories of column `index`, as integers."""
        if index not in self._positions:
            find = self._of_strings if self._columns[index].has_strings else self._of_numbers
            self._positions[index] = find(index, self._columns[index].categories or [])
        return self._positions[index]

    def _of_strings(self, index: int, categories: list[str]) -> str:
        """Add positions of column `index` among string categories, -1 if unseen; return the result's name.

        Raises CannotHoldError if some categories are numbers.
        """
        if not all(isinstance(value, str) for value in categories):
            raise CannotHoldError(f"categories of {self._columns[index].name!r} that mix strings and numbers")
        keys = [*categories, *([] if "" in categories else [""])]
        return self._graph.label_encoder(self._values(index), keys_strings=keys)

    def _of_numbers(self, index: int, categories: list[float]) -> str:
        """Add positions of column `index` among numeric categories, -1 if unseen; return the result's name.

        Raises CannotHoldError if categories are equal in single precision.
        """
        graph, values, lookup = self._graph, self._values(index), np.array([*categories, np.nan], dtype=np.float64)
        if len(np.unique(lookup[:-1].astype(np.float32))) < len(categories):
            raise CannotHoldError(f"categories that are equal in single precision ({self._columns[index].name!r})")
        keys = lookup[:-1].astype(np.float32).tolist()
        positions = graph.label_encoder(graph.add("Cast", values, to=np.float32), keys_floats=keys)
        # A value that equals a category only in single precision is unseen.
        is_known = graph.add("Equal", graph.add("Gather", graph.constant(lookup), positions), values)
        positions = graph.add("Where", is_known, positions, graph.constant(np.array([[-1]])))
        return graph.add("Where", graph.add("IsNaN", values), graph.constant(np.array([[len(categories)]])), positions)

    def _values(self, index: int) -> str:
        """Return the name of the tensor with the values of one column."""
        if self._inputs:
            return self._inputs[index]
        return self._graph.add("Gather", self._tensor, self._graph.constant(np.array([index])), axis=1)


def _ensemble(graph: GraphBuilder, view: ModelView, inputs: _Inputs) -> str:
    """Add all trees as a TreeEnsemble operator (version 5), and return the name of the raw sums."""
    nodes: dict[str, list[Any]] = defaultdict(list)
    roots: list[int] = []
    sets: list[float] = []
    leaf_output: list[int] = []
    leaf_value: list[float] = []
    for output, original in view.rounds():
        roots.append(len(nodes["featureids"]))
        tree = _with_split(original, view.columns)
        is_leaf = tree.is_leaf
        # Leaves are numbered in reverse order because onnxruntime before 1.24 mistakes a root for a leaf if one of its
        # children is a leaf and both children have the same number.
        leaf_positions = np.cumsum(is_leaf[::-1])[::-1] - 1 + len(leaf_value)
        positions = np.where(is_leaf, leaf_positions, np.cumsum(~is_leaf) - 1 + roots[-1])
        leaf_value += tree.value[is_leaf, 0][::-1].tolist()
        leaf_output += [output] * int(is_leaf.sum())
        by_set = np.zeros(len(is_leaf), dtype=bool)
        for node in sorted(tree.sets):
            by_set[node] = True
            missing = [len(view.columns[tree.feature[node]].categories or [])] if tree.missing_left[node] else []
            # A set must not be empty, so an empty set gets -2, which no row has.
            sets += [*([*tree.sets[node].tolist(), *missing] or [-2]), np.nan]
        for name, values in {
            "featureids": tree.feature,
            "splits": np.where(by_set, 0.0, tree.threshold),
            "modes": np.where(by_set, _MEMBER, _LEQ),
            "missing_value_tracks_true": tree.missing_left,
            "truenodeids": positions[tree.left],
            "falsenodeids": positions[tree.right],
            "trueleafs": is_leaf[tree.left],
            "falseleafs": is_leaf[tree.right],
        }.items():
            nodes[name] += values[~is_leaf].tolist()
    attributes: dict[str, Any] = {
        f"nodes_{name}": list(map(int, values)) for name, values in nodes.items() if name != "splits"
    }
    attributes["nodes_splits"] = np.array(nodes["splits"], dtype=np.float64)
    attributes["nodes_modes"] = np.array(nodes["modes"], dtype=np.uint8)
    if sets:
        attributes["membership_values"] = np.array(sets, dtype=np.float64)
    return graph.add_ml(
        "TreeEnsemble",
        inputs.numbers(),
        tree_roots=roots,
        leaf_targetids=leaf_output,
        leaf_weights=np.array(leaf_value),
        n_targets=view.n_outputs,
        post_transform=0,
        aggregate_function=1,
        **attributes,
    )


def _with_split(tree: FlatTrees, columns: list[ModelColumn]) -> FlatTrees:
    """Return the tree; a single leaf gets a split, of column 0, into two leaves of equal value."""
    if not tree.is_leaf[0]:
        return tree
    value = np.repeat(tree.value[:1], 3, axis=0)
    children = np.array([1, -1, -1]), np.array([2, -1, -1])
    flags, zero = np.zeros(3, dtype=bool), np.zeros(3)
    sets = {} if columns[0].categories is None else {0: np.zeros(0, dtype=np.int64)}
    return FlatTrees(*children, np.array([0, -1, -1]), zero, flags, value, sets=sets)


def _regressor(graph: GraphBuilder, view: ModelView, inputs: _Inputs) -> str:
    """Add all trees as a TreeEnsembleRegressor operator (version 3), and return the name of the raw sums.

    It has no category sets, so each set becomes a column of 0 and 1.
    """
    columns, sets = _columns_of_sets(view)
    parts = [inputs.numbers()]
    for index, column_sets in sets.items():
        table = np.array([*column_sets]).T.astype(np.float64)
        positions = graph.add("Squeeze", inputs.positions(index), graph.constant(np.array([1])))
        parts.append(graph.add("Gather", graph.constant(table), positions, axis=0))
    nodes: dict[str, list[Any]] = defaultdict(list)
    weights: list[float] = []
    for number, (output, tree) in enumerate(view.rounds()):
        for node, is_leaf in enumerate(tree.is_leaf.tolist()):
            key = _set_key(view, tree, node)
            split = (0, 0.0) if is_leaf else (int(tree.feature[node]), float(tree.threshold[node]))
            column, threshold = split if key is None else (columns[key], 0.5)
            # Members of a set have a 0 in its column and go left.
            missing_left = bool(tree.missing_left[node]) and key is None
            entry: dict[str, Any] = {
                "nodes_treeids": number,
                "nodes_nodeids": node,
                "nodes_featureids": column,
                "nodes_modes": "LEAF" if is_leaf else "BRANCH_LEQ",
                "nodes_values_as_tensor": threshold,
                "nodes_truenodeids": 0 if is_leaf else int(tree.left[node]),
                "nodes_falsenodeids": 0 if is_leaf else int(tree.right[node]),
                "nodes_missing_value_tracks_true": int(missing_left),
            }
            if is_leaf:
                weights.append(float(tree.value[node, 0]))
                entry |= {"target_treeids": number, "target_nodeids": node, "target_ids": output}
            for name, value in entry.items():
                nodes[name].append(value)
    values = np.array(nodes.pop("nodes_values_as_tensor"), dtype=np.float64)
    return graph.add_ml(
        "TreeEnsembleRegressor",
        graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0],
        n_targets=view.n_outputs,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_values_as_tensor=values,
        target_weights_as_tensor=np.array(weights),
        **nodes,
    )


def _set_key(view: ModelView, tree: FlatTrees, node: int) -> tuple[int, bytes] | None:
    """Return a categorical split's column and set, as bytes; None for other nodes.

    The bytes are 0 for categories that go left and 1 for others, then one for missing and one for unseen values.
    """
    if (members := tree.sets.get(node)) is None:
        return None
    column = int(tree.feature[node])
    is_other = np.ones(len(view.columns[column].categories or []) + 2, dtype=np.uint8)
    is_other[members] = 0
    is_other[-2] = not tree.missing_left[node]
    return column, is_other.tobytes()


def _columns_of_sets(view: ModelView) -> tuple[dict[tuple[int, bytes], int], dict[int, list[NDArray[np.uint8]]]]:
    """Return the index of the 0/1 column of each `_set_key`, and the sets of each column of X.

    The columns of sets follow the columns of X.
    """
    keys = {_set_key(view, tree, node): None for tree in view.trees for node in tree.sets}
    ordered = sorted(key for key in keys if key is not None)
    sets: dict[int, list[NDArray[np.uint8]]] = {}
    for column, members in ordered:
        sets.setdefault(column, []).append(np.frombuffer(members, dtype=np.uint8))
    return {key: len(view.columns) + k for k, key in enumerate(ordered)}, sets

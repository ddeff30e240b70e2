"""Import of ONNX tree ensembles, including the graph and the protocol buffers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import SINGLE, WHOLE
from fastens.exchange.records import (
    CLASSIFIER,
    REGRESSOR,
    ModelColumns,
    Objective,
    array_of,
    at_most,
    less_than,
    note_in,
    number,
    part,
    refuse,
    single,
    whole_number,
)
from fastens.exchange.trees import FlatTrees, ForeignModel, set_codes, tree_of_nodes, with_vectors
from fastens.forests.random_splits import mean_depth

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_BYTES = 10


class Message:
    """A protocol buffer message: the values of each field number, in the order of the file.

    Parameters
    ----------
    content : bytes
        The serialised message.

    Raises
    ------
    ModelFileError
        If the message is malformed or truncated.
    """

    def __init__(self, content: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        at = 0
        while at < len(content):
            key, at = _varint(content, at)
            kind, number = key & 7, key >> 3
            value: int | bytes
            if kind == _VARINT:
                value, at = _varint(content, at)
            else:
                size, at = _varint(content, at) if kind == _BYTES else ({_FIXED64: 8, _FIXED32: 4}.get(kind, -1), at)
                if size < 0 or at + size > len(content) or number == 0:
                    raise refuse("a protocol buffer has a field that ends after it; the file is truncated or damaged")
                value, at = content[at : at + size], at + size
            self._fields.setdefault(number, []).append((kind, value))

    def bytes(self, number: int) -> list[bytes]:
        """Return all values of bytes in the field `number`; values of other types are left out."""
        return [value for _, value in self._fields.get(number, []) if isinstance(value, bytes)]

    def messages(self, number: int) -> list[Message]:
        """Return all nested messages in the field `number`."""
        return [Message(content) for content in self.bytes(number)]

    def texts(self, number: int) -> list[str]:
        """Return all strings in the field `number`; raise ModelFileError unless they are UTF-8."""
        try:
            return [content.decode("utf-8") for content in self.bytes(number)]
        except UnicodeDecodeError as error:
            raise refuse("a string must be UTF-8; the file is damaged") from error

    def text(self, number: int) -> str:
        """Return the last string in the field `number`, or "" if the field is absent."""
        return (self.texts(number) or [""])[-1]

    def integers(self, number: int) -> NDArray[np.int64]:
        """Return all integers in the field `number`, packed or not; raise ModelFileError if they are damaged."""
        integers: list[int] = []
        for _, value in self._fields.get(number, []):
            if isinstance(value, bytes):
                at = 0
                while at < len(value):
                    one, at = _varint(value, at)
                    integers.append(one)
            else:
                integers.append(value)
        return np.array(integers, dtype=np.uint64).astype(np.int64)

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last integer of field `number`, or `default` if the field is absent."""
        integers = self.integers(number)
        return int(integers[-1]) if len(integers) else default

    def floats(self, number: int, dtype: str = "<f4") -> NDArray[np.floating]:
        """Return all floats of type `dtype` in the field `number`, packed or not; raise ModelFileError if damaged."""
        content = b"".join(self.bytes(number))
        size = np.dtype(dtype).itemsize
        if len(content) % size:
            raise refuse("a field of floats must not end within a float; the file is damaged")
        return np.frombuffer(content, dtype=dtype).astype(np.dtype(dtype).newbyteorder("="))


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at index `at`, and the index after it; raise ModelFileError if damaged."""
    value = 0
    for shift in range(_MAX_BYTES):
        if at >= len(content):
            raise refuse("a protocol buffer must not end within a number; the file is truncated")
        byte = content[at]
        value |= (byte & 127) << (7 * shift)
        at += 1
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise refuse("a protocol buffer has a number that is too long; the file is damaged")


_FLOAT, _STRING, _DOUBLE = 1, 8, 11
_DTYPES = {1: "<f4", 2: "<u1", 3: "<i1", 6: "<i4", 7: "<i8", 9: "<u1", 10: "<f2", 11: "<f8"}
# The fields of a tensor that hold its values, unless they are raw bytes.
_FLOATS_OF = {1: (4, "<f4"), 11: (10, "<f8")}


def tensor(message: Message) -> NDArray[Any]:
    """Return a tensor's entries as a flat array; raise ModelFileError for unsupported types and damaged data."""
    kind = message.integer(2)
    if kind == _STRING:
        return np.array(message.texts(6))
    if kind not in _DTYPES:
        raise refuse(f"a tensor of type {kind} cannot be read")
    raw = b"".join(message.bytes(9))
    dtype = np.dtype(_DTYPES[kind])
    if raw:
        if len(raw) % dtype.itemsize:
            raise refuse("a tensor must have a whole number of elements; the file is damaged")
        return np.frombuffer(raw, dtype=dtype)
    if kind in _FLOATS_OF:
        number, wide = _FLOATS_OF[kind]
        return message.floats(number, wide)
    return message.integers(7 if kind == 7 else 5).astype(dtype)


class Node:
    """An operator with its inputs, outputs and attributes."""

    def __init__(self, message: Message) -> None:
        self.inputs, self.outputs = message.texts(1), message.texts(2)
        self.operator, self.domain = message.text(4), message.text(7)
        self._attributes = {attribute.text(1): attribute for attribute in message.messages(5)}

    def get(self, name: str, default: Any) -> Any:
        """Return the attribute `name`, or `default` if absent; raise ModelFileError if its type is unsupported."""
        if name not in self._attributes:
            return default
        message = self._attributes[name]
        kind = message.integer(20)  # an AttributeType; each type has its field
        if kind == 4:
            return tensor(message.messages(5)[-1])
        fields: dict[int, tuple[Any, int]] = {2: (message.integer, 3), 3: (message.text, 4), 6: (message.floats, 7)}
        fields |= {7: (message.integers, 8), 8: (message.texts, 9)}
        if kind not in fields:
            raise refuse(f"the attribute {name[:40]!r} of type {kind} cannot be read")
        read, position = fields[kind]
        value = read(position)
        if isinstance(default, int | str) and not isinstance(value, type(default)):
            raise refuse(f"the attribute {name[:40]!r} has the wrong type")
        return value

    def array(self, name: str, dtype: Any, size: int | None = None) -> NDArray[Any]:
        """Return `size` numbers (any if None) of an attribute or the tensor that replaces it; empty if absent."""
        return array_of(self.get(f"{name}_as_tensor", self.get(name, [])), name, dtype, size)

    def integers(self, name: str, size: int | None = None) -> Ints:
        """Return the integers of attribute `name`; raise ModelFileError unless there are `size`, any if None."""
        return self.array(name, np.int64, size)

    def labels(self, texts: str, integers: str) -> Any:
        """Return labels from the attribute named `texts` or else `integers`; None if both are absent or empty."""
        labels = self.get(texts, None)
        if labels is None or not len(labels):
            labels = self.integers(integers)
        return np.array(labels) if len(labels) else None


class ModelGraph:
    """The graph of a model.

    Parameters
    ----------
    content : bytes
        The file.

    Attributes
    ----------
    nodes : list of Node
        The operators, in execution order.
    constants : dict of str to array
        The initialisers of the graph, by name.
    n_features : int
        The number of columns of the only input; 0 if it is unknown or there are several inputs.
    metadata : dict of str to str
        The metadata of the file.
    """

    def __init__(self, content: bytes) -> None:
        model = Message(content)
        graphs = model.messages(7)
        if len(graphs) != 1:
            raise refuse("the file must be an ONNX model with a graph")
        graph = graphs[0]
        self.metadata = {entry.text(1): entry.text(2) for entry in model.messages(14)}
        self.nodes = [Node(message) for message in graph.messages(1)]
        self.constants = {message.text(8): tensor(message) for message in graph.messages(5)}
        for node in self.nodes:
            if node.operator == "Constant" and node.outputs:
                self.constants[node.outputs[0]] = node.get("value", None)
        self._by_output = {name: node for node in self.nodes for name in node.outputs}
        inputs = {message.text(1): _type_of(message) for message in graph.messages(11)}
        self._inputs = {name: kind for name, kind in inputs.items() if name not in self.constants}
        self.n_inputs, self.n_features = len(self._inputs), 0
        if len(self._inputs) == 1:
            self.n_features = next(iter(self._inputs.values()))[1]

    def constants_among(self, names: Sequence[str]) -> list[Any]:
        """Return the values of the operator inputs `names` that are constants, in the order of `names`."""
        return [self.constants[name] for name in names if name in self.constants]

    def input_of(self, trees: Node) -> tuple[list[str] | None, bool]:
        """Return the names of the trees' columns if each is an input, else None; and True if they are float32.

        Raises ModelFileError if other operators precede the trees.
        """
        name, kind = (trees.inputs or [""])[0], None
        while name in self._by_output:
            node = self._by_output[name]
            if node.operator == "Cast":
                kind = node.get("to", 0) if kind is None else kind
            elif node.operator == "Concat":
                names = list(map(self._source, node.inputs))
                kind = self._inputs[names[0]][0] if kind is None else kind
                return names, kind == _FLOAT
            elif node.operator != "Identity":
                raise refuse(f"the operator {node.operator[:40]!r} before the trees cannot be read")
            name = node.inputs[0]
        if name not in self._inputs:
            raise refuse("the trees of an ONNX model must use its input")
        return None, (self._inputs[name][0] if kind is None else kind) == _FLOAT

    def _source(self, name: str) -> str:
        """Return the name of the input that a column is cast or reshaped from; raise ModelFileError if none."""
        while name in self._by_output and self._by_output[name].operator in ("Cast", "Identity", "Reshape"):
            name = self._by_output[name].inputs[0]
        if name not in self._inputs or self._inputs[name][1] not in (0, 1):
            raise refuse("the columns that an ONNX model concatenates must be its inputs")
        return name

    def tables_joined(self, trees: Node) -> list[NDArray[Any]]:
        """Return the lookup tables of sets that `export` appends to the columns of the trees."""
        joined = self._by_output.get((trees.inputs or [""])[0])
        names = [] if joined is None or joined.operator != "Concat" else joined.inputs
        sources = [self._by_output[name] for name in names if name in self._by_output]
        return self.constants_among([each.inputs[0] for each in sources if each.operator == "Gather" and each.inputs])

    def following(self, trees: Node) -> Iterator[Node]:
        """Yield the operators that depend on the output of the operator `trees`, in execution order."""
        reached = set(trees.outputs)
        for node in self.nodes:
            if node is not trees and reached & set(node.inputs):
                reached |= set(node.outputs)
                yield node

    def has_labels(self) -> bool:
        """Return True if an operator maps class indices to labels."""
        return any(node.operator in ("LabelEncoder", "ArrayFeatureExtractor", "Gather") for node in self.nodes)


def _type_of(message: Message) -> tuple[int, int]:
    """Return the ONNX type code of an input, and its number of columns; 0 for either if it is unknown."""
    for kind in message.messages(2):
        for tensor_type in kind.messages(1):
            sizes = [dimension.integer(1, 0) for shape in tensor_type.messages(2) for dimension in shape.messages(1)]
            return tensor_type.integer(1), sizes[1] if len(sizes) == 2 and 0 <= sizes[1] < 2**31 else 0
    return 0, 0


_OPERATORS = ("TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_LINKS = {"NONE": "identity", "LOGISTIC": "sigmoid", "SOFTMAX": "softmax", "Sigmoid": "sigmoid", "Softmax": "softmax"}
_LINKS |= {"Exp": "exponential"}
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# Operators that may follow the trees in addition to links and sums: they map scores to labels or reshape the result.
_FORMS = {"ZipMap", "Identity", "Cast", "ArgMax", "ArrayFeatureExtractor", "LabelEncoder", "Reshape", "Squeeze"}
_FORMS |= {"Gather", "Unsqueeze", "Concat", "Sub", "Greater", "Where", "Neg", "Flatten", "GreaterOrEqual", "Binarizer"}


@dataclass(frozen=True)
class _Outputs:
    """How the sums of trees become predictions.

    Attributes
    ----------
    n_outputs, n_targets : int
        The number of sums per row and the number of targets.
    averages : bool
        True if sums are divided by a number of trees.
    n_averaged : int
        The number of trees that are averaged; 0 for the number of trees of each output.
    baseline : array
        Constants that are added to the sums.
    is_classifier : bool
        True for classifiers.
    link : str
        "identity", "exponential", "sigmoid", "softmax", "one vs rest", or "isolation" for ``2 ** (-mean / depth)``.
    depth : float
        The mean path length for "isolation".
    classes : array or None
        The labels. If None, they are 0, 1, ...
    """

    n_outputs: int
    n_targets: int = 1
    averages: bool = False
    n_averaged: int = 0
    baseline: Floats = field(default_factory=lambda: np.zeros(1))
    is_classifier: bool = False
    link: str = "identity"
    depth: float = 1.0
    classes: Any = None


def read_onnx(content: bytes) -> ForeignModel:
    """Read an ONNX file.

    Parameters
    ----------
    content : bytes
        The file.
    """
    graph = ModelGraph(content)
    nodes = [node for node in graph.nodes if node.operator in _OPERATORS and node.domain == "ai.onnx.ml"]
    if len(nodes) != 1:
        raise refuse(f"an ONNX model must have one TreeEnsemble; it has {len(nodes)}")
    node = nodes[0]
    tests = (_tests_of_version_5 if node.operator == "TreeEnsemble" else _tests_of_version_3)(node)
    note = note_in(graph.metadata.get("fastens"))
    if note is not None:
        return _read_exported(graph, node, tests, note)
    names, is_float = graph.input_of(node)
    rule = WHOLE + (SINGLE if is_float else 0)
    columns = ModelColumns(_n_features(tests, names, graph.n_features), names, code_rule=rule)
    trees = tests.trees(columns, is_float=is_float)
    link, added, labels = _link_and_labels(graph, node)
    base = node.array("base_values", float) if node.operator != "TreeEnsemble" else np.zeros(1)
    base = np.zeros(1) if not len(base) else base
    base = base + added if len(base) == len(added) or 1 in (len(base), len(added)) else added
    if node.operator == "TreeEnsembleClassifier":
        labels = _labels(node)
    divisors = [_divisor(graph, after) for after in graph.following(node)]
    n_divided, n_trees, n_outputs = round(max(divisors, default=0.0)), len(trees.roots), tests.n_outputs
    if n_divided and (divisors.count(float(n_divided)) != 1 or np.any(base) or n_divided * n_outputs != n_trees):
        raise refuse("sums of trees must be divided by the number of trees, if at all")
    outputs = _combination_of_trees(node, (n_outputs, n_trees, n_divided), base, link, labels)
    if outputs.is_classifier and outputs.link == "identity" and n_outputs == 1 and not outputs.averages:
        # If the sum of the trees is the probability of the second class, the model is a mean of leaf values that are
        # n_trees times as large.
        trees.scale(n_trees)
        outputs = replace(outputs, averages=True)
    return _sum_of_trees(trees, columns, outputs)


def _read_exported(graph: ModelGraph, node: Node, tests: _Tests, note: dict[str, Any]) -> ForeignModel:
    """Read a model that `export` wrote with this note; inputs are doubles and categories are positions."""
    n_features = graph.n_inputs
    if graph.n_inputs == 1:
        n_features = graph.n_features if note["names"] is None else len(note["names"])
    named = {key: len(values) for key, values in note.get("categories", {}).items()} | part(
        {"n_codes": {}} | note, "n_codes", dict
    )
    sizes = {whole_number(key, "a column"): whole_number(n, "n_codes") for key, n in named.items()}
    sets = _sets(graph, node, note, sizes)
    feature = tests.feature
    if (feature >= n_features + len(sets)).any():
        raise refuse("a split uses a column that does not exist")
    for index in np.flatnonzero(feature >= n_features).tolist():
        feature[index], tests.members[index] = sets[feature[index] - n_features]
        tests.mode[index] = _MEMBER
    for index, members in tests.members.items():
        # The position after the last category represents missing values.
        n = sizes.get(int(feature[index]), 0)
        tests.tracks[index] = n in members
        tests.members[index] = members[(members >= 0) & (members < n)]
    columns = ModelColumns(n_features, code_rule=WHOLE)
    model = _sum_of_trees(tests.trees(columns, is_float=False), columns, _exported_outputs(note))
    if set(note["links"]) == {"sorted"}:
        loss = "expectile" if note.get("levels_of") == "expectile" else "quantile"
        model.objective.parameters = {"loss": loss, "quantile": [number(level, "a level") for level in note["levels"]]}
    if note["links"] == ["anomaly"]:
        model.objective.fitted["offset_"] = number(note["parameters"][1], "the offset")
    model.note = note
    return model


# The link function for each link name in a note.
_NOTED_LINKS = {"exp": "exponential", "anomaly": "isolation", "sigmoid": "sigmoid", "softmax": "softmax"}
_NOTED_LINKS |= dict.fromkeys(("identity", "shares", "sorted"), "identity")


def _exported_outputs(note: dict[str, Any]) -> _Outputs:
    """Return how sums of trees become predictions, for a file whose note describes it completely."""
    links, widths = set(note["links"]), note["widths"]
    if (len(links) != 1 and not links <= {"sigmoid", "softmax"}) or not links <= _NOTED_LINKS.keys():
        raise refuse(f"the links {sorted(map(str, links))} of the fastens metadata cannot be read")
    link = next(iter(links))
    has_classes = "classes" in note and link != "shares"
    return _Outputs(
        n_outputs=sum(widths),
        n_targets=len(widths) if has_classes or link in ("sorted", "anomaly") else sum(widths),
        averages=note.get("is_mean") is True,
        is_classifier=has_classes,
        link=_NOTED_LINKS[link],
        depth=number(note["parameters"][0], "the mean path length") if link == "anomaly" else 1.0,
    )


def _sets(graph: ModelGraph, node: Node, note: dict[str, Any], sizes: dict[int, int]) -> list[tuple[int, Ints]]:
    """Return (column, members) of each set, from version 3's tables; `sizes` are numbers of categories by column."""
    raw = part({"columns_of_sets": []} | note, "columns_of_sets", list)
    columns, tables = [whole_number(column, "a column of category sets") for column in raw], graph.tables_joined(node)
    if len(columns) != len(tables) or not sizes.keys() >= set(columns):
        raise refuse("the fastens metadata and the tables of category sets do not match")
    sets = []
    for column, table in zip(columns, tables, strict=True):
        # The rows are the categories, followed by missing and unseen values. Members of a set have the entry 0.
        n_rows = sizes[column] + 2
        if len(table) % n_rows:
            raise refuse(f"a table of category sets must have {n_rows} rows; the file is damaged")
        sets += [(column, np.flatnonzero(members[:-1] == 0)) for members in table.reshape(n_rows, -1).T]
    return sets


def _combination_of_trees(node: Node, sizes: tuple[int, int, int], base: Floats, link: str, classes: Any) -> _Outputs:
    """Return how the sums of the tree operator `node` become predictions.

    `sizes` are the numbers of outputs, of trees, and of trees by which the sums are divided afterwards, 0 if they are
    not; `base` is added to the sums. Raises ModelFileError for aggregates other than sums and averages.
    """
    n_outputs, n_trees, n_divided = sizes
    if node.operator == "TreeEnsemble":
        aggregate = dict(enumerate(_AGGREGATES)).get(node.get("aggregate_function", 1), "")
    else:
        aggregate = node.get("aggregate_function", "SUM")
    if aggregate not in ("SUM", "AVERAGE"):
        raise refuse(f"aggregate_function must be SUM or AVERAGE; got {aggregate[:20]!r}")
    is_classifier = classes is not None or link == "softmax"
    if is_classifier and n_outputs == 1 and link == "identity" and (node.array("class_weights", float) < 0).any():
        link = "sigmoid"  # scores that may be negative are not probabilities
    if is_classifier and n_outputs > 1 and link == "sigmoid":
        link = "one vs rest"
    return _Outputs(
        n_outputs=n_outputs,
        n_targets=1 if is_classifier else n_outputs,
        averages=aggregate == "AVERAGE" or n_divided > 0,
        n_averaged=n_divided or n_trees,
        baseline=base,
        is_classifier=is_classifier,
        link=link,
        classes=classes,
    )


def _labels(node: Node) -> Any:
    """Return the class labels in a classifier operator's attributes, strings or integers; None if there are none."""
    return node.labels("classlabels_strings", "classlabels_int64s")


def _link_and_labels(graph: ModelGraph, node: Node) -> tuple[str, NDArray[np.float64], Any]:
    """Return the link, constants that are added to the sums, and labels or None, from the operators after `node`."""
    transform = node.get("post_transform", "NONE" if node.operator != "TreeEnsemble" else 0)
    if node.operator == "TreeEnsemble":
        transform = dict(enumerate(_TRANSFORMS)).get(transform, str(transform))
    if transform not in _LINKS:
        raise refuse(f"post_transform must be NONE, LOGISTIC or SOFTMAX; got {transform[:20]!r}")
    link, added, labels = _LINKS[transform], np.zeros(1), None
    for after in graph.following(node):
        if after.operator == "Add":
            constants = graph.constants_among(after.inputs)
            if len(constants) != 1 or link != "identity":
                raise refuse("only a constant may be added to the sums of the trees")
            added = added + np.asarray(constants[0], dtype=np.float64).ravel()
        elif _multiplies_by_one(graph, after) or (_divisor(graph, after) > 0 and link == "identity"):
            continue
        elif after.operator in _LINKS:
            link = _LINKS[after.operator]
        elif after.operator not in _FORMS:
            raise refuse(f"the operator {after.operator[:40]!r} after the trees cannot be read")
        labels = _labels_among(graph, after) if labels is None else labels
    return link, added, labels


def _divisor(graph: ModelGraph, node: Node) -> float:
    """Return the constant scalar by which an operator divides; 0 if it is not such a division."""
    constants = graph.constants_among(node.inputs[1:])
    if node.operator != "Div" or len(constants) != 1 or np.size(constants[0]) != 1:
        return 0.0
    return float(np.asarray(constants[0], dtype=np.float64).ravel()[0])


def _multiplies_by_one(graph: ModelGraph, node: Node) -> bool:
    """Return True if an operator multiplies by the constant 1, as LightGBM's converter writes it."""
    constants = graph.constants_among(node.inputs)
    return node.operator == "Mul" and len(constants) == 1 and bool(np.all(np.asarray(constants[0]) == 1))


def _labels_among(graph: ModelGraph, node: Node) -> Any:
    """Return the labels to which an operator maps class indices; None if it is not such an operator."""
    if node.operator == "LabelEncoder":
        return node.labels("values_strings", "values_int64s")
    if node.operator in ("ArrayFeatureExtractor", "Gather") and node.inputs[0] in graph.constants:
        return np.asarray(graph.constants[node.inputs[0]]).ravel()
    return np.arange(2) if node.operator == "ArgMax" and not graph.has_labels() else None


def _n_features(tests: _Tests, names: list[str] | None, declared: int) -> int:
    """Return the number of columns: of `names`, else `declared`, else as used; raise ModelFileError if too small."""
    largest = int(tests.feature.max(initial=0)) + 1
    n_features = len(names) if names is not None else declared or largest
    if largest > n_features:
        raise refuse(f"a split uses column {largest - 1}, but the model has {n_features} columns")
    return n_features


_REGRESSION_LOSSES = {"identity": "squared_error", "sigmoid": "cross_entropy", "exponential": "poisson"}
_MAX_SAMPLES = 1 << 20


def _sum_of_trees(trees: FlatTrees, columns: ModelColumns, outputs: _Outputs) -> ForeignModel:
    """Return the record of a model that sums or averages trees."""
    n_outputs, baseline, link = outputs.n_outputs, outputs.baseline, outputs.link
    trees = trees.by_round(n_outputs)
    if len(baseline) not in (1, n_outputs) or not np.isfinite(baseline).all():
        raise refuse(f"the model must have {n_outputs} finite base scores; got {baseline.tolist()[:8]}")
    baseline = np.array(np.broadcast_to(baseline, n_outputs))
    is_by_output = outputs.n_averaged in (0, len(trees.roots) / n_outputs)
    if outputs.averages and is_by_output and not baseline.any() and trees.value.shape[1] < n_outputs:
        trees = with_vectors(trees, n_outputs) or trees
    has_vectors, objective = trees.value.shape[1] > 1, Objective(REGRESSOR, n_targets=outputs.n_targets)
    is_forest = outputs.averages and not baseline.any() and (has_vectors or n_outputs == 1)
    factor = 1.0
    if outputs.averages:
        factor /= outputs.n_averaged or len(trees.roots) / (1 if has_vectors else n_outputs)
    if link == "isolation":
        objective.estimator, factor = "IsolationForest", 1.0
        objective.fitted = {"max_samples_": _n_samples_of(outputs.depth), "offset_": -0.5}
    elif (outputs.is_classifier and link != "exponential") or link in ("softmax", "one vs rest"):
        per_target = n_outputs // outputs.n_targets
        objective.classes = _classes(outputs, max(2, per_target))
        objective.estimator = CLASSIFIER
        objective.parameters = {"loss": "one_vs_rest" if link == "one vs rest" else "log_loss"}
        if link == "identity" and (per_target > 1 or is_forest):
            if not is_forest and not has_vectors and n_outputs > 1:
                raise refuse("trees that each add to a single class must have a link from scores to probabilities")
            objective.estimator, objective.parameters = "RandomForestClassifier", {}
            objective.fitted = {"_has_all_shares": per_target > 1}
            factor = 1.0 if outputs.averages else float(len(trees.roots))
    elif is_forest and link == "identity":
        objective.estimator, factor = "RandomForestRegressor", 1.0
    else:
        objective.parameters = {"loss": _REGRESSION_LOSSES[link]}
    trees.scale(factor)
    return ForeignModel(objective, trees, columns, baseline)


def _n_samples_of(depth: float) -> int:
    """Return the sample size of an isolation tree whose mean path length is nearest to `depth`."""

    def depth_of(n: int) -> float:
        return float(mean_depth(np.array(n)))

    sizes = range(2, _MAX_SAMPLES)
    index = bisect_left(sizes, depth, key=depth_of)
    return min(sizes[max(index - 1, 0) : index + 1], key=lambda n: abs(depth_of(n) - depth))


def _classes(outputs: _Outputs, n_classes: int) -> Any:
    """Return `n_classes` labels, one array per target if there are several; 0, 1, ... if the model has none."""
    classes = np.arange(n_classes) if outputs.classes is None else np.asarray(outputs.classes)
    if len(classes) != n_classes or len(set(classes.tolist())) != n_classes:
        raise refuse(f"the model must have {n_classes} different labels; got {classes.tolist()[:8]}")
    return classes if outputs.n_targets == 1 else [classes] * outputs.n_targets


# Trees ----------------------------------------------------------------------


@dataclass
class _Tests:
    """The nodes of all trees, with inner nodes before leaves.

    Attributes
    ----------
    branches : int64 array of shape (n_inner, 2)
        The nodes that follow if a test holds, and if it does not.
    feature, mode, split : arrays of shape (n_inner,)
        The column, the index of the comparison in `_MODES`, and the value to compare with.
    tracks : bool array of shape (n_inner,)
        True if missing values pass the test.
    members : dict of int to array
        The members of the set of each node with the mode MEMBER.
    leaves : tuple of three arrays
        The node, the output and the value of each summand.
    roots : int64 array of shape (n_trees,)
        The roots.
    n_nodes, n_outputs : int
        The number of nodes and of sums per row.
    """

    branches: Ints
    feature: Ints
    mode: Ints
    split: Floats
    tracks: NDArray[np.bool_]
    members: dict[int, Any]
    leaves: tuple[Ints, Ints, Floats]
    roots: Ints
    n_nodes: int
    n_outputs: int

    def trees(self, columns: ModelColumns, *, is_float: bool) -> FlatTrees:
        """Return the trees, with thresholds for inputs in single precision if `is_float`, otherwise in double."""
        if not len(self.roots):
            raise refuse("the model has no trees")
        mode, split, branches = self.mode, self.split, self.branches
        swaps = (mode == _GTE) | (mode == _GT) | (mode == _NEQ)
        is_strict, is_set = (mode == _LT) | (mode == _GTE), mode >= _EQ
        if is_float:
            threshold = np.where(is_strict, less_than(split), at_most(single(split)))
        else:
            threshold = np.where(is_strict, np.nextafter(split, -np.inf), split)
        ends = np.zeros(self.n_nodes - len(mode))
        node, output, weight = self.leaves
        value = np.zeros((self.n_nodes, self.n_outputs))
        np.add.at(value, (node, output), weight)
        trees = FlatTrees(
            left=np.append(np.where(swaps, branches[:, 1], branches[:, 0]), ends - 1),
            right=np.append(np.where(swaps, branches[:, 0], branches[:, 1]), ends - 1),
            feature=np.append(self.feature, ends),
            threshold=np.append(np.where(is_set, 0.0, threshold), ends),
            missing_left=np.append(self.tracks ^ swaps, ends),
            value=value,
            sets={k: _category_codes(self.members.get(k, split[k : k + 1])) for k in np.flatnonzero(is_set).tolist()},
            roots=self.roots,
            output=np.zeros(len(self.roots), dtype=np.int64),
        )
        set_codes(trees, columns, is_left=True)
        if self.n_outputs > 1:
            self._split_outputs(trees)
        return trees

    def _split_outputs(self, trees: FlatTrees) -> None:
        """Reduce values to one column if each tree adds to one output and all outputs have equally many trees."""
        tree, n_trees = tree_of_nodes(trees), len(self.roots)
        node, output, _ = self.leaves
        used = np.zeros((n_trees, self.n_outputs), dtype=bool)
        used[tree[node[tree[node] >= 0]], output[tree[node] >= 0]] = True
        used[~used.any(axis=1), 0] = True
        by_tree = used.argmax(axis=1)
        counts = np.bincount(by_tree, minlength=self.n_outputs)
        if (used.sum(axis=1) == 1).all() and (counts == counts[0]).all():
            trees.output = by_tree
            trees.value = trees.value[np.arange(self.n_nodes), by_tree[tree]][:, None]


def _tests_of_version_5(node: Node) -> _Tests:
    """Return the nodes of a TreeEnsemble (version 5)."""
    features = node.integers("nodes_featureids")
    n = len(features)
    names = ("truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    true, false, true_leaf, false_leaf = (node.integers(f"nodes_{name}", n) for name in names)
    mode = node.array("nodes_modes", np.int64, n)
    weight, target = node.array("leaf_weights", float), node.integers("leaf_targetids")
    if len(weight) != len(target) or not len(weight):
        raise refuse("leaf_weights and leaf_targetids must have an entry for each leaf")
    n_outputs = node.get("n_targets", 1)
    if not 0 < n_outputs <= 2**16 or (target < 0).any() or (target >= n_outputs).any():
        raise refuse("leaf_targetids must be below n_targets")
    if (mode < 0).any() or (mode > _MEMBER).any():
        raise refuse("nodes_modes must be from 0 to 6")
    children, is_leaf = np.stack([true, false], axis=1), np.stack([true_leaf, false_leaf], axis=1) != 0
    if ((children < 0) | (children >= np.where(is_leaf, len(weight), n))).any():
        raise refuse("nodes_truenodeids and nodes_falsenodeids must refer to existing nodes and leaves")
    roots = node.integers("tree_roots")
    if not ((roots >= 0) & (roots < n)).all():
        raise refuse("tree_roots must refer to existing nodes")
    # Both branches of a node may lead to the same leaf, which becomes two leaves here.
    ends, n_ends = children[is_leaf], int(is_leaf.sum())
    children[is_leaf] = n + np.arange(n_ends)
    leaves = n + np.arange(n_ends), target[ends], weight[ends]
    tests = features, mode, node.array("nodes_splits", float, n), _missing_goes_true(node, n), _memberships(node, mode)
    return _Tests(children, *tests, leaves, roots, n + n_ends, n_outputs)


def _missing_goes_true(node: Node, n: int) -> NDArray[np.bool_]:
    """Return a mask of the `n` inner nodes at which missing values go to the true branch; False if not stored."""
    tracks = node.integers("nodes_missing_value_tracks_true")
    return tracks != 0 if len(tracks) == n else np.zeros(n, dtype=bool)


def _memberships(node: Node, mode: Ints) -> dict[int, Floats]:
    """Return the members of each set by node index; `mode` holds the nodes' comparisons. NaN ends each set."""
    nodes = np.flatnonzero(mode == _MEMBER)
    if not len(nodes):
        return {}
    values = node.array("membership_values", float)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < len(nodes):
        raise refuse("membership_values must have a set, terminated by NaN, for each node with the mode MEMBER")
    starts = np.append(0, ends[:-1] + 1)
    return {index: values[a:b] for index, a, b in zip(nodes.tolist(), starts.tolist(), ends.tolist(), strict=False)}


def _tests_of_version_3(node: Node) -> _Tests:
    """Return the nodes of a TreeEnsembleRegressor or TreeEnsembleClassifier (version 3)."""
    tree_of, id_of = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    n = len(tree_of)
    names = ("featureids", "truenodeids", "falsenodeids")
    features, true, false = (node.integers(f"nodes_{name}", n) for name in names)
    modes, split = node.get("nodes_modes", []), node.array("nodes_values", float)
    if not len(id_of) == len(modes) == len(split) == n or not n:
        raise refuse("the arrays of nodes must have an entry for each node")
    if not set(modes) <= {"LEAF", *_MODES[:6]}:
        raise refuse("nodes_modes must be LEAF, or BRANCH_ with LEQ, LT, GTE, GT, EQ or NEQ")
    kind = "class" if node.operator == "TreeEnsembleClassifier" else "target"
    of_tree, of_node, output = (node.integers(f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = node.array(f"{kind}_weights", float)
    if not len(of_tree) == len(of_node) == len(output) == len(weight):
        raise refuse(f"{kind}_ids, {kind}_nodeids, {kind}_treeids and {kind}_weights must have the same length")
    n_outputs = _n_outputs_of(node, output)
    mode = np.array([-1 if name == "LEAF" else _MODES.index(name) for name in modes])
    inner = np.flatnonzero(mode >= 0)
    order = np.append(inner, np.flatnonzero(mode < 0))
    index_of = {key: k for k, key in enumerate(zip(tree_of[order].tolist(), id_of[order].tolist(), strict=True))}
    if len(index_of) != n or (output < 0).any() or (output >= n_outputs).any():
        raise refuse("nodes must have unique ids, and leaves must have existing outputs")
    ways = (zip(tree_of[inner].tolist(), way[inner].tolist(), strict=True) for way in (true, false))
    branches = np.array([[index_of[key] for key in way] for way in ways], dtype=np.int64).T.reshape(-1, 2)
    leaves = [index_of[key] for key in zip(of_tree.tolist(), of_node.tolist(), strict=True)]
    roots: dict[int, int] = dict.fromkeys(tree_of.tolist(), n)
    for k, tree in enumerate(tree_of[order].tolist()):
        roots[tree] = min(roots[tree], k)
    tests = features[inner], mode[inner], split[inner], _missing_goes_true(node, n)[inner], dict[int, Any]()
    summands = np.array(leaves, dtype=np.int64), output, weight
    return _Tests(branches, *tests, summands, np.array([*roots.values()], dtype=np.int64), n, n_outputs)


def _n_outputs_of(node: Node, output: Ints) -> int:
    """Return the number of sums per row; for a binary classifier with one sum, also set `output` to 0 in place."""
    if node.operator == "TreeEnsembleRegressor":
        return int(max(1, min(node.get("n_targets", 1), 2**16)))
    labels = _labels(node)
    if labels is None or len(labels) < 2:
        raise refuse("a TreeEnsembleClassifier must have labels")
    if len(labels) == 2 and len(set(output.tolist())) == 1:
        output[:] = 0
        return 1
    return len(labels)


def _category_codes(values: NDArray[Any]) -> Ints:
    """Return values as category codes; raise ModelFileError unless they are non-negative integers."""
    codes: Ints = values[(values >= 0) & (values == np.floor(values)) & (values < 2**31)].astype(np.int64)
    if len(codes) != len(values):
        raise refuse("sets and equality tests must use category codes, which are non-negative integers")
    return codes

"""Reader of ONNX tree ensembles, including the graph and the protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import SINGLE, WHOLE
from fastens.exchange.reading.notes import n_categories, note_in, noted_outputs, with_note
from fastens.exchange.reading.records import (
    CodeSet,
    Columns,
    ForeignModel,
    Outputs,
    at_most,
    less_than,
    part,
    refuse,
    set_codes,
    single,
    sum_of_trees,
    whole_number,
)

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
        """Return all values of a bytes field."""
        return [value for _, value in self._fields.get(number, []) if isinstance(value, bytes)]

    def messages(self, number: int) -> list[Message]:
        """Return all messages of a field."""
        return [Message(content) for content in self.bytes(number)]

    def texts(self, number: int) -> list[str]:
        """Return all strings of a field."""
        try:
            return [content.decode("utf-8") for content in self.bytes(number)]
        except UnicodeDecodeError as error:
            raise refuse("a text must be in UTF-8; the file is damaged") from error

    def text(self, number: int) -> str:
        """Return the last string of a field, or "" if the field is absent."""
        return (self.texts(number) or [""])[-1]

    def integers(self, number: int) -> NDArray[np.int64]:
        """Return all integers of a field, packed or not."""
        found: list[int] = []
        for _, value in self._fields.get(number, []):
            if isinstance(value, bytes):
                at = 0
                while at < len(value):
                    one, at = _varint(value, at)
                    found.append(one)
            else:
                found.append(value)
        return np.array(found, dtype=np.uint64).astype(np.int64)

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last integer of a field."""
        found = self.integers(number)
        return int(found[-1]) if len(found) else default

    def floats(self, number: int, kind: str = "<f4") -> NDArray[np.floating]:
        """Return all floats of a field, packed or not."""
        content = b"".join(self.bytes(number))
        size = np.dtype(kind).itemsize
        if len(content) % size:
            raise refuse("a field of floats must have whole ones; the file is damaged")
        return np.frombuffer(content, dtype=kind).astype(np.dtype(kind).newbyteorder("="))


def _varint(content: bytes, at: int) -> tuple[int, int]:
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
    """Return the entries of a tensor as a flat array."""
    kind = message.integer(2)
    if kind == _STRING:
        return np.array(message.texts(6))
    if kind not in _DTYPES:
        raise refuse(f"a tensor of the type {kind} cannot be read")
    raw = b"".join(message.bytes(9))
    dtype = np.dtype(_DTYPES[kind])
    if raw:
        if len(raw) % dtype.itemsize:
            raise refuse("a tensor must have whole numbers of bytes; the file is damaged")
        return np.frombuffer(raw, dtype=dtype)
    if kind in _FLOATS_OF:
        number, wide = _FLOATS_OF[kind]
        return message.floats(number, wide)
    return message.integers(7 if kind == 7 else 5).astype(dtype)


class Node:
    """An operator with its name, inputs, outputs and attributes."""

    def __init__(self, message: Message) -> None:
        self.inputs, self.outputs = message.texts(1), message.texts(2)
        self.operator, self.domain = message.text(4), message.text(7)
        self.attributes = {attribute.text(1): attribute for attribute in message.messages(5)}

    def integers(self, name: str, size: int | None = None) -> NDArray[np.int64]:
        """Return an attribute of integers, or an empty array if it is absent."""
        found = self.attributes[name].integers(8) if name in self.attributes else np.zeros(0, np.int64)
        if size is not None and len(found) != size:
            raise refuse(f"{name} must have {size} entries; got {len(found)}")
        return found

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is an integer."""
        return self.attributes[name].integer(3, 0) if name in self.attributes else default

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        return self.attributes[name].text(4) if name in self.attributes else default

    def texts(self, name: str) -> list[str]:
        """Return an attribute of strings."""
        return self.attributes[name].texts(9) if name in self.attributes else []

    def tensor(self, name: str, size: int | None = None) -> NDArray[Any]:
        """Return an attribute that is a tensor."""
        found = self.attributes[name].messages(5) if name in self.attributes else []
        values = tensor(found[-1]) if found else np.zeros(0)
        if size is not None and len(values) != size:
            raise refuse(f"{name} must have {size} entries; got {len(values)}")
        return values

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return an attribute of floats, or the tensor of doubles that may replace it."""
        if f"{name}_as_tensor" in self.attributes:
            return self.tensor(f"{name}_as_tensor").astype(np.float64)
        found = self.attributes[name].floats(7) if name in self.attributes else np.zeros(0)
        return found.astype(np.float64)


class Graph:
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
                self.constants[node.outputs[0]] = node.tensor("value")
        self._inputs = {}
        for message in graph.messages(11):
            if message.text(1) not in self.constants:
                self._inputs[message.text(1)] = _type_of(message)
        self.n_inputs, self.n_features = len(self._inputs), 0
        if len(self._inputs) == 1:
            self.n_features = next(iter(self._inputs.values()))[1]

    def input_of(self, trees: Node) -> tuple[list[str] | None, bool]:
        """Return the trees' columns if each is an input, otherwise None; and True if the trees read float32."""
        by_output = {name: node for node in self.nodes for name in node.outputs}
        name, kind = (trees.inputs or [""])[0], None
        while name in by_output:
            node = by_output[name]
            if node.operator == "Cast":
                kind = node.integer("to", 0) if kind is None else kind
            elif node.operator == "Concat":
                names = [self._source(own, by_output) for own in node.inputs]
                kind = self._inputs[names[0]][0] if kind is None else kind
                return names, kind == _FLOAT
            elif node.operator != "Identity":
                raise refuse(f"the operator {node.operator[:40]!r} before the trees cannot be read")
            name = node.inputs[0]
        if name not in self._inputs:
            raise refuse("the trees of an ONNX model must read its input")
        return None, (self._inputs[name][0] if kind is None else kind) == _FLOAT

    def _source(self, name: str, by_output: dict[str, Node]) -> str:
        """Return the input that a column comes from, looking through casts."""
        while name in by_output and by_output[name].operator in ("Cast", "Identity", "Reshape"):
            name = by_output[name].inputs[0]
        if name not in self._inputs or self._inputs[name][1] not in (0, 1):
            raise refuse("the columns that an ONNX model joins must be its inputs")
        return name

    def tables_joined(self, trees: Node) -> list[NDArray[Any]]:
        """Return the lookup tables of sets that `export` appends to the columns of the trees."""
        by_output = {name: node for node in self.nodes for name in node.outputs}
        joined = by_output.get((trees.inputs or [""])[0])
        parts = [] if joined is None or joined.operator != "Concat" else [by_output.get(name) for name in joined.inputs]
        tables = [own.inputs[0] for own in parts if own is not None and own.operator == "Gather" and own.inputs]
        return [self.constants[name] for name in tables if name in self.constants]

    def following(self, trees: Node) -> Iterator[Node]:
        """Yield the operators after the trees, in order."""
        known = set(trees.outputs)
        for node in self.nodes:
            if node is not trees and known & set(node.inputs):
                known |= set(node.outputs)
                yield node

    def has_labels(self) -> bool:
        """Return True if an operator maps class indices to labels."""
        return any(node.operator in ("LabelEncoder", "ArrayFeatureExtractor", "Gather") for node in self.nodes)


def _type_of(message: Message) -> tuple[int, int]:
    """Return the type of an input and its number of columns, 0 if it is unknown."""
    for kind in message.messages(2):
        for own in kind.messages(1):
            sizes = [dimension.integer(1, 0) for shape in own.messages(2) for dimension in shape.messages(1)]
            return own.integer(1), sizes[1] if len(sizes) == 2 and 0 <= sizes[1] < 2**31 else 0
    return 0, 0


_OPERATORS = ("TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_LINKS = {"NONE": "identity", "LOGISTIC": "sigmoid", "SOFTMAX": "softmax", "Sigmoid": "sigmoid", "Softmax": "softmax"}
_LINKS |= {"Exp": "exponential"}
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_SETS = "columns_of_sets"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# Operators that may follow the trees in addition to links and sums: they map scores to labels or reshape the result.
_FORMS = {"ZipMap", "Identity", "Cast", "ArgMax", "ArrayFeatureExtractor", "LabelEncoder", "Reshape", "Squeeze"}
_FORMS |= {"Gather", "Unsqueeze", "Concat", "Sub", "Greater", "Where", "Neg", "Flatten", "GreaterOrEqual", "Binarizer"}


def read_onnx(content: bytes) -> ForeignModel:
    """Read an ONNX file.

    Parameters
    ----------
    content : bytes
        The file.
    """
    graph = Graph(content)
    nodes = [node for node in graph.nodes if node.operator in _OPERATORS and node.domain == "ai.onnx.ml"]
    if len(nodes) != 1:
        raise refuse(f"an ONNX model must have one TreeEnsemble; it has {len(nodes)}")
    node = nodes[0]
    note = note_in(graph.metadata.get("fastens"))
    if note is not None:
        return _noted(graph, node, note)
    names, is_float = graph.input_of(node)
    parts, n_outputs, base = _ensemble(node) if node.operator == "TreeEnsemble" else _older(node)
    for tree in parts:
        _set_tests(tree, is_float=is_float)
    rule = WHOLE + (SINGLE if is_float else 0)
    columns = Columns(_n_features(parts, names, graph.n_features), names, code_rule=rule)
    set_codes(parts, columns)
    output = _outputs_of_trees(parts, n_outputs)
    link, added, labels = _after(graph, node)
    base = base + added if len(base) == len(added) or 1 in (len(base), len(added)) else added
    classes = _labels(node) if node.operator == "TreeEnsembleClassifier" else labels
    divisors = [_divisor(graph, after) for after in graph.following(node)]
    sizes = n_outputs, len(parts), round(max(divisors, default=0.0))
    if sizes[2] and (divisors.count(float(sizes[2])) != 1 or np.any(base) or sizes[2] * n_outputs != len(parts)):
        raise refuse("sums of trees may be divided by the number of trees, and by nothing else")
    return _model(parts, output, columns, _outputs(node, sizes, base, link, classes))


def _noted(graph: Graph, node: Node, note: dict[str, Any]) -> ForeignModel:
    """Read a model that `export` wrote, with inputs in double precision and categories as positions."""
    parts, n_outputs, _ = _ensemble(node) if node.operator == "TreeEnsemble" else _older(node)
    n_features = graph.n_features if graph.n_inputs == 1 and note["names"] is None else graph.n_inputs
    if graph.n_inputs == 1 and note["names"] is not None:
        n_features = len(note["names"])
    n_known = n_categories(note)
    _name_sets(parts, n_features, _sets(graph, node, note, n_known))
    for tree in parts:
        for index, own in enumerate(tree["members"]):
            if own is None:
                continue
            # The position after the last category represents missing values.
            n = n_known.get(int(tree["feature"][index]), 0)
            tree["tracks"][index] = n in own
            tree["members"][index] = own[(own >= 0) & (own < n)]
        _set_tests(tree, is_float=False)
    columns = Columns(n_features, code_rule=WHOLE)
    set_codes(parts, columns)
    output = _outputs_of_trees(parts, n_outputs)
    return with_note(sum_of_trees(parts, output, columns, noted_outputs(note)), note)


def _sets(
    graph: Graph, node: Node, note: dict[str, Any], n_known: dict[int, int]
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return the column and the members of each set, which version 3 encodes as extra columns of 0 and 1."""
    columns = [whole_number(own, "a column of sets") for own in part({"columns_of_sets": []} | note, _SETS, list)]
    tables = graph.tables_joined(node)
    if len(columns) != len(tables) or not n_known.keys() >= set(columns):
        raise refuse("the note of fastens and the tables of sets do not fit together")
    found = []
    for column, table in zip(columns, tables, strict=True):
        # The rows are the categories, then missing and unseen values. Members of a set have 0.
        n_rows = n_known[column] + 2
        if len(table) % n_rows:
            raise refuse(f"a table of sets must have {n_rows} rows; the file is damaged")
        found += [(column, np.flatnonzero(own[:-1] == 0)) for own in table.reshape(n_rows, -1).T]
    return found


def _name_sets(parts: list[dict[str, Any]], n_features: int, sets: list[tuple[int, NDArray[np.int64]]]) -> None:
    """Replace splits on columns of sets by splits on the members."""
    for tree in parts:
        feature = tree["feature"]
        if (feature >= n_features + len(sets)).any():
            raise refuse("a split is on a column that is not there")
        for index in np.flatnonzero(feature[: len(tree["mode"])] >= n_features).tolist():
            feature[index], tree["members"][index] = sets[feature[index] - n_features]
            tree["mode"][index] = _MEMBER


def _outputs(node: Node, sizes: tuple[int, int, int], base: NDArray[Any], link: str, classes: Any) -> Outputs:
    n_outputs, n_trees, n_divided = sizes
    aggregate = node.text("aggregate_function", "SUM")
    if node.operator == "TreeEnsemble":
        aggregate = _AGGREGATES[node.integer("aggregate_function", 1)]
    if aggregate not in ("SUM", "AVERAGE"):
        raise refuse(f"aggregate_function must be SUM or AVERAGE; got {aggregate[:20]!r}")
    is_classifier = classes is not None or link == "softmax"
    if is_classifier and n_outputs == 1 and link == "identity":
        link = "sigmoid" if any_negative(node) else "identity"
    if is_classifier and n_outputs > 1 and link == "sigmoid":
        link = "multiclass_ova"
    return Outputs(
        n_outputs=n_outputs,
        n_targets=1 if is_classifier else n_outputs,
        averages=aggregate == "AVERAGE" or n_divided > 0,
        n_averaged=n_divided or n_trees,
        baseline=base.tolist(),
        is_classifier=is_classifier,
        link=link,
        classes=classes,
    )


def any_negative(node: Node) -> bool:
    """Return True if a leaf of a classifier has a negative weight, so scores cannot be probabilities."""
    return bool((node.numbers("class_weights") < 0).any())


def _model(parts: list[dict[str, Any]], output: Any, columns: Columns, outputs: Outputs) -> ForeignModel:
    is_mean = outputs.is_classifier and outputs.link == "identity" and outputs.n_outputs == 1 and not outputs.averages
    if is_mean:  # a sum that is a probability of the second class is the mean of values scaled by the number of trees
        for tree in parts:
            tree["value"] = tree["value"] * len(parts)
        outputs = Outputs(**{**vars(outputs), "averages": True})
    return sum_of_trees(parts, output, columns, outputs)


def _labels(node: Node) -> Any:
    texts, numbers = node.texts("classlabels_strings"), node.integers("classlabels_int64s")
    return np.array(texts) if texts else numbers if len(numbers) else None


def _after(graph: Graph, node: Node) -> tuple[str, NDArray[np.float64], Any]:
    """Return the link, the constant that is added to the sums, and the labels, from the operators after the trees."""
    given = node.text("post_transform", "NONE")
    if node.operator == "TreeEnsemble":
        place = node.integer("post_transform", 0)
        given = _TRANSFORMS[place] if 0 <= place < len(_TRANSFORMS) else str(place)
    if given not in _LINKS:
        raise refuse(f"post_transform must be NONE, LOGISTIC or SOFTMAX; got {given[:20]!r}")
    link, added, labels = _LINKS[given], np.zeros(1), None
    for after in graph.following(node):
        if after.operator == "Add":
            constants = [graph.constants[name] for name in after.inputs if name in graph.constants]
            if len(constants) != 1 or link != "identity":
                raise refuse("what is added to the trees' sums must be a constant")
            added = added + np.asarray(constants[0], dtype=np.float64).ravel()
        elif _is_by_one(graph, after) or (_divisor(graph, after) > 0 and link == "identity"):
            continue
        elif after.operator in _LINKS:
            link = _LINKS[after.operator]
        elif after.operator not in _FORMS:
            raise refuse(f"the operator {after.operator[:40]!r} after the trees cannot be read")
        labels = _labels_among(graph, after) if labels is None else labels
    return link, added, labels


def _divisor(graph: Graph, node: Node) -> float:
    """Return the constant that an operator divides by, or 0 if it is not such a division."""
    constants = [graph.constants[name] for name in node.inputs[1:] if name in graph.constants]
    if node.operator != "Div" or len(constants) != 1 or np.size(constants[0]) != 1:
        return 0.0
    return float(np.asarray(constants[0], dtype=np.float64).ravel()[0])


def _is_by_one(graph: Graph, node: Node) -> bool:
    """Return True if an operator multiplies by 1, as LightGBM's converter writes it."""
    constants = [graph.constants[name] for name in node.inputs if name in graph.constants]
    return node.operator == "Mul" and len(constants) == 1 and bool(np.all(np.asarray(constants[0]) == 1))


def _labels_among(graph: Graph, node: Node) -> Any:
    """Return the labels that an operator maps class indices to, or None."""
    if node.operator == "LabelEncoder":
        texts, numbers = node.texts("values_strings"), node.integers("values_int64s")
        return np.array(texts) if texts else numbers if len(numbers) else None
    if node.operator in ("ArrayFeatureExtractor", "Gather") and node.inputs[0] in graph.constants:
        return np.asarray(graph.constants[node.inputs[0]]).ravel()
    return np.arange(2) if node.operator == "ArgMax" and not graph.has_labels() else None


def _n_features(parts: list[dict[str, Any]], names: list[str] | None, declared: int) -> int:
    largest = max((int(tree["feature"].max(initial=0)) for tree in parts), default=0) + 1
    n_features = len(names) if names is not None else declared or largest
    if largest > n_features:
        raise refuse(f"a split is on column {largest - 1}, and the model has {n_features}")
    return n_features


def _outputs_of_trees(parts: list[dict[str, Any]], n_outputs: int) -> NDArray[np.int64]:
    """Return the output of each tree; if each tree has only one, its values are reduced to one column."""
    if not parts:
        raise refuse("the model has no trees")
    found = []
    for tree in parts:
        used = np.unique(tree["used"])
        found.append(int(used[0]) if len(used) == 1 else -1)
    counts = np.bincount([output for output in found if output >= 0], minlength=n_outputs)
    is_round = n_outputs > 1 and min(found) >= 0 and len(set(counts.tolist())) == 1
    for tree, output in zip(parts, found, strict=True):
        del tree["used"]
        if is_round:
            tree["value"] = tree["value"][:, output : output + 1]
    return np.array(found) if is_round else np.zeros(len(parts), dtype=np.int64)


# Version 5 --------------------------------------------------


def _ensemble(node: Node) -> tuple[list[dict[str, Any]], int, NDArray[np.float64]]:
    """Return the trees of a TreeEnsemble, the number of outputs, and base values of zero."""
    features = node.integers("nodes_featureids")
    n = len(features)
    true, false, true_leaf, false_leaf = (
        node.integers(f"nodes_{name}", n) for name in ("truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    )
    mode = node.tensor("nodes_modes", n).astype(np.int64)
    value = node.tensor("nodes_splits", n).astype(np.float64)
    tracks = node.integers("nodes_missing_value_tracks_true")
    tracks = tracks if len(tracks) == n else np.zeros(n, np.int64)
    weight, target = node.tensor("leaf_weights").astype(np.float64), node.integers("leaf_targetids")
    if len(weight) != len(target) or not len(weight):
        raise refuse("leaf_weights and leaf_targetids must have an entry for each leaf")
    n_outputs = node.integer("n_targets", 1)
    if not 0 < n_outputs <= 2**16 or (target < 0).any() or (target >= n_outputs).any():
        raise refuse("leaf_targetids must be below n_targets")
    if (mode < 0).any() or (mode > _MEMBER).any():
        raise refuse("nodes_modes must be from 0 to 6")
    members = _memberships(node, mode)
    children = np.stack([true, false], axis=1)
    is_leaf = np.stack([true_leaf, false_leaf], axis=1) != 0
    limit = np.where(is_leaf, len(weight), n)
    if ((children < 0) | (children >= limit)).any():
        raise refuse("nodes_truenodeids and nodes_falsenodeids must name nodes and leaves that are there")
    parts = []
    for root in node.integers("tree_roots").tolist():
        if not 0 <= root < n:
            raise refuse("tree_roots must name nodes")
        inner, ends, branches = _reached(root, children, is_leaf)
        values = np.zeros((len(inner) + len(ends), n_outputs))
        values[np.arange(len(inner), len(values)), target[ends]] = weight[ends]
        parts.append(
            {
                "branches": branches,
                "feature": np.append(features[inner], np.zeros(len(ends), np.int64)),
                "mode": mode[inner],
                "split": value[inner],
                "tracks": tracks[inner] != 0,
                "members": [members.get(index) for index in inner.tolist()],
                "value": values,
                "used": target[ends],
            }
        )
    return parts, n_outputs, np.zeros(1)


def _reached(root: int, children: NDArray[Any], is_leaf: NDArray[Any]) -> tuple[Any, Any, NDArray[np.int64]]:
    """Return the inner nodes and leaves of a tree, and both children of each node; leaves follow inner nodes."""
    inner, ends = [root], list[int]()
    branches: list[list[tuple[bool, int]]] = []
    pairs, leafs = children.tolist(), is_leaf.tolist()
    for index in inner:
        own = []
        for child, ends_there in zip(pairs[index], leafs[index], strict=True):
            own.append((ends_there, len(ends) if ends_there else len(inner)))
            (ends if ends_there else inner).append(child)
        branches.append(own)
        if len(inner) > len(pairs):
            raise refuse("a node is below itself, or the child of two")
    places = [[len(inner) + place if ends_there else place for ends_there, place in own] for own in branches]
    return np.array(inner), np.array(ends), np.array(places, dtype=np.int64)


def _memberships(node: Node, mode: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
    """Return the members of each node's set; NaN terminates each set in the file."""
    nodes = np.flatnonzero(mode == _MEMBER)
    if not len(nodes):
        return {}
    values = node.tensor("membership_values").astype(np.float64)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < len(nodes):
        raise refuse("membership_values must have a set, closed by NaN, for each node with the mode MEMBER")
    starts = np.append(0, ends[:-1] + 1)
    return {index: values[a:b] for index, a, b in zip(nodes.tolist(), starts.tolist(), ends.tolist(), strict=False)}


# Version 3 --------------------------------------------------


def _older(node: Node) -> tuple[list[dict[str, Any]], int, NDArray[np.float64]]:
    """Return the trees, outputs and base values of a TreeEnsembleRegressor or TreeEnsembleClassifier."""
    tree_of, number = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    n = len(tree_of)
    features, true, false = (
        node.integers(f"nodes_{name}", n) for name in ("featureids", "truenodeids", "falsenodeids")
    )
    modes, value = node.texts("nodes_modes"), node.numbers("nodes_values")
    tracks = node.integers("nodes_missing_value_tracks_true")
    tracks = tracks if len(tracks) == n else np.zeros(n, np.int64)
    if not len(number) == len(modes) == len(value) == n or not n:
        raise refuse("the arrays of nodes must have an entry for each node")
    kind = "class" if node.operator == "TreeEnsembleClassifier" else "target"
    of_tree, of_node, output = (node.integers(f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = node.numbers(f"{kind}_weights")
    if not len(of_tree) == len(of_node) == len(output) == len(weight):
        raise refuse(f"{kind}_ids, {kind}_nodeids, {kind}_treeids and {kind}_weights must be of the same length")
    n_outputs = _n_outputs_of(node, output)
    place = {key: index for index, key in enumerate(zip(tree_of.tolist(), number.tolist(), strict=True))}
    if len(place) != n or (output < 0).any() or (output >= n_outputs).any():
        raise refuse("nodes must have numbers of their own, and leaves outputs that are there")
    values, used = np.zeros((n, n_outputs)), np.full(n, -1)
    for key, column, own in zip(
        zip(of_tree.tolist(), of_node.tolist(), strict=True), output.tolist(), weight.tolist(), strict=True
    ):
        values[place[key], column] += own
        used[place[key]] = column
    parts = []
    for tree in dict.fromkeys(tree_of.tolist()):
        own_nodes = np.flatnonzero(tree_of == tree)
        parts.append(_older_tree(own_nodes, place, (tree_of, true, false), (features, modes, value, tracks)))
        parts[-1]["value"] = values[own_nodes][parts[-1].pop("order")]
        at = np.isin(of_tree, tree)
        parts[-1]["used"] = output[at] if at.any() else np.zeros(1, np.int64)
    base = node.numbers("base_values")
    return parts, n_outputs, base if len(base) else np.zeros(1)


def _n_outputs_of(node: Node, output: NDArray[np.int64]) -> int:
    """Return the number of sums; a binary classifier may have only one."""
    if node.operator == "TreeEnsembleRegressor":
        return max(1, min(node.integer("n_targets", 1), 2**16))
    labels = _labels(node)
    if labels is None or len(labels) < 2:
        raise refuse("a TreeEnsembleClassifier must have labels")
    if len(labels) == 2 and len(set(output.tolist())) == 1:
        output[:] = 0
        return 1
    return len(labels)


def _older_tree(own: NDArray[np.int64], place: dict[Any, int], ways: Any, tests: Any) -> dict[str, Any]:
    """Read one tree, with inner nodes before leaves."""
    tree_of, true, false = ways
    features, modes, value, tracks = tests
    names = [modes[index] for index in own.tolist()]
    if any(name != "LEAF" and name not in _MODES[:6] for name in names):
        raise refuse("nodes_modes must be LEAF, or BRANCH_ with LEQ, LT, GTE, GT, EQ or NEQ")
    is_leaf = np.array([name == "LEAF" for name in names])
    order = np.argsort(is_leaf, kind="stable")
    rank = np.empty(len(own), dtype=np.int64)
    rank[order] = np.arange(len(own))
    where = dict(zip(own.tolist(), rank.tolist(), strict=True))
    inner = own[~is_leaf]
    branches = [
        [where[place[int(tree_of[index]), int(way[index])]] for way in (true, false)] for index in inner.tolist()
    ]
    return {
        "branches": np.array(branches, dtype=np.int64).reshape(-1, 2),
        "feature": np.append(features[inner], np.zeros(int(is_leaf.sum()), np.int64)),
        "mode": np.array([_MODES.index(modes[index]) for index in inner.tolist()], dtype=np.int64),
        "split": value[inner],
        "tracks": tracks[inner] != 0,
        "members": [None] * len(inner),
        "order": order,
    }


# Both --------------------------------------------------


def _set_tests(tree: dict[str, Any], *, is_float: bool) -> None:
    """Convert true and false branches to left and right children with thresholds and sets."""
    branches, mode, split = tree.pop("branches"), tree.pop("mode"), tree.pop("split")
    tracks, members = tree.pop("tracks"), tree.pop("members")
    n_inner, n_nodes = len(mode), len(tree["feature"])
    swaps = (mode == _GTE) | (mode == _GT) | (mode == _NEQ)
    left = np.where(swaps, branches[:, 1], branches[:, 0])
    right = np.where(swaps, branches[:, 0], branches[:, 1])
    strict = (mode == _LT) | (mode == _GTE)
    if is_float:
        threshold = np.where(strict, less_than(split), at_most(single(split)))
    else:
        threshold = np.where(strict, np.nextafter(split, -np.inf), split)
    ends = np.full(n_nodes - n_inner, -1)
    is_set = mode >= _EQ
    tree["code_sets"] = {
        index: CodeSet(_codes(split[index : index + 1] if members[index] is None else members[index]), is_left=True)
        for index in np.flatnonzero(is_set).tolist()
    }
    tree["left"], tree["right"] = np.append(left, ends), np.append(right, ends)
    tree["threshold"] = np.append(np.where(is_set, 0.0, threshold), np.zeros(len(ends)))
    tree["missing_left"] = np.append(np.where(swaps, ~tracks, tracks), np.zeros(len(ends), bool))
    tree["weight"] = tree["n_samples"] = tree["gain"] = None


def _codes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    whole = values[(values >= 0) & (values == np.floor(values)) & (values < 2**31)].astype(np.int64)
    if len(whole) != len(values):
        raise refuse("sets, and tests for equality, must be of category codes: whole numbers that are not negative")
    return whole

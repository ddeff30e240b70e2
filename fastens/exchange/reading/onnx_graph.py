"""The parts of an ONNX file that trees need: operators with their attributes, constants, and the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.protobuf import Message
from fastens.exchange.reading.records import refuse

_FLOAT, _STRING, _DOUBLE = 1, 8, 11
_DTYPES = {1: "<f4", 2: "<u1", 3: "<i1", 6: "<i4", 7: "<i8", 9: "<u1", 10: "<f2", 11: "<f8"}
# Where a tensor has its numbers, unless as raw bytes.
_FLOATS_OF = {1: (4, "<f4"), 11: (10, "<f8")}


def tensor(message: Message) -> NDArray[Any]:
    """The entries of a tensor, without its shape."""
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
    """An operator: its name, inputs, outputs and attributes."""

    def __init__(self, message: Message) -> None:
        self.inputs, self.outputs = message.texts(1), message.texts(2)
        self.operator, self.domain = message.text(4), message.text(7)
        self.attributes = {attribute.text(1): attribute for attribute in message.messages(5)}

    def integers(self, name: str, size: int | None = None) -> NDArray[np.int64]:
        """An attribute of whole numbers; none where it is not there."""
        found = self.attributes[name].integers(8) if name in self.attributes else np.zeros(0, np.int64)
        if size is not None and len(found) != size:
            raise refuse(f"{name} must have {size} entries; got {len(found)}")
        return found

    def integer(self, name: str, default: int) -> int:
        """An attribute of one whole number."""
        return self.attributes[name].integer(3, 0) if name in self.attributes else default

    def text(self, name: str, default: str) -> str:
        """An attribute of one text."""
        return self.attributes[name].text(4) if name in self.attributes else default

    def texts(self, name: str) -> list[str]:
        """An attribute of texts."""
        return self.attributes[name].texts(9) if name in self.attributes else []

    def tensor(self, name: str, size: int | None = None) -> NDArray[Any]:
        """An attribute that is a tensor."""
        found = self.attributes[name].messages(5) if name in self.attributes else []
        values = tensor(found[-1]) if found else np.zeros(0)
        if size is not None and len(values) != size:
            raise refuse(f"{name} must have {size} entries; got {len(values)}")
        return values

    def numbers(self, name: str) -> NDArray[np.float64]:
        """An attribute of floats, or the tensor of doubles in its place."""
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
        The operators, in the order in which they run.
    constants : dict of str to array
        Tensors that the file has, by name.
    n_features : int
        Columns of the one input; 0 where they are not known.
    metadata : dict of str to str
        What the file has besides.
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
        """The names of the columns that trees read, where each is an input, and whether they read float32."""
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
        """The input that a column is, but for casts."""
        while name in by_output and by_output[name].operator in ("Cast", "Identity", "Reshape"):
            name = by_output[name].inputs[0]
        if name not in self._inputs or self._inputs[name][1] not in (0, 1):
            raise refuse("the columns that an ONNX model joins must be its inputs")
        return name

    def tables_joined(self, trees: Node) -> list[NDArray[Any]]:
        """The tables whose rows stand after the other columns that trees read; those that `export` writes."""
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
        """Whether an operator makes labels of the places of classes."""
        return any(node.operator in ("LabelEncoder", "ArrayFeatureExtractor", "Gather") for node in self.nodes)


def _type_of(message: Message) -> tuple[int, int]:
    """The type of an input, and its number of columns, 0 where it is not known."""
    for kind in message.messages(2):
        for own in kind.messages(1):
            sizes = [dimension.integer(1, 0) for shape in own.messages(2) for dimension in shape.messages(1)]
            return own.integer(1), sizes[1] if len(sizes) == 2 and 0 <= sizes[1] < 2**31 else 0
    return 0, 0

"""The nodes, inputs and outputs of an ONNX graph that is being made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastens.exchange.writing.targets import CannotHoldError

_ML = "ai.onnx.ml"


class Graph:
    """A graph of nodes whose results have numbers for names.

    Parameters
    ----------
    ml_opset : int
        Version of ai.onnx.ml.
    prefix : str
        What the names of results start with.

    Attributes
    ----------
    nodes, constants : lists of NodeProto and TensorProto
        What was added.
    results : dict of str to str
        The results that are outputs, by the outputs' names.
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
        # What sums of trees are of.
        self.float_type = np.float64 if ml_opset >= 5 else np.float32

    def input(self, name: str, dtype: DTypeLike, n_columns: int) -> str:
        """Declare an input of shape (n_rows, n_columns)."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self._code(dtype), [None, n_columns]))
        return name

    def output(self, result: str, name: str, dtype: DTypeLike, n_columns: int | None) -> None:
        """Make a result an output of shape (n_rows, n_columns), or (n_rows,)."""
        self.results[name] = result
        shape = [None] if n_columns is None else [None, n_columns]
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._code(dtype), shape))

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"{self._prefix}.constant.{len(self.constants)}"
        self.constants.append(self._tensor(values, name))
        return name

    def add(self, kind: str, *inputs: str, n_results: int = 1, **attributes: Any) -> str:
        """Add a node; return its result, the first of several."""
        return self._add(kind, "", inputs, n_results, attributes)

    def add_ml(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of ai.onnx.ml."""
        return self._add(kind, _ML, inputs, 1, attributes)

    def label_encoder(self, values: str, **keys: Any) -> str:
        """The positions of values among keys, -1 for others."""
        (found,) = keys.values()
        return self.add_ml("LabelEncoder", values, values_int64s=list(range(len(found))), default_int64=-1, **keys)

    def serialised(self, name: str, opset: int, ir_version: int, note: str) -> bytes:
        """The model of the graph with a note, checked; versions of the operators and of the file format."""
        helper = self._onnx.helper
        for own in self._inputs:
            if not own.name:
                raise CannotHoldError("a column without a name (inputs='tensor' takes columns of numbers)")
            if own.name in self.results:
                raise CannotHoldError(f"a column with the name of the output {own.name!r}")
        ends = [helper.make_node("Identity", [result], [own]) for own, result in self.results.items()]
        graph = helper.make_graph([*self.nodes, *ends], name, self._inputs, self._outputs, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(_ML, self.ml_opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, producer_name="fastens")
        helper.set_model_props(model, {"fastens": note})
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _add(self, kind: str, domain: str, inputs: tuple[str, ...], n_results: int, attributes: dict[str, Any]) -> str:
        results = [f"{self._prefix}.{len(self.nodes)}.{k}" for k in range(n_results)]
        found = {name: self._attribute(name, value) for name, value in attributes.items()}
        node = self._onnx.helper.make_node(kind, list(inputs), results, name=results[0], domain=domain, **found)
        self.nodes.append(node)
        return results[0]

    def _attribute(self, name: str, value: Any) -> Any:
        if isinstance(value, type):
            return self._code(value)
        return self._tensor(value, name) if isinstance(value, np.ndarray) else value

    def _tensor(self, values: NDArray[Any], name: str) -> Any:
        values = values.astype(object) if values.dtype.kind == "U" else values
        return self._onnx.numpy_helper.from_array(values, name)

    def _code(self, dtype: DTypeLike) -> int:
        if np.dtype(dtype).kind in "UO":
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

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
    opset, ir_version, ml_opset : int
        Versions of the operators, of the file format and of ai.onnx.ml.
    """

    def __init__(self, opset: int, ir_version: int, ml_opset: int) -> None:
        try:
            import onnx
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("format='onnx' needs the package onnx: pip install 'fastens[onnx]'") from error
        self._onnx: Any = onnx
        self._versions, self._ir_version = {"": opset, _ML: ml_opset}, ir_version
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._constants: list[Any] = []
        self.ml_opset = ml_opset
        # What sums of trees are of.
        self.float_type = np.float64 if ml_opset >= 5 else np.float32

    def input(self, name: str, dtype: DTypeLike, n_columns: int) -> str:
        """Declare an input of shape (n_rows, n_columns)."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self._code(dtype), [None, n_columns]))
        return name

    def output(self, result: str, name: str, dtype: DTypeLike, n_columns: int | None) -> None:
        """Make a result an output of shape (n_rows, n_columns), or (n_rows,)."""
        if any(name == found.name for found in self._inputs):
            raise CannotHoldError(f"a column with the name of the output {name!r}")
        self._nodes.append(self._onnx.helper.make_node("Identity", [result], [name]))
        shape = [None] if n_columns is None else [None, n_columns]
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._code(dtype), shape))

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"fastens.constant.{len(self._constants)}"
        self._constants.append(self._tensor(values, name))
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

    def serialised(self, name: str) -> bytes:
        """The model of the graph, checked."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self._versions.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=self._ir_version, producer_name="fastens")
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _add(self, kind: str, domain: str, inputs: tuple[str, ...], n_results: int, attributes: dict[str, Any]) -> str:
        results = [f"fastens.{len(self._nodes)}.{k}" for k in range(n_results)]
        found = {name: self._attribute(name, value) for name, value in attributes.items()}
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), results, domain=domain, **found))
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

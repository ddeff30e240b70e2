"""Links and labels as nodes of an ONNX graph, with the outputs that skl2onnx gives its models."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastens.exchange.writing.onnx_nodes import Graph
from fastens.exchange.writing.targets import CannotHoldError, Target


def add_target(graph: Graph, target: Target, raw: str, n_outputs: int, suffix: str) -> None:
    """Add the outputs of a target: "variable"; "label" and "probabilities"; or "label" and "scores"."""
    n_own = target.outputs.stop - target.outputs.start
    if n_own < n_outputs:
        chosen = np.arange(target.outputs.start, target.outputs.stop)
        raw = graph.add("Gather", raw, graph.constant(chosen), axis=1)
    if target.link == "anomaly":
        _add_anomaly(graph, target, raw)
    elif target.classes is None:
        found = _NUMBERS[target.link](graph, raw, n_own)
        graph.output(found, f"variable{suffix}", graph.float_type, n_own)
    else:
        _add_classes(graph, target, raw, suffix)


def _add_anomaly(graph: Graph, target: Target, raw: str) -> None:
    mean_length, offset = target.parameters
    exponent = graph.add("Mul", raw, _number(graph, -math.log(2) / mean_length))
    # The score is minus a power of 2, and the decision what it is above the offset.
    decision = graph.add("Sub", _number(graph, -offset), graph.add("Exp", exponent))
    is_outlier = graph.add("Less", decision, _number(graph, 0.0))
    label = graph.add("Where", is_outlier, graph.constant(np.array(-1)), graph.constant(np.array(1)))
    graph.output(label, "label", np.int64, 1)
    graph.output(decision, "scores", graph.float_type, 1)


def _add_classes(graph: Graph, target: Target, raw: str, suffix: str) -> None:
    classes = target.classes
    assert classes is not None
    if target.outputs.stop - target.outputs.start == 1 and len(classes) == 2:
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
    n_raw = target.outputs.stop - target.outputs.start
    link = "second share" if target.link == "shares" and n_raw == 1 else target.link
    shares = _SHARES[link](graph, raw, n_raw)
    graph.output(shares, f"probabilities{suffix}", graph.float_type, len(classes))


def _number(graph: Graph, value: float) -> str:
    return graph.constant(np.array(value, dtype=graph.float_type))


def _sigmoids(graph: Graph, raw: str, n_raw: int) -> str:
    return graph.add("Concat", graph.add("Sigmoid", graph.add("Neg", raw)), graph.add("Sigmoid", raw), axis=1)


def _scaled(graph: Graph, shares: str) -> str:
    return graph.add("Div", shares, graph.add("ReduceSum", shares, graph.constant(np.array([1]))))


def _one_vs_rest(graph: Graph, raw: str, n_raw: int) -> str:
    least = _number(graph, float(np.finfo(graph.float_type).tiny))
    return _scaled(graph, graph.add("Max", graph.add("Sigmoid", raw), least))


def _both(graph: Graph, raw: str, n_raw: int) -> str:
    return graph.add("Concat", graph.add("Sub", _number(graph, 1.0), raw), raw, axis=1)


def _sorted(graph: Graph, raw: str, n_levels: int) -> str:
    n_wanted = graph.constant(np.array([n_levels]))
    return graph.add("TopK", raw, n_wanted, n_results=2, axis=1, largest=0, sorted=1)


_Link = Callable[[Graph, str, int], str]
_NUMBERS: dict[str, _Link] = {
    "identity": lambda graph, raw, n: raw,
    "exp": lambda graph, raw, n: graph.add("Exp", raw),
    "sigmoid": lambda graph, raw, n: graph.add("Sigmoid", raw),
    "sorted": _sorted,
}
_SHARES: dict[str, _Link] = {
    "sigmoid": _sigmoids,
    "softmax": lambda graph, raw, n: graph.add("Softmax", raw, axis=1),
    "one vs rest": _one_vs_rest,
    "shares": lambda graph, raw, n: _scaled(graph, raw),
    "second share": _both,
}

"""Export to a standard SQL query in which each tree is a CASE expression and NULL is a missing value."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from fastens.exchange.export import CannotHoldError, LinkedTarget, ModelView
from fastens.exchange.records import ModelColumn
from fastens.exchange.trees import FlatTrees

# Databases limit the depth of expressions, and the depth of a plain sum is its number of terms.
_TERMS = 100


def write(view: ModelView, *, table: str = "data") -> str:
    """Return a SELECT statement of all columns of a table and the predictions for its rows.

    Parameters
    ----------
    view : ModelView
        The model.
    table : str, default="data"
        The name of the table.
    """
    view.refuse_characters(r"[\0\ud800-\udfff]")
    # Some databases do not distinguish names that differ only in case.
    suffixes = [f"_{k}" if len(view.targets) > 1 else "" for k in range(len(view.targets))]
    results = [f"raw_{k}" for k in range(view.n_outputs)]
    results += [name for pair in zip(view.targets, suffixes, strict=True) for name in _results(*pair)]
    names = {name.lower() for name in results}
    for column in view.columns:
        if column.name.lower() in names:
            raise CannotHoldError(f"a column with the name of a result, {column.name!r}")
    raw = [
        f"{_sum([_tree(tree, view.columns) for tree in trees], view.divisor)} AS {_raw(k)}"
        for k, trees in enumerate(view.by_output())
    ]
    predicted = [text for pair in zip(view.targets, suffixes, strict=True) for text in _predictions(*pair)]
    source = f"SELECT data_rows.*,\n  {_lines(raw)}\nFROM {_name(table)} AS data_rows"
    return f"SELECT raw_rows.*,\n  {_lines(predicted)}\nFROM (\n{source}\n) AS raw_rows\n"


def _lines(parts: list[str]) -> str:
    """Join the expressions of result columns by commas, one per line."""
    return ",\n  ".join(parts)


def _name(text: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def _number(value: float) -> str:
    """Format a number with an exponent, so that SQL reads it as floating point rather than decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _literal(value: Any) -> str:
    """Return an SQL literal of a string, boolean or number."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    return str(value) if isinstance(value, int) else _number(value)


def _raw(k: int) -> str:
    """Return the identifier of the k-th raw prediction."""
    return f'"raw_{k}"'


def _sum(terms: list[str], divisor: int) -> str:
    """Return the expression of the sum of `terms`, in nested groups, divided by `divisor`."""
    while len(terms) > 1:
        ends = [*range(0, len(terms), _TERMS), len(terms)]
        terms = ["(" + "\n  + ".join(terms[first:last]) + ")" for first, last in pairwise(ends)]
    return terms[0] if divisor == 1 else f"{terms[0]} / {_number(divisor)}"


def _tree(tree: FlatTrees, columns: list[ModelColumn]) -> str:
    """Return the nested CASE expression of a tree, built without recursion because trees may be too deep for it."""
    texts: list[str] = []
    waiting: list[str | int] = [0]  # a stack of texts and of nodes still to write
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif tree.left[item] < 0:
            texts.append(_number(tree.value[item, 0]))
        else:
            texts.append(f"CASE WHEN {_condition(tree, item, columns)} THEN ")
            waiting += [" END", int(tree.right[item]), " ELSE ", int(tree.left[item])]
    return "".join(texts)


def _condition(tree: FlatTrees, node: int, columns: list[ModelColumn]) -> str:
    """Return the SQL condition for going left at a node of the tree."""
    column = columns[tree.feature[node]]
    name, missing_left = _name(column.name), bool(tree.missing_left[node])
    if (members := tree.sets.get(node)) is not None:
        categories = column.categories or []
        conditions = [f"{name} IN ({', '.join(_literal(categories[k]) for k in members)})"] if len(members) else []
    elif np.isfinite(tree.threshold[node]):
        conditions = [f"{name} <= {_number(tree.threshold[node])}"]
    else:
        conditions = [f"{name} IS NOT NULL"]
    return " OR ".join([*conditions, *([f"{name} IS NULL"] if missing_left else [])] or ["1 = 0"])


def _results(target: LinkedTarget, suffix: str) -> list[str]:
    """Return the names of a target's result columns, to which `suffix` is added: predictions and probabilities."""
    if target.classes is not None:
        labels = np.asarray(target.classes).tolist()
        return [f"prediction{suffix}", *(f"probability{suffix}_{label}" for label in labels)]
    return [f"prediction{suffix}{f'_{k}' if target.n_raw > 1 else ''}" for k in range(target.n_raw)]


def _predictions(target: LinkedTarget, suffix: str) -> list[str]:
    """Return expressions, with names, of a target's result columns; raise CannotHoldError for unsupported links."""
    names = [_raw(k) for k in range(target.outputs.start, target.outputs.stop)]
    if target.classes is not None:
        return _classes(target, names, suffix)
    if target.link == "anomaly":
        length, offset = target.parameters
        scores = f"-EXP({names[0]} * {_number(-math.log(2) / length)}) - {_number(offset)}"
        return [f'{scores} AS "prediction{suffix}"']
    if target.link not in _NUMBERS:
        raise CannotHoldError(f"predictions with the link {target.link!r}")
    results = zip(names, _results(target, suffix), strict=True)
    return [f'{_NUMBERS[target.link].format(name)} AS "{result}"' for name, result in results]


_SIGMOID = "1e0 / (1e0 + EXP(-{}))"
_NUMBERS = {"identity": "{}", "exp": "EXP({})", "sigmoid": _SIGMOID}


def _classes(target: LinkedTarget, names: list[str], suffix: str) -> list[str]:
    """Return expressions, with names, of a target's label and probabilities; `names` are its raw predictions."""
    classes = np.asarray(target.classes).tolist()
    if len(names) == 1:
        limit = "0.5" if target.link == "shares" else "0"
        second = names[0] if target.link == "shares" else _SIGMOID.format(names[0])
        shares = [f"1e0 - {second}", second]
        cases = f"WHEN {names[0]} > {limit} THEN {_literal(classes[1])} ELSE {_literal(classes[0])}"
    else:
        shares = _shares(target.link, names)
        pairs = list(zip(names, classes, strict=True))
        wins = (
            f"WHEN {' AND '.join(f'{name} >= {other}' for other, _ in pairs[k + 1 :])} THEN {_literal(label)}"
            for k, (name, label) in enumerate(pairs[:-1])
        )
        cases = f"{' '.join(wins)} ELSE {_literal(classes[-1])}"
    columns = [f'CASE {cases} END AS "prediction{suffix}"']
    return columns + [
        f"{share} AS {_name(f'probability{suffix}_{label}')}" for share, label in zip(shares, classes, strict=True)
    ]


def _shares(link: str, names: list[str]) -> list[str]:
    """Return expressions of the probabilities of three or more classes; `names` are their raw predictions."""
    if link == "softmax":
        return ["1e0 / (" + " + ".join(f"EXP({other} - {name})" for other in names) + ")" for name in names]
    parts = names if link == "shares" else [f"({_SIGMOID.format(name)})" for name in names]
    return [f"{part} / ({' + '.join(parts)})" for part in parts]

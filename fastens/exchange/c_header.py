"""Export to one C99 header with the trees as tables. The code allocates no memory and needs only <math.h>."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from fastens.engine.trees.trees import set_of
from fastens.exchange.export import LinkedTarget, ModelView
from fastens.exchange.trees import join_trees

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WIDTH = 116

_HEAD = """\
/* {estimator} by fastens, as tables and functions: C99, no allocation, no state.

   A row x has {n_columns} doubles in the order below; NaN is a missing value. Of a column of categories it is the
   position of the category, as NAME_category or NAME_category_of_number finds it; any other number is one never seen.

{columns}
   NAME_raw(x, raw) writes {n_outputs} raw predictions, NAME_predict(x, out) {n_predicted} predictions{labels}. */
#ifndef NAME_FASTENS_H
#define NAME_FASTENS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NAME_N_COLUMNS {n_columns}
#define NAME_N_RAW {n_outputs}
#define NAME_N_PREDICTED {n_predicted}
#define NAME_N_TREES {n_trees}
"""

_WALK = """\
/* The place of the leaf's values that a row falls into from a root. */
static inline int32_t NAME_leaf(const double *x, int32_t node)
{
    while (NAME_column[node] >= 0) {
        const double value = x[NAME_column[node]];
        const int32_t first = NAME_set_first[node], size = NAME_set_size[node];
        int goes_left;
        if (isnan(value))
            goes_left = NAME_missing_left[node];
        else if (first < 0)
            goes_left = value <= NAME_threshold[node];
        else {
            const int32_t code = value >= 0 && value < 32.0 * size ? (int32_t) value : -1;
            goes_left = code >= 0 && code == value && (NAME_words[first + code / 32] >> (code % 32) & 1u);
        }
        node = goes_left ? NAME_left[node] : NAME_right[node];
    }
    return NAME_left[node];
}

static inline void NAME_raw(const double *x, double *raw)
{
    int32_t tree, k;
    for (k = 0; k < NAME_N_RAW; k++)
        raw[k] = NAME_baseline[k];
    for (tree = 0; tree < NAME_N_TREES; tree++) {
        const double *values = NAME_value + NAME_leaf(x, NAME_root[tree]);
        for (k = 0; k < NAME_VALUES; k++)
            raw[NAME_output[tree] + k] += values[k];
    }
    for (k = 0; k < NAME_N_RAW; k++)
        raw[k] /= NAME_DIVISOR;
}
"""

_CATEGORY = """\
/* The position of a category of a column, -1 for one never seen. */
static inline int NAME_category{suffix}(int column, {type} value)
{{
    int k;
    for (k = NAME_{table}_first[column]; k < NAME_{table}_first[column + 1]; k++)
        if ({test})
            return k - NAME_{table}_first[column];
    return -1;
}}
"""

# The C code of each link, which converts `n` raw predictions `r` to predictions in `out`.
_LINKS = {
    "identity": "for (k = 0; k < {n}; k++) out[k] = r[k];",
    "exp": "for (k = 0; k < {n}; k++) out[k] = exp(r[k]);",
    "sigmoid": "out[1] = 1 / (1 + exp(-r[0])); out[0] = 1 / (1 + exp(r[0]));",
    "share": "for (k = 0; k < {n}; k++) out[k] = 1 / (1 + exp(-r[k]));",
    "softmax": """\
largest = r[0];
        for (k = 1; k < {n}; k++) if (r[k] > largest) largest = r[k];
        for (k = 0; k < {n}; k++) total += out[k] = exp(r[k] - largest);
        for (k = 0; k < {n}; k++) out[k] /= total;""",
    "one vs rest": """\
for (k = 0; k < {n}; k++) total += out[k] = fmax(1 / (1 + exp(-r[k])), 2.2250738585072014e-308);
        for (k = 0; k < {n}; k++) out[k] /= total;""",
    "second share": "out[1] = r[0]; out[0] = 1 - r[0];",
    "shares": """\
for (k = 0; k < {n}; k++) total += r[k];
        for (k = 0; k < {n}; k++) out[k] = r[k] / total;""",
    "sorted": """\
for (k = 0; k < {n}; k++) {{
            int32_t j = k;
            for (; j > 0 && out[j - 1] > r[k]; j--) out[j] = out[j - 1];
            out[j] = r[k];
        }}""",
    "anomaly": "out[0] = -exp2(-r[0] / {parameters[0]!r}) - {parameters[1]!r};",
}


def write(view: ModelView, *, name: str = "model") -> str:
    """Return the text of the header.

    Parameters
    ----------
    view : ModelView
        The model.
    name : str, default="model"
        The prefix of the names of all functions, tables and constants.
    """
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"name must be a C identifier; got {name!r}.")
    view.refuse_characters(r"[\0\ud800-\udfff]", names=False)  # column names occur only in a comment
    n_predicted = sum(map(_n_predicted, view.targets))
    of_classes = view.targets[0].classes is not None
    head = _HEAD.format(
        estimator=view.estimator,
        n_columns=len(view.columns),
        columns="".join(f"   {k}: {_comment(column.name)}\n" for k, column in enumerate(view.columns)),
        n_outputs=view.n_outputs,
        n_predicted=n_predicted,
        labels=",\n   the probabilities of the classes, and NAME_class(x, out) the numbers of the classes" * of_classes,
        n_trees=len(view.trees),
    )
    parts = [head, *_categories(view), *_tables(view), _WALK, _predict(view), _classes(view), "#endif\n"]
    return "\n".join(filter(None, parts)).replace("NAME", name)


def _n_predicted(target: LinkedTarget) -> int:
    """Return the number of doubles that the C function writes for a target: its predictions or probabilities."""
    return target.n_raw if target.classes is None else len(target.classes)


def _comment(text: str) -> str:
    """Return the text without characters that would end a C comment or are not ASCII."""
    return re.sub(r"[^ -~]|\*/|/\*|NAME|\\", "?", text)


def _text(value: Any) -> str:
    """Return a string literal with non-ASCII bytes as octal escapes, which cannot absorb a following digit."""
    plain = {34: '\\"', 92: "\\\\", 63: "\\?"}
    characters = (plain.get(b, chr(b)) if 32 <= b < 127 else f"\\{b:03o}" for b in str(value).encode())
    return f'"{"".join(characters)}"'.replace("NAME", 'N""AME')


def _array(c_type: str, name: str, values: Iterable[Any]) -> str:
    """Return an array definition; an empty array gets a 0 because C has no empty arrays."""
    lines, line = [], "   "
    for value in [*values] or [0]:
        text = f" {value},"
        if len(line) + len(text) > _WIDTH and line.strip():
            lines.append(line)
            line = "   "
        line += text
    return f"static const {c_type} NAME_{name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def _number(value: float) -> str:
    """Return a C literal of a double, which may be infinite."""
    return repr(value) if np.isfinite(value) else ("-" if value < 0 else "") + "INFINITY"


def _categories(view: ModelView) -> Iterable[str]:
    """Yield the C tables of all columns' categories, texts and numbers apart, and functions that look up positions."""
    by_column = [column.categories or [] for column in view.columns]
    texts = [[_text(each) for each in categories if isinstance(each, str)] for categories in by_column]
    numbers = [[_number(float(each)) for each in categories if not isinstance(each, str)] for categories in by_column]
    for table, stored, passed, suffix, test, lists in (
        ("text", "char *const", "const char *", "", "strcmp(NAME_text[k], value) == 0", texts),
        ("number", "double", "double", "_of_number", "NAME_number[k] == value", numbers),
    ):
        if any(lists):
            first = np.cumsum([0, *map(len, lists)]).tolist()
            yield _array(stored, table, chain(*lists)) + _array("int32_t", f"{table}_first", first)
            yield _CATEGORY.format(suffix=suffix, type=passed, table=table, test=test)


def _tables(view: ModelView) -> Iterable[str]:
    """Yield the C tables of all trees: nodes, bitmaps of category sets in 32-bit words, leaf values and roots."""
    trees = join_trees(view.trees, view.tree_output)
    is_leaf, width = trees.is_leaf, trees.value.shape[1]
    first, size = np.full(len(is_leaf), -1), np.zeros(len(is_leaf), dtype=np.int64)
    words: list[int] = []
    for node in sorted(trees.sets):  # bitmaps of 32-bit words
        set_words = set_of(trees.sets[node]).tolist()
        first[node], size[node] = len(words), len(set_words)
        words += set_words
    columns: dict[str, Any] = {
        "column": trees.feature,
        "threshold": np.where(is_leaf | (size > 0), 0, trees.threshold),
        "missing_left": trees.missing_left.astype(np.int64),
        "left": np.where(is_leaf, width * (np.cumsum(is_leaf) - 1), trees.left),
        "right": np.where(is_leaf, 0, trees.right),
        "set_first": first,
        "set_size": size,
    }
    yield f"#define NAME_VALUES {width}\n#define NAME_DIVISOR {view.divisor}.0\n"
    kinds = {"threshold": "double", "missing_left": "uint8_t"}
    for name, values in columns.items():
        yield _array(kinds.get(name, "int32_t"), name, map(_number, values.tolist()))
    yield _array("uint32_t", "words", (f"0x{word:x}" for word in words))
    yield _array("double", "value", map(_number, trees.value[is_leaf].ravel().tolist()))
    yield _array("double", "baseline", map(_number, view.baseline.tolist()))
    yield _array("int32_t", "root", trees.roots.tolist()) + _array("int32_t", "output", view.tree_output)


def _link(target: LinkedTarget) -> str:
    """Return the key in `_LINKS` of the C code that converts a target's raw predictions."""
    if target.link == "sigmoid" and target.classes is None:
        return "share"
    return "second share" if target.link == "shares" and target.n_raw == 1 else target.link


def _predict(view: ModelView) -> str:
    """Return the C function that computes the predictions of all targets."""
    lines = ["static inline void NAME_predict(const double *x, double *predicted)", "{", "    double raw[NAME_N_RAW];"]
    lines += ["    NAME_raw(x, raw);"]
    first = 0
    for target in view.targets:
        code = _LINKS[_link(target)].format(n=target.n_raw, parameters=target.parameters)
        lines += ["    {", f"        const double *r = raw + {target.outputs.start};"]
        lines += [f"        double *out = predicted + {first};"]
        names = [name for name in ("total", "largest") if name in code]
        lines += [f"        double {name} = 0;" for name in names]
        lines += ["        int32_t k;"] if "(k =" in code else []
        lines += [f"        {code}", "    }"]
        first += _n_predicted(target)
    return "\n".join([*lines, "}", ""])


def _classes(view: ModelView) -> str:
    """Return the C table of labels and the function that writes each target's class; empty in regression."""
    if view.targets[0].classes is None:
        return ""
    labels = [_text(label) for target in view.targets for label in np.asarray(target.classes).tolist()]
    lines = [_array("char *const", "labels", labels)]
    lines += ["/* The number of the class of each target, the first of equals; of all targets' labels. */"]
    lines += ["static inline void NAME_class(const double *x, int *found)", "{", "    double raw[NAME_N_RAW];"]
    lines += ["    int k, best;", "    NAME_raw(x, raw);"]
    first = 0
    for number, target in enumerate(view.targets):
        start, n_raw = target.outputs.start, target.n_raw
        if n_raw == 1:
            limit = 0.5 if target.link == "shares" else 0.0
            lines += [f"    best = k = raw[{start}] > {limit};"]
        else:
            lines += ["    best = 0;", f"    for (k = 1; k < {n_raw}; k++)"]
            lines += [f"        if (raw[{start} + k] > raw[{start} + best])", "            best = k;"]
        lines += [f"    found[{number}] = {first} + best;"]
        first += _n_predicted(target)
    return "\n".join([*lines, "}", ""])

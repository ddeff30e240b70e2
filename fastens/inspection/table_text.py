"""A conditional probability table as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.inspection.plotting import shortened

LONGEST = 14  # characters of a name or a value
MOST_VALUES = 6
CUT = "..."


def table_text(
    states: Sequence[Any],
    parent_names: Sequence[str],
    parent_states: Sequence[Sequence[Any]],
    table: NDArray[np.float64],
    max_rows: int = 8,
) -> str:
    """Return P(variable | parents) as text in columns: a line for each combination of the parents' values.

    `table` has axes for the parents and for the variable. Of more than `max_rows` lines, and of many values, "..."
    stands for the others.
    """
    header = [*parent_names, *states[:MOST_VALUES]] + [CUT] * (len(states) > MOST_VALUES)
    lines = [[_cell(found) for found in header]]
    shape = table.shape[:-1]
    n_rows = int(np.prod(shape))
    for row in range(min(n_rows, max_rows)):
        place = np.unravel_index(row, shape) if shape else ()
        values = [_cell(known[int(at)]) for known, at in zip(parent_states, place, strict=True)]
        shares = [_share(share) for share in table[place][:MOST_VALUES].tolist()]
        lines.append([*values, *shares] + [CUT] * (len(states) > MOST_VALUES))
    text = _aligned(lines, len(parent_names))
    left_out = n_rows - max_rows
    if left_out > 0:
        text.append(f"{CUT} {left_out} more {'row' if left_out == 1 else 'rows'}")
    return "\n".join(text)


def _aligned(lines: list[list[str]], n_parents: int) -> list[str]:
    """Cells below each other: those of the parents to the left of a stroke, of the variable to its right."""
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        cells = [
            cell.ljust(w) if place < n_parents else cell.rjust(w)
            for place, (cell, w) in enumerate(zip(line, width, strict=True))
        ]
        left, right = " ".join(cells[:n_parents]), " ".join(cells[n_parents:])
        text.append(f"{left} | {right}" if n_parents else right)
    return text


def _cell(value: Any) -> str:
    return shortened(f"{value:g}" if isinstance(value, float) else str(value), LONGEST)


def _share(share: float) -> str:
    """Two decimals, but a small probability is not none, and a large one not all."""
    if 0 < share < 0.005:
        return "<.01"
    return ">.99" if 0.995 <= share < 1 else f"{share:.2f}"

"""A picture of a version space: the general hypotheses on top, the specific ones below, lines between neighbours."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from fastens.inspection.boxes import measured
from fastens.inspection.network_plot import draw_layers
from fastens.inspection.plotting import shortened

LINE = 36  # characters
LONGEST = 240
MOST_GENERAL = 8
FONT, BESIDE = 8.0, 0.2  # points of the title; inches of the room round it
COLOURS = {"S": "#d5ecd4", "G": "#dfe9f5", "S = G": "#fde3c0", "": "white"}


def plot_lattice(
    specific: Sequence[Any], general: Sequence[Any], between: Sequence[Any], *, title: str = "", ax: Any = None
) -> Any:
    """Draw S, G and the hypotheses between them in the order of generality, and return the axes.

    A line joins two hypotheses of which the upper one is more general, with none between them. Hypotheses compare by
    ``>=``, more general than or equal to, and their length is the number of their constraints.
    """
    members = list(dict.fromkeys([*general, *between, *specific]))
    roles = [_role(member in specific, member in general) for member in members]
    names = [_named(member, role) for member, role in zip(members, roles, strict=True)]
    drawn = draw_layers(
        ax,
        names,
        _uppers(members),
        [COLOURS[role] for role in roles],
        levels=_levels(members),
    )
    return _titled(drawn, title, ax is None)


def plot_boundaries(
    specific: Sequence[Any], general: Sequence[Any], n_between: int, *, title: str = "", ax: Any = None
) -> Any:
    """Draw S and G alone, with a box for the `n_between` other members, and return the axes.

    Of a large G, `general` holds the first ones; `title` and `ax` as for `plot_lattice`.
    """
    shown = general[:MOST_GENERAL]
    names = [_named(member, "G") for member in shown]
    if len(general) > len(shown):
        names.append(f"... {len(general) - len(shown):,} more of G")
    n_upper = len(names)
    names += [f"... {n_between:,} between ...", *(_named(member, "S") for member in specific)]
    parents: list[list[int]] = [[] for _ in range(n_upper)] + [list(range(n_upper))] + [[n_upper]] * len(specific)
    colours = [COLOURS["G"]] * n_upper + [COLOURS[""]] + [COLOURS["S"]] * len(specific)
    return _titled(
        draw_layers(
            ax,
            names,
            parents,
            colours,
        ),
        title,
        ax is None,
    )


def _titled(ax: Any, title: str, is_new: bool) -> Any:
    """The axes with a title, for which a new figure gets room."""
    (size,) = measured(ax, [title], FONT, 0.0)
    if is_new:
        width, height = ax.figure.get_size_inches()
        ax.figure.set_size_inches(max(width, size[0] + BESIDE), height + size[1] + BESIDE)
    ax.set_title(title, fontsize=FONT, parse_math=False)
    return ax


def _role(is_specific: bool, is_general: bool) -> str:
    return " = ".join(letter for letter, holds in (("S", is_specific), ("G", is_general)) if holds)


def _named(member: Any, role: str) -> str:
    text = shortened(repr(member), LONGEST)
    return "\n".join(textwrap.wrap(f"{role}: {text}" if role else text, LINE))


def _uppers(members: Sequence[Any]) -> list[list[int]]:
    """For each hypothesis the least general ones above it."""
    found = []
    for member in members:
        above = [place for place, other in enumerate(members) if other > member]
        found.append([place for place in above if not any(members[place] > members[other] for other in above)])
    return found


def _levels(members: Sequence[Any]) -> list[int]:
    """Hypotheses with as many constraints beside each other; the one that covers nothing below all others."""
    lowest = max(map(len, members)) + 1
    sizes = [lowest if member.values is None else len(member) for member in members]
    order = {size: level for level, size in enumerate(sorted(set(sizes)))}
    return [order[size] for size in sizes]

"""Few of many combinations of values, which have all values together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def covering(cases: Sequence[Mapping[str, object]]) -> list[bool]:
    """Say for each case, which has a value for each name, if it is one of the few that have every value of every name.

    Cases of new values only come first, so that few cases are enough. Objects of other types than numbers, strings and
    classes are equal only if they are the same object.
    """
    keys = [
        {
            (name, repr(value) if isinstance(value, str | int | float | type) else id(value))
            for name, value in case.items()
        }
        for case in cases
    ]
    seen: set[tuple[str, object]] = set()
    chosen = [False] * len(cases)
    for has_only_new in (True, False):
        for k, values in enumerate(keys):
            new = values - seen
            if new and (len(new) == len(values) or not has_only_new):
                chosen[k] = True
                seen |= values
    return chosen

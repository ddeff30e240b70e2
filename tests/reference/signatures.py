"""The public interface as text: `python tests/reference/signatures.py` writes it to signatures.txt.

A change of that file is a change of the interface: it belongs in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import fastens

FILE = Path(__file__).with_suffix(".txt")


def parameters(function: Any) -> str:
    """Return the names and defaults of a signature, without types, which may be written in other words."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def lines() -> list[str]:
    """Return a line for each public name, and one for each public method and property of a class."""
    found = []
    for name in sorted(fastens.__all__):
        value = getattr(fastens, name)
        if not callable(value):
            found.append(name)
            continue
        found.append(f"{name}{parameters(value)}")
        if not isinstance(value, type):
            continue
        for member in sorted(dir(value)):
            own = inspect.getattr_static(value, member)
            home = next((kind for kind in value.__mro__ if member in vars(kind)), value)
            if member.startswith("_") or not home.__module__.startswith("fastens"):
                continue
            if callable(getattr(value, member, None)):
                found.append(f"{name}.{member}{parameters(getattr(value, member))}")
            elif isinstance(own, property) or hasattr(own, "__get__"):
                found.append(f"{name}.{member}")
    return found


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")

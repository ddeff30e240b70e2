"""Lazy import of the public names of a package, from the modules that its stub file lists."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

LINE = re.compile(r"^from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


def public_names(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for the `__init__` of a package.

    Parameters
    ----------
    package : str
        Dotted name of the package.
    file : str
        Path of its `__init__` file. The stub file next to it, which type checkers read, has a line
        ``from MODULE import NAME as NAME`` for each public name.
    """
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        homes = {name: module for module, name in LINE.findall(stub.read())}

    def get(name: str) -> Any:
        if name not in homes:
            if not name.isidentifier() or name.startswith("_") or find_spec(f"{package}.{name}") is None:
                hints = import_module("fastens.params.foreign_names")
                help_ = "" if name.startswith("_") else hints.name_hint(name, homes)
                raise AttributeError(f"module {package!r} has no attribute {name!r}" + (help_ and f".{help_}"))
            return import_module(f"{package}.{name}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # later accesses skip this function
        return value

    def names() -> list[str]:
        return sorted(homes)

    return list(homes), get, names

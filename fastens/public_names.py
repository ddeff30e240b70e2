"""Public names of a package: imported when they are first used, from the modules that its stub file names."""

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
    """What a package's `__init__` needs: `__all__`, `__getattr__` and `__dir__`.

    Parameters
    ----------
    package : str
        Its dotted name.
    file : str
        Its `__init__` file. The stub beside it, which type checkers read, has a line
        ``from MODULE import NAME as NAME`` for each name.
    """
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        homes = {name: module for module, name in LINE.findall(stub.read())}

    def get(name: str) -> Any:
        if name not in homes:
            if not name.isidentifier() or name.startswith("_") or find_spec(f"{package}.{name}") is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return import_module(f"{package}.{name}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # found there from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return list(homes), get, names

"""The shape of the package: imports point one way, files and functions stay readable, no function is copied."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from itertools import takewhile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fastens"
SOURCES = sorted(path for suffix in ("py", "pyx", "pxd", "h") for path in PACKAGE.rglob(f"*.{suffix}"))

# The rooms: folders, and the modules at the top. A room imports only from rooms above it in this list.
ROOMS = [
    "warn",
    "foreign_names",
    "parameters",
    "options",
    "checked_parameters",
    "storage",
    "engine",
    "engine.rows",
    "engine.bins",
    "engine.losses",
    "engine.histograms",
    "engine.splits",
    "engine.predict",
    "engine.trees",
    "engine.grow",
    "engine.forest",
    "engine.linear",
    "table.columns",
    "table",
    "base",
    "saving",
    "conformal",
    "posterior",
    "inspection",
    "monitoring",
    "tree_model",
    "boosting",
    "forests",
    "combining",
    "adaboost",
    "bayes",
    "fastens",
    "cli",
]
MAX_FOLDER_FILES = 25
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
COPIED_LINES = 10

IMPORT = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+c?import\s+(?P<names>.+)|c?import\s+(?P<modules>[\w.]+))")
FUNCTION = re.compile(r"^\s*(?:def|cdef(?! class)|cpdef)\b[^=(]*\b(?P<name>\w+)\(")


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(module: str) -> str:
    """The room that a dotted module name belongs to: the longest in the list that it starts with."""
    names = module.split(".")[1:]
    if names[:1] == ["__main__"]:
        return "cli"
    room = ".".join(names)
    while room and room not in ROOMS:
        room = room.rpartition(".")[0]
    return room or "fastens"


def module_name(path: Path) -> str:
    return ".".join(("fastens", *path.relative_to(PACKAGE).with_suffix("").parts))


def imported_modules(path: Path) -> set[str]:
    """Modules that a source file imports or cimports (also inside functions), by their full names."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        match = IMPORT.match(line)
        if match is None:
            continue
        source = absolute(match["source"] or match["modules"], path)
        names = re.findall(r"\w+", match["names"] or "")[:1] if source == "fastens.engine" else []
        found.add(".".join([source, *names]))
    return found


def absolute(module: str, path: Path) -> str:
    """The full name of a module that a source file names relative to itself."""
    n_dots = len(module) - len(module.lstrip("."))
    if n_dots == 0:
        return module
    return ".".join((*module_name(path).split(".")[:-n_dots], module[n_dots:]))


def functions(path: Path) -> list[tuple[str, list[str]]]:
    """Each function's name line and its lines, docstrings and comments left out."""
    if path.suffix == ".py":
        return python_functions(path)
    if path.suffix in {".pyx", ".pxd"}:
        return cython_functions(path)
    return []


def python_functions(path: Path) -> list[tuple[str, list[str]]]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            first = node.body[0].end_lineno if has_docstring else node.body[0].lineno - 1
            body = code_lines(lines[first : node.end_lineno])
            found.append((node.name, [line.strip() for line in body]))
    return found


def cython_functions(path: Path) -> list[tuple[str, list[str]]]:
    text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = code_lines(text.splitlines())
    found = []
    for first, line in enumerate(lines):
        opening = FUNCTION.match(line)
        if opening is None:
            continue
        header = next((i for i in range(first, len(lines)) if lines[i].endswith((":", ")"))), first)
        if lines[header].endswith(":"):
            body = takewhile(lambda inner: indent(inner) > indent(line), lines[header + 1 :])  # noqa: B023
            found.append((opening["name"], [inner.strip() for inner in body]))
    return found


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def code_lines(lines: list[str]) -> list[str]:
    """The lines that hold code, comments at their end cut off."""
    stripped = [re.sub(r"\s+#\s.*$", "", line).rstrip() for line in lines]
    return [line for line in stripped if line and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_imports_point_one_way(path):
    room = room_of(module_name(path))
    for module in imported_modules(path):
        if module.split(".")[0] == "fastens":
            other = room_of(module)
            assert ROOMS.index(other) <= ROOMS.index(room), f"{room} must not know {other}: {module}"


def test_rooms_are_folders_or_modules():
    rooms = [PACKAGE.joinpath(*room.split(".")) for room in ROOMS if room != "fastens"]
    assert [room for room in rooms if not room.is_dir() and not room.with_suffix(".py").is_file()] == []


def test_folders_stay_small():
    n_files = Counter(relative(path.parent) for path in SOURCES)
    assert {folder: n for folder, n in n_files.items() if n > MAX_FOLDER_FILES} == {}


def test_engine_knows_no_scikit_learn():
    engine = [path for path in SOURCES if "engine" in path.parts]
    assert [relative(path) for path in engine if any(m.startswith("sklearn") for m in imported_modules(path))] == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_stay_short(path):
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_FILE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_fit_on_a_screen(path):
    long = {name: len(lines) for name, lines in functions(path) if len(lines) > MAX_FUNCTION_LINES}
    assert long == {}


def test_no_function_is_copied():
    """No run of ten lines of code stands in two functions."""
    places = defaultdict(set)
    for path in SOURCES:
        for name, lines in functions(path):
            for first in range(len(lines) - COPIED_LINES + 1):
                places["\n".join(lines[first : first + COPIED_LINES])].add((relative(path), name))
    assert [sorted(where) for where in places.values() if len(where) > 1] == []

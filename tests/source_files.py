"""Read the package's sources as text: what each file imports, includes and cimports, its functions, and cycles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "fastens"
SOURCES = sorted(path for suffix in ("py", "pyx", "pxd", "h") for path in PACKAGE.rglob(f"*.{suffix}"))

DOCSTRING = re.compile(r'""".*?"""', re.DOTALL)
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FROM_IMPORT = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|.+)", re.MULTILINE)
PLAIN_IMPORT = re.compile(r"^\s*c?import\s+([\w.]+)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*(?:#\s*include|cdef extern from|include)\s+"([^"]+)"', re.MULTILINE)
CYTHON_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?:def|cdef(?! class)|cpdef)\b[^=(\n]*\b(?P<name>\w+)\(", re.MULTILINE
)
C_FUNCTION = re.compile(r"^(?:static|inline|[A-Z_]{4,})\b[^;={}()\n]*\b(?P<name>\w+)\(", re.MULTILINE)


class Function(NamedTuple):
    """A function or method of a source file."""

    name: str
    owner: str  # its class, or "" for a kernel
    lines: list[str]  # of code
    n_parameters: int


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def module_name(path: Path) -> str:
    """The dotted name of a source file or folder; a folder stands for its __init__, and a header keeps its suffix."""
    name = ".".join(("fastens", *path.relative_to(PACKAGE).parts))
    return re.sub(r"(\.__init__)?\.(py|pyx|pxd)$", "", name)


MODULES = {module_name(path) for path in SOURCES}


@cache
def imported_modules(path: Path) -> set[str]:
    """Modules and headers that a source file imports, cimports or includes (also inside functions)."""
    text = path.read_text(encoding="utf-8")
    pairs = python_imports(text) if path.suffix == ".py" else cython_imports(DOCSTRING.sub("", text))
    found = {module_of(absolute(source, path), name) for source, name in pairs}
    for included in INCLUDE.findall(text) if path.suffix != ".py" else []:
        found |= {module_name(p) for p in (PACKAGE / included, path.parent / included) if p.is_file()}
    return found - {module_name(path)}


parsed = cache(ast.parse)


def python_imports(text: str) -> Iterator[tuple[str, str]]:
    """Each imported module with a name that is taken from it, or none."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def cython_imports(text: str) -> Iterator[tuple[str, str]]:
    for source, names in FROM_IMPORT.findall(text):
        yield from ((source, name) for name in re.findall(r"\w+", names))
    yield from ((module, "") for module in PLAIN_IMPORT.findall(text))


def module_of(source: str, name: str) -> str:
    return f"{source}.{name}" if f"{source}.{name}" in MODULES else source


def absolute(module: str, path: Path) -> str:
    """The full name of a module that a source file names relative to itself."""
    n_dots = len(module) - len(module.lstrip("."))
    if n_dots == 0:
        return module
    folder = ("fastens", *path.relative_to(PACKAGE).parent.parts)
    return ".".join((*folder[: len(folder) - n_dots + 1], module[n_dots:])).rstrip(".")


@cache
def functions(path: Path) -> list[Function]:
    """The functions of a source file; their lines are without docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(python_functions(text))
    if path.suffix == ".h":
        return list(c_functions(C_COMMENT.sub("", text)))
    return list(cython_functions(DOCSTRING.sub("", text)))


def python_functions(text: str) -> Iterator[Function]:
    lines, tree = text.splitlines(), parsed(text)
    owners = {
        member: node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for member in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            first = node.body[0].end_lineno if has_docstring else node.body[0].lineno - 1
            body = [line.strip() for line in code_lines(lines[first : node.end_lineno])]
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield Function(node.name, owners.get(node, ""), body, n_named(a.arg for a in arguments))


def cython_functions(text: str) -> Iterator[Function]:
    text = "\n".join(code_lines(text.splitlines()))
    for opening in CYTHON_FUNCTION.finditer(text):
        parameters, rest = bracketed(text[opening.end() :])
        colon, *following = rest.split("\n")
        body = takewhile(lambda line: indent(line) > len(opening["indent"]), following)  # noqa: B023
        lines = [line.strip() for line in body] if colon.endswith(":") else []
        yield Function(opening["name"], "", lines, n_named(parameters))


def c_functions(text: str) -> Iterator[Function]:
    for opening in C_FUNCTION.finditer(text):
        parameters, rest = bracketed(text[opening.end() :])
        first, *following = rest.lstrip().split("\n")
        is_long = first.startswith("{") and "}" not in first
        body = takewhile(lambda line: line != "}", following) if is_long else ()
        yield Function(opening["name"], "", [line.strip() for line in body if line.strip()], n_named(parameters))


def bracketed(text: str) -> tuple[list[str], str]:
    """The parts between commas up to the closing bracket of a list that is open already; the text after it."""
    depth, parts, part = 1, [], ""
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            return [*parts, part], text[place + 1 :]
        if letter == "," and depth == 1:
            parts, part = [*parts, part], ""
        else:
            part += letter
    return [], ""


def n_named(parameters: list[str] | Iterator[str]) -> int:
    return sum(name.strip() not in {"self", "cls", "*", "/", "", "void"} for name in parameters)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def code_lines(lines: list[str]) -> list[str]:
    """The lines that hold code, comments at their end cut off."""
    stripped = [re.sub(r"\s+#\s.*$", "", line).rstrip() for line in lines]
    return [line for line in stripped if line and not line.lstrip().startswith("#")]


def cycles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Groups of nodes that each lead to all others of their group."""
    reached = {node: reachable(arrows, node) for node in arrows}
    groups = {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in arrows}
    return sorted((set(group) for group in groups if len(group) > 1), key=sorted)


def reachable(arrows: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        new = arrows.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found

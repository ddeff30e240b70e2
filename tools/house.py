"""Print how large the code is, and how many files and functions common tasks pass through.

    python tools/house.py [FOLDER_OF_A_CHECKOUT]

The tasks run on the fastens that is importable, built in place in that checkout.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENDINGS = ("py", "pyi", "pyx", "pxd", "h")
QUESTION = re.compile(
    r"\b(?:is_frame|is_coded|issparse|is_spread|is_ready_array|is_remote)\(|isinstance\([^()]*Table\)"
)


def files(root: Path) -> list[Path]:
    """Return the files of the product."""
    return sorted(path for ending in ENDINGS for path in root.glob(f"fastens/**/*.{ending}"))


def code_lines(path: Path) -> int:
    """Count lines that are neither blank, comment, docstring nor import."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r'^\s*"""(?:.|\n)*?"""\s*$', "", text, flags=re.MULTILINE)
    text = re.sub(r"/\*(?:.|\n)*?\*/", "", text)
    text = re.sub(r"^(?:from \S+ c?import (?:\([^)]*\)|.*)|c?import .*)$", "", text, flags=re.MULTILINE)
    return sum(bool(line.strip()) and not line.strip().startswith(("#", "//")) for line in text.splitlines())


def overridden(root: Path) -> int:
    """Count pairs of a class and a member that a base class in the package also has."""
    bases: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {}
    for path in root.glob("fastens/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                own |= {
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and hasattr(each.target, "id")
                }
                members[node.name] = own
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    n_overridden = 0
    for name, own in members.items():
        seen, left = set(), list(bases[name])
        while left:
            base = left.pop()
            if base in members and base not in seen:
                seen.add(base)
                left += bases[base]
        n_overridden += sum(any(member in members[base] for base in seen) for member in own if member != "__init__")
    return n_overridden


def traced(task: Callable[[], Any]) -> tuple[int, int]:
    """Return how many Python files and functions of the package a task enters."""
    entered = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and "/fastens/" in path and not frame.f_code.co_name.startswith("<"):
            entered.add((path, frame.f_code.co_name, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return len({path for path, _, _ in entered}), len(entered)


def tasks() -> dict[str, tuple[int, int]]:
    """Trace fits and predictions whose modules have been imported by an earlier run."""
    import pandas as pd
    from sklearn.datasets import make_regression

    import fastens

    X, y = make_regression(500, 8, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))

    def boosting() -> fastens.GradientBoostingRegressor:
        return fastens.GradientBoostingRegressor(n_estimators=10, n_jobs=1, random_state=0)

    def forest() -> fastens.RandomForestRegressor:
        return fastens.RandomForestRegressor(n_estimators=10, n_jobs=1, random_state=0)

    on_arrays, on_frames = boosting().fit(X, y), boosting().fit(frame, y)
    chosen = {
        "boosting fit, NumPy": lambda: boosting().fit(X, y),
        "boosting predict, NumPy": lambda: on_arrays.predict(X),
        "boosting predict, pandas": lambda: on_frames.predict(frame),
        "forest fit, NumPy": lambda: forest().fit(X, y),
    }
    for task in chosen.values():
        task()
    return {name: traced(task) for name, task in chosen.items()}


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent).resolve()
    sys.path.insert(0, str(root))
    product = files(root)
    print(f"files: {len(product)}; kernels (.pyx): {sum(path.suffix == '.pyx' for path in product)}")
    print(f"lines of code: {sum(map(code_lines, product)):,}")
    print(f"lines: {sum(len(path.read_text(encoding='utf-8').splitlines()) for path in product):,}")
    behind = [path for path in product if path.suffix == ".py" and path.parent.name != "cli" and path.stem != "opening"]
    print(f"questions about the kind of table: {sum(len(QUESTION.findall(path.read_text())) for path in behind)}")
    print(f"overridden members: {overridden(root)}")
    for name, (n_files, n_functions) in tasks().items():
        print(f"{name}: {n_files} files, {n_functions} functions")


if __name__ == "__main__":
    main()

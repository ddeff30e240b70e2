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


def is_abstract(function: ast.FunctionDef) -> bool:
    """Return True if a method only has a docstring, or only raises NotImplementedError."""
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return not body or (isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0]))


def classes(root: Path) -> dict[tuple[str, str], tuple[set[str], list[tuple[str, str]]]]:
    """Return the implemented methods, without dunder methods, and the bases of the classes by module and name."""
    found = {}
    for path in root.glob("fastens/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        known = {(name.asname or name.name): (each.module or "", name.name) for each in imports for name in each.names}
        kinds = [each for each in tree.body if isinstance(each, ast.ClassDef)]
        known |= {each.name: (module, each.name) for each in kinds}
        for kind in kinds:
            methods = [each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name[:2] != "__"]
            names = [ast.unparse(base).partition("[")[0] for base in kind.bases]
            implemented = {each.name for each in methods if not is_abstract(each)}
            found[module, kind.name] = implemented, [known[name] for name in names if name in known]
    return found


def overridden(root: Path) -> int:
    """Count pairs of a class and a method that a base class in the package implements too."""
    known, n_overridden = classes(root), 0
    for methods, bases in known.values():
        inherited: set[str] = set()
        waiting = list(bases)
        while waiting:
            others, above = known.get(waiting.pop(), (set(), []))
            inherited |= others
            waiting += above
        n_overridden += len(methods & inherited)
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
    print(f"overridden methods: {overridden(root)}")
    for name, (n_files, n_functions) in tasks().items():
        print(f"{name}: {n_files} files, {n_functions} functions")


if __name__ == "__main__":
    main()

"""Count phrases that mark unidiomatic English in the docs, in docstrings and in comments; with --list, print them.

python tools/flagged_phrases.py [--list] [FOLDER_OF_A_CHECKOUT]
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

FLAGGED = re.compile(
    r"\bas (?:it|they) comes?\b|\bto the bit\b|\b(?:that|those) of\b|\bthe same of\b|\bso many\b"
    r"|\bwhere there (?:is|are)\b"
    r"|(?<!there )\b(?:is|are) no (?!longer|more than)\b|\bbesides?\b|\b(?:is|are) told\b"
    r"|\btold apart\b|\b(?:is|are) of\b"
    r"|\bat (?:its|the) door\b|\bby heart\b|\bin place of\b|\bother than it\b|\bfor want of\b"
    r"|(?:^|[.:] )(?:Of|Whether|The same|Do so|None:)(?= |$)",
    flags=re.MULTILINE,
)


def docs(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the prose of each page, without code."""
    for page in [*root.glob("*.md"), *sorted(root.glob("docs/**/*.md"))]:
        yield (
            page,
            re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE),
        )


def docstrings(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the docstrings of each Python module and kernel."""
    for path in sorted(root.glob("fastens/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        yield path, "\n".join(texts)
    for path in sorted(root.glob("fastens/**/*.pyx")):
        yield path, "\n".join(re.findall(r'"""(.*?)"""', path.read_text(encoding="utf-8"), flags=re.DOTALL))


def comments(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the comments of each Python module, kernel and header."""
    for path in sorted(root.glob("fastens/**/*.py")):
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        yield path, "\n".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    for ending, mark in ((".pyx", "#"), (".pxd", "#"), (".h", "//")):
        for path in sorted(root.glob(f"fastens/**/*{ending}")):
            text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            yield path, "\n".join(re.findall(rf"(?:^|\s){mark} (.*)$", text, flags=re.MULTILINE))


KINDS = {"docs": docs, "docstrings": docstrings, "comments": comments}


def flagged(root: Path, kind: str) -> list[str]:
    """Return the flagged phrases of a kind of text, each with its file."""
    return [f"{path.relative_to(root)}: {hit[0]}" for path, text in KINDS[kind](root) for hit in FLAGGED.finditer(text)]


def main() -> None:
    """Print the counts."""
    arguments = [each for each in sys.argv[1:] if each != "--list"]
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    for kind in KINDS:
        found = flagged(root, kind)
        print(f"{kind}: {len(found)}")
        if "--list" in sys.argv:
            print(*found, sep="\n")


if __name__ == "__main__":
    main()

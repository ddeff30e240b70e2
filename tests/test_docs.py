"""The Python examples of each page of docs/ run as they stand, one after another."""

from __future__ import annotations

import ast
import doctest
import re
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

import fastens

mpl.use("Agg")

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(page.read_text(encoding="utf-8"))]


def absent(code):
    """The packages that an example imports and that are not installed."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {own.name.partition(".")[0] for own in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return {name for name in names if find_spec(name) is None}


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names, left_out = page.read_text(encoding="utf-8"), {}, set()
    for example in EXAMPLE.finditer(text):
        line = text[: example.start()].count("\n") + 2
        if example[1].startswith(">>>"):
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(doctest.DocTestParser().get_doctest(example[1], names, page.name, str(page), line))
            assert runner.summarize(verbose=False).failed == 0
        elif page.stem == "ecosystem" and absent(example[1]):
            left_out |= absent(example[1])
        else:
            exec(compile("\n" * (line - 1) + example[1], page.name, "exec"), names)
    pyplot.close("all")
    if left_out:
        pytest.skip(f"the rest ran; not installed: {', '.join(sorted(left_out))}")


def test_reference_has_every_public_name():
    page = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   fastens\.(\w+)$", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(fastens.__all__)

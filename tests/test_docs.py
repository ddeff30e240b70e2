"""The Python examples of each page of docs/ run as they stand, one after another."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

mpl.use("Agg")

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(encoding="utf-8"), {}
    for example in EXAMPLE.finditer(text):
        line = text[: example.start()].count("\n") + 2
        if example[1].startswith(">>>"):
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(doctest.DocTestParser().get_doctest(example[1], names, page.name, str(page), line))
            assert runner.summarize(verbose=False).failed == 0
        else:
            exec(compile("\n" * (line - 1) + example[1], page.name, "exec"), names)
    pyplot.close("all")

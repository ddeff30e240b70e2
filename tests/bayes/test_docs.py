"""The Python examples of the pages on hypotheses and networks run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = [
    pytest.param(example, page, id=f"{page}-{index}")
    for page in ("bayes.md", "networks.md", "posterior.md")
    for index, example in enumerate(
        re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    )
]


@pytest.mark.parametrize(("example", "page"), EXAMPLES)
def test_example_runs(example, page):
    exec(compile(example, page, "exec"), {})

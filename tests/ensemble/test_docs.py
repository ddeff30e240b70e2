"""The Python examples of the page on gradient boosting run, one after another."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "boosting.md").read_text(encoding="utf-8")


def test_examples_run():
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    namespace = {}
    assert len(examples) > 8
    for number, example in enumerate(examples):
        exec(compile(example, f"boosting.md, example {number}", "exec"), namespace)

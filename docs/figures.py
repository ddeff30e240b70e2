"""Make the page of benchmarks from the files in docs/figures; as a script, write the README's table from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
IN_README = ("peers", ["workload", "unit", "fastens", "LightGBM", "XGBoost depthwise", "HistGradientBoosting"])


def table(rows: list[list[str]]) -> str:
    """Rows of cells as Markdown, the first row as its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" + "|---:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def section(record: dict[str, Any]) -> str:
    """What one command measured, and where."""
    shown = [each for each in record["tables"] if "reached" not in each[0]]  # goals are the developers' own
    return "\n\n".join([f"## {record['title']}", *map(table, shown), f"`{record['command']}`", facts(record)])


def facts(record: dict[str, Any]) -> str:
    """Where and when it was measured, as a list."""
    when = f"{record['date']}, commit {record['commit']}, {record['seconds']} s; {record['other work']}"
    return f"- {record['machine']}\n- {when}"


def records() -> dict[str, dict[str, Any]]:
    """All files by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / "figures").glob("*.json"))
    }


def readme_table() -> str:
    """The columns of one record that the README shows."""
    name, wanted = IN_README
    record = records()[name]
    head, *rows = next(table for table in record["tables"] if table[0][:2] == wanted[:2])
    chosen = [head.index(column) for column in wanted if column in head]
    shown = [[row[i] for i in chosen] for row in (head, *rows)]
    return f"{table(shown)}\n\n- `{record['command']}`\n{facts(record)}\n"


def with_table(text: str) -> str:
    """The README with its table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{readme_table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")

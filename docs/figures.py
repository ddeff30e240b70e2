"""Write the tables of docs/figures into the README and the pages: `python docs/figures.py`.

A page has the tables of docs/figures/NAME.json between `<!-- figures NAME -->` and `<!-- end of figures -->`. With
`<!-- figures NAME 2 -->` it has only the second table, and with `<!-- figures all -->` a list of all files. To add a
table to a page, write both comments and run the script.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
IN_README = ("peers", ["workload", "unit", "fastens", "LightGBM", "XGBoost depthwise", "HistGradientBoosting"])
CLOSEST = "closest library"
GOALS = {"reached", "must / aim"}  # the developers' own
PLACE = re.compile(r"<!-- figures (\w+) ?(\d*) -->\n(?:.*?)<!-- end of figures -->\n", flags=re.DOTALL)
ALL = "all"
Record = dict[str, Any]


def table(rows: list[list[str]]) -> str:
    """Rows of cells as Markdown, the first row as its head, columns of numbers to the right."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    columns = [[row[i] for row in rows[1:]] for i in range(1, len(rows[0]))]
    numeric = [any(re.match(r"[-+*]*\d", cell) for cell in each) and ", " not in "".join(each) for each in columns]
    return "\n".join([lines[0], "|---|" + "".join("---:|" if each else "---|" for each in numeric), *lines[1:]])


def shown(record: Record, number: str = "") -> str:
    """What one command printed, or one table of it, with the command, and where and when that was."""
    parts = []
    for each in record["tables"][int(number) - 1 :][:1] if number else record["tables"]:
        goals = [i for i, name in enumerate(each["rows"][0]) if name in GOALS]
        if "reached" not in each["rows"][0]:
            rows = [[cell for i, cell in enumerate(row) if i not in goals] for row in each["rows"]]
            parts += [f"**{each['heading']}**"] * bool(each["heading"]) + [table(rows), each["after"]]
    return "\n\n".join([part for part in parts if part] + [f"- `{record['command']}`\n{facts(record)}"])


def facts(record: Record) -> str:
    """Where and when it was measured, as a list."""
    how = f"{record['date']}, commit {record['commit']}, {record['seconds']} s"
    return f"- {record['machine']}\n- {how}; {record['other work']}"


def records() -> dict[str, Record]:
    """All files by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / "figures").glob("*.json"))
    }


def pages() -> dict[str, list[Path]]:
    """The pages that show each file."""
    found: dict[str, list[Path]] = {}
    for page in all_pages():
        for name, _ in PLACE.findall(page.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(page.relative_to(HERE))
    return found


def contents() -> str:
    """A table of all files."""
    where, rows = pages(), [["figures", "date", "commit", "seconds"]]
    for name, record in sorted(records().items(), key=lambda item: item[1]["title"].lower()):
        link = f"[{record['title']}]({where[name][-1].as_posix()})"
        rows.append([link, record["date"], record["commit"], f"{record['seconds']:,}"])
    return table(rows)


def filled_in(text: str) -> str:
    """Return a page with the tables that docs/figures has now."""
    found = records()

    def block(place: re.Match[str]) -> str:
        name, number = place[1], place[2]
        tables = contents() if name == ALL else shown(found[name], number)
        return f"{place[0].splitlines()[0]}\n\n{tables}\n\n<!-- end of figures -->\n"

    return PLACE.sub(block, text)


def readme_table() -> str:
    """Return the columns of one record that the README shows, and the library closest to fastens in each row."""
    name, wanted = IN_README
    record = records()[name]
    head, *rows = next(each["rows"] for each in record["tables"] if each["rows"][0][:2] == wanted[:2])
    chosen = [head.index(column) for column in wanted if column in head]
    shown = [[*wanted[:3], CLOSEST, *wanted[3:]]]
    for row in rows:
        if not row[1]:
            continue  # a ratio of two times of the same library
        cells = [row[i] for i in chosen]
        shown.append([*cells[:3], closest(head, row), *cells[3:]])
    return f"{table(shown)}\n\n- `{record['command']}`\n{facts(record)}\n"


def closest(head: list[str], row: list[str]) -> str:
    """Return the peer whose ratio to fastens is lowest, or "" if the row has no peers."""
    others = [(re.search(r"\(([\d.]+)x\)", cell), name, cell) for name, cell in zip(head, row, strict=True)]
    found = [(float(ratio[1]), f"{name} {cell}") for ratio, name, cell in others if ratio and name[:7] != "fastens"]
    return min(found, default=(0.0, ""))[1]


def with_table(text: str) -> str:
    """The README with its table as it should be."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{readme_table()}\n{END}{rest.partition(END)[2]}"


def all_pages() -> list[Path]:
    """Return the pages that may show figures."""
    return sorted(HERE.glob("*.md")) + sorted(HERE.glob("measured/*.md"))


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    for path in all_pages():
        path.write_text(filled_in(path.read_text(encoding="utf-8")), encoding="utf-8")

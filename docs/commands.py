"""Run the commands of pages in a folder of tables; as a script, write their output to the pages.

A block that begins with `$ fastens` holds a command and its output; lines of "..." stand for omitted lines. In a block
of bash, each line is a command. Tables of the pages come from FASTENS_DATA or are generated.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd

from fastens.cli import main

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("FASTENS_DATA", HERE.parents[1] / "shared" / "data"))
BLOCK = re.compile(
    r"^```(?:console\n\$ (?P<console>fastens [^\n]*)\n(?P<printed>.*?)|bash\n(?P<bash>fastens .*?))^```", re.S | re.M
)
TIMES = re.compile(r"[\d.,]+ (?:[mµ]?s|KiB)(?= |$)|[\d,]+ bytes", re.M)


def needed(text: str) -> set[str]:
    """Return the tables of FASTENS_DATA that the commands of a page read."""
    commands = " ".join(block["console"] or block["bash"] for block in BLOCK.finditer(text))
    return {name for name in re.findall(r"(?<= )(\w+\.parquet)", commands) if (DATA / name).exists()}


def prepare(text: str, folder: Path) -> None:
    """Write the tables that a page uses to a folder."""
    if "flats.csv" in text:
        with chdir(folder):
            exec(re.search(r"^```python\n(.*?)^```", text, re.S | re.M)[1], {})
    for name in needed(text):
        shutil.copy(DATA / name, folder)
    if "credit_g.parquet" in needed(text):
        pd.read_parquet(DATA / "credit_g.parquet").tail(50).to_csv(folder / "new_rows.csv", index=False)
    rng = np.random.default_rng(0)
    houses = pd.DataFrame({"area": rng.uniform(30, 200, 400).round(), "town": rng.choice(["Bern", "Köln"], 400)})
    houses["price"] = (3000 * houses["area"] + rng.normal(0, 20_000, 400)).round()
    houses.to_csv(folder / "houses.csv", index=False)
    houses.tail(50).to_csv(folder / "sold_houses.csv", index=False)
    houses.head(50).drop(columns="price").to_parquet(folder / "new_houses.parquet")
    for part, rows in (("sales", houses), ("new", houses.drop(columns="price"))):
        (folder / part).mkdir()
        for month in range(2):
            rows.iloc[200 * month : 200 * (month + 1)].to_parquet(folder / part / f"{month + 1}.parquet")


def run(command: str, folder: Path, *, with_warnings: bool = False) -> str:
    """Return what a command prints to standard output, optionally with its warnings; raise an error if it fails."""
    with chdir(folder), redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as told:
        code = main(shlex.split(command)[1:])
    if code:
        raise RuntimeError(f"{command}: {told.getvalue()}")
    text = told.getvalue() * with_warnings + printed.getvalue()
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def told_again(text: str) -> str:
    """Return a page with the current output of its commands; raise an error if an excerpt has changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(text, folder)

        def again(block: re.Match[str]) -> str:
            if block["bash"]:
                for command in block["bash"].splitlines():
                    run(command, folder)
                return block[0]
            parts = re.split(r"^\.\.\.$", block["printed"], flags=re.M)
            printed = run(block["console"], folder, with_warnings=len(parts) > 1)
            if len(parts) > 1:
                changed = [part for part in parts if words(part) not in words(printed)]
                if changed and not block["console"].startswith("fastens tune"):  # a search depends on the machine
                    raise RuntimeError(f"{block['console']} no longer prints: {changed[0]}")
                return block[0]
            return f"```console\n$ {block['console']}\n{printed}```"

        return BLOCK.sub(again, text)


def words(text: str) -> str:
    """Return a text without times and line breaks, which depend on the width of the terminal."""
    return " ".join(without_times(text).split())


def without_times(text: str) -> str:
    """Return what must be the same on all machines: words and losses, but no times and sizes."""
    return re.sub(r"[ ━╸]+", " ", TIMES.sub("", text))


if __name__ == "__main__":
    for page in (HERE / "cli.md",):
        page.write_text(told_again(page.read_text(encoding="utf-8")), encoding="utf-8")

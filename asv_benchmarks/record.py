"""Run a comparison and keep what it prints, with machine, date, commit and command, for the site's page of benchmarks.

python asv_benchmarks/record.py peers "Gradient boosting beside its peers" compare_peers.py --repeats 3
python asv_benchmarks/record.py survival "Survival beside XGBoost" compare_survival.py --seeds 10 --threads 1

The first word names the file, docs/figures/NAME.json. Markdown tables on standard output are kept; what else the script
prints is shown and left out. `docs/figures.py` makes the page, and the README's table, from the files.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from comparison.report import machine

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent / "docs" / "figures"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the file in docs/figures")
    parser.add_argument("title", help="of the section")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the script and its arguments")
    args = parser.parse_args()
    if not args.command or not (HERE / args.command[0]).is_file():
        parser.error("the command begins with a script of this folder, such as compare_peers.py")
    return args


def commit() -> str:
    """The commit that was measured, with "+" where files of the package were changed since."""
    git = ["git", "-C", str(HERE.parent)]
    found = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "fastens"], check=False).returncode
    return found.strip() + "+" * bool(changed)


def processor() -> str:
    """The name of the processor, where the system tells."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def tables(printed: str) -> list[list[list[str]]]:
    """The Markdown tables of a text: rows of cells, the first row the head."""
    found: list[list[list[str]]] = [[]]
    for line in printed.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not all(set(cell) <= set("-: ") and "-" in cell for cell in cells):
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [each for each in found if len(each) > 1]


def main() -> None:
    args = arguments()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    started = datetime.now(UTC)
    command = [sys.executable, HERE / args.command[0], *args.command[1:]]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout)
    found = tables(ran.stdout)
    if ran.returncode or not found:
        sys.exit(ran.returncode or f"{args.command[0]} printed no table")
    record = {
        "title": args.title,
        "command": shlex.join(["python", f"asv_benchmarks/{args.command[0]}", *args.command[1:]]),
        "date": started.date().isoformat(),
        "seconds": round((datetime.now(UTC) - started).total_seconds()),
        "commit": commit(),
        "machine": f"{processor()}; {machine()}".removeprefix("; "),
        "other work": f"{busy:.1f} processes ran on the machine as it began",
        "tables": found,
    }
    FIGURES.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (FIGURES / f"{args.name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Run comparisons and keep what they print, with machine, date, commit and command, as the figures of the site.

python asv_benchmarks/record.py peers survival          again, by the commands in docs/figures/peers.json and the other
python asv_benchmarks/record.py --timed                 again, all figures that other work on the machine would spoil
python asv_benchmarks/record.py --all                   again, all figures: some hours
python asv_benchmarks/record.py --list                  which there are, and how many seconds each took
python asv_benchmarks/record.py --new survival "Survival" --timed asv_benchmarks/compare_survival.py --seeds 10

A file has one command and the Markdown tables that it printed, each with the heading before it and the paragraph after
it. `docs/figures.py` writes its tables into the pages, where they say `<!-- figures survival -->`, and into the README.

`compare_quality.py` and `choose_defaults.py` keep their runs in `results/` and do not repeat them. After a change of
the models remove `results/defaults.jsonl` and, in `results/`, the lines of fastens:
`sed -i -E '/"library": "(fastens|best)/d' quality.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from comparison.report import machine

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
Record = dict[str, Any]


def arguments() -> argparse.Namespace:
    known = sorted(path.stem for path in FIGURES.glob("*.json"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of docs/figures to measure again")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--timed", action="store_true", help="those with times; with --new: its figures are such")
    parser.add_argument("--list", action="store_true", help="tell what there is, and run nothing")
    parser.add_argument("--new", nargs=2, metavar=("NAME", "TITLE"), help="a new file: the script and its words follow")
    words = sys.argv[1:]
    script = next((i for i, word in enumerate(words) if word.endswith(".py")), len(words))
    args = parser.parse_args(words[:script])
    args.command = words[script:]
    if bool(args.new) != bool(args.command) or (args.command and not (ROOT / args.command[0]).is_file()):
        parser.error("--new NAME TITLE is followed by a script, such as asv_benchmarks/compare_peers.py")
    if unknown := sorted(set(args.names) - set(known)):
        parser.error(f"not in docs/figures: {', '.join(unknown)}")
    if not args.names and not args.new:
        args.names = [name for name in known if not args.timed or read(name)["timed"]]
        if not (args.all or args.timed or args.list):
            parser.error("which figures? Names, --timed or --all")
    return args


def read(name: str) -> Record:
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


def commit() -> str:
    """The commit that is measured, with "+" where files of the package were changed since."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "fastens"], check=False).returncode
    return found.strip() + "+" * bool(changed)


def processor() -> str:
    """The name of the processor, where the system tells."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(printed: str) -> list[Record]:
    """The Markdown tables of a text: rows of cells, the first row the head, with what is said before and after."""
    found: list[Record] = []
    heading, after = "", False
    for part in re.split(r"\n\s*\n", printed.strip("\n")):
        lines = part.strip("\n").split("\n")
        rows = [cells(line) for line in lines if line.startswith("|")]
        rows = [row for row in rows if not all(set(cell) <= set("-: ") and "-" in cell for cell in row)]
        if len(rows) > 1:
            found.append({"heading": heading, "rows": rows, "after": ""})
        elif lines[0].startswith("#"):
            heading = lines[0].lstrip("# ")
        elif after:
            found[-1]["after"] = " ".join(lines)
        after = len(rows) > 1
        heading = heading if lines[0].startswith("#") else ""
    return found


def measured(title: str, command: list[str], timed: bool) -> Record:
    """Run the script, and return what it printed and where it did."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    started, build = datetime.now(UTC), commit()
    ran = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    print(ran.stdout)
    found = tables(ran.stdout)
    if ran.returncode or not found:
        sys.exit(ran.returncode or f"{command[0]} printed no table")
    return {
        "title": title,
        "command": shlex.join(["python", *command]),
        "timed": timed,
        "date": started.date().isoformat(),
        "seconds": round((datetime.now(UTC) - started).total_seconds()),
        "commit": build,
        "machine": f"{processor()}; {machine()}".removeprefix("; ").removesuffix("."),
        "other work": f"load average {busy:.1f} at the start",
        "tables": found,
    }


def write(name: str, record: Record) -> None:
    """A line for each row, so that changes can be read."""
    FIGURES.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    in_lines = re.sub(
        r'\[\n\s*("[^\n]*"(?:,\n\s*"[^\n]*")*)\n\s*\]', lambda row: "[" + re.sub(r"\n\s*", " ", row[1]) + "]", text
    )
    (FIGURES / f"{name}.json").write_text(in_lines + "\n", encoding="utf-8")


def main() -> None:
    args = arguments()
    if args.list:
        for name in args.names:
            record = read(name)
            timed = "timed" if record["timed"] else ""
            print(f"{record['seconds'] or '?':>6} s  {timed:5}  {name}  {record['command']}")
    elif args.new:
        write(args.new[0], measured(args.new[1], args.command, args.timed))
    else:
        for name in args.names:
            record = read(name)
            if "removed" in record:
                print(f"{name} stays as it is: its command no longer exists", file=sys.stderr)
                continue
            write(name, measured(record["title"], shlex.split(record["command"])[1:], record["timed"]))


if __name__ == "__main__":
    main()

"""Per cent of the lines that tests reached, by file and in total; for tools/coverage.sh, in the folder it ran in."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import coverage

LEAST = 95.0


def python_lines() -> dict[str, dict[int, bool]]:
    """Of each file, which of its lines ran."""
    measured = coverage.Coverage()
    measured.load()
    found = {}
    for path in sorted(Path("fastens").rglob("*.py")):
        _, lines, _, missing, _ = measured.analysis2(str(path.resolve()))
        found[path.as_posix()] = {line: line not in missing for line in lines}
    return found


def places_in_kernel(generated: Path) -> dict[int, tuple[str, int]]:
    """The place in a kernel that each line of its C comes from, as its comments tell; none of code that Cython adds."""
    places: dict[int, tuple[str, int]] = {}
    place, is_of_kernel = None, False
    for number, line in enumerate(generated.read_text(encoding="utf-8").splitlines(), start=1):
        if section := re.match(r"/\* #### Code section: (\w+)", line):
            place, is_of_kernel = None, section[1] in {"module_code", "init_module"}
        elif comment := re.match(r' */\* "(fastens/.+)":(\d+)$', line):
            place = comment[1], int(comment[2])
        elif line.endswith("/* function exit code */"):
            place = None
        elif place and is_of_kernel:
            places[number] = place
    return places


def kernel_lines() -> dict[str, dict[int, bool]]:
    """The same of kernels and headers; a line runs if it does in any module that it is compiled into."""
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for notes in sorted(Path("build").rglob("*.gcno")):
        printed = subprocess.run(["gcov", "--json-format", "--stdout", notes], capture_output=True, check=True).stdout
        for file in json.loads(printed)["files"]:
            path = Path(file["file"])
            if path.parts[0] != "fastens":
                continue
            places = places_in_kernel(path) if path.suffix == ".c" else None
            for line in file["lines"]:
                number = line["line_number"]
                place = (path.as_posix(), number) if places is None else places.get(number)
                if place is not None:
                    lines = found[place[0]]
                    lines[place[1]] = lines.get(place[1], False) or line["count"] > 0
    return dict(sorted(found.items()))


def ranges(numbers: list[int]) -> str:
    """Line numbers as 3, 7-9."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    ends = [(run[0][1], run[-1][1]) for run in runs]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def per_cent(reached: int, lines: int) -> float:
    """Of no lines, all are reached."""
    return 100.0 * reached / lines if lines else 100.0


def print_files(kind: str, files: dict[str, dict[int, bool]]) -> tuple[int, int]:
    """A line for each file that is not reached in full, and the sum."""
    n_reached = n_lines = 0
    for path, lines in files.items():
        missing = sorted(number for number, is_reached in lines.items() if not is_reached)
        n_reached, n_lines = n_reached + len(lines) - len(missing), n_lines + len(lines)
        if missing:
            print(f"{per_cent(len(lines) - len(missing), len(lines)):5.1f} %  {path}: {ranges(missing)}")
    print(f"{per_cent(n_reached, n_lines):5.1f} %  {kind}: {n_reached} of {n_lines} lines\n")
    return n_reached, n_lines


def main() -> None:
    """Print both kinds, and fail where they are short."""
    of_python = print_files("Python", python_lines())
    of_kernels = print_files("kernels", kernel_lines())
    total = per_cent(of_python[0] + of_kernels[0], of_python[1] + of_kernels[1])
    print(f"{total:5.1f} %  in total")
    if min(per_cent(*of_python), per_cent(*of_kernels)) < LEAST:
        raise SystemExit(f"under {LEAST} %")


if __name__ == "__main__":
    main()

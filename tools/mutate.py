"""Do the tests notice when a kernel is wrong? Change one line of it at a time, build it, and run the tests.

    python tools/mutate.py fastens/engine/grow/stump.pyx tests/engine/grow/test_stump.py [--mutants N]

A mutant is the kernel with one comparison, operator, constant or statement changed. Those that the tests pass are
printed: either no test sees that line, or the change makes no difference (`docs/measured/mutants.md` says which).
Works in a copy of the checkout, which must be built in place.
"""

from __future__ import annotations

import argparse
import io
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MOST_BYTES = 8 << 30  # of a mutant that asks for all memory
# What is changed, and into what. The kernels have spaces around operators, and none in casts and types of pointers.
CHANGES = [
    (re.compile(pattern), change)
    for pattern, change in [
        (r"(?<= )<=(?= )", "<"),
        (r"(?<= )<(?= )", "<="),
        (r"(?<= )>=(?= )", ">"),
        (r"(?<= )>(?= )", ">="),
        (r"(?<= )==(?= )", "!="),
        (r"(?<= )!=(?= )", "=="),
        (r"(?<= )\+(?= )", "-"),
        (r"(?<= )-(?= )", "+"),
        (r"(?<= )\*(?= )", "+"),
        (r"(?<= )//?(?= )", "*"),
        (r"(?<= )\+=(?= )", "-="),
        (r"(?<= )-=(?= )", "+="),
        (r"\band\b", "or"),
        (r"\bor\b", "and"),
        (r"\bnot ", ""),
        (r"\bmin(?=\()", "max"),
        (r"\bmax(?=\()", "min"),
        (r"\bTrue\b", "False"),
        (r"\bFalse\b", "True"),
        (r"\bcontinue\b", "break"),
        (r"(?<![\w.:])\d+(?![\w.])", lambda found: str(int(found[0]) + 1)),
        (r"(?<![\w.:])\d+\.\d+(?!\w)", lambda found: str(float(found[0]) + 1)),
        # A statement of one line is left out: an assignment in place, or a call.
        (r"(?<=^ {4})\s*[\w.\[\]]+ [-+|&]= .*[^(\[{,]$", lambda found: re.sub(r"\S.*", "pass", found[0])),
        (r"(?<=^ {4})\s*[\w.]+\(.*\)$", lambda found: re.sub(r"\S.*", "pass", found[0])),
    ]
]
DECLARATION = re.compile(r"\s*(cdef|cpdef|def|class|import|from|cimport|ctypedef|@)\b")


@dataclass(frozen=True)
class Mutant:
    """A line of the kernel, counted from 1, and what stands there instead."""

    line: int
    text: str


def code_of(source: str) -> list[str]:
    """The lines, with spaces in place of comments, strings and declarations without a value."""
    lines = [list(line) for line in source.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING}:
            (first, begin), (last, end) = token.start, token.end
            for number in range(first, last + 1):
                line = lines[number - 1]
                span = slice(begin if number == first else 0, end if number == last else len(line))
                line[span] = " " * len(line[span])
    return without_declarations(["".join(line) for line in lines])


def without_declarations(lines: list[str]) -> list[str]:
    """Leave of a declaration what follows its `=`, and nothing of one that goes over several lines or of an enum."""
    is_open, indent = False, -1
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if is_open or 0 <= indent < depth:
            lines[number], is_open = "", is_open and not line.rstrip().endswith((":", ")"))
            continue
        indent = depth if re.match(r"\s*cdef (enum|struct|extern)\b", line) else -1
        if DECLARATION.match(line):
            before, equals, value = line.partition(" = ")
            is_value = bool(equals) and not line.rstrip().endswith((":", ","))
            lines[number] = " " * len(before + equals) + value if is_value else ""
            is_open = line.rstrip().endswith(("(", ","))
    return lines


def mutants_of(source: str) -> list[Mutant]:
    """Every change of every line."""
    mutants = []
    for number, (line, code) in enumerate(zip(source.splitlines(), code_of(source), strict=True), start=1):
        for pattern, change in CHANGES:
            for found in pattern.finditer(code.rstrip()):
                text = found.expand(change) if isinstance(change, str) else change(found)
                mutants.append(Mutant(number, line[: found.start()] + text + line[found.end() :]))
    return mutants


def outcome(copy: Path, tests: list[str], seconds: float) -> str:
    """Build the kernel that lies in the copy, and test it."""
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    if subprocess.run(build, cwd=copy, capture_output=True, check=False).returncode:
        return "not compiled"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        printed, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "no end"
    if process.returncode < 0:
        return "crashed"
    if process.returncode not in {0, 1}:
        raise RuntimeError(printed)
    return "failed" if process.returncode else "survived"


def copy_of_checkout(folder: str) -> Path:
    """The checkout with its build, whose times of files are kept, so that only the kernel is built again."""
    copy = Path(folder, "checkout")
    names = [".git", ".hypothesis", ".venv", "docs", "asv_benchmarks", "__pycache__"]
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(*names))
    return copy


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", type=Path, help="a .pyx file")
    parser.add_argument("tests", nargs="+", help="test files, as pytest takes them")
    parser.add_argument("--mutants", type=int, default=40, help="how many are drawn")
    parser.add_argument("--lines", type=int, nargs=2, default=(1, 10**6), help="the first and last line to change")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Try the mutants; print those that survive, and how many met which end."""
    options = arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    kernel = options.kernel.resolve().relative_to(CHECKOUT)
    source = (CHECKOUT / kernel).read_text()
    first, last = options.lines
    mutants = [mutant for mutant in mutants_of(source) if first <= mutant.line <= last]
    drawn = random.Random(options.seed).sample(mutants, min(options.mutants, len(mutants)))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_checkout(folder)
        start = time.monotonic()
        if outcome(copy, options.tests, float("inf")) != "survived":
            raise SystemExit("the tests fail on the kernel as it is")
        seconds = 60 + 5 * (time.monotonic() - start)
        lines = source.splitlines(keepends=True)
        for mutant in sorted(drawn, key=lambda mutant: mutant.line):
            changed = [*lines[: mutant.line - 1], mutant.text + "\n", *lines[mutant.line :]]
            (copy / kernel).write_text("".join(changed))
            result = outcome(copy, options.tests, seconds)
            counts[result] += 1
            if result == "survived":
                print(f"{kernel}:{mutant.line}\n-{lines[mutant.line - 1]}+{mutant.text}", flush=True)
    print(f"{kernel}: {len(mutants)} mutants, of which {len(drawn)} tried:", dict(counts))


if __name__ == "__main__":
    main()

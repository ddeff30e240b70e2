"""Do the tests notice when a kernel is wrong? Change it in one place at a time, and run the tests.

    python tools/mutate.py fastens/engine/grow/stump.pyx tests/engine/grow/test_stump.py [--mutants N]

A mutant is the kernel with one comparison, operator, constant or statement changed. Those that the tests pass are
printed: either no test sees that place, or the change makes no difference.
The kernel is compiled once, with all mutants beside each other: a number chooses which of them runs, each in a process
of its own. Linux, in a copy of the checkout, which must be built in place.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, settings

CHECKOUT = Path(__file__).resolve().parent.parent
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--hypothesis-profile", "mutants"]
ENDS = {0: "survived", 1: "failed", -signal.SIGXCPU: "no end", -signal.SIGKILL: "no end"}
MAX_WAITING = 30  # times its time on the processor, on a busy machine
MAX_SECONDS = 3600  # of the tests on the kernel as it is
MAX_BYTES = 8 << 30  # of a mutant that asks for all memory
CHOSEN = "_chosen_mutant"
CHOOSE = f"""

cdef int {CHOSEN} = 0


def choose_mutant(int number):
    global {CHOSEN}
    {CHOSEN} = number
"""
# Statements that cannot be mutants, and blocks of which none can.
LEFT_OUT = re.compile(r'(class|def|import|from|cimport|ctypedef|else|try|finally|except|with|pass|@|")')
BLOCK = re.compile(r"cdef (enum|struct|extern)\b")
# A part that has an expression of its own: a condition, the ends of a loop, the value of a new variable.
EXPRESSIONS = re.compile(
    r"(?:(?:if|elif|while) (?P<condition>.*):|for .* in range\((?P<ends>.*)\):|cdef (?P<new>.* = .*))$"
)
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
        (r"^[\w.\[\]]+ [-+|&]= .*$", "pass"),
        (r"^[\w.]+\(.*\)$", "pass"),
    ]
]


@dataclass(frozen=True)
class Statement:
    """A statement in one line, without comments, and the lines that it has in the source, counted from 1."""

    first: int
    last: int
    indent: str
    text: str


@dataclass(frozen=True)
class Mutant:
    """A change of a statement: from one place to another there is something else."""

    statement: Statement
    begin: int
    end: int
    instead: str

    def text(self, part: slice = slice(None)) -> str:
        """The statement with the change, or the part of it that lies between two places."""
        begin, end, _ = part.indices(len(self.statement.text))
        whole = self.statement.text
        return whole[begin : self.begin] + self.instead + whole[self.end : end]


def statements_of(source: str) -> Iterator[Statement]:
    """Those of functions."""
    lines, tokens, block = source.splitlines(), [], -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            first, last = tokens[0].start[0], tokens[-1].end[0]
            texts = [lines[number - 1] for number in range(first, last + 1)]
            for comment in (each for each in tokens if each.type == tokenize.COMMENT):
                texts[comment.start[0] - first] = lines[comment.start[0] - 1][: comment.start[1]]
            indent = tokens[0].start[1]
            text = " ".join(part.strip() for part in texts)
            if not 0 <= block < indent:
                block = indent if BLOCK.match(text) else -1
                if indent:
                    yield Statement(first, last, " " * indent, text)
            tokens = []
        elif tokens or token.type not in {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT}:
            tokens.append(token)


def top_level_parts(text: str, begin: int, end: int) -> Iterator[slice]:
    """What lies between the commas that are in no brackets."""
    depth = 0
    for place in range(begin, end):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0 and text[place] == ",":
            yield slice(begin, place)
            begin = place + 1
    yield slice(begin, end)


def expressions_of(text: str) -> list[slice] | None:
    """The parts that are chosen one by one; None: the whole statement is."""
    found = EXPRESSIONS.match(text)
    if found is None:
        return [] if text.startswith("cdef ") or text.endswith(":") or LEFT_OUT.match(text) else None
    if found["condition"] is not None:
        return [slice(*found.span("condition"))]
    if found["ends"] is not None:
        return list(top_level_parts(text, *found.span("ends")))
    parts = top_level_parts(text, *found.span("new"))
    return [slice(text.index(" = ", part.start) + 3, part.stop) for part in parts if " = " in text[part]]


def mutants_of(source: str) -> list[Mutant]:
    """Every change of every statement."""
    mutants = []
    for statement in statements_of(source):
        code = re.sub(r'"[^"]*"', lambda string: " " * len(string[0]), statement.text)
        parts = expressions_of(code)
        for pattern, change in CHANGES:
            for found in pattern.finditer(code):
                if parts is None or any(part.start <= found.start() and found.end() <= part.stop for part in parts):
                    instead = change if isinstance(change, str) else change(found)
                    mutants.append(Mutant(statement, *found.span(), instead))
    return mutants


def chosen(statement: Statement, mutants: list[tuple[int, Mutant]]) -> list[str]:
    """The lines of a statement with its mutants, one of which runs where its number is chosen."""
    parts = expressions_of(re.sub(r'"[^"]*"', lambda string: " " * len(string[0]), statement.text))
    if parts is None:
        lines = []
        for number, mutant in mutants:
            lines += [f"{'el' if lines else ''}if {CHOSEN} == {number}:", f"    {mutant.text()}"]
        return [statement.indent + line for line in [*lines, "else:", f"    {statement.text}"]]
    text = statement.text
    for part in reversed(parts):
        value = statement.text[part].strip()
        for number, mutant in mutants:
            if part.start <= mutant.begin and mutant.end <= part.stop:
                value = f"(({mutant.text(part).strip()}) if {CHOSEN} == {number} else ({value}))"
        text = f"{text[: part.start]}{value}{text[part.stop :]}"
    return [statement.indent + text]


def with_mutants(source: str, mutants: dict[int, Mutant]) -> tuple[str, dict[int, Statement]]:
    """The kernel with all of them, and the statement that each of its lines belongs to."""
    by_statement = defaultdict(list)
    for number, mutant in mutants.items():
        by_statement[mutant.statement].append((number, mutant))
    lines, written, owners = source.splitlines(), [], {}
    after = 0
    for statement in sorted(by_statement, key=lambda each: each.first):
        written += lines[after : statement.first - 1]
        new = chosen(statement, by_statement[statement])
        owners |= {len(written) + 1 + place: statement for place in range(len(new))}
        written, after = written + new, statement.last
    return "\n".join(written + lines[after:]) + CHOOSE, owners


def build(copy: Path, kernel: Path, mutants: dict[int, Mutant]) -> dict[int, Mutant]:
    """Compile the kernel with its mutants, without those that Cython refuses; return the others."""
    source = (CHECKOUT / kernel).read_text()
    while True:
        text, owners = with_mutants(source, mutants)
        (copy / kernel).write_text(text)
        command = [sys.executable, "setup.py", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return mutants
        wrong = {owners.get(int(line)) for line in re.findall(rf"{kernel.name}:(\d+):\d+", done.stderr + done.stdout)}
        left = {number: mutant for number, mutant in mutants.items() if mutant.statement not in wrong}
        if len(left) == len(mutants):
            raise SystemExit(done.stdout + done.stderr)
        mutants = left


def start(tests: list[str], choose: Callable[[int], None], number: int, seconds: int) -> int:
    """Run the tests on a mutant in a process of its own, which ends after so many seconds of its processor."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        choose(number)
        os._exit(pytest.main([*OPTIONS, *tests]))
    return child


def prepare(tests: list[str]) -> None:
    """Import what the tests do, once for all mutants; a wrong example counts as it is, however large."""
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", deadline=None, derandomize=True, phases=phases)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*OPTIONS, "--collect-only", *tests])


def outcomes(
    numbers: list[int], tests: list[str], choose: Callable[[int], None], seconds: int, n_jobs: int
) -> Iterator[tuple[int, str]]:
    """What the tests say of each mutant, some of them at a time."""
    waiting, running = list(numbers), {}
    while waiting or running:
        while waiting and len(running) < n_jobs:
            number = waiting.pop(0)
            running[start(tests, choose, number, seconds)] = number, time.monotonic() + MAX_WAITING * seconds
        time.sleep(0.05)
        for child, (number, end) in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                yield number, ENDS.get(os.waitstatus_to_exitcode(status), "crashed")
            elif time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                yield number, "no end"
            else:
                continue
            del running[child]


def copy_of_checkout(folder: str) -> Path:
    """The checkout with its build, whose files are newer than all sources, so that only the kernel is built again."""
    copy = Path(folder, "checkout")
    names = [".git", ".hypothesis", ".venv", "docs", "asv_benchmarks", "__pycache__"]
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(*names))
    for built in ("*.c", "*.o", "*.so"):
        for path in copy.rglob(built):
            path.touch()
    return copy


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", type=Path, help="a .pyx file")
    parser.add_argument("tests", nargs="+", help="test files, as pytest takes them")
    parser.add_argument("--mutants", type=int, default=10**6, help="how many are drawn; all by default")
    parser.add_argument("--lines", type=int, nargs=2, default=(1, 10**6), help="the first and last line to change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many are tested at a time")
    return parser.parse_args()


def main() -> None:
    """Try the mutants; print those that survive, and how many met which end."""
    options = arguments()
    kernel = options.kernel.resolve().relative_to(CHECKOUT)
    first, last = options.lines
    found = [each for each in mutants_of((CHECKOUT / kernel).read_text()) if first <= each.statement.first <= last]
    drawn = random.Random(options.seed).sample(found, min(options.mutants, len(found)))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_checkout(folder)
        mutants = build(copy, kernel, dict(enumerate(drawn, start=1)))
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        choose = importlib.import_module(".".join(kernel.with_suffix("").parts)).choose_mutant
        prepare(options.tests)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if list(outcomes([0], options.tests, choose, MAX_SECONDS, 1)) != [(0, "survived")]:
            raise SystemExit("the tests fail on the kernel as it is")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = 10 + 3 * round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        for number, result in outcomes(list(mutants), options.tests, choose, seconds, options.jobs):
            counts[result] += 1
            if result == "survived":
                statement = mutants[number].statement
                print(f"{kernel}:{statement.first}\n- {statement.text}\n+ {mutants[number].text()}", flush=True)
    print(f"{kernel}: {len(found)} mutants, of which {len(mutants)} tried:", dict(counts))


if __name__ == "__main__":
    main()

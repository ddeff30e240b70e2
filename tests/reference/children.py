"""Code in processes of its own, each forked from one that has imported the package and done nothing else.

A new Python would take a second to import what a model or a command needs, a child takes some milliseconds.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from typing import TextIO

import fastens

LONG = 300.0
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has none, nor children
COMMAND = "import sys; from fastens.cli import main; sys.exit(main(sys.argv[1:]))"
# A child leaves the loop, runs its code and ends as any Python does. Only the parent sends the signal, as it alone
# knows that the child is still there.
PARENT = """
import gc, json, os, sys, time
import fastens
for name in fastens.__all__:
    getattr(fastens, name)
try:
    import pandas, sklearn.model_selection
    from fastens.cli import main
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    main(["--help"])
except (ImportError, SystemExit):
    pass
gc.freeze()
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    end, done = time.monotonic() + asked["after"], (0, 0)
    while done[0] == 0 and time.monotonic() < end:
        time.sleep(0.001)
        done = os.waitpid(child, os.WNOHANG)
    if done[0] == 0:
        os.kill(child, asked["number"])
        done = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(done[1]), file=answers, flush=True)
else:
    sys.exit()
answers.close()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number, name in ((1, "out"), (2, "err")):
    os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT), number)
os.chdir(asked["folder"])
sys.argv = ["-c", *asked["arguments"]]
exec(compile(asked["code"], "<code>", "exec"), {"__name__": "__main__"})
"""


@functools.cache
def parent() -> tuple[subprocess.Popen[str], TextIO]:
    """The process that has imported everything, and where its answers come; it ends with this one."""
    read, write = os.pipe()
    environment = os.environ | {"PYTHONPATH": str(Path(fastens.__file__).parents[1]), "MALLOC_ARENA_MAX": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, str(write)], env=environment, stdin=PIPE, text=True, pass_fds=[write]
    )
    os.close(write)
    return process, os.fdopen(read)


def run_child(
    code: str, *arguments: object, folder: Path, after: float = LONG, number: int = KILL
) -> CompletedProcess[str]:
    """How a child ended and what it printed; after so many seconds it gets a signal."""
    process, answers = parent()
    with tempfile.TemporaryDirectory() as own:
        out, err = Path(own, "out"), Path(own, "err")
        asked = {"code": code, "arguments": [*map(str, arguments)], "folder": str(folder), "after": after}
        asked |= {"number": number, "out": str(out), "err": str(err)}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        ended = int(answers.readline())
        printed = [path.read_text(encoding="utf-8") if path.exists() else "" for path in (out, err)]
    return CompletedProcess(arguments, ended, *printed)

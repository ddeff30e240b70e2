"""Inputs of the kinds in tests/properties/inputs.py until one crashes, hangs, or is answered wrongly: files and fits.

By default, as many inputs as a machine with two cores tries in a minute, so that the inputs are the same anywhere.
--share S takes that share of them, and --seconds N as many as fit into N seconds.

    python tools/fuzz.py NAME [--share S | --seconds N] [--chance N] [--folder FOLDER]
    python tools/fuzz.py --names
    python tools/fuzz.py NAME --seeds N

Atheris chooses the inputs, by the lines of fastens that they reach, if it is installed; the folder then keeps those
that reached something new, for the next run, and the input that failed. Otherwise chance alters seeds and makes others.
--seeds tries N inputs by chance, and prints those that reach lines that no seed does, as lines of seeds.txt there.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

# Other libraries' threads take longer to find each other than to do an input's work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

MAX_BYTES = 64
# Inputs between two looks at the clock; each waits for its process.
AT_A_TIME = 20


def any_input(known: list[bytes], chance: random.Random) -> bytes:
    """Bytes by chance, or a seed with some of them."""
    if chance.random() < 0.5:
        return chance.randbytes(chance.randrange(MAX_BYTES))
    altered = bytearray(chance.choice(known))
    for _ in range(chance.randrange(1, 5)):
        altered[chance.randrange(len(altered))] = chance.randrange(256)
    return bytes(altered)


def by_chance(name: str, seconds: float | None, share: float, start_of_chance: int) -> int:
    """Try inputs in a process of its own, a share of a minute's or for a time; return 1 if one failed."""
    from properties.inputs import IN_A_MINUTE, check_all, seeds
    from properties.worker import Worker

    worker, known, chance = Worker(), seeds(name), random.Random(f"{name} {start_of_chance}")
    start, n_inputs = time.monotonic(), 0
    inputs = known
    while n_inputs < share * IN_A_MINUTE[name] if seconds is None else time.monotonic() - start < seconds:
        try:
            worker.call(check_all, (name, inputs))
        except AssertionError as error:
            print(f"{name}: {error}\namong {inputs}")
            return 1
        n_inputs += len(inputs)
        inputs = [any_input(known, chance) for _ in range(AT_A_TIME)]
    worker.stop()
    print(f"{name}: {n_inputs} inputs in {time.monotonic() - start:.0f} s, none wrong")
    return 0


def by_coverage(name: str, seconds: float, folder: Path) -> None:
    """Inputs that Atheris makes; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["fastens"]):
        import fastens

        for public in fastens.__all__:
            getattr(fastens, public)
    from properties.inputs import check, seeds
    from properties.worker import limit_memory

    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for place, data in enumerate(seeds(name)):
        (corpus / f"seed{place}").write_bytes(data)
    faulthandler.enable()
    limit_memory()  # an input that asks for more is told with its traceback
    options = [f"-max_total_time={seconds:.0f}", f"-max_len={MAX_BYTES}", "-timeout=60", "-rss_limit_mb=0"]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={folder}/", "-print_final_stats=1", str(corpus)],
        lambda data: check(name, data),
    )
    atheris.Fuzz()


def print_seeds(name: str, n_inputs: int) -> None:
    """Those of some inputs that reach lines of fastens which no seed, and none of them before, reached."""
    import fastens
    from properties.inputs import check, seeds

    ours = str(Path(fastens.__file__).parent)
    reached: set[tuple[str, int]] = set()
    new: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ours):
            return None
        if event == "line":
            new.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    known = seeds(name)
    check(name, b"")  # what is made once
    for data in [*known, *(random.randbytes(random.randrange(8, MAX_BYTES)) for _ in range(n_inputs))]:
        new.clear()
        sys.settrace(trace)
        try:
            check(name, data)
        finally:
            sys.settrace(None)
        if data not in known and new - reached:
            print(name, data.hex())
        reached |= new


def main() -> int:
    """Try inputs for a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs of a minute (default: 1)")
    parser.add_argument("--chance", type=int, default=0, metavar="N", help="another number gives other inputs")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--seeds", type=int, metavar="N")
    arguments = parser.parse_args()
    if arguments.names:
        from properties.inputs import CHECKS

        print(*CHECKS)
        return 0
    if arguments.seeds is not None:
        print_seeds(arguments.name, arguments.seeds)
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        return by_chance(arguments.name, arguments.seconds, arguments.share, arguments.chance)
    by_coverage(arguments.name, arguments.seconds or 60, arguments.folder / arguments.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Files of models and tables, chosen by the lines of fastens that they reach, until one crashes or has a wrong error.

    python tools/fuzz.py NAME [--seconds N] [--folder FOLDER]

NAME is one of those in tests/properties/files.py. The folder keeps inputs that reached something new, for the next
run, and the input that failed. Atheris chooses the inputs if it is installed; otherwise chance does. Arrays, targets,
weights and parameters have their own: FASTENS_EXAMPLES=1000 pytest tests/test_properties.py
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

MOST_BYTES = 64


def by_chance(name: str, seconds: float, folder: Path) -> None:
    """Random bytes, for a time; the one being tried lies in the folder."""
    from properties.files import check

    start, n_inputs = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        data = random.randbytes(random.randrange(MOST_BYTES))
        (folder / "tried").write_bytes(data)
        check(name, data)
        n_inputs += 1
    print(f"{name}: {n_inputs} inputs in {time.monotonic() - start:.0f} s")


def by_coverage(name: str, seconds: float, folder: Path) -> None:
    """Inputs that Atheris makes; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["fastens"]):
        import fastens

        for public in fastens.__all__:
            getattr(fastens, public)
    from properties.files import check

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    options = [f"-max_total_time={seconds:.0f}", f"-max_len={MOST_BYTES}", "-timeout=60", "-rss_limit_mb=0"]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={folder}/", "-print_final_stats=1", str(corpus)],
        lambda data: check(name, data),
    )
    atheris.Fuzz()


def main() -> None:
    """Try inputs for a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    arguments = parser.parse_args()
    folder = arguments.folder / arguments.name
    folder.mkdir(parents=True, exist_ok=True)
    faulthandler.enable()
    from properties.worker import limit_memory

    limit_memory()  # an input that asks for more is told with its traceback
    try:
        import atheris  # noqa: F401
    except ImportError:
        by_chance(arguments.name, arguments.seconds, folder)
    else:
        by_coverage(arguments.name, arguments.seconds, folder)


if __name__ == "__main__":
    main()

"""The entry of the command line: commands, their errors and exit codes."""

from __future__ import annotations

import argparse
import difflib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from fastens import __version__
from fastens.cli.table.columns import CommandError, first_line, visible

COMMANDS = {
    "inspect": "look at a table before training",
    "train": "train a model on a table",
    "predict": "predict the rows of a table",
    "evaluate": "score a model on a table",
    "explain": "report what a model has learned",
    "compare": "rank models on a table",
    "tune": "find the best model in a time",
    "convert": "read a model of another library",
    "export": "write a model in another format",
}
# Options that name files to write. `train` writes one without any of them.
_FILES = ("output", "picture")
_SIGPIPE = 13  # Windows has no such signal
OPTIONAL_LIBRARIES = ("rich", "pyarrow")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; the options of `train` would fill the screen."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: no output is left half-written."""


class _Output:
    """Standard output or standard error, whose reader may go away or whose disk may be full.

    If a command writes files, what cannot be printed is dropped, so that the files are written all the same.

    Attributes
    ----------
    is_needed : bool
        True if an error of writing ends the command.
    error : OSError or None
        The first error that was ignored.
    """

    def __init__(self, stream: Any, *, is_needed: bool) -> None:
        self._stream, self.is_needed = stream, is_needed
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        if self.error is None:
            self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what waits."""
        if self.error is None:
            self._try(self._stream.flush)

    def _try(self, write: Callable[[], Any]) -> None:
        try:
            write()
        except OSError as error:
            self.error = error
            # Python flushes the stream once more at exit, where it must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if self.is_needed:
                raise


@contextmanager
def _outputs() -> Iterator[_Output]:
    """Standard output and standard error as `_Output`; a stream that is closed from the start discards its text."""
    given = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        for stream in given:
            if hasattr(stream, "reconfigure"):
                # A terminal that knows no bars or names shows question marks; it does not end the run.
                stream.reconfigure(errors="replace")
        out = _Output(given[0] or nowhere, is_needed=True)
        sys.stdout, sys.stderr = out, _Output(given[1] or nowhere, is_needed=False)
        try:
            yield out
        finally:
            sys.stdout, sys.stderr = given


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    It is 0, or 2 after a user error, which is one line on standard error. If the reader of a pipe, such as head, has
    seen enough, a command that writes files goes on and returns 0; another one returns 141, as tools do that SIGPIPE
    ends.
    """
    with _outputs() as out:
        status = 0
        try:
            try:
                status = _status(argv)
            finally:
                out.flush()
        except (OSError, SystemExit) as error:  # argparse ends by SystemExit, and ignores errors of writing
            if out.error is None or not (isinstance(error, SystemExit | BrokenPipeError) or error is out.error):
                raise
        if isinstance(out.error, BrokenPipeError):
            return 128 + _SIGPIPE if out.is_needed else status
        if out.error is not None:
            reason = out.error.strerror or first_line(out.error)
            print(f"fastens: cannot write to standard output: {reason}", file=sys.stderr)
            return status or 2
        return status


def _status(argv: Sequence[str] | None) -> int:
    """Run a command; its exit status."""
    try:
        with _short_warnings(), _stopped_by_sigterm():
            _run(argv)
    except CommandError as error:
        print(f"fastens: {visible(str(error))}", file=sys.stderr)
        return 2
    except _Terminated:
        print("fastens: terminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("fastens: interrupted", file=sys.stderr)
        return 130
    return 0


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, where this is the main thread and nobody else handles it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    received = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Exception as error:
        if received:  # what was running may have made another error of it
            raise _Terminated from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Every warning once, in one line: what a fit warns of would else fill the screen, fold after fold."""
    shown = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = first_line(Warning(message))
        if text not in shown:
            shown.add(text)
            print(f"fastens: warning: {visible(text)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _run(argv: Sequence[str] | None) -> None:
    """Import the command given, which needs the optional libraries, and run it; of none or another, tell of all."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="fastens", description="Fast ensembles of trees on tables.")
    parser.add_argument("--version", action="version", version=f"fastens {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, summary in COMMANDS.items():
        if given[:1] == [name]:
            _command(name).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    options, unknown = parser.parse_known_args(given)
    if unknown:
        raise CommandError(_unknown_argument(unknown[0], subparsers.choices[options.command]))
    if isinstance(sys.stdout, _Output):
        writes = options.command == "train" or any(getattr(options, name, None) for name in _FILES)
        sys.stdout.is_needed = not writes
    options.run(options)


def _command(name: str) -> ModuleType:
    try:
        with _collecting_nothing():
            return import_module(f"fastens.cli.{name}")
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in OPTIONAL_LIBRARIES:
            raise
        raise CommandError(f"the command line needs {library}: pip install 'fastens[cli]'") from error


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Without the collector of cycles: imports leave none, and it takes a twelfth of their time."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _unknown_argument(argument: str, parser: argparse.ArgumentParser) -> str:
    """The error of an argument that a command does not know, with the options of a similar name."""
    name = argument.partition("=")[0]
    known = [option for action in parser._actions for option in action.option_strings]
    close = difflib.get_close_matches(name, known)
    hint = f"did you mean {' or '.join(close)}?" if close else f"see {parser.prog} --help"
    return f"{parser.prog} has no option {name}; {hint}"

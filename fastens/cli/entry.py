"""Entry point of the command line: commands, their errors and exit codes."""

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
from fastens.cli.table.columns import CommandError, escape_control_characters, first_line

COMMANDS = {
    "inspect": "check a table before training",
    "train": "train a model on a table",
    "predict": "predict a table",
    "evaluate": "score a model on a table",
    "explain": "explain a model in an HTML report",
    "compare": "compare models by cross-validation",
    "tune": "search for the best model within a time limit",
    "convert": "import a model of another library",
    "export": "export a model to another format",
}
# Options that name output files. `train` writes a file even without them.
_FILES = ("output", "picture")
_SIGPIPE = 13  # Windows has no such signal
OPTIONAL_LIBRARIES = ("rich", "pyarrow")


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors, because the usage of `train` would fill the screen."""

    def error(self, message: str) -> NoReturn:
        """Raise CommandError with the message and the command that prints help."""
        raise CommandError(f"{message} (see {self.prog} --help)")


class _Terminated(KeyboardInterrupt):
    """Exception for SIGTERM, which ends a command like Ctrl-C, so that no output file is left half-written."""


class _OutputStream:
    """Standard output or standard error that tolerates a closed pipe or a full disk.

    If a command writes files, text that cannot be printed is dropped, so the files are still written.

    Attributes
    ----------
    is_needed : bool
        True if a write error ends the command.
    error : OSError or None
        The first error that was ignored.
    """

    def __init__(self, stream: Any, *, is_needed: bool) -> None:
        self._stream, self.is_needed = stream, is_needed
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, or drop it after a write error, and return its length."""
        if self.error is None:
            self._write_tolerantly(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the buffered text, unless a write error has occurred."""
        if self.error is None:
            self._write_tolerantly(self._stream.flush)

    def _write_tolerantly(self, write: Callable[[], Any]) -> None:
        """Call `write`; store an OSError, discard later output, and raise the error if the stream is needed."""
        try:
            write()
        except OSError as error:
            self.error = error
            # Python flushes the stream again at exit, which must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if self.is_needed:
                raise


@contextmanager
def _tolerant_streams() -> Iterator[_OutputStream]:
    """Replace standard output and error by `_OutputStream` within the context; yield the stream for output."""
    streams = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        for stream in streams:
            if hasattr(stream, "reconfigure"):
                # A terminal whose encoding lacks a character shows a question mark instead of ending the run.
                stream.reconfigure(errors="replace")
        out = _OutputStream(streams[0] or nowhere, is_needed=True)
        sys.stdout, sys.stderr = out, _OutputStream(streams[1] or nowhere, is_needed=False)
        try:
            yield out
        finally:
            sys.stdout, sys.stderr = streams


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    The status is 0 on success and 2 after a user error, which prints one line to standard error. If the reader of a
    pipe, such as head, closes it early, a command that writes files continues and returns 0. Other commands return 141,
    like tools that are ended by SIGPIPE.
    """
    with _tolerant_streams() as out:
        status = 0
        try:
            try:
                status = _run_with_status(argv)
            finally:
                out.flush()
        except (OSError, SystemExit) as error:  # argparse exits by SystemExit and ignores write errors
            if out.error is None or not (isinstance(error, SystemExit | BrokenPipeError) or error is out.error):
                raise
        if isinstance(out.error, BrokenPipeError):
            return 128 + _SIGPIPE if out.is_needed else status
        if out.error is not None:
            reason = out.error.strerror or first_line(out.error)
            print(f"fastens: cannot write to standard output: {reason}", file=sys.stderr)
            return status or 2
        return status


def _run_with_status(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit status; errors of the user and interrupts are printed on one line."""
    try:
        with _print_short_warnings(), _raise_on_sigterm():
            _run_command(argv)
    except CommandError as error:
        print(f"fastens: {escape_control_characters(str(error))}", file=sys.stderr)
        return 2
    except _Terminated:
        print("fastens: terminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("fastens: interrupted", file=sys.stderr)
        return 130
    return 0


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise _Terminated on SIGTERM in the context, if this is the main thread without another handler."""
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
        if received:  # the interrupted code may have raised another error
            raise _Terminated from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _print_short_warnings() -> Iterator[None]:
    """Print each warning of the context once and on one line, because repeated fits repeat their warnings."""
    shown = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = first_line(Warning(message))
        if text not in shown:
            shown.add(text)
            print(f"fastens: warning: {escape_control_characters(text)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _run_command(argv: Sequence[str] | None) -> None:
    """Parse the arguments, and import and run their command; raise CommandError for unknown arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="fastens", description="Fast tree ensembles for tabular data.")
    parser.add_argument("--version", action="version", version=f"fastens {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, summary in COMMANDS.items():
        if arguments[:1] == [name]:
            _import_command(name).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise CommandError(_unknown_argument_message(unknown[0], subparsers.choices[options.command]))
    if isinstance(sys.stdout, _OutputStream):
        writes = options.command == "train" or any(getattr(options, name, None) for name in _FILES)
        sys.stdout.is_needed = not writes
    options.run(options)


def _import_command(name: str) -> ModuleType:
    """Import the module of a command; raise CommandError if an optional library is not installed."""
    try:
        with _without_garbage_collection():
            return import_module(f"fastens.cli.{name}")
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in OPTIONAL_LIBRARIES:
            raise
        raise CommandError(f"the command line needs {library}: pip install 'fastens[cli]'") from error


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection within the context, because it would take a twelfth of the time of imports."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _unknown_argument_message(argument: str, parser: argparse.ArgumentParser) -> str:
    """Return the error message for an unknown argument, with similar options of the parser."""
    name = argument.partition("=")[0]
    options = [option for action in parser._actions for option in action.option_strings]
    close = difflib.get_close_matches(name, options, cutoff=0.75)
    hint = f"did you mean {' or '.join(close)}?" if close else f"see {parser.prog} --help"
    return f"{parser.prog} has no option {name}; {hint}"

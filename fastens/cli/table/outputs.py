"""Files that the command line writes: whole or not at all, and never over something else by mistake."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from fastens.cli.table.errors import CommandError, first_line
from fastens.storage import ENDING, MAGIC, replacing

# How files begin that are no text, and what they are.
BEGINNINGS = {
    MAGIC: "a model",
    b"PAR1": "a Parquet table",
    b"\x89PNG": "a PNG picture",
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\x04\x22\x4d\x18": "an lz4 archive",
}
BY_SUFFIX = {
    ".parquet": "a Parquet table",
    ".pq": "a Parquet table",
    ".png": "a PNG picture",
    ".pdf": "a PDF document",
    ".gz": "a gzip archive",
    ".bz2": "a bzip2 archive",
    ".zst": "a zstd archive",
    ".lz4": "an lz4 archive",
    ".html": "a web page",
    ".htm": "a web page",
    ".svg": "an SVG picture",
}
MARKUP = {
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<svg": "an SVG picture",
}
# Of texts that are tables by their names, and no models or code.
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
TEXT, OTHER = "text", "binary data"
# The output that is standard output.
STANDARD = "-"
HEAD_BYTES = 4096
# A file that is not yet whole, as messages of libraries name it.
HIDDEN = re.compile(rf"\.[0-9a-f]{{16}}\.[^/'\"\s]{{0,{ENDING}}}")


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets outputs replace inputs and files of other kinds."""
    text = "let an output replace an input, or a file of another kind"
    parser.add_argument("--overwrite", action="store_true", help=text)


def check_output(
    path: str, kind: str | None, inputs: Sequence[str | None], overwrite: bool, *, may_be_standard: bool = False
) -> None:
    """Refuse a file that cannot be written, or that would be lost, before the work is done whose result it is to hold.

    Parameters
    ----------
    path : str
        The file to write.
    kind : str or None
        What it will hold; None: what its suffix says, else text.
    inputs : sequence of str or None
        The files that are read.
    overwrite : bool
        Whether it may replace an input or a file of another kind.
    may_be_standard : bool
        Whether "-" may stand for standard output.
    """
    if path == STANDARD:
        if may_be_standard:
            return
        raise CommandError("an output must be a file; - stands for standard output in fastens predict only")
    _check_place(path)
    if not overwrite and os.path.isfile(path):
        _check_loss(path, kind, inputs)


def _check_place(path: str) -> None:
    """Refuse a file in a folder that is not there, or that must not be written."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise CommandError(f"cannot write {path}: it is a folder")
    if not os.path.isdir(folder):
        raise CommandError(f"cannot write {path}: there is no folder {folder}")
    # The new file is written beside the old one: its folder must be writable, and a file that is protected stays.
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise CommandError(f"cannot write {path}: permission denied")


def _check_loss(path: str, kind: str | None, inputs: Sequence[str | None]) -> None:
    """Refuse to replace a file that is read, or one of another kind."""
    for given in inputs:
        if given is not None and os.path.exists(given) and os.path.samefile(path, given):
            raise CommandError(f"will not write over {path}, which is read; choose another file, or add --overwrite")
    found = _kind_of_file(path)
    if kind == TEXT and found == TEXT and os.path.splitext(path)[1].lower() in TABLE_SUFFIXES:
        raise CommandError(
            f"will not write over {path}, whose name is that of a table; choose another file, or add --overwrite"
        )
    expected = kind or BY_SUFFIX.get(os.path.splitext(path)[1].lower(), TEXT)
    if found not in (None, expected):
        raise CommandError(
            f"will not write {_named(expected)} over {path}, which holds {_named(found)}; "
            "choose another file, or add --overwrite"
        )


def check_different(outputs: Mapping[str, str | None]) -> None:
    """Refuse outputs, by the names of their options, that would be written over each other."""
    options: dict[str, str] = {}
    for option, path in outputs.items():
        if path is not None and (other := options.setdefault(os.path.realpath(path), option)) != option:
            raise CommandError(f"{other} and {option} must be different files; got {path} for both")


@contextmanager
def writing(path: str) -> Iterator[str]:
    """Yield the name of a file to write, which takes the place of `path` once it is whole."""
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
        raise CommandError(f"cannot write {path}: {HIDDEN.sub(os.path.basename(path), reason)}") from error


def _kind_of_file(path: str) -> str | None:
    """What a file holds, by how it begins; None for an empty one."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return None
    for beginning, kind in BEGINNINGS.items():
        if head.startswith(beginning):
            return kind
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<?xml"):
        return MARKUP[b"<svg"] if b"<svg" in start else TEXT
    for beginning, kind in MARKUP.items():
        if start.startswith(beginning):
            return kind
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return OTHER if b"\0" in head and not is_utf16 else TEXT


def _named(kind: str) -> str:
    return "a table of text" if kind == TEXT else kind

"""Files made of bytes that anyone may send: models, tables as text and as Parquet, Arrow streams.

`check(name, data)` reads the bytes as edits of a file that is well formed, opens it, and uses what it holds. An error
of a kind that users are told of is right; any other is raised. `tools/fuzz.py` chooses the bytes by coverage.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fastens
from fastens import storage

REFUSALS = (ValueError, TypeError, OverflowError)
MOST_EDITS = 6
# Numbers as a damaged or hostile file may hold them, in the widths of the arrays.
NUMBERS = [
    np.array(value, dtype).tobytes()
    for dtype, values in {
        "<f8": [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -0.0],
        "<f4": [np.nan, np.inf, 3e38],
        "<i4": [-1, 0, 1, 2**31 - 1, -(2**31), 65_536],
        "<i8": [-1, 2**63 - 1, -(2**63), 2**32],
        "<u2": [65_535, 256],
        "u1": [0, 1, 127, 128, 255, ord('"'), ord(","), ord("\n")],
    }.items()
    for value in values
]


class Choices:
    """Whole numbers read from bytes; zeros after their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        size = max(1, (n - 1).bit_length() + 7 >> 3)
        part = self._data[self._place : self._place + size]
        self._place += size
        return int.from_bytes(part, "little") % n

    def of(self, values: Any) -> Any:
        """One of several."""
        return values[self.below(len(values))]


def edited(content: bytes, choices: Choices) -> bytes:
    """A few places overwritten, left out or repeated."""
    for _ in range(choices.below(MOST_EDITS)):
        place, kind = choices.below(len(content) + 1), choices.below(4)
        if kind == 0:
            content = content[:place] + bytes([choices.below(256)]) + content[place + 1 :]
        elif kind == 1:
            number = choices.of(NUMBERS)
            place -= place % len(number)
            content = content[:place] + number + content[place + len(number) :]
        else:
            end = place + choices.below(64)
            content = (
                content[:end] + content[place if kind == 2 else end :] if kind == 2 else content[:place] + content[end:]
            )
    return content


# Models --------------------------------------------------


@cache
def models() -> tuple[bytes, ...]:
    """The files of small models of every kind that is stored in its own way."""
    rng = np.random.default_rng(0)
    X = np.round(rng.random((60, 3)) * 8)
    y = (X[:, 0] + X[:, 1] > 7).astype(int)
    makers = [
        fastens.GradientBoostingClassifier(n_estimators=2),
        fastens.GradientBoostingRegressor(n_estimators=2, linear_leaves=True),
        fastens.GradientBoostingRegressor(n_estimators=2, categorical_features=[0]),
        fastens.RandomForestClassifier(n_estimators=2, random_state=0),
        fastens.DecisionTreeRegressor(max_depth=3),
        fastens.AdaBoostClassifier(n_estimators=2),
        fastens.IsolationForest(n_estimators=2, random_state=0),
        fastens.GaussianNB(),
        fastens.CategoricalNB(),
        fastens.TANClassifier(),
        fastens.BayesTreeClassifier(),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in makers:
            model.fit(X, y).save(Path(folder, "model"))
            found.append(Path(folder, "model").read_bytes())
    return tuple(found)


def with_checksum(content: bytes) -> bytes:
    """The checksum made right, so that what it guards is read."""
    if len(content) < storage.HEADER_START:
        return content
    prefix, body = content[: storage.PREFIX.size], content[storage.HEADER_START :]
    return prefix + storage._checksum(prefix, body) + body


def check_model(choices: Choices, folder: Path) -> None:
    """A model is refused, or predicts something."""
    content, is_signed = choices.of(models()), choices.below(16) > 0
    # Sizes in the header are guarded by its own length, so edits go to the rest.
    content = content[: storage.PREFIX.size] + edited(content[storage.PREFIX.size :], choices)
    path = folder / "model"
    path.write_bytes(with_checksum(content) if is_signed else content)
    try:
        model = fastens.load(path)
    except fastens.ModelFileError:
        return
    X = np.array([[0.0, 3.0, 8.0], [np.nan, 1.0, 2.0], [1e9, -5.0, 4.0]])
    try:
        model.predict(X)
        repr(model)
    except REFUSALS:
        pass


# Tables --------------------------------------------------

TEXTS = (
    b'a,b,c\n1,2.5,x\n2,,"y, z"\n3,1e3,x\n4,-7,w\n',
    b"a;b;c\n1.234,50 \xe2\x82\xac;31.12.2020;ja\n2.000,00 \xe2\x82\xac;01.01.2021;nein\n",
    b"\xef\xbb\xbfname\tage\nAnn\t31\nBob\tn/a\nAnn\t45%\n",
    b'{"a": 1, "b": "x"}\n{"a": 2.5, "b": null}\n{"a": null, "b": "y"}\n',
    b"a|b\r\n(1,200)|2020-01-31T10:00:00Z\r\n300|2021-02-28T23:59:60Z\r\n",
    b'"a ""quoted"" name",b\n"line\nbreak",TRUE\nplain,FALSE\n',
)
ENDINGS = (".csv", ".tsv", ".jsonl", ".csv.gz", ".parquet", ".arrow", ".xlsx", ".sqlite")


def use_table(table: Any) -> None:
    """Fit and predict; a table of one row or of odd columns may be refused."""
    try:
        y = np.arange(table.num_rows) % 2
        model = fastens.GradientBoostingClassifier(n_estimators=2, min_samples_leaf=1).fit(table, y)
        model.predict_proba(table)
    except REFUSALS:
        pass


def check_text(choices: Choices, folder: Path) -> None:
    """A table as text."""
    content = edited(choices.of(TEXTS) * (1 + choices.below(3)), choices)
    read(folder / f"table{choices.of(ENDINGS[:3])}", content)


def read(path: Path, content: bytes) -> None:
    """Read a file and use its table, unless it is refused."""
    path.write_bytes(content)
    try:
        table = fastens.read_table(path)
    except REFUSALS:
        return
    use_table(table)


@cache
def columns() -> dict[str, Any]:
    """Arrow columns of every type and layout."""
    import pyarrow as pa

    numbers = [0, 1, None, 7, 5, 3]
    words = ["a", None, "b", "", "größer", "a"]
    found: dict[str, Any] = {str(kind): pa.array(numbers, kind) for kind in (pa.int8(), pa.uint16(), pa.int64())}
    found |= {str(kind): pa.array(numbers, kind) for kind in (pa.float32(), pa.float64(), pa.decimal128(9, 2))}
    found |= {"half": pa.array(np.arange(6, dtype=np.float16)), "null": pa.nulls(6)}
    found |= {str(kind): pa.array(words, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())}
    found |= {
        str(kind): pa.array(numbers, pa.int64()).cast(kind) for kind in (pa.timestamp("us", "UTC"), pa.time64("ns"))
    }
    found |= {"days": pa.array(numbers, pa.int32()).cast(pa.date32()), "spans": pa.array(numbers, pa.duration("s"))}
    found |= {"truths": pa.array([True, None, False, True, True, False]), "bytes": pa.array([b"x"] * 6)}
    found |= {
        "coded": pa.array(words).dictionary_encode(),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 6], [1.0, 2.0]),
    }
    found |= {"lists": pa.array([[1], [], None, [2, 3], [4], [5]]), "records": pa.array([{"x": 1}] * 6)}
    found["slice"] = pa.array([9, 9, *numbers, 9])[2:8]
    found["extreme"] = pa.array([np.nan, np.inf, -np.inf, 1e308, 5e-324, -0.0])
    return found


def any_table(choices: Choices) -> Any:
    """Some of the columns, in one chunk or several."""
    import pyarrow as pa

    names = [choices.of(sorted(columns())) for _ in range(1 + choices.below(4))]
    table = pa.table([columns()[name] for name in names], names=[f"{i} {name}" for i, name in enumerate(names)])
    cut = choices.below(7)
    return pa.concat_tables([table[:cut], table[cut:], table[: choices.below(7)]])


def check_stream(choices: Choices, folder: Path) -> None:
    """An Arrow table, its stream with edits, and its batches."""
    import pyarrow as pa

    table = any_table(choices)
    use_table(table)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    read(folder / "table.arrow", edited(sink.getvalue(), choices))


def check_parquet(choices: Choices, folder: Path) -> None:
    """A Parquet file with edits."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    try:
        parquet.write_table(any_table(choices), sink)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return
    read(folder / "table.parquet", edited(sink.getvalue(), choices))


def check_command(choices: Choices, folder: Path) -> None:
    """The command line on a table as text: an exit code, never a traceback."""
    from contextlib import redirect_stderr, redirect_stdout

    from fastens.cli import main

    path = folder / f"table{choices.of(ENDINGS[:3])}"
    path.write_bytes(edited(choices.of(TEXTS) * 6, choices))
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            code = main(["train", str(path), "--output", str(folder / "out")])
        except SystemExit as end:
            code = end.code
    assert code in (0, 1, 2), code


CHECKS = {
    "model": check_model,
    "text": check_text,
    "stream": check_stream,
    "parquet": check_parquet,
    "command": check_command,
}


def check_all(job: tuple[str, list[bytes]]) -> None:
    """Try some inputs; AssertionError with that which failed."""
    name, inputs = job
    for data in inputs:
        try:
            check(name, data)
        except BaseException as error:
            raise AssertionError(f"check({name!r}, {data!r}): {type(error).__name__}: {error}") from error


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """One folder for all inputs of this process, in memory where the system has such a place."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def check(name: str, data: bytes) -> None:
    """Try one input; an error that Python could only print counts too."""
    unraised: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[name](Choices(data), Path(scratch().name))
    finally:
        sys.unraisablehook = before
    assert not unraised, unraised[0].exc_value

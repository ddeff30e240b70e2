"""Files made of bytes that anyone may send: models, tables as text and as Parquet, Arrow streams.

Choices are edits of a file that is well formed, which is opened, and what it holds is used. An error of a kind that
users are told of is right; any other is raised.
"""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fastens
from fastens.modelfile import storage
from properties.choices import Choices

REFUSALS = (ValueError, TypeError, OverflowError)
MAX_EDITS = 6
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


def edited(content: bytes, choices: Choices) -> bytes:
    """A few places overwritten, left out or repeated."""
    for _ in range(choices.below(MAX_EDITS)):
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


def parquet_file(choices: Choices) -> bytes:
    """A Parquet file with edits; nothing where it cannot hold the columns."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    try:
        parquet.write_table(any_table(choices), sink)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return b""
    return edited(sink.getvalue(), choices)


def check_parquet(choices: Choices, folder: Path) -> None:
    """A table as Parquet."""
    read(folder / "table.parquet", parquet_file(choices))


def exit_code(*arguments: Any) -> int:
    """Of a command, run here; what it prints is left out."""
    from contextlib import redirect_stderr, redirect_stdout

    from fastens.cli import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            return main([str(argument) for argument in arguments])
        except SystemExit as end:
            return end.code


def long_table(text: bytes) -> bytes:
    """Its header, and its rows many times."""
    header, _, rows = text.partition(b"\n")
    return header + b"\n" + rows * 12


@cache
def trained(folder: Path) -> Path:
    """The file of a model that the command line trained."""
    table, model = folder / "known.csv", folder / "model.fastens"
    table.write_bytes(long_table(TEXTS[0]))
    assert exit_code("train", table, "--target", "c", "--output", model) == 0
    return model


def check_command(choices: Choices, folder: Path) -> None:
    """The command line on a table as text or Parquet: an exit code, never a traceback."""
    ending = choices.of((*ENDINGS[:3], ".parquet"))
    path = folder / f"table{ending}"
    content = parquet_file(choices) if ending == ".parquet" else edited(long_table(choices.of(TEXTS)), choices)
    path.write_bytes(content)
    model, target = trained(folder), choices.of(("a", "c", "age", "ja"))
    commands = [
        ("predict", model, path, "--output", folder / f"out{choices.of(('.csv', '.parquet'))}", "--overwrite"),
        ("inspect", path),
        ("evaluate", model, path),
        ("train", path, "--target", target, "--output", folder / "out.fastens"),
    ]
    code = exit_code(*commands[(0, 0, 0, 0, 1, 1, 2, 3)[choices.below(8)]])
    assert code in (0, 1, 2), code


FILES = {
    "model": check_model,
    "text": check_text,
    "stream": check_stream,
    "parquet": check_parquet,
    "command": check_command,
}

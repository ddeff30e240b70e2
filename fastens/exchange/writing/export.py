"""Export of fitted models to formats of other libraries and to source code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib

from fastens.exchange.writing.view import CannotHoldError, view_of
from fastens.modelfile.storage import replacing

# The module that writes each format. Its `write` function takes a ModelView and the options of the format.
FORMATS = {
    "lightgbm": "lightgbm_text",
    "onnx": "onnx_graph",
    "sklearn": "sklearn_objects",
    "xgboost": "xgboost_json",
    "treelite": "treelite_bytes",
    "c": "c_header",
    "sql": "sql_text",
    "pmml": "pmml_text",
}
# Formats that are not text.
BINARY = ("onnx", "sklearn", "treelite")


def export(model: Any, path: str | os.PathLike[str] | None, format: str, options: dict[str, Any]) -> Any:  # noqa: A002
    """Convert a fitted model to another format and return it, or write it to a file.

    Raises
    ------
    ValueError
        If the format is unknown or cannot represent the model.
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(map(repr, FORMATS))}; got {format!r}.")
    write = import_module(f"fastens.exchange.writing.{FORMATS[format]}").write
    with refusals(model, format):
        written = write(view_of(model, is_lightgbm=format == "lightgbm"), **options)
    if path is None:
        return written
    with replacing(path) as unfinished:
        if isinstance(written, str | bytes):
            Path(unfinished).write_bytes(written if isinstance(written, bytes) else written.encode())
        else:
            joblib.dump(written, unfinished)
    return None


@contextmanager
def refusals(model: Any, format: str) -> Iterator[None]:  # noqa: A002
    """Convert CannotHoldError to a ValueError that names the model and the format."""
    name = type(model).__name__
    if not hasattr(model, "_ensemble"):
        raise ValueError(f"{name} must be an ensemble of its own trees for export; this one has other members.")
    try:
        yield
    except CannotHoldError as error:
        raise ValueError(f"format={format!r} cannot hold {error}, which this {name} has.") from None

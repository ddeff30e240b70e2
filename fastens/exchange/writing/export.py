"""Writing a fitted model in another library's format, or as code."""

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

# The modules that write the formats: `write` of each takes the view of a model and its own options.
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
# Those that are no text.
BINARY = ("onnx", "sklearn", "treelite")


def export(model: Any, path: str | os.PathLike[str] | None, format: str, options: dict[str, Any]) -> Any:  # noqa: A002
    """Return a fitted model in another format, or write it to a file.

    Raises
    ------
    ValueError
        For an unknown format, or a model that it cannot hold.
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
    """Name the model and the format where it cannot hold what the model has."""
    name = type(model).__name__
    if not hasattr(model, "_ensemble"):
        raise ValueError(f"{name} must be an ensemble of its own trees for export; this one has other members.")
    try:
        yield
    except CannotHoldError as error:
        raise ValueError(f"format={format!r} cannot hold {error}, which this {name} has.") from None

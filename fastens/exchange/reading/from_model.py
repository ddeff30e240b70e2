"""`from_model`: detection of a model's library and format, and conversion to a fitted estimator."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fastens.exchange.reading.records import ForeignModel
from fastens.modelfile.storage import MAGIC, ModelFileError

_EXPECTED = (
    "a LightGBM text model, an XGBoost JSON or UBJSON model, a CatBoost JSON model, an ONNX TreeEnsemble or the "
    "serialised bytes of treelite"
)


def from_model(
    model: Any, *, categories: Mapping[Any, Sequence[Any]] | None = None, missing: float | None = None
) -> Any:
    """Convert a model of another library to a fitted estimator with the same predictions.

    Parameters
    ----------
    model : path, bytes or object
        The model: a file in one of the formats LightGBM text, XGBoost JSON or UBJSON, CatBoost JSON, ONNX with a
        TreeEnsemble, or treelite's serialised bytes; the content of such a file as bytes or text; or a fitted object
        of LightGBM, XGBoost, CatBoost or scikit-learn. Reading a file executes no code from it and does not require
        the other library.
    categories : mapping of column names or indices to lists, optional
        Categories of columns for which the model stores only the codes 0, 1, ..., in the order of the codes. If None,
        these columns must contain the codes.
    missing : float, optional
        A number that marks missing values, in addition to NaN: the `missing` of the ``DMatrix`` that an XGBoost Booster
        was trained on, which its model does not store. If None, the `missing` parameter of an XGBoost estimator is
        used; for all other models, only NaN is missing.

    Returns
    -------
    A fitted estimator
        The corresponding estimator of fastens, with the predictions of the model.

    Raises
    ------
    ModelFileError
        If the file is damaged, has an unsupported format or version, or contains a model that has no counterpart in
        fastens.
    TypeError
        If `categories` is not a mapping, or `missing` is not a number.
    ValueError
        If `categories` contains anything but lists of strings, numbers, booleans or dates, has too few categories for
        a column, or names a column that the model does not store as codes.

    Examples
    --------
    >>> import fastens
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> theirs = RandomForestRegressor(n_estimators=10, random_state=0).fit(X, y)
    >>> ours = fastens.from_model(theirs)
    >>> bool((ours.predict(X) == theirs.predict(X)).all())
    True
    """
    from fastens.exchange.reading.estimators import fitted_estimator

    where = ""
    if not isinstance(categories, Mapping | None):
        raise TypeError(f"categories must be a dict of lists by column; got {categories!r}.")
    if isinstance(missing, bool) or not isinstance(missing, numbers.Real | None):
        raise TypeError(f"missing must be a number or None; got {missing!r}.")
    try:
        if isinstance(model, bytes | bytearray | memoryview):
            found = _read_content(bytes(model))
        elif isinstance(model, str) and _is_content(model):
            found = _read_content(model.encode("utf-8", "surrogatepass"))
        elif isinstance(model, str | os.PathLike):
            where = f"{os.fspath(model)}: "
            found = _read_content(Path(model).read_bytes())
        else:
            found = _read_object(model)
        if missing is not None and not np.isnan(missing):
            found.columns.missing_number = float(missing)
        return fitted_estimator(found, categories)
    except ModelFileError as error:
        raise ModelFileError(f"{where}{error}") from error.__cause__
    except (
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        MemoryError,
        ArithmeticError,
    ) as error:
        raise ModelFileError(f"{where}the model does not describe trees: {type(error).__name__}: {error}") from error


def _reader(name: str) -> Any:
    module, function = name.split(".")
    return getattr(import_module(f"fastens.exchange.reading.{module}"), function)


def _is_content(text: str) -> bool:
    """Return True if a text is the content of a file rather than a path."""
    text = text.strip()
    return "\n" in text or (text.startswith("{") and text.endswith("}"))


def _read_content(content: bytes) -> ForeignModel:
    """Read the content of a file, whose format is detected by its first bytes."""
    if content.startswith(MAGIC):
        raise ModelFileError("the file is one of fastens itself; read it with fastens.load")
    start = content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"tree\n", b"tree\r\n")):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError("a LightGBM model must be text in UTF-8") from error
        return _reader("lightgbm_text.read_lightgbm")(text.replace("\r\n", "\n"))
    if start.startswith(b"{L"):
        return _reader("xgboost_json.read_xgboost")(_reader("xgboost_json.read_ubjson")(content))
    if start.startswith(b"{"):
        return _read_json(_reader("xgboost_json.parse_json")(content))
    if _reader("treelite_bytes.begins_as_treelite")(content):
        return _reader("treelite_bytes.read_treelite")(content)
    if start.startswith(b"CBM1"):
        raise ModelFileError("the file is of CatBoost's binary format; save it with format='json'")
    if start.startswith(b"binf"):
        raise ModelFileError("the file is of XGBoost's old binary format; load it with XGBoost and save it as JSON")
    # An ONNX file begins with its IR version, a varint in field 1.
    if content[:1] == b"\x08":
        return _reader("onnx_trees.read_onnx")(content)
    raise ModelFileError(f"the file must be {_EXPECTED}; it begins with {content[:16]!r}")


def _read_json(content: Any) -> ForeignModel:
    """Read a JSON model, whose library is detected by its top-level keys."""
    if isinstance(content, dict) and "learner" in content:
        return _reader("xgboost_json.read_xgboost")(content)
    if isinstance(content, dict) and "features_info" in content:
        return _reader("catboost_json.read_catboost")(content)
    raise ModelFileError(f"the file must be {_EXPECTED}; it is JSON of another kind")


def _read_object(model: Any) -> ForeignModel:
    """Read a fitted object, whose library is detected by the modules of its classes."""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "fastens" in packages:
        raise ModelFileError(f"the {type(model).__name__} is one of fastens already")
    if "lightgbm" in packages:
        return _reader("lightgbm_text.read_booster")(model)
    if "xgboost" in packages:
        return _reader("xgboost_json.read_booster")(model)
    if "catboost" in packages:
        return _reader("catboost_json.read_object")(model)
    if "onnx" in packages:
        return _reader("onnx_trees.read_onnx")(model.SerializeToString())
    if "treelite" in packages:
        return _reader("treelite_bytes.read_treelite")(model.serialize_bytes())
    if "sklearn" in packages:
        is_histogram = hasattr(model, "_predictors") or type(model).__name__.startswith("HistGradientBoosting")
        name = "sklearn_histograms.read_histogram_boosting" if is_histogram else "sklearn_trees.read_trees"
        return _reader(name)(model)
    raise ModelFileError(
        f"model must be a path, bytes, or a fitted model of LightGBM, XGBoost, CatBoost or scikit-learn; got "
        f"{type(model).__module__}.{type(model).__qualname__}"
    )

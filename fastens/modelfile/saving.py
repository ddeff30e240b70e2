"""Saving and restoring estimators as plain arrays and JSON."""

from __future__ import annotations

import base64
import datetime
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastens.modelfile.storage import (
    ModelFileError,
    class_of_part,
    from_pickle,
    parse_json,
    pickles_allowed,
    save_model,
    to_pickle,
)
from fastens.params.options import Options

STATISTICS = "statistics."
Arrays = dict[str, np.ndarray]


class Saved(NamedTuple):
    """Functions that save a part of a model's fitted state as named arrays, and restore it.

    Attributes
    ----------
    to_arrays : callable
        Returns the part as arrays.
    from_arrays : callable
        Sets the fitted attributes from all arrays of the model. The parts of base classes are restored first.
    finish : callable
        Called with all arrays after the parts of all classes have been restored, to rebuild derived attributes.
    is_first : bool
        True if the part is restored before the other parts of all classes, which may need it.

    The functions raise ValueError if the arrays do not form a valid model. Arrays that pass the checks are safe to use.
    """

    to_arrays: Callable[[Any], Arrays] = lambda model: {}
    from_arrays: Callable[[Any, Arrays], None] = lambda model, arrays: None
    finish: Callable[[Any, Arrays], None] = lambda model, arrays: None
    is_first: bool = False


def attributes(*names: str, key: str = "fitted.{}", when: Callable[[Any], bool] | None = None) -> Saved:
    """Return a `Saved` part that stores fitted attributes, which are numbers or arrays, unchanged in model files.

    Parameters
    ----------
    *names : str
        The fitted attributes.
    key : str, default="fitted.{}"
        Name of an array in model files, with the name of the attribute instead of the braces.
    when : callable, optional
        Returns True if the model must have the attributes, which are then restored first. If None, the attributes
        that are set and are not None are saved.
    """

    def to_arrays(model: Any) -> Arrays:
        chosen = [name for name in names if (vars(model).get(name) is not None if when is None else when(model))]
        return {key.format(name): np.asarray(getattr(model, name)) for name in chosen}

    def from_arrays(model: Any, arrays: Arrays) -> None:
        for name in names:
            if key.format(name) in arrays if when is None else when(model):
                array = arrays[key.format(name)]
                setattr(model, name, array if array.ndim else array.item())

    return Saved(to_arrays, from_arrays, is_first=when is not None)


# The parts of a class; a name stands for an attribute that all fitted models have.
SavedParts = tuple[str | Saved, ...]


class SavedEstimator:
    """Mixin for estimators that can be saved to a file.

    Each class lists the parts of the fitted state that it defines in `_saved`.
    """

    metadata_: dict[str, Any] | None = None
    # The saved parts of this class.
    _saved: ClassVar[SavedParts] = ()
    # The classes that a file may contain inside another model, by name.
    _kinds: ClassVar[dict[str, type[SavedEstimator]]] = {}
    _check_fitted: Any  # a method of the estimator

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("fastens."):
            SavedEstimator._kinds[cls.__name__] = cls

    def save(
        self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None, *, allow_pickle: bool = False
    ) -> None:
        """Save the fitted model to a file that `fastens.load` reads without running code from it.

        Parameters
        ----------
        path : str or path
            File to write. An existing file is replaced atomically.
        metadata : dict, optional
            JSON-serialisable values with string keys. A loaded model has them as `metadata_` until it is fitted again.
        allow_pickle : bool, default=False
            If True, members from other libraries are written as pickles, which can run arbitrary code when they are
            loaded; `fastens.load` then needs ``allow_pickle=True`` too.

        Raises
        ------
        TypeError
            If a part of the model needs a pickle but pickles are not allowed, if the class of the model is not defined
            by fastens, or if `metadata` cannot be represented in JSON.
        """
        self._check_fitted()
        if not _is_fastens_estimator(self):
            kind = f"{type(self).__module__}.{type(self).__qualname__}"
            raise TypeError(
                "save must be called on an estimator class of fastens, because model files hold "
                f"no code. Pickle a {kind} instead."
            )
        if metadata is not None:
            self.metadata_ = _plain_metadata(metadata)
        with pickles_allowed(allow_pickle):
            save_model(path, self)

    def _to_state(self: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the fitted state as arrays by name, and the parameters, encoder and metadata as JSON values."""
        model = self._as_fitted()
        arrays: Arrays = model._fitted_arrays()
        arrays |= {STATISTICS + name: array for name, array in model._statistics_arrays().items()}
        meta = {
            "parameters": {name: savable_parameter(name, value) for name, value in model._saved_parameters().items()},
            "door": model._encoder_state(),
            "metadata": self.metadata_,
        }
        if self._parameters_of_fit:
            now = self._saved_parameters()
            meta["set after fit"] = {name: savable_parameter(name, now[name]) for name in self._parameters_of_fit}
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any:
        """Return a fitted model from the values of `_to_state`; raise ValueError if they form no valid model."""
        model: Any = cls(**{name: restored_parameter(value) for name, value in meta["parameters"].items()})
        model._check_parameters()
        model._restore_encoder(meta["door"])
        model._restore_statistics(
            {name.removeprefix(STATISTICS): array for name, array in arrays.items() if name.startswith(STATISTICS)}
        )
        if meta["metadata"] is not None:
            model.metadata_ = dict(meta["metadata"])
        model._restore_fitted(arrays)
        later = {name: restored_parameter(value) for name, value in meta.get("set after fit", {}).items()}
        return model.set_params(**later) if later else model

    def _saved_parameters(self: Any) -> dict[str, Any]:
        """Return the constructor parameters to save, by name; subclasses may replace values."""
        return dict(self.get_params(deep=False))

    @classmethod
    def _saved_parts(cls) -> list[Saved]:
        """Return the `Saved` parts of the class and its bases in the order in which they are restored."""
        listed = [part for base in reversed(cls.__mro__) for part in vars(base).get("_saved", ())]
        parts = [attributes(part, when=_is_always_saved) if isinstance(part, str) else part for part in listed]
        return sorted(parts, key=lambda part: not part.is_first)

    def _fitted_arrays(self) -> Arrays:
        """Return the fitted state of all saved parts as arrays by name."""
        arrays: Arrays = {}
        for part in sorted(self._saved_parts(), key=lambda part: part.is_first):  # files list attributes last
            arrays |= part.to_arrays(self)
        return arrays

    def _restore_fitted(self, arrays: Arrays) -> None:
        """Set the fitted attributes from the arrays of `_fitted_arrays`; raise ValueError if they are invalid."""
        for part in self._saved_parts():
            part.from_arrays(self, arrays)
        for part in self._saved_parts():
            part.finish(self, arrays)


def _is_always_saved(model: Any) -> bool:
    """Return True for any model, as the `when` of attributes that all models have."""
    return True


def _plain_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as JSON would restore it; raise TypeError if it is not a mapping or JSON cannot hold it."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a dict or None; got {metadata!r}.")
    try:
        text = json.dumps(dict(metadata))
        _check_keys(metadata)
        return dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise TypeError(f"metadata must be JSON-serializable: {error}; got {metadata!r}.") from error


def _check_keys(value: Any) -> None:
    """Raise TypeError for nested dict keys that are not strings, because JSON would silently convert them."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        if isinstance(value, Mapping) and not isinstance(key, str):
            raise TypeError(f"keys must be str, not {type(key).__name__}")
        _check_keys(item)


def savable_parameter(name: str, value: Any) -> Any:
    """Return a parameter's value as JSON values; raise ValueError, which names it, if JSON cannot represent it."""
    plain = plain_parameter(value)
    try:
        json.dumps(plain)
    except TypeError as error:
        raise ValueError(
            f"{name}={value!r} cannot be saved, because model files hold numbers and text but no code."
        ) from error
    return plain


def plain_parameter(value: Any) -> Any:
    """Return a parameter as JSON values.

    They are None for a random generator, pairs for a dict, lists for arrays and sets, and texts for dates and paths.
    """
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(value, "__array__"):  # NumPy arrays, and columns, indices or tables of pandas, polars or Arrow
        array = np.asarray(value)
        return plain_parameter((array.astype("M8[us]") if array.dtype.kind == "M" else array).tolist())
    if isinstance(value, Mapping):
        return {"pairs": [[plain_parameter(key), plain_parameter(item)] for key, item in value.items()]}
    if isinstance(value, set | frozenset):  # the iteration order of sets differs between processes
        return sorted(map(plain_parameter, value), key=repr)
    if isinstance(value, list | tuple):
        return [plain_parameter(item) for item in value]
    is_object = hasattr(value, "get_params") or hasattr(value, "get_n_splits")  # an estimator or a splitter
    return (
        str(value) if isinstance(value, datetime.date | os.PathLike) else _plain_object(value) if is_object else value
    )


def _plain_object(value: Any) -> dict[str, Any]:
    """Return JSON values of an option record or fastens estimator; pickle others, or raise TypeError if forbidden."""
    if isinstance(value, Options):
        return {"options": type(value).__name__, "parameters": plain_parameter(value.get_params())}
    if _is_fastens_estimator(value):
        return {"estimator": type(value).__name__, "parameters": plain_parameter(value.get_params(deep=False))}
    content = to_pickle(value, "A parameter")
    return {"pickle": base64.b64encode(content.tobytes()).decode()}


def _is_fastens_estimator(value: Any) -> bool:
    """Return True if the class of an object is a saved estimator of fastens, not of a user or another library."""
    return SavedEstimator._kinds.get(type(value).__name__) is type(value)


def restored_parameter(value: Any) -> Any:
    """Return the parameter's value from the JSON values of `plain_parameter`; tuples become lists."""
    if isinstance(value, list):
        return [restored_parameter(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "pickle" in value:
        return from_pickle(np.frombuffer(base64.b64decode(value["pickle"]), dtype=np.uint8), "a parameter")
    if "options" in value:
        if value["options"] not in Options.kinds:
            raise ModelFileError(f"holds a {value['options']!r}, which this version of fastens does not support")
        return Options.kinds[value["options"]](**restored_parameter(value["parameters"]))
    if "estimator" in value:
        return _estimator_class(value["estimator"])(**restored_parameter(value["parameters"]))
    pairs = [(restored_parameter(key), restored_parameter(item)) for key, item in value["pairs"]]
    return {tuple(key) if isinstance(key, list) else key: item for key, item in pairs}


def _estimator_class(name: Any) -> type[SavedEstimator]:
    """Return the fastens class with this name; raise ModelFileError if this version does not have it."""
    if name not in SavedEstimator._kinds:
        class_of_part(name)  # imports the module of the class, which registers it
    if name not in SavedEstimator._kinds:
        raise ModelFileError(f"holds a {name!r}, which this version of fastens does not support")
    return SavedEstimator._kinds[name]


# Models within models --------------------------------------------------


def nested_arrays(prefix: str, model: Any, what: str) -> dict[str, np.ndarray]:
    """Return the state of a fitted model as arrays whose names start with `prefix`.

    Parameters
    ----------
    prefix : str
        Prefix of the array names.
    model : estimator
        Estimator of fastens, or of another library, which is pickled.
    what : str
        Name of the model in error messages.
    """
    if not _is_fastens_estimator(model):
        return {f"{prefix}pickle": to_pickle(model, what)}
    arrays, meta = model._to_state()
    state = json.dumps({"kind": type(model).__name__, "meta": meta}, separators=(",", ":")).encode()
    return {f"{prefix}state": np.frombuffer(state, dtype=np.uint8)} | {
        prefix + name: array for name, array in arrays.items()
    }


def nested_model(prefix: str, arrays: Mapping[str, np.ndarray], what: str) -> Any:
    """Return the fitted model from the arrays of `nested_arrays`; errors call the model `what`."""
    model_arrays = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return restored_model(model_arrays, what)


def numbered_arrays(prefix: str, arrays: Mapping[str, np.ndarray], n_numbers: int = 1) -> dict[str, Any]:
    """Group arrays named `prefix` + "3.0." + name (with `n_numbers` = 2) as {"3.0": {name: array}}."""
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if name.startswith(prefix):
            *numbers, array_name = name.removeprefix(prefix).split(".", n_numbers)
            groups.setdefault(".".join(numbers), {})[array_name] = array
    return groups


def restored_model(arrays: dict[str, np.ndarray], what: str) -> Any:
    """Return the model from the arrays of `nested_arrays`, named without prefix; errors call the model `what`."""
    if "pickle" in arrays:
        return from_pickle(arrays["pickle"], what)
    state = parse_json(arrays.pop("state").tobytes())
    return _estimator_class(state["kind"])._from_state(arrays, state["meta"])

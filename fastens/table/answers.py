"""Predictions for tables that are read in batches; an Arrow stream as input gives an Arrow stream as output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from itertools import chain, product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fastens.engine.parts import RowSource
from fastens.table.arrays import dense
from fastens.table.opening import in_parts
from fastens.table.parted import StreamedTable
from fastens.table.sources import Batches, call_on_cluster, cluster_of, is_stream, open_stream, wrap_method
from fastens.table.tables import concatenated, is_frame

# Methods that return one result per row, with the names of their columns in a stream.
ANSWERS = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log probability",
    "predict_joint_log_proba": "joint log probability",
    "predict_contributions": "contribution",
    "predict_interval": "interval",
    "predict_member_range": "member range",
    "predict_mean_interval": "interval of the mean",
    "predict_proba_interval": "interval",
    "predict_set": "set has",
    "predict_quantiles": "quantile",
    "predict_std": "spread",
    "predict_variance": "variance",
    "predict_survival_function": "survival",
    "decision_function": "decision",
    "score_samples": "score",
    "apply": "leaf",
    "transform": "feature",
}
_MARK = "answers_streams"  # attribute that marks wrapped methods
BY_ROW = ("init_score", "y", "group", "likelihood_ratio")  # arguments that also have one value per row


def answer_streams(cls: type) -> None:
    """Wrap the prediction methods of a class in place to accept streams, cluster tables and tables read in batches."""
    for name in ANSWERS:
        wrap_method(cls, name, _wrap_prediction_method)


def transforms_streams(cls: Any) -> Any:
    """Decorate a transformer class so that `transform` ignores `set_output` for streams and cluster tables."""
    method = cls.transform
    unwrapped = method.__wrapped__

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = unwrapped if is_stream(X) or cluster_of(X) else method
        return chosen(self, X, *args, **kwargs)

    cls.transform = answer
    return cls


def _wrap_prediction_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a prediction method wrapped to accept streams, cluster tables and tables that are read in batches.

    The method is returned unchanged if it is already wrapped, or if its first parameter is not X.
    """
    argument_names = frozenset(signature(method).parameters)
    if hasattr(method, _MARK) or list(signature(method).parameters)[1:2] != ["X"]:
        return method

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs and not argument_names.issuperset(kwargs):
            self._check_names(method, kwargs)
        if type(X) is np.ndarray:  # single-row prediction is so fast that forwarding empty arguments is noticeable
            return method(self, X, *args, **kwargs) if args or kwargs else method(self, X)
        return _predict_table(method, self, X, *args, **kwargs)

    setattr(answer, _MARK, True)
    return answer


def _predict_table(method: Callable[..., Any], self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Return method(self, X, ...) for an X other than a NumPy array: called directly, on its cluster, or by batches."""
    if is_frame(X):
        return method(self, X, *args, **kwargs)
    if cluster_of(X):
        arguments = signature(method).bind(self, X, *args, **kwargs).arguments
        return call_on_cluster(method, self, X, {name: arguments[name] for name in [*arguments][2:]})
    is_parted = (isinstance(X, RowSource) and not X.is_coded) or self._is_source(X)  # such as the rows of a fold
    if is_stream(X) or (is_parted and not self._capabilities.predicts_row_sources):
        arguments = signature(method).bind(self, X, *args, **kwargs).arguments
        return _predict_in_batches(method, **arguments)
    return method(self, X, *args, **kwargs)


def _predict_in_batches(method: Callable[..., Any], self: Any, X: Any, **arguments: Any) -> Any:
    """Return method(self, X, ...) computed batch by batch: an Arrow stream if X is a stream, otherwise joined rows."""
    self._check_fitted()
    if is_stream(X):
        predictions = _iter_predictions(method, self, _nonempty_parts(open_stream(X)), arguments)
        return _prediction_stream(self, method.__name__, predictions, arguments)
    source = in_parts(X)
    if not isinstance(source, RowSource):  # a sparse matrix
        return method(self, source, **arguments)
    is_named = isinstance(arguments.get("y"), str)  # a target column, which was not a feature in `fit`
    source = _select_fit_columns(source, self) if isinstance(source, Batches) and not is_named else source
    return _join_predictions(list(_iter_predictions(method, self, _nonempty_parts(source), arguments)))


def _select_fit_columns(source: Batches, model: Any) -> Batches:
    """Return the table with only the columns of `fit`, selected by name; raise ValueError if one is missing.

    The table is returned unchanged if `fit` saw no column names.
    """
    encoder = getattr(model, "_encoder", None)
    return source if encoder is None else StreamedTable(source).matched(encoder.names).source


def _nonempty_parts(source: RowSource) -> Iterator[Any]:
    """Return an iterator over the parts of a table that have rows; raise ValueError if none has."""
    nonempty_parts = (part for part in source.parts() if part.shape[0])
    first = next(nonempty_parts, None)
    if first is None:
        shape = 0, len(getattr(source, "columns", ()))
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    return chain([first], nonempty_parts)


def _iter_predictions(
    method: Callable[..., Any], model: Any, parts: Iterator[Any], arguments: dict[str, Any]
) -> Iterator[Any]:
    """Yield method(model, part, **arguments) for each part, with arguments by row sliced to the rows of the part.

    Raises ValueError at the end if an argument by row, such as `y`, does not have one value for each row.
    """
    listed = {name: arguments[name] for name in BY_ROW if not isinstance(arguments.get(name), str | None)}
    by_row = {name: np.asarray(values) for name, values in listed.items()}
    start = 0
    for part in parts:
        part_arguments = {name: values[start : start + part.shape[0]] for name, values in by_row.items()}
        yield method(model, part, **(arguments | part_arguments))
        start += part.shape[0]
    for name, values in by_row.items():
        if len(values) != start:
            raise ValueError(f"{name} must have one value for each of the {start} rows of X; got {len(values)}.")


def _join_predictions(predictions: list[Any]) -> Any:
    """Return the predictions of several batches joined along the rows; lists of one result per target stay lists."""
    if isinstance(predictions[0], list):
        return [_join_predictions(list(parts)) for parts in zip(*predictions, strict=True)]
    return concatenated(predictions)


def _prediction_stream(model: Any, method: str, predictions: Iterator[Any], arguments: dict[str, Any]) -> Any:
    """Return the predictions of batches as a pyarrow RecordBatchReader with one named column for each output.

    `method` is the name of the prediction method, and `arguments` are the arguments that it was called with.
    """
    import pyarrow

    tables = (pyarrow.table(_columns_by_name(model, method, answer, arguments)) for answer in predictions)
    first = next(tables)
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    return pyarrow.RecordBatchReader.from_batches(first.schema, batches)


# Names of columns --------------------------------------------------


def _columns_by_name(model: Any, method: str, predictions: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return one batch of predictions as a dict of columns by name; repeated names get a number as suffix."""
    columns = _named_columns(model, method, predictions, arguments)
    from fastens.files.dialects import numbered  # needs pyarrow, which arrays do without

    return dict(zip(numbered([name for name, _ in columns]), (values for _, values in columns), strict=True))


def _named_columns(model: Any, method: str, predictions: Any, arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return one batch of predictions of `method` as pairs of a column name, which may repeat, and values."""
    if isinstance(predictions, list):
        named_columns: list[tuple[str, Any]] = []
        of_targets = getattr(model, "classes_", [None] * len(predictions))
        for target, (target_answer, classes) in enumerate(zip(predictions, of_targets, strict=True)):
            columns = _label_columns(
                target_answer, ANSWERS[method], _axis_labels(model, method, target_answer.shape[1:], arguments, classes)
            )
            named_columns += [(f"{name} of target {target}", values) for name, values in columns]
        return named_columns
    if is_frame(predictions):  # each column of a frame has its own type
        columns = nw.from_native(predictions, eager_only=True).to_arrow().columns
        return [(f"{ANSWERS[method]} {index}", column) for index, column in enumerate(columns)]
    predictions = np.asarray(dense(predictions))
    classes = getattr(model, "classes_", None)
    return _label_columns(
        predictions, ANSWERS[method], _axis_labels(model, method, predictions.shape[1:], arguments, classes)
    )


def _label_columns(predictions: Any, name: str, axis_labels: list[list[str]]) -> list[tuple[str, Any]]:
    """Return predictions of shape (n_rows, ...) as pairs of a name, made of `name` and a label by axis, and values."""
    columns = predictions.reshape(len(predictions), -1).T
    return list(zip((" ".join([name, *labels]) for labels in product(*axis_labels)), columns, strict=True))


def level_names(levels: Any) -> list[str]:
    """Return quantiles or times as text with six digits, or with all digits if some would be equal otherwise."""
    texts = [f"{level:g}" for level in np.ravel(levels)]
    return texts if len(set(texts)) == len(texts) else [f"{level!r}" for level in np.ravel(levels).tolist()]


def _axis_labels(
    model: Any, method: str, sizes: tuple[int, ...], arguments: dict[str, Any], classes: Any
) -> list[list[str]]:
    """Return the labels of each axis of predictions of shape (n_rows, *sizes), in the order of the axes.

    Features, interval ends, quantiles and times are along the last axis (the last two axes for interactions), and
    classes along the others. The order matters because axes of different meaning may have the same size.
    """
    n_inner = 2 if arguments.get("interactions") else 1
    outer = [_output_labels(model, method, size, classes) for size in sizes[:-n_inner]]
    return outer + [_inner_labels(model, method, size, arguments, classes) for size in sizes[-n_inner:]]


def _inner_labels(model: Any, method: str, size: int, arguments: dict[str, Any], classes: Any) -> list[str]:
    """Return `size` labels of a last axis: interval ends, features, quantiles or times, or else the output labels."""
    names = getattr(model, "feature_names_in_", None)
    listed = arguments.get({"predict_quantiles": "quantiles", "predict_survival_function": "times"}.get(method, ""))
    if "interval" in method or method == "predict_member_range":
        return ["lower", "upper"]
    if method == "predict_contributions" and arguments.get("parts") and size == len(model.feature_parts_) + 1:
        return [*model.feature_parts_, "expected"]
    if method == "predict_contributions" and size == model.n_features_in_ + 1:
        return [*map(str, range(size - 1) if names is None else names), "expected"]
    if listed is not None and np.size(listed) == size:
        return level_names(listed)
    return _output_labels(model, method, size, classes, has_levels=method == "predict")


def _output_labels(model: Any, method: str, size: int, classes: Any, *, has_levels: bool = False) -> list[str]:
    """Return `size` labels of an axis of outputs: classes, predicted quantiles (if `has_levels`), or else indices."""
    levels = getattr(model, "_predicted_levels", None)
    if isinstance(classes, np.ndarray) and len(classes) == size and method not in ("apply", "transform"):
        return list(map(str, classes))
    if levels is not None and len(levels) == size and (has_levels or method == "predict_contributions"):
        return level_names(levels)
    return list(map(str, range(size)))

"""Public signatures have real types: `Any` stands only where no type says what is accepted or returned."""

from __future__ import annotations

import inspect

import fastens
from fastens.params import types

# Arguments and return values, by their names, that are `Any`, and why.
ALLOWED = {
    # Objects of libraries that fastens does not import.
    "trial": "a trial of Optuna",
    "from_model.model": "a model of another library, or the path of one",
    "explanation": "an Explanation of fastens or of shap",
    "dist": "a distribution of fastens or of SciPy",
    "predict_dist": "a distribution whose class depends on the loss",
    "read_table": "a frame of the library that is chosen by an argument",
    # Tables that are read in batches: paths, functions, streams, datasets and lazy frames of several libraries.
    "source": "any table",
    "table": "any table",
    "n_rows": "a number of rows, or any table",
    # Estimators: a base class without `predict` would make type checkers report each use of the model.
    "load": "an estimator whose class stands in the file",
    "from_model": "an estimator whose class depends on the model",
    "merge_models": "an estimator of the class of the models",
    "textbook": "an unfitted estimator of the class",
    "with_quality": "an unfitted estimator of the class, or an ensemble",
    "estimator": "a tree of a forest",
    "estimator_": "the base estimator",
    "best_estimator_": "the best estimator",
    "chosen_estimator_": "the chosen estimator",
    "map_estimator_": "the most probable model",
    "ml_estimator_": "the most likely model",
    "CallbackEnv.model": "the model that is trained",
    # Arrays, or lists of arrays with several targets: a union would make each caller cast the result.
    "predict_proba": "an array, or a list with several targets",
    "predict_log_proba": "an array, or a list with several targets",
    "predict_set": "an array, or a list with several targets",
    "oob_decision_function_": "an array, or a list with several targets",
    "n_classes_": "a number, or a list with several targets",
    "predict_std": "an array, or a list with several targets",
    "StackingRegressor.predict": "an array, or a tuple with return_std=True",
    "TuningResult.predict": "what `predict` of the best estimator returns",
    # Arrays, sparse matrices or frames, by `sparse_output` and `set_output`.
    "transform": "an array, a sparse matrix or a frame",
    "fit_transform": "an array, a sparse matrix or a frame",
    # The other results that depend on arguments.
    "explain": "an Explanation of shap if it is installed, otherwise of fastens",
    "given": "the background, whose place differs from the base class",
    "export": "text, bytes or an estimator, by the format",
    "categorical_features": "the columns that `kinds` makes categorical",
    "FiniteHypothesisLearner.predict": "an outcome, of any type",
    "output": "a class, a target, a quantile, or a pair of these",
    "structure": "the name of a search, or the edges as a mapping, pairs or a matrix",
    "start": "the name of a start, or tables by variable",
}


def signatures():
    """Yield the name and the signature of each public function, constructor, method and property."""
    for name in fastens.__all__:
        thing = getattr(fastens, name)
        if inspect.isfunction(thing):
            yield name, inspect.signature(thing)
        if not inspect.isclass(thing):
            continue
        if inspect.isfunction(thing.__init__) and not issubclass(thing, Exception):
            yield name, inspect.signature(thing.__init__)
        for own in dir(thing):
            static = inspect.getattr_static(thing, own)
            method = getattr(static, "fn", static)
            method = static.fget if isinstance(static, property) else getattr(method, "__func__", method)
            if not own.startswith("_") and inspect.isfunction(method) and method.__module__.startswith("fastens."):
                yield f"{name}.{own}", inspect.signature(inspect.unwrap(method))


def untyped():
    """Yield the names, as in `ALLOWED`, of everything that is `Any` or has no type."""
    missing = (inspect.Parameter.empty, "Any")
    for name, signature in signatures():
        own = name.rpartition(".")[2]
        for each in list(signature.parameters.values()):
            if each.name not in ("self", "cls") and each.kind != each.VAR_KEYWORD and each.annotation in missing:
                yield name, {each.name, f"{own}.{each.name}"}
        if own != name and signature.return_annotation in missing:
            yield name, {own, name}
        elif "." not in name and signature.return_annotation == "Any":
            yield name, {name}


def test_public_signatures_have_types():
    found = list(untyped())
    assert [(name, sorted(keys)) for name, keys in found if keys.isdisjoint(ALLOWED)] == []
    assert ALLOWED.keys() - set().union(*(keys for _, keys in found)) == set()


def test_shared_types_are_types():
    for name in ("RandomState", "ColumnChoice", "PerColumn", "ClassWeight", "Folds", "LossChoice"):
        assert type(None) in getattr(types, name).__args__ or str in getattr(types, name).__args__

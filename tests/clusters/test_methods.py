"""Every public method and function with a table of Dask, its columns in another order: right by name, or refused."""

from __future__ import annotations

import inspect
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fastens
from fastens.table.answers import ANSWERS
from reference.models import same_python
from reference.public_estimators import CLASSES, make, shrink_default_members, table_for

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
TABLES = {"X", "X_val", "background", "others", "outcomes", "table"}
NOT_TABLES = {"FiniteHypothesisLearner", "TextClassifier"}
# What is read in each call besides the table, where a method needs it.
MORE = {
    "feature": "x0",
    "features": ["x0"],
    "param_name": "max_depth",
    "param_range": [1, 2],
    "variable": "y",
    "times": [1.0, 2.0],
}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 3)


def quick(name):
    known = inspect.signature(CLASSES[name]).parameters
    given = {"n_estimators": 3, "max_layers": 1, "random_state": 0, "n_jobs": 1}
    if name.startswith("Conformal"):
        given["estimator"] = fastens.GradientBoostingClassifier(n_estimators=3) if "Class" in name else None
    return make(name, **{key: value for key, value in given.items() if key in known and value is not None})


def fitted(name):
    """A model of four named columns, and its table."""
    X, y = table_for(name)[:2]
    X = pd.DataFrame(X).add_prefix("x")
    more = {"qid": np.arange(len(X)) // 10} if name == "GradientBoostingRanker" else {}
    model = quick(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, **({"y": y} if "y" in inspect.signature(model.fit).parameters else {}), **more)
    return model, X, np.asarray(y)


def methods_of(kind):
    """The names of public methods that take a table."""
    for name in dir(kind):
        static = inspect.getattr_static(kind, name)
        if isinstance(static, classmethod):
            static = static.__func__
        function = getattr(static, "fn", static)
        if inspect.isfunction(function) and name[0] != "_" and TABLES & inspect.signature(function).parameters.keys():
            yield name


def arguments(function, y):
    """What a method needs besides its table."""
    found = {}
    for name, each in inspect.signature(function).parameters.items():
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD and name not in ("X", "self"):
            found[name] = MORE.get(name, y)
    return {name: value for name, value in found.items() if name != "given"}


def outcome(call, **given):
    """What a call returns, or the beginning of its error."""
    try:
        return call(**given)
    except ValueError as error:
        return str(error)[:40]


def same(found, expected):
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif sparse.issparse(expected):
        assert (found != expected).nnz == 0
    else:
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - NOT_TABLES))
def test_methods_answer_by_name_or_refuse(name):
    model, X, y = fitted(name)
    permuted = X[X.columns[::-1]]
    table = dd.from_pandas(permuted, npartitions=3, sort=False)
    walked = sorted(methods_of(type(model)))
    assert {"fit", "predict"} & set(walked)
    for method in walked:
        if not hasattr(model, method) or method.startswith("fit"):
            continue
        call = getattr(model, method)
        given = arguments(call, y)
        in_memory = given | ({"y": y} if "y" in given else {})
        if method == "score" and y.ndim == 1:  # scores of times: test_dask_predict.py
            in_memory["y"], given["y"] = y, dd.from_pandas(pd.Series(y), npartitions=3, sort=False)
        if method in {*ANSWERS, "score"}:
            expected = outcome(call, X=permuted, **in_memory)
            with dask.config.set(scheduler="sync"):
                same(outcome(lambda **each: dask.compute(call(**each))[0], X=table, **given), expected)  # noqa: B023
        else:
            refusal = rf"X must be a table in memory for {name}\.{method}; got a Dask DataFrame\. Pass X\.compute\(\)"
            with pytest.raises(TypeError, match=refusal):
                call(X=table, **given)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - NOT_TABLES))
def test_fits_need_a_cluster_or_say_that_they_need_all_rows(name):
    X = table_for(name)[0]
    table = dd.from_pandas(pd.DataFrame(X).add_prefix("x"), npartitions=3, sort=False)
    model = quick(name)
    takes = inspect.signature(model.fit).parameters
    is_distributed = model._capabilities.supports_distributed_fit
    reason = (
        r"X is a Dask collection, but there is no Dask client\. Create a"
        if is_distributed
        else f"X must be a table in memory for {name}"
    )
    for method in ("fit", "fit_predict", "fit_transform", "partial_fit"):
        if hasattr(model, method):
            refusal = f"X must be a table in memory for {name}.partial_fit" if method == "partial_fit" else reason
            with pytest.raises((TypeError, ValueError), match=refusal):
                getattr(model, method)(table, **({"y": table["x0"]} if "y" in takes else {}))


def test_other_tables_of_methods_and_functions():
    X = pd.DataFrame(np.arange(40.0).reshape(20, 2), columns=["a", "b"])
    y, table = X["a"].to_numpy(), dd.from_pandas(X, npartitions=2)
    model = fastens.GradientBoostingRegressor(n_estimators=2).fit(X, y)
    forest = fastens.RandomForestRegressor(n_estimators=2).fit(X, y)
    for call, named in [
        (lambda: model.explain(X, background=table), r"background .* GradientBoostingRegressor\.explain"),
        (lambda: model.fit(X, y, X_val=table, y_val=y), r"X_val .* GradientBoostingRegressor\.fit"),
        (lambda: forest.proximity(X, table), r"others .* RandomForestRegressor\.proximity"),
        (lambda: fastens.tune(table, y, "regression"), r"X .* tune"),
        (lambda: fastens.bias_variance_decomposition(model, table, y), r"X .* bias_variance_decomposition"),
        (
            lambda: fastens.bias_variance_decomposition(model, X, y, X_test=table),
            "X_test .* bias_variance_decomposition",
        ),
        (
            lambda: fastens.plot_bias_variance(model, table, y, param_name="max_depth", param_range=[1]),
            "X .* plot_bias_variance",
        ),
        (lambda: fastens.plot_decision_boundary(model, table), r"X .* plot_decision_boundary"),
        (lambda: fastens.estimate_errors(model, table, y), r"X .* estimate_errors"),
        (lambda: fastens.TableSource(table), r"table .* TableSource"),
        (lambda: fastens.BinnedTable.from_source(table, y), r"source .* BinnedTable\.from_source"),
    ]:
        with pytest.raises(TypeError, match=f"{named}; got a Dask DataFrame"):
            call()


class Dataset:
    """A type that is recognised as Ray's."""

    __module__ = "ray.data.dataset"


def test_datasets_of_ray_are_refused_by_name():
    model = fastens.RandomForestClassifier(n_estimators=2).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
    walked = [name for name in methods_of(type(model)) if name != "fit"]
    for method in walked:
        call = getattr(model, method)
        with pytest.raises(TypeError, match=rf"RandomForestClassifier\.{method}; got a Ray Dataset\. .*map_batches"):
            call(X=Dataset(), **arguments(call, [0, 1]))


@pytest.mark.slow
def test_models_of_tables_in_memory_import_no_cluster():
    code = "import sys, fastens; fastens.GradientBoostingRegressor(n_estimators=1).fit([[1.0]] * 9, [1.0] * 9)"
    command = [*same_python(), "-c", f"{code}; print('fastens.distributed' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False"]

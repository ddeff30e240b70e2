"""The model for TabArena, with stand-ins for what it takes from AutoGluon."""

from __future__ import annotations

import importlib.util
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fastens.tuning.tune import BOOSTING, SPACES

FOLDER = Path(__file__).resolve().parents[2] / "contrib" / "tabarena" / "fastens"
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {"a": RNG.normal(size=300), "b": RNG.normal(size=300), "c": pd.Categorical(RNG.choice(list("xyz"), 300))}
)
NUMBERS = pd.Series(X["a"] + (X["c"] == "x") + 0.1 * RNG.normal(size=300))
KINDS = pd.Series(np.digitize(NUMBERS, [0, 1]))


class AbstractModel:
    """As much of AutoGluon's as the model calls: parameters, and a frame that is passed on."""

    def __init__(self, problem_type: str, num_classes: int | None = None, **params: Any) -> None:
        self.problem_type, self.num_classes, self._params = problem_type, num_classes, params
        self._set_default_params()

    def _set_default_param_value(self, name: str, value: Any) -> None:
        self._params.setdefault(name, value)

    def _get_model_params(self) -> dict[str, Any]:
        return dict(self._params)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return {"ignored_type_group_raw": []}

    def preprocess(self, X: pd.DataFrame, is_train: bool = False) -> pd.DataFrame:
        return X

    def fit(self, **given: Any) -> AbstractModel:
        self._fit(**given)
        return self

    @classmethod
    def estimate_memory_usage_static(cls, **given: Any) -> int:
        return cls._estimate_memory_usage_static(**given)


@pytest.fixture
def load(monkeypatch):
    """What loads a file of the folder as a module of TabArena."""
    resources = types.SimpleNamespace(get_cpu_count=lambda only_physical_cores: 3)
    parts = {
        "autogluon.common.utils.resource_utils": {"ResourceManager": resources},
        "autogluon.core.models": {"AbstractModel": AbstractModel},
        "tabarena.utils.config_utils": {"CustomAGConfigGenerator": types.SimpleNamespace},
        "tabarena.models._method_metadata": {"MethodMetadata": types.SimpleNamespace(config=types.SimpleNamespace)},
        "tabarena.models._model_info": {"ModelInfo": types.SimpleNamespace},
    }
    for name, contents in parts.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    def load_file(name: str) -> Any:
        whole = f"tabarena.models.fastens.{name}"
        spec = importlib.util.spec_from_file_location(whole, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, whole, module)
        spec.loader.exec_module(module)
        return module

    return load_file


@pytest.mark.parametrize(("problem", "y"), [("regression", NUMBERS), ("multiclass", KINDS), ("binary", KINDS > 0)])
def test_stops_by_the_rows_that_are_given(load, problem, y):
    model = load("model").FastensModel(problem, learning_rate=0.3, n_iter_no_change=5, random_state=1)
    given = {"X_val": X[200:], "y_val": y[200:], "sample_weight_val": np.ones(100), "num_cpus": 1}
    model.fit(X=X[:200], y=y[:200], sample_weight=np.ones(200), **given)
    assert len(model.model.evals_result_["validation"]["loss"]) <= model.model.n_estimators_ + 5 < 1000
    assert model.model.score(X[200:], y[200:]) > 0.7
    assert model.model.get_params()["n_jobs"] == 1


def test_folds_without_validation_rows(load):
    model = load("model").FastensModel("binary", n_iter_no_change=3, learning_rate=0.3)
    model.fit(X=X, y=pd.Series(np.arange(300) < 5))
    assert model.model.early_stopping.folds == 8
    model.fit(X=X[:8], y=pd.Series([0, 1] * 4))
    assert model.model.early_stopping.folds == 4


@pytest.mark.slow
def test_keeps_to_the_time(load):
    model = load("model").FastensModel("regression", n_estimators=10**7, n_iter_no_change=10**7)
    start = time.monotonic()
    model.fit(X=X[:200], y=NUMBERS[:200], X_val=X[200:], y_val=NUMBERS[200:], time_limit=0.8)
    assert 0.5 < time.monotonic() - start < 2.5  # a busy machine may take its time


@pytest.mark.slow
def test_memory_grows_with_the_table(load):
    kind = load("model").FastensModel
    one = kind("multiclass", 3, categories__l2=1.0)
    small, large = (one._estimate_memory_usage(pd.DataFrame(np.zeros((n, 50)))) for n in (1000, 1_000_000))
    assert 3e8 < small < 6e8
    assert large - small > 1_000_000 * 50 * (8 + 8 + 2)  # the frame, its values and codes of both forms
    assert kind._class_tags()["can_estimate_memory_usage_static"]
    assert one._get_default_resources() == (3, 0)
    assert one._get_default_auxiliary_params()["valid_raw_types"] == ["int", "float", "category"]


def test_configurations_match_the_space(load):
    load("model")
    found = load("hpo").configurations(4)
    assert len(found) == 4
    assert all(set(each) == set(SPACES[BOOSTING].drawn) for each in found)
    info = load("info").fastens_info
    assert info.model_cls.ag_key == info.method_metadata.ag_key
    model = info.model_cls("regression", **found[0] | {"n_estimators": 5})
    assert model.fit(X=X, y=NUMBERS, X_val=X, y_val=NUMBERS).model.n_estimators_ == 5

"""Gradient boosting of fastens as a model of AutoGluon and TabArena."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from autogluon.common.utils.resource_utils import ResourceManager
from autogluon.core.models import AbstractModel

if TYPE_CHECKING:
    import pandas as pd

# Of the time, what is kept for putting the model together.
HEADROOM = 0.05
# Bytes of Python and the libraries; and the frame while it is read, over its size.
OVERHEAD = 300_000_000
FRAME = 2


class FastensModel(AbstractModel):
    """fastens: rounds are stopped by the rows to validate on, or by the time; categories are taken as they are."""

    ag_key = "FASTENS"
    ag_name = "fastens"
    seed_name = "random_state"

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        """Return the tasks."""
        return ["binary", "multiclass", "regression"]

    def _fit(  # noqa: PLR0913, PLR0917 - what AutoGluon gives
        self,
        X: pd.DataFrame,
        y: pd.Series,
        X_val: pd.DataFrame | None = None,
        y_val: pd.Series | None = None,
        time_limit: float | None = None,
        num_cpus: int = 1,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        **kwargs: Any,
    ) -> None:
        start = time.monotonic()
        from fastens import EarlyStopping, GradientBoostingClassifier, GradientBoostingRegressor

        kind = GradientBoostingRegressor if self.problem_type == "regression" else GradientBoostingClassifier
        # Parameters of records, such as "categories__min_samples", are set once the estimator is there.
        params = self._get_model_params()
        has_validation = X_val is not None and y_val is not None
        X = self.preprocess(X, is_train=True)
        given: dict[str, Any] = {"sample_weight": sample_weight}
        left = None if time_limit is None else max((1 - HEADROOM) * time_limit - (time.monotonic() - start), 0.1)
        stopping = EarlyStopping(time_limit=left)
        if has_validation:
            given |= {"X_val": self.preprocess(X_val), "y_val": y_val, "sample_weight_val": sample_weight_val}
        else:
            stopping = EarlyStopping(time_limit=left, folds=self._folds(y))
        model = kind(early_stopping=stopping, n_jobs=num_cpus)
        self.model = model.set_params(**params).fit(X, y, **given)

    def _folds(self, y: pd.Series) -> int:
        """Without rows to validate on, the mean of models of so many folds."""
        largest = len(y) if self.problem_type == "regression" else int(y.value_counts().max())
        return min(8, largest)

    def _set_default_params(self) -> None:
        defaults = {"n_estimators": 10_000, "learning_rate": 0.05, "n_iter_no_change": 100}
        for name, value in defaults.items():
            self._set_default_param_value(name, value)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return super()._get_default_auxiliary_params() | {"valid_raw_types": ["int", "float", "category"]}

    def _get_default_resources(self) -> tuple[int, int]:
        return ResourceManager.get_cpu_count(only_physical_cores=True), 0

    def _estimate_memory_usage(self, X: pd.DataFrame, **kwargs: Any) -> int:
        return self.estimate_memory_usage_static(
            X=X,
            problem_type=self.problem_type,
            num_classes=self.num_classes,
            hyperparameters=self._get_model_params(),
            **kwargs,
        )

    @classmethod
    def _estimate_memory_usage_static(
        cls,
        *,
        X: pd.DataFrame,
        hyperparameters: dict[str, Any] | None = None,
        num_classes: int | None = 1,
        **kwargs: Any,
    ) -> int:
        """Bytes that a fit takes at most, by the arrays that it holds; the trees as if there were 1000 rounds."""
        from fastens import GradientBoostingRegressor, estimate_memory

        params = (hyperparameters or {}) | {"n_estimators": 1000, "early_stopping": True}
        known = GradientBoostingRegressor().set_params(
            **{name: value for name, value in params.items() if name in GradientBoostingRegressor().get_params()}
        )
        n_outputs = num_classes if num_classes is not None and num_classes > 2 else 1
        needs = estimate_memory(known, len(X), X.shape[1], n_outputs=n_outputs, weighted=True)
        frame = int(X.memory_usage(index=False, deep=False).sum())
        return OVERHEAD + FRAME * frame + 8 * X.shape[0] * X.shape[1] + needs.in_memory

    @classmethod
    def _class_tags(cls) -> dict[str, Any]:
        return {"can_estimate_memory_usage_static": True}

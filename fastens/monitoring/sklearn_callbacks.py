"""scikit-learn's protocol of callbacks, where the installed version has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "Tasks", "tear_down_callbacks"]


class Tasks:
    """The rounds of a fit, at most `n_rounds`, as tasks of scikit-learn's callbacks."""

    def __init__(self, model: Any, n_rounds: int) -> None:
        self.are_watched = bool(getattr(model, "_skl_callbacks", None))
        self._model = model
        if self.are_watched:
            self._fit = model._init_callback_context(max_subtasks=n_rounds)
            self._fit.call_on_fit_task_begin(estimator=model)
            self._n_left = n_rounds
            self._begin_round()

    def _begin_round(self) -> None:
        self._round = self._fit.subcontext(task_name="round")
        self._round.call_on_fit_task_begin(estimator=self._model)

    def end_round(self, partial: Callable[[], Any]) -> bool:
        """Call the callbacks; return whether one wants to stop."""
        if not self.are_watched:
            return False

        def attributes() -> dict[str, Any]:
            """What makes a copy of the estimator ready to predict."""
            given = self._model.get_params(deep=False)
            return {name: value for name, value in vars(partial()).items() if name not in given}

        self._n_left -= 1
        stop = self._round.call_on_fit_task_end(estimator=self._model, reconstruction_attributes=attributes)
        if self._n_left and not stop:
            self._begin_round()
        return bool(stop)

    def end(self) -> None:
        """Call the callbacks at the end of the fit."""
        if self.are_watched:
            self._fit.call_on_fit_task_end(estimator=self._model, reconstruction_attributes=lambda: vars(self._model))


def tear_down_callbacks(model: Any) -> None:
    """End the callbacks that a fit has set up, whether it failed or not."""
    if getattr(model, "_skl_callbacks", None):
        with_callbacks(lambda _: None)(model)

"""Saving of estimators: parameters, what the door learned, and whatever arrays an estimator's fitted state has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastens.base import BaseFastens
from fastens.storage import save_model


STATISTICS = "statistics."


class SavedEstimator(BaseFastens):
    """An estimator that can be written to a file.

    A subclass gives its fitted state as arrays (`_fitted_arrays`) and takes it back (`_restore_fitted`).
    """

    metadata_: dict[str, Any] | None = None

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to a file that `fastens.load` reads; reading it runs no code.

        Parameters
        ----------
        path : str or path
            The file; one that is there is replaced as a whole, or not at all.
        metadata : dict, optional
            Anything JSON can hold; a loaded model has it as `metadata_`.
        """
        self._check_fitted()
        if metadata is not None:
            self.metadata_ = dict(metadata)
        save_model(path, self)

    def _to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = self._fitted_arrays()
        arrays |= {f"fitted.{name}": np.asarray(getattr(self, name)) for name in self._fitted_names()}
        arrays |= {STATISTICS + name: array for name, array in self._statistics_arrays().items()}
        meta = {
            "parameters": {name: plain_parameter(value) for name, value in self.get_params(deep=False).items()},
            "door": self._door_state(),
            "metadata": self.metadata_,
        }
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any:
        model = cls(**{name: restored_parameter(value) for name, value in meta["parameters"].items()})
        model._check_parameters()
        model._restore_door(meta["door"])
        model._restore_statistics(
            {name.removeprefix(STATISTICS): array for name, array in arrays.items() if name.startswith(STATISTICS)}
        )
        if meta["metadata"] is not None:
            model.metadata_ = dict(meta["metadata"])
        for name in model._fitted_names():
            array = arrays[f"fitted.{name}"]
            setattr(model, name, array if array.ndim else array.item())
        model._restore_fitted(arrays)
        return model

    def _fitted_names(self) -> tuple[str, ...]:
        """The fitted attributes, numbers and arrays of numbers, that are saved as they are."""
        return ()

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        """The rest of the fitted state, as plain arrays."""
        return {}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `_fitted_arrays` gave, and make again what follows from it.

        Raises
        ------
        ValueError
            If the arrays are not those of such a model; what passes can be used safely.
        """


def plain_parameter(value: Any) -> Any:
    """A parameter as JSON can hold it: None for a random generator, a list of pairs for a dict."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[plain_parameter(key), plain_parameter(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_parameter(item) for item in value]
    return value


def restored_parameter(value: Any) -> Any:
    """The inverse of `plain_parameter`."""
    return dict(value["pairs"]) if isinstance(value, dict) else value

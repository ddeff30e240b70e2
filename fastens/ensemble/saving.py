"""Saving and loading of estimators that hold one TreeEnsemble."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastens.base import BaseFastens
from fastens.engine.trees import TreeEnsemble
from fastens.storage import ModelFileError, save_model


class SavedEnsemble(BaseFastens):
    """An estimator whose fitted state is the door's, a TreeEnsemble and a few numbers."""

    _ensemble: TreeEnsemble
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
        arrays = {f"ensemble.{name}": array for name, array in self._ensemble.to_arrays().items()}
        arrays |= {f"fitted.{name}": np.asarray(getattr(self, name)) for name in self._fitted_names()}
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
        if meta["metadata"] is not None:
            model.metadata_ = dict(meta["metadata"])
        for name in model._fitted_names():
            array = arrays[f"fitted.{name}"]
            setattr(model, name, array if array.ndim else array.item())
        prefix = "ensemble."
        model._ensemble = TreeEnsemble.from_arrays(
            {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        )
        model._restored()
        is_categorical = model._ensemble.binning.is_categorical
        if not np.array_equal(is_categorical, model._encoder.is_categorical):
            raise ModelFileError("the trees and the columns do not fit together")
        if model._ensemble.n_outputs != model._n_outputs():
            raise ModelFileError("the trees and the classes do not fit together")
        return model

    def _fitted_names(self) -> tuple[str, ...]:
        """The fitted attributes, numbers and arrays of numbers, that are saved with the trees."""
        return ()

    def _n_outputs(self) -> int:
        """How many raw predictions a row has."""
        raise NotImplementedError

    def _restored(self) -> None:
        """Make again what follows from the rest."""


def plain_parameter(value: Any) -> Any:
    """A parameter as JSON can hold it: None for a random generator, a list of pairs for a dict."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[plain_parameter(key), plain_parameter(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [plain_parameter(item) for item in value]
    return value


def restored_parameter(value: Any) -> Any:
    """The inverse of `plain_parameter`."""
    return dict(value["pairs"]) if isinstance(value, dict) else value

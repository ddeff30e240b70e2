"""Saving and loading of estimators that hold one TreeEnsemble."""

from __future__ import annotations

import numpy as np

from fastens.engine.trees import TreeEnsemble
from fastens.saving import SavedEstimator
from fastens.storage import ModelFileError

PREFIX = "ensemble."


class SavedEnsemble(SavedEstimator):
    """An estimator whose fitted state is the door's, a TreeEnsemble and a few numbers."""

    _ensemble: TreeEnsemble

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {PREFIX + name: array for name, array in self._ensemble.to_arrays().items()}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._ensemble = TreeEnsemble.from_arrays(
            {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        )
        self._restored()
        if not np.array_equal(self._ensemble.binning.is_categorical, self._is_categorical):
            raise ModelFileError("the trees and the columns do not fit together")
        if self._ensemble.n_outputs != self._n_outputs():
            raise ModelFileError("the trees and the classes do not fit together")

    def _n_outputs(self) -> int:
        """How many raw predictions a row has."""
        raise NotImplementedError

    def _restored(self) -> None:
        """Make again what follows from the rest."""

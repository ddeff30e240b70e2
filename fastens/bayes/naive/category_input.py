"""Input of models with columns of categories: declared values, and categories that `fit` did not see."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from fastens.bayes.counts.declared import declared_values, with_categories, with_values
from fastens.bayes.naive.base_naive_bayes import BaseNaiveBayes, pieces_of
from fastens.table.at_sight import AtSight
from fastens.table.frames import is_frame, table_from_frame
from fastens.table.memory_limits import FitNeeds


class CategoryInput(BaseNaiveBayes):
    """A naive Bayes with columns of categories, and a policy for unseen ones."""

    _keeps_integers = True
    categorical_features: Any = "from_dtype"
    unseen: str

    def _learn_table(self, X: Any, needs: FitNeeds | None = None) -> Any:
        table = super()._learn_table(X, needs)
        if isinstance(table, AtSight):
            self._encoder.unseen = -1.0
            return table
        # A copy: models of one table may share what was learned of it.
        encoder = with_categories(self._encoder, list(self._encoder.categories))
        encoder.unseen = -1.0
        self._encoder, table = with_values(encoder, table, declared_values(X))
        return table

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        super()._restore_encoder(state)
        self._encoder.unseen = -1.0

    def _check_categories(self, table: Any, X: Any) -> None:
        asked = [likelihood for likelihood in self._likelihoods if likelihood.unseen == "error"]
        for start, part in pieces_of(table) if asked else ():
            for likelihood in asked:
                found = likelihood.first_unseen(part)
                if found is not None:
                    row, column = start + found[0], found[1]
                    names = self._encoder.names
                    name = repr(names[column]) if names else str(column)
                    value = _value_at(X, row, column, names)
                    raise ValueError(f"Column {name} must hold categories seen in fit; row {row} holds {value!r}.")


def _value_at(X: Any, row: int, column: int, names: list[Any] | None) -> Any:
    if is_frame(X):
        table = table_from_frame(X)
        known = table.names or []
        place = known.index(names[column]) if names and names[column] in known else column
        return nw.from_native(table.native, eager_only=True)[:, place].to_list()[row]
    if sparse.issparse(X):
        values = X.tocsr()[row : row + 1].toarray()[0]
    else:
        values = (X if isinstance(X, list | tuple) else np.asarray(X))[row]
    value = values[column]
    return value.item() if isinstance(value, np.generic) else value

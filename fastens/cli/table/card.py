"""What a model file records about the table that the model was trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.table.split import Split

KEY = "table"


@dataclass(frozen=True)
class ModelCard:
    """Target and task, the columns, what they hold and how they are written, the best constant, the rows held out."""

    target: str | None
    target_kind: str | None
    task: str
    kinds: dict[str, str]
    constant: list[float] | None
    split: Split | None = None
    schema: dict[str, Any] = field(default_factory=dict)

    def trained_on(self, y: NDArray, table: pa.Table) -> NDArray[np.bool_] | None:
        """Which rows the model was trained on, if this is the target of the table of training; else None."""
        split = self.split
        if split is None or not split.is_of(y):
            return None
        if any(name is not None and name not in table.column_names for name in (split.time, split.group)):
            return None
        return ~split.held_out(y, self.task, split.order(table))

    def to_metadata(self) -> dict[str, Any]:
        """The card as plain values, for `model.save(path, metadata=...)`."""
        return {KEY: asdict(self)}

"""The file of a search: a line for what is searched, then one for each trial, as JSON.

A line is written as a whole after its trial. Where a process died while it wrote, the last line is cut and left out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.storage import replacing

VERSION = 1


@dataclass(frozen=True)
class Trial:
    """A model that was tried.

    Attributes
    ----------
    index : int
        Its number, from 0.
    family : str
        The kind of model.
    params : dict
        The parameters that are not the defaults.
    losses : list of float
        The loss on each fold; fewer than there are folds where the model was given up as worse than most.
    n_estimators : list of int
        Of each fold, the rounds or trees.
    seconds : float
        Of all fits and predictions.
    is_complete : bool
        Whether it was fitted on all folds.

    Examples
    --------
    >>> from fastens import Trial
    >>> Trial(0, "boosting", {"learning_rate": 0.05}, losses=[0.31, 0.29]).is_complete
    False
    """

    index: int
    family: str
    params: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    n_estimators: list[int] = field(default_factory=list)
    seconds: float = 0.0
    is_complete: bool = False

    @property
    def loss(self) -> float:
        """The mean loss over the folds."""
        return float(np.mean(self.losses)) if self.losses else float("inf")

    @property
    def standard_error(self) -> float:
        """The standard error of that mean; NaN where there are fewer than two folds."""
        n_folds = len(self.losses)
        return float(np.std(self.losses, ddof=1) / np.sqrt(n_folds)) if n_folds > 1 else float("nan")


class SearchStateError(ValueError):
    """The file of a search is of another search, or is none."""


def fingerprint(X: Any, y: NDArray, sample_weight: NDArray | None, settings: Mapping[str, Any]) -> str:
    """What tells searches apart: the target, the shape and columns of the table, and what is searched how."""
    found = hashlib.sha256(json.dumps([settings, _columns_of(X), len(y)], sort_keys=True).encode())
    for values in (y, sample_weight):
        if values is not None:
            plain = "\0".join(map(str, values)).encode() if values.dtype == object else values.tobytes()
            found.update(plain)
    return found.hexdigest()


def _columns_of(X: Any) -> list[Any]:
    """The names of columns, their types where they have their own, and how many cells an Arrow table lacks in each."""
    if hasattr(X, "column_names"):
        columns = zip(X.column_names, X.columns, strict=True)
        return [(name, str(column.type), column.null_count) for name, column in columns]
    names, types = list(map(str, getattr(X, "columns", ()))), list(map(str, getattr(X, "dtypes", ())))
    return [names, types if len(types) == len(names) else []]


class SearchFile:
    """Trials in a file, those of an earlier run first; without a path, nowhere."""

    def __init__(self, path: str | os.PathLike[str] | None, of: str) -> None:
        self.path, self.trials = path, list[Trial]()
        if path is None:
            return
        if os.path.exists(path) and os.path.getsize(path):
            self.trials = _read(path, of)
        header = json.dumps({"fastens search": VERSION, "of": of})
        with replacing(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in (header, *map(_line, self.trials)))

    def append(self, trial: Trial) -> None:
        """Keep a trial."""
        self.trials.append(trial)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(trial) + "\n")
                file.flush()
                os.fsync(file.fileno())


def _line(trial: Trial) -> str:
    return json.dumps(asdict(trial))


def _read(path: str | os.PathLike[str], of: str) -> list[Trial]:
    name = os.fspath(path)
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")[:-1]  # what follows the last line end is cut
    try:
        header = json.loads(lines[0])
        is_ours, known = header["fastens search"] == VERSION, header["of"]
    except (IndexError, KeyError, TypeError, ValueError):
        is_ours, known = False, ""
    if not is_ours:
        raise SearchStateError(f"state must be the file of a search, or a new one; {name} holds something else.")
    if known != of and any(lines[1:]):  # one that failed before its first trial stands in nobody's way
        raise SearchStateError(
            f"state must be of a search of the same rows and settings; {name} is of another one: choose another file, "
            "or remove it."
        )
    try:
        return [Trial(**json.loads(line)) for line in lines[1:]]
    except (TypeError, ValueError) as error:
        raise SearchStateError(f"state is damaged: {name} holds a line that is no trial.") from error

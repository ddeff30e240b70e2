"""The kinds of models that the command line offers, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastens
from fastens.cli.errors import CommandError
from fastens.cli.target import CLASSIFICATION

DEFAULT = "boosting"


@dataclass(frozen=True)
class Family:
    """A kind of model: what makes one for each task; None where there is none."""

    title: str
    classifier: Callable[..., Any] | None
    regressor: Callable[..., Any] | None

    def estimator(self, task: str) -> Callable[..., Any] | None:
        """The class for a task."""
        return self.classifier if task == CLASSIFICATION else self.regressor


FAMILIES = {
    "boosting": Family("gradient boosting", fastens.GradientBoostingClassifier, fastens.GradientBoostingRegressor),
}


def families(task: str) -> dict[str, Callable[..., Any]]:
    """The classes that can do a task, by the names of their families."""
    classes = {name: family.estimator(task) for name, family in FAMILIES.items()}
    return {name: estimator for name, estimator in classes.items() if estimator is not None}


def estimator_class(name: str, task: str) -> Callable[..., Any]:
    """The class of a family for a task."""
    known = families(task)
    if name not in known:
        raise CommandError(f"--model {name} does not do {task}; these do: {', '.join(known)}")
    return known[name]

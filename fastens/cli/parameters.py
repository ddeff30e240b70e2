"""The parameters of the estimators as options of the command line."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastens
from fastens.cli.errors import CommandError, first_line
from fastens.cli.target import CLASSIFICATION, REGRESSION

ESTIMATORS: dict[str, type] = {
    CLASSIFICATION: fastens.GradientBoostingClassifier,
    REGRESSION: fastens.GradientBoostingRegressor,
}


def whole_or_none(text: str) -> int | None:
    """A whole number, or None for "none"."""
    return None if text.lower() == "none" else int(text)


def count_or_share(text: str) -> int | float:
    """A whole number is a count, a number with a point a share."""
    return int(text) if text.isdecimal() else float(text)


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator that the command line offers, with the estimator's default.

    A parameter without `parse` is a switch.
    """

    name: str
    parse: Callable[[str], Any] | None
    metavar: str
    help: str

    @property
    def option(self) -> str:
        """The option on the command line."""
        return "--" + self.name.replace("_", "-")


PARAMETERS = (
    Parameter("n_estimators", int, "N", "rounds of boosting"),
    Parameter("learning_rate", float, "RATE", "how much each round adds"),
    Parameter("max_leaf_nodes", whole_or_none, "N", "most leaves of a tree, or none"),
    Parameter("max_depth", whole_or_none, "N", "most levels of a tree, or none"),
    Parameter("min_samples_leaf", int, "N", "fewest rows in a leaf"),
    Parameter("min_child_weight", float, "W", "smallest sum of hessians in a leaf"),
    Parameter("min_gain_to_split", float, "GAIN", "smallest gain worth a split"),
    Parameter("l2_regularization", float, "L2", "shrinks the values of leaves"),
    Parameter("max_bins", int, "N", "bins of a column"),
    Parameter("max_features", count_or_share, "M", "columns tried at each split: a count or a share"),
    Parameter("subsample", float, "SHARE", "share of the rows each round sees"),
    Parameter(
        "loss", str, "NAME", "what is minimised; for regression also absolute_error, quantile, huber, poisson, gamma"
    ),
    Parameter("quantile", float, "Q", "the quantile predicted with --loss quantile"),
    Parameter("alpha", float, "Q", "with --loss huber: the quantile of the errors beyond which they count linearly"),
    Parameter("class_weight", str, "balanced", "weight classes so that all count the same"),
    Parameter("early_stopping", None, "", "stop when the loss on validation rows no longer falls"),
    Parameter("validation_fraction", float, "SHARE", "share of the training rows watched for early stopping"),
    Parameter("n_iter_no_change", int, "N", "rounds without progress before stopping early"),
    Parameter("tol", float, "TOL", "smallest change of the loss that counts as progress"),
    Parameter("n_jobs", int, "N", "threads"),
)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add an option for every parameter; those that are not given are left to the estimator."""
    defaults = _defaults()
    group = parser.add_argument_group("parameters of the model")
    for parameter in PARAMETERS:
        text = f"{parameter.help} (default: {_shown(defaults[parameter.name])})"
        form: dict[str, Any] = {"type": parameter.parse, "metavar": parameter.metavar}
        if parameter.parse is None:
            form = {"action": argparse.BooleanOptionalAction}
        group.add_argument(parameter.option, help=text, default=argparse.SUPPRESS, **form)


def make_model(task: str, options: argparse.Namespace) -> Any:
    """The estimator for the task, with the parameters given on the command line."""
    estimator = ESTIMATORS[task]
    known = inspect.signature(estimator).parameters
    given = {name: value for name, value in vars(options).items() if name in _defaults()}
    foreign = [name for name in given if name not in known]
    if foreign:
        raise CommandError(f"--{foreign[0].replace('_', '-')} does not apply to {task}")
    return estimator(**given)


def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Fit, with an error about a parameter or the table turned into a line for the user."""
    try:
        return model.fit(*args, **kwargs)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def _defaults() -> dict[str, Any]:
    """The default of every parameter of every estimator."""
    signatures = [inspect.signature(estimator).parameters for estimator in ESTIMATORS.values()]
    return {name: parameter.default for signature in signatures for name, parameter in signature.items()}


def _shown(default: Any) -> str:
    """A default as it would be typed on the command line."""
    words = {None: "none", True: "yes", False: "no"}
    if default is None or isinstance(default, bool):
        return words[default]
    return str(default)

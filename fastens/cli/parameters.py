"""The parameters of the estimators as options of the command line."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastens.cli.errors import CommandError, first_line
from fastens.cli.models import DEFAULT, FAMILIES, estimator_class


def whole_or_none(text: str) -> int | None:
    """A whole number, or None for "none"."""
    return None if text.lower() == "none" else int(text)


def count_or_share(text: str) -> int | float:
    """A whole number is a count, a number with a point a share."""
    return int(text) if text.isdecimal() else float(text)


@dataclass(frozen=True)
class Parameter:
    """One parameter of estimators that the command line offers, with their own defaults.

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
    """Add `--model` and an option for every parameter; those that are not given are left to the estimator."""
    parser.add_argument("--model", choices=FAMILIES, default=DEFAULT, help=f"kind of model (default: {DEFAULT})")
    group = parser.add_argument_group("parameters of the model")
    for parameter in PARAMETERS:
        text = f"{parameter.help} (default: {_shown_defaults(parameter.name)})"
        form: dict[str, Any] = {"type": parameter.parse, "metavar": parameter.metavar}
        if parameter.parse is None:
            form = {"action": argparse.BooleanOptionalAction}
        group.add_argument(parameter.option, help=text, default=argparse.SUPPRESS, **form)


def make_model(task: str, options: argparse.Namespace) -> Any:
    """The estimator for the task, with the parameters given on the command line."""
    estimator = estimator_class(options.model, task)
    known = _signature(estimator)
    given = {parameter.name for parameter in PARAMETERS} & vars(options).keys()
    foreign = sorted(given - known.keys())
    if foreign:
        raise CommandError(f"--{foreign[0].replace('_', '-')} does not apply to {options.model} for {task}")
    values = {name: getattr(options, name) for name in given}
    return estimator(**values, **({"random_state": options.random_state} if "random_state" in known else {}))


def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Fit, with an error about a parameter or the table turned into a line for the user."""
    try:
        return model.fit(*args, **kwargs)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def _signature(estimator: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    return {name: parameter.default for name, parameter in inspect.signature(estimator).parameters.items()}


def _shown_defaults(name: str) -> str:
    """The default of a parameter: one, where all models that have the parameter agree, else one for each."""
    found: dict[str, list[str]] = {}
    for family, kind in FAMILIES.items():
        for estimator in (kind.classifier, kind.regressor):
            signature = {} if estimator is None else _signature(estimator)
            if name in signature and family not in (models := found.setdefault(_shown(signature[name]), [])):
                models.append(family)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{' and '.join(models)} {default}" for default, models in found.items())


def _shown(default: Any) -> str:
    """A default as it would be typed on the command line."""
    words = {None: "none", True: "yes", False: "no"}
    if default is None or isinstance(default, bool):
        return words[default]
    return str(default)

"""`fastens convert`: convert a model of another library to a fastens model file."""

from __future__ import annotations

import argparse
import json
from typing import Any

import fastens
from fastens.cli.report.report import Report
from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.tables import add_overwrite, check_output


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens convert` with its options to `commands`."""
    text = (
        "Convert a model of another library (LightGBM text, XGBoost JSON or UBJSON, CatBoost JSON, ONNX) to a "
        "fastens model file with the same predictions."
    )
    parser = commands.add_parser("convert", description=text)
    parser.add_argument("model", metavar="MODEL", help="a model file of another library")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the fastens model file to write")
    example = '{"column": ["first", "second"]}'
    text = f"a JSON file with the categories of columns for which the model stores only codes: {example}"
    parser.add_argument("--categories", metavar="JSON", help=text)
    text = "a number that represents missing values, such as the missing argument of XGBoost's DMatrix"
    parser.add_argument("--missing", type=float, metavar="NUMBER", help=text)
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the model, convert it and save it."""
    check_output(options.output, "a model", [options.model], options.overwrite)
    try:
        categories = {} if options.categories is None else read_categories(options.categories)
        model = fastens.from_model(
            options.model, categories=_column_keys_to_indices(categories, options.model), missing=options.missing
        )
    except FileNotFoundError as error:
        raise CommandError(f"no such file: {error.filename}") from error
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot convert the model: {first_line(error)}") from error
    try:
        model.save(options.output)
    except OSError as error:
        raise CommandError(f"cannot write {options.output}: {error.strerror or error}") from error
    n_trees = model._ensemble.n_trees
    Report().line(
        f"{type(model).__name__} with {n_trees} {'tree' if n_trees == 1 else 'trees'} and {model.n_features_in_} "
        f"{'column' if model.n_features_in_ == 1 else 'columns'} written to {options.output}"
    )


def read_categories(path: str) -> dict[str, list[Any]]:
    """Read a JSON file that maps names or indices of columns to lists of categories."""
    rule = f'--categories: {path} must hold JSON such as {{"column": ["first", "second"]}}'
    try:
        with open(path, encoding="utf-8") as file:
            categories = json.load(file)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{rule}: {first_line(error)}") from error
    if not isinstance(categories, dict) or not all(isinstance(values, list) for values in categories.values()):
        raise CommandError(rule)
    return categories


def _column_keys_to_indices(categories: dict[str, list[Any]], model: str) -> dict[Any, list[Any]]:
    """Return categories by column; keys of digits become column indices unless the model file has such names."""
    if not any(map(str.isdecimal, categories)):
        return dict(categories)
    names = set(getattr(fastens.from_model(model), "feature_names_in_", ()))
    return {int(key) if key.isdecimal() and key not in names else key: values for key, values in categories.items()}

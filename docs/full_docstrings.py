"""Docstrings of methods with all sections, as the reference of the site shows them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from fastens.params.docstrings import ROWS, entries

# Default descriptions of arguments and return values by name, for methods whose docstrings lack these sections.
_ARGUMENTS = """\
ax : matplotlib Axes, optional
    Axes to draw on. If None, new axes are created.
random_state : int, RandomState or None
    Seed of the random draws.
n : int
    Number of draws.
deep : bool, default=True
    If True, include the parameters of nested estimators and option records.
input_features : array of str, optional
    Names of the input columns. If None, the names seen in `fit` are used.
init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
    Raw predictions to add to the model's raw predictions.
member : int
    Index of a base estimator, starting at 0.
mode : {"bayes", "map", "ml", "gibbs"}, default="bayes"
    Hypotheses that predict. "bayes": all hypotheses, weighted by their posterior. "map": the hypothesis with the
    highest posterior. "ml": the hypothesis with the highest likelihood. "gibbs": one drawn from the posterior.
evidence : dict, optional
    Observed values of variables by name.
path : path
    Path of the file.
title : str
    Name of the network in the file.
outcomes : array-like of shape (n_observed,)
    Labels of the observed outcomes.
epsilon, delta : float
    Maximum error, and maximum probability that it is exceeded, between 0 and 1.
"""
_REST = {
    "**metadata": "Metadata that scikit-learn's routing passes on.",
    "**params": "Parameters and their values.",
    "*callbacks": "Callbacks of scikit-learn.",
}
_RETURNS = """\
fit, partial_fit, refit_leaves, set_params, set_callbacks : object
    The estimator itself.
predict : array of shape (n_samples,) or (n_samples, n_targets)
    Predicted classes or values.
predict_proba : array of shape (n_samples, n_classes)
    Class probabilities in the order of `classes_`, or a list of such arrays with several targets.
predict_log_proba, predict_joint_log_proba : array of shape (n_samples, n_classes)
    Log probabilities in the order of `classes_`.
decision_function : array of shape (n_samples,) or (n_samples, n_classes)
    Raw predictions; for binary targets, the raw prediction of the second class.
score, aic, bic, log_likelihood, log_probability, posterior_of : float
    Value for the whole input.
sample_complexity, get_depth, get_n_leaves : int
    Requested count.
score_samples, predict_std : array of shape (n_samples,) or (n_samples, n_outputs)
    Value for each row.
margins : array of shape (n_samples,)
    Margin of each row.
predict_all, predict_proba_all : array of shape (n_estimators, n_samples, ...)
    Predictions of each tree.
predict_interval, predict_member_range : array of shape (n_samples, ..., 2)
    Lower and upper bound for each row.
apply : array of int, of shape (n_samples,) or (n_samples, n_trees)
    Leaf indices.
transform, fit_transform : array or sparse matrix of shape (n_samples, n_features_out)
    Transformed rows.
staged_predict, staged_predict_proba, staged_decision_function : iterator of arrays
    Results of the method without `staged_` after each round.
staged_errors, staged_score : array or iterator of float
    Value after each round.
get_feature_names_out : array of str
    Names of the columns that `transform` returns.
get_params : dict
    Parameters by name.
get_metadata_routing : MetadataRouter
    Routing information for scikit-learn.
in_bag : array of int, of shape (n_samples,)
    Number of times that each row was drawn.
sample_posterior : list or array
    Draws from the posterior.
members : iterator of Conjunction
    Hypotheses, one at a time.
best_question : Question
    Most informative instance to label, with the fraction of the hypotheses that cover it.
answers : array of int, of shape (n_samples, n_questions)
    Binary features.
leaf_features : CSR matrix of shape (n_samples, n_leaves)
    One column for each leaf of all trees, ordered by tree.
decision_path : CSR matrix of shape (n_samples, n_nodes)
    Node indicator matrix: 1 if a row passes through a node.
contribution_curve : Contribution
    Values of the column, with the contribution of each.
training_error_bound : array of shape (n_rounds,)
    Upper bound after each round.
export : str, bytes or object
    Model in the requested format, or None if it was written to a file.
plot : matplotlib Axes
    Axes with the plot.
permutation_importance : sklearn.utils.Bunch
    `importances_mean`, `importances_std` and `importances`.
importances : array of shape (n_features,)
    Importance of each column.
to_text : str
    Text with one line per node.
to_dataframe : pandas.DataFrame
    Table with one row per node.
"""


def full_docstring(method: Any) -> str:
    """Return the docstring of a method with all sections, as the reference of the site shows it.

    Missing sections "Parameters" and "Returns" are added from the names of the arguments and of the method.
    """
    text: str = getattr(method, "_full_docstring", None) or inspect.getdoc(method) or ""
    return "".join([text, *_missing_sections(method, text)]) if text and not method.__name__.startswith("_") else text


def _missing_sections(method: Any, text: str) -> Iterator[str]:
    """Yield the sections that the docstring of a method lacks."""
    arguments = _arguments(method)
    if arguments and "Parameters\n" not in text and all(name in _default_entries() for name in arguments):
        yield "\n\nParameters\n----------\n" + "\n".join(_default_entries()[name] for name in arguments)
    name = "plot" if method.__name__.startswith("plot_") else method.__name__
    if name in _returned() and not re.search(r"(Returns|Yields)\n", text):
        yield f"\n\nReturns\n-------\n{_returned()[name]}"


def _arguments(method: Any) -> list[str]:
    code = inspect.unwrap(method).__code__
    n_named = code.co_argcount + code.co_kwonlyargcount
    stars = ["*"] * bool(code.co_flags & inspect.CO_VARARGS) + ["**"] * bool(code.co_flags & inspect.CO_VARKEYWORDS)
    rest = zip(stars, code.co_varnames[n_named:], strict=False)
    return [*code.co_varnames[1:n_named], *(star + name for star, name in rest)]


@cache
def _default_entries() -> dict[str, str]:
    """Return the docstring entry of each argument with a default description."""
    named = {name: entry for names, entry in entries(_ARGUMENTS).items() for name in names.split(", ")}
    entry_texts = {name: f"{name} : {type_}{text}" for name, (type_, text) in (ROWS | named).items()}
    return entry_texts | {name: f"{name}\n    {text}" for name, text in _REST.items()}


@cache
def _returned() -> dict[str, str]:
    returned = entries(_RETURNS).items()
    return {name: f"{type_}{text}" for names, (type_, text) in returned for name in names.split(", ")}

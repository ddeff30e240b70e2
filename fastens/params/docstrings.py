"""Descriptions of parameters that several docstrings share."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

# (Type, description) by name. Names that share a description are joined by ", ".
Docs = Mapping[str, tuple[str, str]]

# Annotations, and the types that docstrings show instead.
_PLAIN_TYPES = [(re.compile(r"NDArray\[[\w.]*\]|\bArray\b|\bFloats\b"), "array"), (re.compile(r"\bAny\b"), "object")]
# Sections of methods that only the reference of the site shows, and descriptions of results that say nothing new.
_SITE_ONLY = re.compile(
    r"\n\n *(?:(?:Examples|References|Raises|See Also)\n *-+\n.*?|"
    r"Returns\n *-+\n *(?:self|object|An unfitted estimator\.)(?:\n +The estimator itself\.)?)"
    r"(?=\n\n *[A-Z]\w+(?: [A-Z]\w+)?\n *---|\s*\Z)",
    flags=re.S,
)
_HEADER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", flags=re.M)


def entries(text: str) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each entry of a numpydoc section."""
    parts = _HEADER.split(text)[1:]
    return {name: (kind, text.rstrip()) for name, kind, text in zip(*[iter(parts)] * 3, strict=True)}


def described(docstring: str | None) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter and attribute in the docstring of a class."""
    sections = re.split(r"^\w+\n-+\n", inspect.cleandoc(docstring or ""), flags=re.M)[1:]
    return {name: entry for section in sections for name, entry in entries(section).items()}


# Entries for the rows that methods take.
_ROWS = entries("""\
X : table of shape (n_samples, n_features)
    NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. Paths of Parquet or CSV files, streams and lazy
    frames are read in batches. NaN and None are missing values.
y : array of shape (n_samples,), or the name of a column
    Targets.
sample_weight : array of shape (n_samples,), or the name of a column, optional
    Weight of each row. A weight of 2 counts as two copies of the row, and 0 removes the row.
""")

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
_BOTH = "Parameters\n----------\n{parameters}\n\nAttributes\n----------\n{attributes}"
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


# Shared by all estimators for which the meaning of a weight matters.
WEIGHT_TYPE_DOCS = entries("""\
weight_type : {"auto", "frequency", "importance"}
    Meaning of `sample_weight`. "frequency": weights count as copies, so the model is the same as for a table with
    repeated rows. "importance": a weight scales the influence of a row, which is still a single row for sampling,
    bootstrapping and minimum counts; weights are relative to their mean over the rows with non-zero weight. "auto":
    "frequency" for integer weights with a median of at most 10, otherwise "importance", with a warning if the weights
    are integers.
""")


def complete_docstring(kind: Any, docs: Docs) -> None:
    """Replace ``{parameters}`` and ``{attributes}`` in the docstring of a class by the entries that it lacks.

    ``{parameters and attributes}`` stands for both sections if the class describes none itself. Parameters are taken
    from the constructor, with their defaults. Attributes are the entries of the table that the class has, followed by
    its properties with their docstrings.
    """
    if not kind.__doc__:  # ``python -OO`` strips docstrings; Python 3.13 and later strip only their indentation
        return
    text = inspect.cleandoc(kind.__doc__).replace("{parameters and attributes}", _BOTH)
    listed = {name for names, _ in _HEADER.findall(text) for name in names.split(", ")}
    if "{parameters}" in text:
        arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
        parameters = [_parameter(each, *docs[each.name]) for each in arguments if each.name not in listed]
        text = _in_order(text.replace("{parameters}", "\n".join(parameters)), [each.name for each in arguments])
    annotated = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}

    def is_there(name: str) -> bool:
        """Return True if the class has this fitted attribute as a property or an annotation."""
        return name.endswith("_") and name not in listed and (name in annotated or hasattr(kind, name))

    attributes = [
        f"{names} : {type_}{description}"
        for names, (type_, description) in docs.items()
        if all(map(is_there, names.split(", ")))
    ]
    listed |= {name for names in docs for name in names.split(", ")}
    attributes += [_property(name, prop) for name, prop in _properties(kind).items() if name not in listed]
    kind.__doc__ = text.replace("{attributes}", "\n".join(attributes))


def _in_order(text: str, names: list[str]) -> str:
    """Return a docstring with its parameters in the order of the constructor."""
    start, title, rest = text.partition("Parameters\n----------\n")
    section, *others = rest.split("\n\n", 1)
    positions = {name: index for index, name in enumerate(names)}
    listed = sorted(entries(section).items(), key=lambda item: positions.get(item[0].split(", ")[0], len(names)))
    ordered = "\n".join(f"{name} : {kind}{description}" for name, (kind, description) in listed)
    return "\n\n".join([start + title + ordered, *others])


def complete_method(method: Any) -> None:
    """Replace placeholders in the docstring of a method, and set aside what only the reference of the site shows.

    ``{X}``, ``{y}`` and ``{sample_weight}`` become their shared descriptions. ``help()`` of a class prints the
    docstrings of all of its methods, so errors, references and examples are left to `full_docstring`.
    """
    if not method.__doc__ or hasattr(method, "_full_docstring"):
        return
    for name, (type_, description) in _ROWS.items():
        match = re.search(rf"^( *)\{{{name}\}}$", method.__doc__, flags=re.M)
        if match:
            entry = textwrap.indent(f"{name} : {type_}{description}", match[1])
            method.__doc__ = method.__doc__.replace(match[0], entry)
    if not method.__name__.startswith("_"):
        method._full_docstring = inspect.getdoc(method)
        method.__doc__ = _SITE_ONLY.sub("", method.__doc__).rstrip()


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
    entry_texts = {name: f"{name} : {type_}{text}" for name, (type_, text) in (_ROWS | named).items()}
    return entry_texts | {name: f"{name}\n    {text}" for name, text in _REST.items()}


@cache
def _returned() -> dict[str, str]:
    returned = entries(_RETURNS).items()
    return {name: f"{type_}{text}" for names, (type_, text) in returned for name in names.split(", ")}


def _parameter(argument: inspect.Parameter, type_: str, description: str) -> str:
    default = argument.default
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{argument.name} : {type_}, default={shown}{description}"


def _properties(kind: Any) -> dict[str, property]:
    """Return the properties that are fitted attributes, beginning with the base classes."""
    members = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return {
        name: value
        for name, value in members.items()
        if isinstance(value, property) and name.endswith("_") and not name.startswith("_") and value.__doc__
    }


def _property(name: str, attribute: property) -> str:
    returned = inspect.get_annotations(attribute.fget).get("return", "object")  # type: ignore[arg-type]
    type_ = returned if isinstance(returned, str) else returned.__name__
    for pattern, plain in _PLAIN_TYPES:
        type_ = pattern.sub(plain, type_)
    return f"{name} : {type_}\n" + textwrap.indent(inspect.cleandoc(attribute.__doc__ or ""), "    ")

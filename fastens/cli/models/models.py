"""Model families of the command line, and their parameters as options."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import fastens
from fastens.boosting.rules import QUALITIES
from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.target import CLASSIFICATION
from fastens.params.options import SHORT_FORMS
from fastens.params.rules import ANYTHING, Rule
from fastens.table.training_data import AUTO

DEFAULT = "boosting"
TEXT = "text"


@dataclass(frozen=True)
class Family:
    """A family of models."""

    title: str
    classifier: Callable[..., Any] | None
    regressor: Callable[..., Any] | None
    unit: str = "rounds"  # the unit of `n_estimators`
    is_composed: bool = False  # combines models of other families and costs the sum of their times
    is_special: bool = False  # compared with other families only if it is named

    def estimator(self, task: str) -> Callable[..., Any] | None:
        """Return the class for a task."""
        return self.classifier if task == CLASSIFICATION else self.regressor


FAMILIES = {
    "boosting": Family("gradient boosting", fastens.GradientBoostingClassifier, fastens.GradientBoostingRegressor),
    "forest": Family("random forest", fastens.RandomForestClassifier, fastens.RandomForestRegressor, "trees"),
    "extra-trees": Family("extra trees", fastens.ExtraTreesClassifier, fastens.ExtraTreesRegressor, "trees"),
    "tree": Family("single tree", fastens.DecisionTreeClassifier, fastens.DecisionTreeRegressor),
    "bayes-tree": Family(
        "single tree, averaged over all its prunings", fastens.BayesTreeClassifier, fastens.BayesTreeRegressor
    ),
    "exact-trees": Family("all trees on a few questions", fastens.ExactTreeAverageClassifier, None),
    "bagging": Family("bagged trees", fastens.BaggingClassifier, fastens.BaggingRegressor, "members"),
    "adaboost": Family("AdaBoost", fastens.AdaBoostClassifier, fastens.AdaBoostRegressor),
    "naive-bayes": Family("naive Bayes, each column of its own kind", fastens.MixedNB, None),
    "tan": Family("naive Bayes with a tree of the columns", fastens.TANClassifier, None),
    "aode": Family("naive Bayes averaged over a further parent", fastens.AODEClassifier, None),
    "network": Family("Bayesian network", partial(fastens.BayesianNetwork, max_bins=8), None),
    "voting": Family(
        "average of several models",
        # Soft voting is used because the commands report probabilities.
        partial(fastens.VotingClassifier, voting="soft"),
        fastens.VotingRegressor,
        is_composed=True,
    ),
    "stacking": Family(
        "a model of the predictions of others", fastens.StackingClassifier, fastens.StackingRegressor, is_composed=True
    ),
    "bayes-optimal": Family(
        "several models, by their posterior", fastens.BayesOptimalClassifier, None, is_composed=True
    ),
    "cascade": Family(
        "layers of forests", fastens.CascadeForestClassifier, fastens.CascadeForestRegressor, is_composed=True
    ),
    "weighted-majority": Family(
        "several models that vote, by their mistakes", fastens.WeightedMajorityClassifier, None, is_composed=True
    ),
    "gibbs": Family(
        "one of several models for each row, by their posterior", fastens.GibbsClassifier, None, is_composed=True
    ),
    "map": Family("the most probable of several models", fastens.MAPClassifier, None, is_composed=True),
    "ml": Family("the most likely of several models", fastens.MaximumLikelihoodClassifier, None, is_composed=True),
    "conformal": Family(
        "boosting with sets and intervals that hold",
        fastens.ConformalClassifier,
        fastens.ConformalRegressor,
        is_composed=True,
    ),
    "stump": Family(
        "a tree of one split", fastens.DecisionStumpClassifier, fastens.DecisionStumpRegressor, is_special=True
    ),
    "version-space": Family(
        "conjunctions of values, by their posterior",
        # Without noise, a single wrong label would exclude all conjunctions.
        partial(fastens.VersionSpaceClassifier, noise=0.1),
        None,
        is_special=True,
    ),
    "gaussian-nb": Family("naive Bayes of numbers, Gaussian", fastens.GaussianNB, None, is_special=True),
    "categorical-nb": Family("naive Bayes of categories", fastens.CategoricalNB, None, is_special=True),
    "bernoulli-nb": Family("naive Bayes for binary columns", fastens.BernoulliNB, None, is_special=True),
    "multinomial-nb": Family("naive Bayes of counts", fastens.MultinomialNB, None, is_special=True),
    "complement-nb": Family("naive Bayes of counts, for rare classes", fastens.ComplementNB, None, is_special=True),
    TEXT: Family("naive Bayes on the words of a text", fastens.TextClassifier, None),
}

# Estimators that the commands do not support, by the name a user may try, with the alternative.
ELSEWHERE: dict[str, tuple[type, str]] = {
    "ranker": (
        fastens.GradientBoostingRanker,
        "ranking needs the query of each row; in Python: fastens.GradientBoostingRanker().fit(X, y, qid=queries)",
    ),
    "survival": (
        fastens.GradientBoostingSurvival,
        "survival needs times, and which of them are censored; in Python: "
        "fastens.GradientBoostingSurvival().fit(X, times)",
    ),
    "isolation-forest": (
        fastens.IsolationForest,
        "anomalies have no target; in Python: fastens.IsolationForest().fit_predict(X)",
    ),
    "embedding": (
        fastens.RandomTreesEmbedding,
        "an embedding has no target; in Python: fastens.RandomTreesEmbedding().fit_transform(X)",
    ),
    "hypotheses": (
        fastens.FiniteHypothesisLearner,
        "hypotheses are given by their likelihoods; in Python: fastens.FiniteHypothesisLearner(likelihoods).fit(data)",
    ),
}


def known_family(name: str) -> str:
    """Return the name of a family; raise CommandError with advice if there is no such family."""
    if name in ELSEWHERE:
        raise CommandError(f"--model {name}: {ELSEWHERE[name][1]}")
    if name not in FAMILIES:
        raise CommandError(f"--model {name}: there is no such kind; there are {', '.join(FAMILIES)}")
    return name


def families(task: str) -> dict[str, Callable[..., Any]]:
    """Return the classes that learn a task from the columns of a table, by family."""
    classes = {name: family.estimator(task) for name, family in FAMILIES.items() if name != TEXT}
    return {name: estimator for name, estimator in classes.items() if estimator is not None}


def quick_families(task: str) -> list[str]:
    """Return the names of the families that do not combine several other models."""
    return [name for name in families(task) if not FAMILIES[name].is_composed and not FAMILIES[name].is_special]


def estimator_class(name: str, task: str) -> Callable[..., Any]:
    """Return the class of a family for a task."""
    estimator = FAMILIES[name].estimator(task)
    if estimator is None:
        raise CommandError(f"--model {name} does not do {task}; these do: {', '.join(families(task))}")
    return estimator


# Prefix of the parameters in the argparse namespace, which separates them from other options.
_PLACE = "parameter "
_DIRECTION = re.compile(r"(.+?):\s*([+-]?1|0)\s*(?:,|$)", re.DOTALL)


@contextmanager
def _rule(words: str, text: str) -> Iterator[None]:
    """Return the error for an invalid value of an option."""
    try:
        yield
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be {words}; got {text!r}") from error


def whole_or_none(text: str) -> int | None:
    """Parse an integer, or None from "none"."""
    with _rule("a whole number or none", text):
        return None if text.lower() == "none" else int(text)


def count_or_share(text: str) -> int | float:
    """Parse a count from an integer, or a fraction from a number with a decimal point."""
    with _rule("a count or a share", text):
        return int(text) if text.isdecimal() else float(text)


def amount(text: str) -> int | float | str | None:
    """Parse a count, a fraction, None from "none", or a word such as "sqrt"."""
    if text.lower() == "none":
        return None
    return text if text[:1].isalpha() else count_or_share(text)


def switch_or_word(text: str) -> bool | str:
    """Parse True from "yes", False from "no", or another word."""
    return {"yes": True, "no": False}.get(text.lower(), text)


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",")]


def stop_words(text: str) -> str | list[str]:
    """Parse the name of a list of stop words, or words separated by commas."""
    return names(text) if "," in text else text


def directions(text: str) -> dict[str, int]:
    """Parse columns and directions, as in "area:+1,age:-1"; names may contain commas and colons."""
    found = _DIRECTION.findall(text)
    if not found or _DIRECTION.sub("", text).strip():
        raise argparse.ArgumentTypeError(f"must be COLUMN:+1 or COLUMN:-1, separated by commas; got {text!r}")
    return {name.strip(): int(direction) for name, direction in found}


def word_range(text: str) -> tuple[int, int]:
    """Parse the minimum and maximum number of words, as in "1-2"; a single number is both."""
    first, _, last = text.partition("-")
    with _rule("two whole numbers, as 1-2", text):
        return int(first), int(last or first)


@dataclass(frozen=True)
class Parameter:
    """A parameter of estimators that is available as an option, with the estimators' defaults.

    A parameter without `parse` is a switch. The option has the name of the parameter unless another name is given. A
    name with a dot belongs to a field of an options class, such as "categories.encoding".
    """

    name: str
    parse: Callable[[str], Any] | None
    metavar: str
    help: str
    option_name: str = ""

    @property
    def option(self) -> str:
        """The name of the option on the command line."""
        return "--" + (self.option_name or self.name.replace("_", "-"))


# The parameters by subject, in the order of `fastens train --help`.
GROUPS = {
    "size of the model": (
        Parameter("n_estimators", int, "N", "rounds of boosting, trees of a forest, members of a bag"),
        Parameter("learning_rate", float, "RATE", "how much each round adds"),
        Parameter("max_leaf_nodes", whole_or_none, "N", "most leaves of a tree, or none"),
        Parameter("max_depth", whole_or_none, "N", "most levels of a tree, or none"),
        Parameter("min_samples_split", count_or_share, "N", "fewest rows of a node to split: a count or a share"),
        Parameter("min_samples_leaf", count_or_share, "N", "fewest rows in a leaf; for trees and forests also a share"),
        Parameter("growth.min_child_weight", float, "W", "of boosting: smallest sum of hessians in a leaf"),
        Parameter("growth.min_gain_to_split", float, "GAIN", "of boosting: smallest gain worth a split"),
        Parameter("split_penalty", float, "PENALTY", "what a split has to gain to stay, in units of the noise"),
        Parameter("min_impurity_decrease", float, "GAIN", "smallest decrease of impurity worth a split"),
        Parameter("l2_regularization", float, "L2", "shrinks the values of leaves"),
        Parameter("growth.path_smooth", float, "ROWS", "pulls the value of a leaf towards those above it"),
        Parameter("ccp_alpha", float, "ALPHA", "cut back branches that gain less than this for each leaf"),
    ),
    "how trees are grown": (
        Parameter("max_bins", int, "N", "bins of a column"),
        Parameter("max_features", amount, "M", "columns tried at each split: a count, a share; sqrt, log2 or none"),
        Parameter("max_features_per_tree", amount, "M", "columns drawn for each tree, as --max-features"),
        Parameter(
            "criterion",
            str,
            "NAME",
            "what splits lower: gini, entropy, squared_error, absolute_error, poisson; what networks raise: bic, aic, "
            "bdeu, k2",
        ),
        Parameter("growth.rows_per_threshold", amount, "N", "rows for each threshold drawn, auto, or none: all"),
        Parameter("splitter", str, "KIND", "thresholds of a tree: best or random"),
        Parameter("growth.split_criterion", str, "NAME", "gain of boosting: newton or squared_error"),
        Parameter("subsample", float, "SHARE", "share of the rows each round sees"),
        Parameter("bootstrap", switch_or_word, "KIND", "draw rows for each tree: yes, no, stratified or balanced"),
        Parameter("max_samples", amount, "N", "rows drawn for each tree or member: a count or a share"),
        Parameter("oob_score", None, "", "score each row by the trees that did not see it"),
        Parameter("boosting", str, "KIND", "of boosting: gbdt, or dart, which leaves trees out in each round"),
        Parameter("boosting.rate_drop", float, "P", "with --boosting dart: the chance of a round to be left out"),
        Parameter("boosting.skip_drop", float, "P", "with --boosting dart: the chance to leave out none"),
        Parameter("sampling", str, "KIND", "rows of boosting: uniform, goss or mvs; of bagging: rows or weights"),
        Parameter("linear_leaves", None, "", "leaves of boosting are linear models of the columns on their paths"),
        Parameter("linear_leaves.l2", float, "L2", "shrinks the slopes of --linear-leaves"),
        Parameter("averaging", str, "posterior", "average the trees of a forest over their prunings"),
        Parameter("categories.missing", str, "KIND", "a missing category is missing, or a category"),
        Parameter("categories.unseen", str, "KIND", "of categories not in training: average, missing or error"),
        Parameter("categories.encoding", str, "KIND", "of categories: auto, partition, target or ordered"),
        Parameter(
            "monotonic_cst",
            directions,
            "COL:+1,COL:-1",
            "columns with which predictions never fall (+1) or rise (-1)",
            "monotonic",
        ),
        Parameter("interaction_cst", str, "KIND", "no_interactions or pairwise: columns on one path", "interactions"),
    ),
    "what is learned, and when to stop": (
        Parameter(
            "loss",
            str,
            "NAME",
            "what is minimised; for regression also absolute_error, quantile, huber, poisson, gamma, tweedie; of "
            "AdaBoost: linear, square, exponential",
        ),
        Parameter("quantile", float, "Q", "the quantile predicted with --loss quantile"),
        Parameter("loss.variance_power", float, "P", "with --loss tweedie: between 1 (Poisson) and 2 (gamma)"),
        Parameter("loss.alpha", float, "A", "with --loss huber: the quantile beyond which errors count linearly"),
        Parameter("alpha", float, "A", "of naive Bayes and trees averaged over their prunings: pseudo-count"),
        Parameter("class_weight", str, "balanced", "weight classes so that all count the same"),
        Parameter("early_stopping", None, "", "stop when the loss on validation rows no longer falls"),
        Parameter("validation_fraction", float, "SHARE", "share of the training rows watched for early stopping"),
        Parameter("early_stopping.refit", None, "", "after boosting stopped early, fit once more on all rows"),
        Parameter("eval_metric", str, "NAME", "what rows watched are measured by: loss, or a scorer"),
        Parameter("refit", None, "", "after a stack is made, fit its members once more on all rows"),
        Parameter("n_iter_no_change", int, "N", "rounds without progress before stopping early"),
        Parameter("tol", float, "TOL", "smallest change of the loss that counts as progress"),
    ),
    "AdaBoost": (
        Parameter(
            "algorithm",
            str,
            "NAME",
            "of AdaBoost: discrete, m1, real, gentle or logit; of a weighted majority: weighted_majority or "
            "randomized_weighted_majority",
        ),
        Parameter("restart", switch_or_word, "KIND", "AdaBoost starts again after a bad round: yes, no or auto"),
        Parameter("resample", None, "", "AdaBoost draws the rows of each round instead of weighting them"),
    ),
    "combinations of models": (
        Parameter("estimators", names, "NAMES", "kinds of models to combine, separated by commas", "members"),
        Parameter("weights", str, "KIND", "of a vote, learned: nnls, likelihood or selection", "member-weights"),
        Parameter("voting", str, "KIND", "of members: soft, the average of probabilities, or hard, a vote each"),
        Parameter("final_estimator", str, "KIND", "of a stack: linear or boosting"),
        Parameter("passthrough", None, "", "the final estimator of a stack sees the columns too"),
        Parameter("max_layers", int, "N", "most layers of a cascade"),
        Parameter("inputs_from", str, "KIND", "levels see what the last one before says, or all before: last or all"),
        Parameter("beta", float, "B", "of a weighted majority: the factor of a member that is wrong"),
    ),
    "Bayesian models": (
        Parameter("smoothing", str, "KIND", "of naive Bayes and networks: laplace, m, kt, bdeu or none"),
        Parameter("structure", str, "KIND", "of a network: hill-climb, chow-liu or tan"),
        Parameter("noise", float, "P", "of a version space and of models by their posterior: wrong labels"),
        Parameter("max_parents", int, "N", "most parents of a column in a network that is searched for"),
        Parameter("feature_prior", float, "P", "of naive Bayes averaged over subsets of columns: the chance of each"),
    ),
    "texts": (
        Parameter("model", str, "KIND", "of texts: multinomial, bernoulli or complement naive Bayes", "text-model"),
        Parameter("features", str, "KIND", "of texts: binary, whether a word is there, or count", "text-features"),
        Parameter("stemmer", str, "LANGUAGE", "of texts: cut words to their stems, such as english"),
        Parameter("stop_words", stop_words, "WORDS", "of texts: words left out: english, or a list with commas"),
        Parameter("ngram_range", word_range, "N-M", "of texts: fewest and most words of a term, as in 1-2", "ngrams"),
        Parameter("min_df", count_or_share, "N", "of texts: fewest texts that a word must be in: a count or a share"),
    ),
    "running": (Parameter("n_jobs", int, "N", "threads"),),
}
PARAMETERS = tuple(parameter for group in GROUPS.values() for parameter in group)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add `--model` and an option for each parameter; the estimator provides the defaults."""
    text = f"kind of model, one of those below (default: {DEFAULT})"
    parser.add_argument("--model", metavar="KIND", help=text)
    width = max(map(len, FAMILIES)) + 2
    kinds = "\n".join(f"  {name:{width}}{family.title}" for name, family in FAMILIES.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"kinds of models:\n{kinds}"
    for title, parameters in GROUPS.items():
        group = parser.add_argument_group(title)
        for parameter in parameters:
            _add(parameter, group)


def add_quality(parser: argparse.ArgumentParser) -> None:
    """Add `--quality` and its `--time-limit`."""
    text = "of boosting: fast, default, or best, the mean of models stopped early on folds"
    parser.add_argument("--quality", choices=QUALITIES, help=text)
    text = "with --quality best: the time that training may take"
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help=text)


def _add(parameter: Parameter, group: argparse._ArgumentGroup) -> None:
    """Add the option for a parameter."""
    text = f"{parameter.help} (default: {_shown_defaults(parameter.name)})"
    form: dict[str, Any] = {"type": parameter.parse, "metavar": parameter.metavar}
    if parameter.parse is None:
        form = {"action": argparse.BooleanOptionalAction}
    group.add_argument(parameter.option, dest=_PLACE + parameter.name, help=text, default=argparse.SUPPRESS, **form)


def chosen_model(options: argparse.Namespace) -> str:
    """Return the requested family, given by name or by a column of texts."""
    if options.text is None:
        if options.model == TEXT:
            raise CommandError("--model text needs --text COL, the column with the texts")
        return known_family(options.model or DEFAULT)
    if options.model not in (None, TEXT):
        raise CommandError(f"--text is for --model {TEXT}; --model {options.model} takes texts as categories")
    return TEXT


def make_model(task: str, options: argparse.Namespace) -> Any:
    """Return the estimator for the task with the parameters from the command line."""
    name = chosen_model(options)
    estimator = estimator_class(name, task)
    known = _signature(estimator)
    given = [parameter for parameter in PARAMETERS if _PLACE + parameter.name in vars(options)]
    for parameter in given:
        if parameter.name not in known:
            raise CommandError(f"{parameter.option} does not apply to {name} for {task}")
    values = {parameter.name: vars(options)[_PLACE + parameter.name] for parameter in given}
    of_records = {name.replace(".", "__"): values.pop(name) for name in list(values) if "." in name}
    if "estimators" in values:
        values["estimators"] = _members(values["estimators"], task)
    if "random_state" in known:
        values["random_state"] = options.random_state
    if options.weight_type != AUTO:
        if options.weight is None:
            raise CommandError("--weight-type is read with --weight, which names a column")
        if "weight_type" not in known:
            raise CommandError(f"--weight-type does not apply to {name} for {task}")
        values["weight_type"] = options.weight_type
    try:
        return _of_quality(estimator, name, options)(**values).set_params(**of_records)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def _of_quality(estimator: Any, name: str, options: argparse.Namespace) -> Callable[..., Any]:
    """Return the constructor of the estimator, or its `with_quality` if a quality is requested."""
    quality, seconds = getattr(options, "quality", None), getattr(options, "time_limit", None)
    if quality is None:
        if seconds is not None and "quality" in vars(options):
            raise CommandError("--time-limit is read with --quality best; fastens tune searches for a time")
        return estimator
    if not hasattr(estimator, "with_quality"):
        raise CommandError(f"--quality is for --model boosting; got {name}")
    return partial(estimator.with_quality, quality, seconds)


def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Fit the model; convert errors about parameters, the table or the disk to one-line errors."""
    try:
        return model.fit(*args, **kwargs)
    except OSError as error:
        reason = first_line(error) if error.filename is None else f"cannot write {error.filename}: {error.strerror}"
        raise CommandError(reason) from error
    except (ValueError, ImportError) as error:
        raise CommandError(first_line(error)) from error


def _members(wanted: list[str], task: str) -> list[tuple[str, Any]]:
    """Return the members of a composed model, each with the defaults of its family."""
    known = families(task)
    for name in wanted:
        if name not in known:
            raise CommandError(f"--members: no {name!r} for {task}; there are {', '.join(known)}")
    return [(name, known[name]()) for name in wanted]


@cache
def _signature(estimator: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of an estimator's parameters, including the fields of its options classes."""
    found = {name: parameter.default for name, parameter in inspect.signature(estimator).parameters.items()}
    return found | {
        f"{name}.{option}": value
        for name in found
        for record in SHORT_FORMS.get(name, {}).values()
        if _rules(estimator).get(name, ANYTHING).holds(record)
        for option, value in record.get_params().items()
    }


def _rules(estimator: Any) -> Mapping[str, Rule]:
    return getattr(estimator, "_parameter_rules", {})


def _shown_defaults(name: str) -> str:
    """Describe the default of a parameter, by family if families differ."""
    found: dict[str, list[str]] = {}
    for family, kind in FAMILIES.items():
        known: list[str] = []
        for estimator, task in ((kind.classifier, "classification"), (kind.regressor, "regression")):
            signature = {} if estimator is None else _signature(estimator)
            if name in signature and (default := _shown(signature[name])) not in known:
                known.append(default)
                found.setdefault(default, []).append(f"{family} for {task}" if known[1:] else family)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{' and '.join(models)} {default}" for default, models in found.items())


def _shown(default: Any) -> str:
    """Return a default in the form in which it is typed on the command line."""
    words = {None: "none", True: "yes", False: "no"}
    if default is None or isinstance(default, bool):
        return words[default]
    return "-".join(map(str, default)) if isinstance(default, tuple) else str(default)
